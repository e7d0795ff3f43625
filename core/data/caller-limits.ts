import { traced } from '../observe/timing.js'
import type { DatabaseConfig } from '../db/config.js'
import type { Database } from '../db/database.js'
import type { Job, Lane, Waiter } from '../db/lane.js'
import type { RowBatches } from '../db/row-messages.js'
import { type ServiceError, serviceError, unavailable } from '../errors.js'
import type { Metrics } from '../observe/metrics.js'
import { isAdmin, type Session } from '../session.js'
import type { Call } from './operations.js'

/** Keeps each caller within its share of the database's connections and time. */
export interface CallerLimits {
  /** Maximum duration of a caller's statement, in milliseconds. */
  timeoutOf(call: Pick<Call, 'session'>): number
  /**
   * Runs work that takes a connection.
   * @param timeoutMs time after which it is cancelled; Infinity if the work has its own limit
   * @param isQuick whether it may use a connection reserved for quick requests
   * @throws ServiceError 429 too-many-requests, 503 unavailable, 504 timeout
   */
  run<T>(call: Waiter, fn: (signal: AbortSignal) => Promise<T>, timeoutMs?: number, isQuick?: boolean): Promise<T>
  /** Applies the limits to a lane. */
  lane(lane: Lane): Lane
}

/** Number of streamed responses in progress by class of their callers. */
export type StreamCounts = Record<ReturnType<typeof classOf>, number>

/** Returns counts to be shared by the limits of several servers of PostgreSQL. */
export function createStreamCounts(metrics: Metrics): StreamCounts {
  const open: StreamCounts = { anonymous: 0, user: 0, admin: 0 }
  metrics.gauge('streams', 'Streamed responses in progress by class of their callers.', ['caller'], (gauge) => {
    for (const [caller, count] of Object.entries(open)) gauge.set({ caller }, count)
  })
  return open
}

/**
 * Returns the limits of callers on one server of PostgreSQL.
 * @param admit throws 429 when the caller holds too much memory
 */
export function createCallerLimits(
  { config, waited }: Pick<Database, 'config' | 'waited'>,
  open: StreamCounts,
  admit: (session: Session) => void,
): CallerLimits {
  const { requests, streams } = openShares(config, waited)
  // A map, because a role may have the name of an inherited property.
  const roleTimeouts = new Map(Object.entries(config.roleTimeoutMs))

  const timeoutOf: CallerLimits['timeoutOf'] = ({ session: { role } }) =>
    Math.min(roleTimeouts.get(role) ?? Infinity, config.statementTimeoutMs)

  const run: CallerLimits['run'] = async ({ session, signal }, fn, timeoutMs = Infinity, isQuick = false) => {
    // Callers without limits wait for connections in the pool only.
    const release = session.caller === undefined ? undefined : await requests.take(session, signal, isQuick)
    try {
      // Checks again, because other responses of this caller may have filled memory meanwhile.
      admit(session)
      if (timeoutMs === Infinity) return await fn(signal)
      return await within(timeoutMs, session, signal, fn)
    } finally {
      release?.()
    }
  }

  /** Counts a stream until it ends. A small response has returned its connection already. */
  async function untilEnd(rows: RowBatches, { call: { session, signal } }: Job): Promise<RowBatches> {
    if (rows.done) return rows
    try {
      const release = await streams.take(session, signal)
      const kind = classOf(session)
      open[kind]++
      void rows.ended.then(() => {
        open[kind]--
        release()
      })
      return rows
    } catch (error) {
      await rows.end()
      throw error
    }
  }

  return {
    timeoutOf,
    run,
    lane({ cell, rows, write }) {
      const limited =
        (send: Lane['cell']): Lane['cell'] =>
        (job) => {
          // The connection enforces the server's limit.
          const { timeoutMs } = job.execution
          const ownMs = timeoutMs < config.statementTimeoutMs ? timeoutMs : Infinity
          const { call, isQuick } = job
          const { session } = call
          return run(
            call,
            (signal) => send(signal === call.signal ? job : { ...job, call: { session, signal } }),
            ownMs,
            isQuick,
          )
        }
      return {
        cell: limited(cell),
        write: limited(write),
        rows: async (job) => untilEnd(await run(job.call, () => rows(job)), job),
      }
    },
  }
}

const classOf = (session: Session): 'anonymous' | 'user' | 'admin' =>
  isAdmin(session) ? 'admin' : session.role === 'anonymous' ? 'anonymous' : 'user'

/** @throws ServiceError 504 timeout */
async function within<T>(
  timeoutMs: number,
  session: Session,
  signal: AbortSignal,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController()
  const onAbort = () => own.abort(signal.reason)
  const timer = setTimeout(() => own.abort(tooLong(session)), timeoutMs).unref()
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  try {
    return await fn(own.signal)
  } catch (error) {
    throw own.signal.aborted && !signal.aborted ? own.signal.reason : error
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

const tooLong = ({ role }: Session): ServiceError =>
  serviceError(
    'timeout',
    `the request took longer than role "${role}" allows (database.roleTimeoutMs, statementTimeoutMs)`,
  )

/** What limits know of a caller. */
type Caller = Pick<Session, 'role' | 'caller'>

interface SharesOptions {
  /** Maximum number per caller. */
  most(session: Caller): number
  /** Maximum number for all callers together. */
  readonly total: number
  /** Maximum number for all callers of the role anonymous together; absent: no maximum. */
  readonly anonymous?: number
  /** Number reserved for quick requests; absent: none. */
  readonly forQuick?: number
  /** Maximum time to wait, in milliseconds. 0 refuses immediately. */
  readonly waitMs: number
  /** Called with the time that a caller waited, in milliseconds. */
  readonly waited?: (ms: number) => void
  /** Name of the pool in spans of waiting; absent: no spans. */
  readonly span?: string
  /** Describes the limit of one caller, for the error message. */
  readonly what: string
  /** Error message when other callers use all. */
  readonly allTaken: string
}

/** Opens the shares of callers in connections and streams. */
function openShares(
  config: DatabaseConfig,
  waited: Database['waited'],
): { readonly requests: Shares; readonly streams: Shares } {
  const shareOf = (size: number, share: number) => {
    return ({ role, caller }: Caller): number =>
      caller === undefined
        ? Infinity
        : Math.max(1, Math.floor(size * (role === 'anonymous' ? Math.min(share, config.anonymousShare) : share)))
  }
  const { poolSize, streamPoolSize } = config
  const together = (size: number): number => Math.max(1, Math.floor(size * config.anonymousTotalShare))
  return {
    requests: new Shares({
      most: shareOf(poolSize, config.callerShare),
      total: poolSize,
      anonymous: together(poolSize),
      forQuick: Math.min(poolSize - 1, Math.ceil(poolSize / 4)),
      waitMs: config.poolWaitMs,
      waited: (ms) => waited('share', ms),
      span: 'share',
      what: 'requests of this caller are in progress (database.callerShare)',
      allTaken: 'other callers use all connections except those reserved for quick requests (database.poolSize)',
    }),
    streams: new Shares({
      most: shareOf(streamPoolSize, config.streamShare),
      total: streamPoolSize,
      anonymous: together(streamPoolSize),
      waitMs: 0,
      what: 'streams of this caller are open (database.streamShare)',
      allTaken: 'the maximum number of streams is open (database.streamPoolSize)',
    }),
  }
}

const ANONYMOUS = 'anonymous callers use all that they may have together (database.anonymousTotalShare)'

interface Holder {
  count: number
  readonly most: number
  readonly isAnonymous: boolean
}
interface Waiting {
  readonly holder: Holder
  readonly isQuick: boolean
  readonly grant: () => void
}

/**
 * Shares a resource fairly among callers and limits each caller. The waiting caller with the smallest share is served
 * next. Sessions without a `caller` count as one caller.
 */
export class Shares {
  private readonly holders = new Map<string | undefined, Holder>()
  private readonly waiting: Waiting[] = []
  private taken = 0
  /** Number taken by requests that are not known to be quick. */
  private takenBySlow = 0
  private takenByAnonymous = 0

  constructor(private readonly options: SharesOptions) {}

  /**
   * Takes one of the caller's share.
   * @param signal aborts when the client no longer waits
   * @param isQuick whether the request is known to be quick
   * @returns a function that releases it; later calls do nothing
   * @throws ServiceError 429 too-many-requests: the caller's share is used up; 503 unavailable: all are in use
   */
  async take(session: Caller, signal?: AbortSignal, isQuick = false): Promise<() => void> {
    const { caller } = session
    const known = this.holders.get(caller)
    const holder = known ?? { count: 0, most: this.options.most(session), isAnonymous: session.role === 'anonymous' }
    if (!known) this.holders.set(caller, holder)
    if (this.isFree({ holder, isQuick })) this.add({ holder, isQuick }, 1)
    else await this.wait(holder, isQuick, signal).finally(() => this.forget(caller, holder))
    let held = true
    return () => {
      if (!held) return
      held = false
      this.add({ holder, isQuick }, -1)
      this.grantNext()
      this.forget(caller, holder)
    }
  }

  private isFree({ holder: { count, most, isAnonymous }, isQuick }: Omit<Waiting, 'grant'>): boolean {
    const { total, anonymous = total, forQuick = 0 } = this.options
    if (isAnonymous && this.takenByAnonymous >= anonymous) return false
    return count < most && this.taken < total && (isQuick || this.takenBySlow < total - forQuick)
  }

  private add({ holder, isQuick }: Omit<Waiting, 'grant'>, change: 1 | -1): void {
    holder.count += change
    this.taken += change
    if (!isQuick) this.takenBySlow += change
    if (holder.isAnonymous) this.takenByAnonymous += change
  }

  private forget(caller: string | undefined, holder: Holder): void {
    if (holder.count === 0 && !this.waiting.some((each) => each.holder === holder)) this.holders.delete(caller)
  }

  /**
   * Serves waiting callers. One release may serve several, because quick requests may use more of the total than
   * others.
   */
  private grantNext(): void {
    for (;;) {
      const able = this.waiting.filter((each) => this.isFree(each))
      const [next] = able.sort((a, b) => a.holder.count - b.holder.count)
      if (!next) return
      this.waiting.splice(this.waiting.indexOf(next), 1)
      this.add(next, 1)
      next.grant()
    }
  }

  /** Resolves when a share is granted. */
  private async wait(holder: Holder, isQuick: boolean, signal: AbortSignal | undefined): Promise<void> {
    const { waitMs, span } = this.options
    if (waitMs === 0) throw this.refusal(holder)
    signal?.throwIfAborted()
    let granted = false
    let stop!: () => void
    const stopped = new Promise<void>((resolve) => (stop = resolve))
    const place: Waiting = {
      holder,
      isQuick,
      grant: () => {
        granted = true
        stop()
      },
    }
    this.waiting.push(place)
    const since = performance.now()
    const waiting = async (): Promise<void> => {
      const timer = setTimeout(stop, waitMs).unref()
      signal?.addEventListener('abort', stop)
      await stopped
      signal?.removeEventListener('abort', stop)
      clearTimeout(timer)
    }
    if (span === undefined) await waiting()
    else await traced(() => ({ name: 'pool wait', attributes: { 'db.client.connection.pool.name': span } }), waiting)
    this.options.waited?.(performance.now() - since)
    if (granted) return
    this.waiting.splice(this.waiting.indexOf(place), 1)
    signal?.throwIfAborted()
    throw this.refusal(holder)
  }

  private refusal({ count, most, isAnonymous }: Holder): ServiceError {
    const { what, allTaken, total, anonymous = total } = this.options
    if (count < most && isAnonymous && this.takenByAnonymous >= anonymous) return unavailable(undefined, ANONYMOUS)
    return count >= most
      ? serviceError('too-many-requests', `${count} ${what}, which is the share of one caller`, '$', {
          retryAfter: 1,
        })
      : unavailable(undefined, allTaken)
  }
}
