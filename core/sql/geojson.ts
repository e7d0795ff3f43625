import type { SqlType } from '../plan/ir.js'
import { ident, integer, type Sql, sql, typeText } from './text.js'

/** Longitude and latitude: what GeoJSON is in, and what geography is in unless its column says otherwise. */
const WGS84 = 4326

/**
 * GeoJSON text as a value of a type of PostGIS, in the spatial reference of the column:
 * `"ext".ST_Transform("ext".ST_GeomFromGeoJSON($1::text), 3857)`. The transformation leaves alone what is in that
 * reference already, and refuses a `crs` that does not exist, which would otherwise be read as none.
 */
export function fromGeoJson(text: Sql, type: SqlType): Sql {
  const schema = ident(type.schema)
  const read = sql`${schema}.ST_GeomFromGeoJSON(${text})`
  const srid = type.srid ?? (type.kind === 'geography' ? WGS84 : undefined)
  const target = srid === undefined ? sql`${schema}.ST_SRID(${read})` : integer(srid)
  const geometry = sql`${schema}.ST_Transform(${read}, ${target})`
  return type.kind === 'geography' ? sql`${geometry}::${typeText(type)}` : geometry
}

/**
 * With 15 decimals, and with a `crs` where it is not WGS 84: `"ext".ST_AsGeoJSON(t0."place", 15, 8)::json`. PostGIS writes
 * no `crs` of a geography, so that is read as a geometry first.
 */
export function toGeoJson(value: Sql, type: SqlType): Sql {
  const schema = ident(type.schema)
  const geometry = type.kind === 'geography' ? sql`${value}::${schema}."geometry"` : value
  return sql`${schema}.ST_AsGeoJSON(${geometry}, 15, 8)::json`
}

/** A column read as the other type: `"ext".ST_Transform(t0."place", 4326)::"ext"."geography"`. */
export function castGeo(column: Sql, { from, to }: { readonly from: SqlType; readonly to: SqlType }): Sql {
  const moved = to.kind === 'geography' && from.srid !== undefined && from.srid !== WGS84
  const lonLat = moved ? sql`${ident(from.schema)}.ST_Transform(${column}, ${integer(WGS84)})` : column
  return sql`${lonLat}::${typeText(to)}`
}
