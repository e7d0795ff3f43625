import { type Json, parse, textOf } from '../../json.js'
import type { Parameter, Schema } from './templates.js'

/** How a parameter is entered. `list` has an item on each line. */
type Kind = 'text' | 'number' | 'boolean' | 'date' | 'list' | 'json'

export const typesOf = ({ type }: Schema): readonly string[] => (typeof type === 'string' ? [type] : (type ?? []))
const mayBeNull = (schema: Schema): boolean => typesOf(schema).length === 0 || typesOf(schema).includes('null')

export function kindOf(schema: Schema): Kind {
  const types = typesOf(schema).filter((type) => type !== 'null')
  const [type = ''] = types
  switch (types.length === 1 ? type : '') {
    case 'string':
      return schema.format === 'date' ? 'date' : 'text'
    case 'integer':
    case 'number':
      return 'number'
    case 'boolean':
      return 'boolean'
    case 'array':
      return ['text', 'date', 'number', 'boolean'].includes(kindOf(schema.items ?? {})) ? 'list' : 'json'
    default:
      return 'json'
  }
}

/** Returns the type of a parameter in words, e.g. `whole number` or `list of text`. */
export function typeText(schema: Schema): string {
  const types = typesOf(schema).filter((type) => type !== 'null')
  if (types.length === 0) return 'JSON'
  return types.map((type) => nameOf(type, schema)).join(' or ')
}

function nameOf(type: string, { format, items = {} }: Schema): string {
  switch (type) {
    case 'string':
      return { 'date-time': 'time', date: 'date', uuid: 'uuid' }[format ?? ''] ?? 'text'
    case 'integer':
      return 'whole number'
    case 'number':
      return 'number'
    case 'array':
      return typesOf(items).includes('object') ? 'rows' : `list of ${plural(typeText(items))}`
    default:
      return type
  }
}

const plural = (type: string) => (/^(text|JSON)$|s$/.test(type) ? type : `${type}s`)

/** Returns an example of the text of a parameter; empty where its type says enough. */
export function hintFor(schema: Schema): string {
  if (schema.format === 'date-time') return '2026-01-31T12:00:00Z'
  const keys = Object.keys(schema.items?.properties ?? {}).slice(0, 3)
  return keys.length === 0 ? '' : `[{${keys.map((key) => `${JSON.stringify(key)}: …`).join(', ')}}]`
}

/** Where the value of a parameter comes from. */
export type Source = 'value' | 'default' | 'null'
export interface Entry {
  readonly source: Source
  readonly text: string
}
type Entries = Readonly<Record<string, Entry>>

export function entriesFor(parameters: readonly Parameter[]): Entries {
  return Object.fromEntries(
    parameters.map(({ name, required, schema }) => {
      const text = kindOf(schema) === 'boolean' ? 'true' : ''
      return [name, { source: required ? 'value' : 'default', text: required ? text : entered(schema) }]
    }),
  )
}

/** Returns the default of a parameter as one would enter it. */
function entered(schema: Schema): string {
  const { default: value = null } = schema
  if (kindOf(schema) === 'list' && Array.isArray(value)) return value.map((each) => textOf(each as Json)).join('\n')
  return kindOf(schema) === 'json' ? JSON.stringify(value) : textOf(value)
}

/** Returns the sources that a parameter can have. */
export const sourcesOf = ({ required, schema }: Parameter): readonly Source[] => [
  'value',
  ...(required ? [] : (['default'] as const)),
  ...(mayBeNull(schema) ? (['null'] as const) : []),
]

/** Arguments, and what is wrong with those that could not be read, both by parameter. */
interface Arguments {
  readonly values: Readonly<Record<string, Json>>
  readonly wrong: Readonly<Record<string, string>>
}

export function argumentsOf(parameters: readonly Parameter[], entries: Entries): Arguments {
  const values: Record<string, Json> = Object.create(null)
  const wrong: Record<string, string> = Object.create(null)
  for (const { name, schema } of parameters) {
    const { source, text } = entries[name]!
    if (source === 'default') continue
    try {
      values[name] = source === 'null' ? null : valueOf(text, schema)
    } catch (error) {
      wrong[name] = error instanceof Error ? error.message : String(error)
    }
  }
  return { values, wrong }
}

function valueOf(text: string, schema: Schema): Json {
  switch (kindOf(schema)) {
    case 'text':
    case 'date':
      return text
    case 'boolean':
      return text === 'true'
    case 'number':
      return numberOf(text)
    case 'list':
      return text === '' ? [] : text.split('\n').map((line) => itemOf(line, schema.items ?? {}))
    case 'json':
      return jsonOf(text)
  }
}

function itemOf(line: string, schema: Schema): Json {
  if (kindOf(schema) !== 'boolean') return valueOf(line, schema)
  if (/^\s*(true|false)\s*$/.test(line)) return line.includes('true')
  throw new Error(`“${line}” is neither true nor false`)
}

function numberOf(text: string): Json {
  const trimmed = text.trim()
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed)) {
    throw new Error(trimmed === '' ? 'enter a number' : `“${trimmed}” is not a number`)
  }
  return parse(trimmed)
}

function jsonOf(text: string): Json {
  if (text.trim() === '') throw new Error('enter JSON')
  try {
    return parse(text)
  } catch (error) {
    throw new Error(`this is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}
