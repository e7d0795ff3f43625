import type { Burst, Pair } from './load/paired-client.js'
import type { Ratio } from './ratios.js'
import type { Commit } from './result.js'
import { clusteredMean } from './statistics.js'

/** This build beside another one. */
export interface Comparison {
  /** What the other one was asked for by. */
  readonly ref: string
  readonly build: Commit
  readonly differences: readonly Difference[]
}

/** CPU time per request of one scenario, of the server or of its PostgreSQL: this build over the other. */
export interface Difference {
  readonly section: string
  readonly title: string
  /** Its pairs are starts of both builds. */
  readonly ratio: Ratio
}

/**
 * The change that is found. Half of it is the border, so that chance has as far to go from there as from 0. PostgreSQL spends
 * little on a burst, in many processes: two runs of the same build may differ by a tenth.
 */
const SOUGHT = { server: 0.05, database: 0.3 }
/** Fewer starts say little about how starts differ. */
export const ENOUGH_STARTS = 5
/** Of an interval, when there is no use in more starts. */
const NARROW = 0.012

/** @param starts pairs of bursts by start */
export function differenceOf(section: string, title: string, starts: readonly (readonly Pair[])[]): Difference[] {
  return (['server', 'database'] as const).flatMap((figure) => {
    const clusters = starts
      .map((pairs) => pairs.flatMap((pair) => logRatio(pair, figure)))
      .filter(({ length }) => length > 0)
    if (clusters.length === 0) return []
    const { mean, low, high } = clusteredMean(clusters)
    const interval = { median: Math.exp(mean), low: Math.exp(low), high: Math.exp(high) }
    const ratio = {
      system: 'rowhouse',
      against: 'the other',
      figure,
      pairs: clusters.length,
      ...interval,
      lessIsBetter: true,
      finding: findingOf(interval, clusters.length, SOUGHT[figure]),
    }
    return [{ section, title, ratio }]
  })
}

function logRatio([own, other]: Pair, figure: keyof Burst): number[] {
  return own[figure] > 0 && other[figure] > 0 ? [Math.log(own[figure] / other[figure])] : []
}

/** A change that is called so is proven, and at least half of the one that is sought. */
function findingOf(
  { median, low, high }: Pick<Ratio, 'median' | 'low' | 'high'>,
  starts: number,
  sought: number,
): Ratio['finding'] {
  if (starts < ENOUGH_STARTS) return 'too few rounds'
  if (low > 1 && median > 1 + sought / 2) return 'worse'
  if (high < 1 && median < 1 - sought / 2) return 'better'
  return high < 1 + sought && low > 1 - sought ? 'no proven difference' : 'too noisy'
}

export const isWorse = ({ ratio }: Difference): boolean => ratio.finding === 'worse'

/** Whether more starts would change nothing. */
export const isSettled = ({ ratio: { figure, pairs, low, high } }: Difference): boolean =>
  pairs >= ENOUGH_STARTS && (figure === 'database' || Math.log(high / low) < 2 * NARROW)

/** Figures that say nothing, because of too few starts or too much noise. */
export const silentOf = ({ differences }: Comparison): readonly Difference[] =>
  differences.filter(({ ratio: { finding } }) => finding === 'too few rounds' || finding === 'too noisy')

/** Whether it can neither be said that something is worse nor that nothing is. */
export const hasNoVerdict = (comparison: Comparison): boolean =>
  !comparison.differences.some(isWorse) && (comparison.differences.length === 0 || silentOf(comparison).length > 0)
