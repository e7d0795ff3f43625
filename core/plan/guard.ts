import { type Catalog, type Table, tableKey } from '../catalog/catalog.js'
import { and } from './boolexp.js'
import type { BoolExp, SqlType } from './ir.js'

/**
 * Puts a client's condition on rows beside the filter that hides some of them. PostgreSQL evaluates the parts of a WHERE in
 * any order, so a part that may raise on a hidden row, or take a time that tells its value, is evaluated behind the filter;
 * all others stay where indexes serve them.
 * @param derived the rows come from a function, so each column may be an expression
 */
export function guard(filter: BoolExp, wanted: BoolExp, table: Table, catalog: Catalog, derived = false): BoolExp {
  const parts = wanted.kind === 'and' ? wanted.of : [wanted]
  const unsafe = parts.filter((part) => mayRaise(part, table, catalog, derived))
  if (unsafe.length === 0 || hidesNothing(filter)) return and([filter, wanted])
  const safe = parts.filter((part) => !unsafe.includes(part))
  const boxes = derived ? [] : unsafe.flatMap((part) => boxOf(part, table))
  return and([filter, ...safe, ...boxes, { kind: 'guarded', by: filter, of: and(unsafe) }])
}

/** Operators that are true only where the bounding boxes overlap; an empty geometry has none. */
const OVERLAPPING: ReadonlySet<string> = new Set(
  ['contains', 'crosses', 'intersects', 'overlaps', 'touches', 'within', 'd_within'].map((name) => `st_${name}`),
)

/** A condition that a comparison of geometries implies, for an index: it is total, and tells no more than its index does. */
function boxOf(part: BoolExp, table: Table): readonly BoolExp[] {
  if (part.kind !== 'compare' || !OVERLAPPING.has(part.op) || part.cast || part.computed) return []
  if (table.columnsByName.get(part.column)?.derived) return []
  return [{ ...part, op: 'st_boxes', ...(part.more ? { more: part.more.slice(0, 1) } : {}) }]
}

const hidesNothing = (filter: BoolExp): boolean => filter.kind === 'and' && filter.of.length === 0

/** Whether evaluating a condition on a row can fail or take a time that depends on the row's values. */
function mayRaise(exp: BoolExp, table: Table, catalog: Catalog, derived: boolean): boolean {
  const within = (part: BoolExp): boolean => mayRaise(part, table, catalog, derived)
  const reads = (name: string): boolean => derived || table.columnsByName.get(name)?.derived === true
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.some(within)
    case 'not':
      return within(exp.of)
    case 'compare':
      return exp.computed !== undefined || reads(exp.column) || !isTotal(exp, table.columnsByName.get(exp.column)?.type)
    // Their collations may contradict each other, which is an error. No index serves it.
    case 'columns':
      return true
    case 'null':
      return exp.computed !== undefined || reads(exp.column)
    case 'unknown':
      return false
    case 'guarded':
      return true
    case 'exists':
    case 'aggregate': {
      const remote = catalog.tables.get(tableKey(exp.table))
      if (exp.on.some(([own, other]) => reads(own) || remote?.columnsByName.get(other)?.derived)) return true
      return (
        !remote || mayRaise(exp.where, remote, catalog, false) || (exp.kind === 'aggregate' && reduces(exp, remote))
      )
    }
  }
}

/** Whether computing a value of related rows may raise. */
function reduces({ columns, distinct }: Extract<BoolExp, { kind: 'aggregate' }>, table: Table): boolean {
  return columns.some((name) => {
    const column = table.columnsByName.get(name)
    return !column || column.derived === true || (distinct && !comparesAlways(column.type))
  })
}

/**
 * Whether an operator has an answer for every value of its types: never an error, and never a search of patterns whose
 * time tells what it met.
 */
function isTotal({ op, to, cast }: Extract<BoolExp, { kind: 'compare' }>, column: SqlType | undefined): boolean {
  switch (op) {
    case 'eq':
    case 'ne':
    case 'gt':
    case 'lt':
    case 'gte':
    case 'lte':
    case 'in':
    case 'nin':
    case 'contains':
    case 'contained_in':
    case 'ancestor':
    case 'descendant':
      return comparesAlways(to.type)
    case 'has_key':
    case 'has_keys_any':
    case 'has_keys_all':
      return true
    // A pattern that could raise is refused when it is bound. See `checkPattern`.
    case 'like':
    case 'nlike':
    case 'ilike':
    case 'nilike':
      return (cast?.to ?? column)?.nondeterministic !== true
    case 'similar':
    case 'nsimilar':
    case 'regex':
    case 'iregex':
    case 'nregex':
    case 'niregex':
    // A list that is given as text may hold nulls, or lists.
    case 'ancestor_any':
    case 'descendant_any':
    case 'matches':
    case 'matches_any':
    case 'matches_fulltext':
    case 'st_contains':
    case 'st_crosses':
    case 'st_equals':
    case 'st_intersects':
    case 'st_overlaps':
    case 'st_touches':
    case 'st_within':
    case 'st_d_within':
    case 'st_boxes':
      return false
  }
}

/**
 * Whether any two values of a type compare without an error. PostgreSQL marks the functions of most of these types
 * `leakproof`; those of the others (`numeric`, `jsonb`, ranges, text search, enums, `citext`, `ltree`) have no error to raise.
 */
function comparesAlways(type: SqlType): boolean {
  if (type.element) return comparesAlways(type.element)
  return type.enum === true || (type.schema === 'pg_catalog' ? BUILT_IN : OF_EXTENSIONS).has(type.name)
}
export const BUILT_IN: ReadonlySet<string> = new Set(
  `bool int2 int4 int8 float4 float8 numeric money text varchar bpchar char name bytea uuid oid
  date time timetz timestamp timestamptz interval inet cidr macaddr macaddr8 bit varbit pg_lsn xid8 jsonb tsvector tsquery
  int4range int8range numrange daterange tsrange tstzrange
  int4multirange int8multirange nummultirange datemultirange tsmultirange tstzmultirange`.split(/\s+/),
)
const OF_EXTENSIONS: ReadonlySet<string> = new Set(['citext', 'ltree'])
