/** Lets a provider alone that has failed again and again; then one message tries it. */
export class Breaker {
  private readonly options: { readonly failures: number; readonly seconds: number }
  private failed = 0
  private until = 0

  constructor(options: { readonly failures: number; readonly seconds: number }) {
    this.options = options
  }

  get open(): boolean {
    return this.seconds > 0
  }
  /** How long it stays so. */
  get seconds(): number {
    return Math.max(0, (this.until - performance.now()) / 1000)
  }

  /** Whether a message may be handed over now. Once the time is over, for one. */
  allows(): boolean {
    if (this.open) return false
    // Whoever comes while that one is under way finds it closed again.
    if (this.failed >= this.options.failures) this.until = performance.now() + this.options.seconds * 1000
    return true
  }

  succeeded(): void {
    this.failed = 0
    this.until = 0
  }

  failure(): void {
    if (++this.failed >= this.options.failures) this.until = performance.now() + this.options.seconds * 1000
  }
}
