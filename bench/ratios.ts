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
/** Of the rounds. */
const TOO_MANY_MARKED = 0.2

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

/** Every system over itself of another build, whose systems have names that end so. */
export function ratiosToBuild(section: Section, suffix: string): Ratio[] {
  const systems = systemsOf(section)
  return systems
    .filter((system) => systems.includes(`${system}${suffix}`))
    .flatMap((system) =>
      placesOf(section.cells).flatMap((at) => ratio(section, system, `${system}${suffix}`, section.compared, at) ?? []),
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
    finding: doubt(section.cells, values.length) ?? found(interval, lessIsBetter),
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

/** Why figures of this section prove nothing. */
export function doubt(cells: readonly Cell[], rounds: number): 'too few rounds' | 'too noisy' | undefined {
  if (rounds < ENOUGH_PAIRS) return 'too few rounds'
  return markedShare(cells) > TOO_MANY_MARKED ? 'too noisy' : undefined
}

/** How many of the rounds were disturbed, from 0 to 1. */
export function markedShare(cells: readonly Cell[]): number {
  const rounds = new Map<string, boolean>()
  for (const { at, round, marked = false } of cells) {
    const key = `${at} ${round}`
    rounds.set(key, marked || rounds.get(key) === true)
  }
  return rounds.size === 0 ? 0 : [...rounds.values()].filter(Boolean).length / rounds.size
}

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
