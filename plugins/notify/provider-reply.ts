import { type Outcome, type Receipt, SendError } from 'rowhouse'

/** Longer texts of a provider are cut, in characters. */
const MAX_TEXT = 1000

/** What calling a provider came to. */
export type ProviderReply =
  | { readonly kind: 'sent'; readonly receipt: CheckedReceipt; readonly caught: boolean }
  | { readonly kind: 'failed'; readonly error: SendError }
  /** It was not called. It may be called in `seconds`; never, if it cannot send such a message (`Infinity`). */
  | { readonly kind: 'skipped'; readonly why: string; readonly seconds: number }

/** The attempt took too long before the provider was called. The next attempt may call it. */
export const attemptTimedOut = {
  kind: 'skipped',
  why: 'the time of this attempt was over before it was called',
  seconds: 1,
} as const satisfies ProviderReply

export interface CheckedReceipt extends Receipt {
  /** Whether a text of the provider was longer. */
  readonly cut: boolean
}

/**
 * Checks what a provider returned after it sent a message, as the code of a provider may not keep to its types.
 * @throws SendError `unknown` and unreadable when it is not a receipt
 */
export function readReceipt(returned: unknown): CheckedReceipt {
  const { id, detail } = (returned ?? {}) as Readonly<Record<string, unknown>>
  if (typeof id !== 'string' || id === '' || typeof detail !== 'string') {
    const response = typeof returned === 'object' && returned !== null ? shapeOf({ id, detail }) : typeOf(returned)
    throw new SendError('unknown', 'the provider returned no receipt', { response, unreadable: true })
  }
  return { id: storable(id), detail: storable(detail), cut: id.length > MAX_TEXT || detail.length > MAX_TEXT }
}

/** Reads what a provider threw. Any other error than a `SendError` may have come after the message was sent. */
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

/** Makes a text short enough, without U+0000, which PostgreSQL cannot store, and without half of a surrogate pair. */
function storable(text: string): string {
  const short = text.length > MAX_TEXT ? text.slice(0, MAX_TEXT).replace(/[\uD800-\uDBFF]$/, '') : text
  return short.replaceAll('\0', '\uFFFD')
}

/** Types only. The values may hold secrets: the answer of an SDK can contain the request. */
const shapeOf = ({ id, detail }: { readonly id: unknown; readonly detail: unknown }): string =>
  `{id: ${typeOf(id)}, detail: ${typeOf(detail)}}`
const typeOf = (value: unknown): string => (value === null ? 'null' : value === '' ? 'empty' : typeof value)

function messageOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : thrown
  return typeof message === 'string' ? message : `the provider threw no error: ${typeOf(message)}`
}
