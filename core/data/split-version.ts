import type { Answer } from '../answer.js'
import type { Compiled } from '../compile/compile.js'
import type { Cell } from '../db/lane.js'

/** Separates the version of the row from the result that it may precede. @see core/sql/emit.ts */
export function splitVersion(cell: Cell, version: NonNullable<Compiled['version']>): Answer {
  const text = cell.toString()
  if (!text.startsWith('"')) return { kind: 'text', text }
  const end = text.indexOf('\n')
  const found = { ...version, text: JSON.parse(text.slice(0, end)) as string }
  return { kind: 'text', text: text.slice(end + 1), version: found }
}
