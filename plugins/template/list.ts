import { type Call, type Catalog, type Data, type Host, isAdmin, respond } from 'rowhouse'
import { type Json, stringifyJson } from 'rowhouse/plan'
import { openApi } from './openapi.js'
import { parameterSchema } from './json-schema.js'
import type { Stored, Templates } from './templates.js'

/** `GET /v1/template`: what the caller's role may run; `GET /v1/openapi.json`: the same as an OpenAPI 3.1 document. */
export function listRoutes(router: Host['router'], data: Data, templates: Templates): void {
  /** By role. A new snapshot of the catalog starts empty. */
  const lists = new WeakMap<Catalog, Map<string, Promise<readonly Stored[]>>>()

  async function listFor(call: Call, catalog: Catalog): Promise<readonly Stored[]> {
    const byRole = lists.get(catalog) ?? new Map<string, Promise<readonly Stored[]>>()
    lists.set(catalog, byRole)
    const { role } = call.session
    const known = byRole.get(role)
    if (known) return known
    const started = runnable(call, catalog)
    byRole.set(role, started)
    started.catch(() => byRole.delete(role))
    return started
  }

  async function runnable(call: Call, catalog: Catalog): Promise<readonly Stored[]> {
    const all = [...templates.all(catalog).values()]
    if (isAdmin(call.session)) return all
    const allowed: Stored[] = []
    for (const stored of all) if (await templates.allowed(stored, call)) allowed.push(stored)
    return allowed
  }

  router.get('/v1/template', async (ctx) => {
    const { session, signal } = ctx.state
    const { catalog } = data
    const list = await listFor({ session, signal, format: 'json' }, catalog)
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
    const { session, signal } = ctx.state
    const { catalog } = data
    const list = await listFor({ session, signal, format: 'json' }, catalog)
    const document = openApi(list, session.role, catalog, templates)
    respond(ctx, { kind: 'text', text: stringifyJson(document as Json) })
  })
}
