import {
  AGGREGATE,
  camelCase,
  type Column,
  computedColumn,
  computedRelationship,
  type ComputedField,
  type FunctionArgument,
  GRAPHQL_TYPES,
  isEnumName,
  isGeo,
  isGraphqlName,
  type Names,
  needsNothing,
  operatorNames,
  pascalCase,
  type Related,
  searchOn,
  type SqlType,
  supports,
  type Table,
  type TableRef,
} from 'rowhouse/plan'

/** `alpha` is `/v1alpha1/graphql`, `modern` is `/v1/graphql`, and `relay`, `/v1beta1/relay`, is like `modern`. */
export type Dialect = 'alpha' | 'modern' | 'relay'

/** Aggregate functions of numbers. */
export const NUMERIC_FUNCTIONS = 'avg stddev stddev_pop stddev_samp sum var_pop var_samp variance'.split(' ')

/** Returns whether names follow `graphql-default`. Those of the older dialect never do. */
export const isCamel = ({ naming }: Pick<Names, 'naming'>, dialect: Dialect = 'modern'): boolean =>
  dialect !== 'alpha' && naming === 'graphql-default'

/** Words of the schema itself, which `graphql-default` writes in camelCase: arguments, operators and aggregate functions. */
const WORDS: ReadonlyMap<string, string> = new Map(
  [
    ...operatorNames('_'),
    ...'order_by distinct_on on_conflict update_columns pk_columns affected_rows'.split(' '),
    ...'_delete_key _delete_elem _delete_at_path'.split(' '),
    ...'batch_size initial_value'.split(' '),
    ...NUMERIC_FUNCTIONS,
  ].flatMap((word) => (camelCase(word) === word ? [] : [[camelCase(word), word]])),
)
/** Returns a word of the schema by its name in either convention. The schema decides which of them a document may use. */
export const wordOf = (name: string): string => WORDS.get(name) ?? name

/** Returns the fields of an input with their words, besides their own names. */
export function withWords<T>(fields: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  const words = Object.entries(fields).flatMap(([name, value]) =>
    WORDS.has(name) ? [[wordOf(name), value] as const] : [],
  )
  return words.length > 0 ? Object.assign(Object.create(null), Object.fromEntries(words), fields) : fields
}

/**
 * Returns the names of `/v1/graphql`: columns under their custom names, and computed values as columns. `columns` returns
 * columns with these names; the other functions take these names and return columns with their names in the database.
 */
export function graphqlNames(names: Names): Names {
  let known = cache.get(names)
  if (!known) cache.set(names, (known = renamed(names)))
  return known
}
const cache = new WeakMap<Names, Names>()

function renamed(names: Names): Names {
  const computed = (table: Table, name: string, path: string): Column | undefined => {
    if (!table.computedByName.has(name)) return undefined
    return computedColumn(names.computedField(table, name, path), path)
  }
  const rows = (table: Table, name: string, path: string): Related | undefined => {
    if (!table.computedByName.has(name)) return undefined
    return computedRelationship(names.computedField(table, name, path), names, path)
  }
  const { naming } = names
  const found = <T extends Column | Related>(each: T): T =>
    'type' in each ? { ...each, type: enumType(each.type, naming) } : each
  return {
    ...names,
    column: (table, name, action, path) =>
      (action === 'select' ? computed(table, name, path) : undefined) ??
      found(names.column(table, columnOf(table, name, naming), action, path)),
    relationship: (table, name, path) => names.relationship(table, relationshipOf(table, name, names), path),
    conflictColumn: (table, name, path) => names.conflictColumn(table, columnOf(table, name, naming), path),
    columnOrRelationship: (table, name, path) =>
      computed(table, name, path) ??
      rows(table, name, path) ??
      found(names.columnOrRelationship(table, columnOf(table, name, naming), path)),
    columns: (table, action) =>
      table.customization || naming
        ? names.columns(table, action).map((column) => found({ ...column, name: keyOf(table, column.name, naming) }))
        : names.columns(table, action),
  }
}

/** Returns the type of a column in GraphQL: `graphql-default` writes the values of an enum table in upper case. */
export function enumType(type: SqlType, naming: Names['naming']): SqlType {
  if (!isCamel({ naming }) || type.enumTable === undefined || !type.labels) return type
  let known = enumTypes.get(type)
  if (!known) enumTypes.set(type, (known = upperCased(type, type.labels)))
  return known
}
const enumTypes = new WeakMap<SqlType, SqlType>()

/** Two values that differ in case only keep all values as they are. */
function upperCased(type: SqlType, values: readonly string[]): SqlType {
  const labelNames = values.map((value) => [value.toUpperCase(), value] as const)
  const labels = labelNames.map(([name]) => name)
  return new Set(labels).size === labels.length && labels.every(isEnumName) ? { ...type, labels, labelNames } : type
}

/** Returns the computed fields that can be used like columns: they are values, and need no arguments. */
export const computedColumns = (names: Names, table: Table): readonly Column[] =>
  names.computedFields(table).flatMap((field) => {
    const column = needsNothing(field.arguments) ? computedColumn(field, '$') : undefined
    return column ? [column] : []
  })

/** Returns the name of a column in GraphQL. */
export const keyOf = (table: Table, column: string, naming: Names['naming']): string =>
  keysOf(table, naming)?.get(column) ?? column

/** Returns the names of columns in GraphQL that differ from those in the database, by column. */
function keysOf(table: Table, naming: Names['naming']): ReadonlyMap<string, string> | undefined {
  const custom = Object.entries(table.customization?.columns ?? {})
  if (!isCamel({ naming })) return custom.length > 0 ? new Map(custom) : undefined
  let keys = camelKeys.get(table)
  if (!keys) camelKeys.set(table, (keys = inCamelCase(table, new Map(custom))))
  return keys
}
const camelKeys = new WeakMap<Table, ReadonlyMap<string, string>>()

/** A column whose name in camelCase is taken keeps its own. */
function inCamelCase(table: Table, custom: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const own = table.columns.map(({ name }) => custom.get(name) ?? name)
  const taken = new Set([...own, ...table.relationshipsByName.keys(), ...table.computedByName.keys()])
  const keys = new Map(custom)
  for (const { name } of table.columns) {
    const key = camelCase(name)
    if (custom.has(name) || taken.has(key)) continue
    keys.set(name, key)
    taken.add(key)
  }
  return keys
}

/** Returns the names of arguments of a function in GraphQL, by argument. */
export function argumentKeys(all: readonly FunctionArgument[], camel: boolean): ReadonlyMap<string, string> {
  const names = all.flatMap(({ name = '', is }) => (is === 'client' ? [name] : []))
  const keys = camel ? names.map(camelCase) : names
  const isFree = (key: string) => !names.includes(key) && keys.indexOf(key) === keys.lastIndexOf(key)
  return new Map(names.map((name, i) => [name, isFree(keys[i] as string) ? (keys[i] as string) : name]))
}

/** Returns whether a column or a computed field has this name. */
export const isColumn = (table: Table, name: string, naming: Names['naming']): boolean =>
  table.columnsByName.has(columnOf(table, name, naming)) || table.computedByName.has(name)

/**
 * Returns the relationship that `articles_aggregate` aggregates, or that another field shows; undefined if a column or
 * relationship has that name.
 * @param nameOf returns the name of the field of a relationship
 */
export function aggregateNamed(
  name: string,
  table: Table,
  names: Names,
  nameOf: (name: string, names: Names) => string = aggregateName,
): Related | undefined {
  if (isColumn(table, name, names.naming) || table.relationshipsByName.has(name)) return undefined
  return names
    .relationships(table)
    .find(({ relationship: each }) => each.type === 'array' && nameOf(each.name, names) === name)
}

/** Returns the relationship with a name: the one of its aggregate, without the end. */
function relationshipOf(table: Table, name: string, names: Names): string {
  if (!isCamel(names) || table.relationshipsByName.has(name)) return name
  const all = [...table.relationshipsByName.keys()]
  return all.find((each) => aggregateName(each, names) === `${name}${AGGREGATE_END}`) ?? name
}
/** End of the name of an aggregate in camelCase. */
export const AGGREGATE_END = 'Aggregate'

/** Returns the name of the field that aggregates the rows of another. */
export const aggregateName = (name: string, names: Names): string =>
  isCamel(names) ? camelCase(`${name}${AGGREGATE}`) : `${name}${AGGREGATE}`

/** Returns the name of the connection of a list. */
export const connectionName = (name: string, names: Names): string =>
  isCamel(names) ? camelCase(`${name}_connection`) : `${name}_connection`

/** Returns the computed field whose rows `latest_articles_aggregate` aggregates in `order_by`. It needs no arguments. */
export function computedAggregateNamed(name: string, table: Table, names: Names): ComputedRows | undefined {
  if (isColumn(table, name, names.naming) || table.relationshipsByName.has(name)) return undefined
  return computedRows(names, table).find(({ name: field, gives }) => gives.many && aggregateName(field, names) === name)
}

type ComputedRows = ComputedField & { readonly gives: { readonly table: TableRef; readonly many: boolean } }
/** Returns the computed fields that are rows and need no arguments. */
export const computedRows = (names: Names, table: Table): readonly ComputedRows[] =>
  names.computedFields(table).flatMap((field) => {
    const { gives } = field
    return 'table' in gives && needsNothing(field.arguments) ? [{ ...field, gives }] : []
  })

/** Returns the keys of `order_by` for columns with full-text search, such as `title_rank`, with the names of the columns. */
export function rankKeys(table: Table, names: Names): ReadonlyMap<string, string> {
  const columns = names.columns(table)
  const taken = new Set([
    ...columns.map(({ name }) => name),
    ...names.computedFields(table).map(({ name }) => name),
    ...names.relationships(table).map(({ relationship }) => relationship.name),
  ])
  const searched = columns
    .filter((column) => searchOn(column))
    .map(({ name }) => {
      return [isCamel(names) ? camelCase(`${name}_rank`) : `${name}_rank`, name] as const
    })
  return new Map(searched.filter(([key]) => !taken.has(key)))
}

/** Returns the name of the field that streams the rows of another. */
export const streamName = (name: string, names: Names): string =>
  isCamel(names) ? camelCase(`${name}_stream`) : `${name}_stream`

/** Key of the values of a cursor, which no field has. */
export const CURSOR = '$cursor'

/** Returns whether rows can be streamed in the order of a column: its values are in a JSON value, unchanged, and have an order. */
export const isCursor = ({ type }: Column): boolean =>
  !isGeo(type) && !NO_CURSOR.has(type.kind) && supports(type, 'sort')
const NO_CURSOR: ReadonlySet<SqlType['kind']> = new Set(['json', 'jsonb', 'array', 'row'])

/** Returns the column with a name in GraphQL. For the database name of a renamed column, returns a name that no column has. */
function columnOf(table: Table, name: string, naming: Names['naming']): string {
  const keys = keysOf(table, naming)
  if (!keys) return name
  const [column] = [...keys].find(([, key]) => key === name) ?? []
  return column ?? (keys.has(name) ? `\0${name}` : name)
}

/** Returns whether all arguments that clients can set have names that are valid in GraphQL. */
export const takesNames = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, name = '' }) => is !== 'client' || isGraphqlName(name))

/** Returns the name of a type in the convention. */
export const typeNamed = (name: string, camel: boolean): string => (camel ? pascalCase(name) : name)
/** Returns the end of the name of a type, e.g. `_bool_exp`, in the convention. */
export const typeEnd = (end: string, camel: boolean): string =>
  camel && end.startsWith('_') ? pascalCase(end.slice(1)) : end

/** Returns the name of the scalar or enum of a type. */
export function scalarName(type: SqlType, dialect: Dialect, camel = false): string {
  if (type.enumTable !== undefined && dialect !== 'alpha') {
    return typeNamed(`${type.enumTable.replaceAll(/\W/g, '_')}_enum`, camel)
  }
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
