import type { Bench } from '../bench.js'
import { readMemory } from '../cpu.js'
import { interleave, type Job, type Section } from '../section.js'
import { type Child, startChild } from '../systems/child.js'
import { queryPost, startServerChild } from '../systems/server.js'
import { createTables } from './many-tables.js'

const PROBE = { type: 'select', args: { table: 't1', columns: ['id', 'name'], limit: 1 } }

const ours = (tables: number): string => `rowhouse, ${tables} tables`

/** From the spawn of the process to its first answer. The database runs, and its schema is migrated. */
export async function measureColdStart(bench: Bench): Promise<Section> {
  const jobs: Job[] = []
  for (const tables of bench.window.kind === 'seconds' ? [10, 1000] : [10, 20]) {
    bench.progress(`i: making ${tables} tables`)
    const url = await createTables(bench, tables, 0)
    jobs.push({ system: ours(tables), measure: () => started(startServerChild(url, PROBE)) })
  }
  jobs.push({ system: 'koa', measure: () => started(startChild('koa', {}, queryPost({}, {}))) })
  return {
    id: 'i',
    title: 'cold start to the first answer',
    columns: { ms: 'ms', rss: 'RSS MiB' },
    compared: 'ms',
    lessIsBetter: ['ms', 'rss'],
    targets: [
      { system: ours(10), figure: 'ms', against: 'koa', most: 2 },
      { system: ours(10), figure: 'rss', most: 120 },
      { system: ours(1000), figure: 'ms', against: 'koa', most: 3.5 },
      { system: ours(1000), figure: 'rss', most: 120 },
    ],
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`i: ${text}`)),
    notMeasured: [],
  }
}

async function started(starting: Promise<Child>): Promise<Awaited<ReturnType<Job['measure']>>> {
  const child = await starting
  const rss = readMemory(child.pid, 'VmRSS')
  await child.stop()
  return { figures: { ms: child.startMs, rss } }
}
