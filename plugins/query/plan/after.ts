import {
  and,
  at,
  type BoolExp,
  type Column,
  type CompareOp,
  isGeo,
  type Names,
  type OrderBy,
  type Table,
  TRUE,
  unexpectedPayload,
} from 'rowhouse/plan'
import type { AfterShape } from '../lift.js'

interface Sorted extends Pick<OrderBy, 'direction' | 'nulls'> {
  readonly column: Column
  /** Absent: null. */
  readonly slot?: number
}

/**
 * Plans keyset paging: completes the order by a key, and returns the condition on the rows behind the given one. Without
 * values it is the first page.
 */
export function planAfter(
  after: AfterShape,
  orderBy: readonly OrderBy[],
  table: Table,
  names: Names,
  path: string,
): { readonly orderBy: readonly OrderBy[]; readonly where: BoolExp } {
  const given = orderBy.map(({ by, direction, nulls }, i): Sorted => {
    const here = at(`${path}.order_by`, i)
    if (by.kind !== 'column') throw unexpectedPayload('after needs an order_by without relationships', here)
    const column = names.column(table, by.column, 'select', here)
    if (isGeo(column.type)) throw unexpectedPayload(`after cannot continue an order by type ${column.type.name}`, here)
    return { column, direction, nulls }
  })
  const missing = missingKey(new Set(given.map(({ column }) => column.name)), table, names, path)
  const sorted = [...given, ...missing.map((column): Sorted => ({ column }))]
  const complete = [...orderBy, ...missing.map(({ name }): OrderBy => ({ by: { kind: 'column', column: name } }))]
  if (after.length === 0) return { orderBy: complete, where: TRUE }

  const values = new Map(after)
  for (const [name] of after) {
    if (sorted.some(({ column }) => column.name === name)) continue
    throw unexpectedPayload(`"${name}" is not a column of order_by`, at(`${path}.after`, name))
  }
  const all = sorted.map((each): Sorted => {
    const slot = values.get(each.column.name)
    if (slot !== undefined) return { ...each, slot: slot ?? undefined }
    throw unexpectedPayload(`after needs the value of "${each.column.name}"`, `${path}.after`)
  })
  return { orderBy: complete, where: behind(all, `${path}.after`) }
}

/** Returns the columns of a key that the order lacks. Only a key makes it the same for each page. */
function missingKey(sorted: ReadonlySet<string>, table: Table, names: Names, path: string): readonly Column[] {
  const columns = new Map(names.columns(table).map((column) => [column.name, column]))
  const keys = [table.primaryKey, ...table.keys.map((key) => key.columns)].flatMap((key) => {
    const found = key.map((name) => columns.get(name))
    const usable = found.filter((column) => column !== undefined && !column.nullable && !isGeo(column.type))
    return key.length > 0 && usable.length === key.length ? [usable as readonly Column[]] : []
  })
  const lacks = keys.map((key) => key.filter(({ name }) => !sorted.has(name)))
  const [first] = [...lacks.filter((columns) => columns.length === 0), ...lacks]
  if (first) return first
  throw unexpectedPayload(
    'after needs a primary key, or a unique key without nulls, that can be selected',
    `${path}.after`,
  )
}

/**
 * Returns the condition on rows that come later: `a > 1 or (a = 1 and (b > 2 or ...))`. A bound on the first column is
 * implied, and lets an index find the first row.
 */
function behind(sorted: readonly Sorted[], path: string): BoolExp {
  const from = ([first, ...rest]: readonly Sorted[]): BoolExp => {
    if (!first) return { kind: 'or', of: [] }
    return { kind: 'or', of: [...beyond(first, path), and([equal(first, path), from(rest)])] }
  }
  const [first] = sorted as readonly [Sorted]
  const isBound = first.slot !== undefined && (!first.column.nullable || nullsFirst(first))
  return and([isBound ? compare(first, first.direction === 'desc' ? 'lte' : 'gte', path) : TRUE, from(sorted)])
}

function beyond(each: Sorted, path: string): readonly BoolExp[] {
  const isNull = nullOf(each)
  if (each.slot === undefined) return nullsFirst(each) ? [{ kind: 'not', of: isNull }] : []
  const later = compare(each, each.direction === 'desc' ? 'lt' : 'gt', path)
  return each.column.nullable && !nullsFirst(each) ? [later, isNull] : [later]
}

const nullsFirst = ({ direction, nulls }: Sorted): boolean =>
  nulls === undefined ? direction === 'desc' : nulls === 'first'

const equal = (each: Sorted, path: string): BoolExp =>
  each.slot === undefined ? nullOf(each) : compare(each, 'eq', path)

const nullOf = ({ column }: Sorted): BoolExp => ({ kind: 'null', column: column.name })

const compare = ({ column: { name, type }, slot = 0 }: Sorted, op: CompareOp, path: string): BoolExp => ({
  kind: 'compare',
  column: name,
  op,
  to: { kind: 'value', slot, type, path: at(path, name) },
})
