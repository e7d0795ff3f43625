import { type Call, type Data, INTERNAL, type Request, type Session } from 'rowhouse'
import { type BoolExp, type Op, type Operand, operandsOf, sampleValue, type TableRef, tableKey } from 'rowhouse/plan'

/** A rule, and the table that it is about. */
interface About {
  readonly exp: BoolExp
  readonly table: TableRef
}

/**
 * Values for plans that are made without a request. Where rows are compared by their order, it is a value from the middle of the
 * table, so that the plan reads half of it. Elsewhere it is an unlikely one.
 */
export class Samples {
  private readonly known = new Map<string, Promise<string | undefined>>()

  constructor(
    private readonly data: Data,
    private readonly call: Call,
  ) {}

  /** Returns a session of a role with a value for each variable in its rules; undefined if one has no known value. */
  async sessionOf(role: string, rules: readonly About[]): Promise<Session | undefined> {
    const variables = new Map<string, string>()
    for (const each of rules) {
      for (const { table, column, to } of ordered(each)) {
        const value = to.kind === 'session' ? await this.middle(table, column) : undefined
        if (to.kind === 'session' && value !== undefined) variables.set(to.name, value)
      }
      for (const operand of operandsOf(each.exp)) {
        if (operand.kind !== 'session' || variables.has(operand.name)) continue
        const value = sampleValue(operand.type)
        if (value === undefined) return undefined
        variables.set(operand.name, value)
      }
    }
    return { ...INTERNAL, role, variables }
  }

  /** Returns a request with values from the middle instead of unlikely ones, where they are compared by order. */
  async inMiddle(request: Request, op: Op): Promise<Request> {
    if (!('where' in op)) return request
    const values = [...request.values]
    for (const { table, column, to } of ordered({ exp: op.where, table: op.table })) {
      if (to.kind !== 'value' || values[to.slot] !== sampleValue(to.type)) continue
      values[to.slot] = (await this.middle(table, column)) ?? (values[to.slot] as string)
    }
    return { ...request, values }
  }

  private middle(table: TableRef, column: string): Promise<string | undefined> {
    const key = `${tableKey(table)}\0${column}`
    const value = this.known.get(key) ?? this.readMiddle(table, column)
    this.known.set(key, value)
    return value
  }

  private async readMiddle({ schema, name }: TableRef, column: string): Promise<string | undefined> {
    const rows = await this.data.query<{ value: string }>(
      `select all_values[pg_catalog.cardinality(all_values) / 2 + 1] as value
from pg_catalog.pg_stats s
cross join lateral (select coalesce(s.histogram_bounds, s.most_common_vals)::text::text[] as all_values) each
where s.schemaname = $1 and s.tablename = $2 and s.attname = $3 and all_values is not null`,
      [schema, name, column],
      this.call.transaction,
    )
    return rows[0]?.value
  }
}

interface Comparison {
  readonly table: TableRef
  readonly column: string
  readonly to: Operand
}

const ORDERED: ReadonlySet<string> = new Set(['gt', 'gte', 'lt', 'lte'])

/** Returns the comparisons by order. */
function ordered({ exp, table }: About): readonly Comparison[] {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.flatMap((part) => ordered({ exp: part, table }))
    case 'not':
    case 'guarded':
      return ordered({ exp: exp.of, table })
    case 'compare':
      return ORDERED.has(exp.op) && !exp.computed ? [{ table, column: exp.column, to: exp.to }] : []
    case 'exists':
    case 'aggregate':
      return ordered({ exp: exp.where, table: exp.table })
    case 'columns':
    case 'null':
    case 'sorted':
    case 'unknown':
    case 'known':
      return []
  }
}
