import { unexpectedKey } from '../errors.js'
import { Rows } from './rows.js'

/** A JSON value of a request. */
export type Json = null | boolean | number | string | NumberText | Json[] | JsonObject | Rows

/** Has no prototype when parsed, so `__proto__` and `constructor` are ordinary keys. */
export interface JsonObject {
  [key: string]: Json
}

/**
 * Creates objects that inherit nothing. `Object.create(null)` would create a hash table for the properties, which takes
 * several times as much time and memory.
 */
export const BareObject = function () {} as unknown as new () => JsonObject
BareObject.prototype = Object.freeze(Object.create(null))

/** Keys as they were written, of objects with keys such as `10`, which JavaScript puts first. */
const written = new WeakMap<JsonObject, readonly string[]>()

/** Returns the keys of an object in the order in which they were written. */
export function keysOf(object: JsonObject): readonly string[] {
  const own = Object.keys(object)
  const known = writtenKeys(object)
  return known?.length === own.length ? known : own
}

/** Returns the keys of an object if JavaScript has them in another order. */
export const writtenKeys = (object: JsonObject): readonly string[] | undefined => written.get(object)

/** Keeps the order in which the keys of an object were written. */
export const keepKeys = (object: JsonObject, keys: readonly string[]): void => void written.set(object, keys)

/** @throws ServiceError 400 unexpected-payload: a key that is none of `known` */
export function refuseOtherKeys(value: object, known: readonly string[], path: string): void {
  for (const key in value) if (!known.includes(key)) throw unexpectedKey(key, known, path)
}

/** A number that JavaScript would print differently: `1.10`, `9007199254740993`, `1e400`, `-0`. */
export class NumberText {
  /** @param text number as written in the request */
  constructor(readonly text: string) {}

  /** As a text, where `JSON.stringify` writes it: in details of errors. */
  toJSON(): string {
    return this.text
  }
  toString(): string {
    return this.text
  }
}

/** Returns whether a value is an object: no array, nor what stands for one, nor a number that is kept as text. */
export function isObject(value: Json | undefined): value is JsonObject
export function isObject(value: unknown): value is Record<string, unknown>
export function isObject(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof NumberText) &&
    !(value instanceof Rows)
  )
}

/** Returns what a text is as JSON, or undefined if it is none. The error would quote the text. */
export function jsonOrNone(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
