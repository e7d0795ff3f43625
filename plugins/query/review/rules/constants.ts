import { comparesAlways, type SqlType } from 'rowhouse/plan'

/** Returns whether `=` and `<` of a type are those of a total order, so that a value is below, at or above a constant. */
export const isOrdered = (type: SqlType): boolean => NUMBERS.has(type.kind) || comparesAlways(type)
const NUMBERS: ReadonlySet<string> = new Set(['int2', 'int4', 'int8', 'numeric', 'float', 'bool'])

/**
 * What is known about the constants of a type. `ordered`: their order; `distinct`: only that different texts are different
 * values; `none`: nothing, since two texts may mean one value.
 */
interface Scale {
  readonly kind: 'ordered' | 'distinct' | 'none'
  /** Returns a text that is the same for all texts of a value; undefined for a constant of which nothing is known. */
  read(text: string): string | undefined
  /** Of texts that `read` returned. */
  readonly compare: (a: string, b: string) => number
  /** Whether values are whole numbers, and the least and the greatest of them. */
  readonly whole?: { readonly least: bigint; readonly most: bigint }
}

/** Returns the scale of a type. A domain is known by the kind of its base type. */
export function scaleOf(type: SqlType): Scale {
  const bits = INTEGER_BITS[type.kind]
  if (bits !== undefined) {
    const whole = { least: -(1n << bits), most: (1n << bits) - 1n }
    return { kind: 'ordered', read: matching(/^-?\d{1,19}$/, (text) => String(BigInt(text))), compare: byNumber, whole }
  }
  if (type.kind === 'bool') {
    const read = (text: string) => (text === 'true' ? '1' : text === 'false' ? '0' : undefined)
    return { kind: 'ordered', read, compare: byNumber, whole: { least: 0n, most: 1n } }
  }
  if (type.kind === 'numeric')
    return { kind: 'ordered', read: matching(/^-?\d{1,99}(\.\d{1,99})?$/, decimal), compare: byNumber }
  if (type.kind === 'float') {
    // With so few digits, different decimals are different values in the same order.
    const pattern = type.name === 'float8' ? /^-?(?=[\d.]{1,15}$)\d+(\.\d+)?$/ : /^-?(?=[\d.]{1,6}$)\d+(\.\d+)?$/
    return { kind: 'ordered', read: matching(pattern, decimal), compare: byNumber }
  }
  if (type.enum) return { kind: 'distinct', read: (text) => text, compare: byText }
  if (type.schema !== 'pg_catalog') return NOTHING
  switch (type.name) {
    case 'date':
      return timeScale(/^(?!0000)\d{4}-\d\d-\d\d$/, (text) => BigInt(Date.parse(text)) / 86_400_000n)
    case 'timestamp':
      return timeScale(TIME, microseconds)
    case 'timestamptz':
      return timeScale(TIME_IN_UTC, microseconds)
    case 'text':
    case 'varchar':
      return type.nondeterministic ? NOTHING : { kind: 'distinct', read: (text) => text, compare: byText }
    case 'uuid':
      return { kind: 'distinct', read: matching(UUID, (text) => text.toLowerCase()), compare: byText }
    default:
      return NOTHING
  }
}

const INTEGER_BITS: Readonly<Record<string, bigint>> = { int2: 15n, int4: 31n, int8: 63n }
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i

const TIME = /^(?!0000)\d{4}-\d\d-\d\d[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?$/
const TIME_IN_UTC = new RegExp(`${TIME.source.slice(0, -1)}Z$`)

/** Returns the scale of points in time, which are whole numbers of a unit. PostgreSQL reads no constant beyond a bound. */
function timeScale(pattern: RegExp, read: (text: string) => bigint): Scale {
  const whole = { least: -(10n ** 18n), most: 10n ** 18n }
  const isDate = (text: string) => pattern.test(text) && isDay(text.slice(0, 10))
  return {
    kind: 'ordered',
    read: (text) => (isDate(text) ? String(read(text)) : undefined),
    compare: byNumber,
    whole,
  }
}
/** `Date` takes February 30 for a day in March. */
function isDay(text: string): boolean {
  const time = Date.parse(text)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}
function microseconds(text: string): bigint {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? ''
  return BigInt(Date.parse(`${text.slice(0, 10)}T${text.slice(11, 19)}Z`)) * 1000n + BigInt(fraction.padEnd(6, '0'))
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
const NOTHING: Scale = { kind: 'none', read: () => undefined, compare: byText }

const matching =
  (pattern: RegExp, read: (text: string) => string) =>
  (text: string): string | undefined =>
    pattern.test(text) ? read(text) : undefined

/** Writes a decimal number without what does not count: `-1.5` for `-01.50`. */
function decimal(text: string): string {
  const [, sign = '', whole = '', fraction = ''] = /^(-?)0*(\d+?)(?:\.(\d*?)0*)?$/.exec(text) ?? []
  const digits = fraction === '' ? whole : `${whole}.${fraction}`
  return digits === '0' ? digits : sign + digits
}

function byNumber(a: string, b: string): number {
  const places = Math.max(placesOf(a), placesOf(b))
  const [x, y] = [scaled(a, places), scaled(b, places)]
  return x < y ? -1 : x > y ? 1 : 0
}
const placesOf = (text: string): number => (text.includes('.') ? text.length - text.indexOf('.') - 1 : 0)
const scaled = (text: string, places: number): bigint =>
  BigInt(text.replace('.', '') + '0'.repeat(places - placesOf(text)))

/**
 * Returns the texts of the elements of an array, as `encodeArray` writes it: `{"a\"b",1}`.
 * @returns undefined for an array with nulls or with arrays in it
 */
export function elementsOf(array: string): readonly string[] | undefined {
  if (!LIST.test(array)) return undefined
  return [...array.slice(1, -1).matchAll(ELEMENT)].map(([element]) =>
    element.startsWith('"') ? element.slice(1, -1).replaceAll(/\\(.)/gs, '$1') : element,
  )
}
const ELEMENT = /"(?:[^"\\]|\\.)*"|-?\d+/gs
const LIST = /^\{(?:(?:"(?:[^"\\]|\\.)*"|-?\d+)(?:,(?!\})|(?=\})))*\}$/s
