import {
  permissionKey,
  type PermissionRow,
  permissionsAgree,
  permissionsFor,
  type PermissionType,
  rolesInOrder,
  WRITE_TYPES,
} from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import { labelOf, listOf, objects, textOf } from './metadata.js'
import type { Report } from './report.js'

/** Tables and functions in the format of Hasura. */
interface Owners {
  readonly tables: readonly JsonObject[]
  readonly functions: readonly Json[]
  readonly inheriting: readonly InheritedRole[]
}

/** An inherited role. */
interface InheritedRole {
  readonly role: string
  readonly members: readonly string[]
}

const PERMISSIONS = ['insert_permissions', 'select_permissions', 'update_permissions', 'delete_permissions']

/**
 * Renames the role of callers without credentials, and finds the inherited roles.
 * @param anonymous name of the role of callers without credentials in Hasura
 * @throws Error if another role has the name that this role gets
 */
export function mapRoles(given: JsonObject, source: JsonObject, anonymous: string | undefined, report: Report): Owners {
  const rename = (role: Json | undefined) =>
    typeof role === 'string' && role === anonymous ? 'anonymous' : textOf(role)
  const renamed = (entries: Json | undefined) =>
    objects(entries).map((each) => ({ ...each, role: rename(each['role']) }))
  const owners = {
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
  return { ...owners, inheriting: valid(inheriting, report) }
}

/** Leaves out roles that inherit from themselves, and lists that are empty. */
function valid(inheriting: readonly InheritedRole[], report: Report): readonly InheritedRole[] {
  const ordered = new Set(rolesInOrder(new Map(inheriting.map(({ role, members }) => [role, members]))))
  for (const { role } of inheriting) {
    if (!ordered.has(role)) report.leave('inherited role', role, 'it inherits from itself')
  }
  return inheriting.filter(({ role, members }) => ordered.has(role) && members.length > 0)
}

/**
 * Gives inherited roles permissions of their own where those of their members differ, because the server refuses such
 * roles: Hasura gives them none to write. The lists of the tables are changed.
 * @param tables as `replace_metadata` takes them
 */
export function denyConflicts(
  tables: readonly JsonObject[],
  inheriting: readonly InheritedRole[],
  report: Report,
): void {
  const roles = new Map(inheriting.map(({ role, members }) => [role, members]))
  for (const table of tables) {
    for (const type of WRITE_TYPES) {
      const list = (table[`${type}_permissions`] ?? []) as JsonObject[]
      for (const role of rolesInOrder(roles)) {
        const permissions = new Map(list.map((each) => rowOf(each, type)))
        const rows = permissionsFor({ permissions }, role, type, roles)
        if (permissionsAgree(rows)) continue
        // Whether an insert may also update depends on other permissions of each member.
        const plain = rows.map((row) => ({ ...row, definition: withoutUpsert(row.definition as JsonObject) }))
        const isSame = permissionsAgree(plain)
        list.push({ role, permission: isSame ? (plain[0]?.definition as Json) : NOTHING[type], comment: null })
        if (isSame) continue
        const of = rows.map((row) => row.role).join(', ')
        const name = `${labelOf(table['table'])}.${role}`
        report.note(`${type} permission`, name, `${of} differ, so it allows nothing, as in Hasura`)
      }
    }
  }
}

/** Permissions that allow nothing. */
const NOTHING: Readonly<Record<(typeof WRITE_TYPES)[number], JsonObject>> = {
  insert: { columns: [], check: { $or: [] } },
  update: { columns: [], filter: { $or: [] } },
  delete: { filter: { $or: [] } },
}

function rowOf({ role, permission }: JsonObject, type: PermissionType): readonly [string, PermissionRow] {
  const row = { role: textOf(role), type, definition: permission ?? null, comment: null }
  return [permissionKey(row.role, type), row]
}

const withoutUpsert = (permission: JsonObject): JsonObject =>
  'allow_upsert' in permission ? { ...permission, allow_upsert: false } : permission

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
