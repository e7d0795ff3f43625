import { resolve } from 'node:path'
import type { DestinationStream, Logger } from 'pino'
import { counted } from '../wording.js'
import { catalogMigrations } from '../metadata/schema.js'
import { Registry } from '../data/registry.js'
import { type DataService, openData } from '../data/service.js'
import { openInspect } from '../inspect/inspect.js'
import { type Database, openDatabase, isPooled, withClient } from '../db/database.js'
import { directProblem } from '../db/unreachable.js'
import { checkSessions, setSessionDefaults } from '../db/pooler.js'
import type { ReadyReport } from '../http/core-routes.js'
import { createHeld } from '../http/traffic.js'
import { at, messageOf } from '../errors.js'
import { createLogger } from '../observe/log.js'
import { LogLines } from '../observe/log-lines.js'
import type { StandbyState } from '../db/standbys.js'
import { createMetrics } from '../observe/metrics.js'
import { alone, type Siblings } from '../processes/siblings.js'
import { isTracing, loadTracing } from '../observe/tracing.js'
import { build, version } from './version.js'
import type { ConfigOptions, LoadedConfig } from './config.js'
import { type Address, createHttpFront } from './http-front.js'
import { healthOperations } from './health-operations.js'
import { createHost, createShared, type Shared } from './plugin-host.js'
import { runWithin } from '../deadline.js'
import { closeHooks, type Closer, runHooks, runStep, type Step } from './lifecycle.js'
import { type Builtins, loadAll, type Loaded, type Mention, needsDatabase } from './load.js'
import { requireAuthentication } from './listener-config.js'
import { migrate, type MigrationSet, pendingMigrations } from './migrate.js'
import type { Plugin, Probe } from './plugin.js'
import { createProviders } from './providers.js'
import { checks, sections } from './sections.js'

export type Config = LoadedConfig<typeof sections>
export type ServerOptions = Omit<ConfigOptions<typeof sections>, 'sections' | 'checks'> & {
  readonly builtins: Builtins
  readonly log?: Logger
  /** Receives the log lines. Default: standard error. */
  readonly logTo?: DestinationStream | undefined
  /** Address that overrides the configuration, for a command that runs beside the server. */
  readonly address?: { readonly host: string; readonly port: number }
  /** Called at each slow step of the start. */
  readonly progress?: (message: string) => void
  /** The processes of this server. Defaults to this one alone. */
  readonly siblings?: Siblings
  /** Whether plugins do their work in the background. Defaults to true for the first process. */
  readonly background?: boolean
  /** Whether to serve no plugin's routes, and to listen only at `address`, if there is one. */
  readonly isWorker?: boolean
}

export interface Server {
  readonly config: Config
  /** URL of the main listener; for a unix socket `unix:` and its path; empty if it does not listen. */
  readonly url: string
  /** Addresses of all listeners, `url` first. */
  readonly addresses: readonly Address[]
  readonly log: Logger
  /**
   * Stops accepting requests, finishes those in progress, and closes everything in reverse order.
   * @param options.atOnce whether to skip `http.drainDelayMs`, because another process listens at the same addresses
   * @throws AggregateError of all failures, and of the steps not finished within `shutdownTimeoutMs`
   */
  close(options?: { readonly atOnce?: boolean }): Promise<void>
}

const STEP_MS = 30_000
/** Starts a server: loads, migrates, sets up and listens. */
export async function startServer(options: ServerOptions): Promise<Server> {
  return startLoaded(await loadServer(options), options)
}

/** Starts a server with the result of `loadServer`. */
export async function startLoaded(
  { config: configured, loaded }: Awaited<ReturnType<typeof loadServer>>,
  options: Omit<ServerOptions, 'builtins' | 'env' | 'file' | 'overrides'>,
): Promise<Server> {
  const config = listeningAt(options.address, configured)
  const { values } = config
  const { siblings = alone(), isWorker = false } = options
  const lines = new LogLines(siblings.number)
  const { background = (siblings.number ?? 1) === 1 } = options
  const logging = { level: values.log.level, destination: options.logTo, recent: lines, process: siblings.number }
  const log = options.log ?? createLogger(logging)
  const tell = options.progress ?? ((message: string) => log.info(message))
  for (const warning of loaded.warnings) log.warn(warning)
  if (!isWorker || options.address) requireAuthentication(values)

  /** Closed in reverse order. The position of what plugins add later is fixed already. */
  const closers: (() => readonly Closer[])[] = []
  const closing = (owner: string, run: () => Promise<void>, step: Step = 'close') =>
    void closers.push(() => [{ owner, run, step }])
  let atOnce = false
  let closed: Promise<void> | undefined
  const close: Server['close'] = (how) => {
    atOnce ||= how?.atOnce === true
    return (closed ??= closeHooks(
      closers.flatMap((each) => each()),
      values.shutdownTimeoutMs,
    ))
  }
  try {
    await loadTracing(log)
    if (values.database.queryTags && !isTracing) log.warn('no query tags (database.queryTags): nothing traces')
    const metrics = createMetrics(siblings)
    const buildInfo = 'Version of the server. Always 1.'
    metrics.gauge('build_info', buildInfo, ['version', 'build'], (gauge) => gauge.set({ version, build }, 1), 'max')
    const held = createHeld(values.database)
    const dataDir = resolve(options.cwd, values.dataDir)
    const providers = createProviders(loaded.providers, { log, timeoutMs: STEP_MS, dataDir })
    closing('providers', () => providers.close())

    let migrated = 0
    const database = needsDatabase(loaded) ? await openMigrated() : undefined
    const store = database && (await openStore(database))
    const shared = createShared({ log, metrics: metrics.registry, providers, dataDir, background, siblings })
    if (store) {
      shared.services.set('data', store.data)
      shared.services.set('operations', new Registry(shared.operations, values.database.statementTimeoutMs, store.data))
      const operations = healthOperations({ ...store, loaded, lines, siblings })
      for (const [type, operation] of Object.entries(operations)) shared.operations.set(type, operation)
    }
    closers.push(() => shared.hooks.close)
    for (const { plugin, config: own } of loaded.plugins) await setUp(plugin, own, createHost(plugin, shared), shared)
    await store?.data.usePlanners(shared.planners)
    shared.stage = 'ready'

    const front = createHttpFront({
      ...values,
      log,
      metrics,
      held,
      processes: siblings.count,
      shared,
      plugins: isWorker ? [] : loaded.plugins.map(({ plugin }) => plugin.name),
      ready: () => ready(store, shared),
      about: async () => ({ version, build, database: await stateOf(store) }),
    })
    closing('http', () => front.close())
    closing('http', () => front.drain(), 'drain')
    // Before the requests in progress end: some, such as streams, end only when their plugin ends them.
    closers.push(() => shared.hooks.drain.toReversed().map((hook): Closer => ({ ...hook, step: 'drain' })))
    closing('http', () => front.leave(atOnce), 'drain')
    const facts = {
      version,
      build,
      node: process.version,
      database: database && (await versionOf(database)),
      plugins: loaded.plugins.map(({ plugin }) => plugin.name),
      migrations: database && migrated,
      processes: siblings.count,
      tracing: isTracing,
    }
    await runHooks(shared.hooks.ready, 'ready', 10 * STEP_MS)
    shared.stage = 'started'
    const addresses = isWorker && !options.address ? [] : await front.listen()
    await store?.data.start()

    if ((siblings.number ?? 1) === 1) log.info(facts, 'started')
    for (const address of addresses) log.info(address, 'listening')
    const detail = store && (await mustAnswer(store.database).catch(() => undefined))
    if (detail) log.warn(`${detail}; requests that write fail with 503`)
    const untracked = (await store?.data.untracked().catch(() => 0)) ?? 0
    if (untracked > 0) tell(`${counted(untracked, 'table')} found, 0 tracked: rowhouse track --all`)
    return { config, url: addresses[0]?.url ?? '', addresses, log, close }

    async function openMigrated(): Promise<Database> {
      const opened = openDatabase(values.database, log, metrics, siblings.count)
      closing('database', () => opened.close())
      // Opens a connection for the first request. If this fails, that request tries again.
      if (!isPooled(values.database)) withClient(opened.main, async () => {}).catch(() => {})
      await prepareDatabase(opened).catch((cause: unknown) => {
        throw directProblem(opened.config, cause)
      })
      return opened
    }

    async function prepareDatabase(opened: Database): Promise<void> {
      // Runs first, so that sessions that the pooler opens from now on have these defaults.
      if (isPooled(opened.config)) {
        for (const each of await setSessionDefaults(opened.config)) options.progress?.(`set ${each}`)
        await checkSessions(opened.config)
      }
      migrated = await migrateAll(opened, loaded, options.progress)
    }

    async function openStore(opened: Database): Promise<Store> {
      const data = await openData(opened, {
        ...values.compile,
        log,
        metrics,
        limits: values.limits,
        idempotency: values.idempotency,
        background,
        fast: values.fast,
        admit: held.check,
        siblings,
        openInspect,
      })
      closers.push(() => data.closers)
      return { database: opened, data }
    }
  } catch (error) {
    await close().catch((cause: unknown) => log.error({ err: cause }, 'closing after a failed start failed, too'))
    throw error
  }
}

function listeningAt(address: ServerOptions['address'], config: Config): Config {
  if (!address) return config
  const { socket: _, ...http } = config.values.http
  return { ...config, values: { ...config.values, http: { ...http, ...address, listeners: [] } } }
}

/**
 * Reads the configuration and imports everything that it names.
 * @throws ConfigError with every mistake
 */
export function loadServer(
  options: Omit<ServerOptions, 'log' | 'address' | 'progress'>,
): Promise<{ readonly config: Config; readonly loaded: Loaded }> {
  return loadAll({ ...options, sections, checks, mentions })
}

/** Returns the plugins that `http.listeners` names. */
function mentions({ http }: Partial<Config['values']>): readonly Mention[] {
  return (http?.listeners ?? []).flatMap(({ plugins }, index) =>
    plugins.map((plugin, i) => ({ path: at(`${at('$.http.listeners', index)}.plugins`, i), plugin })),
  )
}

/** Returns the migrations of the core and of every loaded plugin. */
export function migrationSets({ plugins }: Loaded): readonly MigrationSet[] {
  return [
    { owner: 'core', migrations: catalogMigrations },
    ...plugins.map(({ plugin: { name, migrations = [] }, config }) => ({
      owner: name,
      migrations: typeof migrations === 'function' ? migrations(config) : migrations,
    })),
  ]
}

/** @returns the number of migrations that ran */
async function migrateAll(database: Database, loaded: Loaded, progress?: (message: string) => void): Promise<number> {
  const sets = migrationSets(loaded)
  const { isDone, isReadOnly } = await isMigrated(database, sets)
  if (isDone) return 0
  if (isReadOnly)
    throw new Error(
      'the database is a standby, and needs migrations: start a server of this version on the primary first',
    )
  const client = await database.connect('migrate')
  try {
    return (await migrate(client, sets, progress)).length
  } finally {
    await client.end()
  }
}

async function setUp(
  plugin: Plugin,
  config: unknown,
  host: ReturnType<typeof createHost>,
  shared: Shared,
): Promise<void> {
  const service = await runStep(plugin.name, 'setup', () => plugin.setup(host as never, config as never), STEP_MS)
  if (service !== undefined) shared.services.set(plugin.name, service)
}

/** Returns whether nothing needs to run, without taking the lock. This is the usual case. */
async function isMigrated(database: Database, sets: readonly MigrationSet[]) {
  const client = await database.admin.connect()
  try {
    const isDone = (await pendingMigrations(client, sets)).length === 0
    return { isDone, isReadOnly: !isDone && (await client.query<{ standby: boolean }>(IN_RECOVERY)).rows[0]?.standby }
  } finally {
    client.release()
  }
}

interface Store {
  readonly database: Database
  readonly data: DataService
}

const PROBE_MS = 2000

async function ready(store: Store | undefined, shared: Shared): Promise<ReadyReport> {
  const ask = async (name: string, probe: Probe) => {
    try {
      const detail = await runWithin(`probe "${name}"`, 'health', probe, PROBE_MS)
      return { name, ok: true, detail: typeof detail === 'string' ? detail : undefined }
    } catch (error) {
      return { name, ok: false, detail: messageOf(error) }
    }
  }
  const probes = await Promise.all([
    ...(store === undefined ? [] : [ask('database', () => mustAnswer(store.database))]),
    ...[...shared.probes].map(([name, probe]) => ask(name, probe)),
  ])
  // Delayed metadata changes are a degradation, not a reason to redirect requests.
  const { degraded: reason, standbys: states = [] } = store?.data ?? {}
  const degraded = reason === undefined ? [] : [{ name: 'metadata', ok: true, detail: `degraded: ${reason}` }]
  const standbys = states.map((each) => ({ name: `standby ${each.name}`, ok: true, detail: describeStandby(each) }))
  return { ready: probes.every(({ ok }) => ok), probes: [...probes, ...standbys, ...degraded] }
}

/** Reads run on the primary instead, so a standby that cannot be used is a degradation. */
function describeStandby({ problem, lagMs, lagBytes }: StandbyState): string {
  const lag =
    lagMs === undefined ? '' : `at most ${lagMs} ms${lagBytes === undefined ? '' : ` and ${lagBytes} bytes`} behind`
  return problem === undefined ? lag : `degraded: ${problem}${lag && `; ${lag}`}`
}

/** @returns a detail for the operator, if there is one */
async function mustAnswer(database: Database): Promise<string | undefined> {
  const { rows } = await withClient(database.admin, (client) => client.query<{ standby: boolean }>(IN_RECOVERY))
  return rows[0]?.standby ? 'read-only: the database is a standby' : undefined
}
const IN_RECOVERY = 'select pg_catalog.pg_is_in_recovery() as standby'
/** Returns the version of PostgreSQL, or undefined when it is unavailable. */
const versionOf = ({ admin }: Database): Promise<string | undefined> =>
  withClient(admin, (client) => client.query<{ server_version: string }>('show server_version')).then(
    ({ rows }) => rows[0]?.server_version,
    () => undefined,
  )

const stateOf = async (store: Store | undefined): Promise<'up' | 'down' | 'none'> =>
  store === undefined ? 'none' : (await versionOf(store.database)) === undefined ? 'down' : 'up'
