import type { TableRef } from '../plan/ir.js'
import type { Relationship } from './catalog.js'
import { CATALOG_SCHEMA } from './schema.js'

/** Parent tables by their key columns, and the names of the relationships to their rows. */
const OWNERS = [
  {
    owner: 'svc_table',
    name: 'table',
    on: [
      ['table_schema', 'table_schema'],
      ['table_name', 'table_name'],
    ],
    owned: {
      relationships: 'svc_relationship',
      permissions: 'svc_permission',
      computed_fields: 'svc_computed_field',
    },
  },
  {
    owner: 'svc_function',
    name: 'function',
    on: [
      ['function_schema', 'function_schema'],
      ['function_name', 'function_name'],
    ],
    owned: { permissions: 'svc_function_permission' },
  },
] as const

/**
 * Returns the relationships between catalog tables, so that one select on `svc_table` returns all metadata of every
 * table.
 */
export function systemRelationships(table: TableRef): readonly Relationship[] {
  return OWNERS.flatMap(({ owner, name, on, owned }): Relationship[] => {
    const to = (target: string): TableRef => ({ schema: CATALOG_SCHEMA, name: target })
    const lists = Object.entries(owned)
    if (table.name === owner) return lists.map(([name, list]) => ({ name, type: 'array', table: to(list), on }))
    return lists.some(([, list]) => list === table.name) ? [{ name, type: 'object', table: to(owner), on }] : []
  })
}
