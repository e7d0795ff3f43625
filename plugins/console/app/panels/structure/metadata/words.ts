import type { Json, JsonObject } from '../../../json.js'

/** A part of the answer of `diff_metadata`. */
export interface Change {
  readonly change: 'added' | 'removed' | 'changed'
  readonly object: string
  readonly from: JsonObject | null
  readonly to: JsonObject | null
  readonly effects: readonly { readonly effect: string; readonly text: string }[]
}

const VERBS = { added: 'Adds', removed: 'Removes', changed: 'Changes' } as const
const KINDS: Readonly<Record<string, string>> = {
  table: 'the table',
  enum: 'that it is an enum:',
  customization: 'the GraphQL names of',
  relationship: 'the relationship',
  'computed-field': 'the computed field',
  permission: 'the permission',
  function: 'the function',
  'query-template': 'the template',
}

/** Returns a sentence about a change, without its object: `Changes the permission`. */
export function verbOf({ change, object }: Change): string {
  const [kind = ''] = object.split(' ', 1)
  return `${VERBS[change]} ${KINDS[kind] ?? kind}`
}

export const nameOf = ({ object }: Change): string => object.slice(object.indexOf(' ') + 1)

/** Says what is different within an object, one line for each key. */
export function detailsOf({ from, to }: Change): readonly string[] {
  const [before, after] = [flat(from), flat(to)]
  const keys = [...new Set([...before.keys(), ...after.keys()])]
  return keys.flatMap((key) => {
    const [was, is] = [before.get(key), after.get(key)]
    if (JSON.stringify(was) === JSON.stringify(is) || IDENTITY.has(key)) return []
    if (was === undefined || was === null) return is === null ? [] : [`${key}: ${shown(is)}`]
    if (is === undefined || is === null) return from && to ? [`${key}: no longer ${shown(was)}`] : []
    const lists = isList(was) && isList(is) ? listWords(was, is) : ''
    return [lists === '' ? `${key}: ${shown(was)} becomes ${shown(is)}` : `${key}: ${lists}`]
  })
}

/** Keys that the name of the object says. */
const IDENTITY = new Set(['name', 'role', 'function', 'table'])
/** Keys around what an entry is about. */
const WRAPPERS = ['permission', 'template', 'definition', 'configuration']

function flat(entry: JsonObject | null): ReadonlyMap<string, Json | undefined> {
  return new Map(
    Object.entries(entry ?? {}).flatMap(([key, value]): [string, Json | undefined][] =>
      WRAPPERS.includes(key) && typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value as JsonObject)
        : [[key, value]],
    ),
  )
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value)

function listWords(was: readonly Json[], is: readonly Json[]): string {
  const texts = [was, is].map((list) => list.map(shown)) as [string[], string[]]
  const more = texts[1].filter((each) => !texts[0].includes(each))
  const less = texts[0].filter((each) => !texts[1].includes(each))
  return [more.length > 0 ? `also ${more.join(', ')}` : '', less.length > 0 ? `without ${less.join(', ')}` : '']
    .filter(Boolean)
    .join(', ')
}

const shown = (value: Json | undefined): string => (typeof value === 'string' ? value : JSON.stringify(value))
