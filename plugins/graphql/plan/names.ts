import {
  type Column,
  computedColumn,
  type FunctionArgument,
  GRAPHQL_TYPES,
  isGraphqlName,
  type Names,
  needsNothing,
  type Related,
  type SqlType,
  type Table,
} from 'rowhouse/plan'

/** `alpha` is `/v1alpha1/graphql`, `modern` is `/v1/graphql`. */
export type Dialect = 'alpha' | 'modern'

/** Aggregate functions of numbers. */
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

/**
 * Names as `/v1/graphql` has them: columns under their custom names, and values that functions compute as columns.
 * `columns` gives columns under these names; the look-ups take them and give columns as the database has them.
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

/** Computed fields that are values, and need nothing from the client: they can stand where a column can. */
export const computedColumns = (names: Names, table: Table): readonly Column[] =>
  names.computedFields(table).flatMap((field) => {
    const column = needsNothing(field.arguments) ? computedColumn(field, '$') : undefined
    return column ? [column] : []
  })

/** The name of a column in GraphQL. */
export const keyOf = ({ customization }: Table, column: string): string =>
  customization && Object.hasOwn(customization.columns, column) ? (customization.columns[column] as string) : column

/** Whether a field of rows is called so that is no relationship. */
export const isColumn = (table: Table, name: string): boolean =>
  table.columnsByName.has(columnOf(table, name)) || table.computedByName.has(name)

/** The relationship whose rows `articles_aggregate` is computed of; undefined if a column or relationship is called so. */
export function aggregateNamed(name: string, table: Table, names: Names): Related | undefined {
  if (!name.endsWith(AGGREGATE) || isColumn(table, name) || table.relationshipsByName.has(name)) return undefined
  const many = name.slice(0, -AGGREGATE.length)
  return names
    .relationships(table)
    .find(({ relationship }) => relationship.type === 'array' && relationship.name === many)
}
const AGGREGATE = '_aggregate'

/** The column of a name in GraphQL; a name that none has for one that is hidden behind another. */
function columnOf(table: Table, name: string): string {
  if (!table.customization) return name
  const columns = Object.entries(table.customization.columns)
  const [column] = columns.find(([, custom]) => custom === name) ?? []
  return column ?? (Object.hasOwn(table.customization.columns, name) ? `\0${name}` : name)
}

/** Whether an enum can have a value of this name: it must not look like a value of another type. */
export const isEnumName = (name: string): boolean => isGraphqlName(name) && !['true', 'false', 'null'].includes(name)

/** Whether a client can name all the arguments that it may give. */
export const takesNames = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, name = '' }) => is !== 'client' || isGraphqlName(name))

/** The scalar of a type; for an array, the scalar of its elements. */
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
