import type { Column, Table } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import { isGeo } from './geojson.js'
import type { Insert, InsertColumn, RowKey } from './ir.js'
import type { Names } from './names.js'

/**
 * What rows with these keys are inserted by.
 * @param keys with whether every row has them
 * @param updates whether a row that exists is updated
 */
export function planRows(
  keys: readonly (readonly [name: string, everywhere: boolean])[],
  table: Table,
  names: Names,
  updates: boolean,
  path: string,
): Pick<Insert, 'columns' | 'perKeySet'> {
  const given = keys.map(([name, everywhere]) => insertColumn(name, everywhere ? 'all' : 'some', table, names, path))
  return {
    columns: given.length > 0 ? given : [anyColumn(table, path)],
    perKeySet: needsKeySets(given, table, updates),
  }
}

function insertColumn(name: string, present: 'all' | 'some', table: Table, names: Names, path: string): InsertColumn {
  if (table.relationshipsByName.has(name) && names.trusted) {
    throw unexpectedPayload("relationships can't be inserted", path)
  }
  const column = names.column(table, name, 'insert', path)
  if (column.generated === 'always') throw unexpectedPayload(`column "${name}" is generated`, path)
  const key = column.name === name ? {} : { key: name }
  return {
    name: column.name,
    ...key,
    type: column.type,
    present,
    ...(column.default === undefined ? {} : { default: column.default }),
  }
}

/** Rows without any key still need a column to be inserted by: one that takes its own default. */
function anyColumn(table: Table, path: string): InsertColumn {
  if (table.kind === 'view' || table.kind === 'foreign table') {
    throw unexpectedPayload(
      `the defaults of "${table.name}" are those of another table; give at least one column`,
      path,
    )
  }
  const column = table.columns.find((each) => each.generated === undefined)
  if (!column) throw unexpectedPayload(`every column of "${table.name}" is generated; give at least one`, path)
  const { name, type } = column
  return { name, type, present: 'none', ...(column.default === undefined ? {} : { default: column.default }) }
}

/**
 * Where a missing key cannot be given its default by an expression, rows with different keys go in statements of their
 * own: identity columns, views (whose defaults are those of tables below), and upserts, where a column that a row does
 * not name must stay as it is.
 */
function needsKeySets(columns: readonly InsertColumn[], table: Table, updates: boolean): boolean {
  const some = columns.filter((column) => column.present === 'some')
  if (some.length === 0) return false
  if (updates || table.kind === 'view' || table.kind === 'foreign table') return true
  return some.some((column) => table.columnsByName.get(column.name)?.generated === 'identity')
}

/** How a written row is found again. */
export function rowKey(table: Table): RowKey {
  const columns = table.primaryKey.map((name) => ({ name, type: (table.columnsByName.get(name) as Column).type }))
  // A key goes through JSON, which rounds a geometry.
  if (columns.length > 0 && !columns.some(({ type }) => isGeo(type))) {
    return { kind: 'columns', columns, ...(table.kind === 'partitioned' ? { partitioned: true } : {}) }
  }
  return table.kind === 'table' ? { kind: 'place' } : { kind: 'none' }
}
