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
export function parseTemplate(definition: Json): Template {
  const places: Place[] = []
  fill(definition, (place) => {
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

/** The query with each parameter replaced by what `give` returns for its place. What is no parameter stays as it is. */
export function fill(definition: Json, give: (place: Place) => Json, path = '$'): JsonObject {
  if (!isObject(definition)) throw parseFailed('expecting a query: an object with the keys type and args', path)
  const { type, args } = definition
  const here = `${path}.args`
  if (type === 'bulk') {
    if (!Array.isArray(args)) throw parseFailed('expecting an array of queries', here)
    return { ...definition, args: args.map((member, i) => fill(member, give, at(here, i))) }
  }
  if (typeof type !== 'string' || !Object.hasOwn(TYPES, type)) {
    throw unexpectedPayload(`a template is one of ${[...Object.keys(TYPES), 'bulk'].join(', ')}`, `${path}.type`)
  }
  if (!isObject(args)) throw parseFailed('expecting an object', here)
  return { ...definition, args: TYPES[type as keyof typeof TYPES](args, give, here) }
}

type Give = (place: Place) => Json
type Filler = (args: JsonObject, give: Give, path: string) => JsonObject

const TYPES = {
  select: fillRead,
  insert(args, give, path) {
    const { objects } = args
    const here = `${path}.objects`
    if (!isParam(objects)) throw unexpectedPayload('the objects of an insert template should be one parameter', here)
    return { ...args, objects: one(objects, 'rows', give, here) }
  },
  update: (args, give, path) => ({
    ...args,
    ...each(args, ['where'], (value, here) => fillExp(value, give, here), path),
    ...each(args, ['$set', 'values', '$inc', '$mul'], (value, here) => fillValues(value, give, here), path),
  }),
  delete: fillWhere,
  count: fillWhere,
  send_email: fillMessage,
  send_sms: fillMessage,
} satisfies Record<string, Filler>

/** Of the plugin notify. */
function fillMessage(args: JsonObject, give: Give, path: string): JsonObject {
  return map(args, path, (_, value, here) => {
    if (isParam(value)) return one(value, 'text', give, here)
    if (!Array.isArray(value)) return value
    return value.map((each, i) => (isParam(each) ? one(each, 'text', give, at(here, i)) : each))
  })
}

function fillWhere(args: JsonObject, give: Give, path: string): JsonObject {
  return { ...args, ...each(args, ['where'], (value, here) => fillExp(value, give, here), path) }
}

/** A select, or a relationship in its columns. */
function fillRead(args: JsonObject, give: Give, path: string): JsonObject {
  const { columns } = args
  const count = (value: Json, here: string) => (isParam(value) ? one(value, 'count', give, here) : value)
  return {
    ...fillWhere(args, give, path),
    ...each(args, ['limit', 'offset'], count, path),
    ...(Array.isArray(columns)
      ? {
          columns: columns.map((column, i) =>
            isObject(column) ? fillRead(column, give, at(`${path}.columns`, i)) : column,
          ),
        }
      : {}),
  }
}

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
          ? { ...value, ...each(value, ['_where'], (where, inner) => fillExp(where, give, inner), here) }
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
    if (name === 'st_d_within') return fillValues(value, give, here)
    if (!takesList(key) || !Array.isArray(value)) return value
    return value.map((element, i) => (isParam(element) ? one(element, 'value', give, at(here, i)) : element))
  })
}

function fillValues(values: Json, give: Give, path: string): Json {
  if (!isObject(values)) return values
  return map(values, path, (_, value, here) => (isParam(value) ? one(value, 'value', give, here) : value))
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

function one({ param, default: fallback }: Param, use: Use, give: Give, path: string): Json {
  if (param === '') throw parseFailed('a parameter has a name', path)
  return give({ param, use, path, ...(fallback === undefined ? {} : { default: fallback }) })
}

function each(object: JsonObject, keys: readonly string[], fn: (value: Json, path: string) => Json, path: string) {
  return Object.fromEntries(
    keys.flatMap((key) => {
      const value = object[key]
      return value === undefined ? [] : [[key, fn(value, at(path, key))]]
    }),
  ) as JsonObject
}

function map(object: JsonObject, path: string, fn: (key: string, value: Json, path: string) => Json): JsonObject {
  const result: JsonObject = Object.create(null)
  for (const key in object) result[key] = fn(key, object[key] as Json, at(path, key))
  return result
}
