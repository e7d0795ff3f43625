import {
  type Answer,
  assertAdmin,
  callOf,
  type Data,
  type Exchange,
  type Host,
  isAdmin,
  readJson,
  respond,
  ServiceError,
  serviceError,
  type Session,
} from 'rowhouse'
import { at, isObject, type Json, type JsonObject, parseFailed, parseJson } from 'rowhouse/plan'
import { asAnswer, failed, ok, type Outcome } from './answer.js'
import type { GraphqlConfig } from './config.js'
import { type ExecuteOptions, executeGraphql, type GraphqlRequest, PATIENT, PLANNER, textOf } from './execute.js'
import { invalid } from './plan/input.js'
import type { Dialect } from './plan/names.js'
import { graphiql } from './page/index.js'
import { persistedDocuments } from './persisted.js'
import type { PrepareShape } from './plan/prepare.js'

const JSON_TYPE = 'application/json'
const RESPONSE_TYPE = 'application/graphql-response+json'

/** `/v1alpha1/graphql` and `/v1/graphql`. */
export function graphqlRoutes(host: Host, data: Data, config: GraphqlConfig): void {
  const { router } = host
  const persisted = persistedDocuments(config)
  const limitsOf = ({ role }: Session) => ({ ...config.limits, ...config.roles[role] }) as typeof config.limits

  const run = async (ctx: Exchange, dialect: Dialect, body: Json, path: string, readOnly = false): Promise<Outcome> => {
    const { session } = ctx.state
    const call = callOf(ctx, 'json', dialect)
    const limits = limitsOf(session)
    const options: ExecuteOptions = {
      dialect,
      limits,
      introspection: config.introspection || isAdmin(session),
      digitsAsText: dialect === 'modern' && config.digitsAsText,
    }
    let request: GraphqlRequest
    try {
      request = readRequest(body, limits.maxBytes, (from) => persisted.text(from, session.role))
    } catch (error) {
      return { ...failure(ctx, error, dialect, path), unread: true }
    }
    try {
      return ok(await executeGraphql(data, request, options, call, readOnly))
    } catch (error) {
      return failure(ctx, error, dialect, path)
    }
  }

  host.route('post', '/v1alpha1/graphql', async (ctx) => {
    const outcome = await reading(ctx, 'alpha', async () => run(ctx, 'alpha', await readJson(ctx), '$'))
    return asAnswer(outcome.body, JSON_TYPE, outcome.status)
  })

  host.route('get', '/v1alpha1/graphql/schema', async (ctx) => {
    assertAdmin(ctx.state.session)
    const shape: PrepareShape = { kind: 'schema', dialect: 'alpha' }
    const answer = await data.prepare<{ schema: string }>(PLANNER, shape, callOf(ctx), PATIENT)
    return { kind: 'text', text: JSON.stringify({ schema: answer.schema }) }
  })

  host.route('post', '/v1/graphql', async (ctx) => {
    const type = wantedType(ctx)
    let batch = false
    const outcome = await reading(ctx, 'modern', async () => {
      const body = await readJson(ctx)
      if (!Array.isArray(body)) return run(ctx, 'modern', body, '$')
      batch = true
      return runBatch(ctx, body as readonly Json[])
    })
    return modernAnswer(outcome, type, batch)
  })

  const page = graphiql(router)
  router.get('/v1/graphql', async (ctx) => {
    // A browser that opens the address; clients do not ask for HTML first.
    if (ctx.querystring === '' && ctx.accepts(JSON_TYPE, RESPONSE_TYPE, 'html') === 'html') {
      page(ctx)
      return
    }
    const type = wantedType(ctx)
    const outcome = await reading(ctx, 'modern', async () => run(ctx, 'modern', urlRequest(ctx), '$', true))
    respond(ctx, modernAnswer(outcome, type, false))
  })

  async function runBatch(ctx: Exchange, body: readonly Json[]): Promise<Outcome> {
    const { maxBatch } = limitsOf(ctx.state.session)
    if (body.length === 0 || body.length > maxBatch) {
      const message = `a batch has 1 to ${maxBatch} operations (plugins.graphql.limits.maxBatch)`
      throw parseFailed(message, '$')
    }
    const bodies: string[] = []
    let bytes = 0
    for (const [i, each] of body.entries()) {
      const path = at('$', i)
      try {
        data.mustFit(bytes)
        const one = await textOf((await run(ctx, 'modern', each, path)).body)
        data.mustFit((bytes += Buffer.byteLength(one)))
        bodies.push(one)
      } catch (error) {
        // Those before it may have written, and have their answers.
        bodies.push(await textOf(failure(ctx, error, 'modern', path).body))
      }
    }
    return { status: 200, body: `[${bodies.join(',')}]` }
  }
}

/** A request that cannot be read is answered like one that cannot be run. */
async function reading(ctx: Exchange, dialect: Dialect, fn: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await fn()
  } catch (error) {
    if (!(error instanceof ServiceError) || NOT_GRAPHQL.has(error.status)) throw error
    // Not even JSON, or not what a request looks like: no GraphQL has begun.
    const outcome = failure(ctx, error, dialect, '$')
    return { ...outcome, unread: true }
  }
}
/** Answered by the core: who asks, how much, and from where. */
const NOT_GRAPHQL = new Set([401, 403, 408, 413, 415, 429, 503])

function failure(ctx: Exchange, thrown: unknown, dialect: Dialect, path: string): Outcome {
  const error =
    thrown instanceof ServiceError ? thrown : serviceError('unexpected', 'internal error', '$', { cause: thrown })
  ctx.state.code = error.code
  if (error.status >= 500) ctx.state.log.error({ err: thrown, code: error.code }, 'request failed')
  if (error.retryAfter !== undefined) ctx.set('Retry-After', String(Math.ceil(error.retryAfter)))
  return failed(error, dialect, ctx.state.session, path)
}

function readRequest(body: Json, maxBytes: number, textOf: (body: JsonObject) => string | undefined): GraphqlRequest {
  if (!isObject(body)) throw parseFailed('expecting an object with the key query', '$')
  const { operationName, variables } = body
  const query = textOf(body)
  if (query === undefined) throw parseFailed("the key 'query' was not present, or is no string", '$.query')
  if (Buffer.byteLength(query) > maxBytes) {
    const message = `the document is longer than ${maxBytes} bytes (plugins.graphql.limits.maxBytes)`
    throw invalid(message, '$.query')
  }
  if (isGiven(operationName) && typeof operationName !== 'string') {
    throw parseFailed('expecting a string', '$.operationName')
  }
  if (isGiven(variables) && !isObject(variables)) {
    throw parseFailed('expecting an object', '$.variables')
  }
  return {
    text: query,
    variables: isGiven(variables) && isObject(variables) ? variables : Object.create(null),
    operationName: typeof operationName === 'string' && operationName !== '' ? operationName : undefined,
  }
}

const isGiven = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null

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

/** The media type of the answer. @throws ServiceError 406 when the client takes neither */
function wantedType(ctx: Exchange): string {
  const accept = ctx.get('Accept')
  if (accept === '') return JSON_TYPE
  const found = ctx.accepts(JSON_TYPE, RESPONSE_TYPE)
  if (found) return found
  throw serviceError('not-acceptable', `this endpoint answers with ${JSON_TYPE} or ${RESPONSE_TYPE}`, '$')
}

/** Under `application/json` whatever happened in a GraphQL request is 200; the newer type has its status. */
function modernAnswer(outcome: Outcome, type: string, batch: boolean): Answer {
  const status = type === RESPONSE_TYPE && !batch ? outcome.status : outcome.unread ? outcome.status : 200
  return asAnswer(outcome.body, type, status)
}
