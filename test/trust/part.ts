/** A part of the scoreboard. */
export interface Part {
  /** For `--help`: what it does. */
  readonly about: string
  run(options: PartOptions): Promise<Score>
}

export interface PartOptions {
  /** About how long it may take. */
  readonly minutes: number
  /** Where random choices begin. */
  readonly seed: number
  /** Names of what a part consists of. */
  readonly only: RegExp
  /** A folder for CPU profiles of servers. */
  readonly profile?: string
  progress(text: string): void
}

/** A row of the scoreboard. */
export interface Score {
  /** What was done, with counts. */
  readonly done: string
  /** What must never happen, and did. */
  readonly violations: readonly string[]
  readonly figures: readonly string[]
  /** Figures that need a table of their own, in Markdown. */
  readonly table?: string
}
