import type { Components } from '../components.js'
import { UploadRecords } from './records.js'
import { ResumableUploads } from './resumable.js'
import { tusRoutes } from './routes.js'

/** Adds resumable uploads by the tus protocol. */
export function resumableUploads(components: Components): void {
  const { host, config } = components
  if (!config.resumable.enabled) return
  const resumable = new ResumableUploads(components, new UploadRecords(host.use('data'), config.resumable))
  tusRoutes(components, resumable)
  host.onClose(() => resumable.stop())
}
