import {
  createOutbound,
  type OutboundAnswer,
  OutboundError,
  type OutboundRequest,
  type Outcome,
  SendError,
  shortLine,
} from 'rowhouse'
import { jsonIn } from './answer.js'
import { throwIfGivenUp } from './given-up.js'

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
  description: 'Maximum time to wait for the response to one message, in milliseconds.',
} as const

/** @param address default base URL of the provider */
export const apiUrl = <const A extends string>(address: A) =>
  ({ type: 'string', pattern: '^https?://', default: address, description: 'Base URL of the API.' }) as const

/** @param path appended to the path of the address, e.g. `/v3/mail/send` */
export const below = (address: string, path: string): URL => new URL(address.replace(/\/+$/, '') + path)

/** A provider's HTTP API, asked to send a message. */
export interface Api {
  /**
   * @returns the answer of a request that was accepted (2xx)
   * @throws SendError for any other
   */
  send(
    request: Omit<OutboundRequest, 'method'> & { readonly method?: OutboundRequest['method'] },
    signal: AbortSignal,
  ): Promise<ApiAnswer>
  close(): Promise<void>
}
export interface ApiLimits {
  readonly timeoutMs: number
  /** Secrets that requests hold: never shown, should an answer repeat them. */
  readonly hidden: readonly string[]
}
export interface ApiAnswer {
  readonly headers: OutboundAnswer['headers']
  /** To be shown: what is hidden is `***`. */
  readonly text: string
  /** undefined: it is no JSON. */
  readonly json: unknown
  /** Status and text as one short line, for a receipt. */
  readonly detail: string
}

/** Whether an answer that is not 2xx says that the message itself can never be sent. */
type Refuses = (status: number, text: string, headers: OutboundAnswer['headers']) => boolean

/** @param refuses default: 400, 413, 422 */
export function createApi(
  { timeoutMs, hidden }: ApiLimits,
  refuses: Refuses = (status) => status === 400 || status === 413 || status === 422,
): Api {
  const outbound = createOutbound({ timeoutMs, maxBytes: MAX_ANSWER_BYTES, idleMs: IDLE_MS })
  const hide = hider(hidden)
  return {
    async send(request, signal) {
      throwIfGivenUp(signal)
      const answer = await outbound.ask({ method: 'POST', repeatable: false, ...request }, signal).catch(failed)
      const body = answer.body.toString()
      const text = hide(body)
      const { status, headers } = answer
      if (status >= 200 && status < 300)
        return { headers, text, json: jsonIn(body), detail: shortLine(`${status} ${text}`) }
      const retryAfter = secondsUntil(headers['retry-after'])
      const more = { response: `${status} ${text}`, ...(retryAfter > 0 ? { retryAfter } : {}) }
      const outcome = refuses(status, body, headers) ? 'refused' : outcomeOf(status)
      throw new SendError(outcome, outcome === 'unknown' ? NOT_KNOWN : NOT_TAKEN, more)
    },
    close: async () => outbound.close(),
  }
}

const NOT_TAKEN = 'the provider did not take it'
const NOT_KNOWN = 'the provider did not say whether it took it'

/** What only a gateway in front says may have happened behind it; a conflict is with another try of the same message. */
const outcomeOf = (status: number): Outcome =>
  status < 400 || status === 409 || status === 502 || status === 504 ? 'unknown' : 'retry'

/** @param retryAfter seconds, or a date; NaN when it is neither */
const secondsUntil = (retryAfter = ''): number =>
  /^\d+$/.test(retryAfter) ? Number(retryAfter) : Math.ceil((Date.parse(retryAfter) - Date.now()) / 1000)

function failed(error: unknown): never {
  const sent = !(error instanceof OutboundError) || error.sent
  throw new SendError(sent ? 'unknown' : 'retry', error instanceof Error ? error.message : String(error), {
    cause: error,
  })
}

/** The provider took the message, and its answer does not say under which name. */
export const unreadable = (response: string): SendError =>
  new SendError('unknown', 'the answer has not the form that it should have', { response, unreadable: true })

/** Shorter texts are no secrets, and stand in every answer. */
const SHORTEST_HIDDEN = 6

/** Word by word: of `Bearer abcdef` an answer may repeat the second one alone; also as an address or JSON has it. */
function hider(hidden: readonly string[]): (text: string) => string {
  const words = hidden.flatMap((one) => one.split(/\s+/)).filter((word) => word.length >= SHORTEST_HIDDEN)
  const forms = words.flatMap((word) => [word, encodeURIComponent(word), JSON.stringify(word).slice(1, -1)])
  const longestFirst = [...new Set(forms)].toSorted((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((shown, word) => shown.replaceAll(word, '***'), text)
}
