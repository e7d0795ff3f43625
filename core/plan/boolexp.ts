import type { Column, Table } from '../catalog/catalog.js'
import { didYouMean } from '../did-you-mean.js'
import { at, parseFailed, refuseOtherKeys, type ServiceError, unexpectedPayload } from '../errors.js'
import { type Json, type JsonObject, NumberText } from '../json/parse.js'
import { describe, encodeArray, isObject } from './encode.js'
import { columnRef } from './fields.js'
import {
  type BoolExp,
  type ColumnOp,
  type CompareOp,
  isGeo,
  type Operand,
  type SqlType,
  supports,
  type TableRef,
  TRUE,
} from './ir.js'
import { isRelated, type Names } from './names.js'
import {
  BOOL,
  INT8,
  LANGUAGE,
  castType,
  COLUMN_OPERATORS,
  FLOAT8,
  listOf,
  type Operator,
  operatorName,
  operatorNames,
  operatorOn,
  OPERATORS,
  rightType,
  type SearchShape,
  takes,
} from './operators.js'

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
type Entry =
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
  readonly to: number | null | string | boolean | ListShape | NearShape | SearchShape | CastShape
}
interface ListShape {
  readonly list: number
  readonly nulls: boolean
}
/** Arguments of `$st_d_within`, as slots. */
interface NearShape {
  readonly from: number
  readonly distance: number
  readonly spheroid?: number
}
interface CastShape {
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
    if (typeof value !== 'string') throw unexpectedPayload('expecting a string for column operator', at(path(), key))
    return { key, to: value }
  }
  if (name === 'cast') return { key, to: liftCast(value, at(path(), key), slots) }
  if (value === null) return { key, to: null }
  if (takes(name, 'near')) return { key, to: liftNear(value, at(path(), key), slots) }
  if (takes(name, 'search') && isObject(value)) return { key, to: liftSearch(value, at(path(), key), slots) }
  if (!takes(name, 'list')) return { key, to: slots.add(value) }
  if (typeof value === 'string') return { key, to: { list: slots.add(value), nulls: false } }
  if (!Array.isArray(value)) throw parseFailed('expecting an array', at(path(), key))
  const some = value.filter((element) => element !== null)
  return { key, to: { list: slots.add(some), nulls: some.length < value.length } }
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

type Cast = NonNullable<Extract<BoolExp, { kind: 'compare' }>['cast']>
type Compare = (op: CompareOp, to: Operand, more?: readonly Operand[]) => BoolExp

/** Creates the operands of a plan: slots for a client's values, constants and session variables for a permission's. */
export interface Operands {
  /** @param compared type of the column, if it is not that of the value: of jsonb, say, whose keys are texts */
  one(slot: number, type: SqlType, path: string, compared?: SqlType): Operand
  /** Returns a list as one array operand, and the elements that it cannot contain as separate operands. */
  list(
    slot: number,
    type: SqlType,
    path: string,
    compared?: SqlType,
  ): { readonly list?: Operand; readonly ones: readonly Operand[] }
}

/** Creates operands for a client's values, by slot. */
export const slotOperands: Operands = {
  one: (slot, type, path) => ({ kind: 'value', slot, type, path }),
  list: (slot, type, path) => ({ list: { kind: 'value', slot, type: arrayOf(type, path), path }, ones: [] }),
}

export function planBoolExp(
  shape: ExpShape,
  table: Table,
  names: Names,
  path: string,
  operands: Operands = slotOperands,
): BoolExp {
  const exp = (part: ExpShape, on: Table, where: string): BoolExp => {
    if ('all' in part)
      return and(part.all.map((entry) => ('name' in entry ? key(entry, on, where) : exp(entry, on, where))))
    const here = at(where, part.key)
    if ('of' in part) {
      const of = part.of.map((each, i) => exp(each, on, at(here, i)))
      return part.any ? { kind: 'or', of } : and(of)
    }
    if ('not' in part) return { kind: 'not', of: exp(part.not, on, here) }
    if (!names.trusted) throw unexpectedPayload(`${part.key} may be used in permissions only`, here)
    const other = names.table(part.table, 'select', `${here}._table`)
    return {
      kind: 'exists',
      table: part.table,
      on: [],
      where: exp(part.exists, other, `${here}._where`),
    }
  }

  const key = (entry: Exclude<Entry, ExpShape>, on: Table, where: string): BoolExp => {
    const here = at(where, entry.name)
    if ('aggregates' in entry) return and(entry.aggregates.map((each) => aggregate(each, entry.name, on, here)))
    const found = names.columnOrRelationship(on, entry.name, here)
    const { is } = entry
    if (isRelated(found)) {
      if (is === null || typeof is !== 'object' || Array.isArray(is)) {
        throw unexpectedPayload(`expecting a condition on the relationship "${entry.name}"`, here)
      }
      const { relationship, table: remote } = found
      return {
        kind: 'exists',
        table: relationship.table,
        on: relationship.on,
        where: exp(is as ExpShape, remote, here),
      }
    }
    if (is === null) return { kind: 'null', ...columnRef(found) }
    if (typeof is === 'number') {
      refuseJson(found, here)
      if (!operatorOn('eq', found.type)) refuseOperator('eq', found, here)
      return { kind: 'compare', ...columnRef(found), op: 'eq', to: operands.one(is, found.type, here) }
    }
    if (Array.isArray(is)) return and((is as readonly OpShape[]).map((op) => operator(op, found, on, at(here, op.key))))
    return refuseOperators(is as ExpShape, found, here)
  }

  const aggregate = (shape: AggregateShape, name: string, on: Table, where: string): BoolExp => {
    const { relationship, table: remote } = names.relationship(on, name.slice(0, -AGGREGATE.length), where)
    const here = at(where, shape.fn)
    if (relationship.type !== 'array')
      throw unexpectedPayload(`"${relationship.name}" refers to at most one row`, where)
    names.aggregate(remote, where)
    const columns = shape.columns.map((column) => names.column(remote, column, 'select', `${here}.arguments`))
    const counts = shape.fn === 'count'
    if (!counts && (columns.length !== 1 || columns[0]?.type.kind !== 'bool')) {
      throw unexpectedPayload(`${shape.fn} takes one column of type boolean`, `${here}.arguments`)
    }
    const value: Column = { name: 'value', type: counts ? INT8 : BOOL, nullable: !counts }
    return {
      kind: 'aggregate',
      table: relationship.table,
      on: relationship.on,
      where: shape.filter ? exp(shape.filter, remote, `${here}.filter`) : TRUE,
      fn: shape.fn,
      columns: columns.map((column) => column.name),
      distinct: shape.distinct,
      is: and(shape.predicate.map((op) => operator(op, value, remote, at(`${here}.predicate`, op.key)))),
    }
  }

  const operator = (shape: OpShape, column: Column, on: Table, here: string, cast?: Cast): BoolExp => {
    const name = operatorName(shape.key) as string
    const { to } = shape
    const isNull: BoolExp = { kind: 'null', ...columnRef(column) }
    if (name === 'is_null') return to === true ? isNull : { kind: 'not', of: isNull }
    if (name === 'cast') return casts(to as CastShape, column, on, here)
    const columnOp = COLUMN_OPERATORS.get(name)
    if (columnOp) return compareColumns(column, columnOp, on, to as string, here)
    const operator = operatorOn(name, column.type) ?? refuseOperator(name, column, here)
    const { op } = operator
    const compare: Compare = (op, to, more) => ({
      kind: 'compare',
      ...columnRef(column),
      op,
      to,
      more,
      cast,
      schema: operator.extension ? column.type.trigram : column.type.kind === 'hstore' ? column.type.schema : undefined,
    })
    if (to === null) {
      if (op === 'eq' || op === 'not_distinct') return isNull
      return op === 'ne' || op === 'distinct' ? { kind: 'not', of: isNull } : { kind: 'unknown' }
    }
    if (typeof to === 'object' && 'list' in to) return list(op, compare, column, to, isNull, here, cast)
    const type = rightType(operator.right, column.type)
    if (!type) throw unexpectedPayload(`"${column.name}" has no list type`, here)
    if (typeof to === 'object' && 'query' in to) return search(compare, operator, type, to, column, here)
    if (typeof to === 'object') return near(op, compare, type, to as NearShape, here)
    return compare(op, operands.one(to as number, type, here, cast?.from ?? column.type))
  }

  /** Plans the operators within a cast, as if the column had the other type. */
  const casts = (shape: CastShape, column: Column, on: Table, here: string): BoolExp =>
    and(
      shape.casts.flatMap(({ as, operators }) => {
        const where = at(here, as)
        const to = castType(column.type, as)
        if (!to)
          throw unexpectedPayload(`"${column.name}" of type ${column.type.name} cannot be cast to "${as}"`, where)
        const cast = { from: column.type, to }
        return operators.map((op) => operator(op, { ...column, type: to }, on, at(where, op.key), cast))
      }),
    )

  const near = (
    op: CompareOp,
    compare: Compare,
    type: SqlType,
    { from, distance, spheroid }: NearShape,
    here: string,
  ): BoolExp => {
    const more = [operands.one(distance, FLOAT8, `${here}.distance`)]
    if (spheroid !== undefined) {
      if (type.kind !== 'geography') {
        throw unexpectedPayload('use_spheroid is for geography; a geometry is flat', `${here}.use_spheroid`)
      }
      more.push(operands.one(spheroid, BOOL, `${here}.use_spheroid`))
    }
    return compare(op, operands.one(from, type, `${here}.from`), more)
  }

  const search = (
    compare: Compare,
    { op, right }: Operator,
    type: SqlType,
    { query, language }: SearchShape,
    column: Column,
    here: string,
  ): BoolExp => {
    if (right !== 'search') throw parseFailed(`expecting a string for "${column.name}", but found an object`, here)
    const more = language === undefined ? undefined : [operands.one(language, LANGUAGE, `${here}.language`)]
    return compare(op, operands.one(query, type, `${here}.query`), more)
  }

  const list = (
    op: CompareOp,
    compare: Compare,
    column: Column,
    to: ListShape,
    isNull: BoolExp,
    here: string,
    cast?: Cast,
  ): BoolExp => {
    const { list, ones } = operands.list(to.list, column.type, here, cast?.from)
    const negated = op === 'nin'
    const parts: BoolExp[] = list ? [compare(op, list)] : []
    for (const to of ones) parts.push(compare(negated ? 'ne' : 'eq', to))
    if (to.nulls) parts.push(negated ? { kind: 'not', of: isNull } : isNull)
    return parts.length === 1 ? (parts[0] as BoolExp) : { kind: negated ? 'and' : 'or', of: parts }
  }

  const compareColumns = (column: Column, op: ColumnOp, on: Table, to: string, here: string): BoolExp => {
    const other = names.column(on, to, 'select', here)
    refuseJson(column, here)
    if (!supports(column.type, op === 'eq' || op === 'ne' ? 'equality' : 'order')) refuseOperator(op, column, here)
    if (column.type.schema !== other.type.schema || column.type.name !== other.type.name) {
      throw unexpectedPayload(`incompatible column types : "${column.name}", "${to}"`, here)
    }
    return {
      kind: 'columns',
      column: column.name,
      op,
      to,
      ...(isGeo(column.type) ? { schema: column.type.schema } : {}),
    }
  }

  return exp(shape, table, path)
}

export function and(of: readonly BoolExp[]): BoolExp {
  const parts = of.filter((part) => !(part.kind === 'and' && part.of.length === 0))
  if (parts.length === 0) return TRUE
  return parts.length === 1 ? (parts[0] as BoolExp) : { kind: 'and', of: parts }
}

/** Returns whether an expression depends on rows of other tables, or on other rows of its own. */
export function needsOtherRows(exp: BoolExp): boolean {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.some(needsOtherRows)
    case 'not':
      return needsOtherRows(exp.of)
    case 'guarded':
      return needsOtherRows(exp.by) || needsOtherRows(exp.of)
    case 'exists':
    case 'aggregate':
    case 'sorted':
      return true
    case 'compare':
    case 'null':
      // The function of a computed field may read anything.
      return exp.computed !== undefined
    case 'columns':
    case 'unknown':
    case 'known':
      return false
  }
}

/** Returns all operands of an expression. */
export function operandsOf(exp: BoolExp): readonly Operand[] {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.flatMap(operandsOf)
    case 'not':
      return operandsOf(exp.of)
    case 'guarded':
      return [...operandsOf(exp.by), ...operandsOf(exp.of)]
    case 'exists':
      return operandsOf(exp.where)
    case 'aggregate':
      return [...operandsOf(exp.where), ...operandsOf(exp.is)]
    case 'compare':
      return [exp.to, ...(exp.more ?? [])]
    case 'known':
      return [exp.to]
    case 'sorted':
      return exp.is === 'null' ? [] : [exp.is.to]
    case 'columns':
    case 'null':
    case 'unknown':
      return []
  }
}

/** @throws ServiceError 400 when the column's type has no array type, or is an array */
export function arrayOf(type: SqlType, path: string): SqlType {
  return listOf(type) ?? fail(unexpectedPayload(`type ${type.name} cannot be compared with a list`, path))
}

/** Encodes a whole list as the text of an array. */
export const encodeList = (values: readonly Json[], type: SqlType, path: string): string =>
  encodeArray(values, arrayOf(type, path), path)

function refuseOperator(name: string, column: Column, path: string): never {
  refuseJson(column, path)
  const forms = OPERATORS.get(name) as readonly Operator[]
  if (forms[0]?.extension && column.type.kind === 'text' && column.type.trigram === undefined) {
    throw unexpectedPayload(`this operator needs the extension ${forms[0].extension}`, path)
  }
  const all = forms.flatMap(({ on = [], types = [] }) => [...on, ...types])
  if (all.length === 0 || all.includes(column.type.kind)) {
    throw unexpectedPayload(
      `"${column.name}" is of type ${column.type.name}, which PostgreSQL cannot compare like this`,
      path,
    )
  }
  const types = all[0] === 'text' ? '"varchar"/"text"' : all.map((each) => `"${each}"`).join('/')
  throw unexpectedPayload(
    `"${column.name}" is of type ${column.type.name}; this operator works only on columns of type ${types}`,
    path,
  )
}

function refuseJson(column: Column, path: string): void {
  const { kind } = column.type
  if (kind === 'json' || kind === 'jsonb') {
    throw unexpectedPayload(`${kind.toUpperCase()} column can not be part of where clause${JSON_HINT[kind]}`, path)
  }
}

const JSON_HINT = { json: '', jsonb: '; $contains, $has_key and $is_null can' }

/** Reports the unknown operator. An object under a column is always a map of operators. */
function refuseOperators(shape: ExpShape, column: Column, path: string): BoolExp {
  const first = 'all' in shape ? shape.all.find((entry) => !('name' in entry && operatorName(entry.name))) : undefined
  if (!first) return TRUE
  refuseJson(column, path)
  const key = 'name' in first ? first.name : 'key' in first ? first.key : ''
  throw unknownOperator(key, path)
}

function unknownOperator(key: string, path: string): ServiceError {
  const near = /^[$_]/.test(key) ? didYouMean(key, operatorNames(key.charAt(0))) : ''
  return unexpectedPayload(`Unknown operator : ${key}${near}`, at(path, key))
}

function fail(error: Error): never {
  throw error
}
