import { request as ask } from 'node:http'
import { once } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import type { Readable } from 'node:stream'
import type { Bench } from '../../bench.js'
import { readMemory } from '../../cpu.js'
import { FULL } from '../../data.js'
import { withClient } from '../../database.js'
import { interleave, type Job, type Measured, type Section } from '../../section.js'
import { type BenchServer, byGateway, queryPost, send, startServerChild } from '../../systems/server.js'
import { measureReads } from './reads.js'

const REQUESTS = 1000
const CLIENTS = 16
/** Rows that one owner has. */
const OWNED = 20
const FIELDS = ['id', 'owner', 'name']
const COLUMNS = {
  key: 'by key requests/s',
  keyServer: 'by key, server CPU µs',
  keyDatabase: 'by key, PostgreSQL CPU µs',
  list: 'list of 100 requests/s',
  listServer: 'list, server CPU µs',
  listDatabase: 'list, PostgreSQL CPU µs',
  filter: 'filter requests/s',
  filterServer: 'filter, server CPU µs',
  filterDatabase: 'filter, PostgreSQL CPU µs',
  rate: 'stream rows/s',
  peak: 'peak RSS of the stream MiB',
}

/** One table of 1,000 to a million rows, with `--full` of ten millions: by key, a list, a filter, and all rows as a stream. */
export async function measureRows(bench: Bench): Promise<Section> {
  const trial = bench.window.kind === 'requests'
  const sizes = trial ? [1000, 2000] : [1000, 10_000, 100_000, 1_000_000, ...(bench.size === FULL ? [10_000_000] : [])]
  const jobs: Job[] = []
  const servers: BenchServer[] = []
  try {
    for (const rows of sizes) {
      bench.progress(`rows: making ${rows} rows`)
      const url = await createRows(bench, rows)
      const server = await startServerChild(url)
      servers.push(server)
      await server.ask('replace_metadata', METADATA)
      await check(server.port, rows)
      jobs.push({ system: 'rowhouse', at: rows, measure: () => measure(bench, url, server, rows) })
    }
    return {
      id: 'rows',
      title: `rows of a table; a list of 100 by key, a filter for the ${OWNED} rows of an owner, ${CLIENTS} clients`,
      columns: COLUMNS,
      along: 'rows',
      compared: 'key',
      lessIsBetter: Object.keys(COLUMNS).filter((name) => /Server|Database|peak/.test(name)),
      targets: [{ system: 'rowhouse', figure: 'peak', most: 95 }],
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`rows: ${text}`)),
      notMeasured: [],
    }
  } finally {
    for (const server of servers) await server.stop()
  }
}

async function measure(bench: Bench, url: string, server: BenchServer, rows: number): Promise<Measured> {
  const figures: Record<string, number> = {}
  for (const [kind, request] of Object.entries(READS)) {
    const posts = Array.from({ length: REQUESTS }, (_, n) => queryPost(request(n, rows), byGateway))
    const read = await measureReads(bench, server, posts, CLIENTS)
    if (read.void !== undefined) return { figures, void: `${kind}: ${read.void}` }
    const { rps = 0, server: ours, database } = read.figures
    figures[kind] = rps
    if (ours !== undefined) figures[`${kind}Server`] = ours
    if (database !== undefined) figures[`${kind}Database`] = database
  }
  return stream(url, rows, figures)
}

/** The peak of a fresh server, for the stream alone. */
async function stream(url: string, rows: number, figures: Record<string, number>): Promise<Measured> {
  const server = await startServerChild(url)
  try {
    const began = performance.now()
    const lines = await readStream(server.port)
    const rate = lines / ((performance.now() - began) / 1000)
    const peak = readMemory(server.pid, 'VmHWM')
    return {
      figures: { ...figures, rate, peak },
      ...(lines === rows ? {} : { void: `${lines} rows came, not ${rows}` }),
    }
  } finally {
    await server.stop()
  }
}

async function readStream(port: number): Promise<number> {
  const query = { type: 'select', args: { table: 'thing', columns: FIELDS } }
  const { path, headers, body } = queryPost(query, { ...byGateway, accept: 'application/x-ndjson' })
  const asked = ask({ host: '127.0.0.1', port, path, method: 'POST', headers, agent: false }).end(body)
  const [answer] = (await once(asked, 'response')) as [Readable]
  let lines = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  return lines
}

/** Spread over the whole table. */
const placeOf = (n: number, rows: number): number => Math.floor((n / REQUESTS) * rows)

const select = (args: object): object => ({ type: 'select', args: { table: 'thing', columns: FIELDS, ...args } })
const READS = {
  key: (n: number, rows: number) => select({ where: { id: 1 + placeOf(n, rows) } }),
  list: (n: number, rows: number) =>
    select({ where: { id: { $gt: placeOf(n, rows - 100) } }, order_by: '+id', limit: 100 }),
  filter: (n: number, rows: number) =>
    select({ where: { owner: Math.floor(placeOf(n, rows) / OWNED) }, order_by: '+id', limit: OWNED }),
}

/** Rows of one owner lie apart: 7919 is a prime that divides no size. */
const ownerOf = (id: number, rows: number): number => Math.floor(((id * 7919) % rows) / OWNED)

async function createRows({ database }: Bench, rows: number): Promise<string> {
  const url = await database.create(`growth_rows_${rows}`)
  await withClient(url, async (client) => {
    await client.query(`
      create table thing (id int primary key, owner int not null, name text not null, hidden boolean not null);
      insert into thing
      select i, i::bigint * 7919 % ${rows} / ${OWNED}, 'Thing ' || md5(i::text), false from generate_series(1, ${rows}) i;
      create index on thing (owner);`)
    await client.query('vacuum analyze thing')
  })
  return url
}

const METADATA = {
  tables: [
    {
      table: 'thing',
      select_permissions: [{ role: 'user', permission: { columns: FIELDS, filter: { hidden: false } } }],
    },
  ],
  query_templates: [],
}

/** Compares ids with what the data was made to be. */
async function check(port: number, rows: number): Promise<void> {
  const n = REQUESTS >> 1
  const from = placeOf(n, rows - 100)
  const owner = Math.floor(placeOf(n, rows) / OWNED)
  const all = Array.from({ length: rows }, (_, i) => i + 1)
  const expected = {
    key: [1 + placeOf(n, rows)],
    list: Array.from({ length: 100 }, (_, i) => from + i + 1),
    filter: all.filter((id) => ownerOf(id, rows) === owner),
  }
  for (const [kind, request] of Object.entries(READS)) {
    const { text } = await send(port, queryPost(request(n, rows), byGateway))
    const ids = (JSON.parse(text) as { id: number }[]).map(({ id }) => id)
    if (isDeepStrictEqual(ids, expected[kind as keyof typeof READS])) continue
    throw new Error(`rows: ${kind} of ${rows} rows is answered with ${text.slice(0, 200)}`)
  }
}
