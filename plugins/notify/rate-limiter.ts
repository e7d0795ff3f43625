import { setTimeout as sleep } from 'node:timers/promises'

/** Limits how many messages a provider gets in a second, with a burst of up to ten. */
export class RateLimiter {
  private readonly everyMs: number
  private readonly burstMs: number
  /** When the next message may go. */
  private next = 0

  /** @param perSecond undefined: no limit */
  constructor(perSecond: number | undefined) {
    this.everyMs = perSecond === undefined ? 0 : 1000 / perSecond
    this.burstMs = Math.min(1000, this.everyMs * 10)
  }

  /**
   * Waits until a message may go.
   * @returns 0; without waiting, the milliseconds until then if they are more than `maxWaitMs`
   */
  async acquire(maxWaitMs: number): Promise<number> {
    if (this.everyMs === 0) return 0
    const now = performance.now()
    const at = Math.max(this.next, now - this.burstMs)
    if (at - now > maxWaitMs) return at - now
    this.next = at + this.everyMs
    if (at > now) await sleep(at - now)
    return 0
  }
}
