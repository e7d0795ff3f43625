import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { createReader, type Heard } from './answers.js'

/** How long a window is. */
export type Window =
  | { readonly kind: 'seconds'; readonly seconds: number }
  | { readonly kind: 'requests'; readonly requests: number }

export interface LoadJob {
  readonly to: Endpoint
  /** The bytes of the n-th request. */
  readonly request: (n: number) => Buffer
  readonly clients: number
  readonly window: Window
  /** Cuts it short. */
  readonly signal?: AbortSignal
}
/** Where connections go. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** For TLS: the name to send, or '' for an address; without it the connection is not encrypted. */
  readonly servername?: string | undefined
}

/** What came of it. Times in ms. */
export interface Load {
  /** Of each answer that counts, sorted: from when the request was written until all of its answer was there. */
  readonly latencies: Float64Array
  /** Of the body of each answer that counts, sorted. */
  readonly answerBytes: Float64Array
  /** By what went wrong. */
  readonly failures: ReadonlyMap<string, Failure>
  /** How long it took, also when it was cut short. */
  readonly seconds: number
  /** Received, headers included. */
  readonly bytes: number
  /** CPU time of this process, as a share of one processor. */
  readonly cpu: number
}
export interface Failure {
  readonly count: number
  /** The beginning of the first such answer. */
  readonly says: string
}

/** The longest that a connection may be silent. */
const SILENCE_MS = 60_000
/** Between a connection that broke and the next. */
const PAUSE_MS = 100

/**
 * Sends requests over so many keep-alive connections of HTTP/1.1, each of which sends its next one when it has the whole
 * answer to the one before: a closed loop, without pipelining. An answer of 300 or more is a failure, and so are one of
 * GraphQL with errors, and a connection that breaks; their times are not counted.
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

  const over = () =>
    signal?.aborted === true ||
    (window.kind === 'requests' ? sent >= window.requests : performance.now() - start >= window.seconds * 1000)
  const next = () => (over() ? undefined : request(sent++))

  function fail(what: string, says: string): void {
    const known = failures.get(what) ?? { count: 0, says }
    known.count++
    failures.set(what, known)
  }

  /** Sends requests until the connection closes. @returns whether it ended as it should */
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
    socket.setTimeout(SILENCE_MS, () => socket.destroy(new Error(`nothing came for ${SILENCE_MS / 1000} s`)))
    // Not `for await`: what it costs would be taken from the server.
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
        const well = asked === undefined || signal?.aborted === true
        if (!well) fail(broken?.message || 'the connection was closed', '')
        resolve(well)
      })
    })
  }
  async function client(): Promise<void> {
    for (let first = next(); first !== undefined; first = next()) {
      const well = await connection(first)
      if (!well && !over()) await sleep(PAUSE_MS)
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

/** The least of the sorted values that so large a share of them does not exceed; 0 when there are none. */
export function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
}

export interface RequestParts {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
}

/** A request as it goes over the wire. */
export function requestBytes({ method, path, headers, body = '' }: RequestParts): Buffer {
  const length = method === 'GET' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
  const lines = Object.entries({ ...headers, ...length }).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
}

/** What is wrong with an answer: its status, and the code in its body; undefined when nothing is. */
function failureOf({ status, begins }: Heard): string | undefined {
  if (status < 300) return begins.indexOf('{"errors":') === 0 ? 'GraphQL errors' : undefined
  const code = status < 400 ? undefined : /"code": ?"([\w-]+)"/.exec(begins.toString())?.[1]
  return code === undefined ? String(status) : `${status} ${code}`
}
