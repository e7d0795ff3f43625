/** One rule that every provider of a kind keeps. */
export interface ContractCase<P> {
  /** A sentence, for the name of a test. */
  readonly name: string
  /** Rejects with an assertion when the rule is broken. The cases of a suite run in order; the last closes the provider. */
  run(provider: P): Promise<void>
}
