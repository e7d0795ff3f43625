import type { DatabaseConfig } from '../db/config.js'
import type { Lane } from '../db/lane.js'
import type { RowBatches } from '../db/row-messages.js'
import { type ServiceError, serviceError } from '../errors.js'
import type { Session } from '../session.js'
import type { Call } from './operations.js'
import { openShares } from './shares.js'

/** What a request is to the limits of its caller. */
export type Waiting = Pick<Call, 'session' | 'signal'>

/** Keeps each caller within its share of the database's connections and time. */
export interface CallerLimits {
  /** Longest statement of a caller, in milliseconds. */
  timeoutOf(waiting: Pick<Call, 'session'>): number
  /**
   * Runs what takes a connection.
   * @param timeoutMs after which it is cancelled; Infinity: what runs has a limit of its own
   * @param isQuick whether it may have a connection that is kept for quick requests
   * @throws ServiceError 429 too-many-requests, 503 unavailable, 504 timeout
   */
  run<T>(waiting: Waiting, fn: (signal: AbortSignal) => Promise<T>, timeoutMs?: number, isQuick?: boolean): Promise<T>
  /** Applies the limits to a lane. */
  lane(lane: Lane): Lane
}

/** @param admit throws 429 when too much waits in memory for the caller */
export function createCallerLimits(config: DatabaseConfig, admit: (session: Session) => void): CallerLimits {
  const { requests, streams } = openShares(config)
  // A map, because a role may have the name of something that every object has.
  const roleTimeouts = new Map(Object.entries(config.roleTimeoutMs))

  const timeoutOf: CallerLimits['timeoutOf'] = ({ session: { role } }) =>
    Math.min(roleTimeouts.get(role) ?? Infinity, config.statementTimeoutMs)

  const run: CallerLimits['run'] = async ({ session, signal }, fn, timeoutMs = Infinity, isQuick = false) => {
    // Callers without limits wait for connections in the pool alone.
    const giveBack = session.caller === undefined ? undefined : await requests.take(session, signal, isQuick)
    try {
      // Again, because other requests of this caller have been answered since it came.
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

  /** A small answer has given its connection back; one that goes on counts until it has ended. */
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
          // The connection has the server's limit.
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
    `the request took longer than role "${role}" may (database.roleTimeoutMs, statementTimeoutMs)`,
  )
