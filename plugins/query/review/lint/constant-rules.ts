import { partsOf, type RulePart } from 'rowhouse'
import { allNames, type BoolExp, type Catalog, type Table } from 'rowhouse/plan'
import { reachOf, type Share } from '../rules/compare.js'
import type { Finding } from './finding.js'
import { nameOf, rulesOf, type Subject } from './subject.js'

/** Finds rules that have a condition, and are nevertheless true for all rows, or for none. `{}` is deliberate. */
export function constantRules(subject: Subject, catalog: Catalog, share: Share): readonly Finding[] {
  const reach = (exp: BoolExp, on: Table) => share((effort) => reachOf(exp, on, catalog.tables, effort))
  return rulesOf(subject).flatMap(({ action, key, exp }): readonly Finding[] => {
    const definition = subject.definitions[action]
    if (!definition || Object.keys((definition[key] ?? {}) as object).length === 0) return []
    const found = reach(exp, subject.table)
    if (!found) return []
    const isAlways = found === 'all'
    const rule = partsOf(definition, key, subject.table, allNames(catalog))
    const part = smallest(rule, subject.table, (each, on) => reach(each.exp, on) === found)
    const text = JSON.stringify(part.clause)
    const about = { object: nameOf(subject, action), path: part.path, level: 'warning' } as const
    if (isAlways) {
      const rows = key === 'check' ? 'accepts every row' : 'hides no row'
      return [
        {
          rule: 'always-true',
          ...about,
          message: `the ${key} ${rows}, because ${text} is always true`,
          advice: `Correct the condition, or write {} if every row is meant.`,
        },
      ]
    }
    const rows = key === 'check' ? 'refuses every row' : 'hides every row'
    return [
      {
        rule: 'never-true',
        ...about,
        message: `the ${key} ${rows}, because ${text} is never true`,
        advice: 'Correct the condition, or drop the permission.',
      },
    ]
  })
}

/** Returns the smallest part of a rule that decides it alone. */
function smallest(rule: RulePart, on: Table, decides: (part: RulePart, on: Table) => boolean): RulePart {
  const parts = rule.parts?.of === 'not' ? [] : (rule.parts?.rules ?? [])
  const deciding = parts.filter((part) => decides(part, on))
  const [only] = deciding
  if (only && (deciding.length === 1 || rule.parts?.of === 'any')) return smallest(only, on, decides)
  const { related } = rule
  return related && decides(related.rule, related.table) ? smallest(related.rule, related.table, decides) : rule
}
