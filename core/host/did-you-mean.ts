import { fold } from './key-case.js'

/** Returns `, did you mean "x"?`, or an empty string. */
export function didYouMean(name: string, known: readonly string[]): string {
  const meant = nearest(name, known)
  return meant === undefined ? '' : `, did you mean "${meant}"?`
}

/** Returns the name that was probably meant: it differs in at most two letters, and in fewer than half of them. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const near = known
    .map((candidate) => ({ candidate, distance: editDistance(fold(name), fold(candidate)) }))
    .filter(({ candidate, distance }) => distance <= 2 && distance * 2 < candidate.length)
    .toSorted((a, b) => a.distance - b.distance)
  return near[0]?.candidate
}

/** Counts the letters to insert, delete, replace, or swap with their neighbor. */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const cell = (i: number, j: number) => rows[i]?.[j] ?? Infinity
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(
        Math.min(
          cell(i - 1, j) + 1,
          cell(i, j - 1) + 1,
          cell(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1),
          swapped ? cell(i - 2, j - 2) + 1 : Infinity,
        ),
      )
    }
  }
  return cell(a.length, b.length)
}
