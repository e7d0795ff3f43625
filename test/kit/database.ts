import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { spawnThrowaway, TEST_DATABASE_URL } from './cluster.js'
import { patience } from './patience.js'

/** A tap test, which drops its database at its end. */
interface Owner {
  teardown(fn: () => Promise<void>): unknown
}

/** Names a database of the cluster that has all migrations; see `createTemplate`. Without it, each server migrates its own. */
export const TEST_TEMPLATE = 'ROWHOUSE_TEST_TEMPLATE'

/**
 * Creates an empty database with a name of its own, text sorted by code point, on the cluster that
 * `ROWHOUSE_TEST_DATABASE_URL` names, or on a throwaway one for this process.
 * @param t a tap test: the database is dropped at its end
 * @returns a superuser URL; `drop` disconnects whoever is left
 */
export async function freshDatabase(t?: Owner): Promise<{ url: string; drop(): Promise<void> }> {
  const { url, drop } = await createDatabase(await clusterUrl())
  t?.teardown(drop)
  return { url, drop }
}

/** Creates a database for a server: a copy of the template if there is one, otherwise an empty one. */
export async function databaseForServer(t?: Owner): Promise<{ url: string; drop(): Promise<void> }> {
  const { url, drop } = await createDatabase(await clusterUrl(), process.env[TEST_TEMPLATE])
  t?.teardown(drop)
  return { url, drop }
}

/**
 * Creates a database on a cluster: a copy, or an empty one.
 * @returns `seal` refuses connections from now on, because a template may have none
 */
export async function createDatabase(server: string, template?: string) {
  const name = `t_${process.pid}_${randomBytes(4).toString('hex')}`
  const run = (sql: string) => maintain(server, sql)
  const [row] = await run(`select current_setting('server_version_num') as version`)
  const version = Number(row?.['version'])
  const from = template ?? `template0 encoding 'UTF8' ${collation(version)}`
  await run(`create database ${name} template ${from} ${strategy(version)}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    name,
    url: url.href,
    drop: async () => void (await run(`drop database if exists ${name} with (force)`)),
    seal: async () => void (await run(`alter database ${name} allow_connections false`)),
  }
}

/**
 * Copying files is faster than `wal_log`, the default since PostgreSQL 15. To create and drop a database, four at a time,
 * takes 0.16 s each instead of 0.45 s in memory, and 0.18 s instead of 0.51 s on a disk (PostgreSQL 18.4 without fsync, two
 * busy cores). Older versions always copy files.
 */
const strategy = (version: number): string => (version >= 150000 ? 'strategy file_copy' : '')

function collation(version: number): string {
  return version >= 170000
    ? `locale_provider builtin builtin_locale 'C.UTF-8' locale 'C'`
    : `lc_collate 'C' lc_ctype 'C.UTF-8'`
}

/** Connections for statements about databases. A connection costs more than such a statement, so a process keeps one. */
const kept = new Map<string, { readonly client: Keepable; readonly opened: Promise<unknown>; waiting: number }>()
/** `ref` and `unref` are missing in the types. */
type Keepable = pg.Client & { ref(): void; unref(): void }

async function maintain(server: string, sql: string): Promise<Record<string, unknown>[]> {
  const place = kept.get(server) ?? keep(server)
  place.waiting++
  place.client.ref()
  try {
    await place.opened
    return (await place.client.query<Record<string, unknown>>(sql)).rows
  } finally {
    // It does not hold up the end of the process.
    if (--place.waiting === 0) place.client.unref()
  }
}

function keep(server: string) {
  const client = new pg.Client({ connectionString: server, connectionTimeoutMillis: patience(60_000) }) as Keepable
  client.on('error', () => {}).on('end', () => kept.delete(server))
  const place = { client, opened: client.connect(), waiting: 0 }
  kept.set(server, place)
  return place
}

async function onServer<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: patience(60_000) })
  client.on('error', () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

let own: Promise<string> | undefined

/** Starts one cluster at most, which ends with this process. */
function clusterUrl(): Promise<string> {
  const given = process.env[TEST_DATABASE_URL]
  return given === undefined ? (own ??= spawnThrowaway().then(({ url }) => url)) : Promise.resolve(given)
}

/** Asks a database itself, past any server. */
export const rowsOf = <Row extends object>(databaseUrl: string, sql: string): Promise<Row[]> =>
  onServer(databaseUrl, async (client) => (await client.query<Row>(sql)).rows)

/**
 * Runs SQL in a database itself, past any server, in one transaction. A server notices no change of a tracked table.
 * @returns what `run_sql` answers: texts, after the names of the columns
 */
export const sqlOn = (databaseUrl: string, sql: string): Promise<{ readonly result: readonly string[][] }> =>
  onServer(databaseUrl, async (client) => {
    const all = await client.query<string[]>({ text: sql, rowMode: 'array', types: { getTypeParser: () => String } })
    const last = Array.isArray(all) ? (all.at(-1) as pg.QueryArrayResult<string[]>) : all
    return { result: [last.fields.map(({ name }) => name), ...last.rows] }
  })
