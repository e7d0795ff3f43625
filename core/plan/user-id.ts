import { isInteger, USER_ID } from '../session.js'
import { and, operandsOf } from './boolexp.js'
import type { BoolExp, Operand, SqlType } from '../ir.js'

/**
 * Types of values that the user id may stand for, and which ids fit. Trailing blanks of a bpchar do not count, so that
 * an id with some would be another's.
 */
const FITS: Readonly<Record<string, (id: string) => boolean>> = {
  int2: (id) => isInteger(id, 16),
  int4: (id) => isInteger(id, 32),
  int8: (id) => isInteger(id),
  uuid: (id) => /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id),
  bpchar: (id) => !id.endsWith(' '),
}
const ALL_FIT: ReadonlySet<string> = new Set(['text', 'varchar'])

/** Returns whether every user id fits the type. `citext` is in the schema of its extension. */
const allFit = ({ schema, name, kind }: SqlType): boolean =>
  schema === 'pg_catalog' ? ALL_FIT.has(name) : name === 'citext' && kind === 'text'

/** Returns whether the user id may stand for a value of the type. */
export const takesUserId = (type: SqlType): boolean =>
  allFit(type) || (type.schema === 'pg_catalog' && Object.hasOwn(FITS, type.name))

/** Returns whether a user id can be a value of the type. One that cannot is bound as null where it is compared. */
export const fitsUserId = (id: string, type: SqlType): boolean => allFit(type) || FITS[type.name]?.(id) === true

/**
 * Makes a rule unknown wherever a user id that fits no column would otherwise satisfy it. Comparisons with null are
 * unknown already, except those that ask whether values are distinct. And `exists` and aggregates turn unknown into false or 0, which a negation, or a comparison with 0,
 * would turn into true.
 */
export function failClosed(exp: BoolExp): BoolExp {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return { kind: exp.kind, of: exp.of.map(failClosed) }
    case 'not':
      return and([{ kind: 'not', of: failClosed(exp.of) }, ...known(elsewhere(exp.of))])
    case 'exists':
      return { ...exp, where: failClosed(exp.where) }
    case 'aggregate':
      return and([{ ...exp, where: failClosed(exp.where) }, ...known(elsewhere(exp))])
    case 'compare': {
      const [by] = exp.op === 'distinct' || exp.op === 'not_distinct' ? known([exp.to]) : []
      return by ? { kind: 'guarded', by, of: exp } : exp
    }
    case 'columns':
    case 'null':
    case 'sorted':
    case 'unknown':
    case 'known':
    case 'guarded':
      return exp
  }
}

/** Returns the operands of conditions on other rows. */
function elsewhere(exp: BoolExp): readonly Operand[] {
  if (exp.kind === 'exists' || exp.kind === 'aggregate') return operandsOf(exp.where)
  if (exp.kind === 'not') return elsewhere(exp.of)
  return exp.kind === 'and' || exp.kind === 'or' ? exp.of.flatMap(elsewhere) : []
}

function known(operands: readonly Operand[]): readonly BoolExp[] {
  const ids = operands.filter((to) => to.kind === 'session' && to.name === USER_ID && !allFit(to.type))
  const byType = new Map(ids.map((to) => [to.type.name, to]))
  return [...byType.values()].map((to) => ({ kind: 'known', to }))
}
