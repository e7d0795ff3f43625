import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from '../bench.js'
import { withClient } from '../database.js'
import { runLoad } from '../load/load.js'
import { LESS_IS_BETTER, measured } from '../load-rounds.js'
import { interleave, type Job, type Measured, type Section } from '../section.js'
import { type BenchServer, byGateway, NOTHING_MUCH, queryPost, send, startServerChild } from '../systems/server.js'

const CLIENTS = 16
const ROWS = 1000
const SLOW_SECONDS = 0.65
/** A short query that takes this long has waited for the slow one. */
const LATE_MS = 300
/** Per cent: the 99th percentile is below that. */
const MOST_LATE = 1
const BEGUN_MS = 10_000

/** A row, whose number 0 takes its time. */
const shortQuery = (id: number): object => ({
  type: 'select',
  args: { table: 'item', columns: ['id', 'name', 'slept'], where: { id } },
})
/** What the neighbour asks: another form, which is always slow; or the same form with a value that is. */
const NEIGHBOURS = {
  'a slow query': { type: 'select', args: { table: 'nap', columns: ['slept'] } },
  'a slow value of the same query': shortQuery(0),
}

/** Short queries beside a client that has one slow query after another under way, all by `/v1/query`. */
export async function measureHeadOfLine(bench: Bench): Promise<Section> {
  const url = await bench.database.create('head_of_line')
  await withClient(url, (client) =>
    client.query(`
      create table thing (id int primary key, name text not null);
      insert into thing select i, 'Thing ' || i from generate_series(0, ${ROWS}) i;
      create view item as
        select id, name, case when id = 0 then pg_sleep(${SLOW_SECONDS})::text end as slept from thing;
      create view nap as select 1 as id, pg_sleep(${SLOW_SECONDS})::text as slept;
    `),
  )
  const server = await startServerChild(url, NOTHING_MUCH)
  try {
    await server.ask('replace_metadata', {
      tables: [
        { table: 'item', select_permissions: [{ role: 'user', permission: { columns: '*', filter: {} } }] },
        { table: 'nap', select_permissions: [{ role: 'user', permission: { columns: '*', filter: {} } }] },
      ],
      query_templates: [],
    })
    await check(server)
    const beside = Object.entries(NEIGHBOURS).map(([name, query]) => {
      return { system: `rowhouse beside ${name}`, measure: measure(bench, server, url, query) }
    })
    const jobs: Job[] = [{ system: 'rowhouse', measure: measure(bench, server, url) }, ...beside]
    return {
      id: 'j',
      title: `one row by key, ${CLIENTS} clients, beside a client with queries of ${SLOW_SECONDS * 1000} ms`,
      columns: {
        rps: 'requests/s',
        p50: 'p50 ms',
        p99: 'p99 ms',
        late: `% over ${LATE_MS} ms`,
        slow: 'slow queries',
        server: 'server CPU µs/request',
        database: 'PostgreSQL CPU µs/request',
      },
      compared: 'p99',
      lessIsBetter: [...LESS_IS_BETTER, 'late'],
      targets: beside.map(({ system }) => ({ system, figure: 'late', most: MOST_LATE })),
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`j: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}

async function check(server: BenchServer): Promise<void> {
  const { text } = await send(server.port, queryPost(shortQuery(7), byGateway))
  if (text !== '[{"id":7,"name":"Thing 7","slept":null}]') throw new Error(`j: a short query is answered ${text}`)
}

/** A window of short queries, which begins when the first slow one does. */
function measure(bench: Bench, server: BenchServer, url: string, slow?: object): () => Promise<Measured> {
  return measured(bench, server, async (window) => {
    const neighbour = slow && startNeighbour(server, slow)
    try {
      if (neighbour) await begun(url, neighbour)
      const short = Array.from({ length: ROWS }, (_, n) => queryPost(shortQuery(n + 1), byGateway))
      const [{ path, headers }] = short as [ReturnType<typeof queryPost>]
      const bodies = short.map(({ body }) => body)
      const job = { port: server.port, path, headers, bodies, clients: CLIENTS, window, lateMs: LATE_MS }
      const { late = 0, ...load } = await runLoad(job)
      const slowOnes = neighbour ? { slow: await neighbour.stop() } : {}
      return { ...load, late: (late / load.requests) * 100, ...slowOnes }
    } finally {
      await neighbour?.stop()
    }
  })
}

interface Neighbour {
  /** Waits until its last query is answered. @returns how many were */
  stop(): Promise<number>
}

/** @throws Error from `stop`, when a query was not answered */
function startNeighbour(server: BenchServer, query: object): Neighbour {
  let stopped = false
  const going = (async () => {
    let answered = 0
    for (; !stopped; answered++) await send(server.port, queryPost(query, byGateway))
    return answered
  })()
  // Whoever stops it is told.
  going.catch(() => {})
  return {
    stop() {
      stopped = true
      return going
    },
  }
}

/** Waits until PostgreSQL works on a slow query. */
async function begun(url: string, neighbour: Neighbour): Promise<void> {
  await withClient(url, async (client) => {
    for (const start = performance.now(); performance.now() - start < BEGUN_MS; await sleep(5)) {
      const { rows } = await client.query<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity
         where datname = current_database() and wait_event = 'PgSleep'`,
      )
      if ((rows[0]?.n ?? 0) > 0) return
    }
    await neighbour.stop()
    throw new Error('j: the slow query does not begin')
  })
}
