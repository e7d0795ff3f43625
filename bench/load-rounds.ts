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
import type { RunningBuild, RunningPeer } from './servers.js'
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

const LESS = ['p50', 'p99', 'server', 'database', 'load']

/** More backends only get in each other's way on a small machine; the limit is the best of these. */
const PGBENCH_CLIENTS = [1, 4, 16]
const OWN = 'rowhouse'
const OWN_GRAPHQL = 'rowhouse GraphQL'

/** Measures a read on servers that are warm. */
export async function measureLoad(scenario: LoadScenario, bench: Bench): Promise<Section> {
  const { size, url } = bench
  const { server, builds, koa, peers } = await bench.servers()
  const count = requestCount(size)
  const doors = [
    ...(await Promise.all(builds.map((build) => ownDoors(scenario, bench, build)))).flat(),
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
  const fewer = PGBENCH_CLIENTS.filter((clients) => clients <= scenario.clients)
  const limits = pgbench() === undefined ? [] : (bench.full ? fewer : fewer.slice(-1)).map(limit)
  const least = (n: number) => ({ ...queryPost(scenario.request(n, size), {}), path: `/?bytes=${bytes}` })
  const jobs: Job[] = [
    ...doors.map(({ system, child, post }) => ({ system, measure: over(child, post) })),
    ...(bench.comparing ? [] : [{ system: 'koa', measure: over(koa, least) }, ...limits]),
  ]
  return {
    id: scenario.id,
    title: `${scenario.title}, ${scenario.clients} clients, ${bytes} bytes`,
    columns: COLUMNS,
    compared: 'rps',
    lessIsBetter: LESS,
    subjects: [OWN, OWN_GRAPHQL],
    ...(scenario.targets === undefined ? {} : { targets: scenario.targets }),
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

async function ownDoors(
  scenario: LoadScenario,
  { size, full }: Bench,
  { server: child, suffix, folder }: RunningBuild,
): Promise<readonly Door[]> {
  const query = (headers: Post['headers']) => (n: number) => queryPost(scenario.request(n, size), headers)
  const rows = (answer: string) => answer
  const own: Door = { system: `${OWN}${suffix}`, child, post: query(byGateway), rows }
  // A second one of this build is there for this only.
  if (suffix !== '' && folder === undefined) return [own]
  const graphql: Door = {
    system: `${OWN_GRAPHQL}${suffix}`,
    child,
    post: (n) => ({ ...queryPost(scenario.graphql(n, size), byGateway), path: '/v1/graphql' }),
    rows: (answer) => JSON.stringify((JSON.parse(answer) as { data: { root: unknown } }).data.root),
  }
  const tokens: Door = { system: 'rowhouse with tokens', child, post: query(await byToken()), rows }
  return [own, graphql, ...(full && suffix === '' ? [tokens] : [])]
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
    // pgbench connects anew for each window: there is nothing that would stay warm.
    if (child !== undefined && bench.window.kind === 'seconds') await run(bench.leadIn)
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
