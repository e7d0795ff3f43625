import { tableKey } from '../catalog/catalog.js'
import type {
  Aggregate,
  BoolExp,
  Connection,
  Delete,
  Field,
  Grouping,
  Join,
  Op,
  OrderTarget,
  Read,
  TableRef,
  Update,
  Write,
} from '../ir.js'

/** Returns whether a plan does anything with a column of a table but return it, so that its type matters. */
export function usesColumn(op: Op, table: TableRef, column: string): boolean {
  const key = tableKey(table)
  const named = (here: TableRef, ...columns: readonly string[]): boolean =>
    tableKey(here) === key && columns.includes(column)
  const joined = (outer: TableRef | undefined, inner: TableRef, on: Join): boolean =>
    on.some(([left, right]) => (outer !== undefined && named(outer, left)) || named(inner, right))
  const condition = (here: TableRef, exp: BoolExp): boolean => mentions(exp, tableKey(here), key, column)

  const field = (here: TableRef | undefined, each: Field): boolean => {
    switch (each.kind) {
      case 'constant':
      case 'column':
      case 'version':
        return false
      case 'relation':
        return joined(here, each.read.table, each.on) || read(each.read)
      case 'aggregate':
        return joined(here, each.read.table, each.on) || aggregate(each.read)
      case 'condition':
        return here !== undefined && condition(here, each.is)
      case 'connection':
        return joined(here, each.read.table, each.on) || connection(each.read)
      case 'opaque':
        return here !== undefined && each.of.some((part) => 'by' in part && target(here, part.by))
    }
  }
  const target = (here: TableRef, by: OrderTarget): boolean => {
    if (by.kind === 'column' || by.kind === 'rank') return named(here, by.column)
    if (joined(here, by.table, by.on)) return true
    return by.kind === 'related' ? target(by.table, by.by) : by.of.fn !== 'count' && named(by.table, by.of.column)
  }
  const rows = (each: Pick<Read, 'table' | 'where' | 'orderBy' | 'distinctOn'>): boolean =>
    condition(each.table, each.where) ||
    named(each.table, ...(each.distinctOn ?? [])) ||
    each.orderBy.some(({ by }) => target(each.table, by))
  const read = (each: Read): boolean =>
    each.group ? groups(each, each.group) : rows(each) || each.fields.some((child) => field(each.table, child))
  const groups = (each: Read, { by, values }: Grouping): boolean =>
    condition(each.table, each.where) || named(each.table, ...by, ...values.flatMap(({ column }) => column ?? []))
  const aggregate = (each: Aggregate): boolean =>
    rows(each) ||
    each.parts.some((part) => {
      if (part.kind === 'nodes') return part.fields.some((child) => field(each.table, child))
      if (part.kind === 'constant') return false
      return part.of.some((computed) => {
        if (computed.kind === 'count') return named(each.table, ...computed.columns)
        return computed.kind === 'columns' && computed.of.some((child) => field(each.table, child))
      })
    })
  const connection = (each: Connection): boolean =>
    rows(each) ||
    (each.distinct !== undefined && (rows({ ...each, ...each.distinct }) || named(each.table, ...each.distinct.key))) ||
    each.parts.some(
      (part) =>
        part.kind === 'edges' &&
        part.of.some((edge) => edge.kind === 'node' && edge.fields.some((child) => field(each.table, child))),
    )

  const returning = ({ table: here, returning: wanted, related }: Write): boolean =>
    (wanted?.fields.some((child) => field(here, child)) ?? false) ||
    (related?.some((each) => usesColumn(each, table, column)) ?? false)

  const changed = (op: Update | Delete): boolean =>
    returning(op) || condition(op.table, op.where) || (op.expected !== undefined && named(op.table, op.expected.column))

  switch (op.kind) {
    case 'read':
      return read(op)
    case 'roots':
      return op.fields.some((child) => field(undefined, child))
    case 'count':
      return condition(op.table, op.where) || named(op.table, ...(op.distinct ?? []))
    case 'insert':
      return returning(op) || named(op.table, ...(op.onConflict?.columns ?? []), ...op.columns.map(({ name }) => name))
    case 'update':
      return changed(op) || named(op.table, ...op.set.map((each) => each.column))
    case 'delete':
      return changed(op)
  }
}

/** Returns whether a condition on rows of the table `here` (a `tableKey`, like `table`) uses a column. */
export function mentions(
  exp: BoolExp,
  here: string,
  table: string,
  column: string,
  around: readonly string[] = [],
): boolean {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.some((part) => mentions(part, here, table, column, around))
    case 'not':
      return mentions(exp.of, here, table, column, around)
    case 'guarded':
      return mentions(exp.by, here, table, column, around) || mentions(exp.of, here, table, column, around)
    case 'compare':
    case 'null':
      return here === table && exp.column === column
    case 'columns':
      if (here === table && exp.column === column) return true
      return (exp.up ? around[exp.up - 1] : here) === table && exp.to === column
    // The order of the same plan names its key.
    case 'sorted':
    case 'unknown':
    case 'known':
      return false
    case 'exists': {
      const inner = tableKey(exp.table)
      const joined = exp.on.some(
        ([outer, remote]) => (here === table && outer === column) || (inner === table && remote === column),
      )
      return joined || mentions(exp.where, inner, table, column, [here, ...around])
    }
    case 'aggregate': {
      const { kind: _, columns, is: __, fn: ___, distinct: ____, ...rows } = exp
      const named = tableKey(exp.table) === table && columns.includes(column)
      return named || mentions({ kind: 'exists', ...rows }, here, table, column, around)
    }
  }
}
