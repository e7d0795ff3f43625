import { packCsv } from '../db/csv.js'
import { type Around, packCells, rowOf, type RowMessages } from '../db/row-messages.js'
import type { RowBatch, RowBatches } from '../db/row-messages.js'
import type { Answer, Call } from './operations.js'

type Format = Call['format']

interface Frame {
  readonly contentType: string
  readonly head: string
  /** Formats rows. May overwrite the memory of the rows. */
  readonly rows: (rows: RowMessages) => Buffer
  readonly tail: string
}

/** Returns rows as a response: buffered when small, otherwise streamed. */
export function answerRows(rows: RowBatches, format: Format, keys: readonly string[]): Answer {
  const frame = frameOf(format, keys)
  const { contentType } = frame
  const { first, done } = rows
  if (!done) return { kind: 'stream', contentType, chunks: chunks(rows, frame), sent: (chunk) => rows.free(chunk) }
  const body = Buffer.concat(first.parts.map(frame.rows))
  for (const part of first.parts) rows.free(part)
  if (body.length > SHORT) {
    return {
      kind: 'bytes',
      bytes: Buffer.concat([Buffer.from(frame.head), body, Buffer.from(frame.tail)]),
      contentType,
    }
  }
  return { kind: 'text', text: frame.head + body.toString() + frame.tail, contentType }
}

/** Maximum size of a response that is sent as one text, in bytes. */
const SHORT = 16 * 1024 * 1024

/** Bytes to buffer before the first chunk. An earlier failure is an ordinary error, because nothing has been sent. */
const EARLY = 64 * 1024

/** Yields one chunk for the early rows, then one per batch. The tail is sent only after every row. */
async function* chunks(rows: RowBatches, { head, rows: framed, tail }: Frame): AsyncGenerator<Buffer, void, undefined> {
  let held: Buffer[] = [Buffer.from(head)]
  let bytes = 0
  const whole = () => {
    const chunk = Buffer.concat(held)
    for (const each of held) rows.free(each)
    held = []
    return chunk
  }
  for await (const { parts } of batches(rows)) {
    for (const part of parts) {
      const chunk = framed(part)
      if (chunk.buffer !== part.buffer) rows.free(part)
      if (bytes >= EARLY) {
        yield chunk
        continue
      }
      held.push(chunk)
      bytes += chunk.length
      if (bytes >= EARLY) yield whole()
    }
  }
  held.push(Buffer.from(tail))
  yield whole()
}

async function* batches(rows: RowBatches): AsyncGenerator<RowBatch, void, undefined> {
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
      return { contentType: 'application/json; charset=utf-8', head: '[', rows: elements(), tail: ']' }
    case 'ndjson':
      return { contentType: 'application/x-ndjson', head: '', rows: (rows) => packCells(rows, LINE), tail: '' }
    case 'csv':
      return {
        contentType: 'text/csv; charset=utf-8',
        head: packCsv(rowOf(keys)).toString(),
        rows: packCsv,
        tail: '',
      }
  }
}

/** A `json` column may contain line breaks, but only between tokens, where a space is equivalent. */
const LINE: Around = { after: 0x0a, oneLine: true }
const ELEMENT: Around = { before: 0x2c }

/** Formats the elements of one list, with a comma before all but the first. */
function elements(): Frame['rows'] {
  let skip = 1
  return (rows) => {
    const packed = packCells(rows, ELEMENT).subarray(skip)
    skip = 0
    return packed
  }
}
