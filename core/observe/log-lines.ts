import type { Level } from 'pino'

/** Levels of log lines, the least important first. */
export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const satisfies readonly Level[]

const MAX_LINES = 500
const MAX_CHARACTERS = 256 * 1024

export interface LogLine {
  /** Larger than that of the line before, and larger than that of every line of an earlier millisecond. */
  readonly number: number
  /** JSON object. */
  readonly text: string
}

/** Numbers of a millisecond: four lines of each of 256 processes. Further lines take numbers of the next one. */
const PER_MS = 1024
const PROCESSES = 256

/** Returns a number above those of lines before this moment, and below those of lines from now on. */
export const lineNumberNow = (): number => Date.now() * PER_MS - 1

/** The last lines of a log, in memory. */
export class LogLines {
  /** @param process number of this process, so that no other one gives a line the same number */
  constructor(private readonly process = 0) {}

  private readonly lines: LogLine[] = Array.from({ length: MAX_LINES }, () => NONE)
  private characters = 0
  private first = 0
  private end = 0
  private newest = 0

  /** Number of the last line; 0 before the first. */
  get last(): number {
    return this.newest
  }

  add(text: string): void {
    if (this.end - this.first === MAX_LINES) this.drop()
    const number = (this.newest = Math.max(this.newest + PROCESSES, Date.now() * PER_MS + (this.process % PROCESSES)))
    this.lines[this.end++ % MAX_LINES] = { number, text }
    this.characters += text.length
    while (this.characters > MAX_CHARACTERS) this.drop()
  }

  /**
   * Returns the kept lines that follow a line.
   * @param level minimum level
   */
  after(number: number, level: Level): readonly LogLine[] {
    const wanted = LEVELS.slice(LEVELS.indexOf(level)).join('|')
    const isWanted = new RegExp(`^\\{"level":"(${wanted})"`)
    const kept = Array.from({ length: this.end - this.first }, (_, i) => this.at(this.first + i))
    return kept.filter((line) => line.number > number && isWanted.test(line.text))
  }

  private at(index: number): LogLine {
    return this.lines[index % MAX_LINES]!
  }

  private drop(): void {
    this.characters -= this.at(this.first).text.length
    this.lines[this.first++ % MAX_LINES] = NONE
  }
}

const NONE: LogLine = { number: 0, text: '' }
