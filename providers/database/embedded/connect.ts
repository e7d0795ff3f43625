import { createHmac } from 'node:crypto'
import pg from 'pg'

/** Connection data of a cluster's superuser. */
interface Address {
  readonly port: number
  readonly password: string
}

export const SUPERUSER = 'rowhouse'
/** Login of the server's own connections. */
const SERVER_LOGIN = 'rowhouse_server'
const DATABASE = 'rowhouse'

export type Attempt =
  | { readonly kind: 'ready'; readonly version: string; readonly data: string }
  /** The cluster is starting, recovering or stopping. */
  | { readonly kind: 'busy' }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }

/** Tries to connect once. Only a connection proves that a cluster is ready, and which one it is. */
export async function attempt(address: Address): Promise<Attempt> {
  try {
    return await withClient(address, 'postgres', async (client) => {
      const { rows } = await client.query<{ version: string; data: string }>(
        `select pg_catalog.split_part(pg_catalog.current_setting('server_version'), ' ', 1) as version,
                pg_catalog.current_setting('data_directory') as data`,
      )
      return { kind: 'ready', version: rows[0]?.version ?? '', data: rows[0]?.data ?? '' }
    })
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    // 57P03 cannot_connect_now
    return code === '57P03' ? { kind: 'busy' } : { kind: 'refused', code, message }
  }
}

/**
 * Creates the database and the login that owns it if they are missing: on the first start, or after an interrupted one.
 * The login is not a superuser, so that an admin's SQL cannot access files of this machine.
 */
export async function ensureDatabase(address: Address): Promise<void> {
  await withClient(address, 'postgres', async (client) => {
    const role = await client.query('select from pg_catalog.pg_roles where rolname = $1', [SERVER_LOGIN])
    if (role.rowCount === 0)
      await client.query(`create role ${SERVER_LOGIN} login password '${serverPassword(address)}'`)
    const database = await client.query('select from pg_catalog.pg_database where datname = $1', [DATABASE])
    if (database.rowCount === 0) await client.query(`create database ${DATABASE} owner ${SERVER_LOGIN}`)
  })
}

/**
 * Returns the login's password: only letters, digits, `-` and `_`. The superuser's password cannot be derived from it.
 */
const serverPassword = ({ password }: Address): string =>
  createHmac('sha256', password).update(SERVER_LOGIN).digest('base64url')

/** Returns `postgresql://rowhouse:...@127.0.0.1:port/rowhouse` */
export function urlOf(address: Address): string {
  return `postgresql://${SUPERUSER}:${address.password}@127.0.0.1:${address.port}/${DATABASE}`
}

/** Returns `postgresql://rowhouse_server:...@127.0.0.1:port/rowhouse` */
export function serverUrlOf(address: Address): string {
  return `postgresql://${SERVER_LOGIN}:${serverPassword(address)}@127.0.0.1:${address.port}/${DATABASE}`
}

async function withClient<T>(address: Address, database: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port: address.port,
    user: SUPERUSER,
    password: address.password,
    database,
    ssl: false,
    connectionTimeoutMillis: 10_000,
    query_timeout: 60_000,
  })
  // A dropped connection also rejects the waiting query, so this event can be ignored.
  client.on('error', () => {})
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end().catch(() => {})
  }
}
