/** undefined: it is no JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What stands at these keys in JSON of others; undefined: nothing. */
export function valueAt(json: unknown, ...keys: readonly string[]): unknown {
  let value = json
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[key]
  }
  return value
}

/** As `valueAt`; undefined also for an empty text, and for what is no text. */
export function textAt(json: unknown, ...keys: readonly string[]): string | undefined {
  const value = valueAt(json, ...keys)
  return typeof value === 'string' && value !== '' ? value : undefined
}
