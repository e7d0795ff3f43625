import type { Table } from '../catalog/catalog.js'
import { aggregateType } from './aggregates.js'
import { and } from './boolexp.js'
import { type BoolExp, type ColumnOp, type Operand, type OrderBy, type OrderTarget, type SqlType, TRUE } from '../ir.js'
import type { Names } from './names.js'
import { FLOAT4, INT8 } from './operators.js'

/** A sort key of rows that are read page by page. */
export interface SortKey extends OrderBy {
  readonly type: SqlType
  readonly nullable: boolean
}
/** A sort key with its value in the row where a page begins or ends. Absent: null. */
export interface Bound extends SortKey {
  readonly to?: Operand
}

/**
 * Returns an order as sort keys, followed by the columns of `key` that it lacks. Only a key makes the order the same for
 * each page.
 * @param names finds the tables of relationships
 */
export function sortKeys(orderBy: readonly OrderBy[], key: readonly string[], table: Table, names: Names): SortKey[] {
  const sorted = new Set(orderBy.map(({ by }) => (by.kind === 'column' && !by.computed ? by.column : undefined)))
  const missing = key.filter((column) => !sorted.has(column))
  const complete = [...orderBy, ...missing.map((column): OrderBy => ({ by: { kind: 'column', column } }))]
  return complete.map((order) => ({ ...order, ...typeOf(order.by, table, names) }))
}

function typeOf(by: OrderTarget, table: Table, names: Names): Pick<SortKey, 'type' | 'nullable'> {
  switch (by.kind) {
    case 'column': {
      const gives = by.computed && table.computedByName.get(by.column)?.gives
      if (gives && 'type' in gives) return { type: gives.type, nullable: true }
      return columnOf(table, by.column, names)
    }
    case 'rank':
      return { type: FLOAT4, nullable: true }
    case 'related':
      return { ...typeOf(by.by, names.table(by.table, 'select', '$'), names), nullable: true }
    case 'aggregate': {
      if (by.of.fn === 'count') return { type: INT8, nullable: false }
      const { type } = columnOf(names.table(by.table, 'select', '$'), by.of.column, names)
      return { type: aggregateType(by.of.fn, type) ?? type, nullable: true }
    }
  }
}

function columnOf(table: Table, name: string, names: Names): Pick<SortKey, 'type' | 'nullable'> {
  const column = table.columnsByName.get(name)
  if (!column) throw new Error(`no column "${name}"`)
  return { type: column.type, nullable: column.nullable || names.isMasked(table, name) }
}

/** Returns an order from the last row to the first. */
export const reversed = <T extends OrderBy>(order: readonly T[]): readonly T[] =>
  order.map((each) => ({
    ...each,
    direction: each.direction === 'desc' ? 'asc' : 'desc',
    nulls: nullsFirst(each) ? 'last' : 'first',
  }))

/**
 * Returns the condition on rows behind a row: `a > 1 or (a = 1 and (b > 2 or ...))`. A bound on the first key is implied,
 * and lets an index find the first row.
 * @param inclusive whether the row itself is one of them
 */
export function behind(bounds: readonly Bound[], inclusive = false): BoolExp {
  const from = ([first, ...rest]: readonly Bound[]): BoolExp => {
    if (!first) return inclusive ? TRUE : { kind: 'or', of: [] }
    return { kind: 'or', of: [...beyond(first), and([equal(first), from(rest)])] }
  }
  const [first] = bounds as readonly [Bound]
  const isBound = first.to !== undefined && (!first.nullable || nullsFirst(first))
  return and([isBound ? compare(first, first.direction === 'desc' ? 'lte' : 'gte') : TRUE, from(bounds)])
}

function beyond(each: Bound): readonly BoolExp[] {
  if (each.to === undefined) return nullsFirst(each) ? [{ kind: 'not', of: isNull(each) }] : []
  const later = compare(each, each.direction === 'desc' ? 'lt' : 'gt')
  return each.nullable && !nullsFirst(each) ? [later, isNull(each)] : [later]
}

export const nullsFirst = ({ direction, nulls }: OrderBy): boolean =>
  nulls === undefined ? direction === 'desc' : nulls === 'first'

const equal = (each: Bound): BoolExp => (each.to === undefined ? isNull(each) : compare(each, 'eq'))

const isNull = ({ by }: Bound): BoolExp =>
  by.kind === 'column' ? { kind: 'null', column: by.column, computed: by.computed } : { kind: 'sorted', by, is: 'null' }

/** A column is compared as such, because an index may serve it. */
function compare({ by, to }: Bound, op: ColumnOp): BoolExp {
  if (!to) throw new Error('nothing to compare with')
  return by.kind === 'column'
    ? { kind: 'compare', column: by.column, computed: by.computed, op, to }
    : { kind: 'sorted', by, is: { op, to } }
}
