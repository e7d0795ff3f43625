import { labelOf, type TableName } from '../../catalog.js'
import { type Finding, findingsAbout } from '../../lint.js'
import { ACTIONS, type Place, type Rules } from './rules.js'

/** Name of a permission in findings. */
const objectOf = ({ table, role, action }: Place): string => `permission ${labelOf(table)}.${role}.${action}`

export const findingsAt = (place: Place): readonly Finding[] => findingsAbout(objectOf(place))

export const findingsOn = (table: TableName, roles: readonly string[]): readonly Finding[] =>
  findingsAbout(...roles.flatMap((role) => ACTIONS.map((action) => objectOf({ table, role, action }))))

/** Returns the places of all permissions by their names in findings. */
export function placesOf({ tables, roles }: Rules): ReadonlyMap<string, Place> {
  return new Map(
    tables.flatMap(({ table }) =>
      roles.flatMap((role) =>
        ACTIONS.map((action) => {
          const place = { table, role, action }
          return [objectOf(place), place] as const
        }),
      ),
    ),
  )
}

/** A part of the form of a permission. */
export type Part = 'filter' | 'check' | 'columns' | 'set' | 'limit' | ''

/** Returns the part that a path in a permission is about; empty for the whole. */
export function partOf(path: string): Part {
  const [, key = ''] = /(?:^\$|\.permission)\.(\w+)/.exec(path) ?? []
  return PARTS[key] ?? ''
}

const PARTS: Readonly<Record<string, Part>> = {
  filter: 'filter',
  check: 'check',
  columns: 'columns',
  computed_fields: 'columns',
  set: 'set',
  limit: 'limit',
  allow_aggregations: 'limit',
}
