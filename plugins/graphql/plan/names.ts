import {
  type Column,
  computedColumn,
  type ComputedField,
  type FunctionArgument,
  GRAPHQL_TYPES,
  isGraphqlName,
  type Names,
  needsNothing,
  type Related,
  type SqlType,
  type Table,
  type TableRef,
} from 'rowhouse/plan'

/** `alpha` is `/v1alpha1/graphql`, `modern` is `/v1/graphql`. */
export type Dialect = 'alpha' | 'modern'

/** Aggregate functions of numbers. */
export const NUMERIC_FUNCTIONS = 'avg stddev stddev_pop stddev_samp sum var_pop var_samp variance'.split(' ')

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
  return {
    ...names,
    column: (table, name, action, path) =>
      (action === 'select' ? computed(table, name, path) : undefined) ??
      names.column(table, columnOf(table, name), action, path),
    conflictColumn: (table, name, path) => names.conflictColumn(table, columnOf(table, name), path),
    columnOrRelationship: (table, name, path) =>
      computed(table, name, path) ?? names.columnOrRelationship(table, columnOf(table, name), path),
    columns: (table, action) =>
      table.customization
        ? names.columns(table, action).map((column) => ({ ...column, name: keyOf(table, column.name) }))
        : names.columns(table, action),
  }
}

/** Returns the computed fields that can be used like columns: they are values, and need no arguments. */
export const computedColumns = (names: Names, table: Table): readonly Column[] =>
  names.computedFields(table).flatMap((field) => {
    const column = needsNothing(field.arguments) ? computedColumn(field, '$') : undefined
    return column ? [column] : []
  })

/** Returns the name of a column in GraphQL. */
export const keyOf = ({ customization }: Table, column: string): string =>
  customization && Object.hasOwn(customization.columns, column) ? (customization.columns[column] as string) : column

/** Returns whether a column or a computed field has this name. */
export const isColumn = (table: Table, name: string): boolean =>
  table.columnsByName.has(columnOf(table, name)) || table.computedByName.has(name)

/** Returns the relationship that `articles_aggregate` aggregates; undefined if a column or relationship has that name. */
export function aggregateNamed(name: string, table: Table, names: Names): Related | undefined {
  if (!name.endsWith(AGGREGATE) || isColumn(table, name) || table.relationshipsByName.has(name)) return undefined
  const many = name.slice(0, -AGGREGATE.length)
  return names
    .relationships(table)
    .find(({ relationship }) => relationship.type === 'array' && relationship.name === many)
}
const AGGREGATE = '_aggregate'

/** Returns the computed field whose rows `latest_articles_aggregate` aggregates in `order_by`. It needs no arguments. */
export function computedAggregateNamed(name: string, table: Table, names: Names): ComputedRows | undefined {
  if (isColumn(table, name) || table.relationshipsByName.has(name)) return undefined
  return computedRows(names, table).find((field) => `${field.name}${AGGREGATE}` === name)
}

type ComputedRows = ComputedField & { readonly gives: { readonly table: TableRef } }
/** Returns the computed fields that are rows and need no arguments. */
export const computedRows = (names: Names, table: Table): readonly ComputedRows[] =>
  names.computedFields(table).flatMap((field) => {
    const { gives } = field
    return 'table' in gives && gives.many && needsNothing(field.arguments) ? [{ ...field, gives }] : []
  })

/** Returns the column with a name in GraphQL. For the database name of a renamed column, returns a name that no column has. */
function columnOf(table: Table, name: string): string {
  if (!table.customization) return name
  const columns = Object.entries(table.customization.columns)
  const [column] = columns.find(([, custom]) => custom === name) ?? []
  return column ?? (Object.hasOwn(table.customization.columns, name) ? `\0${name}` : name)
}

/** Returns whether all arguments that clients can set have names that are valid in GraphQL. */
export const takesNames = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, name = '' }) => is !== 'client' || isGraphqlName(name))

/** Returns the name of the scalar or enum of a type. */
export function scalarName(type: SqlType, dialect: Dialect): string {
  if (type.enumTable !== undefined && dialect === 'modern') return `${type.enumTable.replaceAll(/\W/g, '_')}_enum`
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
