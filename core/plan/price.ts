import { type Catalog, permissionsOf, type Table, tableKey } from '../catalog/catalog.js'
import type {
  Aggregate,
  BoolExp,
  CompareOp,
  Computed,
  Connection,
  Field,
  FunctionCall,
  Join,
  Op,
  Operand,
  OrderBy,
  Read,
  TableRef,
  Write,
} from '../ir.js'
import { INT8 } from './operators.js'

/** The estimated cost of a request. It depends on values and on row counts, which are known only when it runs. */
export interface Price {
  readonly terms: readonly Term[]
  /** Operators that search text for a pattern. */
  readonly patterns: readonly Pattern[]
  /** Arrays whose elements are compared with each element of a stored array. */
  readonly arrays: readonly Operand[]
}
/** Points per row, multiplied by the rows of each enclosing list. */
interface Term {
  readonly points: number
  readonly lists: readonly List[]
}
/** A list of rows. Its estimated length is `share` of the rows of `table` per row of `per`, and at most each limit. */
export interface List {
  /** Key of the table; absent when its rows cannot be counted, because a function or the client provides them. */
  readonly table?: string
  /** Number of rows, if a function provides them and its author declared it. */
  readonly rows?: number
  /** Key of the table whose rows the list is divided among. */
  readonly per?: string
  readonly share: number
  readonly limits?: readonly Operand[]
}
export interface Pattern {
  readonly op: CompareOp
  readonly to: Operand
}

/** Cost of a call of a function for each unit of PostgreSQL's estimate. */
const CALL = 0.1
/** Cost of a comparison or a sort key. An index may save most of them, which the plan does not show. */
const COMPARISON = 0.1
const PATTERN = 10
const ONE: List = { share: 0 }
const UNCOUNTED: List = { share: 1 }

/**
 * Estimates the cost of a client's request, before `authorize` adds the admin's conditions. A column costs 1 point
 * per row, a comparison or sort key 0.1, a pattern 10, a call of a function a tenth of its `cost` in PostgreSQL. A list
 * has the rows of its table that its conditions and the role's filter are likely to leave.
 */
export function priceOf(op: Op, role: string, catalog: Catalog): Price {
  const terms = new Map<string, Term>()
  const patterns: Pattern[] = []
  const arrays: Operand[] = []

  const add = (points: number, lists: readonly List[]): void => {
    const key = JSON.stringify(lists)
    terms.set(key, { points: points + (terms.get(key)?.points ?? 0), lists })
  }

  /** The rows that a condition is evaluated on: those of a table, or those that join with one row of `outer`. */
  const scanned = (table: TableRef, on: Join, outer: TableRef | undefined): List => {
    const inner = on.map(([, column]) => column)
    if (hasKeyIn(catalog, table, inner)) return ONE
    const key = { table: tableKey(table) }
    if (outer === undefined || on.length === 0) return { ...key, share: 1 }
    const isParent = hasKeyIn(
      catalog,
      outer,
      on.map(([column]) => column),
    )
    return isParent ? { ...key, per: tableKey(outer), share: 1 } : { ...key, share: EQUAL }
  }

  const condition = (exp: BoolExp, table: TableRef, lists: readonly List[]): void => {
    switch (exp.kind) {
      case 'and':
      case 'or':
        return exp.of.forEach((part) => condition(part, table, lists))
      case 'not':
      case 'guarded':
        return condition(exp.of, table, lists)
      case 'compare': {
        const { op, to } = exp
        const isPattern = PATTERNS.has(op)
        if (isPattern) patterns.push({ op, to })
        if (to.type.kind === 'array' && PAIRWISE.has(op)) arrays.push(to)
        return add(isPattern ? PATTERN : COMPARISON, lists)
      }
      case 'sorted':
        return order(exp, table, lists)
      case 'columns':
      case 'null':
      case 'unknown':
      case 'known':
        return add(COMPARISON, lists)
      case 'exists':
      case 'aggregate': {
        const called = exp.kind === 'exists' && exp.from ? returned(exp.from, lists) : undefined
        const related = [...lists, called ?? scanned(exp.table, exp.on, table)]
        add(COMPARISON, related)
        return condition(exp.where, exp.table, related)
      }
    }
  }

  const order = ({ by }: Pick<OrderBy, 'by'>, table: TableRef, lists: readonly List[]): void => {
    if (by.kind === 'rank') {
      patterns.push({ op: by.op, to: by.query })
      return add(PATTERN, lists)
    }
    if (by.kind === 'related') return order({ by: by.by }, by.table, lists)
    if (by.kind === 'column') return add(COMPARISON, lists)
    add(COMPARISON, [...lists, by.from ? UNCOUNTED : scanned(by.table, by.on, table)])
  }

  /** Adds the cost of a call, and returns the list of its rows. */
  const returned = ({ function: { schema, name } }: FunctionCall, outer: readonly List[]): List => {
    const called = catalog.functions.find((each) => each.schema === schema && each.name === name)
    if (called) add(called.cost * CALL, outer)
    return called?.rows === undefined ? UNCOUNTED : { rows: called.rows, share: 1 }
  }

  /** Adds the cost of the rows of a level, and returns the lists around their fields. */
  const rows = (
    read: Read | Aggregate | Connection,
    outer: readonly List[],
    on: Join = [],
    parent?: TableRef,
  ): readonly List[] => {
    const { table, where, limit } = read
    const all = read.from ? returned(read.from, outer) : scanned(table, on, parent)
    const isOne = (read.kind === 'read' && read.single) || hasKeyIn(catalog, table, equalColumns(where))
    const looked = isOne ? outer : [...outer, all]
    condition(where, table, looked)
    for (const each of read.orderBy) order(each, table, looked)
    const { distinctOn } = read.kind === 'connection' ? (read.distinct ?? {}) : read
    if (distinctOn) add(COMPARISON * distinctOn.length, looked)
    if (isOne) return outer
    const { filter, limit: most } = permissionOn(table) ?? {}
    const left = shareOf(where) * (filter === undefined ? 1 : shareOf(catalog.filters[filter] as BoolExp))
    if (read.kind === 'read' && read.group) {
      const { by, values, having } = read.group
      const grouped = [...outer, { ...all, share: all.share * left }]
      add(by.length + values.length, grouped)
      condition(having, table, grouped)
    }
    const limits = [limit ?? [], most === undefined ? [] : { kind: 'const' as const, value: String(most), type: INT8 }]
    return [...outer, { ...all, share: all.share * left, limits: limits.flat() }]
  }

  const permissionOn = (ref: TableRef) => {
    const found = catalog.tables.get(tableKey(ref))
    return found && permissionsOf(found, role)?.select
  }

  const fields = (all: readonly Field[], table: TableRef | undefined, lists: readonly List[]): void => {
    const plain = all.filter(({ kind }) => PLAIN.has(kind)).length
    if (plain > 0) add(plain, lists)
    for (const field of all) {
      if (field.kind === 'relation') {
        fields(field.read.fields, field.read.table, rows(field.read, lists, field.on, table))
      }
      if (field.kind === 'aggregate') aggregate(field.read, rows(field.read, lists, field.on, table))
      if (field.kind === 'connection') {
        connection(field.read, lists, field.on, table, rows(field.read, lists, field.on, table))
      }
    }
  }

  const aggregate = ({ parts, table }: Aggregate, lists: readonly List[]): void => {
    for (const part of parts) {
      if (part.kind === 'nodes') fields(part.fields, table, lists)
      else add(part.kind === 'functions' ? part.of.reduce((sum, each) => sum + valuesOf(each), 0) : 1, lists)
    }
  }

  const connection = (
    { parts, table, cursor, distinct, outside, where }: Connection,
    outer: readonly List[],
    on: Join,
    parent: TableRef | undefined,
    lists: readonly List[],
  ): void => {
    add(cursor.length, lists)
    const others = [outside.previous, outside.next, distinct && where].filter((exp) => exp !== undefined)
    for (const exp of others) condition(exp, table, [...outer, scanned(table, on, parent)])
    for (const part of parts) {
      if (part.kind !== 'edges') add(1, outer)
      else for (const edge of part.of) if (edge.kind === 'node') fields(edge.fields, table, lists)
    }
  }

  const returning = ({ returning: wanted, table }: Write, list: List): void =>
    fields(wanted?.fields ?? [], table, [list])

  switch (op.kind) {
    case 'read':
      fields(op.fields, op.table, rows(op, []))
      break
    case 'roots':
      fields(op.fields, undefined, [])
      break
    case 'count':
      add(COMPARISON * (1 + (op.distinct?.length ?? 0)), [scanned(op.table, [], undefined)])
      condition(op.where, op.table, [scanned(op.table, [], undefined)])
      break
    case 'insert':
      if (op.onConflict) condition(op.onConflict.where, op.table, [UNCOUNTED])
      returning(op, UNCOUNTED)
      break
    case 'update':
    case 'delete': {
      const isOne = hasKeyIn(catalog, op.table, equalColumns(op.where))
      const all = isOne ? ONE : scanned(op.table, [], undefined)
      condition(op.where, op.table, [all])
      returning(op, { ...all, share: all.share * shareOf(op.where) })
      break
    }
  }
  return { terms: [...terms.values()], patterns, arrays }
}

/** Fields that have one value for each row. */
const PLAIN: ReadonlySet<Field['kind']> = new Set(['column', 'constant', 'opaque', 'version'])

const valuesOf = (each: Computed): number => (each.kind === 'columns' ? each.of.length : 1)

/** The share of rows that equal a value, like PostgreSQL's own default. */
const EQUAL = 0.005
/** The share of rows that a range or a pattern leaves. */
const SOME = 1 / 3
const SHARES: Readonly<Partial<Record<CompareOp, number>>> = { eq: EQUAL, in: 10 * EQUAL, ne: 1, nin: 1 }

/** Estimates the share of rows that satisfy a condition, from its form alone. */
function shareOf(exp: BoolExp): number {
  switch (exp.kind) {
    case 'and':
      return exp.of.reduce((share, part) => share * shareOf(part), 1)
    case 'or':
      return Math.min(
        1,
        exp.of.reduce((share, part) => share + shareOf(part), 0),
      )
    case 'guarded':
      return shareOf(exp.by) * shareOf(exp.of)
    case 'compare':
    case 'columns':
      return SHARES[exp.op] ?? SOME
    case 'exists':
      return shareOf(exp.where)
    case 'null':
    case 'sorted':
    case 'aggregate':
      return SOME
    case 'not':
    case 'known':
    case 'unknown':
      return 1
  }
}

/** Returns the columns for which every row must have a given value. */
export function equalColumns(exp: BoolExp): readonly string[] {
  if (exp.kind === 'and') return exp.of.flatMap(equalColumns)
  return exp.kind === 'compare' && exp.op === 'eq' && !exp.cast && !exp.computed ? [exp.column] : []
}

/** Returns whether at most one row of a table has given values in these columns. */
export function hasKeyIn(catalog: Catalog, table: TableRef, columns: readonly string[]): boolean {
  const keys = catalog.tables.get(tableKey(table))?.keys ?? []
  return keys.some((key) => key.columns.every((column) => columns.includes(column)))
}

/** Operators that compare each element of one array with each of another. PostgreSQL cannot be interrupted meanwhile. */
const PAIRWISE: ReadonlySet<CompareOp> = new Set(['contains', 'contained_in', 'overlaps'])

/** Operators that search text for a pattern. */
export const PATTERNS: ReadonlySet<CompareOp> = new Set(
  'like nlike ilike nilike similar nsimilar regex iregex nregex niregex matches matches_any matches_fulltext text_matches trigram_matches path_exists path_match'.split(
    ' ',
  ) as CompareOp[],
)

/** Returns whether a condition is that the primary key equals given values, and no more. */
export function isPrimaryKey(where: BoolExp, { primaryKey }: Table): boolean {
  const parts = where.kind === 'and' ? where.of.length : 1
  const columns = equalColumns(where)
  const isEach = parts === primaryKey.length && columns.length === parts
  return isEach && parts > 0 && primaryKey.every((name) => columns.includes(name))
}
