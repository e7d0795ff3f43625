import { createHash } from 'node:crypto'
import { type Catalog, tableKey } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import { authorize } from '../plan/authorize.js'
import type { Op, Operand, Read } from '../ir.js'
import { type Names, namesFor } from '../plan/names.js'
import { INT8 } from '../plan/operators.js'
import { equalColumns, hasKeyIn, type Price, priceOf } from '../plan/price.js'
import { emit, type Form, partsOf } from '../sql/emit.js'
import type { Statement } from '../sql/bind.js'

/** Turns a shape into a plan. A pure function of a front end, also run in workers. */
type Planner = (shape: never, names: Names) => Op

/**
 * A front end as workers import it. `prepare` processes the source of a shape where that needs names or takes long. It
 * returns plain data, which is cached with the snapshot.
 */
export interface PlannerModule {
  readonly default: Planner
  readonly prepare?: (shape: never, names: Names) => unknown
}

/** Returns whether to test a planner at startup. Ours are tested already, and one of them loads slowly. */
export const isForeign = (url: string): boolean => !url.startsWith(OWN)
const OWN = new URL('../../plugins/', import.meta.url).href

/** @throws Error that names the planner and the reason */
export async function importPlanner(name: string, url: string): Promise<PlannerModule> {
  try {
    return (await import(url)) as PlannerModule
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'its import failed'
    throw new Error(`planner "${name}" cannot be imported from ${url}: ${why}`, { cause })
  }
}

/** The origin of a planner. */
export interface PlannerSource {
  readonly module: URL
  /** Whether its plugin has operations that lift, whose requests are also planned in the main thread. */
  readonly lifts: () => boolean
}

/** A request without its values, to be compiled. */
export interface Task {
  readonly planner: string
  /** Plain data. */
  readonly shape: unknown
  readonly role: string
  readonly form: Form
}

export type Preparation = Omit<Task, 'form'> & { readonly form: 'prepare' }
/** Asks for the plan itself, authorized for the role, to explain it. */
type Planning = Omit<Task, 'form'> & { readonly form: 'plan' }
/** A task for a worker. */
export type AnyTask = Task | Preparation | Planning

export interface Compiled {
  readonly kind: Op['kind']
  /** Empty when the rows of an insert have different keys and must be inserted per key set. */
  readonly statements: readonly Prepared[]
  readonly price: Price
  /** Keys of the result objects in order, for formats with a header. */
  readonly keys: readonly string[]
  /** Maximum number of rows if the plan proves it: a complete key is given, or the role has a limit. */
  readonly mostRows?: number
  /** The parts of several reads, in the order in which the form `rows` returns them. */
  readonly parts?: readonly Part[]
  /** Present if the version of the row precedes the result. */
  readonly version?: true
  /** Whether an insert can share a commit with others, because the effect is indistinguishable. */
  readonly sharesCommit?: true
  /** Whether what it writes may ask who writes. */
  readonly tellsWriter?: true
}
/** A list, or consecutive other fields, which are one object. */
export interface Part {
  readonly list?: {
    readonly key: string
    /** Each limits its number of rows. */
    readonly limits: readonly Operand[]
  }
}
export interface Prepared extends Statement {
  /** Short and unique per text. PostgreSQL would truncate longer names to 63 bytes and confuse them. */
  readonly name: string
  /** Tables and functions that its request is about, for the log. Related tables are not among them. */
  readonly about?: string
}

/** Performs a task. Its result is plain data. */
export function perform(task: AnyTask, planner: PlannerModule, catalog: Catalog): unknown {
  if (task.form === 'prepare') return prepare(task, planner, catalog)
  return task.form === 'plan' ? planFor(task, planner.default, catalog) : compile(task, planner.default, catalog)
}

/** Plans a request for a role: plan, authorize. */
const planFor = ({ shape, role }: Planning, planner: Planner, catalog: Catalog): Op =>
  authorize(planner(shape as never, namesFor(role, catalog)), role, catalog)

/** Compiles a request: plan, authorize, emit. */
export function compile(task: Task, planner: Planner, catalog: Catalog): Compiled {
  const wanted = planner(task.shape as never, namesFor(task.role, catalog))
  const op = authorize(wanted, task.role, catalog)
  const most = op.kind === 'read' ? mostRows(op, catalog) : undefined
  const quotes = quotesOthers(op, catalog)
  const about = rootsOf(wanted).join(', ')
  const statements = emit(op, task.form).map((statement) => ({
    ...statement,
    ...(quotes ? { calls: true as const } : {}),
    name: nameOf(statement.text),
    about,
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
    price: priceOf(wanted, task.role, catalog),
    keys: op.kind === 'read' ? op.fields.map((field) => field.key) : [],
    mostRows: most,
    parts:
      op.kind === 'roots' ? partsOf(op).map((part) => (part.kind === 'list' ? listOf(part, catalog) : {})) : undefined,
    ...(op.kind === 'read' && op.version && task.form === 'array' ? { version: true as const } : {}),
    ...(statements.length === 1 && sharesCommit(op, catalog) ? { sharesCommit: true } : {}),
    ...(tellsWriter(op, statements.length, catalog) ? { tellsWriter: true } : {}),
  }
}

/** Maximum length of SQL. PostgreSQL cannot be interrupted while parsing, which may take quadratic time. */
const MAX_SQL = 1024 * 1024

/** Runs a front end's `prepare` for a role. */
function prepare(task: Preparation, { prepare }: PlannerModule, catalog: Catalog): unknown {
  if (!prepare) throw new Error(`planner "${task.planner}" has nothing to prepare`)
  return prepare(task.shape as never, namesFor(task.role, catalog))
}

/** Returns a name for a prepared statement: short, and unique per text. */
export const nameOf = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 22)

/** Returns the names of the tables and functions that a request asks for, without the schema `public`. */
function rootsOf(op: Op): readonly string[] {
  const reads = op.kind === 'roots' ? op.fields.flatMap((field) => ('read' in field ? [field.read] : [])) : [op]
  const names = reads.map((read) => {
    const { schema, name } = ('from' in read && read.from?.function) || read.table
    return schema === 'public' ? name : `${schema}.${name}`
  })
  return [...new Set(names)]
}

function listOf({ key, read }: { readonly key: string; readonly read: Read }, catalog: Catalog): Part {
  const most = mostRows(read, catalog)
  const proven = most === undefined ? [] : [{ kind: 'const' as const, value: String(most), type: INT8 }]
  return { list: { key, limits: [...proven, ...(read.limit ? [read.limit] : [])] } }
}

function mostRows(read: Read, catalog: Catalog): number | undefined {
  if (read.single || read.group?.by.length === 0) return 1
  if (read.from) return read.maxRows
  return hasKeyIn(catalog, read.table, equalColumns(read.where)) ? 1 : read.maxRows
}

/**
 * Returns whether a write evaluates admin-defined expressions on existing rows. They may call functions and quote data.
 */
function quotesOthers(op: Op, catalog: Catalog): boolean {
  if (op.kind !== 'insert' && op.kind !== 'update' && op.kind !== 'delete') return false
  const table = catalog.tables.get(tableKey(op.table))
  return table?.kind === 'view' || (op.kind === 'insert' && op.onConflict?.action === 'update')
}

/** Returns whether a request writes to a table that may ask who writes, or calls a function that may change something. */
function tellsWriter(op: Op, statements: number, catalog: Catalog): boolean {
  if (op.kind !== 'insert' && op.kind !== 'update' && op.kind !== 'delete') return statements > 1
  return catalog.tables.get(tableKey(op.table))?.asksWriter === true
}

/** Returns whether an insert can share a commit. An upsert may cascade to other tables. */
function sharesCommit(op: Op, catalog: Catalog): boolean {
  if (op.kind !== 'insert' || op.phase || op.onConflict) return false
  const table = catalog.tables.get(tableKey(op.table))
  return table?.kind === 'table' && !table.ownTransaction
}

/** Estimates the memory of a plan in the cache. */
export const bytesOf = ({ statements }: Compiled): number =>
  2 * statements.reduce((sum, { text, params }) => sum + text.length + params.length * 100, 0)
