import pg from 'pg'
import type { DatabaseConfig } from './config.js'

/** How values are written and read, in every session. */
export const STYLES = { datestyle: 'iso', intervalstyle: 'postgres', timezone: 'UTC' } as const
export const IDLE_IN_TRANSACTION_MS = 60_000

/**
 * Takes back what SQL has set for its session, just before the end of a transaction and after the triggers that wait for it:
 * the pooler gives the session to another client next.
 */
export const RESET_SESSION =
  'set constraints all immediate; reset session authorization; reset role; reset all; deallocate all; close all; ' +
  'unlisten *; discard temp; discard sequences; select pg_advisory_unlock_all()'

type Defaults = Readonly<Record<string, string>>

/** What every session has to begin with behind a pooler, which lets no connection ask for it. Times in ms. */
function defaultsOf({ statementTimeoutMs, lockTimeoutMs }: DatabaseConfig): Defaults {
  return {
    ...STYLES,
    statement_timeout: String(statementTimeoutMs),
    lock_timeout: String(lockTimeoutMs),
    idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_MS),
  }
}

/**
 * Makes what a session has to begin with a default of the login in its database.
 * @param dry only says what is missing
 * @returns what has been set, e.g. `lock_timeout = 10000 for role app in database shop`
 */
export async function setSessionDefaults(config: DatabaseConfig, dry = false): Promise<readonly string[]> {
  return withSession(config.directUrl, async (client) => {
    const wrong = await readWrong(client, defaultsOf(config))
    if (wrong.length === 0) return []
    const { rows } = await client.query<{ login: string }>(
      `select format('role %I in database %I', session_user, current_database()) as login`,
    )
    const { login } = rows[0] as { login: string }
    const changes = wrong.map(({ name, wanted }) => `alter ${login} set ${name} = ${pg.escapeLiteral(wanted)}`)
    // One transaction, after those of other servers that start now.
    if (!dry) await client.query([LOCK, ...changes].join('; '))
    return wrong.map(({ name, wanted }) => `${name} = ${wanted} for ${login}`)
  })
}

/** Of this program alone. */
const LOCK = 'select pg_advisory_xact_lock(823746212)'

/** Asked at once, so that the pooler has to use more than one of its sessions. */
const SESSIONS = 4

/**
 * Asks sessions of the pooler, which may keep some for an hour that began before their defaults were set.
 * @throws Error that says what they have in place of it
 */
export async function checkSessions(config: DatabaseConfig): Promise<void> {
  const ask = () => withSession(config.url, (client) => readWrong(client, defaultsOf(config)))
  const found = (await Promise.all(Array.from({ length: SESSIONS }, ask))).flat()
  if (found.length === 0) return
  const each = new Set(found.map(({ name, setting, wanted }) => `${name} is ${setting} instead of ${wanted}`))
  throw new Error(`in sessions of the connection pooler ${[...each].join(', ')}; ${ADVICE}`)
}

const ADVICE =
  '`rowhouse migrate` sets defaults of the login for sessions that begin later; RECONNECT in the console of PgBouncer ends those that it has'

async function withSession<T>(url: string | undefined, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_MS,
    application_name: 'rowhouse sessions',
  })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}
const CONNECT_MS = 10_000

interface Wrong {
  readonly name: string
  readonly setting: string
  readonly wanted: string
}

/** The pause keeps the session busy while others are asked for theirs. */
async function readWrong(client: pg.ClientBase, defaults: Defaults): Promise<readonly Wrong[]> {
  const { rows } = await client.query<{ name: string; setting: string; reset: string }>({
    text: `select lower(name) as name, setting, reset_val as reset from pg_settings, pg_sleep(0.02)
      where lower(name) = 'search_path' or lower(name) = any($1)`,
    values: [Object.keys(defaults)],
  })
  return rows.flatMap(({ name, setting, reset }) => {
    const wanted = defaults[name] ?? reset
    // `ISO, DMY`: the order of day and month is the database's to choose.
    const isRight = name === 'datestyle' ? setting.startsWith('ISO') : setting === wanted
    return isRight ? [] : [{ name, setting, wanted }]
  })
}

/** What pg's connections have that their types leave out. */
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

/** Asks for the end of a connection's query on another one, as the protocol provides. Resolves when it has been heard. */
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
