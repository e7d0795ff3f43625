import { valueAtPointer } from 'rowhouse'

/** What a JSON pointer stands for as text; undefined when that is no text, number or boolean. */
export function textAt(pointer: string, value: unknown): string | undefined {
  const found = valueAtPointer(value, pointer)
  return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean'
    ? String(found)
    : undefined
}
