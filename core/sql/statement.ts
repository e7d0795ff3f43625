import { isGeo } from '../plan/geojson.js'
import type { Operand, SqlType } from '../plan/ir.js'
import { fromGeoJson } from './geojson.js'
import { type Sql, sql, typeText } from './text.js'

/** SQL text and the meaning of each `$n`. */
export interface Statement {
  readonly text: Sql
  readonly params: readonly Param[]
  /** Whether it calls functions of the database. */
  readonly calls?: true
  /**
   * Whether to plan it for its values each time. PostgreSQL then computes geometries from values while planning, so
   * that failures do not depend on rows.
   */
  readonly fresh?: true
}

export type Param =
  | Operand
  /** The JSON text of rows to insert; `columns` define the accepted kinds of JSON. */
  | { readonly kind: 'rows'; readonly slot: number; readonly columns: readonly { name: string; type: SqlType }[] }
  /** Result of the previous statement: the keys of written rows, or rows. In `slot` if it ran in an earlier request. */
  | { readonly kind: 'written'; readonly slot?: number }

/** Collects the parameters of a statement while its text is printed. */
export class Params {
  readonly all: Param[] = []
  /** Whether geometries are computed from parameters. */
  fresh = false
  private readonly places = new Map<string, Sql>()

  /** Prints `$1::int4`. Equal operands share one parameter. PostGIS types, and lists of them, are read from GeoJSON. */
  operand(operand: Operand): Sql {
    const { type } = operand
    this.fresh ||= isGeo(type) || isGeo(type.element)
    if (isGeo(type)) return fromGeoJson(sql`${this.place(operand)}::text`, type)
    if (isGeo(type.element)) {
      return sql`array(select ${fromGeoJson(sql`g`, type.element)} from unnest(${this.place(operand)}::_text) g)`
    }
    return type.kind === 'row' ? this.row(operand) : sql`${this.place(operand)}::${typeText(type)}`
  }

  /** Prints a composite value: an object as JSON, or PostgreSQL's text form, which starts with a parenthesis. */
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
