import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { serviceError } from '../errors.js'
import type { Logger } from '../log.js'
import type { Session } from '../session.js'
import type { Timing } from '../timing.js'
import type { HttpConfig } from './config.js'
import type { Held } from './held.js'

/** State shared by all requests of an app. */
export interface AppState {
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
  /** Sent as `X-Request-Id`; also in the access log line and with the stack of an unexpected error. */
  readonly requestId: string
  /** Client address as forwarded by trusted proxies; empty on a unix socket without a forwarded address. */
  readonly client: string
  /** The caller. Not yet set while the core's own endpoints run. */
  session!: Session
  /** The plugin that handles the request. */
  plugin?: string
  /** Pattern of the route that handles the request without Koa. */
  route?: string
  /** Koa's context, if Koa handles the request. */
  context?: Context
  /** `code` of the error response. */
  code?: string
  /** Durations of the steps of the request, if its caller may see them. */
  timing?: Timing
  /** Whether the whole response has been written, even if the connection stays open for a moment. */
  answered?: boolean
  private readonly app: AppState
  private isGone = false
  private madeLog: Logger | undefined
  private madeGone: AbortController | undefined

  constructor(app: AppState, requestId: string, client: string) {
    this.app = app
    this.requestId = requestId
    this.client = client
  }

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

  /** Logger that adds the request id. */
  get log(): Logger {
    return (this.madeLog ??= this.app.log.child({ requestId: this.requestId }))
  }

  /** Aborts when the client disconnects before the response is complete. */
  get signal(): AbortSignal {
    if (!this.madeGone) {
      this.madeGone = new AbortController()
      if (this.isGone) this.madeGone.abort(clientGone())
    }
    return this.madeGone.signal
  }

  /** Reports that the client disconnected before the response was complete. */
  gone(): void {
    this.isGone = true
    this.madeGone?.abort(clientGone())
  }
}

const clientGone = () => serviceError('client-gone', 'the client closed the connection')

declare module 'koa' {
  interface DefaultState extends RequestState {}
}
