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
  /**
   * Which parts of `args` may be parameters of a query template; `queries` where `args` is an array of queries, as in
   * `bulk`. Absent: the operation cannot be a template.
   */
  readonly templatable?: Templatable | 'queries'
  /**
   * The request that it sends to the database, where it sends one. A template of it then knows the types of its parameters,
   * which roles may run it, and what it depends on. Parameters have placeholders: a text for a value, 1 for a count, a row
   * without columns for rows.
   */
  readonly lift?: (args: Json) => Request | undefined
  /** JSON Schema of its answer, for the OpenAPI document. Absent: the answer is that of the request of `lift`. */
  readonly answer?: Readonly<Record<string, unknown>>
  /**
   * Maximum time of one run in milliseconds; then the caller gets 504 `timeout`, and what the operation began in the
   * database is rolled back. `database.statementTimeoutMs` when absent. 0: no limit, because everything that the
   * operation waits for has one of its own.
   */
  readonly timeoutMs?: number
  /** Paths in errors start at `$.args`. `call.signal` aborts when the time is over, too. */
  run(args: Json, call: Call): Promise<Answer>
}

/**
 * What may be a parameter of a query template, by key of an object or of each object in an array; `*` is every other key.
 * - `value`: a value of any type
 * - `text`: a text, or an element of a list of texts
 * - `count`: a whole number, or null for none
 * - `rows`: an array of objects, which must be a parameter
 * - `condition`: the values in a condition such as `where`
 */
export interface Templatable {
  readonly [key: string]: 'value' | 'text' | 'count' | 'rows' | 'condition' | Templatable
}

/** The operations of every loaded plugin. */
export interface Operations {
  /** Runs `{type, args}`. 400 `parse-failed` for an unknown type or a body of another shape. */
  run(query: Json, call: Call): Promise<Answer>
  /**
   * Checks `{type, args}` without running it.
   * @param placeholders paths of what stands for a parameter; the schema of `args` does not apply there
   * @returns the request to the database; undefined for an operation without `lift`
   * @throws ServiceError 400
   */
  lift(query: Json, placeholders?: readonly string[]): Request | undefined
  get(type: string): Operation | undefined
  readonly types: readonly string[]
}
