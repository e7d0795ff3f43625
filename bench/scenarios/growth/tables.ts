import type { Bench } from '../../bench.js'
import { interleave, type Job, type Section } from '../../section.js'
import { createMetadata } from './metadata.js'
import { COLUMNS, measureCost } from './server-cost.js'

const ROLES = 10
const ONE = 'rowhouse, 1 role'
const TEN = `rowhouse, ${ROLES} roles`

/** Tables from 10 to 2,000, each with all permissions of one role and of ten. */
export async function measureTables(bench: Bench): Promise<Section> {
  const trial = bench.window.kind === 'requests'
  const jobs: Job[] = []
  for (const tables of trial ? [10, 20] : [10, 100, 500, 1000, 2000]) {
    for (const roles of [1, ROLES]) {
      bench.progress(`tables: making ${tables} tables for ${roles} roles`)
      const url = await createMetadata(bench, tables, roles)
      jobs.push({ system: roles === 1 ? ONE : TEN, at: tables, measure: () => measureCost(bench, url, roles) })
    }
  }
  return {
    id: 'tables',
    title: 'tables with permissions to select, insert, update and delete',
    columns: COLUMNS,
    along: 'tables',
    compared: 'cpu',
    lessIsBetter: Object.keys(COLUMNS),
    targets: [
      // 300 MB.
      ...['rss', 'after'].map((figure) => ({ system: TEN, figure, most: 286 })),
      ...['track', 'permit', 'sql'].map((figure) => ({ system: TEN, figure, most: 2000 })),
    ],
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`tables: ${text}`)),
    notMeasured: [],
  }
}
