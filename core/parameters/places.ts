import { at, parseFailed, serviceError } from '../errors.js'
import {
  BareObject,
  type Json,
  type JsonObject,
  NO_LIMITS,
  NumberText,
  parseJson,
  Rows,
  type RowsColumn,
  rowsOfText,
  stringifyJson,
} from '../json/parse.js'
import { OPEN_BRACE, peek, skipValue } from '../json/scan.js'
import { isObject } from '../json/value.js'
import { operatorName, takesList, takesValue } from '../plan/operators.js'
import type { Schema } from '../json/schema.js'
import type { Operation, Templatable } from '../data/operations.js'

/** What a place in a query takes. */
export type Use =
  /** A value of a condition or of an assignment. */
  | 'value'
  /** The whole list of `$in` or `$nin`. */
  | 'list'
  /** `limit` or `offset`. */
  | 'count'
  /** The rows of an insert. */
  | 'rows'
  /** A field of a message. */
  | 'text'

/** A place in a query where a value may stand. */
export interface Place {
  readonly use: Use
  /** Path in the query, e.g. `$.args.where.id.$eq`. */
  readonly path: string
  /** Schema of the value, if the operation has one. */
  readonly schema?: Schema | undefined
  /** Names of the relationships that lead to the rows, of `rows` and of a value in a row. */
  readonly via?: readonly string[] | undefined
  /** Key of the value in its row. */
  readonly key?: string
  /** Whether it is the operand of a condition, where null means `is null`. */
  readonly compared?: true
  /** Whether the query has the value without the operator `$eq`, with which the path ends. */
  readonly implied?: true
}

/** Objects such as `{"param": name}`, which stand for values. Inside a JSON value there are none. */
export interface PlaceMarks {
  /** @param path of the object in the query */
  is(object: JsonObject, path: string): boolean
  /** Returns the value for a mark. */
  replace(mark: JsonObject, place: Place): Json
}

/**
 * Returns a query in which the marks are replaced.
 * @param parts the parts of its `args` where marks may stand
 * @throws ServiceError 400 when `args` is not an object
 */
export function fill(
  query: JsonObject,
  parts: Templatable,
  { args: schema }: Pick<Operation, 'args'>,
  marks: PlaceMarks,
  path = '$',
): JsonObject {
  const { args } = query
  if (!isObject(args)) throw parseFailed('expecting an object', `${path}.args`)
  return { ...query, args: fillParts(parts, args, marks, `${path}.args`, schema) }
}

/** Returns the value for a place of a text: a number is its text. */
export function textFor(value: Json): Json {
  if (Array.isArray(value)) return value.map(textFor)
  return typeof value === 'number' || value instanceof NumberText ? String(value) : value
}

const isMark = (value: Json | undefined, marks: PlaceMarks, path: string): value is JsonObject =>
  isObject(value) && marks.is(value, path)

function fillPart(part: Templatable[string], value: Json, marks: PlaceMarks, path: string, schema?: Schema): Json {
  switch (part) {
    case 'condition':
      return fillExp(value, marks, path)
    case 'rows':
      return fillRows(value, marks, path, [])
    case 'text':
      if (Array.isArray(value)) return value.map((each, i) => fillPart(part, each, marks, at(path, i), itemsOf(schema)))
      break
    case 'value':
    case 'count':
      break
    default:
      if (Array.isArray(value)) return value.map((each, i) => fillPart(part, each, marks, at(path, i), itemsOf(schema)))
      return isObject(value) ? fillParts(part, value, marks, path, schema) : value
  }
  return isMark(value, marks, path) ? marks.replace(value, { use: part, path, schema }) : value
}

function fillParts(
  parts: Templatable,
  object: JsonObject,
  marks: PlaceMarks,
  path: string,
  schema?: Schema,
): JsonObject {
  const filled = { ...object }
  for (const key of Object.keys('*' in parts ? object : parts)) {
    const part = Object.hasOwn(parts, key) ? parts[key] : parts['*']
    const value = object[key]
    if (part === undefined || value === undefined) continue
    filled[key] = fillPart(part, value, marks, at(path, key), propertyOf(schema, key))
  }
  return filled
}

function fillRows(value: Json, marks: PlaceMarks, path: string, via: readonly string[]): Json {
  if (isMark(value, marks, path)) return marks.replace(value, { use: 'rows', path, via })
  // The rows of an HTTP request are text.
  if (value instanceof Rows) return fillText(value, marks, path, via)
  if (Array.isArray(value)) return value.map((row, i) => fillRow(row, marks, at(path, i), via))
  return fillRow(value, marks, path, via)
}

/** Returns whether a cell may be an object. */
export const hasObjects = ({ columns }: Rows): boolean => [...columns.values()].some(mayBeObject)
const mayBeObject = ({ first }: RowsColumn): boolean => first.composite >= 0

/** Matches the text of rows that may have a mark. Every mark is an object with a key of these. */
const MAY_REFER = /"(?:\$|param"|[^"\\]*\\u)/
/** Maximum number of values of rows in which marks are filled. They are read in the main thread. */
const MAX_VALUES = 100_000
const TOO_MANY_VALUES = `rows with references have at most ${MAX_VALUES} values together`

/** Fills rows that are text. Reads no more of them than the objects in their cells. */
function fillText(rows: Rows, marks: PlaceMarks, path: string, via: readonly string[]): Rows {
  const columns = new Map([...rows.columns].filter(([, column]) => mayBeObject(column)).map(([key]) => [key, key]))
  if (columns.size === 0 || !MAY_REFER.test(rows.source)) return rows
  if (rows.values > MAX_VALUES) throw serviceError('payload-too-large', TOO_MANY_VALUES, path)
  let text = ''
  let end = 0
  rows.visit(columns, (c, key) => {
    const opens = peek(c) === OPEN_BRACE
    const start = c.pos
    skipValue(c)
    if (!opens) return
    const cell = parseJson(rows.source.slice(start, c.pos), NO_LIMITS)
    const filled = fillCell(key, cell, marks, at(at(path, c.path.at(-2) as number), key), via)
    if (filled === cell) return
    text += rows.source.slice(end, start) + stringifyJson(filled)
    end = c.pos
  })
  return end === 0 ? rows : rowsOfText(text + rows.source.slice(end), path)
}

function fillRow(row: Json, marks: PlaceMarks, path: string, via: readonly string[]): Json {
  return isObject(row) ? map(row, path, (key, value, here) => fillCell(key, value, marks, here, via)) : row
}

/** Fills a cell. Rows of relationships are objects with the keys `data` and `on_conflict` only. */
function fillCell(key: string, value: Json, marks: PlaceMarks, path: string, via: readonly string[]): Json {
  if (!isObject(value)) return value
  if (marks.is(value, path)) return marks.replace(value, { use: 'value', path, via, key })
  const isRelated = Object.keys(value).every((each) => each === 'data' || each === 'on_conflict')
  if (!isRelated || value['data'] === undefined) return value
  return { ...value, data: fillRows(value['data'], marks, `${path}.data`, [...via, key]) }
}

const itemsOf = (schema?: Schema) => (schema && 'items' in schema ? schema.items : undefined)
const propertyOf = (schema: Schema | undefined, key: string) =>
  schema && 'properties' in schema ? schema.properties?.[key] : undefined

function fillExp(exp: Json, marks: PlaceMarks, path: string): Json {
  if (!isObject(exp)) return exp
  return map(exp, path, (key, value, here) => {
    switch (key) {
      case '$and':
      case '_and':
      case '$or':
      case '_or':
        return Array.isArray(value) ? value.map((part, i) => fillExp(part, marks, at(here, i))) : value
      case '$not':
      case '_not':
        return fillExp(value, marks, here)
      case '$exists':
      case '_exists':
        return isObject(value)
          ? map(value, here, (part, inner, at) => (part === '_where' ? fillExp(inner, marks, at) : inner))
          : value
      default:
        // As the operand of an operator, so that the value is never read as a condition.
        if (isMark(value, marks, here))
          return { $eq: marks.replace(value, { use: 'value', path: `${here}.$eq`, compared: true, implied: true }) }
        return isOperators(value) ? fillOperators(value, marks, here) : fillExp(value, marks, here)
    }
  })
}

function fillOperators(operators: JsonObject, marks: PlaceMarks, path: string): JsonObject {
  return map(operators, path, (key, value, here) => {
    const name = operatorName(key)
    if (takesValue(name) && isMark(value, marks, here))
      return marks.replace(value, { use: takesList(key) ? 'list' : 'value', path: here, compared: true })
    if (name === 'cast' && isObject(value)) {
      return map(value, here, (_, inner, at) => (isObject(inner) ? fillOperators(inner, marks, at) : inner))
    }
    if (name === 'st_d_within' || name === 'matches') return fillPart({ '*': 'value' }, value, marks, here)
    if (!takesList(key) || !Array.isArray(value)) return value
    return value.map((element, i) => {
      const path = at(here, i)
      return isMark(element, marks, path) ? marks.replace(element, { use: 'value', path, compared: true }) : element
    })
  })
}

function isOperators(value: Json): value is JsonObject {
  if (!isObject(value)) return false
  const keys = Object.keys(value)
  return keys.length > 0 && keys.every((key) => operatorName(key))
}

function map(object: JsonObject, path: string, fn: (key: string, value: Json, path: string) => Json): JsonObject {
  const result = new BareObject()
  for (const key in object) result[key] = fn(key, object[key] as Json, at(path, key))
  return result
}
