import type { Schema } from 'rowhouse'

/** Schemas that the arguments of metadata operations share. */
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
export const nullableText = { anyOf: [{ type: 'string' }, { type: 'null' }] } as const satisfies Schema
export const anything = {} as const satisfies Schema

/** Arguments of one operation; what is not `optional` is required. */
export function args(properties: Record<string, Schema>, optional: readonly string[] = []): Schema {
  return {
    type: 'object',
    properties,
    required: Object.keys(properties).filter((key) => !optional.includes(key)),
    additionalProperties: false,
  }
}
