import http from 'node:http'
import https from 'node:https'
import { ServiceError } from 'rowhouse'
import { type Json, parseJson } from 'rowhouse/plan'
import { guardedLookup } from './address.js'
import type { SchemaConfig } from './config.js'

export interface RemoteAnswer {
  readonly status: number
  /** Undefined when the body is not JSON. */
  readonly json: Json | undefined
  readonly text: string
}
export interface RemoteRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Asking twice does no harm. */
  readonly repeatable: boolean
}

/** One of the services behind this one. */
export interface Remote {
  readonly name: string
  /**
   * Never follows a redirect and never reads more than `maxBytes`.
   * @throws RemoteError
   */
  ask(request: RemoteRequest, signal: AbortSignal): Promise<RemoteAnswer>
  close(): void
}

/** Why a schema gave no answer. The text is for clients: it names the schema and no address. */
export class RemoteError extends Error {
  override readonly name = 'RemoteError'
  readonly code: RemoteCode

  constructor(code: RemoteCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}
export type RemoteCode = 'remote-unavailable' | 'remote-timeout' | 'remote-too-large' | 'remote-invalid'

/** Deep enough for introspection and any document of ours; the size is limited by `maxBytes`. */
const JSON_LIMITS = { maxDepth: 200, maxKeys: 100_000, maxContainers: Infinity }

export function createRemote(name: string, { timeoutMs, maxBytes }: SchemaConfig): Remote {
  const options = { keepAlive: true, maxSockets: 32, lookup: guardedLookup }
  const agents = { http: new http.Agent(options), https: new https.Agent(options) }

  const once = (request: RemoteRequest, signal: AbortSignal): Promise<{ status: number; body: Buffer }> =>
    new Promise((resolve, reject) => {
      const url = new URL(request.url)
      const secure = url.protocol === 'https:'
      const sent = (secure ? https : http).request(url, {
        method: request.method,
        agent: secure ? agents.https : agents.http,
        headers: {
          accept: 'application/json, application/graphql-response+json',
          'user-agent': 'rowhouse',
          ...request.headers,
          ...(request.body === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(request.body) }),
        },
        signal,
      })
      sent.on('error', (error) => reject(Object.assign(error, { reused: sent.reusedSocket })))
      sent.on('response', (response) => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('error', reject)
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          chunks.push(chunk)
          if (size <= maxBytes) return
          reject(new RemoteError('remote-too-large', `the schema "${name}" answered more than ${maxBytes} bytes`))
          sent.destroy()
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }))
      })
      sent.end(request.body)
    })

  const asked = async (request: RemoteRequest, signal: AbortSignal) => {
    try {
      return await once(request, signal)
    } catch (error) {
      // The other side closed a kept connection just when it was used again.
      if (request.repeatable && (error as { reused?: boolean }).reused && !signal.aborted) return once(request, signal)
      throw error
    }
  }

  return {
    name,
    async ask(request, signal) {
      const deadline = AbortSignal.timeout(timeoutMs)
      try {
        const { status, body } = await asked(request, AbortSignal.any([signal, deadline]))
        const text = body.toString('utf8')
        if (status >= 300 && status < 400) throw new RemoteError('remote-invalid', `${named(name)} sent a redirect`)
        return { status, text, json: parsed(text) }
      } catch (error) {
        if (error instanceof RemoteError) throw error
        if (deadline.aborted) {
          throw new RemoteError('remote-timeout', `${named(name)} did not answer within ${timeoutMs} ms`, error)
        }
        throw new RemoteError('remote-unavailable', `${named(name)} cannot be reached`, error)
      }
    },
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}

export const named = (name: string): string => `the schema "${name}"`

function parsed(text: string): Json | undefined {
  try {
    return parseJson(text, JSON_LIMITS)
  } catch (error) {
    if (error instanceof ServiceError) return undefined
    throw error
  }
}
