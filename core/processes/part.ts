/** Returns what one of several processes allows, so that all of them together allow `most`. Each allows at least one. */
export const partOf = (most: number, processes: number): number =>
  Math.max(Math.min(most, 1), Math.floor(most / processes))
