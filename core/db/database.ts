import type { Socket } from 'node:net'
import pg from 'pg'
import type { Logger } from 'pino'
import { type Breaker, createBreaker, PROBE_MS, unavailable } from './breaker.js'
import { limitAnswers } from './limit-answers.js'
import { ServiceError } from '../errors.js'
import { isFull } from './cell-query.js'
import { IDLE_IN_TRANSACTION_MS, requestCancel, STYLES } from './pooler.js'
import type { Metrics } from '../metrics.js'
import type { DatabaseConfig } from './config.js'

export interface Pool extends pg.Pool {
  readonly breaker: Breaker
}

export interface StreamPoolOptions {
  /** Opens the socket of a connection. */
  readonly stream: () => Socket
  /** Called when a connection is open, in place of the limit on row size. */
  readonly onConnect: (client: pg.PoolClient) => void
}

/** Connections by what they are for, so that one kind of work cannot starve another. */
export interface Database {
  /** Requests. */
  readonly main: Pool
  /** The catalog, health, the admin's changes. */
  readonly admin: Pool
  readonly config: DatabaseConfig
  readonly breaker: Breaker
  /** By pool, for the metrics: how many connections are in which state. */
  readonly connectionStates: Map<string, () => Readonly<Record<string, number>>>
  /** Opens connections for streamed reads: without a statement timeout, which would run over the whole stream. */
  openStreams(options?: StreamPoolOptions): Pool
  /** Opens a connection for requests, outside the pools; the caller ends it. */
  openSingle(purpose: string): Promise<pg.Client>
  /** A connection to PostgreSQL itself, outside the pools; the caller ends it. */
  connect(purpose: string): Promise<pg.Client>
  close(): Promise<void>
}

export function openDatabase(config: DatabaseConfig, log: Logger, metrics: Metrics): Database {
  // Connections that were given up may still be told that the database stops, which is no news.
  let closing = false
  const pooled = isPooled(config)
  const base = (purpose: string): pg.ClientConfig => ({
    connectionString: config.url,
    application_name: `rowhouse ${purpose}`,
    connectionTimeoutMillis: config.poolWaitMs,
    keepAlive: true,
    ...(pooled ? {} : SESSION),
  })
  // A pooler refuses them: there the sessions have them as defaults.
  const timeouts = (statementTimeoutMs: number): pg.ClientConfig =>
    pooled ? {} : { statement_timeout: statementTimeoutMs, lock_timeout: config.lockTimeoutMs }
  const single = async (purpose: string, more: pg.ClientConfig): Promise<pg.Client> => {
    const client = new pg.Client({ ...base(purpose), ...more })
    client.on('error', (error) => {
      if (!closing) log.warn({ purpose, error: error.message }, 'lost a database connection')
    })
    await client.connect()
    return client
  }
  const breaker = createBreaker(
    async () => {
      const client = await single('probe', { connectionTimeoutMillis: PROBE_MS, query_timeout: PROBE_MS })
      try {
        await client.query('select 1')
      } finally {
        client.end().catch(() => undefined)
      }
    },
    log,
    metrics,
  )
  const pools: Pool[] = []
  const connectionStates: Database['connectionStates'] = new Map()
  const pool = (
    purpose: string,
    max: number,
    statementTimeoutMs: number,
    { stream, onConnect = (client) => limitAnswers(client, config.maxAnswerBytes) }: Partial<StreamPoolOptions> = {},
  ): Pool => {
    const made = new pg.Pool({
      ...base(purpose),
      ...(stream ? { stream } : {}),
      ...timeouts(statementTimeoutMs),
      max,
      idleTimeoutMillis: 30_000,
      maxLifetimeSeconds: 1800,
    })
    const lost = (error: Error) => {
      if (!closing) log.warn({ purpose, error: error.message }, 'lost a database connection')
    }
    made.on('error', lost)
    // A connection may also fail while it is checked out and no query waits on it.
    made.on('connect', (client) => {
      client.on('error', lost)
      onConnect(client)
      if (statementTimeoutMs > 0) endWhenSilent(client, statementTimeoutMs + GRACE_MS)
    })
    const opened = Object.assign(made, { breaker })
    pools.push(opened)
    connectionStates.set(purpose, () => ({
      idle: made.idleCount,
      busy: made.totalCount - made.idleCount,
      waiting: made.waitingCount,
    }))
    return opened
  }
  const main = pool('main', config.poolSize, config.statementTimeoutMs)
  const admin = pool('admin', 4, config.statementTimeoutMs)
  metrics.gauge(
    'database_connections',
    'connections of a pool by state; waiting: requests that wait for one; of connections that requests share, busy is how many requests are under way',
    ['pool', 'state'],
    (gauge) => {
      for (const [pool, states] of connectionStates) {
        for (const [state, count] of Object.entries(states())) gauge.set({ pool, state }, count)
      }
    },
  )
  return {
    main,
    admin,
    config,
    breaker,
    connectionStates,
    openStreams: (options) => pool('stream', config.streamPoolSize + SMALL_ANSWERS, 0, options),
    openSingle: (purpose) => single(purpose, timeouts(config.statementTimeoutMs)),
    connect: (purpose) => single(purpose, pooled ? { connectionString: config.directUrl, ...SESSION } : {}),
    async close() {
      closing = true
      breaker.close()
      await Promise.all(pools.map((each) => each.end()))
    },
  }
}

/** Behind a pooler every transaction may have another session. */
export const isPooled = ({ directUrl }: Pick<DatabaseConfig, 'directUrl'>): boolean => directUrl !== undefined

/** What a connection asks of its session when it begins. */
const SESSION: pg.ClientConfig = {
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
  options: Object.entries(STYLES)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' '),
}

/** Connections beside those of streams, for answers that turn out to be small: slow readers of others do not hold them up. */
const SMALL_ANSWERS = 4
/** How much longer than a statement may take its answer may be on its way. */
export const GRACE_MS = 2000

const SILENT = 'Connection terminated: no answer in time'
/** True when a connection was given up because nothing came on it: another would take as long to find out. */
export const isSilence = (error: unknown): boolean => {
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof Error && cause.message === SILENT
}

/**
 * PostgreSQL ends a statement in time and says so. A connection on which a statement runs and nothing comes for longer
 * is dead, whatever the network believes.
 */
function endWhenSilent(client: pg.PoolClient, silenceMs: number): void {
  const wire = client as pg.PoolClient & {
    readonly connection: { readonly stream: Socket }
    readonly readyForQuery: boolean
  }
  const { stream } = wire.connection
  stream.setTimeout(silenceMs, () => {
    if (!wire.readyForQuery) stream.destroy(new Error(SILENT))
  })
}

/**
 * Runs `fn` with a connection of a pool. A connection that broke is thrown away, and so is one that `fn` says must not be
 * used again.
 */
export async function withClient<T>(
  pool: Pool,
  fn: (client: pg.PoolClient, discard: () => void) => Promise<T>,
): Promise<T> {
  const client = await checkOut(pool)
  let discarded = false
  try {
    return await fn(client, () => {
      discarded = true
    })
  } catch (error) {
    discarded ||= isConnectionError(error)
    throw error
  } finally {
    client.release(discarded || isFull(client))
  }
}

/** @throws ServiceError 503 unavailable */
export async function checkOut(pool: Pool): Promise<pg.PoolClient> {
  pool.breaker.check()
  try {
    return await pool.connect()
  } catch (cause) {
    pool.breaker.failed()
    throw unavailable(cause, isWaitOver(cause) ? ALL_BUSY : undefined)
  }
}

const ALL_BUSY =
  'all connections to the database are busy, some perhaps waiting for a lock (database.poolSize, database.poolWaitMs)'
/** In the words of pg's pool: it had none to give, rather than none that could be opened. */
const isWaitOver = (cause: unknown): boolean =>
  cause instanceof Error && cause.message === 'timeout exceeded when trying to connect'

/**
 * Asks PostgreSQL to end the query of a connection; it may have ended by itself. What waits for a standby has been committed,
 * and would only be said to be done before it is safe. A pooler does not tell which process works for a connection, so
 * there the request goes the protocol's way, which spares nothing.
 */
export async function cancel(
  { admin, config }: Pick<Database, 'admin' | 'config'>,
  client: pg.ClientBase,
): Promise<void> {
  if (isPooled(config)) return requestCancel(client)
  const { processID } = client as pg.ClientBase & { readonly processID?: number }
  const text = `select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and wait_event is distinct from 'SyncRep'`
  await withClient(admin, (other) => other.query(text, [processID])).catch(() => undefined)
}

export interface TransactionOptions {
  /** Of `begin`. */
  readonly mode?: string
  /** Whether the owner closes the connection when `fn` has failed, which rolls back and leaves nothing of its session. */
  willClose?(): boolean
  /** Rolls back when `fn` is done, too. */
  readonly undo?: true
}

/** Runs `fn` between begin and commit; rolls back when it throws. */
export async function inTransaction<T>(
  client: pg.ClientBase,
  fn: () => Promise<T>,
  { mode = '', willClose, undo }: TransactionOptions = {},
): Promise<T> {
  await client.query(`begin ${mode}`)
  try {
    const result = await fn()
    await client.query(undo ? 'rollback' : 'commit')
    return result
  } catch (error) {
    // The error that counts is the first one; a connection that cannot roll back is thrown away by its owner.
    if (!willClose?.()) await client.query('rollback').catch(() => undefined)
    throw error
  }
}

/** True when the connection, not the statement, failed: it must not go back to the pool. */
export function isConnectionError(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error
  if (!(cause instanceof Error)) return false
  const state = sqlState(cause)
  if (state === undefined)
    return !(cause instanceof ServiceError) && CONNECTION_LOST.test(cause.message + codeOf(cause))
  return /^(08|57P|53|25006)/.test(state)
}
const CONNECTION_LOST =
  /Connection terminated|Client has encountered|not queryable|timeout|ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENOENT|EHOSTUNREACH/i

export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : '')
