import { createHash } from 'node:crypto'
import { type Catalog, tableKey } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import { authorize } from '../plan/authorize.js'
import type { BoolExp, Op, Read } from '../plan/ir.js'
import { type Names, namesFor } from '../plan/names.js'
import { type Price, priceOf } from '../plan/price.js'
import { emit, type Form } from '../sql/emit.js'
import type { Statement } from '../sql/statement.js'

/** Turns a shape into a plan. Pure; made by a front end; runs in workers too. */
export type Planner = (shape: never, names: Names) => Op

/**
 * A front end as workers import it. `prepare` reads what a shape is made from, where that needs names or takes long: what
 * it returns is plain data and kept with the snapshot.
 */
export interface PlannerModule {
  readonly default: Planner
  readonly prepare?: (shape: never, names: Names) => unknown
}

/** Whether a planner is tried at the start: our own are tested, and one of them takes long to load. */
export const isForeign = (url: string): boolean => !url.startsWith(OWN)
const OWN = new URL('../../plugins/', import.meta.url).href

/** @throws Error that names the planner and says why it cannot be imported */
export async function importPlanner(name: string, url: string): Promise<PlannerModule> {
  try {
    return (await import(url)) as PlannerModule
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'its import failed'
    throw new Error(`planner "${name}" cannot be imported from ${url}: ${why}`, { cause })
  }
}

/** Where a planner comes from. */
export interface PlannerSource {
  readonly module: URL
  /** Its plugin has operations that lift: what they lift is planned in the main thread as well. */
  readonly lifts: () => boolean
}

/** What to compile: a request without its values. */
export interface Task {
  readonly planner: string
  /** Plain data. */
  readonly shape: unknown
  readonly role: string
  readonly form: Form
}

export type Preparation = Omit<Task, 'form'> & { readonly form: 'prepare' }

export interface Compiled {
  readonly kind: Op['kind']
  /** None: the rows of an insert have different keys and must be inserted a key set at a time. */
  readonly statements: readonly Prepared[]
  readonly price: Price
  /** Keys of the result objects in order, for forms that need a header. */
  readonly keys: readonly string[]
  /** Most rows that a read can have, where the plan proves it: a whole key is given, or the role has a limit. */
  readonly mostRows?: number
  /** An insert that may be committed together with others: nobody can tell that it was. */
  readonly sharesCommit?: true
}
export interface Prepared extends Statement {
  /** Short and unique to the text: PostgreSQL would cut a longer one at 63 bytes and mistake it for another. */
  readonly name: string
}

/** plan, authorize, emit: the rooms between a request's shape and its SQL. */
export function compile(task: Task, planner: Planner, catalog: Catalog): Compiled {
  const wanted = planner(task.shape as never, namesFor(task.role, catalog))
  const op = authorize(wanted, task.role, catalog)
  const most = op.kind === 'read' ? mostRows(op, catalog) : undefined
  const quotes = quotesOthers(op, catalog)
  const statements = emit(op, task.form).map((statement) => ({
    ...statement,
    ...(quotes ? { calls: true as const } : {}),
    name: nameOf(statement.text),
  }))
  const longest = Math.max(0, ...statements.map(({ text }) => text.length))
  if (longest > MAX_SQL) {
    throw unexpectedPayload(
      `the request is too large: its SQL has ${longest} characters, and at most ${MAX_SQL} are allowed`,
      '$',
    )
  }
  return {
    kind: op.kind,
    statements,
    price: priceOf(wanted, catalog, most),
    keys: op.kind === 'read' ? op.fields.map((field) => field.key) : [],
    mostRows: most,
    ...(statements.length === 1 && sharesCommit(op, catalog) ? { sharesCommit: true } : {}),
  }
}

/** PostgreSQL cannot be interrupted while it parses, which may take the square of a statement's length. */
const MAX_SQL = 1024 * 1024

/** Runs a front end's `prepare` for a role. */
export function prepare(task: Preparation, { prepare }: PlannerModule, catalog: Catalog): unknown {
  if (!prepare) throw new Error(`planner "${task.planner}" has nothing to prepare`)
  return prepare(task.shape as never, namesFor(task.role, catalog))
}

/** A name for a prepared statement: short, and unique to the text. */
export const nameOf = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 22)

function mostRows(read: Read, catalog: Catalog): number | undefined {
  if (read.from) return read.maxRows
  const given = new Set(equalColumns(read.where))
  const keys = catalog.tables.get(tableKey(read.table))?.keys ?? []
  return keys.some((key) => key.columns.every((column) => given.has(column))) ? 1 : read.maxRows
}

/** Whether a write computes expressions of the author's of rows that exist: they may call functions, and quote what they read. */
function quotesOthers(op: Op, catalog: Catalog): boolean {
  if (op.kind !== 'insert' && op.kind !== 'update' && op.kind !== 'delete') return false
  const table = catalog.tables.get(tableKey(op.table))
  return table?.kind === 'view' || (op.kind === 'insert' && op.onConflict?.action === 'update')
}

/** What an upsert changes may be passed on to other tables. */
function sharesCommit(op: Op, catalog: Catalog): boolean {
  if (op.kind !== 'insert' || op.phase || op.onConflict) return false
  const table = catalog.tables.get(tableKey(op.table))
  return table?.kind === 'table' && !table.ownTransaction
}

/** Columns that every row must have a given value in. */
function equalColumns(exp: BoolExp): readonly string[] {
  if (exp.kind === 'and') return exp.of.flatMap(equalColumns)
  return exp.kind === 'compare' && exp.op === 'eq' && !exp.cast && !exp.computed ? [exp.column] : []
}
