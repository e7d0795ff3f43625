import type { Json } from '../json/parse.js'
import type { Logger } from '../log.js'
import type { Schema } from '../schema.js'
import type { Session } from '../session.js'
import type { Timing } from '../timing.js'
import type { Request } from './data.js'
import type { Transaction } from './transaction.js'

/** What an operation runs under. */
export interface Call {
  readonly session: Session
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  /** Present inside `bulk`: everything happens in it, or nothing. */
  readonly transaction?: Transaction
  /** Other forms than JSON only for single reads; a `bulk` and everything in it is JSON. */
  readonly format: 'json' | 'ndjson' | 'csv'
  /** Which codes errors of the database have: those of the JSON query API when absent. */
  readonly dialect?: 'alpha' | 'modern' | undefined
  /** With the request id. Gets what a caller is not told. */
  readonly log?: () => Logger
  /** Collects how long the steps of the request take, where somebody wants to know. */
  readonly timing?: Timing | undefined
}

/** JSON as PostgreSQL made it, as text or as bytes that nobody has looked at, or what is still coming. */
export type Answer = (TextAnswer | BytesAnswer | RowStream) & {
  /** Of HTTP; 200 when absent. */
  readonly status?: number
}
export interface TextAnswer {
  readonly kind: 'text'
  readonly text: string
  /** JSON when absent. */
  readonly contentType?: string
}
export interface BytesAnswer {
  readonly kind: 'bytes'
  /** In UTF-8 where they are text. */
  readonly bytes: Buffer
  /** JSON when absent. */
  readonly contentType?: string
}
export interface RowStream {
  readonly kind: 'stream'
  readonly contentType: string
  /** Chunks of the body. Ends early only by throwing. */
  readonly chunks: AsyncIterable<Buffer>
  /** Is told of a chunk that nobody looks at any more: its memory is used again. Need not be called. */
  readonly sent?: (chunk: Buffer) => void
  /** Of all chunks together, in bytes, where it is known. */
  readonly length?: number
}

/** One `type` of the JSON query API. */
export interface Operation {
  /** Only the role `admin` may run it; others get 400 `access-denied`. */
  readonly admin?: boolean
  /** It is a single read, which may be asked for in other forms than JSON. */
  readonly formats?: boolean
  /** Shape of `args`, checked before `run`. Absent: `run` checks them itself. */
  readonly args?: Schema
  /** What it asks of the database, where that is one request: lets it be described and kept ahead of time. */
  readonly lift?: (args: Json) => Request
  /**
   * Maximum time of one run in milliseconds; then the caller gets 504 `timeout`, and what the operation began in the
   * database is rolled back. `database.statementTimeoutMs` when absent. 0: no limit, because everything that the
   * operation waits for has one of its own.
   */
  readonly timeoutMs?: number
  /** Paths in errors start at `$.args`. `call.signal` aborts when the time is over, too. */
  run(args: Json, call: Call): Promise<Answer>
}

/** The operations of every loaded plugin. */
export interface Operations {
  /** Runs `{type, args}`. 400 `parse-failed` for an unknown type or a body of another shape. */
  run(query: Json, call: Call): Promise<Answer>
  /** What `{type, args}` asks of the database, without running it. 400 for a type that is no single request. */
  lift(query: Json): Request
  readonly types: readonly string[]
}
