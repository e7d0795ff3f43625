import type { TableRef } from '../plan/ir.js'
import type { Relationship } from './catalog.js'
import { CATALOG_SCHEMA } from './schema.js'

const KEY = [
  ['table_schema', 'table_schema'],
  ['table_name', 'table_name'],
] as const

const toMany = (name: string, table: string): Relationship => ({
  name,
  type: 'array',
  table: { schema: CATALOG_SCHEMA, name: table },
  on: KEY,
})
const toTable: Relationship = {
  name: 'table',
  type: 'object',
  table: { schema: CATALOG_SCHEMA, name: 'svc_table' },
  on: KEY,
}

/** Relationships among the tables of the catalog: one select on `svc_table` lists all that is known of every table. */
export function systemRelationships(table: TableRef): readonly Relationship[] {
  switch (table.name) {
    case 'svc_table':
      return [toMany('relationships', 'svc_relationship'), toMany('permissions', 'svc_permission')]
    case 'svc_relationship':
    case 'svc_permission':
      return [toTable]
    default:
      return []
  }
}
