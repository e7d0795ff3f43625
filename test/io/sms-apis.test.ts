import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { builtins } from '../../core/cli/builtins.js'
import { type PostedEvents, SendError, type Sms, type SmsSender } from '../../core/host/contracts.js'
import { loadAll } from '../../core/host/load.js'
import { createProviders } from '../../core/host/providers.js'
import { type Answer, type Asked, type Fault, faultyServer, type FaultyServer } from '../kit/fake-apis/faulty-server.js'
import { fakeGateway } from '../kit/fake-apis/gateway.js'
import * as twilio from '../kit/fake-apis/twilio.js'
import * as vonage from '../kit/fake-apis/vonage.js'
import { patience } from '../kit/patience.js'

/** Longer than what an answer or an error shows, so that a part of it would be seen. */
const SECRET = 'planted-secret-0123456789'
const ACCOUNT_SID = `AC${'0a'.repeat(16)}`
const SERVICE_SID = `MG${'0b'.repeat(16)}`
/** Long enough for a request to arrive. */
const HASTY_MS = patience(1_000)
const HELLO = 'Hello, wörld 👋'

interface Tried {
  readonly outcome: string
  readonly error: SendError
}

/** A provider as a server makes it of its configuration file. */
async function configured(t: Test, name: string, settings: object, env: Record<string, string> = {}) {
  return fromScript(t, `export default ${JSON.stringify({ providers: { sms: { [name]: settings } } })}`, env)
}

async function fromScript(t: Test, script: string, env: Record<string, string> = {}): Promise<SmsSender> {
  const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-sms-'))
  t.teardown(() => rm(cwd, { recursive: true }))
  await writeFile(join(cwd, 'package.json'), '{"type": "module"}')
  await writeFile(join(cwd, 'rowhouse.config.js'), script)
  const { loaded } = await loadAll({ sections: {}, env, cwd, builtins: { ...builtins(), plugins: {} } })
  const log = pino({ level: 'silent' })
  const providers = createProviders(loaded.providers, { log, timeoutMs: 60_000, dataDir: cwd })
  t.teardown(() => providers.close())
  return providers.get('sms')
}

const sms = (message = HELLO): Sms => ({ id: randomUUID(), to: '2025550100', countryCode: '1', message })
const soon = () => AbortSignal.timeout(patience(60_000))

/** What comes of one message. */
async function attempt(t: Test, provider: SmsSender, message = sms()): Promise<Tried> {
  try {
    await provider.send(message, soon())
  } catch (error) {
    if (!(error instanceof SendError)) throw error
    noSecret(t, error)
    return { outcome: error.outcome, error }
  }
  throw new Error('it was sent')
}

/** Walks all that an error holds, whatever can be listed or not. */
function noSecret(t: Test, error: unknown): void {
  const forms = [SECRET, ...['a-key', ACCOUNT_SID].map((id) => Buffer.from(`${id}:${SECRET}`).toString('base64'))]
  const text = inspect(error, { depth: 50, showHidden: true, maxArrayLength: null, maxStringLength: null })
  for (const form of forms) if (text.includes(form)) t.fail(`a secret is in the error: ${text.slice(0, 2000)}`)
}

/**
 * What every provider does when its API fails.
 * @param hasty the same provider, which does not wait long
 */
async function faults(t: Test, server: FaultyServer, provider: SmsSender, hasty: SmsSender): Promise<void> {
  const html = { status: 200, body: '<html>Welcome</html>', headers: { 'content-type': 'text/html' } }
  const answer = (status: number, body: string, headers = {}): Fault => ({
    kind: 'answer',
    answer: { status, body, headers },
  })
  const cases: Readonly<Record<string, readonly [Fault, string, number]>> = {
    'an answer that does not come': [{ kind: 'hang' }, 'unknown', 1],
    'an answer that does not end': [{ kind: 'drip' }, 'unknown', 1],
    'a connection lost after the request': [{ kind: 'lost' }, 'unknown', 1],
    'a connection lost before the request was read': [{ kind: 'unread' }, 'unknown', 0],
    'a page in place of an answer': [{ kind: 'answer', answer: html }, 'unknown', 1],
    'an empty answer': [answer(200, ''), 'unknown', 1],
    'an answer of another form': [answer(200, '{"messages": [null], "sid": 7}'), 'unknown', 1],
    'an answer that is a list': [answer(200, '[1, "x"]'), 'unknown', 1],
    'an answer that is too long': [answer(200, ' '.repeat(2 * 1024 * 1024)), 'unknown', 1],
    'a redirect': [answer(307, '', { location: `${server.url}/elsewhere` }), 'unknown', 1],
    'an error (500)': [answer(500, `we broke on ${SECRET}`), 'retry', 1],
    'no gateway (502)': [answer(502, 'Bad Gateway'), 'unknown', 1],
    'no room (503)': [answer(503, '', { 'retry-after': '7' }), 'retry', 1],
    'no answer behind (504)': [answer(504, ''), 'unknown', 1],
    'too many (429)': [answer(429, '{}', { 'retry-after': '7' }), 'retry', 1],
    'wrong credentials (401)': [answer(401, '{}'), 'retry', 1],
  }
  for (const [name, [fault, outcome, asked]] of Object.entries(cases)) {
    const before = server.asked.length
    server.fault = fault
    const tried = await attempt(t, fault.kind === 'hang' || fault.kind === 'drip' ? hasty : provider)
    t.equal(tried.outcome, outcome, name)
    t.equal(server.asked.length - before, asked, `${name}: asked ${asked} times`)
    if (/\((503|429)\)/.test(name)) t.equal(tried.error.retryAfter, 7, `${name}: says when to ask again`)
    if (/^an? .*answer( |$)/.test(name) && fault.kind === 'answer' && asked === 1 && !/too long/.test(name)) {
      t.equal(tried.error.unreadable, true, `${name}: is unreadable`)
    }
  }
  server.fault = undefined
  await server.close()
  // Its connections would only now learn that they are closed.
  await provider.close?.()
  t.equal((await attempt(t, provider)).outcome, 'retry', 'nothing listens')
}

const outcomeOf = (sending: Promise<unknown>) =>
  sending.then(
    () => 'sent',
    ({ outcome }: SendError) => outcome,
  )

async function aborts(t: Test, server: FaultyServer, provider: SmsSender): Promise<void> {
  const before = server.asked.length
  await t.rejects(provider.send(sms(), AbortSignal.abort()), {
    name: 'SendError',
    outcome: 'retry',
    message: 'the send was cancelled before it started',
  })
  t.equal(server.asked.length, before, 'what nobody waits for is not sent')

  server.fault = { kind: 'hang' }
  const control = new AbortController()
  const sending = provider.send(sms(), control.signal)
  sending.catch(() => {})
  while (server.asked.length === before) await new Promise((resolve) => setTimeout(resolve, 5))
  control.abort()
  t.equal(await outcomeOf(sending), 'unknown', 'what is under way ends, and nobody knows')
  server.fault = undefined
}

const post = (body: string, headers: Record<string, string> = {}): PostedEvents => ({
  headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  query: {},
  body: Buffer.from(body),
})
const form = (fields: Record<string, string>) => new URLSearchParams(fields).toString()
const read = async (provider: SmsSender, posted: PostedEvents) => provider.events!(posted)

const dataUrl = (script: string) => `data:text/javascript,${encodeURIComponent(script)}`

t.test('vonage', async (t) => {
  const account = { apiKey: 'a-key', apiSecret: SECRET }
  const start = async (t: Test, more: object = {}) => {
    const api = await vonage.fakeVonage(t, account)
    const settings = { ...account, from: '12025550123', url: api.url, ...more }
    return { api, provider: await configured(t, 'vonage', settings) }
  }

  t.test('a message arrives as it was written, in as few parts as can be', async (t) => {
    const { api, provider } = await start(t)
    const texts = {
      [vonage.ALPHABET]: 1,
      ['x'.repeat(160)]: 1,
      ['x'.repeat(161)]: 2,
      ['€'.repeat(80)]: 1,
      ['€'.repeat(81)]: 2,
      ['ж'.repeat(70)]: 1,
      ['ж'.repeat(71)]: 2,
      [`${'x'.repeat(69)}ç`]: 1,
      [HELLO]: 1,
      '`': 1,
    }
    for (const [text, parts] of Object.entries(texts)) {
      const message = sms(text)
      const receipt = await provider.send(message, soon())
      const shown = api.shown.at(-1)!
      t.same(shown, { id: receipt.id, to: '12025550100', from: '12025550123', text, parts, reference: message.id })
      t.equal(receipt.detail, `accepted, ${parts} part${parts === 1 ? '' : 's'}, balance 3.14159265`)
    }
    const slash = await configured(t, 'vonage', { ...account, from: 'Us', url: `${api.url}/` })
    await t.resolves(slash.send(sms(), soon()), 'a slash at the end of the address is no other address')
  })

  t.test('what Vonage says of a message decides what is done with it', async (t) => {
    const { api, provider } = await start(t)
    const refused = ['2', '3', '6', '7', '12', '33']
    const retry = ['1', '4', '5', '8', '9', '10', '11', '14', '15', '22', '23', '29', '32', '99']
    for (const [outcome, statuses] of Object.entries({ refused, retry })) {
      for (const status of statuses) {
        api.fault = { kind: 'answer', answer: vonage.failed(status, `because, ${SECRET}`) }
        const { error, ...tried } = await attempt(t, provider)
        t.same(tried, { outcome }, `status ${status}`)
        t.equal(error.limit, status === '12')
        t.equal(error.message, `Vonage answered with status ${status}`)
        t.match(error.response, /because, \*\*\*/)
      }
    }
    api.fault = { kind: 'answer', answer: { status: 422, body: '{"title": "Unprocessable"}' } }
    t.equal((await attempt(t, provider)).outcome, 'retry', 'a status of HTTP says nothing of the message')
    const parts = (...statuses: readonly unknown[]): Fault => ({
      kind: 'answer',
      answer: {
        status: 200,
        body: JSON.stringify({ messages: statuses.map((status) => ({ status, 'message-id': 'A1' })) }),
      },
    })
    const several: readonly (readonly [Fault, string, boolean])[] = [
      [parts('0', '1'), 'unknown', false],
      [parts('1', '1'), 'retry', false],
      [parts('1', '6'), 'refused', false],
      [parts('0', 'x'), 'unknown', true],
      [parts(0), 'unknown', true],
      [parts(), 'unknown', true],
      [{ kind: 'answer', answer: { status: 200, body: '{"messages": [{"status": "0"}]}' } }, 'unknown', true],
      [{ kind: 'answer', answer: { status: 200, body: '{"messages": "sent"}' } }, 'unknown', true],
      [
        { kind: 'answer', answer: { status: 200, body: '{"messages": [{"status": "0", "message-id": ""}]}' } },
        'unknown',
        true,
      ],
    ]
    for (const [fault, outcome, unreadable] of several) {
      api.fault = fault
      const { error } = await attempt(t, provider)
      t.same([error.outcome, error.unreadable], [outcome, unreadable], inspect(fault, { depth: 4 }))
    }
  })

  t.test('its API fails', async (t) => {
    const { api, provider } = await start(t)
    const hasty = { ...account, from: 'Us', url: api.url, timeoutMs: HASTY_MS }
    await faults(t, api, provider, await configured(t, 'vonage', hasty))
  })

  t.test('nobody waits any more', async (t) => {
    const { api, provider } = await start(t)
    await aborts(t, api, provider)
  })

  t.test('a wrong secret is not shown', async (t) => {
    const { api } = await start(t)
    const provider = await configured(t, 'vonage', { apiKey: 'other', apiSecret: SECRET, from: 'Us', url: api.url })
    const { error } = await attempt(t, provider)
    t.match(error, { outcome: 'retry', message: 'Vonage answered with status 4' })
  })

  const RECEIPT = {
    messageId: '0A0000000123ABCD1',
    msisdn: '12025550100',
    to: '12025550123',
    'network-code': '12345',
    price: '0.03330000',
    scts: '2001011400',
    'api-key': 'a-key',
    'client-ref': 'A & B = C',
    nonce: 'aaaaaaaa-bbbb-cccc-dddd-0123456789ab',
  }
  const day = 24 * 60 * 60
  const at = (seconds: number) => String(Math.floor(Date.now() / 1000 + seconds))
  const receipt = (more: object) => ({ ...RECEIPT, timestamp: at(0), ...more })
  const json = (fields: object) => post(JSON.stringify(fields), { 'content-type': 'application/json' })

  t.test('delivery receipts are read when their signature is right', async (t) => {
    t.equal((await start(t)).provider.events, undefined, 'without the secret there is nothing to post to')
    const { provider } = await start(t, { signatureSecret: SECRET })
    const kinds: Readonly<Record<string, string | undefined>> = {
      delivered: 'delivered',
      buffered: 'deferred',
      failed: 'bounced',
      rejected: 'bounced',
      expired: 'bounced',
      accepted: undefined,
      unknown: undefined,
      constructor: undefined,
    }
    for (const [status, kind] of Object.entries(kinds)) {
      const signed = vonage.signedReceipt(receipt({ status, 'err-code': '6' }), SECRET)
      const expected = kind === undefined ? [] : [{ id: RECEIPT.messageId, kind, detail: `${status}, error code 6` }]
      t.same(await read(provider, json(signed)), expected, status)
      t.same(await read(provider, post(form(signed))), expected, `${status}, as a form`)
    }
    const late = vonage.signedReceipt(receipt({ status: 'delivered', timestamp: at(-2.9 * day) }), SECRET)
    t.match(await read(provider, json(late)), [{ kind: 'delivered' }], 'one that Vonage posts for the last time')
    const { provider: strong } = await start(t, { signatureSecret: SECRET, signatureMethod: 'sha512' })
    const fields = receipt({ status: 'delivered' })
    t.match(await read(strong, json(vonage.signedReceipt(fields, SECRET, 'sha512'))), [{ kind: 'delivered' }])
    await t.rejects(read(strong, json(vonage.signedReceipt(fields, SECRET))), { status: 401, code: 'unauthorized' })
  })

  t.test('the id of a receipt is that of the message that was sent', async (t) => {
    const { provider } = await start(t, { signatureSecret: SECRET })
    const { id } = await provider.send(sms(), soon())
    const signed = vonage.signedReceipt(receipt({ messageId: id, status: 'delivered' }), SECRET)
    t.same(await read(provider, json(signed)), [{ id, kind: 'delivered', detail: 'delivered' }])
  })

  t.test('other delivery receipts are refused', async (t) => {
    const { provider } = await start(t, { signatureSecret: SECRET })
    const fields = receipt({ status: 'delivered' })
    const signed = vonage.signedReceipt(fields, SECRET)
    const forged = {
      'not signed': json(fields),
      'another status': json({ ...signed, status: 'failed' }),
      'a field more': json({ ...signed, more: 'x' }),
      'a field less': json((({ nonce, ...rest }) => (nonce ? rest : rest))(signed)),
      'another secret': json(vonage.signedReceipt(fields, `${SECRET}.`)),
      'an empty signature': json({ ...signed, sig: '' }),
      'a short signature': json({ ...signed, sig: signed['sig']!.slice(1) }),
      'too old': json(vonage.signedReceipt(receipt({ status: 'delivered', timestamp: at(-4 * day) }), SECRET)),
      'of the future': json(vonage.signedReceipt(receipt({ status: 'delivered', timestamp: at(4 * day) }), SECRET)),
      'of no time': json(vonage.signedReceipt(receipt({ status: 'delivered', timestamp: 'now' }), SECRET)),
      empty: post(''),
    }
    for (const [name, posted] of Object.entries(forged)) {
      await t.rejects(read(provider, posted), { status: 401, code: 'unauthorized' }, name)
    }
    const unreadable = {
      'no JSON': post('{', { 'content-type': 'application/json' }),
      'a list': json([signed]),
      'a field that is a list': json({ ...signed, status: ['delivered'] }),
      'no status': json(vonage.signedReceipt(receipt({}), SECRET)),
      'no id': json(vonage.signedReceipt(receipt({ status: 'delivered', messageId: '' }), SECRET)),
    }
    for (const [name, posted] of Object.entries(unreadable)) {
      await t.rejects(read(provider, posted), { status: 400, code: 'invalid_payload' }, name)
    }
  })

  t.test('it says which packages are missing, once it is used', async (t) => {
    const hide = `export const resolve = (name, context, next) => {
      if (!name.startsWith('@vonage/')) return next(name, context)
      throw Object.assign(new Error('there is no ' + name), { code: 'ERR_MODULE_NOT_FOUND' })
    }`
    const register = `import { register } from 'node:module'; register(${JSON.stringify(dataUrl(hide))})`
    const provider = new URL('../../providers/sms/vonage.js', import.meta.url)
    const create = `import provider from ${JSON.stringify(provider.href)}
      try { await provider.create({ apiKey: 'a', apiSecret: 'b', from: 'c', url: 'https://example.com' }) }
      catch (error) { console.log(error.message) }`
    const { NODE_OPTIONS: _, ...env } = process.env
    const args = ['--import', dataUrl(register), '--input-type=module', '--eval', create]
    const said = execFileSync(process.execPath, args, { env, encoding: 'utf8' })
    const manifest = await readFile(new URL('../../../package.json', import.meta.url), 'utf8')
    const { optionalDependencies: versions } = JSON.parse(manifest) as Record<string, Record<string, string>>
    const packages = ['@vonage/auth', '@vonage/sms'].map((name) => `${name}@${versions![name]}`)
    t.equal(said, `required packages are not installed: npm install ${packages.join(' ')}\n`)
  })

  t.test('a signature is what the packages of Vonage make of it', async (t) => {
    const { AlgorithmTypes, Auth } = await import('@vonage/auth')
    const { SMS } = await import('@vonage/sms')
    const client = new SMS(new Auth(account))
    for (const [method, type] of [
      ['sha256', AlgorithmTypes.sha256hmac],
      ['sha512', AlgorithmTypes.sha512hmac],
    ] as const) {
      const { sig, ...fields } = vonage.signedReceipt(receipt({ status: 'delivered' }), SECRET, method)
      t.equal(client.verifySignature(sig!, fields, SECRET, type), true, method)
    }
    // Of the tests of Vonage's Python package.
    const { provider } = await start(t, { signatureSecret: 'secret' })
    const sig = 'a321e824b9b816be7c3f28859a31749a098713d39f613c80d455bbaffae1cd24'
    await t.rejects(read(provider, json({ a: '1', b: '2', timestamp: '1461605396', sig })), { message: /too old/ })
  })
})

t.test('twilio', async (t) => {
  const account = { accountSid: ACCOUNT_SID, authToken: SECRET }
  const CALLBACK = 'https://api.example.com/v1/send/events/sms/twilio?a=1&b=2'
  const start = async (t: Test, more: object = { from: '+12025550123' }) => {
    const api = await twilio.fakeTwilio(t, account)
    return { api, provider: await configured(t, 'twilio', { ...account, url: api.url, ...more }) }
  }

  t.test('a message is posted as Twilio takes it', async (t) => {
    const { api, provider } = await start(t)
    const text = 'a+b & c=d %20 ü\n{to} 👋'
    const { id, detail } = await provider.send(sms(text), soon())
    t.same(api.messages, [{ To: '+12025550100', From: '+12025550123', Body: text, sid: id }])
    t.equal(detail, 'queued, segments: 1')

    const more = { messagingServiceSid: SERVICE_SID, statusCallbackUrl: CALLBACK }
    const { api: other, provider: service } = await start(t, more)
    const { id: sid } = await service.send({ ...sms('x'), id: 'our-id' }, soon())
    const sender = { MessagingServiceSid: SERVICE_SID, StatusCallback: `${CALLBACK}&rowhouse_id=our-id` }
    t.same(other.messages, [{ To: '+12025550100', Body: 'x', ...sender, sid }])
  })

  t.test('it has exactly one sender', async (t) => {
    const message = /exactly one of "from" and "messagingServiceSid"/
    await t.rejects(start(t, {}), { message })
    await t.rejects(start(t, { from: '+12025550123', messagingServiceSid: SERVICE_SID }), { message })
    await t.rejects(start(t, { from: 'Us', url: 'http://169.254.169.254' }), {
      message: /: url is a link-local address/,
    })
    await t.rejects(start(t, { from: 'Us', accountSid: '../x' }), { message: /accountSid: must match pattern/ })
  })

  t.test('what Twilio says of a message decides what is done with it', async (t) => {
    const { api, provider } = await start(t)
    const codes: readonly (readonly [number, number, string])[] = [
      [400, 21211, 'refused'],
      [400, 21602, 'refused'],
      [400, 21604, 'refused'],
      [400, 21610, 'refused'],
      [400, 21614, 'refused'],
      [400, 21605, 'refused'],
      [400, 21617, 'refused'],
      [400, 21635, 'refused'],
      [400, 21408, 'retry'],
      [400, 21606, 'retry'],
      [400, 21608, 'retry'],
      [400, 21611, 'retry'],
      [400, 21612, 'retry'],
      [400, 20001, 'retry'],
      [401, 20003, 'retry'],
      [403, 20005, 'retry'],
      [404, 20404, 'retry'],
      [429, 20429, 'retry'],
      [503, 20503, 'retry'],
    ]
    for (const [status, code, outcome] of codes) {
      api.fault = { kind: 'answer', answer: twilio.failed(status, code, `because, ${SECRET}`) }
      const { error } = await attempt(t, provider)
      t.equal(error.outcome, outcome, `${status}, ${code}`)
      t.equal(error.limit, code === 21605 || code === 21617)
      t.match(error.response, new RegExp(`^${status} .*${code}.*\\*\\*\\*`))
    }
    api.fault = { kind: 'answer', answer: { status: 400, body: 'Bad Request' } }
    t.equal((await attempt(t, provider)).outcome, 'retry', 'a refusal that says no code')
  })

  t.test('the message cannot be sent', async (t) => {
    const { provider } = await start(t)
    t.equal((await attempt(t, provider, { ...sms(), to: '12', countryCode: '1' })).outcome, 'refused')
    t.equal((await attempt(t, provider, sms('x'.repeat(1601)))).outcome, 'refused')
  })

  t.test('its API fails', async (t) => {
    const { api, provider } = await start(t)
    const hasty = { ...account, from: 'Us', url: api.url, timeoutMs: HASTY_MS }
    await faults(t, api, provider, await configured(t, 'twilio', hasty))
  })

  t.test('nobody waits any more', async (t) => {
    const { api, provider } = await start(t)
    await aborts(t, api, provider)
  })

  const callback = (fields: Record<string, string>, url = CALLBACK, token = SECRET) =>
    post(form(fields), { 'x-twilio-signature': twilio.twilioSignature(url, fields, token) })
  const fields = (more: Record<string, string>) => ({
    SmsSid: 'SM1',
    MessageSid: 'SM1',
    AccountSid: ACCOUNT_SID,
    From: '+12025550123',
    To: '+12025550100',
    ApiVersion: '2010-04-01',
    ...more,
  })

  t.test('status callbacks are read when their signature is right', async (t) => {
    t.equal((await start(t)).provider.events, undefined, 'without their address there is nothing to post to')
    const { api, provider } = await start(t, { from: '+12025550123', statusCallbackUrl: CALLBACK })
    const kinds: Readonly<Record<string, string | undefined>> = {
      delivered: 'delivered',
      undelivered: 'bounced',
      failed: 'bounced',
      queued: undefined,
      sent: undefined,
      constructor: undefined,
    }
    for (const [MessageStatus, kind] of Object.entries(kinds)) {
      const expected = kind === undefined ? [] : [{ id: 'SM1', kind, detail: MessageStatus }]
      t.same(await read(provider, callback(fields({ MessageStatus }))), expected, MessageStatus)
    }
    const failed = fields({ MessageStatus: 'undelivered', ErrorCode: '30005' })
    t.match(await read(provider, callback(failed)), [{ detail: 'undelivered, error code 30005' }])

    const { id } = await provider.send(sms(), soon())
    const delivered = fields({ MessageSid: id, MessageStatus: 'delivered' })
    t.same(await read(provider, callback(delivered)), [{ id, kind: 'delivered', detail: 'delivered' }])
    t.match(api.messages.at(-1)!['StatusCallback'], /&rowhouse_id=/)
    for (const url of [CALLBACK.replace(/\?.*/, ''), `${CALLBACK}%20`, `${CALLBACK}#rc=3`]) {
      const { api, provider } = await start(t, { from: '+12025550123', statusCallbackUrl: url })
      const message = randomUUID()
      const { id } = await provider.send({ ...sms(), id: message }, soon())
      const sent = api.messages.at(-1)!['StatusCallback']!
      const query = Object.fromEntries(new URL(sent).searchParams)
      const signed = { ...callback(fields({ MessageSid: id, MessageStatus: 'delivered' }), sent.split('#')[0]), query }
      t.same(await read(provider, signed), [{ id, message, kind: 'delivered', detail: 'delivered' }], url)
      const other = { ...signed, query: { ...query, rowhouse_id: randomUUID() } }
      await t.rejects(read(provider, other), { status: 401, code: 'unauthorized' }, 'the id is signed')
    }
  })

  t.test('other status callbacks are refused', async (t) => {
    const { provider } = await start(t, { from: '+12025550123', statusCallbackUrl: CALLBACK })
    const delivered = fields({ MessageStatus: 'delivered' })
    const { headers } = callback(delivered)
    const forged = {
      'not signed': post(form(delivered)),
      'another status': { ...callback(delivered), body: Buffer.from(form(fields({ MessageStatus: 'failed' }))) },
      'another address': callback(delivered, 'https://api.example.com/v1/send/events/sms/twilio'),
      'another token': callback(delivered, CALLBACK, `${SECRET}.`),
      'a field more': { ...callback(delivered), body: Buffer.from(form({ ...delivered, More: 'x' })) },
      'a status twice': { ...callback(delivered), body: Buffer.from(`MessageStatus=failed&${form(delivered)}`) },
      'a short signature': post(form(delivered), { 'x-twilio-signature': headers['x-twilio-signature']!.slice(1) }),
      empty: post(''),
    }
    for (const [name, posted] of Object.entries(forged)) {
      await t.rejects(read(provider, posted), { status: 401, code: 'unauthorized' }, name)
    }
    const unreadable = {
      'no status': fields({}),
      'no id': fields({ MessageSid: '', MessageStatus: 'sent' }),
      nothing: {},
    }
    for (const [name, posted] of Object.entries(unreadable)) {
      await t.rejects(read(provider, callback(posted)), { status: 400, code: 'invalid_payload' }, name)
    }
  })

  t.test('a signature is what Twilio shows for its example', async (t) => {
    const url = 'https://mycompany.com/myapp.php?foo=1&bar=2'
    const body = form({
      Digits: '1234',
      To: '+18005551212',
      From: '+14158675309',
      Caller: '+14158675309',
      CallSid: 'CA1234567890ABCDE',
    })
    const { provider } = await start(t, { from: 'Us', authToken: '12345', statusCallbackUrl: url })
    const signed = post(body, { 'x-twilio-signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=' })
    await t.rejects(read(provider, signed), { status: 400, message: /no "MessageSid"/ })
    // Of the tests of Twilio's packages.
    const twice = post('Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234', {
      'x-twilio-signature': 'IK+Dwps556ElfBT0I3Rgjkr1wJU=',
    })
    await t.rejects(read(provider, twice), { status: 400, message: /no "MessageSid"/ })
  })
})

/** They have no `url`, and nothing is asked there. */
const WITHOUT_API = ['memory', 'log']

t.test('the configurations of the documentation work as they stand', async (t) => {
  const text = await readFile(new URL('../../../providers/sms/README.md', import.meta.url), 'utf8')
  const blocks = [...text.matchAll(/```js\n(providers: [^`]*)```/g)].map(([, block]) => block!)
  const secrets = [
    'VONAGE_KEY',
    'VONAGE_SECRET',
    'VONAGE_SIGNATURE_SECRET',
    'TWILIO_TOKEN',
    'GATEWAY_TOKEN',
    'MSG91_KEY',
  ]
  const environment = Object.fromEntries(secrets.map((name) => [name, SECRET]))
  const api = await faultyServer(t, ({ url }) => {
    if (url.pathname === '/sms/json') return { status: 200, body: '{"messages": [{"status": "0", "message-id": "1"}]}' }
    if (url.pathname.endsWith('/Messages.json')) return { status: 201, body: '{"sid": "1"}' }
    return { status: 200, body: '{"id": 1, "status": "sent", "type": "success", "message": "1"}' }
  })
  const sent: (readonly [string, unknown])[] = []
  for (const block of blocks) {
    const name = /default: '(\w+)'/.exec(block)![1]!
    const env = WITHOUT_API.includes(name) ? {} : { [`ROWHOUSE_PROVIDERS__SMS__${name.toUpperCase()}__URL`]: api.url }
    const provider = await fromScript(t, `export default { ${block} }`, { ...environment, ...env })
    await provider.send({ ...sms('Hi'), id: 'our-id' }, soon())
    if (!WITHOUT_API.includes(name)) sent.push([name, bodyOf(api.asked.at(-1)!)])
  }

  t.same(sent, [
    ['vonage', { from: 'Rowhouse', to: '12025550100', text: 'Hi', type: 'text', 'client-ref': 'our-id' }],
    [
      'twilio',
      {
        To: '+12025550100',
        From: '+12025550123',
        StatusCallback: 'https://api.example.com/v1/send/events/sms/twilio?rowhouse_id=our-id',
        Body: 'Hi',
      },
    ],
    ['http', { from: 'Rowhouse', to: ['+12025550100'], text: 'Hi' }],
    ['http', { username: 'rowhouse', password: SECRET, to: '12025550100', text: 'Hi' }],
    [
      'http',
      { template_id: '0123456789abcdef01234567', recipients: [{ mobiles: '12025550100', text: 'Hi' }], short_url: '0' },
    ],
  ])
})

function bodyOf({ headers, body }: Asked): unknown {
  if (headers['content-type'] === 'application/json') return JSON.parse(body)
  return Object.fromEntries(new URLSearchParams(body))
}

t.test('http', async (t) => {
  const KEY = { header: 'x-key', value: SECRET }
  const start = async (t: Test, more: object = {}) => {
    const api = await fakeGateway(t, KEY)
    const settings = {
      url: `${api.url}/send?source=us`,
      headers: { 'X-Key': SECRET },
      fields: { to: '{to}', text: '{message}' },
      ...more,
    }
    return { api, provider: await configured(t, 'http', settings) }
  }
  /** What a gateway got: method, path with query, type, body. */
  const got = ({ asked }: FaultyServer) => {
    const { method, url, headers, body } = asked.at(-1)!
    return [method, url.pathname + url.search, headers['content-type'], body]
  }

  t.test('a gateway that knows repeats is given our id', async (t) => {
    const { api, provider: once } = await start(t, {
      idPointer: '/messages/0/id',
      idempotencyHeader: 'Idempotency-Key',
      deduplicationSeconds: 3600,
    })
    t.equal(once.sendsOnceForSeconds, 3600)
    const message = sms()
    await once.send(message, soon())
    t.equal(api.asked[0]!.headers['idempotency-key'], message.id)
  })

  t.test('placeholders are filled in, in values alone and once', async (t) => {
    const everything = {
      a: '{to}',
      b: ['{number}', { c: '{countryCode}/{national}' }],
      '{message}': 'a key stays',
      d: '{message}!',
      e: '{id}',
      f: '{from}{from}',
      g: '{other} {} { to }',
      h: 7,
      i: true,
      j: null,
    }
    const message = sms('", "x": "{from}", {to} $& \\ ü\n👋')
    const filled = {
      a: '+12025550100',
      b: ['12025550100', { c: '1/2025550100' }],
      '{message}': 'a key stays',
      d: `${message.message}!`,
      e: message.id,
      f: 'UsUs',
      g: '{other} {} { to }',
      h: 7,
      i: true,
      j: null,
    }
    const { api, provider } = await start(t, { fields: everything, from: 'Us' })
    const receipt = await provider.send(message, soon())
    t.same(receipt, { id: message.id, detail: 'accepted: {"result":"ok","messages":[{"id":1}]}' })
    const [method, path, type, body] = got(api)
    t.same([method, path, type], ['POST', '/send?source=us', 'application/json'])
    t.same(JSON.parse(body!), filled)

    const { message: text } = message
    const flat = { to: '{number}', text: '{message}', n: 7 }
    const sent = { to: '12025550100', text, n: '7' }
    const { api: forms, provider: former } = await start(t, { fields: flat, format: 'form', method: 'PUT' })
    await former.send(message, soon())
    t.same(got(forms), ['PUT', '/send?source=us', 'application/x-www-form-urlencoded', form(sent)])
    const { api: queries, provider: asker } = await start(t, { fields: flat, format: 'query', method: 'GET' })
    await asker.send(message, soon())
    t.same(got(queries), ['GET', `/send?${form({ source: 'us', ...sent })}`, undefined, ''])
  })

  t.test('a second gateway has a name of its own', async (t) => {
    const api = await fakeGateway(t, KEY)
    const fields = { to: '{to}', text: '{message}' }
    const settings = { use: 'rowhouse/providers/sms/http', url: api.url, headers: { 'x-key': SECRET }, fields }
    const provider = await configured(t, 'second', settings)
    await provider.send(sms(), soon())
    t.equal(api.asked.length, 1)
  })

  t.test('headers that are set win, whatever their case', async (t) => {
    const headers = { 'X-KEY': SECRET, 'Content-Type': 'application/json; charset=utf-8' }
    const { api, provider } = await start(t, { headers })
    await provider.send(sms(), soon())
    t.equal(got(api)[2], 'application/json; charset=utf-8')
  })

  t.test('what the gateway says decides what is done with a message', async (t) => {
    const { api, provider } = await start(t, {
      accepted: { pointer: '/result', values: ['ok', '0', 'true'] },
      refused: { pointer: '/error/co~1de', values: ['7', 'blocked'] },
      refusedStatuses: [418],
      idPointer: '/id',
    })
    const cases: readonly (readonly [number, unknown, string])[] = [
      [200, { result: 'ok', id: 'x' }, 'x'],
      [202, { result: 0, id: 9 }, '9'],
      [200, { result: true, id: 9 }, '9'],
      [200, { result: 'ok', id: '' }, 'unknown'],
      [200, { result: 'ok' }, 'unknown'],
      [200, { result: 'ok', id: { x: 1 } }, 'unknown'],
      [200, { result: 'busy', id: 'x' }, 'retry'],
      [200, { result: 1, id: 'x' }, 'retry'],
      [200, { id: 'x' }, 'unknown'],
      [200, 'ok', 'unknown'],
      [200, { result: 'busy', error: { 'co/de': 7 } }, 'refused'],
      [200, { result: 'ok', id: 'x', error: { 'co/de': 'blocked' } }, 'refused'],
      [400, { error: { 'co/de': 'blocked' } }, 'refused'],
      [400, { error: { 'co/de': 'other' } }, 'retry'],
      [418, {}, 'refused'],
      [422, {}, 'retry'],
    ]
    for (const [status, body, expected] of cases) {
      const answer: Answer = { status, body: JSON.stringify(body) }
      api.fault = { kind: 'answer', answer }
      const result = await provider.send(sms(), soon()).then(
        ({ id }) => id,
        ({ outcome }: SendError) => outcome,
      )
      t.equal(result, expected, `${status} ${answer.body}`)
    }
    const { api: plain, provider: usual } = await start(t)
    for (const [status, expected] of Object.entries({ 400: 'refused', 413: 'refused', 422: 'refused', 404: 'retry' })) {
      plain.fault = { kind: 'answer', answer: { status: Number(status), body: `no, ${SECRET}` } }
      const { error } = await attempt(t, usual)
      t.match(error, { outcome: expected, response: `${status} no, ***`, limit: status === '413' })
    }
  })

  t.test('no answer and no error shows what was sent with a message', async (t) => {
    const fields = { user: 'us', password: 'se"cret+1', to: '{to}', text: '{message}' }
    const { api, provider } = await start(t, { headers: { Authorization: 'Bearer 0123456789' }, fields })
    const body = `${JSON.stringify(fields.password)} se%22cret%2B1 0123456789 se"cret+1`
    api.fault = { kind: 'answer', answer: { status: 500, body } }
    t.equal((await attempt(t, provider)).error.response, '500 "***" *** *** ***')
    api.fault = { kind: 'answer', answer: { status: 200, body } }
    t.equal((await provider.send(sms(), soon())).detail, 'accepted: "***" *** *** ***')

    const query = { format: 'query', method: 'GET', fields: { ...fields, password: SECRET } }
    const { api: other, provider: asker } = await start(t, query)
    other.fault = { kind: 'lost' }
    t.equal((await attempt(t, asker)).outcome, 'unknown')
  })

  t.test('its API fails', async (t) => {
    const { api, provider } = await start(t, { idPointer: '/messages/0/id' })
    const hasty = await start(t, { url: api.url, timeoutMs: HASTY_MS })
    await faults(t, api, provider, hasty.provider)
  })

  t.test('nobody waits any more', async (t) => {
    const { api, provider } = await start(t)
    await aborts(t, api, provider)
  })

  t.test('settings that do not fit each other are refused, and show no secret', async (t) => {
    const { message, to } = { message: '{message}', to: '{to}' }
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ fields: { to, password: SECRET } }, /must contain \{message\}/],
      [{ fields: { message, password: SECRET } }, /must contain \{to\}, \{number\} or \{national\}/],
      [{ fields: { message, to: '{national}' } }, /\{national\} without \{countryCode\}/],
      [{ fields: { message, to, from: '{from}' } }, /"from" is not set/],
      [{ fields: { message, to, more: { password: SECRET } }, format: 'form' }, /"more" is not/],
      [{ fields: { message, to, more: null }, format: 'query' }, /"more" is not/],
      [{ method: 'GET' }, /set "format" to "query"/],
      [{ deduplicationSeconds: 60 }, /"deduplicationSeconds" requires "idempotencyHeader"/],
      [{ url: 'http://user:pass@example.com' }, /: url must not contain credentials$/],
      [{ idPointer: 'id' }, /idPointer: must match pattern/],
    ]
    for (const [more, message] of cases) {
      const error = await start(t, more).then(
        () => t.fail(`${inspect(more)} is taken`),
        (error: unknown) => error,
      )
      t.match(error, { message })
      noSecret(t, error)
    }
    await start(t, { fields: { message, to, reference: '{id}' }, deduplicationSeconds: 60 })
  })
})
