import { ROLE_NAME } from 'rowhouse'
import { isObject, type Json, type JsonObject, ROOT_FIELD_KINDS } from 'rowhouse/plan'
import { leaveCronTrigger, mapEventTriggers } from './map-events.js'
import { mapPermission, type PermissionType } from './map-permission.js'
import { mapRequests } from './map-requests.js'
import { denyConflicts, mapRoles } from './map-roles.js'
import { labelOf, listOf, mapName, type Metadata, objects, remoteOf, textOf } from './metadata.js'
import { Report } from './report.js'

interface Mapped {
  readonly metadata: Metadata
  readonly report: Report
}

/** Kinds of sources that are PostgreSQL. */
const POSTGRES = new Set(['postgres', 'pg', 'citus', 'cockroach', 'alloy'])

/** What Rowhouse does not have: the name of each part by the key of its list. */
const LISTS: Readonly<Record<string, string>> = {
  remote_schemas: 'remote schema',
  actions: 'action',
}

/**
 * Moves the metadata of Hasura (version 1, 2 or 3). Everything that has no equivalent is in the report.
 * @param only name of the source; default: the first PostgreSQL database, or the one called `default`
 * @param anonymous name of the role of callers without credentials; default: `anonymous`
 * @throws Error when it contains no such database
 */
export function mapMetadata(given: JsonObject, only?: string, anonymous?: string): Mapped {
  const report = new Report()
  const source = chosen(given, only, report)
  mapNaming(source['customization'], report)
  const { tables, functions, inheriting } = mapRoles(given, source, anonymous, report)
  const metadata: Metadata = {
    tables: tables.map((table) => mapTable(table, report)),
    functions: functions.map((each) => mapFunction(each, report)),
    query_templates: [],
    inherited_roles: inheriting.map(({ role, members }) => ({ role, roles: [...members] })),
  }
  denyConflicts(metadata.tables, inheriting, report)
  for (const [key, value] of Object.entries(source)) leaveRest('source', key, value, SOURCE_KEYS, report)
  for (const [key, value] of Object.entries(given)) leaveTop(key, value, report)
  mapRequests(given, metadata, report)
  noteRoles(metadata, report)
  noteOrders(metadata, report)
  if (report.graphql['inferFunctionPermissions'] === true) {
    report.note(
      'function',
      'inferFunctionPermissions',
      `leave it out if HASURA_GRAPHQL_INFER_FUNCTION_PERMISSIONS is false. It is for functions that are stable or immutable; for others, ${GRANT}`,
    )
  }
  return { metadata, report }
}

/** Notes the aggregates by which a role sorts in Hasura, and not here. */
function noteOrders({ tables }: Metadata, report: Report): void {
  const selects = (table: JsonObject | undefined) => objects(table?.['select_permissions'])
  const byName = new Map(tables.map((table) => [labelOf(table['table']), table]))
  for (const table of tables) {
    const roles = new Set(selects(table).map(({ role }) => textOf(role)))
    for (const relationship of objects(table['array_relationships'])) {
      const remote = byName.get(labelOf(remoteOf(relationship) ?? null))
      for (const { role, permission } of selects(remote)) {
        if (!roles.has(textOf(role)) || (permission as JsonObject)['allow_aggregations'] === true) continue
        const name = `${labelOf(table['table'])}.${textOf(relationship['name'])}.${textOf(role)}`
        report.note(
          'order_by by aggregates',
          name,
          'needs allow_aggregations of the other table, which Hasura does not',
        )
      }
    }
  }
}

const SOURCE_KEYS = new Set(['name', 'kind', 'tables', 'functions', 'configuration', 'customization'])

/** Moves the naming convention of a source, and reports prefixes and suffixes of its names. */
function mapNaming(given: Json | undefined, report: Report): void {
  const { naming_convention: naming, ...rest } = isObject(given) ? given : {}
  if (naming === 'graphql-default') report.graphql['namingConvention'] = naming
  for (const [key, value] of Object.entries(rest)) leaveRest('source', `customization.${key}`, value, NONE, report)
}
const NONE: ReadonlySet<string> = new Set()

/** Returns the source to move, and reports the others. */
function chosen(given: JsonObject, only: string | undefined, report: Report): JsonObject {
  if (given['sources'] === undefined) {
    if (!Array.isArray(given['tables']))
      throw new Error('expected metadata of Hasura, with the key "sources" or "tables"')
    return { name: 'default', kind: 'postgres', tables: given['tables'], functions: given['functions'] ?? [] }
  }
  const sources = objects(given['sources'])
  const usable = sources.filter(({ kind = 'postgres' }) => POSTGRES.has(textOf(kind)))
  const found =
    only === undefined
      ? (usable.find(({ name }) => name === 'default') ?? usable[0])
      : usable.find(({ name }) => name === only)
  if (!found) {
    const names = usable.map(({ name }) => textOf(name)).join(', ')
    throw new Error(
      `no PostgreSQL source${only === undefined ? '' : ` "${only}"`}; the metadata has: ${names || 'none'}`,
    )
  }
  for (const source of sources.filter((each) => each !== found)) {
    const kind = textOf(source['kind'] ?? 'postgres')
    const tables = `${listOf(source['tables']).length} tables`
    if (usable.includes(source)) report.leave('source', textOf(source['name']), tables)
    else report.leave(`${kind} database`, textOf(source['name']), `${tables}; only PostgreSQL is supported`)
  }
  return found
}

function leaveTop(key: string, value: Json, report: Report): void {
  const kind = Object.hasOwn(LISTS, key) ? LISTS[key] : undefined
  if (key === 'cron_triggers') {
    for (const each of objects(value)) leaveCronTrigger(each, report)
  } else if (kind !== undefined) {
    for (const each of objects(value)) report.leave(kind, textOf(each['name']))
  } else if (key === 'custom_types') {
    for (const types of isObject(value) ? Object.values(value) : []) {
      for (const each of objects(types)) report.leave('custom type', textOf(each['name']))
    }
  } else if (key === 'api_limits') {
    if (!isEmpty(value)) report.leave('api limits', Object.keys(value as object).join(', '))
  } else if (key === 'graphql_schema_introspection') {
    const roles = isObject(value) ? listOf(value['disabled_for_roles']).map(textOf) : []
    if (roles.length > 0) report.leave('introspection', `disabled for ${roles.join(', ')}`)
  } else leaveRest('setting', key, value, TOP_KEYS, report)
}

/** Keys that are moved elsewhere. */
const TOP_KEYS = new Set([
  'version',
  'resource_version',
  'sources',
  'tables',
  'functions',
  'query_collections',
  'rest_endpoints',
  'allowlist',
  'inherited_roles',
])

/** Reports a key that nothing else takes, unless it is empty. */
function leaveRest(kind: string, key: string, value: Json, taken: ReadonlySet<string>, report: Report): void {
  if (!taken.has(key) && !isEmpty(value)) report.leave(kind, key, 'it has no equivalent')
}

const RELATIONSHIPS = ['object_relationships', 'array_relationships']
const PERMISSIONS: Readonly<Record<string, PermissionType>> = {
  insert_permissions: 'insert',
  select_permissions: 'select',
  update_permissions: 'update',
  delete_permissions: 'delete',
}
const TABLE_KEYS = new Set([
  'table',
  'is_enum',
  'configuration',
  'computed_fields',
  'event_triggers',
  'remote_relationships',
  ...RELATIONSHIPS,
  ...Object.keys(PERMISSIONS),
])

function mapTable(given: JsonObject, report: Report): JsonObject {
  const name = labelOf(given['table'])
  const table: JsonObject = { table: mapName(given['table']) }
  if (given['is_enum'] === true) table['is_enum'] = true
  const configuration = mapConfiguration(given['configuration'], name, report)
  if (configuration) table['configuration'] = configuration
  for (const key of RELATIONSHIPS) {
    table[key] = objects(given[key]).map(mapRelationship)
  }
  for (const { name: field, definition } of objects(given['computed_fields'])) {
    if (isObject(definition) && !isEmpty(definition['session_argument'] ?? null)) {
      noteSession('computed field', `${name}.${textOf(field)}`, report)
    }
  }
  table['computed_fields'] = objects(given['computed_fields']).map((each) => ({
    name: each['name'] ?? null,
    definition: mapFunctionNames(each['definition']),
    ...commentOf(each),
  }))
  for (const [key, type] of Object.entries(PERMISSIONS)) {
    table[key] = objects(given[key]).flatMap((each) => {
      const role = textOf(each['role'])
      const moved = mapRole(type, each)
      if ('reason' in moved) {
        report.leave(`${type} permission`, `${name}.${role}`, moved.reason)
        return []
      }
      for (const note of moved.notes) report.note(`${type} permission`, `${name}.${role}`, note)
      return [{ role, permission: moved.permission, ...commentOf(each) }]
    })
  }
  const events = mapEventTriggers(given, name, report)
  if (events) table['captures'] = { events }
  for (const each of objects(given['remote_relationships'])) {
    report.leave('remote relationship', `${name}.${textOf(each['name'])}`)
  }
  for (const [key, value] of Object.entries(given)) leaveRest(`table ${name}`, key, value, TABLE_KEYS, report)
  return table
}

function mapRole(type: PermissionType, given: JsonObject) {
  const role = textOf(given['role'])
  if (!ROLE_NAME.test(role)) return { reason: 'the name of a role has 1 to 64 of A-Z a-z 0-9 _ . -' }
  if (role === 'admin') return { reason: 'the role admin may do everything' }
  return mapPermission(type, isObject(given['permission']) ? given['permission'] : {})
}

function mapRelationship(given: JsonObject): JsonObject {
  const using = isObject(given['using']) ? given['using'] : {}
  const { foreign_key_constraint_on: foreign, manual_configuration: manual } = using
  const row = { name: given['name'] ?? null, ...commentOf(given) }
  if (isObject(manual)) {
    const { insertion_order: order = null, ...rest } = manual
    const moved = { ...rest, remote_table: mapName(rest['remote_table']) }
    // Exports have the key with null, which says nothing.
    return { ...row, using: { manual_configuration: order === null ? moved : { ...moved, insertion_order: order } } }
  }
  if (isObject(foreign)) {
    return { ...row, using: { foreign_key_constraint_on: { ...foreign, table: mapName(foreign['table']) } } }
  }
  return { ...row, using: { foreign_key_constraint_on: foreign ?? null } }
}

/** Returns the names of a table in GraphQL, or undefined if they are those of the database. */
function mapConfiguration(given: Json | undefined, table: string, report: Report): JsonObject | undefined {
  if (!isObject(given)) return undefined
  const {
    custom_name: name,
    custom_root_fields: roots,
    custom_column_names: names,
    column_config: config,
    ...rest
  } = given
  const moved: JsonObject = {}
  if (typeof name === 'string') moved['custom_name'] = name
  const fields = Object.entries(isObject(roots) ? roots : {}).flatMap(([kind, value]) => {
    const field = isObject(value) ? value['name'] : value
    if (isObject(value) && typeof value['comment'] === 'string') {
      report.note('root field', `${table}.${kind}`, 'its comment has no equivalent')
    }
    if (typeof field !== 'string') return []
    if ((ROOT_FIELD_KINDS as readonly string[]).includes(kind)) return [[kind, field] as const]
    report.leave('root field', `${table}.${kind}`, `Rowhouse has no such root field (${field})`)
    return []
  })
  if (fields.length > 0) moved['custom_root_fields'] = Object.fromEntries(fields)
  const columns = new Map(Object.entries(isObject(names) ? names : {}))
  for (const [column, value] of Object.entries(isObject(config) ? config : {})) {
    if (!isObject(value)) continue
    if (typeof value['custom_name'] === 'string') columns.set(column, value['custom_name'])
    if (typeof value['comment'] === 'string')
      report.note('column', `${table}.${column}`, 'its comment has no equivalent')
  }
  if (columns.size > 0) {
    moved['column_config'] = Object.fromEntries(
      [...columns].map(([column, custom]) => [column, { custom_name: custom }]),
    )
  }
  for (const [key, value] of Object.entries(rest)) {
    if (key === 'comment' && !isEmpty(value)) report.note('table', table, 'its comment has no equivalent')
    else if (!isEmpty(value)) report.leave('table', table, `configuration.${key} has no equivalent`)
  }
  return isEmpty(moved) ? undefined : moved
}

function mapFunction(given: Json, report: Report): JsonObject {
  const entry = isObject(given) && given['function'] !== undefined ? given : { function: given }
  const name = labelOf(entry['function'])
  const moved: JsonObject = { function: mapName(entry['function']), ...commentOf(entry) }
  const { custom_root_fields: roots, ...others } = isObject(entry['configuration']) ? entry['configuration'] : {}
  const configuration: JsonObject = {}
  for (const [key, value] of Object.entries(others)) {
    if (isEmpty(value)) continue
    if (['session_argument', 'exposed_as', 'custom_name'].includes(key)) configuration[key] = value
    else report.leave('function', name, `configuration.${key} has no equivalent`)
  }
  if (isObject(roots)) Object.assign(configuration, mapFunctionFields(roots, entry, others['custom_name'], report))
  moved['configuration'] = isEmpty(configuration) ? null : configuration
  const roles = objects(entry['permissions']).map((each) => textOf(each['role']))
  moved['permissions'] = roles.filter((role) => ROLE_NAME.test(role)).map((role) => ({ role }))
  for (const role of roles.filter((each) => !ROLE_NAME.test(each))) {
    report.leave('function permission', `${name}.${role}`, 'the name of a role has 1 to 64 of A-Z a-z 0-9 _ . -')
  }
  if (configuration['exposed_as'] === 'mutation') {
    if (roles.length === 0) report.note('function', name, `only admin may call it; ${GRANT}`)
  } else report.graphql['inferFunctionPermissions'] = true
  if (configuration['session_argument'] !== undefined) noteSession('function', name, report)
  return moved
}

/**
 * Returns the name of the root field. Hasura names each root field of a function, and the type of its arguments by
 * `custom_name`; here one name is the beginning of all.
 */
function mapFunctionFields(
  { function: field, function_aggregate: aggregate, ...rest }: JsonObject,
  entry: JsonObject,
  custom: Json | undefined,
  report: Report,
): JsonObject {
  const name = labelOf(entry['function'])
  const unit = typeof custom === 'string' ? custom : name.replace('.', '_')
  const root = typeof field === 'string' ? field : unit
  const suffix = report.graphql['namingConvention'] === undefined ? '_aggregate' : 'Aggregate'
  if (typeof aggregate === 'string') {
    if (aggregate !== root + suffix) report.leave('function', name, `its aggregate cannot be called ${aggregate}`)
  } else if (root !== unit) {
    report.note('function', name, `the name of its aggregate begins with ${root} instead of ${unit}`)
  }
  if (root !== unit) report.note('function', name, `the type of its args begins with ${root} instead of ${unit}`)
  for (const [key, value] of Object.entries(rest)) {
    if (!isEmpty(value)) report.leave('function', name, `configuration.custom_root_fields.${key} has no equivalent`)
  }
  return typeof field === 'string' ? { custom_name: field } : {}
}

const GRANT = 'grant roles with create_function_permission'

const noteSession = (kind: string, name: string, report: Report): void =>
  report.note(kind, name, 'the keys of its session argument begin with x-service-, unless auth.hasuraNames is on')

/** Tells how callers get the roles of the permissions, and which of these mean something else in Rowhouse. */
function noteRoles({ tables }: Metadata, report: Report): void {
  const roles = new Set(
    tables.flatMap((table) => Object.keys(PERMISSIONS).flatMap((key) => objects(table[key]).map(({ role }) => role))),
  )
  if (roles.size > 0) {
    const how = 'set auth.hasuraNames to true, or rename the X-Hasura-* headers of clients and claims of tokens'
    report.note('role', 'X-Hasura-Role', how)
  }
  if (roles.has('anonymous')) {
    report.note('role', 'anonymous', 'every caller without credentials has this role')
  }
}

const mapFunctionNames = (definition: Json | undefined): Json =>
  isObject(definition) ? { ...definition, function: mapName(definition['function']) } : (definition ?? null)

const commentOf = ({ comment }: JsonObject): JsonObject =>
  typeof comment === 'string' && comment !== '' ? { comment } : {}

function isEmpty(value: Json): boolean {
  if (Array.isArray(value)) return value.length === 0
  if (isObject(value)) return Object.values(value).every(isEmpty)
  return value === null || value === '' || value === false
}
