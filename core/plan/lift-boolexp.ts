import { didYouMean } from '../wording.js'
import { at, parseFailed, type ServiceError, unexpectedPayload } from '../errors.js'
import { isObject, refuseOtherKeys } from '../json/value.js'
import { type Json, type JsonObject, NumberText } from '../json/parse.js'
import { describe } from './encode.js'
import type { TableRef } from '../ir.js'
import { COLUMN_OPERATORS, operatorName, operatorNames, type SearchShape, takes } from './operators.js'

/**
 * Processes a BoolExp in two steps. `liftBoolExp` splits it, without a catalog, into a shape that can be a cache key
 * and values that are bound late. `planBoolExp` resolves the shape. In a shape a value is the number of its slot.
 * Clients cannot forge one, because their text appears only where a string is expected.
 */
export type ExpShape =
  | { readonly all: readonly Entry[] }
  | { readonly key: string; readonly of: readonly ExpShape[]; readonly any: boolean }
  | { readonly key: string; readonly not: ExpShape }
  | { readonly key: string; readonly table: TableRef; readonly exists: ExpShape }
/** A key of a BoolExp that is not a combinator, and its value. */
export type Entry =
  | ExpShape
  | { readonly name: string; readonly is: number | null | readonly OpShape[] | ExpShape }
  | { readonly name: string; readonly aggregates: readonly AggregateShape[] }
/** A function of `<relationship>_aggregate`, and the condition on its result. */
export interface AggregateShape {
  readonly fn: 'count' | 'bool_and' | 'bool_or'
  readonly columns: readonly string[]
  readonly distinct: boolean
  readonly filter?: ExpShape
  readonly predicate: readonly OpShape[]
}
export interface OpShape {
  readonly key: string
  /** A slot, null, or a part of the SQL: a column name, a boolean, or one of these shapes. */
  readonly to: number | null | string | boolean | RootColumn | ListShape | NearShape | SearchShape | CastShape
}
/** A column of the row that the whole condition is about: `["$", "n"]`. */
export interface RootColumn {
  readonly root: string
}
export interface ListShape {
  readonly list: number
  readonly nulls: boolean
}
/** Arguments of `$st_d_within`, as slots. */
export interface NearShape {
  readonly from: number
  readonly distance: number
  readonly spheroid?: number
}
export interface CastShape {
  readonly casts: readonly { readonly as: string; readonly operators: readonly OpShape[] }[]
}

/** Values in the order of their slots. */
export class Slots {
  readonly values: Json[] = []
  private nodes = 0

  add(value: Json): number {
    return this.values.push(value) - 1
  }

  /** @throws ServiceError 400 `unexpected-payload` above 50 levels or 2,000 nodes of BoolExp in a request */
  visit(depth: number, path: string): void {
    if (depth > MAX_DEPTH) throw unexpectedPayload(`a condition may nest at most ${MAX_DEPTH} levels`, path)
    if (++this.nodes > MAX_NODES) throw unexpectedPayload(`a condition may have at most ${MAX_NODES} parts`, path)
  }
}
const MAX_DEPTH = 50
const MAX_NODES = 2000

export function liftBoolExp(exp: Json | undefined, path: string, slots: Slots, depth = 1): ExpShape {
  if (!isObject(exp)) throw parseFailed('expecting an object for a condition', path)
  const all: Entry[] = []
  for (const key in exp) {
    const value = exp[key] as Json
    const here = () => at(path, key)
    slots.visit(depth, path)
    switch (key) {
      case '$and':
      case '_and':
      case '$or':
      case '_or':
        if (!Array.isArray(value)) throw parseFailed(`expecting an array for ${key}`, here())
        all.push({
          key,
          any: key.endsWith('or'),
          of: value.map((part, i) => liftBoolExp(part, at(here(), i), slots, depth + 1)),
        })
        break
      case '$not':
      case '_not':
        all.push({ key, not: liftBoolExp(value, here(), slots, depth + 1) })
        break
      case '$exists':
      case '_exists':
        all.push(liftExists(key, value, here(), slots, depth))
        break
      default:
        if (isAggregate(key, value)) all.push({ name: key, aggregates: liftAggregates(value, here(), slots, depth) })
        else all.push({ name: key, is: liftEntry(value, here, slots, depth) })
    }
  }
  return { all }
}

function liftExists(key: string, value: Json, path: string, slots: Slots, depth: number): ExpShape {
  if (!isObject(value)) throw parseFailed(`expecting an object for ${key}`, path)
  refuseOtherKeys(value, ['_table', '_where'], path)
  return {
    key,
    table: liftTableRef(value['_table'], `${path}._table`),
    exists: liftBoolExp(value['_where'] ?? Object.create(null), `${path}._where`, slots, depth + 1),
  }
}

/** Suffix of `articles_aggregate`: an array relationship and aggregates of its rows. */
export const AGGREGATE = '_aggregate'
const FUNCTIONS = ['count', 'bool_and', 'bool_or'] as const

function isAggregate(key: string, value: Json): value is JsonObject {
  if (!key.endsWith(AGGREGATE) || !isObject(value)) return false
  const names = Object.keys(value)
  return names.length > 0 && names.every((name) => FUNCTIONS.some((fn) => fn === name) && isObject(value[name]))
}

/** `{"count": {"predicate": {"$gt": 3}, "filter": {...}, "arguments": ["id"], "distinct": true}}` */
function liftAggregates(value: JsonObject, path: string, slots: Slots, depth: number): readonly AggregateShape[] {
  return FUNCTIONS.flatMap((fn) => {
    const object = value[fn]
    if (!isObject(object)) return []
    const here = at(path, fn)
    refuseOtherKeys(object, AGGREGATE_KEYS, here)
    const { predicate, filter, distinct = false, arguments: given = [] } = object
    if (!isObject(predicate)) throw parseFailed("the key 'predicate' was not present", here)
    if (typeof distinct !== 'boolean') throw parseFailed('expecting a boolean', `${here}.distinct`)
    const columns = (Array.isArray(given) ? given : [given]).map((column, i) => {
      if (typeof column === 'string') return column
      throw parseFailed('expecting a column name', at(`${here}.arguments`, i))
    })
    const operators = Object.keys(predicate).map((key) => {
      const name = operatorName(key)
      if (name && !COLUMN_OPERATORS.has(name)) return liftOperator(key, predicate, () => `${here}.predicate`, slots)
      throw unknownOperator(key, `${here}.predicate`)
    })
    return [
      {
        fn,
        columns,
        distinct,
        predicate: operators,
        ...(filter === undefined ? {} : { filter: liftBoolExp(filter, `${here}.filter`, slots, depth + 1) }),
      },
    ]
  })
}
const AGGREGATE_KEYS = ['predicate', 'filter', 'distinct', 'arguments']

function liftEntry(
  value: Json,
  path: () => string,
  slots: Slots,
  depth: number,
): number | null | readonly OpShape[] | ExpShape {
  if (value === null) return null
  if (!isObject(value)) return slots.add(value)
  const keys = Object.keys(value)
  if (keys.length === 0 || !keys.every((key) => operatorName(key))) return liftBoolExp(value, path(), slots, depth + 1)
  return keys.map((key) => liftOperator(key, value, path, slots))
}

function liftOperator(key: string, operators: JsonObject, path: () => string, slots: Slots): OpShape {
  const value = operators[key] as Json
  const name = operatorName(key) as string
  slots.visit(1, path())
  if (name === 'is_null') {
    if (typeof value !== 'boolean') throw parseFailed('expecting a boolean', at(path(), key))
    return { key, to: value }
  }
  if (COLUMN_OPERATORS.has(name)) {
    return { key, to: liftColumn(value, at(path(), key)) }
  }
  if (name === 'cast') return { key, to: liftCast(value, at(path(), key), slots) }
  if (value === null) return { key, to: null }
  if (takes(name, 'near')) return { key, to: liftNear(value, at(path(), key), slots) }
  if (takes(name, 'search') && isObject(value)) return { key, to: liftSearch(value, at(path(), key), slots) }
  if (!takes(name, 'list')) return { key, to: slots.add(value) }
  if (typeof value === 'string') return { key, to: { list: slots.add(value), nulls: false } }
  if (!Array.isArray(value)) throw parseFailed('expecting an array', at(path(), key))
  const nulls = value.includes(null)
  return { key, to: { list: slots.add(nulls ? value.filter((element) => element !== null) : value), nulls } }
}

/** Lifts the column that an operator compares with: `"n"` or `["n"]` of the same row, `["$", "n"]` of the outermost one. */
function liftColumn(value: Json, path: string): string | RootColumn {
  const list = Array.isArray(value) ? value : [value]
  const name = list.at(-1)
  if (typeof name === 'string' && (list.length === 1 || (list.length === 2 && list[0] === '$'))) {
    return list.length === 1 ? name : { root: name }
  }
  const form = Array.isArray(value) ? ': ["n"], or ["$", "n"] for one of the outermost row' : ''
  throw unexpectedPayload(`expecting a string for column operator${form}`, path)
}

/** Lifts a cast: `{"geography": {"$st_intersects": ...}}` */
function liftCast(value: Json, path: string, slots: Slots): CastShape {
  if (!isObject(value)) throw parseFailed('expecting an object of a type and its operators', path)
  const casts = Object.keys(value).map((as) => {
    const here = at(path, as)
    const operators = value[as]
    if (!isObject(operators)) throw parseFailed('expecting an object of operators', here)
    const lifted = Object.keys(operators).map((key) => {
      const name = operatorName(key)
      if (name === undefined) throw unknownOperator(key, here)
      if (name === 'cast' || COLUMN_OPERATORS.has(name)) {
        throw unexpectedPayload(`${key} cannot be used within a cast`, at(here, key))
      }
      return liftOperator(key, operators, () => here, slots)
    })
    return { as, operators: lifted }
  })
  return { casts }
}

/** Lifts a distance: `{"distance": 1000, "from": <GeoJSON>, "use_spheroid": false}` */
function liftNear(value: Json, path: string, slots: Slots): NearShape {
  if (!isObject(value))
    throw parseFailed(`expecting an object of distance and from, but found ${describe(value)}`, path)
  const slot = (key: string): number => {
    const part = value[key]
    if (part === undefined) throw parseFailed(`the key '${key}' was not present`, path)
    if (part === null) throw parseFailed('expecting a value, but found null', at(path, key))
    return slots.add(part)
  }
  refuseOtherKeys(value, NEAR, path)
  const { distance } = value
  const least = distance instanceof NumberText ? Number(distance.text) : distance
  if (typeof least === 'number' && least < 0) throw parseFailed('a distance is not negative', `${path}.distance`)
  return {
    from: slot('from'),
    distance: slot('distance'),
    ...(value['use_spheroid'] === undefined ? {} : { spheroid: slot('use_spheroid') }),
  }
}
const NEAR = ['distance', 'from', 'use_spheroid']

/** Lifts a full-text query: `{"query": "red shoe", "language": "english"}` */
export function liftSearch(value: JsonObject, path: string, slots: Slots): SearchShape {
  refuseOtherKeys(value, ['query', 'language'], path)
  const { query, language } = value
  if (query === undefined || query === null) throw parseFailed("the key 'query' was not present", path)
  return {
    query: slots.add(query),
    ...(language === undefined || language === null ? {} : { language: slots.add(language) }),
  }
}

/** Lifts a table name: a string (schema `public`) or `{name, schema?}`. */
export function liftTableRef(value: Json | undefined, path: string): TableRef {
  if (typeof value === 'string') return { schema: 'public', name: value }
  if (value === undefined) throw parseFailed(`the key '${path.slice(path.lastIndexOf('.') + 1)}' was not present`, path)
  if (!isObject(value)) throw parseFailed('expecting a string/object for table', path)
  refuseOtherKeys(value, ['name', 'schema'], path)
  const { name, schema = 'public' } = value
  if (typeof name !== 'string') throw parseFailed("the key 'name' was not present", path)
  if (typeof schema !== 'string') throw parseFailed('expecting a string', `${path}.schema`)
  return { schema, name }
}

export function unknownOperator(key: string, path: string): ServiceError {
  const near = /^[$_]/.test(key) ? didYouMean(key, operatorNames(key.charAt(0))) : ''
  return unexpectedPayload(`unknown operator "${key}"${near}`, at(path, key))
}
