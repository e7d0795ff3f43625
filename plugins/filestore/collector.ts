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
    for (let full = true; full && !stopped;) {
      const waste = await files.waste(graceSeconds, BATCH)
      for (const { blob, provider } of stopped ? [] : waste) {
        await (await host.provider('storage', provider)).delete(blob)
        await files.forget(blob)
        collected.inc()
      }
      full = waste.length === BATCH
    }
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
