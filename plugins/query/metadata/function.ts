import type { Data, Editor, Operation, Schema } from 'rowhouse'
import { type Json, type JsonObject, liftTableRef, type TableRef } from 'rowhouse/plan'
import { anything, args, comment, type Comment, metadataOperation, tableOf, tableSchema, text } from './operation.js'

/** Operations on functions, computed fields, and the names of tables in GraphQL. */
export function functionOperations(data: Data): Record<string, Operation> {
  const operation = metadataOperation(data)
  const permission = (may: boolean): Operation =>
    operation(args({ function: tableSchema, role: text }), (edit, { function: name, role }) =>
      edit.permitFunction(functionOf(name), role, may),
    )
  const track = operation(functionSchema({ configuration: anything, comment }), async (edit, value) => {
    const { function: name, configuration = null, comment = null } = objectForm(value)
    const ref = functionOf(name)
    await edit.trackFunction({ ref, configuration, comment: comment as Comment })
    edit.refuseTakenField(ref)
  })
  const customize = (edit: Editor, table: Json, configuration: Json, place?: string): void => {
    edit.customize(tableOf(table), configuration, '$.args', place)
    edit.refuseTakenNames(tableOf(table), place)
  }
  const customFields = operation(
    args({ table: tableSchema, custom_root_fields: anything, custom_column_names: anything }, [
      'custom_root_fields',
      'custom_column_names',
    ]),
    (edit, { table, ...configuration }) => customize(edit, table, configuration, '$.args'),
  )
  return {
    track_function: { ...track, version2: track },
    untrack_function: operation(functionSchema({}), (edit, value) =>
      edit.untrackFunction(functionOf(objectForm(value)['function'])),
    ),
    create_function_permission: permission(true),
    drop_function_permission: permission(false),
    add_computed_field: operation(
      args({ table: tableSchema, name: { ...text, minLength: 1 }, definition: anything, comment }, ['comment']),
      (edit, { table, name, definition, comment = null }) =>
        edit.addComputedField(tableOf(table), { name, definition, comment }),
    ),
    drop_computed_field: operation(
      args({ table: tableSchema, name: text, cascade: { type: 'boolean' } }, ['cascade']),
      (edit, { table, name, cascade = false }) => edit.dropComputedField(tableOf(table), name, cascade),
    ),
    set_table_customization: operation(
      args({ table: tableSchema, configuration: anything }),
      (edit, { table, configuration }) => customize(edit, table, configuration),
    ),
    set_table_custom_fields: { ...customFields, version2: customFields },
  }
}

const functionOf = (name: Json | undefined): TableRef => liftTableRef(name, '$.args.function')

const functionSchema = (more: Record<string, Schema>): Schema => {
  const properties = { schema: text, name: text, function: tableSchema, ...more }
  return { anyOf: [text, args(properties, Object.keys(properties) as (keyof typeof properties)[])] }
}

/** Returns `{"function": f}` for the short forms `"f"` and `{"schema": "s", "name": "f"}`. */
const objectForm = (value: Json): JsonObject =>
  typeof value === 'object' && value !== null && 'function' in value ? (value as JsonObject) : { function: value }
