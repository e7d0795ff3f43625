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

/** Where a parameter stands: what it may be replaced by. */
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

export interface Place {
  readonly param: string
  readonly use: Use
  /** In the query, e.g. `$.args.where.id.$eq`. */
  readonly path: string
  readonly default?: Json
  /** That of the value in the `args` of the operation, where the operation has one. */
  readonly schema?: Schema
}

/** A stored query whose values may be parameters. */
export interface Template {
  readonly definition: JsonObject
  readonly places: readonly Place[]
}

/**
 * Reads a definition: a query of a type that can be a template, with `{"param": name, "default"?: value}` in place of
 * values. Such an object means a parameter only where a value as a whole may stand, never inside a JSON value.
 * @throws ServiceError 400 with a path below `$`, the definition being `$`
 */
export function parseTemplate(definition: Json, operations: Operations): Template {
  const places: Place[] = []
  fill(definition, operations, (place) => {
    places.push(place)
    return null
  })
  for (const { param, use, path } of places) {
    const other = places.find((each) => each.param === param && manifold(each.use) !== manifold(use))
    if (other) throw unexpectedPayload(`parameter "${param}" stands for a list here and for one value elsewhere`, path)
  }
  return { definition: definition as JsonObject, places }
}

const manifold = (use: Use): boolean => use === 'list' || use === 'rows'

/** The query with each parameter replaced by what `give` returns for its place. Everything else stays as it is. */
export function fill(definition: Json, operations: Operations, give: Give, path = '$'): JsonObject {
  if (!isObject(definition)) throw parseFailed('expecting a query: an object with the keys type and args', path)
  const { type, args } = definition
  const { templatable, args: schema } = (typeof type === 'string' && operations.get(type)) || {}
  const here = `${path}.args`
  if (templatable === undefined) {
    const types = operations.types.filter((each) => operations.get(each)?.templatable !== undefined)
    throw unexpectedPayload(`a template is one of ${types.join(', ')}`, `${path}.type`)
  }
  if (templatable === 'queries') {
    if (!Array.isArray(args)) throw parseFailed('expecting an array of queries', here)
    return { ...definition, args: args.map((member, i) => fill(member, operations, give, at(here, i))) }
  }
  if (!isObject(args)) throw parseFailed('expecting an object', here)
  return { ...definition, args: fillParts(templatable, args, give, here, schema) }
}

/** The queries in a query that a template may hold: itself, or those of its array. */
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

type Give = (place: Place) => Json

function fillPart(part: Templatable[string], value: Json, give: Give, path: string, schema?: Schema): Json {
  switch (part) {
    case 'condition':
      return fillExp(value, give, path)
    case 'rows':
      if (!isParam(value)) throw unexpectedPayload('the rows of a template should be one parameter', path)
      break
    case 'text':
      if (Array.isArray(value)) return value.map((each, i) => fillPart(part, each, give, at(path, i), itemsOf(schema)))
      break
    case 'value':
    case 'count':
      break
    default:
      if (Array.isArray(value)) return value.map((each, i) => fillPart(part, each, give, at(path, i), itemsOf(schema)))
      return isObject(value) ? fillParts(part, value, give, path, schema) : value
  }
  return isParam(value) ? one(value, part, give, path, schema) : value
}

function fillParts(parts: Templatable, object: JsonObject, give: Give, path: string, schema?: Schema): JsonObject {
  const filled = { ...object }
  for (const key of Object.keys('*' in parts ? object : parts)) {
    const part = Object.hasOwn(parts, key) ? parts[key] : parts['*']
    const value = object[key]
    if (part === undefined || value === undefined) continue
    filled[key] = fillPart(part, value, give, at(path, key), propertyOf(schema, key))
  }
  return filled
}

const itemsOf = (schema?: Schema) => (schema && 'items' in schema ? schema.items : undefined)
const propertyOf = (schema: Schema | undefined, key: string) =>
  schema && 'properties' in schema ? schema.properties?.[key] : undefined

function fillExp(exp: Json, give: Give, path: string): Json {
  if (!isObject(exp)) return exp
  return map(exp, path, (key, value, here) => {
    switch (key) {
      case '$and':
      case '_and':
      case '$or':
      case '_or':
        return Array.isArray(value) ? value.map((part, i) => fillExp(part, give, at(here, i))) : value
      case '$not':
      case '_not':
        return fillExp(value, give, here)
      case '$exists':
      case '_exists':
        return isObject(value)
          ? map(value, here, (part, inner, at) => (part === '_where' ? fillExp(inner, give, at) : inner))
          : value
      default:
        // As an operator's operand, so that no argument can be read as a condition.
        if (isParam(value)) return { $eq: one(value, 'value', give, `${here}.$eq`) }
        return isOperators(value) ? fillOperators(value, give, here) : fillExp(value, give, here)
    }
  })
}

function fillOperators(operators: JsonObject, give: Give, path: string): JsonObject {
  return map(operators, path, (key, value, here) => {
    if (isParam(value)) return one(value, takesList(key) ? 'list' : 'value', give, here)
    const name = operatorName(key)
    if (name === 'cast' && isObject(value)) {
      return map(value, here, (_, inner, at) => (isObject(inner) ? fillOperators(inner, give, at) : inner))
    }
    if (name === 'st_d_within') return fillPart({ '*': 'value' }, value, give, here)
    if (!takesList(key) || !Array.isArray(value)) return value
    return value.map((element, i) => (isParam(element) ? one(element, 'value', give, at(here, i)) : element))
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

function one({ param, default: fallback }: Param, use: Use, give: Give, path: string, schema?: Schema): Json {
  if (param === '') throw parseFailed('a parameter has a name', path)
  return give({ param, use, path, default: fallback, schema })
}

function map(object: JsonObject, path: string, fn: (key: string, value: Json, path: string) => Json): JsonObject {
  const result: JsonObject = Object.create(null)
  for (const key in object) result[key] = fn(key, object[key] as Json, at(path, key))
  return result
}
