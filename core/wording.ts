/** Returns a number and its noun: `1 row`, `2 rows`. */
export const counted = (count: number, noun: string, nouns = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : nouns}`

/** Returns `, did you mean "x"?`, or an empty string. */
export function didYouMean(name: string, known: readonly string[]): string {
  const meant = nearest(name, known)
  return meant === undefined ? '' : `, did you mean "${meant}"?`
}

/** Returns the name that was probably meant: it differs in at most two letters, and in fewer than half of them. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  // A name in a request may have millions of characters, and no known name has so many.
  if (name.length > MAX_LENGTH) return undefined
  const folded = fold(name)
  let near: string | undefined
  let least = MAX_DISTANCE + 1
  for (const candidate of known) {
    const other = fold(candidate)
    if (candidate === name || Math.abs(other.length - folded.length) >= least) continue
    const distance = editDistance(folded, other)
    if (distance < least && distance * 2 < candidate.length) [near, least] = [candidate, distance]
  }
  return near
}
const MAX_LENGTH = 200
const MAX_DISTANCE = 2

/** Removes case and word separators. */
export const fold = (key: string) => key.replaceAll(/[_-]/g, '').toLowerCase()

/** Counts the letters to insert, delete, replace, or swap with their neighbor. Stops counting above `MAX_DISTANCE`. */
function editDistance(a: string, b: string): number {
  let [before, last]: number[][] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last?.[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const least = Math.min((last?.[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, replaced)
      row.push(swapped ? Math.min(least, (before?.[j - 2] ?? 0) + 1) : least)
    }
    if (Math.min(...row) > MAX_DISTANCE) return Infinity
    ;[before, last] = [last, row]
  }
  return last?.[b.length] ?? Infinity
}
