import type { IncomingMessage } from 'node:http'
import { at } from '../errors.js'
import type { Logger } from '../log.js'
import { ROLE_NAME } from '../session.js'
import type { Session } from '../session.js'
import { checkAuth } from './check-config.js'
import type { AuthConfig } from './config.js'
import { fromAdminSecret, fromGateway } from './gateway.js'
import { readHeaders } from './headers.js'
import type { RequestHeaders } from './headers.js'
import {
  anonymous,
  bearerToken,
  chosenRole,
  invalidToken,
  makeSession,
  missingCredentials,
  requestedRole,
} from './identity.js'
import { createTokenReader } from './jwt.js'
import { createSecrets } from './secret.js'
import { createWebhook } from './webhook.js'

/**
 * Finds out who sent a request.
 * @throws ServiceError 400: headers that cannot be read one way only; 401: wrong credentials; 403: a role that the
 *   caller does not hold; 500, 503: the service that would know is out of order
 * @param overSocket it came over a unix socket, whose permissions keep others than the gateway away; without a gateway
 *   this proves nothing
 */
export type Authenticate = (req: IncomingMessage, overSocket?: boolean) => Promise<Session>

/** Reads credentials of one kind. `null`: not mine, ask the next. Throws a 401 for credentials that are wrong. */
export type Authenticator = (request: Credentials) => Promise<Session | null> | Session | null
export interface Credentials {
  /** First value of a header, by lower-case name. */
  header(name: string): string | undefined
  cookie(name: string): string | undefined
}

/**
 * The ways to prove an identity, in the order in which they are asked. Nobody is admin without proof.
 * @param extra authenticators of plugins; may still grow until the first request
 * @param withoutSocket the settings of the listeners that have a port in place of a unix socket
 * @throws Error at once, naming the setting, when the configuration cannot be right
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
  const readToken = config.jwt && createTokenReader(config.jwt, log)
  const askWebhook = config.webhook && createWebhook(config.webhook)

  return async (req, overSocket = false) => {
    const atGateway = config.mode === 'gateway' && overSocket
    const headers = readHeaders(req)
    const proven =
      fromAdminSecret(headers, adminSecrets) ?? fromGateway(headers, gatewaySecrets, config.mode, atGateway)
    if (proven) return proven
    if (config.mode === 'gateway') throw missingCredentials('only the gateway may call this server')

    const known = (await fromAuthenticators(headers, extra)) ?? (await readToken?.(headers))
    if (known) return known
    if (askWebhook) return askWebhook(headers, req.rawHeaders)
    if (bearerToken(headers) !== undefined) throw invalidToken()
    chosenRole(requestedRole(headers), ['anonymous'], 'anonymous')
    return anonymous()
  }
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

/** In the mode `gateway` a listener on a port proves nothing by itself. */
export function gatewayMistake(config: AuthConfig, [unset]: readonly string[]): string | undefined {
  if (config.mode !== 'gateway' || config.gatewaySecret !== undefined || unset === undefined) return undefined
  return `auth.gatewaySecret is needed when auth.mode is "gateway" and ${unset} is not set`
}

async function fromAuthenticators(headers: RequestHeaders, extra: readonly Authenticator[]): Promise<Session | null> {
  if (extra.length === 0) return null
  const credentials: Credentials = {
    // Plugins see the wish for a role, and no other X-Service header: those are unproven.
    header: (name) => (name.startsWith('x-service-') && name !== 'x-service-role' ? undefined : headers.get(name)),
    cookie: headers.cookie,
  }
  for (const authenticator of extra) {
    const session = await authenticator(credentials)
    if (session === null) continue
    if (!ROLE_NAME.test(session.role)) throw new Error(`an authenticator returned a role with a wrong name`)
    return makeSession(chosenRole(requestedRole(headers), [session.role], session.role), session.variables, session.via)
  }
  return null
}
