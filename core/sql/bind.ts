import { at, parseFailed, ServiceError, serviceError } from '../errors.js'
import { type Json, type JsonObject, NO_LIMITS, parseJson, type RowKind, Rows, stringifyJson } from '../json/parse.js'
import { pathOf, peek, skipValue } from '../json/scan.js'
import {
  checkPattern,
  composedOf,
  describe,
  encode,
  hasFields,
  isObject,
  isWhole,
  readable,
  withDigits,
} from '../plan/encode.js'
import { checkGeoJson, geoJsonText } from '../plan/geojson.js'
import { isGeo, type Operand, type SqlType, type TypeKind } from '../plan/ir.js'
import { fitsUserId } from '../plan/user-id.js'
import { isUserId, USER_ID, USER_ID_RULE } from '../session.js'
import { fromGeoJson } from './geojson.js'
import { type Sql, sql, typeText } from './text.js'

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

function rows(value: Json, columns: readonly { readonly name: string; readonly type: SqlType }[]): string {
  if (!(value instanceof Rows))
    throw parseFailed(`expecting an array of objects, but found ${describe(value)}`, '$.args.objects')
  for (const { name, type } of columns) {
    const first = value.columns.get(name)?.first
    if (!first) continue
    const wrong = UNFIT[type.kind].map((kind) => ({ kind, row: first[kind] })).filter(({ row }) => row >= 0)
    const worst = wrong.sort((a, b) => a.row - b.row)[0]
    if (worst) {
      throw parseFailed(
        `column "${name}" is of type ${type.name} and takes no ${worst.kind} value`,
        at(at('$.args.objects', worst.row), name),
      )
    }
  }
  const geo = new Map(columns.filter(({ type }) => isGeo(type)).map(({ name, type }) => [name, type]))
  if (geo.size > 0) checkRows(value, geo)
  checkLists(value, columns)
  return asRead(value, columns)
}

/**
 * Returns the text of rows as PostgreSQL reads it: a whole number such as `1.0` is `1`, and some fields of composites are texts. Few
 * clients send any.
 */
function asRead(rows: Rows, columns: readonly { readonly name: string; readonly type: SqlType }[]): string {
  const others = columns.filter(({ name, type }) => {
    const first = rows.columns.get(name)?.first
    return isWhole(type) ? (first?.number ?? -1) >= 0 : isReadOtherwise(type) && (first?.composite ?? -1) >= 0
  })
  const { source } = rows
  if (others.length === 0) return source
  let text = ''
  let end = 0
  rows.visit(new Map(others.map(({ name, type }) => [name, type])), (c, type) => {
    peek(c)
    const start = c.pos
    skipValue(c)
    const cell = source.slice(start, c.pos)
    const isComposite = hasFields(type)
    if (!(isComposite ? /^[{[]/ : /[.eE]/).test(cell)) return
    const value = parseJson(cell, NO_LIMITS)
    const path = pathOf(c).replace('$', '$.args.objects')
    if (!isComposite) encode(value, type, path)
    text +=
      source.slice(end, start) + stringifyJson(isComposite ? readable(value, type, path) : withDigits(value, type))
    end = c.pos
  })
  return text + source.slice(end)
}

const isReadOtherwise = (type: SqlType): boolean => isWholeList(type) || hasFields(type)

const isWholeList = ({ kind, element }: SqlType): boolean =>
  kind === 'array' && element !== undefined && isWhole(element)

/** @throws ServiceError 400 with the path of a mistake in a geometry */
function checkRows(rows: Rows, columns: ReadonlyMap<string, SqlType>): void {
  try {
    rows.visit(columns, checkGeoJson)
  } catch (error) {
    throw error instanceof ServiceError ? error.under('$.args.objects') : error
  }
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

/** Checks elements of arrays and hstore, because PostgreSQL would convert a number in an array of texts. */
function checkLists(rows: Rows, columns: readonly { readonly name: string; readonly type: SqlType }[]): void {
  const lists = columns.filter(({ name, type }) => {
    return (type.kind === 'array' || type.kind === 'hstore') && (rows.columns.get(name)?.first.composite ?? -1) >= 0
  })
  if (lists.length === 0) return
  const read = parseJson(rows.source, NO_LIMITS) as readonly JsonObject[]
  read.forEach((row, i) => {
    for (const { name, type } of lists) {
      const value = row[name]
      if (Array.isArray(value) || isObject(value)) encode(value, type, at(at('$.args.objects', i), name))
    }
  })
}

/** Kinds of JSON that PostgreSQL would refuse without a position, or misinterpret. */
const UNFIT: Record<TypeKind, readonly RowKind[]> = {
  int2: ['boolean', 'composite'],
  int4: ['boolean', 'composite'],
  int8: ['boolean', 'composite'],
  float: ['boolean', 'composite'],
  numeric: ['boolean', 'composite'],
  bool: ['integer', 'number', 'composite'],
  text: ['boolean', 'integer', 'number', 'composite'],
  json: [],
  jsonb: [],
  array: ['boolean', 'integer', 'number'],
  row: ['boolean', 'integer', 'number'],
  range: ['boolean', 'integer', 'number', 'composite'],
  multirange: ['boolean', 'integer', 'number', 'composite'],
  hstore: ['boolean', 'integer', 'number'],
  // `checkRows` reports mistakes in these.
  geometry: [],
  geography: [],
  other: ['boolean', 'composite'],
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
  | { readonly kind: 'rows'; readonly slot: number; readonly columns: readonly { name: string; type: SqlType }[] }
  /** Result of the previous statement: the keys of written rows, or rows. In `slot` if it ran in an earlier request. */
  | { readonly kind: 'written'; readonly slot?: number }

/** Collects the parameters of a statement while its text is printed. */
export class Params {
  readonly all: Param[] = []
  /** Whether geometries, or the language of a search, come from parameters. */
  fresh = false
  private readonly places = new Map<string, Sql>()

  /** Prints `$1::int4`. Equal operands share one parameter. PostGIS types, and lists of them, are read from GeoJSON. */
  operand(operand: Operand): Sql {
    const { type } = operand
    if (isListOfArrays(type)) return sql`array(select a::text from (${this.arrays(operand)}) as l(a))`
    return this.read(this.place(operand), type)
  }

  /** Prints the rows of a list of arrays: `select e::_int4 from unnest($1::_text) e`. */
  arrays(operand: Operand): Sql {
    const array = this.read(sql`e`, operand.type.element as SqlType)
    return sql`select ${array} from pg_catalog.unnest(${this.place(operand)}::_text) e`
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
    const key = JSON.stringify(param)
    let place = this.places.get(key)
    if (!place) this.places.set(key, (place = `$${this.all.push(param)}` as Sql))
    return place
  }
}

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
