import { signal } from '@preact/signals'
import { query } from './api.js'

export interface TableName {
  readonly schema: string
  readonly name: string
}

export interface Column {
  readonly name: string
  /** Name in `pg_type`, e.g. `timestamptz` or `int4[]`. */
  readonly type: string
  readonly nullable: boolean
  /** Present if the caller may insert it. */
  readonly has_default?: boolean
  /** Whether it cannot be written. */
  readonly generated: boolean
  readonly comment?: string
  /** Values of an enum. */
  readonly values?: readonly string[]
  readonly select: boolean
  readonly insert: boolean
  readonly update: boolean
}

export interface Relationship {
  readonly name: string
  readonly type: 'object' | 'array'
  readonly table: TableName
  /** Columns of this table, and those of the other that have their values. Absent unless the caller may select them. */
  readonly columns?: Readonly<Record<string, string>>
}

/** What a computed field or a function returns. */
interface Result {
  readonly type?: string
  readonly table?: TableName
  readonly columns?: readonly { readonly name: string; readonly type: string }[]
  readonly set?: boolean
}

export interface ComputedField extends Result {
  readonly name: string
}

export interface Table {
  readonly table: TableName
  readonly kind: string
  readonly comment?: string
  readonly primary_key: readonly string[]
  readonly unique: readonly { readonly name: string; readonly columns: readonly string[] }[]
  readonly columns: readonly Column[]
  readonly computed_fields: readonly ComputedField[]
  readonly relationships: readonly Relationship[]
  readonly actions: Readonly<Record<'select' | 'insert' | 'update' | 'delete' | 'upsert', boolean>>
  readonly aggregations: boolean
  /** What plugins note of its changes: `live`, `history` and others. */
  readonly captures?: readonly string[]
  readonly limit: number | null
}

export interface Func {
  readonly function: TableName
  readonly arguments: readonly { readonly name: string; readonly type: string; readonly has_default: boolean }[]
  readonly returns: Result
  readonly volatile: boolean
}

/** What the caller may see of the database, as the operation `describe` says. */
export interface Catalog {
  readonly tables: readonly Table[]
  readonly functions: readonly Func[]
  /** Operators of conditions by type. */
  readonly operators: Readonly<Record<string, readonly string[]>>
  /** Names of all roles with permissions, for an admin. */
  readonly roles?: readonly string[]
}

/** The catalog of the caller; undefined until it is read. */
export const catalog = signal<Catalog | undefined>(undefined)

/** Reads the catalog of the caller. Panels call it after they changed the structure. */
export async function readCatalog(abort?: AbortSignal): Promise<void> {
  const found = await query<Catalog>('describe', {}, { signal: abort })
  if (!abort?.aborted) catalog.value = found
}

/** Returns the name of a table for addresses and labels: `orders`, or `schema.name` outside of the schema public. */
export const labelOf = ({ schema, name }: TableName): string => (schema === 'public' ? name : `${schema}.${name}`)

/** Returns a table's name for requests: a text in the schema public. */
export const wireName = ({ schema, name }: TableName): string | TableName =>
  schema === 'public' ? name : { schema, name }

export const findTable = (label: string | undefined): Table | undefined =>
  catalog.value?.tables.find(({ table }) => labelOf(table) === label)

export const isSameTable = (a: TableName, b: TableName): boolean => a.schema === b.schema && a.name === b.name

export const isNumeric = ({ type }: Typed): boolean => /^(int[248]|numeric|float[48]|money|oid)$/.test(type)
export const isTime = ({ type }: Typed): boolean => /^(timestamptz?|date)$/.test(type)
export const isJson = ({ type }: Typed): boolean => /^jsonb?$/.test(type)
type Typed = Pick<Column, 'type'>

/** Whether a table belongs to Rowhouse. */
export const isSystem = ({ table }: Table): boolean => table.schema === 'svc_catalog'
