import type { Counter, Registry } from 'prom-client'
import { type ServiceError, serviceError } from '../errors.js'
import type { Metrics } from '../metrics.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'
import { createGuessLimit, type GuessLimit } from './guess-limit.js'
import type { Held } from './held.js'

/** Metrics and limits shared by all listeners of a server. */
export interface Traffic {
  readonly registry: Registry
  /** Counts a request as started. */
  begin(): void
  /** Counts a request as finished. */
  end(method: string, route: string, status: number, plugin: string, seconds: number): void
  readonly failures: Counter
  readonly rejected: Counter
  readonly unread: Counter
  readonly guesses: GuessLimit
  readonly room: Room
  readonly held: Held
}

/** Limits on concurrent requests, in total and per client. */
export interface Room {
  /**
   * Admits a request.
   * @param client its address
   * @returns a function that ends the request; later calls do nothing
   * @throws ServiceError 503 too-busy: the limit is reached; 429 too-many-requests: the client has half of the limit
   */
  enter(client: string): () => void
}

export function createTraffic(config: HttpConfig, metrics: Metrics, held: Held): Traffic {
  const durations = metrics.histogram(
    'http_request_duration_seconds',
    'Time from the headers of a request to the end of its response.',
    ['method', 'route', 'status', 'plugin'],
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  )
  let inFlight = 0
  metrics.gauge('http_requests_in_flight', 'Requests in progress.', [], (gauge) => gauge.set(inFlight))
  return {
    registry: metrics.registry,
    begin: () => void inFlight++,
    end(method, route, status, plugin, seconds) {
      inFlight--
      durations.observe({ method, route, status, plugin }, seconds)
    },
    failures: metrics.counter('auth_failures_total', 'Requests with wrong credentials.'),
    rejected: metrics.counter('http_overload_total', 'Requests refused because too many were in progress.'),
    unread: metrics.counter('http_unread_total', 'Requests refused because they are not valid HTTP.', ['code']),
    guesses: createGuessLimit(config.failedAuthPerMinute),
    room: createRoom(config.maxConcurrentRequests),
    held,
  }
}

function createRoom(most: number): Room {
  const half = Math.max(1, Math.floor(most / 2))
  const byClient = new Map<string, number>()
  let busy = 0

  function add(client: string | undefined, one: 1 | -1): void {
    busy += one
    if (client === undefined) return
    const count = (byClient.get(client) ?? 0) + one
    if (count === 0) byClient.delete(client)
    else byClient.set(client, count)
  }

  return {
    enter(address) {
      // Loopback and unix socket peers are proxies that forward many clients, so they have no limit.
      const client = address === '' || isLoopback(address) ? undefined : addressKey(address)
      if (busy >= most) throw tooBusy()
      if (client !== undefined && (byClient.get(client) ?? 0) >= half) throw tooMany(half)
      add(client, 1)
      let inside = true
      return () => {
        if (inside) add(client, -1)
        inside = false
      }
    },
  }
}

const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.')

const tooBusy = (): ServiceError =>
  serviceError('too-busy', 'too many requests are in progress', '$', { retryAfter: 1 })
const tooMany = (half: number): ServiceError => {
  const message = `this address has ${half} requests in progress, half of http.maxConcurrentRequests`
  return serviceError('too-many-requests', message, '$', { retryAfter: 1 })
}
