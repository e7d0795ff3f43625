import type { Window } from './load.js'

/** Files that are fetched or sent, over keep-alive connections that wait for each answer. */
export interface TransferJob {
  readonly port: number
  readonly method: 'GET' | 'PUT'
  /** What a file is sent by; without it PUT. */
  readonly sendBy?: 'POST'
  /** The n-th request has its number behind it. */
  readonly path: string
  /** How many different paths there are; Infinity is `null`: none is asked twice. */
  readonly count: number | null
  readonly headers: Readonly<Record<string, string>>
  /** Of each file: what an answer to GET has, and a request to PUT. */
  readonly bytes: number
  readonly clients: number
  readonly window: Window
}
