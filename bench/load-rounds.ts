import type { Bench } from './bench.js'
import { answerOf, check } from './check.js'
import { readCpu } from './cpu.js'
import { withClient } from './database.js'
import { runLoad, type Window } from './load/load.js'
import { pgbench, runPgbench } from './load/pgbench.js'
import { type LoadScenario, requestCount } from './scenarios/scenario.js'
import { type Cell, interleave, type Job, type Section } from './section.js'
import { type Child, startChild } from './systems/child.js'
import { byGateway, byToken, compiledSql, queryPost, send, startServerChild } from './systems/server.js'

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
const GRAPHQL = '/v1/graphql'
/** Runs before each window and is not counted. */
const LEAD_IN: Window = { kind: 'seconds', seconds: 1 }

/** Measures scenarios on servers that are started once and warm. */
export async function measureLoads(scenarios: readonly LoadScenario[], bench: Bench): Promise<Section[]> {
  const server = await startServerChild(bench.url)
  const koa = await startChild('koa', {}, queryPost({}, {}))
  try {
    const sections: Section[] = []
    for (const scenario of scenarios) sections.push(await measureLoad(scenario, bench, { server, koa }))
    return sections
  } finally {
    await Promise.all([server.stop(), koa.stop()])
  }
}

async function measureLoad(
  scenario: LoadScenario,
  bench: Bench,
  { server, koa }: { readonly server: Child; readonly koa: Child },
): Promise<Section> {
  const { size, url } = bench
  const count = requestCount(size)
  const queries = Array.from({ length: count }, (_, n) => scenario.request(n, size))
  const documents = Array.from({ length: count }, (_, n) => scenario.graphql(n, size))
  const tokens = await byToken()
  const sql = await compiledSql(server.port, queries[0])
  const asked = (headers: Readonly<Record<string, string>>) => async (n: number) =>
    (await send(server.port, queryPost(queries[n], headers))).text
  await withClient(url, (client) =>
    check(scenario, size, client, {
      rowhouse: asked(byGateway),
      'rowhouse with tokens': asked(tokens),
      'rowhouse GraphQL': async (n) => {
        const { text } = await send(server.port, { ...queryPost(documents[n], byGateway), path: GRAPHQL })
        return JSON.stringify((JSON.parse(text) as { data: { root: unknown } }).data.root)
      },
      'its SQL': answerOf(client, sql, scenario, size),
    }),
  )
  const { bytes } = await send(server.port, queryPost(queries[0], byGateway))

  const over = (child: Child, path: string, headers: Readonly<Record<string, string>>) => (window: Window) => {
    const bodies = (path === GRAPHQL ? documents : queries).map((query) => JSON.stringify(query))
    const sent = { 'content-type': 'application/json', ...headers }
    return runLoad(
      bench.tool,
      { port: child.port, path, headers: sent, bodies, clients: scenario.clients, window },
      bench.folder,
    ).then(({ seconds, ...load }) => ({ ...load, rps: load.requests / seconds }))
  }
  const limit = (clients: number) => ({
    system: `pgbench, ${clients} clients`,
    measure: measured(bench, undefined, (window) =>
      runPgbench({ url, sql, parameters: scenario.parameters(size), count, clients, window }, bench.folder),
    ),
  })
  const limits = [...new Set([scenario.clients, PGBENCH_CLIENTS])].map(limit)
  const jobs: Job[] = [
    { system: 'rowhouse', measure: measured(bench, server, over(server, '/v1/query', byGateway)) },
    { system: 'rowhouse GraphQL', measure: measured(bench, server, over(server, GRAPHQL, byGateway)) },
    { system: 'rowhouse with tokens', measure: measured(bench, server, over(server, '/v1/query', tokens)) },
    { system: 'koa', measure: measured(bench, koa, over(koa, `/?bytes=${bytes}`, {})) },
    ...(pgbench() === undefined ? [] : limits),
  ]
  return {
    id: scenario.id,
    title: `${scenario.title}, ${scenario.clients} clients, ${bytes} bytes`,
    columns: COLUMNS,
    compared: 'rps',
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`${scenario.id}: ${text}`)),
    notMeasured: pgbench() === undefined ? ['pgbench, which is not installed'] : [],
  }
}

type Run = (window: Window) => Promise<{
  readonly requests: number
  readonly failures: number
  readonly rps: number
  readonly p50?: number
  readonly p99?: number
}>

/** One window after its lead-in, with the CPU time that it took. */
function measured(bench: Bench, child: Child | undefined, run: Run): () => Promise<Omit<Cell, 'system' | 'round'>> {
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
