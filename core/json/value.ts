import type { Rows } from './rows.js'

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
