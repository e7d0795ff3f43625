import type { ClientBase } from 'pg'
import { prepared } from '../db/prepared.js'
import { type Json, type JsonObject, NO_LIMITS, parseJson, stringifyJson } from '../json/parse.js'
import type { TableRef } from '../ir.js'
import { tableKey } from '../catalog/catalog.js'

/** The metadata: the rows of `svc_catalog` in memory, to be changed and written back. */
export interface Metadata {
  readonly version: string
  /** Tables by `tableKey`. */
  readonly tables: Map<string, TrackedTable>
  readonly templates: Map<string, TemplateRow>
  /** Functions by `tableKey`. */
  readonly functions: Map<string, TrackedFunction>
  /** Inherited roles, and the roles from which each of them inherits. */
  readonly roles: Map<string, readonly string[]>
}
/** Definitions of captures by the name of their plugin. */
export type Definitions = Readonly<Record<string, Json>>
export interface TrackedTable {
  readonly ref: TableRef
  /** GraphQL names. */
  readonly configuration: Json
  /** Whether its rows are the values of an enum in GraphQL. */
  readonly isEnum: boolean
  /** Column whose text is the version of a row, or `xmin`. */
  readonly version: string | null
  /** What plugins note of each change of it. */
  readonly captures: Definitions
  readonly relationships: Map<string, RelationshipRow>
  readonly computedFields: Map<string, ComputedFieldRow>
  /** Permissions by `permissionKey`. */
  readonly permissions: Map<string, PermissionRow>
}
export interface RelationshipRow {
  readonly name: string
  readonly type: 'object' | 'array'
  readonly definition: Json
  readonly comment: string | null
}
export interface ComputedFieldRow {
  readonly name: string
  readonly definition: Json
  readonly comment: string | null
}
export interface TrackedFunction {
  readonly ref: TableRef
  readonly configuration: Json
  readonly comment: string | null
  readonly roles: ReadonlySet<string>
}
export interface PermissionRow {
  readonly role: string
  readonly type: PermissionType
  readonly definition: Json
  readonly comment: string | null
}
export interface TemplateRow {
  readonly name: string
  readonly definition: Json
  readonly comment: string | null
}
export type PermissionType = 'insert' | 'select' | 'update' | 'delete'

export const permissionKey = (role: string, type: PermissionType): string => `${role}\0${type}`
export const trackedTable = (ref: TableRef): TrackedTable => ({
  ref,
  configuration: null,
  isEnum: false,
  version: null,
  captures: {},
  relationships: new Map(),
  computedFields: new Map(),
  permissions: new Map(),
})

/** Digests of everything read about a table, by `tableKey`. Equal marks mean equal tables. */
export type Marks = ReadonlyMap<string, string>

/** Metadata with a mark per table. */
interface MarkedMetadata {
  readonly metadata: Metadata
  readonly marks: Marks
}

/** Tables per query, which limits memory. */
const BATCH = 1000

/** @param known previous reading; tables with the same mark are not read again and stay the same objects */
export async function readMetadata(client: ClientBase, known?: MarkedMetadata): Promise<MarkedMetadata> {
  const rows = await prepared<Record<keyof typeof READ, string>>(client, 'rowhouse metadata', columnsOf(READ))
  const read = rows[0] as Record<keyof typeof READ, string>
  const tables = new Map<string, TrackedTable>()
  const marks = new Map<string, string>()
  const changed: TrackedTable[] = []
  for (const { schema, name, configuration, is_enum: isEnum, version, captures, mark } of listIn(read.tables)) {
    const table = {
      ...trackedTable({ schema: schema as string, name: name as string }),
      configuration: configuration as Json,
      isEnum: (isEnum as Json) === true,
      version: version as string | null,
      captures: captures as unknown as Definitions,
    }
    const key = tableKey(table.ref)
    const before = known?.marks.get(key) === mark ? known?.metadata.tables.get(key) : undefined
    if (!before) changed.push(table)
    tables.set(key, before ?? table)
    marks.set(key, mark as string)
  }
  const permissions: PermissionPool = new Map()
  for (let from = 0; from < changed.length; from += BATCH) {
    await readTables(client, changed.slice(from, from + BATCH), permissions)
  }
  const templates = listIn(read.templates).map((row) => row as unknown as TemplateRow)
  const functions = listIn(read.functions).map((row): TrackedFunction => {
    const { schema, name, roles, ...rest } = row as unknown as TrackedFunction & TableRef & { roles: string[] }
    return { ...rest, ref: { schema, name }, roles: new Set(roles) }
  })
  const metadata = {
    version: read.version,
    tables,
    templates: new Map(templates.map((row) => [row.name, row])),
    functions: new Map(functions.map((row) => [tableKey(row.ref), row])),
    roles: new Map(Object.entries(parseJson(read.roles, NO_LIMITS) as Record<string, string[]>)),
  }
  return { metadata, marks }
}

/** Equal permissions are stored once, keyed by all of their content. */
type PermissionPool = Map<string, { readonly key: string; readonly row: PermissionRow }>

/** Reads the metadata of some tables into them. */
async function readTables(client: ClientBase, wanted: readonly TrackedTable[], pool: PermissionPool): Promise<void> {
  const rows = await prepared<Record<keyof typeof READ_TABLES, string>>(
    client,
    'rowhouse metadata of tables',
    `with wanted as (
      select * from pg_catalog.json_to_recordset(pg_catalog.current_setting('rowhouse.tables')::json) as w(schema text, name text)
    ) ${columnsOf(READ_TABLES)}`,
    { tables: JSON.stringify(wanted.map(({ ref }) => ref)) },
  )
  const read = rows[0] as Record<keyof typeof READ_TABLES, string>
  const tables = new Map(wanted.map((table) => [tableKey(table.ref), table]))
  const tableOf = (row: Record<string, string>) => tables.get(`${row['schema']}\0${row['table']}`)
  for (const row of listIn(read.relationships)) {
    const { name, type, definition, comment } = row as unknown as RelationshipRow
    tableOf(row)?.relationships.set(name, { name, type, definition, comment })
  }
  for (const row of listIn(read.computed_fields)) {
    const { name, definition, comment } = row as unknown as ComputedFieldRow
    tableOf(row)?.computedFields.set(name, { name, definition, comment })
  }
  for (const { schema, table, rows: permissions } of JSON.parse(read.permissions) as ReadPermissions[]) {
    const tracked = tables.get(tableKey({ schema, name: table }))
    for (const [role, type, text, comment] of permissions) {
      const all = JSON.stringify([role, type, text, comment])
      let known = pool.get(all)
      if (!known) {
        const row = { role, type, definition: parseJson(text, NO_LIMITS), comment }
        pool.set(all, (known = { key: permissionKey(role, type), row }))
      }
      tracked?.permissions.set(known.key, known.row)
    }
  }
}

const columnsOf = (queries: Readonly<Record<string, string>>): string =>
  `select ${Object.entries(queries)
    .map(([key, query]) => `(${query})::text as ${key}`)
    .join(', ')}`

const listIn = (text: string) => parseJson(text, NO_LIMITS) as unknown as Record<string, string & Json>[]

/**
 * Permissions are most of the metadata, so their keys are not repeated, and each distinct definition is parsed once.
 */
interface ReadPermissions {
  readonly schema: string
  readonly table: string
  readonly rows: readonly (readonly [role: string, type: PermissionType, definition: string, comment: string | null])[]
}

const READ = {
  version: 'select version from svc_catalog.svc_version',
  tables: `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('schema', table_schema, 'name', table_name,
    'configuration', configuration, 'is_enum', is_enum, 'version', version_column, 'captures', captures,
    'mark', pg_catalog.concat(mark, configuration, case when is_enum then ' enum' end, ' version ' || version_column, nullif(captures, '{}')))
    order by table_schema, table_name), '[]')
    from svc_catalog.svc_table left join (
      select table_schema, table_name,
        pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.string_agg(said, '' order by said collate "C"), 'UTF8')), 'base64') as mark
      from (
        select table_schema, table_name, 'relationship ' || r::text as said from svc_catalog.svc_relationship r
        union all select table_schema, table_name, 'field ' || f::text from svc_catalog.svc_computed_field f
        union all select table_schema, table_name, 'permission ' || p::text from svc_catalog.svc_permission p
      ) said group by table_schema, table_name
    ) marks using (table_schema, table_name)`,
  templates: `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', template_name, 'definition', template_defn,
    'comment', comment) order by template_name), '[]') from svc_catalog.svc_query_template`,
  functions: `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('schema', function_schema, 'name', function_name,
    'configuration', configuration, 'comment', comment, 'roles', array(
      select role_name from svc_catalog.svc_function_permission p
      where (p.function_schema, p.function_name) = (f.function_schema, f.function_name) order by role_name))
    order by function_schema, function_name), '[]') from svc_catalog.svc_function f`,
  roles: `select coalesce(pg_catalog.json_object_agg(role_name, role_set order by role_name), '{}') from svc_catalog.svc_inherited_role`,
}

/** For the tables in `wanted`; the primary keys serve the joins. */
const READ_TABLES = {
  relationships: `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('schema', table_schema, 'table', table_name,
    'name', rel_name, 'type', rel_type, 'definition', rel_def, 'comment', comment)
    order by rel_name), '[]')
    from wanted join svc_catalog.svc_relationship on (table_schema, table_name) = (wanted.schema, wanted.name)`,
  permissions: `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('schema', table_schema, 'table', table_name, 'rows', rows)), '[]')
    from (select table_schema, table_name,
      pg_catalog.json_agg(pg_catalog.json_build_array(role_name, perm_type, perm_def::text, comment) order by role_name, perm_type) as rows
      from wanted join svc_catalog.svc_permission on (table_schema, table_name) = (wanted.schema, wanted.name)
      group by table_schema, table_name) p`,
  computed_fields: `select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('schema', table_schema, 'table', table_name,
    'name', field_name, 'definition', field_def, 'comment', comment)
    order by field_name), '[]')
    from wanted join svc_catalog.svc_computed_field on (table_schema, table_name) = (wanted.schema, wanted.name)`,
}

/** Copies metadata for changes. The tables are shared: call `copyTable` before changing one. */
export function copyMetadata({ version, tables, templates, functions, roles }: Metadata): Metadata {
  return {
    version,
    tables: new Map(tables),
    templates: new Map(templates),
    functions: new Map(functions),
    roles: new Map(roles),
  }
}

export const copyTable = (table: TrackedTable): TrackedTable => ({
  ...table,
  relationships: new Map(table.relationships),
  computedFields: new Map(table.computedFields),
  permissions: new Map(table.permissions),
})

/** Writes the difference between two states. Tables go first and last, because the other rows refer to them. */
export async function writeMetadata(client: ClientBase, before: Metadata, after: Metadata): Promise<void> {
  const [oldTables, newTables] = [without(before, after), without(after, before)]
  for (const { name, key, rows } of STORES) {
    const byKey = (metadata: Metadata) =>
      new Map(rows(metadata).map((row) => [JSON.stringify(key.map((column) => row[column])), row]))
    const [old, now] = [byKey({ ...before, tables: oldTables }), byKey({ ...after, tables: newTables })]
    const gone = [...old].filter(([id]) => !now.has(id)).map(([, row]) => row)
    if (gone.length > 0) {
      const match = key.map((column) => `stored.${column} = gone.${column}`).join(' and ')
      await client.query(
        `delete from svc_catalog.${name} stored
         using pg_catalog.json_populate_recordset(null::svc_catalog.${name}, $1::json) gone where ${match}`,
        [stringifyJson(gone)],
      )
    }
    const changed = [...now]
      .filter(([id, row]) => stringifyJson(row) !== stringifyJson(old.get(id) ?? null))
      .map(([, row]) => row)
    if (changed.length > 0) {
      await client.query(
        `insert into svc_catalog.${name}
         select * from pg_catalog.json_populate_recordset(null::svc_catalog.${name}, $1::json)
         on conflict (${key.join(', ')}) ${replacing(key, changed)}`,
        [stringifyJson(changed)],
      )
    }
  }
}

/** Returns the tables that differ from the other state. */
function without({ tables }: Metadata, other: Metadata): Map<string, TrackedTable> {
  return new Map([...tables].filter(([key, table]) => table !== other.tables.get(key)))
}

/** Returns the conflict clause that replaces all columns of an existing row except its key. */
function replacing(key: readonly string[], [row = {}]: readonly object[]): string {
  const columns = Object.keys(row).filter((column) => !key.includes(column))
  return columns.length === 0
    ? 'do nothing'
    : `do update set ${columns.map((column) => `${column} = excluded.${column}`).join(', ')}`
}

type Row = { readonly [column: string]: Json }
/** A table of `svc_catalog`, the columns of its key, and the rows that it has for metadata. */
interface Store {
  readonly name: string
  readonly key: readonly string[]
  rows(metadata: Metadata): readonly Row[]
}
const TABLE_KEY = ['table_schema', 'table_name']
const FUNCTION_KEY = ['function_schema', 'function_name']

/** A store of what belongs to tables. */
const perTable = (name: string, key: readonly string[], rows: (table: TrackedTable) => readonly Row[]): Store => ({
  name,
  key: [...TABLE_KEY, ...key],
  rows: ({ tables }) =>
    [...tables.values()].flatMap((table) => {
      const { schema, name } = table.ref
      return rows(table).map((row) => ({ table_schema: schema, table_name: name, ...row }))
    }),
})

const STORES: readonly Store[] = [
  perTable('svc_table', [], ({ configuration, isEnum, version, captures }) => [
    { configuration, is_enum: isEnum, version_column: version, captures: captures as JsonObject },
  ]),
  perTable('svc_relationship', ['rel_name'], ({ relationships }) =>
    [...relationships.values()].map(({ name, type, definition, comment }) => {
      return { rel_name: name, rel_type: type, rel_def: definition, comment }
    }),
  ),
  perTable('svc_permission', ['role_name', 'perm_type'], ({ permissions }) =>
    [...permissions.values()].map(({ role, type, definition, comment }) => {
      return { role_name: role, perm_type: type, perm_def: definition, comment }
    }),
  ),
  perTable('svc_computed_field', ['field_name'], ({ computedFields }) =>
    [...computedFields.values()].map(({ name, definition, comment }) => {
      return { field_name: name, field_def: definition, comment }
    }),
  ),
  {
    name: 'svc_function',
    key: FUNCTION_KEY,
    rows: ({ functions }) =>
      [...functions.values()].map(({ ref, configuration, comment }) => {
        return { ...functionColumns(ref), configuration, comment }
      }),
  },
  {
    name: 'svc_function_permission',
    key: [...FUNCTION_KEY, 'role_name'],
    rows: ({ functions }) =>
      [...functions.values()].flatMap(({ ref, roles }) =>
        [...roles].map((role) => ({ ...functionColumns(ref), role_name: role })),
      ),
  },
  {
    name: 'svc_query_template',
    key: ['template_name'],
    rows: ({ templates }) =>
      [...templates.values()].map(({ name, definition, comment }) => {
        return { template_name: name, template_defn: definition, comment }
      }),
  },
  {
    name: 'svc_inherited_role',
    key: ['role_name'],
    rows: ({ roles }) => [...roles].map(([role, parts]) => ({ role_name: role, role_set: [...parts] })),
  },
]

const functionColumns = ({ schema, name }: TableRef) => ({ function_schema: schema, function_name: name })
