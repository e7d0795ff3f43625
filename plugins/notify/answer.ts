import { type Outcome, type Receipt, SendError } from 'rowhouse'

/** Longer texts of a provider are cut, in characters. */
const MAX_TEXT = 1000

/** A try that was held up for too long asks nobody: the next one may. */
export const tooLate = {
  kind: 'passed',
  why: 'the time of this try was over before it was asked',
  seconds: 1,
} as const satisfies Answer

/** What asking a provider came to. */
export type Answer =
  | { readonly kind: 'sent'; readonly receipt: CheckedReceipt; readonly caught: boolean }
  | { readonly kind: 'not sent'; readonly error: SendError }
  /** It was not asked, and may be asked in so many seconds; for ever, if it cannot send such a message. */
  | { readonly kind: 'passed'; readonly why: string; readonly seconds: number }

export interface CheckedReceipt extends Receipt {
  /** Whether the provider's texts were longer. */
  readonly cut: boolean
}

/**
 * Reads what a provider returned after it sent a message: its types may promise more than it keeps.
 * @throws SendError `unknown` and unreadable when it is no receipt
 */
export function readReceipt(returned: unknown): CheckedReceipt {
  const { id, detail } = (returned ?? {}) as Readonly<Record<string, unknown>>
  if (typeof id !== 'string' || id === '' || typeof detail !== 'string') {
    const response = typeof returned === 'object' && returned !== null ? shapeOf({ id, detail }) : typeOf(returned)
    throw new SendError('unknown', 'the provider returned no receipt', { response, unreadable: true })
  }
  return { id: storable(id), detail: storable(detail), cut: id.length > MAX_TEXT || detail.length > MAX_TEXT }
}

/** Reads what a provider threw. What is no `SendError`, or has another outcome, may have come after the message was sent. */
export function readError(thrown: unknown): SendError {
  if (!(thrown instanceof SendError)) return new SendError('unknown', storable(messageOf(thrown)), { cause: thrown })
  const { outcome, message, response, unreadable, retryAfter } = thrown
  return new SendError(OUTCOMES.includes(outcome) ? outcome : 'unknown', storable(message), {
    cause: thrown,
    unreadable,
    ...(response === undefined ? {} : { response }),
    ...(typeof retryAfter === 'number' && retryAfter > 0 ? { retryAfter } : {}),
  })
}

const OUTCOMES: readonly Outcome[] = ['refused', 'retry', 'unknown']

/** As PostgreSQL can keep it, which has no U+0000; no character is cut in two. */
function storable(text: string): string {
  const short = text.length > MAX_TEXT ? text.slice(0, MAX_TEXT).replace(/[\uD800-\uDBFF]$/, '') : text
  return short.replaceAll('\0', '\uFFFD')
}

/** The values themselves may hold secrets: an SDK's answer has the request in it. */
const shapeOf = ({ id, detail }: { readonly id: unknown; readonly detail: unknown }): string =>
  `{id: ${typeOf(id)}, detail: ${typeOf(detail)}}`
const typeOf = (value: unknown): string => (value === null ? 'null' : value === '' ? 'empty' : typeof value)

function messageOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : thrown
  return typeof message === 'string' ? message : `the provider threw no error: ${typeOf(message)}`
}
