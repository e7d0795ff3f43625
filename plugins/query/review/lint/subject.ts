import { type Catalog, type Data, roleName } from 'rowhouse'
import {
  type BoolExp,
  isObject,
  type JsonObject,
  type RolePermissions,
  rootColumns,
  type Table,
  tableKey,
  tableName,
} from 'rowhouse/plan'

export type Action = 'select' | 'insert' | 'update' | 'delete'
type Metadata = Awaited<ReturnType<Data['metadata']>>

/** The permissions of a role on a table. */
export interface Subject {
  readonly table: Table
  readonly role: string
  readonly permissions: RolePermissions
  /** Definitions as written. */
  readonly definitions: Readonly<Partial<Record<Action, JsonObject>>>
  /** Returns a condition of the permissions. */
  readonly exp: (place: number) => BoolExp
}

/** Returns the permissions of every role on every table. A role has those with `backend_only`, too. */
export function subjectsOf(catalog: Catalog, metadata: Metadata): readonly Subject[] {
  const exp = (place: number) => catalog.filters[place] as BoolExp
  return [...catalog.tables.values()].flatMap((table) => {
    const rows = [...(metadata.tables.get(tableKey(table))?.permissions.values() ?? [])]
    // The permissions of backend requests come after those of the role, and contain them.
    const byRole = new Map<string, RolePermissions>()
    for (const each of table.permissions.toSorted((a, b) => a.role.length - b.role.length)) {
      byRole.set(roleName(each.role), each)
    }
    return [...byRole].map(([role, permissions]): Subject => {
      const own = rows.filter((row) => row.role === role && isObject(row.definition))
      const definitions = Object.fromEntries(own.map(({ type, definition }) => [type, definition as JsonObject]))
      return { table, role, permissions, definitions, exp }
    })
  })
}

export const nameOf = ({ table, role }: Pick<Subject, 'table' | 'role'>, action: Action): string =>
  `permission ${tableName(table)}.${role}.${action}`

/** The rules of the permissions of a role: row filters and checks. */
interface Ruled {
  readonly action: Action
  readonly key: 'filter' | 'check'
  readonly exp: BoolExp
}

export function rulesOf({ permissions, exp }: Subject): readonly Ruled[] {
  const { select, insert, update, delete: remove } = permissions
  const rule = (action: Action, key: Ruled['key'], place: number | undefined): readonly Ruled[] =>
    place === undefined ? [] : [{ action, key, exp: exp(place) }]
  return [
    ...rule('select', 'filter', select?.filter),
    ...rule('insert', 'check', insert?.check),
    ...rule('update', 'filter', update?.filter),
    ...rule('update', 'check', update?.check),
    ...rule('delete', 'filter', remove?.filter),
  ]
}

/** Returns the parts that must all hold. */
export const conjuncts = (exp: BoolExp): readonly BoolExp[] => (exp.kind === 'and' ? exp.of.flatMap(conjuncts) : [exp])

/** Returns the columns of the row itself that a condition names, also to find rows of other tables. */
export function ownColumns(exp: BoolExp): ReadonlySet<string> {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return new Set(exp.of.flatMap((part) => [...ownColumns(part)]))
    case 'not':
      return ownColumns(exp.of)
    case 'guarded':
      return new Set([...ownColumns(exp.by), ...ownColumns(exp.of)])
    case 'compare':
    case 'null':
      return new Set([exp.column])
    case 'columns':
      return new Set([exp.column, exp.to])
    case 'exists':
    case 'aggregate':
      return new Set([...exp.on.map(([own]) => own), ...rootColumns(exp)])
    case 'sorted':
    case 'unknown':
    case 'known':
      return new Set()
  }
}
