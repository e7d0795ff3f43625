import type { Context } from 'koa'
import { assertAdmin, type Host, isSameOrigin, type JsonObject, readJson, serviceError, type Session } from 'rowhouse'
import { cookieName, type Sessions } from './sessions.js'

/** The sign-in. Everything else that the console calls belongs to other plugins. */
export function sessionRoutes(router: Host['router'], sessions: Sessions): void {
  router.get('/console/session', (ctx) => {
    const { role, via, variables } = ctx.state.session
    ctx.body = { signed_in: via !== 'anonymous', role, via, variables: Object.fromEntries(variables) }
  })

  router.post('/console/session', async (ctx) => {
    if (!isSameOrigin(ctx)) throw serviceError('csrf', 'sign in from the page of this server')
    const { code } = (await readJson(ctx, { empty: {} })) as JsonObject
    const session = typeof code === 'string' ? await withCode(sessions, code) : ctx.state.session
    // A session does not create another, which would last longer.
    if (session.via === 'anonymous' || (session === ctx.state.session && session.via === 'cookie')) {
      throw serviceError('missing-credentials', 'send the admin secret, a token, or the code of a sign-in link')
    }
    const { id, seconds } = await sessions.create(session, expiryOf(ctx.get('Authorization')))
    setCookie(ctx, id, seconds)
    ctx.status = 201
    ctx.body = { signed_in: true, role: session.role }
  })

  router.post('/console/sign-in-link', async (ctx) => {
    await readJson(ctx, { empty: {} })
    assertAdmin(ctx.state.session)
    const { id, seconds } = await sessions.createCode(ctx.state.session)
    ctx.status = 201
    ctx.body = { path: `/console#code=${id}`, expires_in_seconds: seconds }
  })

  router.delete('/console/session', async (ctx) => {
    if (!isSameOrigin(ctx)) throw serviceError('csrf', 'sign out from the page of this server')
    const { session } = ctx.state
    const id = ctx.cookies.get(cookieName(ctx.get('Host')))
    if (ctx.query['all'] !== undefined) {
      assertAdmin(session)
      await sessions.endAll()
    } else if (id !== undefined) await sessions.end(id)
    setCookie(ctx, '', 0)
    ctx.status = 204
  })
}

/** @throws ServiceError 401 invalid-token */
async function withCode(sessions: Sessions, code: string): Promise<Session> {
  const session = await sessions.redeem(code)
  if (session) return session
  throw serviceError('invalid-token', 'this sign-in link has expired or was used before')
}

/** Sets the cookie, for HTTPS only if the browser uses HTTPS. */
function setCookie(ctx: Context, id: string, seconds: number): void {
  const secure = ctx.get('Origin').startsWith('https:') ? '; Secure' : ''
  const name = cookieName(ctx.get('Host'))
  ctx.set('Set-Cookie', `${name}=${id}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`)
}

/** Returns when a JWT expires, in milliseconds since 1970. It was verified before. Other tokens have no known expiry. */
function expiryOf(authorization: string): number | undefined {
  const payload = /^bearer +[\w-]+\.([\w-]+)\./i.exec(authorization)?.[1]
  if (payload === undefined) return undefined
  try {
    const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { readonly exp?: unknown }
    return typeof exp === 'number' ? exp * 1000 : undefined
  } catch {
    return undefined
  }
}
