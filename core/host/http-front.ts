import type { Logger } from 'pino'
import { createApp } from '../http/app.js'
import type { AuthConfig, HttpConfig } from '../http/config.js'
import type { ReadyReport } from '../http/core-routes.js'
import type { About } from '../http/page.js'
import { createAuthenticate } from '../http/admission.js'
import { createTraffic, type Held } from '../http/traffic.js'
import type { Metrics } from '../observe/metrics.js'
import type { Shared } from './plugin-host.js'
import { listenAt, listenersOf, withoutSocket } from './listener-config.js'

/** The address of a listener. */
export interface Address {
  /** For a unix socket, `unix:` and its path. */
  readonly url: string
  /** Names of the plugins served there. */
  readonly plugins: readonly string[]
}

/** All listeners of a server. */
export interface HttpFront {
  /**
   * @returns the addresses, that of `http` first
   * @throws Error for duplicate routes, and for an address that cannot be used
   */
  listen(): Promise<readonly [Address, ...Address[]]>
  /** Stops listening on all listeners. @param atOnce skips `drainDelayMs` */
  leave(atOnce?: boolean): Promise<void>
  /** Waits for the requests in progress. */
  drain(): Promise<void>
  /** Closes all connections immediately. */
  close(): Promise<void>
}

export interface HttpFrontOptions {
  readonly http: HttpConfig
  readonly auth: AuthConfig
  /** Whether to bypass Koa where possible. */
  readonly fast: boolean
  readonly log: Logger
  readonly metrics: Metrics
  readonly held: Held
  /** Number of processes of the server. */
  readonly processes: number
  readonly shared: Shared
  /** Plugin names in load order. */
  readonly plugins: readonly string[]
  readonly ready: () => Promise<ReadyReport>
  readonly about: () => Promise<Omit<About, 'links'>>
}

/** Creates one app per listener. They share everything except the plugins that they serve. */
export function createHttpFront(options: HttpFrontOptions): HttpFront {
  const { http, auth, log, metrics, shared, ready, about } = options
  const listeners = listenersOf(http)
  const common = {
    fast: options.fast,
    log,
    ready,
    traffic: createTraffic(http, metrics, options.held, options.processes),
    authenticate: createAuthenticate(auth, log, shared.authenticators, withoutSocket(http)),
  }
  const fronts = listeners.map((listener) => {
    const plugins = options.plugins.filter((name) => listener.serves(name))
    const app = createApp({
      ...common,
      config: listener.http,
      about: async () => {
        const links = shared.links.filter(({ plugin }) => listener.serves(plugin))
        return { ...(await about()), links: links.map(({ plugin: _plugin, ...link }) => link) }
      },
    })
    for (const name of plugins) {
      const formatError = shared.errorFormats.get(name)
      const router = shared.routers.get(name)
      const handlers = shared.handlers.get(name) ?? []
      if (router) app.use({ name, router, handlers, formatError })
    }
    for (const middleware of shared.middlewares) app.middleware(middleware)
    for (const { plugin, prefix } of shared.proofs) if (listener.serves(plugin)) app.proves(prefix)
    for (const [path, by] of shared.idempotent) app.idempotent(path, by)
    for (const route of shared.upgrades.values()) if (listener.serves(route.plugin)) app.upgrade(route)
    return { app, listener, plugins }
  })

  const close = async () => void (await Promise.all(fronts.map(({ app }) => app.close())))
  return {
    async listen() {
      const addresses: Address[] = []
      for (const { app } of fronts) app.seal()
      try {
        for (const { app, listener, plugins } of fronts) {
          addresses.push({ url: await listenAt(app, listener), plugins })
        }
      } catch (error) {
        await close()
        throw error
      }
      return addresses as [Address, ...Address[]]
    },
    leave: async (atOnce) => void (await Promise.all(fronts.map(({ app }) => app.leave(atOnce)))),
    drain: async () => void (await Promise.all(fronts.map(({ app }) => app.drain()))),
    close,
  }
}
