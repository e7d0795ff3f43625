import type { Counter, Registry } from 'prom-client'
import { type ServiceError, serviceError } from '../errors.js'
import type { Metrics } from '../metrics.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'
import { createGuessLimit, type GuessLimit } from './guess-limit.js'
import type { Held } from './held.js'

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
  readonly held: Held
}

/** The limits of requests worked on at once, in all and for one client. */
export interface Room {
  /**
   * @param client its address
   * @returns what ends the stay, once
   * @throws ServiceError 503 too-busy: there is no room; 429 too-many-requests: the client has half of it
   */
  enter(client: string): () => void
}

export function createTraffic(config: HttpConfig, metrics: Metrics, held: Held): Traffic {
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
      // On this machine, and over a unix socket, it is a proxy that speaks for many.
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

const tooBusy = (): ServiceError => serviceError('too-busy', 'too many requests are under way', '$', { retryAfter: 1 })
const tooMany = (half: number): ServiceError => {
  const message = `${half} requests from this address are under way, which is half of http.maxConcurrentRequests`
  return serviceError('too-many-requests', message, '$', { retryAfter: 1 })
}
