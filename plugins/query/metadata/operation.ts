import type { Answer, Data, Editor, Infer, Operation, Schema } from 'rowhouse'
import { type Json, type JsonObject, liftTableRef, stringifyJson, type TableRef } from 'rowhouse/plan'

/** The response of every metadata operation that succeeds. */
export const SUCCESS: Answer = { kind: 'text', text: '{"message":"success"}' }

/** Returns what makes operations for admins that change metadata. `change` may return more keys of the response. */
export const metadataOperation =
  (data: Data) =>
  <const S extends Schema>(
    schema: S,
    change: (edit: Editor, args: Args<S>) => Promise<JsonObject | void> | JsonObject | void,
  ): Operation => ({
    admin: true,
    args: schema,
    async run(args, call) {
      const more = await data.alter(call, (edit) => change(edit, args as Args<S>))
      return more ? { kind: 'text', text: stringifyJson({ message: 'success', ...more }) } : SUCCESS
    },
  })

/** The type of the arguments that fit a schema. What it does not check is any JSON. */
export type Args<S> = Checked<Infer<S>>
type Checked<T> = unknown extends T
  ? Json
  : T extends readonly (infer Item)[]
    ? Checked<Item>[]
    : T extends object
      ? { readonly [K in keyof T]: Checked<T[K]> }
      : T

/** Arguments of one operation. Those that are not `optional` are required. */
export const args = <const P extends Readonly<Record<string, Schema>>, const Optional extends keyof P = never>(
  properties: P,
  optional: readonly Optional[] = [],
) =>
  ({
    type: 'object',
    properties,
    required: Object.keys(properties).filter((key) => !(optional as readonly string[]).includes(key)) as Exclude<
      keyof P & string,
      Optional
    >[],
  }) as const

export const tableSchema = {
  anyOf: [
    { type: 'string' },
    {
      type: 'object',
      properties: { schema: { type: 'string' }, name: { type: 'string' } },
      required: ['name'],
    },
  ],
} as const satisfies Schema
export const text = { type: 'string' } as const
export const comment = { anyOf: [{ type: 'string' }, { type: 'null' }] } as const satisfies Schema
export const anything = {} as const satisfies Schema

export type Comment = string | null

/** Reads the argument `table`. */
export const tableOf = (table: Json | Args<typeof tableSchema>): TableRef => liftTableRef(table as Json, '$.args.table')
/** Returns the name of a table for exports and answers, as it is written in arguments. */
export const exportedName = ({ schema, name }: TableRef): Json => (schema === 'public' ? name : { schema, name })
