import { CPU } from '../efficiency.js'
import { areApart, valuesOf } from '../ratios.js'
import type { Result } from '../result.js'
import { median } from '../statistics.js'
import { lineChart, type Series } from './line-chart.js'

/** A line for each of these, as they are named without a version. */
const SYSTEMS = ['rowhouse', 'rowhouse with tokens', 'fastify']

/**
 * CPU time per request by commit: a chart for each section of the last result that has it. Only results of the same kind of
 * processor can be compared, and figures whose rounds are too far apart are left out.
 * @param results the oldest first
 */
export function history(results: readonly Result[]): string {
  const last = results.at(-1)
  const alike = results.filter(
    ({ machine }) => machine.model === last?.machine.model && machine.cpus === last.machine.cpus,
  )
  const places = placesOf(alike)
  return (last?.sections ?? [])
    .filter(({ columns }) => CPU in columns)
    .map(({ id, title }) => {
      const series = SYSTEMS.map((system) => seriesOf(alike, id, system)).filter(({ points }) => points.length > 1)
      return lineChart({ title: `${id}: CPU µs/request`, along: title.split(',')[0] ?? '', places, series })
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

function seriesOf(results: readonly Result[], id: string, name: string): Series {
  const points = results.flatMap(({ sections }, x) => {
    const cells = sections.find((section) => section.id === id)?.cells ?? []
    const system = cells.find((cell) => cell.system === name || cell.system.startsWith(`${name} `))?.system ?? name
    const values = valuesOf(cells, system, CPU)
    if (values.length === 0 || areApart(values)) return []
    return [{ x, y: median(values), low: Math.min(...values), high: Math.max(...values) }]
  })
  return { name, points }
}
