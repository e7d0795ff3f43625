import type { Bench } from '../../bench.js'
import { answerOf, check } from '../../check.js'
import { withClient } from '../../database.js'
import { measured } from '../../load-rounds.js'
import { pgbench, runPgbench } from '../../load/pgbench.js'
import { interleave, type Job, type Section } from '../../section.js'
import { byGateway, compiledSql, queryPost, send } from '../../systems/server.js'
import { byPk } from '../by-pk.js'
import { requestCount } from '../scenario.js'
import { measureReads } from './reads.js'

/** PostgreSQL takes 100 connections, and the server has some. */
const MOST_PGBENCH = 64

/** One row by primary key, asked by 1 to 256 clients at once. */
export async function measureClients(bench: Bench): Promise<Section> {
  const { size, url, folder } = bench
  const { server, koa } = await bench.servers()
  const count = requestCount(size)
  const sql = await compiledSql(server.port, byPk.request(0, size))
  const posts = Array.from({ length: count }, (_, n) => queryPost(byPk.request(n, size), byGateway))
  await withClient(url, (client) =>
    check(byPk, size, client, {
      rowhouse: async (n) => (await send(server.port, queryPost(byPk.request(n, size), byGateway))).text,
      'its SQL': answerOf(client, sql, byPk, size),
    }),
  )
  const { bytes } = await send(server.port, queryPost(byPk.request(0, size), byGateway))
  const least = posts.map(({ body }) => ({ ...queryPost({}, {}), body, path: `/?bytes=${bytes}` }))
  const jobs: Job[] = []
  for (const clients of bench.window.kind === 'requests' ? [1, 4] : [1, 4, 16, 64, 256]) {
    jobs.push({ system: 'rowhouse', at: clients, measure: () => measureReads(bench, server, posts, clients) })
    jobs.push({ system: 'koa', at: clients, measure: () => measureReads(bench, koa, least, clients) })
    if (pgbench() === undefined || clients > MOST_PGBENCH) continue
    const job = { url, sql, parameters: byPk.parameters(size), count, clients }
    const measure = measured(bench, undefined, (window) => runPgbench({ ...job, window }, folder))
    jobs.push({ system: 'pgbench', at: clients, measure })
  }
  return {
    id: 'clients',
    title: `clients that ask for one row by primary key, ${bytes} bytes`,
    columns: {
      rps: 'requests/s',
      p50: 'p50 ms',
      p99: 'p99 ms',
      server: 'server CPU µs/request',
      database: 'PostgreSQL CPU µs/request',
    },
    along: 'clients',
    compared: 'rps',
    lessIsBetter: ['p50', 'p99', 'server', 'database'],
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`clients: ${text}`)),
    notMeasured: [
      pgbench() === undefined
        ? 'pgbench, which is not installed'
        : `pgbench with more than ${MOST_PGBENCH} clients, which would need as many connections`,
    ],
  }
}
