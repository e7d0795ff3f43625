import type { IncomingMessage } from 'node:http'
import { at } from '../errors.js'
import type { Logger } from '../observe/log.js'
import { isAdmin, ROLE_NAME, type Session } from '../session.js'
import { checkAuth } from './check-config.js'
import { rolesOf } from './claims.js'
import type { AuthConfig } from './config.js'
import { actingAs, createSecrets, fromAdminSecret, fromGateway } from './secrets.js'
import {
  readHeaders,
  type RequestHeaders,
  anonymous,
  bearerToken,
  chosenRole,
  invalidToken,
  makeSession,
  missingCredentials,
  refused,
  requestedRole,
} from './identity.js'
import { createTokenReader } from './jwt.js'
import { createWebhook } from './webhook.js'

/**
 * Authenticates a request.
 * @throws ServiceError 400: ambiguous headers; 401: wrong credentials; 403: a role that the caller does not hold; 500,
 *   503: the authentication service is unavailable
 * @param overSocket whether it came over a unix socket, whose permissions admit only the gateway; proves nothing unless
 *   a gateway is configured
 */
export type Authenticate = (req: IncomingMessage, overSocket?: boolean) => Promise<Session>

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

  const authenticate: Authenticate = async (req, overSocket = false) => {
    const atGateway = config.mode === 'gateway' && overSocket
    const headers = readHeaders(req, hasura)
    const proven =
      fromAdminSecret(headers, adminSecrets) ?? fromGateway(headers, gatewaySecrets, config.mode, atGateway)
    if (proven) return proven
    if (config.mode === 'gateway') throw missingCredentials('this server accepts requests from its gateway only')

    const own = await fromAuthenticators(headers, extra, adminSecrets.keys)
    // A browser sends cookies with every request, but a token in a header on purpose.
    if (own && (own.via !== 'cookie' || !hasToken(headers))) return own
    if (headers.underscored !== undefined) throw refused(headers.underscored, 'has a name with "_"')
    const known = await readToken?.(headers)
    if (known) return known
    if (askWebhook) return askWebhook(headers, req.rawHeaders)
    if (bearerToken(headers) !== undefined) throw invalidToken(new Error('auth.jwt is not configured'))
    chosenRole(requestedRole(headers), ['anonymous'], 'anonymous')
    return anonymous()
  }
  return hasura ? async (req, overSocket) => withHasuraNames(await authenticate(req, overSocket)) : authenticate
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
async function fromAuthenticators(
  headers: RequestHeaders,
  extra: readonly Authenticator[],
  secretKeys: ReadonlySet<string>,
): Promise<Session | null> {
  if (extra.length === 0) return null
  const credentials: Credentials = {
    // Plugins see the requested role and no other X-Service header, because those are unverified.
    header: (name) => (name.startsWith('x-service-') && name !== 'x-service-role' ? undefined : headers.get(name)),
    cookie: headers.cookie,
  }
  for (const authenticator of extra) {
    const session = await authenticator(credentials)
    if (session === null) continue
    const { role, roles, variables, via, secretKey } = session
    if (secretKey !== undefined && !secretKeys.has(secretKey)) continue
    if (!ROLE_NAME.test(role)) throw new Error('an authenticator returned an invalid role name')
    if (isAdmin(session)) return actingAs(session, headers)
    const held = roles && rolesOf(roles)
    const chosen = chosenRole(requestedRole(headers), held ?? [role], role)
    return Object.freeze({ ...makeSession(chosen, variables, via), roles: held })
  }
  return null
}
