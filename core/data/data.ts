import type { ClientBase } from 'pg'
import type { Catalog } from '../catalog/catalog.js'
import type { CatalogOptions } from '../metadata/draft.js'
import type { Metadata } from '../metadata/metadata.js'
import type { Editor } from '../metadata/editor.js'
import type { Op, TableRef } from '../ir.js'
import type { Way } from '../plan/read-set.js'
import type { Names } from '../plan/names.js'
import type { Session } from '../session.js'
import type { KeptAnswer } from '../answer.js'
import type { Inspect } from './inspect.js'
import type { Answer, Call, Request } from './operations.js'
import type { SqlOptions } from './run-sql.js'
import type { Transaction } from './transaction.js'

export type { Request, Transaction }

/** What the answer to a read depends on. */
export interface Watched {
  /** Requests with the same key get the same answer at the same time, whoever sends them. */
  readonly key: string
  /** Tables and views: those of relationships, conditions, permissions, orders and aggregates, too. A table may occur more than once. */
  readonly sources: readonly WatchedSource[]
  /** Whether it depends on nothing else: functions may read anything. */
  readonly isComplete: boolean
}
export interface WatchedSource {
  readonly table: TableRef
  /** Which of its rows may matter. Absent: all. */
  readonly way?: Way
  /** Where the way has to lead, as PostgreSQL prints values. */
  readonly values?: readonly string[]
}

/** Database access for requests. */
export interface Data {
  /** Current snapshot for new requests. */
  readonly catalog: Catalog
  /**
   * Compiles a request for the caller's role, or reuses its plan, and runs it.
   * @returns JSON text as PostgreSQL produced it; undefined when the rows of an insert have different keys and must be
   *   split
   * @throws ServiceError
   * @example
   * ```ts
   * const request = operations.lift({ type: 'count', args: { table: 'guestbook' } })!
   * const json = await data.run(request, call) // {"count": 3}
   * ```
   */
  run(request: Request, call: Call): Promise<string | undefined>
  /**
   * Runs a read, or several, like `run`, but streams many rows.
   * @param most maximum number of rows that the client requests
   * @returns the answer in the format of the call
   * @example
   * ```ts
   * host.route('get', '/v1/guestbook', (exchange) => data.read(request, callOf(exchange)))
   * ```
   */
  read(request: Request, call: Call, most?: number): Promise<Answer>
  /** Plans a request with the given names. Authorizes nothing. */
  plan(request: Request, names: Names): Op
  /**
   * Returns what the planner's module prepares from a shape, for the caller's role. Cached per snapshot.
   * @param options.patient allows as much time as a worker needs to start, instead of the limit for a plan
   */
  prepare<T>(planner: string, shape: unknown, call: Call, options?: { readonly patient?: boolean }): Promise<T>
  /**
   * @throws ServiceError 400 when the caller's role may not run the request
   * @example
   * ```ts
   * await data.check(request, call) // the caller may read the guestbook
   * ```
   */
  check(request: Request, call: Call): Promise<void>
  /**
   * Returns what the answer to a read depends on, for the caller's role.
   * @throws ServiceError 400 when the role may not run the request, or when it is no read
   * @example
   * ```ts
   * const { key, sources } = await data.watch(request, call) // [{"table": {"schema": "public", "name": "guestbook"}}]
   * ```
   */
  watch(request: Request, call: Call): Promise<Watched>
  /**
   * @param bytes size of the parts of an answer so far
   * @throws ServiceError 400 answer-too-large: more than `database.maxAnswerBytes`, or `maxAnonymousAnswerBytes`
   */
  mustFit(bytes: number, session: Session): void
  /** Sets how the catalog is read: the resolver of stored templates, and names in GraphQL. Call it during setup. */
  describeCatalog(options: CatalogOptions): void
  /** Explains what requests would do, and why. */
  readonly inspect: Inspect
  /**
   * Runs and commits one statement of a plugin on its own tables. Checks no permissions: never pass on requests of
   * clients.
   * @param values of `$1` and so on
   * @param transaction transaction to run in, which then commits the statement
   * @throws ServiceError 503 while the database is unavailable, 504 after the timeout; 400 `postgres-error` with the
   *   `DatabaseError` as its cause when PostgreSQL refuses it
   * @example
   * ```ts
   * const rows = await data.query<{ entry: string }>('select entry from guestbook where id = $1', [7])
   * ```
   */
  query<Row extends object>(
    text: string,
    values?: readonly unknown[],
    transaction?: Transaction,
  ): Promise<readonly Row[]>
  /**
   * Runs `fn` in the transaction of `call`, or in a new one. A new one is retried after a conflict.
   * @example
   * ```ts
   * await data.transaction(call, async ({ transaction }) => {
   *   await data.query('delete from guestbook where id = $1', [7], transaction)
   *   await data.query('insert into removed values ($1)', [7], transaction)
   * })
   * ```
   */
  transaction<T>(call: Call, fn: (call: Call & Required<Pick<Call, 'transaction'>>) => Promise<T>): Promise<T>
  /**
   * Runs what a request writes. With an `Idempotency-Key`, that is one transaction, which also keeps the answer: a repeated
   * request gets the same one, and `fn` does not run. A dry run is one transaction that is rolled back.
   * @param fn may run again after a conflict
   * @throws ServiceError 409 `idempotency-in-progress`, `idempotency-key-reused`; 400 when the answer is too large
   * @example
   * ```ts
   * return data.once(call, async ({ transaction }) => {
   *   await data.query('insert into guestbook values ($1)', [entry], transaction)
   *   return jsonAnswer({ message: 'thank you' })
   * })
   * ```
   */
  once<A extends Answer>(call: Call, fn: (call: Call) => Promise<A>): Promise<A | KeptAnswer>
  /** Returns whether the answer to a request with this `Idempotency-Key` is kept. Then `once` does not run it. */
  isKept(call: Call): Promise<boolean>
  /**
   * Changes metadata in a transaction, atomically for all instances.
   * @example
   * ```ts
   * await data.alter(call, (edit) => edit.dropTemplate('guests'))
   * ```
   */
  alter<T>(call: Call, fn: (edit: Editor) => Promise<T> | T): Promise<T>
  /**
   * Returns the metadata for reading only.
   * @example
   * ```ts
   * const { templates } = await data.metadata(call)
   * ```
   */
  metadata(call: Call): Promise<Metadata>
  /**
   * Runs an admin's SQL and keeps metadata in sync, in a transaction unless `options` say otherwise. The connection is
   * not reused afterwards. A call inside of a transaction takes no options.
   * @example
   * ```ts
   * await data.runSql(call, false, (client) => client.query('create table guestbook (entry text)'))
   * ```
   */
  runSql<T>(call: Call, cascade: boolean, fn: (client: ClientBase) => Promise<T>, options?: SqlOptions): Promise<T>
  /**
   * Returns the snapshot that a call sees: the one of its transaction, if there is one.
   * @example
   * ```ts
   * const { tables } = data.catalogFor(call)
   * ```
   */
  catalogFor(call: Call): Catalog
  /** Reloads metadata and the database schema in all instances. On a standby, only those of this server reload. */
  reload(): Promise<void>
}
