import type { Bench } from '../../bench.js'
import { interleave, type Job, type Section } from '../../section.js'
import { createMetadata } from './metadata.js'
import { COLUMNS, measureCost } from './server-cost.js'

const TABLES = 100

/** Roles from 1 to 100, each with all permissions on 100 tables. */
export async function measureRoles(bench: Bench): Promise<Section> {
  const trial = bench.window.kind === 'requests'
  const jobs: Job[] = []
  for (const roles of trial ? [1, 2] : [1, 10, 30, 100]) {
    bench.progress(`roles: making ${roles} roles`)
    const url = await createMetadata(bench, trial ? 5 : TABLES, roles)
    jobs.push({ system: 'rowhouse', at: roles, measure: () => measureCost(bench, url, roles) })
  }
  return {
    id: 'roles',
    title: `roles that may select, insert, update and delete, ${TABLES} tables`,
    columns: COLUMNS,
    along: 'roles',
    compared: 'cpu',
    lessIsBetter: Object.keys(COLUMNS),
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`roles: ${text}`)),
    notMeasured: [],
  }
}
