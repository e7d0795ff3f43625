import { setImmediate } from 'node:timers/promises'
import type { ClientBase } from 'pg'
import type { CatalogData } from '../catalog/catalog.js'
import { readAll, type Reading } from '../catalog/change.js'
import type { TemplateResolver } from '../catalog/draft.js'
import { Editor } from '../catalog/editor.js'
import { readMetadata } from '../catalog/metadata.js'
import { watchCatalog, type Watch } from '../catalog/watch.js'
import { type Compiled, nameOf, type PlannerSource, type Prepared, type Task } from '../compile/compile.js'
import type { Sendable } from '../compile/pool.js'
import {
  type Database,
  inTransaction,
  isConnectionError,
  isPooled,
  isSilence,
  sqlState,
  withClient,
} from '../db/database.js'
import { clientError, isConflict, isStale } from '../db/errors.js'
import { RESET_SESSION } from '../db/pooler.js'
import type { Reader } from '../db/disclosure.js'
import { cancellable, execute, executeIn, type Execution } from '../db/execute.js'
import { type ServiceError, serviceError } from '../errors.js'
import { NotDone, type Pipelines } from '../db/pipeline/index.js'
import { answerTooLarge } from '../db/limit-answers.js'
import { BATCH, readRows, type RowBatches } from '../db/stream.js'
import { authorize } from '../plan/authorize.js'
import { namesFor } from '../plan/names.js'
import { bind } from '../sql/bind.js'
import type { Session } from '../session.js'
import type { Form } from '../sql/emit.js'
import type { Data, Request } from './data.js'
import { answerRows } from './format.js'
import { checkPrice, type RequestLimits } from './request-limits.js'
import { openShares } from './shares.js'
import type { Answer, Call } from './operations.js'
import { Plans, type PlansOptions } from './plans.js'
import { openSnapshot, type Snapshot } from './snapshot.js'
import { Transaction } from './transaction.js'
import { type Refusal, trialOf } from './trial.js'

/** The data room with its keys: what the server opens and closes. */
export interface DataRoom extends Data {
  /** @see Plans.use */
  usePlanners(sources: ReadonlyMap<string, PlannerSource>): Promise<void>
  /** Starts the watch over metadata changes and the workers. */
  start(): Promise<void>
  /** Why metadata changes of other instances may be seen late; undefined when all is well. */
  readonly degraded: string | undefined
  /** What to close, in reverse order. */
  readonly closers: readonly { readonly owner: string; run(): Promise<void> }[]
}

const TRIES = 3
/** A trigger that names what is not there looks like a stale snapshot at every call: do not reload for each. */
const RELOAD_MS = 1000
/** Snapshots that a difference can be sent to. */
const RECENT = 5

/**
 * Reads the catalog and answers requests against it. The schema must be migrated.
 * @param admit throws 429 when too much waits in memory for the caller
 */
export async function openData(
  database: Database,
  options: Omit<PlansOptions, 'quickMs'>,
  limits: RequestLimits,
  admit: (session: Session) => void,
): Promise<DataRoom> {
  const { log } = options
  const { config } = database
  const pooled = isPooled(config)
  const plans = new Plans({ ...options, quickMs: config.quickMs })
  const { requests, streams } = openShares(config)
  let resolve: TemplateResolver | undefined
  let watch: Watch | undefined
  /** Reads what is committed, all at one instant. */
  const readAtOnce = <T>(read: (client: ClientBase) => Promise<T>): Promise<T> =>
    withClient(database.admin, (client) =>
      inTransaction(client, () => read(client), { mode: 'isolation level repeatable read read only' }),
    )
  /** @param known what was read last */
  const readCommitted = (known?: Reading): Promise<Reading> => readAtOnce((client) => readAll(client, resolve, known))
  let current = committed(await readCommitted(), [])
  /** What workers may still have, the newest last. They share what has not changed. */
  let recent: readonly CatalogData[] = [current.data]
  let lookedAt = 0
  /** The versions that changes made here bring, from before their commit until they are in place. */
  const coming = new Set<string>()
  logInconsistent()

  /** Swaps the snapshot, unless a newer one is in place. Requests under way finish on the one that they began with. */
  async function swap(reading: Reading): Promise<void> {
    if (!isOlder(reading, current)) return put(reading)
    // Read before a change of ours, most likely. Unless the database went back: then it says the same again.
    const before = current
    const again = await readCommitted(before.reading)
    if (!isOlder(again, before)) return swap(again)
    if (current !== before) return
    log.warn({ version: again.data.version, was: before.catalog.version }, 'the database has gone back in time')
    put(again)
  }

  function put(reading: Reading): void {
    current = committed(reading, recent)
    recent = [...recent, current.data].slice(-RECENT)
    logInconsistent()
  }

  function logInconsistent(): void {
    for (const each of current.catalog.inconsistent) log.warn(each, 'metadata that the database does not bear out')
  }

  const taskOf = ({ planner, shape }: Request, { session }: Call, form: Form = 'array'): Task => ({
    planner,
    shape,
    role: session.role,
    form,
  })
  const readerOf = ({ session, transaction, log }: Call, plan?: Compiled): Reader => ({
    role: session.role,
    catalog: (transaction?.snapshot ?? current).catalog,
    ...(plan ? { kind: plan.kind } : {}),
    log,
  })
  // A map, because a role may have the name of something that every object has.
  const roleTimeouts = new Map(Object.entries(config.roleTimeoutMs))
  const timeoutOf = ({ session: { role } }: Call): number =>
    Math.min(roleTimeouts.get(role) ?? Infinity, config.statementTimeoutMs)
  const executionOf = ({ values }: Request, call: Call, plan?: Compiled): Execution => ({
    bindings: { values, variables: call.session.variables },
    prepare: !pooled && plan !== undefined && plans.paceOf(plan) !== undefined,
    dialect: call.dialect ?? 'alpha',
    reader: readerOf(call, plan),
    timeoutMs: timeoutOf(call),
    pace: plan && laneOf(plan) ? plans.paceOf(plan) : undefined,
  })

  function mustFit(bytes: number): void {
    if (bytes > config.maxAnswerBytes) throw answerTooLarge(config.maxAnswerBytes)
  }

  async function run(request: Request, call: Call): Promise<string | undefined> {
    const { transaction } = call
    if (transaction) {
      const plan = await plans.compiled(transaction.snapshot, taskOf(request, call), call.session.caller)
      checkPrice(limits, plan.price, request.values, call)
      if (plan.statements.length === 0) return undefined
      plans.assertBranded(plan)
      const answer = await executeIn(transaction.client, plan, executionOf(request, call, plan))
      transaction.answered += Buffer.byteLength(answer)
      mustFit(transaction.answered)
      return answer
    }
    return again(call, async () => {
      const plan = await plans.compiled(current, taskOf(request, call), call.session.caller)
      checkPrice(limits, plan.price, request.values, call)
      return plan.statements.length === 0 ? undefined : answer(plan, request, call)
    })
  }

  async function answer(plan: Compiled, request: Request, call: Call): Promise<string> {
    plans.assertBranded(plan)
    return (await quickly(plan, request, call))?.toString() ?? byItself(plan, request, call)
  }

  async function byItself(plan: Compiled, request: Request, call: Call): Promise<string> {
    const execution = executionOf(request, call, plan)
    const run = (limited: Call) => {
      const once = () => execute(database, plan, execution, limited.signal)
      return isPlainRead(plan) ? twice(once, limited) : once()
    }
    const { timeoutMs } = execution
    const isQuick = plans.paceOf(plan)?.mayShare
    return within(call, run, timeoutMs < config.statementTimeoutMs ? timeoutMs : Infinity, isQuick)
  }

  /**
   * Runs what takes a connection, within the caller's share of them.
   * @param timeoutMs after which it is cancelled. Infinity: what runs has a limit of its own
   */
  async function within<T>(
    call: Call,
    run: (limited: Call) => Promise<T>,
    timeoutMs: number,
    isQuick = false,
  ): Promise<T> {
    const { session, signal } = call
    // Who is not limited waits for connections in the pool alone.
    const give = session.caller === undefined ? undefined : await requests.take(session, signal, isQuick)
    try {
      // Again, because others of this caller have been answered since it came.
      admit(session)
      if (timeoutMs === Infinity) return await run(call)
      const late = AbortSignal.timeout(timeoutMs)
      return await run({ ...call, signal: AbortSignal.any([signal, late]) }).catch((error: unknown) => {
        throw late.aborted && !signal.aborted ? tooLong(call) : error
      })
    } finally {
      give?.()
    }
  }

  const tooLong = ({ session }: Call): ServiceError =>
    serviceError(
      'timeout',
      `the request took longer than role "${session.role}" may (database.roleTimeoutMs, statementTimeoutMs)`,
    )

  /** What requests share with others of their kind, once they have proven to be quick. */
  const laneOf = (plan: Compiled): Pipelines | undefined =>
    isPlainRead(plan) ? database.pipelines : plan.sharesCommit ? database.commits : undefined

  /** @returns undefined: it has not proven to be quick, or could not be answered there, and is to be asked by itself */
  function quickly(plan: Compiled, request: Request, call: Call): Promise<Buffer | undefined> | undefined {
    const pace = plans.paceOf(plan)?.of(call.session.caller)
    const lane = pace?.mayShare ? laneOf(plan) : undefined
    if (!lane || !pace) return undefined
    const statement = plan.statements[0] as Prepared
    const values = bind(statement.params, { values: request.values, variables: call.session.variables })
    return lane.ask(statement, values, pace)?.catch((error: unknown) => {
      if (error instanceof NotDone) return undefined
      throw error
    })
  }

  /** Nothing has been answered and nothing written: a read whose connection broke may simply be asked again. */
  async function twice<T>(read: () => Promise<T>, { signal }: Call): Promise<T> {
    return read().catch(async (error: unknown) => {
      if (!isConnectionError(error) || isSilence(error) || signal.aborted) throw error
      // Others may have broken with it, and the pool learns of them only now.
      await setImmediate()
      return read()
    })
  }

  async function read(request: Request, call: Call, most = Infinity): Promise<Answer> {
    const { transaction, format } = call
    if (transaction) return { kind: 'text', text: (await run(request, call)) as string }
    return again(call, async () => {
      const { caller } = call.session
      if (format === 'json') {
        const plan = await plans.compiled(current, taskOf(request, call), caller)
        const bounded = Math.min(most, plan.mostRows ?? Infinity) <= BATCH
        if (bounded) {
          plans.assertBranded(plan)
          checkPrice(limits, plan.price, request.values, call)
          const bytes = await quickly(plan, request, call)
          return bytes ? { kind: 'bytes', bytes } : { kind: 'text', text: await byItself(plan, request, call) }
        }
      }
      // Charged once for both.
      const task = taskOf(request, call, format === 'csv' ? 'cells' : 'rows')
      const plan = await plans.compiled(current, task, format === 'json' ? undefined : caller)
      plans.assertBranded(plan)
      checkPrice(limits, plan.price, request.values, call)
      const execution = executionOf(request, call, plan)
      const open = () => readRows(database, plan.statements[0] as Prepared, execution, call.signal)
      const rows = await within(call, () => twice(open, call), Infinity)
      return answerRows(await shared(rows, call), format, plan.keys)
    })
  }

  /** A small answer has given its connection back; one that goes on counts, for its caller too, until it has ended. */
  async function shared(rows: RowBatches, { session, signal }: Call): Promise<RowBatches> {
    if (rows.done) return rows
    try {
      void rows.ended.then(await streams.take(session, signal))
      return rows
    } catch (error) {
      await rows.end()
      throw error
    }
  }

  /** Runs a write and rolls it back. @returns what of the role's permission refuses it; undefined: nothing, or it is a read */
  async function refusalOf(request: Request, call: Call, { catalog, reading }: Snapshot): Promise<Refusal | undefined> {
    const { role } = call.session
    const op = authorize(plans.plan(request.planner, request.shape, namesFor(role, catalog)), role, catalog)
    if (op.kind !== 'insert' && op.kind !== 'update') return undefined
    const trial = trialOf(op, role, catalog, (reading as Reading).metadata)
    const execution = executionOf(request, call)
    const run = ({ signal }: Call) =>
      withClient(database.main, (client, discard) =>
        cancellable(database, client, discard, signal, () =>
          inTransaction(client, () => executeIn(client, trial, execution), {
            willClose: () => signal.aborted,
            undo: true,
          }),
        ),
      )
    return trial.refusal(await within(call, run, timeoutOf(call)))
  }

  /** Tries again what the database rolled back in a conflict, and once what failed because the snapshot was stale. */
  async function again<T>(call: Call | undefined, fn: () => Promise<T>): Promise<T> {
    const failed = (error: unknown) => clientError(error, call && readerOf(call))
    let reloaded = false
    for (let tries = 1; ; tries++) {
      try {
        return await fn()
      } catch (error) {
        if (isStale(error) && !reloaded && Date.now() - lookedAt > RELOAD_MS) {
          reloaded = true
          lookedAt = Date.now()
          const fresh = await readCommitted(current.reading)
          // Nothing has changed, so it would fail again; and what is compiled is worth keeping.
          if (sameCatalog(fresh.data, current.data)) throw failed(error)
          log.info({ state: sqlState(error) }, 'the snapshot is stale')
          await swap(fresh)
        } else if (isConflict(error) && tries < TRIES) await pause(tries)
        else throw failed(error)
      }
    }
  }

  async function transaction<T>(
    call: Call,
    fn: (call: Call & { readonly transaction: Transaction }) => Promise<T>,
  ): Promise<T> {
    return transactionOn(database.main, call, fn)
  }

  async function transactionOn<T>(
    pool: Database['main'],
    call: Call,
    fn: (call: Call & { readonly transaction: Transaction }) => Promise<T>,
  ): Promise<T> {
    const { transaction: outer } = call
    if (outer) return fn({ ...call, transaction: outer })
    const run = (limited: Call) =>
      again(call, () =>
        withClient(pool, async (client, discard) => {
          const inner = new Transaction(client, current, resolve)
          let altered: Reading | undefined
          const signal = AbortSignal.any([limited.signal, inner.signal])
          try {
            const result = await cancellable(database, client, discard, signal, () =>
              inTransaction(
                client,
                async () => {
                  const answer = await fn({ ...limited, transaction: inner })
                  altered = await inner.finish()
                  if (pooled && inner.discarded) await client.query(RESET_SESSION)
                  signal.throwIfAborted()
                  if (altered) coming.add(altered.data.version)
                  return answer
                },
                { willClose: () => signal.aborted || inner.discarded },
              ),
            )
            if (altered) await swap(altered)
            return result
          } finally {
            if (altered) coming.delete(altered.data.version)
            if (inner.discarded) discard()
          }
        }),
      )
    // Each statement has its limit, and together they hold the caller's share.
    return within(call, run, call.session.caller === undefined ? Infinity : timeoutOf(call))
  }

  const isKnown = (version: string): boolean => version === current.catalog.version || coming.has(version)

  async function reload(): Promise<void> {
    await swap(await readCommitted(current.reading))
  }

  return {
    get catalog() {
      return current.catalog
    },
    get degraded() {
      return watch?.degraded
    },
    run,
    read,
    async query<Row extends object>(text: string, values: readonly unknown[] = [], inside?: Transaction) {
      const name = pooled ? {} : { name: nameOf(text) }
      const ask = async (client: ClientBase) => (await client.query<Row>({ ...name, text, values: [...values] })).rows
      return inside ? ask(inside.client) : again(undefined, () => withClient(database.main, ask))
    },
    transaction,
    alter: (call, fn) =>
      transactionOn(database.admin, call, async ({ transaction: inner }) => fn(new Editor(await inner.lock()))),
    runSql: (call, cascade, fn) =>
      transactionOn(database.admin, call, async ({ transaction: inner }) => {
        const change = await inner.lock()
        inner.discard()
        const result = await fn(inner.client)
        await inner.client.query('reset role; reset search_path')
        await change.rescan(cascade)
        return result
      }),
    metadata: (call) =>
      call.transaction
        ? call.transaction.lock().then(({ draft }) => draft.metadata)
        : readAtOnce(async (client) => (await readMetadata(client, current.reading)).metadata),
    catalogFor: ({ transaction: inner }) => (inner?.snapshot ?? current).catalog,
    reload,
    explain: (request, call) =>
      again(call, async () => {
        const snapshot = current
        const plan = await plans.compiled(snapshot, taskOf(request, call), call.session.caller)
        plans.assertBranded(plan)
        const statement = plan.statements[0]
        if (!statement) throw serviceError('unexpected-payload', ONE_KEY_SET, '$.args.objects')
        const values = bind(statement.params, executionOf(request, call).bindings)
        const query = { text: `explain ${statement.text}`, values, rowMode: 'array' as const }
        const { rows } = await withClient(database.main, (client) => client.query<[string]>(query))
        const refused = await refusalOf(request, call, snapshot)
        return { sql: statement.text, plan: rows.map(([line]) => line), ...(refused ? { refused } : {}) }
      }),
    plan: ({ planner, shape }, names) => plans.plan(planner, shape, names),
    async prepare<T>(planner: string, shape: unknown, call: Call, { patient = false } = {}): Promise<T> {
      const snapshot = call.transaction?.snapshot ?? current
      const task = { planner, shape, role: call.session.role, form: 'prepare' as const }
      return (await plans.prepared(snapshot, task, call.session.caller, patient)) as T
    },
    check: async (request, call) => {
      await plans.compiled(call.transaction?.snapshot ?? current, taskOf(request, call))
    },
    mustFit,
    resolveTemplates: (fn) => void (resolve = fn),
    usePlanners: (sources) => plans.use(sources),
    async start() {
      plans.start(() => current.sendable as Sendable)
      // The first snapshot was read before anybody could say what templates mean.
      if (resolve && current.catalog.templates.length > 0) await reload()
      watch = await watchCatalog(database, isKnown, reload, log)
      await plans.warm()
    },
    closers: [
      { owner: 'compilation', run: () => plans.close() },
      { owner: 'listening for metadata changes', run: async () => watch?.close() },
    ],
  }
}

const ONE_KEY_SET = 'the rows have different sets of keys; explain those of one set at a time'

/** It may be asked again. What calls a function that may change something has a statement for that, and is asked once. */
const isPlainRead = (plan: Compiled): boolean => plan.statements.length === 1 && isRead(plan)
const isRead = ({ kind }: Compiled): boolean => kind === 'read' || kind === 'count' || kind === 'roots'

const committed = (reading: Reading, earlier: readonly CatalogData[]): Snapshot =>
  openSnapshot(reading.data, reading, earlier)

/** Whether a reading found the same as the one before it, whose tables it shares; each has an id of its own. */
function sameCatalog({ tables, ...one }: CatalogData, { tables: before, ...other }: CatalogData): boolean {
  const sameTables = tables.length === before.length && tables.every((table, i) => table === before[i])
  return sameTables && JSON.stringify({ ...one, id: '' }) === JSON.stringify({ ...other, id: '' })
}

const isOlder = ({ data }: Reading, { catalog }: Snapshot): boolean => BigInt(data.version) < BigInt(catalog.version)

const pause = (tries: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, 5 * tries + Math.random() * 20)
  })
