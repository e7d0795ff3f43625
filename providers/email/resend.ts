import { createHmac } from 'node:crypto'
import {
  type Attachment,
  defineProvider,
  type DeliveryEvent,
  type EmailSender,
  type Mail,
  type PostedEvents,
  shortLine,
  type TemplateMail,
  withoutDuplicates,
} from 'rowhouse'
import { textAt, valueAt } from '../answer.js'
import { apiUrl, createApi, endpoint, secret, timeoutMs, unreadable } from '../api.js'
import { isRecent, constantTimeEqual, parseEvents, notEvents, notSigned, ownMessage } from '../events.js'
import { bodiesOf, limited, subjectOf } from './limits.js'
import { byName, domains, each, formatMailbox } from './mailbox.js'

/** Time for which Resend deduplicates a key, in seconds: 24 hours, less one for clock differences and delays. */
const DEDUPLICATION_SECONDS = 23 * 3600

const RECENT_SECONDS = 5 * 60

/** Types of attachments that Resend does not send, by extension. */
const REFUSED_EXTENSIONS = (
  'adp app asp bas bat cer chm cmd com cpl crt csh der exe fxp gadget hlp hta inf ins isp its js jse ksh lib ' +
  'lnk mad maf mag mam maq mar mas mat mau mav maw mda mdb mde mdt mdw mdz msc msh msh1 msh2 mshxml msh1xml ' +
  'msh2xml msi msp mst ops pcd pif plg prf prg reg scf scr sct shb shs sys ps1 ps1xml ps2 ps2xml psc1 psc2 tmp ' +
  'url vb vbe vbs vps vsmacros vss vst vsw vxd ws wsc wsf wsh xnk'
).split(' ')

/** Minimum key length. Invalid base64 would decode to a short or empty key, with which anyone could sign. */
const MIN_KEY_BYTES = 16

/** Sends with the API of Resend. */
export default defineProvider({
  kind: 'email',
  name: 'resend',
  config: {
    type: 'object',
    required: ['apiKey'],
    properties: {
      apiKey: secret('API key with the permission to send.'),
      url: apiUrl('https://api.resend.com'),
      webhookSecret: secret('Signing secret of the webhook, "whsec_...". Without it, events are disabled.'),
      timeoutMs,
      domains,
    },
  },
  create({ apiKey, url, timeoutMs, domains, webhookSecret }): EmailSender {
    const api = createApi({ timeoutMs, secrets: [apiKey] })
    const to = endpoint(url, '/emails')

    async function post(mail: Mail | TemplateMail, body: object, signal: AbortSignal) {
      const headers = {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        'idempotency-key': mail.id,
      }
      const sent = { ...envelope(withoutDuplicates(mail)), ...body }
      const answer = await api.send({ url: to, headers, body: JSON.stringify(sent) }, signal)
      const id = textAt(answer.json, 'id')
      if (id === undefined) throw unreadable(answer.text)
      return { id, detail: answer.detail }
    }

    return {
      sendsOnceForSeconds: DEDUPLICATION_SECONDS,
      send: (mail, signal) => post(mail, { subject: subjectOf(mail), ...bodiesOf(mail) }, signal),
      sendTemplate: (mail, signal) =>
        post(mail, { template: { id: mail.template, variables: byName(mail.content) } }, signal),
      domains,
      problemWith: limited({ recipients: 50, megabytes: 40, refusedExtensions: REFUSED_EXTENSIONS }),
      events: webhookSecret ? eventReader(webhookSecret) : undefined,
      close: () => api.close(),
    }
  },
})

const envelope = (mail: Mail | TemplateMail) => ({
  from: formatMailbox(mail.from),
  to: [formatMailbox(mail.to)],
  cc: each(mail.cc, formatMailbox),
  bcc: each(mail.bcc, formatMailbox),
  reply_to: mail.replyTo && formatMailbox(mail.replyTo),
  attachments: each(mail.attachments, attached),
  tags: [{ name: 'rowhouse_id', value: mail.id }],
})

const attached = ({ filename, contentType, content }: Attachment) => ({
  filename,
  content: content.toString('base64'),
  content_type: contentType,
})

function eventReader(webhookSecret: string) {
  const key = Buffer.from(webhookSecret.replace(/^whsec_/, ''), 'base64')
  if (key.length < MIN_KEY_BYTES) throw new Error('resend: "webhookSecret" is not the signing secret of a webhook')
  return ({ headers, body }: PostedEvents): readonly DeliveryEvent[] => {
    const timestamp = headers['svix-timestamp']
    const expected = createHmac('sha256', key)
      .update(`${headers['svix-id']}.${timestamp}.`)
      .update(body)
      .digest('base64')
    // There are several signatures while a secret is rotated.
    const signatures = (headers['svix-signature'] ?? '').split(' ')
    if (!isRecent(timestamp, RECENT_SECONDS) || !signatures.some((one) => constantTimeEqual(one, `v1,${expected}`)))
      throw notSigned()
    const event = parseEvents(body)
    if (textAt(event, 'type') === undefined) throw notEvents()
    return eventOf(event)
  }
}

function eventOf(event: unknown): readonly DeliveryEvent[] {
  const id = textAt(event, 'data', 'email_id')
  if (id === undefined) return []
  // An event of an email with several recipients does not identify the recipient.
  const all = valueAt(event, 'data', 'to')
  const address = Array.isArray(all) && all.length === 1 ? textAt(all, '0') : undefined
  const about = { id, ...ownMessage(tagOf(event)), ...(address === undefined ? {} : { address }) }
  const detailAt = (key: string, word: string) => shortLine(textAt(event, 'data', key, word) ?? '')
  switch (textAt(event, 'type') ?? '') {
    case 'email.delivered':
      return [{ ...about, kind: 'delivered', detail: '' }]
    case 'email.delivery_delayed':
      return [{ ...about, kind: 'deferred', detail: '' }]
    case 'email.bounced': {
      const gone = textAt(event, 'data', 'bounce', 'type') === 'Permanent'
      return [
        { ...about, kind: 'bounced', ...(gone ? { permanent: true } : {}), detail: detailAt('bounce', 'message') },
      ]
    }
    case 'email.suppressed':
      return [{ ...about, kind: 'bounced', permanent: true, detail: detailAt('suppressed', 'message') }]
    case 'email.failed':
      return [{ ...about, kind: 'bounced', detail: detailAt('failed', 'reason') }]
    case 'email.complained':
      return [{ ...about, kind: 'complained', permanent: true, detail: '' }]
    default:
      return []
  }
}

/** Returns the message's id from the tags, which are an object or a list. */
function tagOf(event: unknown): string | undefined {
  const tags = valueAt(event, 'data', 'tags')
  const named: unknown = Array.isArray(tags) ? tags.find((tag) => textAt(tag, 'name') === 'rowhouse_id') : undefined
  return textAt(tags, 'rowhouse_id') ?? textAt(named, 'value')
}
