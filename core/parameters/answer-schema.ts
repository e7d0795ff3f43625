import { resultTable, type Table, tableKey } from '../catalog/catalog.js'
import type { Field, Grouping, Op, SqlType, TableRef } from '../ir.js'
import type { Names } from '../plan/names.js'

/** A JSON Schema (draft 2020-12). */
export type JsonSchema = { readonly [key: string]: unknown }
export type FindTable = (ref: TableRef) => Table | undefined

/**
 * Returns how to find the tables of a role, and those that functions return. Columns that the role sees in some rows only
 * are nullable.
 */
export function tablesOf(names: Names): FindTable {
  const known = finders.get(names)
  if (known) return known
  const tables = new Map([
    ...[...names.tables()].map((each) => [tableKey(each), seenBy(names, each)] as const),
    ...names.functions().flatMap((each) => (each.result ? [[tableKey(each.table), resultTable(each)] as const] : [])),
  ])
  const find: FindTable = (ref) => tables.get(tableKey(ref))
  finders.set(names, find)
  return find
}
const finders = new WeakMap<Names, FindTable>()

function seenBy(names: Names, table: Table): Table {
  const columns = table.columns.map((each) => (names.isMasked(table, each.name) ? { ...each, nullable: true } : each))
  if (columns.every((each, i) => each === table.columns[i])) return table
  return { ...table, columns, columnsByName: new Map(columns.map((each) => [each.name, each])) }
}

/** Returns the schema of values of a type in responses. */
export function schemaOf(type: SqlType): JsonSchema {
  switch (type.kind) {
    case 'int2':
    case 'int4':
      return { type: 'integer', format: 'int32' }
    case 'int8':
      return { type: 'integer', format: 'int64' }
    case 'float':
    case 'numeric':
      return { type: 'number' }
    case 'bool':
      return { type: 'boolean' }
    case 'text':
      return { type: 'string' }
    case 'json':
    case 'jsonb':
      return {}
    case 'geometry':
    case 'geography':
      return { type: 'object', description: 'a GeoJSON geometry' }
    case 'array':
      return { type: 'array', items: type.element ? orNull(schemaOf(type.element)) : {} }
    case 'row':
    case 'hstore':
      return { type: 'object' }
    case 'range':
    case 'multirange':
      return { type: 'string' }
    case 'other':
      return { type: 'string', ...FORMATS.get(type.name) }
  }
}

const FORMATS: ReadonlyMap<string, JsonSchema> = new Map([
  ['uuid', { format: 'uuid' }],
  ['date', { format: 'date' }],
  ['timestamptz', { format: 'date-time' }],
])

/** Returns the schema of values that may be null. */
export const orNull = (schema: JsonSchema): JsonSchema =>
  'type' in schema ? { ...schema, type: [schema['type'], 'null'] } : schema

/** Returns the schema of the response of a request. */
export function answerSchema(op: Op, find: FindTable): JsonSchema {
  const object = (ref: TableRef, fields: readonly Field[], group?: Grouping): JsonSchema => ({
    type: 'object',
    properties: Object.fromEntries(fields.map((field) => [field.key, fieldSchema(field, find(ref), group)])),
    required: fields.map(({ key }) => key),
  })
  const fieldSchema = (field: Field, table: Table | undefined, group?: Grouping): JsonSchema => {
    const value = field.kind === 'column' ? group?.values.find(({ key }) => key === field.column) : undefined
    if (value) return value.fn === 'count' ? schemaOf(value.type) : orNull(schemaOf(value.type))
    if (field.kind === 'relation') {
      const item = object(field.read.table, field.read.fields, field.read.group)
      return field.read.single ? { anyOf: [item, { type: 'null' }] } : { type: 'array', items: item }
    }
    if (field.kind === 'version') return { type: 'string' }
    const column = field.kind === 'column' ? table?.columnsByName.get(field.column) : undefined
    if (!column) return {}
    return column.nullable ? orNull(schemaOf(column.type)) : schemaOf(column.type)
  }
  const count = { type: 'integer', minimum: 0 }
  switch (op.kind) {
    case 'read': {
      const [field] = op.fields
      if (op.values && field) {
        const value = fieldSchema(field, find(op.table))
        return op.single ? value : { type: 'array', items: value }
      }
      const item = object(op.table, op.fields, op.group)
      if (!op.single) return { type: 'array', items: item }
      return op.from?.single ? { anyOf: [item, { type: 'null' }] } : item
    }
    case 'count':
      return { type: 'object', properties: { count }, required: ['count'] }
    case 'roots':
      return { type: 'object' }
    case 'insert':
    case 'update':
    case 'delete':
      return {
        type: 'object',
        properties: {
          affected_rows: count,
          ...(op.returning ? { returning: { type: 'array', items: object(op.table, op.returning.fields) } } : {}),
        },
        required: ['affected_rows', ...(op.returning ? ['returning'] : [])],
      }
  }
}
