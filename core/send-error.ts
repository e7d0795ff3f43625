import type { RecipientOutcome } from './contracts.js'

/**
 * The outcome of a failed send. `refused`: not sent and permanently rejected; `retry`: not sent, can be retried here or
 * with another provider; `unknown`: may have been sent.
 */
export type Outcome = 'refused' | 'retry' | 'unknown'

/** Explains why a send failed. Its texts are for an admin and contain no secrets. */
export class SendError extends Error {
  override readonly name = 'SendError'
  /** Response of the provider, if any. */
  readonly response?: string
  /** Whether the response does not match the provider's documentation. */
  readonly unreadable: boolean
  /** Delay in seconds, if the provider requests one. */
  readonly retryAfter?: number
  /** Recipients of a mail with another outcome than the error's, or with a response of their own. */
  readonly recipients?: readonly RecipientOutcome[]

  constructor(
    readonly outcome: Outcome,
    message: string,
    { cause, response, unreadable = false, retryAfter, recipients }: SendDetails = {},
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.unreadable = unreadable
    this.response = response === undefined ? undefined : shortLine(response)
    this.retryAfter = retryAfter
    if (recipients !== undefined) this.recipients = recipients
  }
}

interface SendDetails {
  readonly cause?: unknown
  readonly response?: string
  readonly unreadable?: boolean
  readonly retryAfter?: number
  readonly recipients?: readonly RecipientOutcome[]
}

const MOST = 200

/** Returns foreign text as a short line without control characters. */
export function shortLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
  return line.length > MOST ? `${line.slice(0, MOST)}...` : line
}
