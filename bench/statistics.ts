export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const [low = NaN, high = NaN] = [sorted[middle - 1], sorted[middle]]
  return sorted.length % 2 === 0 ? (low + high) / 2 : high
}

export interface Interval {
  readonly low: number
  readonly high: number
}

const RESAMPLES = 2000
const LEFT_OUT = 0.025
const SEED = 20_261_120

/**
 * Where the median lies with 95 % confidence: the percentile bootstrap, which draws the sample again and again from itself.
 * The same sample has the same interval always.
 * @param values one at least
 */
export function medianInterval(values: readonly number[]): Interval {
  const random = numbersFrom(SEED)
  const draw = () => values[Math.floor(random() * values.length)] as number
  const medians = Array.from({ length: RESAMPLES }, () => median(values.map(draw))).toSorted((a, b) => a - b)
  const last = RESAMPLES - 1
  return {
    low: medians[Math.floor(last * LEFT_OUT)] as number,
    high: medians[Math.ceil(last * (1 - LEFT_OUT))] as number,
  }
}

/** Numbers of [0, 1) that are the same for a seed always: a Weyl sequence through a mixer of 32 bits. */
function numbersFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
}
