import type { IncomingMessage } from 'node:http'
import { ServiceError, serviceError } from '../errors.js'
import { KeyedRequest } from '../request-headers.js'
import { isAdmin, type Session, USER_ID } from '../session.js'
import { Timing } from '../observe/timing.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'
import { anonymous } from './identity.js'
import type { Exchange } from './exchange.js'
import type { Authenticate } from './session.js'
import type { Traffic } from './traffic.js'

export interface Admission {
  /** Admits a request if the limits allow it, and authenticates its caller: sets `state.session`. */
  enter(exchange: Entering): Promise<void>
  /** Authenticates the caller only. */
  identify(exchange: Entering): Promise<Session>
}
type Entering = Pick<Exchange, 'req' | 'res' | 'path' | 'state'>

/**
 * Creates the admission of requests.
 * @param unauthenticated path prefixes without authentication; may grow until the first request
 * @param idempotent what honours `Idempotency-Key`, by path, or by prefix with a slash at its end: the route itself, or
 *   the server, which keeps the answer. May grow until the first request
 */
export function admission(
  config: HttpConfig,
  authenticate: Authenticate,
  traffic: Traffic,
  unauthenticated: readonly string[],
  idempotent: ReadonlyMap<string, 'route' | 'server'>,
): Admission {
  const overSocket = config.socket !== undefined

  async function identify(ctx: Entering, onRefusal: () => void): Promise<Session> {
    try {
      const isExempt = unauthenticated.some((prefix) => ctx.path.startsWith(prefix))
      const session = isExempt ? anonymous() : await authenticate(ctx.req, overSocket)
      return withCaller(session, ctx.state.client)
    } catch (error) {
      onRefusal()
      if (!isWrongGuess(error)) throw error
      const reason = error.cause instanceof Error ? error.cause.message : undefined
      if (reason !== undefined) ctx.state.log.warn({ reason }, 'credentials refused')
      if (await traffic.authFailed(ctx.state.client, ctx.state.signal)) throw tooManyGuesses()
      // Otherwise only the log has the reason: the response must not help an attacker who guesses.
      if (config.refusalReasons) ctx.state.refusalReason = reason
      throw error
    }
  }

  return {
    identify: (ctx) => identify(ctx, () => {}),
    async enter(ctx) {
      const leave = traffic.enter(ctx.state.client)
      ctx.res.on('close', leave)
      const session = await identify(ctx, leave)
      ctx.state.session = session
      if (config.serverTiming && isAdmin(session)) ctx.state.timing = new Timing()
      traffic.held.check(session)
      const { prefer, 'idempotency-key': key } = ctx.req.headers
      if (prefer !== undefined) readPrefer(ctx, String(prefer), idempotent)
      if (key === undefined) return
      const by = honoured(idempotent, ctx.path)
      if (!by) throw noIdempotency()
      if (key === '') throw emptyKey()
      if (by === 'server') ctx.state.keyed = keyedRequest(String(key), ctx.req)
    },
  }
}

/** Adds the caller for limits: the user id in its role, or else, as for anonymous callers, the client address. */
function withCaller(session: Session, client: string): Session {
  const { role, roles, variables, backend, acting, expiresAt, secretKey, via } = session
  if (isAdmin(session)) return session
  const userId = role === 'anonymous' ? undefined : variables.get(USER_ID)
  const address = `address ${addressKey(client)}`
  const caller = userId !== undefined ? `user ${userId} ${role}` : role === 'anonymous' ? address : `${address} ${role}`
  return Object.freeze({ role, roles, variables, backend, acting, expiresAt, secretKey, via, caller })
}

const isWrongGuess = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.status === 401 && error.code !== 'missing-credentials'

/**
 * Makes a request a dry run if it prefers so.
 * @throws ServiceError 400 where it would not be one, and for other values: the request would write
 */
function readPrefer(
  { req, res, path, state }: Entering,
  prefer: string,
  idempotent: ReadonlyMap<string, 'route' | 'server'>,
): void {
  const values = new Set(prefer.split(',').flatMap((each) => TX.exec(each)?.[1]?.toLowerCase() ?? []))
  const [value] = values
  if (value === undefined) return
  if (values.size > 1 || (value !== 'rollback' && value !== 'commit')) {
    const message = 'the preference "tx" is "tx=rollback" for a dry run, or "tx=commit"'
    throw serviceError('parse-failed', message, HEADER)
  }
  if (value === 'commit') return
  const isPossible = honoured(idempotent, path) === 'server'
  if (!isPossible && (req.method === 'GET' || req.method === 'HEAD')) return
  res.setHeader('Preference-Applied', 'tx=rollback')
  if (!isPossible) throw serviceError('not-supported', 'a dry run is not possible at this path', HEADER)
  state.dryRun = true
}

/** The preference `tx`, with its value. Other preferences are ignored, as RFC 7240 says. */
const TX = /^\s*tx\s*(?:$|(?=;)|=\s*)"?([^\s";]*)/i
const HEADER = '$.headers.Prefer'

/** Returns what honours `Idempotency-Key` at a path. */
function honoured(idempotent: ReadonlyMap<string, 'route' | 'server'>, path: string): 'route' | 'server' | undefined {
  const exact = idempotent.get(path)
  if (exact) return exact
  return [...idempotent].find(([prefix]) => prefix.endsWith('/') && path.startsWith(prefix))?.[1]
}

const keyedRequest = (key: string, { method, url, headers }: IncomingMessage): KeyedRequest =>
  new KeyedRequest(key, method, url, ...MEANING.map((name) => headers[name] ?? null))
/** Headers that a repeated request must have in common with the first. Its session and its body are compared as well. */
const MEANING = ['accept', 'if-match', 'if-none-match', 'if-unmodified-since', 'x-service-digits-as-text']

/** Refuses the header, because a client that sends it would retry writes that already took effect. */
const noIdempotency = () =>
  serviceError('not-supported', 'Idempotency-Key is not supported at this path', '$.headers.Idempotency-Key')
const emptyKey = () => serviceError('parse-failed', 'Idempotency-Key is empty', '$.headers.Idempotency-Key')
const tooManyGuesses = () =>
  serviceError('too-many-failures', 'too many wrong credentials from this address (http.failedAuthPerMinute)', '$', {
    retryAfter: 60,
  })
