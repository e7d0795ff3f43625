import type { Rows } from './rows.js'

/** A JSON value as a request has it. */
export type Json = null | boolean | number | string | NumberText | Json[] | JsonObject | Rows

/** Has no prototype when it was parsed, so `__proto__` and `constructor` are keys like any other. */
export interface JsonObject {
  [key: string]: Json
}

/** A number that a JavaScript number would not print back exactly: `1.10`, `9007199254740993`, `1e400`, `-0`. */
export class NumberText {
  /** As the request has it. */
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}
