import type { Issue } from '../schema.js'
import { readProxies } from './client-address.js'
import type { AuthConfig, HttpConfig, JwtConfig } from './config.js'
import { keyMistakes } from './jwt-key.js'

/** What is wrong with the section `http` beyond its schema. */
export function checkHttp(config: HttpConfig): readonly Issue[] {
  const proxies = readProxies(config.trustedProxies).wrong.map((index) => ({
    keys: ['trustedProxies', index],
    message: 'must be an IP address, a range as 10.0.0.0/8, or "unix"',
  }))
  return [...proxies, ...listenerMistakes(config)]
}

/** Each listener is at one place of its own, and a plugin is at one of them. */
function listenerMistakes({ listeners, ...main }: HttpConfig): readonly Issue[] {
  const places = new Set([placeOf(main, main)])
  const plugins = new Set<string>()
  return listeners.flatMap((listener, index) => {
    const wrong = (keys: Issue['keys'], message: string): Issue => ({ keys: ['listeners', index, ...keys], message })
    const twice = listener.plugins.flatMap((name, i) => {
      if (plugins.has(name)) return [wrong(['plugins', i], `"${name}" has a listener already`)]
      plugins.add(name)
      return []
    })
    if (listener.port === undefined && listener.socket === undefined) {
      return [...twice, wrong([], 'needs a "port" or a "socket"')]
    }
    if (listener.socket !== undefined && (listener.port ?? listener.host) !== undefined) {
      return [...twice, wrong(['socket'], 'stands in place of "host" and "port"')]
    }
    const place = placeOf(listener, main)
    if (places.has(place) && listener.port !== 0)
      return [...twice, wrong([], 'is where another listener is: name its plugins there')]
    places.add(place)
    return twice
  })
}

function placeOf({ host, port, socket }: Partial<HttpConfig>, main: Pick<HttpConfig, 'host'>): string {
  return socket === undefined ? `${host ?? main.host} ${port}` : socket.path
}

/** What is wrong with the section `auth` beyond its schema. Quotes no secret. */
export function checkAuth({ jwt, webhook }: AuthConfig): readonly Issue[] {
  const issuers = (jwt ?? []).flatMap((issuer, index) =>
    [...keyMistakes(issuer), ...headerMistakes(issuer), ...issuerMistakes(issuer, jwt!)].map(({ keys, message }) => ({
      keys: ['jwt', index, ...keys],
      message,
    })),
  )
  if (!jwt || !webhook) return issuers
  return [...issuers, { keys: ['webhook'], message: 'only one of "jwt" and "webhook" can be set' }]
}

/** Headers that mean something else already. */
function headerMistakes({ header }: JwtConfig): readonly Issue[] {
  if (header === undefined || !/^(authorization|cookie|host|x-service-.*)$/i.test(header)) return []
  return [{ keys: ['header'], message: 'must be a header of its own; Authorization is read when none is named' }]
}

/** Which issuer a token is from must be clear before its signature is: where it stands tells, else its `iss`. */
function issuerMistakes(one: JwtConfig, all: readonly JwtConfig[]): readonly Issue[] {
  const sharing = all.filter(({ header }) => header?.toLowerCase() === one.header?.toLowerCase())
  if (sharing.length === 1) return []
  const same = sharing.filter(({ issuer }) => issuer === one.issuer)
  if (one.issuer !== undefined && same.length === 1) return []
  const message = 'is needed, and another one for each, because tokens of several issuers come in the same header'
  return [{ keys: ['issuer'], message }]
}
