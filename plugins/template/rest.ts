import type {} from 'rowhouse/plugins/live'
import type { Context } from 'koa'
import {
  assertSameOrigin,
  type Call,
  callOf,
  type Catalog,
  type Data,
  type Exchange,
  type Host,
  isAdmin,
  isSameOrigin,
  readJson,
  respond,
  type ServiceError,
  serviceError,
  tagged,
  wantedFormat,
} from 'rowhouse'
import { type Json, type JsonObject, stringifyJson } from 'rowhouse/plan'
import { bodyArguments, urlArguments } from './arguments.js'
import { parameterSchema } from './json-schema.js'
import type { Described } from './meaning.js'
import { openApi } from './openapi.js'
import type { Stored, Templates } from './templates.js'

/** Serves `/v1/template/<name>`: every method runs every template. */
export function restRoutes(host: Host<'query', 'live'>, data: Data, templates: Templates): void {
  const execute = async (ctx: Exchange) => {
    const call = callOf(ctx, wantedFormat(ctx))
    const stored = templates.find(ctx.params['name']!, data.catalog, '$')
    const described = templates.describe(stored, data.catalog)
    if (ctx.method === 'HEAD' && !described.reads) throw writesOnHead(ctx)
    if (ctx.method === 'GET') refuseUnintendedWrite(ctx, described)
    if (ctx.method === 'DELETE') assertSameOrigin(ctx, ctx.state.session)
    const args = urlArguments(new URLSearchParams(ctx.querystring), described.parameters)
    if (ctx.method === 'POST' || ctx.method === 'PUT') {
      const rowsAt = described.parameters.get('objects')?.use === 'rows' ? /^\/objects$/ : undefined
      Object.assign(args, bodyArguments(await readJson(ctx, { rowsAt, empty: Object.create(null) as JsonObject })))
    }
    const live = ctx.method === 'GET' && described.reads ? host.find('live') : undefined
    if (live && ctx.accepts('application/json', 'text/event-stream') === 'text/event-stream') {
      return live.open(ctx, { type: 'execute_query_template', args: { name: stored.name, args } })
    }
    return tagged(ctx, await templates.execute(stored, args, call, '$'))
  }
  host.idempotent('/v1/template/', { by: 'server' })
  for (const method of ['get', 'post', 'put', 'delete'] as const) host.route(method, '/v1/template/:name', execute)
}

/** Returns the 405 for a template that writes: a client that asks for headers only expects no effect. */
function writesOnHead(ctx: Exchange): ServiceError {
  ctx.set('Allow', 'GET, POST, PUT, DELETE')
  return serviceError('method-not-allowed', 'a template that writes does not support HEAD')
}

/**
 * Refuses a GET that writes if a browser may have sent it without the user's intent: with a cookie, from a link on another
 * site, or as a prefetch.
 */
function refuseUnintendedWrite(ctx: Exchange, { reads }: Described): void {
  if (reads) return
  if (ctx.state.session.via !== 'cookie' && !/\bprefetch\b/i.test(ctx.get('Sec-Purpose') || ctx.get('Purpose'))) return
  if (ctx.state.session.via === 'cookie' || !isSameOrigin(ctx)) {
    throw serviceError('csrf', 'a template that writes needs POST, PUT or DELETE here')
  }
}

/**
 * Serves `GET /v1/template`, which lists the templates that the caller's role may run, and `GET /v1/openapi.json`, which
 * describes them as an OpenAPI 3.1 document.
 */
export function listRoutes(router: Host['router'], data: Data, templates: Templates): void {
  /** By role, for each snapshot of the catalog. */
  const lists = new WeakMap<Catalog, Map<string, Promise<readonly Stored[]>>>()

  async function listFor({ state: { session, signal } }: Context, catalog: Catalog): Promise<readonly Stored[]> {
    const byRole = lists.get(catalog) ?? new Map<string, Promise<readonly Stored[]>>()
    lists.set(catalog, byRole)
    const known = byRole.get(session.role)
    if (known) return known
    const list = runnable({ session, signal, format: 'json' }, catalog)
    byRole.set(session.role, list)
    list.catch(() => byRole.delete(session.role))
    return list
  }

  async function runnable(call: Call, catalog: Catalog): Promise<readonly Stored[]> {
    const all = [...templates.all(catalog).values()]
    if (isAdmin(call.session)) return all
    const allowed: Stored[] = []
    for (const stored of all) if (await templates.allowed(stored, call)) allowed.push(stored)
    return allowed
  }

  router.get('/v1/template', async (ctx) => {
    const { catalog } = data
    const list = await listFor(ctx, catalog)
    const body = list.map((stored) => {
      const { template, parameters } = templates.describe(stored, catalog)
      return {
        name: stored.name,
        comment: stored.comment,
        type: template.definition['type'] as Json,
        parameters: [...parameters.values()].map((parameter) => ({
          name: parameter.name,
          required: parameter.required,
          schema: parameterSchema(parameter) as Json,
        })),
      }
    })
    respond(ctx, { kind: 'text', text: stringifyJson(body as Json) })
  })

  router.get('/v1/openapi.json', async (ctx) => {
    const { catalog } = data
    const list = await listFor(ctx, catalog)
    const document = openApi(list, ctx.state.session.role, catalog, templates)
    respond(ctx, { kind: 'text', text: stringifyJson(document as Json) })
  })
}
