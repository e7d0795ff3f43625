import type { Catalog, NestedFrontEnd } from 'rowhouse'
import { at, isObject, type Json } from 'rowhouse/plan'
import { invalid, isGiven } from './plan/input.js'
import type { Conflict } from './plan/mutation.js'
import { isColumn, keyOf, withWords, wordOf } from './plan/names.js'

/** Returns how GraphQL writes rows with rows of related tables. @param insert runs a step @param conflicts whether the field has `on_conflict` */
export const nestedRows = (
  insert: NestedFrontEnd<Conflict>['insert'],
  { naming }: Catalog,
  conflicts = false,
): NestedFrontEnd<Conflict> => ({
  key: (table, column) => keyOf(table, column, naming),
  isColumn: (table, key) => isColumn(table, key, naming),
  related: withWords,
  conflict: conflictOf,
  conflicts,
  invalid,
  insert,
})

function conflictOf(value: Json, path: string): Conflict {
  if (!isObject(value)) throw invalid('expecting an object', path)
  const { constraint, update_columns: columns = [], where } = withWords(value)
  const known = ['constraint', 'update_columns', 'where']
  const unknown = Object.keys(value).find((key) => !known.includes(wordOf(key)))
  if (unknown !== undefined) throw invalid(`field "${unknown}" is not in an on_conflict`, at(path, unknown))
  if (typeof constraint !== 'string') throw invalid('the field "constraint" is missing', path)
  if (!Array.isArray(columns)) throw invalid('expecting a list', `${path}.update_columns`)
  return { constraint, columns: columns.map(String), ...(isGiven(where) ? { where } : {}) }
}
