import type { Operations, Place } from 'rowhouse'
import { fill as fillPlaces, textFor } from 'rowhouse'
import { at, type Json, type JsonObject, isObject, parseFailed, rowsOf, unexpectedPayload } from 'rowhouse/plan'

/** One occurrence of a parameter. */
export interface ParameterPlace extends Place {
  readonly param: string
  readonly default?: Json
}

/** A stored query with parameters. */
export interface Template {
  readonly definition: JsonObject
  readonly places: readonly ParameterPlace[]
}

/**
 * Reads a definition: a query that contains `{"param": name, "default"?: value}` instead of values.
 * @throws ServiceError 400 with a path in the definition
 */
export function parseTemplate(definition: Json, operations: Operations): Template {
  const places: ParameterPlace[] = []
  fill(definition, operations, (place) => {
    places.push(place)
    return null
  })
  for (const { param, use, path } of places) {
    if (places.some((each) => each.param === param && takesMany(each) !== takesMany({ use }))) {
      throw unexpectedPayload(`parameter "${param}" is used both as a list and as a single value`, path)
    }
  }
  return { definition: definition as JsonObject, places }
}

const takesMany = ({ use }: Pick<Place, 'use'>): boolean => use === 'list' || use === 'rows'

/** Returns the query with each parameter replaced by the result of `valueOf`. */
export function fill(definition: Json, operations: Operations, valueOf: ValueOf, path = '$'): JsonObject {
  if (!isObject(definition)) throw parseFailed('expecting a query: an object with the keys type and args', path)
  const { type, args } = definition
  const operation = typeof type === 'string' ? operations.get(type) : undefined
  if (operation?.templatable === undefined) {
    const types = operations.types.filter((each) => operations.get(each)?.templatable !== undefined)
    throw unexpectedPayload(`the type of a template must be one of ${types.join(', ')}`, `${path}.type`)
  }
  const here = `${path}.args`
  if (operation.templatable !== 'queries') {
    return fillPlaces(definition, operation.templatable, operation, { is: isParam, replace: valueFor(valueOf) }, path)
  }
  if (!Array.isArray(args)) throw parseFailed('expecting an array of queries', here)
  return { ...definition, args: args.map((member, i) => fill(member, operations, valueOf, at(here, i))) }
}

type ValueOf = (place: ParameterPlace) => Json

const isParam = (object: JsonObject): boolean =>
  typeof object['param'] === 'string' && Object.keys(object).every((key) => key === 'param' || key === 'default')

const valueFor =
  (valueOf: ValueOf) =>
  (mark: JsonObject, place: Place): Json => {
    const { param, default: fallback } = mark as { readonly param: string; readonly default?: Json }
    if (param === '') throw parseFailed('the name of a parameter must not be empty', place.path)
    return valueOf({ ...place, param, ...(fallback === undefined ? {} : { default: fallback }) })
  }

/** Converts an argument to the form that it has in a query. */
export function argument({ use, path }: ParameterPlace, value: Json): Json {
  if (use === 'text') return textFor(value)
  return use === 'rows' && Array.isArray(value) ? rowsOf(value, path) : value
}
