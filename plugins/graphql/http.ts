import {
  type Answer,
  assertAdmin,
  callOf,
  type Data,
  type Exchange,
  type Host,
  readJson,
  respond,
  ServiceError,
  serviceError,
} from 'rowhouse'
import { at, isObject, type Json, parseFailed, parseJson } from 'rowhouse/plan'
import type { GraphqlConfig } from './config.js'
import { EVENTS, eventsFor } from './events.js'
import { type DataText, PATIENT, textOf } from './execute.js'
import { graphiql } from './page/index.js'
import type { Dialect } from './plan/names.js'
import type { PrepareShape } from './plan/prepare.js'
import { ABOUT_KEYS, createRun, failed, limitsOf, type Outcome } from './run.js'
import { webSockets } from './socket/index.js'
import { PLANNER } from './prepared.js'

const JSON_TYPE = 'application/json'
const RESPONSE_TYPE = 'application/graphql-response+json'

/** Serves `/v1alpha1/graphql`, `/v1/graphql` and `/v1beta1/relay`. */
export function graphqlRoutes(host: Host<never, 'live'>, data: Data, config: GraphqlConfig): void {
  const { router } = host
  const run = createRun(data, config, () => host.find('live') !== undefined)
  const answerEvents = eventsFor(() => host.find('live'))
  const openSocket = webSockets(host, run)

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
    host.upgrade(path, (upgrade) => openSocket(upgrade, dialect))
    host.route('post', path, async (ctx) => {
      const type = wantedType(ctx)
      const subscribes = type === EVENTS
      let batch = false
      const outcome = await catchMalformed(ctx, dialect, async () => {
        const body = await readJson(ctx)
        if (!Array.isArray(body)) return run(ctx, dialect, body, '$', { subscribes })
        if (subscribes) throw parseFailed('a batch cannot be answered with events', '$')
        batch = true
        return runBatch(ctx, dialect, body as readonly Json[])
      })
      return subscribes ? answerEvents(ctx, outcome, dialect) : modernAnswer(outcome, type, batch)
    })

    const page = dialect === 'modern' ? graphiql(router) : undefined
    router.get(path, async (ctx) => {
      // Only a browser that opens the address prefers HTML.
      if (page && ctx.querystring === '' && ctx.accepts(JSON_TYPE, RESPONSE_TYPE, 'html') === 'html') {
        page(ctx)
        return
      }
      const type = wantedType(ctx)
      const subscribes = type === EVENTS
      const outcome = await catchMalformed(ctx, dialect, async () =>
        run(ctx, dialect, urlRequest(ctx), '$', { readOnly: true, subscribes }),
      )
      if (outcome.status === 405) ctx.set('Allow', 'POST')
      respond(ctx, subscribes ? await answerEvents(ctx, outcome, dialect) : modernAnswer(outcome, type, false))
    })
  }

  async function runBatch(ctx: Exchange, dialect: Dialect, body: readonly Json[]): Promise<Outcome> {
    const { maxBatch } = limitsOf(config, ctx.state.session)
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

/** Chooses the media type of the response. @throws ServiceError 406 when the client accepts none */
function wantedType(ctx: Exchange): string {
  const accept = ctx.get('Accept')
  if (accept === '') return JSON_TYPE
  const found = ctx.accepts(JSON_TYPE, RESPONSE_TYPE, EVENTS)
  if (found) return found
  throw serviceError('not-acceptable', `this endpoint answers with ${JSON_TYPE}, ${RESPONSE_TYPE} or ${EVENTS}`, '$')
}

/**
 * Under `application/json` every GraphQL request has the status 200, except one that its method or type cannot make. The newer
 * type has a status of its own.
 */
function modernAnswer({ status, body, malformed }: Outcome, type: string, batch: boolean): Answer {
  const own = malformed || status === 405 || status === 406 || (type === RESPONSE_TYPE && !batch)
  return answerWith(body, type, own ? status : 200)
}

function answerWith(body: DataText, type: string, status: number): Answer {
  const contentType = `${type}; charset=utf-8`
  return typeof body === 'string'
    ? { kind: 'text', text: body, contentType, status }
    : { kind: 'stream', chunks: body.chunks, sent: body.sent, contentType, status }
}
