import { at, isUnder } from '../errors.js'
import type { AnySchema, Infer, Issue, Schema } from '../json/schema.js'
import { lowerCamel, sameKey } from './key-case.js'
import { validate } from './validate.js'

/** A mistake in the configuration. */
export interface Mistake {
  /** JSON path of the value, e.g. `$.http.port`. */
  readonly path: string
  readonly message: string
  /** Origin of the value: a file, an environment variable, the command line. */
  readonly where: string
}

/** A value given outside of the file. Settings apply in order, so a later one wins. */
export interface Setting {
  /** Keys from the top in any spelling: `POOL_SIZE`, `poolsize` and `poolSize` are the same. */
  readonly keys: readonly string[]
  readonly value: unknown
  readonly where: string
}

/** A section of the configuration with its own schema. */
interface Section<S extends Schema> {
  /** Path of the section, e.g. `$.plugins.hello`. */
  readonly path: string
  readonly schema: S
  /** Checks what a schema cannot. Called once the schema is satisfied. */
  readonly check?: (value: Infer<S>) => readonly Issue[]
  /** Value in the file, or `undefined`. */
  readonly value: unknown
  /** Settings of this section, with keys relative to it. */
  readonly settings: readonly Setting[]
  /** The file, or the name of the source if there is none. */
  readonly where: string
}

type Resolved<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] }

/**
 * Resolves one section: applies settings over the file, parses texts as the schema requires, fills in defaults, refuses
 * unknown keys, and freezes the result.
 */
export function resolveSection<const S extends Schema>(section: Section<S>): Resolved<Infer<S>> {
  const origins = new Map<string, string>()
  let value = section.value
  for (const setting of section.settings) {
    const keys = spellKeys(section.schema, value, setting.keys)
    value = withValue(value, keys, setting.value)
    origins.set(keys.reduce(at, section.path), setting.where)
  }
  const schema: AnySchema = section.schema
  if (value === undefined && schema.type === 'object') value = {}

  const result = validate(section.schema, readTexts(section.schema, value))
  const issues = result.ok ? (section.check?.(result.value as Infer<S>) ?? []) : result.issues
  const mistakes = issues.map(({ keys, message }): Mistake => {
    const path = written(section.schema, value, keys).reduce<string>(at, section.path)
    return { path, message, where: originOf(path, origins) ?? section.where }
  })
  if (!result.ok || mistakes.length > 0) return { ok: false, mistakes }
  return { ok: true, value: freeze(result.value) as Infer<S> }
}

const TEXT = Symbol('text')
/** A text from outside JSON (a variable, a file, an argument). Only the schema knows its type. */
interface Text {
  readonly [TEXT]: string
}
export function textValue(text: string): Text {
  return { [TEXT]: text }
}
export function isText(value: unknown): value is Text {
  return typeof value === 'object' && value !== null && TEXT in value
}

/** Returns the text parsed as JSON, or unchanged if it is not JSON. */
export function jsonOf(text: Text): unknown {
  return parseJson(text[TEXT])
}

/** Returns whether an object is plain data. A plugin or a provider contains functions and is not. */
export function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || isText(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  return !Object.values(value).some((inner) => typeof inner === 'function')
}

/** Returns the keys as spelled in the schema, otherwise as in the file, otherwise in lower camel case. */
function spellKeys(schema: Schema | undefined, value: unknown, keys: readonly string[]): string[] {
  const [first, ...rest] = keys
  if (first === undefined) return []
  const node = isPlain(value) ? value : {}
  const properties = objects(schema).flatMap((branch) => Object.keys(branch.properties ?? {}))
  const known = [...properties, ...Object.keys(node)]
  const key = known.find((candidate) => sameKey(candidate, first)) ?? lowerCamel(first)
  return [key, ...spellKeys(memberOf(schema, key), node[key], rest)]
}

function withValue(value: unknown, keys: readonly string[], leaf: unknown): unknown {
  const [key, ...rest] = keys
  if (key === undefined) return leaf
  const node = isPlain(value) ? value : {}
  return { ...node, [key]: withValue(node[key], rest, leaf) }
}

/** Parses the texts in a value. */
function readTexts(schema: Schema | undefined, value: unknown): unknown {
  if (isPlain(value) && isList(schema)) return [readTexts(itemOf(schema), value)]
  if (isText(value)) return readText(schema, value[TEXT])
  if (Array.isArray(value)) return value.map((item: unknown) => readTexts(itemOf(schema), item))
  if (!isPlain(value)) return value
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  return Object.fromEntries(entries.map(([key, item]) => [key, readTexts(memberOf(schema, key), item)]))
}

/** A single object is accepted as a list of one. */
const isList = (schema: Schema | undefined) => branches(schema).every(({ type }) => type === 'array')

/** Returns the keys as written: without the index where a single value was accepted as a list. */
function written(schema: Schema | undefined, value: unknown, keys: Issue['keys']): Issue['keys'] {
  const [key, ...rest] = keys
  if (key === undefined) return []
  if (typeof key === 'number' && !Array.isArray(value)) return written(schema, value, rest)
  if (Array.isArray(value)) return [key, ...written(itemOf(schema), (value as unknown[])[Number(key)], rest)]
  const node = isPlain(value) ? value : {}
  return [key, ...written(memberOf(schema, String(key)), node[key], rest)]
}

/** Keeps a text where the schema allows one; otherwise parses JSON. A single value is accepted as a list of one. */
function readText(schema: Schema | undefined, text: string): unknown {
  const types = branches(schema).map((branch) => branch.type)
  if (types.some((type) => type === undefined || type === 'string')) return text
  const value = parseJson(text)
  return types.includes('array') && !Array.isArray(value) ? [value] : value
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function branches(schema: AnySchema | undefined): readonly AnySchema[] {
  if (schema === undefined) return [{}]
  return schema.anyOf === undefined ? [schema] : schema.anyOf.flatMap(branches)
}

/** Returns the schema branches for objects, including those for a single object accepted as a list. */
const objects = (schema: Schema | undefined): readonly AnySchema[] =>
  branches(schema).flatMap((branch) => (branch.type === 'array' ? branches(branch.items) : [branch]))

/** Returns the schema of a key. */
function memberOf(schema: Schema | undefined, key: string): Schema | undefined {
  for (const { properties = {}, additionalProperties } of objects(schema)) {
    if (Object.hasOwn(properties, key)) return properties[key]
    if (typeof additionalProperties === 'object') return additionalProperties
  }
  return undefined
}

const itemOf = (schema: Schema | undefined) => branches(schema).find(({ type }) => type === 'array')?.items

/** Returns the origin of the nearest setting at or above the path, otherwise of one below it. */
function originOf(path: string, origins: ReadonlyMap<string, string>): string | undefined {
  const places = [...origins.keys()]
  const above = places.filter((place) => isUnder(path, place)).toSorted((a, b) => b.length - a.length)
  return origins.get(above[0] ?? places.find((place) => isUnder(place, path)) ?? '')
}

function freeze(value: unknown): unknown {
  if (!Array.isArray(value) && !isPlain(value)) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}
