import { at, type ServiceError, unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { type FunctionData, tableName } from './catalog.js'
import { graphqlName, ROOT_FIELD_KINDS, ROOT_FIELDS, type RootFieldKind } from './graphql-names.js'
import type { DatabaseTable } from './introspect.js'

/** A table and its custom names. */
export interface NamedTable {
  readonly found: DatabaseTable
  readonly given: GivenNames
}
interface GivenNames {
  readonly custom_name?: string | null
  readonly custom_root_fields?: Readonly<Record<string, string | null>> | null
}

/** Everything else that GraphQL exposes. */
export interface Others {
  readonly tables: readonly NamedTable[]
  readonly functions: readonly FunctionData[]
}

/** Returns the names from a table's configuration, which has been validated. */
export const givenNames = (configuration: Json): GivenNames => (configuration ?? {}) as GivenNames

/**
 * Checks that custom names are free, because GraphQL omits objects with conflicting names.
 * @throws ServiceError 400 with a path below `$`, the root of the table's configuration
 */
export function refuseTakenNames(table: NamedTable, others: Others): void {
  const { custom_name: typeName, custom_root_fields: given } = table.given
  const places = new Map<string, string>()
  for (const [kind, name] of rootFields(table)) {
    if (given?.[kind]) places.set(name, at('$.custom_root_fields', kind))
    else if (typeName) places.set(name, '$.custom_name')
  }
  refuse(places, others)
}

/** @throws ServiceError 400 with the path `$` when the root field of a function is taken */
export function refuseTakenField(called: FunctionData, others: Others): void {
  refuse(new Map([[fieldOf(called), '$']]), others)
}

/** @param places paths of the custom names */
function refuse(places: ReadonlyMap<string, string>, { tables, functions }: Others): void {
  if (places.size === 0) return
  for (const table of tables) {
    for (const [, name] of rootFields(table)) {
      const path = places.get(name)
      if (path !== undefined) throw taken(name, `table "${tableName(table.found)}"`, path)
    }
  }
  for (const each of functions) {
    const path = places.get(fieldOf(each))
    if (path !== undefined) throw taken(fieldOf(each), `function "${tableName(each)}"`, path)
  }
}

const taken = (name: string, owner: string, path: string): ServiceError =>
  unexpectedPayload(`the name "${name}" is taken in GraphQL by ${owner}`, path)

/** The root fields that a table has, by their names. */
function rootFields({ found, given }: NamedTable): (readonly [RootFieldKind, string])[] {
  const can = { select: true, insert: found.insertable, update: found.updatable, delete: found.deletable }
  const hasKey = found.primaryKey.length > 0
  const type = given.custom_name ?? graphqlName(found)
  return ROOT_FIELD_KINDS.flatMap((kind) => {
    const { needs, byKey, name } = ROOT_FIELDS[kind]
    return can[needs] && (hasKey || !byKey) ? [[kind, given.custom_root_fields?.[kind] ?? name(type)] as const] : []
  })
}

const fieldOf = (called: FunctionData): string => called.customName ?? graphqlName(called)
