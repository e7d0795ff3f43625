/** Skips a peer after consecutive failures. When the time is over, one call tries it again. */
export class CircuitBreaker {
  private failures = 0
  private until = 0

  constructor(private readonly options: { readonly failures: number; readonly seconds: number }) {}

  /** Whether the peer is skipped. */
  get open(): boolean {
    return this.seconds > 0
  }
  /** How long the peer is still skipped. */
  get seconds(): number {
    return Math.max(0, (this.until - performance.now()) / 1000)
  }

  /** Whether a call may be made now. Report its result. */
  allows(): boolean {
    if (this.open) return false
    // This call tries the peer. The circuit is open for others until the result is known.
    if (this.failures >= this.options.failures) this.reopen()
    return true
  }

  succeeded(): void {
    this.failures = 0
    this.until = 0
  }

  failed(): void {
    if (++this.failures >= this.options.failures) this.reopen()
  }

  private reopen(): void {
    this.until = performance.now() + this.options.seconds * 1000
  }
}
