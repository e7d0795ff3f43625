import { type ColumnOp, type CompareOp, isGeo, isRange, type SqlType, supports, type TypeKind } from '../ir.js'

/**
 * The right side of an operator. `same`: the column's type; `part`: that, or an element of a range; `list`: an array of
 * it; `near`: see `NearShape`; `search`: see `SearchShape`; `pattern`: a LIKE pattern; `regex`: a regular expression.
 */
export type Right =
  | 'same'
  | 'part'
  | 'list'
  | 'near'
  | 'search'
  | 'text'
  | 'pattern'
  | 'regex'
  | 'similar'
  | 'texts'
  | 'lquery'
  | 'lqueries'
  | 'jsonpath'
  | 'ltxtquery'

/** A full-text query, as slots. Without a language the database's default applies. */
export interface SearchShape {
  readonly query: number
  readonly language?: number
}

export interface Operator {
  readonly op: CompareOp
  readonly right: Right
  /** Supported column kinds and types; neither: all except json and jsonb. */
  readonly on?: readonly TypeKind[]
  readonly types?: readonly string[]
  /** Extension of PostgreSQL that it needs. */
  readonly extension?: 'pg_trgm'
}

const text = ['text'] as const
const geometry = ['geometry'] as const
const geo = ['geometry', 'geography'] as const
const ranges = ['range', 'multirange'] as const
const hstore = ['hstore'] as const
const keyed = ['jsonb', 'hstore'] as const
const networks = ['inet', 'cidr'] as const
const ltree = ['ltree'] as const
/** An operator that means different things for different types has a form for each. */
const table = {
  eq: { op: 'eq', right: 'same' },
  ne: { op: 'ne', right: 'same' },
  neq: { op: 'ne', right: 'same' },
  gt: { op: 'gt', right: 'same' },
  lt: { op: 'lt', right: 'same' },
  gte: { op: 'gte', right: 'same' },
  lte: { op: 'lte', right: 'same' },
  is_distinct: { op: 'distinct', right: 'same' },
  is_not_distinct: { op: 'not_distinct', right: 'same' },
  in: { op: 'in', right: 'list' },
  nin: { op: 'nin', right: 'list' },
  like: { op: 'like', right: 'pattern', on: text },
  nlike: { op: 'nlike', right: 'pattern', on: text },
  ilike: { op: 'ilike', right: 'pattern', on: text },
  nilike: { op: 'nilike', right: 'pattern', on: text },
  similar: { op: 'similar', right: 'similar', on: text },
  nsimilar: { op: 'nsimilar', right: 'similar', on: text },
  regex: { op: 'regex', right: 'regex', on: text },
  iregex: { op: 'iregex', right: 'regex', on: text },
  nregex: { op: 'nregex', right: 'regex', on: text },
  niregex: { op: 'niregex', right: 'regex', on: text },
  contains: [
    { op: 'contains', right: 'part', on: ['jsonb', 'array', ...ranges] },
    { op: 'hstore_contains', right: 'same', on: hstore },
    { op: 'net_contains', right: 'same', types: networks },
  ],
  contained_in: [
    { op: 'contained_in', right: 'same', on: ['jsonb', 'array', ...ranges] },
    { op: 'hstore_contained_in', right: 'same', on: hstore },
    { op: 'net_contained_in', right: 'same', types: networks },
  ],
  overlaps: { op: 'overlaps', right: 'same', on: ['array', ...ranges], types: networks },
  adjacent: { op: 'adjacent', right: 'same', on: ranges },
  has_key: { op: 'has_key', right: 'text', on: keyed },
  has_keys_any: { op: 'has_keys_any', right: 'texts', on: keyed },
  has_keys_all: { op: 'has_keys_all', right: 'texts', on: keyed },
  path_exists: { op: 'path_exists', right: 'jsonpath', on: ['jsonb'] },
  path_match: { op: 'path_match', right: 'jsonpath', on: ['jsonb'] },
  trigram: { op: 'trigram_matches', right: 'text', on: text, extension: 'pg_trgm' },
  ancestor: { op: 'ancestor', right: 'same', types: ltree },
  ancestor_any: { op: 'ancestor_any', right: 'list', types: ltree },
  descendant: { op: 'descendant', right: 'same', types: ltree },
  descendant_any: { op: 'descendant_any', right: 'list', types: ltree },
  matches: [
    { op: 'matches', right: 'lquery', types: ltree },
    { op: 'text_matches', right: 'search', on: text },
    { op: 'vector_matches', right: 'search', types: ['tsvector'] },
  ],
  matches_any: { op: 'matches_any', right: 'lqueries', types: ltree },
  matches_fulltext: { op: 'matches_fulltext', right: 'ltxtquery', types: ltree },
  st_contains: { op: 'st_contains', right: 'same', on: geometry },
  st_crosses: { op: 'st_crosses', right: 'same', on: geometry },
  st_equals: { op: 'st_equals', right: 'same', on: geometry },
  st_intersects: { op: 'st_intersects', right: 'same', on: geo },
  st_overlaps: { op: 'st_overlaps', right: 'same', on: geometry },
  st_touches: { op: 'st_touches', right: 'same', on: geometry },
  st_within: { op: 'st_within', right: 'same', on: geometry },
  st_d_within: { op: 'st_d_within', right: 'near', on: geo },
  st_3d_d_within: { op: 'st_3d_d_within', right: 'near', on: geometry },
  st_3d_intersects: { op: 'st_3d_intersects', right: 'same', on: geometry },
} satisfies Record<string, Operator | readonly Operator[]>

const columnOps = {
  ceq: 'eq',
  cne: 'ne',
  cneq: 'ne',
  cgt: 'gt',
  clt: 'lt',
  cgte: 'gte',
  clte: 'lte',
} satisfies Record<string, ColumnOp>

/** Operators that compare with a value, by name without the `$` or `_`, in each of their forms. */
export const OPERATORS: ReadonlyMap<string, readonly Operator[]> = new Map(
  Object.entries(table).map(([name, forms]) => [name, [forms].flat()]),
)
/** Operators that compare two columns of one row. */
export const COLUMN_OPERATORS: ReadonlyMap<string, ColumnOp> = new Map(Object.entries(columnOps))

/** Operators without a comparison of their own. */
const OTHERS: ReadonlySet<string> = new Set(['is_null', 'cast'])

/** Returns `gt` for `$gt` and `_gt`, or undefined for an unknown operator. */
export function operatorName(key: string): string | undefined {
  if (key.charCodeAt(0) !== 36 && key.charCodeAt(0) !== 95) return undefined
  const name = key.slice(1)
  return OPERATORS.has(name) || COLUMN_OPERATORS.has(name) || OTHERS.has(name) ? name : undefined
}

/** Returns the names of all operators in requests: `$gt` or `_gt`. */
export const operatorNames = (prefix: string): readonly string[] =>
  [OPERATORS, COLUMN_OPERATORS, OTHERS].flatMap((each) => [...each.keys()].map((name) => prefix + name))

/** Returns the form of an operator for columns of a type, or undefined. */
export const operatorOn = (name: string, type: SqlType): Operator | undefined =>
  OPERATORS.get(name)?.find(({ on, types, op, extension }) => {
    if (extension && type.trigram === undefined) return false
    if (COMPARES.has(op) && !supports(type, ORDERS.has(op) ? 'order' : 'equality')) return false
    if (on || types) return on?.includes(type.kind) === true || types?.includes(type.name) === true
    return type.kind !== 'json'
  })

const ORDERS: ReadonlySet<CompareOp> = new Set(['gt', 'lt', 'gte', 'lte'])
const COMPARES: ReadonlySet<CompareOp> = new Set([
  ...ORDERS,
  ...(['eq', 'ne', 'distinct', 'not_distinct', 'in', 'nin'] as const),
  // Of arrays.
  ...(['contains', 'contained_in', 'overlaps'] as const),
])

/** Returns the operators for columns of a type, by name. */
export function operatorsOn(type: SqlType): readonly (readonly [name: string, right: SqlType | undefined])[] {
  return [...OPERATORS.keys()].flatMap((name) => {
    const operator = operatorOn(name, type)
    const right = operator && rightType(operator.right, type)
    return right ? [[name, right]] : []
  })
}

/** Returns the names of all operators in requests that a condition on a column of a type may use. */
export function operatorsFor(type: SqlType, prefix: string): readonly string[] {
  const own = operatorsOn(type).map(([name]) => name)
  const columns =
    type.kind === 'jsonb' ? [] : [...COLUMN_OPERATORS].flatMap(([name, op]) => (own.includes(op) ? name : []))
  const others = [...OTHERS].filter((name) => name !== 'cast' || type.kind === 'jsonb' || isGeo(type))
  return [...own, ...columns, ...others].map((name) => prefix + name)
}

/** Returns whether an operator compares with a value, not with a column or whether there is one. */
export const takesValue = (name: string | undefined): boolean => OPERATORS.has(name ?? '')

/** Returns whether an operator takes a list of values. */
export const takesList = (key: string): boolean => takes(operatorName(key), 'list')

/** Returns whether an operator has a form with such a right side. */
export const takes = (name: string | undefined, right: Right): boolean =>
  OPERATORS.get(name ?? '')?.some((form) => form.right === right) === true

export const TEXT: SqlType = { schema: 'pg_catalog', name: 'text', kind: 'text', array: '_text' }
export const INT8: SqlType = { schema: 'pg_catalog', name: 'int8', kind: 'int8', array: '_int8' }
export const FLOAT4: SqlType = { schema: 'pg_catalog', name: 'float4', kind: 'float', array: '_float4' }
export const FLOAT8: SqlType = { schema: 'pg_catalog', name: 'float8', kind: 'float', array: '_float8' }
export const BOOL: SqlType = { schema: 'pg_catalog', name: 'bool', kind: 'bool', array: '_bool' }

const PATTERN: SqlType = { ...TEXT, pattern: true }
const REGEX: SqlType = { ...TEXT, regex: 'posix' }
const SIMILAR: SqlType = { ...TEXT, regex: 'similar' }
const SEARCH: SqlType = { ...TEXT, search: 'query' }
const JSON_PATH: SqlType = { schema: 'pg_catalog', name: 'jsonpath', kind: 'text' }
export const LANGUAGE: SqlType = { schema: 'pg_catalog', name: 'regconfig', kind: 'text', search: 'language' }

/** Returns the array type of a type, or undefined. PostgreSQL has no arrays of arrays: a list of them is one of their texts. */
export function listOf(type: SqlType): SqlType | undefined {
  const list = { kind: 'array', element: type, list: true } as const
  if (type.kind === 'array') return { schema: TEXT.schema, name: '_text', ...list }
  return type.array === undefined ? undefined : { schema: type.schema, name: type.array, ...list }
}

/** Returns the type of the right side of an operator on a column of type `left`. */
export function rightType(right: Right, left: SqlType): SqlType | undefined {
  const sibling = (name: string): SqlType => ({ schema: left.schema, name, kind: 'other', array: `_${name}` })
  switch (right) {
    case 'same':
    case 'near':
      return left
    case 'part':
      return isRange(left) ? { ...left, part: true } : left
    case 'list':
      return listOf(left)
    case 'search':
      return SEARCH
    case 'text':
      return TEXT
    case 'pattern':
      return PATTERN
    case 'regex':
      return REGEX
    case 'similar':
      return SIMILAR
    case 'texts':
      return listOf(TEXT)
    case 'jsonpath':
      return JSON_PATH
    case 'lquery':
    case 'ltxtquery':
      return sibling(right)
    case 'lqueries':
      return listOf(sibling('lquery'))
  }
}

/**
 * Returns the type that `$cast` converts a column to: jsonb to text, geometry to geography and vice versa. Coordinates
 * are then longitude and latitude, unless the geography's column has another reference.
 * @returns undefined for an unsupported cast
 */
export function castType(from: SqlType, name: string): SqlType | undefined {
  if (from.kind === 'jsonb') return name === 'String' || name === 'text' ? TEXT : undefined
  const to = from.kind === 'geometry' ? 'geography' : 'geometry'
  if (!isGeo(from) || name !== to) return undefined
  const srid = (from.kind === 'geography' ? from.srid : undefined) ?? 4326
  return { schema: from.schema, name: to, kind: to, array: `_${to}`, srid }
}
