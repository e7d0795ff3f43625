import { areApart, systemsOf, valuesOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { median } from '../statistics.js'
import { short } from '../table.js'
import { linearAxis, tickText } from './axis.js'
import { bar, chart, line, text, WIDTH } from './svg.js'

const PLOT = { from: 4, to: WIDTH - 16 }
const ROW = 42
const TOP = 30

/** CPU time of each request: of the server, and behind it of PostgreSQL, grey where rounds are too far apart. Empty where it was not read. */
export function cpuStacks(section: SectionResult): string {
  const middle = (system: string, figure: string) => {
    const values = valuesOf(section.cells, system, figure)
    return values.length === 0 ? undefined : median(values)
  }
  const rows = systemsOf(section)
    .map((system) => ({ system, server: middle(system, 'server'), database: middle(system, 'database') }))
    .filter(({ server, database }) => server !== undefined || database !== undefined)
    .map(({ system, server = 0, database = 0 }) => ({ system, server, database, sum: server + database }))
  if (rows.length === 0) return ''
  const kindOf = (system: string, figure: string, kind: string) =>
    areApart(valuesOf(section.cells, system, figure)) ? 'unproven' : kind
  const axis = linearAxis(
    rows.map(({ sum }) => sum),
    PLOT,
  )
  const bottom = TOP + rows.length * ROW
  const drawn = rows.map(({ system, server, database, sum }, i) => {
    const y = TOP + i * ROW + 20
    const turn = axis.place(server)
    const width = axis.place(sum) - turn
    const parts = server > 0 && database > 0 ? `${short(server)} + ${short(database)} = ` : ''
    return [
      text({ x: 0, y: y - 5 }, system, '', 38),
      text({ x: WIDTH, y: y - 5 }, `${parts}${short(sum)} µs`, 'figure end'),
      server > 0
        ? bar(
            { x: PLOT.from, y, width: turn - PLOT.from - 1, height: 14 },
            kindOf(system, 'server', 'series1'),
            `server ${short(server)} µs`,
          )
        : '',
      database > 0
        ? bar(
            { x: turn, y, width, height: 14 },
            kindOf(system, 'database', 'series2'),
            `PostgreSQL ${short(database)} µs`,
          )
        : '',
    ].join('')
  })
  const grid = axis.ticks.map((tick) =>
    [
      line({ x: axis.place(tick), y: TOP - 4 }, { x: axis.place(tick), y: bottom + 2 }, 'grid'),
      text({ x: axis.place(tick), y: TOP - 10 }, tickText(tick), 'tick'),
    ].join(''),
  )
  const legend = [
    bar({ x: PLOT.from, y: bottom + 12, width: 12, height: 12 }, 'series1', 'server'),
    text({ x: PLOT.from + 18, y: bottom + 22 }, 'server', 'quiet'),
    bar({ x: PLOT.from + 80, y: bottom + 12, width: 12, height: 12 }, 'series2', 'PostgreSQL'),
    text({ x: PLOT.from + 98, y: bottom + 22 }, 'PostgreSQL', 'quiet'),
  ]
  const description = rows
    .map(({ system, server, database }) => `${system}: server ${short(server)}, PostgreSQL ${short(database)}`)
    .join('; ')
  const title = 'CPU time of a request, in microseconds, without the load tool'
  return chart({ title, description, height: bottom + 32 }, ...grid, ...drawn, ...legend)
}
