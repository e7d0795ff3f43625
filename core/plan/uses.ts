import { tableKey } from '../catalog/catalog.js'
import type { BoolExp, Field, Op, OrderTarget, Read, Returning, TableRef } from './ir.js'

/** Whether a plan names a column of a table, in whatever place. */
export function usesColumn(op: Op, table: TableRef, column: string): boolean {
  const key = tableKey(table)
  const named = (here: TableRef, columns: Iterable<string>): boolean =>
    tableKey(here) === key && [...columns].includes(column)
  const condition = (here: TableRef, exp: BoolExp): boolean => mentions(exp, tableKey(here), key, column)
  const fields = (here: TableRef, all: readonly Field[]): boolean =>
    all.some((field) =>
      field.kind === 'column'
        ? named(here, [field.column])
        : named(
            here,
            field.on.map(([outer]) => outer),
          ) ||
          named(
            field.read.table,
            field.on.map(([, inner]) => inner),
          ) ||
          read(field.read),
    )
  const order = (here: TableRef, by: OrderTarget): boolean =>
    by.kind === 'column' ? named(here, [by.column]) : order(by.table, by.by)
  const read = (each: Read): boolean =>
    fields(each.table, each.fields) ||
    condition(each.table, each.where) ||
    each.orderBy.some(({ by }) => order(each.table, by))
  const returning = (here: TableRef, wanted: Returning | undefined): boolean =>
    wanted !== undefined && fields(here, wanted.fields)

  switch (op.kind) {
    case 'read':
      return read(op)
    case 'count':
      return condition(op.table, op.where) || named(op.table, op.distinct ?? [])
    case 'insert':
      return named(op.table, op.onConflict?.columns ?? []) || returning(op.table, op.returning)
    case 'update':
      return (
        condition(op.table, op.where) ||
        named(
          op.table,
          op.set.map((each) => each.column),
        ) ||
        returning(op.table, op.returning)
      )
    case 'delete':
      return condition(op.table, op.where) || returning(op.table, op.returning)
  }
}

/** Whether a condition on rows of the table `here` (a `tableKey`, as `table` is) names a column. */
export function mentions(exp: BoolExp, here: string, table: string, column: string): boolean {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.some((part) => mentions(part, here, table, column))
    case 'not':
      return mentions(exp.of, here, table, column)
    case 'compare':
    case 'null':
      return here === table && exp.column === column
    case 'columns':
      return here === table && (exp.column === column || exp.to === column)
    case 'unknown':
      return false
    case 'exists': {
      const inner = tableKey(exp.table)
      const joined = exp.on.some(
        ([outer, remote]) => (here === table && outer === column) || (inner === table && remote === column),
      )
      return joined || mentions(exp.where, inner, table, column)
    }
  }
}
