import { spawnThrowaway } from './kit/cluster.js'
import { PATIENCE } from './kit/patience.js'

/** What a quiet machine with two processors needs to start Node.js and a new PostgreSQL, and to stop both. */
const QUIET_MS = 1_700

/** Measures this machine now, and sets `ROWHOUSE_TEST_PATIENCE` for the processes that this one starts. */
export async function calibrate(): Promise<void> {
  const began = performance.now()
  const cluster = await spawnThrowaway()
  await cluster.stop()
  process.env[PATIENCE] ??= Math.max(1, (performance.now() - began) / QUIET_MS).toFixed(1)
}
