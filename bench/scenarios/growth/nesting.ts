import { isDeepStrictEqual } from 'node:util'
import type { Bench } from '../../bench.js'
import { withClient } from '../../database.js'
import { interleave, type Job, type Section } from '../../section.js'
import { byGateway, queryPost, send, startServerChild, NOTHING_MUCH } from '../../systems/server.js'
import { measureReads } from './reads.js'

const DEPTH = 6
/** Rows below each row. */
const FAN = 2
const ROOTS = 100
const CLIENTS = 16
const LESS = ['p50', 'p99', 'server', 'database', 'each']

/** Rows with rows below them, from none to five deep: every level has twice as many as the one above. */
export async function measureNesting(bench: Bench): Promise<Section> {
  const url = await bench.database.create('growth_nesting')
  await withClient(url, (client) => client.query(levels.map(createLevel).join(';')))
  // Lists without a limit, five deep, are more than a role may ask for by default.
  const server = await startServerChild(url, NOTHING_MUCH, { env: { ROWHOUSE_LIMITS__PRICE: '0' } })
  try {
    await server.ask('replace_metadata', { tables: levels.map(track), query_templates: [] })
    const posts = (depth: number) =>
      Array.from({ length: ROOTS }, (_, n) => queryPost(request(depth, n + 1), byGateway))
    const jobs: Job[] = []
    for (const depth of levels) {
      await check(server.port, depth)
      const rows = FAN ** depth - 1
      jobs.push({
        system: 'rowhouse',
        at: depth,
        async measure() {
          const { figures, ...rest } = await measureReads(bench, server, posts(depth), CLIENTS)
          const { server: cpu, database } = figures
          const each: { each?: number } =
            cpu === undefined || database === undefined ? {} : { each: (cpu + database) / rows }
          return { figures: { ...figures, rows, ...each }, ...rest }
        },
      })
    }
    return {
      id: 'nesting',
      title: `levels of nesting, ${FAN} rows below each, ${CLIENTS} clients`,
      columns: {
        rows: 'rows',
        rps: 'requests/s',
        p50: 'p50 ms',
        p99: 'p99 ms',
        server: 'server CPU µs/request',
        database: 'PostgreSQL CPU µs/request',
        each: 'CPU of both µs/row',
      },
      along: 'levels',
      compared: 'rps',
      lessIsBetter: LESS,
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`nesting: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}

const levels = Array.from({ length: DEPTH }, (_, i) => i + 1)

const createLevel = (level: number): string => `
  create table level${level} (id int primary key, name text not null, up int not null);
  insert into level${level}
  select i, 'row ' || i, (i - 1) / ${FAN} + 1 from generate_series(1, ${ROOTS * FAN ** (level - 1)}) i;
  create index on level${level} (up);
  analyze level${level}`

const track = (level: number): object => ({
  table: `level${level}`,
  array_relationships:
    level === DEPTH
      ? []
      : [
          {
            name: 'below',
            using: { manual_configuration: { remote_table: `level${level + 1}`, column_mapping: { id: 'up' } } },
          },
        ],
  select_permissions: [{ role: 'user', permission: { columns: ['id', 'name', 'up'], filter: { id: { $gt: 0 } } } }],
})

function request(depth: number, id: number): object {
  const columns = (left: number): unknown[] =>
    left === 1 ? ['id', 'name'] : ['id', 'name', { name: 'below', columns: columns(left - 1), order_by: '+id' }]
  return { type: 'select', args: { table: 'level1', columns: columns(depth), where: { id } } }
}

/** Compares an answer with what the data was made to be. */
async function check(port: number, depth: number): Promise<void> {
  const row = (id: number, left: number): object => ({
    id,
    name: `row ${id}`,
    ...(left === 1 ? {} : { below: Array.from({ length: FAN }, (_, i) => row((id - 1) * FAN + i + 1, left - 1)) }),
  })
  const { text } = await send(port, queryPost(request(depth, ROOTS), byGateway))
  if (!isDeepStrictEqual(JSON.parse(text), [row(ROOTS, depth)])) {
    throw new Error(`nesting: ${depth} levels are answered with ${text.slice(0, 200)}`)
  }
}
