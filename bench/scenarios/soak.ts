import { readMemory } from '../cpu.js'
import type { Bench } from '../bench.js'
import { FULL } from '../data.js'
import { runLoad, type Window } from '../load/load.js'
import type { Measured, Section } from '../section.js'
import { type BenchServer, byAdmin, byGateway, queryPost, startServerChild } from '../systems/server.js'
import { byPk } from './by-pk.js'
import { filter } from './filter.js'
import { list } from './list.js'
import { nested } from './nested.js'
import { requestCount } from './scenario.js'

const CLIENTS = 16
/** Of the whole run; a trial takes one step. */
const MINUTES = { quick: 1, full: 30 }
const STEPS = 20

/** Every read of the other scenarios in turn for a long time: does memory grow, and does the event loop stay free? */
export async function measureSoak(bench: Bench): Promise<Section> {
  const trial = bench.window.kind === 'requests'
  const minutes = bench.size === FULL ? MINUTES.full : MINUTES.quick
  const server = await startServerChild(bench.url)
  try {
    const cell = await soak(bench, server, trial ? 2 : STEPS, trial ? bench.window : stepOf(minutes))
    return {
      id: 'o',
      title: `reads for ${trial ? 'a moment' : `${minutes} min`}, ${CLIENTS} clients`,
      columns: {
        rps: 'requests/s',
        p99: 'p99 ms, worst step',
        first: 'RSS MiB after the first step',
        last: 'RSS MiB at the end',
        slope: 'MiB/min in the second half',
        loop: 'event loop p99 ms, worst step',
      },
      compared: 'rps',
      subjects: [],
      lessIsBetter: ['p99', 'first', 'last', 'slope', 'loop'],
      cells: [{ system: 'rowhouse', round: 0, ...cell }],
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}

const stepOf = (minutes: number): Window => ({ kind: 'seconds', seconds: (minutes * 60) / STEPS })

const READS = [byPk, list, nested, filter]

/** One step after another, and what the server says of itself after each. */
async function soak(bench: Bench, server: BenchServer, steps: number, window: Window): Promise<Measured> {
  const { size } = bench
  const posts = Array.from({ length: requestCount(size) }, (_, n) =>
    READS.map((read) => queryPost(read.request(n, size), byGateway)),
  ).flat()
  const [{ path, headers }] = posts as [ReturnType<typeof queryPost>]
  const bodies = posts.map(({ body }) => body)
  const seen: Step[] = []
  let failures = 0
  for (let step = 0; step < steps; step++) {
    bench.progress(`o: step ${step + 1} of ${steps}`)
    await loopDelay(server)
    const load = await runLoad({ port: server.port, path, headers, bodies, clients: CLIENTS, window })
    failures += load.failures
    const rss = readMemory(server.pid, 'VmRSS') ?? NaN
    const minutes = (seen.at(-1)?.minutes ?? 0) + load.seconds / 60
    seen.push({ minutes, rss, rps: load.rps, p99: load.p99, loop: await loopDelay(server) })
  }
  const most = (figure: 'p99' | 'loop') => Math.max(...seen.map((step) => step[figure]))
  const memory = {
    first: seen[0]?.rss ?? NaN,
    last: seen.at(-1)?.rss ?? NaN,
    slope: slopeOf(seen.slice(seen.length >> 1)),
  }
  return {
    figures: {
      rps: seen.reduce((sum, { rps }) => sum + rps, 0) / seen.length,
      p99: most('p99'),
      loop: most('loop'),
      ...Object.fromEntries(Object.entries(memory).filter(([, value]) => Number.isFinite(value))),
    },
    ...(failures > 0 ? { void: `${failures} requests failed` } : {}),
  }
}

interface Step {
  /** From the beginning to its end. */
  readonly minutes: number
  /** In MiB; NaN where nobody can tell. */
  readonly rss: number
  readonly rps: number
  readonly p99: number
  /** In ms. */
  readonly loop: number
}

/** The 99th percentile of the delay of its event loop in ms, since it was asked before. */
async function loopDelay({ port }: BenchServer): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`, { headers: byAdmin })).text()
  return Number(/^nodejs_eventloop_lag_p99_seconds\S* (\S+)/m.exec(metrics)?.[1]) * 1000
}

/** Least squares, MiB a minute; NaN of fewer than two steps. */
function slopeOf(steps: readonly Step[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [middle, level] = [mean(steps.map(({ minutes }) => minutes)), mean(steps.map(({ rss }) => rss))]
  const above = steps.reduce((sum, { minutes, rss }) => sum + (minutes - middle) * (rss - level), 0)
  return above / steps.reduce((sum, { minutes }) => sum + (minutes - middle) ** 2, 0)
}
