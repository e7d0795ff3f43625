import { isDeepStrictEqual } from 'node:util'
import type { ClientBase } from 'pg'
import { ident, sql, tableText } from '../sql/text.js'
import type { EnumValue } from '../catalog/catalog.js'
import { isEnumName } from '../catalog/graphql-names.js'
import type { DatabaseTable, FoundTables } from './introspect.js'
import type { Metadata } from './metadata.js'

/** Maximum number of rows of an enum table. */
const MAX_VALUES = 1000

/** Returns the tables with the rows of the enum tables among them. Tables with the same rows stay the same objects. */
export async function withEnumValues(
  client: ClientBase,
  metadata: Metadata,
  tables: FoundTables['tables'],
): Promise<FoundTables['tables']> {
  const isEnum = (key: string): boolean => metadata.tables.get(key)?.isEnum === true
  const some = [...tables].filter(([key, table]) => isEnum(key) || table.enumValues)
  if (some.length === 0) return tables
  const may = await readable(
    client,
    some.map(([, { oid }]) => oid),
  )
  const all = new Map(tables)
  for (const [key, { enumValues: before, ...table }] of some) {
    const isRead = isEnum(key) && shapeProblem(table) === undefined && may.has(table.oid)
    const enumValues = isRead ? await valuesOf(client, table) : undefined
    if (!isDeepStrictEqual(before, enumValues)) all.set(key, { ...table, ...(enumValues ? { enumValues } : {}) })
  }
  return all
}

/** Returns the tables that the login of the server may read, because an error would end the transaction. */
async function readable(client: ClientBase, oids: readonly number[]): Promise<ReadonlySet<number>> {
  if (oids.length === 0) return new Set()
  const { rows } = await client.query<{ oid: number }>(
    `select oid::int8::float8 as oid from pg_catalog.pg_class
     where oid = any($1::oid[]) and pg_catalog.has_schema_privilege(relnamespace, 'usage') and pg_catalog.has_table_privilege(oid, 'select')`,
    [oids],
  )
  return new Set(rows.map(({ oid }) => oid))
}

async function valuesOf(client: ClientBase, table: DatabaseTable): Promise<readonly EnumValue[]> {
  const key = ident(table.primaryKey[0] as string)
  const other = table.columns.find(({ name }) => name !== table.primaryKey[0])
  const comment = other ? ident(other.name) : sql`null`
  const { rows } = await client.query<{ value: string; comment: string | null }>(
    `select ${key}::text as value, ${comment}::text as comment from ${tableText(table)} order by 1 limit ${MAX_VALUES + 1}`,
  )
  return rows.map(({ value, comment }) => (comment === null ? { value } : { value, comment }))
}

/** Returns why a table cannot be an enum of GraphQL, if it cannot. */
export function enumProblem(table: DatabaseTable): string | undefined {
  const { enumValues: values } = table
  const shape = shapeProblem(table)
  if (shape) return shape
  if (!values) return 'the database login of the server cannot read it'
  if (values.length === 0) return 'it has no rows'
  if (values.length > MAX_VALUES) return `it has more than ${MAX_VALUES} rows`
  const odd = values.find(({ value }) => !isEnumName(value))
  return odd && `"${odd.value}" is not a valid value of an enum in GraphQL`
}

function shapeProblem({ columns, primaryKey }: DatabaseTable): string | undefined {
  const [key, ...more] = columns.filter(({ name }) => primaryKey.includes(name))
  if (!key || more.length > 0 || key.type.kind !== 'text') return 'its primary key must be one column of type text'
  const others = columns.filter((column) => column !== key)
  const fits = others.length === 0 || (others.length === 1 && others[0]?.type.kind === 'text')
  return fits ? undefined : 'besides the primary key it can have only one column, of type text, for comments'
}
