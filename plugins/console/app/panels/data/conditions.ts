import { type Column, catalog } from '../../catalog.js'
import { isObject, type Json, type JsonObject, parse, textOf } from '../../json.js'
import { readJson, readValue } from './values.js'

/** A comparison, as the filter bar shows it. */
export interface Condition {
  /** A column, behind the relationships that lead to it. */
  readonly path: readonly string[]
  readonly operator: string
  /** What is typed in. */
  readonly text: string
}

export interface Filter {
  /** Whether one of the conditions is enough. */
  readonly isAny: boolean
  readonly conditions: readonly Condition[]
}

const NAMES: Readonly<Record<string, string>> = {
  $eq: '=',
  $ne: '≠',
  $gt: '>',
  $lt: '<',
  $gte: '≥',
  $lte: '≤',
  $in: 'is one of',
  $nin: 'is none of',
  $is_null: 'is null',
  $like: 'like',
  $nlike: 'not like',
  $ilike: 'like (any case)',
  $nilike: 'not like (any case)',
  $ceq: '= column',
  $cne: '≠ column',
  $cgt: '> column',
  $clt: '< column',
  $cgte: '≥ column',
  $clte: '≤ column',
}

/** Returns the operators of a column with their names. Conditions with others are written as JSON. */
export function operatorsOf({
  type,
}: Pick<Column, 'type'>): readonly { readonly key: string; readonly name: string }[] {
  const known = catalog.value?.operators[type] ?? []
  const usable = known.filter((key) => !['$neq', '$cneq', '$cast'].includes(key))
  return usable.map((key) => ({ key, name: NAMES[key] ?? key.slice(1).replaceAll('_', ' ') }))
}

/** What stands behind an operator: a value of the column, or something else. */
export function operandOf(
  operator: string,
  { type }: Pick<Column, 'type'>,
): 'value' | 'list' | 'boolean' | 'column' | 'json' | 'text' {
  if (operator === '$is_null') return 'boolean'
  if (/^\$c(eq|ne|gt|lt|gte|lte)$/.test(operator)) return 'column'
  if (/^\$(in|nin|has_keys_any|has_keys_all|\w+_any)$/.test(operator)) return 'list'
  if (operator.startsWith('$st_')) return 'json'
  if (/^\$(eq|ne|gt|lt|gte|lte|is_distinct|is_not_distinct)$/.test(operator)) return 'value'
  return /^\$(contains|contained_in|overlaps)$/.test(operator) && !/range$|^(inet|cidr)$/.test(type) ? 'json' : 'text'
}

/**
 * Returns the `where` of a filter.
 * @param columnAt finds the column of a path
 * @throws Error if a value cannot be read
 */
export function whereOfFilter(
  { isAny, conditions }: Filter,
  columnAt: (path: readonly string[]) => Column | undefined,
): JsonObject {
  const parts = conditions.map(({ path, operator, text }): JsonObject => {
    const column = columnAt(path)
    if (!column) throw new Error(`there is no column ${path.join('.')}`)
    const comparison: JsonObject = { [operator]: readOperand(operator, column, text) }
    return path.reduceRight<JsonObject>((inner, name) => ({ [name]: inner }), comparison)
  })
  if (parts.length > 1) return { [isAny ? '$or' : '$and']: parts }
  return parts[0] ?? {}
}

function readOperand(operator: string, column: Column, text: string): Json {
  switch (operandOf(operator, column)) {
    case 'boolean':
      return text !== 'false'
    case 'value':
      return readValue(column, text)
    case 'list':
      if (text.trim().startsWith('[')) return readJson(text)
      return text.split(',').map((each) => (/^\$n?in$/.test(operator) ? readValue(column, each.trim()) : each.trim()))
    case 'json':
      return readJson(text)
    case 'column':
    case 'text':
      return text
  }
}

/** Returns the filter of a `where`; undefined if only JSON can show it. */
export function filterOfWhere(where: JsonObject): Filter | undefined {
  const [key, ...others] = Object.keys(where)
  const joined: Json | undefined = others.length === 0 && (key === '$and' || key === '$or') ? where[key] : undefined
  const parts = Array.isArray(joined)
    ? (joined as readonly Json[])
    : Object.entries(where).map(([k, v]) => ({ [k]: v }))
  const conditions = parts.map((part) => (isObject(part) ? conditionsOf([], part) : undefined))
  // The parts of `$or` have one comparison each, or the form would change the meaning.
  const isAny = key === '$or' && Array.isArray(joined)
  if (conditions.some((found) => !found || (isAny && found.length !== 1))) return undefined
  return { isAny, conditions: conditions.flatMap((found) => found ?? []) }
}

function conditionsOf(path: readonly string[], part: JsonObject): readonly Condition[] | undefined {
  const keys = Object.keys(part)
  if (keys.length === 0 || (path.length > 0 && keys.length > 1 && !keys[0]!.startsWith('$'))) return undefined
  const found = keys.map((key): readonly Condition[] | undefined => {
    const value = part[key]
    const isOperator = key.startsWith('$')
    if (isOperator) {
      const isOther = /^\$c(eq|ne|neq|gt|lt|gte|lte)$/.test(key) && typeof value !== 'string'
      return path.length === 0 || value === null || isOther || /^\$(and|or|not|exists|cast)$/.test(key)
        ? undefined
        : [{ path, operator: key, text: operandText(value) }]
    }
    if (isObject(value)) return conditionsOf([...path, key], value)
    return value === null
      ? [{ path: [...path, key], operator: '$is_null', text: 'true' }]
      : [{ path: [...path, key], operator: '$eq', text: operandText(value) }]
  })
  return found.every((each) => each !== undefined) ? found.flat() : undefined
}

function operandText(value: Json | undefined): string {
  const isPlainList = Array.isArray(value) && value.every((each) => /^[^,"[\]{}\s]+$/.test(textOf(each as Json)))
  return isPlainList ? (value as readonly Json[]).map(textOf).join(', ') : textOf(value)
}

/** @throws Error if a text is no JSON object */
export function readWhere(text: string): JsonObject {
  const value = text.trim() === '' ? {} : parse(text)
  if (!isObject(value)) throw new Error('a condition is an object')
  return value
}
