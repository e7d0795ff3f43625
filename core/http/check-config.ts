import type { Issue } from '../json/schema.js'
import { VARIABLE_NAME } from '../session.js'
import { readProxies } from './client-address.js'
import type { AuthConfig, HttpConfig, JwtConfig } from './config.js'
import { ownName } from './identity.js'
import { keyMistakes } from './jwt-key.js'

/** Returns the mistakes in the section `http` that its schema cannot detect. */
export function checkHttp(config: HttpConfig): readonly Issue[] {
  const proxies = readProxies(config.trustedProxies).wrong.map((index) => ({
    keys: ['trustedProxies', index],
    message: 'must be an IP address, a CIDR range such as 10.0.0.0/8, or "unix"',
  }))
  return [...proxies, ...listenerMistakes(config)]
}

/** Checks that listeners have distinct addresses and that each plugin has at most one listener. */
function listenerMistakes({ listeners, ...main }: HttpConfig): readonly Issue[] {
  const places = new Set([placeOf(main, main)])
  const plugins = new Set<string>()
  return listeners.flatMap((listener, index) => {
    const wrong = (keys: Issue['keys'], message: string): Issue => ({ keys: ['listeners', index, ...keys], message })
    const repeated = listener.plugins.flatMap((name, i) => {
      if (plugins.has(name)) return [wrong(['plugins', i], `"${name}" already has a listener`)]
      plugins.add(name)
      return []
    })
    if (listener.port === undefined && listener.socket === undefined) {
      return [...repeated, wrong([], 'requires "port" or "socket"')]
    }
    if (listener.socket !== undefined && (listener.port ?? listener.host) !== undefined) {
      return [...repeated, wrong(['socket'], 'cannot be combined with "host" and "port"')]
    }
    const place = placeOf(listener, main)
    if (places.has(place) && listener.port !== 0)
      return [...repeated, wrong([], 'has the address of another listener: add its plugins to that listener')]
    places.add(place)
    return repeated
  })
}

function placeOf({ host, port, socket }: Partial<HttpConfig>, main: Pick<HttpConfig, 'host'>): string {
  return socket === undefined ? `${host ?? main.host} ${port}` : socket.path
}

/** Returns the mistakes in the section `auth` that its schema cannot detect. Quotes no secret. */
export function checkAuth({ jwt, webhook, hasuraNames }: AuthConfig): readonly Issue[] {
  const issuers = (jwt ?? []).flatMap((issuer, index) =>
    [
      ...keyMistakes(issuer),
      ...headerMistakes(issuer, hasuraNames),
      ...variableMistakes(issuer, hasuraNames),
      ...issuerMistakes(issuer, jwt!),
    ].map(({ keys, message }) => ({
      keys: ['jwt', index, ...keys],
      message,
    })),
  )
  if (!jwt || !webhook) return issuers
  return [...issuers, { keys: ['webhook'], message: 'only one of "jwt" and "webhook" can be set' }]
}

/** Refuses headers that have another meaning. */
function headerMistakes({ header }: JwtConfig, hasura: boolean): readonly Issue[] {
  if (header === undefined) return []
  if (!/^(authorization|cookie|host|x-service-.*)$/.test(ownName(header.toLowerCase(), hasura))) return []
  return [{ keys: ['header'], message: 'must be a dedicated header; Authorization is used when "header" is not set' }]
}

/** Refuses names of variables that no permission could use. */
const variableMistakes = ({ claims }: JwtConfig, hasura: boolean): readonly Issue[] =>
  Object.keys(claims.variables)
    .filter((name) => !VARIABLE_NAME.test(ownName(name.toLowerCase(), hasura)))
    .map((name) => ({ keys: ['claims', 'variables', name], message: 'must be a name such as x-service-org' }))

/**
 * Checks that the issuer of a token is known before its signature is verified: by its header or cookie, or by `iss`.
 */
function issuerMistakes(config: JwtConfig, all: readonly JwtConfig[]): readonly Issue[] {
  const sharing = all.filter(({ header }) => header?.toLowerCase() === config.header?.toLowerCase())
  if (sharing.length === 1) return []
  const same = sharing.filter(({ issuer }) => issuer === config.issuer)
  if (config.issuer !== undefined && same.length === 1) return []
  const message = 'is required and must be unique, because several issuers send tokens in the same header'
  return [{ keys: ['issuer'], message }]
}
