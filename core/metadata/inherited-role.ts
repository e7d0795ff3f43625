import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json, type JsonObject } from '../json/parse.js'
import { tableName } from '../catalog/catalog.js'
import { type Metadata, permissionKey, type PermissionRow, type PermissionType, type TrackedTable } from './metadata.js'

/** Inherited roles, and the roles from which each of them inherits. */
export type InheritedRoles = ReadonlyMap<string, readonly string[]>

/** The actions whose permissions a role inherits only if those of its parts agree. */
export const WRITES = ['insert', 'update', 'delete'] as const satisfies readonly PermissionType[]

/** Returns the inherited roles, each after those that it inherits from. Omits those that inherit from themselves. */
export function inOrder(roles: InheritedRoles): readonly string[] {
  const ordered = new Set<string>()
  const add = (role: string, path: readonly string[]): boolean => {
    const parts = roles.get(role)
    if (!parts || ordered.has(role)) return true
    if (path.includes(role) || !parts.every((part) => add(part, [...path, role]))) return false
    ordered.add(role)
    return true
  }
  for (const role of roles.keys()) add(role, [])
  return [...ordered]
}

/** Returns the path on which a role inherits from itself, if it does: `a`, `b`, `a`. */
export function cycleOf(role: string, roles: InheritedRoles): readonly string[] | undefined {
  const seen = new Set<string>()
  const find = (path: readonly string[]): readonly string[] | undefined => {
    for (const part of roles.get(path.at(-1) as string) ?? []) {
      if (part === role) return [...path, part]
      if (seen.has(part)) continue
      seen.add(part)
      const found = find([...path, part])
      if (found) return found
    }
    return undefined
  }
  return find([role])
}

/**
 * Returns the permissions that a role has for an action, each with the role that defines it: its own, or those of its
 * parts. A role may select what any of them selects; others count only if they agree.
 */
export function permissionsFor(
  { permissions }: Pick<TrackedTable, 'permissions'>,
  role: string,
  type: PermissionType,
  roles: InheritedRoles,
): readonly PermissionRow[] {
  const found = new Map<string, PermissionRow>()
  const seen = new Set<string>()
  const find = (each: string): void => {
    if (seen.has(each)) return
    seen.add(each)
    const own = permissions.get(permissionKey(each, type))
    if (own) found.set(each, own)
    else roles.get(each)?.forEach(find)
  }
  find(role)
  return [...found.values()]
}

/** Returns whether permissions to write say the same. */
export const agree = ([first, ...others]: readonly PermissionRow[]): boolean =>
  others.every((each) =>
    isDeepStrictEqual(comparable(each.definition), comparable((first as PermissionRow).definition)),
  )

const comparable = (definition: Json): Json => {
  if (!isObject(definition)) return definition
  const { columns } = definition
  return Array.isArray(columns)
    ? { ...definition, columns: (columns as readonly string[]).toSorted((a, b) => (a < b ? -1 : 1)) }
    : definition
}

/**
 * Returns the definition of what a role may do, as one permission. The columns of an inherited select permission are
 * those that it gives in some row.
 */
export function definitionFor(
  table: TrackedTable,
  role: string,
  type: PermissionType,
  roles: InheritedRoles,
): JsonObject | undefined {
  const rows = permissionsFor(table, role, type, roles)
  const [first] = rows
  if (!first || (type !== 'select' && !agree(rows))) return undefined
  const own = first.definition as JsonObject
  if (rows.length === 1 || type !== 'select') return own
  const all = rows.map(({ definition }) => definition as JsonObject)
  const union = (key: string): Json => {
    const names = all.flatMap((each) => each[key] ?? [])
    return names.includes('*') ? '*' : [...new Set(names)]
  }
  const filters = all.map(({ filter }) => (filter ?? {}) as JsonObject)
  const isOpen = filters.some((filter) => Object.keys(filter).length === 0)
  const limit = mostOf(all.map((each) => (typeof each['limit'] === 'number' ? each['limit'] : undefined)))
  return {
    columns: union('columns'),
    ...(all.some((each) => each['computed_fields']) ? { computed_fields: union('computed_fields') } : {}),
    filter: isOpen ? {} : { $or: filters },
    ...(limit === undefined ? {} : { limit }),
    ...(all.every((each) => each['allow_aggregations'] === true) ? { allow_aggregations: true } : {}),
  }
}

/** Returns the limit of a role whose parts have these limits: none if one of them has none. */
export const mostOf = (limits: readonly (number | undefined)[]): number | undefined =>
  limits.reduce((most, each) => (most === undefined || each === undefined ? undefined : Math.max(most, each)))

/** Permissions to write of a role's parts that contradict each other, so that the role has none. */
interface Conflict {
  readonly role: string
  readonly message: string
}

/** @param tables those to search; by default all */
export function conflictsIn(
  { roles, tables }: Pick<Metadata, 'roles' | 'tables'>,
  among: Iterable<TrackedTable> = tables.values(),
): readonly Conflict[] {
  if (roles.size === 0) return []
  return [...among].flatMap((table) =>
    WRITES.flatMap((type) =>
      [...roles.keys()].flatMap((role): Conflict[] => {
        const rows = permissionsFor(table, role, type, roles)
        if (rows.length < 2 || agree(rows)) return []
        const parts = rows.map((row) => `"${row.role}"`).join(' and ')
        const message = `role "${role}" would inherit different ${type} permissions on "${tableName(table.ref)}" from ${parts}; create one for role "${role}"`
        return [{ role, message }]
      }),
    ),
  )
}
