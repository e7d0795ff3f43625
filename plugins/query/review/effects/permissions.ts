import { type PermissionType, roleName } from 'rowhouse'
import { type Table, tableName } from 'rowhouse/plan'
import { permissionObject } from '../objects.js'
import type { Relation } from '../rules/compare.js'
import type { Found, Rule, Say, View } from './effect.js'
import { laterColumns, limitEffects, listEffects, presetEffects } from './lists.js'
import { gives, type Parts, partsOf } from './parts.js'
import { type Rows, rowsText, type Rules, variableEffects } from './rules.js'
import { counted } from './words.js'

/** Says what a role may do with a table that it could not do before, and the reverse. */
export function permissionEffects(key: string, was: View, is: View, rules: Rules): readonly Found[] {
  const [before, after] = [was.catalog.tables.get(key), is.catalog.tables.get(key)]
  const table = (after ?? before) as Table
  const name = tableName(table)
  const object = (action: PermissionType) => permissionObject(table, roleName(is.key), action)
  const found = ACTIONS.flatMap((action): readonly Found[] => {
    const say: Say = (effect, text) => ({ because: [object(action)], effect, text })
    const [old, now] = [partsOf(action, before, was), partsOf(action, after, is)]
    if (old && now) {
      const read = [partsOf('select', before, was)?.rows, partsOf('select', after, is)?.rows] as const
      const all = changes(action, table, old, now, read, rules, say)
      if (action !== 'update' || !before || !after) return all
      const columns = old.columns.filter((each) => now.columns.includes(each))
      return [...all, ...ownValueEffects(before, after, columns, was, is, say)]
    }
    if (now) return [say('wider', `can ${granted(action, table, now, rules)}`)]
    return old ? [say('narrower', `can no longer ${DOES[action](name)}`)] : []
  })
  const say: Say = (effect, text) => ({ because: [object('insert'), object('update'), object('select')], effect, text })
  return before && after ? [...found, ...upsertEffects(before, after, was, is, say)] : found
}

const ACTIONS: readonly PermissionType[] = ['select', 'insert', 'update', 'delete']
const DOES: Readonly<Record<PermissionType, (table: string) => string>> = {
  select: (table) => `read ${table}`,
  insert: (table) => `insert into ${table}`,
  update: (table) => `update ${table}`,
  delete: (table) => `delete rows of ${table}`,
}

/** Says what a new permission allows: `read 2 columns of note: id, text (all rows)`. */
function granted(action: PermissionType, table: Table, parts: Parts, rules: Rules): string {
  const name = tableName(table)
  const words = (rule: Rule) => rules.wordsAfter(rule, table)
  const { columns, rows, check, presets, limit, computed, aggregates } = parts
  if (action === 'delete') return words(rows as Rule).replace(/^(all )?rows/, (start) => `delete ${start} of ${name}`)
  const list = columns.length > 0 ? `: ${columns.join(', ')}` : ''
  const details = [
    ...(rows ? [words(rows)] : []),
    ...(check ? [rows ? `afterwards ${words(check)}` : words(check)] : []),
    ...[...presets].map(([column, preset]) => `the server sets ${column} to ${preset.words}`),
    ...(computed.length > 0 ? [`${counted(computed.length, 'computed field')}: ${computed.join(', ')}`] : []),
    ...(aggregates ? ['with aggregates'] : []),
    ...(limit === undefined ? [] : [`at most ${limit} at a time`]),
  ]
  const of = counted(columns.length, 'column')
  const what = {
    select: `read ${of} of ${name}`,
    insert: `insert rows with ${of} into ${name}`,
    update: `update ${of} of ${name}`,
  }
  return `${what[action]}${list} (${details.join('; ')})`
}

/** @param read the rules of the rows that the role may read, before and after */
function changes(
  action: PermissionType,
  table: Table,
  was: Parts,
  is: Parts,
  read: readonly [Rule | undefined, Rule | undefined],
  rules: Rules,
  say: Say,
): readonly Found[] {
  const name = tableName(table)
  const relations: Relation[] = []
  const seen = ofSeenRows(was, is, read, rules)
  const rowEffects = (
    old: Rule | undefined,
    now: Rule | undefined,
    about: Omit<Rows, 'table'>,
    seenRows: Relation = 'same',
  ): readonly Found[] => {
    if (!old || !now) return []
    const own = rules.compare(old, now)
    relations.push(own)
    if (own === 'same') return []
    const relation = together(own, seenRows)
    const [before, after] = [rules.wordsBefore(old, table), rules.wordsAfter(now, table)]
    return [say(relation, rowsText(relation, { table, ...about }, before, after))]
  }
  const verb = VERBS[action]
  return [
    ...listEffects(was.columns, is.columns, { verb, word: 'column', of: name }, say),
    ...laterColumns(was, is, verb, name, say),
    ...listEffects(was.computed, is.computed, { verb, word: 'computed field', of: name }, say),
    ...rowEffects(was.rows, is.rows, { can: `can ${verb}`, of: 'of' }, seen),
    ...seenEffects(was, is, seen, verb, name, say),
    ...cellEffects(was, is, name, rules, say),
    ...rowEffects(was.check, is.check, action === 'insert' ? INSERTED : UPDATED),
    ...variableEffects(
      was,
      is,
      relations,
      { all: DOES[action](name), cell: (column) => `read ${column} of ${name}` },
      say,
    ),
    ...presetEffects(was, is, action, name, say),
    ...limitEffects(was, is, name, say),
    ...(was.aggregates === is.aggregates
      ? []
      : [
          say(
            is.aggregates ? 'wider' : 'narrower',
            `can ${is.aggregates ? '' : 'no longer '}aggregate rows of ${name}`,
          ),
        ]),
  ]
}

/** Returns how the rows that a role may read change those that it may write by a condition. */
function ofSeenRows(was: Parts, is: Parts, [before, after]: readonly (Rule | undefined)[], rules: Rules): Relation {
  if (was.isSeenOnly !== is.isSeenOnly) return is.isSeenOnly ? 'narrower' : 'wider'
  return is.isSeenOnly && before && after ? rules.compare(before, after) : 'same'
}

type Change = Exclude<Relation, 'same'>

/** Returns what a change of a rule means together with that of another one that must hold, too. */
function together(change: Change, other: Relation): Change {
  if (other === 'same') return change
  return change === other && change !== 'different' ? change : 'unknown'
}

/** Says which rows a role may write by a condition, if not all that it may write. */
function seenEffects(
  was: Parts,
  is: Parts,
  relation: Relation,
  verb: string,
  table: string,
  say: Say,
): readonly Found[] {
  if (relation === 'same') return []
  const can = `can ${verb} rows of ${table} by a condition`
  if (was.isSeenOnly && is.isSeenOnly)
    return [say(relation, `${can} that are ${CELLS[relation]}, those that it can read`)]
  return [say(relation, is.isSeenOnly ? `${can} only if it can read them` : `${can} even if it cannot read them`)]
}

/** Says which columns a role may change by their own values: those that it sees in all rows. */
function ownValueEffects(
  before: Table,
  after: Table,
  columns: readonly string[],
  was: View,
  is: View,
  say: Say,
): readonly Found[] {
  const isRead = ({ names }: View, table: Table, column: string) =>
    names.columns(table).some(({ name }) => name === column)
  return columns.flatMap((column): readonly Found[] => {
    if (!isRead(was, before, column) || !isRead(is, after, column)) return []
    const isMasked = is.names.isMasked(after, column)
    if (was.names.isMasked(before, column) === isMasked) return []
    const change = `change ${column} of ${tableName(after)} by its own value, as with $inc`
    return [isMasked ? say('narrower', `can no longer ${change}`) : say('wider', `can ${change}`)]
  })
}

/** Says in which rows a role that is made of others sees columns. */
function cellEffects(was: Parts, is: Parts, table: string, rules: Rules, say: Say): readonly Found[] {
  const names = new Set([...was.cells.keys(), ...is.cells.keys()])
  return [...names].flatMap((name): readonly Found[] => {
    const [old, now] = [was.cells.get(name) ?? was.rows, is.cells.get(name) ?? is.rows]
    if (!gives(was, name) || !gives(is, name) || !old || !now) return []
    const relation = rules.compare(old, now)
    return relation === 'same' ? [] : [say(relation, `can read ${name} of ${CELLS[relation]} of ${table}`)]
  })
}
const CELLS: Readonly<Record<Change, string>> = {
  wider: 'more rows',
  narrower: 'fewer rows',
  different: 'other rows',
  unknown: 'perhaps other rows',
}

const VERBS = { select: 'read', insert: 'insert values for', update: 'update', delete: 'delete' } as const
const INSERTED = { can: 'can insert', of: 'into' }
const UPDATED = { can: 'can write', of: 'into', how: 'by an update' }

/** Says whether a role may use `on_conflict`, and with which constraints, where it may insert before and after. */
function upsertEffects(before: Table, after: Table, was: View, is: View, say: Say): readonly Found[] {
  if (!was.names.may(before, 'insert') || !is.names.may(after, 'insert')) return []
  const name = tableName(after)
  const [could, can] = [was.names.mayUpsert(before), is.names.mayUpsert(after)]
  if (could && !can) return [say('narrower', `can no longer insert into ${name} with on_conflict`)]
  if (can && !could) return [say('wider', `can insert into ${name} with on_conflict`)]
  if (!can) return []
  const keys = ({ names }: View, table: Table) => names.conflictKeys(table).map((key) => key.name)
  const about = { verb: 'use on_conflict with', word: 'constraint', of: name }
  return listEffects(keys(was, before), keys(is, after), about, say)
}
