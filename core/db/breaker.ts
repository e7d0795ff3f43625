import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import type { Metrics } from '../metrics.js'
import { type ServiceError, serviceError } from '../errors.js'

/** A circuit breaker: while the database does not answer, requests fail at once instead of waiting for a connection. */
export interface Breaker {
  readonly isOpen: boolean
  /** @throws ServiceError 503 unavailable while the breaker is open */
  check(): void
  /** Reports that a request got no connection, for whatever reason. A probe finds out whether the database answers. */
  failed(): void
  close(): void
}

/** Limit for one probe. With the pause it is less than a second, so that service is back within one. */
export const PROBE_MS = 500
const PAUSE_MS = 250

/**
 * A pool may have no connection to give because slow queries hold all of them, so a failure alone opens nothing: it starts
 * a probe, and only a probe without an answer opens the breaker. One probe runs at a time, until the database answers.
 * @param probe asks the database on a connection of its own; rejects within `PROBE_MS`
 */
export function createBreaker(probe: () => Promise<void>, log: Logger, metrics: Metrics): Breaker {
  const closing = new AbortController()
  let probing = false
  let probedAt = -Infinity
  let openSince: number | undefined
  let cause: unknown

  metrics.gauge(
    'database_breaker_open',
    '1 while the database does not answer and requests that need it get 503 at once',
    [],
    (gauge) => gauge.set(openSince === undefined ? 0 : 1),
  )

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      const error = await probe().then(
        () => undefined,
        (reason: unknown) => reason,
      )
      probedAt = performance.now()
      if (closing.signal.aborted) return
      if (error === undefined || isAnswer(error)) {
        if (openSince !== undefined) log.info({ ms: Math.round(probedAt - openSince) }, 'the database answers again')
        openSince = undefined
        return
      }
      cause = error
      if (openSince === undefined) {
        openSince = probedAt
        log.warn({ err: error }, 'the database does not answer')
      }
      await sleep(PAUSE_MS, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
    }
  }

  return {
    get isOpen() {
      return openSince !== undefined
    },
    check() {
      if (openSince !== undefined) throw unavailable(cause)
    },
    failed() {
      if (probing || performance.now() - probedAt < PAUSE_MS) return
      probing = true
      void run().finally(() => {
        probing = false
      })
    },
    close: () => closing.abort(),
  }
}

export const unavailable = (cause: unknown, message = 'the database is not available right now'): ServiceError =>
  serviceError('unavailable', message, '$', { cause, retryAfter: 1 })

/** A database with too many connections, or without this login, does answer; one that starts or stops does not. */
const isAnswer = (error: unknown): boolean => error instanceof pg.DatabaseError && !/^(08|57P)/.test(error.code ?? '')
