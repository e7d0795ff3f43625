import type { BoolExp } from 'rowhouse/plan'
import type { Decided, Space, Variable } from './space.js'

type Exists = Extract<BoolExp, { kind: 'exists' }>
interface Member {
  readonly where: BoolExp
  readonly variable: Variable
}

/**
 * Returns whether some row of another table meets a condition, as a variable: 1, if one does. It cannot be that a row meets
 * one condition, and that none meets a wider one of the same rows.
 */
export function relatedRows({ table, on, where }: Exists, space: Space): Variable {
  const members = space.related(JSON.stringify([table, on])) as Map<string, Member>
  const key = JSON.stringify(where)
  const known = members.get(key)
  if (known) return known.variable
  const chosen = (value: number, decided: Decided) =>
    [...members.values()].filter((each) => each !== member && decided.get(each.variable) === value)
  const variable: Variable = {
    size: 2,
    allows(value, decided) {
      const met = value === 1 ? [member] : chosen(1, decided)
      const unmet = chosen(0, decided).concat(value === 1 ? [] : [member])
      return met.every(
        (each) => !space.implies(each.where, { kind: 'or', of: unmet.map((other) => other.where) }, table),
      )
    },
    isCertain: () => false,
  }
  const member = { where, variable }
  members.set(key, member)
  return variable
}
