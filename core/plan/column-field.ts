import type { Column } from '../catalog/catalog.js'
import { isGeo } from './geojson.js'
import type { Field } from './ir.js'

/** A column, or a computed field, as plans name it. */
export const columnRef = ({ name, computed }: Pick<Column, 'name' | 'computed'>) => ({
  column: name,
  computed,
})

/** A column as a key of the result. Every planner makes its column fields with this: it knows how a type is shown. */
export function columnField(column: Column, key = column.name): Extract<Field, { kind: 'column' }> {
  const { type } = column
  return {
    kind: 'column',
    key,
    ...columnRef(column),
    ...(isGeo(type) || type.kind === 'json' || type.kind === 'jsonb' ? { type } : {}),
  }
}
