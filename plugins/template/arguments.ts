import type { Schema } from 'rowhouse'
import { at, isObject, type Json, type JsonObject, parseJson, serviceError, under } from 'rowhouse/plan'
import type { Parameter } from './meaning.js'
import { DRY_RUN } from './templates.js'

/**
 * Reads arguments from the query string of a URL. PostgreSQL parses the text of a value, whatever its type. The text is
 * JSON if the parameter is a list, an array, rows or a JSON value, or if the schema of the operation does not allow a
 * string. A repeated parameter is a list.
 * @throws ServiceError 400 `invalid-params` with the path of the argument
 */
export function urlArguments(query: URLSearchParams, parameters: ReadonlyMap<string, Parameter>): JsonObject {
  const args: JsonObject = Object.create(null)
  for (const name of new Set(query.keys())) {
    const parameter = parameters.get(name)
    if (parameter) args[name] = read(query.getAll(name), parameter, at('$', name))
    else if (name === DRY_RUN) args[name] = query.get(name)
  }
  return args
}

function read(values: readonly string[], { name, use, type, schema }: Parameter, path: string): Json {
  const [first = ''] = values
  const isArray = use === 'value' && type?.kind === 'array'
  const items = schema && 'items' in schema ? schema.items : undefined
  if (use === 'list' || isArray || items) {
    if (values.length === 1 && first.startsWith('[')) return json(first, path)
    // PostgreSQL's own syntax for arrays.
    if (values.length === 1 && isArray && first.startsWith('{')) return first
    return values.map((each) => fromText(each, items, path))
  }
  if (values.length > 1) throw invalid(`parameter "${name}" is not a list and can appear only once`, path)
  switch (use) {
    case 'count':
      if (!/^\d{1,19}$/.test(first)) throw invalid(`expecting a whole number for parameter "${name}"`, path)
      return json(String(BigInt(first)), path)
    case 'rows':
    case 'text':
    case 'value':
      return isJson({ use, type, schema }) ? json(first, path) : fromText(first, schema, path)
  }
}

/** Returns whether the text of an argument in a URL is JSON. */
export const isJson = ({ use, type, schema }: Pick<Parameter, 'use' | 'type' | 'schema'>): boolean =>
  use === 'rows' || type?.kind === 'json' || type?.kind === 'jsonb' || typeOf(schema) === 'object'

const typeOf = (schema?: Schema) => (schema && 'type' in schema ? schema.type : undefined)

/** Converts text by the type of a schema. A union of types takes a string. */
const fromText = (text: string, schema: Schema | undefined, path: string): Json =>
  (typeOf(schema) ?? 'string') === 'string' ? text : json(text, path)

const json = (text: string, path: string): Json => under(path, () => parseJson(text))

const invalid = (message: string, path: string) => serviceError('invalid-params', message, path)

/** Reads arguments from a body. @throws ServiceError 400 `parse-failed` */
export function bodyArguments(body: Json): JsonObject {
  if (isObject(body)) return body
  throw serviceError('parse-failed', 'expecting an object of arguments', '$')
}
