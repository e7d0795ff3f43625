import { randomUUID } from 'node:crypto'
import type { Json, Mailbox, TemplateMail } from 'rowhouse'
import { at, describe } from 'rowhouse/plan'
import type { AttachmentSource } from './attachments.js'
import { readAttachments } from './attachments.js'
import type { NotifyConfig } from './config.js'
import { invalidPayload, missingKey } from './errors.js'
import { Fields } from './fields.js'
import { printMailbox, readMailbox } from './mailbox.js'
import type { NewMessage } from './message.js'

/** The content of a request body. */
export interface Payload {
  /** One for each recipient. */
  readonly messages: readonly NewMessage[]
  /** Whether the recipients are a list. Then the answer has a result for each. */
  readonly several: boolean
  readonly attachments: readonly AttachmentSource[]
  /** Whether to answer as soon as the message is stored, and send it later. */
  readonly queue: boolean
}

type PayloadLimits = Pick<NotifyConfig['email'], 'maxRecipients' | 'maxAttachmentBytes'>

const COMMON = ['queue', 'atMostOnce']
const ENVELOPE = ['to', 'cc', 'bcc', 'replyTo', 'attachments', ...COMMON]
const EMAIL = ['from', 'fromName', 'sub', 'text', 'html', ...ENVELOPE]
const TEMPLATE = ['fromEmail', 'from', 'fromName', 'templateName', 'templateContent', ...ENVELOPE]
const SMS = ['to', 'countryCode', 'message', ...COMMON]
/** Maximum characters of an SMS: about ten parts. */
const MAX_SMS = 1600
const MAX_CONTENT = 1000

/**
 * Reads the body of `POST /v1/send/email`.
 * @param presets keys that may be absent, because the sender's permission sets their columns
 * @throws ServiceError 400 `invalid_payload`
 */
export function readEmail(body: Json, limits: PayloadLimits, presets?: ReadonlySet<string>): Payload {
  const fields = new Fields(body, EMAIL, '$', presets)
  const to = readRecipients(fields, limits)
  const from = sender(fields, 'from')
  fields.required('sub')
  const sub = fields.line('sub')
  const [text, html] = [fields.text('text'), fields.text('html')]
  if (!fields.hasOneOf('text', 'html')) throw invalidPayload("one of the keys 'text' and 'html' has to be present")
  return payload(fields, to, limits, { kind: 'email', ...from, sub, text, html })
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

/**
 * Reads the body of `POST /v1/send/sms`.
 * @param presets as for `readEmail`
 * @throws ServiceError 400 `invalid_payload`
 */
export function readSms(body: Json, presets?: ReadonlySet<string>): Payload {
  const fields = new Fields(body, SMS, '$', presets)
  const to = fields.digits('to')
  const countryCode = fields.digits('countryCode')
  // E.164 has 15 digits at most.
  if (to !== undefined && (to.length < 4 || to.length + (countryCode ?? '1').length > 15))
    throw invalidPayload('not a valid national number', fields.at('to'))
  if (countryCode !== undefined && !/^[1-9]\d{0,2}$/.test(countryCode))
    throw invalidPayload('not a valid calling code', fields.at('countryCode'))
  fields.required('message')
  const message = fields.text('message')
  if (message?.trim() === '') throw invalidPayload('must not be empty', fields.at('message'))
  if (message !== undefined && message.length > MAX_SMS)
    throw invalidPayload(`longer than ${MAX_SMS} characters`, fields.at('message'))
  const sms = {
    id: randomUUID(),
    kind: 'sms',
    to,
    country_code: countryCode,
    message,
    at_most_once: fields.boolean('atMostOnce'),
  } as const
  return { messages: [sms], several: false, attachments: [], queue: fields.boolean('queue') }
}

type Contents = Omit<NewMessage, 'id' | 'to' | 'at_most_once'>

function payload(fields: Fields, to: Recipients, limits: PayloadLimits, contents: Contents): Payload {
  const [cc, bcc] = [mailboxes(fields, 'cc', limits), mailboxes(fields, 'bcc', limits)]
  if (to.several && (cc.length > 0 || bcc.length > 0)) {
    throw invalidPayload(
      "'cc' and 'bcc' need a single recipient, because each address in a list gets a mail of its own",
      fields.at('to'),
    )
  }
  const replyTo = fields.text('replyTo')
  const all = {
    ...contents,
    cc: cc.length > 0 ? cc : undefined,
    bcc: bcc.length > 0 ? bcc : undefined,
    reply_to: replyTo === undefined ? undefined : printMailbox(mailbox(replyTo, fields.at('replyTo'))),
    at_most_once: fields.boolean('atMostOnce'),
  }
  return {
    messages: to.mailboxes.map((each) => ({ id: randomUUID(), ...all, to: each })),
    several: to.several,
    attachments: readAttachments(fields, limits.maxAttachmentBytes),
    queue: fields.boolean('queue'),
  }
}

interface Recipients {
  readonly mailboxes: readonly (string | undefined)[]
  readonly several: boolean
}

/** A string is one mailbox, a list has several. */
function readRecipients(fields: Fields, limits: PayloadLimits): Recipients {
  const given = fields.required('to')
  if (given === undefined) return { mailboxes: [undefined], several: false }
  const several = Array.isArray(given)
  const found = mailboxes(fields, 'to', limits)
  if (found.length === 0) throw invalidPayload('must not be empty', fields.at('to'))
  return { mailboxes: found, several }
}

function mailboxes(fields: Fields, key: string, { maxRecipients }: PayloadLimits): readonly string[] {
  const value = fields.value(key)
  if (value === undefined) return []
  if (!Array.isArray(value)) return [printMailbox(mailbox(value, fields.at(key)))]
  if (value.length > maxRecipients) throw invalidPayload(`more than ${maxRecipients} addresses`, fields.at(key))
  return value.map((each, i) => printMailbox(mailbox(each, at(fields.at(key), i))))
}

function mailbox(value: Json, path: string): Mailbox {
  if (typeof value !== 'string') throw invalidPayload(`expecting a string, but found ${describe(value)}`, path)
  const read = readMailbox(value)
  if (read === undefined || value.length > MAX_MAILBOX) {
    throw invalidPayload('expecting one address: "local@domain" or "Name <local@domain>"', path)
  }
  return read
}
const MAX_MAILBOX = 600

function sender(fields: Fields, key: string): Pick<NewMessage, 'from' | 'from_name'> {
  const from = fields.required(key)
  const { address, name } = from === undefined ? {} : mailbox(from, fields.at(key))
  const given = fields.line('fromName', 200) ?? name
  return { from: address, from_name: given === '' ? undefined : given }
}

/** Reads `templateContent`, the variables of a template. */
export function readContent(fields: Fields): TemplateMail['content'] {
  const list = fields.list('templateContent') ?? []
  if (list.length > MAX_CONTENT) throw invalidPayload(`more than ${MAX_CONTENT} values`, fields.at('templateContent'))
  const seen = new Set<string>()
  return list.map((each, i) => {
    const path = at(fields.at('templateContent'), i)
    const entry = new Fields(each, ['name', 'content'], path)
    const name = entry.line('name', 200)
    if (name === undefined || name === '') throw missingKey('name', path)
    if (seen.has(name)) throw invalidPayload(`duplicate name "${name}"`, path)
    seen.add(name)
    const content = entry.text('content')
    if (content === undefined) throw missingKey('content', path)
    return { name, content }
  })
}
