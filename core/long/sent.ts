import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { setImmediate as nextTurn } from 'node:timers/promises'
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
 * A value that can be sent between threads: a text after `NUMBER` stands for a `NumberText`, a `Map` for `Rows`, a
 * `Set` for an object whose keys are in another order than in JavaScript: its keys and the object, and undefined for a
 * long list, which is sent in pieces.
 */
export type Sent = undefined | null | boolean | number | string | Sent[] | SentObject | SentRows | SentKeys
type SentObject = { [key: string]: Sent }
type SentKeys = Set<readonly string[] | SentObject>
/** By their text. */
export type SentRows = Map<string, SentRowsParts>
type SentRowsParts = Pick<Rows, 'count' | 'columns' | 'values'> & { readonly groups?: SentGroups }
type SentGroups = readonly (Pick<RowsGroup, 'keys' | 'indices'> & { readonly rows: SentRows })[] | 'many'

/** No string of a body begins with it, because none may contain it. */
const NUMBER = '\0'

/** Values that are sent together. To receive a million would keep the event loop busy for too long. */
const PIECE = 10_000

/** Counts what is sent, and sends long lists in pieces. */
export class Sender {
  /** Values so far, without those of long lists. */
  values = 0
  /** Long lists so far. */
  lists = 0

  constructor(private readonly port: MessagePort) {}

  /** Sends the elements up to each of the ends, and then an empty piece. */
  send(list: readonly Sent[], ends: readonly number[]): void {
    let from = 0
    for (const end of [...ends, list.length, list.length]) {
      this.port.postMessage(list.slice(from, end))
      from = end
    }
    this.lists++
  }
}

/** Replaces values in place. */
export function sent(value: Json, sender: Sender): Sent {
  sender.values++
  if (value === null || typeof value !== 'object') return value
  if (value instanceof NumberText) return NUMBER + value.text
  if (value instanceof Rows) return sentRows(value, groupsOf(value))
  if (Array.isArray(value)) return sentList(value, sender)
  const keys = writtenKeys(value)
  const parts = value as SentObject
  for (const key of Object.keys(parts)) parts[key] = sent(value[key] as Json, sender)
  return keys ? new Set([keys, parts]) : parts
}

/** Sends a long list in pieces, unless there is such a list within it. */
function sentList(value: Json[], sender: Sender): Sent {
  const list = value as Sent[]
  const { values, lists } = sender
  const ends: number[] = []
  let from = values
  for (let i = 0; i < list.length; i++) {
    list[i] = sent(value[i] as Json, sender)
    if (sender.values - from < PIECE) continue
    ends.push(i + 1)
    from = sender.values
  }
  if (ends.length === 0 || sender.lists > lists) return list
  sender.send(list, ends.at(-1) === list.length ? ends.slice(0, -1) : ends)
  sender.values = values
  return undefined
}

/** Returns lists that were sent in pieces. Other work runs between the pieces. */
export async function receivedLists(count: number, port: MessagePort): Promise<Json[][]> {
  const lists: Json[][] = []
  while (lists.length < count) {
    const list: Json[] = []
    for (;;) {
      const { message: piece } = receiveMessageOnPort(port) as { readonly message: readonly Sent[] }
      if (piece.length === 0) break
      for (const each of piece) list.push(received(each))
      await nextTurn()
    }
    lists.push(list)
  }
  return lists
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

/**
 * Restores the classes that a message between threads loses.
 * @param lists those that were sent in pieces, in their order; the first are removed
 */
export function received(value: Sent, lists: Json[][] = []): Json {
  if (value === undefined) return lists.shift() as Json[]
  if (typeof value === 'string') return isNumber(value) ? new NumberText(value.slice(1)) : value
  if (value === null || typeof value !== 'object') return value
  if (value instanceof Map) return receivedRows(value)
  if (value instanceof Set) return inOrder(value, lists)
  if (Array.isArray(value)) {
    const list = value as Json[]
    // The iterator of entries would take several times as long.
    for (let i = 0; i < list.length; i++) {
      const each = list[i] as Sent
      if (typeof each === 'object' ? each !== null : each === undefined || (typeof each === 'string' && isNumber(each)))
        list[i] = received(each, lists)
    }
    return list
  }
  const object: JsonObject = new BareObject()
  for (const key of Object.keys(value)) object[key] = received(value[key], lists)
  return object
}

function inOrder(value: SentKeys, lists: Json[][]): JsonObject {
  const [keys, rest] = [...value] as [readonly string[], SentObject]
  const object = received(rest, lists) as JsonObject
  keepKeys(object, keys)
  return object
}

export function receivedRows(value: SentRows): Rows {
  const [[source, { count, columns, values, groups }]] = [...value] as [[string, SentRowsParts]]
  const known = groups === 'many' ? groups : groups?.map((each) => ({ ...each, rows: receivedRows(each.rows) }))
  return new Rows(source, count, columns, values, known)
}
