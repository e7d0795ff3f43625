import type { Attachment, Mail, Mailbox, Sms, TemplateMail } from 'rowhouse'
import type { Draft } from './payload.js'
import { headerProblem, readMailbox } from './mailbox.js'

/** A message of the outbox that this process may send until its lease ends. */
export interface Claimed extends Draft {
  readonly id: string
  readonly mode: 'queue' | 'sync'
  /** How often a provider was asked. */
  readonly attempts: number
  /** How often the message was claimed. Only the latest claim may write what became of it. */
  readonly claims: number
  /** How many claims in a row, up to now, ended without a stored outcome. */
  readonly losses: number
  readonly provider: string | null
  /** Seconds since it is not known whether `provider` has sent it; null: it has not. */
  readonly unknown_for: number | null
  /** Seconds. */
  readonly age: number
  readonly attachments: readonly Attachment[]
}

export type Message =
  | { readonly channel: 'sms'; readonly sms: Sms }
  | { readonly channel: 'email'; readonly mail: Mail }
  | { readonly channel: 'email'; readonly template: TemplateMail }

export type Channel = Message['channel']
export const channelOf = (kind: Draft['kind']): Channel => (kind === 'sms' ? 'sms' : 'email')

/**
 * What a row says. It need not have come through a route that checked it: an insert by SQL or by a role is a message too.
 * @throws Error that says what cannot be sent
 */
export function messageOf(row: Claimed): Message {
  const { id, kind } = row
  if (kind === 'sms') {
    const sms = { id, to: row.to ?? '', countryCode: row.country_code ?? '', message: row.message ?? '' }
    if (!/^\d{4,14}$/.test(sms.to) || !/^[1-9]\d{0,2}$/.test(sms.countryCode)) throw new Error('it has no number')
    return { channel: 'sms', sms }
  }
  const from = mailbox('from', row.from)
  const name = row.from_name ?? from.name
  const envelope = {
    id,
    to: mailbox('to', row.to),
    from: name === undefined ? from : { ...from, name: line('from_name', name) },
    ...(row.cc ? { cc: mailboxes('cc', row.cc) } : {}),
    ...(row.bcc ? { bcc: mailboxes('bcc', row.bcc) } : {}),
    ...(row.reply_to ? { replyTo: mailbox('reply_to', row.reply_to) } : {}),
    ...(row.attachments.length > 0 ? { attachments: row.attachments } : {}),
  }
  if (kind === 'email-template') {
    const content = contentOf(row.content)
    return { channel: 'email', template: { ...envelope, template: row.template ?? '', content } }
  }
  const mail = {
    ...envelope,
    subject: line('sub', row.sub),
    ...(typeof row.text === 'string' ? { text: row.text } : {}),
    ...(typeof row.html === 'string' ? { html: row.html } : {}),
  }
  return { channel: 'email', mail }
}

function mailbox(column: string, value: unknown): Mailbox {
  const read = typeof value === 'string' ? readMailbox(value) : undefined
  if (read === undefined) throw new Error(`"${column}" is not one address`)
  return read
}
function mailboxes(column: string, value: unknown): readonly Mailbox[] {
  if (!Array.isArray(value) || value.length > 50) throw new Error(`"${column}" is no list of at most 50 addresses`)
  return value.map((each) => mailbox(column, each))
}
function line(column: string, value: unknown): string {
  if (typeof value !== 'string') throw new Error(`"${column}" is no text`)
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
  if (!Array.isArray(value) || !value.every(isEntry)) throw new Error('"content" is no list of {name, content}')
  return value as TemplateMail['content']
}
