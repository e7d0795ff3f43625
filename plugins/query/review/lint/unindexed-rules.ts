import { type Call, type Data, INTERNAL, type PlanReader, type QueryPlan, type Session } from 'rowhouse'
import { type Table, tableName } from 'rowhouse/plan'
import { liftSelect } from '../../rows/lift/reads.js'
import { PLANNER } from '../../rows/lift/shape.js'
import type { Finding } from './finding.js'
import { Samples } from './samples.js'
import { conjuncts, nameOf, type Subject } from './subject.js'

/** Plans per transaction, which has a time limit. */
const BATCH = 50
/** With fewer rows, reading the whole table takes less than a page or two of an index. */
export const SMALL = 1000
/** A filter that keeps a larger part of the rows needs no index. */
export const MOST = 0.1

/**
 * Finds row filters for which PostgreSQL reads a whole table even if it must avoid that. The size of the table does not
 * decide: an index that can serve a filter is used for an empty table, too.
 */
export async function unindexedRules(
  subjects: readonly Subject[],
  data: Data,
  call: Call,
): Promise<readonly Finding[]> {
  const samples = new Samples(data, call)
  const candidates: { readonly subject: Subject; readonly session: Session }[] = []
  for (const subject of subjects.filter(isCandidate)) {
    const { table, role, permissions, exp } = subject
    const session = await samples.sessionOf(role, [{ exp: exp(permissions.select!.filter), table }])
    if (session) candidates.push({ subject, session })
  }
  const findings: Finding[] = []
  for (let i = 0; i < candidates.length; i += BATCH) {
    const batch = candidates.slice(i, i + BATCH)
    findings.push(
      ...(await data.inspect.readPlans(call, async (reader) => {
        await reader.client.query('set local enable_seqscan = off')
        const found: Finding[] = []
        for (const { subject, session } of batch) found.push(...(await unindexed(subject, session, reader)))
        return found
      })),
    )
  }
  return findings
}

const KINDS: ReadonlySet<Table['kind']> = new Set(['table', 'partitioned', 'materialized view'])

const isCandidate = ({ table, permissions, exp }: Subject): boolean =>
  permissions.select !== undefined &&
  !table.system &&
  KINDS.has(table.kind) &&
  conjuncts(exp(permissions.select.filter)).some((part) => part.kind !== 'and')

async function unindexed(subject: Subject, session: Session, reader: PlanReader): Promise<readonly Finding[]> {
  const { table, permissions } = subject
  const [column] = permissions.select!.columns
  if (column === undefined) return []
  const { schema, name } = table
  const request = { planner: PLANNER, ...liftSelect({ table: { schema, name }, columns: [column] }) }
  const plan = await reader.plan(request, session)
  if (!plan) return []
  const findings: Finding[] = []
  for (const node of scansIn(plan)) {
    const size = await sizeOf(node, reader)
    if (
      !size ||
      (size.partial && node.Filter === undefined) ||
      isRoutine(node, plan, size.rows ?? (await guessRows(node, reader)), subject)
    )
      continue
    const scanned = tableName({ schema: node.Schema ?? 'public', name: node['Relation Name'] as string })
    const isSmall = size.rows === null || size.rows < SMALL
    findings.push({
      rule: 'unindexed-rule',
      level: isSmall ? 'info' : 'warning',
      object: nameOf(subject, 'select'),
      path: '$.filter',
      message:
        `no index serves the filter: each list reads all rows of ${scanned}, ` +
        (size.rows === null ? 'whose number PostgreSQL does not know' : `about ${size.rows}`) +
        (size.rows !== null && isSmall ? ', which does not matter yet' : ''),
      advice: 'Create an index on the columns that the filter compares; rowhouse advise proposes one.',
    })
  }
  return findings
}

/** Returns the nodes that read a whole table, or a whole index. */
export function scansIn(plan: QueryPlan): readonly QueryPlan[] {
  const below = (plan.Plans ?? []).flatMap(scansIn)
  const [bitmap] = plan.Plans ?? []
  const type = plan['Node Type']
  if (type === 'Bitmap Heap Scan' && bitmap?.['Node Type'] === 'Bitmap Index Scan') {
    return bitmap['Index Cond'] === undefined ? [{ ...plan, 'Index Name': bitmap['Index Name'] }] : []
  }
  return plan['Index Cond'] === undefined && WHOLE.has(type) ? [plan, ...below] : below
}
const WHOLE: ReadonlySet<string> = new Set(['Seq Scan', 'Index Scan', 'Index Only Scan'])

interface Size {
  /** Null without statistics. */
  readonly rows: number | null
  /** Whether the index is partial. Without a filter of the scan, its condition serves that of the rule. */
  readonly partial: boolean
}

async function sizeOf(node: QueryPlan, { client }: PlanReader): Promise<Size | undefined> {
  const { rows } = await client.query<Size>(
    `select case when c.reltuples >= 0 then c.reltuples::float8 end as rows,
  exists (
    select from pg_catalog.pg_index i join pg_catalog.pg_class x on x.oid = i.indexrelid
    where i.indrelid = c.oid and x.relname = $3 and i.indpred is not null) as partial
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2`,
    [node.Schema, node['Relation Name'], node['Index Name'] ?? null],
  )
  return rows[0]
}

/** Returns the estimate of the planner for a table without statistics. */
async function guessRows(node: QueryPlan, reader: PlanReader): Promise<number> {
  const table = { schema: node.Schema ?? 'public', name: node['Relation Name'] as string }
  return (await reader.plan({ planner: PLANNER, ...liftSelect({ table, columns: [] }) }, INTERNAL))?.['Plan Rows'] ?? 0
}

/** Returns whether reading the whole table is what the filter needs, because it keeps many of its rows. */
function isRoutine(node: QueryPlan, plan: QueryPlan, rows: number, { table }: Subject): boolean {
  const isOwn = node['Relation Name'] === table.name && node.Schema === table.schema
  // Without a filter, a join selects the rows, which are those of the result only for the table itself.
  if (node.Filter === undefined && !isOwn) return true
  const kept = node.Filter === undefined ? plan['Plan Rows'] : node['Plan Rows']
  return rows > 0 && kept > rows * MOST
}
