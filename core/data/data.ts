import type { ClientBase } from 'pg'
import type { Catalog } from '../catalog/catalog.js'
import type { TemplateResolver } from '../catalog/draft.js'
import type { Metadata } from '../catalog/metadata.js'
import type { Editor } from '../catalog/editor.js'
import type { Op } from '../plan/ir.js'
import type { Names } from '../plan/names.js'
import type { Answer, Call, Request } from './operations.js'
import type { Transaction } from './transaction.js'
import type { Refusal } from './trial.js'

export type { Request, Transaction }

export interface Explained {
  /** Of the first statement, where a request needs two. */
  readonly sql: string
  readonly plan: readonly string[]
  /** Absent: the role's permission refuses nothing. */
  readonly refused?: Refusal
}

/** The database as requests see it. */
export interface Data {
  /** The snapshot that requests run against now. */
  readonly catalog: Catalog
  /**
   * Compiles a request for the caller's role, unless that was done before, and runs it.
   * @returns JSON text as PostgreSQL made it; undefined when an insert's rows have different keys and must come apart
   * @throws ServiceError
   */
  run(request: Request, call: Call): Promise<string | undefined>
  /**
   * As `run`, for a read that may have many rows: those are streamed.
   * @param most rows that the client asks for at most
   * @returns in the form that the call wants
   */
  read(request: Request, call: Call, most?: number): Promise<Answer>
  /** What a request reads or writes, given the names that may be used; nothing is authorised yet. */
  plan(request: Request, names: Names): Op
  /**
   * What the planner's module prepares from a shape, for the caller's role; made once for each snapshot.
   * @param options.patient it may take as long as a worker takes to start, instead of as long as a plan
   */
  prepare<T>(planner: string, shape: unknown, call: Call, options?: { readonly patient?: boolean }): Promise<T>
  /** @throws ServiceError 400 when the caller's role may not run the request */
  check(request: Request, call: Call): Promise<void>
  /** @throws ServiceError 400 answer-too-large: `bytes` exceeds `database.maxAnswerBytes` */
  mustFit(bytes: number): void
  /** Says how stored templates get their meaning. Once, while the server is set up. */
  resolveTemplates(resolve: TemplateResolver): void
  /**
   * The SQL that a request compiles to for a role, and PostgreSQL's plan of it. An insert or update also runs, in a transaction
   * that is rolled back. The answer is for admins only. The planner must be one that lifts.
   */
  explain(request: Request, call: Call): Promise<Explained>
  /**
   * Runs one statement of a plugin on tables of its own, and commits it. Nothing is checked: it is no way for a client.
   * @param values of `$1` and so on
   * @param transaction to run it in; that commits it then
   * @throws ServiceError 503 while the database cannot be reached, 504 when it took too long; 400 `postgres-error` with
   *   the `DatabaseError` as its cause for what PostgreSQL refuses
   */
  query<Row extends object>(
    text: string,
    values?: readonly unknown[],
    transaction?: Transaction,
  ): Promise<readonly Row[]>
  /** Runs `fn` in a transaction, the one that `call` is in already or a new one; tried again after a conflict. */
  transaction<T>(call: Call, fn: (call: Call & Required<Pick<Call, 'transaction'>>) => Promise<T>): Promise<T>
  /** Changes metadata in a transaction: all instances see it, or none. */
  alter<T>(call: Call, fn: (edit: Editor) => Promise<T> | T): Promise<T>
  /** What people have said of the database, for those who only look. */
  metadata(call: Call): Promise<Metadata>
  /** Runs SQL of an admin in a transaction whose connection serves nobody else afterwards, and keeps metadata in step. */
  runSql<T>(call: Call, cascade: boolean, fn: (client: ClientBase) => Promise<T>): Promise<T>
  /** The snapshot that a call sees: that of its transaction, if it is in one. */
  catalogFor(call: Call): Catalog
  /** Reads metadata and database afresh. */
  reload(): Promise<void>
}
