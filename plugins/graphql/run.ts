import {
  type Call,
  callOf,
  type Data,
  type Exchange,
  IF_MATCH,
  internalFor,
  isAdmin,
  ServiceError,
  serviceError,
  type Session,
  withDryRun,
} from 'rowhouse'
import { at, isObject, type Json, type JsonObject, parseFailed } from 'rowhouse/plan'
import type { GraphqlConfig } from './config.js'
import { type DataText, executeGraphql, explainGraphql } from './execute.js'
import type { LiveRead } from './live-read.js'
import { type FoundDocument, persistedDocuments } from './persisted.js'
import { isGiven } from './plan/input.js'
import type { Dialect } from './plan/names.js'
import type { Failure } from './plan/prepare.js'
import { atSelectionSet, type ExecuteOptions, type GraphqlRequest, InvalidDocument, isWhole } from './prepared.js'

/** Overrides the setting `digitsAsText` for one request. */
const DIGITS_AS_TEXT = 'x-service-digits-as-text'

/** The outcome of a GraphQL request. */
export interface Outcome {
  readonly status: number
  readonly body: DataText
  /** Whether the request was not a GraphQL request. */
  readonly malformed?: boolean
  /** The read of a subscription, and what its errors are as a response. `body` is empty. */
  readonly live?: { readonly read: LiveRead; errorText(error: ServiceError): string }
}

export interface RunOptions {
  /** Refuses mutations, for GET. */
  readonly readOnly?: boolean
  /** Whether long lists are streamed. Defaults to true. */
  readonly streams?: boolean
  /** Whether a subscription can be answered. */
  readonly subscribes?: boolean
  readonly explain?: boolean
  readonly analyze?: boolean
}

/** A request over HTTP, or in a message of a connection. */
export type Asking = Pick<Exchange, 'state' | 'get' | 'set'>

/** Runs a GraphQL request. @param path path of the request in the body: `$`, or `$[2]` in a batch */
export type Run = (ctx: Asking, dialect: Dialect, body: Json, path: string, options?: RunOptions) => Promise<Outcome>

/** @param isLive returns whether there are live queries */
export function createRun(data: Data, config: GraphqlConfig, isLive: () => boolean): Run {
  const documents = persistedDocuments(config)
  return async (ctx, dialect, body, path, more = {}) => {
    const { readOnly = false, streams = true, subscribes = false, explain = false, analyze = false } = more
    const { session } = ctx.state
    if (ctx.get('If-Match') !== '') throw serviceError('not-supported', 'GraphQL does not support If-Match', IF_MATCH)
    let call = callOf(ctx, 'json', dialect === 'alpha' ? 'alpha' : 'modern')
    const limits = limitsOf(config, session)
    const digits = dialect === 'alpha' ? '' : ctx.get(DIGITS_AS_TEXT)
    if (!['', 'true', 'false'].includes(digits)) {
      throw serviceError('parse-failed', `header "${DIGITS_AS_TEXT}" is neither true nor false`)
    }
    const options: ExecuteOptions = {
      dialect,
      limits,
      introspection: config.introspection || isAdmin(session),
      digitsAsText: dialect !== 'alpha' && (digits === '' ? config.digitsAsText : digits === 'true'),
      streams,
      subscriptions: (dialect !== 'alpha' && isLive()) || undefined,
    }
    let found: FoundDocument
    let request: GraphqlRequest
    try {
      if (!isObject(body)) throw parseFailed('expecting an object with the key query', '$')
      found = documents.find(body, session, limits.maxBytes) ?? noQuery()
      request = readRequest(body, found.text)
      if (!explain) call = withDryRun(body, call)
    } catch (error) {
      return { ...failed(ctx, error, dialect, path), malformed: true }
    }
    try {
      if (explain) return { status: 200, body: await explainGraphql(data, request, options, call, analyze) }
      const result = await executeGraphql(data, request, options, call, readOnly)
      documents.register(found, session)
      if (typeof result === 'object' && 'lift' in result) {
        if (!subscribes) throw notAsEvents()
        const errorText = (error: ServiceError) =>
          errorBody(isWhole(error) ? atSelectionSet(error) : error, dialect, session, path)
        return { status: 200, body: '', live: { read: result, errorText } }
      }
      const failedAt = (position: Position, error: unknown) => failed(ctx, error, dialect, path, position).body
      return { status: 200, body: withData(result, failedAt, call) }
    } catch (error) {
      if (error instanceof ServiceError && ABOUT_KEYS.has(error.code)) throw error
      return failed(ctx, error, dialect, path)
    }
  }
}

export const limitsOf = (config: GraphqlConfig, { role }: Session) =>
  ({ ...config.limits, ...config.roles[role] }) as GraphqlConfig['limits']

const notAsEvents = (): ServiceError =>
  serviceError(
    'not-acceptable',
    'a subscription needs the header "Accept: text/event-stream", or a WebSocket',
    '$.query',
  )

export const ABOUT_KEYS = new Set(['idempotency-in-progress', 'idempotency-key-reused'])

/**
 * @param path path of the request in the body: `$`, or `$[2]` in a batch
 * @param position of the first row that a stream lacks, if it fails after its first rows have been sent
 */
export function failed(ctx: Asking, thrown: unknown, dialect: Dialect, path: string, position?: Position): Failed {
  const error =
    thrown instanceof ServiceError ? thrown : serviceError('unexpected', 'internal error', '$', { cause: thrown })
  ctx.state.failed(error.code)
  if (error.status >= 500) ctx.state.log.error({ err: thrown, code: error.code }, 'request failed')
  if (error.retryAfter !== undefined && !position) ctx.set('Retry-After', String(Math.ceil(error.retryAfter)))
  return { status: error.status, body: errorBody(error, dialect, ctx.state.session, path, position) }
}
type Failed = Outcome & { readonly body: string }
/** Keys and indexes; empty when it is not known. */
type Position = readonly (string | number)[]

/** Formats errors as the dialect does. Only admins see internal details. */
function errorBody(
  error: ServiceError,
  dialect: Dialect,
  session: Session | undefined,
  prefix: string,
  position?: Position,
): string {
  const details = session && internalFor(error, session)
  const internal = details === undefined ? {} : { internal: details }
  const failures: readonly Failure[] =
    error instanceof InvalidDocument
      ? error.failures
      : [{ code: error.code, message: error.message, path: error.path, locations: [] }]
  const errors = failures.map(({ message, path: below, code, locations }) => {
    const path = prefix + (position?.slice(0, 1).reduce(at, '$.selectionSet') ?? below).slice(1)
    const places = locations.length > 0 ? { locations } : {}
    return dialect === 'alpha'
      ? { path, error: message, code, message, ...places, ...internal, extensions: { path, code } }
      : { message, ...places, path: position?.length ? position : undefined, extensions: { path, code, ...internal } }
  })
  return JSON.stringify({ errors })
}

/** @param failedAt returns a response with the error of a stream that fails late */
function withData(data: DataText, failedAt: (position: Position, error: unknown) => string, call: Call): DataText {
  if (typeof data === 'string') return `{"data":${data}}`
  const { chunks, cutOff } = data
  async function* withErrors(): AsyncGenerator<Buffer, void, undefined> {
    yield Buffer.from('{"data":')
    try {
      yield* chunks
      yield Buffer.from('}')
    } catch (error) {
      if (!cutOff || call.signal.aborted) throw error
      yield Buffer.from(`,${failedAt(cutOff() ?? [], error).slice(1)}`)
    }
  }
  return { ...data, chunks: withErrors() }
}

function noQuery(): never {
  throw parseFailed("the key 'query' is missing or not a string", '$.query')
}

function readRequest({ operationName, variables }: JsonObject, text: string): GraphqlRequest {
  if (isGiven(operationName) && typeof operationName !== 'string') {
    throw parseFailed('expecting a string', '$.operationName')
  }
  if (isGiven(variables) && !isObject(variables)) {
    throw parseFailed('expecting an object', '$.variables')
  }
  return {
    text,
    variables: isGiven(variables) && isObject(variables) ? variables : Object.create(null),
    operationName: typeof operationName === 'string' && operationName !== '' ? operationName : undefined,
  }
}
