import type { Middleware } from 'koa'

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
