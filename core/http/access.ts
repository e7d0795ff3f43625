import { randomUUID } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import { ServiceError } from '../errors.js'
import type { Logger } from '../log.js'
import { clientAddressOf } from './client-address.js'
import type { HttpConfig } from './config.js'
import type { Traffic } from './traffic.js'

/** Names the request, and writes one log line and one measurement when it has ended, however it ended. */
export function access(config: HttpConfig, log: Logger, traffic: Traffic): Middleware {
  const { durations, inFlight } = traffic
  const origins = new Set(config.cors.origins)
  const clientOf = clientAddressOf(config)

  return (ctx, next) => {
    const start = performance.now()
    const sentBefore = ctx.req.socket.bytesWritten
    const requestId = requestIdOf(ctx)
    const gone = new AbortController()
    Object.assign(ctx.state, {
      requestId,
      log: log.child({ requestId }),
      signal: gone.signal,
      client: clientOf(ctx.req),
      origins,
      limits: config,
    })
    ctx.set('X-Request-Id', requestId)
    inFlight.inc()
    ctx.res.once('close', () => {
      const ms = performance.now() - start
      const complete = ctx.res.writableFinished || ctx.state.answered === true
      if (!complete) gone.abort(new ServiceError(499, 'client-gone', 'the client closed the connection'))
      inFlight.dec()
      const labels = {
        method: ctx.method,
        route: routeOf(ctx),
        status: ctx.res.statusCode,
        plugin: ctx.state.plugin ?? '',
      }
      durations.observe(labels, ms / 1000)
      ctx.state.log.info(
        {
          ...labels,
          ms: Math.round(ms * 1000) / 1000,
          bytes: ctx.req.socket.bytesWritten - sentBefore,
          client: ctx.state.client,
          role: ctx.state.session?.role,
          code: ctx.state.code,
          ...(complete ? {} : { aborted: true }),
        },
        'request',
      )
    })
    return next()
  }
}

function requestIdOf(ctx: Context): string {
  const given = ctx.get('X-Request-Id')
  return /^[A-Za-z0-9_-]{1,64}$/.test(given) ? given : randomUUID()
}

/** The pattern of the route, never the path: paths hold what clients write. */
function routeOf(ctx: Context): string {
  const matched: unknown = ctx['_matchedRoute']
  return typeof matched === 'string' ? matched : matched instanceof RegExp ? matched.source : '(none)'
}
