import type { Host } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import type { Files } from './files.js'

const BATCH = 100

/** Deletes blobs that no file uses: the object first, and the row once the deletion is durable. */
export function startCollector(
  host: Host,
  files: Files,
  { everySeconds, graceSeconds }: FilestoreConfig['collect'],
): void {
  const log = host.use('log')
  const collected = host.metric.counter('collected_total', 'blobs deleted because no file used them')

  async function collect(signal: AbortSignal): Promise<void> {
    const failed: string[] = []
    for (let full = true; full && !signal.aborted;) {
      const garbage = await files.garbage(graceSeconds, BATCH, failed)
      for (const { blob, provider } of signal.aborted ? [] : garbage) {
        try {
          await (await host.provider('storage', provider)).delete(blob)
          await files.forget(blob)
          collected.inc()
        } catch (error) {
          if (failed.push(blob) === 1) log.warn({ err: error, blob }, 'a blob could not be deleted; will retry')
        }
      }
      full = garbage.length === BATCH
    }
    if (failed.length > 1) log.warn({ blobs: failed.length }, 'several blobs could not be deleted; will retry')
  }

  host.every('collect unused blobs', everySeconds * 1000, collect)
}
