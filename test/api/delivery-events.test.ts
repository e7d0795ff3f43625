import { randomBytes, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import tap, { type Test } from 'tap'
import type { PostedEvents } from '../../core/contracts.js'
import { signedReceipt } from '../kit/fake-apis/vonage.js'
import { twilioSignature } from '../kit/fake-apis/twilio.js'
import { type TestServer, testServer } from '../kit/server.js'
import { basic, mailgunEvent, now, resendSigner, sendgridSigner } from '../kit/signed-events.js'

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

/** `delivered` of a message by its reference, and by our id where there is one, as each posts it; `wrong`: as nobody would sign it. */
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

const start = (t: Test, auth: object = {}) =>
  testServer(t, {
    notify: true,
    providers: {
      email: Object.fromEntries(EMAIL.map((name) => [name, provider(`email/${name}`)])),
      sms: Object.fromEntries(SMS.map((name) => [name, provider(`sms/${name}`)])),
    },
    config: { providers: PROVIDERS, auth },
  })

const kindOf = (name: string) => (SMS.includes(name) ? 'sms' : 'email')

const post = (server: TestServer, name: string, { headers, body }: PostedEvents) =>
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
  await server.must('run_sql', {
    sql: `insert into svc_catalog.svc_outbox (id, kind, "to", ${columns}, next_at)
      values ('${id}', '${kindOf(name)}', '5550100', ${values}, now());
      update svc_catalog.svc_outbox set provider = '${name}', next_at = now() + interval '1 hour', ${set} where id = '${id}'`,
  })
  return id
}

const shown = async (server: TestServer, id: string) => (await server.fetch(`/v1/send/${id}`)).body

const GATEWAY = { mode: 'gateway', gatewaySecret: 'the secret of a gateway, 32 characters.' }

for (const [mode, auth] of Object.entries({ direct: {}, gateway: GATEWAY })) {
  tap.test(`what providers post arrives in the mode ${mode}`, async (t) => {
    const server = await start(t, auth)
    for (const [name, delivered] of Object.entries(DELIVERED)) {
      const id = await message(server, name, `state = 'sent', provider_id = 'ref-${name}'`)
      const wrong = await post(server, name, delivered(`ref-${name}`, undefined, true))
      t.match(wrong, { status: 401, body: { code: 'unauthorized' } }, `${name}: signed by another`)
      t.match(await shown(server, id), { state: 'sent', delivery: null })

      const right = await post(server, name, delivered(`ref-${name}`))
      t.match(right, { status: 200, body: { events: 1 } }, name)
      t.match(await shown(server, id), { state: 'sent', delivery: 'delivered' }, name)
    }
    const other = await server.bare('/v1/send', { headers: { authorization: basic('postmark:pass:word') } })
    t.equal(other.status, mode === 'gateway' ? 401 : 400, 'all else still asks who it is')
  })
}

tap.test('the webhook that knows callers is not asked about events', async (t) => {
  let asked = 0
  const webhook = createServer((_, res) => void res.writeHead(401, { asked: ++asked }).end())
  await new Promise<void>((resolve) => void webhook.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void webhook.close())
  const { port } = webhook.address() as AddressInfo
  const server = await start(t, { webhook: { url: `http://127.0.0.1:${port}/` } })

  t.match(await post(server, 'postmark', DELIVERED['postmark']!('nobody')), { status: 200 })
  t.equal(asked, 0)
  t.match(await server.bare('/v1/send'), { status: 401 })
  t.equal(asked, 1)
})

tap.test('an event that comes before its message is known to be sent is not lost', async (t) => {
  const server = await start(t)
  for (const name of [...EMAIL, 'vonage']) {
    const posted = (id: string) => DELIVERED[name]!('a-reference', id)
    const sending = await message(server, name, `state = 'sending'`)
    await post(server, name, posted(sending))
    t.match(await shown(server, sending), { state: 'sending', provider_id: null, delivery: 'delivered' }, name)

    const unknown = await message(server, name, `state = 'unknown', unknown_since = now(), error = 'no answer'`)
    await server.must('run_sql', {
      sql: `insert into svc_catalog.svc_outbox_attachment values ('${unknown}', 0, 'a', 'text/plain', 'a')`,
    })
    await post(server, name, DELIVERED[name]!('a-reference', unknown, true))
    t.match(await shown(server, unknown), { state: 'unknown', delivery: null }, `${name}: signed by another`)
    await post(server, name, posted(unknown))
    const settled = { state: 'sent', provider: name, provider_id: 'a-reference', delivery: 'delivered', error: null }
    t.match(await shown(server, unknown), settled, name)
    const { result } = await server.must('run_sql', {
      sql: `select coalesce(text, message, cc::text) is not null as contents, unknown_since is not null as open,
        sent_at is not null as sent, (select count(*)::int from svc_catalog.svc_outbox_attachment) as files
        from svc_catalog.svc_outbox where id = '${unknown}'`,
    })
    t.same(result?.[1], ['f', 'f', 't', '0'], `${name}: its contents are deleted`)

    const failed = await message(server, 'another', `state = 'failed', kind = '${kindOf(name)}'`)
    await post(server, name, posted(failed))
    t.match(await shown(server, failed), { state: 'failed', delivery: null }, `${name}: one of another provider`)
  }
})
