import type { Context, Middleware } from 'koa'
import { type ErrorCode, type ServiceError, serviceError } from '../errors.js'

/**
 * Enforces rules of HTTP/1.1 that Node leaves to the application or refuses without a response body (RFC 9110 7.2,
 * 10.1.1).
 */
export const expectable: Middleware = (ctx, next) => {
  const { headers, httpVersionMinor } = ctx.req
  if (httpVersionMinor >= 1) {
    if (headers.host === undefined) throw refused(ctx, 'parse-failed', 'the header Host is missing')
    if (headers.expect !== undefined && !/(^|\W)100-continue($|\W)/i.test(headers.expect)) {
      throw refused(ctx, 'expectation-failed', 'the header Expect may only be "100-continue"')
    }
  }
  return next()
}

function refused(ctx: Context, code: ErrorCode, message: string): ServiceError {
  ctx.set('Connection', 'close')
  return serviceError(code, message)
}
