import { setTimeout as wait } from 'node:timers/promises'
import type { Host } from 'rowhouse'
import type { FilestoreConfig } from '../config.js'
import { CheckResults } from './results.js'
import { verify } from './verify.js'

const PIECE_BYTES = 2 ** 20
/** Overhead of a file (two statements), as a number of bytes. */
const FILE_BYTES = 256 * 1024
const MAX_IDLE_MS = 60_000
const MIN_IDLE_MS = 50
const DAY_MS = 86_400_000

/** Verifies stored files slowly in the background, those verified longest ago first, and reports damage. */
export function startScrub(host: Host, { bytesPerSecond, everyDays }: FilestoreConfig['scrub']): void {
  const log = host.use('log')
  const results = new CheckResults(host.use('data'))
  const verifications = host.metric.counter('verified_total', 'stored files read back and compared with their SHA-256')
  const gauge = host.metric.gauge('damaged', 'stored files known to be damaged')
  const idleMs = Math.min(MAX_IDLE_MS, Math.max(MIN_IDLE_MS, (everyDays * DAY_MS) / 100))

  async function scrub(signal: AbortSignal): Promise<void> {
    while (await scrubOne(signal));
    await countDamaged()
  }

  /** @returns false when no file is due */
  async function scrubOne(signal: AbortSignal): Promise<boolean> {
    const pause = (bytes: number) => wait((bytes / bytesPerSecond) * 1000, undefined, { signal, ref: false })
    const written = await results.claim(everyDays, bytesPerSecond)
    if (!written) return false
    const { blob, provider } = written
    try {
      const store = await host.provider('storage', provider)
      const damage = await verify(store, written, { pieceBytes: PIECE_BYTES, signal, onPiece: pause })
      const current = await results.record(blob, damage)
      verifications.inc()
      if (damage && current) {
        log.error({ file_id: current.file, blob, provider, damage }, 'a stored file is damaged: see rowhouse fsck')
        await countDamaged()
      }
    } catch (error) {
      if (!signal.aborted) await results.postpone(blob)
      throw new Error(`blob ${blob} in the store ${provider}`, { cause: error })
    }
    await pause(FILE_BYTES)
    return true
  }

  async function countDamaged(): Promise<number> {
    const count = await results.damaged()
    if (host.background) gauge.set(count)
    return count
  }

  host.health('bytes', async () => {
    // Another health check reports an unreachable database.
    const count = await countDamaged().catch(() => 0)
    if (count > 0) return `damaged files: ${count}; rowhouse fsck lists them`
  })
  if (bytesPerSecond > 0) host.every('verify stored files', idleMs, scrub)
}
