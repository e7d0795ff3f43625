import type { Middleware } from 'koa'
import type { HttpConfig } from './config.js'

/**
 * Lets pages of the configured origins read answers (Fetch standard, CORS protocol). Off without origins. An origin is
 * answered only if it is in the list, never because it asked.
 */
export function cors(config: HttpConfig['cors']): Middleware {
  const headersFor = corsHeaders(config)
  return (ctx, next) => {
    const origin = ctx.get('Origin')
    const headers = headersFor(origin)
    for (let i = 0; i < headers.length; i += 2) ctx.set(headers[i]!, headers[i + 1]!)
    const method = ctx.get('Access-Control-Request-Method')
    if (ctx.method !== 'OPTIONS' || method === '' || !config.origins.includes(origin)) return next()

    ctx.remove('Access-Control-Expose-Headers')
    ctx.set('Access-Control-Allow-Methods', method)
    ctx.set('Access-Control-Allow-Headers', ctx.get('Access-Control-Request-Headers'))
    ctx.set('Access-Control-Max-Age', String(config.maxAgeSeconds))
    ctx.status = 204
    return undefined
  }
}

/** @returns what an answer carries for a request from an origin, names and values in turn */
export function corsHeaders({ origins, credentials }: HttpConfig['cors']): (origin: string) => readonly string[] {
  const known = new Set(origins)
  const vary = ['Vary', 'Origin']
  const allowed = [
    ...(credentials ? ['Access-Control-Allow-Credentials', 'true'] : []),
    'Access-Control-Expose-Headers',
    'Content-Range, ETag, Location, Retry-After, X-Request-Id',
  ]
  if (known.size === 0) return () => []
  return (origin) => (known.has(origin) ? [...vary, 'Access-Control-Allow-Origin', origin, ...allowed] : vary)
}
