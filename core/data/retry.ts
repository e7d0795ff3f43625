import { setTimeout as sleep } from 'node:timers/promises'
import { isSilence } from '../db/database.js'
import { isConflict, isStale } from '../db/errors.js'
import type { Job, Lane } from '../db/lane.js'
import { isConnectionError } from '../db/sqlstates.js'
import type { Snapshots } from './snapshots.js'

const TRIES = 3
const NOTICE_MS = 20

/** Retries a transaction that the database rolled back in a conflict. */
export async function retryOnConflict<T>(run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await run()
    } catch (error) {
      if (!isConflict(error) || tries === TRIES) throw error
      await sleep(5 * tries + Math.random() * 20)
    }
  }
}

/** Retries once after names in the database have changed. */
export async function retryOnStaleSnapshot<T>(snapshots: Snapshots, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (isStale(error) && (await snapshots.refresh())) return run()
    throw error
  }
}

/** Retries a read once when the connection drops, because nothing was sent to the client and nothing was written. */
export function retryOnLostConnection({ cell, rows, write }: Lane): Lane {
  const withRetry =
    <T>(read: (job: Job) => Promise<T>) =>
    (job: Job): Promise<T> =>
      read(job).catch(async (error: unknown) => {
        if (!isConnectionError(error) || isSilence(error) || job.signal.aborted) throw error
        // Other connections may have dropped with it; gives the pool time to notice.
        await sleep(NOTICE_MS)
        return read(job)
      })
  return { cell: withRetry(cell), rows: withRetry(rows), write }
}
