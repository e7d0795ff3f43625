import { type BoolExp, type Table, tableKey, TRUE as EVERY } from 'rowhouse/plan'
import { FALSE, type Formula, formulaOf, TRUE, UNKNOWN } from './formula.js'
import { Space, type Variable } from './space.js'

/**
 * How the rows of a rule relate to those of another. `wider`: all that the other has, and perhaps more; `different`: some are
 * missing and others are new, unless constraints of the table prevent that; `unknown`: none of these can be proven.
 */
export type Relation = 'same' | 'wider' | 'narrower' | 'different' | 'unknown'

/** What a comparison may still cost. Comparisons can share it. */
interface Effort {
  /** Number of questions about a row or a session. */
  left: number
}
const EFFORT = 2_000_000

/** Runs a comparison with its share of what many may cost together. */
export type Share = <T>(compare: (effort: Effort) => T) => T

export function shareEffort(all = 6_000_000, each = 400_000): Share {
  let left = all
  return (compare) => {
    const effort = { left: Math.min(each, left) }
    left -= effort.left
    const result = compare(effort)
    left += effort.left
    return result
  }
}

/** The tables of a database, whose constraints hold, too. */
type Tables = ReadonlyMap<string, Table>

/** Returns which rows of a table meet a rule, whatever the session: all, or none; undefined if neither is proven. */
export function reachOf(exp: BoolExp, table: Table, tables: Tables, effort: Effort): 'all' | 'none' | undefined {
  if (implies(exp, NONE, effort, { table, tables }) === 'always') return 'none'
  return implies(EVERY, exp, effort, { table, tables }) === 'always' ? 'all' : undefined
}
const NONE: BoolExp = { kind: 'or', of: [] }

/**
 * Compares two rules for rows of one table. `same`, `wider` and `narrower` hold for all rows that the database could have, and
 * for every caller who has the session variables of both rules.
 */
export function compareRules(before: BoolExp, after: BoolExp, effort: Effort = { left: EFFORT }): Relation {
  if (JSON.stringify(before) === JSON.stringify(after)) return 'same'
  const kept = implies(before, after, effort)
  const allowed = implies(after, before, effort)
  if (kept === 'always') return allowed === 'always' ? 'same' : 'wider'
  if (allowed === 'always') return 'narrower'
  return kept === 'not' && allowed === 'not' ? 'different' : 'unknown'
}

/**
 * Returns whether each row that meets one rule meets another, too: looks for a row that meets only the first. `not`: there is
 * one; `perhaps`: there may be one.
 */
function implies(
  first: BoolExp,
  second: BoolExp,
  effort: Effort,
  { table, tables }: { readonly table?: Table | undefined; readonly tables?: Tables } = {},
): 'always' | 'not' | 'perhaps' {
  const space = new Space((inner, outer, ref) => {
    const about = tables && { table: tables.get(tableKey(ref)), tables }
    return implies(inner, outer, effort, about) === 'always'
  }, table)
  const [given, wanted] = [formulaOf(first, space), formulaOf(second, space)]
  const decided = new Map<Variable, number>()
  let missing: Variable | undefined
  const resultsOf = (formula: Formula) => {
    missing = undefined
    return formula((variable) => {
      effort.left--
      const value = decided.get(variable)
      if (value === undefined) missing ??= variable
      return value
    })
  }
  let isOpen = false

  /** Returns whether a row was found that certainly could exist. */
  const search = (): boolean => {
    if (effort.left <= 0) {
      isOpen = true
      return false
    }
    const met = resultsOf(given)
    if (!(met & TRUE)) return false
    const next = missing
    const alsoMet = resultsOf(wanted)
    if (alsoMet === TRUE) return false
    if (met === TRUE && !(alsoMet & TRUE)) {
      isOpen = true
      return [...decided].every(([variable, value]) => variable.isCertain?.(value) ?? true)
    }
    const variable = (met & (FALSE | UNKNOWN) ? next : missing) as Variable
    for (let value = 0; value < variable.size; value++) {
      if (variable.allows?.(value, decided) === false) continue
      decided.set(variable, value)
      const isFound = search()
      decided.delete(variable)
      if (isFound) return true
    }
    return false
  }

  if (search()) return 'not'
  return isOpen ? 'perhaps' : 'always'
}
