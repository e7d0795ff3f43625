import { at, parseFailed, type ServiceError, serviceError } from '../errors.js'

export interface JsonLimits {
  /** Maximum depth of objects and arrays, counted from the root. */
  readonly maxDepth: number
  /** Maximum number of keys in one object, and of different keys in all rows together. */
  readonly maxKeys: number
  /**
   * Maximum number of objects and arrays excluding rows. Each takes some 200 bytes of memory for as few as 3 of text.
   */
  readonly maxContainers: number
  /** Maximum number of values of any kind excluding rows. Absent: no limit. */
  readonly maxValues?: number
  /** Name of the setting for `maxValues`, used in the message. */
  readonly setting?: string
}

export const DEFAULT_LIMITS: JsonLimits = { maxDepth: 64, maxKeys: 1000, maxContainers: 250_000 }
/** Limits for callers who may send whole metadata: thousands of tables with permissions for many roles. */
export const ADMIN_LIMITS: JsonLimits = { ...DEFAULT_LIMITS, maxContainers: 4_000_000 }
/** Limits for trusted texts. */
export const NO_LIMITS: JsonLimits = { maxDepth: Infinity, maxKeys: Infinity, maxContainers: Infinity }

/** A position in a JSON text. Every function here reads from `pos` and advances it past what it read. */
export interface Cursor {
  readonly text: string
  readonly limits: JsonLimits
  pos: number
  /** Number of objects and arrays created so far. */
  containers: number
  /** Number of values that may still be created. */
  left: number
  /** Number of values that have been checked without creating them. */
  skipped: number
  /** Keys and indexes that lead to the current value, one per enclosing container. */
  readonly path: (string | number)[]
}

/** The kind of a JSON value. `integer` is a number without fraction and exponent, `composite` an object or an array. */
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

/** A small integer, which V8 counts fastest; no text has as many values. */
const MOST = 2 ** 30 - 1

export function startOf(text: string, limits: JsonLimits): Cursor {
  return { text, limits, pos: 0, containers: 0, left: limits.maxValues ?? MOST, skipped: 0, path: [] }
}

/** Skips white space. Returns the next code unit, or NaN at the end. */
export function peek(c: Cursor): number {
  const { text } = c
  let code = text.charCodeAt(c.pos)
  while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = text.charCodeAt(++c.pos)
  return code
}

/** Enters a container. Returns false for an empty one, which is then left. */
export function open(c: Cursor, close: number): boolean {
  if (c.path.length >= c.limits.maxDepth) throw refused(c, `more than ${c.limits.maxDepth} levels of nesting`)
  c.pos++
  if (peek(c) !== close) return true
  c.pos++
  return false
}

/** Counts an object or array before it is created. */
export function countContainer(c: Cursor): void {
  if (c.containers++ === c.limits.maxContainers)
    throw refused(c, `more than ${c.limits.maxContainers} objects and arrays`)
}

/** Moves to the next item of a container. Returns false at the end, after leaving the container. */
export function next(c: Cursor, close: number): boolean {
  const code = peek(c)
  if (code !== COMMA && code !== close) throw invalid(c, `expecting "," or "${String.fromCharCode(close)}"`)
  c.pos++
  if (code === close) return false
  peek(c)
  return true
}

/** Reads the name of a member. Call `readColon` next. */
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

/** Checks a value of any kind without creating it. */
export function skipValue(c: Cursor): RowKind {
  c.skipped++
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

/** Returns whether the number consists of digits after an optional minus. */
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

/** Returns whether the string contains escapes. */
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

/** Skips ordinary characters. A sticky pattern is several times as fast as a loop. */
function skipPlain(c: Cursor): void {
  PLAIN.lastIndex = c.pos
  PLAIN.test(c.text)
  c.pos = PLAIN.lastIndex
}

/** Matches everything except control characters, quotes, backslashes and surrogates. */
const PLAIN = /[ !#-[\]-\uD7FF\uE000-\uFFFF]*/y

/** Returns the code unit of a `\uXXXX` escape, or -1 for a short escape, which is always valid. */
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

/** Returns the value of the checked string from `start` to the cursor. */
function unquote(c: Cursor, start: number): string {
  const value: string = JSON.parse(c.text.slice(start, c.pos))
  return value
}

/** Refuses U+0000 and lone surrogates, which PostgreSQL cannot store in text. */
function refuseBrokenText(c: Cursor, text: string): void {
  if (text.includes('\0')) throw refused(c, 'a string cannot hold the character U+0000')
  if (/\p{Surrogate}/u.test(text))
    throw refused(c, 'a string must be well-formed Unicode, this one has a lone surrogate')
}

export function tooManyValues({ limits: { maxValues, setting } }: Cursor): ServiceError {
  const message = `the body has more than ${maxValues} values${setting ? ` (${setting})` : ''}; rows in "objects" do not count`
  return serviceError('payload-too-large', message)
}

export function duplicateKey(c: Cursor): ServiceError {
  return refused(c, 'duplicate key')
}

export function tooManyKeys(c: Cursor): ServiceError {
  return refused(c, `more than ${c.limits.maxKeys} keys`)
}

/** Returns the error for valid JSON that is not accepted. */
export function refused(c: Cursor, message: string): ServiceError {
  return parseFailed(message, pathOf(c))
}

/** Returns the error for invalid JSON. */
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

/** Returns the path of the cursor in the document: `$.args[2].id`. */
export function pathOf(c: Cursor): string {
  return c.path.reduce<string>(at, '$')
}
