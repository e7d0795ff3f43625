import { type ComputedField, type Related, type Table, tableName } from 'rowhouse/plan'
import { fieldObject, relationshipObject } from '../objects.js'
import type { Found, View } from './effect.js'

/** Says which relationships and computed fields lead a role elsewhere, on a table that it may read before and after. */
export function relatedEffects(key: string, was: View, is: View): readonly Found[] {
  const [before, after] = [was.catalog.tables.get(key), is.catalog.tables.get(key)]
  if (!before || !after || !was.names.may(before, 'select') || !is.names.may(after, 'select')) return []
  return [...relationshipEffects(before, after, was, is), ...fieldEffects(before, after, was, is)]
}

function relationshipEffects(before: Table, after: Table, was: View, is: View): readonly Found[] {
  const ways = (names: View['names'], table: Table) =>
    new Map(names.relationships(table).map((each) => [each.relationship.name, each]))
  return compared(ways(was.names, before), ways(is.names, after), (name, old, now) => {
    const because = [relationshipObject(after, name)]
    const text = `the relationship ${name} of ${tableName(after)}`
    // Otherwise the role may, or may no longer, read the other table, which is said there.
    if (!old)
      return before.relationshipsByName.has(name) ? [] : [{ because, effect: 'wider', text: `can follow ${text}` }]
    if (!now)
      return after.relationshipsByName.has(name)
        ? []
        : [{ because, effect: 'narrower', text: `can no longer follow ${text}` }]
    if (joinOf(old) === joinOf(now)) return []
    return [{ because, effect: 'unknown', text: `can follow ${text} to other rows` }]
  })
}

const joinOf = ({ relationship: { type, table, on } }: Related): string => JSON.stringify([type, table, on])

function fieldEffects(before: Table, after: Table, was: View, is: View): readonly Found[] {
  const fields = (names: View['names'], table: Table) =>
    new Map(names.computedFields(table).map((field) => [field.name, field]))
  return compared(fields(was.names, before), fields(is.names, after), (name, old, now) => {
    const because = [fieldObject(after, name)]
    const text = `the computed field ${name} of ${tableName(after)}`
    // Values are listed in the permission.
    if (!old)
      return isRows(now) && !before.computedByName.has(name)
        ? [{ because, effect: 'wider', text: `can read ${text}` }]
        : []
    if (!now)
      return isRows(old) && !after.computedByName.has(name)
        ? [{ because, effect: 'narrower', text: `can no longer read ${text}` }]
        : []
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    return [{ because, effect: 'unknown', text: `can read ${text} with another definition` }]
  })
}

const isRows = (field: ComputedField | undefined): boolean => field !== undefined && 'table' in field.gives

function compared<T>(
  was: ReadonlyMap<string, T>,
  is: ReadonlyMap<string, T>,
  effects: (name: string, old: T | undefined, now: T | undefined) => readonly Found[],
): readonly Found[] {
  return [...new Set([...was.keys(), ...is.keys()])].flatMap((name) => effects(name, was.get(name), is.get(name)))
}
