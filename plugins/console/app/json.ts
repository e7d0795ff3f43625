export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json | undefined }

/**
 * Parses JSON with all digits of its numbers: a number that JavaScript would change becomes a `BigNumber`.
 * @throws SyntaxError
 */
export function parse(text: string): Json {
  return JSON.parse(text, ((_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined && !isExact(value, context.source)
      ? new BigNumber(context.source)
      : value) as (key: string, value: unknown) => unknown) as Json
}

/** A number that JavaScript cannot hold, with its digits. */
export class BigNumber {
  readonly digits: string
  constructor(digits: string) {
    this.digits = digits
  }
  toString(): string {
    return this.digits
  }
  toJSON(): unknown {
    const { rawJSON } = JSON as unknown as { rawJSON?: (text: string) => unknown }
    return rawJSON ? rawJSON(this.digits) : Number(this.digits)
  }
}

/** Returns whether a value is an object: no list, and no number with all its digits. */
export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof BigNumber)

/** `1.10` is not exact: its last digit would be lost. */
const isExact = (value: number, source: string): boolean => String(value) === source

/** Returns the number of a cell; undefined for anything else. */
export function numberOf(value: Json | undefined): number | undefined {
  const number = typeof value === 'number' ? value : value instanceof BigNumber ? Number(value.digits) : undefined
  return Number.isFinite(number) ? number : undefined
}

/** Returns the text of a cell: nothing for null, JSON for what has parts. */
export const textOf = (value: Json | undefined): string =>
  value === null || value === undefined
    ? ''
    : typeof value === 'object' && !(value instanceof BigNumber)
      ? JSON.stringify(value)
      : String(value)

/** Returns the text at a key of an object, if there is one. */
export const textAt = (object: JsonObject, key: string): string | undefined =>
  typeof object[key] === 'string' ? object[key] : undefined
