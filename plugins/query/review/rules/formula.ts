import { USER_ID } from 'rowhouse'
import type { BoolExp, CompareOp, Operand, SqlType } from 'rowhouse/plan'
import { elementsOf, isOrdered } from './constants.js'
import { relatedRows } from './related.js'
import type { ColumnSpace, Point, Read, Space } from './space.js'

/** Results that a condition may have, as a sum of these. */
type Results = number
export const TRUE = 1
export const FALSE = 2
/** As a comparison with null. A row passes only if the result is true. */
export const UNKNOWN = 4
const ANY = TRUE | FALSE | UNKNOWN

/** A condition that tells its possible results from what has been decided. */
export type Formula = (read: Read) => Results

/** Translates a rule. Whatever has the same meaning in both rules must be translated with the same space. */
export function formulaOf(exp: BoolExp, space: Space): Formula {
  switch (exp.kind) {
    case 'and':
      return all(exp.of.map((part) => formulaOf(part, space)))
    case 'or':
      return not(all(exp.of.map((part) => not(formulaOf(part, space)))))
    case 'not':
      return not(formulaOf(exp.of, space))
    case 'guarded': {
      const [by, of] = [formulaOf(exp.by, space), formulaOf(exp.of, space)]
      return (read) => {
        const passes = by(read)
        return (passes & TRUE ? of(read) : 0) | (passes & (FALSE | UNKNOWN) ? UNKNOWN : 0)
      }
    }
    case 'unknown':
      return () => UNKNOWN
    case 'known': {
      const unset = unsetOf(exp.to, space)
      return (read) => choose(unset && read(unset), unset, TRUE, UNKNOWN)
    }
    case 'null': {
      const variable = space.isNull(exp)
      return (read) => choose(read(variable), variable, FALSE, TRUE)
    }
    case 'exists': {
      if (exp.from) return opaque(exp, space)
      const variable = relatedRows(exp, space)
      return (read) => choose(read(variable), variable, FALSE, TRUE)
    }
    case 'compare':
      return compared(exp, space)
    case 'columns':
      return comparedWithItself(exp, space) ?? opaque(exp, space)
    case 'sorted':
    case 'aggregate':
      return opaque(exp, space)
  }
}

const choose = (value: number | undefined, variable: object | undefined, zero: Results, one: Results): Results =>
  !variable || value === 0 ? zero : value === undefined ? zero | one : one

function opaque(exp: BoolExp, space: Space): Formula {
  const variable = space.opaque(JSON.stringify(exp))
  return (read) => {
    const value = read(variable)
    return value === undefined ? ANY : 1 << value
  }
}

const negated = (results: Results): Results =>
  (results & TRUE ? FALSE : 0) | (results & FALSE ? TRUE : 0) | (results & UNKNOWN)

const not =
  (of: Formula): Formula =>
  (read) =>
    negated(of(read))

const all =
  (parts: readonly Formula[]): Formula =>
  (read) => {
    let together: Results = TRUE
    for (const part of parts) {
      const results = part(read)
      if (results === FALSE) return FALSE
      const isUnknown =
        (together & UNKNOWN && results & (TRUE | UNKNOWN)) || (together & (TRUE | UNKNOWN) && results & UNKNOWN)
      together = (together & results & TRUE) | ((together | results) & FALSE) | (isUnknown ? UNKNOWN : 0)
    }
    return together
  }

type Compare = Extract<BoolExp, { kind: 'compare' }>

/** Returns whether an operand is null, as a user id that does not fit the type; undefined if it never is. */
const unsetOf = (to: Operand, space: Space) =>
  to.kind === 'session' && to.name === USER_ID
    ? space.variable(`unset ${typeKey(to.type)}`, () => ({ size: 2, isCertain: (value) => value === 0 }))
    : undefined
const typeKey = ({ schema, name }: SqlType): string => JSON.stringify([schema, name])

/** Translates a comparison of a column with values. Only of some types the order and the values are known. */
function compared(exp: Compare, space: Space): Formula {
  const { op, to } = exp
  const isList = op === 'in' || op === 'nin'
  const list = isList && to.kind === 'const' && to.value !== null ? elementsOf(to.value) : undefined
  // Nothing is in an empty list, not even null.
  if (list?.length === 0) return () => (op === 'in' ? FALSE : TRUE)
  const type = isList ? to.type.element : to.type
  const column = type && !exp.more && isOrdered(type) ? space.column(exp, type) : undefined
  const points = column && (isList ? list?.map((text) => column.constant(text)) : pointOf(column, to))
  const isNull = space.isNull(exp)
  const unset = isList ? undefined : unsetOf(to, space)
  /** @param ofNull result for a null on either side */
  const unlessNull = (ofNull: Results, results: (read: Read) => Results): Formula => {
    return (read) => {
      const absent = unset && read(unset)
      if (absent === 1) return ofNull
      const empty = read(isNull)
      if (empty === 1) return ofNull
      return results(read) | (empty === undefined || (unset && absent === undefined) ? ofNull : 0)
    }
  }
  if (!column || !points) {
    const unknown = opaque(exp, space)
    return isList || op === 'distinct' || op === 'not_distinct' ? unknown : unlessNull(UNKNOWN, unknown)
  }
  const equal = (read: Read): Results => {
    let results: Results = FALSE
    for (const point of points) {
      const is = column.equals(point, read)
      if (is === true) return TRUE
      if (is === undefined) results |= TRUE
    }
    return results
  }
  const relation = (passes: (relation: number) => boolean) => (read: Read) => {
    const is = column.compare(points[0] as Point, read)
    return is === undefined ? TRUE | FALSE : passes(is) ? TRUE : FALSE
  }
  const comparisons: Partial<Record<CompareOp, () => Formula>> = {
    eq: () => unlessNull(UNKNOWN, equal),
    ne: () => not(unlessNull(UNKNOWN, equal)),
    in: () => unlessNull(UNKNOWN, equal),
    nin: () => not(unlessNull(UNKNOWN, equal)),
    distinct: () => not(unlessNull(FALSE, equal)),
    not_distinct: () => unlessNull(FALSE, equal),
    gt: () =>
      unlessNull(
        UNKNOWN,
        relation((is) => is > 0),
      ),
    lt: () =>
      unlessNull(
        UNKNOWN,
        relation((is) => is < 0),
      ),
    gte: () =>
      unlessNull(
        UNKNOWN,
        relation((is) => is >= 0),
      ),
    lte: () =>
      unlessNull(
        UNKNOWN,
        relation((is) => is <= 0),
      ),
  }
  return comparisons[op]?.() ?? unlessNull(UNKNOWN, opaque(exp, space))
}

function pointOf(column: ColumnSpace, to: Operand): readonly Point[] | undefined {
  if (to.kind === 'session') return [column.session(to.name)]
  return to.kind === 'const' && to.value !== null ? [column.constant(to.value)] : undefined
}

/** Translates a comparison of a column with itself. */
function comparedWithItself(exp: Extract<BoolExp, { kind: 'columns' }>, space: Space): Formula | undefined {
  const type = space.table?.columnsByName.get(exp.column)?.type
  if (exp.column !== exp.to || exp.up || (exp.schema ?? 'pg_catalog') !== 'pg_catalog' || !type || !isOrdered(type))
    return undefined
  const isNull = space.isNull(exp)
  const isMet = exp.op === 'eq' || exp.op === 'gte' || exp.op === 'lte'
  return (read) => choose(read(isNull), isNull, isMet ? TRUE : FALSE, UNKNOWN)
}
