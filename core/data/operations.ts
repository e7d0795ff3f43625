import type { Answer, AnswerFormat } from '../answer.js'
import type { Json } from '../json/parse.js'
import type { KeyedRequest } from '../request-headers.js'
import type { Logger } from '../observe/log.js'
import type { Infer, Schema } from '../json/schema.js'
import type { Session } from '../session.js'
import type { Timing } from '../observe/timing.js'
import type { Transaction } from './transaction.js'

export type { Answer }

/** The context in which an operation runs. */
export interface Call {
  readonly session: Session
  /** Aborts when the client no longer waits for the response. */
  readonly signal: AbortSignal
  /** Present inside `bulk`: all its members commit together or not at all. */
  readonly transaction?: Transaction
  /** Formats other than JSON are for single reads only. A `bulk` and its members are always JSON. */
  readonly format: AnswerFormat
  /** Selects the error codes of database errors. Defaults to those of the JSON query API. */
  readonly dialect?: 'alpha' | 'modern' | undefined
  /** Present if the request has an `Idempotency-Key`, for `Data.once`. */
  readonly keyed?: KeyedRequest | undefined
  /** Whether nothing of what the request does may remain. Then only `Data.once` begins transactions, which it rolls back. */
  readonly dryRun?: boolean | undefined
  /** The answers of earlier steps, for the steps of a `bulk` in a `bulk`. */
  readonly steps?: Steps | undefined
  /** Called when the last statement of the operation was sent, for a `bulk` that then sends its next member. */
  readonly onSent?: (() => void) | undefined
  /** Present in a member of a `bulk` that starts before the one before it has answered, which this waits for. */
  readonly earlier?: Promise<unknown> | undefined
  /** Paths in the query of values that came from elsewhere, such as arguments of a template: nothing in them is a reference. */
  readonly values?: readonly string[] | undefined
  /** Headers of the request and of its answer, if it came by HTTP. */
  readonly headers?: { get(name: string): string; set(name: string, value: string): void }
  /** Id of the HTTP request, if it came by HTTP. */
  readonly requestId?: string | undefined
  /** Logger with the request id, for details that the caller must not see. */
  readonly log?: () => Logger
  /** Name of the query template or GraphQL operation that runs, for the list of slow statements. */
  name?: string | undefined
  /** Collects the durations of the steps, if requested. */
  readonly timing?: Timing | undefined
  /** Whether callers other than admins may run the operations with `explains`. */
  readonly explains?: boolean
}

/** The answers of the steps of a `bulk`, by name. */
export interface Steps {
  readonly names: readonly string[]
  get(name: string): Json | undefined
}

/** A request that a front end has split into its shape and its values. */
export interface Request {
  /** Name registered with `host.planner`. */
  readonly planner: string
  /** Plain data without any value of the client, because it is a cache key. */
  readonly shape: unknown
  /** Values by slot. */
  readonly values: readonly Json[]
  /** Whether it is a read of the caller that may run on a standby, as `database.readFrom` and the caller say. */
  readonly onStandby?: true | undefined
  /** Whether the operation sends no other request after it. */
  readonly isLast?: true | undefined
}

/** One `type` of the JSON query API. */
export interface Operation<S extends Schema = Schema> {
  /** Only the role `admin` may run it; others get 400 `access-denied`. */
  readonly admin?: boolean
  /** Whether all callers may run it if `http.explainPermissions` is on, although it is for admins otherwise. */
  readonly explains?: boolean
  /** Whether it is a single read, which supports formats other than JSON. */
  readonly formats?: boolean
  /**
   * Schema of `args`. Before `run`, it validates them, refuses unknown keys like a configuration, and fills in defaults,
   * but not those inside `anyOf`. Without it, `run` checks them.
   */
  readonly args?: S
  /**
   * Parts of `args` that can be parameters of a query template; `queries` when `args` is an array of queries, as in
   * `bulk`. Without it, the operation cannot be used in a template.
   */
  readonly templatable?: Templatable | 'queries'
  /** Parts of `args` that can be references to answers of earlier steps. Defaults to `templatable`. */
  readonly referable?: Templatable
  /**
   * Returns the request that it sends to the database, if any. In a `bulk`, the next member may start when it was sent.
   * Gives templates of the operation the types of their parameters, the roles that may run it, and its dependencies.
   * Parameters have placeholders: a text for a value, 1 for a count, a row without columns for rows.
   */
  readonly lift?: (args: Json) => Request | undefined
  /**
   * Runs `fn` with the query that the operation runs in its place, such as the query of a template, and the paths in it of
   * values that came from `args`. Throws errors about that query with paths in `args`.
   */
  readonly resolve?: <T>(
    args: Json,
    call: Call,
    fn: (query: Json, values: readonly string[]) => Promise<T>,
  ) => Promise<T>
  /** JSON Schema of its response, for the OpenAPI document. Defaults to the response of the request of `lift`. */
  readonly answer?: Readonly<Record<string, unknown>>
  /**
   * Whether all that it does is in `call.transaction` if there is one, so that rolling back undoes it. Otherwise it cannot be
   * part of a dry run.
   */
  readonly undoable?: boolean
  /** Whether it honours the header `If-Match` of `call.headers`. Requests for other operations are refused with it. */
  readonly ifMatch?: boolean
  /** The operation that a query with `version: 2` runs. Without it, such a query fails with 400. */
  readonly version2?: Operation
  /**
   * Maximum duration of one run, in milliseconds. Longer runs fail with 504 `timeout`, and their work in the database
   * is rolled back. Defaults to `database.statementTimeoutMs`. Use 0 for no limit if everything that the operation
   * waits for has its own.
   */
  readonly timeoutMs?: number
  /**
   * Paths in errors start at `$.args`. `call.signal` also aborts at the timeout.
   * @param args typed by the schema
   */
  run(args: ArgsOf<S>, call: Call): Promise<Answer>
}

/** The type of arguments that fit a schema; any JSON without one. */
type ArgsOf<S extends Schema> = Schema extends S ? Json : Infer<S>

/**
 * Parts of a query that can be parameters of a template, by key of an object or of each object in an array. `*` is
 * every other key.
 * - `value`: a value of any type
 * - `text`: a text, or an element of a list of texts
 * - `count`: a whole number, or null for none
 * - `rows`: an array of objects, or values of these objects
 * - `condition`: the values in a condition such as `where`
 */
export interface Templatable {
  readonly [key: string]: 'value' | 'text' | 'count' | 'rows' | 'condition' | Templatable
}

/** The operations of every loaded plugin. */
export interface Operations {
  /** Runs `{type, args}`. Throws 400 `parse-failed` for an unknown type or a malformed body. */
  run(query: Json, call: Call): Promise<Answer>
  /**
   * Checks `{type, args}` without running it.
   * @param placeholders paths of parameter placeholders, to which the schema of `args` does not apply
   * @returns the request to the database; undefined for an operation without `lift`
   * @throws ServiceError 400
   */
  lift(query: Json, placeholders?: readonly string[]): Request | undefined
  get(type: string): Operation | undefined
  readonly types: readonly string[]
}
