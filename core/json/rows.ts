import { unexpectedPayload } from '../errors.js'
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  type Cursor,
  duplicateKey,
  next,
  NO_LIMITS,
  open,
  OPEN_BRACE,
  peek,
  readColon,
  readKey,
  refused,
  type RowKind,
  skipValue,
  startOf,
} from './scan.js'

/** Longer texts, in bytes, are read in a worker, because the event loop would be busy for too long. */
export const LONG = 64 * 1024

/** An array of objects that has been checked and is kept as text for PostgreSQL to parse. */
export class Rows {
  /** Whether every row has the same set of keys. */
  readonly uniform: boolean

  /**
   * @param source `[ ... ]` exactly as in the request
   * @param columns by name in order of first appearance
   * @param values number of values at any depth
   * @param known result of `groups`, or `many` if there are too many, if it is known
   */
  constructor(
    readonly source: string,
    readonly count: number,
    readonly columns: ReadonlyMap<string, RowsColumn>,
    readonly values: number,
    private readonly known?: readonly RowsGroup[] | 'many',
  ) {
    this.uniform = [...columns.values()].every((column) => column.present === count)
  }

  /** Scans the text again and calls `read` at each value of some columns; `read` must advance past the value. */
  visit<T>(columns: ReadonlyMap<string, T>, read: (c: Cursor, column: T) => void): void {
    const c = startOf(this.source, NO_LIMITS)
    peek(c)
    let row = 0
    for (let more = open(c, CLOSE_BRACKET); more; more = next(c, CLOSE_BRACKET)) {
      c.path.push(row++)
      for (let inRow = open(c, CLOSE_BRACE); inRow; inRow = next(c, CLOSE_BRACE)) {
        const name = readKey(c)
        readColon(c)
        c.path.push(name)
        const column = columns.get(name)
        if (column === undefined) skipValue(c)
        else read(c, column)
        c.path.pop()
      }
      c.path.pop()
    }
  }

  /**
   * Returns the rows grouped by key set, in order of first appearance. Scans the text again if there are several sets.
   * @param path path of the rows in the request, for the error
   * @throws ServiceError 400 unexpected-payload: there are more than 1,000
   */
  groups(path: string): readonly RowsGroup[] {
    if (this.count === 0) return []
    const groups = this.known ?? (this.uniform ? undefined : (split(this) ?? 'many'))
    if (groups === 'many') {
      throw unexpectedPayload(`the rows have more than ${MAX_KEY_SETS} different sets of keys`, path)
    }
    if (groups) return groups
    return [{ keys: [...this.columns.keys()], indices: Array.from({ length: this.count }, (_, i) => i), rows: this }]
  }
}

/** Maximum number of different key sets: each may need a statement. */
const MAX_KEY_SETS = 1000

export interface RowsColumn {
  /** Number of rows with this key. */
  readonly present: number
  /** Index of the first row with a value of a kind, or -1. */
  readonly first: Readonly<Record<RowKind, number>>
}

export interface RowsGroup {
  /** Keys in the order of `columns`. */
  readonly keys: readonly string[]
  /** Indexes of these rows in the whole array, ascending. */
  readonly indices: ArrayLike<number>
  readonly rows: Rows
}

/**
 * Reads the array at the cursor.
 * @throws ServiceError 400 `invalid-json` or `parse-failed` with the path of the row or of the value in it
 */
export function readRows(c: Cursor): Rows {
  const { pos: start, skipped } = c
  const { count, columns } = scanRows(c)
  const seen = new Map<string, RowsColumn>()
  for (const { name, present, first } of columns) seen.set(name, { present, first })
  return new Rows(c.text.slice(start, c.pos), count, seen, c.skipped - skipped)
}

interface Column extends RowsColumn {
  readonly name: string
  /** Key as written, including quotes. */
  readonly quoted: string
  /** Number of columns that appeared before. */
  readonly place: number
  present: number
  readonly first: Record<RowKind, number>
  /** Last row with this key. */
  row: number
  /** Kind of its value in that row. */
  kind: RowKind | undefined
}

/** @param visit called for each row with its columns in the order of its keys, and its text; stops by returning false */
function scanRows(c: Cursor, visit?: (columns: readonly Column[], index: number, text: string) => boolean) {
  const byName = new Map<string, Column>()
  const columns: Column[] = []
  let count = 0
  for (let more = open(c, CLOSE_BRACKET); more; more = next(c, CLOSE_BRACKET)) {
    const start = c.pos
    c.path.push(count)
    scanRow(c, count, columns, byName)
    c.path.pop()
    if (visit && !visit(columns, count, c.text.slice(start, c.pos))) break
    count++
  }
  return { count, columns: byName.values() }
}

/** @param columns those of the previous row, which usually match; replaced with those of this row */
function scanRow(c: Cursor, row: number, columns: Column[], byName: Map<string, Column>): void {
  if (peek(c) !== OPEN_BRACE) {
    skipValue(c)
    throw refused(c, 'expecting an object')
  }
  let width = 0
  for (let more = open(c, CLOSE_BRACE); more; more = next(c, CLOSE_BRACE)) {
    const column = readColumn(c, columns[width], byName)
    readColon(c)
    c.path.push(column.name)
    if (column.row === row) throw duplicateKey(c)
    column.row = row
    column.present++
    const kind = skipValue(c)
    if (column.kind !== kind) {
      column.kind = kind
      if (column.first[kind] < 0) column.first[kind] = row
    }
    c.path.pop()
    columns[width++] = column
  }
  columns.length = width
}

function readColumn(c: Cursor, expected: Column | undefined, byName: Map<string, Column>): Column {
  if (expected !== undefined && c.text.startsWith(expected.quoted, c.pos)) {
    c.pos += expected.quoted.length
    return expected
  }
  const start = c.pos
  const name = readKey(c)
  const known = byName.get(name)
  if (known !== undefined) return known

  // Also limits each row. Otherwise rows without common keys would cost a column record for every few bytes of text.
  if (byName.size === c.limits.maxKeys) throw refused(c, `more than ${c.limits.maxKeys} different keys in these rows`)
  const column: Column = {
    name,
    quoted: c.text.slice(start, c.pos),
    place: byName.size,
    present: 0,
    first: { null: -1, boolean: -1, integer: -1, number: -1, string: -1, composite: -1 },
    row: -1,
    kind: undefined,
  }
  byName.set(name, column)
  return column
}

function split(rows: Rows): RowsGroup[] | undefined {
  const groups = new Map<string, { keys: string[]; indices: number[]; texts: string[] }>()
  scanRows(startOf(rows.source, NO_LIMITS), (columns, index, text) => {
    const inOrder = columns.toSorted((a, b) => a.place - b.place)
    const id = inOrder.map((column) => column.place).join()
    let group = groups.get(id)
    if (group === undefined) {
      group = { keys: inOrder.map((column) => column.name), indices: [], texts: [] }
      groups.set(id, group)
    }
    group.indices.push(index)
    group.texts.push(text)
    return groups.size <= MAX_KEY_SETS
  })
  if (groups.size > MAX_KEY_SETS) return undefined
  return [...groups.values()].map(({ keys, indices, texts }) => {
    return { keys, indices, rows: readRows(startOf(`[${texts.join()}]`, NO_LIMITS)) }
  })
}
