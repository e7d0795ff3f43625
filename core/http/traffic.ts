import type { Counter, Registry } from 'prom-client'
import type { Metrics } from '../metrics.js'
import type { HttpConfig } from './config.js'
import { createGuessLimit, type GuessLimit } from './guess-limit.js'
import type { Unsent } from './unsent.js'

/** What is measured and limited for all listeners of a server together. */
export interface Traffic {
  readonly registry: Registry
  /** Of requests: one is being worked on. */
  begin(): void
  /** Its answer has ended. */
  end(method: string, route: string, status: number, plugin: string, seconds: number): void
  readonly failures: Counter
  readonly rejected: Counter
  readonly unread: Counter
  readonly guesses: GuessLimit
  readonly room: Room
  readonly unsent: Unsent
}

/** How many requests may be worked on at once. */
export interface Room {
  /** @returns what ends the stay, once; undefined when there is no room */
  enter(): (() => void) | undefined
}

export function createTraffic(config: HttpConfig, metrics: Metrics, unsent: Unsent): Traffic {
  const durations = metrics.histogram(
    'http_request_duration_seconds',
    'time from the headers of a request to the end of its answer',
    ['method', 'route', 'status', 'plugin'],
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  )
  let inFlight = 0
  metrics.gauge('http_requests_in_flight', 'requests whose answer has not ended', [], (gauge) => gauge.set(inFlight))
  return {
    registry: metrics.registry,
    begin: () => void inFlight++,
    end(method, route, status, plugin, seconds) {
      inFlight--
      durations.observe({ method, route, status, plugin }, seconds)
    },
    failures: metrics.counter('auth_failures_total', 'requests with wrong credentials'),
    rejected: metrics.counter('http_overload_total', 'requests refused because too many were under way'),
    unread: metrics.counter('http_unread_total', 'requests refused because they could not be read', ['code']),
    guesses: createGuessLimit(config.failedAuthPerMinute),
    room: createRoom(config.maxConcurrentRequests),
    unsent,
  }
}

function createRoom(most: number): Room {
  let busy = 0
  return {
    enter() {
      if (busy >= most) return undefined
      busy++
      let inside = true
      return () => {
        if (inside) busy--
        inside = false
      }
    },
  }
}
