import {
  and,
  type BoolExp,
  type Field,
  type ForeignKey,
  INT8,
  type Names,
  type Operand,
  planBoolExp,
  type Read,
  type Table,
  tableKey,
  type TableRef,
  TRUE,
} from 'rowhouse/plan'
import type { DependentsShape } from '../lift/shape.js'

/** Maximum number of rows that are counted for a foreign key. */
export const MOST = 1000
/** Key in the response with the foreign keys, as a JSON text. Other keys are their indexes, with a list of rows. */
export const FOREIGN_KEYS = 'keys'

/** A foreign key, as the response describes it. */
export interface Dependent {
  readonly table: TableRef
  /** Columns of the table, with those that they reference. */
  readonly columns: Readonly<Record<string, string>>
  readonly on_delete: 'no action' | NonNullable<ForeignKey['onDelete']>
}

/** Plans the rows that reference a row, through the foreign keys of which the role may select all columns in all rows. */
export function planDependents({ table: ref, key }: DependentsShape, names: Names): Read {
  const table = names.table(ref, 'select', '$.args.table')
  const own = selectable(table, names)
  const found = [...names.tables()].flatMap((from) => {
    const columns = selectable(from, names)
    const isSeen = (each: ForeignKey) =>
      tableKey(each.table) === tableKey(table) &&
      each.columns.every((name) => columns.has(name)) &&
      each.remoteColumns.every((name) => own.has(name))
    return from.foreignKeys.filter(isSeen).map((foreignKey) => ({ from, foreignKey }))
  })
  const keys = found.map(({ from, foreignKey: { columns, remoteColumns, onDelete } }): Dependent => {
    const joined = Object.fromEntries(columns.map((name, i) => [name, remoteColumns[i] as string]))
    return { table: refOf(from), columns: joined, on_delete: onDelete ?? 'no action' }
  })
  const rows = found.map(({ from, foreignKey }, i): Field => {
    const on = foreignKey.columns.map((name, j) => [foreignKey.remoteColumns[j] as string, name] as const)
    const where = tableKey(from) === tableKey(table) ? isAnother(foreignKey) : TRUE
    return { kind: 'relation', key: String(i), on, read: { ...readOf(from, MOST + 1), where } }
  })
  return {
    ...readOf(table, 2),
    fields: [{ kind: 'constant', key: FOREIGN_KEYS, value: JSON.stringify(keys) }, ...rows],
    where: planBoolExp(key, table, names, '$.args.key'),
  }
}

const selectable = (table: Table, names: Names): ReadonlySet<string> =>
  new Set(
    names.may(table, 'select')
      ? names.columns(table).flatMap(({ name }) => (names.isMasked(table, name) ? [] : [name]))
      : [],
  )

/** A row that references itself does not depend on another. */
const isAnother = ({ columns, remoteColumns }: ForeignKey): BoolExp => ({
  kind: 'not',
  of: and(columns.map((column, i) => ({ kind: 'columns', column, op: 'eq', to: remoteColumns[i] as string }) as const)),
})

const readOf = (table: Table, most: number): Read => ({
  kind: 'read',
  table: refOf(table),
  fields: [],
  where: TRUE,
  orderBy: [],
  limit: { kind: 'const', value: String(most), type: INT8 } satisfies Operand,
  single: false,
})

const refOf = ({ schema, name }: TableRef): TableRef => ({ schema, name })
