import { ServiceError } from '../errors.js'
import { decodeUtf8, type Json, type JsonLimits, NumberText, parseJson, Rows, writtenKeys } from '../json/parse.js'

export interface ParseTask {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly limits: JsonLimits
  readonly rowsAt: RegExp | undefined
}

export type ParseAnswer =
  | { readonly value: Sent }
  | { readonly refused: Pick<ServiceError, 'status' | 'code' | 'message' | 'path'> }

/**
 * A value that can be sent between threads: a text after `NUMBER` stands for a `NumberText`, a `Map` for `Rows`, and a
 * `Set` for an object whose keys are in another order than in JavaScript: its keys and the object.
 */
export type Sent = null | boolean | number | string | Sent[] | SentObject | SentRows | SentKeys
export type SentObject = { [key: string]: Sent }
export type SentRows = Map<string, Pick<Rows, 'count' | 'columns'>>
export type SentKeys = Set<readonly string[] | SentObject>

/** No string of a body begins with it, because none may contain it. */
export const NUMBER = '\0'

export default function parse({ bytes, limits, rowsAt }: ParseTask): ParseAnswer {
  try {
    return { value: sent(parseJson(decodeUtf8(Buffer.from(bytes.buffer)), limits, rowsAt)) }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const { status, code, message, path } = error
    return { refused: { status, code, message, path } }
  }
}

/** Replaces values in place. */
function sent(value: Json): Sent {
  if (value === null || typeof value !== 'object') return value
  if (value instanceof NumberText) return NUMBER + value.text
  if (value instanceof Rows) return new Map([[value.source, { count: value.count, columns: value.columns }]])
  const keys = Array.isArray(value) ? undefined : writtenKeys(value)
  const parts = value as Record<string | number, Json>
  for (const key of Object.keys(parts)) {
    const part = parts[key] as Json
    if (typeof part === 'object') parts[key] = sent(part) as Json
  }
  return keys ? new Set([keys, parts as SentObject]) : (parts as Sent)
}
