import { at } from '../errors.js'
import type { Infer, Issue, Schema } from '../schema.js'
import { lowerCamel, sameKey } from './key-case.js'
import { validate, type AnySchema } from './validate.js'

/** One thing that is wrong with the configuration. */
export interface Mistake {
  /** JSON path of the value, e.g. `$.http.port`. */
  readonly path: string
  readonly message: string
  /** Where the value was given: a file, an environment variable, the command line. */
  readonly where: string
}

/** One value given outside the file. They are applied in order, so a later one wins. */
export interface Setting {
  /** Keys from the top, spelled freely: `POOL_SIZE`, `poolsize` and `poolSize` are the same. */
  readonly keys: readonly string[]
  readonly value: unknown
  readonly where: string
}

/** One section of the configuration that has a schema of its own. */
export interface Section<S extends Schema> {
  /** Path of the section, e.g. `$.plugins.hello`. */
  readonly path: string
  readonly schema: S
  /** What a schema cannot say. Called once the schema is satisfied. */
  readonly check?: (value: Infer<S>) => readonly Issue[]
  /** What the file says; `undefined` when it says nothing. */
  readonly value: unknown
  /** The settings of this section; their keys start inside it. */
  readonly settings: readonly Setting[]
  /** The file, or what to call the place when there is none. */
  readonly where: string
}

export type Resolved<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] }

/**
 * Makes the final value of one section: settings over the file, texts read as their schema says, defaults filled in,
 * unknown keys refused, frozen.
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
  if (result.ok && issues.length === 0) return { ok: true, value: freeze(result.value) as Infer<S> }
  const mistakes = issues.map(({ keys, message }) => {
    const path = written(value, keys).reduce<string>(at, section.path)
    return { path, message, where: originOf(path, origins) ?? section.where }
  })
  return { ok: false, mistakes }
}

const TEXT = Symbol('text')
/** A text from outside JSON (a variable, a file, an argument), whose type only the schema knows. */
export interface Text {
  readonly [TEXT]: string
}
export function textValue(text: string): Text {
  return { [TEXT]: text }
}
export function isText(value: unknown): value is Text {
  return typeof value === 'object' && value !== null && TEXT in value
}

/** What the text says as JSON, or itself if it is none. */
export function jsonOf(text: Text): unknown {
  return parseJson(text[TEXT])
}

/** An object that is data. A plugin or a provider, which holds functions, is not. */
export function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || isText(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  return !Object.values(value).some((inner) => typeof inner === 'function')
}

/** The keys as the schema, or else the file, spells them. A key that neither knows becomes lower camel case. */
function spellKeys(schema: Schema | undefined, value: unknown, keys: readonly string[]): string[] {
  const [first, ...rest] = keys
  if (first === undefined) return []
  const node = isPlain(value) ? value : {}
  const known = [...objects(schema).flatMap((branch) => Object.keys(branch.properties ?? {})), ...Object.keys(node)]
  const key = known.find((candidate) => sameKey(candidate, first)) ?? lowerCamel(first)
  return [key, ...spellKeys(member(schema, key), node[key], rest)]
}

function withValue(value: unknown, keys: readonly string[], leaf: unknown): unknown {
  const [key, ...rest] = keys
  if (key === undefined) return leaf
  const node = isPlain(value) ? value : {}
  return { ...node, [key]: withValue(node[key], rest, leaf) }
}

function readTexts(schema: Schema | undefined, value: unknown): unknown {
  if (isPlain(value) && isList(schema)) return [readTexts(itemOf(schema), value)]
  if (isText(value)) return readText(schema, value[TEXT])
  if (Array.isArray(value)) return value.map((item: unknown) => readTexts(itemOf(schema), item))
  if (!isPlain(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key, readTexts(member(schema, key), item)]),
  )
}

/** One object alone is also a list of one. */
const isList = (schema: Schema | undefined) => branches(schema).every(({ type }) => type === 'array')

/** The keys as they were written: without the index where one value stood for a list of one. */
function written(value: unknown, keys: Issue['keys']): Issue['keys'] {
  const [key, ...rest] = keys
  if (key === undefined) return []
  if (typeof key === 'number' && !Array.isArray(value)) return written(value, rest)
  const inner = Array.isArray(value) ? (value as unknown[])[Number(key)] : isPlain(value) ? value[key] : undefined
  return [key, ...written(inner, rest)]
}

/** A text stays one where a text may stand; elsewhere it is JSON. One value alone is also a list of one. */
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

/** The branches that describe an object, or the one object that stands for a list. */
const objects = (schema: Schema | undefined): readonly AnySchema[] =>
  branches(schema).flatMap((branch) => (branch.type === 'array' ? branches(branch.items) : [branch]))

function member(schema: Schema | undefined, key: string): Schema | undefined {
  for (const { properties = {}, additionalProperties } of objects(schema)) {
    if (Object.hasOwn(properties, key)) return properties[key]
    if (typeof additionalProperties === 'object') return additionalProperties
  }
  return undefined
}

const itemOf = (schema: Schema | undefined) => branches(schema).find(({ type }) => type === 'array')?.items

/** The nearest setting at or above the path. */
function originOf(path: string, origins: ReadonlyMap<string, string>): string | undefined {
  const above = [...origins.keys()].filter(
    (prefix) => path === prefix || path.startsWith(`${prefix}.`) || path.startsWith(`${prefix}[`),
  )
  return origins.get(above.reduce((best, prefix) => (prefix.length > best.length ? prefix : best), ''))
}

function freeze(value: unknown): unknown {
  if (!Array.isArray(value) && !isPlain(value)) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}
