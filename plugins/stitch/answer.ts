import { GraphQLError } from 'graphql'
import { at, type ServiceError } from 'rowhouse'
import { isObject, type Json, type JsonObject, NumberText } from 'rowhouse/plan'
import { InvalidDocument } from './document.js'
import { errorText } from './load.js'
import { named, type RemoteAnswer, RemoteError } from './remote.js'

/** A value in the response of a schema. An error replaces a missing value. */
export type Value = Json | Error | Value[] | { [key: string]: Value }

/** An error of one field. graphql-js adds its path and location when it completes the field. */
export const fieldError = (code: string, message: string, schema?: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code, schema } })

/** Returns an error of a field inside of another one as an error of that other field, for one that has other parts here. */
export function atField(error: Error): Error {
  if (!(error instanceof GraphQLError) || !error.extensions['inside']) return error
  const { inside: _, ...extensions } = error.extensions
  return new GraphQLError(error.message, { extensions })
}

/**
 * Reads the response of a schema.
 * @param aliases aliases of the requested root fields
 * @param prefix that of names which the client did not choose
 * @returns data with each error at its path, and the errors without a path in the data
 * @throws RemoteError when this is not GraphQL; GraphQLError when the schema refused the request
 */
export function readAnswer(schema: string, { status, json }: RemoteAnswer, aliases: readonly string[], prefix: string) {
  const body = json !== undefined && isObject(json) ? json : {}
  const errors = Array.isArray(body['errors']) ? body['errors'] : []
  const isWhole = isData(body['data'])
  if (errors.length === 0 && !isWhole) throw refusal(schema, status, json)
  const data = (isWhole ? body['data'] : Object.create(null)) as { [key: string]: Value }
  const unplaced: GraphQLError[] = []
  for (const each of errors) {
    const path = isObject(each) && Array.isArray(each['path']) ? each['path'] : []
    const error = (inside: readonly Json[] = []) => clientError(each, schema, shown(inside, prefix))
    if (!place(data, path, error, aliases)) unplaced.push(error())
  }
  // An error of one field that cannot be null makes all the data null: no field is missing then.
  for (const alias of aliases) if (data[alias] === undefined) data[alias] = isWhole ? missingField(schema) : null
  return { data, unplaced }
}

const isData = (value: Json | undefined): value is JsonObject =>
  value !== undefined && value !== null && isObject(value) && !(value instanceof NumberText)

export const missingField = (schema: string): GraphQLError =>
  fieldError('remote-invalid', `${named(schema)} did not return a requested field`, schema)

function refusal(schema: string, status: number, json: Json | undefined): Error {
  const text = json === undefined || status >= 500 ? undefined : errorText(json)
  if (text !== undefined && status >= 400) {
    return fieldError(codeOf(json!) ?? 'remote-error', `${named(schema)} refused the request: ${text}`, schema)
  }
  if (status >= 400) return new RemoteError('remote-unavailable', `${named(schema)} returned ${status}`)
  return new RemoteError('remote-invalid', `the response of ${named(schema)} is not GraphQL`)
}

/**
 * Keeps only the message and the code of an error, because the rest could be internal, such as a stack.
 * @param inside the rest of its path, in a field that is null because of it
 */
function clientError(error: Json, schema: string, inside: readonly Json[]): GraphQLError {
  const text = errorText(error) ?? `${named(schema)} reported an error without a message`
  const code = codeOf(error) ?? 'remote-error'
  return new GraphQLError(text, { extensions: { code, schema, ...(inside.length > 0 ? { inside } : {}) } })
}

/** Returns a path up to the first step that no client could know. */
function shown(path: readonly Json[], prefix: string): readonly Json[] {
  const end = path.findIndex(
    (step) => typeof step !== 'number' && !(typeof step === 'string' && /^\w+$/.test(step) && !step.startsWith(prefix)),
  )
  return end < 0 ? path : path.slice(0, end)
}

function codeOf(error: Json): string | undefined {
  if (!isObject(error)) return undefined
  const { extensions } = error
  const code = extensions !== undefined && isObject(extensions) ? extensions['code'] : error['code']
  return typeof code === 'string' && /^[\w.-]{1,64}$/.test(code) ? code : undefined
}

/**
 * Puts an error at its path in the data, or at the first null on the path. An error without a path, or with an unknown
 * one, goes to every root field that has no value.
 * @param error makes the error, with the steps of the path that are left
 * @returns whether the data had a place for the error
 */
function place(
  data: { [key: string]: Value },
  path: readonly Json[],
  error: (inside?: readonly Json[]) => Error,
  aliases: readonly string[],
): boolean {
  const [root] = path
  if (typeof root !== 'string' || !aliases.includes(root)) {
    const empty = aliases.filter((alias) => data[alias] === undefined || data[alias] === null)
    for (const alias of empty) data[alias] = error()
    return empty.length > 0
  }
  let holder: Value = data
  for (const [i, step] of path.entries()) {
    if (typeof holder !== 'object' || holder === null || holder instanceof Error) return false
    if (typeof step !== 'string' && typeof step !== 'number') return false
    if (Array.isArray(holder) && !(typeof step === 'number' && step < holder.length)) return false
    const container = holder as { [key: string | number]: Value }
    const value: Value | undefined = container[step]
    // An error in a field that was not requested would be lost there.
    if (value === undefined && holder !== data) return false
    if (value === undefined || value === null) {
      container[step] = error(path.slice(i + 1))
      return true
    }
    holder = value
  }
  return false
}

/** An error as the client gets it. */
interface FieldError {
  readonly [key: string]: unknown
  readonly extensions: { readonly code: string; readonly [key: string]: unknown }
}

/** Returns the codes of errors, each once. `remote-error` stands for the codes of other schemas, which may be any. */
export const codesOf = (errors: readonly FieldError[]): ReadonlySet<string> =>
  new Set(errors.map(({ extensions: { code } }) => (OWN_CODES.has(code) ? code : 'remote-error')))
const OWN_CODES = new Set([
  'limit-exceeded',
  'remote-invalid',
  'remote-timeout',
  'remote-too-large',
  'remote-unavailable',
  'unexpected',
])

/** The result of a client's request: HTTP status for `application/graphql-response+json`, data and errors. */
export interface Outcome {
  readonly status: number
  readonly data?: Json
  readonly errors: readonly FieldError[]
  /** Whether the body of the HTTP request was not a GraphQL request. */
  readonly malformed?: boolean
}

/** Returns the outcome of a request that could not be run. */
export function notRun(error: ServiceError): Outcome {
  const { status, code, message, path } = error
  const errors = error instanceof InvalidDocument ? error.errors : [new GraphQLError(message)]
  return { status, errors: errors.map((each) => ({ ...each.toJSON(), extensions: { path, code } })) }
}

/**
 * Formats an error of a field for clients.
 * @param onUnexpected called with internal errors; clients see "internal error" instead
 */
export function publicError(error: GraphQLError, onUnexpected: (error: Error) => void): FieldError {
  const { originalError, locations } = error
  // For invalid data graphql-js throws a plain Error or a GraphQLError.
  const isInternal = originalError && !(originalError instanceof GraphQLError) && originalError.constructor !== Error
  if (isInternal) onUnexpected(originalError)
  const { code, schema, inside = [] } = error.extensions
  const path = error.path && [...error.path, ...(inside as readonly (string | number)[])]
  return {
    message: isInternal ? 'internal error' : error.message,
    locations,
    path,
    extensions: {
      path: path?.reduce<string>((before, key) => at(before, key), '$'),
      code: isInternal ? 'unexpected' : typeof code === 'string' ? code : 'remote-invalid',
      schema,
    },
  }
}
