import type { Json, Mailbox } from 'rowhouse'
import { at, describe } from 'rowhouse/plan'
import type { AttachmentDraft } from './attachments.js'
import { readAttachments } from './attachments.js'
import { invalidPayload, missingKey } from './errors.js'
import { Fields } from './fields.js'
import { printMailbox, readMailbox } from './mailbox.js'

/** A message as a row of the outbox; the names are those of its columns. */
export interface Draft {
  readonly kind: 'email' | 'email-template' | 'sms'
  readonly to: string
  readonly from?: string
  readonly from_name?: string
  readonly sub?: string
  readonly text?: string
  readonly html?: string
  readonly cc?: readonly string[]
  readonly bcc?: readonly string[]
  readonly reply_to?: string
  readonly template?: string
  readonly content?: readonly { readonly name: string; readonly content: string }[]
  readonly country_code?: string
  readonly message?: string
  readonly at_most_once: boolean
}

/** What a request wants sent, and how. */
export interface Payload {
  /** One for each recipient. */
  readonly drafts: readonly Draft[]
  /** Whether the recipients were given as a list: then each has a result of its own. */
  readonly several: boolean
  readonly attachments: readonly AttachmentDraft[]
  /** Whether to answer at once, and send later. */
  readonly queue: boolean
}

export interface PayloadLimits {
  readonly maxRecipients: number
  readonly maxAttachmentBytes: number
}

const COMMON = ['queue', 'atMostOnce']
const ENVELOPE = ['to', 'cc', 'bcc', 'replyTo', 'attachments', ...COMMON]
const EMAIL = ['from', 'fromName', 'sub', 'text', 'html', ...ENVELOPE]
const TEMPLATE = ['fromEmail', 'from', 'fromName', 'templateName', 'templateContent', ...ENVELOPE]
const SMS = ['to', 'countryCode', 'message', ...COMMON]
/** Ten parts, about. */
const MAX_SMS = 1600
const MAX_CONTENT = 1000

/** Reads the body of `POST /v1/send/email`. @throws ServiceError 400 `invalid_payload` */
export function readEmail(body: Json, limits: PayloadLimits): Payload {
  const fields = new Fields(body, EMAIL)
  const to = readRecipients(fields, limits)
  const from = sender(fields, 'from')
  const sub = fields.line('sub')
  if (sub === undefined) throw missingKey('sub')
  const [text, html] = [fields.text('text'), fields.text('html')]
  if (text === undefined && html === undefined)
    throw invalidPayload("one of the keys 'text' and 'html' has to be present")
  const bodies = { ...(text === undefined ? {} : { text }), ...(html === undefined ? {} : { html }) }
  return payload(fields, to, limits, { kind: 'email', ...from, sub, ...bodies })
}

/** Reads the body of `POST /v1/send/email-template`. @throws ServiceError 400 `invalid_payload` */
export function readTemplateEmail(body: Json, limits: PayloadLimits): Payload {
  const fields = new Fields(body, TEMPLATE)
  const to = readRecipients(fields, limits)
  const from = sender(fields, fields.value('fromEmail') === undefined && fields.value('from') ? 'from' : 'fromEmail')
  const template = fields.line('templateName', 200)
  if (template === undefined) throw missingKey('templateName')
  return payload(fields, to, limits, { kind: 'email-template', ...from, template, content: readContent(fields) })
}

/** Reads the body of `POST /v1/send/sms`. @throws ServiceError 400 `invalid_payload` */
export function readSms(body: Json): Payload {
  const fields = new Fields(body, SMS)
  const to = fields.digits('to')
  const countryCode = fields.digits('countryCode')
  // E.164 has 15 digits at most.
  if (to.length < 4 || to.length + countryCode.length > 15)
    throw invalidPayload('it is no national number', fields.at('to'))
  if (!/^[1-9]\d{0,2}$/.test(countryCode)) throw invalidPayload('it is no calling code', fields.at('countryCode'))
  const message = fields.text('message')
  if (message === undefined) throw missingKey('message')
  if (message.trim() === '') throw invalidPayload('it is empty', fields.at('message'))
  if (message.length > MAX_SMS) throw invalidPayload(`it has more than ${MAX_SMS} characters`, fields.at('message'))
  const draft = {
    kind: 'sms',
    to,
    country_code: countryCode,
    message,
    at_most_once: fields.boolean('atMostOnce'),
  } as const
  return { drafts: [draft], several: false, attachments: [], queue: fields.boolean('queue') }
}

type Part = Omit<Draft, 'to' | 'at_most_once'>

function payload(fields: Fields, to: Recipients, limits: PayloadLimits, part: Part): Payload {
  const [cc, bcc] = [mailboxes(fields, 'cc', limits), mailboxes(fields, 'bcc', limits)]
  if (to.several && (cc.length > 0 || bcc.length > 0)) {
    throw invalidPayload(
      "each of several recipients gets a mail of its own: 'cc' and 'bcc' go with one",
      fields.at('to'),
    )
  }
  const all = {
    ...part,
    ...(cc.length > 0 ? { cc: cc.map(printMailbox) } : {}),
    ...(bcc.length > 0 ? { bcc: bcc.map(printMailbox) } : {}),
    ...(fields.value('replyTo') === undefined
      ? {}
      : { reply_to: printMailbox(mailbox(fields.text('replyTo'), fields.at('replyTo'))) }),
    at_most_once: fields.boolean('atMostOnce'),
  }
  return {
    drafts: to.mailboxes.map((each) => ({ ...all, to: printMailbox(each) })),
    several: to.several,
    attachments: readAttachments(fields, limits.maxAttachmentBytes),
    queue: fields.boolean('queue'),
  }
}

interface Recipients {
  readonly mailboxes: readonly Mailbox[]
  readonly several: boolean
}

/** A text is one mailbox, a list is several of them. */
function readRecipients(fields: Fields, limits: PayloadLimits): Recipients {
  const several = Array.isArray(fields.required('to'))
  const found = mailboxes(fields, 'to', limits)
  if (found.length === 0) throw invalidPayload('it is empty', fields.at('to'))
  return { mailboxes: found, several }
}

function mailboxes(fields: Fields, key: string, { maxRecipients }: PayloadLimits): readonly Mailbox[] {
  const value = fields.value(key)
  if (value === undefined) return []
  if (!Array.isArray(value)) return [mailbox(value, fields.at(key))]
  if (value.length > maxRecipients) throw invalidPayload(`there are more than ${maxRecipients}`, fields.at(key))
  return value.map((each, i) => mailbox(each, at(fields.at(key), i)))
}

function mailbox(value: Json | undefined, path: string): Mailbox {
  if (typeof value !== 'string') throw invalidPayload(`expecting a string, but found ${describe(value ?? null)}`, path)
  const read = readMailbox(value)
  if (read === undefined || value.length > MAX_MAILBOX) {
    throw invalidPayload('expecting one address: "local@domain" or "Name <local@domain>"', path)
  }
  return read
}
const MAX_MAILBOX = 600

function sender(fields: Fields, key: string): Pick<Draft, 'from' | 'from_name'> {
  const { address, name } = mailbox(fields.required(key), fields.at(key))
  const given = fields.line('fromName', 200) ?? name
  return { from: address, ...(given === undefined || given === '' ? {} : { from_name: given }) }
}

/** `templateContent`: the variables of a template, each once. */
export function readContent(fields: Fields): NonNullable<Draft['content']> {
  const list = fields.list('templateContent') ?? []
  if (list.length > MAX_CONTENT)
    throw invalidPayload(`there are more than ${MAX_CONTENT}`, fields.at('templateContent'))
  const seen = new Set<string>()
  return list.map((each, i) => {
    const path = at(fields.at('templateContent'), i)
    const entry = new Fields(each, ['name', 'content'], path)
    const name = entry.line('name', 200)
    if (name === undefined || name === '') throw missingKey('name', path)
    if (seen.has(name)) throw invalidPayload(`"${name}" is given twice`, path)
    seen.add(name)
    const content = entry.text('content')
    if (content === undefined) throw missingKey('content', path)
    return { name, content }
  })
}
