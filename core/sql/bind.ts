import { parseFailed, ServiceError, serviceError } from '../errors.js'
import { type Json, Rows } from '../json/parse.js'
import { checkPattern, composedOf, describe, encode } from '../plan/encode.js'
import { geoJsonText } from '../plan/geojson.js'
import { isGeo, type Operand, type SqlType } from '../ir.js'
import { fitsUserId } from '../plan/user-id.js'
import { isUserId, USER_ID, USER_ID_RULE } from '../session.js'
import { bindRows, type RowsColumns } from './bind-rows.js'
import { fromGeoJson } from './geojson.js'
import { literal, type Sql, sql, typeText } from './text.js'

export interface Bindings {
  /** Values by slot. */
  readonly values: readonly Json[]
  /** Session variables by lower-case name. */
  readonly variables: ReadonlyMap<string, string>
  /** Result of the previous statement. */
  readonly written?: string
}

type SessionOperand = Extract<Operand, { kind: 'session' }>

/**
 * Encodes every parameter as text. Values are converted to types only here.
 * @throws ServiceError 400 with the path of an invalid value, or `not-found` for a missing session variable
 */
export function bind(params: readonly Param[], bindings: Bindings): (string | null)[] {
  return params.map((param) => {
    switch (param.kind) {
      case 'value':
        return encode(bindings.values[param.slot] as Json, param.type, param.path)
      case 'composed':
        return encode(composedOf(param.parts, bindings.values), param.type, param.path)
      case 'const':
        return param.value
      case 'session':
        return variable(param, bindings.variables)
      case 'session_all':
        return JSON.stringify(Object.fromEntries(bindings.variables))
      case 'rows':
        return rows(bindings.values[param.slot] as Json, param.columns)
      case 'written':
        return param.slot === undefined ? (bindings.written ?? '[]') : (bindings.values[param.slot] as string)
    }
  })
}

function variable({ name, type, path }: SessionOperand, variables: ReadonlyMap<string, string>): string | null {
  const value = variables.get(name)
  if (value === undefined)
    throw serviceError('not-found', `${name} header is expected but not found`, '$', { status: 400 })
  if (name === USER_ID && !isUserId(value)) {
    throw serviceError('parse-failed', `X-Service-User-Id ${USER_ID_RULE}`)
  }
  if (name === USER_ID && !fitsUserId(value, type)) {
    if (path === undefined) return null
    throw parseFailed('X-Service-User-Id does not fit a column that the server sets', path)
  }
  if (isGeo(type)) return ofHeader(name, () => geoJsonText(value, type, '$'))
  if (type.part || type.search) return ofHeader(name, () => encode(value, type, '$'))
  return type.pattern ? ofHeader(name, () => checkPattern(value, '$')) : value
}

function rows(value: Json, columns: RowsColumns): string {
  if (value instanceof Rows) return bindRows(value, columns)
  throw parseFailed(`expecting an array of objects, but found ${describe(value)}`, '$.args.objects')
}

/** Names the header in errors, because it has no path in the body. */
function ofHeader(name: string, read: () => string): string {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    throw new ServiceError(error.status, error.code, `${name} header: ${error.message}`)
  }
}

/** SQL text and the meaning of each `$n`. */
export interface Statement {
  readonly text: Sql
  readonly params: readonly Param[]
  /** Whether it calls functions of the database. */
  readonly calls?: true
  /**
   * Whether to plan it for its values each time. PostgreSQL then computes geometries from values while planning, so
   * that failures do not depend on rows, and finds the index for the language of a full-text search.
   */
  readonly fresh?: true
  /** Whether its result is a row of texts, as JSON, rather than one text. */
  readonly row?: true
}

export type Param =
  | Operand
  /** The JSON text of rows to insert; `columns` define the accepted kinds of JSON. */
  | { readonly kind: 'rows'; readonly slot: number; readonly columns: RowsColumns }
  /** Result of the previous statement: the keys of written rows, or rows. In `slot` if it ran in an earlier request. */
  | { readonly kind: 'written'; readonly slot?: number }

/** Collects the parameters of a statement while its text is printed. */
export class Params {
  readonly all: Param[] = []
  /** Whether geometries, or the language of a search, come from parameters. */
  fresh = false
  /** What reads the values that PostgreSQL would otherwise read when it meets a row. */
  readonly ahead = new Set<Sql>()
  private readonly places = new Map<string, Sql>()

  /** @param as `literals` prints constants as they are, for definitions. Then there is nothing else */
  constructor(private readonly as: 'parameters' | 'literals' = 'parameters') {}

  /** Prints `$1::int4`. Equal operands share one parameter. PostGIS types, and lists of them, are read from GeoJSON. */
  operand(operand: Operand): Sql {
    const { type } = operand
    if (isListOfArrays(type)) return sql`array(select a::text from (${this.arrays(operand)}) as l(a))`
    const value = this.read(this.place(operand), type)
    const isRow = type.kind === 'row' || type.element?.kind === 'row'
    if (type.regex || isRow) this.readAhead(operand, type.regex ? compiled(value, type.regex) : value)
    return value
  }

  /** Prints the rows of a list of arrays: `select e::_int4 from unnest($1::_text) e`. */
  arrays(operand: Operand): Sql {
    const array = this.read(sql`e`, operand.type.element as SqlType)
    const rows = sql`select ${array} from pg_catalog.unnest(${this.place(operand)}::_text) e`
    this.readAhead(operand, sql`(select pg_catalog.count(a) from (${rows}) as l(a))`)
    return rows
  }

  /** Constants were read when their definition was written. */
  private readAhead(operand: Operand, value: Sql): void {
    if (operand.kind !== 'const') this.ahead.add(value)
  }

  /** Prints a value of a type that is given as text. */
  private read(value: Sql, type: SqlType): Sql {
    this.fresh ||= isGeo(type) || isGeo(type.element) || type.search === 'language'
    if (isGeo(type)) return fromGeoJson(sql`${value}::text`, type)
    if (isGeo(type.element)) {
      return sql`array(select ${fromGeoJson(sql`g`, type.element)} from pg_catalog.unnest(${value}::_text) g)`
    }
    if (type.element?.kind === 'row') return rowsOf(value, typeText(type))
    return type.kind === 'row' ? row(value, typeText(type)) : sql`${value}::${typeText(type)}`
  }

  place(param: Param): Sql {
    if (this.as === 'literals') {
      if (param.kind !== 'const') throw new Error(`a definition cannot have a value of the kind ${param.kind}`)
      return param.value === null ? sql`null` : literal(param.value)
    }
    const key = JSON.stringify(param)
    let place = this.places.get(key)
    if (!place) this.places.set(key, (place = `$${this.all.push(param)}` as Sql))
    return place
  }
}

/** Prints what PostgreSQL can only compute of a regular expression that it can read. It reads one when it matches something. */
export const compiled = (value: Sql, regex: NonNullable<SqlType['regex']>): Sql =>
  regex === 'posix' ? sql`('' operator(pg_catalog.~) ${value})` : sql`('' similar to ${value})`

/** Returns whether a type is that of the right side of `$in` for a column of arrays. */
export const isListOfArrays = ({ list, element }: SqlType): boolean => list === true && element?.kind === 'array'

/** Prints a composite value: an object as JSON, or PostgreSQL's text form, which starts with a parenthesis. */
const row = (value: Sql, type: Sql): Sql =>
  sql`case when ${value}::text like '{%' then pg_catalog.json_populate_record(null::${type}, ${value}::text::json) else ${value}::text::${type} end`

/** Prints an array of composite values: JSON, or PostgreSQL's text form, which ends in a brace. */
function rowsOf(value: Sql, type: Sql): Sql {
  const read = sql`select v from pg_catalog.json_to_record(pg_catalog.json_build_object('v', ${value}::text::json)) as r(v ${type})`
  return sql`case when ${value}::text like '[%]' then (${read}) else ${value}::text::${type} end`
}
