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
import { tryParseJson, textAt, valueAt } from '../answer.js'
import { apiUrl, createApi, endpoint, secret, timeoutMs, unreadable } from '../api.js'
import { constantTimeEqual, parseEvents, notEvents, notSigned, ownMessage } from '../events.js'
import { bodiesOf, limited, subjectOf } from './limits.js'
import { byName, domains, each, formatMailbox } from './mailbox.js'

/**
 * Error codes with status 422 that do not concern the message: the sender is not confirmed, or the account may not
 * send.
 */
const ACCOUNT_CODES: readonly unknown[] = [400, 401, 405, 412, 413]

const refuses = (status: number, text: string): boolean =>
  status === 413 || (status === 422 && !ACCOUNT_CODES.includes(valueAt(tryParseJson(text), 'ErrorCode')))

/** Sends with the email API of Postmark. */
export default defineProvider({
  kind: 'email',
  name: 'postmark',
  config: {
    type: 'object',
    required: ['serverToken'],
    properties: {
      serverToken: secret('API token of the server.'),
      url: apiUrl('https://api.postmarkapp.com'),
      messageStream: {
        type: 'string',
        minLength: 1,
        default: 'outbound',
        description: 'ID of the message stream to send with.',
      },
      webhook: {
        type: 'object',
        required: ['username', 'password'],
        properties: {
          username: { type: 'string', minLength: 1, description: 'User name in the URL of the webhook.' },
          password: secret('Password in the URL of the webhook.'),
        },
        description: 'Credentials that Postmark sends with events. Without them, events are disabled.',
      },
      timeoutMs,
      domains,
    },
  },
  create({ serverToken, url, timeoutMs, domains, messageStream, webhook }): EmailSender {
    const api = createApi({ timeoutMs, secrets: [serverToken] }, refuses)
    const headers = {
      accept: 'application/json',
      'content-type': 'application/json',
      'x-postmark-server-token': serverToken,
    }

    async function post(path: string, body: object, signal: AbortSignal) {
      const mail = { ...body, MessageStream: messageStream }
      const answer = await api.send({ url: endpoint(url, path), headers, body: JSON.stringify(mail) }, signal)
      const id = textAt(answer.json, 'MessageID')
      if (id === undefined || valueAt(answer.json, 'ErrorCode') !== 0) throw unreadable(answer.text)
      return { id, detail: answer.detail }
    }

    return {
      send(mail, signal) {
        const { text, html } = bodiesOf(mail)
        return post(
          '/email',
          { ...envelope(withoutDuplicates(mail)), Subject: subjectOf(mail), TextBody: text, HtmlBody: html },
          signal,
        )
      },
      sendTemplate: (mail, signal) =>
        post(
          '/email/withTemplate',
          { ...envelope(withoutDuplicates(mail)), ...named(mail.template), TemplateModel: byName(mail.content) },
          signal,
        ),
      domains,
      problemWith: limited({ recipients: 50, megabytes: 10, bodyMegabytes: 5 }),
      events: webhook ? eventReader(webhook) : undefined,
      close: () => api.close(),
    }
  },
})

const envelope = (mail: Mail | TemplateMail) => ({
  From: formatMailbox(mail.from),
  To: formatMailbox(mail.to),
  Cc: each(mail.cc, formatMailbox)?.join(', '),
  Bcc: each(mail.bcc, formatMailbox)?.join(', '),
  ReplyTo: mail.replyTo && formatMailbox(mail.replyTo),
  Attachments: each(mail.attachments, attached),
  Metadata: { rowhouse_id: mail.id },
})

const attached = ({ filename, contentType, content }: Attachment) => ({
  Name: filename,
  Content: content.toString('base64'),
  ContentType: contentType,
})

/** Returns the template's alias, which starts with a letter, or its id. */
const named = (template: string) =>
  /^\d+$/.test(template) ? { TemplateId: Number(template) } : { TemplateAlias: template }

function eventReader({ username, password }: { readonly username: string; readonly password: string }) {
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  return ({ headers, body }: PostedEvents): readonly DeliveryEvent[] => {
    if (!constantTimeEqual(headers['authorization'] ?? '', authorization)) throw notSigned()
    const event = parseEvents(body)
    if (textAt(event, 'RecordType') === undefined) throw notEvents()
    return eventOf(event)
  }
}

/** Types that are not bounces: the email was delivered, or a person replied. */
const NOT_BOUNCES = [
  'AddressChange',
  'AutoResponder',
  'ChallengeVerification',
  'InboundError',
  'OpenRelayTest',
  'Subscribe',
  'Unsubscribe',
]

function eventOf(event: unknown): readonly DeliveryEvent[] {
  const id = textAt(event, 'MessageID')
  if (id === undefined) return []
  const address = textAt(event, 'Recipient') ?? textAt(event, 'Email')
  const detail = shortLine(textAt(event, 'Details') ?? textAt(event, 'Description') ?? '')
  const ours = ownMessage(textAt(event, 'Metadata', 'rowhouse_id'))
  const about = { id, ...ours, ...(address === undefined ? {} : { address }), detail }
  switch (textAt(event, 'RecordType') ?? '') {
    case 'Delivery':
      return [{ ...about, kind: 'delivered' }]
    case 'SpamComplaint':
      return [{ ...about, kind: 'complained', permanent: true }]
    case 'Bounce': {
      const type = textAt(event, 'Type') ?? ''
      if (NOT_BOUNCES.includes(type)) return []
      if (type === 'Transient') return [{ ...about, kind: 'deferred' }]
      // Postmark blocks further mail to this address.
      const gone = type === 'HardBounce' || valueAt(event, 'Inactive') === true
      return [{ ...about, kind: 'bounced', ...(gone ? { permanent: true } : {}) }]
    }
    default:
      return []
  }
}
