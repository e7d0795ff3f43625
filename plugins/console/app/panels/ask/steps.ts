import { partAt, type Path } from '../../json-places.js'
import { type Around, tableOf, tableOfFunction, textAt, textOf } from './named.js'

/** A word that may stand at a place. */
export interface Offer {
  readonly word: string
  readonly detail?: string | undefined
  readonly info?: string | undefined
  /** What is written instead of a JSON text, e.g. `true` or an object. */
  readonly as?: string
}

/** Whether an object is a member of a bulk. */
export const isStep = ({ root, text, path }: Around): boolean =>
  typeof path.at(-1) === 'number' && path.at(-2) === 'args' && isBulk({ root, text, path: path.slice(0, -2) })

const isBulk = (around: Around): boolean => textAt(around, 'type') === 'bulk'

/** Returns what a reference may name at a place: parts of the answers of earlier steps, and the element of a `for_each`. */
export function referencesAt(around: Around): readonly Offer[] {
  const steps = stepsAround(around)
  return [...steps.flatMap((path) => elementOf({ ...around, path })), ...earlier(around).flatMap(partsOf)]
}

/** Returns the lists for which a step may run. */
export const listsAt = (around: Around): readonly Offer[] => earlier(around).flatMap(listsOf)

/** Returns the paths of the members of bulks that contain a place, the outermost first. */
const stepsAround = ({ root, text, path }: Around): readonly Path[] =>
  path.flatMap((_, i) => {
    const inner = path.slice(0, i + 1)
    return isStep({ root, text, path: inner }) ? [inner] : []
  })

/** Returns the steps with a name that run before a place. */
function earlier(around: Around): readonly Answer[] {
  return stepsAround(around).flatMap((step) => {
    const before = step.at(-1) as number
    return Array.from({ length: before }, (_, i) => [...step.slice(0, -1), i]).flatMap((path) => {
      const name = textAt({ ...around, path }, 'as')
      return name === '' ? [] : [answerOf(name, { ...around, path })]
    })
  })
}

/** What is known of an answer. */
interface Answer {
  readonly name: string
  /** Keys of an object, such as `affected_rows`. */
  readonly keys: readonly string[]
  /** Name of the list of rows, and their columns with types. */
  readonly rows?: { readonly list: string; readonly columns: readonly Offer[] }
  /** Whether it is a list of such answers. */
  readonly isEach: boolean
}

function answerOf(name: string, step: Around): Answer {
  const args = { ...step, path: [...step.path, 'args'] }
  const isEach = partAt(step.root, [...step.path, 'for_each']) !== undefined
  const one = isEach ? `${name}[*]` : name
  switch (textAt(step, 'type')) {
    case 'select':
    case 'call':
      return { name, isEach, keys: [], rows: { list: one, columns: columnsOf(args, 'columns') } }
    case 'insert':
    case 'update':
    case 'delete': {
      const columns = columnsOf(args, 'returning')
      const rows = { list: `${one}.returning`, columns }
      return { name, isEach, keys: ['affected_rows'], ...(columns.length > 0 && { rows }) }
    }
    case 'count':
      return { name, isEach, keys: ['count'] }
    case 'attach_file':
      return { name, isEach, keys: ['file_id'] }
    default:
      return { name, isEach, keys: [] }
  }
}

/** Returns the columns that a step reads or returns. */
function columnsOf(args: Around, key: string): readonly Offer[] {
  const table = tableOf(args) ?? tableOfFunction(textAt(args, 'function'))
  const all = (table?.columns ?? []).filter(({ select }) => select)
  const named = (partAt(args.root, [...args.path, key])?.items ?? []).flatMap((part): readonly Offer[] => {
    const word =
      part.kind === 'scalar'
        ? textOf(args.text, part)
        : textOf(args.text, part.entries.findLast((entry) => ['alias', 'as', 'name'].includes(entry.key))?.value)
    if (word === '*') return all.map(({ name, type }) => ({ word: name, detail: type }))
    return word === '' ? [] : [{ word, detail: all.find(({ name }) => name === word)?.type }]
  })
  return named.filter(({ word }, i) => named.findIndex((each) => each.word === word) === i)
}

function partsOf({ name, keys, rows, isEach }: Answer): readonly Offer[] {
  const one = isEach ? `${name}[*]` : name
  const columns = (at: string) => (rows?.columns ?? []).map(({ word, detail }) => ({ word: `${at}.${word}`, detail }))
  return [
    ...(rows && !isEach ? columns(`${rows.list}[0]`) : []),
    ...keys.map((key) => ({ word: `${one}.${key}` })),
    ...(rows ? columns(`${rows.list}[*]`) : []),
    { word: name, detail: isEach ? 'answers' : 'answer' },
  ]
}

const listsOf = ({ name, rows, isEach }: Answer): readonly Offer[] => [
  ...(rows ? [{ word: rows.list, detail: 'rows' }] : []),
  ...(isEach || !rows ? [{ word: name, detail: isEach ? 'answers' : 'answer' }] : []),
]

/** Returns what a step with `for_each` may name of the element. */
function elementOf(step: Around): readonly Offer[] {
  const each = partAt(step.root, [...step.path, 'for_each'])
  if (!each) return []
  const list = textOf(step.text, each.kind === 'object' ? partAt(each, ['in']) : each)
  const rows = earlier(step).find((answer) => answer.rows?.list === list)?.rows
  return [
    ...(rows?.columns ?? []).map(({ word, detail }) => ({ word: `each.${word}`, detail })),
    { word: 'each', detail: 'element' },
  ]
}
