import { query } from '../../api.js'
import { type Column, type Table, wireName } from '../../catalog.js'
import type { Json, JsonObject } from '../../json.js'
import { type Cell, readCsv } from './csv.js'
import { readCell } from './values.js'

/** Rows that were refused together, because one of them was wrong. */
interface Refused {
  /** Numbers of the first and the last row below the head, from 1. */
  readonly first: number
  readonly last: number
  readonly reason: string
}

export interface Progress {
  readonly read: number
  readonly inserted: number
  readonly failed: number
  readonly refused: readonly Refused[]
  /** Refused rows, to be saved; at most `MOST_KEPT`. */
  readonly failedRows: readonly (readonly Cell[])[]
}

export const NOTHING: Progress = { read: 0, inserted: 0, failed: 0, refused: [], failedRows: [] }
const MOST_KEPT = 50_000
const MOST_REFUSED = 200

/**
 * Inserts the rows of a CSV file, chunk by chunk. All rows of a chunk are inserted, or none.
 * @param mapping the column for each cell of a row; undefined for cells to skip
 */
export async function insertCsv(
  table: Table,
  file: Blob,
  mapping: readonly (Column | undefined)[],
  chunk: number,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<void> {
  let progress = NOTHING
  let isHead = true
  let rows: (readonly Cell[])[] = []
  const flush = async () => {
    const first = progress.read + 1
    const last = progress.read + rows.length
    const objects = rows.map((row) => objectOf(row, mapping))
    try {
      await query('insert', { table: wireName(table.table), objects }, { signal })
      progress = { ...progress, read: last, inserted: progress.inserted + rows.length }
    } catch (error) {
      if (signal.aborted) throw error
      const { status, message, path } = error as { status?: number; message: string; path?: string }
      // Without an answer, or when nothing may be inserted at all, the other rows would fail too.
      if (status === undefined || status === 0 || status === 401 || status === 503) throw error
      const refused = { first, last, reason: reasonOf(message, path ?? '', first) }
      progress = {
        ...progress,
        read: last,
        failed: progress.failed + rows.length,
        refused: [...progress.refused, refused].slice(0, MOST_REFUSED),
        failedRows: progress.failedRows.length < MOST_KEPT ? [...progress.failedRows, ...rows] : progress.failedRows,
      }
    }
    rows = []
    onProgress(progress)
  }
  for await (const row of readCsv(file)) {
    signal.throwIfAborted()
    if (isHead) isHead = false
    else rows.push(row)
    if (rows.length >= chunk) await flush()
  }
  if (rows.length > 0) await flush()
}

/** Names the row of the file, if the path of the error names one of the chunk. */
function reasonOf(message: string, path: string, first: number): string {
  const [, index, column] = /^\$\.args\.objects\[(\d+)\](?:\.(.+))?$/.exec(path) ?? []
  if (index === undefined) return message
  return `row ${first + Number(index)}${column === undefined ? '' : `, column ${column}`}: ${message}`
}

function objectOf(row: readonly Cell[], mapping: readonly (Column | undefined)[]): JsonObject {
  const entries = mapping.flatMap((column, i): [string, Json][] => {
    if (!column) return []
    const cell = row[i] ?? null
    // An empty cell of a column that cannot be null means its default, or the empty text.
    if (cell === null && !column.nullable)
      return column.has_default || column.type !== 'text' ? [] : [[column.name, '']]
    return [[column.name, cell === null ? null : readCell(column, cell)]]
  })
  return Object.fromEntries(entries)
}

/** Counts the rows of a CSV file below its first line. */
export async function countRows(file: Blob, signal: AbortSignal): Promise<number> {
  let count = -1
  for await (const _row of readCsv(file)) {
    signal.throwIfAborted()
    count++
  }
  return Math.max(0, count)
}

/** Reads the head of a CSV file and the first rows. */
export async function preview(file: Blob, count = 5): Promise<readonly (readonly Cell[])[]> {
  const rows: (readonly Cell[])[] = []
  for await (const row of readCsv(file)) {
    rows.push(row)
    if (rows.length > count) break
  }
  return rows
}
