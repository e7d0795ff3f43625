import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from '../answer.js'
import type { RequestState } from './state.js'

/** A request and what is answered: what handlers of `host.route` see. Koa's context is one too. */
export interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly state: RequestState
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** Without the question mark. */
  readonly querystring: string
  /** Of the path, decoded. */
  readonly params: Readonly<Record<string, string>>
  /** First value of a header of the request, or an empty string. */
  get(name: string): string
  /** Sets a header of the answer. */
  set(name: string, value: string): void
  /** Of media types the one that the client likes best; false when it takes none of them. */
  accepts(...types: string[]): string | false
}

/** @returns the answer; its status is 200 unless it says another */
export type Handler = (exchange: Exchange) => Promise<Answer>

export interface HandlerRoute {
  readonly method: 'get' | 'head' | 'post' | 'put' | 'delete'
  /** Literal, or with one parameter at its end: `/v1/template/:name`, or `/v1/file/{*file_id}` for whatever is there. */
  readonly path: string
  readonly handler: Handler
}
