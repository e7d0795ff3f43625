import { type Operand, operandsOf, type Table, tableKey, tableName, type TableRef } from 'rowhouse/plan'
import { ruleSentence, type RuleTable } from '../rule-sentence.js'
import { compareRules, type Relation, shareEffort } from '../rules/compare.js'
import type { Found, Rule, Say, State } from './effect.js'
import { gives, type Parts } from './parts.js'
import { without } from './words.js'

/** Compares the rules of permissions, and puts them into words. */
export interface Rules {
  compare(was: Rule, is: Rule): Relation
  /** `all rows`, or `rows where ...` */
  wordsBefore(rule: Rule, table: TableRef): string
  wordsAfter(rule: Rule, table: TableRef): string
}

export function createRules(before: State, after: State): Rules {
  const share = shareEffort()
  const wordsOf = ({ catalog }: State) => {
    const tables = new Map<string, RuleTable>()
    let all: readonly RuleTable[] | undefined
    return ({ written }: Rule, ref: TableRef): string => {
      if (written === undefined) return OF_PARTS
      all ??= [...catalog.tables].map(([key, table]) => {
        const words = ruleTable(table)
        tables.set(key, words)
        return words
      })
      return ruleSentence(written, tables.get(tableKey(ref)), all)
    }
  }
  return {
    compare: (was, is) => share((effort) => compareRules(was.exp, is.exp, effort)),
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
  if (before === OF_PARTS && after === OF_PARTS) return `${can} ${MANY[relation](place)}, because its parts can`
  const was = before === after ? 'was the same, with another meaning' : `was: ${before}`
  if (before !== after) {
    if (relation === 'wider' && after === ALL) return `${can} all rows ${place} (was: only ${before})`
    if (relation === 'narrower' && before === ALL && of === 'of') {
      return `${can} only ${after.replace('rows', `rows ${place}`)} (${was})`
    }
  }
  return `${can} ${MANY[relation](place)}: ${after} (${was})`
}
const ALL = 'all rows'
const OF_PARTS = 'the rows of its parts'
const MANY: Readonly<Record<Exclude<Relation, 'same'>, (place: string) => string>> = {
  wider: (place) => `more rows ${place}`,
  narrower: (place) => `fewer rows ${place}`,
  different: (place) => `other rows ${place}`,
  unknown: (place) => `rows ${place} by another rule`,
}

/**
 * Says which session variables a request needs now, or no longer, where the rules do not say it.
 * @param relations of the rules of the rows
 */
export function variableEffects(
  was: Parts,
  is: Parts,
  relations: readonly Relation[],
  words: { readonly all: string; cell(column: string): string },
  say: Say,
): readonly Found[] {
  const isSaid = (by: Relation) => relations.includes(by) && relations.every((each) => each === by || each === 'same')
  const effects = (before: Needs, after: Needs, verb: string) => [
    ...without(after.all, before.all)
      .filter((name) => !(isSaid('narrower') && after.inRules.includes(name)))
      .map((name) => say('narrower', `can ${verb} only with ${header(name)}`)),
    ...without(before.all, after.all)
      .filter((name) => !(isSaid('wider') && before.inRules.includes(name)))
      .map((name) => say('wider', `can ${verb} without ${header(name)}, too`)),
  ]
  const [before, after] = [needsOf(was), needsOf(is)]
  const cells = [...was.cells.keys(), ...is.cells.keys()].filter((each) =>
    [was, is].every((parts) => gives(parts, each)),
  )
  const inCell = (parts: Parts, cell: string): Needs => {
    const mask = parts.cells.get(cell)
    return { all: mask ? without(variablesOf(operandsOf(mask.exp)), [...before.all, ...after.all]) : [], inRules: [] }
  }
  return [
    ...effects(before, after, words.all),
    ...[...new Set(cells)].flatMap((cell) => effects(inCell(was, cell), inCell(is, cell), words.cell(cell))),
  ]
}

/** The session variables that each request needs. */
interface Needs {
  readonly all: readonly string[]
  readonly inRules: readonly string[]
}
function needsOf({ rows, check, presets }: Parts): Needs {
  const inRules = variablesOf([rows, check].flatMap((rule) => (rule ? operandsOf(rule.exp) : [])))
  return { all: [...new Set([...inRules, ...variablesOf([...presets.values()].map(({ to }) => to))])], inRules }
}

const variablesOf = (operands: readonly Operand[]): readonly string[] => [
  ...new Set(operands.flatMap((to) => (to.kind === 'session' && to.name !== ROLE ? [to.name] : []))),
]
/** Every session has a role. */
const ROLE = 'x-service-role'
const header = (name: string): string => name.replaceAll(/(^|-)[a-z]/g, (start) => start.toUpperCase())
