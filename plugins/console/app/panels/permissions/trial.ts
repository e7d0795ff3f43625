import { query } from '../../api.js'
import { type Table, wireName } from '../../catalog.js'
import type { Json, JsonObject } from '../../json.js'
import { variableOf, variableWords } from 'rowhouse/sentence'
import type { GridRow } from '../../ui/grid.js'
import type { Explained } from '../../ui/why.js'
import type { Place } from './rules.js'

/** Maximum number of rows to try a permission with. */
const MOST = 100

export type Variables = Readonly<Record<string, string>>

/** What is tried: a permission on the rows that meet a condition. */
export interface Trial {
  readonly place: Place
  readonly table: Table
  /** The rule, as a condition about rows. */
  readonly filter: Json
  /** Whether the server has this rule, so that the role itself can ask. */
  readonly isSaved: boolean
  readonly where: Json
  readonly variables: Variables
}

/** Reads the first rows as admin. */
export const readRows = ({ table, where }: Trial, signal: AbortSignal): Promise<readonly GridRow[]> =>
  query('select', { ...firstRows(table), columns: table.columns.map(({ name }) => name), where }, { as: null, signal })

/** Reads what the role gets. */
export async function readAsRole(trial: Trial, signal: AbortSignal): Promise<readonly GridRow[]> {
  const { table, where } = trial
  const asked = { table: wireName(table.table), columns: ['*'], where, limit: MOST }
  return query('select', asked, { as: callerOf(trial), signal })
}

/**
 * Returns the caller who has the permission.
 * @throws Error if the rule needs a session variable that has no value
 */
function callerOf({ place: { role }, filter, variables }: Trial) {
  withValues(filter, variables)
  return { role, variables }
}

const firstRows = (table: Table) => ({
  table: wireName(table.table),
  limit: MOST,
  ...(table.primary_key.length > 0 && { order_by: table.primary_key }),
})

/** Returns a text that identifies a row. */
export const rowKey = (row: GridRow, { primary_key: names }: Table): string =>
  JSON.stringify(names.map((name) => row[name]))

/** Returns the condition that finds one row. */
export const keyOf = (row: GridRow, { primary_key: names }: Table): JsonObject =>
  Object.fromEntries(names.map((name) => [name, row[name]]))

/**
 * Returns the keys of the rows for which the rule is true. The role itself asks where it can. Otherwise admin does, with
 * the rule as a condition.
 * @param definition permission that the role has; undefined for none
 */
export async function readSeen(
  trial: Trial,
  rows: readonly GridRow[],
  definition: JsonObject | undefined,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const { place, table, filter, isSaved, variables } = trial
  const names = table.primary_key
  if (rows.length === 0 || !definition) return new Set()
  const [name] = names
  const among: Json =
    names.length === 1 && name !== undefined
      ? { [name]: { $in: rows.map((row) => row[name] ?? null) } }
      : { $or: rows.map((row) => keyOf(row, table)) }
  const { columns, limit = MOST } = definition
  const isReadable = columns === '*' || names.every((each) => (columns as readonly Json[]).includes(each))
  const isAsked = place.action === 'select' && isSaved && isReadable && (limit as number) >= rows.length
  const seen = await query<readonly GridRow[]>(
    'select',
    {
      table: wireName(table.table),
      columns: names,
      where: isAsked ? among : { $and: [among, withValues(filter, variables)] },
    },
    { as: isAsked ? callerOf(trial) : null, signal },
  )
  return new Set(seen.map((row) => rowKey(row, table)))
}

/** Counts the rows for which the rule is true, and all rows. */
export async function countBoth(trial: Trial, signal: AbortSignal): Promise<readonly [seen: number, all: number]> {
  const { place, table, filter, isSaved, where, variables } = trial
  const count = async (condition: Json, as: ReturnType<typeof callerOf> | null) => {
    const asked = { table: wireName(table.table), where: condition }
    return (await query<{ readonly count: number }>('count', asked, { as, signal })).count
  }
  return Promise.all([
    place.action === 'select' && isSaved
      ? count(where, callerOf(trial))
      : count({ $and: [where, withValues(filter, variables)] }, null),
    count(where, null),
  ])
}

/**
 * Replaces the session variables of a rule by their values, so that admin can ask it as a condition.
 * @throws Error if one has no value
 */
function withValues(rule: Json, variables: Variables): Json {
  const name = variableOf(rule)
  if (name !== undefined) {
    const value = variables[name]
    if (value === undefined) throw new Error(`The rule needs ${variableWords(name)}. Enter a value above.`)
    return value
  }
  if (typeof rule !== 'object' || rule === null) return rule
  if (Array.isArray(rule)) return rule.map((part) => withValues(part as Json, variables))
  if (Object.getPrototypeOf(rule) !== Object.prototype) return rule
  return Object.fromEntries(Object.entries(rule).map(([key, part]) => [key, withValues(part ?? null, variables)]))
}

/** What to ask about: a row, what to write, or both. */
export interface Asked {
  readonly key?: Json
  readonly object?: Json
}

/**
 * Asks why a role may or may not do something.
 * @param permission to try instead of the one that the server has
 */
export const explain = (
  { table, role, action }: Place,
  session: Variables,
  asked: Asked,
  permission: JsonObject | undefined,
  signal: AbortSignal,
): Promise<Explained> =>
  query(
    'explain_permission',
    { role, session, operation: action, table: wireName(table), ...asked, permission },
    { as: null, signal },
  )
