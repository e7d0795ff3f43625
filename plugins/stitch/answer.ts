import { GraphQLError } from 'graphql'
import { at, type ServiceError } from 'rowhouse'
import { isObject, type Json, type JsonObject, NumberText } from 'rowhouse/plan'
import { InvalidDocument } from './document.js'
import { errorText, MAX_TEXT } from './load.js'
import { named, type RemoteAnswer, RemoteError } from './remote.js'

/** A value of an answer; an error stands where there is no value. */
export type Value = Json | Error | Value[] | { [key: string]: Value }

/** What went wrong with a field. It gets its place in the client's document when the field is completed. */
export const failed = (code: string, message: string, schema?: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code, ...(schema === undefined ? {} : { schema }) } })

/**
 * Takes the answer of a schema apart.
 * @param aliases of the root fields that were asked for
 * @returns data in which errors stand at their places, and the errors that have none
 * @throws RemoteError for what is no GraphQL answer; GraphQLError for a refusal
 */
export function readAnswer(schema: string, { status, json }: RemoteAnswer, aliases: readonly string[]) {
  const body = json !== undefined && isObject(json) ? json : undefined
  const errors = body?.['errors']
  if (!body || (!Array.isArray(errors) && !isData(body['data']))) throw refusal(schema, status, json)
  const data = (isData(body['data']) ? body['data'] : Object.create(null)) as { [key: string]: Value }
  const rest: GraphQLError[] = []
  for (const each of Array.isArray(errors) ? errors : []) {
    const error = passedOn(each, schema)
    const path = isObject(each) && Array.isArray(each['path']) ? each['path'] : []
    if (!place(data, path, error, aliases)) rest.push(error)
  }
  for (const alias of aliases) {
    if (data[alias] === undefined) {
      data[alias] = failed('remote-invalid', `${named(schema)} left out a field that was asked for`, schema)
    }
  }
  return { data, errors: rest.slice(0, MAX_REST) }
}
const MAX_REST = 20

const isData = (value: Json | undefined): value is JsonObject =>
  value !== undefined && value !== null && isObject(value) && !(value instanceof NumberText)

function refusal(schema: string, status: number, json: Json | undefined): Error {
  const said = json === undefined || status >= 500 ? undefined : errorText(json)
  if (said !== undefined && status >= 400) {
    return failed(codeOf(json!) ?? 'remote-error', `${named(schema)} refused the request: ${said}`, schema)
  }
  if (status >= 400) return new RemoteError('remote-unavailable', `${named(schema)} answered ${status}`)
  return new RemoteError('remote-invalid', `${named(schema)} answered something that is not GraphQL`)
}

/** Its text and code; never what a service says of its inside. */
function passedOn(error: Json, schema: string): GraphQLError {
  const text = errorText(error)?.slice(0, MAX_TEXT) ?? `${named(schema)} reported an error without a text`
  return failed(codeOf(error) ?? 'remote-error', text, schema)
}

function codeOf(error: Json): string | undefined {
  if (!isObject(error)) return undefined
  const { extensions } = error
  const code = extensions !== undefined && isObject(extensions) ? extensions['code'] : error['code']
  return typeof code === 'string' && /^[\w.-]{1,64}$/.test(code) ? code : undefined
}

/** Puts an error where its path leads, or where the path ends in null. Without a path it is about everything. */
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

/** What a request came to: a status, and what its body says. */
export interface Outcome {
  readonly status: number
  readonly data?: Json
  readonly errors: readonly object[]
  /** Nothing of it could be read as a GraphQL request. */
  readonly unread?: boolean
}

/** A request that could not be run at all. */
export function notRun(error: ServiceError): Outcome {
  const { status, code, message, path } = error
  if (!(error instanceof InvalidDocument)) return { status, errors: [{ message, extensions: { path, code } }] }
  return {
    status,
    errors: error.errors.map((each) => ({
      message: each.message,
      ...(each.locations ? { locations: each.locations } : {}),
      extensions: { path, code },
    })),
  }
}

/**
 * An error of a field as clients see it.
 * @param onUnexpected told of faults of ours, whose words are not for clients
 */
export function shown(error: GraphQLError, onUnexpected: (error: Error) => void): object {
  const { originalError, path, locations } = error
  // What graphql-js finds wrong with an answer is a plain Error or one of its own.
  const ours = originalError && !(originalError instanceof GraphQLError) && originalError.constructor !== Error
  if (ours) onUnexpected(originalError)
  const { code, schema } = error.extensions
  return {
    message: ours ? 'internal error' : error.message,
    ...(locations ? { locations } : {}),
    ...(path ? { path } : {}),
    extensions: {
      ...(path ? { path: path.reduce<string>((before, key) => at(before, key), '$') } : {}),
      code: ours ? 'unexpected' : (code ?? 'remote-invalid'),
      ...(schema === undefined ? {} : { schema }),
    },
  }
}
