import type { Middleware } from 'koa'

/**
 * For answers that are data: not guessed at, not framed, not kept. A route that serves something else sets its own.
 * Not kept, because routes answer GET for callers told apart by headers, and some run writes. Names and values in turn.
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

/** These, unless a handler has set them already, and what the request is called. */
export const firstHeaders: Middleware = (ctx, next) => {
  for (let i = 0; i < SECURITY_HEADERS.length; i += 2) {
    if (!ctx.res.hasHeader(SECURITY_HEADERS[i]!)) ctx.set(SECURITY_HEADERS[i]!, SECURITY_HEADERS[i + 1]!)
  }
  ctx.set('X-Request-Id', ctx.state.requestId)
  return next()
}
