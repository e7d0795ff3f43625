/**
 * Rows as PostgreSQL sends them, as consecutive DataRow messages: `D`, the length of the rest (4 bytes, including
 * itself), the number of cells (2), and for each cell its length (4; -1 is null) and its bytes. The memory has no other
 * users.
 * @see PostgreSQL manual, "Message Formats"
 */
export type RowMessages = Buffer

/** Rows in order, and their size in bytes. */
export interface RowBatch {
  /** Pass each part to `free` when it is no longer needed, or leave it to the garbage collector. */
  readonly parts: readonly RowMessages[]
  readonly count: number
  readonly bytes: number
}

export interface RowBatches {
  /** First rows: about 1,000, or fewer when they are large; all rows when `done`. */
  readonly first: RowBatch
  readonly done: boolean
  /** Returns the remaining rows in batches. */
  rest(): AsyncGenerator<RowBatch, void, undefined>
  /** Releases the memory of a part for reuse. Accepts any slice of it. */
  free(part: Buffer): void
  /** Returns the connection, even if rows remain. Must be called unless `done`. */
  end(): Promise<void>
  /** Resolves when the connection has been returned. */
  readonly ended: Promise<void>
}

export const DATA_ROW = 0x44
/** Size of a message header: a letter and a length, which counts itself but not the letter. */
export const HEADER = 5
/** Offset of the first cell in a row; the cell's length precedes it. */
export const CELLS = 7
export const LENGTH = 4

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20

/** Character codes around each row. At most one, because the header leaves room for few. */
export interface RowSeparators {
  readonly before?: number
  readonly after?: number
  /** Replaces line breaks in rows with spaces. */
  readonly oneLine?: boolean
}

/**
 * Moves the only cell of each row to the front of the rows' memory.
 * @returns the part of the memory that the cells occupy
 */
export function packCells(rows: RowMessages, { before, after, oneLine = false }: RowSeparators): Buffer {
  let to = 0
  const joinLines = oneLine ? lineJoiner(rows) : undefined
  for (let at = 0; at < rows.length;) {
    const start = at + CELLS + LENGTH
    const end = at + 1 + rows.readUInt32BE(at + 1)
    joinLines?.(start, end)
    if (before !== undefined) rows[to++] = before
    rows.copyWithin(to, start, end)
    to += end - start
    if (after !== undefined) rows[to++] = after
    at = end
  }
  return rows.subarray(0, to)
}

/**
 * Replaces the line breaks in consecutive cells with spaces. Most cells have none, so the next line break of each kind
 * is searched for only after the previous one has been passed, and no byte is searched twice.
 */
function lineJoiner(bytes: Buffer): (start: number, end: number) => void {
  const next = (code: number, from: number): number => {
    const at = bytes.indexOf(code, from)
    return at < 0 ? Infinity : at
  }
  let lf = next(LF, 0)
  let cr = next(CR, 0)
  return (start, end) => {
    if (lf >= end && cr >= end) return
    for (let at = start; at < end; at++) if (bytes[at] === LF || bytes[at] === CR) bytes[at] = SPACE
    if (lf < end) lf = next(LF, end)
    if (cr < end) cr = next(CR, end)
  }
}

/** Encodes a row of texts as PostgreSQL does. */
export function rowOf(texts: readonly (string | null)[]): RowMessages {
  const cells = texts.map((text) => (text === null ? undefined : Buffer.from(text)))
  const length = cells.reduce((sum, cell) => sum + LENGTH + (cell?.length ?? 0), CELLS)
  const row = Buffer.allocUnsafe(length)
  row[0] = DATA_ROW
  row.writeUInt32BE(length - 1, 1)
  row.writeUInt16BE(cells.length, HEADER)
  let at = CELLS
  for (const cell of cells) {
    row.writeInt32BE(cell?.length ?? -1, at)
    at += LENGTH
    if (cell) at += cell.copy(row, at)
  }
  return row
}
