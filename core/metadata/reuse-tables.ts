import { isDeepStrictEqual } from 'node:util'
import type { BoolExp } from '../ir.js'
import { type CatalogData, type RolePermissions, type TableData, tableKey } from '../catalog/catalog.js'
import type { Judged } from './constants.js'
import type { FoundFunction } from './introspect-functions.js'
import type { DatabaseTable } from './introspect.js'
import type { Metadata, TrackedTable } from './metadata.js'

/** Database objects by `tableKey`. */
export interface FoundAll {
  readonly tables: ReadonlyMap<string, DatabaseTable>
  readonly functions: ReadonlyMap<string, FoundFunction>
  /** What is known about the constants of the metadata. */
  readonly judged: Judged
}

/** A snapshot and its sources. Unchanged parts are reused in the next one. */
export interface Built {
  readonly data: CatalogData
  readonly metadata: Metadata
  readonly found: FoundAll
  /** Tables that were used to build each table, by `tableKey`. */
  readonly uses: Uses
}
type Uses = ReadonlyMap<string, ReadonlySet<string>>

/**
 * Returns the tables of the previous snapshot that can be reused, because neither they nor the tables they use changed.
 */
export function unchanged(
  metadata: Metadata,
  { tables: found, judged }: Pick<FoundAll, 'tables' | 'judged'>,
  before: Built,
): ReadonlyMap<string, TableData> {
  // Inconsistencies must be listed again.
  if (before.data.inconsistent.length > 0 || judged.refused.size > 0) return new Map()
  // What inherited roles may do is part of each table.
  if (!isDeepStrictEqual(metadata.roles, before.metadata.roles)) return new Map()
  const tables = [found, before.found.tables, metadata.tables, before.metadata.tables]
  const keys = [...new Set(tables.flatMap((map) => [...map.keys()]))]
  const isSame = (key: string): boolean =>
    found.get(key) === before.found.tables.get(key) && metadata.tables.get(key) === before.metadata.tables.get(key)
  const looksSame = (key: string): boolean =>
    found.get(key) === before.found.tables.get(key) &&
    sameToOthers(metadata.tables.get(key), before.metadata.tables.get(key))
  const affected = reaching(
    keys.filter((key) => !looksSame(key)),
    before.uses,
  )
  const isKept = (key: string) =>
    !affected.has(key) && isSame(key) && (metadata.tables.get(key)?.configuration ?? null) === null
  return new Map(
    before.data.tables.flatMap((table) => {
      const key = tableKey(table)
      // Custom and made names in GraphQL depend on those of all other tables.
      // So do captures on the plugins that are loaded.
      const hasCaptures = Object.keys(metadata.tables.get(key)?.captures ?? {}).length > 0
      return isKept(key) && !table.customization && !hasCaptures ? [[key, table]] : []
    }),
  )
}

/** Stores each distinct expression once and keeps the indexes of existing ones. */
export function storeBeside(before: readonly BoolExp[]): {
  readonly filters: readonly BoolExp[]
  readonly store: (exp: BoolExp) => number
} {
  const filters = [...before]
  let places: Map<string, number> | undefined
  const store = (exp: BoolExp): number => {
    places ??= new Map(filters.map((filter, place) => [JSON.stringify(filter), place]))
    const key = JSON.stringify(exp)
    const known = places.get(key)
    if (known !== undefined) return known
    places.set(key, filters.length)
    return filters.push(exp) - 1
  }
  return { filters, store }
}

/** Below this number of unused expressions, rebuilding all tables is not worthwhile. */
const UNUSED = 100

/** Returns whether more than half of the expressions belong to removed permissions. */
export function mostlyUnused({ tables, filters }: CatalogData): boolean {
  const used = new Set(tables.flatMap(({ permissions }) => permissions.flatMap(placesOf)))
  const unused = filters.length - used.size
  return unused > UNUSED && unused > used.size
}

const placesOf = ({ insert, select, update, delete: remove }: RolePermissions): number[] =>
  [
    insert?.check,
    select?.filter,
    update?.filter,
    update?.check,
    remove?.filter,
    ...Object.values(select?.masks ?? {}),
  ].filter((place) => place !== undefined)

/** Returns whether a table looks the same to other tables. Results of functions may have changed with it. */
function sameToOthers(a: TrackedTable | undefined, b: TrackedTable | undefined): boolean {
  if (!a || !b || a.computedFields.size > 0 || b.computedFields.size > 0) return !a && !b
  // The name of an enum comes from its table.
  const enumOf = ({ isEnum, configuration }: TrackedTable) => isEnum && configuration
  return isDeepStrictEqual(a.relationships, b.relationships) && isDeepStrictEqual(enumOf(a), enumOf(b))
}

/** Returns the keys and all tables that use one of them, directly or indirectly. */
function reaching(keys: readonly string[], uses: Uses): ReadonlySet<string> {
  const users = new Map<string, string[]>()
  for (const [user, used] of uses) {
    for (const key of used) {
      const known = users.get(key)
      if (known) known.push(user)
      else users.set(key, [user])
    }
  }
  const reached = new Set(keys)
  // Iterating a set includes elements added meanwhile.
  for (const key of reached) for (const user of users.get(key) ?? []) reached.add(user)
  return reached
}
