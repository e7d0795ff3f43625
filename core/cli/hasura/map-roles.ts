import { type Json, type JsonObject, stringifyJson } from '../../json/parse.js'
import { isObject } from '../../plan/encode.js'
import { labelOf, listOf, objects, textOf } from './metadata.js'
import type { Report } from './report.js'

/** Tables and functions in the format of Hasura. */
interface Owners {
  readonly tables: readonly JsonObject[]
  readonly functions: readonly Json[]
}

/** An inherited role. */
interface InheritedRole {
  readonly role: string
  readonly members: readonly string[]
}

const PERMISSIONS = ['insert_permissions', 'select_permissions', 'update_permissions', 'delete_permissions']

/**
 * Renames the role of callers without credentials, and gives inherited roles copies of the permissions of their members.
 * @param anonymous name of the role of callers without credentials in Hasura
 * @throws Error if another role has the name that this role gets
 */
export function mapRoles(given: JsonObject, source: JsonObject, anonymous: string | undefined, report: Report): Owners {
  const rename = (role: Json | undefined) =>
    typeof role === 'string' && role === anonymous ? 'anonymous' : textOf(role)
  const renamed = (entries: Json | undefined) =>
    objects(entries).map((each) => ({ ...each, role: rename(each['role']) }))
  let owners: Owners = {
    tables: objects(source['tables']).map((table) => withLists(table, PERMISSIONS, (list) => renamed(table[list]))),
    functions: listOf(source['functions']).map((entry) =>
      isObject(entry) ? withLists(entry, ['permissions'], () => renamed(entry['permissions'])) : entry,
    ),
  }
  const inheriting = objects(given['inherited_roles']).map((each) => ({
    role: rename(each['role_name']),
    members: listOf(each['role_set']).map(rename),
  }))
  if (anonymous !== undefined && anonymous !== 'anonymous') refuseAnonymous(given, source, anonymous)
  for (const role of inOrder(inheriting, report)) {
    owners = {
      tables: owners.tables.map((table) =>
        withLists(table, PERMISSIONS, (list) => inherited(table, list, role, report)),
      ),
      functions: owners.functions.map((entry) =>
        isObject(entry) ? withLists(entry, ['permissions'], () => inheritedCalls(entry, role)) : entry,
      ),
    }
    const why = `has copies of the permissions of ${role.members.join(', ')}: change them together`
    report.note('inherited role', role.role, why)
  }
  return owners
}

/** Otherwise callers without credentials would get the permissions of another role. */
function refuseAnonymous(given: JsonObject, source: JsonObject, anonymous: string): void {
  const tables = objects(source['tables']).flatMap((table) => PERMISSIONS.flatMap((list) => objects(table[list])))
  const functions = objects(source['functions']).flatMap(({ permissions }) => objects(permissions))
  const inheriting = objects(given['inherited_roles']).flatMap((each) => [
    each['role_name'],
    ...listOf(each['role_set']),
  ])
  const roles = [...[...tables, ...functions].map(({ role }) => role), ...inheriting]
  if (!roles.includes('anonymous')) return
  throw new Error(
    `the project has a role "anonymous" besides "${anonymous}": rename it first, or callers without credentials would have it`,
  )
}

/** Replaces the lists that an object has. */
function withLists(object: JsonObject, lists: readonly string[], replace: (list: string) => Json[]): JsonObject {
  const own = lists.filter((list) => Array.isArray(object[list]))
  return { ...object, ...Object.fromEntries(own.map((list) => [list, replace(list)])) }
}

/** Returns inherited roles after those that they inherit from. */
function inOrder(inheriting: readonly InheritedRole[], report: Report): readonly InheritedRole[] {
  const ordered: InheritedRole[] = []
  for (let rest = inheriting; rest.length > 0;) {
    const waiting = new Set(rest.map(({ role }) => role))
    const ready = rest.filter(({ members }) => !members.some((member) => waiting.has(member)))
    if (ready.length === 0) {
      for (const { role } of rest) report.leave('inherited role', role, 'it inherits from itself')
      return ordered
    }
    ordered.push(...ready)
    rest = rest.filter((each) => !ready.includes(each))
  }
  return ordered
}

/** Returns the permissions of a list, with one for an inherited role that has none of its own. */
function inherited(table: JsonObject, list: string, { role, members }: InheritedRole, report: Report): Json[] {
  const all = [...objects(table[list])]
  const found = all.filter((each) => members.includes(textOf(each['role'])))
  if (found.length === 0 || all.some((each) => each['role'] === role)) return all
  const given = found.map(({ permission }) => (isObject(permission) ? permission : {}))
  const permission = list === 'select_permissions' ? union(given) : identical(given)
  if (permission) return [...all, { role, permission }]
  const [kind, name] = [list.replace('_permissions', ' permission'), `${labelOf(table['table'])}.${role}`]
  const of = found.map((each) => textOf(each['role'])).join(', ')
  if (list !== 'select_permissions') report.note(kind, name, `${of} differ, so it has none, as in Hasura`)
  else report.leave(kind, name, `${of} may select different columns of different rows`)
  return all
}

/** Returns the permission, if all are the same. Hasura gives an inherited role no other one to write. */
function identical(permissions: readonly JsonObject[]): JsonObject | undefined {
  const columnsOf = ({ columns = null }: JsonObject) => (Array.isArray(columns) ? namesIn(columns) : columns)
  return isSame(permissions.map((each) => ({ ...each, columns: columnsOf(each) }))) ? permissions[0] : undefined
}

/** Returns a permission to select what any of them selects, or undefined where a column is visible in some rows only. */
function union(permissions: readonly JsonObject[]): JsonObject | undefined {
  const [first] = permissions
  if (permissions.length === 1) return first
  const all = permissions.map(
    ({ columns = [], computed_fields: computed = [], filter = null, limit, allow_aggregations: counts, ...rest }) => ({
      columns: columns === '*' ? columns : namesIn(columns),
      computed: namesIn(computed),
      filter,
      limit,
      counts,
      rest,
    }),
  )
  const sameRows = isSame(all.map(({ filter }) => filter))
  const sameFields = isSame(all.map(({ columns, computed }) => [columns, computed]))
  if (!isSame(all.map(({ rest }) => rest)) || !(sameRows || sameFields)) return undefined
  const limits = all.map(({ limit }) => limit).filter((limit) => typeof limit === 'number')
  return {
    ...all[0]?.rest,
    columns: all.some(({ columns }) => columns === '*')
      ? '*'
      : [...new Set(all.flatMap(({ columns }) => listOf(columns)))],
    computed_fields: [...new Set(all.flatMap(({ computed }) => computed))],
    filter: sameRows ? (all[0]?.filter ?? null) : { _or: all.map(({ filter }) => filter) },
    ...(limits.length > 0 ? { limit: Math.max(...limits) } : {}),
    allow_aggregations: all.some(({ counts }) => counts === true),
  }
}

const namesIn = (list: Json): string[] => [...new Set(listOf(list).map(textOf))].sort()
const isSame = (values: readonly Json[]): boolean => new Set(values.map((value) => stringifyJson(value))).size === 1

/** Returns the permissions of a function, with one for an inherited role whose members may call it. */
function inheritedCalls(entry: JsonObject, { role, members }: InheritedRole): Json[] {
  const all = [...objects(entry['permissions'])]
  const roles = all.map((each) => textOf(each['role']))
  return roles.includes(role) || !members.some((member) => roles.includes(member)) ? all : [...all, { role }]
}
