import {
  and,
  at,
  type Assignment,
  type BoolExp,
  type Column,
  columnField,
  type Count,
  type Delete,
  type Expected,
  type ExpShape,
  type Field,
  type Insert,
  isRelated,
  type Names,
  type OnConflict,
  type Op,
  type OrderBy,
  INT8,
  isPrimaryKey,
  planBoolExp,
  planOrderTarget,
  planRank,
  planRows,
  planSource,
  planStep,
  type Read,
  refuseOtherKeys,
  type Related,
  type Returning,
  rowKey,
  rowsReturned,
  slotOperands,
  startsWith,
  type Step,
  type Table,
  tableOfStep,
  type TableRef,
  TEXT,
  TRUE,
  unexpectedPayload,
  type Update,
  VERSION,
  versionOf,
  XMIN,
} from 'rowhouse/plan'
import type {
  CallShape,
  ColumnShapes,
  ConflictShape,
  ExpectShape,
  InsertShape,
  OrderShape,
  RelationShape,
  SelectShape,
  SetShape,
  Shape,
  StepShape,
  UpdateShape,
} from './lift/shape.js'
import { planAfter } from './plan/after.js'
import { planDependents } from './plan/dependents.js'
import { isValue, ResultKeys } from './lift/keys.js'
import { planGroups, refuseUnsorted } from './plan/groups.js'

const PATH = '$.args'
const TABLE = `${PATH}.table`

/** Plans the shape of an operation of the JSON query API. Pure; runs in a worker on a cache miss. */
export default function plan(shape: Shape, names: Names): Op {
  expanded = 0
  switch (shape.type) {
    case 'select':
      return planSelect(shape, names)
    case 'count':
      return planCount(shape, names)
    case 'call':
      return planFunction(shape, names)
    case 'insert':
      return planInsert(shape, names)
    case 'update':
      return planUpdate(shape, names)
    case 'delete':
      return planDelete(shape, names)
    case 'dependents':
      return planDependents(shape, names)
  }
}

/** Plans a select. That of one row by its primary key also returns the version of the row. */
function planSelect(shape: Extract<Shape, { type: 'select' }>, names: Names): Read {
  const table = names.table(shape.table, 'select', TABLE)
  const read = planRead(shape, table, names, PATH, false)
  const column = versionOf(table, names)
  if (column === undefined || read.group || !isPrimaryKey(read.where, table)) return read
  return { ...read, version: column }
}

function planRead(shape: SelectShape, table: Table, names: Names, path: string, single: boolean): Read {
  const int8 = (slot: number | undefined, key: string) =>
    slot === undefined ? undefined : { kind: 'value' as const, slot, type: INT8, path: `${path}.${key}` }
  const isGrouped = shape.groupBy !== undefined || shape.columns.some(isValue)
  if (!isGrouped && shape.having) throw unexpectedPayload('having needs group_by or an aggregate', `${path}.having`)
  if (isGrouped && shape.distinctOn) throw unexpectedPayload('groups are distinct already', `${path}.distinct_on`)
  if (shape.after && (isGrouped || shape.distinctOn)) {
    throw unexpectedPayload('after cannot be used with groups or distinct_on', `${path}.after`)
  }
  const where = shape.where ? planBoolExp(shape.where, table, names, `${path}.where`) : TRUE
  const wanted = (isGrouped ? planGroups : planEach)(shape, table, names, path)
  const after = shape.after && planAfter(shape.after, wanted.orderBy, table, names, path)
  return {
    kind: 'read',
    table: refOf(table),
    ...wanted,
    where: after ? and([where, after.where]) : where,
    orderBy: after?.orderBy ?? wanted.orderBy,
    limit: int8(shape.limit, 'limit'),
    offset: int8(shape.offset, 'offset'),
    single,
  }
}

/** Plans a call of a function, and what to return of its rows or values. */
function planFunction(shape: CallShape, names: Names): Read {
  const called = names.callable(shape.function, `${PATH}.function`)
  const path = `${PATH}.arguments`
  const given = new Map(shape.arguments)
  const own = called.arguments.flatMap(({ is, name }) => (is === 'client' && name !== undefined ? [name] : []))
  refuseOtherKeys(Object.fromEntries(given), own, path)
  const from = planSource(called, path, (name, type) => {
    const slot = given.get(name)
    if (slot === null) return { kind: 'const', value: null, type }
    return slot === undefined ? undefined : { kind: 'value', slot, type, path: at(path, name) }
  })
  const { columns, where, groupBy, having, distinctOn, orderBy, limit, offset } = shape
  const values = called.result?.values
  if (values && (groupBy || columns.length !== 1 || columns[0] !== '*')) {
    throw unexpectedPayload(`"${called.name}" returns values, which have no columns`, `${PATH}.columns`)
  }
  const isList = [where, groupBy, having, distinctOn, orderBy, limit, offset].some((each) => each !== undefined)
  if (!called.many && (isList || columns.some(isValue))) {
    throw unexpectedPayload(`"${called.name}" does not return a list, which could be filtered or sorted`, PATH)
  }
  const read = planRead(shape, rowsReturned(called, names, `${PATH}.function`), names, PATH, !called.many)
  if (read.fields.some((field) => field.kind === 'version' && field.column === XMIN)) {
    throw unexpectedPayload(`the rows of a function have no "${VERSION}"`, `${PATH}.columns`)
  }
  return { ...read, from, values }
}

function planEach(
  shape: SelectShape,
  table: Table,
  names: Names,
  path: string,
): Pick<Read, 'fields' | 'distinctOn' | 'orderBy'> {
  const fields = planFields(shape.columns, table, names, `${path}.columns`)
  const orderBy = (shape.orderBy ?? []).map((order, i) => planOrder(order, table, names, at(`${path}.order_by`, i)))
  const distinctOn = shape.distinctOn && planDistinct(shape.distinctOn, table, names, `${path}.distinct_on`)
  if (distinctOn && !startsWith(orderBy, distinctOn)) {
    throw unexpectedPayload('the columns of distinct_on must come first in order_by', `${path}.distinct_on`)
  }
  return { fields, distinctOn, orderBy }
}

function planDistinct(columns: readonly string[], table: Table, names: Names, path: string): readonly string[] {
  return columns.map((name, i) => {
    const here = at(path, i)
    const column = names.column(table, name, 'select', here)
    refuseUnsorted(column, 'distinct', here)
    return column.name
  })
}

/** Plans columns, relationships and wildcards. The deepest wildcard wins, and explicit entries override it. */
function planFields(columns: ColumnShapes, table: Table, names: Names, path: string): readonly Field[] {
  const fields = new Map<string, Field>()
  const depth = Math.max(0, ...columns.map(wildcardDepth))
  if (depth > MAX_WILDCARD) throw unexpectedPayload(`a wildcard can have at most ${MAX_WILDCARD} levels`, path)
  if (depth > 0) for (const field of wildcard(table, names, depth, path)) fields.set(field.key, field)
  const keys = new ResultKeys()
  columns.forEach((column, i) => {
    if (wildcardDepth(column) > 0) return
    const here = at(path, i)
    if (isValue(column)) throw unexpectedPayload('an aggregate can only be selected', here)
    const field =
      typeof column === 'string' ? planColumn(column, table, names, here) : planRelation(column, table, names, here)
    keys.add(field.key, here)
    fields.set(field.key, field)
  })
  return [...fields.values()]
}
const MAX_WILDCARD = 5
const MAX_EXPANDED = 10_000
/** Number of columns that the wildcards of the current request have expanded to. */
let expanded = 0

/** Returns 1 for `*`, 2 for `*.*`, and 0 for other columns. */
function wildcardDepth(column: ColumnShapes[number]): number {
  // The beginning is enough to detect a wildcard that is far too deep.
  return typeof column === 'string' && /^\*(\.\*)*$/.test(column.slice(0, 99)) ? (column.length + 1) / 2 : 0
}

function wildcard(table: Table, names: Names, depth: number, path: string): Field[] {
  const columns = names.columns(table).map((column) => columnField(column))
  expanded += columns.length
  if (expanded > MAX_EXPANDED)
    throw unexpectedPayload(`the wildcards expand to more than ${MAX_EXPANDED} columns`, path)
  if (depth === 1) return columns
  const relations = names.relationships(table).map(({ relationship, table: remote }): Field => {
    const { name, on, type } = relationship
    const read: Read = {
      kind: 'read',
      table: refOf(remote),
      fields: wildcard(remote, names, depth - 1, path),
      where: TRUE,
      orderBy: [],
      single: type === 'object',
    }
    return { kind: 'relation', key: name, on, read }
  })
  return [...columns, ...relations]
}

function planColumn(name: string, table: Table, names: Names, path: string): Field {
  const version = name === VERSION ? versionOf(table, names) : undefined
  if (version !== undefined) return { kind: 'version', key: name, column: version }
  const found = names.columnOrRelationship(table, name, path)
  if (!isRelated(found)) return columnField(found)
  throw unexpectedPayload(`expecting a postgres column; but, "${name}" is a relationship`, path)
}

function planRelation(shape: RelationShape, table: Table, names: Names, path: string): Field {
  const { relationship, table: remote } = names.relationship(table, shape.name, path)
  const single = relationship.type === 'object'
  const { select } = shape
  if (single && (select.where || select.orderBy || select.limit !== undefined || select.offset !== undefined)) {
    throw unexpectedPayload('where, order_by, limit and offset cannot be used with an object relationship', path)
  }
  if (single && (select.groupBy || select.distinctOn || select.columns.some(isValue))) {
    throw unexpectedPayload('group_by, distinct_on and aggregates cannot be used with an object relationship', path)
  }
  const read = planRead(select, remote, names, path, single)
  return { kind: 'relation', key: shape.alias ?? shape.name, on: relationship.on, read }
}

function planOrder(shape: OrderShape, table: Table, names: Names, path: string): OrderBy {
  const by = shape.rank
    ? planRank(shape.path[0] as string, shape.rank, table, names, `${path}.rank`, slotOperands.one)
    : planOrderTarget(shape.path, table, names, path)
  return { by, direction: shape.direction, nulls: shape.nulls }
}

function planCount(shape: Extract<Shape, { type: 'count' }>, names: Names): Count {
  const because = '"count" is only allowed if the role has "select" permission on the table'
  const table = names.table(shape.table, 'select', TABLE, because)
  const distinct = shape.distinct && planDistinct(shape.distinct, table, names, `${PATH}.distinct`)
  return {
    kind: 'count',
    table: refOf(table),
    where: shape.where ? planBoolExp(shape.where, table, names, `${PATH}.where`) : TRUE,
    distinct: distinct?.length ? distinct : undefined,
  }
}

function planInsert(shape: InsertShape, names: Names): Insert {
  const { table, parts } = planTarget(shape, 'insert', names)
  refuseSystem(table)
  return {
    ...planNewRows(shape, table, names, OBJECTS),
    ...parts,
    returning: planReturning(shape.returning, table, names),
  }
}

type NewRows = Pick<InsertShape, 'rows' | 'columns' | 'onConflict' | 'related'>

/** Plans rows, and those of relationships in them. */
function planNewRows(shape: NewRows, table: Table, names: Names, path: string): Insert {
  if (!table.insertable)
    throw unexpectedPayload(`"${table.name}" does not support inserts`, path === OBJECTS ? TABLE : path)
  const given = shape.columns.map(([name]) => name)
  const related = relatedTo(table, given, names)
  const joined = [...related.values()].flatMap(({ relationship: { before, on } }) => (before ? on : []))
  const columns = [
    ...shape.columns.filter(([name]) => !related.has(name)),
    ...joined.filter(([name]) => !given.includes(name)).map(([name]) => [name, true] as const),
  ]
  const onConflict =
    shape.onConflict && planConflict(shape.onConflict, columns, table, names, beside(path, 'on_conflict'))
  return {
    kind: 'insert',
    table: refOf(table),
    key: rowKey(table, true),
    rows: shape.rows,
    ...planRows(columns, table, names, shape.onConflict?.action === 'update', path),
    presets: [],
    check: TRUE,
    onConflict,
    related: related.size > 0 ? planRelated(shape, related, names, path) : undefined,
  }
}

function planRelated(shape: NewRows, all: ReadonlyMap<string, Related>, names: Names, path: string): readonly Insert[] {
  return (shape.related ?? []).flatMap((rows) => {
    const found = all.get(rows.name)
    if (!found) return []
    const { relationship, table } = found
    const here = at(path, rows.name)
    names.table(table, 'insert', here)
    // The key of the outer row comes from that row.
    const joined = relationship.before ? [] : relationship.on.map(([, column]) => [column, true] as const)
    const planned = planNewRows({ ...rows, columns: [...rows.columns, ...joined] }, table, names, here)
    return [{ ...planned, relationship: rows.name }]
  })
}

/** Returns the relationships among names that are not columns, as far as the role may know them. */
function relatedTo(table: Table, used: readonly string[], names: Names): ReadonlyMap<string, Related> {
  const others = used.filter((name) => !table.columnsByName.has(name))
  if (others.length === 0) return new Map()
  const known = names.relationships(table).filter(({ relationship }) => others.includes(relationship.name))
  return new Map(known.map((each) => [each.relationship.name, each]))
}

const OBJECTS = `${PATH}.objects`
/** Returns the path of an argument beside rows, which are those of the request or of a relationship. */
const beside = (rows: string, key: string): string => at(rows === OBJECTS ? PATH : rows, key)

/** Returns the table that a write changes, and what makes it a step of a write of related rows. */
function planTarget(
  shape: { table: TableRef; step?: StepShape },
  action: 'insert' | 'update' | 'delete',
  names: Names,
) {
  const { step } = shape
  const root = names.table(shape.table, step?.from ?? action, TABLE)
  if (!step) return { table: root, parts: {} as Step }
  const table = tableOfStep(step, root, names, TABLE)
  if (step.via.length > 0) names.table(table, action, TABLE)
  return { table, parts: planStep(step, root, names, TABLE) }
}

function planConflict(
  shape: ConflictShape,
  given: InsertShape['columns'],
  table: Table,
  names: Names,
  path: string,
): OnConflict {
  // First, so that a role that may not upsert cannot find out which constraints exist.
  names.upsert(table, path)
  const keys = names.conflictKeys(table)
  if (shape.constraint !== undefined && !keys.some(({ name }) => name === shape.constraint)) {
    throw unexpectedPayload(`"${shape.constraint}" is not a unique constraint of "${table.name}"`, `${path}.constraint`)
  }
  const columns = shape.columns?.map(
    (name, i) => names.conflictColumn(table, name, at(`${path}.constraint_on`, i)).name,
  )
  const target = new Set(columns ?? keys.find(({ name }) => name === shape.constraint)?.columns)
  const update = shape.action === 'update'
  return {
    action: shape.action,
    constraint: shape.constraint,
    columns,
    set: update ? given.map(([name]) => name).filter((name) => !target.has(name)) : [],
    presets: [],
    where: TRUE,
    check: TRUE,
  }
}

function planUpdate(shape: UpdateShape, names: Names): Update {
  const { table, parts } = planTarget(shape, 'update', names)
  refuseSystem(table)
  if (!table.updatable) throw unexpectedPayload(`"${table.name}" does not support updates`, TABLE)
  const plain = shape.set.filter(({ kind }) => kind === 'set').map(({ column }) => column)
  const related = relatedTo(table, plain, names)
  const [first] = related.keys()
  if (first !== undefined && shape.stored) {
    throw unexpectedPayload(`a template cannot change the rows of a relationship, such as "${first}"`, `${PATH}.$set`)
  }
  if (shape.set.length === 0 && !parts.phase && !names.presetsUpdate(table)) {
    throw unexpectedPayload('expecting at least one of $set, $inc, $mul, $default', PATH)
  }
  const where = planWhere(shape.where, table, names, 'update')
  return {
    kind: 'update',
    table: refOf(table),
    key: rowKey(table, false),
    set: shape.set.filter(({ column }) => !related.has(column)).map((each) => planAssignment(each, table, names)),
    where,
    expected: planExpected(shape, where, table, names),
    check: TRUE,
    ...parts,
    written: shape.step?.written,
    related: related.size > 0 ? [] : undefined,
    returning: planReturning(shape.returning, table, names),
  }
}

function planAssignment(shape: SetShape, table: Table, names: Names): Assignment {
  const under = at(PATH, shape.under)
  const path = at(under, shape.column)
  const column: Column = names.column(table, shape.column, 'update', under)
  // Otherwise an overflow could reveal the current value.
  if (shape.kind === 'inc' || shape.kind === 'mul') names.column(table, shape.column, 'select', under)
  if (shape.kind === 'default') return { kind: 'default', column: column.name }
  if (column.generated === 'always') throw unexpectedPayload(`column "${column.name}" is generated`, path)
  if (shape.slot === undefined) return { kind: 'null', column: column.name }
  return { kind: shape.kind, column: column.name, to: { kind: 'value', slot: shape.slot, type: column.type, path } }
}

function planDelete(shape: Extract<Shape, { type: 'delete' }>, names: Names): Delete {
  const { table, parts } = planTarget(shape, 'delete', names)
  refuseSystem(table)
  if (!table.deletable) throw unexpectedPayload(`"${table.name}" does not support deletes`, TABLE)
  const where = planWhere(shape.where, table, names, 'delete')
  return {
    kind: 'delete',
    table: refOf(table),
    where,
    expected: planExpected(shape, where, table, names),
    ...parts,
    returning: planReturning(shape.returning, table, names),
  }
}

/** Plans the condition of a write. Only the empty one needs no select permission. */
function planWhere(shape: ExpShape, table: Table, names: Names, action: 'update' | 'delete'): BoolExp {
  if ('all' in shape && shape.all.length === 0) return TRUE
  const because = `"${action}" is only allowed if the role has "select" permission as "where" can't be used without "select" permission on the table`
  names.table(table, 'select', TABLE, because)
  return planBoolExp(shape, table, names, `${PATH}.where`)
}

/** Plans the version that the row must have. Only a primary key makes sure that it is about one row. */
function planExpected(
  { expect }: { readonly expect?: ExpectShape },
  where: BoolExp,
  table: Table,
  names: Names,
): Expected | undefined {
  if (!expect) return undefined
  const column = versionOf(table, names)
  if (expect.version !== null && column === undefined) {
    throw unexpectedPayload(`the rows of "${table.name}" have no versions`, `${PATH}.expect`)
  }
  if (!isPrimaryKey(where, table)) {
    throw unexpectedPayload(
      'with an expected version, where must equal the primary key and nothing else',
      `${PATH}.where`,
    )
  }
  if (expect.version === null || column === undefined) return undefined
  return { column, to: { kind: 'value', slot: expect.version, type: TEXT, path: `${PATH}.expect.version` } }
}

function planReturning(columns: ColumnShapes | undefined, table: Table, names: Names): Returning | undefined {
  if (!columns) return undefined
  const because = '"returning" can only be used if the role has "select" permission on the table'
  names.table(table, 'select', `${PATH}.returning`, because)
  return { fields: planFields(columns, table, names, `${PATH}.returning`), visible: TRUE }
}

function refuseSystem(table: Table): void {
  if (table.system) throw unexpectedPayload(`only metadata operations can change "${table.name}"`, TABLE)
}

const refOf = ({ schema, name }: TableRef): TableRef => ({ schema, name })
