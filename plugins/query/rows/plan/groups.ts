import {
  aggregateType,
  at,
  type Column,
  columnField,
  comparesAlways,
  type Field,
  type GroupValue,
  INT8,
  isLongName,
  type Names,
  notExists,
  type OrderBy,
  planBoolExp,
  type Read,
  type Table,
  TRUE,
  unexpectedPayload,
  unsortable,
} from 'rowhouse/plan'
import { isValue, ResultKeys } from '../lift/keys.js'
import type { OrderShape, SelectShape, ValueShape } from '../lift/shape.js'

/** Plans the part of a select that is about groups of rows. */
export function planGroups(
  shape: SelectShape,
  table: Table,
  names: Names,
  path: string,
): Pick<Read, 'fields' | 'group' | 'orderBy'> {
  names.aggregate(table, path)
  const keys = new ResultKeys()
  const by = new Map<string, Column>()
  shape.groupBy?.forEach((name, i) => {
    const here = at(`${path}.group_by`, i)
    const column = names.column(table, name, 'select', here)
    refuseUnsorted(column, 'group_by', here)
    if (by.has(name)) throw unexpectedPayload(`the column "${name}" appears twice`, here)
    by.set(name, column)
  })
  const values = new Map<string, Column>()
  const isKey = (name: string) => by.has(name) || shape.columns.some((each) => isValue(each) && each.as === name)
  const of: GroupValue[] = []
  const fields = shape.columns.map((column, i): Field => {
    const here = at(`${path}.columns`, i)
    if (typeof column === 'string') {
      const found = by.get(column)
      if (!found) throw unexpectedPayload(`"${column}" must be in group_by, or in an aggregate`, here)
      keys.add(column, here)
      return columnField(found)
    }
    if (!isValue(column)) throw unexpectedPayload('groups have no relationships', here)
    if (by.has(column.as)) throw unexpectedPayload(`the key "${column.as}" appears twice, also in group_by`, here)
    keys.add(column.as, here)
    const value = planValue(column, columnName(column.as, i, isKey), table, names, here)
    of.push(value)
    const result = { name: value.key, type: value.type, nullable: value.fn !== 'count' }
    values.set(column.as, result)
    return columnField(result, column.as)
  })
  const find = (name: string, here: string): Column => {
    const found = by.get(name) ?? values.get(name)
    if (found) return found
    throw notExists(`"${name}" is neither in group_by nor an aggregate in columns`, here)
  }
  const having = shape.having && planBoolExp(shape.having, table, namesOfGroup(names, find), `${path}.having`)
  return {
    fields,
    group: { by: [...by.keys()], values: of, having: having ?? TRUE },
    orderBy: (shape.orderBy ?? []).map((order, i) => planOrder(order, find, at(`${path}.order_by`, i))),
  }
}

/** Returns the name of the column of an aggregate: its key, or a number if PostgreSQL would cut the key. */
function columnName(key: string, index: number, isTaken: (name: string) => boolean): string {
  if (!isLongName(key)) return key
  let name = String(index)
  while (isTaken(name)) name += '_'
  return name
}

type Find = (name: string, path: string) => Column

function planValue(
  { fn, column: name, distinct }: ValueShape,
  key: string,
  table: Table,
  names: Names,
  path: string,
): GroupValue {
  if (name === undefined) return { key, fn, distinct, sorted: false, type: INT8 }
  const here = at(path, fn)
  const column = names.column(table, name, 'select', here)
  const type = aggregateType(fn, column.type)
  if (!type) {
    const instead = fn === 'array_agg' && aggregateType('jsonb_agg', column.type) ? '; use jsonb_agg' : ''
    throw unexpectedPayload(`"${name}" is of type ${column.type.name}, which has no ${fn}${instead}`, here)
  }
  if (distinct) refuseUnsorted(column, 'distinct', here)
  const isList = fn === 'array_agg' || fn === 'jsonb_agg'
  return { key, fn, column: column.name, distinct, sorted: isList && comparesAlways(column.type), type }
}

function planOrder({ path: [name = '', ...more], direction, nulls }: OrderShape, find: Find, path: string): OrderBy {
  const column = find([name, ...more].join('.'), path)
  refuseUnsorted(column, 'order_by', path)
  return { by: { kind: 'column', column: column.name }, direction, nulls }
}

/** Refuses a type whose values PostgreSQL cannot sort, and so cannot group. */
export function refuseUnsorted(column: Column, part: string, path: string): void {
  if (column.type.kind === 'json') throw unexpectedPayload(`JSON column can not be part of ${part}`, path)
  const reason = unsortable(column)
  if (reason !== undefined) throw unexpectedPayload(reason, path)
}

/** Returns names in which a row has the columns of a group, and no relationships. */
const namesOfGroup = (names: Names, find: Find): Names => ({
  ...names,
  trusted: false,
  column: (_table, name, _action, path) => find(name, path),
  columnOrRelationship: (_table, name, path) => find(name, path),
  relationship: (_table, name, path) => {
    throw notExists(`groups have no relationship "${name}"`, path)
  },
})
