/** The end of an attempt. A process that was suspended past it must not go on, because another may have claimed the work. */
export class Deadline {
  private readonly controller = new AbortController()
  private readonly at: number
  private readonly timer: NodeJS.Timeout

  /** @param since when the attempt began, by `performance.now()` */
  constructor(ms: number, since: number) {
    this.at = since + ms
    this.timer = setTimeout(() => this.end(), Math.max(0, Math.ceil(this.at - performance.now())))
  }

  /** Aborts at the deadline, or shortly after. */
  get signal(): AbortSignal {
    return this.controller.signal
  }
  get isOver(): boolean {
    return this.signal.aborted || performance.now() >= this.at
  }

  /** Moves the deadline to now. */
  end(): void {
    clearTimeout(this.timer)
    this.controller.abort()
  }
  /** Stops the timer. */
  clear(): void {
    clearTimeout(this.timer)
  }
}
