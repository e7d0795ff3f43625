import type { Middleware } from 'koa'

/**
 * For answers that are data: not guessed at, not framed, not kept. A route that serves something else sets its own.
 * Not kept, because routes answer GET for callers told apart by headers, and some run writes.
 */
export const securityHeaders: Middleware = (ctx, next) => {
  ctx.set('X-Content-Type-Options', 'nosniff')
  ctx.set('Cache-Control', 'no-store')
  ctx.set('Referrer-Policy', 'no-referrer')
  ctx.set('Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'")
  return next()
}
