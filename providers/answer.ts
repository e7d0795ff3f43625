/** Parses JSON. Returns undefined for anything else. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the value at these keys of untrusted JSON, or undefined. */
export function valueAt(json: unknown, ...keys: readonly string[]): unknown {
  let value = json
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[key]
  }
  return value
}

/** Returns the non-empty string at these keys, or undefined. */
export function textAt(json: unknown, ...keys: readonly string[]): string | undefined {
  const value = valueAt(json, ...keys)
  return typeof value === 'string' && value !== '' ? value : undefined
}
