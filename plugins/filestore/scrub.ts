import { setTimeout as wait } from 'node:timers/promises'
import type { Host } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { Verified } from './verified.js'
import { verify } from './verify.js'

const PIECE_BYTES = 2 ** 20
/** What a file costs beside its bytes: two statements. */
const FILE_BYTES = 256 * 1024
const MOST_IDLE_MS = 60_000
const LEAST_IDLE_MS = 50
const DAY_MS = 86_400_000

/** Reads stored bytes again, slowly, the longest unread first, and says when they are not what was written. */
export function startScrub(host: Host, { bytesPerSecond, everyDays }: FilestoreConfig['scrub']) {
  const log = host.use('log')
  const verified = new Verified(host.use('data'))
  const verifications = host.metric.counter('verified_total', 'stored files whose bytes were read again')
  const gauge = host.metric.gauge('damaged', 'stored files whose bytes are known to be damaged')
  const stopping = new AbortController()
  const { signal } = stopping
  const sleep = (ms: number) => wait(ms, undefined, { signal, ref: false })
  const pause = (bytes: number) => sleep((bytes / bytesPerSecond) * 1000)
  const idleMs = Math.min(MOST_IDLE_MS, Math.max(LEAST_IDLE_MS, (everyDays * DAY_MS) / 100))

  async function scrub(): Promise<void> {
    while (!signal.aborted) {
      await sleep(idleMs)
      try {
        while (await scrubOne());
        await countDamaged()
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'stored bytes could not be read again; it is tried later')
      }
    }
  }

  /** @returns whether there was any */
  async function scrubOne(): Promise<boolean> {
    const written = await verified.claim(everyDays, bytesPerSecond)
    if (!written) return false
    const { blob, provider } = written
    try {
      const store = await host.provider('storage', provider)
      const damage = await verify(store, written, { pieceBytes: PIECE_BYTES, signal, onPiece: pause })
      const found = await verified.record(blob, damage)
      verifications.inc()
      if (damage && found) {
        log.error({ file_id: found.file, blob, provider, damage }, 'a stored file is damaged: see rowhouse fsck')
        await countDamaged()
      }
    } catch (error) {
      if (!signal.aborted) await verified.postpone(blob)
      throw new Error(`blob ${blob} in the store ${provider}`, { cause: error })
    }
    await pause(FILE_BYTES)
    return true
  }

  async function countDamaged(): Promise<number> {
    const count = await verified.damaged()
    gauge.set(count)
    return count
  }

  host.health('bytes', async () => {
    // That the database does not answer is said by another probe.
    const count = await countDamaged().catch(() => 0)
    if (count > 0) return `damaged files: ${count}; rowhouse fsck tells which`
  })
  const running = bytesPerSecond === 0 ? Promise.resolve() : scrub().catch(() => {})
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}
