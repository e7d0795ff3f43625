import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { serviceError } from '../errors.js'
import type { Logger } from '../log.js'
import type { Session } from '../session.js'
import type { Timing } from '../timing.js'
import type { HttpConfig } from './config.js'
import type { Held } from './held.js'

/** The same for all requests of an app. */
export interface AppState {
  readonly log: Logger
  /** Origins beside our own that may act with a browser's cookies. */
  readonly origins: ReadonlySet<string>
  /** Whether the peer of a request is a proxy in `http.trustedProxies`. */
  readonly trustsPeer: (req: IncomingMessage) => boolean
  /** The section `http` of the configuration. */
  readonly limits: HttpConfig
  /** Answers that wait for their clients. */
  readonly held: Held
}

/** What the core knows of a request: `ctx.state`. What not every request needs is made when it is asked for. */
export class RequestState {
  /** Sent back as `X-Request-Id`; also in the access log line and beside the stack of an unexpected error. */
  readonly requestId: string
  /** Address of the client, past the proxies that are trusted; empty on a unix socket where nobody says. */
  readonly client: string
  /** The caller. Not there yet while the core's own endpoints run. */
  session!: Session
  /** The plugin whose routes are being asked. */
  plugin?: string
  /** The pattern of the route that a request went to past Koa. */
  route?: string
  /** Koa's, where the request has come to it. */
  context?: Context
  /** `code` of the error that was answered. */
  code?: string
  /** How long the steps of the request took, where its caller may know. */
  timing?: Timing
  /** The whole answer has been written, although the connection is kept a moment longer. */
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

  /** Logs with the request id. */
  get log(): Logger {
    return (this.madeLog ??= this.app.log.child({ requestId: this.requestId }))
  }

  /** Aborts when the client is gone before its answer was complete. */
  get signal(): AbortSignal {
    if (!this.madeGone) {
      this.madeGone = new AbortController()
      if (this.isGone) this.madeGone.abort(clientGone())
    }
    return this.madeGone.signal
  }

  /** The client is gone before its answer was complete. */
  gone(): void {
    this.isGone = true
    this.madeGone?.abort(clientGone())
  }
}

const clientGone = () => serviceError('client-gone', 'the client closed the connection')

declare module 'koa' {
  interface DefaultState extends RequestState {}
}
