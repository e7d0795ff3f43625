import { randomBytes, randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { PostedEvents } from '../../core/host/contracts.js'
import { type DeliveryEvent, type RecipientOutcome, ServiceError } from '../../core/index.js'
import { signedReceipt } from '../kit/fake-apis/vonage.js'
import { twilioSignature } from '../kit/fake-apis/twilio.js'
import { MAIL, notifyServer, type NotifyServer } from '../kit/notify.js'
import { becomes, FAST } from '../kit/notify-steps.js'
import { area, type Case } from '../kit/promises.js'
import { sendError } from '../kit/sender.js'
import { type TestServer, testServer } from '../kit/server.js'
import { basic, mailgunEvent, now, resendSigner, sendgridSigner } from '../kit/signed-events.js'
import { until } from '../kit/until.js'
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
  'event.while-sending':
    'an event that comes while a message is sent is a part of the result, and outweighs what the provider answers',
  'event.lost-claim': 'an event that came before a server was lost keeps its message from being sent again',
  'event.waiting': 'a message that waits for another attempt is not sent again once an event proves that it was sent',
  'event.earlier-attempt':
    'events about an earlier attempt count after another provider, or another attempt, has completed the message',
  'event.kept': 'what events said of a message is kept when it is tried again',
  'event.odd-text': 'an event may have any text',
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
  twilio: (id, ours, wrong) => {
    const fields = { MessageSid: id, MessageStatus: 'delivered' }
    const url = ours === undefined ? TWILIO_URL : `${TWILIO_URL}?rowhouse_id=${ours}`
    const signature = twilioSignature(url, fields, wrong ? 'other' : TWILIO_TOKEN)
    return {
      ...form(fields, { 'x-twilio-signature': signature }),
      query: ours === undefined ? {} : { rowhouse_id: ours },
    }
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
const posted = (server: TestServer, name: string, { headers, query, body }: PostedEvents) =>
  server.bare(
    `/v1/send/events/${kindOf(name)}/${name}?${new URLSearchParams(query as Record<string, string>).toString()}`,
    {
      method: 'POST',
      body: new Uint8Array(body),
      headers: headers as Record<string, string>,
    },
  )

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

/** What the fake provider got, once it has got something. */
async function handed({ email }: NotifyServer) {
  await until('the provider is called', () => email.handed.length > 0)
  return email.handed
}

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
    for (const name of [...EMAIL, ...SMS]) {
      const sending = await message(server, name, `state = 'sending'`)
      await posted(server, name, DELIVERED[name]!('a-reference', sending))
      t.match(await shown(server, sending), { state: 'sending', provider_id: null, delivery: 'delivered' }, name)
    }
  },
  'event.settles': async (t, server) => {
    for (const name of [...EMAIL, ...SMS]) {
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
  'event.while-sending': async (t, { fake }) => {
    fake.email.extra = { ...fake.email.extra, sendsToSome: true }
    const [late, away] = ['late@example.com', 'away@example.com'] as const
    const some = (address: string, outcome: RecipientOutcome['outcome']) => ({ address, outcome, detail: '' })
    const accepted = { id: 'own', detail: '250 ok' }
    const confirmed = {
      state: 'sent',
      provider: 'first',
      provider_id: 'ref',
      attempts: 1,
      text: null,
      recipients: null,
    }
    for (const [kind, answer, expected] of [
      ['delivered', async () => accepted, { state: 'sent', provider_id: 'own', delivery: 'delivered' }],
      ['delivered', sendError('unknown', 'no answer'), confirmed],
      ['deferred', sendError('unknown', 'no answer'), { ...confirmed, delivery: 'deferred' }],
      ['delivered', sendError('refused', 'no'), confirmed],
      ['complained', sendError('refused', 'no'), { ...confirmed, delivery: 'complained' }],
      ['bounced', sendError('refused', 'no'), { state: 'failed', delivery: 'bounced' }],
      ['delivered', async () => ({ ...accepted, recipients: [some(late, 'postponed')] }), confirmed],
      [
        'delivered',
        async () => ({ ...accepted, recipients: [some(late, 'unknown'), some(away, 'refused')] }),
        {
          state: 'partly_sent',
          provider_id: 'own',
          recipients: [{ outcome: 'sent' }, { outcome: 'sent', delivery: 'delivered' }, { outcome: 'refused' }],
        },
      ],
      [
        'bounced',
        async () => ({ ...accepted, recipients: [some(away, 'refused')] }),
        { state: 'partly_sent', recipients: [{ outcome: 'sent' }, { outcome: 'sent', delivery: 'bounced' }, {}] },
      ],
    ] as const)
      for (const queue of [true, false]) {
        fake.email.handed.length = fake.second.handed.length = 0
        const address = late
        fake.email.answers.push(async (message) => {
          const event = { id: 'ref', message: message.id, kind, detail: 'said so', address }
          // The same event may come twice.
          for (const events of [[event], [event, event]]) t.equal((await post(fake, 'email/first', events)).status, 200)
          return answer()
        })
        const { status } = await fake.send('email', { ...MAIL, cc: [late, away], queue })
        const [message] = fake.email.handed.length > 0 ? fake.email.handed : await handed(fake)
        await becomes(fake, message!.id, expected.state)
        const name = `${kind}, ${queue ? 'queued' : 'synchronous'}, then ${JSON.stringify(expected)}`
        t.match(await shown(fake, message!.id), { delivery: kind, ...expected }, name)
        t.equal(status, !queue && expected.state === 'failed' ? 500 : 200, name)
        t.same([fake.email.handed.length, fake.second.handed.length], [1, 0], name)
      }
  },
  'event.lost-claim': async (t, { fake }) => {
    fake.email.handed.length = fake.second.handed.length = 0
    const [a, b] = ['5550100', 'b@example.com']
    const delivered = (message: string, address: string) => ({
      id: 'ref',
      message,
      kind: 'delivered',
      detail: '',
      address,
    })
    const lost = (id: string) => fake.sql(`update svc_catalog.svc_outbox set next_at = now() where id = '${id}'`)
    for (const mode of ['queue', 'sync']) {
      const id = await message(fake, 'first', `state = 'sending', attempts = 1, mode = '${mode}'`)
      await post(fake, 'email/first', [delivered(id, a)])
      await lost(id)
      await becomes(fake, id, 'sent')
      t.match(await shown(fake, id), { provider: 'first', provider_id: 'ref', delivery: 'delivered' }, mode)
    }
    const outcomes = JSON.stringify([a, b].map((address) => ({ address, outcome: 'postponed', detail: '' })))
    const id = await message(
      fake,
      'first',
      `state = 'sending', cc = '["${b}"]', recipients = '${outcomes}', at_most_once = true`,
    )
    await post(fake, 'email/first', [delivered(id, b)])
    await lost(id)
    await becomes(fake, id, 'partly_sent')
    t.match(await shown(fake, id), { recipients: [{ outcome: 'unknown' }, { outcome: 'sent', delivery: 'delivered' }] })
    t.same([...fake.email.handed, ...fake.second.handed], [])
  },
  'event.waiting': async (t, server) => {
    for (const [set, kind, state] of [
      [`unknown_since = now()`, 'Delivery', 'sent'],
      [`unknown_since = now()`, 'Bounce', 'sent'],
      [`error = 'not now'`, 'Delivery', 'sent'],
      [`error = 'not now'`, 'Bounce', 'queued'],
      [`claims = 1`, 'Delivery', 'sent'],
    ] as const) {
      const id = await message(server, 'postmark', `state = 'queued', ${set}`)
      await server.sql(`update svc_catalog.svc_outbox set provider = null where id = '${id}' and claims = 1`)
      const { headers } = DELIVERED['postmark']!('')
      const event = { RecordType: kind, Type: 'SoftBounce', MessageID: 'ref', Metadata: { rowhouse_id: id } }
      await posted(server, 'postmark', { headers, query: {}, body: json(event) })
      const name = `${set}, ${kind}`
      t.match(await shown(server, id), { state, delivery: kind === 'Bounce' ? 'bounced' : 'delivered' }, name)
    }
  },
  'event.earlier-attempt': async (t, { fake }) => {
    fake.email.handed.length = fake.second.handed.length = 0
    fake.second.extra = { sendsToSome: true }
    const late = { address: 'late@example.com', outcome: 'postponed', detail: '' } as const
    const event = { id: 'first-part', kind: 'bounced', detail: 'full', address: 'reader@example.com' }
    const partly = async () => {
      fake.email.answers.push(async () => ({ id: 'first-part', detail: '250 ok', recipients: [late] }))
      const { headers } = await fake.send('email', { ...MAIL, cc: late.address })
      return headers.get('location')!.split('/').at(-1)!
    }
    for (const rest of [[], [sendError('retry', 'not now'), sendError('retry', 'not now')]]) {
      const id = await partly()
      t.match(await shown(fake, id), { state: 'partly_sent', provider: 'first', provider_id: 'first-part' })
      fake.email.answers.push(...rest)
      fake.second.answers.push(...rest.slice(1))
      t.equal((await fake.send(`${id}/retry`, {})).status, 200)
      await becomes(fake, id, 'sent')
      const done = await shown(fake, id)
      t.not(done.provider_id, 'first-part')
      await post(fake, 'email/first', [event])
      t.match(await shown(fake, id), { state: 'sent', delivery: 'bounced', delivery_detail: 'full' }, done.provider)
      await fake.sql(`delete from svc_catalog.svc_outbox where id = '${id}'`)
    }
    fake.email.answers.push(async () => ({ id: 'first-part', detail: '250 ok', recipients: [late] }))
    fake.email.answers.push(sendError('retry', 'not now', { recipients: [late] }))
    const { body } = await fake.send('email', { ...MAIL, cc: late.address, queue: true })
    await becomes(fake, body.id, 'sent')
    t.match(await shown(fake, body.id), { provider: 'second' }, 'another provider has completed it')
    await post(fake, 'email/first', [{ ...event, id: 'other', message: body.id }])
    t.match(await shown(fake, body.id), { state: 'sent', delivery: 'bounced' }, 'an event with our id')
    fake.second.extra = {}
  },
  'event.kept': async (t, { fake }) => {
    const refused = { address: 'away@example.com', outcome: 'refused', detail: '' } as const
    fake.email.answers.push(async () => ({ id: 'kept', detail: '250 ok', recipients: [refused] }))
    const { headers } = await fake.send('email', { ...MAIL, cc: refused.address })
    const id = headers.get('location')!.split('/').at(-1)!
    const bounced = { id: 'kept', kind: 'bounced', detail: 'full' }
    await post(fake, 'email/first', [
      { ...bounced, address: 'reader@example.com' },
      { ...bounced, address: refused.address },
    ])
    fake.email.answers.push(async () => ({ id: 'again', detail: '250 ok', recipients: [refused] }))
    t.equal((await fake.send(`${id}/retry`, {})).status, 200)
    await becomes(fake, id, 'partly_sent')
    t.match(await shown(fake, id), {
      delivery: 'bounced',
      recipients: [{ delivery: 'bounced' }, { outcome: 'refused' }],
    })
    t.equal((await shown(fake, id)).recipients[1].delivery, undefined, 'except of those who are tried again')
    t.equal((await fake.send(`${id}/retry`, {})).status, 200)
    await becomes(fake, id, 'sent')
    t.match(await shown(fake, id), { delivery: 'bounced', delivery_detail: 'full', recipients: null })
  },
  'event.odd-text': async (t, { fake }) => {
    const odd = 'a\u0000b\ud800'
    const { body, headers } = await fake.send('email', MAIL)
    const event = { id: body.id, kind: 'delivered', detail: odd, address: odd }
    t.equal((await post(fake, 'email/first', [event, { ...event, id: odd }])).status, 200)
    t.match(await shown(fake, headers.get('location')!.split('/').at(-1)!), { delivery_detail: 'a\ufffdb\ufffd' })
    fake.email.answers.push(async ({ id }) => {
      t.equal((await post(fake, 'email/first', [{ ...event, message: id }])).status, 200)
      return { id: 'odd', detail: 'ok' }
    })
    t.equal((await fake.send('email', MAIL)).status, 200)
    const lasting = { ...event, kind: 'bounced', permanent: true }
    t.equal((await post(fake, 'email/first', [lasting, { ...lasting, address: 'İ@example.com' }])).status, 200)
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
  const fake = await notifyServer(t, { ...FAST, email: { failover: ['second'] }, breaker: { failures: 1000 } })
  fake.email.extra = {
    events({ headers, query, body }) {
      if (headers['x-proof'] !== 'right' || query['a'] !== '1')
        throw new ServiceError(401, 'unauthorized', 'wrong proof')
      return JSON.parse(body.toString()) as DeliveryEvent[]
    },
  }
  return { ...server, asked: { ...asked, times: () => times }, fake }
}
