import type { Logger } from '../log.js'
import type { Session } from '../session.js'
import type { HttpConfig } from './config.js'

/** What the core puts on `ctx.state` for every request. */
export interface RequestState {
  /** Sent back as `X-Request-Id`; also in the access log line and beside the stack of an unexpected error. */
  readonly requestId: string
  /** Logs with the request id. */
  readonly log: Logger
  /** Aborts when the client is gone before its answer was complete. */
  readonly signal: AbortSignal
  /** Address of the client, past the proxies that are trusted; empty on a unix socket where nobody says. */
  readonly client: string
  /** Origins beside our own that may act with a browser's cookies. */
  readonly origins: ReadonlySet<string>
  /** The section `http` of the configuration. */
  readonly limits: HttpConfig
  /** The caller. Not there yet while the core's own endpoints run. */
  session: Session
  /** The plugin whose routes are being asked. */
  plugin?: string
  /** `code` of the error that was answered. */
  code?: string
  /** The whole answer has been written, although the connection is kept a moment longer. */
  answered?: boolean
}

declare module 'koa' {
  interface DefaultState extends RequestState {}
}
