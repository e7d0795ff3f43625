/**
 * Returns the text that the alpha dialect has for a validation error of graphql-js, because clients match these texts.
 * Other errors keep their text.
 */
export function alphaMessage(message: string): string {
  for (const [pattern, text] of TEXTS) {
    const found = pattern.exec(message)
    if (found) return text(...(found.slice(1) as [string, string]))
  }
  return message
}

const notFound = (name: string, type: string): string => `field "${name}" not found in type: '${type}'`
/** Returns `author` for `[author!]!`. */
const bare = (type: string): string => type.replaceAll(/[[\]!]/g, '')

const TEXTS: readonly (readonly [RegExp, (name: string, type: string) => string])[] = [
  [/^Cannot query field "(\w+)" on type "(\w+)"/, notFound],
  [/^Field "(\w+)" is not defined by type "(\w+)"/, notFound],
  [
    /^Field "(\w+)" of type "(\S+)" must have a selection/,
    (name, type) => `field "${name}" of type ${bare(type)} must have a selection of subfields`,
  ],
  [
    /^Field "(\w+)" must not have a selection since type "(\S+)"/,
    (name, type) => `field "${name}" must not have a selection since type ${bare(type)} has no subfields`,
  ],
  [/^Unknown argument "(\w+)" on field/, (name) => `no such argument "${name}" is expected`],
  [/^Field "\w+" argument "(\w+)" of type \S+ is required/, (name) => `the required argument "${name}" is missing`],
]
