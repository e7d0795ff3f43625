import { setTimeout as sleep } from 'node:timers/promises'
import { addressKey } from './client-address.js'

const MINUTE_MS = 60_000
const DELAY_MS = 1_000
/** Refusals that are kept waiting at once; more are answered immediately, so that waiting costs us nothing. */
const MAX_DELAYED = 100
const MAX_ADDRESSES = 10_000

export type GuessLimit = ReturnType<typeof createGuessLimit>

/**
 * Counts wrong credentials per minute and address of the client. Past the limit a wrong guess is answered late and alike; a
 * right one is not touched, so that nobody can lock out the others behind one address.
 */
export function createGuessLimit(perMinute: number) {
  const windows = new Map<string, { count: number; endsAt: number }>()
  let delayed = 0

  function count(address: string): number {
    const now = performance.now()
    const known = windows.get(address)
    if (known && known.endsAt > now) return ++known.count
    windows.delete(address)
    // The oldest goes first: a map keeps the order in which keys came.
    if (windows.size >= MAX_ADDRESSES) windows.delete(windows.keys().next().value!)
    windows.set(address, { count: 1, endsAt: now + MINUTE_MS })
    return 1
  }

  return {
    /** Whether this guess is one too many; answers late if it is. */
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
