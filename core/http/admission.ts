import type { IncomingMessage } from 'node:http'
import { at, ServiceError, serviceError } from '../errors.js'
import type { Eventual } from '../deadline.js'
import { KeyedRequest } from '../request-headers.js'
import { isAdmin, ROLE_NAME, type Session, USER_ID } from '../session.js'
import { Timing } from '../observe/timing.js'
import { addressKey } from './client-address.js'
import type { AuthConfig, HttpConfig } from './config.js'
import {
  after,
  anonymous,
  bearerToken,
  chosenRole,
  invalidToken,
  makeSession,
  missingCredentials,
  readHeaders,
  refused,
  requestedRole,
  type RequestHeaders,
} from './identity.js'
import type { Exchange } from './exchange.js'
import { isService, joined, type LaterHeaders } from './later-headers.js'
import type { Traffic } from './traffic.js'
import type { Logger } from '../observe/log.js'
import { checkAuth } from './check-config.js'
import { rolesOf } from './claims.js'
import { actingAs, createSecrets, fromAdminSecret, fromGateway } from './secrets.js'
import { createTokenReader } from './jwt.js'
import { createWebhook } from './webhook.js'

interface Admission {
  /** Admits a request if the limits allow it, and authenticates its caller: sets `state.session`. */
  enter(exchange: Entering): Eventual<void>
  /** Admits a request to upgrade its connection, whose caller is identified later. */
  upgrade(exchange: Entering): void
  /** Authenticates the caller only. @param later headers that the client sent after the request */
  identify(exchange: Entering, later?: LaterHeaders): Eventual<Session>
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

  function identify(ctx: Entering, later?: LaterHeaders): Eventual<Session> {
    const { client } = ctx.state
    try {
      const isExempt = unauthenticated.some((prefix) => ctx.path.startsWith(prefix))
      const asked = (later && authenticate.withLater?.(ctx.req, later)) ?? ctx.req
      const session = isExempt ? anonymous() : authenticate(asked, overSocket)
      if (!(session instanceof Promise)) return withCaller(session, client)
      return session.then((known) => withCaller(known, client)).catch((error) => refuse(ctx, error))
    } catch (error) {
      return refuse(ctx, error)
    }
  }

  async function refuse({ state }: Entering, error: unknown): Promise<never> {
    state.leave?.()
    if (!isWrongGuess(error)) throw error
    const reason = error.cause instanceof Error ? error.cause.message : undefined
    if (reason !== undefined) state.log.warn({ reason }, 'credentials refused')
    if (await traffic.authFailed(state.client, state.signal)) throw tooManyGuesses()
    // Otherwise only the log has the reason: the response must not help an attacker who guesses.
    if (config.refusalReasons) state.refusalReason = reason
    throw error
  }

  function admit(ctx: Entering, session: Session): void {
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
  }

  return {
    identify,
    upgrade(ctx) {
      const { prefer, 'idempotency-key': key } = ctx.req.headers
      // They would be those of no request.
      if (key !== undefined) throw noIdempotency()
      if (prefer !== undefined && TX.test(String(prefer))) throw noDryRun()
      ctx.state.entered(traffic.enter(ctx.state.client))
    },
    enter(ctx) {
      ctx.state.entered(traffic.enter(ctx.state.client))
      return after(identify(ctx), (session) => admit(ctx, session))
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
  if (!isPossible) throw noDryRun()
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
const noDryRun = () => serviceError('not-supported', 'a dry run is not possible at this path', HEADER)
const emptyKey = () => serviceError('parse-failed', 'Idempotency-Key is empty', '$.headers.Idempotency-Key')
const tooManyGuesses = () =>
  serviceError('too-many-failures', 'too many wrong credentials from this address (http.failedAuthPerMinute)', '$', {
    retryAfter: 60,
  })

/**
 * Authenticates a request.
 * @throws ServiceError 400: ambiguous headers; 401: wrong credentials; 403: a role that the caller does not hold; 500,
 *   503: the authentication service is unavailable
 * @param overSocket whether it came over a unix socket, whose permissions admit only the gateway; proves nothing unless
 *   a gateway is configured
 */
export interface Authenticate {
  (req: Asked, overSocket?: boolean): Eventual<Session>
  /** Returns the request with headers that its client sent later. @throws ServiceError 400 */
  readonly withLater?: (req: Asked, later: LaterHeaders) => Asked
}
type Asked = Pick<IncomingMessage, 'rawHeaders' | 'headers'>

/** Reads credentials of one kind. Returns `null` to try the next authenticator. Throws a 401 for wrong credentials. */
export type Authenticator = (request: Credentials) => Promise<Session | null> | Session | null
export interface Credentials {
  /** Returns the first value of a header by lower-case name. */
  header(name: string): string | undefined
  cookie(name: string): string | undefined
}

/**
 * Combines the authenticators in order. No caller is admin without credentials.
 * @param extra authenticators of plugins; may grow until the first request
 * @param withoutSocket settings of the listeners on a port instead of a unix socket
 * @throws Error that names the setting, when the configuration is invalid
 */
export function createAuthenticate(
  config: AuthConfig,
  log: Logger,
  extra: readonly Authenticator[],
  withoutSocket: readonly string[] = ['http.socket'],
): Authenticate {
  const adminSecrets = createSecrets([config.adminSecret, ...config.previousAdminSecrets])
  const gatewaySecrets = createSecrets([config.gatewaySecret, ...config.previousGatewaySecrets])
  checkSecrets(config, log, withoutSocket)
  const hasura = config.hasuraNames
  const readToken = config.jwt && createTokenReader(config.jwt, log, hasura)
  const tokenHeaders = ['authorization', ...(config.jwt ?? []).flatMap(({ header }) => header?.toLowerCase() ?? [])]
  const hasToken = (headers: RequestHeaders) => tokenHeaders.some((name) => headers.get(name) !== undefined)
  const askWebhook = config.webhook && createWebhook(config.webhook, hasura)

  const authenticate: Authenticate = (req, overSocket = false) => {
    const atGateway = config.mode === 'gateway' && overSocket
    const headers = readHeaders(req, hasura)
    const proven =
      fromAdminSecret(headers, adminSecrets) ?? fromGateway(headers, gatewaySecrets, config.mode, atGateway)
    if (proven) return proven
    if (config.mode === 'gateway') throw missingCredentials('this server accepts requests from its gateway only')

    return after(fromAuthenticators(headers, extra, adminSecrets.keys), (own) => {
      // A browser sends cookies with every request, but a token in a header on purpose.
      if (own && (own.via !== 'cookie' || !hasToken(headers))) return own
      if (headers.underscored !== undefined) throw refused(headers.underscored, 'has a name with "_"')
      return after(readToken ? readToken(headers) : null, (known) => known ?? withoutToken(headers, req))
    })
  }

  function withoutToken(headers: RequestHeaders, { rawHeaders }: Asked): Eventual<Session> {
    if (askWebhook) return askWebhook(headers, rawHeaders)
    if (bearerToken(headers) !== undefined) throw invalidToken(new Error('auth.jwt is not configured'))
    chosenRole(requestedRole(headers), ['anonymous'], 'anonymous')
    return anonymous()
  }

  const isCredential = (name: string): boolean => tokenHeaders.includes(name) || isService(name, hasura)
  const withLater = (req: Asked, later: LaterHeaders): Asked =>
    config.mode === 'gateway' ? req : { ...req, headers: req.headers, rawHeaders: joined(req, later, isCredential) }
  const named: Authenticate = hasura
    ? (req, overSocket) => after(authenticate(req, overSocket), withHasuraNames)
    : authenticate
  return Object.assign(named, { withLater })
}

/** Adds the variables by their names in Hasura, for functions with a session argument. */
function withHasuraNames(session: Session): Session {
  const copies = [...session.variables].map(
    ([name, value]) => [name.replace(/^x-service-/, 'x-hasura-'), value] as const,
  )
  return Object.freeze({ ...session, variables: new Map([...session.variables, ...copies]) })
}

function checkSecrets(config: AuthConfig, log: Logger, withoutSocket: readonly string[]): void {
  const mistakes = checkAuth(config).map(({ keys, message }) => `${keys.reduce<string>(at, 'auth')}: ${message}`)
  if (mistakes.length > 0) throw new Error(mistakes.join('\n'))
  const open = gatewayMistake(config, withoutSocket)
  if (open !== undefined) throw new Error(open)
  for (const name of ['adminSecret', 'gatewaySecret'] as const) {
    const secret = config[name]
    if (secret !== undefined && secret.length < 32) log.warn(`auth.${name} is shorter than 32 characters`)
  }
}

/** Checks the mode `gateway`, in which a listener on a port needs a gateway secret. */
export function gatewayMistake(config: AuthConfig, [unset]: readonly string[]): string | undefined {
  if (config.mode !== 'gateway' || config.gatewaySecret !== undefined || unset === undefined) return undefined
  return `auth.gatewaySecret is required when auth.mode is "gateway" and ${unset} is not set`
}

/** @param secretKeys keyed hashes of the valid admin secrets */
function fromAuthenticators(
  headers: RequestHeaders,
  extra: readonly Authenticator[],
  secretKeys: ReadonlySet<string>,
  from = 0,
): Eventual<Session | null> {
  const authenticator = extra[from]
  if (!authenticator) return null
  const credentials: Credentials = {
    // Plugins see the requested role and no other X-Service header, because those are unverified.
    header: (name) => (name.startsWith('x-service-') && name !== 'x-service-role' ? undefined : headers.get(name)),
    cookie: (name) => headers.cookie(name),
  }
  const answer = authenticator(credentials)
  // A plugin may have promises of its own kind.
  return after(answer && 'then' in answer ? Promise.resolve(answer) : answer, (found) => {
    if (found === undefined) throw new Error('an authenticator returned neither a session nor null')
    return (found && admitted(found, headers, secretKeys)) ?? fromAuthenticators(headers, extra, secretKeys, from + 1)
  })
}

/** Returns the session of an authenticator in the role that the request asks for, or null if its secret is not valid any more. */
function admitted(session: Session, headers: RequestHeaders, secretKeys: ReadonlySet<string>): Session | null {
  const { role, roles, variables, via, secretKey } = session
  if (secretKey !== undefined && !secretKeys.has(secretKey)) return null
  if (!ROLE_NAME.test(role)) throw new Error('an authenticator returned an invalid role name')
  if (isAdmin(session)) return actingAs(session, headers)
  const held = roles && rolesOf(roles)
  const chosen = chosenRole(requestedRole(headers), held ?? [role], role)
  return Object.freeze({ ...makeSession(chosen, variables, via), roles: held })
}
