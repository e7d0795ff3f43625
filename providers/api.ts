import { createOutbound, type OutboundAnswer, OutboundError, type OutboundRequest, SendError } from 'rowhouse'

/** Longer than any answer of a provider. */
const MAX_ANSWER_BYTES = 1024 * 1024
/** Shorter than anybody's keep-alive: a request on a connection that is just being closed may or may not have arrived. */
const IDLE_MS = 2000

/** The keys that every provider has that speaks to an HTTP API. */
export const timeoutMs = {
  type: 'integer',
  minimum: 1,
  maximum: 30_000,
  default: 10_000,
  description: 'time for the answer to one message, in milliseconds',
} as const

/** A provider's HTTP API, asked to send a message. */
export interface Api {
  /**
   * @returns the answer of a request that was accepted (2xx)
   * @throws SendError for any other
   */
  send(
    request: Omit<OutboundRequest, 'method'> & { readonly method?: 'POST' | 'PUT' },
    signal: AbortSignal,
  ): Promise<ApiAnswer>
  close(): Promise<void>
}
export interface ApiAnswer {
  readonly headers: OutboundAnswer['headers']
  readonly text: string
  /** undefined: it is no JSON. */
  readonly json: unknown
}

/** @param refuses whether an answer of this status says that the message itself can never be sent; default: 400, 413, 422 */
export function createApi(
  limits: { readonly timeoutMs: number },
  refuses: (status: number, text: string) => boolean = (status) => status === 400 || status === 413 || status === 422,
): Api {
  const outbound = createOutbound({ timeoutMs: limits.timeoutMs, maxBytes: MAX_ANSWER_BYTES, idleMs: IDLE_MS })
  return {
    async send(request, signal) {
      signal.throwIfAborted()
      const answer = await outbound.ask({ method: 'POST', repeatable: false, ...request }, signal).catch(failed)
      const text = answer.body.toString()
      const { status, headers } = answer
      if (status >= 200 && status < 300) return { headers, text, json: parsed(text) }
      const seconds = Number(headers['retry-after'])
      const more = { response: `${status} ${text}`, ...(seconds > 0 ? { retryAfter: seconds } : {}) }
      throw new SendError(outcomeOf(status, text, refuses), `the provider answered with status ${status}`, more)
    },
    close: async () => outbound.close(),
  }
}

/** What only a gateway in front says may have happened behind it. */
const outcomeOf = (status: number, text: string, refuses: (status: number, text: string) => boolean) =>
  refuses(status, text) ? 'refused' : status === 502 || status === 504 || status < 400 ? 'unknown' : 'retry'

function failed(error: unknown): never {
  const sent = !(error instanceof OutboundError) || error.sent
  throw new SendError(sent ? 'unknown' : 'retry', error instanceof Error ? error.message : String(error), {
    cause: error,
  })
}

/** The provider took the message, and its answer does not say under which name. */
export const unreadable = (response: string): SendError =>
  new SendError('unknown', 'the answer has not the form that it should have', { response, unreadable: true })

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
