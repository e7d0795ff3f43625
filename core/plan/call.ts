import type { Column, ComputedField, FunctionArgument } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import type { CallArgument, FunctionCall, Operand, SqlType, TableRef } from './ir.js'

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
  const args = all.flatMap(({ name, type, optional, is }): CallArgument[] => {
    const named = name === undefined ? {} : { name }
    if (is === 'row') return [{ ...named, to: { kind: 'row' } }]
    if (is === 'session') return [{ ...named, to: { kind: 'session_all', type } }]
    const to = given(name as string, type)
    if (to) return [{ ...named, to }]
    if (optional) return []
    throw unexpectedPayload(`the argument "${name}" is missing`, path)
  })
  return { function: { schema: ref.schema, name: ref.name }, args }
}

/** Returns whether a function can be called without a value from the client. */
export const needsNothing = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, optional }) => is !== 'client' || optional)

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
