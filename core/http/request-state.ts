import { randomFillSync } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from 'koa'
import { serviceError } from '../errors.js'
import type { Logger } from '../observe/log.js'
import type { KeyedRequest } from '../request-headers.js'
import type { Session } from '../session.js'
import type { Timing } from '../observe/timing.js'
import { addressedUrl, createProxies } from './client-address.js'
import type { HttpConfig } from './config.js'
import { type Attributes, isTracing, type RequestSpan, startRequest } from '../observe/tracing.js'
import type { Held, Traffic } from './traffic.js'

/** State shared by all requests of an app. */
interface AppState {
  readonly log: Logger
  /** Additional origins that may act with a browser's cookies. */
  readonly origins: ReadonlySet<string>
  /** Returns whether the peer of a request is a proxy in `http.trustedProxies`. */
  readonly trustsPeer: (req: IncomingMessage) => boolean
  /** The section `http` of the configuration. */
  readonly limits: HttpConfig
  /** Responses that wait for their clients. */
  readonly held: Held
}

/** The core's data about a request: `ctx.state`. Parts that few requests need are created on first use. */
export class RequestState {
  /** The caller. Not yet set while the core's own endpoints run. */
  session!: Session
  /** The plugin that handles the request. */
  plugin?: string
  /** Pattern of the route that handles the request without Koa. */
  route?: string
  /** Present if the request has an `Idempotency-Key` and the server keeps its answer. */
  keyed?: KeyedRequest
  /** Whether the caller prefers that nothing remains of the request: `Prefer: tx=rollback`. */
  dryRun?: boolean
  /** Koa's context, if Koa handles the request. */
  context?: Context
  /** `code` of the error response, or of its last error. */
  code?: string
  /** Codes of all errors of the response. */
  errors?: string[]
  /** Durations of the steps of the request, if its caller may see them. */
  timing?: Timing
  /** Whether the whole response has been written, even if the connection stays open for a moment. */
  answered?: boolean
  /** The span of the request, if it is traced. */
  span?: RequestSpan | undefined
  /** Why credentials were refused, if the response may say so. See `http.refusalReasons`. */
  refusalReason?: string
  /** Ends its place among the requests in progress, once it has one. */
  leave?: () => void
  private isGone = false
  private isOver = false
  private madeLog: Logger | undefined
  private madeGone: AbortController | undefined

  /**
   * @param requestId sent as `X-Request-Id`; also in the access log line and with the stack of an unexpected error
   * @param client address as forwarded by trusted proxies; empty on a unix socket without a forwarded address
   */
  constructor(
    private readonly app: AppState,
    readonly requestId: string,
    readonly client: string,
  ) {}

  get origins(): ReadonlySet<string> {
    return this.app.origins
  }

  trustsPeer(req: IncomingMessage): boolean {
    return this.app.trustsPeer(req)
  }

  get limits(): HttpConfig {
    return this.app.limits
  }

  get held(): Held {
    return this.app.held
  }

  /** Logger that adds the request id, and the route once that is known. */
  get log(): Logger {
    if (this.madeLog) return this.madeLog
    const route = patternOf(this)
    const log = this.app.log.child({ requestId: this.requestId, ...(route === undefined ? {} : { route }) })
    if (route !== undefined) this.madeLog = log
    return log
  }

  /** Aborts when the client disconnects before the response is complete. */
  get signal(): AbortSignal {
    if (!this.madeGone) {
      this.madeGone = new AbortController()
      if (this.isGone) this.madeGone.abort(clientGone())
    }
    return this.madeGone.signal
  }

  /** @param leave called when the response has ended, if not before */
  entered(leave: () => void): void {
    this.leave = leave
    if (this.isOver) leave()
  }

  /** Reports an error that the response contains, whatever its status. */
  failed(code: string): void {
    this.code = code
    this.errors = [...(this.errors ?? []), code]
  }

  /** Reports that the response has ended. @param isComplete false if the client disconnected before */
  ended(isComplete: boolean): void {
    this.isOver = true
    this.leave?.()
    if (isComplete) return
    this.isGone = true
    this.madeGone?.abort(clientGone())
  }
}

const clientGone = () => serviceError('client-gone', 'the client closed the connection')

declare module 'koa' {
  interface DefaultState extends RequestState {}
}

/** Assigns a request id, and writes one log line and one measurement when the request ends for any reason. */
interface Access {
  (req: IncomingMessage, res: ServerResponse): RequestState
  /** Begins a request that a message of a connection contains. It belongs to the caller and the route of the connection. */
  message(connection: RequestState): MessageState
}

/** A request in a message. `end` ends it, with `false` if its answer is not complete. */
export interface MessageState {
  readonly state: RequestState
  end(isComplete: boolean): void
}

export function createAccess(config: HttpConfig, log: Logger, traffic: Traffic): Access {
  const { trustsPeer, clientOf } = createProxies(config)
  const app = { log, origins: new Set(config.cors.origins), trustsPeer, limits: config, held: traffic.held }

  function ended(state: RequestState, start: number, complete: boolean, more: Ended): void {
    const ms = performance.now() - start
    const route = patternOf(state) ?? '(none)'
    const plugin = state.plugin ?? ''
    const { method, status, bytes } = more
    state.ended(complete)
    traffic.end(method, route, status, plugin, ms / 1000)
    if (state.errors) for (const code of state.errors) traffic.failed(route, code)
    state.span?.end(status, attributesOf(state, complete))
    log[levelOf(route, status)](
      {
        requestId: state.requestId,
        method,
        route,
        status,
        plugin,
        ms: Math.round(ms * 1000) / 1000,
        bytes,
        client: state.client,
        role: state.session?.role,
        code: state.code,
        aborted: complete ? undefined : true,
        traceId: state.span?.traceId,
      },
      'request',
    )
  }

  const request = (req: IncomingMessage, res: ServerResponse): RequestState => {
    const start = performance.now()
    const sentBefore = req.socket.bytesWritten
    const state = new RequestState(app, requestIdOf(req), clientOf(req))
    if (isTracing)
      state.span = startRequest(
        req,
        () => patternOf(state),
        () => clientAttributes(req, state),
      )
    traffic.begin()
    // A stream, its limits and its plugins each listen for the end; more listeners than this would be a leak.
    res.setMaxListeners(20)
    res.on('close', () => {
      const [method = '', bytes] = [req.method, req.socket.bytesWritten - sentBefore]
      ended(state, start, res.writableFinished || state.answered === true, { method, status: res.statusCode, bytes })
    })
    return state
  }

  const message = (connection: RequestState): MessageState => {
    const start = performance.now()
    const state = new RequestState(app, newId(), connection.client)
    const { session, plugin, route } = connection
    Object.assign(state, { session, plugin, route })
    traffic.begin()
    let isOver = false
    const end = (isComplete: boolean): void => {
      if (!isOver) ended(state, start, isComplete, { method: 'MESSAGE', status: 200 })
      isOver = true
    }
    return { state, end }
  }

  return Object.assign(request, { message })
}

interface Ended {
  readonly method: string
  readonly status: number
  /** Sent by the connection while the request was in progress. */
  readonly bytes?: number
}

/** Health checks that succeed are not worth a line, because probes ask every few seconds. */
const levelOf = (route: string, status: number): 'info' | 'debug' =>
  (route === '/healthz' || route === '/readyz') && status < 500 ? 'debug' : 'info'

const attributesOf = ({ requestId, plugin, session, code }: RequestState, complete: boolean): Attributes => ({
  'rowhouse.request_id': requestId,
  'rowhouse.plugin': plugin,
  'rowhouse.role': session?.role,
  'rowhouse.code': code,
  'rowhouse.aborted': complete ? undefined : true,
})

/** Returns what is known of the client, and the address that it used, which trusted proxies forward. */
function clientAttributes(req: IncomingMessage, state: RequestState): Attributes {
  const url = (state.trustsPeer(req) && addressedUrl(req, true)) || addressedUrl(req, false)
  const scheme = url?.protocol.slice(0, -1) ?? 'http'
  return {
    'url.scheme': scheme,
    'server.address': url?.hostname.slice(0, MAX_HOST),
    'server.port': url && Number(url.port || (scheme === 'https' ? 443 : 80)),
    'client.address': state.client || undefined,
  }
}

/** Maximum length of the name of a host. */
const MAX_HOST = 253

/** Returns the pattern of the route. The path is unsuitable, because it contains values from clients. */
function patternOf({ route, context }: RequestState): string | undefined {
  const matched: unknown = route ?? context?.['_matchedRoute']
  return typeof matched === 'string' ? matched : matched instanceof RegExp ? matched.source : undefined
}

const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/

function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : newId()
}

const HEX = '0123456789abcdef'
/** Random bytes for many ids. */
const random = Buffer.alloc(16 * 256)
let used = random.length
const id = Buffer.from('00000000-0000-4000-8000-000000000000')
/** Positions of the digits in the text of a UUID. */
const DIGITS = [...id.keys()].filter((at) => id[at] !== '-'.charCodeAt(0))

/** Returns a random UUID (RFC 9562 5.4). Takes a tenth of the memory of `randomUUID`, which joins 20 texts. */
function newId(): string {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  for (let i = 0; i < 16; i++) {
    const byte = random[used++]!
    id[DIGITS[2 * i]!] = HEX.charCodeAt(i === 6 ? 4 : i === 8 ? 8 | ((byte >> 4) & 3) : byte >> 4)
    id[DIGITS[2 * i + 1]!] = HEX.charCodeAt(byte & 15)
  }
  return id.toString('latin1')
}
