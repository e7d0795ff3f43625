import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import Koa from 'koa'
import type { Context, Middleware } from 'koa'
import type { Answer } from '../answer.js'
import { type ErrorCode, serviceError, type ServiceError } from '../errors.js'
import type { Logger } from '../observe/log.js'
import { admission, type Authenticate } from './admission.js'
import { isChunked } from './body.js'
import type { HttpConfig } from './config.js'
import { coreRoutes, type ReadyReport } from './core-routes.js'
import { answerErrors, answerLateError } from './error-answer.js'
import { answerPastKoa } from './fast/direct.js'
import type { LaterHeaders } from './later-headers.js'
import { createListener, type Listener, type Upgrades } from './listener.js'
import type { About } from './page.js'
import { createAccess, type RequestState } from './request-state.js'
import { respond } from './respond.js'
import { cors, corsHeaders, firstHeaders } from './response-headers.js'
import { pluginRoutes, type PluginRoutes, sealRoutes } from './router.js'
import type { Traffic } from './traffic.js'
import { responseTo, upgrade, type UpgradeRoute } from './upgrade.js'

export interface AppOptions {
  readonly config: HttpConfig
  readonly log: Logger
  /** Whether to bypass Koa where possible. */
  readonly fast: boolean
  /** Shared by all apps of one server. */
  readonly traffic: Traffic
  readonly authenticate: Authenticate
  /** Runs every health probe, each within its deadline. */
  readonly ready: () => Promise<ReadyReport>
  readonly about: () => About | Promise<About>
}

export interface App extends Listener {
  /** Adds the routes of a plugin. Routes are matched in the order of these calls. */
  use(routes: PluginRoutes): void
  /** Adds Koa middleware for the routes of all plugins. It can read `ctx.state.session`. */
  middleware(fn: Middleware): void
  /** Disables authentication below this path: all callers there are anonymous. */
  proves(prefix: string): void
  /** Declares what honours `Idempotency-Key` at this path. All other routes refuse it. @see admission */
  idempotent(path: string, by: 'route' | 'server'): void
  /** Adds a route for upgrades of connections. */
  upgrade(route: UpgradeRoute): void
  /** Ends the registration of routes. @throws Error for duplicate ones */
  seal(): void
  /** Handler for an external `node:http` server. The owner of that server sets its limits and closes it. */
  readonly callback: RequestListener
}

/** Creates an HTTP front: authentication, routing and uniform errors. */
export function createApp(options: AppOptions): App {
  const { config, log, traffic } = options
  const plugins: PluginRoutes[] = []
  const middlewares: Middleware[] = []
  const unauthenticated: string[] = []
  const idempotent = new Map<string, 'route' | 'server'>()
  const upgradeRoutes = new Map<string, UpgradeRoute>()

  const koa = new Koa({ proxy: false })
  koa.context.onerror = function (this: Context, error: Error | null) {
    if (error) answerLateError(this, error)
  }
  koa.use((ctx, next) => {
    if (listener.state === 'draining') ctx.set('Connection', 'close')
    return next()
  })
  koa.use(firstHeaders)
  koa.use(cors(config.cors))
  koa.use(answerErrors(plugins))
  koa.use((ctx, next) => {
    const { outcome } = arrivals.get(ctx.req)!
    if (!outcome) return next()
    respond(ctx, outcome())
    return undefined
  })
  koa.use(checkHeaders)
  const admit = admission(config, options.authenticate, traffic, unauthenticated, idempotent)
  const draining = () => listener.state !== 'open'
  const core = coreRoutes({ ...options, plugins, identify: admit.identify, draining })
  koa.use(core.middleware)
  koa.use(async (ctx, next) => {
    await admit.enter(ctx)
    await next()
  })
  koa.use(compose(middlewares))
  koa.use(pluginRoutes(plugins))

  /** State of requests that were passed to Koa. */
  const arrivals = new WeakMap<IncomingMessage, Arrival>()
  const createContext = koa.createContext.bind(koa)
  koa.createContext = ((req: IncomingMessage, res: ServerResponse) => {
    const ctx = createContext(req, res)
    const { state } = arrivals.get(req)!
    ctx.state = state
    state.context = ctx
    return ctx
  }) as typeof koa.createContext
  const handle = koa.callback()
  const throughKoa = (req: IncomingMessage, res: ServerResponse, arrival: Arrival) => {
    arrivals.set(req, arrival)
    const { state } = arrival
    void handle(req, res).then(() => {
      // A stream is still open here.
      if (res.writableEnded && req.method !== 'HEAD') traffic.held.follow(res, state, state.context?.length ?? 0)
    })
  }

  const access = createAccess(config, log, traffic)
  const pastKoa =
    options.fast &&
    answerPastKoa({
      plugins,
      core: core.router,
      enter: admit.enter,
      corsHeaders: corsHeaders(config.cors),
      sent: (res, state, bytes) => traffic.held.follow(res, state, bytes),
      throughKoa: (req, res, state, outcome) => throughKoa(req, res, { state, outcome }),
    })
  const callback: RequestListener = (req, res) => {
    const state = access(req, res)
    if (state.span) state.span.run(() => start(req, res, state))
    else start(req, res, state)
  }
  const start = (req: IncomingMessage, res: ServerResponse, state: RequestState): void => {
    if (req.method === 'GET' || req.method === 'HEAD') dispatch(req, res, state)
    // By the end of this round of the event loop, Node has the body too if it arrived with the headers.
    else setImmediate(dispatch, req, res, state)
  }
  const dispatch = (req: IncomingMessage, res: ServerResponse, state: RequestState): void => {
    const refusal = refusalOf(req, config)
    if (refusal) {
      const outcome = (): never => {
        throw refusal
      }
      throughKoa(req, res, { state, outcome })
      return
    }
    if (pastKoa && middlewares.length === 0 && listener.state !== 'draining' && pastKoa(req, res, state)) return
    throughKoa(req, res, { state })
  }
  const upgrades: Upgrades = {
    takes: ({ method, httpVersionMinor, headers, url = '' }) =>
      upgradeRoutes.has(url.split('?', 1)[0]!) &&
      method === 'GET' &&
      httpVersionMinor >= 1 &&
      headers.host !== undefined &&
      headers['content-length'] === undefined &&
      headers['transfer-encoding'] === undefined &&
      headers.upgrade?.toLowerCase() === 'websocket',
    start(req, socket, head, active) {
      const path = req.url!.split('?', 1)[0]!
      const route = upgradeRoutes.get(path)!
      const res = responseTo(req, socket)
      const state = access(req, res)
      const ctx = { req, res, path, state }
      const answer = (to: ServerResponse, outcome: () => Answer) => throughKoa(req, to, { state, outcome })
      const admitted = () => {
        if (listener.state === 'draining') throw serviceError('unavailable', 'the server is shutting down', '$', SOON)
        const refusal = refusalOf(req, config)
        if (refusal) throw refusal
        admit.upgrade(ctx)
      }
      const identify = (later?: LaterHeaders) => admit.identify(ctx, later)
      const message = () => access.message(state)
      void upgrade(ctx, socket, head, { route, traffic, active, answer, admit: admitted, identify, message })
    },
  }
  const listener = createListener(callback, config, log, traffic, upgrades)
  return Object.assign(listener, {
    callback,
    use: (routes: PluginRoutes) => void plugins.push(routes),
    middleware: (fn: Middleware) => void middlewares.push(fn),
    proves: (prefix: string) => void unauthenticated.push(prefix),
    idempotent: (path: string, by: 'route' | 'server') => void idempotent.set(path, by),
    upgrade: (route: UpgradeRoute) => void upgradeRoutes.set(route.path, route),
    seal: () => sealRoutes(core.router, plugins),
  })
}

const SOON = { retryAfter: 1 }

/** A request, and its outcome if that is known already. */
interface Arrival {
  readonly state: RequestState
  readonly outcome?: () => Answer
}

function refusalOf(
  { rawHeaders, headers: { host = '' } }: IncomingMessage,
  config: HttpConfig,
): ServiceError | undefined {
  const { maxHeaders, hosts } = config
  if (rawHeaders.length / 2 > maxHeaders) {
    return serviceError('too-many-headers', `the request has more than ${maxHeaders} headers (http.maxHeaders)`)
  }
  if (!hosts || hosts.includes(host.toLowerCase().replace(/:\d*$/, ''))) return undefined
  return serviceError(
    'unknown-host',
    `this server is not "${host}": open it as one of http.hosts, or add that name there`,
  )
}

/** Runs middleware that may still be added after this one is installed. */
function compose(middlewares: readonly Middleware[]): Middleware {
  return (ctx, next) => {
    const from = (index: number): Promise<unknown> => {
      const fn = middlewares[index]
      return fn ? Promise.resolve(fn(ctx, () => from(index + 1))) : next()
    }
    return from(0)
  }
}

/**
 * Enforces rules of HTTP/1.1 that Node leaves to the application or refuses without a response body (RFC 9110 7.2, 10.1.1,
 * 15.6.6; RFC 9112 6.1).
 */
const checkHeaders: Middleware = (ctx, next) => {
  const { headers, httpVersion, httpVersionMajor, httpVersionMinor } = ctx.req
  if (httpVersionMajor !== 1) {
    throw refused(ctx, 'version-not-supported', `this server does not support HTTP/${httpVersion} here`)
  }
  const coding = headers['transfer-encoding']
  if (coding !== undefined) {
    if (httpVersionMinor === 0) throw refused(ctx, 'parse-failed', 'HTTP/1.0 has no transfer codings')
    if (!isChunked(coding)) {
      throw refused(ctx, 'coding-not-supported', `the transfer coding "${coding}" is not supported`)
    }
  }
  if (httpVersionMinor >= 1) {
    if (headers.host === undefined) throw refused(ctx, 'parse-failed', 'the header Host is missing')
    if (headers.expect !== undefined && !/^[\s,]*(100-continue[\s,]*)+$/i.test(headers.expect)) {
      throw refused(ctx, 'expectation-failed', 'the header Expect may only be "100-continue"')
    }
  }
  return next()
}

function refused(ctx: Context, code: ErrorCode, message: string): ServiceError {
  ctx.set('Connection', 'close')
  return serviceError(code, message)
}
