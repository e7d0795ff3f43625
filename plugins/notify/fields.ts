import { type Json, type JsonObject } from 'rowhouse'
import { at, describe, isObject } from 'rowhouse/plan'
import { invalidPayload, missingKey } from './errors.js'
import { headerProblem } from './mailbox.js'

/** Reads and checks the keys of an object. Errors have the path of the key. */
export class Fields {
  private readonly object: JsonObject

  /**
   * @param optional keys that `required` allows to be absent
   * @throws ServiceError 400 when the value is not an object, or has other keys
   */
  constructor(
    value: Json,
    keys: readonly string[],
    private readonly path = '$',
    private readonly optional: ReadonlySet<string> = new Set(),
  ) {
    if (!isObject(value)) throw invalidPayload(`expecting an object, but found ${describe(value)}`, path)
    for (const key in value) if (!keys.includes(key)) throw invalidPayload(`unexpected key "${key}"`, at(path, key))
    this.object = value
  }

  at(key: string): string {
    return at(this.path, key)
  }

  /** @returns undefined when the key is absent or null */
  value(key: string): Json | undefined {
    return this.object[key] ?? undefined
  }

  /** @returns undefined only for an optional key */
  required(key: string): Json | undefined {
    const value = this.value(key)
    if (value === undefined && !this.optional.has(key)) throw missingKey(key, this.path)
    return value
  }

  /** Returns whether one of these keys is present or optional. */
  hasOneOf(...keys: readonly string[]): boolean {
    return keys.some((key) => this.value(key) !== undefined || this.optional.has(key))
  }

  /** Returns text without U+0000. */
  text(key: string): string | undefined {
    const value = this.value(key)
    if (value === undefined) return undefined
    if (typeof value !== 'string')
      throw invalidPayload(`expecting a string, but found ${describe(value)}`, this.at(key))
    if (/[\0\p{Cs}]/u.test(value)) {
      throw invalidPayload('expecting text without U+0000 and unpaired surrogates', this.at(key))
    }
    return value
  }

  /** Returns text that is valid in a header. */
  line(key: string, maxLength = 900): string | undefined {
    const text = this.text(key)
    if (text === undefined) return undefined
    const problem = headerProblem(text)
    if (problem !== undefined) throw invalidPayload(`${problem} are not allowed`, this.at(key))
    if (text.length > maxLength) throw invalidPayload(`longer than ${maxLength} characters`, this.at(key))
    return text
  }

  boolean(key: string): boolean {
    const value = this.value(key) ?? false
    if (typeof value !== 'boolean')
      throw invalidPayload(`expecting a boolean, but found ${describe(value)}`, this.at(key))
    return value
  }

  /** Reads an integer or a string of digits. @returns undefined only for an optional key */
  digits(key: string): string | undefined {
    const value = this.required(key)
    if (value === undefined) return undefined
    const text = typeof value === 'number' || typeof value === 'string' ? String(value) : ''
    if (!/^\d{1,15}$/.test(text)) throw invalidPayload('expecting a number of up to 15 digits', this.at(key))
    return text
  }

  list(key: string): readonly Json[] | undefined {
    const value = this.value(key)
    if (value === undefined) return undefined
    if (!Array.isArray(value)) throw invalidPayload(`expecting a list, but found ${describe(value)}`, this.at(key))
    return value
  }
}
