import { serviceError } from '../errors.js'
import type { Session } from '../session.js'
import { addressedUrl } from './client-address.js'
import type { Exchange } from './exchange.js'

/**
 * Refuses a request that another site may have sent with this caller's cookies. For routes that change something, or
 * that run a query from the request. Callers without cookies pass, because browsers send other credentials only on
 * purpose.
 * @throws ServiceError 403 csrf
 */
export function assertSameOrigin(ctx: Asking, session: Session): void {
  if (session.via !== 'cookie' || isSameOrigin(ctx)) return
  throw serviceError(
    'csrf',
    'a request with a cookie must come from the same origin, from one in http.cors.origins, or carry "X-Service-CSRF: 1"',
  )
}

/** Returns whether the request provably comes from a same-origin page and from a user action. */
export function isSameOrigin(ctx: Asking): boolean {
  // A prefetch is not a user action.
  if (/\bprefetch\b/i.test(ctx.get('Sec-Purpose') || ctx.get('Purpose'))) return false
  // Pages of other origins can send this header only if CORS allows it.
  if (ctx.get('X-Service-CSRF') === '1') return true
  const site = ctx.get('Sec-Fetch-Site')
  if (site === 'same-origin' || site === 'none') return true
  const origin = ctx.get('Origin')
  // Sec-Fetch-Site takes precedence: the browser knows the scheme, even behind a proxy that does not forward it.
  return ctx.state.origins.has(origin) || (site === '' && origin !== '' && origin === ownOrigin(ctx))
}

/**
 * Returns the origin that the client addressed.
 * @returns undefined when unknown: behind a proxy that is not trusted or sends no `X-Forwarded-Proto`
 */
function ownOrigin({ req, state }: Asking): string | undefined {
  const trusted = state.trustsPeer(req)
  const hidden = req.headers['x-forwarded-proto'] !== undefined || state.limits.socket !== undefined
  return !trusted && hidden ? undefined : addressedUrl(req, trusted)?.origin
}

type Asking = Pick<Exchange, 'get' | 'req' | 'state'>

/**
 * Requires a JSON content type from cookie callers, because a form on any page can send the other types that curl and
 * small clients use for JSON.
 * @throws ServiceError 415 unsupported-media-type
 */
export function requireJson(ctx: Pick<Exchange, 'get' | 'state'>, session: Session): void {
  if (session.via !== 'cookie') return
  const type = ctx.get('Content-Type').split(';')[0]!.trim().toLowerCase()
  if (type === 'application/json') return
  throw serviceError('unsupported-media-type', 'the Content-Type should be application/json')
}
