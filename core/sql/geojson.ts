import type { SqlType } from '../ir.js'
import { ident, integer, type Sql, sql, typeText } from './text.js'

/** SRID of longitude and latitude, which GeoJSON uses, and geography by default. */
const WGS84 = 4326

/**
 * Prints GeoJSON text as a PostGIS value in the spatial reference of the column:
 * `"ext".ST_Transform("ext".ST_GeomFromGeoJSON($1::text), 3857)`. The transformation keeps values that have that
 * reference already, and refuses an unknown `crs`, which would otherwise be ignored.
 */
export function fromGeoJson(text: Sql, type: SqlType): Sql {
  const schema = ident(type.schema)
  const read = sql`${schema}.ST_GeomFromGeoJSON(${text})`
  const srid = type.srid ?? (type.kind === 'geography' ? WGS84 : undefined)
  const own = sql`${schema}.ST_SRID(${read})`
  // A value without a reference, `EPSG:0`, cannot be transformed.
  const geometry =
    srid === undefined
      ? sql`case ${own} when 0 then ${read} else ${schema}.ST_Transform(${read}, ${own}) end`
      : sql`${schema}.ST_Transform(${read}, ${integer(srid)})`
  return type.kind === 'geography' ? sql`${geometry}::${typeText(type)}` : geometry
}

/**
 * Prints a PostGIS value as GeoJSON with 15 decimals, and with a `crs` unless it is WGS 84:
 * `"ext".ST_AsGeoJSON(t0."place", 15, 8)::json`. PostGIS writes no `crs` for a geography, so it is converted to a
 * geometry first.
 */
export function toGeoJson(value: Sql, type: SqlType): Sql {
  const schema = ident(type.schema)
  const geometry = type.kind === 'geography' ? sql`${value}::${schema}."geometry"` : value
  return sql`${schema}.ST_AsGeoJSON(${geometry}, 15, 8)::json`
}

/** Prints a column as the other type: `"ext".ST_Transform(t0."place", 4326)::"ext"."geography"`. */
export function castGeo(column: Sql, { from, to }: { readonly from: SqlType; readonly to: SqlType }): Sql {
  const moved = to.kind === 'geography' && from.srid !== undefined && from.srid !== WGS84
  const lonLat = moved ? sql`${ident(from.schema)}.ST_Transform(${column}, ${integer(WGS84)})` : column
  return sql`${lonLat}::${typeText(to)}`
}
