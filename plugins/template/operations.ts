import type { Answer, Data, Operation, Schema } from 'rowhouse'
import type { Json, JsonObject } from 'rowhouse/plan'
import type { Templates } from './templates.js'

const text = { type: 'string' } as const
const comment = { anyOf: [text, { type: 'null' }] } as const
const SUCCESS: Answer = { kind: 'text', text: '{"message":"success"}' }

const shape = (properties: Record<string, Schema>, required: readonly string[]): Schema => ({
  type: 'object',
  properties,
  required,
})

/** The operations of the JSON query API on templates. */
export function templateOperations(data: Data, templates: Templates): Record<string, Operation> {
  return {
    create_query_template: {
      admin: true,
      args: shape({ name: { type: 'string', minLength: 1 }, template: {}, comment }, ['name', 'template']),
      async run(args, call) {
        const { name, template, comment } = args as { name: string; template: Json; comment?: string | null }
        await data.alter(call, (edit) => edit.createTemplate({ name, definition: template, comment: comment ?? null }))
        return SUCCESS
      },
    },
    execute_query_template: {
      formats: true,
      referable: { args: { '*': 'value' } },
      args: shape({ name: text, args: { type: 'object' } }, ['name', 'args']),
      async run(value, call) {
        const { name, args } = value as { name: string; args: JsonObject }
        return templates.execute(templates.find(name, data.catalogFor(call), '$.args.name'), args, call, '$.args.args')
      },
      async resolve(value, call, fn) {
        const { name, args } = value as { name: string; args: JsonObject }
        return templates.resolve(templates.find(name, data.catalogFor(call), '$.args.name'), args, '$.args.args', fn)
      },
    },
    drop_query_template: {
      admin: true,
      args: shape({ name: text }, ['name']),
      async run(args, call) {
        await data.alter(call, (edit) => edit.dropTemplate((args as { name: string }).name))
        return SUCCESS
      },
    },
    set_query_template_comment: {
      admin: true,
      args: shape({ name: text, comment }, ['name']),
      async run(args, call) {
        const { name, comment } = args as { name: string; comment?: string | null }
        await data.alter(call, (edit) => edit.commentTemplate(name, comment ?? null))
        return SUCCESS
      },
    },
  }
}
