import type { Cell, Section } from './section.js'

/** A Markdown table: a row for each system, each figure as the median and, in brackets, the least and the most. */
export function table(section: Section): string {
  const { id, title, columns, compared, cells, notMeasured } = section
  const systems = [...new Set(cells.map(({ system }) => system))]
  const subjects = section.subjects ?? systems.slice(0, 1)
  const rows = systems.map((system) => {
    const own = cells.filter((cell) => cell.system === system)
    const invalid = own.find((cell) => cell.void !== undefined)
    if (invalid) return [system, `void: ${invalid.void}`, ...Object.keys(columns).map(() => '')]
    const figures = Object.keys(columns).map((column) => spread(figuresOf(own, column)))
    const compare = (subject: string) => (system === subject ? '' : spread(ratios(cells, subject, system, compared)))
    return [system, ...figures, ...subjects.map(compare)]
  })
  const head = ['system', ...Object.values(columns), ...subjects.map((subject) => `${subject} / this`)]
  const lines = [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`)
  const missing = notMeasured.map((what) => `not measured: ${what}`)
  return [`### ${id}: ${title}`, '', ...lines, ...(missing.length > 0 ? ['', ...missing] : []), ''].join('\n')
}

/** One ratio for each round in which both were measured. */
export function ratios(cells: readonly Cell[], subject: string, other: string, column: string): number[] {
  const at = (system: string, round: number) =>
    cells.find((cell) => cell.system === system && cell.round === round && cell.void === undefined)?.figures[column]
  const rounds = [...new Set(cells.map(({ round }) => round))]
  return rounds.flatMap((round) => {
    const [above, below] = [at(subject, round), at(other, round)]
    return above === undefined || below === undefined || below === 0 ? [] : [above / below]
  })
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const [low = NaN, high = NaN] = [sorted[middle - 1], sorted[middle]]
  return sorted.length % 2 === 0 ? (low + high) / 2 : high
}

const figuresOf = (cells: readonly Cell[], column: string): number[] =>
  cells.flatMap(({ figures }) => figures[column] ?? [])

function spread(values: readonly number[]): string {
  if (values.length === 0) return ''
  const middle = short(median(values))
  return values.length === 1 ? middle : `${middle} (${short(Math.min(...values))}..${short(Math.max(...values))})`
}

/** Three digits at least; more would be noise. */
function short(value: number): string {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))
}
