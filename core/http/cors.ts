import type { Middleware } from 'koa'
import type { HttpConfig } from './config.js'

/**
 * Lets pages of the configured origins read answers (Fetch standard, CORS protocol). Off without origins. An origin is
 * answered only if it is in the list, never because it asked.
 */
export function cors(config: HttpConfig['cors']): Middleware {
  const origins = new Set(config.origins)
  return (ctx, next) => {
    if (origins.size === 0) return next()
    ctx.vary('Origin')
    const origin = ctx.get('Origin')
    if (!origins.has(origin)) return next()

    ctx.set('Access-Control-Allow-Origin', origin)
    if (config.credentials) ctx.set('Access-Control-Allow-Credentials', 'true')
    const method = ctx.get('Access-Control-Request-Method')
    if (ctx.method !== 'OPTIONS' || method === '') {
      ctx.set('Access-Control-Expose-Headers', 'Content-Range, ETag, Location, Retry-After, X-Request-Id')
      return next()
    }
    ctx.set('Access-Control-Allow-Methods', method)
    ctx.set('Access-Control-Allow-Headers', ctx.get('Access-Control-Request-Headers'))
    ctx.set('Access-Control-Max-Age', String(config.maxAgeSeconds))
    ctx.status = 204
    return undefined
  }
}
