import type { Column, Table } from '../catalog/catalog.js'
import { at, parseFailed, unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { encodeArray } from './encode.js'
import { columnRef, unsortable } from './fields.js'
import {
  type BoolExp,
  type ColumnOp,
  type CompareOp,
  isGeo,
  type Operand,
  operatorsIn,
  type SqlType,
  supports,
  TRUE,
} from '../ir.js'
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
  operatorOn,
  OPERATORS,
  rightType,
  type SearchShape,
} from './operators.js'
import {
  AGGREGATE,
  type AggregateShape,
  type CastShape,
  type ExpShape,
  type ListShape,
  type NearShape,
  type OpShape,
  type RootColumn,
  unknownOperator,
  type Entry,
} from './lift-boolexp.js'

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
  const exp = (part: ExpShape, on: Rows, where: string): BoolExp => {
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
      where: exp(part.exists, [other, ...on], `${here}._where`),
    }
  }

  const key = (entry: Exclude<Entry, ExpShape>, on: Rows, where: string): BoolExp => {
    const here = at(where, entry.name)
    if ('aggregates' in entry) return and(entry.aggregates.map((each) => aggregate(each, entry.name, on, here)))
    const found = names.columnOrRelationship(on[0], entry.name, here)
    const { is } = entry
    if (isRelated(found)) {
      if (is === null || typeof is !== 'object' || Array.isArray(is)) {
        throw unexpectedPayload(`expecting a condition on the relationship "${entry.name}"`, here)
      }
      const { relationship, table: remote, from } = found
      return {
        kind: 'exists',
        table: relationship.table,
        on: relationship.on,
        ...(from ? { from, computed: relationship.name } : {}),
        where: exp(is as ExpShape, [remote, ...on], here),
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

  const aggregate = (shape: AggregateShape, name: string, on: Rows, where: string): BoolExp => {
    const { relationship, table: remote } = names.relationship(on[0], name.slice(0, -AGGREGATE.length), where)
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
    for (const column of shape.distinct ? columns : []) {
      const reason = unsortable(column)
      if (reason !== undefined) throw unexpectedPayload(reason, `${here}.arguments`)
    }
    return {
      kind: 'aggregate',
      table: relationship.table,
      on: relationship.on,
      where: shape.filter ? exp(shape.filter, [remote, ...on], `${here}.filter`) : TRUE,
      fn: shape.fn,
      columns: columns.map((column) => column.name),
      distinct: shape.distinct,
      is: and(shape.predicate.map((op) => operator(op, value, [remote], at(`${here}.predicate`, op.key)))),
    }
  }

  const operator = (shape: OpShape, column: Column, on: Rows, here: string, cast?: Cast): BoolExp => {
    const name = operatorName(shape.key) as string
    const { to } = shape
    const isNull: BoolExp = { kind: 'null', ...columnRef(column) }
    if (name === 'is_null') return to === true ? isNull : { kind: 'not', of: isNull }
    if (name === 'cast') return casts(to as CastShape, column, on, here)
    const columnOp = COLUMN_OPERATORS.get(name)
    if (columnOp) return compareColumns(column, columnOp, on, to as string | RootColumn, here)
    const operator = operatorOn(name, column.type) ?? refuseOperator(name, column, here)
    const { op } = operator
    const compare: Compare = (op, to, more) => ({
      kind: 'compare',
      ...columnRef(column),
      op,
      to,
      more,
      cast,
      schema: operator.extension ? column.type.trigram : isGeo(column.type) ? undefined : operatorsIn(column.type),
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
  const casts = (shape: CastShape, column: Column, on: Rows, here: string): BoolExp =>
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

  const compareColumns = (
    column: Column,
    op: ColumnOp,
    on: Rows,
    given: string | RootColumn,
    here: string,
  ): BoolExp => {
    const [to, up] = typeof given === 'string' ? [given, 0] : [given.root, on.length - 1]
    const other = names.column(on[up] as Table, to, 'select', here)
    if (column.computed) throw unexpectedPayload(`"${column.name}" is computed, and only columns can be compared`, here)
    refuseJson(column, here)
    if (!supports(column.type, op === 'eq' || op === 'ne' ? 'equality' : 'order')) refuseOperator(op, column, here)
    if (column.type.schema !== other.type.schema || column.type.name !== other.type.name) {
      throw unexpectedPayload(`incompatible column types : "${column.name}", "${to}"`, here)
    }
    const schema = operatorsIn(column.type)
    return {
      kind: 'columns',
      column: column.name,
      op,
      to: other.name,
      ...(up > 0 ? { up } : {}),
      ...(schema === undefined ? {} : { schema }),
    }
  }

  return exp(shape, [table], path)
}

/** The table of the row that a condition is about, and those of the rows around it, up to the outermost one. */
type Rows = readonly [Table, ...Table[]]

/**
 * Returns the columns of a row that a condition on it compares other rows with.
 * @param up how far out the row is: 0, or 1 for a condition on rows that are related to it
 */
export function rootColumns(exp: BoolExp, up = 0): readonly string[] {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.flatMap((part) => rootColumns(part, up))
    case 'not':
      return rootColumns(exp.of, up)
    case 'guarded':
      return [...rootColumns(exp.by, up), ...rootColumns(exp.of, up)]
    case 'exists':
    case 'aggregate':
      return rootColumns(exp.where, up + 1)
    case 'columns':
      return exp.up === up ? [exp.to] : []
    case 'compare':
    case 'null':
    case 'sorted':
    case 'unknown':
    case 'known':
      return []
  }
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

/** @throws ServiceError 400 when the column's type has no array type */
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

const JSON_HINT = { json: '', jsonb: '; $eq, $contains, $has_key and other operators can' }

/** Reports the unknown operator. An object under a column is always a map of operators. */
function refuseOperators(shape: ExpShape, column: Column, path: string): BoolExp {
  const first = 'all' in shape ? shape.all.find((entry) => !('name' in entry && operatorName(entry.name))) : undefined
  if (!first) return TRUE
  refuseJson(column, path)
  const key = 'name' in first ? first.name : 'key' in first ? first.key : ''
  throw unknownOperator(key, path)
}

function fail(error: Error): never {
  throw error
}
