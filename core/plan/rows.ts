import type { Column, Table } from '../catalog/catalog.js'
import { at, unexpectedPayload } from '../errors.js'
import { type Insert, type InsertColumn, isGeo, type RowKey } from '../ir.js'
import type { Names } from './names.js'

/**
 * Plans the insert of rows with these keys.
 * @param keys with whether every row has them
 * @param updates whether existing rows are updated
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
  const here = at(path, name)
  if (table.relationshipsByName.has(name) && names.trusted) {
    throw unexpectedPayload("relationships can't be inserted", here)
  }
  const column = names.column(table, name, 'insert', here)
  if (column.generated === 'always') throw unexpectedPayload(`column "${name}" is generated`, here)
  const key = column.name === name ? {} : { key: name }
  return {
    name: column.name,
    ...key,
    type: column.type,
    present,
    ...(column.default === undefined ? {} : { default: column.default }),
  }
}

/** Returns a column for rows without keys, which still need one: a column that takes its default. */
function anyColumn(table: Table, path: string): InsertColumn {
  if (table.kind === 'view' || table.kind === 'foreign table') {
    throw unexpectedPayload(
      `the defaults of "${table.name}" are those of another table; give at least one column`,
      path,
    )
  }
  const column =
    table.columns.find((each) => each.generated === undefined) ?? table.columns.find((each) => each.identity)
  if (table.columns.length === 0) throw unexpectedPayload(`"${table.name}" has no columns`, path)
  if (!column) throw unexpectedPayload(`every column of "${table.name}" is generated; give at least one`, path)
  const { name, type, identity, default: fallback } = column
  return { name, type, present: 'none', identity, ...(fallback === undefined ? {} : { default: fallback }) }
}

/**
 * Returns whether rows with different keys need separate statements, because a missing key cannot get its default by an
 * expression: for identity columns, for views (whose defaults belong to their tables), and for upserts, where a missing
 * column must stay unchanged.
 */
function needsKeySets(columns: readonly InsertColumn[], table: Table, updates: boolean): boolean {
  const some = columns.filter((column) => column.present === 'some')
  if (some.length === 0) return false
  if (updates || table.kind === 'view' || table.kind === 'foreign table') return true
  return some.some((column) => table.columnsByName.get(column.name)?.generated === 'identity')
}

/** Returns how to find a row again that was written: `inserted`, so into this table, or otherwise into one that inherits. */
export function rowKey(table: Table, inserted: boolean): RowKey {
  if (table.inherited && !inserted) return { kind: 'place' }
  const columns = table.primaryKey.map((name) => ({ name, type: (table.columnsByName.get(name) as Column).type }))
  // A key is sent as JSON, which rounds a geometry.
  if (columns.length > 0 && !columns.some(({ type }) => isGeo(type))) {
    return {
      kind: 'columns',
      columns,
      ...(table.kind === 'partitioned' ? { partitioned: true } : {}),
      ...(table.inherited ? { only: true } : {}),
    }
  }
  return table.kind === 'table' ? { kind: 'place' } : { kind: 'none' }
}
