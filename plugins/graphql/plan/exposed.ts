import {
  type Action,
  type ComputedField,
  type FunctionArgument,
  type FunctionData,
  GRAPHQL_TYPES,
  type Names,
  type SqlType,
  type Table,
  type TableRef,
} from 'rowhouse/plan'
import { keyOf } from './names.js'

export type Dialect = 'alpha' | 'modern'

export const isGraphqlName = (name: string): boolean => /^(?!__)[_A-Za-z]\w*$/.test(name)

/** A value of an enum must not look like one of another type. */
export const isEnumName = (name: string): boolean => isGraphqlName(name) && !['true', 'false', 'null'].includes(name)

/** What a root field does with which table. */
export interface RootField {
  readonly action: RootAction
  readonly table: Table
  /** It gives the rows, not the table. */
  readonly call?: FunctionData
}
export type RootAction =
  | 'select'
  | 'by_pk'
  | 'aggregate'
  | 'insert'
  | 'insert_one'
  | 'update'
  | 'update_by_pk'
  | 'update_many'
  | 'delete'
  | 'delete_by_pk'

/** The tables that a role sees in a dialect, under the names that they have there. */
export interface Exposed {
  /** By the name of the table's type. */
  readonly tables: ReadonlyMap<string, Table>
  readonly query: ReadonlyMap<string, RootField>
  readonly mutation: ReadonlyMap<string, RootField>
  /** The name of a table's type; undefined for a table that has none. */
  nameOf(table: { readonly schema: string; readonly name: string }): string | undefined
  /** The name of the type of a function's arguments. */
  argsOf(call: FunctionData | ComputedField): string
  /** Whether a type of a table or of arguments has this name. */
  isTaken(type: string): boolean
}

/**
 * Those used last, the newest at the end, all of one snapshot: one takes 3 MB for 2,000 tables, and there may be many
 * roles.
 */
let known: readonly { readonly names: Names; readonly dialect: Dialect; readonly exposed: Exposed }[] = []
const KEPT = 8

export function exposed(names: Names, dialect: Dialect): Exposed {
  const newest = known.at(-1)
  if (newest?.names === names && newest.dialect === dialect) return newest.exposed
  const current = known.filter((each) => each.names.snapshot === names.snapshot)
  const found = current.find((each) => each.names === names && each.dialect === dialect)
  const used = found ?? { names, dialect, exposed: expose(names, dialect) }
  known = [...current.filter((each) => each !== found), used].slice(-KEPT)
  return used.exposed
}

/** Root fields of a table: name, action, and the table action that they need. */
const FIELDS: Record<Dialect, readonly (readonly [(name: string) => string, RootAction, Action])[]> = {
  alpha: [
    [(name) => name, 'select', 'select'],
    [(name) => `insert_${name}`, 'insert', 'insert'],
    [(name) => `update_${name}`, 'update', 'update'],
    [(name) => `delete_${name}`, 'delete', 'delete'],
  ],
  modern: [
    [(name) => name, 'select', 'select'],
    [(name) => `${name}_by_pk`, 'by_pk', 'select'],
    [(name) => `${name}_aggregate`, 'aggregate', 'select'],
    [(name) => `insert_${name}`, 'insert', 'insert'],
    [(name) => `insert_${name}_one`, 'insert_one', 'insert'],
    [(name) => `update_${name}`, 'update', 'update'],
    [(name) => `update_${name}_by_pk`, 'update_by_pk', 'update'],
    [(name) => `update_${name}_many`, 'update_many', 'update'],
    [(name) => `delete_${name}`, 'delete', 'delete'],
    [(name) => `delete_${name}_by_pk`, 'delete_by_pk', 'delete'],
  ],
}

/** How a table's customization calls what a root field does. */
const CUSTOM: Partial<Record<RootAction, string>> = { by_pk: 'select_by_pk', aggregate: 'select_aggregate' }

export const NUMERIC_FUNCTIONS = [
  'avg',
  'stddev',
  'stddev_pop',
  'stddev_samp',
  'sum',
  'var_pop',
  'var_samp',
  'variance',
]
/** Suffixes of the types that belong to a table. */
const TYPES: Record<Dialect, readonly string[]> = {
  alpha: ['_bool_exp', '_input', '_mutation_response'],
  modern: [
    '_bool_exp',
    '_order_by',
    ...['', '_insert', '_obj_rel_insert', '_arr_rel_insert', '_pk_columns'].map((part) => `${part}_input`),
    ...['_set', '_inc', '_append', '_prepend', '_delete_key', '_delete_elem', '_delete_at_path'].map(
      (part) => `${part}_input`,
    ),
    '_mutation_response',
    '_aggregate',
    '_aggregate_fields',
    '_aggregate_order_by',
    ...['', '_count', '_bool_and', '_bool_or'].map((part) => `_aggregate_bool_exp${part}`),
    ...[...NUMERIC_FUNCTIONS, 'max', 'min'].flatMap((fn) => [`_${fn}_fields`, `_${fn}_order_by`]),
    '_select_column',
    '_update_column',
    '_boolean_column',
    '_constraint',
    '_on_conflict',
    '_updates',
  ],
}
/** A table's types and another's have a name in common when the names of the two differ by one of these at the end. */
const ENDS: Record<Dialect, readonly string[]> = { alpha: endsOf(TYPES.alpha), modern: endsOf(TYPES.modern) }

function endsOf(suffixes: readonly string[]): readonly string[] {
  const all = ['', ...suffixes]
  const ends = all.flatMap((one) =>
    all.filter((other) => one.endsWith(other)).map((other) => one.slice(0, one.length - other.length)),
  )
  return [...new Set(ends)]
}

/** Types of comparisons. */
const COMPARISON = /_(comparison|cast)_exp$|^st_d_within_(geography_)?input$/

/** A table whose name, or the name of one of its types, is taken by a table before it is left out. */
function expose(names: Names, dialect: Dialect): Exposed {
  const tables = new Map<string, Table>()
  const byTable = new Map<string, string>()
  const query = new Map<string, RootField>()
  const mutation = new Map<string, RootField>()
  const suffixes = ['', ...TYPES[dialect]]
  const isBuiltIn = (name: string) =>
    [...GRAPHQL_TYPES].some((type) => type.startsWith(name) && suffixes.includes(type.slice(name.length)))
  /** In order, so that what is shorter was there before. */
  const sharesType = (name: string) =>
    ENDS[dialect].some((end) => name.endsWith(end) && tables.has(name.slice(0, name.length - end.length)))
  const customization = (table: Table) => (dialect === 'modern' ? table.customization : undefined)
  for (const { name, of: table } of inOrder(names.tables(), (each) => customization(each)?.name)) {
    if (table.system || (dialect === 'alpha' && table.schema !== 'public')) continue
    const custom = customization(table)
    const fields = FIELDS[dialect]
      .filter(([, action, needs]) => offers(action, needs, table, names))
      .map(([field, action, needs]) => {
        const given = custom?.rootFields[CUSTOM[action] ?? action]
        return { field: given ?? field(name), given: given !== undefined, action, needs }
      })
      .sort((a, b) => Number(b.given) - Number(a.given))
    if (!isGraphqlName(name) || COMPARISON.test(name) || isBuiltIn(name) || sharesType(name)) continue
    if (fields.some(({ field }) => query.has(field) || mutation.has(field))) continue
    tables.set(name, table)
    byTable.set(`${table.schema}\0${table.name}`, name)
    for (const { field, action, needs } of fields) {
      const roots = needs === 'select' ? query : mutation
      // A name that was given to one of them goes before another's own.
      if (!roots.has(field)) roots.set(field, { action, table })
    }
  }
  const args = new Map<FunctionData | ComputedField, string>()
  const types = new Set(GRAPHQL_TYPES)
  const isType = (type: string) =>
    types.has(type) ||
    suffixes.some((suffix) => type.endsWith(suffix) && tables.has(type.slice(0, type.length - suffix.length)))
  const nameArgs = (call: FunctionData | ComputedField, name: string) => {
    let free = `${name}_args`
    while (isType(free)) free += '_'
    types.add(free)
    args.set(call, free)
  }
  for (const [name, table] of dialect === 'modern' ? tables : []) {
    for (const field of names.computedFields(table)) nameArgs(field, `${name}_${field.name}`)
  }
  for (const { name, of: call } of dialect === 'modern' ? inOrder(names.functions(), (each) => each.customName) : []) {
    const table = [...tables.values()].find(
      ({ schema, name }) => schema === call.table.schema && name === call.table.name,
    )
    const roots = call.mutation ? mutation : query
    if (!table || !isGraphqlName(name) || query.has(name) || mutation.has(name)) continue
    if (!takesNames(call.arguments)) continue
    nameArgs(call, name)
    roots.set(name, { action: 'select', table, call })
    const aggregate = `${name}_aggregate`
    if (call.many && !call.mutation && names.mayAggregate(table) && !query.has(aggregate)) {
      query.set(aggregate, { action: 'aggregate', table, call })
    }
  }
  return {
    tables,
    query,
    mutation,
    nameOf: ({ schema, name }) => byTable.get(`${schema}\0${name}`),
    argsOf: (call) => args.get(call) as string,
    isTaken: (type) => isType(type) || COMPARISON.test(type),
  }
}

/**
 * By name, `author` before `author_set_input`, whatever was tracked first: what is left out is the same on every instance.
 */
function inOrder<T extends TableRef>(all: Iterable<T>, customName: (each: T) => string | undefined) {
  const named = [...all].map((of) => {
    const name = customName(of) ?? nameOutside(of)
    return { name, of, order: `${name}\0${of.schema === 'public' ? '' : of.schema}` }
  })
  return named.sort((a, b) => (a.order < b.order ? -1 : 1))
}

/** Whether a client can name all that it may give. */
export const takesNames = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, name = '' }) => is !== 'client' || isGraphqlName(name))

const nameOutside = ({ schema, name }: { readonly schema: string; readonly name: string }): string =>
  schema === 'public' ? name : `${schema}_${name}`

function offers(action: RootAction, needs: Action, table: Table, names: Names): boolean {
  if (!names.may(table, needs)) return false
  const reads = names.may(table, 'select')
  switch (action) {
    case 'select':
      return true
    case 'by_pk':
      return readableKey(table, names)
    case 'aggregate':
      return names.mayAggregate(table)
    case 'insert':
      return table.insertable
    case 'insert_one':
      return table.insertable && reads
    case 'update':
    case 'update_many':
      return table.updatable && reads && updatesSomething(table, names)
    case 'update_by_pk':
      return table.updatable && reads && readableKey(table, names) && updatesSomething(table, names)
    case 'delete':
      return table.deletable && reads
    case 'delete_by_pk':
      return table.deletable && reads && readableKey(table, names)
  }
}

const updatesSomething = (table: Table, names: Names): boolean =>
  names.columns(table, 'update').some(({ name }) => isGraphqlName(name))

/** The whole primary key is there and may be seen. */
export function readableKey(table: Table, names: Names): boolean {
  const seen = new Set(names.columns(table).map(({ name }) => name))
  const keys = table.primaryKey.map((column) => keyOf(table, column))
  return keys.length > 0 && keys.every((key) => seen.has(key) && isGraphqlName(key))
}

/** The scalar of a type. Arrays have that of their elements. */
export function scalarName(type: SqlType): string {
  const builtIn = BUILT_IN.get(type.name)
  if (builtIn && type.schema === 'pg_catalog') return builtIn
  const name = (RENAMED.get(type.name) ?? type.name).replaceAll(/\W/g, '_').replace(/^(?=\d)/, '_')
  return type.kind === 'row' ? `${name}_row` : GRAPHQL_TYPES.has(name) ? `${name}_scalar` : name
}
const BUILT_IN: ReadonlyMap<string, string> = new Map([
  ['int4', 'Int'],
  ['bool', 'Boolean'],
  ['float4', 'Float'],
  ['text', 'String'],
  ['varchar', 'String'],
])
const RENAMED: ReadonlyMap<string, string> = new Map([
  ['int2', 'smallint'],
  ['int8', 'bigint'],
])
