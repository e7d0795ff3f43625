import { randomBytes } from 'node:crypto'
import tap, { type Test } from 'tap'
import type { EmailSender, PostedEvents } from '../../core/host/contracts.js'
import { makeProvider } from '../kit/provider.js'
import {
  basic,
  mailgunEvent,
  now,
  resendSignature,
  resendSigner,
  sendgridSigner,
  type Sign,
} from '../kit/signed-events.js'

const UNAUTHORIZED = { name: 'ServiceError', status: 401, code: 'unauthorized' }
const INVALID = { name: 'ServiceError', status: 400, code: 'invalid_payload' }
const MINUTE = 60

const reader = 'reader@example.com'
const ours = '3f0c9d5e-8f43-4a7c-9d5b-1f5a0e5c7a11'

async function reads(t: Test, sender: EmailSender, posted: PostedEvents, expected: readonly object[], about: string) {
  t.strictSame(await sender.events?.(posted), expected, about)
}
const refuses = (t: Test, sender: EmailSender, posted: PostedEvents, error: typeof INVALID, about: string) =>
  t.rejects(async () => sender.events?.(posted), error, about)

/** The same for all: what is wrong is refused before anybody looks into it. */
async function keepsOut(t: Test, sender: EmailSender, signed: Sign, event: object) {
  const body = Buffer.from(JSON.stringify(event))
  await refuses(t, sender, { headers: {}, query: {}, body: Buffer.from('{}') }, UNAUTHORIZED, 'nothing is signed')
  await refuses(t, sender, { headers: {}, query: {}, body }, UNAUTHORIZED, 'no header')
  for (const text of ['', 'no JSON', '"text"', 'null', '7'])
    await refuses(t, sender, signed(Buffer.from(text)), INVALID, `signed, and ${text}`)
}

tap.test('sendgrid', async (t) => {
  const { verificationKey, signed } = sendgridSigner()
  const sender = await makeProvider('email', 'sendgrid', { apiKey: 'x', verificationKey })
  const about = { sg_message_id: 'Yb8HzP5_Si.recvd-6b8c-1-A-0', email: reader, timestamp: now(), rowhouse_id: 'x' }
  const from = { id: 'Yb8HzP5_Si', address: reader }
  const events: readonly (readonly [object, object?])[] = [
    [
      { event: 'delivered', response: '250 OK\r\nthanks' },
      { kind: 'delivered', detail: '250 OK thanks' },
    ],
    [
      { event: 'deferred', response: '400 try again later', attempt: '5' },
      { kind: 'deferred', detail: '400 try again later' },
    ],
    [
      { event: 'bounce', type: 'bounce', reason: '500 unknown recipient', status: '5.0.0' },
      { kind: 'bounced', permanent: true, detail: '500 unknown recipient' },
    ],
    [
      { event: 'bounce', type: 'blocked', reason: '550 listed' },
      { kind: 'bounced', detail: '550 listed' },
    ],
    [
      { event: 'dropped', reason: 'Bounced Address' },
      { kind: 'bounced', permanent: true, detail: 'Bounced Address' },
    ],
    [
      { event: 'dropped', reason: 'Recipient List over Package Quota' },
      { kind: 'bounced', detail: 'Recipient List over Package Quota' },
    ],
    [{ event: 'spamreport' }, { kind: 'complained', permanent: true, detail: '' }],
    [{ event: 'processed' }],
    [{ event: 'open' }],
    [{ event: 'group_unsubscribe' }],
    [{}],
  ]
  for (const [event, expected] of events) {
    const body = Buffer.from(JSON.stringify([{ ...about, ...event }]))
    await reads(t, sender, signed(body), expected ? [{ ...from, ...expected }] : [], JSON.stringify(event))
  }
  const all = Buffer.from(JSON.stringify([...events.map(([event]) => ({ ...about, ...event })), null, 'x', {}]))
  t.equal((await sender.events?.(signed(all)))?.length, 7, 'a list of several')
  const known = Buffer.from(JSON.stringify([{ ...about, rowhouse_id: ours, event: 'delivered' }]))
  await reads(t, sender, signed(known), [{ ...from, message: ours, kind: 'delivered', detail: '' }], 'our id')

  await keepsOut(t, sender, signed, [])
  const posted = signed(all)
  await refuses(t, sender, { ...posted, body: Buffer.from('[]') }, UNAUTHORIZED, 'another body')
  await refuses(t, sender, signed(all, now() - 26 * 60 * MINUTE), UNAUTHORIZED, 'of the day before yesterday')
  const other = { ...posted.headers, 'x-twilio-email-event-webhook-timestamp': `${now() - 1}` }
  await refuses(t, sender, { ...posted, headers: other }, UNAUTHORIZED, 'another time')
  const garbage = { ...posted.headers, 'x-twilio-email-event-webhook-signature': 'garbage' }
  await refuses(t, sender, { ...posted, headers: garbage }, UNAUTHORIZED, 'garbage')
  await t.rejects(
    makeProvider('email', 'sendgrid', { apiKey: 'x', verificationKey: 'x' }),
    /is not the verification key/,
  )
})

tap.test('sendgrid: a signature that its libraries are tested with', async (t) => {
  const verificationKey =
    'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA=='
  const sender = await makeProvider('email', 'sendgrid', { apiKey: 'x', verificationKey })
  const headers = {
    'x-twilio-email-event-webhook-timestamp': '1588788367',
    'x-twilio-email-event-webhook-signature':
      'MEUCIQCtIHJeH93Y+qpYeWrySphQgpNGNr/U+UyUlBkU6n7RAwIgJTz2C+8a8xonZGi6BpSzoQsbVRamr2nlxFDWYNH2j/0=',
  }
  const body = Buffer.from('{"category":"example_payload","event":"test_event","message_id":"message_id"}')
  const { now } = Date
  Date.now = () => 1_588_788_400_000
  t.teardown(() => (Date.now = now))

  await refuses(t, sender, { headers, query: {}, body }, INVALID, 'it is signed, and no list')
  await refuses(t, sender, { headers, query: {}, body: body.subarray(1) }, UNAUTHORIZED, 'another body')
})

tap.test('postmark', async (t) => {
  const webhook = { username: 'rowhouse', password: 'pass:wörd' }
  const sender = await makeProvider('email', 'postmark', { serverToken: 'x', webhook })
  const signed: Sign = (body) => ({ headers: { authorization: basic('rowhouse:pass:wörd') }, query: {}, body })
  const about = { MessageID: '883953f4-6105-42a2-a16a-77a8eac79483', MessageStream: 'outbound' }
  const from = { id: about.MessageID, address: reader }
  const bounce = { RecordType: 'Bounce', Email: reader, Details: 'smtp;550 5.1.1', Description: 'The server' }
  const events: readonly (readonly [object, object?])[] = [
    [
      { RecordType: 'Delivery', Recipient: reader, Details: 'Test delivery webhook details' },
      { kind: 'delivered', detail: 'Test delivery webhook details' },
    ],
    [
      { ...bounce, Type: 'HardBounce', Inactive: true },
      { kind: 'bounced', permanent: true, detail: 'smtp;550 5.1.1' },
    ],
    [
      { ...bounce, Type: 'HardBounce' },
      { kind: 'bounced', permanent: true, detail: 'smtp;550 5.1.1' },
    ],
    [
      { ...bounce, Type: 'Blocked', Inactive: true },
      { kind: 'bounced', permanent: true, detail: 'smtp;550 5.1.1' },
    ],
    [
      { ...bounce, Type: 'SoftBounce', Inactive: false, Details: '' },
      { kind: 'bounced', detail: 'The server' },
    ],
    [
      { ...bounce, Type: 'Transient', Inactive: false },
      { kind: 'deferred', detail: 'smtp;550 5.1.1' },
    ],
    [{ ...bounce, Type: 'AutoResponder' }],
    [
      { RecordType: 'SpamComplaint', Type: 'SpamComplaint', Email: reader, Details: 'abuse' },
      { kind: 'complained', permanent: true, detail: 'abuse' },
    ],
    [{ RecordType: 'Open', Recipient: reader }],
    [{ RecordType: 'SubscriptionChange', Recipient: reader }],
    [{ ...bounce, MessageID: undefined }],
  ]
  for (const [event, expected] of events) {
    const body = Buffer.from(JSON.stringify({ ...about, ...event }))
    await reads(t, sender, signed(body), expected ? [{ ...from, ...expected }] : [], JSON.stringify(event))
  }
  for (const [Metadata, message] of [
    [{ rowhouse_id: ours }, { message: ours }],
    [{ rowhouse_id: 'another' }, {}],
  ]) {
    const body = Buffer.from(JSON.stringify({ ...about, RecordType: 'Delivery', Recipient: reader, Metadata }))
    await reads(t, sender, signed(body), [{ ...from, ...message, kind: 'delivered', detail: '' }], 'our id')
  }
  await keepsOut(t, sender, signed, {})
  await refuses(t, sender, signed(Buffer.from('{}')), INVALID, 'an object of something else')
  for (const wrong of ['rowhouse:', 'rowhouse:pass', 'other:pass:wörd', '']) {
    const posted = { headers: { authorization: basic(wrong) }, query: {}, body: Buffer.from('{}') }
    await refuses(t, sender, posted, UNAUTHORIZED, wrong)
  }
})

tap.test('mailgun', async (t) => {
  const signingKey = 'signing-key'
  const settings = { apiKey: 'x', domain: 'mg.example.com', signingKey }
  const sender = await makeProvider('email', 'mailgun', settings)
  const post = (event: unknown, seconds?: number | string, token?: string, key = signingKey) =>
    mailgunEvent(event, key, seconds, token)
  const about = { message: { headers: { 'message-id': '2026.1.0DF@mg.example.com' } }, recipient: reader }
  const from = { id: '2026.1.0DF@mg.example.com', address: reader }
  const said = (code: number, message: string) => ({ 'delivery-status': { code, message, description: 'described' } })
  const events: readonly (readonly [object, object?])[] = [
    [
      { event: 'delivered', ...said(250, 'OK') },
      { kind: 'delivered', detail: 'OK' },
    ],
    [
      { event: 'failed', severity: 'temporary', reason: 'generic', ...said(451, '') },
      { kind: 'deferred', detail: 'described' },
    ],
    [
      { event: 'failed', severity: 'permanent', reason: 'bounce', ...said(550, '5.1.1 unknown') },
      { kind: 'bounced', permanent: true, detail: '5.1.1 unknown' },
    ],
    [
      { event: 'failed', severity: 'permanent', reason: 'suppress-bounce' },
      { kind: 'bounced', permanent: true, detail: 'suppress-bounce' },
    ],
    [
      { event: 'failed', severity: 'permanent', reason: 'old' },
      { kind: 'bounced', detail: 'old' },
    ],
    [
      { event: 'rejected', reject: { reason: 'Sandbox subdomains are for test purposes only.' } },
      { kind: 'bounced', detail: 'Sandbox subdomains are for test purposes only.' },
    ],
    [{ event: 'complained' }, { kind: 'complained', permanent: true, detail: '' }],
    [{ event: 'opened' }],
    [{ event: 'failed', message: {} }],
  ]
  for (const [event, expected] of events)
    await reads(
      t,
      sender,
      post({ ...about, ...event }),
      expected ? [{ ...from, ...expected }] : [],
      JSON.stringify(event),
    )
  const delivered = { ...about, event: 'delivered' }
  const known = post({ ...delivered, 'user-variables': { rowhouse_id: ours } })
  await reads(t, sender, known, [{ ...from, message: ours, kind: 'delivered', detail: '' }], 'our id')
  t.equal(
    (await sender.events?.(post({ ...delivered, message: { headers: { 'message-id': '<a@b>' } } })))?.[0]?.id,
    'a@b',
  )

  await refuses(t, sender, post(delivered, now() - 16 * MINUTE), UNAUTHORIZED, 'older than 15 minutes')
  await refuses(t, sender, post(delivered, now() + 16 * MINUTE), UNAUTHORIZED, 'of a time to come')
  await refuses(t, sender, post(delivered, 'soon'), UNAUTHORIZED, 'of no time')
  await refuses(t, sender, post(delivered, ''), UNAUTHORIZED, 'without a time')
  await refuses(t, sender, post(delivered, now(), 'fresh', 'another key'), UNAUTHORIZED, 'signed with another key')
  const once = post(delivered, now(), 'token')
  t.equal((await sender.events?.(once))?.length, 1)
  t.equal((await sender.events?.(once))?.length, 1, 'the same again')
  await refuses(
    t,
    sender,
    post({ ...about, event: 'complained' }, now(), 'token'),
    UNAUTHORIZED,
    'a token on another body',
  )
  for (const text of [
    '{}',
    '[]',
    'null',
    '{"signature": {}}',
    '{"signature": {"timestamp": 1, "token": 2, "signature": 3}}',
  ])
    await refuses(t, sender, { ...once, body: Buffer.from(text) }, UNAUTHORIZED, text)
  await refuses(t, sender, { ...once, body: Buffer.from('no JSON') }, INVALID, 'no JSON')
  const tampered = once.body.toString().replace(/"signature":"./, '"signature":"-')
  await refuses(t, sender, { ...once, body: Buffer.from(tampered) }, UNAUTHORIZED, 'another signature')
})

tap.test('resend', async (t) => {
  const key = randomBytes(24)
  const sender = await makeProvider('email', 'resend', {
    apiKey: 'x',
    webhookSecret: `whsec_${key.toString('base64')}`,
  })
  const signed = resendSigner(key)
  const data = {
    email_id: '56761188-7520-42d8-8898-ff6fc54ce618',
    from: 'shop@example.org',
    to: [reader],
    subject: 'x',
  }
  const from = { id: data.email_id, address: reader }
  const bounce = (type: string) => ({ bounce: { type, subType: 'General', message: 'The mailbox is full' } })
  const events: readonly (readonly [string, object, object?])[] = [
    ['email.delivered', {}, { kind: 'delivered', detail: '' }],
    ['email.delivery_delayed', {}, { kind: 'deferred', detail: '' }],
    ['email.bounced', bounce('Permanent'), { kind: 'bounced', permanent: true, detail: 'The mailbox is full' }],
    ['email.bounced', bounce('Transient'), { kind: 'bounced', detail: 'The mailbox is full' }],
    ['email.bounced', {}, { kind: 'bounced', detail: '' }],
    ['email.suppressed', { suppressed: { message: 'listed' } }, { kind: 'bounced', permanent: true, detail: 'listed' }],
    ['email.failed', { failed: { reason: 'quota' } }, { kind: 'bounced', detail: 'quota' }],
    ['email.complained', {}, { kind: 'complained', permanent: true, detail: '' }],
    ['email.sent', {}],
    ['email.opened', {}],
    ['contact.created', {}],
    ['email.bounced', { email_id: 7 }],
  ]
  for (const [type, more, expected] of events) {
    const body = Buffer.from(
      JSON.stringify({ type, created_at: '2026-11-22T23:41:12.126Z', data: { ...data, ...more } }),
    )
    await reads(t, sender, signed(body), expected ? [{ ...from, ...expected }] : [], `${type} ${JSON.stringify(more)}`)
  }
  for (const tags of [
    { rowhouse_id: ours },
    [
      { name: 'other', value: 'x' },
      { name: 'rowhouse_id', value: ours },
    ],
  ]) {
    const body = Buffer.from(JSON.stringify({ type: 'email.delivered', data: { ...data, tags } }))
    await reads(t, sender, signed(body), [{ ...from, message: ours, kind: 'delivered', detail: '' }], 'our id')
  }
  const two = Buffer.from(JSON.stringify({ type: 'email.bounced', data: { ...data, to: [reader, 'b@example.com'] } }))
  await reads(t, sender, signed(two), [{ id: from.id, kind: 'bounced', detail: '' }], 'of a mail to two')

  await keepsOut(t, sender, signed, {})
  await refuses(t, sender, signed(Buffer.from('{}')), INVALID, 'an object of something else')
  await refuses(t, sender, signed(two, now() - 6 * MINUTE), UNAUTHORIZED, 'older than 5 minutes')
  await refuses(t, sender, signed(two, now() + 6 * MINUTE), UNAUTHORIZED, 'of a time to come')
  await refuses(t, sender, { ...signed(two), body: Buffer.from('{}') }, UNAUTHORIZED, 'another body')
  const other = { ...signed(two).headers, 'svix-signature': resendSignature(Buffer.from('other'), now(), two) }
  await refuses(t, sender, { ...signed(two), headers: other }, UNAUTHORIZED, 'another secret')
  const named = { ...signed(two).headers, 'svix-id': 'msg_2' }
  await refuses(t, sender, { ...signed(two), headers: named }, UNAUTHORIZED, 'another id')
  for (const webhookSecret of ['whsec_', '$$$', 'whsec_c2hvcnQ='])
    await t.rejects(makeProvider('email', 'resend', { apiKey: 'x', webhookSecret }), /is not the signing secret/)
})
