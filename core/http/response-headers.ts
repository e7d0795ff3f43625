import type { Middleware } from 'koa'
import type { HttpConfig } from './config.js'

/**
 * Headers for data responses: no sniffing, no framing, no caching. A route that serves something else sets its own.
 * Caching is off because GET responses depend on the caller's headers, and some routes write. Names and values
 * alternate.
 */
export const SECURITY_HEADERS: readonly string[] = [
  'X-Content-Type-Options',
  'nosniff',
  'Cache-Control',
  'no-store',
  'Referrer-Policy',
  'no-referrer',
  'Content-Security-Policy',
  "default-src 'none'; frame-ancestors 'none'",
]

/** Sets these headers, unless a handler has set them already, and the request id. */
export const firstHeaders: Middleware = (ctx, next) => {
  for (let i = 0; i < SECURITY_HEADERS.length; i += 2) {
    if (!ctx.res.hasHeader(SECURITY_HEADERS[i]!)) ctx.set(SECURITY_HEADERS[i]!, SECURITY_HEADERS[i + 1]!)
  }
  ctx.set('X-Request-Id', ctx.state.requestId)
  return next()
}

/**
 * Adds CORS headers (Fetch standard) for the configured origins. Other origins get none. Without origins, CORS is off.
 */
export function cors(config: HttpConfig['cors']): Middleware {
  const headersFor = corsHeaders(config)
  return (ctx, next) => {
    const origin = ctx.get('Origin')
    const headers = headersFor(origin)
    for (let i = 0; i < headers.length; i += 2) ctx.set(headers[i]!, headers[i + 1]!)
    const method = ctx.get('Access-Control-Request-Method')
    if (ctx.method !== 'OPTIONS' || method === '' || !config.origins.includes(origin)) return next()

    const wanted = ctx.get('Access-Control-Request-Headers')
    ctx.remove('Access-Control-Expose-Headers')
    ctx.vary(['Access-Control-Request-Method', 'Access-Control-Request-Headers'])
    ctx.set('Access-Control-Allow-Methods', method)
    if (wanted !== '') ctx.set('Access-Control-Allow-Headers', wanted)
    ctx.set('Access-Control-Max-Age', String(config.maxAgeSeconds))
    ctx.status = 204
    return undefined
  }
}

/** All headers that responses have and that browsers hide otherwise. Routes add those of their own. */
const EXPOSED_HEADERS = [
  'Accept-Encoding',
  'Accept-Ranges',
  'Allow',
  'Content-Disposition',
  'Content-Range',
  'ETag',
  'Idempotency-Replayed',
  'Location',
  'Preference-Applied',
  'Retry-After',
  'Rowhouse-Position',
  'Server-Timing',
  'WWW-Authenticate',
  'X-Request-Id',
].join(', ')

/** Returns the CORS headers of a response by origin: names and values alternate. */
export function corsHeaders({ origins, credentials }: HttpConfig['cors']): (origin: string) => readonly string[] {
  const known = new Set(origins)
  const vary = ['Vary', 'Origin']
  const allowed = [
    ...(credentials ? ['Access-Control-Allow-Credentials', 'true'] : []),
    'Access-Control-Expose-Headers',
    EXPOSED_HEADERS,
  ]
  if (known.size === 0) return () => []
  return (origin) => (known.has(origin) ? [...vary, 'Access-Control-Allow-Origin', origin, ...allowed] : vary)
}
