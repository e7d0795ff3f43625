/** An answer can be long, and a failure is seen only when the ones in flight have ended. */
const MAX_IN_FLIGHT = 8

/** Runs functions one after the other, each as soon as the one before has sent all that it sends. */
export class Pipeline {
  private readonly answers: Promise<string>[] = []
  /** How many are known to have succeeded. */
  private succeeded = 0

  /** @param before what has to end before the first function has the time for itself */
  constructor(private readonly before?: Promise<unknown>) {}

  /**
   * Starts a function.
   * @param run calls `onSent` when only its answer is missing. `earlier` ends when the one before has its answer
   * @returns when the next may start. Fails with the first error of those that have started
   */
  async start(
    run: (place: { onSent: () => void; earlier: Promise<unknown> | undefined }) => Promise<string>,
  ): Promise<void> {
    const { answers } = this
    await answers[answers.length - MAX_IN_FLIGHT]
    await new Promise<void>((resolve, reject) => {
      const answer = run({ onSent: resolve, earlier: answers.at(-1) ?? this.before })
      answers.push(answer)
      answer.then(() => resolve(), () => this.settled().catch(reject)) // prettier-ignore
    })
  }

  /** Waits for those that have started. Fails with their first error. */
  async settled(): Promise<void> {
    let known = this.succeeded
    for (; known < this.answers.length; known++) await this.answers[known]
    this.succeeded = known
  }

  /** Returns the answers of those that have started. Fails with their first error. */
  async all(): Promise<readonly string[]> {
    await this.settled()
    return Promise.all(this.answers)
  }
}
