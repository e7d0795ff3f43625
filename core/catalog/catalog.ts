import { isDeepStrictEqual } from 'node:util'
import type { BoolExp, FunctionCall, Join, Preset, SqlType, TableRef } from '../plan/ir.js'

/**
 * One immutable snapshot of what the database has and what the metadata says of it. `CatalogData` is plain, so that it
 * can be sent to a worker; `openCatalog` adds the look-ups by name.
 */
export interface CatalogData {
  /** Unique to this snapshot. Not its version: two that were never committed may share one. */
  readonly id: string
  /** The metadata counter (`svc_catalog.svc_version`) that it was read at. */
  readonly version: string
  readonly tables: readonly TableData[]
  /** Permission expressions, each distinct one once; permissions refer to them by index. */
  readonly filters: readonly BoolExp[]
  readonly templates: readonly TemplateData[]
  readonly functions: readonly FunctionData[]
  /** Metadata that the database no longer bears out. Unusable until mended. */
  readonly inconsistent: readonly Inconsistency[]
}

export interface TableData extends TableRef {
  readonly kind: 'table' | 'partitioned' | 'view' | 'materialized view' | 'foreign table'
  /** Ours, in `svc_catalog`: readable by admin, changed by metadata operations only. */
  readonly system: boolean
  readonly insertable: boolean
  readonly updatable: boolean
  readonly deletable: boolean
  /** What happens when a row is inserted may depend on what else the transaction does. */
  readonly ownTransaction?: true
  readonly columns: readonly Column[]
  readonly primaryKey: readonly string[]
  /** Primary key and unique constraints. */
  readonly keys: readonly Constraint[]
  readonly foreignKeys: readonly ForeignKey[]
  /** Check and exclusion constraints. */
  readonly rules: readonly Constraint[]
  readonly relationships: readonly Relationship[]
  readonly computedFields: readonly ComputedField[]
  readonly permissions: readonly RolePermissions[]
  readonly customization?: Customization
}

export interface Constraint {
  readonly name: string
  readonly columns: readonly string[]
}
export interface ForeignKey extends Constraint {
  readonly table: TableRef
  readonly remoteColumns: readonly string[]
}

export interface Column {
  readonly name: string
  readonly type: SqlType
  readonly nullable: boolean
  /** As PostgreSQL prints it. */
  readonly default?: string
  /** `always`: a value may not be given (generated columns, identity always). `identity`: by default. */
  readonly generated?: 'always' | 'identity'
  /** An expression that is computed when it is read: of a view, or a virtual generated column. */
  readonly derived?: true
  /** It is none, but a field that this computes of the row: it can be read, and nothing else. */
  readonly computed?: FunctionCall
}

export interface Relationship {
  readonly name: string
  readonly type: 'object' | 'array'
  readonly table: TableRef
  readonly on: Join
}

/** A field of a table's rows that a function computes. */
export interface ComputedField {
  readonly name: string
  readonly function: TableRef
  readonly arguments: readonly FunctionArgument[]
  /** A value, or rows of a table. */
  readonly gives: { readonly type: SqlType } | { readonly table: TableRef; readonly many: boolean }
}

/** A tracked function: a root field for rows of a table. */
export interface FunctionData extends TableRef {
  /** Of the table whose rows it gives. */
  readonly table: TableRef
  /** Whether it gives any number of rows, or one at most. */
  readonly many: boolean
  readonly arguments: readonly FunctionArgument[]
  /** Called by a mutation: it may change the database. */
  readonly mutation: boolean
  /** Roles that may call it. */
  readonly roles: readonly string[]
  readonly customName?: string
}
export interface FunctionArgument {
  /** Absent: it can be given by its place only. */
  readonly name?: string
  readonly type: SqlType
  /** It has a default. */
  readonly optional: boolean
  /** `client`: a value of the request; `row`: the row that is computed of; `session`: the session variables. */
  readonly is: 'client' | 'row' | 'session'
}

/** Names that a table has in GraphQL instead of its own. */
export interface Customization {
  readonly name?: string
  /** By what they do: `select_by_pk`. */
  readonly rootFields: Readonly<Record<string, string>>
  /** By column. */
  readonly columns: Readonly<Record<string, string>>
}

/** What one role may do with one table; an absent entry means not at all. Numbers are places in `filters`. */
export interface RolePermissions {
  readonly role: string
  readonly insert?: InsertPermission
  readonly select?: SelectPermission
  readonly update?: UpdatePermission
  readonly delete?: { readonly filter: number }
}
export interface InsertPermission {
  readonly check: number
  readonly columns: readonly string[]
  readonly set: readonly Preset[]
  readonly upsert: boolean
}
export interface SelectPermission {
  readonly columns: readonly string[]
  readonly filter: number
  readonly limit?: number
  readonly aggregations: boolean
  readonly computedFields: readonly string[]
}
export interface UpdatePermission {
  readonly columns: readonly string[]
  readonly filter: number
  readonly check?: number
  readonly set: readonly Preset[]
}

/** A stored query with parameters. */
export interface TemplateData {
  readonly name: string
  /** JSON text: numbers keep their digits. */
  readonly definition: string
  readonly comment: string | null
}

export interface Inconsistency {
  /** As dependents are named to clients: `permission article.user.select`. */
  readonly object: string
  readonly reason: string
}

export interface Catalog extends Omit<CatalogData, 'tables'> {
  readonly tables: ReadonlyMap<string, Table>
}
export interface Table extends TableData {
  readonly columnsByName: ReadonlyMap<string, Column>
  readonly relationshipsByName: ReadonlyMap<string, Relationship>
  readonly computedByName: ReadonlyMap<string, ComputedField>
  readonly permissionsByRole: ReadonlyMap<string, RolePermissions>
}

/** A table's key in maps. An identifier cannot hold U+0000. */
export const tableKey = (table: TableRef): string => `${table.schema}\0${table.name}`

/** A table's name in messages and exports of names: `article`, or `other.article` outside `public`. */
export const tableName = (table: TableRef): string =>
  table.schema === 'public' ? table.name : `${table.schema}.${table.name}`

export function openCatalog(data: CatalogData): Catalog {
  return { ...data, tables: new Map(data.tables.map((table) => [tableKey(table), openOnce(table)])) }
}

/** Snapshots that share a table's data share its look-ups. */
function openOnce(table: TableData): Table {
  let open = opened.get(table)
  if (!open) opened.set(table, (open = openTable(table)))
  return open
}
const opened = new WeakMap<TableData, Table>()

/** The same snapshot, holding what the other one holds for each table that is equal. */
export function shareTables(data: CatalogData, other: CatalogData): CatalogData {
  const others = new Map(other.tables.map((table) => [tableKey(table), table]))
  const tables = data.tables.map((table) => {
    const known = others.get(tableKey(table))
    return known && isDeepStrictEqual(table, known) ? known : table
  })
  return { ...data, tables }
}

export function openTable(table: TableData): Table {
  return {
    ...table,
    columnsByName: new Map(table.columns.map((column) => [column.name, column])),
    relationshipsByName: new Map(table.relationships.map((relationship) => [relationship.name, relationship])),
    computedByName: new Map(table.computedFields.map((field) => [field.name, field])),
    permissionsByRole: new Map(table.permissions.map((permissions) => [permissions.role, permissions])),
  }
}
