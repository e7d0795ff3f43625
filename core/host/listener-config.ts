import { once } from 'node:events'
import { createServer, isIP } from 'node:net'
import { at } from '../errors.js'
import type { App } from '../http/app.js'
import type { AuthConfig, HttpConfig } from '../http/config.js'

/** A configured listener. */
interface Listener {
  /** `http`, or e.g. `http.listeners[0]`: the setting that contains its `port` and `socket`. */
  readonly setting: string
  /** The section `http` with this listener's values. */
  readonly http: HttpConfig
  /** Returns whether this listener serves a plugin. */
  serves(plugin: string): boolean
}

/** Returns the listener of `http` for all plugins without their own, followed by those of `http.listeners`. */
export function listenersOf(http: HttpConfig): readonly [Listener, ...Listener[]] {
  const { host: mainHost, port: mainPort, socket: _, ...shared } = http
  const apart = new Set(http.listeners.flatMap(({ plugins }) => plugins))
  const others = http.listeners.map(({ plugins, host = mainHost, port = mainPort, ...own }, index): Listener => {
    const config = { ...shared, host, port, ...own }
    return { setting: at('http.listeners', index), http: config, serves: (plugin) => plugins.includes(plugin) }
  })
  return [{ setting: 'http', http, serves: (plugin) => !apart.has(plugin) }, ...others]
}

/** Returns the settings of the unix sockets that are not set. */
export const withoutSocket = (http: HttpConfig): readonly string[] =>
  listenersOf(http).flatMap((listener) => (listener.http.socket ? [] : [`${listener.setting}.socket`]))

/**
 * Returns whether only this machine can connect. A socket does not count, because a gateway on it may serve the world.
 */
export const isLocal = ({ http: { host, socket } }: Listener): boolean => socket === undefined && isLoopback(host)

export const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.')

/** Returns the names by which programs on this machine address listeners on loopback, as in `http.hosts`. */
export const hostsOf = (http: HttpConfig): readonly string[] => [
  ...new Set(['localhost', '127.0.0.1', '[::1]', ...listenersOf(http).map(({ http: { host } }) => withBrackets(host))]),
]

/** Returns the address for messages: `127.0.0.1:8081`, or `unix:` and a path. */
export const placeOf = ({ http: { host, port, socket } }: Listener): string =>
  socket ? `unix:${socket.path}` : `${withBrackets(host)}:${port}`

const withBrackets = (host: string): string => (isIP(host) === 6 ? `[${host}]` : host)

export const NO_AUTHENTICATION =
  'no way to authenticate: set ROWHOUSE_ADMIN_SECRET, or auth.jwt, auth.webhook or auth.gatewaySecret'

interface Values {
  readonly auth: AuthConfig
  readonly http: HttpConfig
}

/** Returns whether any authentication method is configured. */
export function canAuthenticate({ auth, http }: Values): boolean {
  return listenersOf(http).some((listener) => canAuthenticateAt(listener, auth))
}

function canAuthenticateAt({ http }: Listener, auth: AuthConfig): boolean {
  const { adminSecret, gatewaySecret, jwt, webhook, mode } = auth
  return (
    (adminSecret ?? gatewaySecret ?? jwt ?? webhook) !== undefined || (mode === 'gateway' && http.socket !== undefined)
  )
}

/** Refuses to listen beyond this machine without an authentication method. @throws Error */
export function requireAuthentication({ auth, http }: Values): void {
  for (const listener of listenersOf(http)) {
    if (canAuthenticateAt(listener, auth) || listener.http.socket !== undefined || isLocal(listener)) continue
    throw new Error(
      `refusing to listen on ${listener.http.host} without a way to authenticate: set ROWHOUSE_ADMIN_SECRET, or auth.jwt, auth.webhook or auth.gatewaySecret in the configuration`,
    )
  }
}

/**
 * Listens.
 * @returns the URL with the actual port; for a unix socket `unix:` and its path
 * @throws Error that names the setting when the address is in use
 */
export async function listenAt(app: App, listener: Listener): Promise<string> {
  const { setting, http } = listener
  if (http.socket) {
    await app.listenOn(http.socket, `${setting}.socket.path`)
    return placeOf(listener)
  }
  const { host, port } = await app.listen(http.host, http.port).catch(explainTaken(listener))
  return `http://${withBrackets(host)}:${port}`
}

/** Checks early whether `listenAt` can listen on all ports. @throws Error, as `listenAt` does */
export async function requireFreePorts(http: HttpConfig): Promise<void> {
  for (const listener of listenersOf(http)) {
    const server = createServer().listen(listener.http.port, listener.http.host)
    await once(server, 'listening').catch(explainTaken(listener))
    await once(server.close(), 'close')
  }
}

const explainTaken =
  (listener: Listener) =>
  (cause: NodeJS.ErrnoException): never => {
    if (cause.code !== 'EADDRINUSE') throw cause
    const { setting } = listener
    const settings = setting === 'http' ? '--port, ROWHOUSE_PORT, http.port' : `${setting}.port`
    throw new Error(`${placeOf(listener)} is in use by another program: choose another port (${settings})`, { cause })
  }
