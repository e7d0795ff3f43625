import { destination as file, type DestinationStream, type Level, type LogFn, type Logger, pino } from 'pino'
import { isOutage } from './errors.js'
import type { LogLines } from './log-lines.js'

export type { Logger } from 'pino'

export interface LogOptions {
  readonly level: Level | 'silent'
  /** Output stream; defaults to standard error. */
  readonly destination?: DestinationStream | undefined
  /** Also receives every line. */
  readonly recent?: LogLines
  /** Number of this process, which every line then contains. */
  readonly process?: number | undefined
}

/**
 * Creates a logger of JSON lines: `{"level":"info","time":"2026-01-31T12:00:00.000Z","msg":"..."}`. Callers select the
 * fields to log; never pass a request or a header map.
 */
export function createLogger({ level, destination = standardError, recent, process: number }: LogOptions): Logger {
  return pino(
    {
      level,
      base: number === undefined ? null : { process: number },
      timestamp: time,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describe },
      hooks: { logMethod: quietInOutage },
    },
    recent ? both(recent, destination) : destination,
  )
}

/** Moves what failed only because the database is unavailable to level debug, so that an outage does not flood the log. */
function quietInOutage(this: Logger, args: Parameters<LogFn>, write: LogFn, level: number): void {
  const [fields] = args as readonly unknown[]
  const isOfOutage = typeof fields === 'object' && fields !== null && 'err' in fields && isOutage(fields.err)
  if (isOfOutage && level > DEBUG) this.debug(...args)
  else write.apply(this, args)
}

const DEBUG = 20

const both = (recent: LogLines, destination: DestinationStream): DestinationStream => ({
  write(line) {
    recent.add(line)
    destination.write(line)
  },
})

let moment = 0
let timeText = ''
/** Returns the time. Caches it, because a busy server logs many lines per millisecond. */
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
/** Lines that must be written immediately, because they may be the last of this process. */
const AT_ONCE = /^\{"level":"(error|fatal)"/
let lines = ''
/** Output shared by all loggers. Buffers lines for a moment, and flushes when the process ends. */
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
 * Returns the parts of an error that identify its origin. Omits other properties, because the driver attaches rows and
 * values to its errors.
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

/** Returns only the stack frames, because the message of a database error quotes invalid values. */
const framesOf = ({ stack = '' }: Error): string => stack.slice(Math.max(0, stack.indexOf('\n    at ')))
