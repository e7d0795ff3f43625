/** Whether two spellings mean the same key: case and word separators do not count. */
export function sameKey(one: string, other: string): boolean {
  return fold(one) === fold(other)
}

/** An environment variable's `KEEP_DAYS` as `keepDays`. What is not all upper case stays as it is. */
export function lowerCamel(key: string): string {
  if (key !== key.toUpperCase()) return key
  return key.toLowerCase().replaceAll(/_+(\w)/g, (_, letter: string) => letter.toUpperCase())
}

/** Without case and word separators. */
export const fold = (key: string) => key.replaceAll(/[_-]/g, '').toLowerCase()
