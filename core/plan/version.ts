import type { Table } from '../catalog/catalog.js'
import type { BoolExp } from '../ir.js'
import type { Names } from './names.js'
import { equalColumns } from './price.js'

/** Name of the version of a row among the columns of a request, and in results. */
export const VERSION = '$version'
/** System column of PostgreSQL: the transaction that wrote this version of the row. */
export const XMIN = 'xmin'

/** Returns the column whose text is the version of a row, or `xmin`, if the role may see it. */
export function versionOf(table: Table, names: Names): string | undefined {
  const { version } = table
  if (version === undefined || !names.may(table, 'select')) return undefined
  // A role that sees it in some rows only has no versions.
  const isSeen = names.columns(table).some(({ name }) => name === version) && !names.isMasked(table, version)
  return version === XMIN || isSeen ? version : undefined
}

/** Returns whether a condition is that the primary key equals given values, and no more. */
export function isPrimaryKey(where: BoolExp, { primaryKey }: Table): boolean {
  const parts = where.kind === 'and' ? where.of.length : 1
  const columns = equalColumns(where)
  const isEach = parts === primaryKey.length && columns.length === parts
  return isEach && parts > 0 && primaryKey.every((name) => columns.includes(name))
}
