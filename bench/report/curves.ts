import { placesOf, systemsOf, valuesOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { median } from '../statistics.js'
import { lineChart, type Series } from './line-chart.js'

/** A section along an axis: a chart for each of its figures that is not the same everywhere, processor time first. */
export function curves(section: SectionResult): string {
  const isCpu = ([, heading]: readonly [string, string]) => heading.includes('CPU')
  const columns = Object.entries(section.columns)
  return [...columns.filter(isCpu), ...columns.filter((column) => !isCpu(column))]
    .map(([column, heading]) => {
      const series = systemsOf(section).flatMap((system) => seriesOf(section, system, column))
      const heights = new Set(series.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high])))
      if (heights.size < 2 && placesOf(section.cells).length > 1) return ''
      const marks = section.verdicts
        .filter(({ figure, against }) => figure === column && against === undefined)
        .flatMap(({ least, most }) => least ?? most ?? [])
      return lineChart({
        title: heading,
        series,
        marks: [...new Set(marks)].map((value) => ({ value, word: `target ${value}` })),
      })
    })
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
