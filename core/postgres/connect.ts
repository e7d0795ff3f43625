import pg from 'pg'

/** How to reach a cluster as its superuser. */
export interface Address {
  readonly port: number
  readonly password: string
}

export const SUPERUSER = 'rowhouse'
export const DATABASE = 'rowhouse'

export type Attempt =
  | { readonly kind: 'ready'; readonly version: string; readonly data: string }
  /** It answers that it is starting, recovering or stopping. */
  | { readonly kind: 'busy' }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }

/** One attempt to connect: the only proof that a cluster is ready, and which one it is. */
export async function attempt(address: Address): Promise<Attempt> {
  try {
    return await withClient(address, 'postgres', async (client) => {
      const { rows } = await client.query<{ version: string; data: string }>(
        `select split_part(current_setting('server_version'), ' ', 1) as version,
                current_setting('data_directory') as data`,
      )
      return { kind: 'ready', version: rows[0]?.version ?? '', data: rows[0]?.data ?? '' }
    })
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    // 57P03 cannot_connect_now
    return code === '57P03' ? { kind: 'busy' } : { kind: 'refused', code, message }
  }
}

/** Creates our database where it is missing: on the first start, or when a first start was cut short. */
export async function ensureDatabase(address: Address): Promise<void> {
  await withClient(address, 'postgres', async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE])
    if (rowCount === 0) await client.query(`create database ${DATABASE}`)
  })
}

/** `postgresql://rowhouse:...@127.0.0.1:port/rowhouse` */
export function urlOf(address: Address): string {
  return `postgresql://${SUPERUSER}:${address.password}@127.0.0.1:${address.port}/${DATABASE}`
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
  // A connection that the server drops reports to the query that waits, and besides as an event that nobody needs.
  client.on('error', () => {})
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end().catch(() => {})
  }
}
