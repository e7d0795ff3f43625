import { isGeo } from '../plan/geojson.js'
import type { Operand, SqlType } from '../plan/ir.js'
import { fromGeoJson } from './geojson.js'
import { type Sql, sql, typeText } from './text.js'

/** SQL text and what each `$n` of it stands for. */
export interface Statement {
  readonly text: Sql
  readonly params: readonly Param[]
  /** Functions of the database are called in it. */
  readonly calls?: true
  /**
   * To be planned for its values each time: that is when PostgreSQL computes geometries from them, so that whether it fails
   * depends on no row.
   */
  readonly fresh?: true
}

export type Param =
  | Operand
  /** The JSON text of rows to insert; `columns` say which kinds of JSON fit. */
  | { readonly kind: 'rows'; readonly slot: number; readonly columns: readonly { name: string; type: SqlType }[] }
  /** What the statement before gave: the keys of the rows that it wrote, or rows. It is in `slot` when it ran earlier. */
  | { readonly kind: 'written'; readonly slot?: number }

/** Collects the parameters of one statement while its text is written. */
export class Params {
  readonly all: Param[] = []
  /** Geometries are computed from some. */
  fresh = false
  private readonly places = new Map<string, Sql>()

  /** `$1::int4`; the same operand twice is one parameter. Types of PostGIS are read from GeoJSON, lists of them too. */
  operand(operand: Operand): Sql {
    const { type } = operand
    this.fresh ||= isGeo(type) || isGeo(type.element)
    if (isGeo(type)) return fromGeoJson(sql`${this.place(operand)}::text`, type)
    if (isGeo(type.element)) {
      return sql`array(select ${fromGeoJson(sql`g`, type.element)} from unnest(${this.place(operand)}::_text) g)`
    }
    return type.kind === 'row' ? this.row(operand) : sql`${this.place(operand)}::${typeText(type)}`
  }

  /** A composite value: an object as JSON, or the text that PostgreSQL writes, which begins with a parenthesis. */
  private row(operand: Operand): Sql {
    const [value, type] = [this.place(operand), typeText(operand.type)]
    return sql`case when ${value}::text like '{%' then json_populate_record(null::${type}, ${value}::text::json) else ${value}::text::${type} end`
  }

  place(param: Param): Sql {
    const key = JSON.stringify(param)
    let place = this.places.get(key)
    if (!place) this.places.set(key, (place = `$${this.all.push(param)}` as Sql))
    return place
  }
}
