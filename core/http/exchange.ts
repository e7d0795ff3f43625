import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from '../answer.js'
import type { RequestState } from './request-state.js'

/** A request and its response, for handlers of `host.route`. Koa's context implements it too. */
export interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly state: RequestState
  readonly method: string
  /** Path without the query. */
  readonly path: string
  /** Query without the question mark. */
  readonly querystring: string
  /** Decoded path parameters. */
  readonly params: Readonly<Record<string, string>>
  /** Returns the first value of a request header, or an empty string. */
  get(name: string): string
  /** Sets a response header. */
  set(name: string, value: string): void
  /** Returns the media type that the client prefers, or false when it accepts none of them. */
  accepts(...types: string[]): string | false
}

/** @returns the response; its status defaults to 200 */
export type Handler = (exchange: Exchange) => Promise<Answer>

export interface HandlerRoute {
  readonly method: 'get' | 'head' | 'post' | 'put' | 'delete'
  /**
   * Literal path, or with one parameter at the end: `/v1/template/:name`, or `/v1/file/{*file_id}` for the whole rest.
   */
  readonly path: string
  readonly handler: Handler
}
