import { at, parseFailed, type ServiceError, serviceError } from '../errors.js'

export interface JsonLimits {
  /** Levels of objects and arrays, counted from the root of the document. */
  readonly maxDepth: number
  /** Keys in one object; also different keys in all rows together. */
  readonly maxKeys: number
  /** Objects and arrays in the document, rows not counted: each takes some 200 bytes of memory, for as few as 3 of text. */
  readonly maxContainers: number
}

export const DEFAULT_LIMITS: JsonLimits = { maxDepth: 64, maxKeys: 1000, maxContainers: 250_000 }
/** For who may send metadata as a whole: that of thousands of tables with permissions for many roles. */
export const ADMIN_LIMITS: JsonLimits = { ...DEFAULT_LIMITS, maxContainers: 4_000_000 }
/** For texts of our own. */
export const NO_LIMITS: JsonLimits = { maxDepth: Infinity, maxKeys: Infinity, maxContainers: Infinity }

/** A place in a JSON text. Every function here reads from `pos` on and leaves `pos` behind what it has read. */
export interface Cursor {
  readonly text: string
  readonly limits: JsonLimits
  pos: number
  /** Objects and arrays made so far. */
  containers: number
  /** Keys and indices that lead to the value under way; as long as the number of containers around it. */
  readonly path: (string | number)[]
}

/** What a JSON value is. `integer` is a number without fraction and exponent, `composite` an object or an array. */
export type RowKind = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'composite'

export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d
export const OPEN_BRACKET = 0x5b
export const CLOSE_BRACKET = 0x5d
export const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const MINUS = 0x2d
const PLUS = 0x2b
export const POINT = 0x2e
export const ZERO = 0x30
export const NINE = 0x39
export const LOWER_E = 0x65
const LOWER_F = 0x66
const LOWER_N = 0x6e
const LOWER_T = 0x74
const LOWER_U = 0x75

export function startOf(text: string, limits: JsonLimits): Cursor {
  return { text, limits, pos: 0, containers: 0, path: [] }
}

/** Skips white space. Returns the code unit that follows, NaN at the end. */
export function peek(c: Cursor): number {
  const { text } = c
  let code = text.charCodeAt(c.pos)
  while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = text.charCodeAt(++c.pos)
  return code
}

/** Steps into the container that starts here. False: it is empty, and was left again. */
export function open(c: Cursor, close: number): boolean {
  if (c.path.length >= c.limits.maxDepth) throw refused(c, `more than ${c.limits.maxDepth} levels of nesting`)
  c.pos++
  if (peek(c) !== close) return true
  c.pos++
  return false
}

/** Counts an object or array that is about to be made. */
export function countContainer(c: Cursor): void {
  if (c.containers++ === c.limits.maxContainers)
    throw refused(c, `more than ${c.limits.maxContainers} objects and arrays`)
}

/** After an item of a container: steps to the next one. False: there is none, and the container was left. */
export function next(c: Cursor, close: number): boolean {
  const code = peek(c)
  if (code !== COMMA && code !== close) throw invalid(c, `expecting "," or "${String.fromCharCode(close)}"`)
  c.pos++
  if (code === close) return false
  peek(c)
  return true
}

/** Reads the name of a member; `readColon` must follow. */
export function readKey(c: Cursor): string {
  if (peek(c) !== QUOTE) throw invalid(c, 'expecting a key')
  return readString(c)
}

export function readColon(c: Cursor): void {
  if (peek(c) !== COLON) throw invalid(c, 'expecting ":"')
  c.pos++
}

export function readString(c: Cursor): string {
  const start = c.pos
  return scanString(c) ? unquote(c, start) : c.text.slice(start + 1, c.pos - 1)
}

/** Checks a value of any kind without making it. */
export function skipValue(c: Cursor): RowKind {
  switch (peek(c)) {
    case QUOTE:
      scanString(c)
      return 'string'
    case OPEN_BRACE:
      skipObject(c)
      return 'composite'
    case OPEN_BRACKET:
      skipArray(c)
      return 'composite'
    case LOWER_N:
      scanWord(c, 'null')
      return 'null'
    case LOWER_T:
      scanWord(c, 'true')
      return 'boolean'
    case LOWER_F:
      scanWord(c, 'false')
      return 'boolean'
    default:
      return scanNumber(c) ? 'integer' : 'number'
  }
}

function skipObject(c: Cursor): void {
  const keys = new Set<string>()
  for (let more = open(c, CLOSE_BRACE); more; more = next(c, CLOSE_BRACE)) {
    const key = readKey(c)
    readColon(c)
    if (keys.size === c.limits.maxKeys) throw tooManyKeys(c)
    c.path.push(key)
    if (keys.has(key)) throw duplicateKey(c)
    keys.add(key)
    skipValue(c)
    c.path.pop()
  }
}

function skipArray(c: Cursor): void {
  let index = 0
  for (let more = open(c, CLOSE_BRACKET); more; more = next(c, CLOSE_BRACKET)) {
    c.path.push(index++)
    skipValue(c)
    c.path.pop()
  }
}

export function scanWord(c: Cursor, word: 'null' | 'true' | 'false'): void {
  if (!c.text.startsWith(word, c.pos)) throw invalid(c, 'expecting a value')
  c.pos += word.length
}

/** Returns true when it has digits only, after an optional minus. */
export function scanNumber(c: Cursor): boolean {
  const { text } = c
  const first = text.charCodeAt(c.pos)
  if (first === MINUS) c.pos++
  else if (!isDigit(first)) throw invalid(c, 'expecting a value')

  if (text.charCodeAt(c.pos) === ZERO) c.pos++
  else scanDigits(c)

  let integer = true
  if (text.charCodeAt(c.pos) === POINT) {
    integer = false
    c.pos++
    scanDigits(c)
  }
  if ((text.charCodeAt(c.pos) | 0x20) === LOWER_E) {
    integer = false
    c.pos++
    const sign = text.charCodeAt(c.pos)
    if (sign === PLUS || sign === MINUS) c.pos++
    scanDigits(c)
  }
  return integer
}

function scanDigits(c: Cursor): void {
  const { text } = c
  let pos = c.pos
  while (isDigit(text.charCodeAt(pos))) pos++
  if (pos === c.pos) throw invalid(c, 'expecting a digit')
  c.pos = pos
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE
}

/** Returns true when it has escapes. */
function scanString(c: Cursor): boolean {
  const { text } = c
  const start = c.pos++
  let escaped = false
  let suspect = false
  for (;;) {
    skipPlain(c)
    const code = text.charCodeAt(c.pos)
    if (code === QUOTE) break
    if (code === BACKSLASH) {
      const unit = readEscape(c)
      if (unit === 0 || isSurrogate(unit)) suspect = true
      escaped = true
    } else if (isSurrogate(code)) {
      const paired = code < 0xdc00 && isLowSurrogate(text.charCodeAt(c.pos + 1))
      if (!paired) suspect = true
      c.pos += paired ? 2 : 1
    } else {
      throw invalid(c, c.pos < text.length ? 'control character in a string' : 'string without an end')
    }
  }
  c.pos++
  if (suspect) refuseBrokenText(c, unquote(c, start))
  return escaped
}

/** Steps over all that needs no second look. A sticky pattern does it several times as fast as a loop. */
function skipPlain(c: Cursor): void {
  PLAIN.lastIndex = c.pos
  PLAIN.test(c.text)
  c.pos = PLAIN.lastIndex
}

/** Neither a control character, nor a quote, nor a backslash, nor a surrogate. */
const PLAIN = /[ !#-[\]-\uD7FF\uE000-\uFFFF]*/y

/** Returns the code unit of a `\uXXXX`, -1 for the short escapes, which are never refused. */
function readEscape(c: Cursor): number {
  const letter = c.text.charCodeAt(c.pos + 1)
  if (letter !== LOWER_U) {
    if (!SHORT_ESCAPES.has(letter)) throw invalid(c, 'unknown escape')
    c.pos += 2
    return -1
  }
  let unit = 0
  for (let i = c.pos + 2; i < c.pos + 6; i++) {
    const digit = hexDigit(c.text.charCodeAt(i))
    if (digit < 0) throw invalid(c, 'expecting four hexadecimal digits')
    unit = unit * 16 + digit
  }
  c.pos += 6
  return unit
}

const SHORT_ESCAPES: ReadonlySet<number> = new Set(Array.from('"\\/bfnrt', (letter) => letter.charCodeAt(0)))

function hexDigit(code: number): number {
  if (isDigit(code)) return code - ZERO
  const lower = code | 0x20
  return lower >= 0x61 && lower <= LOWER_F ? lower - 0x61 + 10 : -1
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}

/** The value of the string from `start` up to the cursor, which has been checked. */
function unquote(c: Cursor, start: number): string {
  const value: string = JSON.parse(c.text.slice(start, c.pos))
  return value
}

/** PostgreSQL keeps neither U+0000 nor half a surrogate pair in a text. */
function refuseBrokenText(c: Cursor, text: string): void {
  if (text.includes('\0')) throw refused(c, 'a string cannot hold the character U+0000')
  if (/\p{Surrogate}/u.test(text))
    throw refused(c, 'a string must be well-formed Unicode, this one has a lone surrogate')
}

export function duplicateKey(c: Cursor): ServiceError {
  return refused(c, 'duplicate key')
}

export function tooManyKeys(c: Cursor): ServiceError {
  return refused(c, `more than ${c.limits.maxKeys} keys`)
}

/** It is JSON, and we do not take it. */
export function refused(c: Cursor, message: string): ServiceError {
  return parseFailed(message, pathOf(c))
}

/** It is not JSON. */
export function invalid(c: Cursor, what: string): ServiceError {
  let line = 1
  let start = 0
  for (let end = c.text.indexOf('\n'); end >= 0 && end < c.pos; end = c.text.indexOf('\n', start)) {
    line++
    start = end + 1
  }
  const place = `line ${line} column ${c.pos - start + 1}`
  return serviceError('invalid-json', `invalid json: ${what} at ${place}`, pathOf(c))
}

/** Where in the document the cursor is: `$.args[2].id`. */
export function pathOf(c: Cursor): string {
  return c.path.reduce<string>(at, '$')
}
