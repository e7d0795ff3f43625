import { comparable, type Outcome, type Receipt, type RecipientOutcome, SendError } from 'rowhouse'
import type { Recipients } from './recipients.js'

/** Maximum characters of a provider's text. Longer ones are truncated. */
const MAX_TEXT = 1000

/** The result of calling a provider. `recipients` are the outcomes so far. */
export type ProviderReply =
  | {
      readonly kind: 'sent'
      readonly receipt: CheckedReceipt
      readonly caught: boolean
      readonly recipients: Recipients
    }
  | { readonly kind: 'failed'; readonly error: SendError; readonly recipients: Recipients }
  /** It was not called. `seconds` is the time until it may be, or `Infinity` if it can never send this message. */
  | { readonly kind: 'skipped'; readonly why: string; readonly seconds: number }

/** The attempt timed out before the provider was called. The next attempt may call it. */
export const attemptTimedOut = {
  kind: 'skipped',
  why: 'the attempt timed out before the call',
  seconds: 1,
} as const satisfies ProviderReply

interface CheckedReceipt extends Required<Receipt> {
  /** Whether a text of the provider was too long. */
  readonly truncated: boolean
}

/**
 * Checks the return value of a provider, whose code may not comply with its types.
 * @param addressed whom the mail was to be sent to
 * @throws SendError `unknown` and unreadable when it is not a receipt
 */
export function readReceipt(returned: unknown, addressed: readonly string[]): CheckedReceipt {
  const { id, detail, recipients } = (returned ?? {}) as Readonly<Record<string, unknown>>
  if (typeof id !== 'string' || id === '' || typeof detail !== 'string') {
    const response = typeof returned === 'object' && returned !== null ? shapeOf({ id, detail }) : typeOf(returned)
    throw new SendError('unknown', 'the provider returned no receipt', { response, unreadable: true })
  }
  const outcomes = readRecipients(recipients, addressed)
  if (outcomes === undefined) {
    const response = shapeOf({ id, detail, recipients })
    throw new SendError('unknown', 'the outcomes of the recipients cannot be read', { response, unreadable: true })
  }
  const truncated = id.length > MAX_TEXT || detail.length > MAX_TEXT
  return { id: storable(id), detail: storable(detail), recipients: outcomes, truncated }
}

/** Checks what a provider threw. After any error except a `SendError`, the message may have been sent. */
export function readError(thrown: unknown, addressed: readonly string[]): SendError {
  if (!(thrown instanceof SendError)) return new SendError('unknown', storable(messageOf(thrown)), { cause: thrown })
  const { outcome, message, response, unreadable, retryAfter, limit } = thrown
  const recipients = readRecipients(thrown.recipients, addressed)
  const isReadable = OUTCOMES.includes(outcome) && recipients !== undefined
  return new SendError(isReadable ? outcome : 'unknown', storable(message), {
    cause: thrown,
    unreadable,
    response,
    retryAfter: typeof retryAfter === 'number' && retryAfter > 0 ? retryAfter : undefined,
    recipients,
    limit: isReadable && outcome === 'refused' && limit === true,
  })
}

/** Returns undefined for anything but outcomes of `addressed` recipients. */
function readRecipients(value: unknown, addressed: readonly string[]): readonly RecipientOutcome[] | undefined {
  if (value === undefined) return []
  const known = new Set(addressed.map(comparable))
  const isOutcome = (each: unknown): each is RecipientOutcome => {
    const { address, outcome, detail } = (each ?? {}) as Readonly<Record<string, unknown>>
    return (
      typeof address === 'string' &&
      known.has(comparable(address)) &&
      typeof detail === 'string' &&
      RECIPIENT_OUTCOMES.includes(outcome as RecipientOutcome['outcome'])
    )
  }
  if (!Array.isArray(value) || !value.every(isOutcome)) return undefined
  return value.map(({ address, outcome, detail }) => ({ address, outcome, detail: storable(detail) }))
}
const RECIPIENT_OUTCOMES: readonly RecipientOutcome['outcome'][] = ['sent', 'postponed', 'refused', 'unknown']

const OUTCOMES: readonly Outcome[] = ['refused', 'retry', 'unknown']

/** Truncates a text, and replaces what PostgreSQL cannot store: U+0000, and in JSON unpaired surrogates. */
export function storable(text: string): string {
  const short = text.length > MAX_TEXT ? text.slice(0, MAX_TEXT).replace(/[\uD800-\uDBFF]$/, '') : text
  return short.replaceAll(/\0|\p{Cs}/gu, '\uFFFD')
}

/** Describes types only, because the values may contain secrets: a response of an SDK can contain the request. */
const shapeOf = (fields: Readonly<Record<string, unknown>>): string =>
  `{${Object.entries(fields)
    .map(([name, value]) => `${name}: ${typeOf(value)}`)
    .join(', ')}}`
const typeOf = (value: unknown): string => (value === null ? 'null' : value === '' ? 'empty' : typeof value)

function messageOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : thrown
  return typeof message === 'string' ? message : `the provider threw something other than an error: ${typeOf(message)}`
}
