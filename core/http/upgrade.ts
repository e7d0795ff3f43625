import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Answer } from '../answer.js'
import type { Session } from '../session.js'
import type { Exchange } from './exchange.js'
import { assertSameOrigin } from './identity.js'
import type { LaterHeaders } from './later-headers.js'
import type { MessageState, RequestState } from './request-state.js'
import type { Traffic } from './traffic.js'

/** A request to use its connection for another protocol, such as WebSocket. */
export interface Upgrade {
  readonly req: IncomingMessage
  /** The connection. Whatever the handler sends over it is its own affair; it has no limits of HTTP any more. */
  readonly socket: Duplex
  /** What the client has sent after the headers. */
  readonly head: Buffer
  /** `state.session` is the caller, after `identify`. */
  readonly state: RequestState
  /**
   * Authenticates the caller. A caller with a cookie must come from an allowed origin, as for any other request that writes.
   * @param later headers that the client sent in a message: `Authorization`, `X-Service-*` and those of `auth.jwt`. They count if
   *   the request itself has no credentials but cookies
   * @throws ServiceError 400, 401, 403, 429
   */
  identify(later?: LaterHeaders): Promise<Session>
  /**
   * Begins a request that a message contains. It counts among the requests in progress until it ends or `state.leave` is called,
   * and has its own line in the log. The connection is not idle as long as it has one.
   * @throws ServiceError 429, 503
   */
  begin(): MessageExchange
}

/** A request that a message contains. The headers are those of the connection. */
export interface MessageExchange extends Pick<Exchange, 'state' | 'get' | 'set'> {
  /** Ends it. @param isComplete `false` if the client gave it up, which aborts `state.signal`. Defaults to true */
  end(isComplete?: boolean): void
}

/** Takes over the connection, or throws a `ServiceError`, which is answered as to any request. */
export type UpgradeHandler = (upgrade: Upgrade) => Promise<void> | void

/** A route of `host.upgrade`. */
export interface UpgradeRoute {
  readonly plugin: string
  readonly path: string
  readonly handler: UpgradeHandler
}

interface Upgrading {
  readonly route: UpgradeRoute
  readonly traffic: Traffic
  /** Admits the request. @throws ServiceError */
  readonly admit: () => void
  readonly identify: (later?: LaterHeaders) => Promise<Session> | Session
  readonly message: () => MessageState
  /** Requests in progress on the connection. */
  readonly active: Set<object>
  readonly answer: (res: ServerResponse, outcome: () => Answer) => void
}

/** Upgrades a connection. The response of the context was made by `responseTo`. */
export async function upgrade(
  { req, res, state }: Pick<Exchange, 'req' | 'res' | 'state'>,
  socket: Socket,
  head: Buffer,
  { route, traffic, active, ...steps }: Upgrading,
): Promise<void> {
  state.plugin = route.plugin
  state.route = route.path
  let headers: LaterHeaders = {}
  const get = (name: string): string => {
    const lower = name.toLowerCase()
    const later = Object.entries(headers).find(([each]) => each.toLowerCase() === lower)?.[1]
    const value = req.headers[lower] ?? later
    return typeof value === 'string' ? value : ''
  }
  const begun = new Set<MessageExchange>()
  socket.once('close', () => {
    for (const each of begun) each.end(false)
  })
  const before = socket.bytesWritten
  try {
    steps.admit()
    await route.handler({
      req,
      socket,
      head,
      state,
      async identify(later) {
        const session = await steps.identify(later)
        assertSameOrigin({ req, state, get: (name) => String(req.headers[name.toLowerCase()] ?? '') }, session)
        state.session = session
        headers = later ?? {}
        return session
      },
      begin() {
        if (!state.session) throw new Error('a message before its caller is identified')
        traffic.held.check(state.session)
        const leave = traffic.enter(state.client)
        const { state: own, end } = steps.message()
        own.entered(leave)
        const exchange: MessageExchange = {
          state: own,
          get,
          set() {},
          end(isComplete = true) {
            active.delete(exchange)
            begun.delete(exchange)
            end(isComplete)
          },
        }
        active.add(exchange)
        begun.add(exchange)
        return exchange
      },
    })
  } catch (error) {
    // Whatever is under way there is no HTTP any more.
    if (socket.bytesWritten > before) socket.destroy()
    else refuse(res, socket, steps.answer, error)
    return
  }
  // Its place among the requests in progress is for requests that end.
  state.leave?.()
  state.answered = true
  res.statusCode = 101
}

/** Returns a response for an upgrade, which is closed when the connection is. */
export function responseTo(req: IncomingMessage, socket: Socket): ServerResponse {
  const res = new ServerResponse(req)
  res.shouldKeepAlive = false
  // While the response is sent, Node does it.
  socket.once('close', () => res.socket ?? res.emit('close'))
  // Node has removed its own listener.
  socket.on('error', () => socket.destroy())
  return res
}

/** Answers as to any other request, and closes the connection. */
function refuse(res: ServerResponse, socket: Socket, answer: Upgrading['answer'], error: unknown): void {
  if (socket.destroyed) return
  res.assignSocket(socket)
  res.once('finish', () => {
    res.detachSocket(socket)
    socket.destroySoon()
  })
  answer(res, () => {
    throw error
  })
}
