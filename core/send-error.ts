/**
 * What is known of a message that a provider did not say it took. `refused`: it was not sent, and this message never will
 * be; `retry`: it was not sent, and may be tried again, here or elsewhere; `unknown`: it may have been sent.
 */
export type Outcome = 'refused' | 'retry' | 'unknown'

/** Why a message was not sent, as far as that is known. Its texts are for an admin, and hold no secret. */
export class SendError extends Error {
  override readonly name = 'SendError'
  readonly outcome: Outcome
  /** What the provider answered, if it answered. */
  readonly response?: string
  /** The answer has another form than the provider's documentation says. */
  readonly unreadable: boolean
  /** In seconds, where the provider says it. */
  readonly retryAfter?: number

  constructor(
    outcome: Outcome,
    message: string,
    { cause, response, unreadable = false, retryAfter }: SendDetails = {},
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.outcome = outcome
    this.unreadable = unreadable
    if (response !== undefined) this.response = shortLine(response)
    if (retryAfter !== undefined) this.retryAfter = retryAfter
  }
}

interface SendDetails {
  readonly cause?: unknown
  readonly response?: string
  readonly unreadable?: boolean
  readonly retryAfter?: number
}

const MOST = 200

/** What others wrote as one line: no control characters, and not long. */
export function shortLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
  return line.length > MOST ? `${line.slice(0, MOST)}...` : line
}
