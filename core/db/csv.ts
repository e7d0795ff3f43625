import { CELLS, HEADER, LENGTH, type RowMessages } from './row-messages.js'

const LF = 0x0a
const CR = 0x0d
const QUOTE = 0x22
const COMMA = 0x2c
/** Two quotes around a cell and the line break after it, in bytes. */
const ROOM = 4
/** Up to this size, copying byte by byte is faster. */
const SHORT = 48

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
  if (end - start > SHORT) return from + bytes.copy(out, from, start, end)
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
