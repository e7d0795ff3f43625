const TICK_MS = 20
/** Of what one tick was late, the next one still counts most. */
const KEPT = 0.95
/** Ticks without a statement after which nothing is measured. */
const MAX_IDLE = 100

/**
 * Measures how late this process gets a processor, in milliseconds: on a busy machine, every statement takes that much longer, and none
 * of them is to blame. Costs a timer while there are statements.
 */
export class Lateness {
  private late = 0
  private idle = 0
  private timer: NodeJS.Timeout | undefined

  /** The most that a timer was late of late. */
  get ms(): number {
    return this.late
  }

  /** Says that a statement runs. */
  touch(): void {
    this.idle = 0
    if (this.timer) return
    let last = performance.now()
    this.timer = setInterval(() => {
      const now = performance.now()
      this.late = Math.max(now - last - TICK_MS - 1, this.late * KEPT, 0)
      last = now
      if (this.idle++ > MAX_IDLE) this.stop()
    }, TICK_MS).unref()
  }

  stop(): void {
    clearInterval(this.timer)
    this.timer = undefined
    this.late = 0
  }
}
