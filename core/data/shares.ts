import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../errors.js'
import type { Session } from '../session.js'

export interface SharesOptions {
  /** How many one caller may have. */
  most(session: Session): number
  /** How long a caller waits for one of its own to end. 0: not at all. */
  readonly waitMs: number
  /** Says what a caller has had too many of, for the message of the refusal. */
  readonly what: string
}

interface Held {
  count: number
  /** Told in order when one of the caller's ends. */
  readonly waiting: (() => void)[]
}

/** Keeps one caller from taking all of what callers share. Callers without a `caller` are not counted. */
export class Shares {
  private readonly options: SharesOptions
  private readonly held = new Map<string, Held>()

  constructor(options: SharesOptions) {
    this.options = options
  }

  /**
   * Takes one of the caller's share.
   * @param signal aborts when nobody waits any more
   * @returns gives it back; may be called again
   * @throws ServiceError 429 too-many-requests
   */
  async take(session: Session, signal: AbortSignal): Promise<() => void> {
    const { caller } = session
    if (caller === undefined) return () => {}
    const held = this.held.get(caller) ?? { count: 0, waiting: [] }
    this.held.set(caller, held)
    if (held.count < this.options.most(session)) held.count++
    else await this.wait(held, signal)
    let taken = true
    return () => {
      if (!taken) return
      taken = false
      const next = held.waiting.shift()
      if (next) return next()
      held.count--
      if (held.count === 0) this.held.delete(caller)
    }
  }

  /** Resolves when one that has ended is passed on. */
  private async wait({ count, waiting }: Held, signal: AbortSignal): Promise<void> {
    const { waitMs, what } = this.options
    const refusal = () =>
      new ServiceError(429, 'too-many-requests', `${count} ${what}, which is the share of one caller`, '$', {
        retryAfter: 1,
      })
    if (waitMs === 0) throw refusal()
    const stop = new AbortController()
    let passed: (() => void) | undefined
    const turn = new Promise<true>((resolve) => waiting.push((passed = () => resolve(true))))
    const late = sleep(waitMs, false, { signal: AbortSignal.any([signal, stop.signal]), ref: false }).catch(() => false)
    const got = await Promise.race([turn, late])
    stop.abort()
    if (got) return
    const place = waiting.indexOf(passed as () => void)
    // Passed on in the very turn in which the wait was over.
    if (place < 0) return
    waiting.splice(place, 1)
    signal.throwIfAborted()
    throw refusal()
  }
}
