import type { Answer, Data, Editor, Operation, Schema } from 'rowhouse'
import { type Json, type JsonObject, liftTableRef, stringifyJson, type TableRef } from 'rowhouse/plan'

/** The response of every metadata operation that succeeds. */
export const SUCCESS: Answer = { kind: 'text', text: '{"message":"success"}' }

/**
 * Returns an operation for admins that changes metadata. `Args` is the type of arguments that fit `schema`.
 * @param change may return more keys of the response
 */
export const metadataOperation = <Args>(
  data: Data,
  schema: Schema,
  change: (edit: Editor, args: Args) => Promise<JsonObject | void> | JsonObject | void,
): Operation => ({
  admin: true,
  args: schema,
  async run(args, call) {
    const more = await data.alter(call, (edit) => change(edit, args as Args))
    return more ? { kind: 'text', text: stringifyJson({ message: 'success', ...more }) } : SUCCESS
  },
})

/** Arguments of one operation. Those that are not `optional` are required. */
export function args(properties: Record<string, Schema>, optional: readonly string[] = []): Schema {
  return {
    type: 'object',
    properties,
    required: Object.keys(properties).filter((key) => !optional.includes(key)),
    additionalProperties: false,
  }
}

export const tableSchema = {
  anyOf: [
    { type: 'string' },
    {
      type: 'object',
      properties: { schema: { type: 'string' }, name: { type: 'string' } },
      required: ['name'],
      additionalProperties: false,
    },
  ],
} as const satisfies Schema
export const text = { type: 'string' } as const
export const comment = { anyOf: [{ type: 'string' }, { type: 'null' }] } as const satisfies Schema
export const anything = {} as const satisfies Schema

export type Comment = string | null

/** Reads the argument `table`. */
export const tableOf = (table: Json): TableRef => liftTableRef(table, '$.args.table')
/** Returns the name of a table for exports and answers, as it is written in arguments. */
export const exportedName = ({ schema, name }: TableRef): Json => (schema === 'public' ? name : { schema, name })
