import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import type { Metrics } from '../metrics.js'
import { messageOf, unavailable } from '../errors.js'

/**
 * A circuit breaker: while the database is unavailable, requests fail immediately instead of waiting for a connection.
 */
export interface Breaker {
  readonly isOpen: boolean
  /** @throws ServiceError 503 unavailable while the breaker is open */
  check(): void
  /** Reports that a request got no connection. Starts a probe to find out whether the database responds. */
  failed(): void
  close(): void
}

/** Timeout of one probe, in milliseconds. With the pause it is below a second, so service resumes within one. */
export const PROBE_MS = 500
const PAUSE_MS = 250
/** Probes in a row that time out before the breaker opens: a single one may only mean that a machine is busy. */
const LATE_PROBES = 2

/**
 * Creates a circuit breaker. A pool may have no free connection because slow queries hold all of them, so a failure
 * only starts a probe. A failed probe opens the breaker, at the second attempt if it timed out. Probes run one at a time
 * until the database responds. Logs one line when it opens and one when it closes.
 * @param probe connects separately and queries the database; rejects within `PROBE_MS`
 */
export function createBreaker(probe: () => Promise<void>, log: Logger, metrics?: Metrics): Breaker {
  const closing = new AbortController()
  let probing = false
  let probedAt = -Infinity
  let openSince: number | undefined
  let cause: unknown

  metrics?.gauge(
    'database_breaker_open',
    '1 while the database is unavailable and requests that need it fail with 503 immediately.',
    [],
    (gauge) => gauge.set(openSince === undefined ? 0 : 1),
    'max',
  )

  async function run(): Promise<void> {
    let late = 0
    while (!closing.signal.aborted) {
      const error = await probe().then(
        () => undefined,
        (reason: unknown) => reason,
      )
      probedAt = performance.now()
      if (closing.signal.aborted) return
      if (error === undefined || isAnswer(error)) {
        if (openSince !== undefined)
          log.warn({ ms: Math.round(probedAt - openSince) }, 'the database is available again')
        openSince = undefined
        return
      }
      cause = error
      const isLate = (error as { readonly code?: string }).code === undefined
      if (openSince === undefined && !(isLate && ++late < LATE_PROBES)) {
        openSince = probedAt
        log.warn({ error: messageOf(error) }, 'the database is unavailable')
        log.debug({ err: error }, 'the last probe of the database failed')
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

/**
 * Returns whether an error proves that the database responds, e.g. too many connections or a failed login. A server
 * that is starting or stopping does not count.
 */
const isAnswer = (error: unknown): boolean => error instanceof pg.DatabaseError && !/^(08|57P)/.test(error.code ?? '')
