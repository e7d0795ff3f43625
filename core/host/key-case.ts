import { fold } from '../wording.js'

/** Returns whether two spellings mean the same key, ignoring case and word separators. */
export function sameKey(one: string, other: string): boolean {
  return fold(one) === fold(other)
}

/** Converts an environment variable's `KEEP_DAYS` to `keepDays`. Leaves names with lower-case letters unchanged. */
export function lowerCamel(key: string): string {
  if (key !== key.toUpperCase()) return key
  return key.toLowerCase().replaceAll(/_+(\w)/g, (_, letter: string) => letter.toUpperCase())
}
