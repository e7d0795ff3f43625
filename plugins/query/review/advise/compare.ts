import { type Call, type Data, type PlanReader, type QueryPlan, ServiceError } from 'rowhouse'
import type { Candidate } from './candidates.js'
import type { TableFacts } from './table-facts.js'
import type { Statement } from './workload.js'

/** A statement and its cost without an index. */
export interface Planned {
  readonly statement: Statement
  readonly plan: QueryPlan
}

/** Costs of a statement as PostgreSQL estimates them, in its own unit. */
export interface Gain {
  readonly statement: Statement
  readonly before: number
  readonly after: number
}

/** How the plans with an index came about: it was created, or hypopg pretended that it exists. */
export type Checked = { readonly by: 'created' | 'hypopg'; readonly gains: readonly Gain[]; readonly bytes?: number }
/** Why no plan shows what an index is good for. */
export type Unchecked = { readonly by: null; readonly reason: string }

/** Larger tables are not locked for as long as an index takes. */
const MOST_BYTES = 256 * 1024 * 1024
/** Maximum time to wait for the lock on a table, and to create an index, in milliseconds. */
const LOCK_MS = 500
const CREATE_MS = 10_000

/** Returns the schema of the extension hypopg, quoted; undefined if it is not installed. */
export async function schemaOfHypopg(data: Data, call: Call): Promise<string | undefined> {
  const [found] = await data.query<{ schema: string }>(
    `select pg_catalog.format('%I', n.nspname) as schema from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
where e.extname = 'hypopg' and pg_catalog.has_schema_privilege(n.oid, 'usage')`,
    [],
    call.transaction,
  )
  return found?.schema
}

/**
 * Plans statements again with an index.
 * @param how the schema of hypopg, or `create`, which really creates it, in a transaction that is rolled back. Writes to the table wait meanwhile
 */
export async function compare(
  data: Data,
  call: Call,
  { plainSql, bytes }: TableFacts,
  { from }: Candidate,
  planned: readonly Planned[],
  how: 'create' | { readonly hypopg: string },
): Promise<Checked | Unchecked> {
  if (how === 'create' && bytes > MOST_BYTES)
    return { by: null, reason: 'the table is too large to create an index for a try' }
  const again = planned.filter(({ statement }) => from.has(statement))
  try {
    return await data.inspect.readPlans(call, (reader) =>
      how === 'create' ? created(reader, plainSql, again) : pretended(reader, how.hypopg, plainSql, again),
    )
  } catch (error) {
    if (error instanceof ServiceError) return { by: null, reason: error.message }
    throw error
  }
}

async function created(reader: PlanReader, sql: string, planned: readonly Planned[]): Promise<Checked | Unchecked> {
  const { client } = reader
  await client.query(`set local lock_timeout = ${LOCK_MS}; set local statement_timeout = ${CREATE_MS}`)
  await client.query(sql)
  const { rows } = await client.query<{ bytes: number; late: boolean }>(
    `select coalesce(pg_catalog.sum(pg_catalog.pg_relation_size(indexrelid)), 0)::float8 as bytes, pg_catalog.bool_or(indcheckxmin) as late
from pg_catalog.pg_index where xmin = pg_catalog.pg_current_xact_id()::xid`,
  )
  const { bytes, late } = rows[0]!
  // PostgreSQL uses such an index only for transactions that begin later.
  if (late)
    return { by: null, reason: 'rows of the table were updated just now; try again when older transactions have ended' }
  return { by: 'created', bytes, gains: await planAgain(reader, planned) }
}

async function pretended(
  reader: PlanReader,
  schema: string,
  sql: string,
  planned: readonly Planned[],
): Promise<Checked> {
  const forget = `select ${schema}.hypopg_reset()`
  try {
    // One may be left of a transaction that failed, because it lasts longer than its transaction.
    await reader.client.query(forget)
    await reader.client.query(`select ${schema}.hypopg_create_index($1)`, [sql])
    return { by: 'hypopg', gains: await planAgain(reader, planned) }
  } finally {
    await reader.client.query(forget).catch(() => undefined)
  }
}

async function planAgain(reader: PlanReader, planned: readonly Planned[]): Promise<readonly Gain[]> {
  const gains: Gain[] = []
  for (const { statement, plan } of planned) {
    const after = await statement.plan(reader)
    if (after) gains.push({ statement, before: plan['Total Cost'], after: after['Total Cost'] })
  }
  return gains
}
