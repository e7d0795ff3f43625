import { join } from 'node:path'
import type { Host } from 'rowhouse'
import type { Components } from '../components.js'
import { startCleanup } from './cleanup.js'
import { UploadRecords } from './records.js'
import { ResumableUploads } from './resumable.js'
import { tusRoutes } from './routes.js'
import { Staging } from './staging.js'

/** Adds resumable uploads by the tus protocol. */
export async function resumableUploads(components: Components): Promise<void> {
  const { host, config } = components
  const staging = config.resumable.enabled && (await openStaging(host))
  if (!staging) return
  const records = new UploadRecords(host.use('data'), config.resumable, staging.place)
  await records.reportAlive()
  const resumable = new ResumableUploads(components, records, staging)
  tusRoutes(components, resumable)
  const cleanup = startCleanup(host, resumable, records, staging, config.collect.everySeconds)
  host.onClose(async () => {
    await cleanup.stop()
    await resumable.stop()
  })
}

const UNWRITABLE = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'ENOENT'])

/** Returns undefined without a writable disk: such a server still starts, and may store its files elsewhere. */
async function openStaging(host: Host): Promise<Staging | undefined> {
  const folder = join(host.dataDir, 'uploads')
  try {
    return await Staging.open(folder)
  } catch (error) {
    if (!UNWRITABLE.has((error as NodeJS.ErrnoException).code ?? '')) throw error
    host.use('log').warn({ err: error, folder }, 'resumable uploads are disabled because their folder is not writable')
    return undefined
  }
}
