import { type Catalog, tableKey } from '../catalog/catalog.js'
import type { Aggregate, BoolExp, CompareOp, Field, Join, Op, Operand, OrderBy, Read, TableRef, Write } from './ir.js'
import { INT8 } from './operators.js'

/** The cost of a request, as far as it is known before its values and rows. */
export interface Price {
  readonly terms: readonly Term[]
  /** Operators that search text for a pattern. */
  readonly patterns: readonly Pattern[]
}
/** Points per row, multiplied by the rows of each enclosing list. */
interface Term {
  readonly points: number
  /** Limits of the lists; null for a list without a limit. */
  readonly lists: readonly (Operand | null)[]
}
export interface Pattern {
  readonly op: CompareOp
  readonly to: Operand
}

/** Assumed number of rows of a list without a limit. */
export const MISSING_LIMIT = 100
/** Cost of a pattern, in comparisons. */
const PATTERN_POINTS = 10

/**
 * Computes the cost of a client's request, before `authorize` adds the admin's conditions. A column, comparison or sort
 * key costs 1 point per row, a pattern 10.
 * @param mostRows proven maximum number of rows of the outermost list
 */
export function priceOf(op: Op, catalog: Catalog, mostRows?: number): Price {
  const terms = new Map<string, Term>()
  const patterns: Pattern[] = []

  const add = (points: number, lists: Term['lists']): void => {
    const key = JSON.stringify(lists)
    terms.set(key, { points: points + (terms.get(key)?.points ?? 0), lists })
  }

  const condition = (exp: BoolExp, lists: Term['lists']): void => {
    switch (exp.kind) {
      case 'and':
      case 'or':
        return exp.of.forEach((part) => condition(part, lists))
      case 'not':
      case 'guarded':
        return condition(exp.of, lists)
      case 'compare': {
        const { op, to } = exp
        const isPattern = PATTERNS.has(op)
        if (isPattern) patterns.push({ op, to })
        return add(isPattern ? PATTERN_POINTS : 1, lists)
      }
      case 'columns':
      case 'null':
      case 'unknown':
        return add(1, lists)
      case 'exists':
      case 'aggregate':
        return condition(exp.where, leadsToOne(exp.table, exp.on) ? lists : [...lists, null])
    }
  }

  const leadsToOne = (ref: TableRef, on: Join): boolean => {
    const given = on.map(([, inner]) => inner)
    const keys = catalog.tables.get(tableKey(ref))?.keys ?? []
    return keys.some(({ columns }) => columns.every((column) => given.includes(column)))
  }

  const order = ({ by }: OrderBy, lists: Term['lists']): void => {
    add(1, by.kind === 'aggregate' ? [...lists, null] : lists)
  }

  /** Adds the cost of the rows of a level, and returns the lists around their fields. */
  const rows = (read: Read | Aggregate, outer: Term['lists']): Term['lists'] => {
    const looked = read.kind === 'read' && read.single ? outer : [...outer, null]
    condition(read.where, looked)
    for (const each of read.orderBy) order(each, looked)
    if (read.kind === 'read' && read.single) return outer
    return [...outer, read.limit ?? null]
  }

  const fields = (all: readonly Field[], lists: Term['lists']): void => {
    const plain = all.filter(({ kind }) => kind === 'column' || kind === 'constant').length
    if (plain > 0) add(plain, lists)
    for (const field of all) {
      if (field.kind === 'relation') fields(field.read.fields, rows(field.read, lists))
      if (field.kind === 'aggregate') aggregate(field.read, lists)
    }
  }

  const aggregate = (read: Aggregate, outer: Term['lists']): void => {
    const lists = rows(read, outer)
    for (const part of read.parts) {
      if (part.kind === 'nodes') fields(part.fields, lists)
      else add(part.kind === 'functions' ? part.of.length : 1, lists)
    }
  }

  const returning = ({ returning: wanted }: Write): void => fields(wanted?.fields ?? [], [null])

  switch (op.kind) {
    case 'read': {
      const [limit = null, ...more] = rows(op, [])
      const most: Operand | null =
        mostRows === undefined ? limit : { kind: 'const', value: String(mostRows), type: INT8 }
      fields(op.fields, [most, ...more])
      break
    }
    case 'roots':
      fields(op.fields, [])
      break
    case 'count':
      condition(op.where, [null])
      break
    case 'insert':
      if (op.onConflict) condition(op.onConflict.where, [null])
      returning(op)
      break
    case 'update':
    case 'delete':
      condition(op.where, [null])
      returning(op)
      break
  }
  return { terms: [...terms.values()], patterns }
}

const PATTERNS: ReadonlySet<CompareOp> = new Set(
  'like nlike ilike nilike similar nsimilar regex iregex nregex niregex matches matches_any matches_fulltext'.split(
    ' ',
  ) as CompareOp[],
)
