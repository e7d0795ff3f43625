import { placesOf, ratio, type Ratio, systemsOf } from './ratios.js'
import type { Commit } from './result.js'
import type { Section } from './section.js'

/** This build beside another one. */
export interface Comparison {
  /** What the other one was asked for by. */
  readonly ref: string
  readonly build: Commit
  readonly differences: readonly Difference[]
}

/** One figure of one system: this build over the other. */
export interface Difference {
  readonly section: string
  readonly title: string
  readonly ratio: Ratio
  /** By more than a tenth, and not by chance. */
  readonly worse: boolean
}

const MUCH = 0.1
/** CPU time of server and database together: on a noisy machine steadier than any rate. */
export const CPU = 'cpu'

/** What is compared in each section, and CPU per request where it was read. @param suffix behind the other's systems */
export function differencesOf(sections: readonly Section[], suffix: string): Difference[] {
  return sections.map(withCpu).flatMap((section) => {
    const systems = systemsOf(section)
    const pairs = systems.filter((system) => systems.includes(`${system}${suffix}`))
    return pairs.flatMap((system) =>
      placesOf(section.cells).flatMap((at) =>
        [CPU, section.compared]
          .flatMap((figure) => ratio(section, system, `${system}${suffix}`, figure, at) ?? [])
          .map((found) => ({ section: section.id, title: section.title, ratio: found, worse: isMuchWorse(found) })),
      ),
    )
  })
}

export function isMuchWorse({ finding, median, lessIsBetter }: Ratio): boolean {
  return finding === 'worse' && (lessIsBetter ? median > 1 + MUCH : median < 1 - MUCH)
}

/** Figures that say nothing, because of too few or too many disturbed rounds. */
export const silentOf = ({ differences }: Comparison): readonly Difference[] =>
  differences.filter(({ ratio: { finding } }) => finding === 'too few rounds' || finding === 'too noisy')

/** Whether it can neither be said that something is worse nor that nothing is. */
export const hasNoVerdict = (comparison: Comparison): boolean =>
  comparison.differences.every(({ worse }) => !worse) &&
  (comparison.differences.length === 0 || silentOf(comparison).length > 0)

function withCpu(section: Section): Section {
  const cells = section.cells.map((cell) => {
    const { server, database } = cell.figures
    if (server === undefined || database === undefined) return cell
    return { ...cell, figures: { ...cell.figures, [CPU]: server + database } }
  })
  return { ...section, cells, lessIsBetter: [...(section.lessIsBetter ?? []), CPU] }
}
