import type { ClientBase } from 'pg'
import type { ServiceError } from '../errors.js'
import type { TableRef } from '../ir.js'
import type { Json, JsonObject } from '../json/parse.js'
import type { Action } from '../plan/names.js'
import type { Session } from '../session.js'
import type { Call, Request } from './operations.js'

/** Explains what requests would do, and why. @see core/inspect */
export interface Inspect {
  /** Returns an error of a request with why a permission is its reason, if an admin acts as the caller's role. */
  explainRequest(error: unknown, request: Request, call: Call): Promise<unknown>
  /**
   * Returns the SQL of a request for a role, and PostgreSQL's plan of it: of each root field of a GraphQL query, or of
   * the whole. An insert or update also runs, in a transaction that is rolled back. The result is for admins only.
   * @param analyze also runs the statement, to measure it
   */
  explain(request: Request, call: Call, analyze?: boolean): Promise<readonly Explained[]>
  /**
   * Runs `fn` with what returns PostgreSQL's plans of requests for any session, in a transaction that is rolled back. The
   * result is for admins only.
   */
  readPlans<T>(call: Call, fn: (reader: PlanReader) => Promise<T>): Promise<T>
  /** Explains why a session may or may not read or write a row. Nothing is written. The result shows hidden rows. */
  explainPermission(question: PermissionQuestion, call: Call): Promise<PermissionExplained>
  /**
   * Returns an error of a plugin with why a permission is its reason, if an admin acts as the caller's role; otherwise
   * the same error. `run` does so by itself.
   * @param request a count of one row under the rule that refuses it. Not needed if the error has `denied`
   */
  explainRefusal(error: ServiceError, call: Call, request?: Request): Promise<ServiceError>
  /** Returns PostgreSQL's plan of a statement without its values. The result is for admins only. */
  genericPlan(sql: string, call: Call): Promise<readonly string[]>
}

/** A question about what a session may do with one row. */
export interface PermissionQuestion {
  readonly session: Session
  readonly action: Action
  readonly table: TableRef
  /** A select that finds the row. Absent for an insert. */
  readonly row?: Request
  /** The insert, update or delete. Absent for a select. */
  readonly write?: Request
  /** Definition to try instead of the role's permission. Absent: the one that it has. */
  readonly permission?: Json
}

export interface Explained {
  /** Key of the root field in GraphQL; absent for other requests. */
  readonly field?: string
  /** SQL of the first statement, if a request needs two. */
  readonly sql: string
  readonly plan: readonly string[]
  /** Refusal by the role's permission; absent when the write is allowed. */
  readonly refused?: Refusal
}

/** The rules of a role's permission that refuse a write. */
export interface Refusal {
  readonly role: string
  readonly table: string
  /** Empty when a row could not be found again after the write. */
  readonly clauses: readonly {
    readonly permission: 'insert' | 'update'
    /** Path in the definition of the permission. */
    readonly path: string
    readonly clause: JsonObject
  }[]
}

/** Why a role may or may not read or write a row. */
export interface PermissionExplained {
  readonly verdict: 'allowed' | 'refused'
  /**
   * Absent if allowed. `permission`: the role has no permission for the action, or for a column that the request names.
   * `row`: there is no such row, or an inherited role may not select it. `filter`, `check`: the rule is not true. `request`: it fails for another reason.
   */
  readonly reason?: 'permission' | 'row' | 'filter' | 'check' | 'request'
  /** Error of the request, for the reasons `permission` and `request`. */
  readonly error?: { readonly path: string; readonly error: string; readonly code: string }
  /** The rule about the row before the action. */
  readonly filter?: RuleResult
  /** The rule about the row after the action. */
  readonly check?: RuleResult
  /**
   * Columns that the role may select, insert or update, and the others. `null`: those of the allowed ones that are null in the
   * row, because no part of an inherited role that has the column sees the row.
   */
  readonly columns?: {
    readonly allowed: readonly string[]
    readonly refused: readonly string[]
    readonly null?: readonly string[]
  }
  /** Values that the server sets, as the permission has them. */
  readonly presets?: Json
  /** Maximum number of rows of a select. */
  readonly limit?: number
  /** Session variables that the permission names, and their values; null without one. */
  readonly session: Readonly<Record<string, string | null>>
  /** Statement of the request, for the role. */
  readonly sql?: string
}

/** A rule, or a part of one, for one row. Like in SQL, null is neither true nor false. */
export interface RuleResult {
  /** Path in the definition of the permission. */
  readonly path: string
  readonly result: boolean | null
  readonly clause: JsonObject
  /** Parts of which all must hold, or any, or the one must not. */
  readonly all?: readonly RuleResult[]
  readonly any?: readonly RuleResult[]
  readonly not?: RuleResult
  /** Values of the columns that it compares. */
  readonly values?: JsonObject
  /** Some of the related rows, by their primary keys, with the rule about them. */
  readonly rows?: readonly { readonly key: JsonObject; readonly rule: RuleResult }[]
  /** Whether there are more related rows. */
  readonly more?: true
}

/** A node of a plan, with the keys of `explain (format json, verbose)`. */
export interface QueryPlan {
  readonly 'Node Type': string
  readonly 'Total Cost': number
  /** Estimated number of rows. */
  readonly 'Plan Rows': number
  readonly Schema?: string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string | undefined
  readonly 'Index Cond'?: string
  readonly Filter?: string
  readonly Plans?: readonly QueryPlan[]
}

/** Asks PostgreSQL how it would run statements, in a transaction that is rolled back. */
export interface PlanReader {
  /** In that transaction, for what may change plans: settings, or an index. */
  readonly client: ClientBase
  /**
   * Returns the plan of the first statement of a request, which does not run.
   * @returns undefined if the session may not run it, or if PostgreSQL refuses one of its values
   */
  plan(request: Request, session: Session): Promise<QueryPlan | undefined>
  /** Returns the plan of a statement for any values of its parameters; undefined before PostgreSQL 16. */
  genericPlan(sql: string): Promise<QueryPlan | undefined>
}
