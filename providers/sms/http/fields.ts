import type { Sms } from 'rowhouse'

/** Values of the placeholders in `fields`. */
type Placeholders = Readonly<Record<(typeof NAMES)[number], string>>

const NAMES = ['to', 'number', 'national', 'countryCode', 'message', 'id', 'from'] as const
const NUMBERS = ['to', 'number', 'national'] as const

export const placeholdersOf = (sms: Sms, from: string): Placeholders => ({
  to: `+${sms.countryCode}${sms.to}`,
  number: sms.countryCode + sms.to,
  national: sms.to,
  countryCode: sms.countryCode,
  message: sms.message,
  id: sms.id,
  from,
})

/** Returns a copy with all placeholders replaced. Replaced values are not scanned again. */
export function fillIn(template: unknown, values: Placeholders): unknown {
  if (typeof template === 'string') {
    return template.replaceAll(/\{(\w+)\}/g, (whole, name: string) =>
      Object.hasOwn(values, name) ? values[name as keyof Placeholders] : whole,
    )
  }
  if (Array.isArray(template)) return template.map((item: unknown) => fillIn(item, values))
  if (typeof template !== 'object' || template === null) return template
  return Object.fromEntries(Object.entries(template).map(([key, item]) => [key, fillIn(item, values)]))
}

/** Returns the placeholders in a template. */
export function placeholdersIn(template: unknown): ReadonlySet<string> {
  const names = new Set<string>()
  const collect = (part: unknown): void => {
    if (typeof part === 'string') for (const [, name] of part.matchAll(/\{(\w+)\}/g)) names.add(name!)
    else if (typeof part === 'object' && part !== null) for (const inner of Object.values(part)) collect(inner)
  }
  collect(template)
  return names
}

/**
 * Checks that a template contains what messages need. Quotes none of its texts, which may be secrets.
 * @throws Error when messages would lack their text or number
 */
export function checkFields(fields: object, from: string | undefined): void {
  const names = placeholdersIn(fields)
  if (!names.has('message')) throw new Error('"fields" must contain {message}')
  if (!NUMBERS.some((name) => names.has(name))) throw new Error('"fields" must contain {to}, {number} or {national}')
  if (names.has('national') && !names.has('to') && !names.has('number') && !names.has('countryCode')) {
    throw new Error('"fields" contains {national} without {countryCode}')
  }
  if (names.has('from') && from === undefined) throw new Error('"fields" contains {from}, but "from" is not set')
}

/**
 * Returns the fields as a form.
 * @throws Error when a field is not a string, number or boolean
 */
export function formOf(fields: object): URLSearchParams {
  const form = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'object')
      throw new Error(`"fields" of a form must be strings, numbers or booleans: "${name}" is not`)
    form.append(name, String(value))
  }
  return form
}
