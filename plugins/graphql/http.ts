import {
  type Answer,
  assertAdmin,
  type Call,
  callOf,
  type Data,
  type Exchange,
  type Host,
  IF_MATCH,
  internalFor,
  isAdmin,
  readJson,
  respond,
  ServiceError,
  serviceError,
  type Session,
  withDryRun,
} from 'rowhouse'
import { at, isObject, type Json, type JsonObject, parseFailed, parseJson } from 'rowhouse/plan'
import type { GraphqlConfig } from './config.js'
import {
  type DataText,
  type ExecuteOptions,
  executeGraphql,
  explainGraphql,
  type GraphqlRequest,
  InvalidDocument,
  PATIENT,
  PLANNER,
  textOf,
} from './execute.js'
import { graphiql } from './page/index.js'
import { type FoundDocument, persistedDocuments } from './persisted.js'
import { isGiven } from './plan/input.js'
import type { Dialect } from './plan/names.js'
import type { Failure, PrepareShape } from './plan/prepare.js'

const JSON_TYPE = 'application/json'
/** Overrides the setting `digitsAsText` for one request. */
const DIGITS_AS_TEXT = 'x-service-digits-as-text'
const RESPONSE_TYPE = 'application/graphql-response+json'

/** The outcome of a GraphQL request. */
interface Outcome {
  readonly status: number
  readonly body: DataText
  /** Whether the body of the HTTP request was not a GraphQL request. */
  readonly malformed?: boolean
}

/** Serves `/v1alpha1/graphql`, `/v1/graphql` and `/v1beta1/relay`. */
export function graphqlRoutes(host: Host, data: Data, config: GraphqlConfig): void {
  const { router } = host
  const documents = persistedDocuments(config)
  const limitsOf = ({ role }: Session) => ({ ...config.limits, ...config.roles[role] }) as typeof config.limits

  const run = async (
    ctx: Exchange,
    dialect: Dialect,
    body: Json,
    path: string,
    { readOnly = false, streams = true, explain = false, analyze = false } = {},
  ): Promise<Outcome> => {
    const { session } = ctx.state
    if (ctx.get('If-Match') !== '') throw serviceError('not-supported', 'GraphQL does not support If-Match', IF_MATCH)
    let call = callOf(ctx, 'json', dialect === 'alpha' ? 'alpha' : 'modern')
    const limits = limitsOf(session)
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
      const failedAt = (position: Position, error: unknown) => failed(ctx, error, dialect, path, position).body
      return { status: 200, body: withData(result, failedAt, call) }
    } catch (error) {
      if (error instanceof ServiceError && ABOUT_KEYS.has(error.code)) throw error
      return failed(ctx, error, dialect, path)
    }
  }

  host.idempotent('/v1alpha1/graphql', { by: 'server' })
  host.route('post', '/v1alpha1/graphql', async (ctx) => {
    const { status, body } = await catchMalformed(ctx, 'alpha', async () => run(ctx, 'alpha', await readJson(ctx), '$'))
    return answerWith(body, JSON_TYPE, status)
  })

  host.route('get', '/v1alpha1/graphql/schema', async (ctx) => {
    assertAdmin(ctx.state.session)
    const shape: PrepareShape = { kind: 'schema', dialect: 'alpha' }
    const answer = await data.prepare<{ schema: string }>(PLANNER, shape, callOf(ctx), PATIENT)
    return { kind: 'text', text: JSON.stringify({ schema: answer.schema }) }
  })

  host.route('post', '/v1/graphql/explain', async (ctx) => {
    if (!ctx.state.session.acting) assertAdmin(ctx.state.session)
    const { status, body } = await catchMalformed(ctx, 'modern', async () => {
      const request = await readJson(ctx)
      const { analyze = false } = isObject(request) ? request : {}
      if (typeof analyze !== 'boolean') throw parseFailed('expecting a boolean', '$.analyze')
      return run(ctx, 'modern', request, '$', { explain: true, analyze })
    })
    return answerWith(body, JSON_TYPE, status)
  })

  serve('/v1/graphql', 'modern')
  if (config.relay) serve('/v1beta1/relay', 'relay')

  function serve(path: string, dialect: 'modern' | 'relay'): void {
    host.idempotent(path, { by: 'server' })
    host.route('post', path, async (ctx) => {
      const type = wantedType(ctx)
      let batch = false
      const outcome = await catchMalformed(ctx, dialect, async () => {
        const body = await readJson(ctx)
        if (!Array.isArray(body)) return run(ctx, dialect, body, '$')
        batch = true
        return runBatch(ctx, dialect, body as readonly Json[])
      })
      return modernAnswer(outcome, type, batch)
    })

    const page = dialect === 'modern' ? graphiql(router) : undefined
    router.get(path, async (ctx) => {
      // Only a browser that opens the address prefers HTML.
      if (page && ctx.querystring === '' && ctx.accepts(JSON_TYPE, RESPONSE_TYPE, 'html') === 'html') {
        page(ctx)
        return
      }
      const type = wantedType(ctx)
      const outcome = await catchMalformed(ctx, dialect, async () =>
        run(ctx, dialect, urlRequest(ctx), '$', { readOnly: true }),
      )
      if (outcome.status === 405) ctx.set('Allow', 'POST')
      respond(ctx, modernAnswer(outcome, type, false))
    })
  }

  async function runBatch(ctx: Exchange, dialect: Dialect, body: readonly Json[]): Promise<Outcome> {
    const { maxBatch } = limitsOf(ctx.state.session)
    if (ctx.state.keyed || ctx.state.dryRun || body.some((each) => isObject(each) && each['dry_run'] === true)) {
      const what = ctx.state.keyed ? 'takes no Idempotency-Key' : 'cannot be a dry run'
      const message = `a batch ${what}; send one mutation with all fields, which is one transaction`
      throw serviceError('not-supported', message, '$')
    }
    if (body.length === 0 || body.length > maxBatch) {
      const message = `a batch has 1 to ${maxBatch} operations (plugins.graphql.limits.maxBatch)`
      throw parseFailed(message, '$')
    }
    const bodies: string[] = []
    let bytes = 0
    for (const [i, each] of body.entries()) {
      const path = at('$', i)
      try {
        data.mustFit(bytes, ctx.state.session)
        const one = await textOf((await run(ctx, dialect, each, path, { streams: false })).body)
        data.mustFit((bytes += Buffer.byteLength(one)), ctx.state.session)
        bodies.push(one)
      } catch (error) {
        // The requests before it may have written, so the client gets their responses.
        bodies.push(await textOf(failed(ctx, error, dialect, path).body))
      }
    }
    return { status: 200, body: `[${bodies.join(',')}]` }
  }
}

/** Returns GraphQL errors for a body that is not a GraphQL request, such as malformed JSON. */
async function catchMalformed(ctx: Exchange, dialect: Dialect, fn: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await fn()
  } catch (error) {
    if (!(error instanceof ServiceError) || NOT_GRAPHQL.has(error.status) || ABOUT_KEYS.has(error.code)) throw error
    return { ...failed(ctx, error, dialect, '$'), malformed: true }
  }
}
/** Authentication, body limits, timeouts and the like: the core formats these errors. */
const NOT_GRAPHQL = new Set([401, 403, 408, 413, 415, 429, 503])
const ABOUT_KEYS = new Set(['idempotency-in-progress', 'idempotency-key-reused'])

/**
 * @param path path of the request in the body: `$`, or `$[2]` in a batch
 * @param position of the first row that a stream lacks, if it fails after its first rows have been sent
 */
function failed(ctx: Exchange, thrown: unknown, dialect: Dialect, path: string, position?: Position): Failed {
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

function urlRequest(ctx: Pick<Exchange, 'querystring'>): Json {
  const query = new URLSearchParams(ctx.querystring)
  const body: Record<string, Json> = Object.create(null)
  for (const key of ['query', 'operationName', 'documentId']) {
    const value = query.get(key)
    if (value !== null) body[key] = value
  }
  for (const key of ['variables', 'extensions']) {
    const value = query.get(key)
    if (value !== null && value !== '') body[key] = parseJson(value)
  }
  return body
}

/** Chooses the media type of the response. @throws ServiceError 406 when the client accepts neither */
function wantedType(ctx: Exchange): string {
  const accept = ctx.get('Accept')
  if (accept === '') return JSON_TYPE
  const found = ctx.accepts(JSON_TYPE, RESPONSE_TYPE)
  if (found) return found
  throw serviceError('not-acceptable', `this endpoint answers with ${JSON_TYPE} or ${RESPONSE_TYPE}`, '$')
}

/**
 * Under `application/json` every GraphQL request has the status 200, except one that its method cannot make. The newer type
 * has a status of its own.
 */
function modernAnswer({ status, body, malformed }: Outcome, type: string, batch: boolean): Answer {
  const own = malformed || status === 405 || (type === RESPONSE_TYPE && !batch)
  return answerWith(body, type, own ? status : 200)
}

function answerWith(body: DataText, type: string, status: number): Answer {
  const contentType = `${type}; charset=utf-8`
  return typeof body === 'string'
    ? { kind: 'text', text: body, contentType, status }
    : { kind: 'stream', chunks: body.chunks, sent: body.sent, contentType, status }
}
