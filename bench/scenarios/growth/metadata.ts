import type { Bench } from '../../bench.js'
import { withClient } from '../../database.js'
import { startServerChild } from '../../systems/server.js'

const BATCH = 100
const COLUMNS = JSON.stringify(['id', 'name', 'parent_id'])

/** Of the roles with the same permissions: `user` is the first of them. */
export const roleName = (n: number): string => (n === 0 ? 'user' : `role${n}`)

/**
 * A database of its own with the tracked tables `t1`, `t2`, ..., each with a relationship to `t1` and with the permission
 * to select, insert, update and delete for every role, and with the table `spare`, which is not tracked.
 */
export async function createMetadata({ database }: Bench, tables: number, roles: number): Promise<string> {
  const url = await database.create(`growth_${tables}_${roles}`)
  await withClient(url, async (client) => {
    // In batches, because one transaction cannot hold the locks of any number of tables.
    for (let from = 1; from <= tables; from += BATCH) {
      const names = Array.from({ length: Math.min(BATCH, tables - from + 1) }, (_, i) => `t${from + i}`)
      await client.query(names.map(createTable).join(';'))
    }
    await client.query(createTable('spare'))
  })
  const server = await startServerChild(url)
  try {
    await server.ask('replace_metadata', {
      tables: Array.from({ length: tables }, (_, i) => ({
        table: `t${i + 1}`,
        object_relationships: [{ name: 'parent', using: { foreign_key_constraint_on: 'parent_id' } }],
      })),
      query_templates: [],
    })
  } finally {
    await server.stop()
  }
  // More than fits into one request; the next server reads it.
  await withClient(url, (client) => client.query(PERMISSIONS, [tables, roles]))
  return url
}

const createTable = (name: string): string => `create table ${name} (id int primary key, name text not null, note text,
  created_at timestamptz not null default now(), parent_id int references t1)`

const PERMISSIONS = `
insert into svc_catalog.svc_permission (table_schema, table_name, role_name, perm_type, perm_def)
select 'public', 't' || t, case r when 0 then 'user' else 'role' || r end, type,
  case type
    when 'insert' then format('{"check": {"id": {"$gt": %s}}, "columns": ${COLUMNS}, "set": {"note": "X-Service-Note"}}', r)
    when 'select' then format('{"filter": {"id": {"$gt": %s}}, "columns": ${COLUMNS}, "limit": 100}', r)
    when 'update' then format('{"filter": {"id": {"$gt": %s}}, "columns": ["name"]}', r)
    when 'delete' then format('{"filter": {"id": {"$gt": %s}}}', r)
  end::jsonb
from generate_series(1, $1::int) t, generate_series(0, $2::int - 1) r,
  unnest(array['insert', 'select', 'update', 'delete']) type`
