import { pluralize } from 'inflection'
import { isLongName } from 'rowhouse/plan'
import { singularOf } from './singular.js'

/** Other words for the rows of a table than those that are derived from its name. */
export interface Words {
  readonly singular?: string
  readonly plural?: string
}

/** A foreign key, seen from one of its ends. */
export interface End {
  /** Columns of the foreign key. */
  readonly columns: readonly string[]
  /** Name of the table at the other end. */
  readonly table: string
  readonly words: Words
}

/**
 * Returns the names for the row that a foreign key refers to, the best first: the column without its suffix
 * (`customer_id`: `customer`), the singular of the other table.
 */
export function toOne({ columns, table, words }: End): readonly string[] {
  const singular = words.singular ?? inflected(table, singularOf)
  const stem = columns.length === 1 ? withoutSuffix(columns[0] as string) : undefined
  return [...(stem === undefined ? [] : [stem]), singular, by(singular, columns)]
}

/** Returns the names for the rows that refer to this one. @param isOnly whether their table does so by one key only */
export function toMany({ columns, table, words }: End, isOnly: boolean): readonly string[] {
  const plural = words.plural ?? inflected(table, pluralize)
  return [...(isOnly ? [plural] : []), by(plural, columns)]
}

/** Returns the names for the only row that refers to this one. @param isOnly whether its table does so by one key only */
export function backToOne({ columns, table, words }: End, isOnly: boolean): readonly string[] {
  const singular = words.singular ?? inflected(table, singularOf)
  return [...(isOnly ? [singular] : []), by(singular, columns)]
}

/** Returns the first name that is free; if none is, the last one with a number. */
export function firstFree(names: readonly string[], taken: ReadonlySet<string>): string {
  const free = names.map((name) => shortened(name)).find((name) => !taken.has(name))
  if (free !== undefined) return free
  for (let n = 2; ; n++) {
    const name = shortened(names.at(-1) as string, `_${n}`)
    if (!taken.has(name)) return name
  }
}

/** `orders_by_billing_address` */
const by = (name: string, columns: readonly string[]): string =>
  `${name}_by_${columns.map((column) => withoutSuffix(column) ?? column).join('_')}`

/** Returns `customer` for `customer_id` and `customerId`, and undefined for other columns. */
const withoutSuffix = (column: string): string | undefined =>
  /^(.*[^_])_id$/i.exec(column)?.[1] ?? /^(.*[a-z0-9])I[dD]$/.exec(column)?.[1]

/** Inflects the last word of a name: `order_line`, `OrderLine`. */
function inflected(name: string, inflect: (word: string) => string): string {
  const word = /[A-Z]?[a-z]+$|[A-Z]+$/.exec(name)?.[0]
  if (word === undefined) return name
  const lower = inflect(word.toLowerCase())
  const isUpper = word === word.toUpperCase() && word.length > 1
  const like = isUpper ? lower.toUpperCase() : /^[A-Z]/.test(word) ? lower[0]?.toUpperCase() + lower.slice(1) : lower
  return name.slice(0, -word.length) + like
}

/** Cuts a name to the length of names in PostgreSQL. */
function shortened(name: string, suffix = ''): string {
  let short = name
  while (isLongName(short + suffix)) short = short.replace(/.$/su, '')
  return short + suffix
}
