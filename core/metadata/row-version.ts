import { type ServiceError, unexpectedPayload } from '../errors.js'
import { comparesAlways } from '../plan/guard.js'
import { VERSION, XMIN } from '../plan/names.js'
import { tableName } from '../catalog/catalog.js'
import type { DatabaseTable } from './introspect.js'
import { missingColumn } from './relationship.js'

/**
 * Checks that the text of a column can be the version of a row.
 * @param name of a column, or `xmin`
 * @param fields names of relationships and computed fields
 * @throws ServiceError 400 with the path `$`
 */
export function checkVersion(name: string, table: DatabaseTable, fields: readonly string[]): void {
  const refuse = (why: string): ServiceError =>
    unexpectedPayload(`"${name}" cannot be the version of the rows of "${tableName(table)}": ${why}`, '$')
  if (table.primaryKey.length === 0) throw refuse('the table has no primary key')
  if (fields.includes(VERSION) || table.columns.some((each) => each.name === VERSION)) {
    throw refuse(`"${VERSION}" is the name of something else`)
  }
  if (name === XMIN) return
  const column = table.columns.find((each) => each.name === name)
  if (!column) throw missingColumn(name, table, '$')
  if (column.nullable) throw refuse('the column can be null')
  // Otherwise reading its text could fail, which would reveal a row.
  if (column.derived) throw refuse('the column is computed when it is read')
  if (!comparesAlways(column.type)) throw refuse(`its type is ${column.type.name}`)
}
