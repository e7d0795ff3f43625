import { spawnThrowaway } from './kit/cluster.js'
import { PATIENCE } from './kit/patience.js'

/** What a quiet machine with two processors needs to start Node.js and a new PostgreSQL. */
const QUIET_MS = 1_550

/**
 * Starts a throwaway cluster, and measures with it this machine as it is now: sets `ROWHOUSE_TEST_PATIENCE` for the processes
 * that this one starts.
 */
export async function startMeasured(): ReturnType<typeof spawnThrowaway> {
  const began = performance.now()
  const cluster = await spawnThrowaway()
  process.env[PATIENCE] ??= Math.max(1, (performance.now() - began) / QUIET_MS).toFixed(1)
  return cluster
}
