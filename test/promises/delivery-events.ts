import { randomBytes, randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { PostedEvents } from '../../core/contracts.js'
import { type DeliveryEvent, ServiceError } from '../../core/index.js'
import { signedReceipt } from '../kit/fake-apis/vonage.js'
import { twilioSignature } from '../kit/fake-apis/twilio.js'
import { MAIL, notifyServer, type NotifyServer } from '../kit/notify.js'
import { area, type Case } from '../kit/promises.js'
import { type TestServer, testServer } from '../kit/server.js'
import { basic, mailgunEvent, now, resendSigner, sendgridSigner } from '../kit/signed-events.js'
import { listen } from '../kit/who-is.js'

/** What providers may post about messages, and what it changes. */
const PROMISES = {
  'event.states': 'an event sets the delivery of its message, and an earlier stage does not replace a later one',
  'event.suppresses': 'an address with a permanent bounce or a complaint gets no more mail',
  'event.proof': 'an event without the right proof is refused',
  'event.no-route': 'there is no route for a provider that does not prove its events',
  'event.other': 'an event about an unknown message changes nothing',
  'event.metric': 'events are counted',
  'event.gateway': 'in gateway mode an event needs no other authentication, and all else does',
  'event.webhook': 'the authorization webhook is not asked about events',
  'event.early': 'an event that comes before its message is known to be sent is not lost',
  'event.settles': 'an event for a message of unknown outcome makes it sent',
  'event.recipients': 'an event about a recipient settles the outcome of that recipient, and keeps its delivery',
  'event.not-another': 'an event does not change a message of another provider',
  'postmark.event': 'an event of Postmark is proved by its password',
  'sendgrid.event': 'an event of SendGrid is proved by its signature',
  'mailgun.event': 'an event of Mailgun is proved by its signature',
  'resend.event': 'an event of Resend is proved by its signature',
  'twilio.event': 'an event of Twilio is proved by its signature',
  'vonage.event': 'an event of Vonage is proved by its signature',
} as const

const PAGES = {
  'plugins/notify/README.md': {
    notify: {
      '`POST /v1/send/events/<email or sms>/<provider>`': [
        'event.states',
        'event.proof',
        'event.no-route',
        'event.gateway',
      ],
    },
  },
} as const

const provider = (path: string) => new URL(`../../providers/${path}.js`, import.meta.url)
const EMAIL = ['postmark', 'sendgrid', 'mailgun', 'resend']
const SMS = ['twilio', 'vonage']
const TWILIO_TOKEN = 'a-token-of-twilio'
const TWILIO_URL = 'https://api.example.com/v1/send/events/sms/twilio'
const VONAGE_SECRET = 'a-secret-of-vonage'
const reader = 'reader@example.com'

const resendKey = randomBytes(24)
const { verificationKey, signed: sendgridSigned } = sendgridSigner()

const PROVIDERS = {
  email: {
    default: 'postmark',
    postmark: { serverToken: 'token', webhook: { username: 'postmark', password: 'pass:word' } },
    sendgrid: { apiKey: 'key', verificationKey },
    mailgun: { apiKey: 'key', domain: 'mg.example.com', signingKey: 'signing-key' },
    resend: { apiKey: 'key', webhookSecret: `whsec_${resendKey.toString('base64')}` },
  },
  sms: {
    default: 'twilio',
    twilio: {
      accountSid: `AC${'0a'.repeat(16)}`,
      authToken: TWILIO_TOKEN,
      from: '+12025550123',
      statusCallbackUrl: TWILIO_URL,
    },
    vonage: { apiKey: 'key', apiSecret: 'secret', from: 'Us', signatureSecret: VONAGE_SECRET },
  },
}

const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const form = (fields: Record<string, string>, headers: Record<string, string>): PostedEvents => ({
  headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  query: {},
  body: Buffer.from(new URLSearchParams(fields).toString()),
})

/** `delivered` of a message by its reference, and by our id where there is one, as each posts it; `wrong`: with a wrong signature. */
const DELIVERED: Readonly<Record<string, (id: string, ours?: string, wrong?: boolean) => PostedEvents>> = {
  postmark: (id, ours, wrong) => ({
    headers: { authorization: basic(`postmark:${wrong ? 'other' : 'pass:word'}`) },
    query: {},
    body: json({ RecordType: 'Delivery', MessageID: id, Recipient: reader, Metadata: { rowhouse_id: ours } }),
  }),
  sendgrid: (id, ours, wrong) => {
    const body = json([{ event: 'delivered', sg_message_id: `${id}.x`, email: reader, rowhouse_id: ours }])
    return { ...sendgridSigned(wrong ? Buffer.from('[]') : body), body }
  },
  mailgun: (id, ours, wrong) =>
    mailgunEvent(
      { event: 'delivered', message: { headers: { 'message-id': id } }, 'user-variables': { rowhouse_id: ours } },
      wrong ? 'another key' : 'signing-key',
    ),
  resend: (id, ours, wrong) =>
    resendSigner(wrong ? randomBytes(24) : resendKey)(
      json({ type: 'email.delivered', data: { email_id: id, to: [reader], tags: { rowhouse_id: ours } } }),
    ),
  twilio: (id, _ours, wrong) => {
    const fields = { MessageSid: id, MessageStatus: 'delivered' }
    return form(fields, { 'x-twilio-signature': twilioSignature(TWILIO_URL, fields, wrong ? 'other' : TWILIO_TOKEN) })
  },
  vonage: (id, ours, wrong) => {
    const fields = {
      messageId: id,
      status: 'delivered',
      timestamp: `${now()}`,
      ...(ours ? { 'client-ref': ours } : {}),
    }
    return form(signedReceipt(fields, wrong ? 'other' : VONAGE_SECRET), {})
  },
}

const kindOf = (name: string) => (SMS.includes(name) ? 'sms' : 'email')

/** Events of a provider, as it posts them. */
const posted = (server: TestServer, name: string, { headers, body }: PostedEvents) =>
  server.bare(`/v1/send/events/${kindOf(name)}/${name}`, {
    method: 'POST',
    body: new Uint8Array(body),
    headers: headers as Record<string, string>,
  })

/** A message in a state. */
async function message(server: TestServer, name: string, set: string): Promise<string> {
  const id = randomUUID()
  const columns = kindOf(name) === 'sms' ? `country_code, message` : `"from", sub, text, cc`
  const values = kindOf(name) === 'sms' ? `'1', 'Hi'` : `'shop@example.com', 'Hello', 'Hi', '[]'`
  await server.sql(`insert into svc_catalog.svc_outbox (id, kind, "to", ${columns}, next_at)
      values ('${id}', '${kindOf(name)}', '5550100', ${values}, now());
      update svc_catalog.svc_outbox set provider = '${name}', next_at = now() + interval '1 hour', ${set} where id = '${id}'`)
  return id
}

const shown = async (server: TestServer, id: string) => (await server.fetch(`/v1/send/${id}`)).body

interface Events extends TestServer {
  /** A server whose webhook refuses everybody, and how often that was asked. */
  readonly asked: TestServer & { readonly times: () => number }
  /** A server with a fake provider. */
  readonly fake: NotifyServer
}

/** Events of the fake provider. */
const post = (server: TestServer, path: string, events: unknown, proof = 'right') =>
  server.bare(`/v1/send/events/${path}?a=1`, {
    method: 'POST',
    body: JSON.stringify(events),
    headers: { 'x-proof': proof },
  })

/** An event of a provider counts if it is signed. */
const signed =
  (name: string): Case<Events> =>
  async (t, server) => {
    const delivered = DELIVERED[name]!
    const id = await message(server, name, `state = 'sent', provider_id = 'ref-${name}'`)
    const wrong = await posted(server, name, delivered(`ref-${name}`, undefined, true))
    t.match(wrong, { status: 401, body: { code: 'unauthorized' } })
    t.match(await shown(server, id), { state: 'sent', delivery: null })
    const right = await posted(server, name, delivered(`ref-${name}`))
    t.same([right.status, right.body], [200, { events: 1 }])
    t.match(await shown(server, id), { state: 'sent', delivery: 'delivered' })
  }

const CASES: Record<keyof typeof PROMISES, Case<Events>> = {
  'event.states': async (t, { fake }) => {
    const { headers, body } = await fake.send('email', MAIL)
    const seen = async () => (await fake.fetch(headers.get('location') as string)).body
    t.match(await seen(), { provider_id: body.id, delivery: null, delivery_at: null })
    for (const [kind, delivery] of [
      ['deferred', 'deferred'],
      ['delivered', 'delivered'],
      ['deferred', 'delivered'],
      ['bounced', 'bounced'],
      ['delivered', 'bounced'],
      ['complained', 'complained'],
    ] as const) {
      const answer = await post(fake, 'email/first', [{ id: body.id, kind, detail: `it was ${kind}` }])
      t.same([answer.status, answer.body], [200, { events: 1 }])
      t.match(await seen(), { delivery, delivery_detail: `it was ${delivery}`, delivery_at: /^\d{4}-/, state: 'sent' })
    }
  },
  'event.suppresses': async (t, { fake }) => {
    const event = { id: 'none', kind: 'bounced', detail: 'full' }
    await post(fake, 'email/first', [{ ...event, address: 'full@example.com', permanent: false }])
    t.equal((await fake.send('email', { ...MAIL, to: 'full@example.com' })).status, 200)
    await post(fake, 'email/first', [{ ...event, kind: 'complained', address: 'Gone@example.com', permanent: true }])
    const { status, body } = await fake.send('email', { ...MAIL, to: 'gone@example.com' })
    t.match([status, body], [400, { code: 'suppressed' }])
    t.equal(body.message, 'gone@example.com is suppressed: complained: full')
  },
  'event.proof': async (t, { fake }) => {
    const event = [{ id: 'x', kind: 'bounced', detail: '', address: 'kept@example.com', permanent: true }]
    t.match(await post(fake, 'email/first', event, 'wrong'), { status: 401, body: { code: 'unauthorized' } })
    t.same((await fake.fetch('/v1/send/suppressed?search=kept')).body, { suppressed: [] })
  },
  'event.no-route': async (t, { fake }) => {
    for (const path of ['email/second', 'email/nobody', 'storage/disk', 'sms/first'])
      t.match(await post(fake, path, []), { status: 404, body: { code: 'not_found' } }, path)
    t.equal((await fake.bare('/v1/send/events/email/first')).status, 405)
  },
  'event.other': async (t, { fake }) => {
    const answer = await post(fake, 'email/first', [{ id: 'nobody', kind: 'bounced', detail: '' }])
    t.same([answer.status, answer.body], [200, { events: 1 }])
  },
  'event.metric': async (t, { fake }) => {
    const metrics = (await fake.fetch('/metrics')).text
    t.match(metrics, /^rowhouse_notify_events_total\{kind="email",event="bounced"\} 3$/m)
    t.match(metrics, /^rowhouse_notify_events_total\{kind="email",event="deferred"\} 2$/m)
  },
  'event.gateway': async (t, server) => {
    t.match(await posted(server, 'postmark', DELIVERED['postmark']!('nobody')), { status: 200, body: { events: 1 } })
    const other = await server.bare('/v1/send', { headers: { authorization: basic('postmark:pass:word') } })
    t.match(other, { status: 401, body: { code: 'missing-credentials' } })
  },
  'event.webhook': async (t, { asked }) => {
    t.equal((await posted(asked, 'postmark', DELIVERED['postmark']!('nobody'))).status, 200)
    t.equal(asked.times(), 0)
    t.equal((await asked.bare('/v1/send')).status, 401)
    t.equal(asked.times(), 1)
  },
  'event.early': async (t, server) => {
    for (const name of [...EMAIL, 'vonage']) {
      const sending = await message(server, name, `state = 'sending'`)
      await posted(server, name, DELIVERED[name]!('a-reference', sending))
      t.match(await shown(server, sending), { state: 'sending', provider_id: null, delivery: 'delivered' }, name)
    }
  },
  'event.settles': async (t, server) => {
    for (const name of [...EMAIL, 'vonage']) {
      const unknown = await message(server, name, `state = 'unknown', unknown_since = now(), error = 'no answer'`)
      await server.sql(`insert into svc_catalog.svc_outbox_attachment values ('${unknown}', 0, 'a', 'text/plain', 'a')`)
      await posted(server, name, DELIVERED[name]!('a-reference', unknown, true))
      t.match(await shown(server, unknown), { state: 'unknown', delivery: null }, `${name}: signed by another`)
      await posted(server, name, DELIVERED[name]!('a-reference', unknown))
      const settled = { state: 'sent', provider: name, provider_id: 'a-reference', delivery: 'delivered', error: null }
      t.match(await shown(server, unknown), settled, name)
      const { result } =
        await server.sql(`select coalesce(text, message, cc::text) is not null as contents, unknown_since is not null as open,
          sent_at is not null as sent, (select count(*)::int from svc_catalog.svc_outbox_attachment) as files
          from svc_catalog.svc_outbox where id = '${unknown}'`)
      t.same(result?.[1], ['f', 'f', 't', '0'], `${name}: its contents are deleted`)
    }
  },
  'event.recipients': async (t, server) => {
    const outcomes = (...given: readonly (readonly [string, string])[]) =>
      given.map(([address, outcome]) => ({ address, outcome, detail: '' }))
    const refused = ['refused@example.com', 'refused'] as const
    const stored = (state: string, ...given: readonly (readonly [string, string])[]) =>
      message(server, 'postmark', `state = '${state}', recipients = '${JSON.stringify(outcomes(...given))}'`)
    const post = (id: string, kind: 'Delivery' | 'SpamComplaint', address: string) =>
      posted(server, 'postmark', {
        ...DELIVERED['postmark']!('a-reference', id),
        body: json({ RecordType: kind, MessageID: `ref-${id}`, Recipient: address, Metadata: { rowhouse_id: id } }),
      })

    const partly = await stored('unknown', [reader, 'unknown'], refused)
    await post(partly, 'Delivery', reader.toUpperCase())
    const [, no] = outcomes([reader, ''], refused)
    const got = { address: reader, outcome: 'sent', delivery: 'delivered' }
    t.match(await shown(server, partly), { state: 'partly_sent', text: 'Hi', sent_at: /./, recipients: [got, no] })

    const two = await stored('unknown', [reader, 'unknown'], ['other@example.com', 'unknown'])
    await post(two, 'Delivery', reader)
    const open = { address: 'other@example.com', outcome: 'unknown' }
    t.match(await shown(server, two), { state: 'partly_sent', recipients: [got, open] })
    await post(two, 'Delivery', 'other@example.com')
    t.match(await shown(server, two), { state: 'sent', recipients: null, text: null, delivery: 'delivered' })

    const waiting = await stored('queued', [reader, 'unknown'], ['late@example.com', 'postponed'])
    await post(waiting, 'Delivery', reader)
    const late = { address: 'late@example.com', outcome: 'postponed' }
    t.match(await shown(server, waiting), { state: 'queued', text: 'Hi', recipients: [got, late] })

    const sent = await stored('partly_sent', [reader, 'sent'], refused)
    await post(sent, 'SpamComplaint', reader)
    await post(sent, 'Delivery', reader)
    const complained = { ...got, delivery: 'complained' }
    t.match(await shown(server, sent), { state: 'partly_sent', delivery: 'complained', recipients: [complained, no] })
  },
  'event.not-another': async (t, server) => {
    const failed = await message(server, 'another', `state = 'failed'`)
    await posted(server, 'postmark', DELIVERED['postmark']!('a-reference', failed))
    t.match(await shown(server, failed), { state: 'failed', delivery: null })
  },
  'postmark.event': signed('postmark'),
  'sendgrid.event': signed('sendgrid'),
  'mailgun.event': signed('mailgun'),
  'resend.event': signed('resend'),
  'twilio.event': signed('twilio'),
  'vonage.event': signed('vonage'),
}

/** Its promises, with a case for each. */
export const deliveryEvents = area('delivery-events', { promises: PROMISES, pages: PAGES, cases: CASES, start })

async function start(t: Test): Promise<Events> {
  const real = (auth: object, databaseUrl?: string) =>
    testServer(t, {
      notify: true,
      ...(databaseUrl === undefined ? {} : { databaseUrl }),
      providers: {
        email: Object.fromEntries(EMAIL.map((name) => [name, provider(`email/${name}`)])),
        sms: Object.fromEntries(SMS.map((name) => [name, provider(`sms/${name}`)])),
      },
      config: { providers: PROVIDERS, auth },
    })
  const server = await real({ mode: 'gateway' })
  let times = 0
  const url = await listen(t, (_, res) => void res.writeHead(401, { times: ++times }).end())
  const asked = await real({ webhook: { url } }, server.databaseUrl)
  const fake = await notifyServer(t)
  fake.email.extra = {
    events({ headers, query, body }) {
      if (headers['x-proof'] !== 'right' || query['a'] !== '1')
        throw new ServiceError(401, 'unauthorized', 'wrong proof')
      return JSON.parse(body.toString()) as DeliveryEvent[]
    },
  }
  return { ...server, asked: { ...asked, times: () => times }, fake }
}
