/** The end of a try. Whoever was held still until later must not hand a message over: it may be somebody else's by now. */
export class Deadline {
  private readonly controller = new AbortController()
  private readonly at: number
  private readonly timer: NodeJS.Timeout

  /** @param since when the time began, by `performance.now()` */
  constructor(ms: number, since: number) {
    this.at = since + ms
    this.timer = setTimeout(() => this.end(), Math.max(0, Math.ceil(this.at - performance.now())))
  }

  /** Aborts then, or a moment later. */
  get signal(): AbortSignal {
    return this.controller.signal
  }
  get isOver(): boolean {
    return this.signal.aborted || performance.now() >= this.at
  }

  /** Makes it now. */
  end(): void {
    clearTimeout(this.timer)
    this.controller.abort()
  }
  /** Nobody waits for it any more. */
  clear(): void {
    clearTimeout(this.timer)
  }
}
