import type { Bench } from './bench.js'
import { type Answer, answerOf, check } from './check.js'
import { readCpu } from './cpu.js'
import { withClient } from './database.js'
import { CPU_COLUMNS, efficiencyTargets, withEfficiency } from './efficiency.js'
import { runLoad, type Window } from './load/load.js'
import { pgbench, runPgbench } from './load/pgbench.js'
import { type LoadScenario, requestCount } from './scenarios/scenario.js'
import { interleave, type Job, type Measured, type Section } from './section.js'
import type { Endpoint, Post } from './systems/child.js'
import type { RunningPeer, Way } from './systems/peer.js'
import { type BenchServer, byGateway, byToken, compiledSql, queryPost, send } from './systems/server.js'

const RATES = { rps: 'requests/s', p50: 'p50 ms', p99: 'p99 ms' }
/** Of requests over HTTP. */
export const REQUEST_COLUMNS = {
  ...RATES,
  server: 'server CPU µs/request',
  database: 'PostgreSQL CPU µs/request',
}
const COLUMNS = { ...CPU_COLUMNS, ...RATES }

/** More backends only get in each other's way on a small machine, so the limit is the best of these. */
const PGBENCH_CLIENTS = [1, 4, 16]
const BEST_OF_PGBENCH = `pgbench, best of ${PGBENCH_CLIENTS.join(', ')} clients`
export const LESS_IS_BETTER = ['cpu', 'p50', 'p99', 'server', 'database', 'load']

export const OWN = 'rowhouse'
/** For one answer before anything is timed. */
const MOST_MS = 60_000
/** The way to ask that hand-written servers are measured with. */
export const OWN_TOKENS = 'rowhouse with tokens'
const OWN_GRAPHQL = 'rowhouse GraphQL'

/** Measures a read on servers that are warm. */
export async function measureLoad(scenario: LoadScenario, bench: Bench): Promise<Section> {
  const { size, url } = bench
  const { server, koa, peers } = await bench.servers()
  const count = requestCount(size)
  const doors = [
    ...(await ownDoors(scenario, bench, server)),
    ...peers.flatMap((peer) => peerDoors(peer, peer.reads(scenario, size))),
    ...bench.peersByUrl.peers.map((peer) => peer.door(scenario, size)),
  ]
  const sql = await compiledSql(server.port, scenario.request(0, size))
  await withClient(url, (client) =>
    check(scenario, size, client, {
      ...Object.fromEntries(doors.map((door) => [door.system, answerThrough(door)])),
      'its SQL': answerOf(client, sql, scenario, size),
    }),
  )
  const { bytes } = await send(server.port, queryPost(scenario.request(0, size), byGateway))

  const over = (door: Door) => throughDoor(bench, door, { count, clients: scenario.clients })
  const limit = (clients: number) =>
    limited(bench, (window) =>
      runPgbench({ url, sql, parameters: scenario.parameters(size), count, clients, window }, bench.folder),
    )
  const least = (n: number) => ({ ...queryPost(scenario.request(n, size), {}), path: `/?bytes=${bytes}` })
  const jobs: Job[] = [
    ...doors.map((door) => ({ system: door.system, measure: over(door) })),
    { system: 'koa', measure: over({ system: 'koa', child: koa, post: least, rows: String }) },
    ...pgbenchJobs(bench, scenario.clients, limit),
  ]
  return {
    id: scenario.id,
    title: `${scenario.title}, ${scenario.clients} clients, ${bytes} bytes`,
    columns: COLUMNS,
    compared: 'cpu',
    lessIsBetter: LESS_IS_BETTER,
    subjects: [OWN, OWN_TOKENS],
    targets: efficiencyTargets(scenario.aims),
    cells: withEfficiency(await interleave(jobs, bench.rounds, (text) => bench.progress(`${scenario.id}: ${text}`)), {
      servers: doors.map(({ system }) => system),
      koa: 'koa',
      pgbench: pgbenchSystem(bench, scenario.clients),
    }),
    notMeasured: [
      ...(pgbench() === undefined ? ['pgbench, which is not installed'] : []),
      ...bench.peers.notMeasured,
      ...bench.peersByUrl.notMeasured,
    ],
  }
}

/** At its best; a quick run has time for one number of clients. */
export function pgbenchJobs(bench: Bench, clients: number, limit: (clients: number) => () => Promise<Measured>): Job[] {
  if (pgbench() === undefined) return []
  if (!bench.full) return [{ system: pgbenchSystem(bench, clients), measure: limit(few(clients)) }]
  return [bestOfPgbench(limit)]
}

/** The limit, as the cells of `pgbenchJobs` name it. */
export const pgbenchSystem = ({ full }: Bench, clients: number): string =>
  full ? BEST_OF_PGBENCH : pgbenchName(few(clients))

/** More backends than that are too many for a small machine, and for PostgreSQL's `max_connections`. */
export const few = (clients: number): number => Math.min(clients, Math.max(...PGBENCH_CLIENTS))

export const pgbenchName = (clients: number): string => `pgbench, ${clients} ${clients === 1 ? 'client' : 'clients'}`

/** pgbench with few clients and with more: the window in which it did the most. */
function bestOfPgbench(limit: (clients: number) => () => Promise<Measured>): Job {
  return {
    system: BEST_OF_PGBENCH,
    async measure() {
      const windows: Measured[] = []
      for (const clients of PGBENCH_CLIENTS) windows.push(await limit(clients)())
      const rps = ({ figures }: Measured) => figures['rps'] ?? 0
      return windows.reduce((best, window) => (rps(window) > rps(best) ? window : best))
    },
  }
}

/** One way to ask a server for what the scenario wants. */
export interface Door {
  readonly system: string
  readonly child: Endpoint
  /** The n-th request; all have the same method and headers. */
  post(n: number): Post
  /** The rows in its answer, as JSON text. */
  rows(answer: string): string
  /** Before each window. */
  settle?(): Promise<void>
}

export function peerDoors(peer: RunningPeer, ways: readonly Way[]): readonly Door[] {
  return ways.map(({ how, post, rows }) => ({
    system: `${peer.name}${how}`,
    get child() {
      return peer.child
    },
    post,
    rows,
    settle: () => peer.settle(),
  }))
}

/** Requests at least, and CPU times of two windows that are as good as equal, before a server is warm; or so long. */
const WARM_REQUESTS = 5_000
const WARM_ALIKE = 1.05
const WARM_MS = 20_000
/** CPU time of the server in a window: on a busy machine a second may hold little of it. */
const WINDOW_CPU_MS = 500
/** Requests of a window. */
const FEWEST = 64

/**
 * Windows of as many different requests as `count`, in turn. The first waits until the server is warm, and says how many requests
 * a window needs.
 */
export function throughDoor(
  bench: Bench,
  door: Door,
  { count, clients }: { readonly count: number; readonly clients: number },
): () => Promise<Measured> {
  let warm: number | undefined
  let { window } = bench
  return async () => {
    await door.settle?.()
    const { child } = door
    const run: Run = async (window) => {
      const posts = Array.from({ length: count }, (_, n) => door.post(n))
      const [{ path, headers, method = 'POST' }] = posts as [Post]
      const [paths, bodies] = [posts.map((post) => post.path), posts.map(({ body }) => body)]
      const { host, port } = child
      const job = {
        host,
        port,
        method,
        path,
        paths,
        headers,
        bodies,
        clients,
        window,
      }
      return runLoad(job)
    }
    // One that was started again is cold.
    if (warm !== child.pid && bench.window.kind === 'seconds') {
      bench.progress(`warming ${door.system}`)
      window = windowOf(bench.window, await warmUp(bench, child, run))
    }
    warm = child.pid
    return measured({ ...bench, window }, child, run)()
  }
}

/** Windows of a program that connects anew for each: so many requests that connecting is little beside them. */
export function limited(bench: Bench, run: Run): () => Promise<Measured> {
  let window: Window | undefined = bench.window.kind === 'seconds' ? undefined : bench.window
  return async () => {
    for (let requests = FEWEST; window === undefined && bench.window.kind === 'seconds';) {
      const tried: Window = { kind: 'requests', requests }
      const { figures } = await measured({ ...bench, window: tried }, undefined, run)()
      const least = bench.window.seconds * WINDOW_CPU_MS * 1000
      const spent = (figures['database'] ?? least) * requests
      if (spent >= least) window = tried
      else requests = Math.ceil(requests * Math.min(10, (1.2 * least) / spent))
    }
    return measured({ ...bench, window: window ?? bench.window }, undefined, run)()
  }
}

/** @param cpu µs for each request */
function windowOf(window: Window, cpu: number): Window {
  if (window.kind === 'requests' || cpu === 0) return window
  return { kind: 'requests', requests: Math.max(FEWEST, Math.ceil((window.seconds * WINDOW_CPU_MS * 1000) / cpu)) }
}

/**
 * What compiles code while it runs costs less and less: a window that is measured should not be one of these.
 * @returns µs of CPU for each request; 0 where it cannot be read
 */
async function warmUp(bench: Bench, child: Endpoint, run: Run): Promise<number> {
  const began = performance.now()
  let requests = 0
  let last = 0
  for (let alike = false; !(alike && requests >= WARM_REQUESTS) && performance.now() - began < WARM_MS;) {
    const { figures } = await measured({ ...bench, leadIn: undefined }, child, run)()
    const cpu = figures['server'] ?? 0
    requests += figures['requests'] ?? 0
    alike = Math.max(cpu, last) <= WARM_ALIKE * Math.min(cpu, last)
    last = cpu
  }
  return last
}

export const answerThrough =
  ({ child: { host, port }, post, rows }: Door, mostMs = MOST_MS): Answer =>
  async (n) => {
    const signal = AbortSignal.timeout(mostMs)
    return rows((await send(port, post(n), { host, signal })).text)
  }

async function ownDoors(
  scenario: LoadScenario,
  { size }: Bench,
  child: BenchServer,
): Promise<readonly [Door, ...Door[]]> {
  const query = (headers: Post['headers']) => (n: number) => queryPost(scenario.request(n, size), headers)
  const rows = (answer: string) => answer
  const graphql: Door = {
    system: OWN_GRAPHQL,
    child,
    post: (n) => ({ ...queryPost(scenario.graphql(n, size), byGateway), path: '/v1/graphql' }),
    rows: (answer) => JSON.stringify((JSON.parse(answer) as { data: { root: unknown } }).data.root),
  }
  return [
    { system: OWN, child, post: query(byGateway), rows },
    { system: OWN_TOKENS, child, post: query(await byToken()), rows },
    graphql,
  ]
}

export type Run = (window: Window) => Promise<{
  readonly requests: number
  readonly failures: number
  readonly [figure: string]: number | undefined
}>

/** One window after its lead-in, with the CPU time that it took. */
export function measured(bench: Bench, child: Endpoint | undefined, run: Run): () => Promise<Measured> {
  return async () => {
    // pgbench connects anew for each window: there is nothing that would stay warm.
    if (child !== undefined && bench.leadIn !== undefined) await run(bench.leadIn)
    const before = readCpu(child?.pid, bench.database.pid)
    const { failures, ...figures } = await run(bench.window)
    const after = readCpu(child?.pid, bench.database.pid)
    const { requests } = figures
    const each = (part: 'server' | 'database' | 'load') =>
      before && after && requests > 0 ? { [part]: ((after[part] - before[part]) * 1000) / requests } : {}
    return {
      figures: {
        ...figures,
        ...(child?.pid === undefined ? {} : each('server')),
        ...(child?.ownDatabase === true ? {} : each('database')),
        ...each('load'),
      },
      ...(failures > 0 ? { void: `${failures} requests failed, ${requests} did not` } : {}),
      ...(failures === 0 && requests === 0 ? { void: 'nothing was answered' } : {}),
    }
  }
}
