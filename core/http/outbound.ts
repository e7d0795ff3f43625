import http, { type IncomingHttpHeaders } from 'node:http'
import https from 'node:https'
import { guardedLookup, isRefused } from './address.js'

/** Sends requests to configured services, with limits on time and size, and never to link-local addresses. */
export interface Outbound {
  /**
   * Sends a request. Redirects are returned and never followed, because they could lead anywhere.
   * @throws OutboundError; the reason of `signal` when it aborts
   */
  ask(request: OutboundRequest, signal?: AbortSignal): Promise<OutboundAnswer>
  close(): void
}
export interface OutboundRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly url: string | URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Buffer
  /** Whether the request may be retried. Defaults to true for GET. */
  readonly repeatable?: boolean
}
export interface OutboundAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}
export interface OutboundLimits {
  /** Limit for the whole exchange, including the body. */
  readonly timeoutMs: number
  /** Maximum size of the response body, in bytes. */
  readonly maxBytes: number
  /** Time to keep an idle connection, in milliseconds. Defaults to the limit of the other side. */
  readonly idleMs?: number
}

/** Explains why there is no response. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code: 'unavailable' | 'timeout' | 'too-large'
  /** Whether the other side may have received the request. */
  readonly sent: boolean

  constructor(code: OutboundError['code'], message: string, sent: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.sent = sent
  }
}

export function createOutbound({ timeoutMs, maxBytes, idleMs }: OutboundLimits): Outbound {
  const idle = idleMs === undefined ? {} : { timeout: idleMs }
  const options = { keepAlive: true, maxSockets: 32, lookup: guardedLookup, ...idle }
  const agents = { http: new http.Agent(options), https: new https.Agent(options) }

  const once = (request: OutboundRequest, signal: AbortSignal, leaves: () => void): Promise<OutboundAnswer> =>
    new Promise((resolve, reject) => {
      const url = new URL(request.url)
      if (isRefused(url.hostname)) throw new Error(`"${url.hostname}" is a link-local address`)
      const secure = url.protocol === 'https:'
      const length = request.body === undefined ? {} : { 'content-length': Buffer.byteLength(request.body) }
      const sent = (secure ? https : http).request(url, {
        method: request.method,
        agent: secure ? agents.https : agents.http,
        headers: { 'user-agent': 'rowhouse', ...request.headers, ...length },
        signal,
      })
      sent.on('socket', (socket) => {
        if (sent.reusedSocket) leaves()
        else socket.once(secure ? 'secureConnect' : 'connect', leaves)
      })
      sent.on('error', (error) => reject(Object.assign(error, { reused: sent.reusedSocket })))
      // Without an error when the response switches protocols (101).
      sent.on('close', () => reject(new Error('the connection was closed without a response')))
      sent.on('response', (response) => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('error', reject)
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          chunks.push(chunk)
          if (size <= maxBytes) return
          reject(new OutboundError('too-large', `the response is longer than ${maxBytes} bytes`, true))
          sent.destroy()
        })
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        )
      })
      sent.end(request.body)
    })

  return {
    async ask(request, signal) {
      const deadline = AbortSignal.timeout(timeoutMs)
      const either = signal ? AbortSignal.any([signal, deadline]) : deadline
      const { repeatable = request.method === 'GET' } = request
      let left = false
      const leaves = () => (left = true)
      try {
        return await once(request, either, leaves).catch((error: { readonly reused?: boolean }) => {
          // The other side closed a kept-alive connection while it was reused.
          if (repeatable && error.reused && !either.aborted) return once(request, either, leaves)
          throw error
        })
      } catch (error) {
        if (error instanceof OutboundError) throw error
        signal?.throwIfAborted()
        if (deadline.aborted) throw new OutboundError('timeout', `no response within ${timeoutMs} ms`, left, error)
        throw new OutboundError('unavailable', error instanceof Error ? error.message : String(error), left, error)
      }
    },
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}
