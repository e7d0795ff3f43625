/** What a JSON pointer (RFC 6901) stands for, if there is something. */
export function resolvePointer(pointer: string, value: unknown): unknown {
  const keys = pointer.split('/').slice(1)
  let found = value
  for (const key of keys.map((one) => one.replaceAll('~1', '/').replaceAll('~0', '~'))) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Readonly<Record<string, unknown>>)[key]
  }
  return found
}

/** What a JSON pointer stands for as text; undefined when that is no text, number or boolean. */
export function textAt(pointer: string, value: unknown): string | undefined {
  const found = resolvePointer(pointer, value)
  return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean'
    ? String(found)
    : undefined
}
