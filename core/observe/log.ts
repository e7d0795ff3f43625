import { destination as file, type DestinationStream, type Level, type LogFn, type Logger, pino } from 'pino'
import { isOutage, messageOf, ServiceError } from '../errors.js'
import type { LogLines } from './log-lines.js'

export type { Logger } from 'pino'

interface LogOptions {
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
      hooks: { logMethod: calmly() },
    },
    recent ? both(recent, destination) : destination,
  )
}

/** Key of the lines that say whether the database is out of reach. The circuit breaker writes them. */
export const OUTAGE = Symbol('outage')

/**
 * Returns a hook for errors (`err`) that mean "busy", "unavailable" or "too late" (503 and 504), which come in crowds.
 * Such a line is at most a warning, has the reason instead of the stack, and comes once a second for each reason. One
 * about a lost connection waits whether the circuit breaker opens, whose own line then says it for all.
 */
function calmly() {
  const crowds = new Map<string, { readonly until: number; omitted: number }>()
  let isOut = false
  let outages = 0

  return function (this: Logger, args: Parameters<LogFn>, write: LogFn, level: number): void {
    const [fields, message] = args as unknown as readonly [unknown, string?]
    if (typeof fields !== 'object' || fields === null) return write.apply(this, args)
    if (OUTAGE in fields) {
      isOut = fields[OUTAGE] === true
      if (isOut) outages++
    }
    if (level <= DEBUG || !('err' in fields) || !isPassing(fields.err)) return write.apply(this, args)
    const { err, ...others } = fields as { readonly err: ServiceError }
    const isLost = isOutage(err)
    if (isLost && isOut) return this.debug(...args)
    const { code, cause } = err
    const sqlstate = sqlstateOf(cause)
    const reason = `${message} ${code} ${sqlstate ?? err.message}`
    const now = performance.now()
    const last = crowds.get(reason)
    if (last && now < last.until) {
      last.omitted++
      return
    }
    if (crowds.size >= MAX_REASONS) crowds.clear()
    const crowd = { until: now + (isLost ? DECIDED_MS : CALM_MS), omitted: 0 }
    crowds.set(reason, crowd)
    const why = { code, sqlstate, error: err.message, cause: cause === undefined ? undefined : messageOf(cause) }
    const say = (omitted = 0) =>
      this[level < WARN ? 'info' : 'warn']({ ...others, ...why, ...(omitted > 0 ? { omitted } : {}) }, message)
    if (!isLost) return say(last?.omitted)
    const before = outages
    setTimeout(() => {
      if (outages === before) say(crowd.omitted)
      crowds.delete(reason)
    }, DECIDED_MS).unref()
  }
}

const DEBUG = 20
const WARN = 40
const CALM_MS = 1000
/** Longer than the breaker takes to open. */
const DECIDED_MS = 3000
const MAX_REASONS = 100

const isPassing = (error: unknown): boolean =>
  error instanceof ServiceError && (error.status === 503 || error.status === 504)

const sqlstateOf = (error: unknown): string | undefined =>
  error instanceof Error && 'severity' in error && 'code' in error ? String(error.code) : undefined

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
