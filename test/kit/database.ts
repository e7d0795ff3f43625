import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { spawnThrowaway, TEST_DATABASE_URL } from './cluster.js'
import { patience } from './patience.js'

/**
 * Creates an empty database with a name of its own, text sorted by code point, on the cluster that
 * `ROWHOUSE_TEST_DATABASE_URL` names, or on a throwaway one for this process.
 * @param t a tap test: the database is dropped at its end
 * @returns a superuser URL; `drop` disconnects whoever is left
 */
export async function freshDatabase(t?: {
  teardown(fn: () => Promise<void>): unknown
}): Promise<{ url: string; drop(): Promise<void> }> {
  const server = await clusterUrl()
  const name = `t_${process.pid}_${randomBytes(4).toString('hex')}`
  await onServer(server, async (client) => {
    const { rows } = await client.query<{ version: string }>(`select current_setting('server_version_num') as version`)
    await client.query(
      `create database ${name} template template0 encoding 'UTF8' ${collation(Number(rows[0]?.version))}`,
    )
  })
  const url = new URL(server)
  url.pathname = `/${name}`
  const drop = () =>
    onServer(server, async (client) => void (await client.query(`drop database if exists ${name} with (force)`)))
  t?.teardown(drop)
  return { url: url.href, drop }
}

function collation(version: number): string {
  return version >= 170000
    ? `locale_provider builtin builtin_locale 'C.UTF-8' locale 'C'`
    : `lc_collate 'C' lc_ctype 'C.UTF-8'`
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
