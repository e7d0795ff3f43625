import { at, parseFailed, ServiceError } from '../errors.js'
import { type Json, readJson, type RowKind, type Rows, stringifyJson } from '../json/parse.js'
import { type Cursor, OPEN_BRACE, OPEN_BRACKET, pathOf, peek, skipValue } from '../json/scan.js'
import { encode, hasFields, isWhole, readable, withDigits } from '../plan/encode.js'
import { checkGeoJson } from '../plan/geojson.js'
import { isGeo, type SqlType, type TypeKind } from '../ir.js'

/** The columns of rows to insert. */
export type RowsColumns = readonly { readonly name: string; readonly type: SqlType }[]

const PATH = '$.args.objects'

/**
 * Returns the text of rows for PostgreSQL: as it is, except that a whole number such as `1.0` is `1`, and that some fields of
 * composites are texts. Few clients send any.
 * @throws ServiceError 400 with the path of a value that PostgreSQL would refuse without a position, or misinterpret
 */
export function bindRows(rows: Rows, columns: RowsColumns): string {
  const bound = known.get(rows)?.find(([of]) => of === columns)
  if (bound) return bound[1]
  refuseUnfit(rows, columns)
  const cells = cellsToRead(rows, columns)
  return cells.size === 0 ? rows.source : readCells(rows, cells)
}

/** Returns whether `bindRows` has to read the cells of a column, so that long rows take long. */
export const mustRead = (rows: Rows, columns: RowsColumns): boolean =>
  !known.get(rows)?.some(([of]) => of === columns) && cellsToRead(rows, columns).size > 0

function refuseUnfit(rows: Rows, columns: RowsColumns): void {
  for (const { name, type } of columns) {
    const first = rows.columns.get(name)?.first
    if (!first) continue
    const wrong = UNFIT[type.kind].map((kind) => ({ kind, row: first[kind] })).filter(({ row }) => row >= 0)
    const worst = wrong.sort((a, b) => a.row - b.row)[0]
    if (worst) {
      throw parseFailed(
        `column "${name}" is of type ${type.name} and takes no ${worst.kind} value`,
        at(at(PATH, worst.row), name),
      )
    }
  }
}

/** Reads a cell, and returns other text for it, or undefined. */
type ReadCell = (c: Cursor) => string | undefined

function cellsToRead({ columns }: Rows, types: RowsColumns): ReadonlyMap<string, ReadCell> {
  return new Map(
    types.flatMap(({ name, type }): (readonly [string, ReadCell])[] => {
      const first = columns.get(name)?.first
      if (!first) return []
      if (isGeo(type)) return [[name, (c) => geoCell(c, type)]]
      if (isWhole(type) && first.number >= 0) return [[name, (c) => wholeCell(c, type)]]
      if (hasFields(type)) return first.composite >= 0 ? [[name, (c) => compositeCell(c, type)]] : []
      const isList = (type.kind === 'array' || type.kind === 'hstore') && first.composite >= 0
      return isList ? [[name, (c) => listCell(c, type)]] : []
    }),
  )
}

const MANY = 10_000

function readCells(rows: Rows, cells: ReadonlyMap<string, ReadCell>): string {
  const { source } = rows
  const texts: string[] = []
  let parts: string[] = []
  let end = 0
  try {
    rows.visit(cells, (c, read) => {
      peek(c)
      const start = c.pos
      const text = read(c)
      if (text === undefined) return
      parts.push(source.slice(end, start), text)
      end = c.pos
      // A slice takes more memory than most cells.
      if (parts.length < MANY) return
      texts.push(parts.join(''))
      parts = []
    })
  } catch (error) {
    throw error instanceof ServiceError ? error.under(PATH) : error
  }
  return end === 0 ? source : texts.join('') + parts.join('') + source.slice(end)
}

function geoCell(c: Cursor, type: SqlType): undefined {
  checkGeoJson(c, type)
}

/** Returns the digits of a number with a fraction or an exponent, as PostgreSQL reads whole numbers. */
function wholeCell(c: Cursor, type: SqlType): string | undefined {
  const start = c.pos
  if (skipValue(c) !== 'number') return undefined
  c.pos = start
  const value = readJson(c)
  return within(c, () => encode(value, type, '$'))
}

/** Checks the elements of an array or hstore, because PostgreSQL would convert a number in an array of texts. */
function listCell(c: Cursor, type: SqlType): string | undefined {
  const { pos: start, text } = c
  const value = readComposite(c)
  if (value === undefined) return undefined
  within(c, () => encode(value, type, '$'))
  const mayDiffer = type.element && isWhole(type.element) && /[.eE]/.test(text.slice(start, c.pos))
  return mayDiffer ? stringifyJson(withDigits(value, type)) : undefined
}

/** Returns a composite, or a list of them, as PostgreSQL reads it from JSON. */
function compositeCell(c: Cursor, type: SqlType): string | undefined {
  const value = readComposite(c)
  if (value === undefined) return undefined
  return within(c, () => {
    if (type.kind === 'array') encode(value, type, '$')
    return stringifyJson(readable(value, type, '$'))
  })
}

/** Returns a list or an object; skips other values. */
function readComposite(c: Cursor): Json | undefined {
  const code = peek(c)
  if (code === OPEN_BRACKET || code === OPEN_BRACE) return readJson(c)
  skipValue(c)
  return undefined
}

/** @throws ServiceError 400 with the path in the rows */
function within(c: Cursor, read: () => string): string {
  try {
    return read()
  } catch (error) {
    throw error instanceof ServiceError ? error.under(pathOf(c)) : error
  }
}

/** Texts of rows that were read elsewhere, with the columns that they were read for. */
const known = new WeakMap<Rows, readonly (readonly [RowsColumns, string])[]>()

/** Keeps the text of rows that a worker has bound. */
export function keepBound(rows: Rows, columns: RowsColumns, text: string): void {
  known.set(rows, [...(known.get(rows) ?? []), [columns, text]])
}

/** Kinds of JSON that PostgreSQL would refuse without a position, or misinterpret. */
const UNFIT: Record<TypeKind, readonly RowKind[]> = {
  int2: ['boolean', 'composite'],
  int4: ['boolean', 'composite'],
  int8: ['boolean', 'composite'],
  float: ['boolean', 'composite'],
  numeric: ['boolean', 'composite'],
  bool: ['integer', 'number', 'composite'],
  text: ['boolean', 'integer', 'number', 'composite'],
  json: [],
  jsonb: [],
  array: ['boolean', 'integer', 'number'],
  row: ['boolean', 'integer', 'number'],
  range: ['boolean', 'integer', 'number', 'composite'],
  multirange: ['boolean', 'integer', 'number', 'composite'],
  hstore: ['boolean', 'integer', 'number'],
  // `checkGeoJson` reports mistakes in these.
  geometry: [],
  geography: [],
  other: ['boolean', 'composite'],
}
