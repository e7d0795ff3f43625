import { join } from 'node:path'
import type { Host } from 'rowhouse'
import { UploadRecords } from './records.js'
import { Resumable } from './resumable.js'
import { startRounds } from './rounds.js'
import { tusRoutes } from './routes.js'
import { Staging } from './staging.js'
import type { Parts } from '../parts.js'

/** Uploads that go on after a break, by the tus protocol. */
export async function resumableUploads(parts: Parts): Promise<void> {
  const { host, config } = parts
  if (!config.resumable.enabled) return
  const staging = await openStaging(host)
  if (!staging) return
  const records = new UploadRecords(host.use('data'), config.resumable, staging.place)
  await records.seen()
  const resumable = new Resumable(parts, records, staging)
  tusRoutes(parts, resumable)
  const rounds = startRounds(host, resumable, records, staging, config.collect)
  host.onClose(async () => {
    await rounds.stop()
    await resumable.stop()
  })
}

const UNWRITABLE = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'ENOENT'])

/** A server whose disk cannot be written to may have its files elsewhere, and needs this for nothing else. */
async function openStaging(host: Host): Promise<Staging | undefined> {
  const folder = join(host.dataDir, 'uploads')
  try {
    return await Staging.open(folder)
  } catch (error) {
    if (!UNWRITABLE.has((error as NodeJS.ErrnoException).code ?? '')) throw error
    host.use('log').warn({ err: error, folder }, 'no resumable uploads: their folder cannot be written to')
    return undefined
  }
}
