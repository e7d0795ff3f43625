import { counted, type JsonSchema } from 'rowhouse'
import {
  at,
  isObject,
  type Json,
  type JsonObject,
  parseFailed,
  refuseOtherKeys,
  serviceError,
  unexpectedPayload,
} from 'rowhouse/plan'

/** What the answer of a step must have, or else nothing of the bulk happens. */
export interface Expectation {
  readonly affected?: Range
  readonly rows?: Range
  readonly exists?: boolean
}
interface Range {
  readonly min: number
  readonly max: number
}

const KEYS = ['affected', 'rows', 'exists']

/**
 * Reads `{"affected": 1, "rows": {"min": 1}, "exists": true}`.
 * @throws ServiceError 400 parse-failed
 */
export function readExpectation(value: Json, path: string): Expectation {
  if (!isObject(value)) throw parseFailed(`expecting an object with one of the keys ${KEYS.join(', ')}`, path)
  refuseOtherKeys(value, KEYS, path)
  if (Object.keys(value).length === 0) throw parseFailed(`expecting one of the keys ${KEYS.join(', ')}`, path)
  const { affected, rows, exists } = value
  if (exists !== undefined && typeof exists !== 'boolean') throw parseFailed('expecting a boolean', `${path}.exists`)
  return {
    ...(affected === undefined ? {} : { affected: readRange(affected, `${path}.affected`) }),
    ...(rows === undefined ? {} : { rows: readRange(rows, `${path}.rows`) }),
    ...(exists === undefined ? {} : { exists }),
  }
}

/** Reads a number, or `{"min": 1, "max": 5}`. */
function readRange(value: Json, path: string): Range {
  if (isCount(value)) return { min: value, max: value }
  if (!isObject(value) || Object.keys(value).length === 0)
    throw parseFailed('expecting a whole number, or an object with min, max or both', path)
  refuseOtherKeys(value, ['min', 'max'], path)
  const { min = 0, max = Infinity } = value
  if (!isCount(min)) throw parseFailed('expecting a whole number', `${path}.min`)
  if (max !== Infinity && !isCount(max)) throw parseFailed('expecting a whole number', `${path}.max`)
  if (min > max) throw unexpectedPayload('min is greater than max', path)
  return { min, max }
}

const isCount = (value: Json): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 0

/** Checks that answers of a schema have what is expected. @throws ServiceError 400 */
export function assertExpectable(expect: Expectation, schema: JsonSchema, path: string): void {
  if (Object.keys(schema).length === 0) return
  const properties = (schema['properties'] ?? {}) as object
  const has = {
    affected: 'affected_rows' in properties,
    rows: schema['type'] === 'array' || 'count' in properties || 'returning' in properties,
  }
  if (expect.affected && !has.affected) throw noCount('affected rows', `${path}.affected`)
  if (expect.rows && !has.rows) throw noCount('rows', `${path}.rows`)
  if (expect.exists !== undefined && !has.affected && !has.rows) throw noCount('rows', `${path}.exists`)
}

/** @throws ServiceError 409 unmet-expectation */
export function assertExpected({ affected, rows, exists }: Expectation, answer: Json, path: string): void {
  if (affected) assertIn(affected, affectedBy(answer), 'affected row', at(path, 'affected'))
  if (rows) assertIn(rows, rowsIn(answer), 'row', at(path, 'rows'))
  if (exists === undefined) return
  const count = rowsIn(answer) ?? affectedBy(answer)
  if (count === undefined) throw noCount('rows', `${path}.exists`)
  if (count > 0 !== exists) throw unmet(exists ? 'no row exists' : 'a row exists', `${path}.exists`)
}

function assertIn({ min, max }: Range, count: number | undefined, what: string, path: string): void {
  if (count === undefined) throw noCount(`${what}s`, path)
  if (count >= min && count <= max) return
  const wanted =
    min === max
      ? counted(min, what)
      : max === Infinity
        ? `at least ${counted(min, what)}`
        : `${min} to ${counted(max, what)}`
  throw unmet(`expected ${wanted}, but found ${count}`, path)
}

const numberOf = (answer: Json, key: string): number | undefined =>
  isObject(answer) && typeof answer[key] === 'number' ? answer[key] : undefined

const affectedBy = (answer: Json) => numberOf(answer, 'affected_rows')

function rowsIn(answer: Json): number | undefined {
  if (Array.isArray(answer)) return answer.length
  const returned = isObject(answer) ? (answer as JsonObject)['returning'] : undefined
  return Array.isArray(returned) ? returned.length : numberOf(answer, 'count')
}

const noCount = (what: string, path: string) => unexpectedPayload(`the answer has no number of ${what}`, path)
const unmet = (message: string, path: string) => serviceError('unmet-expectation', message, path)
