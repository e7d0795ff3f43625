import type { Host } from 'rowhouse'
import { type Periodic, runEvery } from '../periodic.js'
import type { UploadRecords } from './records.js'
import type { ResumableUploads } from './resumable.js'
import type { Staging } from './staging.js'

const BATCH = 100
/** Other servers consider this one gone when it has not reported for five minutes. */
const MAX_SECONDS = 60

/** Removes expired uploads, and reports that this server is alive. */
export function startCleanup(
  host: Host,
  resumable: ResumableUploads,
  records: UploadRecords,
  staging: Staging,
  everySeconds: number,
): Periodic {
  let leftoversRemoved = false

  async function cleanUp(signal: AbortSignal): Promise<void> {
    await records.reportAlive()
    if (!leftoversRemoved) await removeLeftovers()
    leftoversRemoved = true
    for (let full = true; full && !signal.aborted;) {
      const ids = await records.expired(BATCH)
      await resumable.removeExpired(ids)
      full = ids.length === BATCH
    }
    await records.forgetGoneServers()
  }

  /** Removes staged bytes without an unfinished upload: this server was killed, or another one removed the record. */
  async function removeLeftovers(): Promise<void> {
    const ids = await staging.list()
    const needed = await records.unfinished(ids)
    for (const id of ids) if (!needed.has(id)) await staging.remove(id)
  }

  const cleanup = runEvery(Math.min(everySeconds, MAX_SECONDS) * 1000, cleanUp, (error) =>
    host.use('log').warn({ err: error }, 'expired uploads could not be removed; will retry'),
  )
  host.onReady(() => cleanup.run())
  return cleanup
}
