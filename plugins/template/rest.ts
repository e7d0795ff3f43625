import {
  assertSameOrigin,
  callOf,
  type Data,
  type Exchange,
  type Host,
  isSameOrigin,
  readJson,
  serviceError,
  wantedFormat,
} from 'rowhouse'
import type { JsonObject } from 'rowhouse/plan'
import { bodyArguments, urlArguments } from './arguments.js'
import type { Described } from './meaning.js'
import type { Templates } from './templates.js'

/** Any method runs any template: `/v1/template/<name>`. */
export function restRoutes(host: Pick<Host, 'route'>, data: Data, templates: Templates): void {
  const execute = async (ctx: Exchange) => {
    const call = callOf(ctx, wantedFormat(ctx))
    const stored = templates.find(ctx.params['name']!, data.catalog, '$')
    const described = templates.describe(stored, data.catalog)
    if (ctx.method === 'GET') refuseUnwantedWrite(ctx, described)
    if (ctx.method === 'DELETE') assertSameOrigin(ctx, ctx.state.session)
    const args = urlArguments(new URLSearchParams(ctx.querystring), described.parameters)
    if (ctx.method === 'POST' || ctx.method === 'PUT') {
      const isRows = (path: readonly (string | number)[]) =>
        path.length === 1 && described.parameters.get(path[0] as string)?.use === 'rows'
      Object.assign(args, bodyArguments(await readJson(ctx, { isRows, empty: Object.create(null) as JsonObject })))
    }
    return templates.execute(stored, args, call, '$')
  }
  for (const method of ['get', 'post', 'put', 'delete'] as const) host.route(method, '/v1/template/:name', execute)
}

/**
 * A GET is sent by browsers without anybody's asking: a link on another site, a prefetch. It may read with a cookie, and
 * change something only when it is known to be wanted.
 */
function refuseUnwantedWrite(ctx: Exchange, { reads }: Described): void {
  if (reads) return
  if (ctx.state.session.via !== 'cookie' && !/\bprefetch\b/i.test(ctx.get('Sec-Purpose') || ctx.get('Purpose'))) return
  if (ctx.state.session.via === 'cookie' || !isSameOrigin(ctx)) {
    throw serviceError('csrf', 'a template that changes something takes POST, PUT or DELETE here')
  }
}
