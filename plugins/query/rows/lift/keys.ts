import {
  at,
  describe,
  isObject,
  type Json,
  type JsonObject,
  parseFailed,
  refuseOtherKeys,
  unexpectedPayload,
} from 'rowhouse/plan'
import type { ColumnShapes, ValueShape } from './shape.js'

export const PATH = '$.args'

export const present = (value: Json | undefined): value is Exclude<Json, null> => value !== undefined && value !== null

export function expectKeys(value: Json, keys: readonly string[], path: string): JsonObject {
  if (!isObject(value)) throw parseFailed(`expecting an object, but found ${describe(value)}`, path)
  refuseOtherKeys(value, keys, path)
  return value
}

export function required(object: JsonObject, key: string, path: string): Json {
  const value = object[key]
  if (value === undefined) throw parseFailed(`the key '${key}' was not present`, path)
  return value
}

export function oneOf<T extends string>(value: Json | undefined, allowed: readonly T[], path: string): T | undefined {
  if (!present(value)) return undefined
  const found = allowed.find((each) => each === value)
  if (!found) throw parseFailed(`expecting one of ${allowed.join(', ')}`, path)
  return found
}

export function columnNames(value: Json, path: string): readonly string[] {
  if (!Array.isArray(value)) throw parseFailed(`expecting an array of columns, but found ${describe(value)}`, path)
  refuseMany(value, path)
  return value.map((name, i) => {
    if (typeof name !== 'string') throw parseFailed(`expecting a column name, but found ${describe(name)}`, at(path, i))
    return name
  })
}

/** PostgreSQL's limit on the columns of a table. */
const MAX_NAMES = 1600

export function refuseMany(names: readonly Json[], path: string): void {
  if (names.length > MAX_NAMES) throw unexpectedPayload(`expecting at most ${MAX_NAMES} columns`, path)
}

/** Returns whether a column of a shape is a value of an aggregate. */
export const isValue = (column: ColumnShapes[number]): column is ValueShape =>
  typeof column !== 'string' && 'fn' in column

/** The keys of a result object, each of which is checked when it is added. */
export class ResultKeys {
  private readonly seen = new Set<string>()

  /** @throws ServiceError 400 `unexpected-payload` */
  add(key: string, path: string): void {
    if (key === '') throw unexpectedPayload('an alias must not be empty', path)
    if (this.seen.has(key)) throw unexpectedPayload(`the key "${key}" appears twice`, path)
    this.seen.add(key)
  }
}
