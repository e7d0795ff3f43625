/**
 * Rows as PostgreSQL sends them, one DataRow message after another: `D`, the length of the rest (4 bytes, which count), the
 * number of cells (2), and for each cell its length (4; -1 is null) and its bytes. Nobody else uses the memory.
 * @see PostgreSQL manual, "Message Formats"
 */
export type RowMessages = Buffer

/** Rows in the order in which they came, and what they take in bytes. */
export interface RowBatch {
  /** Each may be given to `free` when it is of no more use, or be left to be collected. */
  readonly parts: readonly RowMessages[]
  readonly count: number
  readonly bytes: number
}

export interface RowBatches {
  /** The first rows: 1,000 or some more, or fewer when they are large; all of them when `done`. */
  readonly first: RowBatch
  readonly done: boolean
  /** The rest, a batch at a time. */
  rest(): AsyncGenerator<RowBatch, void, undefined>
  /** Lets the memory of a part be used again, by any piece of it. */
  free(part: Buffer): void
  /** Gives the connection back, whether the rest was read or not. Must be called unless `done`. */
  end(): Promise<void>
  /** Resolves when the connection has been given back, by whomever. */
  readonly ended: Promise<void>
}

export const DATA_ROW = 0x44
/** The letter and the length. */
export const HEADER = 5
/** Where the cells of a row begin, and what stands before each of them. */
export const CELLS = 7
export const LENGTH = 4

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20

/** What stands around each row, as codes of characters. One of them at most: the header gives room for few. */
export interface Around {
  readonly before?: number
  readonly after?: number
  /** Rows without line ends: each becomes a space. */
  readonly oneLine?: boolean
}

/**
 * Moves the only cell of each row to the front of the memory that the rows are in.
 * @returns the part of it that they now take
 */
export function packCells(rows: RowMessages, { before, after, oneLine = false }: Around): Buffer {
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
 * Makes a space of each line end in one cell after another. Most have none, and the next of each kind is searched for
 * only when the last one has been passed, so that no byte is searched twice.
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

/** Encodes a row of texts as PostgreSQL sends it. */
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
