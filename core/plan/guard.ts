import { type Catalog, type Table, tableKey } from '../catalog/catalog.js'
import { and } from './boolexp.js'
import type { BoolExp, SqlType } from '../ir.js'

/**
 * Combines a client's condition with the filter that hides rows. PostgreSQL evaluates the parts of a WHERE in any
 * order, so a part that may fail on a hidden row, or reveal its value by timing, is evaluated after the filter. Other
 * parts stay where indexes can serve them.
 * @param derived whether the rows come from a function, so that columns may be expressions
 */
export function guard(filter: BoolExp, wanted: BoolExp, table: Table, catalog: Catalog, derived = false): BoolExp {
  const parts = wanted.kind === 'and' ? wanted.of : [wanted]
  const unsafe = parts.filter((part) => mayRaise(part, table, catalog, derived))
  if (unsafe.length === 0 || hidesNothing(filter)) return and([filter, wanted])
  const safe = parts.filter((part) => !unsafe.includes(part))
  const boxes = derived ? [] : unsafe.flatMap((part) => boxOf(part, table))
  return and([filter, ...safe, ...boxes, { kind: 'guarded', by: filter, of: and(unsafe) }])
}

/** Operators that are true only if the bounding boxes overlap; an empty geometry has none. */
const OVERLAPPING: ReadonlySet<string> = new Set(
  'contains crosses intersects overlaps touches within d_within 3d_intersects 3d_d_within'
    .split(' ')
    .map((name) => `st_${name}`),
)

/** Returns a bounding box condition implied by a comparison of geometries, so that an index applies. It never fails. */
function boxOf(part: BoolExp, table: Table): readonly BoolExp[] {
  if (part.kind !== 'compare' || !OVERLAPPING.has(part.op) || part.cast || part.computed) return []
  if (table.columnsByName.get(part.column)?.derived) return []
  return [{ ...part, op: 'st_boxes', ...(part.more ? { more: part.more.slice(0, 1) } : {}) }]
}

const hidesNothing = (filter: BoolExp): boolean => filter.kind === 'and' && filter.of.length === 0

/** Returns whether evaluating a condition on a row can fail, or take a time that depends on the row's values. */
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
    // Conflicting collations are an error. No index serves this comparison.
    case 'columns':
    case 'sorted':
      return true
    case 'null':
      return exp.computed !== undefined || reads(exp.column)
    case 'unknown':
    case 'known':
      return false
    case 'guarded':
      return true
    case 'exists':
    case 'aggregate': {
      // The function may do anything.
      if (exp.kind === 'exists' && exp.from) return true
      const remote = catalog.tables.get(tableKey(exp.table))
      if (exp.on.some(([own, other]) => reads(own) || remote?.columnsByName.get(other)?.derived)) return true
      return (
        !remote || mayRaise(exp.where, remote, catalog, false) || (exp.kind === 'aggregate' && reduces(exp, remote))
      )
    }
  }
}

/** Returns whether computing an aggregate of related rows can fail. */
function reduces({ columns, distinct }: Extract<BoolExp, { kind: 'aggregate' }>, table: Table): boolean {
  return columns.some((name) => {
    const column = table.columnsByName.get(name)
    return !column || column.derived === true || (distinct && !comparesAlways(column.type))
  })
}

/**
 * Returns whether an operator has a result for every value of its types: never an error, and never a pattern search
 * whose duration reveals values.
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
    case 'distinct':
    case 'not_distinct':
    case 'hstore_contains':
    case 'hstore_contained_in':
    case 'net_contains':
    case 'net_contained_in':
    case 'overlaps':
    case 'adjacent':
    case 'ancestor':
    case 'descendant':
      return comparesAlways(to.type)
    case 'has_key':
    case 'has_keys_any':
    case 'has_keys_all':
    case 'vector_matches':
    case 'trigram_matches':
      return true
    // An invalid pattern is refused when it is bound. See `checkPattern`.
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
    // A path may convert times, which needs a time zone.
    case 'path_exists':
    case 'path_match':
    // The words of a text may be too many for a `tsvector`.
    case 'text_matches':
    // A list given as text may contain nulls or lists.
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
    case 'st_3d_d_within':
    case 'st_3d_intersects':
    case 'st_boxes':
      return false
  }
}

/**
 * Returns whether any two values of a type compare without an error. PostgreSQL marks the functions of most of these
 * types `leakproof`; the others (`numeric`, `jsonb`, ranges, text search, enums, `citext`, `hstore`, `ltree`) raise no errors.
 */
export function comparesAlways(type: SqlType): boolean {
  if (type.element) return comparesAlways(type.element)
  return type.enum === true || (type.schema === 'pg_catalog' ? BUILT_IN : OF_EXTENSIONS).has(type.name)
}
export const BUILT_IN: ReadonlySet<string> = new Set(
  `bool int2 int4 int8 float4 float8 numeric money text varchar bpchar char name bytea uuid oid
  date time timetz timestamp timestamptz interval inet cidr macaddr macaddr8 bit varbit pg_lsn xid8 jsonb tsvector tsquery
  int4range int8range numrange daterange tsrange tstzrange
  int4multirange int8multirange nummultirange datemultirange tsmultirange tstzmultirange`.split(/\s+/),
)
const OF_EXTENSIONS: ReadonlySet<string> = new Set(['citext', 'ltree', 'hstore'])
