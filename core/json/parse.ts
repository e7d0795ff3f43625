import { isUtf8 } from 'node:buffer'
import { serviceError } from '../errors.js'
import { readRows } from './rows.js'
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  countContainer,
  type Cursor,
  DEFAULT_LIMITS,
  duplicateKey,
  invalid,
  type JsonLimits,
  LOWER_E,
  next,
  NINE,
  open,
  OPEN_BRACE,
  OPEN_BRACKET,
  peek,
  POINT,
  QUOTE,
  readColon,
  readKey,
  readString,
  scanNumber,
  scanWord,
  startOf,
  tooManyKeys,
  tooManyValues,
  ZERO,
} from './scan.js'
import { BareObject, type Json, type JsonObject, keepKeys, NumberText } from './value.js'

export { Rows, type RowsColumn, type RowsGroup } from './rows.js'
export { ADMIN_LIMITS, DEFAULT_LIMITS, NO_LIMITS } from './scan.js'
export type { JsonLimits, RowKind } from './scan.js'
export { indented, rowsOf, rowsOfText, stringifyJson } from './stringify.js'
export { BareObject, isObject, type Json, type JsonObject, keepKeys, keysOf, NumberText, writtenKeys } from './value.js'

/**
 * Parses a JSON document (RFC 8259) in one pass and, unlike `JSON.parse`, keeps the digits of numbers. Integer-like
 * keys come first in an object, as in all JavaScript objects; `keysOf` and `stringifyJson` know their order.
 * @param rowsAt matches the paths, such as `/args/objects`, of arrays under a key `objects` that are checked and kept as text
 * @throws ServiceError 400 `invalid-json` for invalid JSON; 400 `parse-failed` with the path for nesting and key counts
 *   over the limits, duplicate keys, lone surrogates, U+0000, and rows that are not objects
 */
export function parseJson(text: string, limits: JsonLimits = DEFAULT_LIMITS, rowsAt?: RegExp): Json {
  const c = startOf(text, limits)
  if (text.startsWith('\uFEFF')) throw invalid(c, 'byte order mark')
  const value = readValue(c, rowsAt)
  peek(c)
  if (c.pos < text.length) throw invalid(c, 'expecting the end')
  return value
}

/** Reads the value at a cursor. */
export const readJson = (c: Cursor): Json => readValue(c, undefined)

/** @throws ServiceError 400 `invalid-json` */
export function decodeUtf8(body: Buffer): string {
  if (!isUtf8(body)) throw serviceError('invalid-json', 'the body is not valid UTF-8')
  return body.toString('utf8')
}

function readValue(c: Cursor, rowsAt: RegExp | undefined): Json {
  if (c.left-- === 0) throw tooManyValues(c)
  switch (peek(c)) {
    case QUOTE:
      return readString(c)
    case OPEN_BRACE:
      return readObject(c, rowsAt)
    case OPEN_BRACKET:
      return isRowsAt(c, rowsAt) ? readRows(c) : readArray(c, rowsAt)
    case 0x6e: // n
      scanWord(c, 'null')
      return null
    case 0x74: // t
      scanWord(c, 'true')
      return true
    case 0x66: // f
      scanWord(c, 'false')
      return false
    default:
      return readNumber(c)
  }
}

function isRowsAt(c: Cursor, rowsAt: RegExp | undefined): boolean {
  return c.path.at(-1) === 'objects' && rowsAt?.test(`/${c.path.join('/')}`) === true
}

function readObject(c: Cursor, rowsAt: RegExp | undefined): JsonObject {
  countContainer(c)
  const object = new BareObject()
  let keys = 0
  /** All keys so far, once JavaScript would order them differently. */
  let ordered: string[] | undefined
  for (let more = open(c, CLOSE_BRACE); more; more = next(c, CLOSE_BRACE)) {
    const key = readKey(c)
    readColon(c)
    if (keys++ === c.limits.maxKeys) throw tooManyKeys(c)
    c.path.push(key)
    if (object[key] !== undefined) throw duplicateKey(c)
    if (ordered) ordered.push(key)
    else if (key.charCodeAt(0) <= NINE && isIndex(key)) ordered = [...Object.keys(object), key]
    object[key] = readValue(c, rowsAt)
    c.path.pop()
  }
  if (ordered && ordered.length > 1) keepKeys(object, ordered)
  return object
}

/** Returns whether JavaScript puts a key first, in the order of numbers. */
const isIndex = (key: string): boolean => /^(0|[1-9]\d{0,9})$/.test(key)

function readArray(c: Cursor, rowsAt: RegExp | undefined): Json[] {
  countContainer(c)
  const array: Json[] = []
  for (let more = open(c, CLOSE_BRACKET); more; more = next(c, CLOSE_BRACKET)) {
    c.path.push(array.length)
    array.push(readValue(c, rowsAt))
    c.path.pop()
  }
  return array
}

function readNumber(c: Cursor): number | NumberText {
  return readShortInteger(c) ?? readAnyNumber(c)
}

/**
 * Reads a plain integer of up to 15 digits, as most numbers are. Returns undefined without advancing for anything else.
 */
function readShortInteger(c: Cursor): number | undefined {
  const { text, pos: start } = c
  let pos = start
  let value = 0
  let code = text.charCodeAt(pos)
  if (code === ZERO) return undefined
  while (code >= ZERO && code <= NINE) {
    value = value * 10 + (code - ZERO)
    code = text.charCodeAt(++pos)
  }
  if (pos === start || pos - start > 15 || code === POINT || (code | 0x20) === LOWER_E) return undefined
  c.pos = pos
  return value
}

function readAnyNumber(c: Cursor): number | NumberText {
  const start = c.pos
  const integer = scanNumber(c)
  const text = c.text.slice(start, c.pos)
  const value = Number(text)
  const exact = integer && text.length < 16 ? text !== '-0' : String(value) === text
  return exact ? value : new NumberText(text)
}
