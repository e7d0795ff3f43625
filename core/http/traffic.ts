import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Counter } from 'prom-client'
import { type ServiceError, serviceError } from '../errors.js'
import type { Metrics } from '../observe/metrics.js'
import { ReaderClock, type ReaderLimits } from '../deadline.js'
import { type Session, type AnswerLimits, answerLimit } from '../session.js'
import { Turns } from '../long/turns.js'
import { partOf } from '../processes/part.js'
import { addressKey } from './client-address.js'
import type { HttpConfig } from './config.js'

/** Metrics and limits shared by all listeners of a server. */
export interface Traffic {
  /** Returns all metrics in the text format of Prometheus. */
  readonly scrape: () => Promise<string>
  /** Counts a request as started. */
  begin(): void
  /** Counts a request as finished. */
  end(method: string, route: string, status: number, plugin: string, seconds: number): void
  /** Counts an error of a response. */
  failed(route: string, code: string): void
  /**
   * Admits a request if the limits on concurrent requests allow it, in total and for its client.
   * @param client its address
   * @returns a function that ends the request; later calls do nothing
   * @throws ServiceError 503 too-busy: the limit is reached; 429 too-many-requests: the client has half of the limit
   */
  enter(client: string): () => void
  /**
   * Counts a failed authentication attempt.
   * @returns whether the client has exceeded its limit; waits before it returns true
   */
  authFailed(client: string, signal: AbortSignal): Promise<boolean>
  /** Requests that are not valid HTTP. */
  readonly malformed: Counter
  readonly held: Held
}

/** @param processes number of processes that share what an address may guess */
export function createTraffic(config: HttpConfig, metrics: Metrics, held: Held, processes = 1): Traffic {
  const durations = metrics.durations(
    'http_request_duration_seconds',
    'Time from the headers of a request to the end of its response.',
    ['method', 'route', 'status', 'plugin'],
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  )
  const errors = metrics.counter(
    'errors_total',
    'Errors in responses by their code, whatever the status of HTTP: most of GraphQL have 200.',
    ['route', 'code'],
  )
  let inFlight = 0
  metrics.gauge('http_requests_in_flight', 'Requests in progress.', [], (gauge) => gauge.set(inFlight))
  const failures = metrics.counter('auth_failures_total', 'Requests with wrong credentials.')
  const rejected = metrics.counter('http_overload_total', 'Requests refused because too many were in progress.')
  return {
    scrape: () => metrics.scrape(),
    begin: () => void inFlight++,
    end(method, route, status, plugin, seconds) {
      inFlight--
      durations.observe(seconds, method, route, status, plugin)
    },
    failed: (route, code) => errors.inc({ route, code }),
    enter: createConcurrencyLimit(config.maxConcurrentRequests, rejected),
    authFailed: createGuessLimit(partOf(config.failedAuthPerMinute, processes), failures),
    malformed: metrics.counter('http_unread_total', 'Requests refused because they are not valid HTTP.', ['code']),
    held,
  }
}

function createConcurrencyLimit(max: number, rejected: Counter): Traffic['enter'] {
  const half = Math.max(1, Math.floor(max / 2))
  const byClient = new Map<string, number>()
  let busy = 0

  function add(client: string | undefined, change: 1 | -1): void {
    busy += change
    if (client === undefined) return
    const count = (byClient.get(client) ?? 0) + change
    if (count === 0) byClient.delete(client)
    else byClient.set(client, count)
  }

  return (address) => {
    // Loopback and unix socket peers are proxies that forward many clients, so they have no limit.
    const client = address === '' || isLoopback(address) ? undefined : addressKey(address)
    const hasHalf = client !== undefined && (byClient.get(client) ?? 0) >= half
    if (busy >= max || hasHalf) {
      rejected.inc()
      throw busy >= max ? tooBusy() : tooMany(half)
    }
    add(client, 1)
    let isOpen = true
    return () => {
      if (isOpen) add(client, -1)
      isOpen = false
    }
  }
}

const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.')

const tooBusy = (): ServiceError =>
  serviceError('too-busy', 'too many requests are in progress (http.maxConcurrentRequests)', '$', { retryAfter: 1 })
const tooMany = (half: number): ServiceError => {
  const message = `this address has ${half} requests in progress, half of http.maxConcurrentRequests`
  return serviceError('too-many-requests', message, '$', { retryAfter: 1 })
}

const MINUTE_MS = 60_000
const DELAY_MS = 1_000
/** Maximum number of delayed refusals. Further refusals are sent immediately, to limit the memory that they take. */
const MAX_DELAYED = 100
const MAX_ADDRESSES = 10_000

/**
 * Counts failed authentication attempts per minute and client address. Above the limit, failures are delayed and get a
 * uniform response. Valid credentials are never affected, so nobody can lock out other users of an address.
 */
function createGuessLimit(perMinute: number, failures: Counter): Traffic['authFailed'] {
  const windows = new Map<string, { count: number; endsAt: number }>()
  let delayed = 0

  function count(address: string): number {
    const now = performance.now()
    const known = windows.get(address)
    if (known && known.endsAt > now) return ++known.count
    windows.delete(address)
    // Deletes the oldest entry: a map keeps insertion order.
    if (windows.size >= MAX_ADDRESSES) windows.delete(windows.keys().next().value!)
    windows.set(address, { count: 1, endsAt: now + MINUTE_MS })
    return 1
  }

  return async (client, signal) => {
    failures.inc()
    if (count(addressKey(client)) <= perMinute) return false
    if (delayed >= MAX_DELAYED) return true
    delayed++
    await sleep(DELAY_MS, undefined, { signal }).catch(() => {})
    delayed--
    return true
  }
}

/**
 * Tracks memory held for clients: unread responses, the last chunks of streams, and incomplete request bodies. Excludes
 * what the operating system buffers.
 */
export interface Held {
  /** @throws ServiceError 429 too-many-requests: the caller holds too much memory already */
  check(session: Session): void
  /**
   * Counts bytes of a body; a negative number releases them.
   * @param size bytes received so far
   * @throws ServiceError 429 too-many-requests: the caller holds too much memory besides this body
   */
  receive(session: Session, bytes: number, size: number): void
  /** Counts a body that has been received until the response has been sent. */
  keep(session: Session, res: ServerResponse, bytes: number): void
  /**
   * Waits until the long bodies of the caller that are in progress leave room for another one: until they have `TOGETHER`
   * bytes with it, or there are none. A body is in progress until its response has been sent. One of more than `LARGE`
   * bytes waits before it is received, others before they are parsed.
   * @throws ServiceError 429 too-many-requests after `timeoutMs`, or when too many wait already
   */
  turn(session: Session, res: ServerResponse, bytes: number, timeoutMs: number): Promise<void>
  /**
   * Waits for the caller's turn on the event loop. Bodies that take time are read one in each round of it, in turns
   * between callers, so that a crowd of them does not hold up all others. After a body that took long the loop is left
   * to others for as long.
   */
  round(session: Session): Promise<void>
  /**
   * Counts a response for its caller until it has been sent, and cuts off a client that reads it too slowly.
   * @param bytes unsent size
   */
  follow(res: ServerResponse, state: { readonly session?: Session; code?: string }, bytes: number): void
}

/** @param limits with the maximum number of bytes held per caller */
export function createHeld(limits: ReaderLimits & AnswerLimits): Held {
  /** Bytes held by caller. */
  const waiting = new Map<string, number>()
  /** Long bodies by caller. */
  const long = new Map<string, LongBodies>()

  const rounds = new Turns()

  function add(caller: string, bytes: number): number {
    const sum = (waiting.get(caller) ?? 0) + bytes
    if (sum === 0) waiting.delete(caller)
    else waiting.set(caller, sum)
    return sum
  }

  return {
    check(session) {
      const bytes = session.caller === undefined ? undefined : waiting.get(session.caller)
      const most = answerLimit(limits, session)
      if (bytes !== undefined && bytes > most) throw tooMuch(bytes, most, session)
    },
    receive(session, bytes, size) {
      const sum = session.caller === undefined ? 0 : add(session.caller, bytes)
      const most = answerLimit(limits, session)
      if (bytes > 0 && sum > size && sum > most) throw tooMuch(sum, most, session)
    },
    keep({ caller }, res, bytes) {
      if (caller === undefined || res.closed) return
      add(caller, bytes)
      res.once('close', () => add(caller, -bytes))
    },
    async turn({ caller }, res, bytes, timeoutMs) {
      if (caller === undefined || res.closed) return
      const own = long.get(caller) ?? { bytes: 0, waiting: [] }
      if (own.waiting.length >= MAX_WAITING) throw oneAtATime()
      long.set(caller, own)
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve, reject) => {
        const place = { bytes, start: resolve }
        own.waiting.push(place)
        res.once('close', () => {
          clearTimeout(timer)
          const at = own.waiting.indexOf(place)
          if (at >= 0) own.waiting.splice(at, 1)
          else own.bytes -= bytes
          startNext(own)
          if (own.bytes === 0 && own.waiting.length === 0) long.delete(caller)
          reject(clientGone())
        })
        startNext(own)
        if (own.waiting.includes(place)) timer = setTimeout(() => reject(oneAtATime()), timeoutMs)
      })
      clearTimeout(timer)
    },
    async round({ caller }) {
      if (caller === undefined) return
      const next = await rounds.take(caller)
      const start = performance.now()
      setImmediate(() => {
        const ms = performance.now() - start
        if (ms > REST_AFTER_MS) setTimeout(next, Math.min(ms, MOST_REST_MS))
        else next()
      })
    },
    follow(res, state, bytes) {
      const isSent = res.writableEnded && res.writableLength === 0
      if (isSent || res.req.socket.destroyed) return
      const { socket } = res.req
      const caller = state.session?.caller
      const clock = new ReaderClock(limits, () => {
        state.code = 'timeout'
        reset(socket)
      })
      // A response that waits behind others on the connection is not being read yet.
      if (res.socket) clock.start(bytes)
      else res.once('socket', () => clock.start(bytes))
      if (caller !== undefined) add(caller, bytes)
      res.once('close', () => {
        clock.close()
        if (caller !== undefined) add(caller, -bytes)
      })
    },
  }
}

/** Work on the event loop, in milliseconds, after which it is left to others for as long. */
const REST_AFTER_MS = 10
/** Most of it: the process may have been paused. */
const MOST_REST_MS = 250
/** Larger bodies, in bytes, wait before they are received. */
export const LARGE = 1024 * 1024
/** Bytes of long bodies that a caller may have in progress together, or else one body. */
const TOGETHER = 256 * 1024
/** Maximum number of long bodies of a caller that wait. */
const MAX_WAITING = 100

interface LongBodies {
  /** Bytes in progress. */
  bytes: number
  readonly waiting: { readonly bytes: number; readonly start: () => void }[]
}

function startNext(own: LongBodies): void {
  for (
    let next = own.waiting[0];
    next && (own.bytes === 0 || own.bytes + next.bytes <= TOGETHER);
    next = own.waiting[0]
  ) {
    own.waiting.shift()
    own.bytes += next.bytes
    next.start()
  }
}

const clientGone = (): ServiceError => serviceError('client-gone', 'the client closed the connection')
const oneAtATime = (): ServiceError =>
  serviceError(
    'too-many-requests',
    `a caller may send one long body at a time, or several of at most ${TOGETHER} bytes together`,
    '$',
    {
      retryAfter: 1,
    },
  )

const tooMuch = (bytes: number, most: number, { role }: Session): ServiceError => {
  const setting = role === 'anonymous' ? 'maxAnonymousAnswerBytes' : 'maxAnswerBytes'
  const what = `unread responses and unfinished bodies of this caller hold ${bytes} bytes of memory`
  const message = `${what}, and at most ${Math.floor(most / 2 ** 20)} MiB are allowed (database.${setting})`
  return serviceError('too-many-requests', message, '$', { retryAfter: 1 })
}

/**
 * Aborts a connection in the middle of a response, so that no client takes the part for the whole. Only TCP has a
 * reset; on a unix socket the client detects the incomplete body.
 */
export function reset(socket: Socket): void {
  if (socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
