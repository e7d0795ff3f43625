import type { Column, ComputedField, FunctionArgument } from '../catalog/catalog.js'
import { unexpectedPayload } from '../errors.js'
import type { CallArgument, FunctionCall, Operand, SqlType, TableRef } from './ir.js'

/** The value that a client gives for an argument; undefined: none. */
export type Given = (name: string, type: SqlType) => Operand | undefined
const nothing: Given = () => undefined

/**
 * Calls a function with what a client gives. What has a default may be left out.
 * @throws ServiceError 400 `unexpected-payload` for an argument that is missing
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

/** Whether a function can be called without a value from the client. */
export const needsNothing = (all: readonly FunctionArgument[]): boolean =>
  all.every(({ is, optional }) => is !== 'client' || optional)

/** A computed field as a column; undefined when it gives rows. */
export function computedColumn(field: ComputedField, path: string, given: Given = nothing): Column | undefined {
  if (!('type' in field.gives)) return undefined
  return {
    name: field.name,
    type: field.gives.type,
    nullable: true,
    computed: planCall(field.function, field.arguments, path, given),
  }
}
