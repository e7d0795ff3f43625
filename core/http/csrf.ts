import { serviceError } from '../errors.js'
import type { Session } from '../session.js'
import type { Exchange } from './exchange.js'

/**
 * Refuses a request that another site may have sent with this caller's cookies. For routes that change something, or
 * that run what a caller wrote. Others than cookie callers pass: no browser adds their credentials unasked.
 * @throws ServiceError 403 csrf
 */
export function assertSameOrigin(ctx: Asking, session: Session): void {
  if (session.via !== 'cookie' || isSameOrigin(ctx)) return
  throw serviceError(
    'csrf',
    'a request with a cookie must come from the same origin, from one in http.cors.origins, or carry "X-Service-CSRF: 1"',
  )
}

/** Whether the request provably comes from a page of ours, and because somebody wanted it. */
export function isSameOrigin(ctx: Asking): boolean {
  // Prefetched: nobody has asked for it yet.
  if (/\bprefetch\b/i.test(ctx.get('Sec-Purpose') || ctx.get('Purpose'))) return false
  // A header that pages of other origins may only send if CORS lets them.
  if (ctx.get('X-Service-CSRF') === '1') return true
  const site = ctx.get('Sec-Fetch-Site')
  if (site === 'same-origin' || site === 'none') return true
  const origin = ctx.get('Origin')
  // A browser that says more is believed: it knows the scheme, also behind a proxy that says nothing of it.
  return ctx.state.origins.has(origin) || (site === '' && origin !== '' && origin === ownOrigin(ctx))
}

/**
 * The origin that the client asked: by the `Host` header, over HTTP. A trusted proxy says it by `X-Forwarded-Proto`, and by
 * `X-Forwarded-Host` where it changes `Host`.
 * @returns undefined where that is not known: behind a proxy that does not say it, or is not trusted
 */
function ownOrigin(ctx: Asking): string | undefined {
  const { req, state } = ctx
  const forwarded = ctx.get('X-Forwarded-Proto')
  const trusted = state.trustsPeer(req)
  if (!trusted && (forwarded !== '' || state.limits.socket !== undefined)) return undefined
  const scheme = trusted ? forwarded : 'http'
  const host = (trusted && ctx.get('X-Forwarded-Host')) || ctx.get('Host')
  if (!/^https?$/.test(scheme) || !/^[^\s,/@?#]+$/.test(host)) return undefined
  return URL.canParse(`${scheme}://${host}`) ? new URL(`${scheme}://${host}`).origin : undefined
}

type Asking = Pick<Exchange, 'get' | 'req' | 'state'>

/**
 * Demands a body declared as JSON of cookie callers, because a form on any page can send the other types that curl
 * and small clients use for JSON.
 * @throws ServiceError 415 unsupported-media-type
 */
export function requireJson(ctx: Pick<Exchange, 'get' | 'state'>, session: Session): void {
  if (session.via !== 'cookie') return
  const type = ctx.get('Content-Type').split(';')[0]!.trim().toLowerCase()
  if (type === 'application/json') return
  throw serviceError('unsupported-media-type', 'the Content-Type should be application/json')
}
