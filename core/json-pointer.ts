/** The keys of a JSON pointer (RFC 6901): `/a~1b/0` is `a/b` and `0`. */
export function pointerKeys(pointer: string): readonly string[] {
  const keys = pointer.split('/').slice(1)
  return keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The value that a JSON pointer leads to; undefined when there is none. */
export function valueAtPointer(root: unknown, pointer: string): unknown {
  let value = root
  for (const key of pointerKeys(pointer)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[key]
  }
  return value
}
