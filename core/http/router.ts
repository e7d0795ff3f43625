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
 * @throws ServiceError 404 not-found; 405 method-not-allowed, with `Allow`, when the path has other methods
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
    if (ctx.method === 'HEAD') for (const { router } of plugins) withoutImpliedHead(router)
    const ask = async (index: number): Promise<unknown> => {
      const plugin = plugins[index]
      if (!plugin) {
        delete ctx.state.plugin
        throw noRoute(ctx, plugins)
      }
      ctx.state.plugin = plugin.name
      return dispatchOf(plugin.router)(ctx, () => ask(index + 1))
    }
    return ask(0)
  }
}

/**
 * Removes the implied HEAD handlers. The router answers HEAD with every GET route, which would run that route. Only
 * `router.head` registers HEAD here.
 */
export function withoutImpliedHead(router: Router): void {
  for (const layer of router.stack) {
    if (layer.methods.includes('GET')) layer.methods = layer.methods.filter((method) => method !== 'HEAD')
  }
}

function noRoute(ctx: Context, plugins: readonly PluginRoutes[]): ServiceError {
  for (const { router } of plugins) withoutImpliedHead(router)
  const allowed = new Set(
    plugins.flatMap(({ router }) => router.match(ctx.path, ctx.method).path.flatMap((layer) => layer.methods)),
  )
  if (allowed.size === 0) return serviceError('not-found', 'no route has this path')
  ctx.set('Allow', [...allowed].join(', '))
  return serviceError('method-not-allowed', `this path does not support ${ctx.method}`)
}

/** Returns method and path of every route, in the order of registration. */
export function routesOf(router: Router): { readonly methods: readonly string[]; readonly path: string }[] {
  withoutImpliedHead(router)
  return router.stack
    .filter((layer) => layer.methods.length > 0)
    .map((layer) => ({ methods: layer.methods, path: String(layer.path) }))
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
