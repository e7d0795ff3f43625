import {
  type Capture,
  type DatabaseTable,
  ident,
  join,
  literal,
  type PrintCondition,
  rowAlias,
  type Sql,
  sql,
} from 'rowhouse'
import { at, type Json, notExists, supports, tableName } from 'rowhouse/plan'
import { type Operation, OPERATIONS, readTriggers, type Trigger } from './definition.js'

/** Stores the events of each change in the transaction of the change: one statement for each trigger, however many rows. */
export const capture: Capture = {
  asksWriter: true,
  keepsValues: true,
  check(definition, table, condition) {
    for (const [name, trigger] of readTriggers(definition)) {
      const path = at('$', name)
      refuseMissing(trigger.order_by, table, `${path}.order_by`)
      for (const [operation, { columns }] of Object.entries(trigger.on)) {
        refuseMissing(columns, table, `${path}.on.${operation}.columns`)
      }
      for (const operation of OPERATIONS) statement({ name, trigger, operation, table, condition })
    }
  },
  statements(definition, table, condition) {
    const all = [...readTriggers(definition)]
    const of = (operation: Operation) => {
      const parts = all.flatMap(([name, trigger]) => statement({ name, trigger, operation, table, condition }) ?? [])
      return parts.length === 0 ? {} : { [operation]: join(parts, sql`\n`) }
    }
    return { ...of('insert'), ...of('update'), ...of('delete') }
  },
}

function refuseMissing(columns: readonly string[] = [], table: DatabaseTable, path: string): void {
  for (const [i, name] of columns.entries()) {
    if (table.columns.some((column) => column.name === name)) continue
    throw notExists(`column "${name}" of "${tableName(table)}" does not exist`, at(path, i))
  }
}

interface Part {
  readonly name: string
  readonly trigger: Trigger
  readonly operation: Operation
  readonly table: DatabaseTable
  readonly condition: PrintCondition
}

/**
 * Prints what stores the events of a trigger:
 * `insert into svc_catalog.svc_event (...) select 'order_paid', ..., to_jsonb(x.*), ... from rows_new x where x."status" = 'paid';`
 */
function statement({ name, trigger, operation, table, condition }: Part): Sql | undefined {
  const on = trigger.on[operation]
  if (!on) return undefined
  const named = table.columns.map((column) => column.name)
  // The rows as they are, and of an update, as they were.
  const row = rowAlias(named)
  const before = rowAlias(named, 'r')
  const isUpdate = operation === 'update'
  const value = (of: Sql) => (isUpdate ? sql`to_jsonb(${of}.*) - ${literal(NUMBER)}` : sql`to_jsonb(${of}.*)`)
  const list = (columns: readonly string[], each: (column: string) => Sql) => join(columns.map(each), sql`, `)
  const key = list(table.primaryKey, (column) => sql`${literal(column)}, ${row}.${ident(column)}`)
  const order = trigger.order_by && list(trigger.order_by, (column) => sql`${row}.${ident(column)}`)
  const values = [
    literal(name),
    literal(table.schema),
    literal(table.name),
    literal(operation),
    table.primaryKey.length > 0 ? sql`jsonb_build_object(${key})` : sql`null`,
    operation === 'insert' ? sql`null` : value(isUpdate ? before : row),
    operation === 'delete' ? sql`null` : value(row),
    order ? sql`hashtextextended(jsonb_build_array(${order})::text, 0)` : sql`null`,
  ]
  const numbered = (rows: Sql, as: Sql) =>
    sql`(select row_number() over () as ${ident(NUMBER)}, ${as}.* from ${rows} ${as}) ${as}`
  // PostgreSQL keeps both states of the rows in the same order.
  const rows = isUpdate
    ? sql`${numbered(sql`rows_old`, before)} join ${numbered(sql`rows_new`, row)} using (${ident(NUMBER)})`
    : sql`${operation === 'delete' ? sql`rows_old` : sql`rows_new`} ${row}`
  const path = `${at('$', name)}.on.${operation}`
  const conditions = [
    ...(on.when === undefined ? [] : [condition(on.when, row, `${path}.when`)]),
    ...(on.columns ? [differs(on.columns, table, before, row)] : []),
  ]
  const where = conditions.length > 0 ? sql` where ${join(conditions, sql` and `)}` : sql``
  return sql`insert into svc_catalog.svc_event (${COLUMNS}) select ${join(values, sql`, `)} from ${rows}${where};`
}

const COLUMNS = sql`trigger_name, table_schema, table_name, operation, key, old, new, order_key`
/** The position of a row in its statement. Inheriting tables have columns that are not known, but hardly this one. */
const NUMBER = 'svc_event_number'

/** Prints whether one of some columns changed. Types whose `=` is not PostgreSQL's own, or that have none, are compared as JSON. */
function differs(columns: readonly string[], table: DatabaseTable, before: Sql, row: Sql): Sql {
  const parts = columns.map((name) => {
    const { type } = table.columns.find((column) => column.name === name)!
    const isPlain = type.schema === 'pg_catalog' && type.kind !== 'array' && supports(type, 'equality')
    const of = (as: Sql) => (isPlain ? sql`${as}.${ident(name)}` : sql`to_jsonb(${as}.${ident(name)})`)
    return sql`${of(before)} is distinct from ${of(row)}`
  })
  return sql`(${join(parts, sql` or `)})`
}
/** Returns the definition of the triggers of a table without one of them; null: none is left. */
export function without(definition: Json, name: string): Json {
  const { [name]: _, ...others } = definition as Record<string, Json>
  return Object.keys(others).length > 0 ? others : null
}
