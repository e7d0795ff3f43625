import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { builtins } from '../../../core/cli/builtins.js'
import { startServer } from '../../../core/host/server.js'

/**
 * The server under attack, a process of its own, with defaults and the sample data. Its settings come from the
 * environment. Over IPC it says `{url}` once it listens, answers `read` with a `Reading`, and on `rest` collects garbage.
 */
export interface Reading {
  /** Since the last reading. */
  readonly since: Delay
  /** Since the last `start`. */
  readonly all: Delay
  /** Of the main thread since the last reading, in ms; on Linux only. */
  readonly main?: { readonly ran: number; readonly waited: number }
  /** MiB. */
  readonly rss: number
  /** MiB, the most ever. */
  readonly peakRss: number
}
/** Time between ticks of a timer of 1 ms, in ms. */
export interface Delay {
  readonly p50: number
  readonly p99: number
  readonly max: number
}
export type Order = 'start' | 'read' | 'rest'

const since = monitorEventLoopDelay({ resolution: 1 })
const all = monitorEventLoopDelay({ resolution: 1 })
since.enable()
all.enable()
let before = scheduled()

process.on('disconnect', () => process.exit())
process.on('message', (order: Order) => {
  if (order === 'start') all.reset()
  if (order === 'rest') globalThis.gc?.()
  process.send?.(read())
})
const server = await startServer({
  env: process.env,
  cwd: import.meta.dirname,
  overrides: { http: { port: 0 } },
  builtins: builtins({ sample: true }),
})
process.once('SIGTERM', () => void server.close().then(() => process.exit()))
process.send?.({ url: server.url })

function read(): Reading {
  const now = scheduled()
  const reading = {
    since: delay(since),
    all: delay(all),
    ...(now && before ? { main: { ran: now.ran - before.ran, waited: now.waited - before.waited } } : {}),
    rss: process.memoryUsage.rss() / 1048576,
    peakRss: process.resourceUsage().maxRSS / 1024,
  }
  since.reset()
  before = now
  return reading
}

/** How long the main thread has run, and waited for a processor that others had. */
function scheduled(): { ran: number; waited: number } | undefined {
  try {
    const [ran = 0, waited = 0] = readFileSync('/proc/self/schedstat', 'utf8').split(' ').map(Number)
    return { ran: ran / 1e6, waited: waited / 1e6 }
  } catch {
    return undefined
  }
}

function delay(histogram: typeof since): Delay {
  const ms = (nanoseconds: number) => nanoseconds / 1e6
  return { p50: ms(histogram.percentile(50)), p99: ms(histogram.percentile(99)), max: ms(histogram.max) }
}
