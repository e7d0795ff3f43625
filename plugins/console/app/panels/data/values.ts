import { type Column, isJson, isNumeric } from '../../catalog.js'
import { type Json, parse, textOf } from '../../json.js'

/** How a value is typed in. */
type Kind = 'boolean' | 'choice' | 'number' | 'json' | 'date' | 'text'
type Typed = Pick<Column, 'type' | 'values'>

export function kindOf(column: Typed): Kind {
  const { type, values } = column
  if (type.endsWith('[]') || isJson(column) || /(^|\.)(hstore|geometry|geography)$/.test(type)) return 'json'
  if (values) return 'choice'
  if (type === 'bool') return 'boolean'
  if (type === 'date') return 'date'
  return isNumeric(column) && type !== 'money' ? 'number' : 'text'
}

/** Returns the text that is edited. */
export const editedText = (column: Typed, value: Json | undefined): string =>
  kindOf(column) === 'json' && value !== null && value !== undefined ? JSON.stringify(value, null, 2) : textOf(value)

/**
 * Reads what somebody typed. What has no number's form goes to the server as a text, which says what is wrong with it.
 * @throws Error if a JSON text cannot be read
 */
export function readValue(column: Typed, text: string): Json {
  switch (kindOf(column)) {
    case 'boolean':
      return /^(true|false)$/.test(text) ? text === 'true' : text
    case 'number':
      return NUMBER.test(text.trim()) ? parse(text.trim()) : text
    case 'json':
      return readJson(text)
    case 'choice':
    case 'date':
    case 'text':
      return text
  }
}
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** @throws Error */
export function readJson(text: string): Json {
  try {
    return parse(text)
  } catch (error) {
    throw new Error(`this is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Reads a cell of a CSV file. Arrays may be JSON or PostgreSQL's text. */
export function readCell(column: Typed, text: string): Json {
  if (column.type.endsWith('[]') && text.startsWith('{')) return text
  try {
    return readValue(column, text)
  } catch {
    return text
  }
}
