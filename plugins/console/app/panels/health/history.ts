import { type Rates, ratesBetween, type Sample } from './samples.js'

/** Time between two readings, in milliseconds. */
export const EVERY_MS = 2000
const KEPT_MS = 10 * 60_000
/** Rates are those of this time, so that a single slow request stays visible for a moment. */
const WINDOW_MS = 10_000
const GAP_MS = 5 * EVERY_MS

/** A sample, with the rates of the seconds before it. */
export interface Point {
  readonly at: number
  /** undefined in a gap, when nothing was read. */
  readonly sample: Sample | undefined
  readonly rates: Rates | undefined
}

/** Returns the samples of the last ten minutes with another one. */
export const kept = (samples: readonly Sample[], next: Sample): readonly Sample[] => [
  ...samples.filter(({ at }) => at > next.at - KEPT_MS && at < next.at),
  next,
]

/** Returns what to plot: a point for each sample, and one without figures in each gap. */
export function pointsOf(samples: readonly Sample[]): readonly Point[] {
  return samples.flatMap((sample, i) => {
    const before = samples[i - 1]
    const isGap = before !== undefined && (sample.at - before.at > GAP_MS || sample.process !== before.process)
    const gap = isGap ? [{ at: (before.at + sample.at) / 2, sample: undefined, rates: undefined }] : []
    return [...gap, { at: sample.at, sample, rates: ratesAt(samples, i) }]
  })
}

/** Requests that ended in a gap count with the first sample after it. */
function ratesAt(samples: readonly Sample[], index: number): Rates | undefined {
  const to = samples[index]!
  let from = samples[index - 1]
  for (let i = index - 2; i >= 0 && isWithin(samples[i]!, to); i--) from = samples[i]
  return from && ratesBetween(from, to)
}

const isWithin = (from: Sample, to: Sample): boolean => from.process === to.process && from.at >= to.at - WINDOW_MS

/** Returns the points of the last seconds before the last one, and this one. */
export const recent = (points: readonly Point[], ms = WINDOW_MS): readonly Point[] => {
  const last = points.at(-1)?.at ?? 0
  return points.filter(({ at, sample }) => sample !== undefined && at >= last - ms)
}
