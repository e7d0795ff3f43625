import Router from '@koa/router'
import type { Context, Middleware } from 'koa'
import { type ServiceError, serviceError } from '../errors.js'
import type { Session } from '../session.js'
import type { HandlerRoute } from './exchange.js'

/** The routes and hooks of a plugin. */
export interface PluginRoutes {
  readonly name: string
  readonly router: Router
  /** Routes of `router` that were added with `host.route`. */
  readonly handlers?: readonly HandlerRoute[]
  /** Formats the body of an error that one of its routes throws. */
  readonly formatError?: (error: ServiceError, session: Session | undefined) => unknown
}

/** Creates a router that matches paths literally: `/v1/Query` and `/v1/query/` differ from `/v1/query`. */
export function createRouter(): Router {
  return new Router({ sensitive: true, strict: true })
}

/**
 * Dispatches to the plugins in order.
 * @throws ServiceError as `answerWithMethods`
 */
export function pluginRoutes(plugins: readonly PluginRoutes[]): Middleware {
  const dispatches = new WeakMap<Router, Middleware>()
  const dispatchOf = (router: Router) => {
    const known = dispatches.get(router)
    if (known) return known
    const made = router.routes() as Middleware
    dispatches.set(router, made)
    return made
  }

  return (ctx) => {
    if (ctx.method === 'HEAD') for (const { router } of plugins) preferOwnHead(router)
    const ask = async (index: number): Promise<unknown> => {
      const plugin = plugins[index]
      if (!plugin) {
        delete ctx.state.plugin
        answerWithMethods(
          ctx,
          plugins.map(({ router }) => router),
        )
        return
      }
      ctx.state.plugin = plugin.name
      return dispatchOf(plugin.router)(ctx, () => ask(index + 1))
    }
    return ask(0)
  }
}

/**
 * Makes a HEAD route of its own answer HEAD at its path. At all other paths the router answers HEAD with the GET route, whose
 * body is not sent (RFC 9110 9.3.2).
 */
function preferOwnHead(router: Router): void {
  const own = new Set(router.stack.flatMap(({ methods, path }) => (isHeadOnly(methods) ? [String(path)] : [])))
  if (own.size === 0) return
  for (const layer of router.stack) {
    if (own.has(String(layer.path)) && !isHeadOnly(layer.methods)) layer.methods = declared(layer.methods)
  }
}

const isHeadOnly = (methods: readonly string[]): boolean => methods.includes('HEAD') && !methods.includes('GET')
/** Returns the methods of a route without the HEAD that comes with GET. */
const declared = (methods: readonly string[]): string[] =>
  methods.includes('GET') ? methods.filter((method) => method !== 'HEAD') : [...methods]

/**
 * Answers a request whose path has no route for its method. OPTIONS gets the methods of the path, but not a preflight, which
 * is answered before if its origin is allowed.
 * @throws ServiceError 404 not-found: no route has the path; 405 method-not-allowed, with `Allow`
 */
export function answerWithMethods(ctx: Context, routers: readonly Router[]): void {
  const allowed = new Set<string>()
  for (const { methods } of routers.flatMap((router) => router.match(ctx.path, ctx.method).path)) {
    for (const method of declared(methods)) allowed.add(method).add(method === 'GET' ? 'HEAD' : method)
  }
  if (allowed.size === 0) throw serviceError('not-found', 'no route has this path')
  ctx.set('Allow', [...allowed].join(', '))
  if (ctx.method !== 'OPTIONS' || ctx.get('Access-Control-Request-Method') !== '') {
    throw serviceError('method-not-allowed', `this path does not support ${ctx.method}`)
  }
  ctx.status = 204
}

/** Returns whether a path has a route, whatever its methods. */
export const hasRoute = (router: Router, { path, method }: Pick<Context, 'path' | 'method'>): boolean =>
  router.match(path, method).path.length > 0

/** Returns method and path of every route, in the order of registration. Where GET is, HEAD is too. */
export function routesOf(router: Router): { readonly methods: readonly string[]; readonly path: string }[] {
  return router.stack
    .map((layer) => ({ methods: declared(layer.methods), path: String(layer.path) }))
    .filter(({ methods }) => methods.length > 0)
}

/**
 * Ends the registration of routes.
 * @throws Error for a route that another one hides. Within a plugin, a layer of several methods may precede a route, as
 *   middleware does
 */
export function sealRoutes(core: Router, plugins: readonly PluginRoutes[]): void {
  const reserved = new Set(routesOf(core).map(({ path }) => path))
  const known = new Map<string, { readonly plugin: string; readonly alone: boolean }>()
  for (const { name, router } of plugins) {
    for (const { methods, path } of routesOf(router)) {
      const alone = methods.length === 1
      const pattern = path.replaceAll(/([:*])\w+/g, '$1')
      for (const method of methods) {
        const first = known.get(`${method} ${pattern}`)
        const taken = first && (first.plugin !== name || (first.alone && alone))
        if (taken || reserved.has(path)) {
          const owner = reserved.has(path) ? 'the core' : first?.plugin === name ? 'it' : `plugin "${first?.plugin}"`
          throw new Error(`plugin "${name}" adds the route ${method} ${path}, which ${owner} already has`)
        }
        if (!first?.alone) known.set(`${method} ${pattern}`, { plugin: name, alone })
      }
    }
    router.register = () => {
      throw tooLate(name, 'a route')
    }
  }
}

/** Returns the error for something that a plugin adds when it has no effect any more. */
export const tooLate = (plugin: string, what: string, hooks = '"setup" or "onReady"'): Error =>
  new Error(`plugin "${plugin}": ${what} can be added in ${hooks} only`)
