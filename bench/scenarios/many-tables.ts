import type { Bench } from '../bench.js'
import { withClient } from '../database.js'
import { NOTHING_MUCH, startServerChild } from '../systems/server.js'

const BATCH = 100
/** Roles beside `user`, with the same permissions. */
export const rolesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `role${i}`)
const made = new Map<string, Promise<string>>()

/** A database with that many tracked tables; made once. @param build the folder of another build, for one of its own */
export function createTables(bench: Bench, tables: number, roles = 0, build?: string): Promise<string> {
  const key = `${tables}_${roles}_${build ?? ''}`
  let url = made.get(key)
  if (!url) made.set(key, (url = create(bench, tables, roles, build)))
  return url
}

/** A database of its own with that many tracked tables, each with a foreign key and a permission. */
async function create({ database }: Bench, tables: number, roles: number, build?: string): Promise<string> {
  const url = await database.create(`tables_${tables}_${roles}${build === undefined ? '' : '_other'}`)
  await withClient(url, async (client) => {
    // In batches, because one transaction cannot hold the locks of any number of tables.
    for (let from = 1; from <= tables; from += BATCH) {
      const names = Array.from({ length: Math.min(BATCH, tables - from + 1) }, (_, i) => `t${from + i}`)
      await client.query(
        names
          .map(
            (name) => `create table ${name} (id int primary key, name text not null, note text,
              created_at timestamptz not null default now(), parent_id int references t1)`,
          )
          .join(';'),
      )
    }
  })
  const server = await startServerChild(url, NOTHING_MUCH, { build })
  try {
    const permission = { columns: ['id', 'name', 'parent_id'], filter: { id: { $gt: 0 } } }
    await server.ask('replace_metadata', {
      tables: Array.from({ length: tables }, (_, i) => ({
        table: `t${i + 1}`,
        object_relationships: [{ name: 'parent', using: { foreign_key_constraint_on: 'parent_id' } }],
        select_permissions: ['user', ...rolesOf(roles)].map((role) => ({ role, permission })),
      })),
      query_templates: [],
    })
  } finally {
    await server.stop()
  }
  return url
}
