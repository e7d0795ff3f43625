import { placesOf, systemsOf, valuesOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { median } from '../statistics.js'
import { lineChart, type Series } from './line-chart.js'

/** A section along an axis: a chart for each of its figures. */
export function curves(section: SectionResult): string {
  return Object.entries(section.columns)
    .map(([column, heading]) =>
      lineChart({
        title: heading,
        along: section.along ?? '',
        series: systemsOf(section).flatMap((system) => seriesOf(section, system, column)),
        marks: section.verdicts
          .filter(({ figure, against }) => figure === column && against === undefined)
          .flatMap(({ least, most }) => least ?? most ?? [])
          .map((value) => ({ value, word: `target ${value}` })),
      }),
    )
    .join('')
}

function seriesOf({ cells }: SectionResult, system: string, column: string): readonly Series[] {
  const points = placesOf(cells).flatMap((at) => {
    const values = valuesOf(cells, system, column, at)
    if (at === undefined || values.length === 0) return []
    return [{ x: at, y: median(values), low: Math.min(...values), high: Math.max(...values) }]
  })
  return points.length === 0 ? [] : [{ name: system, points }]
}
