import {
  type ExpShape,
  type GroupValue,
  type Json,
  type NestedStep,
  type SearchShape,
  type TableRef,
} from 'rowhouse/plan'

/**
 * The arguments of an operation, split into a shape, which contains no value of the client and is a cache key, and the
 * values by slot.
 */
export interface Lifted<S extends Shape = Shape> {
  readonly shape: S
  readonly values: readonly Json[]
}

export type Shape =
  | ({ readonly type: 'select' } & SelectShape & { readonly table: TableRef })
  | {
      readonly type: 'count'
      readonly table: TableRef
      readonly where?: ExpShape
      readonly distinct?: readonly string[]
    }
  | CallShape
  | InsertShape
  | UpdateShape
  | {
      readonly type: 'delete'
      readonly table: TableRef
      readonly where: ExpShape
      readonly expect?: ExpectShape
      readonly returning?: ColumnShapes
      readonly step?: StepShape
    }
  | DependentsShape

/** The version that a row must have, by slot; null: any. */
export interface ExpectShape {
  readonly version: number | null
}

/** A question about the rows that reference a row. */
export interface DependentsShape {
  readonly type: 'dependents'
  readonly table: TableRef
  readonly key: ExpShape
}

/** Columns, wildcards, relationships and aggregates. */
export type ColumnShapes = readonly (string | RelationShape | ValueShape)[]

export interface SelectShape {
  readonly columns: ColumnShapes
  readonly where?: ExpShape
  readonly groupBy?: readonly string[]
  readonly having?: ExpShape
  readonly distinctOn?: readonly string[]
  readonly orderBy?: readonly OrderShape[]
  readonly limit?: number
  readonly offset?: number
  readonly after?: AfterShape
}

/** The row after which a page starts: names of columns, with the slots of their values, or null. */
export type AfterShape = readonly (readonly [name: string, slot: number | null])[]

export interface RelationShape {
  readonly name: string
  readonly alias?: string
  readonly select: SelectShape
}

/** An aggregate: `{"sum": "price", "as": "total"}`. */
export interface ValueShape {
  readonly fn: GroupValue['fn']
  /** Absent: counts rows. */
  readonly column?: string
  readonly distinct: boolean
  readonly as: string
}

export interface OrderShape {
  /** Relationships and a column. Of `rank` only the column. */
  readonly path: readonly string[]
  readonly rank?: SearchShape
  readonly direction?: 'asc' | 'desc'
  readonly nulls?: 'first' | 'last'
}

/** A call of a function. Without `columns` it returns all. */
export interface CallShape extends SelectShape {
  readonly type: 'call'
  readonly function: TableRef
  /** Names of the arguments, with the slots of their values, or null. */
  readonly arguments: readonly (readonly [name: string, slot: number | null])[]
}

export interface InsertShape {
  readonly type: 'insert'
  readonly table: TableRef
  readonly rows: number
  /** `everywhere` means that every row has the key. */
  readonly columns: readonly (readonly [name: string, everywhere: boolean])[]
  readonly onConflict?: ConflictShape
  readonly returning?: ColumnShapes
  readonly step?: StepShape
  /** Rows of relationships. Without it, those in the rows are unknown. */
  readonly related?: readonly RelatedShape[]
}

/** A step of a write of rows with related rows. `from`: what is done to the rows of the table of the request. */
export interface StepShape extends NestedStep {
  readonly from: 'insert' | 'update'
  /** Slot of the result of phase `write`, in phase `look` of an update. */
  readonly written?: number
}

/** What may be the rows of a relationship. `name` may also be a column, whose values look like them. */
export interface RelatedShape extends Pick<InsertShape, 'rows' | 'columns' | 'onConflict' | 'related'> {
  readonly name: string
}

export interface ConflictShape {
  readonly action: 'ignore' | 'update'
  readonly constraint?: string
  readonly columns?: readonly string[]
}

export interface UpdateShape {
  readonly type: 'update'
  readonly table: TableRef
  readonly where: ExpShape
  readonly expect?: ExpectShape
  readonly set: readonly SetShape[]
  readonly returning?: ColumnShapes
  readonly step?: StepShape
  /** Whether it is described and not run. */
  readonly stored?: true
}

export interface SetShape {
  /** The key in the request: `$set`, `values`, `$inc`, `$mul` or `$default`. */
  readonly under: string
  readonly kind: 'set' | 'inc' | 'mul' | 'default'
  readonly column: string
  readonly slot?: number
}

export const PLANNER = 'query'
