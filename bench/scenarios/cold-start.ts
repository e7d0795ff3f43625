import type { Bench } from '../bench.js'
import { readMemory } from '../cpu.js'
import { withClient } from '../database.js'
import { interleave, type Job, type Section } from '../section.js'
import { type Child, startChild } from '../systems/child.js'
import { queryPost, startServerChild } from '../systems/server.js'

const PROBE = { type: 'select', args: { table: 't1', columns: ['id', 'name'], limit: 1 } }
const BATCH = 100

/** From the spawn of the process to its first answer. The database runs, and its schema is migrated. */
export async function measureColdStart(bench: Bench): Promise<Section> {
  const jobs: Job[] = []
  for (const tables of bench.window.kind === 'seconds' ? [10, 1000] : [10, 20]) {
    bench.progress(`i: making ${tables} tables`)
    const url = await createTables(bench, tables)
    jobs.push({ system: `rowhouse, ${tables} tables`, measure: () => started(startServerChild(url, PROBE)) })
  }
  jobs.push({ system: 'koa', measure: () => started(startChild('koa', {}, queryPost({}, {}))) })
  return {
    id: 'i',
    title: 'cold start to the first answer',
    columns: { ms: 'ms', rss: 'RSS MiB' },
    compared: 'ms',
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`i: ${text}`)),
    notMeasured: [],
  }
}

async function started(starting: Promise<Child>): Promise<Awaited<ReturnType<Job['measure']>>> {
  const child = await starting
  const rss = readMemory(child.pid, 'VmRSS')
  await child.stop()
  return { figures: { ms: child.startMs, ...(rss === undefined ? {} : { rss }) } }
}

/** A database of its own with that many tracked tables, each with a foreign key and a permission. */
async function createTables({ database }: Bench, tables: number): Promise<string> {
  const url = await database.create(`tables_${tables}`)
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
  const server = await startServerChild(url)
  try {
    const permission = { columns: ['id', 'name', 'parent_id'], filter: { id: { $gt: 0 } } }
    await server.ask('replace_metadata', {
      tables: Array.from({ length: tables }, (_, i) => ({
        table: `t${i + 1}`,
        object_relationships: [{ name: 'parent', using: { foreign_key_constraint_on: 'parent_id' } }],
        select_permissions: [{ role: 'user', permission }],
      })),
      query_templates: [],
    })
  } finally {
    await server.stop()
  }
  return url
}
