import { destination as file, pino } from 'pino'
import type { DestinationStream, Level, Logger } from 'pino'

export type { Logger } from 'pino'

export interface LogOptions {
  readonly level: Level | 'silent'
  /** Where the lines go; standard error when absent. */
  readonly destination?: DestinationStream
}

/**
 * JSON lines: `{"level":"info","time":"2026-01-31T12:00:00.000Z","msg":"..."}`.
 * What is logged is chosen field by field where it is logged; nothing here may be handed a request or a header map.
 */
export function createLogger({ level, destination }: LogOptions): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: time,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describe },
    },
    destination ?? standardError,
  )
}

let moment = 0
let timeText = ''
/** Of a busy server many lines are of the same millisecond. */
function time(): string {
  const now = Date.now()
  if (now !== moment) {
    moment = now
    timeText = `,"time":"${new Date(now).toISOString()}"`
  }
  return timeText
}

const ENOUGH = 16 * 1024
const SOON_MS = 10
/** What may be the last that this process says. */
const AT_ONCE = /^\{"level":"(error|fatal)"/
let lines = ''
/** Of all loggers: what is logged within a moment is written at once, the last of it as the process ends. */
const standardError: DestinationStream = {
  write(line) {
    if (!output) open()
    if (lines === '') setTimeout(flush, SOON_MS).unref()
    lines += line
    if (lines.length > ENOUGH || AT_ONCE.test(line)) flush()
  },
}
let output: DestinationStream | undefined

function open(): void {
  output = file({ dest: 2, sync: true })
  process.on('exit', flush)
}

function flush(): void {
  const all = lines
  lines = ''
  if (all !== '') output?.write(all)
}

/**
 * The parts of an error that say where it came from. Its other properties stay out: the driver hangs rows and values
 * on its errors.
 */
function describe(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return { type: typeof error }
  return {
    type: error.name,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    stack: 'severity' in error ? framesOf(error) : error.stack,
    ...(error.cause === undefined || depth === 3 ? {} : { cause: describe(error.cause, depth + 1) }),
  }
}

/** A database error quotes in its message the value that it could not take: only where it happened is logged. */
const framesOf = ({ stack = '' }: Error): string => stack.slice(Math.max(0, stack.indexOf('\n    at ')))
