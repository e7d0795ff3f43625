import { CELLS, HEADER, LENGTH, type RowMessages } from './row-messages.js'

const LF = 0x0a
const CR = 0x0d
const QUOTE = 0x22
const COMMA = 0x2c
/** Two quotes around a cell, and a line end after it. */
const ROOM = 4
/** So few bytes are copied faster one by one. */
const SHORT = 48

/**
 * Makes CSV of rows: RFC 4180; null is empty, the empty string is `""`. It takes the memory that the rows are in, unless a
 * cell has more quotes than the headers before it leave room for.
 * @returns a part of that memory, or memory of its own
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

/** How many quotes a cell has, or undefined when none are needed around it either. */
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

/** @returns where it ends in `out` */
function copy(bytes: Buffer, start: number, end: number, out: Buffer, from: number): number {
  if (end - start > SHORT) return from + bytes.copy(out, from, start, end)
  let to = from
  for (let at = start; at < end; at++) out[to++] = bytes[at] as number
  return to
}

/** @returns where it ends in `out` */
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

/** What has been written, with room for all that follows if it were quotes alone. */
function larger(rows: RowMessages, written: number, at: number): Buffer {
  const out = Buffer.allocUnsafe(written + 2 * (rows.length - at))
  rows.copy(out, 0, 0, written)
  return out
}
