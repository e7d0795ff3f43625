import { setTimeout as sleep } from 'node:timers/promises'
import type { Context, Middleware } from 'koa'
import { ServiceError } from '../errors.js'
import type { Metrics } from '../metrics.js'
import { USER_ID } from '../session.js'
import type { Session } from '../session.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'
import type { Authenticate } from './session.js'

export interface Admission {
  /** Lets a request in if there is room for it, and finds out who sent it. */
  readonly middleware: Middleware
  /** Only finds out who sent it. */
  identify(ctx: Context): Promise<Session>
}

const MINUTE_MS = 60_000
const DELAY_MS = 1_000
/** Refusals that are kept waiting at once; more are answered immediately, so that waiting costs us nothing. */
const MAX_DELAYED = 100
const MAX_ADDRESSES = 10_000

export function admission(config: HttpConfig, authenticate: Authenticate, metrics: Metrics): Admission {
  const failures = metrics.counter('auth_failures_total', 'requests with wrong credentials')
  const rejected = metrics.counter('http_overload_total', 'requests refused because too many were under way')
  const guesses = createGuessLimit(config.failedAuthPerMinute)
  let busy = 0

  async function identified(ctx: Context, refused: () => void): Promise<Session> {
    try {
      if (ctx.req.rawHeaders.length / 2 > config.maxHeaders) throw tooManyHeaders(config.maxHeaders)
      const session = await authenticate(ctx.req)
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
      if (busy >= config.maxConcurrentRequests) {
        rejected.inc()
        throw new ServiceError(503, 'too-busy', 'too many requests are under way', '$', { retryAfter: 1 })
      }
      busy++
      const leave = once(() => busy--)
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

/**
 * Counts wrong credentials per minute and address of the client. Past the limit a wrong guess is answered late and alike; a
 * right one is not touched, so that nobody can lock out the others behind one address.
 */
function createGuessLimit(perMinute: number) {
  const windows = new Map<string, { count: number; endsAt: number }>()
  let delayed = 0

  function count(address: string): number {
    const now = performance.now()
    const known = windows.get(address)
    if (known && known.endsAt > now) return ++known.count
    windows.delete(address)
    // The oldest goes first: a map keeps the order in which keys came.
    if (windows.size >= MAX_ADDRESSES) windows.delete(windows.keys().next().value!)
    windows.set(address, { count: 1, endsAt: now + MINUTE_MS })
    return 1
  }

  return {
    /** Whether this guess is one too many; answers late if it is. */
    async exceeded(client: string, signal: AbortSignal): Promise<boolean> {
      if (count(addressKey(client)) <= perMinute) return false
      if (delayed >= MAX_DELAYED) return true
      delayed++
      await sleep(DELAY_MS, undefined, { signal }).catch(() => {})
      delayed--
      return true
    },
  }
}

const isWrongGuess = (error: unknown) =>
  error instanceof ServiceError && error.status === 401 && error.code !== 'missing-credentials'

const tooManyGuesses = () =>
  new ServiceError(429, 'too-many-failures', 'too many wrong credentials from this address', '$', { retryAfter: 60 })
const tooManyHeaders = (max: number) =>
  new ServiceError(431, 'too-many-headers', `the request has more than ${max} headers (http.maxHeaders)`)

function once(fn: () => void): () => void {
  let done = false
  return () => {
    if (done) return
    done = true
    fn()
  }
}
