/**
 * The relational request: what to read or write, with no SQL in it and, until `authorize` has seen it, no permissions.
 * Plain data, so that it crosses threads. Every front end makes these and nothing else.
 */

export interface TableRef {
  readonly schema: string
  readonly name: string
}

/** How a type's values look in JSON and what may be done with them. Domains have the kind of their base type. */
export type TypeKind =
  | 'int2'
  | 'int4'
  | 'int8'
  | 'float'
  | 'numeric'
  | 'bool'
  | 'text'
  | 'json'
  | 'jsonb'
  | 'array'
  | 'row'
  /** Of PostGIS; GeoJSON both ways. */
  | 'geometry'
  | 'geography'
  | 'other'

/** A PostgreSQL type as the catalog has it; `schema` and `name` are those of `pg_type`. */
export interface SqlType {
  readonly schema: string
  readonly name: string
  readonly kind: TypeKind
  /** The type of an array's elements. */
  readonly element?: SqlType
  /** It is a list of values to compare with, and no column's type: nothing nests in it. */
  readonly list?: true
  /** A type made by `create type ... as enum`. */
  readonly enum?: true
  /** Text of a collation that takes texts of different bytes as equal, e.g. without case. */
  readonly nondeterministic?: true
  /** It is a pattern of LIKE, and no column's type. See `checkPattern`. */
  readonly pattern?: true
  /** Name (same schema) of the array type over this one. Absent: it has none. */
  readonly array?: string
  /** The spatial reference that a column of a PostGIS type demands, e.g. 4326. Absent: it takes any. */
  readonly srid?: number
}

/** Column pairs, outer column first. Empty: not correlated. */
export type Join = readonly (readonly [outer: string, inner: string])[]

/** Something a statement parameter stands for. A value never reaches a plan: only its slot does. */
export type Operand =
  | { readonly kind: 'value'; readonly slot: number; readonly type: SqlType; readonly path: string }
  | { readonly kind: 'session'; readonly name: string; readonly type: SqlType }
  /** All session variables, as a JSON object. */
  | { readonly kind: 'session_all'; readonly type: SqlType }
  | { readonly kind: 'const'; readonly value: string | null; readonly type: SqlType }

/** A function of the database, called for a row or for rows of its own. */
export interface FunctionCall {
  readonly function: TableRef
  readonly args: readonly CallArgument[]
  /** It gives one row or null, which PostgreSQL shows as a row of nulls. */
  readonly single?: true
  /** It may change the database: it is called once, by a statement ahead of the one that reads its rows. */
  readonly ahead?: true
}
export interface CallArgument {
  /** Absent: by its place. */
  readonly name?: string
  /** `row`: the row that the call is made for. */
  readonly to: Operand | { readonly kind: 'row' }
}

export type CompareOp =
  | 'eq'
  | 'ne'
  | 'gt'
  | 'lt'
  | 'gte'
  | 'lte'
  | 'in'
  | 'nin'
  | 'like'
  | 'nlike'
  | 'ilike'
  | 'nilike'
  | 'similar'
  | 'nsimilar'
  | 'regex'
  | 'iregex'
  | 'nregex'
  | 'niregex'
  | 'contains'
  | 'contained_in'
  | 'has_key'
  | 'has_keys_any'
  | 'has_keys_all'
  | 'ancestor'
  | 'ancestor_any'
  | 'descendant'
  | 'descendant_any'
  | 'matches'
  | 'matches_any'
  | 'matches_fulltext'
  | 'st_contains'
  | 'st_crosses'
  | 'st_equals'
  | 'st_intersects'
  | 'st_overlaps'
  | 'st_touches'
  | 'st_within'
  | 'st_d_within'
  /** Boxes overlap, the one of the value grown by a distance, if there is one. Not for clients. */
  | 'st_boxes'

export type BoolExp =
  | { readonly kind: 'and' | 'or'; readonly of: readonly BoolExp[] }
  | { readonly kind: 'not'; readonly of: BoolExp }
  | {
      readonly kind: 'compare'
      readonly column: string
      readonly computed?: FunctionCall
      readonly op: CompareOp
      readonly to: Operand
      /** Further operands, of `st_d_within`: the distance; on geography also whether the earth is a spheroid. */
      readonly more?: readonly Operand[]
      /** The column is compared as another type than its own. */
      readonly cast?: { readonly from: SqlType; readonly to: SqlType }
    }
  | {
      readonly kind: 'columns'
      readonly column: string
      readonly op: ColumnOp
      readonly to: string
      /** Schema of the operator, for types of PostGIS. */
      readonly schema?: string
    }
  | { readonly kind: 'null'; readonly column: string; readonly computed?: FunctionCall }
  /** Neither true nor false, as SQL has it for a comparison with null. */
  | { readonly kind: 'unknown' }
  /** Evaluated only on rows that satisfy `by`; unknown for others. Put in by `authorize`. */
  | { readonly kind: 'guarded'; readonly by: BoolExp; readonly of: BoolExp }
  /** Some row of `table` joins and satisfies `where`. */
  | { readonly kind: 'exists'; readonly table: TableRef; readonly on: Join; readonly where: BoolExp }
  /** Something computed of the rows of `table` that join and satisfy `where`. */
  | {
      readonly kind: 'aggregate'
      readonly table: TableRef
      readonly on: Join
      readonly where: BoolExp
      readonly fn: 'count' | 'bool_and' | 'bool_or'
      /** What to count the values of, or the one column that is true or false; none: rows. */
      readonly columns: readonly string[]
      readonly distinct: boolean
      /** A condition on a row whose one column, `value`, is the result. */
      readonly is: BoolExp
    }
export type ColumnOp = 'eq' | 'ne' | 'gt' | 'lt' | 'gte' | 'lte'

export const TRUE: BoolExp = { kind: 'and', of: [] }

/** One key of a result object. */
export type Field =
  | {
      readonly kind: 'column'
      readonly key: string
      /** A column, or a field that a function computes of the row. */
      readonly column: string
      readonly computed?: FunctionCall
      /** The column is an expression, and a row that is not returned must not have it computed; set by `authorize`. */
      readonly derived?: true
      /** Of types that are not shown everywhere as PostgreSQL shows them: those of PostGIS, and JSON. See `columnField`. */
      readonly type?: SqlType
      /** A part of a JSON value: a list of keys and places. */
      readonly path?: Operand
      /** Shown as text, so that a client keeps every digit. */
      readonly asText?: true
    }
  | { readonly kind: 'constant'; readonly key: string; readonly value: string }
  /**
   * Rows of another table; `on` is empty where they do not depend on a row by its columns. `computed` is the name of the
   * field whose function gives them.
   */
  | {
      readonly kind: 'relation'
      readonly key: string
      readonly on: Join
      readonly computed?: string
      readonly read: Read
    }
  | { readonly kind: 'aggregate'; readonly key: string; readonly on: Join; readonly read: Aggregate }

/** What to sort by: a column, or one reached through object relationships. */
export type OrderTarget =
  | { readonly kind: 'column'; readonly column: string; readonly computed?: FunctionCall }
  | {
      readonly kind: 'related'
      readonly table: TableRef
      readonly on: Join
      /** `TRUE` until `authorize` puts the row filter of the related table here. */
      readonly where: BoolExp
      readonly by: OrderTarget
    }
  /** Something computed of the rows of an array relationship. */
  | {
      readonly kind: 'aggregate'
      readonly table: TableRef
      readonly on: Join
      /** As in `related`. */
      readonly where: BoolExp
      readonly of: { readonly fn: 'count' } | { readonly fn: AggregateFn; readonly column: string }
    }
export interface OrderBy {
  readonly by: OrderTarget
  readonly direction?: 'asc' | 'desc'
  readonly nulls?: 'first' | 'last'
}

export interface Read {
  readonly kind: 'read'
  readonly table: TableRef
  /** The rows are those that this gives, not all of the table's. */
  readonly from?: FunctionCall
  readonly fields: readonly Field[]
  readonly where: BoolExp
  /** One row for each distinct combination; `orderBy` begins with the same columns, or is empty. */
  readonly distinctOn?: readonly string[]
  readonly orderBy: readonly OrderBy[]
  readonly limit?: Operand
  readonly offset?: Operand
  /** Most rows that the role may have at this level, whatever the client's limit; set by `authorize`. */
  readonly maxRows?: number
  /** An object or null instead of an array. */
  readonly single: boolean
}

/** An object of what is computed of some rows, and of those rows. */
export interface Aggregate extends Omit<Read, 'kind' | 'fields' | 'single'> {
  readonly kind: 'aggregate'
  readonly parts: readonly AggregatePart[]
}
export type AggregatePart =
  | { readonly kind: 'constant'; readonly key: string; readonly value: string }
  | { readonly kind: 'nodes'; readonly key: string; readonly fields: readonly Field[] }
  | { readonly kind: 'functions'; readonly key: string; readonly of: readonly Computed[] }
/** One key of the object of computed values. */
export type Computed =
  | { readonly kind: 'constant'; readonly key: string; readonly value: string }
  | { readonly kind: 'count'; readonly key: string; readonly columns: readonly string[]; readonly distinct: boolean }
  /** The function of each column, as an object. */
  | { readonly kind: 'columns'; readonly key: string; readonly fn: AggregateFn; readonly of: readonly ComputedColumn[] }
export type ComputedColumn = Extract<Field, { readonly kind: 'column' | 'constant' }>
export type AggregateFn =
  | 'sum'
  | 'avg'
  | 'min'
  | 'max'
  | 'stddev'
  | 'stddev_pop'
  | 'stddev_samp'
  | 'var_pop'
  | 'var_samp'
  | 'variance'

/** Several reads that answer as one object. */
export interface Roots {
  readonly kind: 'roots'
  /** None of them is a column. */
  readonly fields: readonly Field[]
}

/** `{"count": n}` over the rows, or over the distinct values of some columns. */
export interface Count {
  readonly kind: 'count'
  readonly table: TableRef
  readonly where: BoolExp
  readonly distinct?: readonly string[]
  /** Counted is what this rule of the role accepts. `where` is then the server's own, not a client's. */
  readonly under?: Rule
}
/**
 * What a permission says of rows: the filter of `select`, `update` or `delete`, or what must hold of a row once it is
 * written, `inserted` or `updated`.
 */
export type Rule = 'select' | 'inserted' | 'update' | 'updated' | 'delete'

/** The rows that a write answers with. */
export interface Returning {
  readonly fields: readonly Field[]
  /** Rows that fail it are counted and not returned; set by `authorize` to the role's select filter. */
  readonly visible: BoolExp
}
/**
 * What a write answers: an object of these, or the one row that it wrote, or null. Absent: `affected_rows`, and
 * `returning` when rows are asked for.
 */
export type WriteAnswer = 'row' | readonly WritePart[]
export type WritePart =
  | { readonly kind: 'affected_rows' | 'returning'; readonly key: string }
  | { readonly kind: 'constant'; readonly key: string; readonly value: string }

/** A column set by the server, whatever the client sent. */
export interface Preset {
  readonly column: string
  readonly to: Operand
}

export interface Insert {
  readonly kind: 'insert'
  readonly table: TableRef
  readonly key: RowKey
  /** Slot of the JSON text of the rows; when looking, of what writing gave. */
  readonly rows: number
  /**
   * Absent: writes, checks and answers. `write` only writes and gives the keys of the rows as JSON; `look` checks those
   * rows and answers: what was written in between is seen.
   */
  readonly phase?: 'write' | 'look'
  /** Columns that `write` gives beside the keys, for the server's own use: `l0`, `l1`, ... */
  readonly link?: readonly string[]
  /** Rows of other tables that count as affected. */
  readonly alsoAffected?: Operand
  readonly columns: readonly InsertColumn[]
  /** Rows with different keys must go in requests of their own; nothing is compiled. */
  readonly perKeySet: boolean
  readonly presets: readonly Preset[]
  readonly onConflict?: OnConflict
  /** Must hold for every row as written; set by `authorize`. */
  readonly check: BoolExp
  /** What is said of a row that fails it; set by `authorize`. */
  readonly refusal?: string
  /** See `CheckClause`. */
  readonly clauses?: readonly CheckClause[]
  readonly returning?: Returning
  readonly answer?: WriteAnswer
}
/**
 * A part of a check. A write with clauses refuses no row. It answers with an array of booleans: for each clause, whether it is
 * true for every row that it applies to; at the end, whether every row was found again.
 */
export interface CheckClause {
  readonly rule: 'inserted' | 'updated'
  readonly exp: BoolExp
}
export interface InsertColumn {
  readonly name: string
  /** Its key in the rows, where that is not its name. */
  readonly key?: string
  readonly type: SqlType
  /** `some`: the key is missing in some rows, which then get the default; `none`: in all of them. */
  readonly present: 'all' | 'some' | 'none'
  /** The column's default as PostgreSQL prints it (`pg_get_expr`). */
  readonly default?: string
}
/** How a row is found again in the same transaction: by its primary key, else by its place; a view has neither. */
export type RowKey =
  | {
      readonly kind: 'columns'
      readonly columns: readonly { readonly name: string; readonly type: SqlType }[]
      /** Of a partitioned table, whose rows have no `xmax` to show. */
      readonly partitioned?: boolean
    }
  | { readonly kind: 'place' }
  | { readonly kind: 'none' }
export interface OnConflict {
  readonly action: 'ignore' | 'update'
  readonly constraint?: string
  readonly columns?: readonly string[]
  /** Columns that take the new value in a row that exists already. None: that row is left alone. */
  readonly set: readonly string[]
  readonly presets: readonly Preset[]
  /** Rows that may be updated; set by `authorize`. */
  readonly where: BoolExp
  /** Must hold for every row updated; set by `authorize`. */
  readonly check: BoolExp
}

export interface Update {
  readonly kind: 'update'
  readonly table: TableRef
  readonly key: RowKey
  readonly set: readonly Assignment[]
  readonly where: BoolExp
  /** Must hold for every row as written; set by `authorize`. */
  readonly check: BoolExp
  /** What is said of a row that fails it; set by `authorize`. */
  readonly refusal?: string
  /** See `CheckClause`. */
  readonly clauses?: readonly CheckClause[]
  readonly returning?: Returning
  readonly answer?: WriteAnswer
}
export type Assignment =
  | { readonly kind: 'set' | 'inc' | 'mul' | JsonChange; readonly column: string; readonly to: Operand }
  | { readonly kind: 'default' | 'null'; readonly column: string }

/** What can be done to a jsonb column. */
export type JsonChange = 'append' | 'prepend' | 'delete_key' | 'delete_elem' | 'delete_at_path'

export interface Delete {
  readonly kind: 'delete'
  readonly table: TableRef
  readonly where: BoolExp
  readonly returning?: Returning
  readonly answer?: WriteAnswer
}

export type Write = Insert | Update | Delete
export type Op = Read | Count | Roots | Write
