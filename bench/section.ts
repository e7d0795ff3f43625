import { runContext } from './run-context.js'

/** What one scenario came to: a table of the report. */
export interface Section {
  readonly id: string
  readonly title: string
  /** Figures in the order of the columns, and their headings with units. */
  readonly columns: Readonly<Record<string, string>>
  /** The figure whose ratio is shown: the subjects over each other system. */
  readonly compared: string
  /** The first system alone where they are not named. */
  readonly subjects?: readonly string[]
  /** Figures of which less is better; of the others more is. */
  readonly lessIsBetter?: readonly string[]
  /** What the cells' `at` is, with its unit: the section is a curve for each system. */
  readonly along?: string
  readonly targets?: readonly Target[]
  readonly cells: readonly Cell[]
  /** What could not be measured here, and why. */
  readonly notMeasured: readonly string[]
}

/** What a figure of ours should come to: a bound of itself, or of its ratio to that of another system. */
export interface Target {
  readonly system: string
  /** A column. */
  readonly figure: string
  /** A system; or how the names of several begin and, behind a `*`, end: the best of them counts. */
  readonly against?: string
  /** Of a curve; left out, the worst place counts. */
  readonly at?: number
  readonly least?: number
  readonly most?: number
}

/** One system in one round. */
export interface Cell {
  readonly system: string
  /** From 0. */
  readonly round: number
  /** Where on the axis of a section with `along`. */
  readonly at?: number
  /** By column. A figure that this system or this machine does not have is left out. */
  readonly figures: Readonly<Partial<Record<string, number>>>
  /** Why the figures do not count. */
  readonly void?: string
}

export interface Job {
  readonly system: string
  readonly at?: number
  measure(): Promise<Measured>
}
export type Measured = Pick<Cell, 'figures' | 'void'>

/**
 * Every job once a round, in reversed order every other round (A B C, C B A), so that what changes slowly on the machine
 * falls on all alike and two cells of one round may be compared.
 */
export async function interleave(
  jobs: readonly Job[],
  rounds: number,
  progress: (text: string) => void,
): Promise<Cell[]> {
  const { display } = runContext()
  const cells: Cell[] = []
  display?.expect(jobs.length * rounds)
  for (let round = 0; round < rounds; round++) {
    for (const { system, at, measure } of round % 2 === 0 ? jobs : jobs.toReversed()) {
      progress(`round ${round + 1} of ${rounds}: ${system}${at === undefined ? '' : ` at ${at}`}`)
      cells.push({ system, round, at, ...(await measure()) })
      display?.passed()
    }
  }
  return cells
}
