import { type PermissionType, roleName } from 'rowhouse'
import { type Operand, permissionsOf, type Table, TRUE } from 'rowhouse/plan'
import { valueWords } from '../rule-sentence.js'
import { permissionObject } from '../objects.js'
import type { Rule, View } from './effect.js'

/** What a permission consists of, the same for all actions. */
export interface Parts {
  readonly columns: readonly string[]
  /** Whether the columns that are added to the table later belong to them. */
  readonly isOpen: boolean
  readonly computed: readonly string[]
  /** The rows that the role may access. */
  readonly rows?: Rule
  /** The rows in which a column or computed field is given, if not in all that the role may read. */
  readonly cells: ReadonlyMap<string, Rule>
  /** What a row must meet after it is written. */
  readonly check?: Rule
  readonly presets: ReadonlyMap<string, Preset>
  readonly limit?: number | undefined
  readonly aggregates: boolean
  /** Whether a write with a condition affects only rows that the role may read. */
  readonly isSeenOnly: boolean
}
/** What the server sets a column to. */
interface Preset {
  readonly to: Operand
  readonly words: string
}

/** Returns the parts of the permission that a role has; undefined without one. */
export function partsOf(action: PermissionType, table: Table | undefined, view: View): Parts | undefined {
  const { catalog, entries, key } = view
  const permission = table && permissionsOf(table, key)?.[action]
  if (!permission) return undefined
  // A role that is made of others has permissions without an entry.
  const entry = entries.get(permissionObject(table, roleName(key), action)) as unknown as Entry | undefined
  const written = entry?.permission ?? {}
  const {
    columns = [],
    filter,
    check,
    set = [],
    limit,
    aggregations = false,
    computedFields = [],
    masks = {},
    seenOnly = false,
  } = permission as Any
  const rule = (name: 'filter' | 'check', place: number | undefined): Rule => ({
    written: entry ? (written[name] ?? {}) : undefined,
    exp: place === undefined ? TRUE : (catalog.filters[place] as Rule['exp']),
  })
  return {
    columns,
    isOpen: (written.columns ?? (action === 'insert' ? '*' : undefined)) === '*',
    computed: computedFields,
    ...(action === 'insert' ? {} : { rows: rule('filter', filter) }),
    ...(action === 'insert' || action === 'update' ? { check: rule('check', check) } : {}),
    cells: new Map(Object.entries(masks).map(([name, place]) => [name, rule('filter', place)])),
    presets: new Map(set.map(({ column, to }) => [column, { to, words: valueWords(written.set?.[column] ?? null) }])),
    limit,
    aggregates: aggregations,
    isSeenOnly: seenOnly,
  }
}

/** Returns whether a permission gives a column or computed field in some row. */
export const gives = ({ columns, computed }: Parts, name: string): boolean =>
  columns.includes(name) || computed.includes(name)

/** Keys of all kinds of permissions. */
interface Any {
  readonly columns?: readonly string[]
  readonly filter?: number
  readonly check?: number
  readonly set?: readonly { readonly column: string; readonly to: Operand }[]
  readonly limit?: number
  readonly aggregations?: boolean
  readonly computedFields?: readonly string[]
  readonly masks?: Readonly<Record<string, number>>
  readonly seenOnly?: boolean
}
/** The entry of a permission in an export. */
interface Entry {
  readonly permission: {
    readonly columns?: unknown
    readonly filter?: unknown
    readonly check?: unknown
    readonly set?: { readonly [column: string]: unknown } | null
  }
}
