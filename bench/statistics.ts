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

/** The mean without the lowest and the highest third. */
export function trimmedMean(values: readonly number[]): number {
  const cut = Math.floor(values.length / 3)
  const kept = values.toSorted((a, b) => a - b).slice(cut, values.length - cut)
  return kept.reduce((sum, value) => sum + value, 0) / kept.length
}

/** The trimmed mean of such means, with its interval: samples that belong together are drawn together. */
export function clusteredMean(clusters: readonly (readonly number[])[]): Interval & { readonly mean: number } {
  const means = clusters.map(trimmedMean)
  return { mean: trimmedMean(means), ...bootstrap(means, trimmedMean) }
}

export const medianInterval = (values: readonly number[]): Interval => bootstrap(values, median)

/**
 * Where a statistic lies with 95 % confidence: the percentile bootstrap, which draws the sample again and again from itself.
 * The same sample has the same interval always.
 * @param values one at least
 */
function bootstrap(values: readonly number[], statistic: (values: readonly number[]) => number): Interval {
  const random = numbersFrom(SEED)
  const draw = () => values[Math.floor(random() * values.length)] as number
  const drawn = Array.from({ length: RESAMPLES }, () => statistic(values.map(draw))).toSorted((a, b) => a - b)
  const last = RESAMPLES - 1
  return {
    low: drawn[Math.floor(last * LEFT_OUT)] as number,
    high: drawn[Math.ceil(last * (1 - LEFT_OUT))] as number,
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
