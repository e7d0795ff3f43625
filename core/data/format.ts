import type { RowBatches, TextRow } from '../db/stream.js'
import type { Answer, Call } from './operations.js'

type Format = Call['format']

interface Frame {
  readonly contentType: string
  readonly head: string
  readonly row: (row: TextRow) => string
  readonly between: string
  readonly tail: string
}

/** Rows as a body: a small one whole, a large one as it comes. */
export function answerRows(rows: RowBatches, format: Format, keys: readonly string[]): Answer {
  const frame = frameOf(format, keys)
  const { contentType } = frame
  const { first, done } = rows
  if (!done || !isShort(first)) return { kind: 'stream', contentType, chunks: chunks(rows, frame) }
  const text = frame.head + first.map(frame.row).join(frame.between) + frame.tail
  return { kind: 'text', text, contentType }
}

const CHUNK = 64 * 1024
const SHORT = 16 * 1024 * 1024

/** Whether rows are no trouble as one text. */
function isShort(rows: readonly TextRow[]): boolean {
  let left = SHORT
  for (const row of rows) for (const cell of row) left -= cell?.length ?? 0
  return left >= 0
}

/** Chunks of 64 KiB or a little more. The tail comes only when every row has. */
async function* chunks(rows: RowBatches, frame: Frame): AsyncGenerator<Buffer, void, undefined> {
  let text = frame.head
  let between = ''
  for await (const batch of batches(rows)) {
    for (const row of batch) {
      text += between + frame.row(row)
      between = frame.between
      if (text.length < CHUNK) continue
      yield Buffer.from(text)
      text = ''
    }
  }
  yield Buffer.from(text + frame.tail)
}

async function* batches(rows: RowBatches): AsyncGenerator<readonly TextRow[], void, undefined> {
  try {
    yield rows.first
    yield* rows.rest()
  } finally {
    await rows.end()
  }
}

function frameOf(format: Format, keys: readonly string[]): Frame {
  switch (format) {
    case 'json':
      return {
        contentType: 'application/json; charset=utf-8',
        head: '[',
        row: ([text]) => text as string,
        between: ',',
        tail: ']',
      }
    case 'ndjson':
      return { contentType: 'application/x-ndjson', head: '', row: ndjson, between: '', tail: '' }
    case 'csv':
      return {
        contentType: 'text/csv; charset=utf-8',
        head: csv(keys),
        row: csv,
        between: '',
        tail: '',
      }
  }
}

/** One line. A `json` column may hold raw line ends, between tokens only, where a space means the same. */
function ndjson([text]: TextRow): string {
  const row = text as string
  return `${row.includes('\n') || row.includes('\r') ? row.replaceAll(/[\r\n]/g, ' ') : row}\n`
}

/** RFC 4180; null is empty, the empty string is `""`. */
function csv(row: TextRow): string {
  return `${row.map(cell).join(',')}\r\n`
}

function cell(text: string | null): string {
  if (text === null) return ''
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
