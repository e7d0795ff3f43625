import { createHash, createHmac } from 'node:crypto'
import {
  defineProvider,
  type DeliveryEvent,
  type EmailSender,
  type Mail,
  type PostedEvents,
  shortLine,
  type TemplateMail,
  withoutDuplicates,
} from 'rowhouse'
import { textAt } from '../answer.js'
import { apiUrl, createApi, endpoint, secret, timeoutMs, unreadable } from '../api.js'
import { isRecent, constantTimeEqual, parseEvents, notSigned, ownMessage } from '../events.js'
import { bodiesOf, limited, subjectOf } from './limits.js'
import { byName, domains, formatMailbox } from './mailbox.js'

const RECENT_SECONDS = 15 * 60

/** Sends with the messages API of Mailgun. */
export default defineProvider({
  kind: 'email',
  name: 'mailgun',
  config: {
    type: 'object',
    required: ['apiKey', 'domain'],
    properties: {
      apiKey: secret('API key of the account, or a sending key of the domain.'),
      domain: {
        type: 'string',
        pattern: '^[0-9A-Za-z.-]+$',
        description: 'Mailgun domain to send with.',
      },
      url: apiUrl('https://api.mailgun.net'),
      signingKey: secret('HTTP webhook signing key. Without it, events are disabled.'),
      timeoutMs,
      domains,
    },
  },
  create({ apiKey, domain, url, timeoutMs, domains, signingKey }): EmailSender {
    const to = endpoint(url, `/v3/${domain}/messages`)
    const authorization = `Basic ${Buffer.from(`api:${apiKey}`).toString('base64')}`
    const api = createApi({ timeoutMs, secrets: [apiKey, authorization] })

    async function post(form: FormData, signal: AbortSignal) {
      const encoded = new Response(form)
      const headers = { authorization, 'content-type': encoded.headers.get('content-type') ?? '' }
      const body = Buffer.from(await encoded.arrayBuffer())
      const answer = await api.send({ url: to, headers, body }, signal)
      const id = textAt(answer.json, 'id')
      if (id === undefined) throw unreadable(answer.text)
      return { id: withoutBrackets(id), detail: answer.detail }
    }

    return {
      send(mail, signal) {
        const form = envelope(mail)
        form.append('subject', subjectOf(mail))
        for (const [name, body] of Object.entries(bodiesOf(mail))) form.append(name, body)
        return post(form, signal)
      },
      sendTemplate(mail, signal) {
        const form = envelope(mail)
        form.append('template', mail.template)
        form.append('t:variables', JSON.stringify(byName(mail.content)))
        return post(form, signal)
      },
      domains,
      problemWith: limited({ recipients: 1000, megabytes: 25 }),
      events: signingKey ? eventReader(signingKey) : undefined,
      close: () => api.close(),
    }
  },
})

function envelope(given: Mail | TemplateMail): FormData {
  const mail = withoutDuplicates(given)
  const form = new FormData()
  form.append('from', formatMailbox(mail.from))
  form.append('to', formatMailbox(mail.to))
  for (const one of mail.cc ?? []) form.append('cc', formatMailbox(one))
  for (const one of mail.bcc ?? []) form.append('bcc', formatMailbox(one))
  if (mail.replyTo) form.append('h:Reply-To', formatMailbox(mail.replyTo))
  form.append('v:rowhouse_id', mail.id)
  for (const { filename, contentType, content } of mail.attachments ?? [])
    form.append('attachment', new Blob([content], { type: contentType }), filename)
  return form
}

/** Removes the angle brackets that only responses have around the reference. */
const withoutBrackets = (id: string) => id.replace(/^<(.*)>$/s, '$1')

function eventReader(signingKey: string) {
  const isNew = replayCheck()
  return ({ body }: PostedEvents): readonly DeliveryEvent[] => {
    const posted = parseEvents(body)
    const [timestamp, token, signature] = ['timestamp', 'token', 'signature'].map((key) =>
      textAt(posted, 'signature', key),
    )
    const expected = createHmac('sha256', signingKey).update(`${timestamp}${token}`).digest('hex')
    if (token === undefined || !constantTimeEqual(signature ?? '', expected)) throw notSigned()
    if (!isRecent(timestamp, RECENT_SECONDS) || !isNew(token, body)) throw notSigned()
    return eventOf(posted)
  }
}

/**
 * Returns a function that detects replayed signatures. A signature covers only time and token, so an attacker could attach
 * a known one to forged events. Each token is therefore bound to its first body. The same body again is a retry of Mailgun.
 */
function replayCheck(): (token: string, body: Buffer) => boolean {
  const seen = new Map<string, { readonly digest: string; readonly atMs: number }>()
  return (token, body) => {
    const now = Date.now()
    // Twice the time, because the time of a token may be ahead of ours.
    for (const [old, { atMs }] of seen) {
      if (now - atMs <= 2000 * RECENT_SECONDS) break
      seen.delete(old)
    }
    const digest = createHash('sha256').update(body).digest('base64')
    const first = seen.get(token)
    if (first === undefined) seen.set(token, { digest, atMs: now })
    return first === undefined || first.digest === digest
  }
}

/** Reasons of permanent failures that concern the address. */
const ADDRESS_REASONS = ['bounce', 'suppress-bounce', 'suppress-complaint']

function eventOf(posted: unknown): readonly DeliveryEvent[] {
  const text = (...keys: readonly string[]) => textAt(posted, 'event-data', ...keys)
  const id = text('message', 'headers', 'message-id')
  if (id === undefined) return []
  const address = text('recipient')
  const reason = text('reason')
  const message = text('delivery-status', 'message') ?? text('delivery-status', 'description')
  const detail = shortLine(message ?? text('reject', 'reason') ?? reason ?? '')
  const ours = ownMessage(text('user-variables', 'rowhouse_id'))
  const about = { id: withoutBrackets(id), ...ours, ...(address === undefined ? {} : { address }), detail }
  switch (text('event') ?? '') {
    case 'delivered':
      return [{ ...about, kind: 'delivered' }]
    case 'failed':
      if (text('severity') === 'temporary') return [{ ...about, kind: 'deferred' }]
      return [{ ...about, kind: 'bounced', ...(ADDRESS_REASONS.includes(reason ?? '') ? { permanent: true } : {}) }]
    case 'rejected':
      return [{ ...about, kind: 'bounced' }]
    case 'complained':
      return [{ ...about, kind: 'complained', permanent: true }]
    default:
      return []
  }
}
