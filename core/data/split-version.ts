import type { Answer } from '../answer.js'
import type { Compiled } from '../compile/compile.js'
import type { Cell } from '../db/lane.js'

/** Returns the answer of a statement, without the version of the row that may precede it. @see core/sql/emit.ts */
export function splitVersion(cell: Cell, { version }: Pick<Compiled, 'version'>): Answer {
  if (!version || (typeof cell === 'string' ? cell.charCodeAt(0) : cell[0]) !== QUOTE) return answerOf(cell)
  const end = typeof cell === 'string' ? cell.indexOf('\n') : cell.indexOf(LF)
  const [head, rest] =
    typeof cell === 'string'
      ? [cell.slice(0, end), cell.slice(end + 1)]
      : [cell.toString('utf8', 0, end), cell.subarray(end + 1)]
  return { ...answerOf(rest), version: { ...version, text: JSON.parse(head) as string } }
}

const QUOTE = 0x22
const LF = 0x0a

const answerOf = (cell: Cell): Answer =>
  typeof cell === 'string' ? { kind: 'text', text: cell } : { kind: 'bytes', bytes: cell }
