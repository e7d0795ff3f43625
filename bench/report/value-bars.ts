import { areApart, isOurs, systemsOf, valuesOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { median } from '../statistics.js'
import { short, spread } from '../table.js'
import { linearAxis, tickText } from './axis.js'
import { aimMark } from './ratio-bars.js'
import { bar, chart, line, text, whisker, WIDTH } from './svg.js'

const PLOT = { from: 4, to: WIDTH - 16 }
const ROW = 42
const TOP = 30

/**
 * A figure of each system: the median as a bar, the least and the most as a line. The bar is grey if the rounds are too far
 * apart, or if it is not proven that the figure meets its target, or misses it.
 * @param ours which of them are
 */
export function valueBars(section: SectionResult, column: string, ours = isOurs): string {
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
    const middle = TOP + i * ROW + 28
    const verdicts = aims.filter((aim) => aim.system === system)
    const own = verdicts.flatMap(({ least, most }) => least ?? most ?? [])
    const width = axis.place(median(values)) - PLOT.from
    const grey = areApart(values) || verdicts.some(({ proven }) => !proven)
    const kind = grey ? 'unproven' : ours(system) ? 'ours' : 'theirs'
    return [
      text({ x: 0, y: middle - 12 }, system, '', 50),
      text({ x: WIDTH, y: middle - 12 }, short(median(values)), 'strong figure end'),
      bar({ x: PLOT.from, y: middle - 7, width, height: 14 }, kind, `${system}: ${spread(values)} ${heading}`),
      whisker(axis.place(Math.min(...values)), axis.place(Math.max(...values)), middle),
      ...own.map((aim) => aimMark(axis.place(aim), middle, aim)),
    ].join('')
  })
  const grid = axis.ticks.map((tick) =>
    [
      line({ x: axis.place(tick), y: TOP - 4 }, { x: axis.place(tick), y: bottom + 2 }, 'grid'),
      text({ x: axis.place(tick), y: TOP - 10 }, tickText(tick), 'tick'),
    ].join(''),
  )
  const description = rows.map(({ system, values }) => `${system} ${spread(values)}`).join('; ')
  return chart({ title: heading, description, height: bottom + 8 }, ...grid, ...drawn)
}
