import { query } from '../../api.js'
import { type Column, type Table, wireName } from '../../catalog.js'
import type { Json, JsonObject } from '../../json.js'
import { columnsOf, keyColumns, type View, whereOf } from './view.js'

interface Written {
  readonly affected_rows: number
  readonly returning: readonly JsonObject[]
}

/** Whether the caller may change this column of the rows that it sees. */
export const isEditable = (table: Table, column: Column): boolean =>
  table.actions.update && column.update && !column.generated && keyColumns(table).length > 0

/** Columns for which the caller may give values in an insert. */
export const insertable = (table: Table): readonly Column[] =>
  table.columns.filter(({ insert, generated }) => insert && !generated)

/**
 * Sets one value of a row.
 * @returns the row as the server has it now; undefined if the caller does not see it any more
 */
export async function updateCell(
  table: Table,
  row: JsonObject,
  view: View,
  column: string,
  value: Json,
): Promise<JsonObject | undefined> {
  const { affected_rows: affected, returning } = await query<Written>('update', {
    table: wireName(table.table),
    where: whereOf(table, row),
    $set: { [column]: value },
    returning: columnsOf(table, view),
  })
  if (affected === 0) throw new Error('The row is gone, or this role may not change it.')
  return returning[0]
}

export async function insertRow(table: Table, object: JsonObject): Promise<void> {
  await query('insert', { table: wireName(table.table), objects: [object] })
}

/** @returns how many rows were deleted */
export async function deleteRows(table: Table, rows: readonly JsonObject[]): Promise<number> {
  const [name, ...others] = keyColumns(table)
  const where =
    others.length === 0
      ? { [name!]: { $in: rows.map((row) => row[name!]) } }
      : { $or: rows.map((row) => whereOf(table, row)) }
  const { affected_rows: affected } = await query<Written>('delete', { table: wireName(table.table), where })
  return affected
}

/** Returns how many rows can be deleted together: a condition has at most 2,000 parts. */
export const mostDeleted = (table: Table): number => Math.floor(1000 / Math.max(2, keyColumns(table).length))
