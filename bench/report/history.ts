import { shownRatios, subjectsOf } from '../ratios.js'
import type { Result, SectionResult } from '../result.js'
import { lineChart, type Series } from './line-chart.js'

/**
 * What has become of the ratios from result to result: a chart for each section of the last.
 * @param results the oldest first
 */
export function history(results: readonly Result[]): string {
  const places = placesOf(results)
  const last = results.at(-1)
  return (last?.sections ?? [])
    .map((section) => {
      const subject = subjectsOf(section)[0] ?? ''
      const names = shownRatios(section).filter(({ system }) => system === subject)
      const series = names.map(({ against }) => seriesOf(results, section, subject, against))
      const long = series.filter(({ points }) => points.length > 1)
      return lineChart({ title: `${section.id}: ${subject} / each other`, along: 'run', places, series: long })
    })
    .join('')
}

/** Commits; where one was measured more than once, days, and where those repeat too, times. */
function placesOf(results: readonly Result[]): readonly string[] {
  const names = [
    results.map(({ build }) => build.sha.slice(0, 7)),
    results.map(({ date }) => date.slice(5, 10)),
    results.map(({ date }) => date.slice(5, 16).replace('T', ' ')),
  ]
  return names.find((some) => new Set(some).size === some.length) ?? names.at(-1) ?? []
}

function seriesOf(results: readonly Result[], section: SectionResult, subject: string, against: string): Series {
  const points = results.flatMap(({ sections }, x) => {
    const ratio = sections
      .find((other) => isSame(other, section))
      ?.ratios.find((one) => one.system === subject && one.against === against && one.at === undefined)
    return ratio === undefined ? [] : [{ x, y: ratio.median, low: ratio.low, high: ratio.high }]
  })
  return { name: against, points }
}

/** Of another run: what follows the first comma of a title are numbers that depend on the run. */
const isSame = (a: SectionResult, b: SectionResult): boolean =>
  a.id === b.id && a.compared === b.compared && stem(a) === stem(b)
const stem = ({ title }: SectionResult): string => title.split(',')[0]?.replaceAll(/\d+ of \d+/g, '') ?? ''
