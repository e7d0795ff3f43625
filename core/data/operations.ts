import type { Answer, AnswerFormat } from '../answer.js'
import type { Json } from '../json/parse.js'
import type { Logger } from '../log.js'
import type { Schema } from '../schema.js'
import type { Session } from '../session.js'
import type { Timing } from '../timing.js'
import type { Transaction } from './transaction.js'

export type { Answer }

/** What an operation runs under. */
export interface Call {
  readonly session: Session
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  /** Present inside `bulk`: everything happens in it, or nothing. */
  readonly transaction?: Transaction
  /** Other forms than JSON only for single reads; a `bulk` and everything in it is JSON. */
  readonly format: AnswerFormat
  /** Which codes errors of the database have: those of the JSON query API when absent. */
  readonly dialect?: 'alpha' | 'modern' | undefined
  /** With the request id. Gets what a caller is not told. */
  readonly log?: () => Logger
  /** Collects how long the steps of the request take, where somebody wants to know. */
  readonly timing?: Timing | undefined
}

/** A request split by a front end: what it is, and the values in it. */
export interface Request {
  /** As registered with `host.planner`. */
  readonly planner: string
  /** Plain data without any value of the client: it is a cache key. */
  readonly shape: unknown
  /** By slot. */
  readonly values: readonly Json[]
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
