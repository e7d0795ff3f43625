import type { Call, Catalog, Data, Editor, Operation, PermissionType } from 'rowhouse'
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
import {
  anything,
  args,
  comment,
  type Comment,
  exportedName,
  metadataOperation,
  SUCCESS,
  tableSchema,
  text,
} from './operation.js'
import { currentKeys } from './table.js'

const RELATIONSHIPS = { object_relationships: 'object', array_relationships: 'array' } as const
const PERMISSIONS: Readonly<Record<string, PermissionType>> = {
  insert_permissions: 'insert',
  select_permissions: 'select',
  update_permissions: 'update',
  delete_permissions: 'delete',
}

const relationship = args({ name: text, using: anything, comment }, ['comment'])
const permission = args({ role: text, permission: anything, comment }, ['comment'])
const computedField = args({ name: text, definition: anything, comment }, ['comment'])
const functionPermission = args({ role: text })
const trackedFunction = args(
  {
    function: tableSchema,
    configuration: anything,
    comment,
    permissions: { type: 'array', items: functionPermission },
  },
  ['configuration', 'comment', 'permissions'],
)
const inheritedRole = args({ role: text, roles: { type: 'array', items: text, minItems: 1 } })
const template = args({ name: text, template: anything, comment }, ['comment'])
const ofTable = Object.fromEntries([
  ...Object.keys(RELATIONSHIPS).map((key) => [key, { type: 'array', items: relationship }] as const),
  ...Object.keys(PERMISSIONS).map((key) => [key, { type: 'array', items: permission }] as const),
  ['computed_fields', { type: 'array', items: computedField }],
  ['configuration', anything],
  ['is_enum', { type: 'boolean' }],
  ['version_column', text],
  ['captures', { type: 'object', additionalProperties: anything }],
])
export const metadataSchema = args(
  {
    tables: { type: 'array', items: args({ table: tableSchema, ...ofTable }, Object.keys(ofTable)) },
    query_templates: { type: 'array', items: template },
    functions: { type: 'array', items: trackedFunction },
    inherited_roles: { type: 'array', items: inheritedRole },
  },
  ['functions', 'inherited_roles'],
)

/** Operations on all metadata together. */
export function allMetadataOperations(data: Data): Record<string, Operation> {
  const operation = metadataOperation(data)
  const read = (run: (call: Call) => Promise<string> | string): Operation => ({
    admin: true,
    args: anything,
    run: async (_args, call) => ({ kind: 'text', text: await run(call) }),
  })
  return {
    export_metadata: read(async (call) => stringifyJson(exportMetadata(await data.metadata(call)))),
    replace_metadata: operation(metadataSchema, (edit, metadata) => replaceMetadata(edit, metadata as JsonObject)),
    clear_metadata: operation(anything, (edit) => edit.clear()),
    reload_metadata: {
      admin: true,
      args: anything,
      undoable: false,
      async run() {
        await data.reload()
        return SUCCESS
      },
    },
    dump_internal_state: read((call) => dump(data.catalogFor(call))),
    get_inconsistent_metadata: read((call) => {
      const objects = data.catalogFor(call).inconsistent.map(({ object, reason }) => ({ name: object, reason }))
      return stringifyJson({ is_consistent: objects.length === 0, inconsistent_objects: objects })
    }),
    drop_inconsistent_metadata: operation(anything, (edit) => edit.dropInconsistent()),
  }
}

export function exportMetadata(metadata: Awaited<ReturnType<Data['metadata']>>): JsonObject {
  const tables = sorted(metadata.tables).map((table) => ({
    table: exportedName(table.ref),
    ...(table.configuration === null ? {} : { configuration: table.configuration }),
    ...(table.isEnum ? { is_enum: true } : {}),
    ...(table.version === null ? {} : { version_column: table.version }),
    ...(Object.keys(table.captures).length === 0 ? {} : { captures: table.captures }),
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
    ...listUnlessEmpty('computed_fields', [...table.computedFields.values()]),
  }))
  const templates = [...metadata.templates.values()].map(({ name, definition, comment }) => ({
    name,
    template: definition,
    comment,
  }))
  const functions = sorted(metadata.functions).map(({ ref, configuration, comment, roles }) => ({
    function: exportedName(ref),
    configuration,
    comment,
    permissions: [...roles].map((role) => ({ role })),
  }))
  const roles = [...metadata.roles]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([role, parts]) => ({ role, roles: parts }))
  return {
    tables,
    query_templates: templates,
    ...listUnlessEmpty('functions', functions),
    ...listUnlessEmpty('inherited_roles', roles),
  }
}

const listUnlessEmpty = (key: string, list: readonly object[]): JsonObject =>
  list.length > 0 ? { [key]: list as Json } : {}

function sorted<T extends { readonly ref: TableRef }>(all: ReadonlyMap<unknown, T>): T[] {
  const key = ({ ref }: T) => JSON.stringify([ref.schema, ref.name])
  return [...all.values()].sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

/** Creates tables, relationships, computed fields and permissions in this order, because each can use the ones before. */
export async function replaceMetadata(edit: Editor, metadata: JsonObject): Promise<void> {
  edit.clear()
  const entries = (metadata['tables'] as JsonObject[]).map((entry, i) => {
    const path = at('$.args.tables', i)
    return { entry, path, ref: liftTableRef(entry['table'], `${path}.table`) }
  })
  await edit.readAhead(
    entries.map(({ ref }) => ref),
    ((metadata['functions'] ?? []) as JsonObject[]).map((item, i) =>
      liftTableRef(item['function'], `${at('$.args.functions', i)}.function`),
    ),
  )
  for (const { ref, entry, path } of entries) {
    if (edit.trackedTables.some((table) => tableName(table.ref) === tableName(ref))) {
      throw serviceError('already-exists', `table "${tableName(ref)}" is declared twice`, path)
    }
    await edit.trackTable(ref, `${path}.table`, entry['is_enum'] === true)
  }
  for (const { ref, entry, path } of entries) {
    for (const { kind: type, item, here } of items(entry, RELATIONSHIPS, path)) {
      const { name, using, comment } = item
      const row = { name: name as string, type, definition: currentKeys(using as Json), comment: textOrNull(comment) }
      edit.createRelationship(ref, row, here)
    }
  }
  for (const { ref, entry, path } of entries) {
    for (const { item, here } of items(entry, { computed_fields: true }, path)) {
      const { name, definition, comment } = item
      const row = { name: name as string, definition: definition as Json, comment: textOrNull(comment) }
      await edit.addComputedField(ref, row, here)
    }
    const { configuration = null, version_column: version, captures = {} } = entry
    if (configuration !== null) edit.customize(ref, configuration, path)
    if (version !== undefined) edit.setVersion(ref, version as string, path, 'version_column')
    for (const [name, definition] of Object.entries(captures as JsonObject)) {
      await edit.capture(ref, name, definition, path, at(`${path}.captures`, name))
    }
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
  for (const [i, item] of ((metadata['inherited_roles'] ?? []) as JsonObject[]).entries()) {
    const path = at('$.args.inherited_roles', i)
    const role = item['role'] as string
    if (edit.inheritedRoles.has(role)) {
      throw serviceError('already-exists', `inherited role "${role}" is declared twice`, path)
    }
    edit.setInheritance(role, item['roles'] as string[], path)
  }
}

/** Returns the items of several lists of a table, each with the value of its list in `kinds` and with its path. */
function items<T>(entry: JsonObject, kinds: Readonly<Record<string, T>>, path: string) {
  return Object.entries(kinds).flatMap(([key, kind]) =>
    ((entry[key] ?? []) as JsonObject[]).map((item, i) => ({ kind, item, here: at(at(path, key), i) })),
  )
}

const textOrNull = (value: Json | undefined): Comment => (typeof value === 'string' ? value : null)

/** Returns the internal snapshot, for debugging. */
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
