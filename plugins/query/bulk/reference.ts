import { counted, didYouMean, type JsonSchema } from 'rowhouse'
import { describe, isObject, type Json, type JsonObject, parseFailed } from 'rowhouse/plan'

/** A value in the answer of an earlier step, e.g. `order.returning[0].id`. */
export interface Reference {
  /** Name of the step. */
  readonly name: string
  /** Keys of objects and indices of lists; null for every element of a list (`[*]`). */
  readonly keys: readonly (string | number | null)[]
}

/** Marks `{"$ref": "order.returning[0].id"}`. */
export const isReference = (object: JsonObject): boolean => '$ref' in object && Object.keys(object).length === 1

/** @throws ServiceError 400 parse-failed */
export function parseReference(text: Json | undefined, path: string): Reference {
  if (typeof text === 'string' && text.length > MAX_LENGTH) {
    throw parseFailed(`a reference has at most ${MAX_LENGTH} characters`, path)
  }
  const [, name, rest = ''] = (typeof text === 'string' && REFERENCE.exec(text)) || []
  if (name === undefined) throw parseFailed('expecting a reference, such as "order.returning[0].id"', path)
  const keys = (rest.match(KEY) ?? []).map((key) =>
    key.startsWith('.') ? key.slice(1) : key === '[*]' ? null : Number(key.slice(1, -1)),
  )
  if (keys.length > MAX_KEYS) throw parseFailed(`a reference has at most ${MAX_KEYS} keys and indices`, path)
  return { name, keys }
}

const MAX_LENGTH = 1000
const MAX_KEYS = 32
/** The name of a step. */
export const STEP_NAME = /^[A-Za-z_]\w{0,62}$/
const REFERENCE = /^([A-Za-z_]\w{0,62})((?:\.[^.[\]]+|\[(?:\d{1,6}|\*)\])*)$/
const KEY = /\.[^.[\]]+|\[[\d*]+\]/g

/** Returns the value that a reference names. Keys of null are null. @throws ServiceError 400 if it does not exist */
export function follow(value: Json, { name, keys }: Reference, path: string): Json {
  let at = name
  let current = value
  for (const [i, key] of keys.entries()) {
    if (key === null) {
      if (!Array.isArray(current)) throw missing(at, `it is ${describe(current)}, not a list`, path)
      return current.map((element, n) => follow(element, { name: `${at}[${n}]`, keys: keys.slice(i + 1) }, path))
    }
    if (current === null) return null
    if (typeof key === 'number') {
      if (!Array.isArray(current)) throw missing(at, `it is ${describe(current)}, not a list`, path)
      const { length } = current
      if (key >= length) throw missing(`${at}[${key}]`, `the list has ${counted(length, 'row')}`, path)
      current = current[key] as Json
      at += `[${key}]`
    } else {
      const found: Json | undefined = isObject(current) ? current[key] : undefined
      if (found === undefined) throw missing(`${at}.${key}`, `"${at}" is ${describe(current)} without it`, path)
      current = found
      at += `.${key}`
    }
  }
  return current
}

const missing = (what: string, why: string, path: string) => parseFailed(`"${what}" does not exist: ${why}`, path)

/**
 * Returns the schema of what a reference names.
 * @param schema of the answer of the step. An empty one allows all
 * @throws ServiceError 400 when no answer has it
 */
export function schemaAt(schema: JsonSchema, { name, keys }: Reference, path: string): JsonSchema {
  let at = name
  let current = notNull(schema)
  for (const [i, key] of keys.entries()) {
    if (Object.keys(current).length === 0) return {}
    const { type, properties, prefixItems, items } = current as Shape
    if (typeof key === 'string') {
      if (type !== 'object') throw missing(`${at}.${key}`, `"${at}" is ${nameOf(type)}`, path)
      if (properties && !Object.hasOwn(properties, key)) {
        const near = didYouMean(key, Object.keys(properties))
        throw parseFailed(`"${at}" has no "${key}"${near}`, path)
      }
      current = notNull(properties?.[key] ?? {})
      at += `.${key}`
      continue
    }
    if (type !== 'array') throw missing(at, `it is ${nameOf(type)}, not a list`, path)
    if (key === null)
      return { type: 'array', items: schemaAt(items ?? {}, { name: `${at}[*]`, keys: keys.slice(i + 1) }, path) }
    if (prefixItems && key >= prefixItems.length) {
      throw missing(`${at}[${key}]`, `the list has ${prefixItems.length} elements`, path)
    }
    current = notNull(prefixItems?.[key] ?? items ?? {})
    at += `[${key}]`
  }
  return current
}

interface Shape {
  readonly type?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly prefixItems?: readonly JsonSchema[]
  readonly items?: JsonSchema
}

/** Returns the schema of the values other than null. */
function notNull(schema: JsonSchema): JsonSchema {
  const { anyOf, type } = schema as { anyOf?: readonly JsonSchema[]; type?: string | readonly string[] }
  if (anyOf) return anyOf.find((each) => each['type'] !== 'null') ?? {}
  return Array.isArray(type) ? { ...schema, type: type.find((each) => each !== 'null') } : schema
}

const nameOf = (type: string | undefined): string =>
  type === undefined ? 'a value' : `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
