import type { Column } from '../catalog/catalog.js'
import { isGeo } from './geojson.js'
import type { Field } from './ir.js'

/** Returns the reference of a column or computed field in plans. */
export const columnRef = ({ name, computed }: Pick<Column, 'name' | 'computed'>) => ({
  column: name,
  computed,
})

/** Returns a column as a key of the result. Every planner uses this, because it decides how a type is displayed. */
export function columnField(column: Column, key = column.name): Extract<Field, { kind: 'column' }> {
  const { type } = column
  return {
    kind: 'column',
    key,
    ...columnRef(column),
    ...(isGeo(type) || type.kind === 'json' || type.kind === 'jsonb' ? { type } : {}),
  }
}
