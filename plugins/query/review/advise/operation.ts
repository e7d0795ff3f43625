import type { Call, Data, Operation, Operations, QueryPlan } from 'rowhouse'
import { tableKey, tableName } from 'rowhouse/plan'
import { subjectsOf, type Subject } from '../lint/subject.js'
import { MOST, scansIn, SMALL } from '../lint/unindexed-rules.js'
import { args } from '../../metadata/operation.js'
import { type Candidate, Candidates } from './candidates.js'
import { type Checked, compare, type Gain, schemaOfHypopg, type Planned, type Unchecked } from './compare.js'
import { readFacts, type TableFacts } from './table-facts.js'
import { MOST_STATEMENTS, readWorkload, type Statement } from './workload.js'

/** Indexes beyond these are not tried. */
const MOST_CANDIDATES = 60
/** Part of the cost of some statement that an index must save. */
const LEAST_GAIN = 0.5
/** A statement of a lower cost takes about a millisecond, and needs no index. The cost of reading a page is 1. */
const LEAST_COST = 100

interface Advice {
  readonly candidate: Candidate
  readonly facts: TableFacts
  readonly result: Checked | Unchecked
}

/** The operation that proposes indexes for templates, row filters and slow statements. */
export function adviseOperation(data: Data, operations: Operations): Operation {
  return {
    admin: true,
    args: args({ try: { type: 'boolean' } }, ['try']),
    async run(given, call) {
      const { try: creates = false } = given as { readonly try?: boolean }
      const catalog = data.catalogFor(call)
      const subjects = subjectsOf(catalog, await data.metadata(call))
      const workload = await readWorkload(data, operations, subjects, call)
      const planned = await planAll(data, call, workload.slice(0, MOST_STATEMENTS))
      const candidates = new Candidates(catalog)
      for (const { statement, plan } of planned) candidates.add(statement, plan, subjects)
      const hypopg = creates ? undefined : await schemaOfHypopg(data, call)
      const how = creates ? 'create' : hypopg === undefined ? undefined : { hypopg }
      const advice: Advice[] = []
      const { open, unknown } = await withFacts(data, call, candidates.all)
      for (const { candidate, facts } of open.slice(0, MOST_CANDIDATES)) {
        const result = how ? await compare(data, call, facts, candidate, planned, how) : NOT_ASKED
        advice.push({ candidate, facts, result })
      }
      const found = [
        ...best(advice.filter(isChecked)),
        ...likely(
          advice.filter((each) => !isChecked(each)),
          planned,
        ),
      ]
      return {
        kind: 'text',
        text: JSON.stringify({
          advice: found.map((each) => described(each, subjects)),
          statements: planned.length,
          without_statistics: unknown,
          left_out: workload.length - planned.length + Math.max(0, open.length - MOST_CANDIDATES),
        }),
      }
    },
  }
}

const NOT_ASKED: Unchecked = { by: null, reason: 'not checked: use "try" (--try), or install the extension hypopg' }
const isChecked = ({ result }: Advice): boolean => result.by !== null

async function planAll(data: Data, call: Call, workload: readonly Statement[]): Promise<readonly Planned[]> {
  return data.inspect.readPlans(call, async (reader) => {
    const planned: Planned[] = []
    for (const statement of workload) {
      const plan = await statement.plan(reader)
      if (plan) planned.push({ statement, plan })
    }
    return planned
  })
}

/** Returns the candidates for which no index exists, and the tables of which PostgreSQL does not know the size. */
async function withFacts(data: Data, call: Call, candidates: readonly Candidate[]) {
  return data.inspect.readPlans(call, async ({ client }) => {
    const open: { readonly candidate: Candidate; readonly facts: TableFacts }[] = []
    const unknown = new Set<string>()
    for (const candidate of candidates) {
      const facts = await readFacts(client, candidate)
      if (!facts || facts.exists) continue
      if (facts.rows === null) unknown.add(tableName(candidate.table))
      else if (facts.rows >= SMALL) open.push({ candidate, facts })
    }
    return { open, unknown: [...unknown].sort() }
  })
}

/** Returns the statements that become much cheaper than with other indexes. */
const gainsOver = (others: readonly Advice[], { result }: Advice): readonly Gain[] =>
  result.by === null
    ? []
    : result.gains.filter(({ statement, before, after }) => {
        const least = Math.min(before, ...others.flatMap((each) => afterOf(each, statement)))
        return least >= LEAST_COST && least - after >= least * LEAST_GAIN
      })

const afterOf = ({ result }: Advice, statement: Statement): readonly number[] =>
  result.by === null ? [] : result.gains.flatMap((gain) => (gain.statement === statement ? gain.after : []))

/** Chooses indexes one after the other: each time the one that saves most. Each column of an index must be worth its costs. */
function best(advice: readonly Advice[]): readonly Advice[] {
  const chosen: Advice[] = []
  for (;;) {
    const [next] = advice
      .map((each) => {
        const saved = gainsOver(chosen, each).map(
          ({ statement, before, after }) => (before - after) * Math.max(1, statement.calls ?? 1),
        )
        return { each, worth: saved.reduce((a, b) => a + b, 0) * WORTH_OF_COLUMN ** each.candidate.columns.length }
      })
      .toSorted((a, b) => b.worth - a.worth)
    if (!next || next.worth === 0) return chosen
    chosen.push(next.each)
  }
}
const WORTH_OF_COLUMN = 0.9

/** Chooses indexes for the statements that read a whole table for few of its rows: first those that serve most statements. */
function likely(advice: readonly Advice[], planned: readonly Planned[]): readonly Advice[] {
  const wide = advice
    .map((each) => ({ each, scanning: scanning(each, planned) }))
    .toSorted(
      (a, b) =>
        b.scanning.length - a.scanning.length || b.each.candidate.columns.length - a.each.candidate.columns.length,
    )
  const served = new Set<string>()
  return wide.flatMap(({ each, scanning }) => {
    const keys = scanning.map(({ name, role }) => [tableKey(each.candidate.table), name, role].join('\0'))
    const isNew = keys.some((key) => !served.has(key))
    for (const key of keys) served.add(key)
    return isNew ? [each] : []
  })
}

function scanning({ candidate: { table, from }, facts: { rows } }: Advice, planned: readonly Planned[]) {
  const isScan = (node: QueryPlan): boolean =>
    node['Relation Name'] === table.name && node.Schema === table.schema && node.Filter !== undefined
  return planned
    .filter(({ statement, plan }) => {
      const scans = from.has(statement) ? scansIn(plan).filter(isScan) : []
      return scans.some((node) => node['Plan Rows'] <= (rows ?? 0) * MOST)
    })
    .map(({ statement }) => statement)
}

/** An index in the answer. */
export type Described = ReturnType<typeof described>

function described({ candidate, facts, result }: Advice, subjects: readonly Subject[]) {
  const { table, columns, from } = candidate
  const { rows, indexBytes, updates, hotUpdates, sql } = facts
  const updatable = subjects.filter(
    (each) => each.table === table && columns.some((column) => each.permissions.update?.columns.includes(column)),
  )
  const statements = result.by
    ? gainsOver([], { candidate, facts, result }).map(({ statement: { name, role, calls }, before, after }) => ({
        name,
        role,
        calls,
        before,
        after,
      }))
    : [...from].map(({ name, role, calls }) => ({ name, role, calls, before: null, after: null }))
  return {
    sql,
    table: tableName(table),
    columns,
    checked: result.by,
    ...(result.by ? {} : { reason: result.reason }),
    statements,
    rows,
    bytes: Math.round((result.by && result.bytes) || (indexBytes ?? 0)) || null,
    updates,
    hot_updates: hotUpdates,
    updatable_by: updatable.map(({ role }) => role),
  }
}
