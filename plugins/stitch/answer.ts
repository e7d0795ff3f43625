import { GraphQLError } from 'graphql'
import { at, type ServiceError } from 'rowhouse'
import { isObject, type Json, type JsonObject, NumberText } from 'rowhouse/plan'
import { InvalidDocument } from './document.js'
import { errorText } from './load.js'
import { named, type RemoteAnswer, RemoteError } from './remote.js'

/** A value of a schema's answer. An error takes the place of a value that is missing. */
export type Value = Json | Error | Value[] | { [key: string]: Value }

/** An error of one field. graphql-js adds its path and location when it completes the field. */
export const fieldError = (code: string, message: string, schema?: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code, schema } })

/**
 * Reads the answer of a schema.
 * @param aliases of the requested root fields
 * @returns data with each error at its path, and the errors that have no place in it
 * @throws RemoteError when this is not GraphQL; GraphQLError when the schema refused the request
 */
export function readAnswer(schema: string, { status, json }: RemoteAnswer, aliases: readonly string[]) {
  const body = json !== undefined && isObject(json) ? json : undefined
  const errors = body?.['errors']
  if (!body || (!Array.isArray(errors) && !isData(body['data']))) throw refusal(schema, status, json)
  const data = (isData(body['data']) ? body['data'] : Object.create(null)) as { [key: string]: Value }
  const unplaced: GraphQLError[] = []
  for (const each of Array.isArray(errors) ? errors : []) {
    const error = clientError(each, schema)
    const path = isObject(each) && Array.isArray(each['path']) ? each['path'] : []
    if (!place(data, path, error, aliases)) unplaced.push(error)
  }
  for (const alias of aliases) if (data[alias] === undefined) data[alias] = missingField(schema)
  return { data, unplaced }
}

const isData = (value: Json | undefined): value is JsonObject =>
  value !== undefined && value !== null && isObject(value) && !(value instanceof NumberText)

export const missingField = (schema: string): GraphQLError =>
  fieldError('remote-invalid', `${named(schema)} left out a field that was asked for`, schema)

function refusal(schema: string, status: number, json: Json | undefined): Error {
  const text = json === undefined || status >= 500 ? undefined : errorText(json)
  if (text !== undefined && status >= 400) {
    return fieldError(codeOf(json!) ?? 'remote-error', `${named(schema)} refused the request: ${text}`, schema)
  }
  if (status >= 400) return new RemoteError('remote-unavailable', `${named(schema)} answered ${status}`)
  return new RemoteError('remote-invalid', `${named(schema)} answered something that is not GraphQL`)
}

/** Passes on the text and the code of a schema's error, and no internals such as a stack. */
function clientError(error: Json, schema: string): GraphQLError {
  const text = errorText(error) ?? `${named(schema)} reported an error without a text`
  return fieldError(codeOf(error) ?? 'remote-error', text, schema)
}

function codeOf(error: Json): string | undefined {
  if (!isObject(error)) return undefined
  const { extensions } = error
  const code = extensions !== undefined && isObject(extensions) ? extensions['code'] : error['code']
  return typeof code === 'string' && /^[\w.-]{1,64}$/.test(code) ? code : undefined
}

/**
 * Puts an error where its path leads, or at the first null on the way. An error without a path of ours takes the place
 * of every root field that has no value.
 * @returns whether there was a place
 */
function place(
  data: { [key: string]: Value },
  path: readonly Json[],
  error: Error,
  aliases: readonly string[],
): boolean {
  const [root] = path
  if (typeof root !== 'string' || !aliases.includes(root)) {
    const empty = aliases.filter((alias) => data[alias] === undefined || data[alias] === null)
    for (const alias of empty) data[alias] = error
    return empty.length > 0
  }
  let holder: Value = data
  for (const step of path) {
    if (typeof holder !== 'object' || holder === null || holder instanceof Error) return false
    if (typeof step !== 'string' && typeof step !== 'number') return false
    if (Array.isArray(holder) && !(typeof step === 'number' && step < holder.length)) return false
    const container = holder as { [key: string | number]: Value }
    const value: Value | undefined = container[step]
    if (value === undefined || value === null) {
      container[step] = error
      return true
    }
    holder = value
  }
  return false
}

/** The result of a client's request: HTTP status for `application/graphql-response+json`, data and errors. */
export interface Outcome {
  readonly status: number
  readonly data?: Json
  readonly errors: readonly object[]
  /** The body was not a GraphQL request at all. */
  readonly unread?: boolean
}

/** The outcome of a request that could not be run. */
export function notRun(error: ServiceError): Outcome {
  const { status, code, message, path } = error
  const errors = error instanceof InvalidDocument ? error.errors : [new GraphQLError(message)]
  return { status, errors: errors.map((each) => ({ ...each.toJSON(), extensions: { path, code } })) }
}

/**
 * Writes an error of a field for clients.
 * @param onUnexpected gets faults of ours; clients see "internal error" instead
 */
export function publicError(error: GraphQLError, onUnexpected: (error: Error) => void): object {
  const { originalError, path, locations } = error
  // What graphql-js finds wrong with an answer is a plain Error or one of its own.
  const ours = originalError && !(originalError instanceof GraphQLError) && originalError.constructor !== Error
  if (ours) onUnexpected(originalError)
  const { code, schema } = error.extensions
  return {
    message: ours ? 'internal error' : error.message,
    locations,
    path,
    extensions: {
      path: path?.reduce<string>((before, key) => at(before, key), '$'),
      code: ours ? 'unexpected' : (code ?? 'remote-invalid'),
      schema,
    },
  }
}
