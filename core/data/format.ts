import type { RowStream } from '../answer.js'
import type { Compiled, Part } from '../compile/compile.js'
import {
  type RowSeparators,
  CELLS,
  HEADER,
  LENGTH,
  packCells,
  type RowBatch,
  type RowBatches,
  type RowMessages,
  rowOf,
} from '../db/row-messages.js'
import type { Answer, Call } from './operations.js'

type Format = Call['format']

const JSON_TYPE = 'application/json; charset=utf-8'

interface Frame {
  readonly contentType: string
  readonly head: string
  /** Formats rows. May overwrite the memory of the rows. */
  readonly rows: (rows: RowMessages) => Buffer
  /** Ends the text after the rows so far. */
  readonly tail: () => string
  /** @see RowStream.cutOff */
  readonly cutOff?: RowStream['cutOff']
}

/** Returns rows as a response: buffered when small, otherwise streamed. */
export function answerRows(
  rows: RowBatches,
  format: Format,
  { keys, parts }: Pick<Compiled, 'keys' | 'parts'>,
): Answer {
  const frame = parts ? objectOf(parts) : frameOf(format, keys)
  const { contentType, cutOff } = frame
  const { first, done } = rows
  if (!done) {
    return { kind: 'stream', contentType, chunks: chunks(rows, frame), sent: (chunk) => rows.free(chunk), cutOff }
  }
  const body = Buffer.concat(first.parts.map(frame.rows))
  for (const part of first.parts) rows.free(part)
  if (body.length > MAX_TEXT) {
    return {
      kind: 'bytes',
      bytes: Buffer.concat([Buffer.from(frame.head), body, Buffer.from(frame.tail())]),
      contentType,
    }
  }
  return { kind: 'text', text: frame.head + body.toString() + frame.tail(), contentType }
}

/** Maximum size of a response that is sent as one text, in bytes. */
const MAX_TEXT = 16 * 1024 * 1024

/** Bytes to buffer before the first chunk. An earlier failure is an ordinary error, because nothing has been sent. */
const EARLY = 64 * 1024

/** Yields one chunk for the early rows, then one per batch. The tail is sent only after every row. */
async function* chunks(
  rows: RowBatches,
  { head, rows: framed, tail, cutOff }: Frame,
): AsyncGenerator<Buffer, void, undefined> {
  let held: Buffer[] = [Buffer.from(head)]
  let bytes = 0
  const whole = () => {
    const chunk = Buffer.concat(held)
    for (const part of held) rows.free(part)
    held = []
    return chunk
  }
  try {
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
  } catch (error) {
    if (cutOff && bytes >= EARLY) yield Buffer.from(tail())
    throw error
  }
  held.push(Buffer.from(tail()))
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
      return { contentType: JSON_TYPE, head: '[', rows: elements(), tail: () => ']' }
    case 'ndjson':
      return { contentType: 'application/x-ndjson', head: '', rows: (rows) => packCells(rows, LINE), tail: () => '' }
    case 'csv':
      return {
        contentType: 'text/csv; charset=utf-8',
        head: packCsv(rowOf(keys)).toString(),
        rows: packCsv,
        tail: () => '',
      }
  }
}

/** Formats the parts of several reads as one object. A row whose cell is null ends a part. */
function objectOf(parts: readonly Part[]): Frame {
  let place = 0
  let list = elements()
  /** Number of rows of the current list. */
  let count = 0
  const keyOf = () => parts[place]?.list?.key
  const comma = () => (place > 0 ? ',' : '')
  const open = () => (keyOf() === undefined ? '' : `${comma()}${JSON.stringify(keyOf())}:[`)
  const close = () => (keyOf() === undefined ? '' : ']')

  function packed(rows: RowMessages): Buffer {
    if (rows.length === 0) return rows
    if (keyOf() !== undefined) return list(rows)
    const fields = packCells(rows, {}).subarray(1, -1)
    return Buffer.concat([Buffer.from(comma()), fields])
  }
  function next(): Buffer {
    const end = close()
    place++
    list = elements()
    count = 0
    return Buffer.from(end + open())
  }
  return {
    contentType: JSON_TYPE,
    head: `{${open()}`,
    rows(rows) {
      const before: Buffer[] = []
      let from = 0
      for (let at = 0; at < rows.length;) {
        const end = at + 1 + rows.readUInt32BE(at + 1)
        if (rows.readInt32BE(at + CELLS) < 0) {
          before.push(packed(rows.subarray(from, at)), next())
          from = end
        } else count++
        at = end
      }
      const last = packed(rows.subarray(from))
      return before.length === 0 ? last : Buffer.concat([...before, last])
    },
    tail: () => `${close()}}`,
    cutOff() {
      const key = keyOf()
      return key === undefined ? undefined : [key, count]
    },
  }
}

/** A `json` column may contain line breaks, but only between tokens, where a space is equivalent. */
const LINE: RowSeparators = { after: 0x0a, oneLine: true }
const ELEMENT: RowSeparators = { before: 0x2c }

/** Formats the elements of one list, with a comma before all but the first. */
function elements(): Frame['rows'] {
  let skip = 1
  return (rows) => {
    const packed = packCells(rows, ELEMENT).subarray(skip)
    skip = 0
    return packed
  }
}

const LF = 0x0a
const CR = 0x0d
const QUOTE = 0x22
const COMMA = 0x2c
/** Two quotes around a cell and the line break after it, in bytes. */
const ROOM = 4
/** Up to this size, copying byte by byte is faster. */
const SHORT_CELL = 48

/**
 * Formats rows as CSV (RFC 4180). Null is empty; the empty string is `""`. Overwrites the memory of the rows unless a
 * cell contains more quotes than the preceding headers leave room for.
 * @returns a part of that memory, or new memory
 */
export function packCsv(rows: RowMessages): Buffer {
  let out = rows
  let to = 0
  for (let at = 0; at < rows.length;) {
    const next = at + 1 + rows.readUInt32BE(at + 1)
    const count = rows.readUInt16BE(at + HEADER)
    let cell = at + CELLS
    for (let i = 0; i < count; i++) {
      const length = rows.readInt32BE(cell)
      const start = cell + LENGTH
      const end = start + Math.max(0, length)
      if (i > 0) out[to++] = COMMA
      const quotes = length < 0 ? undefined : quotesIn(rows, start, end)
      if (quotes === undefined) to = copy(rows, start, end, out, to)
      else {
        if (out === rows && to + quotes + ROOM > start) out = larger(rows, to, cell)
        to = quote(rows, start, end, out, to)
      }
      cell = end
    }
    out[to++] = CR
    out[to++] = LF
    at = next
  }
  return out.subarray(0, to)
}

/** Returns the number of quotes in a cell, or undefined when the cell needs no quoting. */
function quotesIn(bytes: Buffer, start: number, end: number): number | undefined {
  let quotes = 0
  let isSpecial = start === end
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    if (byte > COMMA) continue
    if (byte === QUOTE) quotes++
    else if (byte === COMMA || byte === LF || byte === CR) isSpecial = true
  }
  return isSpecial || quotes > 0 ? quotes : undefined
}

/** @returns the end position in `out` */
function copy(bytes: Buffer, start: number, end: number, out: Buffer, from: number): number {
  if (end - start > SHORT_CELL) return from + bytes.copy(out, from, start, end)
  let to = from
  for (let at = start; at < end; at++) out[to++] = bytes[at] as number
  return to
}

/** @returns the end position in `out` */
function quote(bytes: Buffer, start: number, end: number, out: Buffer, from: number): number {
  let to = from
  out[to++] = QUOTE
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    if (byte === QUOTE) out[to++] = QUOTE
    out[to++] = byte
  }
  out[to++] = QUOTE
  return to
}

/** Returns a larger buffer with the output so far and room for the rest in the worst case. */
function larger(rows: RowMessages, written: number, at: number): Buffer {
  const out = Buffer.allocUnsafe(written + 2 * (rows.length - at))
  rows.copy(out, 0, 0, written)
  return out
}
