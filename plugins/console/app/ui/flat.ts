import { BigNumber, type Json, type JsonObject, numberOf } from '../json.js'
import type { GridColumn, GridRow } from './grid.js'

/** Rows whose values have no parts, as far as that is useful, and their columns. */
export interface Flat {
  readonly columns: readonly GridColumn[]
  readonly rows: readonly GridRow[]
}

const SAMPLE = 200
const MOST_COLUMNS = 200
const MOST_KEYS = 16

/** Makes columns of rows. An object that has the same few keys in all rows, such as a related row, becomes a column for each key. */
export function flatten(rows: readonly GridRow[]): Flat {
  const sample = rows.slice(0, SAMPLE)
  const nested = new Set<string>()
  const expand = (each: readonly GridRow[], depth: number): readonly GridRow[] => {
    const split = keysOf(each).filter((key) => hasSameKeys(each.map((row) => row[key])))
    if (split.length === 0 || depth === 0) return each
    for (const key of split) nested.add(key)
    return expand(
      each.map((row) => spread(row, nested)),
      depth - 1,
    )
  }
  const flatSample = expand(sample, 3)
  const columns = keysOf(flatSample)
    .slice(0, MOST_COLUMNS)
    .map((key) => ({
      key,
      title: key,
      numeric:
        flatSample.every((row) => row[key] === null || row[key] === undefined || isNumber(row[key])) &&
        flatSample.some((row) => isNumber(row[key])),
      sortable: false,
    }))
  const flat = nested.size === 0 ? rows : rows.map((row) => spreadAll(row, nested))
  return { columns, rows: flat }
}

const keysOf = (rows: readonly GridRow[]): readonly string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))]
const isNumber = (value: Json | undefined): boolean => numberOf(value) !== undefined

function hasSameKeys(values: readonly (Json | undefined)[]): boolean {
  const objects = values.filter((value) => value !== null && value !== undefined)
  if (objects.length === 0 || !objects.every(isPlain)) return false
  const keys = (value: Json | undefined) => Object.keys(value as JsonObject).join('\0')
  const first = keys(objects[0])
  const count = first.split('\0').length
  return first !== '' && count <= MOST_KEYS && objects.every((value) => keys(value) === first)
}

const isPlain = (value: Json | undefined): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof BigNumber)

function spread(row: GridRow, nested: ReadonlySet<string>): GridRow {
  return Object.fromEntries(
    Object.entries(row).flatMap(([key, value]): [string, Json | undefined][] =>
      nested.has(key) && isPlain(value)
        ? Object.entries(value as JsonObject).map(([inner, each]) => [`${key}.${inner}`, each])
        : nested.has(key) && value === null
          ? []
          : [[key, value]],
    ),
  )
}

function spreadAll(row: GridRow, nested: ReadonlySet<string>): GridRow {
  const next = spread(row, nested)
  return Object.keys(next).some((key) => nested.has(key) && isPlain(next[key])) ? spreadAll(next, nested) : next
}

/** Writes JSON so that people can read it: what fits on a line stays on one. */
export function pretty(value: Json | undefined, indent = '', width = 80): string {
  const line = JSON.stringify(value)
  if (typeof value !== 'object' || value === null || value instanceof BigNumber) return line
  const spaced = spacedLine(value)
  if (indent.length + spaced.length <= width) return spaced
  const inner = `${indent}  `
  const parts = Array.isArray(value)
    ? (value as readonly Json[]).map((each) => pretty(each, inner, width))
    : Object.entries(value as JsonObject).flatMap(([key, each]) =>
        each === undefined ? [] : [`${JSON.stringify(key)}: ${pretty(each, inner, width)}`],
      )
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}\n${indent}${close}`
}

function spacedLine(value: Json | undefined): string {
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(spacedLine).join(', ')}]`
  if (!isPlain(value)) return JSON.stringify(value)
  const entries = Object.entries(value as JsonObject).filter(([, each]) => each !== undefined)
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}: ${spacedLine(each)}`).join(', ')}}`
}
