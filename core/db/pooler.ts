import pg from 'pg'
import type { DatabaseConfig } from './config.js'
import { createClient } from './hosts.js'
import { Unreachable } from './unreachable.js'

/** Output styles and time zone of every session. */
export const STYLES = { datestyle: 'iso', intervalstyle: 'postgres', timezone: 'UTC' } as const
export const IDLE_IN_TRANSACTION_MS = 60_000

/**
 * Resets the session state that SQL has changed, just before the end of a transaction and after its deferred triggers,
 * because somebody else gets the session next.
 */
export const RESET_SESSION =
  'set constraints all immediate; reset session authorization; reset role; reset all; close all; ' +
  'unlisten *; discard temp; discard sequences; select pg_catalog.pg_advisory_unlock_all()'

type Defaults = Readonly<Record<string, string>>

/** Returns the session defaults needed behind a pooler, which rejects them as connection parameters. Times in ms. */
function defaultsOf({ statementTimeoutMs, lockTimeoutMs }: DatabaseConfig): Defaults {
  return {
    ...STYLES,
    statement_timeout: String(statementTimeoutMs),
    lock_timeout: String(lockTimeoutMs),
    idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_MS),
  }
}

/**
 * Sets the session defaults for the login in its database.
 * @param dry only returns what is missing
 * @returns what was set, e.g. `lock_timeout = 10000 for role app in database shop`
 */
export async function setSessionDefaults(config: DatabaseConfig, dry = false): Promise<readonly string[]> {
  return withSession('directUrl', config, async (client) => {
    const wrong = await readWrong(client, defaultsOf(config))
    if (wrong.length === 0) return []
    const { rows } = await client.query<{ login: string }>(
      `select pg_catalog.format('role %I in database %I', session_user, pg_catalog.current_database()) as login`,
    )
    const { login } = rows[0] as { login: string }
    const changes = wrong.map(({ name, wanted }) => `alter ${login} set ${name} = ${pg.escapeLiteral(wanted)}`)
    // One transaction, serialized with those of other servers that start at the same time.
    if (!dry) await client.query([LOCK, ...changes].join('; '))
    return wrong.map(({ name, wanted }) => `${name} = ${wanted} for ${login}`)
  })
}

/** Advisory lock key of this program. */
const LOCK = 'select pg_catalog.pg_advisory_xact_lock(823746212)'

/** Number of concurrent queries, so that the pooler must use several sessions. */
const SESSIONS = 4

/**
 * Checks sessions of the pooler, which may keep old ones for an hour that lack the new defaults.
 * @throws Error that lists the wrong settings
 */
export async function checkSessions(config: DatabaseConfig): Promise<void> {
  const ask = () => withSession('url', config, (client) => readWrong(client, defaultsOf(config)))
  const found = (await Promise.all(Array.from({ length: SESSIONS }, ask))).flat()
  if (found.length === 0) return
  const each = new Set(found.map(({ name, setting, wanted }) => `${name} is ${setting} instead of ${wanted}`))
  throw new Error(`in sessions of the connection pooler ${[...each].join(', ')}; ${ADVICE}`)
}

const ADVICE =
  'run `rowhouse upgrade` to set defaults for new sessions, then RECONNECT in the PgBouncer console to end existing sessions'

/** @throws Unreachable */
async function withSession<T>(
  setting: 'url' | 'directUrl',
  config: DatabaseConfig,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const url = config[setting] ?? ''
  const open = async () => {
    const client = createClient(url, { connectionTimeoutMillis: CONNECT_MS, application_name: 'rowhouse sessions' })
    client.on('error', () => undefined)
    await client.connect()
    return client
  }
  const client = await open().catch((cause: unknown) => {
    throw new Unreachable(`database.${setting}`, url, cause)
  })
  try {
    return await use(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}
const CONNECT_MS = 10_000

interface WrongSetting {
  readonly name: string
  readonly setting: string
  readonly wanted: string
}

/** Reads the wrong settings. The pause keeps the session busy while the other queries run. */
async function readWrong(client: pg.ClientBase, defaults: Defaults): Promise<readonly WrongSetting[]> {
  const { rows } = await client.query<{ name: string; setting: string; reset: string }>({
    text: `select pg_catalog.lower(name) as name, setting, reset_val as reset from pg_catalog.pg_settings, pg_catalog.pg_sleep(0.02)
      where pg_catalog.lower(name) = 'search_path' or pg_catalog.lower(name) = any($1)`,
    values: [Object.keys(defaults)],
  })
  return rows.flatMap(({ name, setting, reset }) => {
    const wanted = defaults[name] ?? reset
    // The setting may be `ISO, DMY`: the order of day and month is up to the database.
    const isRight = name === 'datestyle' ? setting.startsWith('ISO') : setting === wanted
    return isRight ? [] : [{ name, setting, wanted }]
  })
}

/** Members of pg's connections that its types omit. */
interface Cancellable {
  readonly host: string
  readonly port: number
  readonly ssl: unknown
  readonly processID: number
  readonly secretKey: number
}
interface Wire extends NodeJS.EventEmitter {
  readonly stream: { destroy(): void }
  connect(port: number | string, host?: string): void
  requestSsl(): void
  cancel(processID: number, secretKey: number): void
}
const CANCEL_MS = 2000

/** Cancels the query of a connection with the protocol's cancel request. Resolves when the server has received it. */
export async function requestCancel(client: pg.ClientBase): Promise<void> {
  const { host, port, ssl, processID, secretKey } = client as pg.ClientBase & Cancellable
  const wire = new pg.Connection({ ssl } as pg.ConnectionConfig) as unknown as Wire
  const ask = () => wire.cancel(processID, secretKey)
  wire.once('connect', () => (ssl ? wire.requestSsl() : ask()))
  wire.once('sslconnect', ask)
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, CANCEL_MS)
    wire.on('error', resolve)
    wire.once('end', resolve)
    wire.once('end', () => clearTimeout(timer))
    if (host.startsWith('/')) wire.connect(`${host}/.s.PGSQL.${port}`)
    else wire.connect(port, host)
  })
  wire.stream.destroy()
}
