import { type Outcome, type Receipt, SendError } from 'rowhouse'

/** Maximum characters of a provider's text. Longer ones are truncated. */
const MAX_TEXT = 1000

/** The result of calling a provider. */
export type ProviderReply =
  | { readonly kind: 'sent'; readonly receipt: CheckedReceipt; readonly caught: boolean }
  | { readonly kind: 'failed'; readonly error: SendError }
  /** It was not called. `seconds` is the time until it may be, or `Infinity` if it can never send this message. */
  | { readonly kind: 'skipped'; readonly why: string; readonly seconds: number }

/** The attempt timed out before the provider was called. The next attempt may call it. */
export const attemptTimedOut = {
  kind: 'skipped',
  why: 'the attempt timed out before the call',
  seconds: 1,
} as const satisfies ProviderReply

export interface CheckedReceipt extends Receipt {
  /** Whether a text of the provider was too long. */
  readonly truncated: boolean
}

/**
 * Checks the return value of a provider, whose code may not comply with its types.
 * @throws SendError `unknown` and unreadable when it is not a receipt
 */
export function readReceipt(returned: unknown): CheckedReceipt {
  const { id, detail } = (returned ?? {}) as Readonly<Record<string, unknown>>
  if (typeof id !== 'string' || id === '' || typeof detail !== 'string') {
    const response = typeof returned === 'object' && returned !== null ? shapeOf({ id, detail }) : typeOf(returned)
    throw new SendError('unknown', 'the provider returned no receipt', { response, unreadable: true })
  }
  return { id: storable(id), detail: storable(detail), truncated: id.length > MAX_TEXT || detail.length > MAX_TEXT }
}

/** Checks what a provider threw. After any error except a `SendError`, the message may have been sent. */
export function readError(thrown: unknown): SendError {
  if (!(thrown instanceof SendError)) return new SendError('unknown', storable(messageOf(thrown)), { cause: thrown })
  const { outcome, message, response, unreadable, retryAfter } = thrown
  return new SendError(OUTCOMES.includes(outcome) ? outcome : 'unknown', storable(message), {
    cause: thrown,
    unreadable,
    response,
    retryAfter: typeof retryAfter === 'number' && retryAfter > 0 ? retryAfter : undefined,
  })
}

const OUTCOMES: readonly Outcome[] = ['refused', 'retry', 'unknown']

/** Truncates a text without splitting a surrogate pair, and replaces U+0000, which PostgreSQL cannot store. */
function storable(text: string): string {
  const short = text.length > MAX_TEXT ? text.slice(0, MAX_TEXT).replace(/[\uD800-\uDBFF]$/, '') : text
  return short.replaceAll('\0', '\uFFFD')
}

/** Describes types only, because the values may contain secrets: a response of an SDK can contain the request. */
const shapeOf = ({ id, detail }: { readonly id: unknown; readonly detail: unknown }): string =>
  `{id: ${typeOf(id)}, detail: ${typeOf(detail)}}`
const typeOf = (value: unknown): string => (value === null ? 'null' : value === '' ? 'empty' : typeof value)

function messageOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : thrown
  return typeof message === 'string' ? message : `the provider threw something other than an error: ${typeOf(message)}`
}
