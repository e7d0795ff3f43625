import {
  type Call,
  type Data,
  INTERNAL,
  type Operations,
  type PlanReader,
  type QueryPlan,
  type Session,
} from 'rowhouse'
import { allNames, type Catalog, type Json, type Op, ServiceError, tableName } from 'rowhouse/plan'
import { liftSelect } from '../../rows/lift/reads.js'
import { PLANNER } from '../../rows/lift/shape.js'
import { Samples } from '../lint/samples.js'
import { rulesOf, type Subject } from '../lint/subject.js'
import { readTemplateUsage } from '../lint/template-usage.js'

/** A statement that indexes may make cheaper. */
export interface Statement {
  /** e.g. `template late_orders` */
  readonly name: string
  readonly role: string
  /** Number of its runs; null if they are not counted. */
  readonly calls: number | null
  /** What it reads, if that is known. */
  readonly op?: Op
  plan(reader: PlanReader): Promise<QueryPlan | undefined>
}

type Sessions = ReadonlyMap<string, Session | undefined>

/** Statements beyond these are left out. */
export const MOST_STATEMENTS = 300

/** Returns the statements of templates and row filters, and those that were slow. */
export async function readWorkload(
  data: Data,
  operations: Operations,
  subjects: readonly Subject[],
  call: Call,
): Promise<readonly Statement[]> {
  const catalog = data.catalogFor(call)
  const samples = new Samples(data, call)
  const roles = [...new Set(subjects.map(({ role }) => role))]
  const sessions = new Map<string, Session | undefined>([['admin', INTERNAL]])
  for (const role of roles) {
    const own = subjects.filter((each) => each.role === role)
    const rules = own.flatMap((each) => rulesOf(each).map(({ exp }) => ({ exp, table: each.table })))
    sessions.set(role, await samples.sessionOf(role, rules))
  }
  return [
    ...(await ofTemplates(data, operations, samples, sessions, call)),
    ...(await ofSlowQueries(operations, call)),
    ...ofFilters(data, subjects, sessions, catalog),
  ]
}

async function ofTemplates(
  data: Data,
  operations: Operations,
  samples: Samples,
  sessions: Sessions,
  call: Call,
): Promise<readonly Statement[]> {
  const resolve = operations.get('execute_query_template')?.resolve
  if (!resolve) return []
  const statements: Statement[] = []
  for (const { name, example, calls, roles } of await readTemplateUsage(operations, call)) {
    const query = example && (await resolve({ name, args: example }, call, async (found: Json) => found))
    const request = query && lifted(() => operations.lift(query))
    const op = request && lifted(() => data.plan(request, allNames(data.catalogFor(call))))
    if (!request || !op) continue
    const typical = await samples.inMiddle(request, op)
    for (const role of roles.length > 0 ? roles : ['admin']) {
      const session = sessions.get(role)
      if (!session) continue
      statements.push({ name: `template ${name}`, role, calls, op, plan: (reader) => reader.plan(typical, session) })
    }
  }
  return statements
}

/** Returns undefined for what cannot be planned like this, such as a bulk. */
function lifted<T>(run: () => T): T | undefined {
  try {
    return run()
  } catch (error) {
    if (error instanceof ServiceError && error.status < 500) return undefined
    throw error
  }
}

interface SlowQueries {
  readonly queries: readonly {
    readonly id: string
    readonly role: string
    readonly sql: string
    readonly count: number
    readonly name?: string
  }[]
}

async function ofSlowQueries(operations: Operations, call: Call): Promise<readonly Statement[]> {
  if (!operations.get('slow_queries')) return []
  const answer = await operations.run({ type: 'slow_queries', args: {} }, call)
  if (answer.kind !== 'text') throw new Error('expected text')
  const { queries } = JSON.parse(answer.text) as SlowQueries
  return queries.map(({ id, role, sql, count, name }) => ({
    name: `slow query ${name ?? id}`,
    role,
    calls: count,
    plan: (reader) => reader.genericPlan(sql),
  }))
}

/** Returns the list of all rows of each select filter. */
function ofFilters(
  data: Data,
  subjects: readonly Subject[],
  sessions: Sessions,
  catalog: Catalog,
): readonly Statement[] {
  return subjects.flatMap(({ table, role, permissions }): readonly Statement[] => {
    const [column] = permissions.select?.columns ?? []
    const session = sessions.get(role)
    if (column === undefined || table.system || !session) return []
    const { schema, name } = table
    const request = { planner: PLANNER, ...liftSelect({ table: { schema, name }, columns: [column] }) }
    const op = data.plan(request, allNames(catalog))
    return [
      { name: `filter of ${tableName(table)}`, role, calls: null, op, plan: (reader) => reader.plan(request, session) },
    ]
  })
}
