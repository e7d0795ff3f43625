import type { Bench } from './bench.js'
import { type Answer, answerOf, check } from './check.js'
import { readCpu } from './cpu.js'
import type { Size } from './data.js'
import { withClient } from './database.js'
import { runLoad, type Window } from './load/load.js'
import { pgbench, runPgbench } from './load/pgbench.js'
import { ASKED, HIDDEN, rowsOf } from './scenarios/postgraphile.js'
import { type LoadScenario, requestCount } from './scenarios/scenario.js'
import { interleave, type Job, type Measured, type Section } from './section.js'
import type { RunningPeer } from './servers.js'
import type { Child, Post } from './systems/child.js'
import { byPolicy, peerPost } from './systems/peer.js'
import { byGateway, byToken, compiledSql, queryPost, send } from './systems/server.js'

const COLUMNS = {
  rps: 'requests/s',
  p50: 'p50 ms',
  p99: 'p99 ms',
  server: 'server CPU µs/request',
  database: 'PostgreSQL CPU µs/request',
  load: 'load tool CPU µs/request',
}

/** More backends than this only get in each other's way on a small machine, so the limit is measured with it as well. */
const PGBENCH_CLIENTS = 16
const OWN = 'rowhouse'
const OWN_GRAPHQL = 'rowhouse GraphQL'
/** Runs before each window and is not counted. */
const LEAD_IN: Window = { kind: 'seconds', seconds: 1 }

/** Measures a read on servers that are warm. */
export async function measureLoad(scenario: LoadScenario, bench: Bench): Promise<Section> {
  const { size, url } = bench
  const { server, koa, peers } = await bench.servers()
  const count = requestCount(size)
  const doors = [
    ...ownDoors(scenario, size, server, await byToken()),
    ...peers.flatMap((peer) => peerDoors(scenario, size, peer)),
  ]
  const sql = await compiledSql(server.port, scenario.request(0, size))
  await withClient(url, (client) =>
    check(scenario, size, client, {
      ...Object.fromEntries(doors.map((door) => [door.system, answerThrough(door)])),
      'its SQL': answerOf(client, sql, scenario, size),
    }),
  )
  const { bytes } = await send(server.port, queryPost(scenario.request(0, size), byGateway))

  const over = (child: Child, post: Door['post']) =>
    measured(bench, child, async (window) => {
      const { path, headers } = post(0)
      const bodies = Array.from({ length: count }, (_, n) => post(n).body)
      const job = { port: child.port, path, headers, bodies, clients: scenario.clients, window }
      const { seconds, ...load } = await runLoad(bench.tool, job, bench.folder)
      return { ...load, rps: load.requests / seconds }
    })
  const limit = (clients: number) => ({
    system: `pgbench, ${clients} clients`,
    measure: measured(bench, undefined, (window) =>
      runPgbench({ url, sql, parameters: scenario.parameters(size), count, clients, window }, bench.folder),
    ),
  })
  const limits = [...new Set([scenario.clients, PGBENCH_CLIENTS])].map(limit)
  const least = (n: number) => ({ ...queryPost(scenario.request(n, size), {}), path: `/?bytes=${bytes}` })
  const jobs: Job[] = [
    ...doors.map(({ system, child, post }) => ({ system, measure: over(child, post) })),
    { system: 'koa', measure: over(koa, least) },
    ...(pgbench() === undefined ? [] : limits),
  ]
  return {
    id: scenario.id,
    title: `${scenario.title}, ${scenario.clients} clients, ${bytes} bytes`,
    columns: COLUMNS,
    compared: 'rps',
    subjects: [OWN, OWN_GRAPHQL],
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`${scenario.id}: ${text}`)),
    notMeasured: [...(pgbench() === undefined ? ['pgbench, which is not installed'] : []), ...bench.peers.notMeasured],
  }
}

/** One way to ask a server for what the scenario wants. */
interface Door {
  readonly system: string
  readonly child: Child
  /** The n-th request; all have the same path and headers. */
  post(n: number): Post
  /** The rows in its answer, as JSON text. */
  rows(answer: string): string
}

const answerThrough =
  ({ child, post, rows }: Door): Answer =>
  async (n) =>
    rows((await send(child.port, post(n))).text)

function ownDoors(
  scenario: LoadScenario,
  size: Size,
  child: Child,
  tokens: Readonly<Record<string, string>>,
): readonly Door[] {
  const rows = (answer: string) => answer
  return [
    { system: OWN, child, post: (n) => queryPost(scenario.request(n, size), byGateway), rows },
    {
      system: OWN_GRAPHQL,
      child,
      post: (n) => ({ ...queryPost(scenario.graphql(n, size), byGateway), path: '/v1/graphql' }),
      rows: (answer) => JSON.stringify((JSON.parse(answer) as { data: { root: unknown } }).data.root),
    },
    { system: 'rowhouse with tokens', child, post: (n) => queryPost(scenario.request(n, size), tokens), rows },
  ]
}

/** Without permissions, with documents that ask for permitted rows only; and with policies of the database. */
function peerDoors(scenario: LoadScenario, size: Size, { name, child }: RunningPeer): readonly Door[] {
  const rows = rowsOf
  return [
    { system: name, child, post: (n) => peerPost(scenario.postgraphile(n, size, ASKED), {}), rows },
    {
      system: `${name} with policies`,
      child,
      post: (n) => peerPost(scenario.postgraphile(n, size, HIDDEN), byPolicy),
      rows,
    },
  ]
}

export type Run = (window: Window) => Promise<{
  readonly requests: number
  readonly failures: number
  readonly rps?: number
  readonly p50?: number
  readonly p99?: number
  readonly rate?: number
  readonly delivered?: number
}>

/** One window after its lead-in, with the CPU time that it took. */
export function measured(bench: Bench, child: Child | undefined, run: Run): () => Promise<Measured> {
  return async () => {
    if (bench.window.kind === 'seconds') await run(LEAD_IN)
    const before = readCpu(child?.pid, bench.database.pid)
    const { failures, ...figures } = await run(bench.window)
    const after = readCpu(child?.pid, bench.database.pid)
    const { requests } = figures
    const each = (part: 'server' | 'database' | 'load') =>
      before && after && requests > 0 ? { [part]: ((after[part] - before[part]) * 1000) / requests } : {}
    return {
      figures: { ...figures, ...(child ? each('server') : {}), ...each('database'), ...each('load') },
      ...(failures > 0 ? { void: `${failures} requests failed, ${requests} did not` } : {}),
      ...(failures === 0 && requests === 0 ? { void: 'nothing was answered' } : {}),
    }
  }
}
