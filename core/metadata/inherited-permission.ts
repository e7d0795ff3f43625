import { type BoolExp, isTrue, TRUE } from '../ir.js'
import { permissionRole } from '../session.js'
import { maskOf, type RolePermissions, type SelectPermission } from '../catalog/catalog.js'
import { agree, type InheritedRoles, inOrder, mostOf, permissionsFor } from './inherited-role.js'
import { permissionKey, type PermissionType, type TrackedTable } from './metadata.js'

/** Permissions of a table, by the role of `permissionRole`. */
export type PermissionsByRole = Map<string, RolePermissions>

/** Stores expressions once each, and finds them. */
export interface Filters {
  readonly filters: readonly BoolExp[]
  readonly store: (exp: BoolExp) => number
}

/**
 * Adds what inherited roles may do with a table. A permission that a role has itself replaces the inherited one.
 * @param own permissions as they are defined
 */
export function inherit(own: PermissionsByRole, table: TrackedTable, roles: InheritedRoles, filters: Filters): void {
  for (const role of inOrder(roles)) {
    const backend = permissionRole({ role, backend: true })
    // The role of backend requests first, because it takes from parts what the plain role replaces.
    const isBackend = [role, ...(roles.get(role) ?? [])].some((each) =>
      own.has(permissionRole({ role: each, backend: true })),
    )
    for (const key of isBackend ? [backend, role] : [role]) {
      const parts = (roles.get(role) ?? []).flatMap((part) => {
        const asBackend = key === backend ? own.get(permissionRole({ role: part, backend: true })) : undefined
        return asBackend ?? own.get(part) ?? []
      })
      const mine = { ...own.get(role), ...own.get(key) }
      const others = inherited(role, parts, table, roles, filters, mine.select)
      const all = { ...others, ...(others.select ? ofSeen(mine) : mine), role: key }
      if (Object.keys(all).length > 1) own.set(key, all)
    }
  }
}

/** Returns the permissions of a role itself, which selects what others give it. */
function ofSeen(mine: Partial<RolePermissions>): Partial<RolePermissions> {
  const { update, delete: remove } = mine
  return {
    ...mine,
    ...(update ? { update: { ...update, seenOnly: true } } : {}),
    ...(remove ? { delete: { ...remove, seenOnly: true } } : {}),
  }
}

/** Returns what a role inherits from its parts. */
function inherited(
  role: string,
  parts: readonly RolePermissions[],
  table: TrackedTable,
  roles: InheritedRoles,
  filters: Filters,
  own: SelectPermission | undefined,
): Partial<RolePermissions> {
  // Also one that is inconsistent, or for backend requests only, replaces what would be inherited.
  const hasOwn = (type: PermissionType) => table.permissions.has(permissionKey(role, type))
  const select = united(hasOwn('select') ? [] : parts, filters)
  const agreed = (type: 'insert' | 'update' | 'delete') => {
    if (hasOwn(type)) return undefined
    const givers = parts.filter((part) => part[type] !== undefined)
    if (givers.length === 0 || !agree(permissionsFor(table, role, type, roles))) return undefined
    const giver = givers.find((part) => sameSelect(part.select, own ?? select))
    // A part that sees other rows or cells could not have told the rows apart.
    return giver?.[type] ?? { ...givers[0]?.[type], ...(type === 'insert' ? {} : { seenOnly: true as const }) }
  }
  const [insert, update, remove] = [agreed('insert'), agreed('update'), agreed('delete')]
  return {
    ...(insert ? { insert } : {}),
    ...(select ? { select } : {}),
    ...(update ? { update } : {}),
    ...(remove ? { delete: remove } : {}),
  } as Partial<RolePermissions>
}

/** Returns a permission to select the rows that any of some selects, and in each row the cells that any of them gives. */
function united(parts: readonly RolePermissions[], { filters, store }: Filters): SelectPermission | undefined {
  const all = parts.flatMap(({ select }) => select ?? [])
  const [first] = all
  if (!first) return undefined
  if (all.length === 1) return { ...first, parts: giversOf(parts) }
  const filterOf = (places: readonly number[]) => anyOf(places.map((place) => filters[place] as BoolExp))
  const filter = store(filterOf(all.map((each) => each.filter)))
  const columns = [...new Set(all.flatMap((each) => each.columns))]
  const computedFields = [...new Set(all.flatMap((each) => each.computedFields))]
  const masks = [...columns, ...computedFields].flatMap((name) => {
    const givers = all.filter((each) => each.columns.includes(name) || each.computedFields.includes(name))
    const place = store(filterOf(givers.map((each) => maskOf(each, name) ?? each.filter)))
    return place === filter ? [] : [[name, place] as const]
  })
  const limit = mostOf(all.map((each) => each.limit))
  return {
    columns,
    filter,
    ...(limit === undefined ? {} : { limit }),
    // An aggregate is about all rows, also those of a part that may not aggregate.
    aggregations: all.every(({ aggregations }) => aggregations),
    computedFields,
    ...(masks.length > 0 ? { masks: Object.fromEntries(masks) } : {}),
    parts: giversOf(parts),
  }
}

/** Returns the roles that give a permission to select. What the parts of such a role may know, the role need not. */
const giversOf = (parts: readonly RolePermissions[]): readonly string[] =>
  parts.flatMap(({ role, select }) => (select ? role : []))

/** Returns whether two permissions select the same rows and cells, because one is inherited from the other alone. */
const sameSelect = (a: SelectPermission | undefined, b: SelectPermission | undefined): boolean =>
  a === b ||
  (a !== undefined &&
    (['filter', 'columns', 'computedFields', 'masks'] as const).every((name) => a[name] === b?.[name]))

/** Combines conditions. The result is the same for the same ones in any order. */
function anyOf(all: readonly BoolExp[]): BoolExp {
  const parts = all.flatMap((exp) => (exp.kind === 'or' ? exp.of : [exp]))
  if (parts.some(isTrue)) return TRUE
  const byText = new Map(parts.map((part) => [JSON.stringify(part), part]))
  const of = [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, part]) => part)
  return of.length === 1 ? (of[0] as BoolExp) : { kind: 'or', of }
}
