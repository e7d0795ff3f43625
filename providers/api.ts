import {
  addressProblem,
  createOutbound,
  type OutboundAnswer,
  OutboundError,
  type OutboundRequest,
  type Outcome,
  readHttpDate,
  SendError,
  shortLine,
} from 'rowhouse'
import { textAt, tryParseJson } from './answer.js'

/** Maximum size of a response, in bytes. Larger than any response of a provider. */
const MAX_ANSWER_BYTES = 1024 * 1024
/**
 * Maximum idle time of a connection. Shorter than all keep-alive timeouts, because a request on a closing connection
 * may be lost.
 */
const IDLE_MS = 2000

/** Configuration keys shared by all providers with an HTTP API. */
export const timeoutMs = {
  type: 'integer',
  minimum: 1,
  maximum: 30_000,
  default: 10_000,
  description: 'Maximum time to wait for the response to one message, in milliseconds.',
} as const

export const secret = <const Description extends string>(description: Description) =>
  ({ type: 'string', minLength: 1, secret: true, description }) as const

/** @param url default base URL of the provider */
export const apiUrl = <const Url extends string>(url: Url) =>
  ({ type: 'string', pattern: '^https?://', default: url, description: 'Base URL of the API.' }) as const

/** @param path appended to the path of the base URL, e.g. `/v3/mail/send` */
export const endpoint = (base: string, path: string): URL => new URL(base.replace(/\/+$/, '') + path)

/** Returns a base URL without trailing slashes. @throws Error for an unusable URL */
export function baseOf(url: string): string {
  if (URL.canParse(url) && new URL(url).username + new URL(url).password !== '') {
    throw new Error('url must not contain credentials')
  }
  const problem = addressProblem(url)
  if (problem !== undefined) throw new Error(`url ${problem}`)
  return url.replace(/\/+$/, '')
}

/** Client for a provider's HTTP API. */
export interface Api {
  /**
   * Sends a message.
   * @returns the 2xx response
   * @throws SendError for any other response
   */
  send(
    request: Omit<OutboundRequest, 'method'> & { readonly method?: OutboundRequest['method'] },
    signal: AbortSignal,
  ): Promise<ApiAnswer>
  close(): Promise<void>
}
export interface ApiOptions {
  readonly timeoutMs: number
  /** Secrets in requests. They are masked if a response repeats them. */
  readonly secrets: readonly string[]
}
export interface ApiAnswer {
  readonly headers: OutboundAnswer['headers']
  /** Text safe to show: secrets are replaced with `***`. */
  readonly text: string
  /** Parsed body; undefined when it is not JSON. */
  readonly json: unknown
  /** Status and text as one short line, for a receipt. */
  readonly detail: string
}

/**
 * Returns whether a response other than 2xx rejects the message permanently. `limit`: because it exceeds a limit of the
 * provider, so that another one may accept it. A status of 413 always means that.
 */
type Refuses = (status: number, text: string, headers: OutboundAnswer['headers']) => boolean | 'limit'

/** @param refuses defaults to the statuses 400, 413 and 422 */
export function createApi(
  { timeoutMs, secrets }: ApiOptions,
  refuses: Refuses = (status) => status === 400 || status === 413 || status === 422,
): Api {
  const outbound = createOutbound({ timeoutMs, maxBytes: MAX_ANSWER_BYTES, idleMs: IDLE_MS })
  const redact = redactor(secrets)
  return {
    async send(request, signal) {
      throwIfAborted(signal)
      const answer = await outbound.ask({ method: 'POST', repeatable: false, ...request }, signal).catch(failed)
      const body = answer.body.toString()
      const text = redact(body)
      const { status, headers } = answer
      if (status >= 200 && status < 300)
        return { headers, text, json: tryParseJson(body), detail: shortLine(`${status} ${text}`) }
      const more = { response: `${status} ${text}`, retryAfter: retryAfterOf(answer) }
      const refused = refuses(status, body, headers)
      if (refused)
        throw new SendError('refused', NOT_ACCEPTED, { ...more, limit: refused === 'limit' || status === 413 })
      const outcome = outcomeOf(status)
      throw new SendError(outcome, outcome === 'unknown' ? NOT_CONFIRMED : NOT_ACCEPTED, more)
    },
    close: async () => outbound.close(),
  }
}

/** @throws SendError when `signal` aborted before anything was sent */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SendError('retry', 'the send was cancelled before it started', { cause: signal.reason })
}

const NOT_ACCEPTED = 'the provider did not accept the message'
const NOT_CONFIRMED = 'the provider did not confirm the message'

/**
 * Returns the outcome of a status. Gateway errors leave it unknown; a conflict is with another attempt of the same
 * message.
 */
const outcomeOf = (status: number): Outcome =>
  status < 400 || status === 409 || status === 502 || status === 504 ? 'unknown' : 'retry'

/** Returns for how many seconds the provider wants no request, if it says so. Some tell only when their rate limit resets. */
function retryAfterOf({ status, headers }: OutboundAnswer): number | undefined {
  const seconds = secondsUntil(headers['retry-after'])
  if (seconds !== undefined || status !== 429) return seconds
  const [reset, older] = ['ratelimit-reset', 'x-ratelimit-reset'].map((name) => timeOf(textAt(headers, name)))
  return secondsUntil(reset) ?? secondsUntil(older)
}

/** @param retryAfter seconds or a date; the result is undefined for anything else, and for what is over */
function secondsUntil(retryAfter = ''): number | undefined {
  const date = readHttpDate(retryAfter)
  const seconds = date === undefined ? Number(/^\d+$/.exec(retryAfter)?.[0]) : Math.ceil((date - Date.now()) / 1000)
  return seconds > 0 ? seconds : undefined
}

/** Converts a large number of a reset, which is a Unix time in seconds or milliseconds, into a date. */
function timeOf(reset: string | undefined): string | undefined {
  const time = /^\d{10}(\d{3})?$/.exec(reset ?? '')
  return time ? new Date(Number(reset) * (time[1] === undefined ? 1000 : 1)).toUTCString() : reset
}

function failed(error: unknown): never {
  const sent = !(error instanceof OutboundError) || error.sent
  throw new SendError(sent ? 'unknown' : 'retry', error instanceof Error ? error.message : String(error), {
    cause: error,
  })
}

/** Returns the error for a response that accepts the message without a readable reference. */
export const unreadable = (response: string): SendError =>
  new SendError('unknown', 'the response does not have the documented format', { response, unreadable: true })

/** Minimum length of a secret to mask. Shorter texts may occur in any response. */
const MIN_SECRET_LENGTH = 6

/**
 * Returns a function that masks secrets. It also masks their words, because a response may repeat only the second word of
 * `Bearer abcdef`, and their URL-encoded and JSON-encoded forms.
 */
function redactor(secrets: readonly string[]): (text: string) => string {
  const words = secrets
    .flatMap((value) => [value, ...value.split(/\s+/)])
    .filter((word) => word.length >= MIN_SECRET_LENGTH)
  const forms = words.flatMap((word) => [word, encodeURIComponent(word), JSON.stringify(word).slice(1, -1)])
  const longestFirst = [...new Set(forms)].toSorted((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((masked, word) => masked.replaceAll(word, '***'), text)
}
