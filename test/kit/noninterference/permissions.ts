import type { Random } from '../oracle/generate.js'
import {
  COMPUTED_ROWS,
  FUNCTIONS,
  GATE,
  type Json,
  mayCall,
  type Names,
  PLAIN_FUNCTIONS,
  type Row,
  type Table,
  tableOf,
  TABLES,
  VERSIONS,
} from './schema.js'

export interface Grants {
  readonly select?: {
    readonly columns: readonly string[]
    readonly filter: Filter
    readonly allow_aggregations: boolean
    readonly limit?: number
    readonly computed_fields?: readonly string[]
  }
  readonly insert?: {
    readonly columns: readonly string[]
    readonly check: Filter
    readonly allow_upsert: boolean
    readonly set?: Row
  }
  readonly update?: {
    readonly columns: readonly string[]
    readonly filter: Filter
    readonly check?: Filter
    readonly set?: Row
  }
  readonly delete?: { readonly filter: Filter }
}
type Filter = { readonly [key: string]: Json | undefined }

/** Permissions of some roles on all tables, and what none of them may see. */
export interface Era {
  readonly roles: Readonly<Record<string, Readonly<Record<string, Grants>>>>
  /** Columns that differ in rows which both worlds have, by table. */
  readonly hidden: Readonly<Record<string, readonly string[]>>
  /** Tables that have the same rows in both worlds: a permission may show all of them. */
  readonly open: readonly string[]
}

const USER = 'X-Service-User-Id'
const ORG = 'X-Service-Org-Id'
const ROLES = 8
/** Columns in which rows of both worlds never differ: who sees a row depends on them, or who may write one. */
const GATED = ['id', 'org_id', 'owner_id', 'shared', GATE, 'note_id', 'user_id', 'item_id']

export function generateEra(random: Random): Era {
  const tables = Object.values(TABLES)
  const open = random.some(['note', 'item', 'org', 'thing'], 20)
  const hidden = Object.fromEntries(
    tables.map(({ name, columns }) => {
      // What constraints compare decides what is refused.
      const may = name === 'thing' ? [] : columns.map((each) => each.name).filter((each) => !GATED.includes(each))
      return [name, random.some(may, name === 'org' ? 30 : 25)]
    }),
  )
  const roles = Object.fromEntries(
    Array.from({ length: ROLES }, (_, i) => [
      `r${i}`,
      Object.fromEntries(tables.map((table) => [table.name, generateGrants(random, table, open, hidden)])),
    ]),
  )
  return { roles, hidden, open }
}

function generateGrants(random: Random, table: Table, open: readonly string[], hidden: Era['hidden']): Grants {
  const { name } = table
  if (name === 'share') return {}
  if (name === 'member') {
    const columns = ['id', 'org_id', 'user_id']
    return random.chance(60)
      ? { select: { columns, filter: { user_id: USER }, allow_aggregations: random.chance(60) } }
      : {}
  }
  const secret = hidden[name] as readonly string[]
  const named = table.columns.map((column) => column.name).filter((column) => column !== GATE && column !== 'id')
  const shown = named.filter((column) => !secret.includes(column))
  const filter = () => generateFilter(random, table, open.includes(name))
  const computed = table.computed
    .filter(({ uses }) => !uses.some((column) => secret.includes(column)))
    .map((field) => field.name)
  return {
    ...(random.chance(92)
      ? {
          select: {
            columns: ['id', ...random.some(shown, 80)],
            filter: filter(),
            allow_aggregations: random.chance(75),
            ...(random.chance(15) ? { limit: 3 + random.below(5) } : {}),
            ...(computed.length > 0
              ? { computed_fields: [...random.some(computed, 80), ...(name === 'note' ? [COMPUTED_ROWS] : [])] }
              : {}),
          },
        }
      : {}),
    ...(random.chance(75)
      ? {
          insert: {
            columns: ['id', ...random.some(named, 85)],
            check: random.chance(40) ? {} : filter(),
            allow_upsert: random.chance(40),
            ...(random.chance(30) ? { set: { [GATE]: 1 } } : {}),
          },
        }
      : {}),
    ...(random.chance(75)
      ? {
          update: {
            columns: random.some(named, 85),
            filter: filter(),
            ...(random.chance(40) ? { check: filter() } : {}),
            ...(random.chance(20) ? { set: { [GATE]: 2 } } : {}),
          },
        }
      : {}),
    ...(random.chance(75) ? { delete: { filter: filter() } } : {}),
  }
}

/** A condition that no hidden row satisfies, unless there are none. */
function generateFilter(random: Random, { name, relations }: Table, open: boolean): Filter {
  if (open && random.chance(40)) return {}
  return random.pick<Filter>([
    { org_id: ORG },
    { $or: [{ org_id: ORG }, { shared: true }] },
    { org_id: { $in: [ORG, 1] } },
    { $not: { gate: { $gte: 5 } } },
    { owner_id: USER, shared: { $is_null: false } },
    { $or: [{ gate: 1 }, { owner_id: USER }] },
    { $and: [{ $exists: { _table: 'member', _where: { user_id: USER } } }, { org_id: { $in: [ORG, 2] } }] },
    // What is dear to find out is looked at last.
    ...[1, 2].map(() => (name === 'org' ? { members: { user_id: USER } } : { org: { members: { user_id: USER } } })),
    ...(relations['shares'] ? [{ shares: { user_id: USER } }] : []),
  ])
}

/** What an admin says in a bulk, on a server without metadata. */
export function metadataOf({ roles }: Era, { pin, secret }: Names): readonly object[] {
  const tables = Object.values(TABLES)
  const presets = (table: string, role: string, type: string) =>
    // Half of the roles cannot give the column its value, and have none.
    table === 'thing' && type === 'insert' && role < 'r4' ? { [pin]: 'given' } : {}
  return [
    ...tables.map(({ name }) => ({ type: 'track_table', args: name })),
    ...Object.entries(VERSIONS).map(([table, column]) => ({ type: 'set_table_version', args: { table, column } })),
    ...tables.flatMap(({ name, relations }) =>
      Object.entries(relations).map(([relation, { single, table, local, remote }]) => ({
        type: `create_${single ? 'object' : 'array'}_relationship`,
        args: {
          table: name,
          name: relation,
          using: { manual_configuration: { remote_table: table, column_mapping: { [local]: remote } } },
        },
      })),
    ),
    ...tables.flatMap(({ name, computed }) =>
      [...computed.map((field) => field.name), ...(name === 'note' ? [COMPUTED_ROWS] : [])].map((field) => ({
        type: 'add_computed_field',
        args: { table: name, name: field, definition: { function: `${name}_${field}` } },
      })),
    ),
    ...Object.entries(roles).flatMap(([role, all]) =>
      Object.entries(all).flatMap(([table, grants]) =>
        Object.entries(grants as Record<string, { set?: Row }>).map(([type, permission]) => ({
          type: `create_${type}_permission`,
          args: {
            table,
            role,
            permission:
              type === 'insert'
                ? { ...permission, set: { ...permission.set, ...presets(table, role, type) } }
                : permission,
          },
        })),
      ),
    ),
    ...Object.keys(FUNCTIONS).flatMap((name) => [
      { type: 'track_function', args: name },
      ...Object.keys(roles).map((role) => ({ type: 'create_function_permission', args: { function: name, role } })),
    ]),
    ...Object.keys(PLAIN_FUNCTIONS).flatMap((name) => [
      { type: 'track_function', args: name },
      ...Object.keys(roles)
        .filter(mayCall)
        .map((role) => ({ type: 'create_function_permission', args: { function: name, role } })),
    ]),
    { type: 'track_function', args: secret },
  ]
}

export const grantsOf = (era: Era, role: string, table: string): Grants => era.roles[role]?.[table] ?? {}

export const isSelectable = (era: Era, role: string, table: string): boolean =>
  grantsOf(era, role, tableOf(table).name).select !== undefined
