import { isDeepStrictEqual } from 'node:util'
import type { Bench } from './bench.js'
import { USER_ID } from './data.js'
import { withClient } from './database.js'
import { CPU_COLUMNS, efficiencyTargets, withEfficiency } from './efficiency.js'
import { pgbench, runPgbenchScript } from './load/pgbench.js'
import {
  type Door,
  few,
  LESS_IS_BETTER,
  OWN,
  OWN_TOKENS,
  limited,
  peerDoors,
  pgbenchJobs,
  pgbenchName,
  pgbenchSystem,
  throughDoor,
} from './load-rounds.js'
import {
  createNotePolicies,
  createNotes,
  insertOf,
  mutationOf,
  type Note,
  notesOf,
  permitNotes,
  type WriteScenario,
} from './scenarios/write.js'
import { interleave, type Job, type Measured, type Section } from './section.js'
import { startPeers } from './servers.js'
import { type Child, type Post, startChild } from './systems/child.js'
import type { RunningPeer } from './systems/peer.js'
import { PRODUCTS } from './systems/product.js'
import { byGateway, byToken, queryPost, send, startServerChild } from './systems/server.js'

const COLUMNS = { ...CPU_COLUMNS, rps: 'requests/s', rows: 'rows/s', p50: 'p50 ms', p99: 'p99 ms' }
const { efficiency: _, ...MANY_COLUMNS } = COLUMNS
const OWN_GRAPHQL = 'rowhouse GraphQL'
/** How long a peer may plan its first request. */
const FIRST_MS = 30_000
const NOT_WRITTEN = Object.values(PRODUCTS).map(
  ({ title }) => `${title}, which is asked by its URL, and only for reads`,
)
const ASYNCHRONOUS = ', synchronous_commit off'

/** Measures inserts: before each window the table is empty and PostgreSQL has written its checkpoint. */
export async function measureWrite(scenario: WriteScenario, bench: Bench): Promise<Section> {
  const url = await notesDatabase(bench, scenario.id)
  const children: Child[] = []
  let peers: readonly RunningPeer[] = []
  const tooSlow: string[] = []
  const started = async <T extends Child>(child: Promise<T>): Promise<T> => {
    children.push(await child)
    return child
  }
  try {
    const doors: { readonly door: Door; readonly url: string }[] = []
    const server = await started(startServerChild(url))
    await permitNotes(server.ask)
    doors.push(
      { door: queryDoor(OWN, server, scenario, byGateway), url },
      { door: queryDoor(OWN_TOKENS, server, scenario, await byToken()), url },
      { door: graphqlDoor(OWN_GRAPHQL, server, scenario), url },
    )
    const careless = await carelessUrl(url, scenario.id)
    if (bench.full) {
      const child = await started(startServerChild(careless))
      doors.push({ door: queryDoor(`${OWN}${ASYNCHRONOUS}`, child, scenario, byGateway), url })
    }
    peers = await startPeers(bench.peers, url)
    for (const peer of peers) {
      const able = await feasible(peerDoors(peer, peer.writes(scenario)), tooSlow)
      doors.push(...able.map((door) => ({ door, url })))
    }
    for (const { door, url: own } of doors) await check(door, scenario, own)
    const sql = await insertSql(server, scenario, url)
    const limit = (at: string, clients: number) =>
      limited(bench, async (window) => {
        const load = await runPgbenchScript({ url: at, clients, window, ...scriptOf(sql, scenario) }, bench.folder)
        return { ...load, rows: load.rps * scenario.rows }
      })
    const carelessLimit = {
      system: `${pgbenchName(few(scenario.clients))}${ASYNCHRONOUS}`,
      measure: emptied(careless, limit(careless, few(scenario.clients))),
    }
    const { aims } = scenario
    const koa = aims === undefined ? [] : [await koaDoor(server)]
    const jobs: Job[] = [
      ...doors.map(({ door, url: own }) => ({ system: door.system, measure: counted(own, over(door)) })),
      ...koa.map((door) => ({ system: door.system, measure: over(door) })),
      ...pgbenchJobs(bench, scenario.clients, (clients) => emptied(url, limit(url, clients))),
      ...(pgbench() === undefined || !bench.full ? [] : [carelessLimit]),
    ]
    return {
      id: scenario.id,
      title: `${scenario.title}, ${clientsOf(scenario)}`,
      columns: aims === undefined ? MANY_COLUMNS : COLUMNS,
      compared: 'cpu',
      lessIsBetter: LESS_IS_BETTER,
      subjects: [OWN, OWN_TOKENS],
      targets: aims === undefined ? [] : efficiencyTargets(aims),
      cells: withEfficiency(await interleave(jobs, bench.rounds, (text) => bench.progress(`${scenario.id}: ${text}`)), {
        servers: doors.map(({ door }) => door.system),
        koa: 'koa',
        pgbench: pgbenchSystem(bench, scenario.clients),
      }),
      notMeasured: [
        ...(pgbench() === undefined ? ['pgbench, which is not installed'] : []),
        ...tooSlow.map((system) => `${system}, whose first answer took longer than ${FIRST_MS / 1000} s`),
        ...bench.peers.notMeasured,
        ...NOT_WRITTEN,
      ],
    }
  } finally {
    await Promise.all([...children, ...peers].map((child) => child.stop()))
  }

  /** Bare Koa, which answers as many bytes and writes nothing. */
  async function koaDoor({ port }: Child): Promise<Door> {
    const child = await started(startChild('koa', {}, queryPost({}, {})))
    const { bytes } = await send(port, queryPost(insertOf(0, scenario), byGateway))
    const post = (n: number) => ({ ...queryPost(insertOf(n, scenario), {}), path: `/?bytes=${bytes}` })
    return { system: 'koa', child, post, rows: String }
  }

  function over(door: Door): () => Promise<Measured> {
    const measure = throughDoor(bench, door, scenario)
    return async () => {
      const cell = await measure()
      return { ...cell, figures: { ...cell.figures, rows: (cell.figures['rps'] ?? 0) * scenario.rows } }
    }
  }

  /** A window on an empty table, which holds at least the rows that were answered for afterwards. */
  function counted(at: string, measure: () => Promise<Measured>): () => Promise<Measured> {
    return emptied(at, async () => {
      const cell = await measure()
      const written = await rowCount(at)
      const answered = (cell.figures['requests'] ?? 0) * scenario.rows
      return written >= answered ? cell : { ...cell, void: `${answered} rows were answered for, ${written} are there` }
    })
  }
}

async function notesDatabase(bench: Bench, name: string): Promise<string> {
  const url = await bench.database.create(`notes_${name}`)
  await withClient(url, async (client) => {
    await createNotes(client)
    if (bench.peers.peers.length > 0) await createNotePolicies(client)
  })
  return url
}

/** Those that answer at all in time; the others are started again before anything else is asked of them. */
async function feasible(doors: readonly Door[], tooSlow: string[]): Promise<readonly Door[]> {
  const able: Door[] = []
  for (const door of doors) {
    try {
      await send(door.child.port, door.post(0), { signal: AbortSignal.timeout(FIRST_MS) })
      able.push(door)
    } catch (error) {
      if (!(error instanceof Error && error.name === 'TimeoutError')) throw error
      tooSlow.push(door.system)
      await door.settle?.()
    }
  }
  return able
}

const clientsOf = ({ clients }: WriteScenario): string => `${clients} ${clients === 1 ? 'client' : 'clients'}`

/** For a login whose commits do not wait for the disk. */
async function carelessUrl(databaseUrl: string, id: string): Promise<string> {
  const name = `careless_${id}`
  await withClient(databaseUrl, async (client) => {
    await client.query(`create role ${name} superuser login password '${name}'`)
    await client.query(`alter role ${name} set synchronous_commit = off`)
  })
  const url = new URL(databaseUrl)
  url.username = name
  url.password = name
  return url.href
}

const emptied = <T>(url: string, measure: () => Promise<T>) => {
  return async (): Promise<T> => {
    await empty(url)
    return measure()
  }
}

function empty(url: string): Promise<void> {
  return withClient(url, async (client) => {
    await client.query('truncate note restart identity')
    await client.query('checkpoint')
  })
}

async function rowCount(url: string): Promise<number> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ n: number }>('select count(*)::int as n from note')
    return rows[0]?.n ?? 0
  })
}

function queryDoor(system: string, child: Child, scenario: WriteScenario, headers: Post['headers']): Door {
  const post = (n: number) => queryPost(insertOf(n, scenario), headers)
  return { system, child, post, rows: (answer) => JSON.stringify((JSON.parse(answer) as Returned).returning) }
}

function graphqlDoor(system: string, child: Child, scenario: WriteScenario): Door {
  const post = (n: number) => ({ ...queryPost(mutationOf(n, scenario), byGateway), path: '/v1/graphql' })
  const rows = (answer: string) =>
    JSON.stringify((JSON.parse(answer) as { data: { root: Returned } }).data.root.returning)
  return { system, child, post, rows }
}

interface Returned {
  readonly returning: unknown
}

/**
 * The rows that are answered and those in the table are those that were sent.
 * @throws Error that names the system and the request
 */
async function check({ system, child, post, rows }: Door, scenario: WriteScenario, url: string): Promise<void> {
  for (const n of [0, scenario.count - 1]) {
    await empty(url)
    const { text } = await send(child.port, post(n))
    const expected = notesOf(n, scenario).map((note, i) => ({ id: i + 1, ...note }))
    const stored = await withClient(url, (client) =>
      client.query<Note & { id: number }>(
        `select id, article_id, body from note where user_id = ${USER_ID} order by id`,
      ),
    )
    if (isDeepStrictEqual(JSON.parse(rows(text)), expected) && isDeepStrictEqual(stored.rows, expected)) continue
    throw new Error(
      `scenario ${scenario.id}: ${system} answers request ${n} with ${text.slice(0, 200)}, ` +
        `and has written ${JSON.stringify(stored.rows).slice(0, 200)}`,
    )
  }
}

/** The statement that an insert is compiled to, as PostgreSQL shows it: the last one of its connection. */
async function insertSql(server: Child, scenario: WriteScenario, url: string, tries = 20): Promise<string> {
  await send(server.port, queryPost(insertOf(0, scenario), byGateway))
  const { rows } = await withClient(url, (client) =>
    client.query<{ query: string; whole: boolean }>(
      `select query, octet_length(query) < pg_size_bytes(current_setting('track_activity_query_size')) - 1 as whole
       from pg_stat_activity
       where datname = current_database() and query like 'with w as (insert into%'
       order by query_start desc`,
    ),
  )
  if (rows[0]?.whole) return rows[0].query
  // Another statement of the same connection may have hidden it.
  if (tries > 1) return insertSql(server, scenario, url, tries - 1)
  throw new Error(`scenario ${scenario.id}: PostgreSQL does not show the whole statement`)
}

/**
 * The statement with its parameters: who writes, and the rows as JSON. One row is put together from a number, so that
 * writers do not share an article; many are read once by each client, and sent each time.
 */
function scriptOf(
  sql: string,
  scenario: WriteScenario,
): { readonly script: string; readonly defined: readonly string[] } {
  const rows = notesOf(0, scenario)
  const user = `\\set user ${USER_ID}`
  const rowsNumber = /\$(\d+)::json\b/.exec(sql)?.[1]
  const statement = (json: string) =>
    `${sql.replaceAll(/\$(\d+)/g, (_, number) => (number === rowsNumber ? json : ':user'))};`
  if (rows.length === 1) {
    const text = JSON.stringify([{ ...rows[0], article_id: 0 }]).replace('"article_id":0', '"article_id":%s')
    const lines = [user, `\\set n random(1, ${scenario.count})`, statement(`format('${text}', :n::int)`), '']
    return { script: lines.join('\n'), defined: [] }
  }
  const script = [
    user,
    '\\if :first',
    `select array_to_json(array(select json_build_object('article_id', i, 'body', '${rows[0]?.body}')`,
    `from generate_series(1, ${rows.length}) i)) as rows \\gset`,
    '\\set first 0',
    '\\endif',
    statement(':rows'),
    '',
  ].join('\n')
  return { script, defined: ['first=1'] }
}
