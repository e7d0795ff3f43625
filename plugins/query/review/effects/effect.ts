import type { BoolExp, Catalog, JsonObject, Names } from 'rowhouse/plan'
import type { Relation } from '../rules/compare.js'

/** What a change of the metadata means for a role. */
export interface Effect extends JsonObject {
  /** Null for all roles. */
  readonly role: string | null
  /** Whether the role can do more or less. `different`: more in one way, and less in another. */
  readonly effect: Relation
  readonly text: string
}
/** An effect, and the objects that may be the reason. The first of them that changed is. */
export interface Found {
  readonly because: readonly string[]
  readonly effect: Relation
  /** Without the subject: `can read 1 more column of note: text`. */
  readonly text: string
}

/** Creates an effect of one permission. */
export type Say = (effect: Relation, text: string) => Found

/** All metadata, before or after a change. */
export interface State {
  readonly catalog: Catalog
  /** The entries of the export, by object. */
  readonly entries: ReadonlyMap<string, JsonObject | null>
}
/** What one role may do, before or after a change. */
export interface View extends State {
  readonly names: Names
  /** Role of `permissionRole`. */
  readonly key: string
}
/** A rule as it was written, and what it means. */
export interface Rule {
  /** Absent for a rule that is made of those of other roles. */
  readonly written: unknown
  readonly exp: BoolExp
}
