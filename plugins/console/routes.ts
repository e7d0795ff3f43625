import type { Context } from 'koa'
import {
  assertAdmin,
  assertSameOrigin,
  type Host,
  isSameOrigin,
  type JsonObject,
  readJson,
  serviceError,
  type Session,
} from 'rowhouse'
import { cookieName, type Created, idIn, isOwnPage, SECURE, type Sessions } from './sessions.js'

/** The sign-in. Everything else that the console calls belongs to other plugins. */
export function sessionRoutes(router: Host['router'], sessions: Sessions): void {
  router.get('/console/session', (ctx) => {
    const { role, roles, via, variables } = ctx.state.session
    ctx.body = { signed_in: via !== 'anonymous', role, roles, via, variables: Object.fromEntries(variables) }
  })

  router.post('/console/session', async (ctx) => {
    assertOwnPage(ctx)
    const { code } = (await readJson(ctx, { empty: {} })) as JsonObject
    const { session } = ctx.state
    const { id, seconds } = typeof code === 'string' ? await redeemed(sessions, code) : await created(sessions, session)
    setCookie(ctx, id, seconds)
    ctx.status = 201
    ctx.body = { signed_in: true }
  })

  router.post('/console/sign-in-link', async (ctx) => {
    await readJson(ctx, { empty: {} })
    const { session } = ctx.state
    assertAdmin(session)
    // What a token or a cookie could create would last longer than they do.
    if (session.via !== 'admin-secret') throw serviceError('access-denied', 'only the admin secret makes sign-in links')
    const { id, seconds } = await sessions.createCode(session)
    ctx.status = 201
    ctx.body = { path: `/console#code=${id}`, expires_in_seconds: seconds }
  })

  router.delete('/console/session', async (ctx) => {
    assertOwnPage(ctx)
    const { session } = ctx.state
    const id = idIn(ctx.get('Host'), (name) => ctx.cookies.get(name))
    if (ctx.query['all'] !== undefined) {
      assertAdmin(session)
      await sessions.endAll()
    } else if (id !== undefined) await sessions.end(id)
    setCookie(ctx, '', 0)
    ctx.status = 204
  })

  router.delete('/console/sessions', async (ctx) => {
    const { session } = ctx.state
    assertSameOrigin(ctx, session)
    if (session.via === 'anonymous') throw serviceError('missing-credentials', 'sign in to sign out everywhere')
    await sessions.endAllOf(session)
    setCookie(ctx, '', 0)
    ctx.status = 204
  })
}

/** @throws ServiceError 401 invalid-token */
async function redeemed(sessions: Sessions, code: string): Promise<Created> {
  const session = await sessions.redeem(code)
  if (session) return sessions.create(session)
  throw serviceError('invalid-token', 'this sign-in link has expired or was used before')
}

/** @throws ServiceError 401 missing-credentials */
async function created(sessions: Sessions, session: Session): Promise<Created> {
  // A session does not create another, which would last longer.
  if (session.via !== 'anonymous' && session.via !== 'cookie') return sessions.create(session, endOf(session))
  throw serviceError('missing-credentials', 'send the admin secret, a token, or the code of a sign-in link')
}

/** Sets the cookie, for HTTPS only if the browser uses HTTPS. */
function setCookie(ctx: Context, id: string, seconds: number): void {
  const isSecure = ctx.get('Origin').startsWith('https:')
  const name = `${isSecure ? SECURE : ''}${cookieName(ctx.get('Host'))}`
  const secure = isSecure ? '; Secure' : ''
  ctx.set('Set-Cookie', `${name}=${id}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`)
}

/** @throws ServiceError 403 csrf: the request comes from a page of another origin */
function assertOwnPage(ctx: Context): void {
  if (isSameOrigin(ctx) && isOwnPage((name) => ctx.get(name))) return
  throw serviceError('csrf', 'sign in and out on the page of this server')
}

/** Returns the latest end of a session, in milliseconds since 1970: within an hour if the expiry of the token is unknown. */
const endOf = ({ via, expiresAt }: Session): number =>
  expiresAt ?? (via === 'admin-secret' ? Infinity : Date.now() + UNKNOWN_MS)
const UNKNOWN_MS = 3_600_000
