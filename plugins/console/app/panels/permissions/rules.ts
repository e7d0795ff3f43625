import { signal } from '@preact/signals'
import { query } from '../../api.js'
import { type Catalog, labelOf, readCatalog, type Table, type TableName, wireName } from '../../catalog.js'
import type { Json, JsonObject } from '../../json.js'
import { acting } from '../../session.js'

export const ACTIONS = ['select', 'insert', 'update', 'delete'] as const
export type Action = (typeof ACTIONS)[number]

/** One permission, as `export_metadata` has it, or as a role inherits it. */
export interface Permission {
  readonly definition: JsonObject
  readonly comment: string | null
  /** The roles that a role inherits it from. Absent if the role has it itself. */
  readonly from?: readonly string[]
  /** Columns that are null in some rows, and the roles that see them in the others. */
  readonly inSomeRows?: Readonly<Record<string, readonly string[]>>
}

/** The place of a permission in the matrix. */
export interface Place {
  readonly table: TableName
  readonly role: string
  readonly action: Action
}

/** All permissions, and the tables that they are about. */
export interface Rules {
  readonly tables: readonly Table[]
  readonly roles: readonly string[]
  /** The inherited roles, and what each inherits from. */
  readonly inherited: ReadonlyMap<string, readonly string[]>
  /** By `placeKey`. */
  readonly permissions: ReadonlyMap<string, Permission>
  readonly operators: Catalog['operators']
}

export const placeKey = ({ table, role, action }: Place): string =>
  JSON.stringify([table.schema, table.name, role, action])

/** The permissions as the server has them; undefined until they are read. */
export const rules = signal<Rules | undefined>(undefined)

/** Tables of Rowhouse whose permissions are rules about something else, by name. */
export const SPECIAL: Readonly<Record<string, string>> = { svc_file: 'Files', svc_outbox: 'Messages' }

/** Returns the name of a table in this panel. */
export const titleOf = (table: TableName): string =>
  (table.schema === 'svc_catalog' ? SPECIAL[table.name] : undefined) ?? labelOf(table)

/** Reads all permissions. */
export async function readRules(abort?: AbortSignal): Promise<void> {
  const asking = { as: null, signal: abort }
  const [catalog, exported, { permissions }] = await Promise.all([
    query<Catalog>('describe', {}, asking),
    query<Exported>('export_metadata', {}, asking),
    query<{ readonly permissions: readonly Inherited[] }>('inherited_permissions', {}, asking),
  ])
  if (abort?.aborted) return
  const isShown = ({ table }: Table) => table.schema !== 'svc_catalog' || table.name in SPECIAL
  const inherited = new Map((exported.inherited_roles ?? []).map(({ role, roles }) => [role, roles]))
  rules.value = {
    tables: catalog.tables.filter(isShown),
    roles: [...new Set([...(catalog.roles ?? []), ...inherited.keys(), ...[...inherited.values()].flat()])].sort(),
    inherited,
    permissions: new Map([...permissions.map(inheritedOf), ...exported.tables.flatMap(permissionsOf)]),
    operators: catalog.operators,
  }
}

interface Exported {
  readonly tables: readonly JsonObject[]
  readonly inherited_roles?: readonly { readonly role: string; readonly roles: readonly string[] }[]
}

/** A permission as `inherited_permissions` has it. */
interface Inherited extends Place {
  readonly from: readonly string[]
  readonly permission: JsonObject
  readonly in_some_rows?: Permission['inSomeRows']
}

const inheritedOf = ({ from, permission, in_some_rows: inSomeRows = {}, ...place }: Inherited) =>
  [placeKey(place), { definition: permission, comment: null, from, inSomeRows } satisfies Permission] as const

function permissionsOf(exported: JsonObject): readonly (readonly [string, Permission])[] {
  const name = exported['table'] as string | TableName
  const table = typeof name === 'string' ? { schema: 'public', name } : name
  return ACTIONS.flatMap((action) =>
    ((exported[`${action}_permissions`] ?? []) as readonly JsonObject[]).map(
      ({ role, permission, comment }) =>
        [
          placeKey({ table, role: role as string, action }),
          { definition: permission as JsonObject, comment: (comment ?? null) as string | null },
        ] as const,
    ),
  )
}

export const permissionAt = (place: Place): Permission | undefined => rules.value?.permissions.get(placeKey(place))

export const tableNamed = (name: string | undefined): Table | undefined =>
  rules.value?.tables.find(({ table }) => labelOf(table) === name)

/** Replaces a permission, or drops it if there is no new one, in one transaction. */
export async function savePermission(
  { table, role, action }: Place,
  before: Permission | undefined,
  after: Permission | undefined,
): Promise<void> {
  const about = { table: wireName(table), role }
  const drop = { type: `drop_${action}_permission`, args: about }
  const create = after && {
    type: `create_${action}_permission`,
    args: { ...about, permission: after.definition, comment: after.comment },
  }
  await query('bulk', [...(before ? [drop] : []), ...(create ? [create] : [])], { as: null })
  await readChanged()
}

/** Sets the roles from which a role inherits; none ends that. */
export async function setInheritance(role: string, roles: readonly string[]): Promise<void> {
  await query('set_role_inheritance', { role, roles }, { as: null })
  await readChanged()
}

async function readChanged(): Promise<void> {
  await readRules()
  // What the acting role sees may have changed.
  if (acting.value) await readCatalog()
}

/** Starts to apply rules to files or messages. */
export async function trackSpecial(name: string): Promise<void> {
  await query('track_table', { schema: 'svc_catalog', name }, { as: null })
  await readRules()
}

/** What a permission allows, at a glance. */
export interface Mark {
  readonly rows: 'none' | 'some' | 'all'
  /** How many columns, if they are not all. */
  readonly columns?: readonly [count: number, of: number]
}

export function markOf(permission: Permission | undefined, action: Action, { columns }: Table): Mark {
  if (!permission) return { rows: 'none' }
  const { filter = {}, check = {}, columns: allowed } = permission.definition
  const isOpen = isEmpty(filter) && (action === 'select' || action === 'delete' || isEmpty(check))
  const rows = isOpen ? 'all' : 'some'
  return Array.isArray(allowed) && allowed.length < columns.length
    ? { rows, columns: [allowed.length, columns.length] }
    : { rows }
}

const isEmpty = (rule: Json): boolean => rule === null || (typeof rule === 'object' && Object.keys(rule).length === 0)
