import type { Level } from 'pino'

/** Levels of log lines, the least important first. */
export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const satisfies readonly Level[]

const MAX_LINES = 500
const MAX_CHARACTERS = 256 * 1024

export interface LogLine {
  /** Number of the line since the start, from 1. */
  readonly number: number
  /** JSON object. */
  readonly text: string
}

/** The last lines of a log, in memory. */
export class LogLines {
  private readonly texts = Array.from({ length: MAX_LINES }, () => '')
  private characters = 0
  private first = 1
  private newest = 0

  /** Number of the last line; 0 before the first. */
  get last(): number {
    return this.newest
  }

  add(line: string): void {
    if (this.newest - this.first + 1 === MAX_LINES) this.drop()
    this.texts[++this.newest % MAX_LINES] = line
    this.characters += line.length
    while (this.characters > MAX_CHARACTERS) this.drop()
  }

  /**
   * Returns the kept lines that follow a line.
   * @param level minimum level
   */
  after(number: number, level: Level): readonly LogLine[] {
    const wanted = LEVELS.slice(LEVELS.indexOf(level)).join('|')
    const isWanted = new RegExp(`^\\{"level":"(${wanted})"`)
    const from = Math.max(this.first, number + 1)
    return Array.from({ length: Math.max(0, this.newest - from + 1) }, (_, i) => ({
      number: from + i,
      text: this.texts[(from + i) % MAX_LINES] as string,
    })).filter(({ text }) => isWanted.test(text))
  }

  private drop(): void {
    const at = this.first++ % MAX_LINES
    this.characters -= this.texts[at]!.length
    this.texts[at] = ''
  }
}
