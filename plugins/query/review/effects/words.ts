/** Returns `1 column`, `2 more columns` or `no columns`. */
export const counted = (count: number, word: string, more?: string): string =>
  `${count === 0 ? 'no' : count}${more === undefined ? '' : ` ${more}`} ${word}${count === 1 ? '' : 's'}`

/** Returns the kind of an object and its name: `permission` and `note.user.select`. */
export function kindAndName(object: string): readonly [kind: string, name: string] {
  const end = object.indexOf(' ')
  return [object.slice(0, end), object.slice(end + 1)]
}

/** Returns what only the first list has. */
export const without = (all: readonly string[], others: readonly string[]): readonly string[] =>
  all.filter((each) => !others.includes(each))
