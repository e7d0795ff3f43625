import { under } from '../errors.js'
import { DEFAULT_LIMITS, startOf } from './scan.js'
import { readRows, Rows } from './rows.js'
import { type Json, keysOf, NumberText } from './value.js'

/** Returns JSON without white space. Numbers keep their digits, keys their order, and rows their source text. */
export function stringifyJson(value: Json): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (value === null || typeof value !== 'object') return String(value)
  if (value instanceof NumberText) return value.text
  if (value instanceof Rows) return value.source
  // Lists of their parts would take several times as long.
  let text = ''
  if (Array.isArray(value)) {
    for (const item of value) text += `${text === '' ? '' : ','}${stringifyJson(item)}`
    return `[${text}]`
  }
  for (const key of keysOf(value)) {
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${stringifyJson(value[key] as Json)}`
  }
  return `{${text}}`
}

/**
 * Creates rows from parsed values, such as template arguments.
 * @param path path of the array in the request, for errors
 * @throws ServiceError 400 `parse-failed`, as `parseJson` does for rows in a request
 */
export const rowsOf = (value: Json[], path: string): Rows => rowsOfText(stringifyJson(value), path)

/** Creates rows from a JSON list of objects. @see rowsOf */
export const rowsOfText = (text: string, path: string): Rows =>
  under(path, () => readRows(startOf(text, DEFAULT_LIMITS)))

/** Returns JSON with one key or element a line. */
export function indented(value: Json, by = ''): string {
  const inner = `${by}  `
  const isScalar = value === null || typeof value !== 'object' || value instanceof NumberText || value instanceof Rows
  const entries = isScalar
    ? []
    : Array.isArray(value)
      ? value.map((each) => inner + indented(each, inner))
      : keysOf(value).map((key) => `${inner}${JSON.stringify(key)}: ${indented(value[key] as Json, inner)}`)
  if (entries.length === 0) return stringifyJson(value)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return `${open}\n${entries.join(',\n')}\n${by}${close}`
}
