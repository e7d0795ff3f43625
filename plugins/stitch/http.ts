import type { Context } from 'koa'
import { assertSameOrigin, type Host, isAdmin, readJson, requireJson, ServiceError, serviceError } from 'rowhouse'
import { isObject, type Json, type JsonObject, parseJson, stringifyJson } from 'rowhouse/plan'
import { codesOf, notRun, type Outcome } from './answer.js'
import type { StitchConfig } from './config.js'
import { readDocument } from './document.js'
import { executeStitched } from './execute.js'
import { lowered } from './load.js'
import { graphiql } from './graphiql.js'
import type { Target } from './requests.js'
import type { Schemas } from './schemas.js'

const JSON_TYPE = 'application/json'
const RESPONSE_TYPE = 'application/graphql-response+json'

interface Request {
  readonly text: string
  readonly operationName: string | undefined
  readonly variables: JsonObject
}

/** Serves GraphQL over HTTP with GET and POST, and GraphiQL to browsers. */
export function stitchRoutes(host: Host, schemas: Schemas, config: StitchConfig): void {
  const { router } = host
  const requests = host.metric.counter('requests_total', 'Requests to schemas', ['schema', 'outcome'])
  const forwardsCookies = Object.values(config.schemas).some(({ forwardHeaders }) =>
    forwardHeaders.some((name) => name.toLowerCase() === 'cookie'),
  )

  const run = async (ctx: Context, read: () => Promise<Json> | Json, readOnly: boolean): Promise<Outcome> => {
    const { signal, session } = ctx.state
    const merged = schemas.merged()
    if (!merged) throw serviceError('unavailable', 'no schema could be loaded yet', '$', { retryAfter: 5 })
    let request: Request
    try {
      request = readRequest(await read(), config.limits.maxBytes)
    } catch (error) {
      return { ...refused(ctx, error), malformed: true }
    }
    try {
      const { text, operationName, variables } = request
      const introspection = config.introspection || isAdmin(session)
      const document = readDocument(text, operationName, merged.schema, { limits: config.limits, introspection })
      const { operation } = document.operation
      if (operation === 'mutation' && readOnly) {
        throw serviceError('method-not-allowed', 'a mutation must be sent with POST', '$.query')
      }
      const outcome = await executeStitched({
        merged,
        document,
        text,
        variables,
        targets: targetsFor(ctx, schemas, config),
        maxRequests: config.limits.maxRequests,
        signal,
        onEnd: (schema, outcome) => requests.inc({ schema, outcome }),
        onUnexpected: (error) => ctx.state.log.error({ err: error }, 'a field failed'),
      })
      for (const code of codesOf(outcome.errors)) ctx.state.failed(code)
      return outcome
    } catch (error) {
      return refused(ctx, error)
    }
  }

  router.post(config.path, async (ctx) => {
    const type = wantedType(ctx)
    if (forwardsCookies && ctx.get('Cookie') !== '') {
      // Any cookie may be a session of the schema, even if this server does not know it.
      const session = { ...ctx.state.session, via: 'cookie' } as const
      requireJson(ctx, session)
      assertSameOrigin(ctx, session)
    }
    send(ctx, await run(ctx, async () => readJson(ctx), false), type)
  })

  const page = graphiql(router, config.path)
  router.get(config.path, async (ctx) => {
    // Only a browser that opens the address prefers HTML.
    if (ctx.querystring === '' && ctx.accepts(JSON_TYPE, RESPONSE_TYPE, 'html') === 'html') return page(ctx)
    const type = wantedType(ctx)
    const outcome = await run(ctx, () => urlRequest(ctx), true)
    ctx.set('Cache-Control', 'no-store')
    if (outcome.status === 405) ctx.set('Allow', 'POST')
    send(ctx, outcome, type)
  })
}

/** Lists the schemas with the headers that this request sends them: fixed headers override forwarded ones. */
function targetsFor(ctx: Context, schemas: Schemas, config: StitchConfig): ReadonlyMap<string, Target> {
  return new Map(
    Object.entries(config.schemas).map(([name, { url, headers, forwardHeaders, maxFields }]) => {
      const passed = forwardHeaders.flatMap((header) => {
        const value = ctx.headers[header.toLowerCase()]
        return typeof value === 'string' ? [[header.toLowerCase(), value] as const] : []
      })
      const all = { ...Object.fromEntries(passed), ...lowered(headers) }
      return [name, { remote: schemas.remote(name), url, headers: all, maxFields }]
    }),
  )
}

/** @throws errors that are not about GraphQL, which the core formats */
function refused(ctx: Context, thrown: unknown): Outcome {
  if (!(thrown instanceof ServiceError) || NOT_GRAPHQL.has(thrown.status)) throw thrown
  ctx.state.failed(thrown.code)
  return notRun(thrown)
}
/** Authentication, body limits, timeouts and the like. */
const NOT_GRAPHQL = new Set([401, 403, 408, 413, 415, 429, 503])

function readRequest(body: Json, maxBytes: number): Request {
  const wrong = (message: string, path: string) => serviceError('parse-failed', message, path)
  if (!isObject(body)) throw wrong('expecting an object with the key query', '$')
  const { query, operationName = null, variables = null } = body
  if (typeof query !== 'string') throw wrong("the key 'query' is missing or not a string", '$.query')
  if (Buffer.byteLength(query) > maxBytes) {
    const message = `the document is longer than ${maxBytes} bytes (plugins.stitch.limits.maxBytes)`
    throw serviceError('validation-failed', message, '$.query')
  }
  if (operationName !== null && typeof operationName !== 'string') throw wrong('expecting a string', '$.operationName')
  if (variables !== null && !isObject(variables)) throw wrong('expecting an object', '$.variables')
  return { text: query, variables: variables ?? Object.create(null), operationName: operationName || undefined }
}

function urlRequest(ctx: Context): Json {
  const query = new URLSearchParams(ctx.querystring)
  const variables = query.get('variables')
  return {
    query: query.get('query'),
    operationName: query.get('operationName'),
    variables: variables ? parseJson(variables) : null,
  }
}

/** Chooses the media type of the response. @throws ServiceError 406 when the client accepts neither */
function wantedType(ctx: Context): string {
  if (ctx.get('Accept') === '') return JSON_TYPE
  const found = ctx.accepts(JSON_TYPE, RESPONSE_TYPE)
  if (found) return found
  throw serviceError('not-acceptable', `this endpoint answers with ${JSON_TYPE} or ${RESPONSE_TYPE}`, '$')
}

/**
 * Under `application/json` every GraphQL request has the status 200, except one that its method cannot make. The newer type
 * has a status of its own.
 */
function send(ctx: Context, { status, data, errors, malformed }: Outcome, type: string): void {
  const parts = [
    errors.length > 0 ? `"errors":${JSON.stringify(errors)}` : [],
    data === undefined ? [] : `"data":${stringifyJson(data)}`,
  ].flat()
  ctx.status = type === RESPONSE_TYPE || malformed || status === 405 ? status : 200
  ctx.type = `${type}; charset=utf-8`
  ctx.body = `{${parts.join(',')}}`
}
