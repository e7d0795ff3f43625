import { setTimeout as sleep } from 'node:timers/promises'
import { unavailable } from '../db/breaker.js'
import type { DatabaseConfig } from '../db/config.js'
import { type ServiceError, serviceError } from '../errors.js'
import type { Session } from '../session.js'

interface Options {
  /** How many one caller may have. */
  most(session: Session): number
  /** How many all callers may have together. */
  readonly total: number
  /** How many of them are for what is known to be quick; none when absent. */
  readonly forQuick?: number
  /** How long a caller waits for one. 0: not at all. */
  readonly waitMs: number
  /** Says what a caller has had too many of, for the message of the refusal. */
  readonly what: string
  /** The message when others have all. */
  readonly allTaken: string
}

/** The shares of callers in what they take of the database. */
export function openShares(config: DatabaseConfig): { readonly requests: Shares; readonly streams: Shares } {
  const shareOf = (size: number, share: number) => {
    return ({ role, caller }: Session): number =>
      caller === undefined
        ? Infinity
        : Math.max(1, Math.floor(size * (role === 'anonymous' ? Math.min(share, config.anonymousShare) : share)))
  }
  const { poolSize, streamPoolSize } = config
  return {
    requests: new Shares({
      most: shareOf(poolSize, config.callerShare),
      total: poolSize,
      forQuick: Math.min(poolSize - 1, Math.ceil(poolSize / 4)),
      waitMs: config.poolWaitMs,
      what: 'requests of this caller are under way (database.callerShare)',
      allTaken: 'other callers have all connections, but for those kept for quick requests (database.poolSize)',
    }),
    streams: new Shares({
      most: shareOf(streamPoolSize, config.streamShare),
      total: streamPoolSize,
      waitMs: 0,
      what: 'streams of this caller are open (database.streamShare)',
      allTaken: 'as many streams are open as the server allows (database.streamPoolSize)',
    }),
  }
}

interface Holder {
  count: number
  readonly most: number
}
interface Waiting {
  readonly holder: Holder
  readonly isQuick: boolean
  /** Gives it one. */
  readonly pass: () => void
}

/**
 * Keeps one caller from taking all of what callers share, and some from taking what others need. Who waits with the fewest
 * gets the next. Those without a `caller` count as one.
 */
export class Shares {
  private readonly options: Options
  private readonly holders = new Map<string | undefined, Holder>()
  private readonly waiting: Waiting[] = []
  private taken = 0
  /** Of those, by what is not known to be quick. */
  private takenBySlow = 0

  constructor(options: Options) {
    this.options = options
  }

  /**
   * Takes one of the caller's share.
   * @param signal aborts when nobody waits any more
   * @param isQuick whether it is for what is known to be quick
   * @returns gives it back; may be called again
   * @throws ServiceError 429 too-many-requests: it has its share; 503 unavailable: others have all
   */
  async take(session: Session, signal: AbortSignal, isQuick = false): Promise<() => void> {
    const { caller } = session
    const known = this.holders.get(caller)
    const holder = known ?? { count: 0, most: this.options.most(session) }
    if (!known) this.holders.set(caller, holder)
    if (this.mayHave({ holder, isQuick })) this.add({ holder, isQuick }, 1)
    else await this.wait(holder, isQuick, signal).finally(() => this.forget(caller, holder))
    let held = true
    return () => {
      if (!held) return
      held = false
      this.add({ holder, isQuick }, -1)
      this.passOn()
      this.forget(caller, holder)
    }
  }

  private mayHave({ holder: { count, most }, isQuick }: Omit<Waiting, 'pass'>): boolean {
    const { total, forQuick = 0 } = this.options
    return count < most && this.taken < total && (isQuick || this.takenBySlow < total - forQuick)
  }

  private add({ holder, isQuick }: Omit<Waiting, 'pass'>, one: 1 | -1): void {
    holder.count += one
    this.taken += one
    if (!isQuick) this.takenBySlow += one
  }

  private forget(caller: string | undefined, holder: Holder): void {
    if (holder.count === 0 && !this.waiting.some((each) => each.holder === holder)) this.holders.delete(caller)
  }

  /** One that is given back may let several have one: what is not quick may wait for less than what is. */
  private passOn(): void {
    for (;;) {
      const able = this.waiting.filter((each) => this.mayHave(each))
      const [next] = able.sort((a, b) => a.holder.count - b.holder.count)
      if (!next) return
      this.waiting.splice(this.waiting.indexOf(next), 1)
      this.add(next, 1)
      next.pass()
    }
  }

  /** Resolves when one has been passed on. */
  private async wait(holder: Holder, isQuick: boolean, signal: AbortSignal): Promise<void> {
    const { waitMs } = this.options
    if (waitMs === 0) throw this.refusal(holder)
    const over = new AbortController()
    let passed = false
    const place: Waiting = {
      holder,
      isQuick,
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
    const { what, allTaken } = this.options
    return count >= most
      ? serviceError('too-many-requests', `${count} ${what}, which is the share of one caller`, '$', {
          retryAfter: 1,
        })
      : unavailable(undefined, allTaken)
  }
}
