/**
 * The relational request: what to read or write, without SQL and, before `authorize`, without permissions. Plain data,
 * so that it can cross threads. All front ends produce it.
 */

export interface TableRef {
  readonly schema: string
  readonly name: string
}

/** How a type's values look in JSON and which operations they support. Domains have the kind of their base type. */
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
  | 'range'
  | 'multirange'
  | 'hstore'
  /** PostGIS types; GeoJSON in both directions. */
  | 'geometry'
  | 'geography'
  | 'other'

/** A PostgreSQL type in the catalog; `schema` and `name` are those of `pg_type`. */
export interface SqlType {
  readonly schema: string
  readonly name: string
  readonly kind: TypeKind
  /** Type of an array's elements. */
  readonly element?: SqlType
  /** Fields of a composite type that PostgreSQL does not read from JSON by itself, or that have such fields. See `readable`. */
  readonly fields?: Readonly<Record<string, SqlType>>
  /** Whether a column was declared as an array of more than one dimension, e.g. `int[][]`. PostgreSQL does not check it. */
  readonly nested?: true
  /** Whether it is a list of values to compare with rather than a column's type: its elements are not nested. */
  readonly list?: true
  /** Whether it was created by `create type ... as enum`. */
  readonly enum?: true
  /** Values of an enum, in order, or those of an enum table. */
  readonly labels?: readonly string[]
  /** Comments on values of an enum table, where there are any. */
  readonly labelComments?: readonly (readonly [label: string, comment: string])[]
  /** Names of labels in requests and answers, where they have others. */
  readonly labelNames?: readonly (readonly [name: string, label: string])[]
  /** Name of the enum table in GraphQL that a column references. */
  readonly enumTable?: string
  /** Whether it is text with a collation that can treat different bytes as equal, e.g. ignoring case. */
  readonly nondeterministic?: true
  /** Whether it is a LIKE pattern rather than a column's type. See `checkPattern`. */
  readonly pattern?: true
  /** Whether it is a regular expression, or a pattern of `similar to`, rather than a column's type. */
  readonly regex?: 'posix' | 'similar'
  /** Whether it is a part of a range to look for rather than a column's type: an element stands for its own range. */
  readonly part?: true
  /** Whether it is part of a full-text search rather than a column's type. See `checkSearch`. */
  readonly search?: 'query' | 'language'
  /** Name of its array type in the same schema, if any. */
  readonly array?: string
  /** What its values do not support: `order by`, comparisons by `<`, or `=`. Absent: nothing. */
  readonly lacks?: readonly ('sort' | 'order' | 'equality')[]
  /** Schema of the operators of `pg_trgm`, for texts where it is installed. */
  readonly trigram?: string
  /** Spatial reference that a column of a PostGIS type requires, e.g. 4326. Absent: any. */
  readonly srid?: number
}

/** Returns whether a type belongs to PostGIS. Its functions and operators are in the schema of the type. */
export const isGeo = (type: SqlType | undefined): type is SqlType & { readonly kind: 'geometry' | 'geography' } =>
  type?.kind === 'geometry' || type?.kind === 'geography'

/**
 * Returns the schema in which the operators of a type are, if they must be looked for there. The search path may lack the schema of
 * an extension. PostgreSQL has no operators of exactly these types for enums, ranges, composites, arrays and `varchar`, so
 * others could put their own before those that serve them, as intarray does with operators that fail for null.
 */
export const operatorsIn = ({ schema, name, kind, enum: isEnum }: SqlType): string | undefined => {
  if (isEnum || POLYMORPHIC.has(kind) || (schema === 'pg_catalog' && name === 'varchar')) return 'pg_catalog'
  return schema === 'pg_catalog' || !OWN_OPERATORS.has(kind) ? undefined : schema
}
const POLYMORPHIC: ReadonlySet<TypeKind> = new Set(['array', 'range', 'multirange', 'row'])
const OWN_OPERATORS: ReadonlySet<TypeKind> = new Set(['text', 'hstore', 'geometry', 'geography', 'other'])

/** Returns whether values of a type can be sorted, compared by `<`, or by `=`. An array depends on its elements. */
export const supports = ({ lacks, element }: SqlType, what: 'sort' | 'order' | 'equality'): boolean =>
  !(element ? element.lacks?.includes('sort') : lacks?.includes(what))

export const isRange = ({ kind }: SqlType): boolean => kind === 'range' || kind === 'multirange'

/** Column pairs, outer column first. Empty: not correlated. */
export type Join = readonly (readonly [outer: string, inner: string])[]

/** How rows of another table belong to a row. */
export interface Joined {
  readonly on: Join
  /** Of these pairs of conditions on the two rows, one must hold. Inserted by `authorize`. Absent: no more than `on`. */
  readonly links?: readonly Link[]
}
export interface Link {
  readonly outer: BoolExp
  readonly inner: BoolExp
}

/** The source of a statement parameter. Plans contain slots, never values. */
export type Operand =
  | { readonly kind: 'value'; readonly slot: number; readonly type: SqlType; readonly path: string }
  /** A value that has others within it. See `Composed`. */
  | { readonly kind: 'composed'; readonly parts: Composed; readonly type: SqlType; readonly path: string }
  /** `path`: where in the request the value is written, for the error when it does not fit. Absent: it is compared. */
  | { readonly kind: 'session'; readonly name: string; readonly type: SqlType; readonly path?: string }
  /** All session variables as a JSON object. */
  | { readonly kind: 'session_all'; readonly type: SqlType }
  /** `path`: where in the request it is written, if it is a part of it. */
  | { readonly kind: 'const'; readonly value: string | null; readonly type: SqlType; readonly path?: string }

/** JSON text, with slots in place of some values: `['{"a":', 3, '}']` */
export type Composed = readonly (string | number)[]

/** A call of a database function, for a row or as a source of rows. */
export interface FunctionCall {
  readonly function: TableRef
  readonly args: readonly CallArgument[]
  /** Whether it returns one row or null, which PostgreSQL shows as a row of nulls. */
  readonly single?: true
  /** Whether it may change the database. It is then called once, in a statement before the one that reads its rows. */
  readonly ahead?: true
  readonly procedure?: true
  /** Columns of its rows, if these are no rows of a table. */
  readonly columns?: readonly { readonly name: string; readonly type: SqlType }[]
}
export interface CallArgument {
  /** Absent for a positional argument. */
  readonly name?: string
  readonly variadic?: true
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
  | 'distinct'
  | 'not_distinct'
  | 'hstore_contains'
  | 'hstore_contained_in'
  | 'net_contains'
  | 'net_contained_in'
  | 'overlaps'
  | 'adjacent'
  | 'has_key'
  | 'has_keys_any'
  | 'has_keys_all'
  | 'path_exists'
  | 'path_match'
  | 'trigram_matches'
  | 'ancestor'
  | 'ancestor_any'
  | 'descendant'
  | 'descendant_any'
  | 'matches'
  /** Full-text search in text, and in a `tsvector`. */
  | 'text_matches'
  | 'vector_matches'
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
  | 'st_3d_d_within'
  | 'st_3d_intersects'
  /** Bounding boxes overlap, optionally expanded by a distance. Not available to clients. */
  | 'st_boxes'

export type BoolExp =
  | { readonly kind: 'and' | 'or'; readonly of: readonly BoolExp[] }
  | { readonly kind: 'not'; readonly of: BoolExp }
  | (ColumnRef & {
      readonly kind: 'compare'
      readonly op: CompareOp
      readonly to: Operand
      /**
       * Additional operands. `st_d_within` and `st_3d_d_within`: the distance; on geography also whether to use a spheroid. Full-text search:
       * the language, if any.
       */
      readonly more?: readonly Operand[]
      /** Schema of the operator, if it belongs to an extension and `to` does not tell it. */
      readonly schema?: string
      /** Type to compare the column as. */
      readonly cast?: { readonly from: SqlType; readonly to: SqlType }
    })
  | {
      readonly kind: 'columns'
      readonly column: string
      readonly op: ColumnOp
      readonly to: string
      /** Which row has `to`: 1 for the row around that of `column`, 2 for the one around that. Absent: the same row. */
      readonly up?: number
      /** Rows around in which `to` has its value, as in `ColumnRef`. Set by `authorize`. */
      readonly mask?: BoolExp
      /** Schema of the operator, for PostGIS types. */
      readonly schema?: string
    }
  | (ColumnRef & { readonly kind: 'null' })
  /** Compares a sort key of the row with a value. */
  | {
      readonly kind: 'sorted'
      readonly by: OrderTarget
      readonly is: 'null' | { readonly op: ColumnOp; readonly to: Operand }
    }
  /** Neither true nor false, like an SQL comparison with null. */
  | { readonly kind: 'unknown' }
  /** True, or unknown when the operand is null. */
  | { readonly kind: 'known'; readonly to: Operand }
  /** Evaluated only on rows that satisfy `by`; unknown for others. Inserted by `authorize`. */
  | { readonly kind: 'guarded'; readonly by: BoolExp; readonly of: BoolExp }
  /** Some row of `table` joins and satisfies `where`, or some row that the function of a computed field returns. */
  | (Joined & {
      readonly kind: 'exists'
      readonly table: TableRef
      readonly from?: FunctionCall
      /** Name of the computed field. */
      readonly computed?: string
      readonly where: BoolExp
    })
  /** An aggregate of the rows of `table` that join and satisfy `where`. */
  | (Joined & {
      readonly kind: 'aggregate'
      readonly table: TableRef
      readonly where: BoolExp
      readonly fn: 'count' | 'bool_and' | 'bool_or'
      /** Columns whose values to count, or the one boolean column; empty: counts rows. */
      readonly columns: readonly string[]
      readonly masks?: Masks
      readonly distinct: boolean
      /** Condition on a row whose only column, `value`, is the result. */
      readonly is: BoolExp
    })
export type ColumnOp = 'eq' | 'ne' | 'gt' | 'lt' | 'gte' | 'lte'

/** Conditions on rows in which a role sees some columns, by column. They are null in other rows. */
export type Masks = Readonly<Record<string, BoolExp>>

/** A column or a computed field of a row. */
export interface ColumnRef {
  readonly column: string
  readonly computed?: FunctionCall
  /** Rows in which it has its value; it is null in others. Set by `authorize`. */
  readonly mask?: BoolExp
}

export const TRUE: BoolExp = { kind: 'and', of: [] }
export const isTrue = (exp: BoolExp): boolean => exp.kind === 'and' && exp.of.length === 0
/** Returns whether a condition is true for all rows, or for none, without naming a column. */
export const isConstant = (exp: BoolExp): boolean => (exp.kind === 'and' || exp.kind === 'or') && exp.of.length === 0

/** PostgreSQL cuts longer names. */
const MAX_NAME_BYTES = 63
/** Returns whether a key of rows or of results is too long for the name of a column. */
export const isLongName = (key: string): boolean => Buffer.byteLength(key) > MAX_NAME_BYTES

/** A key of a result object. */
export type Field =
  | (ColumnRef & {
      readonly kind: 'column'
      readonly key: string
      /**
       * Whether the column is an expression that must not be evaluated for rows that are not returned. Set by
       * `authorize`.
       */
      readonly derived?: true
      /** Type, if it is displayed differently from PostgreSQL: PostGIS types, JSON, and enums whose labels have other names. See `columnField`. */
      readonly type?: SqlType
      /** Path to a part of a JSON value: a list of keys and indexes. */
      readonly path?: Operand
      /** Whether to return it as text, so that a client keeps every digit. */
      readonly asText?: true
    })
  | { readonly kind: 'constant'; readonly key: string; readonly value: string | null }
  /** The version of the row: the text of this column, which may be `xmin`. */
  | { readonly kind: 'version'; readonly key: string; readonly column: string }
  | { readonly kind: 'opaque'; readonly key: string; readonly of: Opaque }
  /**
   * Rows of another table. `on` is empty when they do not depend on columns of the row. `computed` is the name of the
   * field whose function returns them.
   */
  | (Joined & {
      readonly kind: 'relation'
      readonly key: string
      readonly computed?: string
      readonly read: Read
    })
  | (Joined & { readonly kind: 'aggregate'; readonly key: string; readonly read: Aggregate })
  /**
   * Whether a condition holds for the row: true, false or null. Not available to clients. `rule`: in an upsert it is
   * about inserted or updated rows only, and true for others.
   */
  | {
      readonly kind: 'condition'
      readonly key: string
      readonly is: BoolExp
      readonly rule?: 'inserted' | 'updated'
    }
  | (Joined & { readonly kind: 'connection'; readonly key: string; readonly read: Connection })

/** What a global id or a cursor says: a JSON array of constants and of values of the row, encoded in base64. */
export type Opaque = readonly (
  | Extract<Operand, { readonly kind: 'const' }>
  /** `asText`: whether JSON cannot tell the value from null. */
  | { readonly by: OrderTarget; readonly asText?: boolean }
)[]

/** A sort key: a column, directly or through object relationships. */
export type OrderTarget =
  | (ColumnRef & { readonly kind: 'column' })
  /** How well a column matches a full-text query. */
  | {
      readonly kind: 'rank'
      readonly column: string
      readonly mask?: BoolExp
      readonly op: 'text_matches' | 'vector_matches'
      readonly query: Operand
      readonly language?: Operand
    }
  | (Joined & {
      readonly kind: 'related'
      readonly table: TableRef
      /** `TRUE` until `authorize` inserts the row filter of the related table. */
      readonly where: BoolExp
      readonly by: OrderTarget
    })
  /** An aggregate of the rows of an array relationship, or of those that the function of a computed field returns. */
  | (Joined & {
      readonly kind: 'aggregate'
      readonly table: TableRef
      readonly from?: FunctionCall
      /** Name of the computed field. */
      readonly computed?: string
      /** Row filter, as in `related`. */
      readonly where: BoolExp
      readonly of:
        | { readonly fn: 'count' }
        | { readonly fn: AggregateFn; readonly column: string; readonly mask?: BoolExp }
    })
export interface OrderBy {
  readonly by: OrderTarget
  readonly direction?: 'asc' | 'desc'
  readonly nulls?: 'first' | 'last'
}

export interface Read {
  readonly kind: 'read'
  readonly table: TableRef
  /** Function that returns the rows, instead of the whole table. */
  readonly from?: FunctionCall
  readonly fields: readonly Field[]
  readonly where: BoolExp
  /** Reads groups of the rows. `fields`, `orderBy`, `limit` and `offset` are then about the groups' own columns. */
  readonly group?: Grouping
  /** Returns one row per distinct combination. `orderBy` starts with the same columns, or is empty. */
  readonly distinctOn?: readonly string[]
  readonly orderBy: readonly OrderBy[]
  readonly limit?: Operand
  readonly offset?: Operand
  /** Of the columns in `distinctOn` and `group`, or in the aggregates. Set by `authorize`. */
  readonly masks?: Masks
  /** Maximum number of rows of the role at this level, despite the client's limit. Set by `authorize`. */
  readonly maxRows?: number
  /** Whether to return an object or null instead of an array. */
  readonly single: boolean
  /** Whether to return the values of its only field instead of objects. */
  readonly values?: true
  /** Column whose value is returned, too, as the version of the row, of a read by primary key. Only for the outermost read. */
  readonly version?: string
}

/** Groups of rows. A group has the columns in `by`, and one for each value. */
export interface Grouping {
  /** Columns that the rows of a group have in common. Empty: all rows are one group. */
  readonly by: readonly string[]
  readonly values: readonly GroupValue[]
  /** Condition on the columns of a group. */
  readonly having: BoolExp
}
/** An aggregate of the rows of a group. */
export interface GroupValue {
  readonly key: string
  readonly fn: AggregateFn | 'count' | 'array_agg' | 'jsonb_agg'
  /** Absent: counts rows. */
  readonly column?: string
  readonly distinct: boolean
  /** Whether the values of a list have an order. */
  readonly sorted: boolean
  /** Type of the result. */
  readonly type: SqlType
}

/** Aggregates of some rows, optionally with the rows. */
export interface Aggregate extends Omit<Read, 'kind' | 'fields' | 'group' | 'single' | 'values'> {
  readonly kind: 'aggregate'
  readonly parts: readonly AggregatePart[]
}
export type AggregatePart =
  | { readonly kind: 'constant'; readonly key: string; readonly value: string }
  | { readonly kind: 'nodes'; readonly key: string; readonly fields: readonly Field[] }
  | { readonly kind: 'functions'; readonly key: string; readonly of: readonly Computed[] }
/** A key of the object of aggregates. */
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

/** A page of rows, with a cursor for each of them. */
export interface Connection extends Omit<Read, 'kind' | 'fields' | 'group' | 'single' | 'distinctOn' | 'offset'> {
  readonly kind: 'connection'
  /** Whether it is the last page. `orderBy` is then the reverse of the order of the rows that are returned. */
  readonly isLast: boolean
  readonly cursor: Opaque
  /** Reads the primary keys of the only rows to show, of those with equal values in some columns. */
  readonly distinct?: Pick<Read, 'where' | 'orderBy' | 'distinctOn'> & { readonly key: readonly string[] }
  /** Conditions on the rows before the page and after it that a cursor excludes. Absent: there is no such cursor. */
  readonly outside: { readonly previous?: BoolExp; readonly next?: BoolExp }
  readonly parts: readonly ConnectionPart[]
}
type Constant = Extract<Field, { readonly kind: 'constant' }>
export type ConnectionPart =
  | Constant
  | { readonly kind: 'edges'; readonly key: string; readonly of: readonly EdgePart[] }
  | { readonly kind: 'pageInfo'; readonly key: string; readonly of: readonly PageInfo[] }
export type EdgePart =
  | Constant
  | { readonly kind: 'cursor'; readonly key: string }
  | { readonly kind: 'node'; readonly key: string; readonly fields: readonly Field[] }
export type PageInfo =
  | Constant
  | { readonly kind: 'startCursor' | 'endCursor' | 'hasNextPage' | 'hasPreviousPage'; readonly key: string }

/** The version that the row of a write must have: the text of a column, or of `xmin`. */
export interface Expected {
  readonly column: string
  readonly to: Operand
}

/** Several reads that return one object. */
export interface Roots {
  readonly kind: 'roots'
  /** Fields other than columns. */
  readonly fields: readonly Field[]
}

/** `{"count": n}` of the rows, or of the distinct values of some columns. */
export interface Count {
  readonly kind: 'count'
  readonly table: TableRef
  readonly where: BoolExp
  readonly distinct?: readonly string[]
  /** Of the columns in `distinct`. Set by `authorize`. */
  readonly masks?: Masks
  /** Counts the rows that this rule of the role accepts. `where` then comes from the server, not from a client. */
  readonly under?: Rule
}
/**
 * A rule of a permission: the filter of `select`, `update` or `delete`, or the check of a written row, `inserted` or
 * `updated`.
 */
export type Rule = 'select' | 'inserted' | 'update' | 'updated' | 'delete'

/** The rows that a write returns. */
export interface Returning {
  readonly fields: readonly Field[]
  /** Rows that fail this condition are counted but not returned. `authorize` sets it to the role's select filter. */
  readonly visible: BoolExp
}
/**
 * The result of a write: an object of these parts, or the written row or null. Absent: `affected_rows`, and `returning`
 * when rows are requested.
 */
export type WriteAnswer = 'row' | readonly WritePart[]
export type WritePart =
  | { readonly kind: 'affected_rows'; readonly key: string }
  /** `fields`: which of the returned fields, by index. Absent: all. */
  | { readonly kind: 'returning'; readonly key: string; readonly fields?: readonly [from: number, end: number] }
  | { readonly kind: 'constant'; readonly key: string; readonly value: string }

/** A column that the server sets, overriding the client. */
export interface Preset {
  readonly column: string
  readonly to: Operand
}

/** What a write does as a part of one that also writes related rows. Not for values of clients. */
export interface Step {
  /**
   * Absent: writes, checks and returns. `write` only writes and returns the keys of the rows as JSON; `look` checks
   * those rows and returns the result, so that it sees what was written in between. Rows without a key are checked by `write`.
   */
  readonly phase?: 'write' | 'look'
  /** Additional columns that `write` returns for the server's own use: `l0`, `l1`, ... */
  readonly link?: readonly string[]
  /** Number of rows of other tables to add to the affected ones. */
  readonly alsoAffected?: Operand
  /** Restricts an update or delete to rows that join with the rows in a slot: the result of another `write`. */
  readonly within?: Joined & {
    readonly slot: number
    /** Table of those rows, and how to find them again for `links`. */
    readonly table: TableRef
    readonly key: RowKey
    /** For each pair of `on`, the index of the outer column in `link`, and its type. */
    readonly types: readonly { readonly link: number; readonly type: SqlType }[]
  }
  /** Writes of related rows. They make a request that needs several steps, and nothing is compiled. */
  readonly related?: readonly Write[]
}

export interface Insert extends Step {
  readonly kind: 'insert'
  /** Name of the relationship, of related rows. */
  readonly relationship?: string
  readonly table: TableRef
  readonly key: RowKey
  /** Slot of the JSON text of the rows; in phase `look`, of the keys from phase `write`. */
  readonly rows: number
  readonly columns: readonly InsertColumn[]
  /** Whether rows with different keys need separate requests; nothing is compiled. */
  readonly perKeySet: boolean
  readonly presets: readonly Preset[]
  readonly onConflict?: OnConflict
  /** Condition for every written row. Set by `authorize`. */
  readonly check: BoolExp
  /** Error message for a row that fails the check. Set by `authorize`. */
  readonly refusal?: string
  readonly returning?: Returning
  readonly answer?: WriteAnswer
}
export interface InsertColumn {
  readonly name: string
  /** Its key in the rows, if it differs from the name. */
  readonly key?: string
  readonly type: SqlType
  /** `some`: the key is missing in some rows, which get the default; `none`: in all rows. */
  readonly present: 'all' | 'some' | 'none'
  /** The column's default as PostgreSQL prints it (`pg_get_expr`). */
  readonly default?: string
  /** Whether a sequence gives its value, because the rows have no columns. */
  readonly identity?: true
}
/** How to find a row again in the same transaction: by its primary key, otherwise by its ctid; a view has neither. */
export type RowKey =
  | {
      readonly kind: 'columns'
      readonly columns: readonly { readonly name: string; readonly type: SqlType }[]
      /** Whether the table is partitioned; its rows have no `xmax`. */
      readonly partitioned?: boolean
      /** Whether the key is that of the table alone, and tables that inherit from it have rows of the same key. */
      readonly only?: boolean
    }
  | { readonly kind: 'place' }
  | { readonly kind: 'none' }
export interface OnConflict {
  readonly action: 'ignore' | 'update'
  readonly constraint?: string
  readonly columns?: readonly string[]
  /** Columns to update in an existing row. Empty: leaves the row unchanged. */
  readonly set: readonly string[]
  readonly presets: readonly Preset[]
  /** Rows that may be updated. Set by `authorize`. */
  readonly where: BoolExp
  /** Condition for every updated row. Set by `authorize`. */
  readonly check: BoolExp
}

export interface Update extends Step {
  readonly kind: 'update'
  readonly table: TableRef
  readonly key: RowKey
  /** Slot of the keys from phase `write`, in phase `look`. */
  readonly written?: number
  /** Empty: changes no column, in a step whose related rows are written. */
  readonly set: readonly Assignment[]
  readonly where: BoolExp
  readonly expected?: Expected
  /** Condition for every written row. Set by `authorize`. */
  readonly check: BoolExp
  /** Error message for a row that fails the check. Set by `authorize`. */
  readonly refusal?: string
  readonly returning?: Returning
  readonly answer?: WriteAnswer
}
export type Assignment =
  | { readonly kind: 'set' | 'inc' | 'mul' | JsonChange; readonly column: string; readonly to: Operand }
  | { readonly kind: 'default' | 'null'; readonly column: string }

/** Changes of a jsonb column. */
export type JsonChange = 'append' | 'prepend' | 'delete_key' | 'delete_elem' | 'delete_at_path'

export interface Delete extends Step {
  readonly kind: 'delete'
  readonly table: TableRef
  readonly where: BoolExp
  readonly expected?: Expected
  readonly returning?: Returning
  readonly answer?: WriteAnswer
}

export type Write = Insert | Update | Delete
export type Op = Read | Count | Roots | Write
