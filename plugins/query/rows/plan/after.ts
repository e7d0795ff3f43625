import {
  at,
  behind,
  type BoolExp,
  type Bound,
  isGeo,
  type Names,
  type OrderBy,
  sortKeys,
  type Table,
  TRUE,
  unexpectedPayload,
} from 'rowhouse/plan'
import type { AfterShape } from '../lift/shape.js'

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
  const given = orderBy.map(({ by }, i): string => {
    const here = at(`${path}.order_by`, i)
    if (by.kind !== 'column') throw unexpectedPayload('after needs an order_by without relationships', here)
    const { name, type } = names.column(table, by.column, 'select', here)
    if (isGeo(type)) throw unexpectedPayload(`after cannot continue an order by type ${type.name}`, here)
    return name
  })
  const key = missingKey(new Set(given), table, names, path)
  const sorted = sortKeys(orderBy, key, table, names)
  if (after.length === 0) return { orderBy: sorted, where: TRUE }

  const columns = [...given, ...key]
  const values = new Map(after)
  for (const [name] of after) {
    if (columns.includes(name)) continue
    throw unexpectedPayload(`"${name}" is not a column of order_by`, at(`${path}.after`, name))
  }
  const bounds = sorted.map((each, i): Bound => {
    const name = columns[i] as string
    const slot = values.get(name)
    if (slot === undefined) throw unexpectedPayload(`after needs the value of "${name}"`, `${path}.after`)
    return slot === null
      ? each
      : { ...each, to: { kind: 'value', slot, type: each.type, path: at(`${path}.after`, name) } }
  })
  return { orderBy: sorted, where: behind(bounds) }
}

/** Returns the columns of a key that the order lacks. Only a key makes it the same for each page. */
function missingKey(sorted: ReadonlySet<string>, table: Table, names: Names, path: string): readonly string[] {
  const columns = new Map(names.columns(table).map((column) => [column.name, column]))
  const keys = [table.primaryKey, ...table.keys.map((key) => key.columns)].flatMap((key) => {
    const found = key.map((name) => columns.get(name))
    const usable = found
      .filter((column) => column !== undefined)
      .filter(({ nullable, type }) => !nullable && !isGeo(type))
    return key.length > 0 && usable.length === key.length ? [usable] : []
  })
  const lacks = keys.map((key) => key.filter(({ name }) => !sorted.has(name)))
  const [first] = [...lacks.filter((columns) => columns.length === 0), ...lacks]
  if (first) return first.map(({ name }) => name)
  throw unexpectedPayload(
    'after needs a primary key, or a unique key without nulls, that can be selected',
    `${path}.after`,
  )
}
