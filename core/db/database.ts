import { traced } from '../observe/timing.js'
import { Socket } from 'node:net'
import pg from 'pg'
import type { Logger } from 'pino'
import { type Breaker, CONNECT_MS, createBreaker, isAnswer } from './breaker.js'
import { limitAnswers } from './limit-answers.js'
import { ServiceError } from '../errors.js'
import { isFull } from './cell-query.js'
import { connectionTo, hostOf } from './hosts.js'
import { createLosses } from './losses.js'
import { traceStatements } from './observe.js'
import { ownsSession } from './prepared.js'
import { IDLE_IN_TRANSACTION_MS, requestCancel, STYLES } from './pooler.js'
import type { Metrics } from '../observe/metrics.js'
import type { DatabaseConfig } from './config.js'
import { type PoolSizes, poolSizes } from './pool-sizes.js'
import { isConnectionError, noConnection } from './sqlstates.js'

export interface Pool extends pg.Pool {
  readonly breaker: Breaker
  readonly purpose: string
  readonly waited: Database['waited']
  /** Maximum time to wait for a connection, in milliseconds. Connecting goes on afterwards, for other requests. */
  readonly waitMs: number
  /** Sockets of the connections that are open, not counting those that are still connecting. */
  readonly connected: ReadonlySet<Socket>
}

interface StreamPoolOptions {
  /** Opens the socket of a connection. */
  readonly stream: () => Socket
  /** Called for each open connection, instead of limiting the row size. */
  readonly onConnect: (client: pg.PoolClient) => void
}

interface PoolUse {
  /** Maximum number of connections. */
  readonly max: number
  /** Returns the number of connections by state. */
  states(): Readonly<Record<string, number>>
}

/** Connection pools by purpose, so that one kind of work cannot starve another. */
export interface Database {
  /** Pool for requests. */
  readonly main: Pool
  /** Pool for the catalog, health checks and changes by the admin. */
  readonly admin: Pool
  readonly config: DatabaseConfig
  readonly breaker: Breaker
  /** Empty for the primary. */
  readonly name: string
  /** Standbys that answer reads. Each has pools of its own. */
  readonly standbys: readonly Database[]
  /** Measures how long a request waited for a connection of a pool. */
  readonly waited: (pool: string, ms: number) => void
  /** Use of the pools by name, those of the standbys included. */
  readonly pools: Map<string, PoolUse>
  /** Called when the database is proven to be silent, to give up what waits for its answers. */
  readonly silenced: Set<() => void>
  /** Opens a pool of one connection for checks of standbys, which never wait for other work. */
  openChecks(): Pool
  /** Opens a pool for streamed reads. It has no statement timeout, which would apply to the whole stream. */
  openStreams(options?: StreamPoolOptions): Pool
  /** Opens a connection for requests outside of the pools. The caller ends it. */
  openSingle(purpose: string): Promise<pg.Client>
  /** Opens a direct connection to PostgreSQL outside of the pools. The caller ends it. */
  connect(purpose: string): Promise<pg.Client>
  close(): Promise<void>
}

/** @param processes number of processes that share the connection budget */
export function openDatabase(configured: DatabaseConfig, log: Logger, metrics: Metrics, processes = 1): Database {
  const sizes = poolSizes(configured, processes)
  const { pipelines, sharedCommits } = sizes
  const config = { ...configured, poolSize: sizes.main, streamPoolSize: sizes.streams, pipelines, sharedCommits }
  const pools: Database['pools'] = new Map()
  const waits = metrics.histogram(
    'database_pool_wait_seconds',
    'Time that requests waited for a connection of a pool. share: for the share of their caller in the pool.',
    ['pool'],
    [0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  )
  const primary = openPools({ name: '', config, sizes, pools, waits, log, metrics })
  const standbys = config.readUrls.map((url) => {
    const name = `standby ${hostOf(url)}`
    const own = { ...config, url, directUrl: undefined, sharedCommits: 0 }
    return openPools({ name, config: own, sizes, pools, waits, log: log.child({ standby: hostOf(url) }) })
  })
  metrics.gauge(
    'database_connections',
    'Connections of a pool by state. waiting: requests that wait for a connection. For shared connections, busy counts requests in progress.',
    ['pool', 'state'],
    (gauge) => {
      for (const [pool, use] of pools) {
        for (const [state, count] of Object.entries(use.states())) gauge.set({ pool, state }, count)
      }
    },
  )
  return {
    ...primary,
    standbys,
    async close() {
      await Promise.all([primary, ...standbys].map((each) => each.close()))
    },
  }
}

interface PoolsOptions {
  readonly name: string
  readonly config: DatabaseConfig
  readonly sizes: PoolSizes
  /** Receives the pools. */
  readonly pools: Database['pools']
  readonly waits: ReturnType<Metrics['histogram']>
  readonly log: Logger
  /** Absent for a standby. */
  readonly metrics?: Metrics
}

/** Returns the name of a pool. */
export const poolName = ({ name }: Pick<Database, 'name'>, purpose: string): string =>
  name === '' ? purpose : `${name} ${purpose}`

/** Opens the pools of one server of PostgreSQL. */
function openPools({ name, config, sizes, pools, waits, log, metrics }: PoolsOptions): Database {
  const pooled = isPooled(config)
  const connectMs = Math.max(CONNECT_MS, config.poolWaitMs)
  /** Connections, also those that are logging in, with the bytes that each had received when last asked. */
  const heardOf = new Map<Socket, number>()
  let heardAt = 0
  /** `heardAt` when the breaker last asked. */
  let toldAt = 0
  const tracked = (open: () => Socket) => (): Socket => {
    const socket = open()
    // One that never connects is never closed either.
    socket.once('connect', () => heardOf.set(socket, 0)).once('close', () => heardOf.delete(socket))
    return socket
  }
  const base = (purpose: string): pg.ClientConfig => ({
    application_name: `rowhouse ${purpose}`,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    ...(pooled ? {} : SESSION),
  })
  const timeouts = (statementTimeoutMs: number): pg.ClientConfig =>
    pooled ? {} : { statement_timeout: statementTimeoutMs, lock_timeout: config.lockTimeoutMs }
  // All connections use the same one of several hosts.
  const target = connectionTo(config.url)
  const single = async (
    purpose: string,
    more: pg.ClientConfig,
    { Client, connectionString } = target,
  ): Promise<pg.Client> => {
    const client = new Client({ ...base(purpose), ...more, connectionString, stream: tracked(newSocket) })
    // Before it is open, `connect` reports its errors.
    client.on('error', () => {})
    await client.connect()
    losses.watch(client, purpose)
    traceStatements(client, more === SESSION ? config.directUrl : config.url)
    return client
  }
  /** Asks on idle connections, if there are any, and on one for probes, which it keeps. */
  async function probe(): Promise<void> {
    const idle = [main, admin].filter(hasIdle).slice(0, 1).map(onPool)
    // One behind a pooler says nothing about the pooler.
    const direct = pooled ? [] : [...directs].filter(isIdle).slice(0, 1).map(onClient)
    const all = [onPool(probes)(), ...[...idle, ...direct].map(mustNotBeSilent)]
    await Promise.any(all).catch(({ errors }: AggregateError) => {
      throw errors.find(isAnswer) ?? errors[0]
    })
  }
  /**
   * Asks on a connection that was idle, so that PostgreSQL has nothing to do for it but answer. If it stays silent, and so
   * do all others and those that log in, no answer is to be expected: gives up the statements that wait for one.
   */
  async function mustNotBeSilent(ask: () => Promise<void>): Promise<void> {
    const since = performance.now()
    try {
      await ask()
    } catch (error) {
      if (isReadTimeout(error) && breaker.isOpen && lastHeard() < since) for (const giveUp of silenced) giveUp()
      throw error
    }
  }
  /** Returns when a connection last received something, as far as that was noticed. */
  function lastHeard(): number {
    for (const [socket, before] of heardOf) {
      if (socket.bytesRead === before) continue
      heardOf.set(socket, socket.bytesRead)
      heardAt = performance.now()
    }
    return heardAt
  }
  function heard(): boolean {
    const before = toldAt
    toldAt = lastHeard()
    return toldAt !== before
  }
  const breaker = createBreaker({ probe, heard }, log, metrics)
  const losses = createLosses(log, () => breaker.isOpen)
  const silenced: Database['silenced'] = new Set()
  /** Direct connections that are open. */
  const directs = new Set<pg.Client>()
  const waited: Database['waited'] = (pool, ms) => waits.observe({ pool: poolName({ name }, pool) }, ms / 1000)
  const opened: Pool[] = []
  const pool = (
    purpose: string,
    max: number,
    statementTimeoutMs: number,
    {
      stream,
      onConnect = (client) => limitAnswers(socketOf(client), config.maxAnswerBytes),
    }: Partial<StreamPoolOptions> = {},
    waitMs = config.poolWaitMs,
  ): Pool => {
    const made = new pg.Pool({
      ...base(purpose),
      ...target,
      stream: tracked(stream ?? newSocket),
      ...timeouts(statementTimeoutMs),
      max,
      idleTimeoutMillis: 30_000,
      maxLifetimeSeconds: 1800,
    })
    const connected = new Set<Socket>()
    const clients = new Set<pg.PoolClient>()
    // Of idle connections, which report them too.
    made.on('error', () => {})
    made.on('connect', (client) => {
      losses.watch(client, purpose)
      clients.add(client)
      client.once('end', () => clients.delete(client))
      const socket = socketOf(client)
      connected.add(socket)
      socket.once('close', () => connected.delete(socket))
      if (!pooled) ownsSession(client)
      onConnect(client)
      traceStatements(client, config.url)
      if (statementTimeoutMs > 0) endWhenSilent(client, statementTimeoutMs + GRACE_MS, breaker.failed)
    })
    // A stream waits for its reader, too.
    if (statementTimeoutMs > 0) silenced.add(() => [...clients].forEach(endIfWaiting))
    const pool = Object.assign(made, { breaker, purpose, waited, waitMs, connected })
    opened.push(pool)
    const states = () => ({
      idle: made.idleCount,
      busy: made.totalCount - made.idleCount,
      waiting: made.waitingCount,
    })
    pools.set(poolName({ name }, purpose), { max, states })
    return pool
  }
  const main = pool('main', config.poolSize, config.statementTimeoutMs)
  const admin = pool('admin', sizes.admin, config.statementTimeoutMs)
  const probes = pool('probe', PROBES, connectMs)
  // Connected only while it is in doubt whether the database answers, so it has no part in the budget.
  pools.delete(poolName({ name }, 'probe'))
  probes.options.idleTimeoutMillis = PROBE_IDLE_MS
  return {
    name,
    standbys: [],
    main,
    admin,
    config,
    breaker,
    waited,
    pools,
    silenced,
    openStreams: (options) => pool('stream', sizes.streams + sizes.smallStreams, 0, options),
    openChecks: () => pool('checks', 1, config.statementTimeoutMs, {}, Math.min(config.poolWaitMs, CHECK_WAIT_MS)),
    openSingle: (purpose) => single(purpose, timeouts(config.statementTimeoutMs)),
    async connect(purpose) {
      const client = await (pooled ? single(purpose, SESSION, connectionTo(config.directUrl)) : single(purpose, {}))
      directs.add(client)
      client.once('end', () => directs.delete(client))
      return client
    },
    async close() {
      losses.close()
      breaker.close()
      await Promise.all(opened.map((each) => each.end()))
    },
  }
}

/** Maximum number of probes at a time. */
const PROBES = 3
const PROBE_IDLE_MS = 2000
/** Maximum time that a check of a standby waits for its connection. */
const CHECK_WAIT_MS = 500

const newSocket = (): Socket => new Socket()

const hasIdle = ({ idleCount, waitingCount }: pg.Pool): boolean => idleCount > waitingCount

const onPool = (pool: pg.Pool) => async (): Promise<void> => {
  const client = await pool.connect()
  let failed = true
  try {
    await onClient(client)()
    failed = false
  } finally {
    client.release(failed)
  }
}

const onClient = (client: pg.ClientBase) => async (): Promise<void> => {
  // pg supports `query_timeout` although its types do not.
  await client.query({ text: 'select 1', query_timeout: CONNECT_MS } as pg.QueryConfig)
}

/** Returns whether an error is that of `query_timeout`. */
const isReadTimeout = (error: unknown): boolean => error instanceof Error && error.message === 'Query read timeout'

/** Returns whether no statement runs on a connection. */
const isIdle = (client: pg.ClientBase): boolean =>
  (client as pg.ClientBase & { readonly readyForQuery: boolean }).readyForQuery

/** Returns whether `url` is a pooler, where every transaction may run in another session. */
export const isPooled = ({ directUrl }: Pick<DatabaseConfig, 'directUrl'>): boolean => directUrl !== undefined

/**
 * Returns the session parameters of the connections for requests. A pooler refuses them; its sessions have them as
 * defaults.
 */
export const sessionOf = (config: DatabaseConfig): pg.ClientConfig =>
  isPooled(config)
    ? {}
    : { ...SESSION, statement_timeout: config.statementTimeoutMs, lock_timeout: config.lockTimeoutMs }

/** Session parameters of every connection. */
export const SESSION: pg.ClientConfig = {
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
  options: Object.entries(STYLES)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' '),
}

/** Additional time for the response of a statement to arrive, in milliseconds. */
export const GRACE_MS = 2000

/** Time without an answer after which it is in doubt whether there will be one, in milliseconds. */
export const DOUBT_MS = 5000

const SILENT = 'Connection terminated: no answer in time'
/** Returns the error of a connection that is closed for silence. */
export const silent = (): Error => new Error(SILENT)
/** Returns whether a connection was closed for silence. A retry would take as long to fail. */
export const isSilence = (error: unknown): boolean => {
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof Error && cause.message === SILENT
}

/**
 * Closes a connection that stays silent. PostgreSQL ends a statement in time and reports it, so a connection with a
 * running statement and no data for longer is dead.
 * @param doubt called at times before that
 */
function endWhenSilent(client: pg.PoolClient, silenceMs: number, doubt: () => void): void {
  const stream = socketOf(client)
  const tickMs = Math.min(DOUBT_MS, silenceMs)
  let bytes = -1
  let silentSince = 0
  stream.setTimeout(tickMs, () => {
    if (isIdle(client)) return
    const now = performance.now()
    if (bytes !== stream.bytesRead + stream.bytesWritten) silentSince = now - tickMs
    bytes = stream.bytesRead + stream.bytesWritten
    if (now - silentSince >= silenceMs) return endIfWaiting(client)
    doubt()
    stream.setTimeout(tickMs)
  })
}

function endIfWaiting(client: pg.PoolClient): void {
  if (!isIdle(client)) socketOf(client).destroy(silent())
}

/** Runs `fn` with a pooled connection. Discards the connection when it failed or when `fn` marks it as unusable. */
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

/**
 * Runs `fn` with a direct connection of its own, for work that may take longer than the pools allow.
 * @throws ServiceError 503 unavailable
 */
export async function withDirectClient<T>(
  { breaker, config, connect }: Database,
  purpose: string,
  fn: (client: pg.Client) => Promise<T>,
): Promise<T> {
  if (breaker.isOpen) breaker.check()
  const client = await connect(purpose).catch((cause: unknown) => {
    breaker.failed()
    throw noConnection(cause)
  })
  limitAnswers(socketOf(client), config.maxAnswerBytes)
  try {
    return await fn(client)
  } finally {
    client.end().catch(() => undefined)
  }
}

/** @throws ServiceError 503 unavailable */
export async function checkOut(pool: Pool): Promise<pg.PoolClient> {
  const { purpose } = pool
  if (pool.breaker.isOpen) pool.breaker.check()
  const since = performance.now()
  try {
    return await traced(
      () => ({ name: 'pool wait', attributes: { 'db.client.connection.pool.name': purpose } }),
      () => (hasIdle(pool) ? pool.connect() : connectWithin(pool)),
    )
  } catch (cause) {
    pool.breaker.failed()
    throw noConnection(
      cause,
      cause instanceof WaitOver && pool.connected.size >= pool.totalCount ? ALL_BUSY : undefined,
    )
  } finally {
    pool.waited(purpose, performance.now() - since)
  }
}

const ALL_BUSY =
  'all connections to the database are busy, some perhaps waiting for a lock (database.poolSize, database.poolWaitMs)'
class WaitOver extends Error {}

/** Waits for a connection as long as a request may. One that comes later goes to the pool. */
async function connectWithin(pool: Pool): Promise<pg.PoolClient> {
  const connecting = pool.connect()
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new WaitOver(`no connection within ${pool.waitMs} ms`)), pool.waitMs)
  })
  try {
    return await Promise.race([connecting, late])
  } catch (error) {
    if (error instanceof WaitOver)
      connecting.then(
        (client) => client.release(),
        () => undefined,
      )
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Asks PostgreSQL to cancel the query of a connection, which may have ended already. Skips a commit that waits for a
 * standby, because it would be reported as done before it is safe. A pooler hides the process id of the session, so
 * there the protocol's cancel request is used, which has no such exception.
 */
export async function cancel(
  { admin, config }: Pick<Database, 'admin' | 'config'>,
  client: pg.ClientBase,
): Promise<void> {
  if (isPooled(config)) return requestCancel(client)
  const { processID } = client as pg.ClientBase & { readonly processID?: number }
  const text = `select pg_catalog.pg_cancel_backend(pid) from pg_catalog.pg_stat_activity where pid = $1 and wait_event is distinct from 'SyncRep'`
  await withClient(admin, (other) => other.query(text, [processID])).catch(() => undefined)
}

export interface TransactionOptions {
  /** Options of `begin`. */
  readonly mode?: string
  /** Whether the owner closes the connection after `fn` fails, which rolls back and ends the session. */
  willClose?(): boolean
  /** Also rolls back after success. */
  readonly undo?: true
  /** Takes the pending `begin`, for an `fn` that waits for it before its first statement. Otherwise `fn` starts after it. */
  onBegin?(begun: Promise<unknown>): void
}

/** Runs `fn` between begin and commit. Rolls back when it throws. */
export async function inTransaction<T>(
  client: pg.ClientBase,
  fn: () => Promise<T>,
  { mode = '', willClose, undo, onBegin }: TransactionOptions = {},
): Promise<T> {
  const begun = client.query(`begin ${mode}`)
  if (onBegin) onBegin(begun)
  else await begun
  try {
    const result = await fn()
    await begun
    await client.query(undo ? 'rollback' : 'commit')
    return result
  } catch (error) {
    // Reports the first error. The owner discards a connection that cannot roll back.
    if (!willClose?.()) await client.query('rollback').catch(() => undefined)
    throw error
  }
}

/** Returns the socket of a connection. */
export const socketOf = (client: pg.ClientBase): Socket =>
  (client as pg.ClientBase & { readonly connection: { readonly stream: Socket } }).connection.stream
