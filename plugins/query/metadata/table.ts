import type { Data, Editor, Operation } from 'rowhouse'
import { isObject, type Json, type JsonObject, liftTableRef, parseFailed, type TableRef } from 'rowhouse/plan'
import { anything, args, comment, metadataOperation, tableOf, tableSchema, text } from './operation.js'

const flag = { type: 'boolean' } as const
/** A table by its name, or with `is_enum` beside its name or its key `table`. */
const trackSchema = {
  anyOf: [
    text,
    args({ schema: text, name: text, is_enum: flag }, ['schema', 'is_enum']),
    args({ table: tableSchema, is_enum: flag }, ['is_enum']),
  ],
}

/** Returns the names that GraphQL has instead of invalid ones, if there are any. */
function namesIn(edit: Editor, ref: TableRef): JsonObject | undefined {
  const made = edit.madeNames(ref)
  return Object.keys(made).length > 0 ? { graphql_names: { ...made } } : undefined
}

/** Operations on tracked tables and relationships. */
export function tableOperations(data: Data): Record<string, Operation> {
  const operation = metadataOperation(data)
  const track = operation(trackSchema, async (edit, given) => {
    const value = given as Json
    const { is_enum: isEnum, table, ...own } = isObject(value) ? value : { table: value }
    const path = isObject(value) && table !== undefined ? '$.args.table' : '$.args'
    const ref = liftTableRef(table ?? own, path)
    await edit.trackTable(ref, path, isEnum === true)
    return namesIn(edit, ref)
  })
  const trackNamed = operation(
    args({ table: tableSchema, configuration: anything, is_enum: flag }, ['configuration', 'is_enum']),
    async (edit, { table, configuration = null, is_enum: isEnum = false }) => {
      const ref = tableOf(table)
      await edit.trackTable(ref, '$.args.table', isEnum)
      edit.customize(ref, configuration)
      edit.refuseTakenNames(ref)
      return namesIn(edit, ref)
    },
  )
  const create = (type: 'object' | 'array'): Operation =>
    operation(
      args({ table: tableSchema, name: { ...text, minLength: 1 }, using: anything, comment }, ['comment']),
      (edit, { table, name, using, comment = null }) =>
        edit.createRelationship(tableOf(table), { name, type, definition: currentKeys(using), comment }),
    )
  return {
    track_table: { ...track, version2: trackNamed },
    add_existing_table_or_view: track,
    set_table_is_enum: operation(args({ table: tableSchema, is_enum: flag }), (edit, { table, is_enum: isEnum }) =>
      edit.setEnum(tableOf(table), isEnum),
    ),
    set_table_version: operation(
      args({ table: tableSchema, column: { anyOf: [text, { type: 'null' }] } }),
      (edit, { table, column }) => edit.setVersion(tableOf(table), column),
    ),
    untrack_table: operation(
      args({ table: tableSchema, cascade: flag }, ['cascade']),
      (edit, { table, cascade = false }) => edit.untrackTable(tableOf(table), cascade),
    ),
    create_object_relationship: create('object'),
    create_array_relationship: create('array'),
    drop_relationship: operation(
      args({ ...named, cascade: flag }, ['relationship', 'name', 'cascade']),
      (edit, { cascade = false, ...given }) => edit.dropRelationship(tableOf(given.table), nameOf(given), cascade),
    ),
    rename_relationship: operation(
      args({ table: tableSchema, name: text, new_name: { ...text, minLength: 1 } }),
      (edit, { table, name, new_name: newName }) => edit.renameRelationship(tableOf(table), name, newName),
    ),
    set_relationship_comment: operation(
      args({ ...named, comment }, ['relationship', 'name', 'comment']),
      (edit, { comment = null, ...given }) => edit.commentRelationship(tableOf(given.table), nameOf(given), comment),
    ),
  }
}

/** `relationship` and `name` are synonyms. */
const named = { table: tableSchema, relationship: text, name: text } as const

function nameOf({ name, relationship = name }: { readonly name?: string; readonly relationship?: string }): string {
  if (relationship === undefined) throw parseFailed("the key 'relationship' was not present", '$.args')
  return relationship
}

/** Renames the old key `manual_mapping` to `manual_configuration`. */
export function currentKeys(using: Json): Json {
  if (typeof using !== 'object' || using === null || !('manual_mapping' in using)) return using
  const { manual_mapping: manual, ...rest } = using as JsonObject
  return { ...rest, manual_configuration: manual as Json }
}
