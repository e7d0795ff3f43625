import { isOurs, systemsOf, valuesOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { median } from '../statistics.js'
import { short, spread } from '../table.js'
import { linearAxis, tickText } from './axis.js'
import { aimMark } from './ratio-bars.js'
import { bar, chart, line, text, whisker } from './svg.js'

const WIDTH = 860
const LABEL = 250
const PLOT = { from: LABEL + 10, to: 700 }
const ROW = 26
const TOP = 30

/** A figure of each system: the median as a bar, the least and the most as a line. */
export function valueBars(section: SectionResult, column: string): string {
  const rows = systemsOf(section)
    .map((system) => ({ system, values: valuesOf(section.cells, system, column) }))
    .filter(({ values }) => values.length > 0)
  if (rows.length === 0) return ''
  const aims = section.verdicts.filter(({ figure, against }) => figure === column && against === undefined)
  const bounds = aims.flatMap(({ least, most }) => least ?? most ?? [])
  const axis = linearAxis([...bounds, ...rows.flatMap(({ values }) => values)], PLOT)
  const heading = section.columns[column] ?? column
  const bottom = TOP + rows.length * ROW
  const drawn = rows.map(({ system, values }, i) => {
    const middle = TOP + i * ROW + ROW / 2
    const own = aims.filter((aim) => aim.system === system).flatMap(({ least, most }) => least ?? most ?? [])
    const width = axis.place(median(values)) - PLOT.from
    const kind = isOurs(system) ? 'ours' : 'theirs'
    return [
      text({ x: LABEL, y: middle + 4 }, system, 'end', 36),
      bar({ x: PLOT.from, y: middle - 7, width, height: 14 }, kind, `${system}: ${spread(values)} ${heading}`),
      whisker(axis.place(Math.min(...values)), axis.place(Math.max(...values)), middle),
      ...own.map((aim) => aimMark(axis.place(aim), middle, aim)),
      text({ x: PLOT.to + 14, y: middle + 4 }, short(median(values)), 'strong figure'),
    ].join('')
  })
  const grid = axis.ticks.map((tick) =>
    [
      line({ x: axis.place(tick), y: TOP - 4 }, { x: axis.place(tick), y: bottom + 2 }, 'grid'),
      text({ x: axis.place(tick), y: TOP - 10 }, tickText(tick), 'tick'),
    ].join(''),
  )
  const description = rows.map(({ system, values }) => `${system} ${spread(values)}`).join('; ')
  return chart({ title: heading, description, width: WIDTH, height: bottom + 8 }, ...grid, ...drawn)
}
