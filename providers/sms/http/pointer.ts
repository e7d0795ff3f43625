import { valueAtPointer } from 'rowhouse'

/** Returns the text, number or boolean at a JSON pointer as text, or undefined. */
export function textAt(pointer: string, value: unknown): string | undefined {
  const found = valueAtPointer(value, pointer)
  return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean'
    ? String(found)
    : undefined
}
