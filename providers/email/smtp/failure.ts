import { type Outcome, type RecipientOutcome, SendError, shortLine } from 'rowhouse'
import type { Progress, Rejected } from './connection.js'

/** Properties that nodemailer adds to an error. */
interface SmtpError extends Error {
  readonly code?: string
  /** The last command before the server's reply. */
  readonly command?: string
  readonly response?: string
  readonly responseCode?: number
}

/** What the server rejected, by command. */
const REJECTED: Readonly<Record<string, string>> = {
  CONN: 'the connection',
  EHLO: 'our greeting',
  HELO: 'our greeting',
  STARTTLS: 'TLS',
  AUTH: 'the user name and password',
  'MAIL FROM': 'the sender',
  'RCPT TO': 'any recipient',
  DATA: 'the message',
}

/** Determines the outcome of an email whose sending ended with an error. */
export function sendError(error: unknown, progress: Progress): SendError {
  if (error instanceof SendError) return error
  const smtp: SmtpError = error instanceof Error ? error : new Error(String(error))
  const recipients = progress.rejected.length > 0 ? rejectedRecipients(progress.rejected) : undefined
  const outcome = outcomeOf(smtp, progress)
  const reply = replyOf(smtp)
  if (reply === undefined) return new SendError(outcome, smtp.message.trim(), { cause: smtp, recipients })
  const what = REJECTED[smtp.command ?? ''] ?? REJECTED[smtp.command?.split(' ')[0] ?? ''] ?? 'the command'
  const unreadable = smtp.responseCode === undefined
  const limit = outcome === 'refused' && TOO_LARGE.test(reply)
  return new SendError(outcome, `the server did not accept ${what}`, { response: reply, unreadable, recipients, limit })
}

/** The mail is larger than the server accepts (RFC 1870, 3463). 552 is also for a mailbox that is full. */
const TOO_LARGE = /^(?:552(?![ -]5\.2\.)|5\d\d[ -]5\.3\.4\b)/

/** Returns the outcomes of the recipients that the server rejected. */
export const rejectedRecipients = (rejected: readonly Rejected[]): readonly RecipientOutcome[] =>
  rejected.map(({ recipient = '', response = '', responseCode = 0 }) => ({
    address: recipient,
    outcome: isPermanent(responseCode) ? 'refused' : 'postponed',
    detail: shortLine(response),
  }))

/** Servers reply 552 to one recipient too many, and it is then to be read as 452 (RFC 5321 section 4.5.3.1.10). */
const isPermanent = (code: number): boolean => code !== 552 && concernsMail(code)

/** Returns whether the connection ended before any of the email was sent, so that it can be sent on another one. */
export function isDisconnected(error: unknown, { started }: Progress): boolean {
  if (started || !(error instanceof Error) || error instanceof SendError) return false
  const { response, responseCode } = error as SmtpError
  return response === undefined || responseCode === 421
}

function outcomeOf(error: SmtpError, { started, rejected }: Progress): Outcome {
  const { code, command, responseCode = 0 } = error
  if (started) {
    if (code !== 'EMESSAGE' || responseCode === 421 || responseCode < 400 || responseCode > 599) return 'unknown'
    return responseCode >= 500 ? 'refused' : 'retry'
  }
  // All recipients were rejected.
  if (code === 'EENVELOPE' && command === 'RCPT TO' && rejected.length > 0) {
    return rejected.every((each) => isPermanent(each.responseCode ?? 0)) ? 'refused' : 'retry'
  }
  return code === 'EENVELOPE' && concernsMail(responseCode) ? 'refused' : 'retry'
}

/**
 * Returns whether a code concerns the email. Others concern the client or the server: it accepts no mail (521), or
 * requires authentication (53x).
 */
const concernsMail = (code: number): boolean =>
  code >= 500 && code <= 599 && ![502, 503, 521].includes(code) && Math.floor(code / 10) !== 53

/** Returns the server's reply. Hides the reply to a password, because it might repeat it. */
function replyOf({ response, command }: SmtpError): string | undefined {
  if (response === undefined) return undefined
  return command?.startsWith('AUTH') ? /^\d{0,3}(?: \d\.\d{1,3}\.\d{1,3})?/.exec(response)?.[0] : response
}
