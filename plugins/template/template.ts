import type { Operations, Schema, Templatable } from 'rowhouse'
import {
  at,
  isObject,
  type Json,
  type JsonObject,
  operatorName,
  parseFailed,
  takesList,
  unexpectedPayload,
} from 'rowhouse/plan'

/** The kind of argument that a parameter takes. */
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

/** One occurrence of a parameter. */
export interface Place {
  readonly param: string
  readonly use: Use
  /** Path in the query, e.g. `$.args.where.id.$eq`. */
  readonly path: string
  readonly default?: Json
  /** Schema of the value, if the operation has one. */
  readonly schema?: Schema
  /** Names of the relationships that lead to the rows. */
  readonly via?: readonly string[]
}

/** A stored query with parameters. */
export interface Template {
  readonly definition: JsonObject
  readonly places: readonly Place[]
}

/**
 * Reads a definition: a query that contains `{"param": name, "default"?: value}` instead of values. Inside a JSON value,
 * such an object is not a parameter.
 * @throws ServiceError 400 with a path in the definition
 */
export function parseTemplate(definition: Json, operations: Operations): Template {
  const places: Place[] = []
  fill(definition, operations, (place) => {
    places.push(place)
    return null
  })
  for (const { param, use, path } of places) {
    if (places.some((each) => each.param === param && takesMany(each.use) !== takesMany(use))) {
      throw unexpectedPayload(`parameter "${param}" is used both as a list and as a single value`, path)
    }
  }
  return { definition: definition as JsonObject, places }
}

const takesMany = (use: Use): boolean => use === 'list' || use === 'rows'

/** Returns the query with each parameter replaced by the result of `valueOf`. */
export function fill(definition: Json, operations: Operations, valueOf: ValueOf, path = '$'): JsonObject {
  if (!isObject(definition)) throw parseFailed('expecting a query: an object with the keys type and args', path)
  const { type, args } = definition
  const { templatable, args: schema } = (typeof type === 'string' && operations.get(type)) || {}
  const here = `${path}.args`
  if (templatable === undefined) {
    const types = operations.types.filter((each) => operations.get(each)?.templatable !== undefined)
    throw unexpectedPayload(`the type of a template must be one of ${types.join(', ')}`, `${path}.type`)
  }
  if (templatable === 'queries') {
    if (!Array.isArray(args)) throw parseFailed('expecting an array of queries', here)
    return { ...definition, args: args.map((member, i) => fill(member, operations, valueOf, at(here, i))) }
  }
  if (!isObject(args)) throw parseFailed('expecting an object', here)
  return { ...definition, args: fillParts(templatable, args, valueOf, here, schema) }
}

/** Yields the queries of a template: the query itself, or the members of a bulk. */
export function* members(
  query: JsonObject,
  operations: Operations,
  path = '$',
): Generator<{ query: JsonObject; path: string }> {
  if (operations.get(query['type'] as string)?.templatable !== 'queries') yield { query, path }
  else {
    for (const [i, member] of (query['args'] as JsonObject[]).entries())
      yield* members(member, operations, `${path}.args[${i}]`)
  }
}

type ValueOf = (place: Place) => Json

function fillPart(part: Templatable[string], value: Json, valueOf: ValueOf, path: string, schema?: Schema): Json {
  switch (part) {
    case 'condition':
      return fillExp(value, valueOf, path)
    case 'rows':
      return fillRows(value, valueOf, path, [])
    case 'text':
      if (Array.isArray(value))
        return value.map((each, i) => fillPart(part, each, valueOf, at(path, i), itemsOf(schema)))
      break
    case 'value':
    case 'count':
      break
    default:
      if (Array.isArray(value))
        return value.map((each, i) => fillPart(part, each, valueOf, at(path, i), itemsOf(schema)))
      return isObject(value) ? fillParts(part, value, valueOf, path, schema) : value
  }
  return isParam(value) ? substitute(value, part, valueOf, path, { schema }) : value
}

function fillParts(
  parts: Templatable,
  object: JsonObject,
  valueOf: ValueOf,
  path: string,
  schema?: Schema,
): JsonObject {
  const filled = { ...object }
  for (const key of Object.keys('*' in parts ? object : parts)) {
    const part = Object.hasOwn(parts, key) ? parts[key] : parts['*']
    const value = object[key]
    if (part === undefined || value === undefined) continue
    filled[key] = fillPart(part, value, valueOf, at(path, key), propertyOf(schema, key))
  }
  return filled
}

function fillRows(value: Json, valueOf: ValueOf, path: string, via: readonly string[]): Json {
  if (isParam(value)) return substitute(value, 'rows', valueOf, path, { via })
  if (Array.isArray(value)) return value.map((row, i) => fillRow(row, valueOf, at(path, i), via))
  return fillRow(value, valueOf, path, via)
}

/** Fills a row. Its rows of relationships are objects with the keys `data` and `on_conflict` only. */
function fillRow(row: Json, valueOf: ValueOf, path: string, via: readonly string[]): Json {
  if (!isObject(row)) return row
  return map(row, path, (key, value, here) => {
    if (isParam(value)) return substitute(value, 'value', valueOf, here)
    const isRelated = isObject(value) && Object.keys(value).every((each) => each === 'data' || each === 'on_conflict')
    if (!isRelated || value['data'] === undefined) return value
    return { ...value, data: fillRows(value['data'], valueOf, `${here}.data`, [...via, key]) }
  })
}

const itemsOf = (schema?: Schema) => (schema && 'items' in schema ? schema.items : undefined)
const propertyOf = (schema: Schema | undefined, key: string) =>
  schema && 'properties' in schema ? schema.properties?.[key] : undefined

function fillExp(exp: Json, valueOf: ValueOf, path: string): Json {
  if (!isObject(exp)) return exp
  return map(exp, path, (key, value, here) => {
    switch (key) {
      case '$and':
      case '_and':
      case '$or':
      case '_or':
        return Array.isArray(value) ? value.map((part, i) => fillExp(part, valueOf, at(here, i))) : value
      case '$not':
      case '_not':
        return fillExp(value, valueOf, here)
      case '$exists':
      case '_exists':
        return isObject(value)
          ? map(value, here, (part, inner, at) => (part === '_where' ? fillExp(inner, valueOf, at) : inner))
          : value
      default:
        // As the operand of an operator, so that an argument is never read as a condition.
        if (isParam(value)) return { $eq: substitute(value, 'value', valueOf, `${here}.$eq`) }
        return isOperators(value) ? fillOperators(value, valueOf, here) : fillExp(value, valueOf, here)
    }
  })
}

function fillOperators(operators: JsonObject, valueOf: ValueOf, path: string): JsonObject {
  return map(operators, path, (key, value, here) => {
    if (isParam(value)) return substitute(value, takesList(key) ? 'list' : 'value', valueOf, here)
    const name = operatorName(key)
    if (name === 'cast' && isObject(value)) {
      return map(value, here, (_, inner, at) => (isObject(inner) ? fillOperators(inner, valueOf, at) : inner))
    }
    if (name === 'st_d_within' || name === 'matches') return fillPart({ '*': 'value' }, value, valueOf, here)
    if (!takesList(key) || !Array.isArray(value)) return value
    return value.map((element, i) => (isParam(element) ? substitute(element, 'value', valueOf, at(here, i)) : element))
  })
}

function isOperators(value: Json): value is JsonObject {
  if (!isObject(value)) return false
  const keys = Object.keys(value)
  return keys.length > 0 && keys.every((key) => operatorName(key))
}

type Param = { readonly param: string; readonly default?: Json }

function isParam(value: Json | undefined): value is Param {
  if (!isObject(value) || typeof value['param'] !== 'string') return false
  return Object.keys(value).every((key) => key === 'param' || key === 'default')
}

function substitute(
  { param, default: fallback }: Param,
  use: Use,
  valueOf: ValueOf,
  path: string,
  more: Pick<Place, 'schema' | 'via'> = {},
): Json {
  if (param === '') throw parseFailed('the name of a parameter must not be empty', path)
  return valueOf({ param, use, path, default: fallback, ...more })
}

function map(object: JsonObject, path: string, fn: (key: string, value: Json, path: string) => Json): JsonObject {
  const result: JsonObject = Object.create(null)
  for (const key in object) result[key] = fn(key, object[key] as Json, at(path, key))
  return result
}
