import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from '../../bench.js'
import { readCpu } from '../../cpu.js'
import { withClient } from '../../database.js'
import { runLoad } from '../../load/load.js'
import { interleave, type Job, type Measured, type Section } from '../../section.js'
import { type BenchServer, byAdmin, byGateway, queryPost, send, startServerChild } from '../../systems/server.js'
import { byPk } from '../by-pk.js'
import { requestCount } from '../scenario.js'

/** Of all instances together. */
const CLIENTS = 48
const MOST = 3
const SEEN_MS = 30_000
const POLL_MS = 2
const TABLE = 'noticed'

/** One to three servers on one database, asked at the same time. */
export async function measureInstances(bench: Bench): Promise<Section> {
  const servers: BenchServer[] = []
  try {
    await withClient(bench.url, (client) => client.query(`create table if not exists ${TABLE} (id int primary key)`))
    for (let n = 0; n < MOST; n++) servers.push(await startServerChild(bench.url))
    const jobs = servers.map((_, i): Job => {
      return { system: 'rowhouse', at: i + 1, measure: () => measure(bench, servers.slice(0, i + 1)) }
    })
    return {
      id: 'instances',
      title: `instances on one database, one row by primary key, ${CLIENTS} clients in all`,
      columns: {
        rps: 'requests/s',
        p99: 'p99 ms of the slowest',
        server: 'CPU of all servers µs/request',
        database: 'PostgreSQL CPU µs/request',
        seen: 'metadata change seen by all after ms',
      },
      along: 'instances',
      compared: 'rps',
      lessIsBetter: ['p99', 'server', 'database', 'seen'],
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`instances: ${text}`)),
      notMeasured: [],
    }
  } finally {
    for (const server of servers) await server.stop()
    await withClient(bench.url, (client) => client.query(`drop table if exists ${TABLE}`))
  }
}

async function measure(bench: Bench, servers: readonly BenchServer[]): Promise<Measured> {
  const { size, window } = bench
  const bodies = Array.from({ length: requestCount(size) }, (_, n) => JSON.stringify(byPk.request(n, size)))
  const { path, headers } = queryPost({}, byGateway)
  const clients = Math.floor(CLIENTS / servers.length)
  const load = () => Promise.all(servers.map(({ port }) => runLoad({ port, path, headers, bodies, clients, window })))
  const cpu = () => servers.map(({ pid }) => readCpu(pid, bench.database.pid))
  if (window.kind === 'seconds') await load()
  const before = cpu()
  const loads = await load()
  const after = cpu()
  const requests = loads.reduce((sum, each) => sum + each.requests, 0)
  const failures = loads.reduce((sum, each) => sum + each.failures, 0)
  const spent = (part: 'server' | 'database', i: number) => (after[i]?.[part] ?? NaN) - (before[i]?.[part] ?? NaN)
  const server = servers.reduce((sum, _, i) => sum + spent('server', i), 0)
  const each = (figure: string, ms: number) => (Number.isNaN(ms) ? {} : { [figure]: (ms * 1000) / requests })
  return {
    figures: {
      rps: loads.reduce((sum, each) => sum + each.rps, 0),
      p99: Math.max(...loads.map(({ p99 }) => p99)),
      ...each('server', server),
      ...each('database', spent('database', 0)),
      seen: await seenByAll(servers),
    },
    ...(failures > 0 ? { void: `${failures} requests failed, ${requests} did not` } : {}),
  }
}

/** From the answer of the first server to a change, until each can be asked for what is new. */
async function seenByAll([first, ...others]: readonly BenchServer[]): Promise<number> {
  if (!first) throw new Error('instances: none')
  await first.ask('track_table', TABLE)
  const began = performance.now()
  const post = queryPost({ type: 'select', args: { table: TABLE, columns: ['id'] } }, byAdmin)
  await Promise.all([first, ...others].map(({ port }) => until(() => answers(port, post))))
  const seen = performance.now() - began
  await first.ask('untrack_table', { table: TABLE })
  await Promise.all([first, ...others].map(({ port }) => until(async () => !(await answers(port, post)))))
  return seen
}

const answers = (port: number, post: Parameters<typeof send>[1]): Promise<boolean> =>
  send(port, post).then(
    () => true,
    () => false,
  )

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const began = performance.now(); !(await holds()); await sleep(POLL_MS)) {
    if (performance.now() - began > SEEN_MS) throw new Error(`instances: no change was seen within ${SEEN_MS} ms`)
  }
}
