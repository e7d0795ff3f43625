import type { ClientBase } from 'pg'
import { Change, type Reading } from '../metadata/change.js'
import { Editor } from '../metadata/editor.js'
import { readMetadata } from '../metadata/metadata.js'
import { type Compiled, nameOf, type PlannerSource, type Task } from '../compile/compile.js'
import type { Sendable } from '../compile/pool.js'
import { type Database, inTransaction, isPooled, type TransactionOptions, withClient } from '../db/database.js'
import type { Reader } from '../db/disclosure.js'
import { clientError } from '../db/errors.js'
import { cancellable, executeIn, plainLane } from '../db/execute.js'
import type { Cell, Execution, Lane } from '../db/lane.js'
import { openFastLanes } from '../db/fast/index.js'
import { answerTooLarge } from '../db/limit-answers.js'
import { createObserver, placeOn, queryTags } from '../db/observe.js'
import { SlowQueries } from '../db/slow-queries.js'
import { openStandbys, standbyLane, type StandbyState } from '../db/standbys.js'
import { serviceError } from '../errors.js'
import { type Json, Rows } from '../json/parse.js'
import { LONG } from '../json/rows.js'
import type { Names } from '../plan/names.js'
import { answerRequest, type RequestSteps } from '../request.js'
import type { Siblings } from '../processes/siblings.js'
import { isAdmin, permissionRole, type Session, answerLimit } from '../session.js'
import { bind, type Param } from '../sql/bind.js'
import { mustRead } from '../sql/bind-rows.js'
import type { Form } from '../sql/emit.js'
import { createCallerLimits, createStreamCounts } from './caller-limits.js'
import type { Data, Request } from './data.js'
import { explainTrial, tryPermission } from './explain-permission.js'
import { type Explained, explainStatement, fieldsOf, genericPlan, refusalOf, type Undone } from './explain.js'
import { answerRows } from './format.js'
import { createOnce, type IdempotencyConfig } from './once.js'
import type { Answer, Call } from './operations.js'
import { Plans, type PlansOptions } from './plans.js'
import { planReader } from './query-plans.js'
import { refusalExplainer } from './refusals.js'
import { checkPrice, type Limits } from './request-limits.js'
import { retryOnConflict, retryOnLostConnection, retryOnStaleSnapshot } from './retry.js'
import { positionHeader, readPlace } from './read-place.js'
import { sqlRunner } from './run-sql.js'
import { inRows } from './row-places.js'
import { openSnapshots, type Snapshot } from './snapshots.js'
import { openRowCounts } from './row-counts.js'
import { splitVersion } from './split-version.js'
import { type Lend, type Transaction, runTransaction } from './transaction.js'
import { countUntracked, explainMissing } from './untracked.js'

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
  /** Returns PostgreSQL's plan of a statement without its values. The result is for admins only. */
  genericPlan(sql: string, call: Call): Promise<readonly string[]>
  /** Resources to close, in reverse order. */
  readonly closers: readonly { readonly owner: string; run(): Promise<void> }[]
}

export interface DataOptions extends PlansOptions {
  readonly limits: Limits
  readonly idempotency: IdempotencyConfig
  /** Whether this process does work that no request asks for. */
  readonly background: boolean
  /** Whether to use the optional fast paths. */
  readonly fast: boolean
  /** Throws 429 when a caller holds too much memory. */
  readonly admit: (session: Session) => void
  readonly siblings?: Siblings | undefined
}

/** Loads the catalog and serves requests. The schema must be migrated. */
export async function openData(database: Database, options: DataOptions): Promise<DataService> {
  const { log, metrics } = options
  const { config } = database
  const pooled = isPooled(config)
  const plans = new Plans(options)
  const standbys = openStandbys(database, log, metrics)
  const snapshots = await openSnapshots(database, log, options.siblings, standbys?.snapshotChanged)
  const counts = openRowCounts(database, log)
  const streams = createStreamCounts(metrics)
  const limits = createCallerLimits(database, streams, options.admit)
  const slowQueries = new SlowQueries(config.slowQueryMs === 0 ? Infinity : config.slowQueryMs, log)
  const observer = createObserver(slowQueries, metrics)
  const inTransactions = placeOn(database, 'pool')
  const closers: (() => Promise<void>)[] = []
  const laneTo = (server: Database, { lane }: typeof limits): Lane => {
    const fast = options.fast ? openFastLanes(server, log, metrics, observer) : undefined
    if (fast) closers.push(() => fast.close())
    const plain = plainLane(server)
    const limited = lane(retryOnLostConnection(fast?.rows(plain) ?? plain))
    return fast?.shared(limited) ?? limited
  }
  const primary = laneTo(database, limits)
  const lanes = new Map(
    database.standbys.map((each) => [each, laneTo(each, createCallerLimits(each, streams, options.admit))]),
  )
  const lane = standbys ? standbyLane(standbys, lanes, primary) : primary

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

  const snapshotOf = ({ transaction }: Call) => transaction?.snapshot ?? snapshots.current
  const taskOf = ({ planner, shape }: Request, { session }: Call, form: Form = 'array'): Task => ({
    planner,
    shape,
    role: permissionRole(session),
    form,
  })
  const readerOf = (call: Call, plan?: Compiled): Reader => ({
    role: permissionRole(call.session),
    catalog: snapshotOf(call).catalog,
    kind: plan?.kind,
    log: call.log,
  })
  const executionOf = ({ values, planner, shape }: Request, call: Call, plan?: Compiled): Execution => {
    const tags = config.queryTags && plan ? queryTags(call.name) : undefined
    return {
      bindings: { values, variables: call.session.variables },
      // Tags differ for each request.
      prepare:
        !pooled &&
        !call.transaction?.changedSession &&
        plan !== undefined &&
        tags === undefined &&
        plans.isRepeated(plan),
      tags,
      shape,
      isCached: plan && plans.isCached(plan),
      dialect: call.dialect ?? 'alpha',
      reader: readerOf(call, plan),
      timeoutMs: limits.timeoutOf(call),
      planner,
      name: call.name,
      // Statements that explain a request run without its plan.
      observer: plan && observer,
    }
  }

  function mustFit(bytes: number, session: Session): void {
    const most = answerLimit(config, session)
    if (bytes > most) throw answerTooLarge(most)
  }

  async function compiled(
    snapshot: Snapshot,
    request: Request,
    call: Call,
    caller?: string,
    form?: Form,
  ): Promise<Compiled> {
    try {
      return await plans.compiled(snapshot, taskOf(request, call, form), caller)
    } catch (error) {
      throw inRows(error, request.values)
    }
  }

  const steps: RequestSteps = {
    isShort: (plan) => plans.isShort(plan),
    recordLength: (plan, isLong) => plans.recordLength(plan, isLong),
    compile: (request, call, form, isFree = false) =>
      compiled(snapshotOf(call), request, call, isFree ? undefined : call.session.caller, form),
    checkPrice: ({ price }, { values }, call) => checkPrice(options.limits, price, values, counts.of, call),
    bindLong({ statements }, { values }, call) {
      if (!values.some((each) => each instanceof Rows && each.source.length > LONG)) return undefined
      return bindLong(
        statements.flatMap(({ params }) => params),
        values,
        call,
      )
    },
    bind(plan, request, call) {
      plans.assertBranded(plan)
      const execution = executionOf(request, call, plan)
      const values = bind(plan.statements[0]!.params, execution.bindings)
      return {
        plan,
        values,
        execution,
        session: call.session,
        isLast: request.isLast,
        standby: standbys && request.onStandby && readPlace(config, call),
        // Quick requests never need one, so it is made when it is read.
        get signal() {
          return call.signal
        },
      }
    },
    async runCell(job, call) {
      const { transaction } = call
      if (transaction) {
        const client = await transaction.connection()
        const answered = executeIn(client, job.plan, job.values, job.execution, inTransactions)
        if (job.isLast && job.plan.statements.length === 1) call.onSent?.()
        const text = await answered
        transaction.answered += Buffer.byteLength(text)
        mustFit(transaction.answered, call.session)
        return answerOf(text, job.plan)
      }
      const isRead = isPlainRead(job.plan)
      if (!isRead) refuseDryRun(call)
      const cell = await (isRead ? lane.cell(job) : told(call, lane.write(job)))
      // What was written would be lost to the client.
      if (isRead) mustFit(cell.length, call.session)
      return answerOf(cell, job.plan)
    },
    runRows: async (job, { format }) => answerRows(await lane.rows(job), format, job.plan),
  }

  /** Adds to the answer of a write the position that later reads of the caller must see. */
  function told<T>({ headers, transaction }: Call, written: Promise<T>): Promise<T> {
    if (!standbys || !headers || transaction) return written
    return written.then(async (result) => {
      await positionHeader(standbys, headers)
      return result
    })
  }

  /** Runs a request. Statements inside a transaction are not retried, because the transaction is retried as a whole. */
  function answer(request: Request, call: Call, most?: number): Promise<Answer | undefined> {
    const once = () => answerRequest(steps, request, call, most)
    const answered = call.transaction ? once() : retried(call, once)
    return call.session.acting
      ? answered.catch(async (error) => raise(await explainRequest(error, request, call)))
      : answered
  }

  /** @param call determines the wording of database errors */
  async function retried<T>(call: Call | undefined, run: () => Promise<T>): Promise<T> {
    try {
      return await retryOnConflict(() => retryOnStaleSnapshot(snapshots, run))
    } catch (error) {
      const said = clientError(error, call && readerOf(call), undefined, call?.dialect)
      throw call && isAdmin(call.session) ? await explainMissing(database, said) : said
    }
  }

  async function transactionOn<T>(
    lend: Lend,
    call: Call,
    fn: (call: Call & { readonly transaction: Transaction }) => Promise<T>,
    how: Pick<TransactionOptions, 'mode' | 'undo'> = {},
  ): Promise<T> {
    const { transaction: outer } = call
    if (outer) return fn({ ...call, transaction: outer })
    if (!how.undo) refuseDryRun(call)
    return limits.run(
      call,
      (signal) =>
        retried(call, () =>
          runTransaction(database, lend, snapshots, signal, (transaction) => fn({ ...call, signal, transaction }), how),
        ),
      // Each statement has its own limit, and together they use the caller's share.
      call.session.caller === undefined ? Infinity : limits.timeoutOf(call),
    )
  }

  /** Runs `fn` in a transaction that is always rolled back. */
  const undone = <T>(call: Call, fn: (client: ClientBase) => Promise<T>, mode?: string): Promise<T> =>
    limits.run(
      call,
      (signal) =>
        withClient(database.main, (client, discard) =>
          cancellable(database, client, discard, signal, () =>
            inTransaction(client, () => fn(client), { mode, willClose: () => signal.aborted, undo: true }),
          ),
        ),
      limits.timeoutOf(call),
    )

  const runSql = sqlRunner(database, snapshots, log, transactionOn)
  const plan: Data['plan'] = ({ planner, shape, values }, names) => {
    try {
      return plans.plan(planner, shape, names)
    } catch (error) {
      throw inRows(error, values)
    }
  }
  const { explainRequest, explainRefusal } = refusalExplainer({
    current: () => snapshots.current,
    plan,
    authorized: (request, call) => plans.authorized(snapshotOf(call), taskOf(request, call)),
    execution: executionOf,
    undone,
  })

  const query: Data['query'] = async <Row extends object>(
    text: string,
    values: readonly unknown[] = [],
    inside?: Transaction,
  ) => {
    // After the SQL of an admin, the connection may not know what was prepared.
    const name = pooled || inside?.changedSession ? {} : { name: nameOf(text) }
    const ask = async (client: ClientBase) => (await client.query<Row>({ ...name, text, values: [...values] })).rows
    return inside ? ask(await inside.connection()) : retried(undefined, () => withClient(database.main, ask))
  }
  const transaction: Data['transaction'] = (call, fn) =>
    told(
      call,
      transactionOn((use) => withClient(database.main, use), call, fn),
    )
  const undoneTransaction: Data['transaction'] = (call, fn) =>
    transactionOn((use) => withClient(database.main, use), call, fn, { undo: true })
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
    genericPlan: (sql, call) => retried(call, () => undone(call, (client) => genericPlan(client, sql), 'read only')),
    untracked: () => countUntracked(database, snapshots.current.catalog),
    async run(request, call) {
      const answered = await answer(request, call)
      return answered && textOf(answered)
    },
    async read(request, call, most = Infinity) {
      return (await answer(request, call, call.transaction ? undefined : most)) as Answer
    },
    query,
    transaction,
    once: once.once,
    isKept: once.isKept,
    isRead: async (request, call) => isPlainRead(await compiled(snapshotOf(call), request, call, call.session.caller)),
    alter: (call, fn) =>
      told(
        call,
        transactionOn(
          (use) => withClient(database.admin, use),
          call,
          async ({ transaction }) => fn(new Editor(await transaction.lock())),
        ),
      ),
    runSql: (call, cascade, fn, sqlOptions) => {
      const result = runSql(call, cascade, fn, sqlOptions)
      return sqlOptions?.readOnly ? result : told(call, result)
    },
    metadata: ({ transaction }) =>
      transaction
        ? transaction.lock().then(({ draft }) => draft.metadata)
        : snapshots.readCommitted(
            async (client) => (await readMetadata(client, snapshots.current.reading as Reading)).metadata,
          ),
    catalogFor: (call) => snapshotOf(call).catalog,
    reload: () => snapshots.reload(),
    explain: (request, call, analyze = false) =>
      retried(call, async () => {
        const snapshot = snapshots.current
        // Refuses what is too large.
        await compiled(snapshot, request, call, call.session.caller)
        const execution = executionOf(request, call)
        const inUndone: Undone = (run) => undone(call, run)
        const all: Explained[] = []
        for (const { op, field } of fieldsOf(await plans.authorized(snapshot, taskOf(request, call)))) {
          const explained = await explainStatement(op, execution, analyze, inUndone)
          all.push({ field, ...explained, refused: await refusalOf(op, call, snapshot, execution, inUndone) })
        }
        return all
      }),
    explainPermission: ({ action, table, row, write, session, permission }, call) =>
      retried(call, () => {
        const { catalog } = snapshots.current
        const reading = snapshots.current.reading as Reading
        const asked = { role: permissionRole(session), action, table }
        const planned = (request: Request) => ({
          plan: (names: Names) => plan(request, names),
          execution: { ...executionOf(request, { ...call, session }), reader: readerOf(call) },
        })
        return undone(call, async (client) => {
          const rules =
            permission === undefined
              ? { catalog, metadata: reading.metadata }
              : await tryPermission(Change.trying(client, snapshots.options, reading), asked, permission)
          return explainTrial(client, {
            ...asked,
            ...rules,
            variables: session.variables,
            row: row && planned(row),
            write: write && planned(write),
          })
        })
      }),
    readPlans: (call, fn) =>
      retried(call, () =>
        undone(call, (client) =>
          fn(
            planReader(client, async (request, session) => ({
              op: await plans.authorized(snapshots.current, taskOf(request, { ...call, session })),
              execution: executionOf(request, { ...call, session }),
            })),
          ),
        ),
      ),
    explainRefusal,
    plan,
    async prepare<T>(planner: string, shape: unknown, call: Call, { patient = false } = {}): Promise<T> {
      const task = { planner, shape, role: permissionRole(call.session), form: 'prepare' as const }
      return (await plans.prepared(snapshotOf(call), task, call.session.caller, patient)) as T
    },
    check: async (request, call) => {
      await compiled(snapshotOf(call), request, call)
    },
    mustFit,
    describeCatalog: (options) => snapshots.describeCatalog(options),
    usePlanners: (sources) => plans.use(sources),
    async start() {
      plans.start(() => snapshots.current.sendable as Sendable)
      await Promise.all([snapshots.watch(), counts.refresh(), standbys?.start()])
      await plans.warm()
      if (options.background) once.startPruning()
    },
    closers: [
      { owner: 'shared connections', run: async () => void (await Promise.all(closers.map((close) => close()))) },
      { owner: 'checks of standbys', run: async () => standbys?.close() },
      { owner: 'kept answers', run: () => once.close() },
      { owner: 'compilation', run: () => plans.close() },
      { owner: 'listening for metadata changes', run: () => snapshots.close() },
    ],
  }
}

/** Makes sure that nothing is committed for a dry run, whatever path it takes. */
function refuseDryRun({ dryRun }: Call): void {
  if (dryRun) throw serviceError('not-supported', 'this request cannot be a dry run')
}

function raise(error: unknown): never {
  throw error
}

/**
 * Returns whether a request may be retried. Requests that call volatile functions use a write statement and run once.
 */
const isPlainRead = ({ statements, kind }: Compiled): boolean =>
  statements.length === 1 && (kind === 'read' || kind === 'count' || kind === 'roots')

function answerOf(cell: Cell, { version }: Compiled): Answer {
  if (version) return splitVersion(cell)
  return typeof cell === 'string' ? { kind: 'text', text: cell } : { kind: 'bytes', bytes: cell }
}

function textOf(answer: Answer): string {
  if (answer.kind === 'stream') throw new Error('expected text, got a stream')
  return answer.kind === 'text' ? answer.text : answer.bytes.toString()
}

/** Binds long rows in a worker, so that `bind` finds their text. */
async function bindLong(params: readonly Param[], values: readonly Json[], { session, signal }: Call): Promise<void> {
  const { bindInWorker } = await import('../long/pool.js')
  for (const param of params) {
    const rows = param.kind === 'rows' ? values[param.slot] : undefined
    if (param.kind !== 'rows' || !(rows instanceof Rows) || rows.source.length <= LONG) continue
    if (mustRead(rows, param.columns)) await bindInWorker(rows, param.columns, { caller: session.caller, signal })
  }
}
