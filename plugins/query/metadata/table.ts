import type { Data, Editor, Operation } from 'rowhouse'
import { isObject, type Json, type JsonObject, liftTableRef, parseFailed, type TableRef } from 'rowhouse/plan'
import { anything, args, comment, type Comment, metadataOperation, tableOf, tableSchema, text } from './operation.js'

const flag = { type: 'boolean' } as const
/** A table by its name, or with `is_enum` beside its name or its key `table`. */
const trackSchema = {
  anyOf: [
    text,
    args({ schema: text, name: text, is_enum: flag }, ['schema', 'is_enum']),
    args({ table: tableSchema, is_enum: flag }, ['is_enum']),
  ],
}

interface CreateArgs {
  readonly table: Json
  readonly name: string
  readonly using: Json
  readonly comment?: Comment
}
/** `relationship` and `name` are synonyms. */
interface NamedArgs {
  readonly table: Json
  readonly relationship?: string
  readonly name?: string
}

/** Returns the names that GraphQL has instead of invalid ones, if there are any. */
function namesIn(edit: Editor, ref: TableRef): JsonObject | undefined {
  const made = edit.madeNames(ref)
  return Object.keys(made).length > 0 ? { graphql_names: { ...made } } : undefined
}

/** Operations on tracked tables and relationships. */
export function tableOperations(data: Data): Record<string, Operation> {
  const track = metadataOperation<Json>(data, trackSchema, async (edit, value) => {
    const { is_enum: isEnum, table, ...own } = isObject(value) ? value : { table: value }
    const path = isObject(value) && table !== undefined ? '$.args.table' : '$.args'
    const ref = liftTableRef(table ?? own, path)
    await edit.trackTable(ref, path, isEnum === true)
    return namesIn(edit, ref)
  })
  const trackNamed = metadataOperation<{ table: Json; configuration?: Json; is_enum?: boolean }>(
    data,
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
    metadataOperation<CreateArgs>(
      data,
      args({ table: tableSchema, name: { ...text, minLength: 1 }, using: anything, comment }, ['comment']),
      (edit, { table, name, using, comment = null }) =>
        edit.createRelationship(tableOf(table), { name, type, definition: currentKeys(using), comment }),
    )
  return {
    track_table: { ...track, version2: trackNamed },
    add_existing_table_or_view: track,
    set_table_is_enum: metadataOperation<{ table: Json; is_enum: boolean }>(
      data,
      args({ table: tableSchema, is_enum: flag }),
      (edit, { table, is_enum: isEnum }) => edit.setEnum(tableOf(table), isEnum),
    ),
    set_table_version: metadataOperation<{ table: Json; column: string | null }>(
      data,
      args({ table: tableSchema, column: { anyOf: [text, { type: 'null' }] } }),
      (edit, { table, column }) => edit.setVersion(tableOf(table), column),
    ),
    untrack_table: metadataOperation<{ table: Json; cascade?: boolean }>(
      data,
      args({ table: tableSchema, cascade: flag }, ['cascade']),
      (edit, { table, cascade = false }) => edit.untrackTable(tableOf(table), cascade),
    ),
    create_object_relationship: create('object'),
    create_array_relationship: create('array'),
    drop_relationship: metadataOperation<NamedArgs & { cascade?: boolean }>(
      data,
      namedSchema({ cascade: flag }),
      (edit, { cascade = false, ...named }) => edit.dropRelationship(tableOf(named.table), nameOf(named), cascade),
    ),
    rename_relationship: metadataOperation<{ table: Json; name: string; new_name: string }>(
      data,
      args({ table: tableSchema, name: text, new_name: { ...text, minLength: 1 } }),
      (edit, { table, name, new_name: newName }) => edit.renameRelationship(tableOf(table), name, newName),
    ),
    set_relationship_comment: metadataOperation<NamedArgs & { comment?: Comment }>(
      data,
      namedSchema({ comment }),
      (edit, { comment = null, ...named }) => edit.commentRelationship(tableOf(named.table), nameOf(named), comment),
    ),
  }
}

const namedSchema = (optional: Parameters<typeof args>[0]) =>
  args({ table: tableSchema, relationship: text, name: text, ...optional }, [
    'relationship',
    'name',
    ...Object.keys(optional),
  ])

function nameOf({ name, relationship = name }: NamedArgs): string {
  if (relationship === undefined) throw parseFailed("the key 'relationship' was not present", '$.args')
  return relationship
}

/** Renames the old key `manual_mapping` to `manual_configuration`. */
export function currentKeys(using: Json): Json {
  if (typeof using !== 'object' || using === null || !('manual_mapping' in using)) return using
  const { manual_mapping: manual, ...rest } = using as JsonObject
  return { ...rest, manual_configuration: manual as Json }
}
