import { setTimeout as sleep } from 'node:timers/promises'
import { unavailable } from '../db/breaker.js'
import { ServiceError } from '../errors.js'
import type { Session } from '../session.js'

export interface SharesOptions {
  /** How many one caller may have. */
  most(session: Session): number
  /** How many all callers may have together. */
  readonly total: number
  /** How long a caller waits for one. 0: not at all. */
  readonly waitMs: number
  /** Says what a caller has had too many of, for the message of the refusal. */
  readonly what: string
}

interface Holder {
  count: number
  readonly most: number
}
interface Waiting {
  readonly holder: Holder
  /** Gives it one. */
  readonly pass: () => void
}

/**
 * Keeps one caller from taking all of what callers share, and some from taking what others need. Who waits with the fewest
 * gets the next. Callers without a `caller` are not counted.
 */
export class Shares {
  private readonly options: SharesOptions
  private readonly holders = new Map<string, Holder>()
  private readonly waiting: Waiting[] = []
  private taken = 0

  constructor(options: SharesOptions) {
    this.options = options
  }

  /**
   * Takes one of the caller's share.
   * @param signal aborts when nobody waits any more
   * @returns gives it back; may be called again
   * @throws ServiceError 429 too-many-requests: it has its share; 503 unavailable: others have all
   */
  async take(session: Session, signal: AbortSignal): Promise<() => void> {
    const { caller } = session
    if (caller === undefined) return () => {}
    const known = this.holders.get(caller)
    const holder = known ?? { count: 0, most: this.options.most(session) }
    if (!known) this.holders.set(caller, holder)
    if (this.mayHave(holder)) this.add(holder, 1)
    else await this.wait(holder, signal).finally(() => this.forget(caller, holder))
    let held = true
    return () => {
      if (!held) return
      held = false
      this.add(holder, -1)
      this.passOn()
      this.forget(caller, holder)
    }
  }

  private mayHave({ count, most }: Holder): boolean {
    return count < most && this.taken < this.options.total
  }

  private add(holder: Holder, one: 1 | -1): void {
    holder.count += one
    this.taken += one
  }

  private forget(caller: string, holder: Holder): void {
    if (holder.count === 0 && !this.waiting.some((each) => each.holder === holder)) this.holders.delete(caller)
  }

  private passOn(): void {
    const able = this.waiting.filter(({ holder }) => this.mayHave(holder))
    const [next] = able.sort((a, b) => a.holder.count - b.holder.count)
    if (!next) return
    this.waiting.splice(this.waiting.indexOf(next), 1)
    this.add(next.holder, 1)
    next.pass()
  }

  /** Resolves when one has been passed on. */
  private async wait(holder: Holder, signal: AbortSignal): Promise<void> {
    const { waitMs } = this.options
    if (waitMs === 0) throw this.refusal(holder)
    const over = new AbortController()
    let passed = false
    const place: Waiting = {
      holder,
      pass: () => {
        passed = true
        over.abort()
      },
    }
    this.waiting.push(place)
    const stop = AbortSignal.any([signal, over.signal])
    await sleep(waitMs, undefined, { signal: stop, ref: false }).catch(() => undefined)
    if (passed) return
    this.waiting.splice(this.waiting.indexOf(place), 1)
    signal.throwIfAborted()
    throw this.refusal(holder)
  }

  private refusal({ count, most }: Holder): ServiceError {
    const { what } = this.options
    return count >= most
      ? new ServiceError(429, 'too-many-requests', `${count} ${what}, which is the share of one caller`, '$', {
          retryAfter: 1,
        })
      : unavailable(undefined, ALL_TAKEN)
  }
}

const ALL_TAKEN =
  'other callers have all connections that requests may take which are not known to be quick (database.poolSize)'
