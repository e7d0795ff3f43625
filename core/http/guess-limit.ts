import { setTimeout as sleep } from 'node:timers/promises'
import { addressKey } from './client-address.js'

const MINUTE_MS = 60_000
const DELAY_MS = 1_000
/** Maximum number of delayed refusals. Further refusals are sent immediately, to limit the memory that they take. */
const MAX_DELAYED = 100
const MAX_ADDRESSES = 10_000

export type GuessLimit = ReturnType<typeof createGuessLimit>

/**
 * Counts failed authentication attempts per minute and client address. Above the limit, failures are delayed and get a
 * uniform response. Valid credentials are never affected, so nobody can lock out other users of an address.
 */
export function createGuessLimit(perMinute: number) {
  const windows = new Map<string, { count: number; endsAt: number }>()
  let delayed = 0

  function count(address: string): number {
    const now = performance.now()
    const known = windows.get(address)
    if (known && known.endsAt > now) return ++known.count
    windows.delete(address)
    // Deletes the oldest entry: a map keeps insertion order.
    if (windows.size >= MAX_ADDRESSES) windows.delete(windows.keys().next().value!)
    windows.set(address, { count: 1, endsAt: now + MINUTE_MS })
    return 1
  }

  return {
    /** Returns whether this failure exceeds the limit; waits before it returns true. */
    async exceeded(client: string, signal: AbortSignal): Promise<boolean> {
      if (count(addressKey(client)) <= perMinute) return false
      if (delayed >= MAX_DELAYED) return true
      delayed++
      await sleep(DELAY_MS, undefined, { signal }).catch(() => {})
      delayed--
      return true
    },
  }
}
