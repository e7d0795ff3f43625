import { ServiceError, parseFailed } from '../errors.js'
import { type Json, stringifyJson } from '../json/parse.js'
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  type Cursor,
  DEFAULT_LIMITS,
  duplicateKey,
  invalid,
  next,
  open,
  OPEN_BRACE,
  OPEN_BRACKET,
  pathOf,
  peek,
  QUOTE,
  readColon,
  readKey,
  readString,
  refused,
  scanNumber,
  skipValue,
  startOf,
} from '../json/scan.js'
import type { SqlType } from '../ir.js'

/**
 * Returns the text of a GeoJSON geometry (RFC 7946 section 3.1, and the `crs` of GeoJSON 2008).
 * @param value the geometry, or a text that contains one
 * @throws ServiceError 400 `parse-failed` with the path of the mistake
 */
export function geoJsonText(value: Json, type: SqlType, path: string): string {
  const text = typeof value === 'string' ? value : stringifyJson(value)
  checkText(text, type, path)
  return text
}

/**
 * Checks a geometry, null, or a text that contains a geometry at the cursor. PostGIS alone is too lenient: it reads
 * text among coordinates as 0 and an unknown `crs` as none, drops a fourth coordinate, and stores open rings.
 */
export function checkGeoJson(c: Cursor, type: SqlType): void {
  const code = peek(c)
  if (code === LOWER_N) skipValue(c)
  else if (code === QUOTE) checkText(readString(c), type, pathOf(c))
  else checkGeometry(c, type.kind === 'geography')
}
const LOWER_N = 0x6e

function checkText(text: string, type: SqlType, path: string): void {
  const c = startOf(text, DEFAULT_LIMITS)
  try {
    checkGeometry(c, type.kind === 'geography')
    peek(c)
    if (c.pos < text.length) throw invalid(c, 'expecting the end')
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    throw error.code === 'invalid-json' ? parseFailed(NO_GEOMETRY, path) : error.under(path)
  }
}
const NO_GEOMETRY = 'expecting a GeoJSON geometry'
const NO_ARRAY = 'expecting an array'

function checkGeometry(c: Cursor, isGlobe: boolean, isPart = false): void {
  if (peek(c) !== OPEN_BRACE) throw refused(c, NO_GEOMETRY)
  const places = memberPlaces(c)
  const end = c.pos
  const member = <T>(name: string, read: () => T): T => {
    const place = places.get(name)
    if (place === undefined) throw refused(c, `${NO_GEOMETRY}; the key '${name}' was not present`)
    c.pos = place
    c.path.push(name)
    const result = read()
    c.path.pop()
    return result
  }
  const type = member('type', () => typeAt(c))
  const isLonLat = places.has('crs') ? member('crs', () => sridAt(c, isPart)) === 4326 : true
  const check = { c, isGlobe: isGlobe && isLonLat }
  if (type === 'GeometryCollection') {
    member('geometries', () => {
      // PostGIS can read a nested collection, but cannot write it.
      if (isPart) throw refused(c, 'a collection cannot be part of a collection')
      items(c, () => checkGeometry(c, check.isGlobe, true))
    })
  } else member('coordinates', () => COORDINATES[type](check))
  c.pos = end
}

/** Skips the object and returns the positions of its members' values. */
function memberPlaces(c: Cursor): ReadonlyMap<string, number> {
  const places = new Map<string, number>()
  for (let more = open(c, CLOSE_BRACE); more; more = next(c, CLOSE_BRACE)) {
    const key = readKey(c)
    readColon(c)
    c.path.push(key)
    if (places.has(key)) throw duplicateKey(c)
    peek(c)
    places.set(key, c.pos)
    skipValue(c)
    c.path.pop()
  }
  return places
}

function typeAt(c: Cursor): keyof typeof COORDINATES | 'GeometryCollection' {
  const found = peek(c) === QUOTE ? readString(c) : undefined
  if (found === 'GeometryCollection') return found
  const type = (Object.keys(COORDINATES) as (keyof typeof COORDINATES)[]).find((each) => each === found)
  if (type) return type
  throw refused(c, `expecting the type of a geometry: ${Object.keys(COORDINATES).join(', ')}, GeometryCollection`)
}

/**
 * Reads the `crs`: `{"type": "name", "properties": {"name": "EPSG:3857"}}`, short or as a URN. PostGIS checks that it
 * exists.
 */
function sridAt(c: Cursor, isPart: boolean): number {
  // PostGIS reads only the outermost crs.
  if (isPart) throw refused(c, 'the part of a collection has no crs of its own')
  const start = c.pos
  skipValue(c)
  const srid = CRS.exec(c.text.slice(start, c.pos))?.[1] ?? CRS_TURNED.exec(c.text.slice(start, c.pos))?.[1]
  if (srid !== undefined) return Number(srid)
  throw refused(c, 'expecting {"type": "name", "properties": {"name": "EPSG:<number>"}}')
}
const [TYPE, NAME] = [
  String.raw`\s*"type"\s*:\s*"name"\s*`,
  String.raw`\s*"properties"\s*:\s*\{\s*"name"\s*:\s*"(?:EPSG:|urn:ogc:def:crs:EPSG::)(\d{1,6})"\s*\}\s*`,
]
const CRS = new RegExp(`^\\{${TYPE},${NAME}\\}$`)
const CRS_TURNED = new RegExp(`^\\{${NAME},${TYPE}\\}$`)

interface Check {
  readonly c: Cursor
  /** Whether latitudes must be in range. */
  readonly isGlobe: boolean
}

/** Checks by type. An empty array of coordinates is an empty geometry, as PostGIS writes it. */
const COORDINATES = {
  Point: (check: Check) => void (isEmpty(check.c) ? skipValue(check.c) : position(check)),
  MultiPoint: (check: Check) => void items(check.c, () => position(check)),
  LineString: line,
  MultiLineString: (check: Check) => void items(check.c, () => line(check)),
  Polygon: polygon,
  MultiPolygon: (check: Check) => void items(check.c, () => polygon(check)),
}

function polygon(check: Check): void {
  items(check.c, () => ring(check))
}

function line(check: Check): void {
  if (items(check.c, () => position(check)) === 1) throw refused(check.c, 'expecting two positions or more')
}

function ring(check: Check): void {
  let first: readonly number[] = []
  let last: readonly number[] = []
  const count = items(check.c, (i) => {
    last = position(check)
    if (i === 0) first = last
  })
  if (count >= 4 && first.every((number, i) => number === last[i])) return
  throw refused(check.c, 'expecting four positions or more, the last the same as the first')
}

/** Reads a position in its own loop, because there may be a million. */
function position({ c, isGlobe }: Check): readonly number[] {
  if (peek(c) !== OPEN_BRACKET) throw refused(c, NO_ARRAY)
  const numbers: number[] = []
  for (let more = open(c, CLOSE_BRACKET); more; more = next(c, CLOSE_BRACKET)) {
    c.path.push(numbers.length)
    const number = numberAt(c)
    // PostGIS would continue over the pole to the other side.
    if (isGlobe && numbers.length === 1 && Math.abs(number) > 90) {
      throw refused(c, 'expecting a latitude, from -90 to 90')
    }
    numbers.push(number)
    c.path.pop()
  }
  if (numbers.length !== 2 && numbers.length !== 3) throw refused(c, 'expecting a position: two numbers, or three')
  return numbers
}

function numberAt(c: Cursor): number {
  const start = c.pos
  const code = c.text.charCodeAt(start)
  if (code !== MINUS && !(code >= ZERO && code <= NINE)) throw refused(c, 'expecting a number')
  scanNumber(c)
  const number = Number(c.text.slice(start, c.pos))
  if (Number.isFinite(number)) return number
  throw refused(c, 'the number is too large')
}
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39

/** Reads each item of the array at the cursor. Returns their number. */
function items(c: Cursor, read: (index: number) => void): number {
  if (peek(c) !== OPEN_BRACKET) throw refused(c, NO_ARRAY)
  let count = 0
  for (let more = open(c, CLOSE_BRACKET); more; more = next(c, CLOSE_BRACKET)) {
    c.path.push(count)
    read(count++)
    c.path.pop()
  }
  return count
}

function isEmpty(c: Cursor): boolean {
  const { pos } = c
  const empty = peek(c) === OPEN_BRACKET && !open(c, CLOSE_BRACKET)
  c.pos = pos
  return empty
}
