import { at, parseFailed, type ServiceError, unexpectedPayload } from '../errors.js'
import { isObject, refuseOtherKeys } from '../json/value.js'
import type { Json, JsonObject } from '../json/parse.js'
import { operatorNames } from '../plan/operators.js'
import type { TableRef } from '../ir.js'
import { type Customization, type FunctionData, tableName } from '../catalog/catalog.js'
import {
  GRAPHQL_TYPES,
  functionFieldName,
  isGraphqlName,
  type NamingConvention,
  ROOT_FIELD_KINDS,
  ROOT_FIELDS,
  type RootFieldKind,
  rootFieldName,
} from '../catalog/graphql-names.js'
import type { DatabaseTable } from './introspect.js'
import { missingColumn } from './relationship.js'

const KEYS = ['custom_name', 'custom_root_fields', 'custom_column_names', 'column_config']

/**
 * Reads the custom names of a table in GraphQL: `{custom_name?, custom_root_fields?, column_config?}`.
 * @param taken names of fields that are not columns, and the other table with the same name
 * @throws ServiceError 400 with a path below `$`, the root of the configuration
 */
export function readCustomization(
  configuration: Json,
  table: DatabaseTable,
  taken: { readonly fields: ReadonlySet<string>; readonly type: (name: string) => TableRef | undefined },
): Customization | undefined {
  if (configuration === null) return undefined
  const { custom_name: name, custom_root_fields: roots, ...rest } = objectOf(configuration, '$', KEYS)
  const own = name === undefined || name === null ? undefined : nameOf(name, '$.custom_name')
  const owner = own === undefined ? undefined : taken.type(own)
  if (owner || GRAPHQL_TYPES.has(own ?? '')) {
    const by = owner ? ` in GraphQL by table "${tableName(owner)}"` : ''
    throw unexpectedPayload(`the name "${own}" is taken${by}`, '$.custom_name')
  }
  const rootFields = namesIn(roots, '$.custom_root_fields', ROOT_FIELD_KINDS)
  refuseTwice(rootFields, '$.custom_root_fields')
  const columns = new Map(Object.entries(namesIn(rest['custom_column_names'], '$.custom_column_names')))
  for (const [column, config] of Object.entries(objectOf(rest['column_config'], '$.column_config'))) {
    const path = at('$.column_config', column)
    const { custom_name: custom } = objectOf(config, path, ['custom_name'])
    if (custom !== undefined && custom !== null) columns.set(column, nameOf(custom, `${path}.custom_name`))
  }
  checkColumns(columns, table, taken.fields)
  return { ...(own === undefined ? {} : { name: own }), rootFields, columns: Object.fromEntries(columns) }
}

/** Checks that every column exists and that names are unique. */
function checkColumns(columns: ReadonlyMap<string, string>, table: DatabaseTable, taken: ReadonlySet<string>): void {
  const used = new Set(taken)
  // Columns without a custom name come first, so that the error points to the custom name.
  const own = table.columns.map(({ name }) => name).sort((a, b) => Number(columns.has(a)) - Number(columns.has(b)))
  for (const column of columns.keys()) {
    if (!own.includes(column)) {
      throw missingColumn(column, table, at('$.column_config', column))
    }
  }
  for (const column of own) {
    const name = columns.get(column) ?? column
    if (used.has(name)) throw unexpectedPayload(`the name "${name}" is taken`, at('$.column_config', column))
    used.add(name)
  }
}

function refuseTwice(names: Readonly<Record<string, string>>, path: string): void {
  const used = new Set<string>()
  for (const [key, name] of Object.entries(names)) {
    if (used.has(name)) throw unexpectedPayload(`the name "${name}" is taken`, at(path, key))
    used.add(name)
  }
}

function namesIn(value: Json | undefined, path: string, known?: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(objectOf(value, path, known))
      .filter(([, name]) => name !== null)
      .map(([key, name]) => [key, nameOf(name, at(path, key))]),
  )
}

/** @returns an empty object for null and for an absent value */
export function objectOf(value: Json | undefined, path: string, known?: readonly string[]): JsonObject {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw parseFailed('expecting an object', path)
  if (known) refuseOtherKeys(value, known, path)
  return value
}

function nameOf(value: Json, path: string): string {
  if (typeof value !== 'string' || !isGraphqlName(value))
    throw parseFailed('expecting a name that is valid in GraphQL', path)
  return value
}

/** A table and its custom names. */
interface NamedTable {
  readonly found: DatabaseTable
  readonly given: GivenNames
}
interface GivenNames {
  readonly custom_name?: string | null
  readonly custom_root_fields?: Readonly<Record<string, string | null>> | null
  readonly column_config?: Readonly<Record<string, { readonly custom_name?: string | null }>> | null
}

/** Everything else that GraphQL exposes. */
export interface Others {
  readonly tables: readonly NamedTable[]
  readonly functions: readonly FunctionData[]
  readonly naming?: NamingConvention
}

/** Returns whether a column with this name needs another in GraphQL, where conditions would read it as an operator. */
export const isReservedColumn = (name: string): boolean => !isGraphqlName(name) || OPERATORS.has(name)
const OPERATORS: ReadonlySet<string> = new Set(['_and', '_or', '_not', ...operatorNames('_')])

/** Returns the names from a table's configuration, which has been validated. */
export const givenNames = (configuration: Json): GivenNames => (configuration ?? {}) as GivenNames

/**
 * Checks that custom names are free, because GraphQL omits objects with conflicting names.
 * @throws ServiceError 400 with a path below `$`, the root of the table's configuration
 */
export function refuseTakenNames(table: NamedTable, others: Others): void {
  const { custom_name: typeName, custom_root_fields: given } = table.given
  const places = new Map<string, string>()
  for (const [kind, name] of rootFields(table, others.naming)) {
    if (given?.[kind]) places.set(name, at('$.custom_root_fields', kind))
    else if (typeName) places.set(name, '$.custom_name')
  }
  refuse(places, others)
}

/** @throws ServiceError 400 with the path `$` when the root field of a function is taken */
export function refuseTakenField(called: FunctionData, others: Others): void {
  refuse(new Map([[functionFieldName(called, others.naming), '$']]), others)
}

/** @param places paths of the custom names */
function refuse(places: ReadonlyMap<string, string>, { tables, functions, naming }: Others): void {
  if (places.size === 0) return
  for (const table of tables) {
    for (const [, name] of rootFields(table, naming)) {
      const path = places.get(name)
      if (path !== undefined) throw taken(name, `table "${tableName(table.found)}"`, path)
    }
  }
  for (const each of functions) {
    const field = functionFieldName(each, naming)
    const path = places.get(field)
    if (path !== undefined) throw taken(field, `function "${tableName(each)}"`, path)
  }
}

const taken = (name: string, owner: string, path: string): ServiceError =>
  unexpectedPayload(`the name "${name}" is taken in GraphQL by ${owner}`, path)

/** The root fields that a table has, by their names. */
function rootFields(
  { found, given }: NamedTable,
  naming: NamingConvention | undefined,
): (readonly [RootFieldKind, string])[] {
  const can = { select: true, insert: found.insertable, update: found.updatable, delete: found.deletable }
  const hasKey = found.primaryKey.length > 0
  return ROOT_FIELD_KINDS.flatMap((kind) => {
    const { needs, byKey } = ROOT_FIELDS[kind]
    if (!can[needs] || (byKey && !hasKey)) return []
    const custom = given.custom_name ?? undefined
    return [[kind, given.custom_root_fields?.[kind] ?? rootFieldName(kind, found, custom, naming)] as const]
  })
}
