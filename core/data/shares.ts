import { setTimeout as sleep } from 'node:timers/promises'
import { unavailable } from '../db/breaker.js'
import type { DatabaseConfig } from '../db/config.js'
import { type ServiceError, serviceError } from '../errors.js'
import type { Session } from '../session.js'

interface Options {
  /** Maximum number per caller. */
  most(session: Session): number
  /** Maximum number for all callers together. */
  readonly total: number
  /** Number reserved for quick requests; absent: none. */
  readonly forQuick?: number
  /** Maximum time to wait, in milliseconds. 0 refuses immediately. */
  readonly waitMs: number
  /** Describes the limit of one caller, for the error message. */
  readonly what: string
  /** Error message when other callers use all. */
  readonly allTaken: string
}

/** Opens the shares of callers in connections and streams. */
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
      what: 'requests of this caller are in progress (database.callerShare)',
      allTaken: 'other callers use all connections except those reserved for quick requests (database.poolSize)',
    }),
    streams: new Shares({
      most: shareOf(streamPoolSize, config.streamShare),
      total: streamPoolSize,
      waitMs: 0,
      what: 'streams of this caller are open (database.streamShare)',
      allTaken: 'the maximum number of streams is open (database.streamPoolSize)',
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
  /** Grants the share. */
  readonly pass: () => void
}

/**
 * Shares a resource fairly among callers and limits each caller. The waiting caller with the smallest share is served
 * next. Sessions without a `caller` count as one caller.
 */
export class Shares {
  private readonly options: Options
  private readonly holders = new Map<string | undefined, Holder>()
  private readonly waiting: Waiting[] = []
  private taken = 0
  /** Number taken by requests that are not known to be quick. */
  private takenBySlow = 0

  constructor(options: Options) {
    this.options = options
  }

  /**
   * Takes one of the caller's share.
   * @param signal aborts when the client no longer waits
   * @param isQuick whether the request is known to be quick
   * @returns a function that releases it; later calls do nothing
   * @throws ServiceError 429 too-many-requests: the caller's share is used up; 503 unavailable: all are in use
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

  /**
   * Serves waiting callers. One release may serve several, because quick requests may use more of the total than
   * others.
   */
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

  /** Resolves when a share is granted. */
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
