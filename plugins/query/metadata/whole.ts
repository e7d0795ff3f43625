import type { Catalog, Data, Editor, Operation, PermissionType } from 'rowhouse'
import {
  at,
  type Json,
  type JsonObject,
  liftTableRef,
  serviceError,
  stringifyJson,
  type TableRef,
  tableName,
} from 'rowhouse/plan'
import { done } from './done.js'
import { anything, args, nullableText, tableSchema } from './shapes.js'
import { oldSpelling } from './table.js'

const RELATIONSHIPS = { object_relationships: 'object', array_relationships: 'array' } as const
const FUNCTION_LISTS = ['configuration', 'comment', 'permissions']
const PERMISSIONS: Readonly<Record<string, PermissionType>> = {
  insert_permissions: 'insert',
  select_permissions: 'select',
  update_permissions: 'update',
  delete_permissions: 'delete',
}

const relationship = args({ name: { type: 'string' }, using: anything, comment: nullableText }, ['comment'])
const permission = args({ role: { type: 'string' }, permission: anything, comment: nullableText }, ['comment'])
const computedField = args({ name: { type: 'string' }, definition: anything, comment: nullableText }, ['comment'])
const lists = Object.fromEntries([
  ...Object.keys(RELATIONSHIPS).map((key) => [key, { type: 'array', items: relationship }] as const),
  ...Object.keys(PERMISSIONS).map((key) => [key, { type: 'array', items: permission }] as const),
  ['computed_fields', { type: 'array', items: computedField }],
  ['configuration', anything],
])
const whole = args(
  {
    tables: { type: 'array', items: args({ table: tableSchema, ...lists }, Object.keys(lists)) },
    query_templates: {
      type: 'array',
      items: args({ name: { type: 'string' }, template: anything, comment: nullableText }, ['comment']),
    },
    functions: {
      type: 'array',
      items: args(
        {
          function: tableSchema,
          configuration: anything,
          comment: nullableText,
          permissions: { type: 'array', items: args({ role: { type: 'string' } }) },
        },
        FUNCTION_LISTS,
      ),
    },
  },
  ['functions'],
)

/** Operations on all metadata at once. */
export function wholeOperations(data: Data): Record<string, Operation> {
  const operation = (run: Operation['run'], schema = anything): Operation => ({ admin: true, args: schema, run })
  const json = (value: Json) => ({ kind: 'text' as const, text: stringifyJson(value) })
  return {
    export_metadata: operation(async (_args, call) => json(exportMetadata(await data.metadata(call)))),
    replace_metadata: operation(async (value, call) => {
      await data.alter(call, (edit) => replaceMetadata(edit, value as JsonObject))
      return done
    }, whole),
    clear_metadata: operation(async (_args, call) => {
      await data.alter(call, (edit) => edit.clear())
      return done
    }),
    reload_metadata: operation(async () => {
      await data.reload()
      return done
    }),
    dump_internal_state: operation(async (_args, call) => ({ kind: 'text', text: dump(data.catalogFor(call)) })),
    get_inconsistent_metadata: operation(async (_args, call) => {
      const objects = data.catalogFor(call).inconsistent.map(({ object, reason }) => ({ name: object, reason }))
      return json({ is_consistent: objects.length === 0, inconsistent_objects: objects })
    }),
    drop_inconsistent_metadata: operation(async (_args, call) => {
      await data.alter(call, (edit) => edit.dropInconsistent())
      return done
    }),
  }
}

function exportMetadata(metadata: Awaited<ReturnType<Data['metadata']>>): Json {
  const tables = [...metadata.tables.values()]
    .sort((a, b) => (order(a) < order(b) ? -1 : 1))
    .map((table) => ({
      table: exportedName(table.ref),
      ...(table.configuration === null ? {} : { configuration: table.configuration }),
      ...Object.fromEntries(
        Object.entries(RELATIONSHIPS).map(([key, type]) => [
          key,
          [...table.relationships.values()]
            .filter((row) => row.type === type)
            .map(({ name, definition, comment }) => ({ name, using: definition, comment })),
        ]),
      ),
      ...Object.fromEntries(
        Object.entries(PERMISSIONS).map(([key, type]) => [
          key,
          [...table.permissions.values()]
            .filter((row) => row.type === type)
            .map(({ role, definition, comment }) => ({ role, permission: definition, comment })),
        ]),
      ),
      ...some('computed_fields', [...table.computedFields.values()]),
    }))
  const templates = [...metadata.templates.values()].map(({ name, definition, comment }) => ({
    name,
    template: definition,
    comment,
  }))
  const functions = [...metadata.functions.values()]
    .sort((a, b) => (order(a) < order(b) ? -1 : 1))
    .map(({ ref, configuration, comment, roles }) => ({
      function: exportedName(ref),
      configuration,
      comment,
      permissions: [...roles].map((role) => ({ role })),
    }))
  return { tables, query_templates: templates, ...some('functions', functions) }
}

/** A list that is exported only when something is in it. */
const some = (key: string, list: readonly object[]): JsonObject => (list.length > 0 ? { [key]: list as Json } : {})

const order = ({ ref }: { readonly ref: TableRef }): string => JSON.stringify([ref.schema, ref.name])
const exportedName = ({ schema, name }: TableRef): Json => (schema === 'public' ? name : { schema, name })

/** Tables first, what belongs to them next, permissions last: a definition may use what a later entry names. */
async function replaceMetadata(edit: Editor, metadata: JsonObject): Promise<void> {
  edit.clear()
  const entries = (metadata['tables'] as JsonObject[]).map((entry, i) => {
    const path = at('$.args.tables', i)
    return { entry, path, ref: liftTableRef(entry['table'], `${path}.table`) }
  })
  for (const { ref, path } of entries) {
    if (edit.trackedTables.some((table) => tableName(table.ref) === tableName(ref))) {
      throw serviceError('already-exists', `table "${tableName(ref)}" is declared twice`, path)
    }
    await edit.trackTable(ref, `${path}.table`)
  }
  for (const { ref, entry, path } of entries) {
    for (const { kind: type, item, here } of items(entry, RELATIONSHIPS, path)) {
      const { name, using, comment } = item
      const row = { name: name as string, type, definition: oldSpelling(using as Json), comment: textOrNull(comment) }
      edit.createRelationship(ref, row, here)
    }
  }
  for (const { ref, entry, path } of entries) {
    for (const { item, here } of items(entry, { computed_fields: true }, path)) {
      const { name, definition, comment } = item
      const row = { name: name as string, definition: definition as Json, comment: textOrNull(comment) }
      await edit.addComputedField(ref, row, here)
    }
    const { configuration = null } = entry
    if (configuration !== null) edit.customize(ref, configuration, path)
  }
  for (const { ref, entry, path } of entries) {
    for (const { kind, item, here } of items(entry, PERMISSIONS, path)) {
      const { role, permission: definition, comment } = item
      await edit.createPermission(ref, role as string, kind, definition as Json, textOrNull(comment), here)
    }
  }
  for (const [i, item] of ((metadata['functions'] ?? []) as JsonObject[]).entries()) {
    const path = at('$.args.functions', i)
    const { configuration = null, comment, permissions = [] } = item
    const ref = liftTableRef(item['function'], `${path}.function`)
    await edit.trackFunction({ ref, configuration, comment: textOrNull(comment) }, path)
    for (const [j, { role }] of (permissions as JsonObject[]).entries()) {
      edit.permitFunction(ref, role as string, true, at(`${path}.permissions`, j))
    }
  }
  for (const [i, item] of (metadata['query_templates'] as JsonObject[]).entries()) {
    const row = {
      name: item['name'] as string,
      definition: item['template'] as Json,
      comment: textOrNull(item['comment']),
    }
    await edit.createTemplate(row, at('$.args.query_templates', i))
  }
}

/** The entries of a table, each with what its list says that it is, and where it stands. */
function items<T>(entry: JsonObject, kinds: Readonly<Record<string, T>>, path: string) {
  return Object.entries(kinds).flatMap(([key, kind]) =>
    ((entry[key] ?? []) as JsonObject[]).map((item, i) => ({ kind, item, here: at(at(path, key), i) })),
  )
}

const textOrNull = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null)

/** The snapshot as the server holds it, for people who look for a mistake. */
function dump(catalog: Catalog): string {
  const tables = [...catalog.tables.values()].map((table) => ({
    ...table,
    columnsByName: undefined,
    relationshipsByName: undefined,
    permissionsByRole: undefined,
    computedByName: undefined,
  }))
  return JSON.stringify({ ...catalog, tables })
}
