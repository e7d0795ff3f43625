import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { createReader, type Summary } from './answers.js'

/** How long to measure. */
export type Window =
  | { readonly kind: 'seconds'; readonly seconds: number }
  | { readonly kind: 'requests'; readonly requests: number }

interface LoadJob {
  readonly to: Endpoint
  /** The bytes of the n-th request. */
  readonly request: (n: number) => Buffer
  readonly clients: number
  readonly window: Window
  /** Ends the measurement early. */
  readonly signal?: AbortSignal
}
/** The address of a server. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** Server name for TLS, or '' for an IP address. Undefined for a connection without TLS. */
  readonly servername?: string | undefined
}

/** The result of a measurement. Latencies are milliseconds. */
export interface Load {
  /** Times from writing a request to the end of its response, sorted. Without failures. */
  readonly latencies: Float64Array
  /** Sizes of the bodies, sorted. Without failures. */
  readonly answerBytes: Float64Array
  /** By cause. */
  readonly failures: ReadonlyMap<string, Failure>
  /** Actual duration. */
  readonly seconds: number
  /** Number of received bytes, including headers. */
  readonly bytes: number
  /** CPU time of this process, as a fraction of one processor. */
  readonly cpu: number
}
interface Failure {
  readonly count: number
  /** The beginning of the first response that failed in this way. */
  readonly says: string
}

/** Maximum time without data on a connection. */
const SILENCE_MS = 60_000
/** Pause before a broken connection is replaced. */
const PAUSE_MS = 100

/**
 * Sends requests over keep-alive HTTP/1.1 connections, one for each client. A client sends its next request when it has
 * the whole response to the previous one: a closed loop, without pipelining. Failures are statuses of 300 and above,
 * GraphQL responses with errors, and broken connections.
 */
export async function startLoad({ to, request, clients, window, signal }: LoadJob): Promise<Load> {
  const latencies: number[] = []
  const answerBytes: number[] = []
  const failures = new Map<string, { count: number; readonly says: string }>()
  const open = new Set<Socket>()
  let sent = 0
  let bytes = 0
  const start = performance.now()
  const before = process.cpuUsage()
  const stop = () => {
    for (const socket of open) socket.destroy()
  }
  signal?.addEventListener('abort', stop)

  const isOver = () =>
    signal?.aborted === true ||
    (window.kind === 'requests' ? sent >= window.requests : performance.now() - start >= window.seconds * 1000)
  const next = () => (isOver() ? undefined : request(sent++))

  function fail(cause: string, says: string): void {
    const known = failures.get(cause) ?? { count: 0, says }
    known.count++
    failures.set(cause, known)
  }

  /** Sends requests until the connection closes. @returns whether it did not break */
  function connection(first: Buffer): Promise<boolean> {
    const socket = to.servername === undefined ? connect(to) : connectTls(to)
    socket.setNoDelay(true)
    open.add(socket)
    let asked: Buffer | undefined = first
    let sentAt = performance.now()
    let broken: Error | undefined
    const send = () => {
      sentAt = performance.now()
      if (asked) socket.write(asked)
      else socket.end()
    }
    const read = createReader((answer) => {
      const failure = failureOf(answer)
      if (failure === undefined) {
        latencies.push(performance.now() - sentAt)
        answerBytes.push(answer.bytes)
      } else fail(failure, answer.begins.toString())
      asked = answer.last ? undefined : next()
      send()
    })
    socket.once(to.servername === undefined ? 'connect' : 'secureConnect', send)
    socket.setTimeout(SILENCE_MS, () => socket.destroy(new Error(`no data for ${SILENCE_MS / 1000} s`)))
    // Not `for await`, whose CPU time the server on this machine would lack.
    socket.on('data', (chunk) => {
      bytes += chunk.length
      try {
        read(chunk)
      } catch (error) {
        socket.destroy(error as Error)
      }
    })
    socket.once('error', (error) => (broken = error))
    return new Promise((resolve) => {
      socket.once('close', () => {
        open.delete(socket)
        const completed = asked === undefined || signal?.aborted === true
        if (!completed) fail(broken?.message || 'the connection was closed', '')
        resolve(completed)
      })
    })
  }
  async function client(): Promise<void> {
    for (let first = next(); first !== undefined; first = next()) {
      const completed = await connection(first)
      if (!completed && !isOver()) await sleep(PAUSE_MS)
    }
  }

  await Promise.all(Array.from({ length: clients }, client))
  signal?.removeEventListener('abort', stop)
  const seconds = (performance.now() - start) / 1000
  const { user, system } = process.cpuUsage(before)
  return {
    latencies: Float64Array.from(latencies).sort(),
    answerBytes: Float64Array.from(answerBytes).sort(),
    failures,
    seconds,
    bytes,
    cpu: (user + system) / 1e6 / seconds,
  }
}

/** Returns the smallest sorted value that at least `share` of the values do not exceed; 0 if there are none. */
export function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
}

interface RequestParts {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
}

/** Returns a request as bytes for the wire. */
export function requestBytes({ method, path, headers, body = '' }: RequestParts): Buffer {
  const length = method === 'GET' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
  const lines = Object.entries({ ...headers, ...length }).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
}

/** Returns the status of a failed response, with the code in its body; undefined for a success. */
function failureOf({ status, begins }: Summary): string | undefined {
  if (status < 300) return begins.indexOf('{"errors":') === 0 ? 'GraphQL errors' : undefined
  const code = status < 400 ? undefined : /"code": ?"([\w-]+)"/.exec(begins.toString())?.[1]
  return code === undefined ? String(status) : `${status} ${code}`
}
