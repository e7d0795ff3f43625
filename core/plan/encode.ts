import { at, parseFailed, unexpectedPayload } from '../errors.js'
import {
  isObject,
  type Json,
  type JsonObject,
  NO_LIMITS,
  NumberText,
  parseJson,
  Rows,
  stringifyJson,
} from '../json/parse.js'
import { geoJsonText } from './geojson.js'
import { type Composed, isGeo, type Operand, type SqlType, type TypeKind } from '../ir.js'

/**
 * Encodes a JSON value as PostgreSQL's text for a type. Strings are accepted for any type and validated by PostgreSQL;
 * other JSON must match the type.
 * @throws ServiceError 400 `parse-failed` with the path of the value
 */
export function encode(value: Json, type: SqlType, path: string): string {
  if (type.kind === 'json' || type.kind === 'jsonb') return stringifyJson(value)
  if (type.kind === 'hstore' && isObject(value)) return encodeHstore(value, path)
  if (type.kind === 'geometry' || type.kind === 'geography') return geoJsonText(value, type, path)
  if (type.part && isElement(value)) return rangeOf(String(value instanceof NumberText ? value.text : value), type)
  if (typeof value === 'string') {
    if (type.search) return checkSearch(value, type.search, path)
    if (type.labelNames) return type.labelNames.find(([name]) => name === value)?.[1] ?? value
    return type.pattern ? checkPattern(value, path) : value
  }
  if (type.kind === 'array' && Array.isArray(value)) return encodeArray(value, type, path)
  if (typeof value === 'number' || value instanceof NumberText) {
    if (typeof value === 'number' && fitsExactly(type.kind, value)) return String(value)
    const text = numberFor(type.kind, value instanceof NumberText ? value.text : String(value))
    if (text !== undefined) return text
  } else if (typeof value === 'boolean' && type.kind === 'bool') return value ? 'true' : 'false'
  else if (isObject(value) && type.kind === 'row') return stringifyJson(readable(value, type, path))
  throw parseFailed(`expecting ${expected(type)}, but found ${describe(value)}`, path)
}

type Constant = Extract<Operand, { readonly kind: 'const' }>
const places = new WeakMap<Operand, string>()

/** Returns a value of a definition. Where it is written is known until the definition is stored. */
export function constantAt(value: Json, type: SqlType, path: string): Constant {
  const constant: Constant = { kind: 'const', value: encode(value, type, path), type }
  places.set(constant, path)
  return constant
}
/** Returns where a constant is written, if `constantAt` made it. */
export const placeOf = (constant: Operand): string | undefined => places.get(constant)

/** Returns a value whose parts come from slots. */
export const composedOf = (parts: Composed, values: readonly Json[]): Json =>
  parseJson(
    parts.map((part) => (typeof part === 'string' ? part : stringifyJson(values[part] as Json))).join(''),
    NO_LIMITS,
  )

/**
 * Refuses a LIKE pattern that ends in the escape character. PostgreSQL refuses it too (22025), but only when a value
 * matches everything before it, so the error would reveal hidden rows.
 * @throws ServiceError 400 `parse-failed`
 */
export function checkPattern(pattern: string, path: string): string {
  let end = pattern.length
  while (pattern[end - 1] === '\\') end--
  if ((pattern.length - end) % 2 === 0) return pattern
  throw parseFailed('a pattern must not end with the escape character "\\"; write "\\\\" for a backslash', path)
}

/**
 * Refuses what PostgreSQL would refuse only when it meets a row: a word too long for a query, and a language by number.
 * @throws ServiceError 400 `parse-failed`
 */
function checkSearch(value: string, part: 'query' | 'language', path: string): string {
  if (part === 'language') {
    if (/^[a-z_]\w*(\.[a-z_]\w*)?$/i.test(value)) return value
    throw parseFailed('expecting the name of a text search configuration, such as "english"', path)
  }
  if (value.length <= LONGEST_SEARCH) return value
  throw parseFailed(`a full-text query has at most ${LONGEST_SEARCH} characters`, path)
}
/** A word of a query may have 2,046 bytes, in lower case. */
const LONGEST_SEARCH = 500

const isElement = (value: Json): value is string | number | NumberText =>
  typeof value === 'string' || typeof value === 'number' || value instanceof NumberText

/** Encodes an element as the range that contains only it, and a range as a multirange where one is compared with. */
function rangeOf(text: string, { kind }: SqlType): string {
  const range = RANGE.test(text) ? text : `[${quoted(text)},${quoted(text)}]`
  return kind === 'multirange' && !/^\s*\{/.test(range) ? `{${range}}` : range
}
const RANGE = /^\s*(?:[[({]|empty\s*$)/i

/** Encodes an hstore: `"a"=>"1","b"=>NULL`. Its values are strings and nulls. */
function encodeHstore(value: JsonObject, path: string): string {
  const pairs = Object.entries(value).map(([key, each]) => {
    if (each !== null && typeof each !== 'string') {
      throw parseFailed(`expecting a string or null, but found ${describe(each)}`, at(path, key))
    }
    return `${quoted(key)}=>${each === null ? 'NULL' : quoted(each)}`
  })
  return pairs.join(',')
}

/** Returns a composite value, or a list of them, as PostgreSQL reads it from JSON: as texts where it does not know how. */
export function readable(value: Json, type: SqlType, path: string): Json {
  const { element, fields } = type
  if (Array.isArray(value) && element?.fields) {
    return value.map((each, i) => readable(each, Array.isArray(each) ? type : element, at(path, i)))
  }
  if (isObject(value) && fields) {
    const read = Object.entries(value).map(([name, each]) => {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (!field || each === null) return [name, each] as const
      const here = at(path, name)
      return [name, hasFields(field) ? readable(each, field, here) : encode(each, field, here)] as const
    })
    return Object.fromEntries(read)
  }
  return value
}
export const hasFields = ({ fields, element }: SqlType): boolean => (fields ?? element?.fields) !== undefined

/** Encodes an array: `{"a",NULL,"b"}`. */
export function encodeArray(values: readonly Json[], type: SqlType, path: string): string {
  const { element } = type
  if (!element) throw unexpectedPayload(`type "${type.name}" takes no list`, path)
  if (element.kind === 'row' && values.some(isObject)) return stringifyJson(readable([...values], type, path))
  const known = values.length > LONG_ARRAY ? encoded.get(values) : undefined
  if (known?.type === type) return known.text
  const texts: string[] = []
  for (let from = 0; from < values.length; from += PIECE) texts.push(encodePiece(values, from, type, element, path))
  return `{${texts.join(',')}}`
}

/** Arrays with more elements are encoded while other work goes on. */
export const LONG_ARRAY = 10_000

/**
 * Encodes an array piece by piece, so that `encode` finds its text.
 * @param pause waits while other work goes on
 */
export async function encodeLongArray(
  values: readonly Json[],
  type: SqlType,
  path: string,
  pause: () => Promise<void>,
): Promise<void> {
  const { kind, element } = type
  if (kind !== 'array' || !element || element.kind === 'row') return
  const texts: string[] = []
  for (let from = 0; from < values.length; from += PIECE) {
    texts.push(encodePiece(values, from, type, element, path))
    if (texts.length % TOGETHER === 0) await pause()
  }
  encoded.set(values, { type, text: `{${texts.join(',')}}` })
}

/** Texts of long arrays. */
const encoded = new WeakMap<readonly Json[], { readonly type: SqlType; readonly text: string }>()
/** Elements that are joined at once. A text that grows by each of a million would leave a million pieces to collect. */
const PIECE = 1000
/** Pieces between which no other work runs. */
const TOGETHER = 5

function encodePiece(values: readonly Json[], from: number, type: SqlType, element: SqlType, path: string): string {
  const nests = !type.list && element.kind !== 'json' && element.kind !== 'jsonb'
  const parts: string[] = []
  const end = Math.min(from + PIECE, values.length)
  for (let i = from; i < end; i++) {
    const value = values[i] as Json
    if (value === null) parts.push('NULL')
    else if (nests && Array.isArray(value)) parts.push(encodeArray(value, type, at(path, i)))
    else parts.push(plainElement(value, element) ?? quoted(encode(value, element, at(path, i))))
  }
  return parts.join(',')
}

/** Encodes common elements without computing a path, because a list of a million is bound on the main thread. */
function plainElement(value: Json, type: SqlType): string | undefined {
  if (typeof value === 'number') return fitsExactly(type.kind, value) ? String(value) : undefined
  if (value instanceof NumberText && SHORT_WHOLE.test(value.text)) {
    const number = Number(value.text)
    return fitsExactly(type.kind, number) ? `"${number}"` : undefined
  }
  if (typeof value !== 'string' || type.kind === 'json' || type.kind === 'jsonb' || isGeo(type)) return undefined
  if (type.labelNames) return undefined
  return quoted(value)
}

const quoted = (text: string): string => `"${SPECIAL.test(text) ? text.replace(ALL_SPECIAL, '\\$&') : text}"`
const SPECIAL = /["\\]/
const ALL_SPECIAL = /["\\]/g

export function describe(value: Json): string {
  if (value === null) return 'null'
  if (Array.isArray(value) || value instanceof Rows) return 'an array'
  if (value instanceof NumberText || typeof value === 'number') return 'a number'
  if (typeof value === 'boolean') return 'a boolean'
  return typeof value === 'string' ? 'a string' : 'an object'
}

const INTEGER_BITS: Partial<Record<TypeKind, bigint>> = { int2: 15n, int4: 31n, int8: 63n }

/** Returns whether a type holds whole numbers. */
export const isWhole = ({ kind }: SqlType): boolean => INTEGER_BITS[kind] !== undefined

/** Returns whether a number certainly fits an integer type. */
function fitsExactly(kind: TypeKind, value: number): boolean {
  const bound = INTEGER_BOUND[kind]
  return bound !== undefined && Number.isInteger(value) && value >= -bound && value < bound
}

/** Bounds of the types. Every integer that a number represents exactly is within int8. */
const INTEGER_BOUND: Partial<Record<TypeKind, number>> = { int2: 2 ** 15, int4: 2 ** 31, int8: 2 ** 53 }

/** Returns a number as a type takes it, or undefined. */
function numberFor(kind: TypeKind, text: string): string | undefined {
  const bits = INTEGER_BITS[kind]
  if (bits === undefined) return kind === 'float' || kind === 'numeric' || kind === 'other' ? text : undefined
  const whole = wholeNumber(text)
  return whole !== undefined && whole >= -(1n << bits) && whole < 1n << bits ? String(whole) : undefined
}

/**
 * Returns a whole number within int8, however it is written: `1`, `1.0`, `10e-1` or `-0`. Some languages write all of their
 * numbers like that.
 */
export function wholeNumber(text: string): bigint | undefined {
  if (SHORT_WHOLE.test(text)) return BigInt(Number(text))
  if (text.length > LONGEST_WHOLE) return undefined
  const [, sign = '', whole = '', part = '', power = '0'] = NUMBER.exec(text) ?? []
  const digits = `${whole}${part}`.replace(/^0+/, '').replace(/0+$/, '')
  if (digits === '') return whole === '' ? undefined : 0n
  const zeros = `${whole}${part}`.replace(/^0+/, '').length - digits.length + Number(power) - part.length
  if (zeros < 0 || digits.length + zeros > MOST_DIGITS) return undefined
  const value = BigInt(`${sign}${digits}${'0'.repeat(zeros)}`)
  return BigInt.asIntN(64, value) === value ? value : undefined
}
const SHORT_WHOLE = /^-?\d{1,15}(?:\.0{1,15})?$/
/** No whole number within int8 needs more characters, and the patterns below take quadratic time. */
const LONGEST_WHOLE = 100
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/
/** Of int8. */
const MOST_DIGITS = 19

/** Returns a value in which whole numbers are digits, for a type whose text has only these. */
export function withDigits(value: Json, type: SqlType): Json {
  const { element } = type
  if (Array.isArray(value) && element) {
    return value.map((each) => withDigits(each, Array.isArray(each) ? type : element))
  }
  const whole = value instanceof NumberText && isWhole(type) ? wholeNumber(value.text) : undefined
  return whole === undefined ? value : new NumberText(String(whole))
}

function expected(type: SqlType): string {
  switch (type.kind) {
    case 'int2':
    case 'int4':
    case 'int8':
      return `a whole number in the range of ${type.name}`
    case 'float':
    case 'numeric':
      return 'a number'
    case 'bool':
      return 'a boolean'
    case 'text':
      return 'a string'
    case 'array':
      return 'an array'
    case 'row':
      return 'an object'
    case 'json':
    case 'jsonb':
      return 'JSON'
    case 'hstore':
      return 'an object of strings and nulls'
    case 'range':
    case 'multirange':
      return `a string for type ${type.name}${type.part ? ', or an element of it' : ''}`
    case 'geometry':
    case 'geography':
      return 'a GeoJSON geometry'
    case 'other':
      return `a string for type ${type.name}`
  }
}
