import type { PlannerSource } from '../compile/compile.js'
import type { Sendable } from '../compile/pool.js'
import type { Database } from '../db/database.js'
import { createObserver, placeOn } from '../db/observe.js'
import { SlowQueries } from '../db/slow-queries.js'
import { openStandbys, type StandbyState } from '../db/standbys.js'
import type { Reading } from '../metadata/change.js'
import { readMetadata } from '../metadata/metadata.js'
import type { Op } from '../ir.js'
import type { Metrics } from '../observe/metrics.js'
import type { Session } from '../session.js'
import { createCallerLimits, createStreamCounts } from './caller-limits.js'
import type { Data, Request } from './data.js'
import type { Inspect } from './inspect.js'
import { openLanes } from './lanes.js'
import { createOnce, type IdempotencyConfig } from './idempotency.js'
import type { Call } from './operations.js'
import { Plans, type PlansOptions } from './plans.js'
import type { Limits } from './request-limits.js'
import { openRowCounts } from './row-counts.js'
import { sqlRunner } from './run-sql.js'
import { openSnapshots, type Snapshot, type Snapshots } from './snapshots.js'
import { createRunner, type Runner } from './steps.js'
import { createTransactions, type Transactions } from './transactions.js'
import { countUntracked } from './untracked.js'

/** The data service with the methods that the server uses to start and stop it. */
export interface DataService extends Data {
  /** @see Plans.use */
  usePlanners(sources: ReadonlyMap<string, PlannerSource>): Promise<void>
  /** Starts the workers and watches for metadata changes. */
  start(): Promise<void>
  /** Returns the number of tables that could be tracked, or 0 if any is tracked. */
  untracked(): Promise<number>
  /** Explains why metadata changes of other instances may arrive late; undefined normally. */
  readonly degraded: string | undefined
  /** Whether it listens for metadata changes of other instances. Otherwise it only polls. */
  readonly listening: boolean
  /** Number of compilations in workers by state. */
  readonly compiling: Plans['load']
  readonly slowQueries: SlowQueries
  /** Returns whether the caller's request only reads. */
  isRead(request: Request, call: Call): Promise<boolean>
  /** The standbys of `database.readUrls`. */
  readonly standbys: readonly StandbyState[]
  /** Resources to close, in reverse order. */
  readonly closers: readonly { readonly owner: string; run(): Promise<void> }[]
}

interface DataOptions extends PlansOptions {
  readonly limits: Limits
  readonly idempotency: IdempotencyConfig
  /** Whether this process does work that no request asks for. */
  readonly background: boolean
  /** Whether to use the optional fast paths. */
  readonly fast: boolean
  /** Throws 429 when a caller holds too much memory. */
  readonly admit: (session: Session) => void
  /** Opens what explains requests. */
  readonly openInspect: (engine: Engine) => Inspect
}

/** What explaining needs of the service `data`. */
export interface Engine extends Pick<Transactions, 'readerOf' | 'retried' | 'undone'> {
  readonly snapshots: Pick<Snapshots, 'current' | 'options'>
  readonly runner: Pick<Runner, 'compiled' | 'executionOf' | 'plan'>
  /** Plans a request, and authorizes it for the caller's role. */
  authorized(snapshot: Snapshot, request: Request, call: Call): Promise<Op>
}

/** Loads the catalog and serves requests. The schema must be migrated. */
export async function openData(database: Database, options: DataOptions): Promise<DataService> {
  const { log, metrics } = options
  const { config } = database
  const plans = new Plans(options)
  const standbys = openStandbys(database, log, metrics)
  const snapshots = await openSnapshots(database, log, options.siblings, standbys?.snapshotChanged)
  const counts = openRowCounts(database, log)
  const streams = createStreamCounts(metrics)
  const callers = createCallerLimits(database, streams, options.admit)
  const slowQueries = new SlowQueries(config.slowQueryMs === 0 ? Infinity : config.slowQueryMs, log)
  const observer = createObserver(slowQueries, metrics)
  const lanes = openLanes(database, options, observer, callers, streams, standbys)
  measure(snapshots, metrics)

  const transactions = createTransactions(database, snapshots, callers, standbys)
  const { query, transaction, undoneTransaction, alter, withPosition, catalogFor } = transactions
  const runner = createRunner({
    config,
    limits: options.limits,
    plans,
    lane: lanes.lane,
    callers,
    counts,
    transactions,
    observer,
    place: placeOn(database, 'pool'),
    hasStandbys: standbys !== undefined,
    inspect: () => inspect,
  })
  const inspect = options.openInspect({
    ...transactions,
    snapshots,
    runner,
    authorized: (snapshot, request, call) => plans.authorized(snapshot, runner.taskOf(request, call)),
  })
  const runSql = sqlRunner(database, snapshots, log, transactions.run)
  const once = createOnce(
    { query, transaction, undone: undoneTransaction },
    options.idempotency,
    log,
    options.siblings?.count ?? 1,
  )

  return {
    get catalog() {
      return snapshots.current.catalog
    },
    get degraded() {
      return snapshots.degraded
    },
    get listening() {
      return snapshots.listening
    },
    get compiling() {
      return plans.load
    },
    slowQueries,
    get standbys() {
      return standbys?.states ?? []
    },
    untracked: () => countUntracked(database, snapshots.current.catalog),
    run: runner.run,
    read: runner.read,
    plan: runner.plan,
    prepare: runner.prepare,
    check: runner.check,
    watch: runner.watch,
    mustFit: runner.mustFit,
    isRead: runner.isRead,
    query,
    transaction,
    alter,
    once: once.once,
    isKept: once.isKept,
    inspect,
    runSql: (call, cascade, fn, sqlOptions) => {
      const result = runSql(call, cascade, fn, sqlOptions)
      return sqlOptions?.readOnly ? result : withPosition(call, result)
    },
    metadata: ({ transaction }) =>
      transaction
        ? transaction.lock().then(({ draft }) => draft.metadata)
        : snapshots.readCommitted(
            async (client) => (await readMetadata(client, snapshots.current.reading as Reading)).metadata,
          ),
    catalogFor,
    reload: () => snapshots.reload(),
    describeCatalog: (more) => snapshots.describeCatalog(more),
    usePlanners: (sources) => plans.use(sources),
    async start() {
      plans.start(() => snapshots.current.sendable as Sendable)
      await Promise.all([snapshots.watch(), counts.refresh(), standbys?.start()])
      await plans.warm()
      if (options.background) once.startPruning()
    },
    closers: [
      { owner: 'shared connections', run: () => lanes.close() },
      { owner: 'checks of standbys', run: async () => standbys?.close() },
      { owner: 'kept answers', run: () => once.close() },
      { owner: 'compilation', run: () => plans.close() },
      { owner: 'listening for metadata changes', run: () => snapshots.close() },
    ],
  }
}

function measure(snapshots: Snapshots, metrics: Metrics): void {
  metrics.gauge(
    'metadata_version',
    'Version of the metadata that requests use.',
    [],
    (gauge) => gauge.set(Number(snapshots.current.catalog.version)),
    'min',
  )
  metrics.gauge(
    'metadata_listening',
    '1 while the server listens for metadata changes, 0 while it polls.',
    [],
    (gauge) => gauge.set(snapshots.listening ? 1 : 0),
    'min',
  )
}
