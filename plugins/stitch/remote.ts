import { createOutbound, OutboundError, ServiceError } from 'rowhouse'
import { type Json, parseJson } from 'rowhouse/plan'
import type { SchemaConfig } from './config.js'

export interface RemoteAnswer {
  readonly status: number
  /** Undefined when the body is not JSON. */
  readonly json: Json | undefined
  readonly text: string
}
interface RemoteRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Whether the request may be retried if a keep-alive connection turns out to be closed. */
  readonly repeatable: boolean
}

/** The HTTP client of one schema. */
export interface Remote {
  readonly name: string
  /**
   * Never follows a redirect and never reads more than `maxBytes`.
   * @throws RemoteError
   */
  ask(request: RemoteRequest, signal: AbortSignal): Promise<RemoteAnswer>
  close(): void
}

/** The reason for which a schema did not respond. Clients see the message, so it never contains an address. */
export class RemoteError extends Error {
  override readonly name = 'RemoteError'

  constructor(
    readonly code: RemoteCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
type RemoteCode = 'remote-unavailable' | 'remote-timeout' | 'remote-too-large' | 'remote-invalid'

/** Deep enough for introspection and for all responses; `maxBytes` limits the size. */
const JSON_LIMITS = { maxDepth: 200, maxKeys: 100_000, maxContainers: Infinity }

export function createRemote(name: string, { timeoutMs, maxBytes }: SchemaConfig): Remote {
  const outbound = createOutbound({ timeoutMs, maxBytes, purpose: named(name) })
  const whatFailed: Readonly<Record<OutboundError['code'], readonly [RemoteCode, string]>> = {
    'too-large': ['remote-too-large', `returned more than ${maxBytes} bytes`],
    timeout: ['remote-timeout', `did not respond within ${timeoutMs} ms`],
    unavailable: ['remote-unavailable', 'cannot be reached'],
  }
  return {
    name,
    async ask(request, signal) {
      const headers = {
        accept: 'application/json, application/graphql-response+json',
        ...request.headers,
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      }
      const { status, body } = await outbound.ask({ ...request, headers }, signal).catch((error: unknown) => {
        const [code, what] = whatFailed[error instanceof OutboundError ? error.code : 'unavailable']
        throw new RemoteError(code, `${named(name)} ${what}`, { cause: error })
      })
      const text = body.toString('utf8')
      if (status >= 300 && status < 400) throw new RemoteError('remote-invalid', `${named(name)} sent a redirect`)
      return { status, text, json: parsed(text) }
    },
    close: () => outbound.close(),
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
