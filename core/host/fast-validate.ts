import { isObject } from '../json/is-object.js'
import type { Schema } from '../json/schema.js'

/** Returns whether a value matches a schema. */
export type Validator = (value: unknown) => boolean

/**
 * Creates a validator that only accepts or rejects. Ajv explains rejected values, but is slow to load and to compile,
 * and is not needed for a valid configuration. The validator fills in missing defaults in place.
 * @returns undefined for schemas that it does not support; Ajv handles those
 */
export function fastValidator(schema: Schema): Validator | undefined {
  try {
    return checkOf(schema)
  } catch (error) {
    if (error instanceof Unknown) return undefined
    throw error
  }
}

class Unknown extends Error {}

type Keywords = Readonly<Record<string, unknown>>

/** @param branch whether the schema is inside an `anyOf`, where Ajv applies no defaults */
function checkOf(schema: unknown, branch = false): Validator {
  if (!isObject(schema) || (branch && 'default' in schema)) throw new Unknown()
  const { type, default: _, description = '', secret = false, ...keywords } = schema
  if (typeof description !== 'string' || typeof secret !== 'boolean') throw new Unknown()
  switch (type) {
    case undefined:
      return anyOf(keywords)
    case 'null':
      return scalar((value) => value === null, keywords)
    case 'boolean':
      return scalar((value) => typeof value === 'boolean', keywords)
    case 'number':
      return number(Number.isFinite, keywords)
    case 'integer':
      return number(Number.isInteger, keywords)
    case 'string':
      return string(keywords)
    case 'array':
      return array(keywords, branch)
    case 'object':
      return object(keywords, branch)
    default:
      throw new Unknown()
  }
}

function anyOf({ anyOf: branches, ...others }: Keywords): Validator {
  refuse(others)
  if (branches === undefined) return () => true
  const checks = listOf(branches).map((branch) => checkOf(branch, true))
  return (value) => checks.some((check) => check(value))
}

function scalar(is: Validator, { enum: values, ...others }: Keywords): Validator {
  refuse(others)
  if (values === undefined) return is
  const allowed = new Set(listOf(values))
  return (value) => is(value) && allowed.has(value)
}

function number(is: Validator, { minimum, maximum, ...others }: Keywords): Validator {
  const [least, most] = [limit(minimum, -Infinity), limit(maximum, Infinity)]
  const known = scalar(is, others)
  return (value) => known(value) && (value as number) >= least && (value as number) <= most
}

function string({ minLength, maxLength, pattern, ...others }: Keywords): Validator {
  const [least, most] = [count(minLength, 0), count(maxLength, Infinity)]
  const form = pattern === undefined ? undefined : expression(pattern)
  const known = scalar((value) => typeof value === 'string', others)
  return (value) => {
    if (!known(value)) return false
    const text = value as string
    if (form && !form.test(text)) return false
    // A character beyond U+FFFF counts as one, but has length two.
    const length = least > 0 || text.length > most ? Array.from(text).length : 0
    return length >= least && length <= most
  }
}

function array({ items, minItems, maxItems, uniqueItems = false, ...others }: Keywords, branch: boolean): Validator {
  refuse(others)
  if (typeof uniqueItems !== 'boolean') throw new Unknown()
  const [least, most] = [count(minItems, 0), count(maxItems, Infinity)]
  const check = items === undefined ? () => true : checkOf(items, branch)
  return (value) => {
    if (!Array.isArray(value) || value.length < least || value.length > most) return false
    // Objects cannot be compared here.
    const distinct =
      !uniqueItems || (new Set(value).size === value.length && value.every((one) => typeof one !== 'object'))
    return distinct && value.every(check)
  }
}

function object(keywords: Keywords, branch: boolean): Validator {
  const { properties = {}, required = [], additionalProperties = true, minProperties, ...others } = keywords
  refuse(others)
  if (!isObject(properties)) throw new Unknown()
  const checks = new Map(Object.entries(properties).map(([key, schema]) => [key, checkOf(schema, branch)]))
  const defaults = Object.entries(properties as Readonly<Record<string, Schema>>).filter(([, one]) => 'default' in one)
  if (!defaults.every(([, one]) => isJson(one.default))) throw new Unknown()
  const needed = listOf(required, 0) as readonly string[]
  if (!needed.every((key) => checks.has(key))) throw new Unknown()
  const least = count(minProperties, 0)
  const other =
    typeof additionalProperties === 'boolean' ? () => additionalProperties : checkOf(additionalProperties, branch)
  return (value) => {
    if (!isObject(value)) return false
    for (const [key, one] of defaults) if (value[key] === undefined) value[key] = structuredClone(one.default)
    for (const key of needed) if (value[key] === undefined) return false
    for (const [key, check] of checks) if (value[key] !== undefined && !check(value[key])) return false
    for (const key in value) if (!checks.has(key) && !other(value[key])) return false
    return least === 0 || Object.keys(value).length >= least
  }
}

function refuse(others: object): void {
  if (Object.keys(others).length > 0) throw new Unknown()
}

function limit(value: unknown, absent: number): number {
  if (value === undefined) return absent
  if (!Number.isFinite(value)) throw new Unknown()
  return value as number
}

/** Returns a whole number, as lengths are. */
function count(value: unknown, absent: number): number {
  if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 0)) throw new Unknown()
  return limit(value, absent)
}

function listOf(value: unknown, least = 1): readonly unknown[] {
  if (!Array.isArray(value) || value.length < least || new Set(value).size < value.length) throw new Unknown()
  return value
}

function expression(source: unknown): RegExp {
  if (typeof source !== 'string') throw new Unknown()
  try {
    return new RegExp(source, 'u')
  } catch {
    throw new Unknown()
  }
}

/** Returns whether `structuredClone` copies the value unchanged. */
function isJson(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'function' && typeof value !== 'symbol'
  return Object.values(value).every(isJson)
}
