/** Returns seconds until the next attempt: `first` doubled with each of `attempts`, but at most `most`. */
export const pauseAfter = (attempts: number, first: number, most: number): number =>
  Math.min(first * 2 ** Math.min(attempts, 20), most)

/** Adds up to half, so that not all is tried again at the same moment. */
export const jittered = (seconds: number): number => seconds * (1 + Math.random() / 2)
