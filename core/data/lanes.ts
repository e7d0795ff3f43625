import { setTimeout as sleep } from 'node:timers/promises'
import { type Database, isSilence } from '../db/database.js'
import { plainLane } from '../db/execute.js'
import { openFastLanes } from '../db/fast/index.js'
import type { Job, Lane } from '../db/lane.js'
import type { Observer } from '../db/observe.js'
import { isConnectionError } from '../db/sqlstates.js'
import { type Standbys, standbyLane } from '../db/standbys.js'
import type { Logger } from '../observe/log.js'
import type { Metrics } from '../observe/metrics.js'
import type { Session } from '../session.js'
import { type CallerLimits, createCallerLimits, type StreamCounts } from './caller-limits.js'

interface LaneOptions {
  /** Whether to use the optional fast paths. */
  readonly fast: boolean
  /** Throws 429 when a caller holds too much memory. */
  readonly admit: (session: Session) => void
  readonly log: Logger
  readonly metrics: Metrics
}

/**
 * Opens the lane on which requests run: to the primary, and for reads to the standbys, each with the limits of callers.
 * @param limits those of the primary
 */
export function openLanes(
  database: Database,
  { fast, admit, log, metrics }: LaneOptions,
  observer: Observer,
  limits: CallerLimits,
  streams: StreamCounts,
  standbys: Standbys | undefined,
): { readonly lane: Lane; close(): Promise<void> } {
  const closers: (() => Promise<void>)[] = []
  const laneTo = (server: Database, { lane }: CallerLimits): Lane => {
    const shared = fast ? openFastLanes(server, log, metrics, observer) : undefined
    if (shared) closers.push(() => shared.close())
    const plain = plainLane(server)
    const limited = lane(retryOnLostConnection(shared?.rows(plain) ?? plain))
    return shared?.shared(limited) ?? limited
  }
  const primary = laneTo(database, limits)
  const lanes = new Map(
    database.standbys.map((each) => [each, laneTo(each, createCallerLimits(each, streams, admit))] as const),
  )
  return {
    lane: standbys ? standbyLane(standbys, lanes, primary) : primary,
    close: async () => void (await Promise.all(closers.map((close) => close()))),
  }
}

/** Time that the pool gets to notice that other connections dropped with the lost one. */
const NOTICE_MS = 20

/** Retries a read once when the connection drops, because nothing was sent to the client and nothing was written. */
function retryOnLostConnection({ cell, rows, write }: Lane): Lane {
  const withRetry =
    <T>(read: (job: Job) => Promise<T>) =>
    (job: Job): Promise<T> =>
      read(job).catch(async (error: unknown) => {
        if (!isConnectionError(error) || isSilence(error) || job.call.signal.aborted) throw error
        await sleep(NOTICE_MS)
        return read(job)
      })
  return { cell: withRetry(cell), rows: withRetry(rows), write }
}
