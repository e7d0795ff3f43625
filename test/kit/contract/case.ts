import { patience } from '../patience.js'

/** One rule that every provider of a kind keeps. */
export interface ContractCase<S> {
  /** A sentence, for the name of a test. */
  readonly name: string
  /**
   * Rejects with an assertion when the rule is broken. The cases of a suite run in order; the last closes the provider.
   * @param deadlineMs a case that has not ended by then has failed; a minute unless told otherwise
   */
  run(subject: S, deadlineMs?: number): Promise<void>
}

const DEADLINE_MS = patience(60_000)

/** Gives each case an end: a provider that hangs has broken the rule. */
export const withDeadlines = <S>(cases: readonly ContractCase<S>[]): readonly ContractCase<S>[] =>
  cases.map(({ name, run }) => ({
    name,
    run: (subject, deadlineMs = DEADLINE_MS) => within(run(subject), deadlineMs, `"${name}" did not end`),
  }))

/** @throws Error when it takes longer */
export async function within<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
