import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import type { Metrics } from '../observe/metrics.js'
import { messageOf, unavailable } from '../errors.js'
import { OUTAGE } from '../observe/log.js'

/**
 * A circuit breaker: while the database is unavailable, requests fail immediately instead of waiting for a connection.
 */
export interface Breaker {
  readonly isOpen: boolean
  /** @throws ServiceError 503 unavailable while the breaker is open */
  check(): void
  /** Reports that a request got no connection, or no answer for long. Starts probes to find out whether the database responds. */
  failed(): void
  close(): void
}

/** Maximum time to connect, and of a probe. A login over a slow network takes several round trips. */
export const CONNECT_MS = 5000
/** Time after which another probe starts, in milliseconds: the last one may wait for packets that were lost. */
const LATE_MS = 1000
const PAUSE_MS = 250
const TICK_MS = 100
/**
 * Ticks without a sign of life after which the breaker opens. Between two ticks the event loop has read what arrived, so
 * time in which it was busy does not count.
 */
const SILENT_TICKS = 10
/** Interval of log lines while it is open. */
const REMIND_MS = 60_000

/** What the breaker knows the database by. */
interface Evidence {
  /** Queries the database, on a connection that is open or on a new one. Rejects within `CONNECT_MS` or so. */
  probe(): Promise<void>
  /** Returns whether any connection received something since the last call. */
  heard(): boolean
}

/**
 * Creates a circuit breaker. A request that gets no connection only starts probes: slow queries may hold all connections.
 * The breaker opens after a second in which no probe succeeded and no connection received anything, and closes with the
 * next sign of life. Logs one line when it opens, one a minute while it is open, and one when it closes.
 */
export function createBreaker({ probe, heard }: Evidence, log: Logger, metrics?: Metrics): Breaker {
  const closing = new AbortController()
  let probing = false
  let endedAt = -Infinity
  let openSince: number | undefined
  let loggedAt = 0
  let cause: unknown

  metrics?.gauge(
    'database_breaker_open',
    '1 while the database is unavailable and requests that need it fail with 503 immediately.',
    [],
    (gauge) => gauge.set(openSince === undefined ? 0 : 1),
    'max',
  )

  /** Silences what requests say of the outage. That of a standby concerns none: the primary answers them. */
  const outage = (isOut: boolean) => (metrics ? { [OUTAGE]: isOut } : {})

  function report(message: string): void {
    loggedAt = performance.now()
    const ms = openSince === undefined ? 0 : loggedAt - openSince
    log.warn({ ...outage(true), ...(ms > 0 ? { ms: Math.round(ms) } : {}), error: messageOf(cause) }, message)
  }

  function open(): void {
    if (openSince !== undefined) {
      if (performance.now() - loggedAt > REMIND_MS) report('the database is still unavailable')
      return
    }
    report('the database is unavailable')
    openSince = loggedAt
    breaker.isOpen = true
    log.debug({ err: cause }, 'the last probe of the database failed')
  }

  function shut(): void {
    if (openSince === undefined) return
    log.warn({ ...outage(false), ms: Math.round(performance.now() - openSince) }, 'the database is available again')
    openSince = undefined
    breaker.isOpen = false
  }

  /** Probes until one succeeds. */
  async function run(): Promise<void> {
    let silent = 0
    let succeeded = false
    const pause = (ms: number) => sleep(ms, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
    const attempt = async () => {
      try {
        await probe()
        succeeded = true
      } catch (error) {
        cause = error
        succeeded ||= isAnswer(error)
      }
    }
    heard()
    cause = new Error('no answer within 1 s')
    const ticks = setInterval(() => {
      silent = heard() ? 0 : silent + 1
      if (silent === 0) shut()
      else if (silent >= SILENT_TICKS) open()
    }, TICK_MS).unref()
    while (!closing.signal.aborted) {
      await Promise.race([attempt(), pause(LATE_MS)])
      if (succeeded) break
      await pause(PAUSE_MS)
    }
    clearInterval(ticks)
    endedAt = performance.now()
    if (succeeded) shut()
  }

  const breaker = {
    isOpen: false,
    check() {
      if (openSince !== undefined) throw unavailable(cause)
    },
    failed() {
      if (probing || performance.now() - endedAt < PAUSE_MS) return
      probing = true
      void run().finally(() => {
        probing = false
      })
    },
    close: () => closing.abort(),
  }
  return breaker
}

/**
 * Returns whether an error proves that the database responds, e.g. too many connections or a failed login. A server
 * that is starting or stopping does not count.
 */
export const isAnswer = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && !/^(08|57P)/.test(error.code ?? '')
