/** What a plugin does when. */
export type Step = 'setup' | 'ready' | 'drain' | 'close'

/** One thing to do at a step. */
export interface Hook {
  /** Whose it is, as errors say it: `plugin "hello"`. */
  readonly owner: string
  run(): Promise<void> | void
}

/**
 * Runs one step of one plugin.
 * @throws Error that names the plugin and the step, when it fails or is not done in time
 */
export function runStep<T>(plugin: string, step: Step, run: () => Promise<T> | T, timeoutMs: number): Promise<T> {
  return runWithin(`plugin "${plugin}"`, step, run, timeoutMs)
}

/** Runs hooks one after the other, in the order they were added; the first failure ends it. */
export async function runHooks(hooks: readonly Hook[], step: Step, timeoutMs: number): Promise<void> {
  for (const hook of hooks) await runWithin(hook.owner, step, () => hook.run(), timeoutMs)
}

/** One thing to do at the end. */
export interface Closer extends Hook {
  /** `close` when absent. */
  readonly step?: Step
}

/**
 * Runs hooks in reverse order, whatever fails, until the time for all of them is over.
 * @param timeoutMs for all together
 * @throws AggregateError with every failure; the last one names what was not done in time, if anything was not
 */
export async function closeHooks(hooks: readonly Closer[], timeoutMs: number): Promise<void> {
  const failures: unknown[] = []
  const deadline = performance.now() + timeoutMs
  for (const { owner, step = 'close', run } of hooks.toReversed()) {
    try {
      await runWithin(owner, step, run, timeoutMs, deadline)
    } catch (error) {
      failures.push(error)
      if (performance.now() >= deadline) break
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, failures.map(messageOf).join('; '))
}

/**
 * As `runStep`, for any owner. The work that is late goes on, but nobody waits for it any more.
 * @param deadline when it is late, by `performance.now()`
 */
export async function runWithin<T>(
  owner: string,
  step: string,
  run: () => Promise<T> | T,
  timeoutMs: number,
  deadline: number = performance.now() + timeoutMs,
) {
  const late = new Error(`${owner} did not finish "${step}" within ${timeoutMs / 1000} s`)
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late), Math.ceil(deadline - performance.now()))
  })
  try {
    return await Promise.race([run(), timeout])
  } catch (error) {
    if (error === late) throw error
    throw new Error(`${owner} failed in "${step}": ${messageOf(error)}`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
