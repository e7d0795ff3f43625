import { ServiceError } from '../errors.js'
import { LONG } from '../json/rows.js'
import {
  BareObject,
  type Json,
  type JsonObject,
  keepKeys,
  NumberText,
  Rows,
  type RowsGroup,
  writtenKeys,
} from '../json/parse.js'

/**
 * A value that can be sent between threads: a text after `NUMBER` stands for a `NumberText`, a `Map` for `Rows`, and a
 * `Set` for an object whose keys are in another order than in JavaScript: its keys and the object.
 */
export type Sent = null | boolean | number | string | Sent[] | SentObject | SentRows | SentKeys
type SentObject = { [key: string]: Sent }
type SentKeys = Set<readonly string[] | SentObject>
/** By their text. */
export type SentRows = Map<string, SentRowsParts>
type SentRowsParts = Pick<Rows, 'count' | 'columns' | 'values'> & { readonly groups?: SentGroups }
type SentGroups = readonly (Pick<RowsGroup, 'keys' | 'indices'> & { readonly rows: SentRows })[] | 'many'

/** No string of a body begins with it, because none may contain it. */
const NUMBER = '\0'

/** Replaces values in place. */
export function sent(value: Json): Sent {
  if (value === null || typeof value !== 'object') return value
  if (value instanceof NumberText) return NUMBER + value.text
  if (value instanceof Rows) return sentRows(value, groupsOf(value))
  const keys = Array.isArray(value) ? undefined : writtenKeys(value)
  const parts = value as Record<string | number, Json>
  for (const key of Object.keys(parts)) {
    const part = parts[key] as Json
    if (typeof part === 'object') parts[key] = sent(part) as Json
  }
  return keys ? new Set([keys, parts as SentObject]) : (parts as Sent)
}

export const sentRows = ({ source, count, columns, values }: Rows, groups?: SentGroups): SentRows =>
  new Map([[source, { count, columns, values, ...(groups && { groups }) }]])

/** Returns the groups of long rows with different keys, which the main thread may need. */
function groupsOf(rows: Rows): SentGroups | undefined {
  if (rows.uniform || rows.source.length <= LONG) return undefined
  try {
    // Typed arrays are sent many times as fast.
    return rows.groups('$').map(({ keys, indices, rows: part }) => {
      return { keys, indices: Uint32Array.from(indices), rows: sentRows(part) }
    })
  } catch (error) {
    if (error instanceof ServiceError) return 'many'
    throw error
  }
}

const isNumber = (text: string): boolean => text.charCodeAt(0) === 0

/** Restores the classes that a message between threads loses. */
export function received(value: Sent): Json {
  if (typeof value === 'string') return isNumber(value) ? new NumberText(value.slice(1)) : value
  if (value === null || typeof value !== 'object') return value
  if (value instanceof Map) return receivedRows(value)
  if (value instanceof Set) return inOrder(value)
  if (Array.isArray(value)) {
    const list = value as Json[]
    // The iterator of entries would take several times as long.
    for (let i = 0; i < list.length; i++) {
      const each = list[i] as Sent
      if (typeof each === 'object' ? each !== null : typeof each === 'string' && isNumber(each))
        list[i] = received(each)
    }
    return list
  }
  const object: JsonObject = new BareObject()
  for (const key of Object.keys(value)) object[key] = received(value[key] as Sent)
  return object
}

function inOrder(value: SentKeys): JsonObject {
  const [keys, rest] = [...value] as [readonly string[], SentObject]
  const object = received(rest) as JsonObject
  keepKeys(object, keys)
  return object
}

export function receivedRows(value: SentRows): Rows {
  const [[source, { count, columns, values, groups }]] = [...value] as [[string, SentRowsParts]]
  const known = groups === 'many' ? groups : groups?.map((each) => ({ ...each, rows: receivedRows(each.rows) }))
  return new Rows(source, count, columns, values, known)
}
