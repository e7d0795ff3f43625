import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Compiled, Task } from '../compile/compile.js'
import type { DatabaseConfig } from '../db/config.js'
import { isPooled } from '../db/database.js'
import { executeIn } from '../db/execute.js'
import type { Cell, Execution, Job, Lane } from '../db/lane.js'
import { answerTooLarge } from '../db/limit-answers.js'
import { type Observer, type Place, queryTags } from '../db/observe.js'
import { writerOf } from '../db/writer.js'
import type { Answer } from '../answer.js'
import type { Eventual } from '../deadline.js'
import { serviceError } from '../errors.js'
import { type Json, Rows } from '../json/parse.js'
import { LONG } from '../json/rows.js'
import { answerRequest, type RequestSteps } from '../request.js'
import { answerLimit, permissionRole, type Session } from '../session.js'
import { bind, type Param } from '../sql/bind.js'
import { mustRead } from '../sql/bind-rows.js'
import { encodeLongArray, LONG_ARRAY } from '../plan/encode.js'
import { type ReadSet, readSet } from '../plan/read-set.js'
import type { Form } from '../sql/emit.js'
import type { CallerLimits } from './caller-limits.js'
import type { Data, Request } from './data.js'
import { answerRows } from './format.js'
import type { Inspect } from './inspect.js'
import type { Call } from './operations.js'
import type { Plans } from './plans.js'
import { readPlace } from './read-place.js'
import { checkPrice, type Limits } from './request-limits.js'
import type { RowCounts } from './row-counts.js'
import { inRows } from './row-places.js'
import type { Snapshot } from './snapshots.js'
import { splitVersion } from './split-version.js'
import { watchedSource } from './watched.js'
import type { Transaction } from './transaction.js'
import { refuseDryRun, type Transactions } from './transactions.js'

interface Parts {
  readonly config: DatabaseConfig
  readonly limits: Limits
  readonly plans: Plans
  readonly lane: Lane
  readonly callers: CallerLimits
  readonly counts: RowCounts
  readonly transactions: Transactions
  readonly observer: Observer
  /** Where statements of transactions run. */
  readonly place: Place
  readonly hasStandbys: boolean
  readonly inspect: () => Inspect
}

/** Runs the requests of plugins. */
export interface Runner extends Pick<Data, 'run' | 'read' | 'plan' | 'prepare' | 'check' | 'watch' | 'mustFit'> {
  /** Returns whether the caller's request only reads. */
  isRead(request: Request, call: Call): Promise<boolean>
  /** @param caller charged for a new shape; absent: no charge */
  compiled(snapshot: Snapshot, request: Request, call: Call, caller?: string, form?: Form): Eventual<Compiled>
  /** Returns what a request asks PostgreSQL for. @param plan absent for a statement that explains it */
  executionOf(request: Request, call: Call, plan?: Compiled): Execution
  taskOf(request: Request, call: Call, form?: Form): Task
}

/** Provides the steps of a request that `core/request.ts` runs in order. */
export function createRunner(parts: Parts): Runner {
  const { config, limits, plans, lane, callers, counts, transactions, observer, place, hasStandbys, inspect } = parts
  const { snapshotOf, readerOf, retried, withPosition } = transactions
  const pooled = isPooled(config)
  const writer = writerOf(config.writerVariables)
  /** What the answers to watched plans depend on. */
  const readSets = new WeakMap<Compiled, ReadSet>()

  const taskOf = ({ planner, shape }: Request, { session }: Call, form: Form = 'array'): Task => ({
    planner,
    shape,
    role: permissionRole(session),
    form,
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
      // A statement that explains another may run it, and undo it.
      writer: !plan || plan.tellsWriter ? writer(call) : undefined,
      shape,
      isCached: plan && plans.isCached(plan),
      dialect: call.dialect ?? 'alpha',
      reader: readerOf(call, plan),
      timeoutMs: callers.timeoutOf(call),
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

  function compiled(
    snapshot: Snapshot,
    request: Request,
    call: Call,
    caller?: string,
    form?: Form,
  ): Eventual<Compiled> {
    const plan = plans.compiled(snapshot, taskOf(request, call, form), caller)
    if (!(plan instanceof Promise)) return plan
    return plan.catch((error: unknown) => {
      throw inRows(error, request.values)
    })
  }

  const steps: RequestSteps = {
    isShort: (plan) => plans.isShort(plan),
    recordLength: (plan, isLong) => plans.recordLength(plan, isLong),
    compile: (request, call, form, isFree = false) =>
      compiled(snapshotOf(call), request, call, isFree ? undefined : call.session.caller, form),
    checkPrice: ({ price }, { values }, call) => checkPrice(limits, price, values, counts.of, call),
    bindLong({ statements }, { values }, call) {
      if (!values.some(isLong)) return undefined
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
        call,
        isLast: request.isLast,
        standby: hasStandbys && request.onStandby ? readPlace(config, call) : undefined,
      }
    },
    runCell(job, call) {
      const { transaction } = call
      if (transaction) return runInside(transaction, job, call)
      if (!isPlainRead(job.plan)) {
        refuseDryRun(call)
        return withPosition(call, lane.write(job)).then((cell) => answerOf(cell, job.plan))
      }
      return lane.cell(job).then((cell) => {
        // What a write has written would be lost to the client.
        mustFit(cell.length, call.session)
        return answerOf(cell, job.plan)
      })
    },
    runRows: async (job, { format }) => answerRows(await lane.rows(job), format, job.plan),
  }

  async function runInside(transaction: Transaction, job: Job, call: Call): Promise<Answer> {
    const client = await transaction.connection()
    const answered = executeIn(client, job.plan, job.values, job.execution, place)
    if (job.isLast && job.plan.statements.length === 1) call.onSent?.()
    const text = await answered
    transaction.answered += Buffer.byteLength(text)
    mustFit(transaction.answered, call.session)
    return answerOf(text, job.plan)
  }

  /** Runs a request. Statements inside a transaction are not retried, because the transaction is retried as a whole. */
  function answer(request: Request, call: Call, most?: number): Promise<Answer | undefined> {
    const once = (): Promise<Answer | undefined> => {
      try {
        return answerRequest(steps, request, call, most)
      } catch (error) {
        return Promise.reject(error)
      }
    }
    const answered = call.transaction ? once() : retried(call, once)
    if (!call.session.acting) return answered
    return answered.catch(async (error) => {
      throw await inspect().explainRequest(error, request, call)
    })
  }

  return {
    taskOf,
    executionOf,
    compiled,
    mustFit,
    run: (request, call) => answer(request, call).then((answered) => answered && textOf(answered)),
    read: (request, call, most = Infinity) =>
      answer(request, call, call.transaction ? undefined : most) as Promise<Answer>,
    plan({ planner, shape, values }, names) {
      try {
        return plans.plan(planner, shape, names)
      } catch (error) {
        throw inRows(error, values)
      }
    },
    prepare<T>(planner: string, shape: unknown, call: Call, { patient = false } = {}): Promise<T> {
      const task = { planner, shape, role: permissionRole(call.session), form: 'prepare' as const }
      return plans.prepared(snapshotOf(call), task, call.session.caller, patient) as Promise<T>
    },
    check: async (request, call) => {
      await compiled(snapshotOf(call), request, call)
    },
    async watch(request, call) {
      const snapshot = snapshotOf(call)
      const plan = await compiled(snapshot, request, call, call.session.caller)
      const [statement] = plan.statements
      if (!statement || !isPlainRead(plan)) {
        throw serviceError('not-supported', 'only reads can be watched')
      }
      const { bindings } = executionOf(request, call, plan)
      const values = bind(statement.params, bindings)
      let reads = readSets.get(plan)
      if (!reads) {
        reads = readSet(await plans.authorized(snapshot, taskOf(request, call)), snapshot.catalog)
        readSets.set(plan, reads)
      }
      const { sources, isComplete } = reads
      return {
        sources: sources.map((each) => watchedSource(each, bindings)),
        isComplete,
        key: JSON.stringify([statement.name, values]),
      }
    },
    isRead: async (request, call) => isPlainRead(await compiled(snapshotOf(call), request, call, call.session.caller)),
  }
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

const isLong = (value: Json): boolean =>
  value instanceof Rows ? value.source.length > LONG : Array.isArray(value) && value.length > LONG_ARRAY

/** Binds long rows in a worker, and long arrays with other work in between, so that `bind` finds their text. */
async function bindLong(params: readonly Param[], values: readonly Json[], { session, signal }: Call): Promise<void> {
  const { bindInWorker } = await import('../long/pool.js')
  for (const param of params) {
    const value = param.kind === 'rows' || param.kind === 'value' ? values[param.slot] : undefined
    if (value === undefined || !isLong(value)) continue
    if (param.kind === 'value' && Array.isArray(value)) {
      await encodeLongArray(value, param.type, param.path, nextTurn)
    } else if (param.kind === 'rows' && value instanceof Rows && mustRead(value, param.columns)) {
      await bindInWorker(value, param.columns, { caller: session.caller, signal })
    }
  }
}
