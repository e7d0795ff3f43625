/** Returns the keys of a JSON pointer (RFC 6901): `a/b` and `0` for `/a~1b/0`. */
export function pointerKeys(pointer: string): readonly string[] {
  const keys = pointer.split('/').slice(1)
  return keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Returns the value that a JSON pointer refers to, or undefined. */
export function valueAtPointer(root: unknown, pointer: string): unknown {
  let value = root
  for (const key of pointerKeys(pointer)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[key]
  }
  return value
}
