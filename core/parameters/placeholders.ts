import { randomUUID } from 'node:crypto'
import { at } from '../errors.js'
import { type Json, type JsonObject, parseJson, type Rows, rowsOf } from '../json/parse.js'
import type { Insert, Op, SqlType } from '../ir.js'
import type { Place } from './places.js'

/** No other value of a query contains this. */
const UNIQUE = randomUUID()
let counter = 0

/** Returns a value for a place whose value is not known yet, so that its query can be planned. */
export function placeholder<P extends Place>(place: P, places?: Map<Json, P>): Json {
  if (place.use === 'count') return 1
  if (place.use === 'rows') return rowsOf([Object.create(null) as JsonObject], place.path)
  const value = `${UNIQUE} ${counter++}`
  places?.set(value, place)
  return value
}

export const isPlaceholder = (value: Json): boolean => typeof value === 'string' && value.startsWith(UNIQUE)

/** A value of a request, with the type that PostgreSQL reads it as. */
export interface TypedValue {
  readonly value: Json
  readonly type: SqlType
  readonly path: string
}

/** Returns the values of a planned request. Those of lists and arrays are arrays. */
export function valuesIn(op: Op, values: readonly Json[]): readonly TypedValue[] {
  return op.kind === 'insert' ? [...operandsIn(op, values), ...cells(op, values)] : operandsIn(op, values)
}

/** Returns those that are not in rows. */
export function operandsIn(op: Op, values: readonly Json[]): readonly TypedValue[] {
  let known = operandsOf.get(op)
  if (!known) operandsOf.set(op, (known = operands(op)))
  return known.map(({ slot, type, path }) => ({ value: values[slot] as Json, type, path }))
}

/** Returns the type of the values under a key of rows to insert. @param via the relationships that lead to the rows */
export function typeInRows(
  { columns, related = [] }: Insert,
  via: readonly string[],
  key: string,
): SqlType | undefined {
  const [name, ...rest] = via
  if (name === undefined) return columns.find((each) => (each.key ?? each.name) === key)?.type
  for (const each of related) {
    const found = each.kind === 'insert' && each.relationship === name ? typeInRows(each, rest, key) : undefined
    if (found) return found
  }
  return undefined
}

interface Operand {
  readonly slot: number
  readonly type: SqlType
  readonly path: string
}
const operandsOf = new WeakMap<Op, readonly Operand[]>()

function operands(node: unknown): readonly Operand[] {
  if (Array.isArray(node)) return node.flatMap(operands)
  if (typeof node !== 'object' || node === null) return []
  const { kind, slot, type, path } = node as { kind?: string; slot?: number; type?: SqlType; path?: string }
  if (kind === 'value' && slot !== undefined && type && path) return [{ slot, type, path }]
  return Object.values(node).flatMap(operands)
}

/** Returns the values of the rows of an insert, and of rows of relationships. */
function cells(
  { rows, columns, related = [] }: Insert,
  values: readonly Json[],
  place = (i: number, name: string) => at(at('$.args.objects', i), name),
): readonly TypedValue[] {
  const all = parseJson((values[rows] as Rows).source) as readonly JsonObject[]
  const own = all.flatMap((row, i) =>
    columns.flatMap(({ name, type }): TypedValue[] => {
      const value = row[name]
      return value === undefined ? [] : [{ value, type, path: place(i, name) }]
    }),
  )
  const inner = related.filter((each) => each.kind === 'insert')
  return [...own, ...inner.flatMap((each) => cells(each, values, () => '$.args.objects'))]
}
