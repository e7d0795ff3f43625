import type { RequestListener } from 'node:http'
import Koa from 'koa'
import type { Context, Middleware } from 'koa'
import type { Logger } from '../log.js'
import { access } from './access.js'
import { admission } from './admission.js'
import type { HttpConfig } from './config.js'
import { coreRoutes } from './core-routes.js'
import type { About, ReadyReport } from './core-routes.js'
import { cors } from './cors.js'
import { answerErrors, answerLateError } from './error-answer.js'
import { expectable } from './expectable.js'
import { createListener } from './listener.js'
import type { Listener } from './listener.js'
import { pluginRoutes } from './router.js'
import type { PluginRoutes } from './router.js'
import { securityHeaders } from './security-headers.js'
import type { Authenticate } from './session.js'
import type { Traffic } from './traffic.js'
import './state.js'

export interface AppOptions {
  readonly config: HttpConfig
  readonly log: Logger
  /** The same for all apps of one server. */
  readonly traffic: Traffic
  readonly authenticate: Authenticate
  /** Asks every health probe, each within its deadline. */
  readonly ready: () => Promise<ReadyReport>
  readonly about: () => About | Promise<About>
  /** Only this machine can connect: probe names and metrics are shown to everybody who can. */
  readonly loopback: boolean
}

export interface App extends Listener {
  /** Adds the routes of a plugin. They are asked in the order of these calls. */
  use(routes: PluginRoutes): void
  /** Adds Koa middleware for the routes of all plugins; `ctx.state.session` is known. */
  middleware(fn: Middleware): void
  /** Nobody is asked for credentials below this path: all who ask there are anonymous. */
  proves(prefix: string): void
  /** For a `node:http` server of somebody else's; its limits and its end are then theirs. */
  readonly callback: RequestListener
}

/** One HTTP front: who asks, whose route it is, and one answer for whatever is thrown on the way. */
export function createApp(options: AppOptions): App {
  const { config, log, traffic } = options
  const plugins: PluginRoutes[] = []
  const middlewares: Middleware[] = []
  const unasked: string[] = []

  const koa = new Koa({ proxy: false })
  koa.context.onerror = function (this: Context, error: Error | null) {
    if (error) answerLateError(this, error)
  }
  koa.use(access(config, log, traffic))
  koa.use((ctx, next) => {
    if (listener.state === 'draining') ctx.set('Connection', 'close')
    return next()
  })
  koa.use(securityHeaders)
  koa.use(cors(config.cors))
  koa.use(answerErrors(plugins))
  koa.use(expectable)
  const admit = admission(config, options.authenticate, traffic, unasked)
  koa.use(coreRoutes({ ...options, plugins, identify: admit.identify, draining: () => listener.state !== 'open' }))
  koa.use(admit.middleware)
  koa.use(each(middlewares))
  koa.use(pluginRoutes(plugins))

  const handle = koa.callback()
  const callback: RequestListener = (req, res) => void handle(req, res)
  const listener = createListener(callback, config, log, traffic)
  return Object.assign(listener, {
    callback,
    use: (routes: PluginRoutes) => void plugins.push(routes),
    middleware: (fn: Middleware) => void middlewares.push(fn),
    proves: (prefix: string) => void unasked.push(prefix),
  })
}

/** Runs middleware that may still be added after this one was put in its place. */
function each(middlewares: readonly Middleware[]): Middleware {
  return (ctx, next) => {
    const from = (index: number): Promise<unknown> => {
      const fn = middlewares[index]
      return fn ? Promise.resolve(fn(ctx, () => from(index + 1))) : next()
    }
    return from(0)
  }
}
