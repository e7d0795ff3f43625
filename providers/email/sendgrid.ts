import { createPublicKey, verify } from 'node:crypto'
import {
  type Attachment,
  defineProvider,
  type DeliveryEvent,
  type EmailSender,
  type Mail,
  type Mailbox,
  type PostedEvents,
  setting,
  shortLine,
  type TemplateMail,
  withoutDuplicates,
} from 'rowhouse'
import { textAt } from '../answer.js'
import { apiUrl, createApi, endpoint, secret, timeoutMs, unreadable } from '../api.js'
import { isRecent, parseEvents, notEvents, notSigned, ownMessage } from '../events.js'
import { bodiesOf, limited, subjectOf } from './limits.js'
import { byName, domains, each } from './mailbox.js'

/**
 * Maximum age of an event, in seconds. SendGrid retries for 24 hours. The signature covers the event, so a replay
 * changes nothing.
 */
const RECENT_SECONDS = 25 * 3600

/** Sends with the v3 mail API of Twilio SendGrid. */
export default defineProvider({
  kind: 'email',
  name: 'sendgrid',
  config: {
    type: 'object',
    required: ['apiKey'],
    properties: {
      apiKey: secret('API key with the permission to send mail.'),
      url: apiUrl('https://api.sendgrid.com'),
      verificationKey: setting.text(
        'Public key of the signed event webhook, in base64. Without it, events are disabled.',
      ),
      timeoutMs,
      domains,
    },
  },
  create({ apiKey, url, timeoutMs, domains, verificationKey }): EmailSender {
    const api = createApi({ timeoutMs, secrets: [apiKey] })
    const to = endpoint(url, '/v3/mail/send')
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }

    async function post(body: object, signal: AbortSignal) {
      const answer = await api.send({ url: to, headers, body: JSON.stringify(body) }, signal)
      const id = textAt(answer.headers, 'x-message-id')
      if (id === undefined) throw unreadable(answer.text)
      return { id, detail: answer.detail }
    }

    return {
      send: (mail, signal) =>
        post({ ...envelope(withoutDuplicates(mail)), subject: subjectOf(mail), content: content(mail) }, signal),
      sendTemplate: (mail, signal) =>
        post({ ...envelope(withoutDuplicates(mail), byName(mail.content)), template_id: mail.template }, signal),
      domains,
      problemWith: limited({ recipients: 1000, megabytes: 30, emptyAttachments: false }),
      events: verificationKey ? eventReader(verificationKey) : undefined,
      close: () => api.close(),
    }
  },
})

const envelope = (mail: Mail | TemplateMail, data?: object) => ({
  personalizations: [
    {
      to: [box(mail.to)],
      cc: each(mail.cc, box),
      bcc: each(mail.bcc, box),
      custom_args: { rowhouse_id: mail.id },
      dynamic_template_data: data,
    },
  ],
  from: box(mail.from),
  reply_to: mail.replyTo && box(mail.replyTo),
  attachments: each(mail.attachments, attached),
})

const box = ({ address, name }: Mailbox) => ({ email: address, name })

/** Returns the bodies. Plain text must come first, and neither may be empty. */
function content(mail: Mail) {
  const { text, html } = bodiesOf(mail)
  return [...(text ? [{ type: 'text/plain', value: text }] : []), ...(html ? [{ type: 'text/html', value: html }] : [])]
}

/** Formats an attachment. Its type may have no parameters. */
const attached = ({ filename, contentType, content }: Attachment) => ({
  content: content.toString('base64'),
  type: contentType.replace(/;.*/s, '').trim(),
  filename,
  disposition: 'attachment',
})

function eventReader(verificationKey: string) {
  const key = publicKey(verificationKey)
  return ({ headers, body }: PostedEvents): readonly DeliveryEvent[] => {
    const timestamp = headers['x-twilio-email-event-webhook-timestamp']
    const signature = Buffer.from(headers['x-twilio-email-event-webhook-signature'] ?? '', 'base64')
    const signed = Buffer.concat([Buffer.from(timestamp ?? ''), body])
    if (!isRecent(timestamp, RECENT_SECONDS) || !verify('sha256', signed, key, signature)) throw notSigned()
    const events = parseEvents(body)
    if (!Array.isArray(events)) throw notEvents()
    return events.flatMap(eventOf)
  }
}

function publicKey(base64: string) {
  try {
    return createPublicKey({ key: Buffer.from(base64, 'base64'), format: 'der', type: 'spki' })
  } catch {
    throw new Error('sendgrid: "verificationKey" is not the verification key of a signed event webhook')
  }
}

/** Reasons of drops after which the address receives no more mail. */
const ADDRESS_REASONS = ['Bounced Address', 'Invalid', 'Spam Reporting Address']

function eventOf(event: unknown): readonly DeliveryEvent[] {
  // The reference is followed by internal details of SendGrid.
  const id = textAt(event, 'sg_message_id')?.split('.')[0]
  if (id === undefined) return []
  const address = textAt(event, 'email')
  const reason = textAt(event, 'reason')
  const detail = shortLine(reason ?? textAt(event, 'response') ?? textAt(event, 'status') ?? '')
  const ours = ownMessage(textAt(event, 'rowhouse_id'))
  const about = { id, ...ours, ...(address === undefined ? {} : { address }), detail }
  switch (textAt(event, 'event') ?? '') {
    case 'delivered':
      return [{ ...about, kind: 'delivered' }]
    case 'deferred':
      return [{ ...about, kind: 'deferred' }]
    case 'bounce':
      return [{ ...about, kind: 'bounced', ...(textAt(event, 'type') === 'blocked' ? {} : { permanent: true }) }]
    case 'dropped':
      return [{ ...about, kind: 'bounced', ...(ADDRESS_REASONS.includes(reason ?? '') ? { permanent: true } : {}) }]
    case 'spamreport':
      return [{ ...about, kind: 'complained', permanent: true }]
    default:
      return []
  }
}
