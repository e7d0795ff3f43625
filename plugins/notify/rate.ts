import { setTimeout as sleep } from 'node:timers/promises'

/** So many messages in a second, a few of them at once. */
export class Rate {
  private readonly everyMs: number
  private readonly burstMs: number
  /** When the next message may go. */
  private next = 0

  /** @param perSecond undefined: no limit */
  constructor(perSecond: number | undefined) {
    this.everyMs = perSecond === undefined ? 0 : 1000 / perSecond
    this.burstMs = Math.min(1000, this.everyMs * 10)
  }

  /** Waits for a turn. @returns 0; at once, in how many ms there may be one, when that is longer than `mostMs` */
  async turn(mostMs: number): Promise<number> {
    if (this.everyMs === 0) return 0
    const now = performance.now()
    const at = Math.max(this.next, now - this.burstMs)
    if (at - now > mostMs) return at - now
    this.next = at + this.everyMs
    if (at > now) await sleep(at - now)
    return 0
  }
}
