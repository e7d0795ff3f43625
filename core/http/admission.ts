import type { Context, Middleware } from 'koa'
import { ServiceError } from '../errors.js'
import { USER_ID } from '../session.js'
import type { Session } from '../session.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'
import { anonymous } from './identity.js'
import type { Authenticate } from './session.js'
import type { Traffic } from './traffic.js'

export interface Admission {
  /** Lets a request in if there is room for it, and finds out who sent it. */
  readonly middleware: Middleware
  /** Only finds out who sent it. */
  identify(ctx: Context): Promise<Session>
}

/** @param unasked prefixes of paths where nobody is asked for credentials; may still grow until the first request */
export function admission(
  config: HttpConfig,
  authenticate: Authenticate,
  traffic: Traffic,
  unasked: readonly string[],
): Admission {
  const { failures, rejected, guesses, room } = traffic
  const overSocket = config.socket !== undefined

  async function identified(ctx: Context, refused: () => void): Promise<Session> {
    try {
      if (ctx.req.rawHeaders.length / 2 > config.maxHeaders) throw tooManyHeaders(config.maxHeaders)
      const asked = !unasked.some((prefix) => ctx.path.startsWith(prefix))
      const session = asked ? await authenticate(ctx.req, overSocket) : anonymous()
      return Object.freeze({ ...session, ...callerOf(session, ctx.state.client) })
    } catch (error) {
      refused()
      if (!isWrongGuess(error)) throw error
      failures.inc()
      // The answer does not say why: whoever guesses should not learn it.
      const cause = error instanceof ServiceError ? error.cause : undefined
      if (cause instanceof Error) ctx.state.log.info({ reason: cause.message }, 'credentials refused')
      throw (await guesses.exceeded(ctx.state.client, ctx.state.signal)) ? tooManyGuesses() : error
    }
  }

  return {
    identify: (ctx) => identified(ctx, () => {}),
    async middleware(ctx, next) {
      const leave = room.enter()
      if (!leave) {
        rejected.inc()
        throw new ServiceError(503, 'too-busy', 'too many requests are under way', '$', { retryAfter: 1 })
      }
      ctx.res.once('close', leave)
      ctx.state.session = await identified(ctx, leave)
      await next()
    },
  }
}

/** A user is one wherever it calls from. Who has no id of its own, as all anonymous callers, is where it calls from. */
function callerOf({ role, variables }: Session, client: string): Pick<Session, 'caller'> {
  if (role === 'admin') return {}
  const userId = role === 'anonymous' ? undefined : variables.get(USER_ID)
  return { caller: userId === undefined ? `address ${addressKey(client)}` : `user ${userId} ${role}` }
}

const isWrongGuess = (error: unknown) =>
  error instanceof ServiceError && error.status === 401 && error.code !== 'missing-credentials'

const tooManyGuesses = () =>
  new ServiceError(429, 'too-many-failures', 'too many wrong credentials from this address', '$', { retryAfter: 60 })
const tooManyHeaders = (max: number) =>
  new ServiceError(431, 'too-many-headers', `the request has more than ${max} headers (http.maxHeaders)`)
