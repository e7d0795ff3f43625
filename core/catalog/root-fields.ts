import { at, type ServiceError, unexpectedPayload } from '../errors.js'
import type { TableRef } from '../plan/ir.js'
import type { Json } from '../json/parse.js'
import { type FunctionData, tableName } from './catalog.js'
import { ROOT_FIELDS } from './customization.js'
import type { Found } from './introspect.js'

/** A table, and the names that it was given. */
export interface NamedTable {
  readonly found: Found
  readonly given: GivenNames
}
interface GivenNames {
  readonly custom_name?: string | null
  readonly custom_root_fields?: Readonly<Record<string, string | null>> | null
}

/** What else shows in GraphQL. */
export interface Others {
  readonly tables: readonly NamedTable[]
  readonly functions: readonly FunctionData[]
}

/** Of a table's configuration, which was checked when it was given. */
export const givenNames = (configuration: Json): GivenNames => (configuration ?? {}) as GivenNames

/**
 * GraphQL leaves out what has a name of something else, so a name that is given must be free.
 * @throws ServiceError 400 with a path below `$`, the table's configuration being `$`
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

/** @throws ServiceError 400 with the path `$`, when the root field of a function is one of something else */
export function refuseTakenField(called: FunctionData, others: Others): void {
  refuse(new Map([[fieldOf(called), '$']]), others)
}

/** @param places where names were given */
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

/** Root fields of a table by what they do, with the names that they have. */
function rootFields({ found, given }: NamedTable): (readonly [string, string])[] {
  const { insertable, updatable, deletable, primaryKey } = found
  const can: Readonly<Record<string, boolean>> = { insert: insertable, update: updatable, delete: deletable }
  const type = typeOf({ found, given })
  return KINDS.filter(({ verb, byKey }) => can[verb] !== false && !(byKey && primaryKey.length === 0)).map(
    ({ kind, before, after }) => [kind, given.custom_root_fields?.[kind] ?? before + type + after],
  )
}

/** `insert_one` is `insert_t_one` unless it was given another name. */
const KINDS = ROOT_FIELDS.map((kind) => {
  const [verb = '', ...rest] = kind.split('_')
  const before = verb === 'select' ? '' : `${verb}_`
  return { kind, verb, before, after: rest.map((part) => `_${part}`).join(''), byKey: kind.endsWith('_by_pk') }
})

const typeOf = ({ found, given }: NamedTable): string => given.custom_name ?? nameOutside(found)
const fieldOf = (called: FunctionData): string => called.customName ?? nameOutside(called)
const nameOutside = ({ schema, name }: TableRef): string => (schema === 'public' ? name : `${schema}_${name}`)
