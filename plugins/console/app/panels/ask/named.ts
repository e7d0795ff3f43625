import { catalog, isSameTable, labelOf, type Table, type TableName } from '../../catalog.js'
import { type Part, partAt, type Path } from '../../json-places.js'

/** A place in a request that may be incomplete. */
export interface Around {
  readonly root: Part | undefined
  readonly text: string
  /** Path of an object or array. */
  readonly path: Path
}

const find = (name: TableName): Table | undefined => catalog.value?.tables.find(({ table }) => isSameTable(table, name))

/** Returns the table that a relationship leads to. */
export function relatedTo(table: Table, relationship: string): Table | undefined {
  const to = table.relationships.find(({ name }) => name === relationship)?.table
  return to && find(to)
}

/** Returns the table that a part names with its key `table`. */
export function tableOf({ root, text, path }: Around): Table | undefined {
  const part = partAt(root, [...path, 'table'])
  if (!part) return undefined
  const read = (key: string) => textOf(text, part.entries.find((entry) => entry.key === key)?.value)
  const name = part.kind === 'scalar' ? textOf(text, part) : read('name')
  return find({ schema: (part.kind === 'scalar' ? '' : read('schema')) || 'public', name })
}

/** Returns the table of the rows that a function returns. */
export function tableOfFunction(name: string): Table | undefined {
  const returns = catalog.value?.functions.find((each) => labelOf(each.function) === name)?.returns
  return returns?.table && find(returns.table)
}

/** Returns the text that a key of the object has. */
export const textAt = ({ root, text, path }: Around, key: string): string => textOf(text, partAt(root, [...path, key]))
export const textOf = (text: string, part: Part | undefined): string =>
  part ? text.slice(part.from, part.to).replaceAll('"', '') : ''
