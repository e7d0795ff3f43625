import type { Answer } from '../answer.js'
import type { Cell } from '../db/lane.js'

/** Separates the version of the row from the result that it may precede. @see core/sql/emit.ts */
export function splitVersion(cell: Cell): Answer {
  const text = cell.toString()
  if (!text.startsWith('"')) return { kind: 'text', text }
  const end = text.indexOf('\n')
  return { kind: 'text', text: text.slice(end + 1), version: JSON.parse(text.slice(0, end)) as string }
}
