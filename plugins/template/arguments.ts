import { at, isObject, type Json, type JsonObject, parseJson, ServiceError } from 'rowhouse/plan'
import type { Parameter } from './meaning.js'

/**
 * Arguments out of a URL's query. Text stands for a value of any type, as PostgreSQL reads it; JSON is read where the
 * parameter is a list, an array, rows, or a JSON value; a parameter given several times is a list.
 * @throws ServiceError 400 `invalid-params` with the path of the argument
 */
export function urlArguments(query: URLSearchParams, parameters: ReadonlyMap<string, Parameter>): JsonObject {
  const args: JsonObject = Object.create(null)
  for (const name of new Set(query.keys())) {
    const parameter = parameters.get(name)
    if (parameter) args[name] = read(query.getAll(name), parameter, at('$', name))
  }
  return args
}

function read(values: readonly string[], { name, use, type }: Parameter, path: string): Json {
  const [first = ''] = values
  const isArray = use === 'value' && type?.kind === 'array'
  if (use === 'list' || isArray) {
    if (values.length > 1) return [...values]
    if (first.startsWith('[')) return json(first, path)
    // An array as PostgreSQL writes it.
    return isArray && first.startsWith('{') ? first : [first]
  }
  if (values.length > 1) throw invalid(`parameter "${name}" is no list and may be given once`, path)
  switch (use) {
    case 'rows':
      return json(first, path)
    case 'count':
      if (!/^\d{1,15}$/.test(first)) throw invalid(`expecting a whole number for parameter "${name}"`, path)
      return Number(first)
    case 'text':
      return first
    case 'value':
      return type?.kind === 'json' || type?.kind === 'jsonb' ? json(first, path) : first
  }
}

function json(text: string, path: string): Json {
  try {
    return parseJson(text)
  } catch (error) {
    throw error instanceof ServiceError ? error.under(path) : error
  }
}

const invalid = (message: string, path: string) => new ServiceError(400, 'invalid-params', message, path)

/** The arguments of a body. @throws ServiceError 400 `parse-failed` */
export function bodyArguments(body: Json): JsonObject {
  if (isObject(body)) return body
  throw new ServiceError(400, 'parse-failed', 'expecting an object of arguments', '$')
}
