import type { DatabaseConfig } from '../db/config.js'
import type { Lane } from '../db/lane.js'
import type { RowBatches } from '../db/row-messages.js'
import { type ServiceError, serviceError } from '../errors.js'
import type { Session } from '../session.js'
import type { Call } from './operations.js'
import { openShares } from './shares.js'

/** The part of a request that the caller limits need. */
export type Waiting = Pick<Call, 'session' | 'signal'>

/** Keeps each caller within its share of the database's connections and time. */
export interface CallerLimits {
  /** Maximum duration of a caller's statement, in milliseconds. */
  timeoutOf(waiting: Pick<Call, 'session'>): number
  /**
   * Runs work that takes a connection.
   * @param timeoutMs time after which it is cancelled; Infinity if the work has its own limit
   * @param isQuick whether it may use a connection reserved for quick requests
   * @throws ServiceError 429 too-many-requests, 503 unavailable, 504 timeout
   */
  run<T>(waiting: Waiting, fn: (signal: AbortSignal) => Promise<T>, timeoutMs?: number, isQuick?: boolean): Promise<T>
  /** Applies the limits to a lane. */
  lane(lane: Lane): Lane
}

/** @param admit throws 429 when the caller holds too much memory */
export function createCallerLimits(config: DatabaseConfig, admit: (session: Session) => void): CallerLimits {
  const { requests, streams } = openShares(config)
  // A map, because a role may have the name of an inherited property.
  const roleTimeouts = new Map(Object.entries(config.roleTimeoutMs))

  const timeoutOf: CallerLimits['timeoutOf'] = ({ session: { role } }) =>
    Math.min(roleTimeouts.get(role) ?? Infinity, config.statementTimeoutMs)

  const run: CallerLimits['run'] = async ({ session, signal }, fn, timeoutMs = Infinity, isQuick = false) => {
    // Callers without limits wait for connections in the pool only.
    const giveBack = session.caller === undefined ? undefined : await requests.take(session, signal, isQuick)
    try {
      // Checks again, because other responses of this caller may have filled memory meanwhile.
      admit(session)
      if (timeoutMs === Infinity) return await fn(signal)
      const late = AbortSignal.timeout(timeoutMs)
      return await fn(AbortSignal.any([signal, late])).catch((error: unknown) => {
        throw late.aborted && !signal.aborted ? tooLong(session) : error
      })
    } finally {
      giveBack?.()
    }
  }

  /** Counts a stream until it ends. A small response has returned its connection already. */
  async function count(rows: RowBatches, { session, signal }: Waiting): Promise<RowBatches> {
    if (rows.done) return rows
    try {
      void rows.ended.then(await streams.take(session, signal))
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
          return run(job, (signal) => send(signal === job.signal ? job : { ...job, signal }), ownMs, job.isQuick)
        }
      return {
        cell: limited(cell),
        write: limited(write),
        rows: async (job) => count(await run(job, () => rows(job)), job),
      }
    },
  }
}

const tooLong = ({ role }: Session): ServiceError =>
  serviceError(
    'timeout',
    `the request took longer than role "${role}" allows (database.roleTimeoutMs, statementTimeoutMs)`,
  )
