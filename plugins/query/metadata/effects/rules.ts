import { type BoolExp, operandsOf, type Table, tableKey, tableName, type TableRef } from 'rowhouse/plan'
import { ruleSentence, type RuleTable } from '../../rule-sentence.js'
import { compareRules, type Relation } from '../rules/compare.js'
import type { Found, Say, State } from './effect.js'

/** A rule as it was written, and what it means. */
export interface Rule {
  /** Absent for a rule that is made of those of other roles. */
  readonly written: unknown
  readonly exp: BoolExp
}

/** Compares the rules of permissions, and puts them into words. */
export interface Rules {
  compare(was: Rule, is: Rule): Relation
  /** `all rows`, or `rows where ...` */
  wordsBefore(rule: Rule, table: TableRef): string
  wordsAfter(rule: Rule, table: TableRef): string
}

/** What all comparisons of one change may cost, and each of them. */
const EFFORT = 6_000_000
const EACH = 400_000

export function createRules(before: State, after: State): Rules {
  let left = EFFORT
  const wordsOf = ({ catalog }: State) => {
    const tables = new Map<string, RuleTable>()
    let all: readonly RuleTable[] | undefined
    return ({ written }: Rule, ref: TableRef): string => {
      if (written === undefined) return 'the rows of its parts'
      all ??= [...catalog.tables].map(([key, table]) => {
        const words = ruleTable(table)
        tables.set(key, words)
        return words
      })
      return ruleSentence(written, tables.get(tableKey(ref)), all)
    }
  }
  return {
    compare(was, is) {
      const effort = { left: Math.min(EACH, left) }
      const most = effort.left
      const relation = compareRules(was.exp, is.exp, effort)
      left -= most - effort.left
      return relation
    },
    wordsBefore: wordsOf(before),
    wordsAfter: wordsOf(after),
  }
}

const ruleTable = ({ schema, name, columns, relationships }: Table): RuleTable => ({
  table: { schema, name },
  columns: columns.map((column) => ({ name: column.name, type: column.type.name })),
  relationships,
})

/** What rows a rule is about, in words. */
export interface Rows {
  readonly table: TableRef
  /** `can read`, `can insert` */
  readonly can: string
  /** `of`, `into` */
  readonly of: string
  /** `by an update` */
  readonly how?: string
}

/** Returns the sentence about a rule that changed. `before` and `after` are its words. */
export function rowsText(
  relation: Exclude<Relation, 'same'>,
  { table, can, of, how }: Rows,
  before: string,
  after: string,
): string {
  const place = `${of} ${tableName(table)}${how === undefined ? '' : ` ${how}`}`
  const was = before === after ? 'was the same, with another meaning' : `was: ${before}`
  if (before !== after) {
    if (relation === 'wider' && after === ALL) return `${can} all rows ${place} (was: only ${before})`
    if (relation === 'narrower' && before === ALL && of === 'of') {
      return `${can} only ${after.replace('rows', `rows ${place}`)} (${was})`
    }
  }
  return `${can} ${MANY[relation](place)}: ${after} (${was})`
}
export const ALL = 'all rows'
const MANY: Readonly<Record<Exclude<Relation, 'same'>, (place: string) => string>> = {
  wider: (place) => `more rows ${place}`,
  narrower: (place) => `fewer rows ${place}`,
  different: (place) => `other rows ${place}`,
  unknown: (place) => `rows ${place} by another rule`,
}

/** Says which session variables a request needs now, or no longer, where the rules do not say it. */
export function variableEffects(
  was: readonly BoolExp[],
  is: readonly BoolExp[],
  relations: readonly Relation[],
  verb: string,
  say: Say,
): readonly Found[] {
  const [before, after] = [was, is].map(variablesOf) as [string[], string[]]
  const isSame = relations.every((each) => each === 'same')
  const added = isSame || relations.includes('wider') ? after.filter((each) => !before.includes(each)) : []
  const dropped = isSame || relations.includes('narrower') ? before.filter((each) => !after.includes(each)) : []
  return [
    ...added.map((name) => say('narrower', `can ${verb} only with ${header(name)}`)),
    ...dropped.map((name) => say('wider', `can ${verb} without ${header(name)}, too`)),
  ]
}

const variablesOf = (rules: readonly BoolExp[]): readonly string[] => [
  ...new Set(rules.flatMap(operandsOf).flatMap((to) => (to.kind === 'session' && to.name !== ROLE ? [to.name] : []))),
]
/** Every session has a role. */
const ROLE = 'x-service-role'
const header = (name: string): string => name.replaceAll(/(^|-)[a-z]/g, (start) => start.toUpperCase())
