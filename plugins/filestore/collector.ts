import type { Host } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import type { Files } from './files.js'

const BATCH = 100

/** Takes bytes away that no file points to: they first, and only when that is durable what was known of them. */
export function startCollector(host: Host, files: Files, { everySeconds, graceSeconds }: FilestoreConfig['collect']) {
  const log = host.use('log')
  const collected = host.metric.counter('collected_total', 'blobs whose bytes were taken away')
  let stopped = false
  let running: Promise<void> | undefined

  async function round(): Promise<void> {
    const stuck: string[] = []
    for (let full = true; full && !stopped;) {
      const waste = await files.waste(graceSeconds, BATCH, stuck)
      for (const { blob, provider } of stopped ? [] : waste) {
        try {
          await (await host.provider('storage', provider)).delete(blob)
          await files.forget(blob)
          collected.inc()
        } catch (error) {
          if (stuck.push(blob) === 1) log.warn({ err: error, blob }, 'bytes could not be taken away; it is tried again')
        }
      }
      full = waste.length === BATCH
    }
    if (stuck.length > 1) log.warn({ blobs: stuck.length }, 'bytes of these could not be taken away')
  }

  const collect = (): Promise<void> =>
    (running ??= round()
      .catch((error: unknown) => log.warn({ err: error }, 'collecting failed; it is tried again'))
      .finally(() => (running = undefined)))
  const timer = setInterval(() => void collect(), everySeconds * 1000)
  timer.unref()
  return {
    collect,
    async stop() {
      stopped = true
      clearInterval(timer)
      await running
    },
  }
}
