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
  NumberText,
  parseFailed,
  readOrderText,
  Slots,
  unexpectedPayload,
  wholeNumber,
} from 'rowhouse/plan'
import {
  type Lifted,
  type ColumnShapes,
  type SelectShape,
  type AfterShape,
  type RelationShape,
  type ValueShape,
  type OrderShape,
} from './shape.js'
import { PATH, present, expectKeys, required, oneOf, columnNames, refuseMany } from './keys.js'

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

export function liftColumns(value: Json, path: string, slots: Slots, depth: number): ColumnShapes {
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
  const isNumber = typeof value === 'number' || value instanceof NumberText
  if (!isNumber || (wholeNumber(String(value)) ?? -1n) < 0n) {
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
    throw parseFailed('expecting "+column", "-column" or "column"', path)
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

function liftNames(object: JsonObject, key: string, path: string): readonly string[] | undefined {
  const value = object[key]
  if (!present(value)) return undefined
  const names = columnNames(value, at(path, key))
  if (names.length === 0) throw unexpectedPayload(`${key} should not be empty`, at(path, key))
  return names
}

function liftWhere({ where }: JsonObject, path: string, slots: Slots): ExpShape | undefined {
  return present(where) ? liftBoolExp(where, `${path}.where`, slots) : undefined
}
