import { isIP } from 'node:net'
import { at } from '../errors.js'
import type { App } from '../http/app.js'
import type { AuthConfig, HttpConfig } from '../http/config.js'

/** One place to listen, as it is configured. */
export interface Listener {
  /** `http`, or e.g. `http.listeners[0]`; its `port` and `socket` are in there. */
  readonly setting: string
  /** The section `http` with this place in it. */
  readonly http: HttpConfig
  /** Whether a plugin is served here. */
  serves(plugin: string): boolean
}

/** The place of `http` itself, for all plugins that have none of their own, then those of `http.listeners`. */
export function listenersOf(http: HttpConfig): readonly [Listener, ...Listener[]] {
  const { host: mainHost, port: mainPort, socket: _, ...shared } = http
  const apart = new Set(http.listeners.flatMap(({ plugins }) => plugins))
  const others = http.listeners.map(({ plugins, host = mainHost, port = mainPort, ...own }, index): Listener => {
    const config = { ...shared, host, port, ...own }
    return { setting: at('http.listeners', index), http: config, serves: (plugin) => plugins.includes(plugin) }
  })
  return [{ setting: 'http', http, serves: (plugin) => !apart.has(plugin) }, ...others]
}

/** The settings of the unix sockets that are not used. */
export const withoutSocket = (http: HttpConfig): readonly string[] =>
  listenersOf(http).flatMap((listener) => (listener.http.socket ? [] : [`${listener.setting}.socket`]))

/** Only this machine can connect. Behind a socket is a gateway, and before that the world. */
export const isLocal = ({ http: { host, socket } }: Listener): boolean => socket === undefined && isLoopback(host)

const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.')

/** For people: `127.0.0.1:8081`, or `unix:` and a path. */
export const placeOf = ({ http: { host, port, socket } }: Listener): string =>
  socket ? `unix:${socket.path}` : `${withBrackets(host)}:${port}`

const withBrackets = (host: string): string => (isIP(host) === 6 ? `[${host}]` : host)

export const NO_AUTHENTICATION =
  'no way to authenticate: set ROWHOUSE_ADMIN_SECRET, or auth.jwt, auth.webhook or auth.gatewaySecret'

interface Values {
  readonly auth: AuthConfig
  readonly http: HttpConfig
}

/** Whether there is any way to prove who one is. */
export function canAuthenticate({ auth, http }: Values): boolean {
  return listenersOf(http).some((listener) => canAuthenticateAt(listener, auth))
}

function canAuthenticateAt({ http }: Listener, auth: AuthConfig): boolean {
  const { adminSecret, gatewaySecret, jwt, webhook, mode } = auth
  return (
    (adminSecret ?? gatewaySecret ?? jwt ?? webhook) !== undefined || (mode === 'gateway' && http.socket !== undefined)
  )
}

/**
 * Without any way to prove who one is, only this machine may connect.
 * @throws Error
 */
export function requireAuthentication({ auth, http }: Values): void {
  for (const listener of listenersOf(http)) {
    if (canAuthenticateAt(listener, auth) || listener.http.socket !== undefined || isLocal(listener)) continue
    throw new Error(
      `refusing to listen on ${listener.http.host} without a way to authenticate: set ROWHOUSE_ADMIN_SECRET, or auth.jwt, auth.webhook or auth.gatewaySecret in the configuration`,
    )
  }
}

/**
 * @returns the address to call, with the port that was found; on a unix socket `unix:` and its path
 * @throws Error that names the setting when the place is taken
 */
export async function listenAt(app: App, listener: Listener): Promise<string> {
  const { setting, http } = listener
  if (http.socket) {
    await app.listenOn(http.socket, `${setting}.socket.path`)
    return placeOf(listener)
  }
  const { host, port } = await app.listen(http.host, http.port).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EADDRINUSE') throw cause
    const settings = setting === 'http' ? '--port, ROWHOUSE_PORT, http.port' : `${setting}.port`
    throw new Error(`${placeOf(listener)} is in use by another program: choose another port (${settings})`, { cause })
  })
  return `http://${withBrackets(host)}:${port}`
}
