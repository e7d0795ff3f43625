import { tableName } from '../catalog/catalog.js'
import { nearest } from '../wording.js'
import type { TableRef } from '../ir.js'

/**
 * Returns the table, or function, that a name with its schema means (`hr.employee`, which is a name in `public`), or one of
 * this name in another schema.
 */
export const namesake = (ref: TableRef, known: readonly TableRef[]): TableRef | undefined =>
  known.find(({ schema, name }) => `${schema}.${name}` === ref.name) ?? known.find(({ name }) => name === ref.name)

/** Returns the table, or function, of which a name is a misspelling. */
export function misspelt(ref: TableRef, known: readonly TableRef[]): TableRef | undefined {
  const name = nearest(tableName(ref), known.map(tableName))
  return known.find((each) => tableName(each) === name)
}

/** Returns `, did you mean {"schema": "hr", "name": "employee"}?`, the name as a request has it, or an empty string. */
export function meant(ref: TableRef | undefined): string {
  if (!ref) return ''
  const name = JSON.stringify(ref.name)
  return `, did you mean ${ref.schema === 'public' ? name : `{"schema": ${JSON.stringify(ref.schema)}, "name": ${name}}`}?`
}
