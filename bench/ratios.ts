import type { Cell, Section } from './section.js'
import { median, medianInterval } from './statistics.js'

/** A figure of one system over that of another, in pairs of the same round. */
export interface Ratio {
  readonly system: string
  readonly against: string
  /** A column. */
  readonly figure: string
  readonly at?: number
  /** How many rounds had both. */
  readonly pairs: number
  readonly median: number
  /** Where the median is with 95 % confidence. */
  readonly low: number
  readonly high: number
  /** Below 1 the system is the better one; else above 1. */
  readonly lessIsBetter: boolean
  readonly finding: Finding
}

/** Of the system. The last two: whatever the ratio is, it says nothing. */
export type Finding = 'better' | 'worse' | 'no proven difference' | 'too few rounds' | 'too noisy'

/** With fewer, all may lie on one side by chance more often than once in 16. */
const ENOUGH_PAIRS = 5
/** How many times the least of the rounds the most may be: beyond, what ran beside them was measured. */
export const MOST_APART = 1.5

/** Every subject over every other system, by what the section compares, at every place of a curve. */
export function ratiosOf(section: Section): Ratio[] {
  const systems = systemsOf(section)
  return subjectsOf(section).flatMap((subject) =>
    placesOf(section.cells).flatMap((at) =>
      systems
        .filter((system) => system !== subject)
        .flatMap((system) => ratio(section, subject, system, section.compared, at) ?? []),
    ),
  )
}

/** @returns undefined where no round had both */
export function ratio(
  section: Section,
  system: string,
  against: string,
  figure: string,
  at?: number,
): Ratio | undefined {
  const values = pairedRatios(section.cells, system, against, figure, at)
  if (values.length === 0) return undefined
  const interval = medianInterval(values)
  const lessIsBetter = section.lessIsBetter?.includes(figure) ?? false
  return {
    system,
    against,
    figure,
    at,
    pairs: values.length,
    median: median(values),
    ...interval,
    lessIsBetter,
    finding: doubt(section.cells, figure, [system, against], at) ?? found(interval, lessIsBetter),
  }
}

/** What a picture has room for: ratios to other systems than ours; where there are none, to others of ours. */
export function shownRatios(section: Section & { readonly ratios: readonly Ratio[] }): readonly Ratio[] {
  // Those of a curve are in its table.
  if (section.along !== undefined) return []
  const others = section.ratios.filter(({ against }) => !isOurs(against))
  const subjects = subjectsOf(section)
  return others.length > 0 ? others : section.ratios.filter(({ against }) => !subjects.includes(against))
}

export const isOurs = (system: string): boolean => system.startsWith('rowhouse')

/** Why a figure of these systems proves nothing. */
export function doubt(
  cells: readonly Cell[],
  figure: string,
  systems: readonly string[],
  at?: number,
): 'too few rounds' | 'too noisy' | undefined {
  const rounds = systems.map((system) => valuesOf(cells, system, figure, at))
  if (rounds.some(({ length }) => length < ENOUGH_PAIRS)) return 'too few rounds'
  return rounds.some(areApart) ? 'too noisy' : undefined
}

/** Whether rounds differ too much for their figure to count. */
export const areApart = (values: readonly number[]): boolean => Math.max(...values) > MOST_APART * Math.min(...values)

/** One ratio for each round in which both were measured. */
export function pairedRatios(
  cells: readonly Cell[],
  system: string,
  against: string,
  figure: string,
  at?: number,
): number[] {
  const here = cells.filter((cell) => cell.at === at && cell.void === undefined)
  return here
    .filter((cell) => cell.system === system)
    .flatMap((cell) => {
      const above = cell.figures[figure]
      const below = here.find((other) => other.system === against && other.round === cell.round)?.figures[figure]
      return above === undefined || below === undefined || below === 0 ? [] : [above / below]
    })
}

export const systemsOf = ({ cells }: Section): string[] => [...new Set(cells.map(({ system }) => system))]

export const subjectsOf = (section: Section): readonly string[] => section.subjects ?? systemsOf(section).slice(0, 1)

/** Where on the axis there are cells; a section without an axis has one place, `undefined`. */
export const placesOf = (cells: readonly Cell[]): readonly (number | undefined)[] => [
  ...new Set(cells.map(({ at }) => at)),
]

/** The values of a figure in all rounds that count. */
export function valuesOf(cells: readonly Cell[], system: string, figure: string, at?: number): number[] {
  return cells
    .filter((cell) => cell.system === system && cell.at === at && cell.void === undefined)
    .flatMap(({ figures }) => figures[figure] ?? [])
}

function found({ low, high }: { low: number; high: number }, lessIsBetter: boolean): Finding {
  if (low <= 1 && high >= 1) return 'no proven difference'
  return high < 1 === lessIsBetter ? 'better' : 'worse'
}
