import {
  at,
  describe,
  type ExpShape,
  type GroupValue,
  isAggregateFunction,
  isObject,
  type Json,
  type JsonObject,
  liftBoolExp,
  liftSearch,
  liftTableRef,
  type NestedStep,
  NO_LIMITS,
  NumberText,
  parseJson,
  parseFailed,
  readOrderText,
  Rows,
  rowsOf,
  type SearchShape,
  Slots,
  type TableRef,
  refuseOtherKeys,
  unexpectedPayload,
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

const PATH = '$.args'
/** Keys of a select, and of a relationship to many rows. */
const READ = ['columns', 'where', 'group_by', 'having', 'distinct_on', 'order_by', 'limit', 'offset']

export function liftSelect(args: Json): Lifted {
  const slots = new Slots()
  const object = expectKeys(args, ['table', ...READ, 'after'], PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  return { shape: { type: 'select', table, ...liftRead(object, PATH, slots, 1) }, values: slots.values }
}

export function liftCall(args: Json): Lifted {
  const slots = new Slots()
  const object = expectKeys(args, ['function', 'arguments', ...READ], PATH)
  const called = liftTableRef(object['function'], `${PATH}.function`)
  const { arguments: given, columns } = object
  const read = liftRead(present(columns) ? object : { ...object, columns: ['*'] }, PATH, slots, 1)
  const all = present(given) ? liftNamed(given, 'arguments', `${PATH}.arguments`, slots) : []
  return { shape: { type: 'call', function: called, arguments: all, ...read }, values: slots.values }
}

export function liftCount(args: Json): Lifted {
  const slots = new Slots()
  const object = expectKeys(args, ['table', 'where', 'distinct'], PATH)
  const distinct = present(object['distinct']) ? columnNames(object['distinct'], `${PATH}.distinct`) : undefined
  return {
    shape: {
      type: 'count',
      table: liftTableRef(object['table'], `${PATH}.table`),
      where: liftWhere(object, PATH, slots),
      distinct,
    },
    values: slots.values,
  }
}

/** @param rows the part of the rows in `args` to insert; by default all */
export function liftInsert(args: Json, rows?: Rows): Lifted<InsertShape> {
  return liftRows(args, rows)
}

/** Lifts an insert that is described and not run: with the rows of relationships. */
export function liftWholeInsert(args: Json): Lifted {
  return liftRows(args, undefined, relatedIn)
}

function liftRows(args: Json, rows?: Rows, related?: typeof relatedIn): Lifted<InsertShape> {
  const object = expectKeys(args, ['table', 'objects', 'on_conflict', 'returning'], PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const objects = rows ?? rowsIn(object)
  if (objects.count === 0) throw unexpectedPayload('objects should not be empty', `${PATH}.objects`)
  const { on_conflict: conflict } = object
  const slots = new Slots()
  return {
    shape: {
      type: 'insert',
      table,
      rows: slots.add(objects),
      columns: keysOf(objects),
      onConflict: present(conflict) ? liftConflict(conflict, `${PATH}.on_conflict`) : undefined,
      returning: liftReturning(object, slots),
      related: related?.(objects, slots),
    },
    values: slots.values,
  }
}

/** Returns the keys of rows, with whether every row has them. */
const keysOf = ({ columns, count }: Rows) => [...columns].map(([name, { present: n }]) => [name, n === count] as const)

/** Returns the values `{"data": ..., "on_conflict"?}` in rows, which are rows of relationships. */
function relatedIn(rows: Rows, slots: Slots): readonly RelatedShape[] {
  const nested = [...rows.columns].filter(([, { first }]) => first.composite >= 0).map(([name]) => name)
  if (nested.length === 0) return []
  const all = parseJson(rows.source, NO_LIMITS) as readonly JsonObject[]
  return nested.flatMap((name) =>
    all.flatMap((row): RelatedShape[] => {
      const given = row[name]
      if (!present(given) || !isObject(given) || !present(given['data'])) return []
      const { data, on_conflict: conflict } = given
      const list = Array.isArray(data) ? data : [data]
      if (!list.every(isObject)) return []
      const inner = rowsOf(list, `${PATH}.objects`)
      const onConflict = present(conflict) ? liftConflict(conflict, at(`${PATH}.objects`, name)) : undefined
      return [{ name, rows: slots.add(inner), columns: keysOf(inner), onConflict, related: relatedIn(inner, slots) }]
    }),
  )
}

/** Returns the rows of an insert. Those of HTTP requests have been parsed as `Rows` already. */
function rowsIn(args: JsonObject): Rows {
  const objects = required(args, 'objects', PATH)
  if (objects instanceof Rows) return objects
  if (Array.isArray(objects)) return rowsOf(objects, `${PATH}.objects`)
  throw parseFailed(`expecting an array of objects, but found ${describe(objects)}`, `${PATH}.objects`)
}

/** @param stored whether the update is described and not run */
export function liftUpdate(args: Json, stored?: true): Lifted<UpdateShape> {
  const slots = new Slots()
  const keys = ['table', 'where', 'expect', '$set', 'values', '$inc', '$mul', '$default', 'returning']
  const object = expectKeys(args, keys, PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const where = liftBoolExp(required(object, 'where', PATH), `${PATH}.where`, slots)
  const assigned = (kind: 'set' | 'inc' | 'mul', under: string): SetShape[] => {
    const path = at(PATH, under)
    const value = object[under]
    if (!present(value)) return []
    if (!isObject(value)) throw parseFailed(`expecting an object of columns, but found ${describe(value)}`, path)
    return Object.keys(value).map((column) => {
      const to = value[column] as Json
      if (to === null && kind !== 'set') throw parseFailed('expecting a number, but found null', at(path, column))
      return { under, kind, column, slot: to === null ? undefined : slots.add(to) }
    })
  }
  const set = [
    ...assigned('set', present(object['$set']) ? '$set' : 'values'),
    ...assigned('inc', '$inc'),
    ...assigned('mul', '$mul'),
    ...liftDefaults(object['$default']),
  ]
  refuseTwice(set)
  const expect = liftExpect(object, slots)
  const returning = liftReturning(object, slots)
  return { shape: { type: 'update', table, where, expect, set, returning, stored }, values: slots.values }
}

export function liftDelete(args: Json): Lifted {
  const slots = new Slots()
  const object = expectKeys(args, ['table', 'where', 'expect', 'returning'], PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const where = liftBoolExp(required(object, 'where', PATH), `${PATH}.where`, slots)
  const expect = liftExpect(object, slots)
  const returning = liftReturning(object, slots)
  return { shape: { type: 'delete', table, where, expect, returning }, values: slots.values }
}

export function liftDependents(args: Json): Lifted {
  const slots = new Slots()
  const object = expectKeys(args, ['table', 'key'], PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const key = liftBoolExp(required(object, 'key', PATH), `${PATH}.key`, slots)
  return { shape: { type: 'dependents', table, key }, values: slots.values }
}

function liftRead(object: JsonObject, path: string, slots: Slots, depth: number): SelectShape {
  slots.visit(depth, path)
  const columns = liftColumns(required(object, 'columns', path), `${path}.columns`, slots, depth)
  const limit = rowCount(object, 'limit', path, slots)
  const offset = rowCount(object, 'offset', path, slots)
  return {
    columns,
    where: liftWhere(object, path, slots),
    groupBy: liftNames(object, 'group_by', path),
    having: present(object['having']) ? liftBoolExp(object['having'], `${path}.having`, slots) : undefined,
    distinctOn: liftNames(object, 'distinct_on', path),
    orderBy: present(object['order_by']) ? liftOrderBy(object['order_by'], `${path}.order_by`, slots) : undefined,
    limit,
    offset,
    after: present(object['after']) ? liftNamed(object['after'], 'columns', `${path}.after`, slots) : undefined,
  }
}

/** Lifts an object of values by name. @param of what the names are */
function liftNamed(value: Json, of: string, path: string, slots: Slots): AfterShape {
  if (!isObject(value)) throw parseFailed(`expecting an object of ${of}, but found ${describe(value)}`, path)
  const names = Object.keys(value)
  refuseMany(names, path)
  return names.map((name) => [name, value[name] === null ? null : slots.add(value[name] as Json)])
}

function liftColumns(value: Json, path: string, slots: Slots, depth: number): ColumnShapes {
  if (!Array.isArray(value)) throw parseFailed(`expecting an array of columns, but found ${describe(value)}`, path)
  refuseMany(value, path)
  return value.map((column, i) => {
    if (typeof column === 'string') return column
    const fn = isObject(column) && !('name' in column) ? Object.keys(column).find(isAggregateFunction) : undefined
    return fn ? liftValue(fn, column, at(path, i)) : liftRelation(column, at(path, i), slots, depth)
  })
}

function liftValue(fn: GroupValue['fn'], value: Json, path: string): ValueShape {
  const object = expectKeys(value, [fn, 'as', 'distinct'], path)
  const { as, distinct, [fn]: column } = object
  if (typeof column !== 'string') throw parseFailed('expecting a column name', at(path, fn))
  if (present(as) && typeof as !== 'string') throw parseFailed('expecting a string', `${path}.as`)
  if (present(distinct) && typeof distinct !== 'boolean') throw parseFailed('expecting a boolean', `${path}.distinct`)
  if (fn !== 'count' || column !== '*') {
    return { fn, column, distinct: distinct === true, as: as ?? `${fn}_${column}` }
  }
  if (distinct === true) throw unexpectedPayload('distinct needs a column to count', `${path}.distinct`)
  return { fn, distinct: false, as: as ?? fn }
}

function liftRelation(column: Json, path: string, slots: Slots, depth: number): RelationShape {
  const object = expectKeys(column, ['name', 'alias', ...READ], path)
  const name = required(object, 'name', path)
  const { alias } = object
  if (typeof name !== 'string') throw parseFailed('expecting a relationship name', `${path}.name`)
  if (present(alias) && typeof alias !== 'string') throw parseFailed('expecting a string', `${path}.alias`)
  return { name, alias: alias ?? undefined, select: liftRead(object, path, slots, depth + 1) }
}

function rowCount(object: JsonObject, key: string, path: string, slots: Slots): number | undefined {
  const value = object[key]
  if (!present(value)) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw parseFailed(`expecting a whole number, but found ${quote(value)}`, at(path, key))
  }
  return slots.add(value)
}

const quote = (value: Json): string =>
  typeof value === 'number' || value instanceof NumberText
    ? String(value instanceof NumberText ? value.text : value)
    : describe(value)

function liftOrderBy(value: Json, path: string, slots: Slots): readonly OrderShape[] {
  if (!Array.isArray(value)) return [liftOrder(value, path, slots)]
  if (value.length === 0) throw unexpectedPayload('order_by array should not be empty', path)
  refuseMany(value, path)
  return value.map((each, i) => liftOrder(each, at(path, i), slots))
}

function liftOrder(value: Json, path: string, slots: Slots): OrderShape {
  if (typeof value === 'string') {
    const found = readOrderText(value)
    if (found) return found
    throw parseFailed("string format for 'order_by' entry : {+/-}column Eg : +posted", path)
  }
  const object = expectKeys(value, ['column', 'rank', 'type', 'order', 'nulls'], path)
  const direction = oneOf(object['type'] ?? object['order'], ['asc', 'desc'], `${path}.type`)
  const nulls = oneOf(object['nulls'], ['first', 'last'], `${path}.nulls`)
  if (present(object['rank'])) {
    if (present(object['column'])) throw unexpectedPayload("'column' and 'rank' cannot be used together", path)
    const rank = liftRank(object['rank'], `${path}.rank`, slots)
    return { ...rank, direction: direction ?? 'desc', nulls: nulls ?? 'last' }
  }
  const column = required(object, 'column', path)
  const names = typeof column === 'string' ? column.split('.') : columnNames(column, `${path}.column`)
  if (names.length === 0) throw parseFailed('expecting the name of a column', `${path}.column`)
  return { path: names, direction, nulls }
}

/** Lifts `{"column": "body", "query": "red shoe", "language": "english"}`. */
function liftRank(value: Json, path: string, slots: Slots): Required<Pick<OrderShape, 'path' | 'rank'>> {
  const { column, ...search } = expectKeys(value, ['column', 'query', 'language'], path)
  if (typeof column !== 'string') throw parseFailed('expecting the name of a column', `${path}.column`)
  return { path: [column], rank: liftSearch(search, path, slots) }
}

export function liftConflict(value: Json, path: string): ConflictShape {
  const object = expectKeys(value, ['action', 'constraint', 'constraint_on'], path)
  required(object, 'action', path)
  const action = oneOf(object['action'], ['ignore', 'update'], `${path}.action`) as 'ignore' | 'update'
  const { constraint, constraint_on: on } = object
  if (present(constraint) && present(on)) {
    throw unexpectedPayload("'constraint' and 'constraint_on' cannot be set at a time", path)
  }
  if (action === 'update' && !present(constraint) && !present(on)) {
    throw unexpectedPayload("Expecting 'constraint' or 'constraint_on' when the 'action' is 'update'", path)
  }
  if (Array.isArray(on) && on.length === 0) {
    throw unexpectedPayload('constraint_on should not be empty', `${path}.constraint_on`)
  }
  if (present(constraint) && typeof constraint !== 'string') {
    throw parseFailed('expecting the name of a constraint', `${path}.constraint`)
  }
  return {
    action,
    constraint: constraint ?? undefined,
    columns: present(on) ? (typeof on === 'string' ? [on] : columnNames(on, `${path}.constraint_on`)) : undefined,
  }
}

function liftDefaults(value: Json | undefined): SetShape[] {
  if (!present(value)) return []
  return columnNames(value, `${PATH}.$default`).map((column) => ({ under: '$default', kind: 'default', column }))
}

function refuseTwice(set: readonly SetShape[]): void {
  const seen = new Set<string>()
  for (const { under, column } of set) {
    if (seen.has(column)) {
      throw unexpectedPayload(`multiple assignments to same column "${column}"`, at(at(PATH, under), column))
    }
    seen.add(column)
  }
}

function liftWhere({ where }: JsonObject, path: string, slots: Slots): ExpShape | undefined {
  return present(where) ? liftBoolExp(where, `${path}.where`, slots) : undefined
}

/** What `If-Match: *` says, in place of `expect`. No value of a client is this object. */
export const ANY_VERSION: JsonObject = Object.freeze({ version: '*' })

/** Unlike other keys, it cannot be null: a write would lose its condition. */
function liftExpect({ expect }: JsonObject, slots: Slots): ExpectShape | undefined {
  if (expect === undefined) return undefined
  if (expect === ANY_VERSION) return { version: null }
  const version = required(expectKeys(expect, ['version'], `${PATH}.expect`), 'version', `${PATH}.expect`)
  if (version === null) throw parseFailed('expecting a string, but found null', `${PATH}.expect.version`)
  return { version: slots.add(version) }
}

function liftReturning({ returning }: JsonObject, slots: Slots): ColumnShapes | undefined {
  return present(returning) ? liftColumns(returning, `${PATH}.returning`, slots, 1) : undefined
}

function liftNames(object: JsonObject, key: string, path: string): readonly string[] | undefined {
  const value = object[key]
  if (!present(value)) return undefined
  const names = columnNames(value, at(path, key))
  if (names.length === 0) throw unexpectedPayload(`${key} should not be empty`, at(path, key))
  return names
}

function columnNames(value: Json, path: string): readonly string[] {
  if (!Array.isArray(value)) throw parseFailed(`expecting an array of columns, but found ${describe(value)}`, path)
  refuseMany(value, path)
  return value.map((name, i) => {
    if (typeof name !== 'string') throw parseFailed(`expecting a column name, but found ${describe(name)}`, at(path, i))
    return name
  })
}

/** PostgreSQL's limit on the columns of a table. */
const MAX_NAMES = 1600

function refuseMany(names: readonly Json[], path: string): void {
  if (names.length > MAX_NAMES) throw unexpectedPayload(`expecting at most ${MAX_NAMES} columns`, path)
}

function oneOf<T extends string>(value: Json | undefined, allowed: readonly T[], path: string): T | undefined {
  if (!present(value)) return undefined
  const found = allowed.find((each) => each === value)
  if (!found) throw parseFailed(`expecting one of ${allowed.join(', ')}`, path)
  return found
}

function required(object: JsonObject, key: string, path: string): Json {
  const value = object[key]
  if (value === undefined) throw parseFailed(`the key '${key}' was not present`, path)
  return value
}

function expectKeys(value: Json, keys: readonly string[], path: string): JsonObject {
  if (!isObject(value)) throw parseFailed(`expecting an object, but found ${describe(value)}`, path)
  refuseOtherKeys(value, keys, path)
  return value
}

const present = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null
