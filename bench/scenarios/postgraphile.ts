import { USER_ID } from '../data.js'

/** A request over GraphQL. */
export interface Document {
  readonly query: string
  readonly variables: object
}

/** Conditions that a document adds where the server itself hides no rows; empty where it does. */
export interface Visible {
  readonly article: string
  readonly comment: string
}
export const ASKED: Visible = {
  article: `or: [{authorId: {equalTo: ${USER_ID}}}, {published: {equalTo: true}}]`,
  comment: 'hidden: {equalTo: false}',
}
export const HIDDEN: Visible = { article: '', comment: '' }

/** The argument `filter` of a field, which may not be empty. */
export function filterOf(...conditions: readonly string[]): string {
  const given = conditions.filter((condition) => condition !== '')
  return given.length === 0 ? '' : `filter: {${given.join(', ')}},`
}

/** Columns by PostGraphile's names, answered by those of the database. */
export function fieldsOf(columns: readonly string[]): string {
  return columns
    .map((column) => {
      const field = column === 'id' ? 'rowId' : column.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
      return field === column ? column : `${column}: ${field}`
    })
    .join(' ')
}

/**
 * Its answer as the rows of the others: by a key it gives one row and no list, and times have six decimals.
 * @returns JSON text
 */
export function rowsOf(answer: string): string {
  const { data } = JSON.parse(answer, (name, value: unknown) =>
    name === 'created_at' ? String(value).replace('.000000', '') : value,
  ) as { data: { root: unknown } }
  return JSON.stringify(Array.isArray(data.root) ? data.root : [data.root])
}
