import { CPU, EFFICIENCY } from './efficiency.js'
import { areApart, placesOf, type Ratio, subjectsOf, systemsOf, valuesOf } from './ratios.js'
import type { Section } from './section.js'
import { median } from './statistics.js'

/** Rows of text: what a section's table holds, in any format. */
export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/**
 * A row for each system, or for each system at each place of a curve; each figure as the median and, in brackets, the least
 * and the most; ratios as the median and, in brackets, its interval.
 */
export function tableOf(section: Section & { readonly ratios: readonly Ratio[] }): Table {
  const { columns, compared, cells, along } = section
  const subjects = subjectsOf(section)
  const rows = placesOf(cells).flatMap((at) =>
    systemsOf(section).flatMap((system) => {
      const own = cells.filter((cell) => cell.system === system && cell.at === at)
      if (own.length === 0) return []
      const name = along === undefined ? [system] : [system, String(at ?? '')]
      const invalid = own.find((cell) => cell.void !== undefined)
      if (invalid)
        return [
          [
            ...name,
            `void: ${invalid.void}`,
            ...Object.keys(columns)
              .slice(1)
              .map(() => ''),
            ...subjects.map(() => ''),
          ],
        ]
      const figures = Object.keys(columns).map((column) => {
        const values = valuesOf(cells, system, column, at)
        return COUNTED.includes(column) && areApart(values) ? `void: ${spread(values)}` : spread(values)
      })
      const compare = (subject: string) =>
        ratioText(section.ratios.find((one) => one.system === subject && one.against === system && one.at === at))
      return [[...name, ...figures, ...subjects.map(compare)]]
    }),
  )
  const direction = section.lessIsBetter?.includes(compared) === true ? ', less is better' : ''
  const ratios = subjects.map((subject) => `${subject} / this${direction}`)
  return { head: ['system', ...(along === undefined ? [] : [along]), ...Object.values(columns), ...ratios], rows }
}

/** Figures that are void where their rounds are too far apart. */
const COUNTED = [CPU, 'server', 'database', EFFICIENCY]

/** As Markdown, under its title. */
export function table(section: Section & { readonly ratios: readonly Ratio[] }): string {
  return [`### ${section.id}: ${section.title}`, '', markdown(tableOf(section)), ''].join('\n')
}

export function markdown({ head, rows }: Table): string {
  const line = (row: readonly string[]) => `| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [head, head.map(() => '---'), ...rows].map(line).join('\n')
}

/** @returns e.g. `0.81 (0.78..0.9), worse` */
export function ratioText(found: Ratio | undefined): string {
  return found === undefined ? '' : `${ratioInterval(found)}, ${found.finding}`
}

export const ratioInterval = ({ median, low, high, pairs }: Ratio): string => intervalText({ median, low, high }, pairs)

/** Of fewer an interval is only the least and the most. */
export const ENOUGH_FOR_INTERVAL = 3

export function intervalText(
  { median, low, high }: { readonly median: number; readonly low: number; readonly high: number },
  rounds: number,
): string {
  return rounds < ENOUGH_FOR_INTERVAL ? short(median) : `${short(median)} (${short(low)}..${short(high)})`
}

export function spread(values: readonly number[]): string {
  if (values.length === 0) return ''
  const middle = short(median(values))
  return values.length === 1 ? middle : `${middle} (${short(Math.min(...values))}..${short(Math.max(...values))})`
}

/** Three digits at least; more would be noise. */
export function short(value: number): string {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))
}
