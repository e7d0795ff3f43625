import type { Column } from '../catalog/catalog.js'
import { isGeo } from './geojson.js'
import type { Field } from './ir.js'

/** A column as a key of the result. Every planner makes its column fields with this: it knows how a type is shown. */
export function columnField({ name, type }: Column, key = name): Field {
  return {
    kind: 'column',
    key,
    column: name,
    ...(isGeo(type) || type.kind === 'json' || type.kind === 'jsonb' ? { type } : {}),
  }
}
