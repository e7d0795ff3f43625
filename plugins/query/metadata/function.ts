import type { Data, Operation, Schema } from 'rowhouse'
import { type Json, type JsonObject, liftTableRef } from 'rowhouse/plan'
import { done } from './done.js'
import { anything, args, nullableText, tableSchema } from './shapes.js'

/** Functions as root fields, as fields of rows, and the names that tables have in GraphQL. */
export function functionOperations(data: Data): Record<string, Operation> {
  const permission = (may: boolean): Operation => ({
    admin: true,
    args: args({ function: tableSchema, role: { type: 'string' } }),
    async run(value, call) {
      const { function: name, role } = value as JsonObject
      const ref = liftTableRef(name, '$.args.function')
      await data.alter(call, (edit) => edit.permitFunction(ref, role as string, may))
      return done
    },
  })
  return {
    track_function: {
      admin: true,
      args: named({ configuration: anything, comment: nullableText }),
      async run(value, call) {
        const { function: name, configuration, comment } = spelledOut(value)
        const ref = liftTableRef(name, '$.args.function')
        const row = { ref, configuration: configuration ?? null, comment: (comment ?? null) as string | null }
        await data.alter(call, async (edit) => {
          await edit.trackFunction(row)
          edit.refuseTakenField(ref)
        })
        return done
      },
    },
    untrack_function: {
      admin: true,
      args: named({}),
      async run(value, call) {
        const ref = liftTableRef(spelledOut(value)['function'], '$.args.function')
        await data.alter(call, (edit) => edit.untrackFunction(ref))
        return done
      },
    },
    create_function_permission: permission(true),
    drop_function_permission: permission(false),
    add_computed_field: {
      admin: true,
      args: args(
        { table: tableSchema, name: { type: 'string', minLength: 1 }, definition: anything, comment: nullableText },
        ['comment'],
      ),
      async run(value, call) {
        const { table, name, definition, comment } = value as JsonObject
        const ref = liftTableRef(table, '$.args.table')
        const row = {
          name: name as string,
          definition: definition as Json,
          comment: (comment ?? null) as string | null,
        }
        await data.alter(call, (edit) => edit.addComputedField(ref, row))
        return done
      },
    },
    drop_computed_field: {
      admin: true,
      args: args({ table: tableSchema, name: { type: 'string' }, cascade: { type: 'boolean' } }, ['cascade']),
      async run(value, call) {
        const { table, name, cascade } = value as JsonObject
        const ref = liftTableRef(table, '$.args.table')
        await data.alter(call, (edit) => edit.dropComputedField(ref, name as string, cascade === true))
        return done
      },
    },
    set_table_customization: {
      admin: true,
      args: args({ table: tableSchema, configuration: anything }),
      async run(value, call) {
        const { table, configuration } = value as JsonObject
        const ref = liftTableRef(table, '$.args.table')
        await data.alter(call, (edit) => {
          edit.customize(ref, configuration ?? null)
          edit.refuseTakenNames(ref)
        })
        return done
      },
    },
  }
}

const named = (more: Record<string, Schema>): Schema => {
  const properties = { schema: { type: 'string' }, name: { type: 'string' }, function: tableSchema, ...more } as const
  return { anyOf: [{ type: 'string' }, args(properties, Object.keys(properties))] }
}

/** `"f"` and `{"schema": "s", "name": "f"}` are short for an object with the key `function`. */
function spelledOut(value: Json): JsonObject {
  return typeof value === 'object' && value !== null && 'function' in value
    ? (value as JsonObject)
    : { function: value }
}
