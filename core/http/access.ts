import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from '../log.js'
import { createProxies } from './client-address.js'
import type { HttpConfig } from './config.js'
import { RequestState } from './state.js'
import type { Traffic } from './traffic.js'

/** Assigns a request id, and writes one log line and one measurement when the request ends for any reason. */
export type Access = (req: IncomingMessage, res: ServerResponse) => RequestState

export function createAccess(config: HttpConfig, log: Logger, traffic: Traffic): Access {
  const { trustsPeer, clientOf } = createProxies(config)
  const app = { log, origins: new Set(config.cors.origins), trustsPeer, limits: config, held: traffic.held }

  return (req, res) => {
    const start = performance.now()
    const sentBefore = req.socket.bytesWritten
    const state = new RequestState(app, requestIdOf(req), clientOf(req))
    traffic.begin()
    res.on('close', () => {
      const ms = performance.now() - start
      const complete = res.writableFinished || state.answered === true
      if (!complete) state.gone()
      const method = req.method ?? ''
      const route = routeOf(state)
      const status = res.statusCode
      const plugin = state.plugin ?? ''
      traffic.end(method, route, status, plugin, ms / 1000)
      log.info(
        {
          requestId: state.requestId,
          method,
          route,
          status,
          plugin,
          ms: Math.round(ms * 1000) / 1000,
          bytes: req.socket.bytesWritten - sentBefore,
          client: state.client,
          role: state.session?.role,
          code: state.code,
          aborted: complete ? undefined : true,
        },
        'request',
      )
    })
    return state
  }
}

/** Returns the pattern of the route. The path is unsuitable, because it contains values from clients. */
function routeOf({ route, context }: RequestState): string {
  const matched: unknown = route ?? context?.['_matchedRoute']
  return typeof matched === 'string' ? matched : matched instanceof RegExp ? matched.source : '(none)'
}

const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/

function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID()
}
