import type { Host } from 'rowhouse'
import type { FilestoreConfig } from '../config.js'
import type { UploadRecords } from './records.js'
import type { Resumable } from './resumable.js'
import type { Staging } from './staging.js'

const BATCH = 100
/** Others take this server for gone when it was not seen for some minutes. */
const MAX_SECONDS = 60

/** Takes expired uploads away, and says that this server is there. */
export function startRounds(
  host: Host,
  resumable: Resumable,
  records: UploadRecords,
  staging: Staging,
  { everySeconds }: FilestoreConfig['collect'],
) {
  const log = host.use('log')
  let running: Promise<void> | undefined
  let stopped = false
  let swept = false

  async function round(): Promise<void> {
    await records.seen()
    if (!swept) await sweep()
    swept = true
    for (let full = true; full && !stopped;) {
      const ids = await records.expired(BATCH)
      await resumable.removeExpired(ids)
      full = ids.length === BATCH
    }
    await records.forgetElsewhere()
  }

  /** Bytes whose upload is over: a server was killed between the end of one and the other, or others forgot it. */
  async function sweep(): Promise<void> {
    const ids = await staging.list()
    const needed = await records.needed(ids)
    for (const id of ids) if (!needed.has(id)) await staging.remove(id)
  }

  const start = (): Promise<void> =>
    (running ??= round()
      .catch((error: unknown) => log.warn({ err: error }, 'expired uploads could not be removed; it is tried again'))
      .finally(() => (running = undefined)))
  const timer = setInterval(() => void start(), Math.min(everySeconds, MAX_SECONDS) * 1000)
  timer.unref()
  host.onReady(() => void start())
  return {
    async stop() {
      stopped = true
      clearInterval(timer)
      await running
    },
  }
}
