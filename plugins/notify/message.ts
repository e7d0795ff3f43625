import { type Attachment, type Mail, type Mailbox, type Sms, type TemplateMail, withoutDuplicates } from 'rowhouse'
import type { ProviderEvent } from './after-event.js'
import { headerProblem, readMailbox } from './mailbox.js'
import type { Recipients } from './recipients.js'

export type MessageKind = 'email' | 'email-template' | 'sms'
/** Each channel has its own providers and its own worker. */
export type Channel = 'email' | 'sms'
export const channelOf = (kind: MessageKind): Channel => (kind === 'sms' ? 'sms' : 'email')

/**
 * A message to insert into the outbox, by the names of its columns. A required column is absent only if the sender's
 * permission sets it.
 */
export interface NewMessage {
  /** A UUID. */
  readonly id: string
  readonly kind: MessageKind
  readonly to?: string | null
  readonly from?: string | null
  readonly from_name?: string | null
  readonly sub?: string | null
  readonly text?: string | null
  readonly html?: string | null
  readonly cc?: readonly string[] | null
  readonly bcc?: readonly string[] | null
  readonly reply_to?: string | null
  readonly template?: string | null
  readonly content?: TemplateMail['content'] | null
  readonly country_code?: string | null
  readonly message?: string | null
  readonly at_most_once: boolean
}

/** A message that this process may send until its lease ends. */
export interface ClaimedMessage extends NewMessage {
  readonly mode: 'queue' | 'sync'
  /** Number of calls to a provider. */
  readonly attempts: number
  /** Number of claims. Only the latest claim may store a result. */
  readonly claims: number
  /** Number of consecutive claims before this one that ended without a stored result. */
  readonly losses: number
  readonly provider: string | null
  /** Seconds since `provider` may have sent the message; null if it has not. */
  readonly unknown_for: number | null
  /** Seconds since the message was queued. */
  readonly age: number
  readonly attachments: readonly Attachment[]
  readonly recipients: Recipients
  /** What providers have posted since it was claimed. */
  readonly events: readonly ProviderEvent[] | null
}

/** The message that a provider gets. */
export type ProviderMessage = Mail | TemplateMail | Sms

/**
 * Converts a row of the outbox for a provider. Checks every field again, because SQL or a role's insert may have written the
 * row.
 * @throws Error for an invalid field
 */
export function providerMessage(row: NewMessage & Pick<ClaimedMessage, 'attachments'>): ProviderMessage {
  const { id, kind } = row
  if (kind === 'sms') {
    const sms = { id, to: row.to ?? '', countryCode: row.country_code ?? '', message: row.message ?? '' }
    if (!/^\d{4,14}$/.test(sms.to) || !/^[1-9]\d{0,2}$/.test(sms.countryCode))
      throw new Error('the phone number is not valid')
    return sms
  }
  const from = mailbox('from', row.from)
  const name = row.from_name ?? from.name
  const envelope = withoutDuplicates({
    id,
    to: mailbox('to', row.to),
    from: name === undefined ? from : { ...from, name: line('from_name', name) },
    ...(row.cc ? { cc: mailboxes('cc', row.cc) } : {}),
    ...(row.bcc ? { bcc: mailboxes('bcc', row.bcc) } : {}),
    ...(row.reply_to ? { replyTo: mailbox('reply_to', row.reply_to) } : {}),
    ...(row.attachments.length > 0 ? { attachments: row.attachments } : {}),
  })
  if (kind === 'email-template') return { ...envelope, template: row.template ?? '', content: contentOf(row.content) }
  return {
    ...envelope,
    subject: line('sub', row.sub),
    ...(typeof row.text === 'string' ? { text: row.text } : {}),
    ...(typeof row.html === 'string' ? { html: row.html } : {}),
  }
}

function mailbox(column: string, value: unknown): Mailbox {
  const read = typeof value === 'string' ? readMailbox(value) : undefined
  if (read === undefined) throw new Error(`"${column}" is not one address`)
  return read
}
function mailboxes(column: string, value: unknown): readonly Mailbox[] {
  if (!Array.isArray(value) || value.length > 50) throw new Error(`"${column}" is not a list of at most 50 addresses`)
  return value.map((each) => mailbox(column, each))
}
function line(column: string, value: unknown): string {
  if (typeof value !== 'string') throw new Error(`"${column}" is not a text`)
  const problem = headerProblem(value)
  if (problem !== undefined) throw new Error(`"${column}" has ${problem}`)
  return value
}
function contentOf(value: unknown): TemplateMail['content'] {
  if (value === null || value === undefined) return []
  const isEntry = (each: unknown) =>
    typeof each === 'object' &&
    each !== null &&
    typeof (each as Record<string, unknown>)['name'] === 'string' &&
    typeof (each as Record<string, unknown>)['content'] === 'string'
  if (!Array.isArray(value) || !value.every(isEntry)) throw new Error('"content" is not a list of {name, content}')
  return value as TemplateMail['content']
}
