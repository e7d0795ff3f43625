import { setTimeout as sleep } from 'node:timers/promises'

/** Limits the calls per second to a peer, with bursts of up to ten. */
export class RateLimiter {
  private readonly everyMs: number
  private readonly burstMs: number
  /** When the next call may be made. */
  private next = 0

  /** @param perSecond undefined for no limit */
  constructor(perSecond: number | undefined) {
    this.everyMs = perSecond === undefined ? 0 : 1000 / perSecond
    this.burstMs = Math.min(1000, this.everyMs * 10)
  }

  /**
   * Waits until a call may be made.
   * @returns 0; or, without waiting, the remaining milliseconds if they exceed `maxWaitMs`
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
