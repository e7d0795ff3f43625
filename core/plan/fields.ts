import type { Column, ComputedField, FunctionArgument, FunctionData, Table } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import {
  type CallArgument,
  type Field,
  type FunctionCall,
  isGeo,
  type Operand,
  type OrderBy,
  type OrderTarget,
  type SqlType,
  supports,
  type TableRef,
  TRUE,
} from '../ir.js'
import type { Names, Related } from './names.js'
import { LANGUAGE, operatorOn, rightType, type SearchShape } from './operators.js'

/** Returns the reference of a column or computed field in plans. */
export const columnRef = ({ name, computed }: Pick<Column, 'name' | 'computed'>) => ({
  column: name,
  computed,
})

/** Returns a column as a key of the result. Every planner uses this, because it decides how a type is displayed. */
export function columnField(column: Column, key = column.name): Extract<Field, { kind: 'column' }> {
  const { type } = column
  return {
    kind: 'column',
    key,
    ...columnRef(column),
    ...(isGeo(type) || type.kind === 'json' || type.kind === 'jsonb' || type.labelNames ? { type } : {}),
  }
}

/** Plans a sort key. Several names are object relationships that lead to the column. */
export function planOrderTarget(names: readonly string[], table: Table, known: Names, path: string): OrderTarget {
  const target = (on: Table, i: number): OrderTarget => {
    const name = names[i] as string
    if (i === names.length - 1) {
      const column = known.column(on, name, 'select', path)
      if (column.type.kind === 'json') throw unexpectedPayload('JSON column can not be part of order_by', path)
      if (!supports(column.type, 'sort')) {
        throw unexpectedPayload(`"${name}" is of type ${column.type.name}, which PostgreSQL cannot sort`, path)
      }
      return { kind: 'column', ...columnRef(column) }
    }
    const { relationship, table: remote } = known.relationship(on, name, path)
    if (relationship.type === 'array') {
      throw unexpectedPayload(
        `"${name}" is an array relationship; order_by goes through object relationships only`,
        path,
      )
    }
    return { kind: 'related', table: relationship.table, on: relationship.on, where: TRUE, by: target(remote, i + 1) }
  }
  return target(table, 0)
}

/** Returns why PostgreSQL cannot sort the values of a column, or tell them apart; undefined if it can. */
export const unsortable = ({ name, type }: Column): string | undefined =>
  supports(type, 'sort') ? undefined : `"${name}" is of type ${type.name}, which PostgreSQL cannot compare`

/** Returns whether `distinct on` these columns is possible: an order must start with them, in any sequence. */
export function startsWith(orderBy: readonly OrderBy[], columns: readonly string[]): boolean {
  if (columns.length === 0 || orderBy.length === 0) return true
  const first = orderBy.slice(0, columns.length).map(({ by }) => (by.kind === 'column' ? by.column : ''))
  return columns.every((column) => first.includes(column)) && first.length === columns.length
}

/**
 * Plans a sort key: how well a column matches a full-text query.
 * @param one creates the operand of a slot
 */
export function planRank(
  name: string,
  { query, language }: SearchShape,
  table: Table,
  known: Names,
  path: string,
  one: (slot: number, type: SqlType, path: string) => Operand,
): OrderTarget {
  const column = known.column(table, name, 'select', path)
  const op = searchOn(column)
  if (!op) throw unexpectedPayload(`"${name}" is of type ${column.type.name}; rank is for text and tsvector`, path)
  return {
    kind: 'rank',
    column: column.name,
    op,
    query: one(query, rightType('search', column.type) as SqlType, `${path}.query`),
    language: language === undefined ? undefined : one(language, LANGUAGE, `${path}.language`),
  }
}

/** Returns the full-text search that a column has, if any. Rows can be sorted by how well they match. */
export function searchOn({ type, computed }: Column): 'text_matches' | 'vector_matches' | undefined {
  const op = computed ? undefined : operatorOn('matches', type)?.op
  return op === 'text_matches' || op === 'vector_matches' ? op : undefined
}

/** Parses `+name`, `-author.name` or `name`. Returns undefined for anything else. */
export function readOrderText(
  text: string,
): { readonly path: readonly string[]; readonly direction?: 'asc' | 'desc' } | undefined {
  const direction = text.startsWith('+') ? 'asc' : text.startsWith('-') ? 'desc' : undefined
  const path = (direction ? text.slice(1) : text).split('.')
  return path.includes('') ? undefined : { path, direction }
}

/** Returns the client's value for an argument, or undefined. */
export type Given = (name: string, type: SqlType) => Operand | undefined
const nothing: Given = () => undefined

/**
 * Plans a call of a function with the client's values. Arguments with a default are optional.
 * @throws ServiceError 400 `unexpected-payload` for a missing argument
 */
export function planCall(
  ref: TableRef,
  all: readonly FunctionArgument[],
  path: string,
  given: Given = nothing,
): FunctionCall {
  const values = all.map(({ name, type, is }): CallArgument['to'] | undefined => {
    if (is === 'row') return { kind: 'row' }
    if (is === 'none') return { kind: 'const', value: null, type }
    return is === 'session' ? { kind: 'session_all', type } : given(name as string, type)
  })
  const last = values.findLastIndex((to, i) => to !== undefined && all[i]?.positional)
  const args = all.flatMap(({ name, positional, variadic, optional }, i): CallArgument[] => {
    const to = values[i]
    if (to) return [positional ? { variadic, to } : { name, variadic, to }]
    if (optional && i > last) return []
    throw unexpectedPayload(`the argument "${name}" is missing`, path)
  })
  return { function: { schema: ref.schema, name: ref.name }, args }
}

/** Plans a call of a tracked function, as the origin of the rows of a read. */
export function planSource(called: FunctionData, path: string, given?: Given): FunctionCall {
  const { arguments: all, result, mutation, procedure, many } = called
  return {
    ...planCall(called, all, path, given),
    single: (!many && !result?.values && !result?.outputs) || undefined,
    ahead: mutation || undefined,
    procedure,
    columns: result?.columns.map(({ name, type }) => ({ name, type })),
  }
}

/** Returns whether a function can be called without a value from the client. */
export const needsNothing = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, optional }) => is !== 'client' || optional)

/** Returns a computed field as a relationship, for conditions on its rows, or undefined when it returns a value. */
export function computedRelationship(field: ComputedField, names: Names, path: string): Related | undefined {
  const { name, gives } = field
  if ('type' in gives) return undefined
  const call = planCall(field.function, field.arguments, path)
  return {
    relationship: { name, type: gives.many ? 'array' : 'object', table: gives.table, on: [] },
    table: names.table(gives.table, 'select', path),
    from: gives.many ? call : { ...call, single: true },
  }
}

/** Returns a computed field as a column, or undefined when it returns rows. */
export function computedColumn(field: ComputedField, path: string, given: Given = nothing): Column | undefined {
  if (!('type' in field.gives)) return undefined
  return {
    name: field.name,
    type: field.gives.type,
    nullable: true,
    computed: planCall(field.function, field.arguments, path, given),
  }
}
