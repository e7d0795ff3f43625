import type Router from '@koa/router'
import type { Context, Middleware } from 'koa'
import { ServiceError, serviceError } from '../errors.js'
import { isAdmin, type Session } from '../session.js'
import type { HttpConfig } from './config.js'
import { type About, page, PAGE_POLICY } from './page.js'
import { answerWithMethods, createRouter, hasRoute, type PluginRoutes, routesOf } from './router.js'
import { createSecrets } from './secrets.js'
import type { Traffic } from './traffic.js'

/** The result of the health probes. */
export interface ReadyReport {
  readonly ready: boolean
  readonly probes: readonly Probe[]
}
interface Probe {
  readonly name: string
  readonly ok: boolean
  /** For the operator: the cause of a failure, or a warning. */
  readonly detail?: string
}

interface CoreRoutesOptions {
  readonly config: HttpConfig
  readonly traffic: Traffic
  readonly ready: () => Promise<ReadyReport>
  readonly about: () => About | Promise<About>
  readonly plugins: readonly PluginRoutes[]
  readonly identify: (ctx: Context) => Promise<Session> | Session
  readonly draining: () => boolean
}

/** Creates the endpoints of the core. They run before authentication, because probes send no credentials. */
export function coreRoutes(options: CoreRoutesOptions): { readonly router: Router; readonly middleware: Middleware } {
  const { ready, about, draining, traffic } = options
  const metricsToken = createSecrets([options.config.metricsToken])
  const router = createRouter()

  const healthz: Middleware = (ctx) => {
    ctx.body = { status: 'ok' }
  }
  const readyz: Middleware = async (ctx) => {
    const report: ReadyReport = draining() ? { ready: false, probes: [DRAINING] } : await ready()
    ctx.status = report.ready ? 200 : 503
    if (!report.ready) ctx.set('Retry-After', '1')
    const status = report.ready ? 'ready' : 'not ready'
    // Readiness must not depend on an external authentication service.
    const mayRead = await mayReadDetails(ctx).catch(onlyIfUnavailable)
    ctx.body = mayRead ? { status, probes: report.probes } : { status }
  }
  const home: Middleware = async (ctx) => {
    const facts = { ...(await about()), plugins: options.plugins.map(described) }
    if (ctx.accepts('html', 'json') === 'json') {
      ctx.body = facts
      return
    }
    // The page of a plugin that is not loaded is not found.
    if (facts.links.some(({ href }) => href === options.config.home)) {
      ctx.redirect(options.config.home as string)
      return
    }
    ctx.set('Content-Security-Policy', PAGE_POLICY)
    ctx.type = 'html'
    ctx.body = page(facts)
  }

  router.get('/healthz', healthz)
  router.get('/readyz', readyz)
  router.get('/', home)
  router.get('/v1/version', async (ctx) => {
    const { version, build } = await about()
    ctx.body = { version, build }
  })
  router.get('/metrics', async (ctx) => {
    if (!metricsToken.matches(bearer(ctx)) && !(await mayReadDetails(ctx))) {
      throw serviceError('access-denied', 'metrics require the role admin or the http.metricsToken', '$', {
        status: 401,
      })
    }
    ctx.type = METRICS_TYPE
    ctx.body = await traffic.scrape()
  })

  async function mayReadDetails(ctx: Context): Promise<boolean> {
    if (options.config.metrics === 'open') return true
    try {
      return isAdmin(await options.identify(ctx))
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'missing-credentials') return false
      throw error
    }
  }

  const dispatch = router.routes() as Middleware
  const middleware: Middleware = (ctx, next) =>
    dispatch(ctx, async () => (hasRoute(router, ctx) ? answerWithMethods(ctx, [router]) : next()))
  return { router, middleware }
}

function onlyIfUnavailable(error: unknown): false {
  if (error instanceof ServiceError && error.status >= 500) return false
  throw error
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
const DRAINING: Probe = { name: 'draining', ok: false, detail: 'the server is shutting down' }

const described = ({ name, router }: PluginRoutes) => ({ name, routes: routesOf(router) })

const bearer = (ctx: Context) => /^bearer +(.+)$/i.exec(ctx.get('Authorization'))?.[1] ?? ''
