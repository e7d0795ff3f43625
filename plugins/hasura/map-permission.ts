import { VARIABLE_NAME } from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'

export type PermissionType = 'insert' | 'select' | 'update' | 'delete'

/** A moved permission, or the reason why it must not be moved. */
type MappedPermission =
  | { readonly permission: JsonObject; readonly notes: readonly string[] }
  | { readonly reason: string }

/** Keys that are the same in Rowhouse. */
const SAME: Record<PermissionType, readonly string[]> = {
  insert: ['check', 'columns', 'set', 'backend_only'],
  select: ['columns', 'filter', 'limit', 'allow_aggregations', 'computed_fields'],
  update: ['columns', 'filter', 'check', 'set', 'backend_only'],
  delete: ['filter', 'backend_only'],
}
const RULE: Record<PermissionType, string> = { insert: 'check', select: 'filter', update: 'filter', delete: 'filter' }

/**
 * Moves the definition of a permission. Refuses what would let a role do more than in Hasura.
 */
export function mapPermission(type: PermissionType, given: JsonObject): MappedPermission {
  const permission: JsonObject = {}
  const notes: string[] = []
  for (const [key, value] of Object.entries(given)) {
    if (value === null) continue
    const reason = SAME[type].includes(key) ? undefined : refusalOf(key, value)
    if (reason !== undefined) return { reason }
    if (key === 'subscription_root_fields')
      notes.push('subscription_root_fields: subscriptions have the root fields of queries')
    if (!SAME[type].includes(key)) continue
    if (key === 'backend_only' && value === false) continue
    const moved = key === 'set' ? renamedValues(value) : renamed(value)
    if (moved === undefined) return { reason: `a session variable in "${key}" has no name of letters, digits and "-"` }
    permission[key] = moved
  }
  if (permission[RULE[type]] === undefined) return { reason: `it has no "${RULE[type]}"` }
  // In Hasura, a role that may insert may name every constraint and ignore conflicts.
  if (type === 'insert' && given['allow_upsert'] !== false) permission['allow_upsert'] = true
  if (permission['allow_aggregations'] === true && withoutAggregates(given['query_root_fields'])) {
    permission['allow_aggregations'] = false
    notes.push('query_root_fields excludes select_aggregate, so it permits no aggregates of related rows either')
  }
  return { permission, notes }
}

const withoutAggregates = (fields: Json | undefined): boolean =>
  Array.isArray(fields) && !fields.includes('select_aggregate')

/** Returns why a permission with this key must not be moved, or undefined for a key that restricts nothing. */
function refusalOf(key: string, value: Json): string | undefined {
  switch (key) {
    case 'query_root_fields':
      return Array.isArray(value) && !value.includes('select')
        ? 'query_root_fields excludes select: without it, the role could list all rows of the filter'
        : undefined
    case 'subscription_root_fields':
    case 'allow_upsert':
      return undefined
    case 'validate_input':
      return 'validate_input: a service checks the values; use check, or a constraint or trigger of the database'
    default:
      return `"${key}" is not known`
  }
}

/** Operators whose operand may be a JSON literal, in which Hasura reads no session variables. */
const LITERAL = /^[_$](eq|ne|neq|gt|lt|gte|lte|in|nin|contains|contained_in)$/

/**
 * Renames session variables in a rule: `X-Hasura-User-Id` to `X-Service-User-Id`.
 * @returns undefined if the new name would be none, which would make it a constant
 */
function renamed(value: Json): Json | undefined {
  if (typeof value === 'string') return variable(value)
  if (Array.isArray(value)) return all(value, renamed)
  if (!isObject(value)) return value
  return entries(value, (each, key) => {
    if (LITERAL.test(key) && isObject(each)) return each
    return LITERAL.test(key) && Array.isArray(each)
      ? all(each, (one) => (isObject(one) ? one : renamed(one)))
      : renamed(each)
  })
}

/** Renames session variables among presets, whose other values are constants. */
function renamedValues(value: Json): Json | undefined {
  return isObject(value) ? entries(value, (each) => (typeof each === 'string' ? variable(each) : each)) : value
}

function variable(text: string): string | undefined {
  // A constant that Rowhouse would read as a variable.
  if (/^x-service-/i.test(text)) return undefined
  if (!/^x-hasura-/i.test(text)) return text
  const name = `X-Service-${text.slice('x-hasura-'.length)}`
  return VARIABLE_NAME.test(name.toLowerCase()) ? name : undefined
}

function all(list: readonly Json[], change: (value: Json) => Json | undefined): Json | undefined {
  const changed = list.map(change)
  return changed.includes(undefined) ? undefined : (changed as Json[])
}

function entries(object: JsonObject, change: (value: Json, key: string) => Json | undefined): Json | undefined {
  const changed = Object.entries(object).map(([key, value]) => [key, change(value, key)] as const)
  return changed.some(([, value]) => value === undefined) ? undefined : (Object.fromEntries(changed) as JsonObject)
}
