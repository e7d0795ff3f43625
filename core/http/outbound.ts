import http from 'node:http'
import https from 'node:https'
import { guardedLookup, isRefused } from './address.js'

/** Asks services that the operator has configured: with a limit on time and size, and never where clouds keep secrets. */
export interface Outbound {
  /**
   * A redirect is an answer like others, never followed: it could lead anywhere.
   * @throws OutboundError; the reason of `signal` when that aborts
   */
  ask(request: OutboundRequest, signal?: AbortSignal): Promise<OutboundAnswer>
  close(): void
}
export interface OutboundRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string | URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Asking twice does no harm. Default: for GET. */
  readonly repeatable?: boolean
}
export interface OutboundAnswer {
  readonly status: number
  readonly body: Buffer
}
export interface OutboundLimits {
  /** For everything, the body included. */
  readonly timeoutMs: number
  /** Of the body of an answer. */
  readonly maxBytes: number
}

/** Why there is no answer. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code: 'unavailable' | 'timeout' | 'too-large'

  constructor(code: OutboundError['code'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

export function createOutbound({ timeoutMs, maxBytes }: OutboundLimits): Outbound {
  const options = { keepAlive: true, maxSockets: 32, lookup: guardedLookup }
  const agents = { http: new http.Agent(options), https: new https.Agent(options) }

  const once = (request: OutboundRequest, signal: AbortSignal): Promise<OutboundAnswer> =>
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
      sent.on('error', (error) => reject(Object.assign(error, { reused: sent.reusedSocket })))
      // Without an error when the answer wants another protocol (101).
      sent.on('close', () => reject(new Error('the connection was closed without an answer')))
      sent.on('response', (response) => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('error', reject)
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          chunks.push(chunk)
          if (size <= maxBytes) return
          reject(new OutboundError('too-large', `the answer is longer than ${maxBytes} bytes`))
          sent.destroy()
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }))
      })
      sent.end(request.body)
    })

  return {
    async ask(request, signal) {
      const deadline = AbortSignal.timeout(timeoutMs)
      const either = signal ? AbortSignal.any([signal, deadline]) : deadline
      const { repeatable = request.method === 'GET' } = request
      try {
        return await once(request, either).catch((error: { readonly reused?: boolean }) => {
          // The other side closed a kept connection just when it was used again.
          if (repeatable && error.reused && !either.aborted) return once(request, either)
          throw error
        })
      } catch (error) {
        if (error instanceof OutboundError) throw error
        signal?.throwIfAborted()
        if (deadline.aborted) throw new OutboundError('timeout', `no answer within ${timeoutMs} ms`, error)
        throw new OutboundError('unavailable', error instanceof Error ? error.message : String(error), error)
      }
    },
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}
