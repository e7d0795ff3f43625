import { traced } from '../observe/timing.js'
import { lookup as systemLookup } from 'node:dns'
import http from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import https from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { jsonOrNone } from '../json/value.js'
import { type Step, traceHeaders } from '../observe/tracing.js'

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
interface OutboundLimits {
  /** Limit for the whole exchange, including the body. */
  readonly timeoutMs: number
  /** Maximum size of the response body, in bytes. */
  readonly maxBytes: number
  /** What the requests are for. The name of their spans. */
  readonly purpose?: string
  /** Time to keep an idle connection, in milliseconds. Defaults to the limit of the other side. */
  readonly idleMs?: number
}

/** Explains why there is no response. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'

  /** @param sent whether the other side may have received the request */
  constructor(
    readonly code: 'unavailable' | 'timeout' | 'too-large',
    message: string,
    readonly sent: boolean,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause })
  }
}

export function createOutbound({ timeoutMs, maxBytes, idleMs, purpose }: OutboundLimits): Outbound {
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
        headers: { 'user-agent': 'rowhouse', ...request.headers, ...length, ...traceHeaders() },
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

  async function ask(request: OutboundRequest, signal: AbortSignal | undefined): Promise<OutboundAnswer> {
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
  }

  return {
    ask: (request, signal) =>
      traced(
        () => stepOf(request, purpose),
        async (note) => {
          const answer = await ask(request, signal)
          note({ 'http.response.status_code': answer.status })
          return answer
        },
      ),
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}

/** Leaves out the path and query, which may contain values or secrets. */
function stepOf({ method, url }: OutboundRequest, purpose = ''): Step {
  const { hostname, port, protocol } = new URL(url)
  return {
    name: `${method} ${purpose}`.trimEnd(),
    kind: 'client',
    attributes: {
      'http.request.method': method,
      'server.address': hostname,
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
    },
  }
}

/** A response of a service that the operator configured. */
interface JsonAnswer {
  readonly status: number
  /** The parsed body; `undefined` when it is not JSON. */
  readonly json: unknown
}

/** Fetches a small JSON document. @throws OutboundError */
export async function fetchJson(outbound: Outbound, request: OutboundRequest): Promise<JsonAnswer> {
  const { status, body } = await outbound.ask(request)
  return { status, json: jsonOrNone(body.toString('utf8')) }
}

/** Link-local addresses, where clouds serve machine credentials. The operator may configure other private addresses. */
const refused = new BlockList()
refused.addSubnet('169.254.0.0', 16, 'ipv4')
refused.addSubnet('fe80::', 10, 'ipv6')
refused.addAddress('fd00:ec2::254', 'ipv6')
refused.addAddress('100.100.100.200', 'ipv4')

/** Returns whether an IP address is link-local, including IPv4 mapped to IPv6. */
export function isRefused(address: string): boolean {
  const bare = address.replace(/^\[|\]$/g, '').replace(/%.*$/, '')
  return isIP(bare) !== 0 && refused.check(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4')
}

/** Returns what is wrong with a URL of the configuration, or undefined. */
export function addressProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'is not a URL'
  const { protocol, username, password, hostname } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return 'must begin with http:// or https://'
  if (username !== '' || password !== '') return 'must not contain credentials; use "headers"'
  return isRefused(hostname) ? 'is a link-local address, where clouds serve credentials' : undefined
}

/** Looks up a host name and refuses link-local addresses. The connection then uses exactly the checked address. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  systemLookup(hostname, { ...options, all: true }, (error, found) => {
    if (error) return callback(error, '')
    const allowed = found.filter(({ address }) => !isRefused(address))
    const [first] = allowed
    if (!first) return callback(new Error(`"${hostname}" resolves to a link-local address`), '')
    if (options.all) callback(null, allowed)
    else callback(null, first.address, first.family)
  })
}
