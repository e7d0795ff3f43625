import pg, { type ClientBase } from 'pg'
import { tableName } from '../catalog/catalog.js'
import type { Reading } from '../metadata/change.js'
import type { Execution } from '../db/lane.js'
import { ServiceError } from '../errors.js'
import type { Json } from '../json/parse.js'
import { Rows } from '../json/rows.js'
import type { Count, Insert, Op, Rule, TableRef, Update } from '../ir.js'
import { type Action, type Names, namesFor, RULE_ACTIONS } from '../plan/names.js'
import { permissionRole } from '../session.js'
import { emit } from '../sql/emit.js'
import type { Request } from '../data/data.js'
import type { PermissionExplained, Refusal } from '../data/inspect.js'
import { permissionOf, rowsFor, said, tryWrite } from './explain-permission.js'
import { refusalOf, type Undone } from './explain.js'
import type { Call } from '../data/operations.js'
import type { Snapshot } from '../data/snapshots.js'

/** Why a request of an admin who acts as a role is refused. */
interface RefusalExplained extends PermissionExplained {
  readonly table: string
  readonly operation: Action
  /** Definition of the permission; null if the role has none. */
  readonly permission: Json
  /** The clauses that refuse an upsert. */
  readonly refused?: Refusal
}

interface Steps {
  /** Returns the snapshot of new requests. */
  current(): Snapshot
  plan(request: Request, names: Names): Op
  /** Plans a request, and authorizes it for the caller's role. */
  authorized(request: Request, call: Call): Promise<Op>
  execution(request: Request, call: Call): Execution
  /** Runs `fn` in a transaction that is always rolled back. */
  undone<T>(call: Call, fn: (client: ClientBase) => Promise<T>): Promise<T>
}

/** Maximum time for running a refused write again, in milliseconds. */
const MAX_MS = 5_000
/** Maximum number of refused writes that run again at the same time. Others get what is known without that. */
const MOST_RUNNING = 2
/** Maximum number of rows of an insert that runs again. */
const MOST_ROWS = 100

/**
 * Returns functions that add to an error why the role's permission refuses a request, or a row. They leave errors of
 * sessions without `acting` unchanged, because the explanation shows hidden rows, and errors that they cannot explain.
 */
export function refusalExplainer({ current, plan, authorized, execution, undone }: Steps) {
  let running = 0

  async function explain(error: ServiceError, request: Request, call: Call): Promise<RefusalExplained | undefined> {
    const reason = reasonOf(error)
    if (!reason) return undefined
    const op = await authorized(request, call)
    if (op.kind === 'roots' || (op.kind === 'read' && op.from)) return undefined
    const { explained, rule } = known(op.table, actionOf(op), reason, call)
    const isWrite = op.kind === 'insert' || op.kind === 'update'
    if (!isWrite || reason !== 'check' || !rule || call.transaction || running >= MOST_RUNNING) return explained
    if (op.kind === 'insert' && rowCount(request.values[op.rows]) > MOST_ROWS) return explained
    running++
    try {
      const limited = { ...call, signal: AbortSignal.any([call.signal, AbortSignal.timeout(MAX_MS)]) }
      return { ...explained, ...(await runAgain(op, rule, execution(request, call), limited)) }
    } catch (cause) {
      log(cause, call)
      return explained
    } finally {
      running--
    }
  }

  /** Returns what is known about a permission without a row, and its rules. */
  function known(ref: TableRef, operation: Action, reason: PermissionExplained['reason'], { session }: Call) {
    const { catalog, reading } = current()
    const { metadata } = reading as Reading
    const { variables } = session
    const base = { verdict: 'refused', reason, table: tableName(ref), operation } as const
    try {
      const of = { role: permissionRole(session), action: operation, table: ref, catalog, metadata, variables }
      const { definition, about, rule } = permissionOf(of)
      return { explained: { ...base, permission: definition ?? null, ...about }, rule }
    } catch (error) {
      return { explained: { ...base, permission: null, error: said(error), session: {} } }
    }
  }

  /** Runs a refused write again without its check, and evaluates its rules. Rolls it back. */
  async function runAgain(
    op: Insert | Update,
    rule: ReturnType<typeof permissionOf>['rule'],
    how: Execution,
    call: Call,
  ): Promise<Pick<RefusalExplained, 'filter' | 'check' | 'sql' | 'refused'>> {
    const sql = emit(op, 'array')[0]?.text
    if (op.kind === 'insert' && op.onConflict?.action === 'update') {
      const inUndone: Undone = (run) => undone(call, run)
      return { sql, refused: await refusalOf(op, call, current(), how, inUndone) }
    }
    return undone(call, async (client) => {
      const [filter, another] = op.kind === 'update' ? await rowsFor(client, readOf(op), how, rule('filter')!) : []
      if (another) return { sql }
      const { check } = await tryWrite(client, op, how, rule('check'))
      return { sql, filter, check }
    })
  }

  /** Evaluates the rule under which a request counts one row. */
  async function explainRule(request: Request, call: Call): Promise<RefusalExplained> {
    const count = plan(request, namesFor('admin', current().catalog)) as Count
    const under = count.under as Rule
    const part = under === 'inserted' || under === 'updated' ? 'check' : 'filter'
    const { explained, rule } = known(count.table, RULE_ACTIONS[under], part, call)
    const about = rule?.(part)
    if (!about) return explained
    const evaluate = (client: ClientBase) => rowsFor(client, readOf(count), execution(request, call), about)
    // Only the call's own transaction sees the row that it has written.
    const [row] = await (call.transaction ? evaluate(await call.transaction.connection()) : undone(call, evaluate))
    return row ? { ...explained, [part]: row } : { ...explained, reason: 'row' }
  }

  async function add<E>(
    error: E,
    call: Call,
    why: (error: ServiceError) => Promise<RefusalExplained | undefined>,
  ): Promise<E | ServiceError> {
    if (!call.session.acting || !(error instanceof ServiceError) || error.status >= 500) return error
    const { denied } = error
    try {
      const refusal = denied ? known(denied.table, denied.action, 'permission', call).explained : await why(error)
      return refusal ? error.with({ refusal }) : error
    } catch (cause) {
      log(cause, call)
      return error
    }
  }

  return {
    explainRequest: (thrown: unknown, request: Request, call: Call): Promise<unknown> =>
      add(thrown, call, (error) => explain(error, request, call)),
    explainRefusal: (error: ServiceError, call: Call, request?: Request): Promise<ServiceError> =>
      add(error, call, async () => request && explainRule(request, call)),
  }
}

/** Returns why a permission may refuse a request that has been compiled; undefined if another error refused it. */
function reasonOf({ code, status, cause }: ServiceError): 'check' | 'request' | undefined {
  if (cause instanceof pg.DatabaseError && cause.constraint === 'svc_refuse') return 'check'
  // A session variable is missing.
  return code === 'not-found' && status === 400 ? 'request' : undefined
}

function actionOf(op: Op): Action {
  const { kind } = op
  if (kind === 'count' && op.under) return RULE_ACTIONS[op.under]
  return kind === 'insert' || kind === 'update' || kind === 'delete' ? kind : 'select'
}

const rowCount = (rows: Json | undefined): number => (rows instanceof Rows ? rows.count : Infinity)

/** Returns the read of the rows that an update changes, or that are counted. */
const readOf = ({ table, where }: Update | Count) =>
  ({ kind: 'read', table, fields: [], where, orderBy: [], single: false }) as const

const log = (cause: unknown, call: Call): void =>
  call.log?.().warn({ err: cause }, 'could not explain why a permission refuses a request')
