import { type Json, nullsFirst, type OrderBy, parseJson, type TableRef } from 'rowhouse/plan'

/**
 * What a global id or a cursor says. A global id is `[1, "public", "author", 7]`, with the table and the values of its
 * primary key; a cursor is `["<fingerprint>", "Ann", 7]`, with that of its list and the values of its order. Both are in
 * base64.
 */
export interface Said<Value = Json> {
  readonly names: readonly string[]
  readonly values: readonly Value[]
}

/** The number that a global id begins with. */
export const VERSION = 1
const MAX_VALUES = 100

/** Reads a global id or a cursor. Returns undefined for a damaged one, and nothing said for the cursor of an empty page. */
export function readOpaque(text: string): Said | undefined {
  if (text === '') return { names: [], values: [] }
  if (!/^[\w+/-]+=*$/.test(text)) return undefined
  const said = parsed(Buffer.from(text, 'base64').toString())
  if (!Array.isArray(said) || said.length > MAX_VALUES) return undefined
  const [names, values] = said[0] === VERSION ? [said.slice(1, 3), said.slice(3)] : [said.slice(0, 1), said.slice(1)]
  return names.length > 0 && names.every((name) => typeof name === 'string') ? { names, values } : undefined
}

function parsed(text: string): Json | undefined {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

/**
 * Returns a short text for a list and its order, so that a cursor of another one is noticed. The slots of variables are
 * not part of it, because they depend on which other variables have a value.
 */
export function fingerprint({ schema, name }: TableRef, order: readonly OrderBy[]): string {
  let hash = 0
  const keys = order.map((each) => {
    const isUsual = each.direction !== 'desc' && !nullsFirst(each)
    return isUsual ? each.by : [each.by, each.direction === 'desc', nullsFirst(each)]
  })
  const text = JSON.stringify([schema, name, keys], (key, value: unknown) => (key === 'slot' ? undefined : value))
  for (const byte of Buffer.from(text)) hash = (Math.imul(hash, 31) + byte) | 0
  return (hash >>> 0).toString(36)
}
