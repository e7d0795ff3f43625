import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import tap from 'tap'
import { type DeliveryEvent, type Mail, SendError, ServiceError } from '../../core/index.js'
import { rowsOf } from '../kit/database.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { patience } from '../kit/patience.js'
import { sendError } from '../kit/sender.js'
import { until } from '../kit/until.js'

/** Seconds that a test waits for, and in which an attempt has come to its end. */
const SOON = Math.ceil(patience(2_000) / 1000)
const FAST = { queue: { retrySeconds: 0.01, pollMs: 20 } }

const stateOf = async (server: NotifyServer, id: string) => (await server.fetch(`/v1/send/${id}`)).body
async function run(server: NotifyServer, sql: string): Promise<void> {
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  await client.query(sql).finally(() => client.end())
}
const becomes = (server: NotifyServer, id: string, state: string) =>
  until(`${id} becomes ${state}`, async () => (await stateOf(server, id)).state === state)

tap.test('a queued message is answered at once and sent later', async (t) => {
  const server = await notifyServer(t, FAST)
  let release = () => {}
  server.email.answers.push(() => new Promise((resolve) => (release = () => resolve({ id: 'late', detail: '250 ok' }))))
  const { status, body, headers } = await server.send('email', { ...MAIL, queue: true })

  t.match({ status, body }, { status: 200, body: { id: /^[0-9a-f-]{36}$/, detail: 'queued' } })
  t.equal(headers.get('location'), `/v1/send/${body.id}`)
  await until('the provider is called', () => server.email.handed.length === 1)
  t.match(await stateOf(server, body.id), {
    state: 'sending',
    provider: 'first',
    attempts: 0,
    text: 'Hi',
    sub: 'Hello',
    mode: 'queue',
  })
  release()
  await becomes(server, body.id, 'sent')
  t.match(await stateOf(server, body.id), {
    provider: 'first',
    provider_id: 'late',
    detail: '250 ok',
    to: MAIL.to,
    text: null,
    html: null,
    error: null,
  })
  t.equal((server.email.handed[0] as Mail).id, body.id)

  const several = await server.send('email', { ...MAIL, to: ['a@example.com', 'b@example.com'], queue: true })
  t.match(several.body, {
    detail: 'queued',
    results: [{ to: 'a@example.com', detail: 'queued' }, { to: 'b@example.com' }],
  })
  for (const { id } of several.body.results) await becomes(server, id, 'sent')
})

tap.test('what was certainly not sent is tried again, in the same way', async (t) => {
  const server = await notifyServer(t, FAST)
  const attachments = [{ filename: 'a', content: Buffer.from('bytes').toString('base64') }]
  server.email.answers.push(sendError('retry', 'not now'), sendError('retry', 'busy', { retryAfter: 0.05 }))
  const { body } = await server.send('email', { ...MAIL, attachments, queue: true })
  await becomes(server, body.id, 'sent')

  t.equal(server.email.handed.length, 3)
  t.same(server.email.handed[1], server.email.handed[0])
  t.same((server.email.handed[2] as Mail).attachments?.[0]?.content, Buffer.from('bytes'))
  t.match(await stateOf(server, body.id), { attempts: 3, attachments: [] })

  server.email.answers.push(sendError('refused', 'no such mailbox', { response: '550 no' }))
  const refused = (await server.send('email', { ...MAIL, queue: true })).body
  await becomes(server, refused.id, 'failed')
  t.match(await stateOf(server, refused.id), {
    error: 'first: no such mailbox',
    detail: '550 no',
    text: 'Hi',
    attempts: 1,
  })

  t.match(await server.send(`${refused.id}/retry`, {}), { status: 200, body: { id: refused.id, detail: 'queued' } })
  await becomes(server, refused.id, 'sent')
  t.match(await server.send(`${refused.id}/retry`, {}), { status: 409, body: { code: 'not_failed' } })
  t.match(await server.send(`${randomUUID()}/retry`, {}), { status: 404, body: { code: 'not_found' } })
})

tap.test('a message is no longer tried when it is too old', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, maxAgeSeconds: SOON }, breaker: { failures: 1000 } })
  for (let i = 0; i < 500; i++) server.sms.answers.push(sendError('retry', 'never'))
  const { id } = (await server.send('sms', { ...SMS, queue: true })).body
  await becomes(server, id, 'failed')
  t.match(await stateOf(server, id), { error: /too old.*; before that: first: never/, message: 'Hello' })
})

tap.test('of what may have been sent', async (t) => {
  const unknown = () => sendError('unknown', 'no answer')
  const server = await notifyServer(t, { ...FAST, email: { failover: ['second'] }, breaker: { failures: 100 } })
  const { email, second } = server

  await t.test('a caller who waits is told, and nobody else is asked', async (t) => {
    email.answers.push(unknown())
    const answer = await server.send('email', MAIL)
    t.match(answer, {
      status: 500,
      body: { code: 'unexpected', state: 'unknown', detail: /no answer; it may have been sent/ },
    })
    t.equal((await stateOf(server, answer.body.id)).state, 'unknown')
    t.same(second.handed, [])
  })
  await t.test('a queued one is tried again through the same provider only', async (t) => {
    email.handed.length = 0
    email.answers.push(unknown(), sendError('retry', 'later'), unknown())
    const { id } = (await server.send('email', { ...MAIL, queue: true })).body
    await becomes(server, id, 'sent')
    t.equal(email.handed.length, 4)
    t.same(second.handed, [])
  })
  await t.test('not when it may be sent once at most', async (t) => {
    email.handed.length = 0
    email.answers.push(unknown())
    const { id } = (await server.send('email', { ...MAIL, queue: true, atMostOnce: true })).body
    await becomes(server, id, 'unknown')
    t.equal(email.handed.length, 1)
  })
})

tap.test('a provider that knows what it took may be asked again for what is sent once at most', async (t) => {
  const server = await notifyServer(t, FAST)
  server.email.extra = { sendsOnceForSeconds: 60 }
  server.email.answers.push(sendError('unknown', 'no answer'))
  const { id } = (await server.send('email', { ...MAIL, queue: true, atMostOnce: true })).body
  await becomes(server, id, 'sent')
  t.equal(server.email.handed.length, 2)
})

tap.test('failover, and a provider that is let alone', async (t) => {
  const server = await notifyServer(t, {
    ...FAST,
    email: { failover: ['second'] },
    breaker: { failures: 2, seconds: 60 },
  })
  const { email, second } = server
  email.answers.push(sendError('retry', 'down'), sendError('retry', 'down'))
  const first = await server.send('email', MAIL)
  t.match(first, { status: 200, body: { id: /^second-/ } })
  t.equal((await server.send('email', { ...MAIL, queue: true })).status, 200)
  await until('both are sent', async () => (await server.messages('?state=sent')).length === 2)
  t.match(await server.messages(), [{ provider: 'second' }, { provider: 'second' }])
  t.equal(email.handed.length, 2)

  t.equal((await server.send('email', MAIL)).status, 200)
  t.equal(email.handed.length, 2, 'not asked')
  t.equal(second.handed.length, 3)
  t.match((await server.fetch('/v1/send/providers')).body, {
    email: [
      { name: 'first', position: 1, catches: false, domains: null, per_second: null, skipped_seconds: 60 },
      { name: 'second', position: 2, skipped_seconds: null },
    ],
    sms: [{ name: 'first', position: 1, skipped_seconds: null }],
  })
  t.match((await server.fetch('/readyz')).body, {
    probes: [{}, { name: 'notify.providers', ok: true, detail: /first/ }],
  })

  second.answers.push(sendError('refused', 'no'))
  t.match(await server.send('email', MAIL), { status: 500, body: { state: 'failed' } }, 'a refusal is final')
})

tap.test('so many messages a second', async (t) => {
  const server = await notifyServer(t, { ...FAST, sms: { perSecond: { first: 0.1 } } })
  for (let i = 0; i < 11; i++) await server.send('sms', SMS)
  t.match(await server.send('sms', SMS), { status: 500, body: { state: 'failed', detail: /perSecond/ } })
  t.ok(server.sms.handed.length >= 1 && server.sms.handed.length < 12)
})

tap.test('where and how often SMS go', async (t) => {
  const server = await notifyServer(t, { sms: { countryCodes: ['1'], perNumberPerHour: 2, perDay: 3 } })
  t.match(await server.send('sms', { ...SMS, countryCode: 44 }), {
    status: 400,
    body: { code: 'not_allowed', message: /44/ },
  })
  t.equal((await server.send('sms', SMS)).status, 200)
  t.equal((await server.send('sms', SMS)).status, 200)
  t.match(await server.send('sms', SMS), { status: 429, body: { code: 'too_many', message: /perNumberPerHour/ } })
  t.equal((await server.send('sms', { ...SMS, to: 5550101 })).status, 200)
  t.match(await server.send('sms', { ...SMS, to: 5550102 }), { status: 429, body: { message: /perDay/ } })
  t.equal(server.sms.handed.length, 3)
})

tap.test('Idempotency-Key', async (t) => {
  const server = await notifyServer(t, FAST)
  const { email } = server
  const key = { 'Idempotency-Key': 'order-7' }

  const first = await server.send('email', MAIL, key)
  const again = await server.send('email', MAIL, key)
  t.same([again.status, again.body], [200, first.body])
  t.equal(again.headers.get('location'), first.headers.get('location'))
  t.equal(email.handed.length, 1)
  t.match(await server.send('email', { ...MAIL, sub: 'Other' }, key), {
    status: 409,
    body: { code: 'idempotency_key_reused' },
  })
  t.match(await server.send('sms', SMS, key), { status: 409 })
  t.equal(
    (await server.send('email', MAIL, { ...key, 'X-Service-User-Id': '9' })).status,
    200,
    'keys are of their callers',
  )
  t.equal(email.handed.length, 2)

  email.answers.push(sendError('refused', 'no', { response: '550' }))
  const failed = await server.send('email', MAIL, { 'Idempotency-Key': 'bad' })
  const repeated = await server.send('email', MAIL, { 'Idempotency-Key': 'bad' })
  t.equal(failed.status, 500)
  t.same(repeated.body, failed.body)
  t.equal(email.handed.length, 3)

  let release = () => {}
  email.answers.push(() => new Promise((resolve) => (release = () => resolve({ id: 'x', detail: '' }))))
  const slow = server.send('email', MAIL, { 'Idempotency-Key': 'slow' })
  await until('it is being sent', async () => email.handed.length === 4)
  const meanwhile = await server.send('email', MAIL, { 'Idempotency-Key': 'slow' })
  t.match(meanwhile, { status: 409, body: { code: 'in_progress' } })
  t.equal(meanwhile.headers.get('retry-after'), '1')
  release()
  t.match(await slow, { status: 200 })

  const queued = await server.send('email', { ...MAIL, queue: true }, { 'Idempotency-Key': 'q' })
  t.same((await server.send('email', { ...MAIL, queue: true }, { 'Idempotency-Key': 'q' })).body, queued.body)
  t.equal((await server.messages('?limit=100')).length, 5)

  const crowd = await Promise.all(
    Array.from({ length: 10 }, () => server.send('sms', SMS, { 'Idempotency-Key': 'crowd' })),
  )
  t.equal(server.sms.handed.length, 1)
  t.ok(crowd.some(({ status }) => status === 200))
  t.ok(crowd.every(({ status }) => status === 200 || status === 409))
  for (const bad of ['a b', 'x'.repeat(256)]) {
    t.match(await server.send('sms', SMS, { 'Idempotency-Key': bad }), {
      status: 400,
      body: { code: 'invalid_payload' },
    })
  }
})

tap.test('a provider that does not end', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, leaseSeconds: SOON } })
  server.email.answers.push(() => new Promise<never>(() => {}))
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await becomes(server, id, 'sent')
  t.match(await stateOf(server, id), { attempts: 2, provider: 'first' })

  server.email.answers.push(() => new Promise<never>(() => {}))
  t.match(await server.send('email', MAIL), { status: 500, body: { state: 'unknown', detail: /no response in time/ } })
})

tap.test('who comes to hand a message over when it is taken by another does not', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, leaseSeconds: SOON } })
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  const claims = async (id: string) => {
    const { rows } = await client.query('select claims from svc_catalog.svc_outbox where id = $1', [id])
    return rows[0].claims as number
  }
  await client.query('begin; lock table svc_catalog.svc_suppression')
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await until('it is taken again', async () => (await claims(id)) > 1)
  await client.query('commit')
  await becomes(server, id, 'sent')
  await server.close()
  t.equal(server.email.handed.length, 1)
})

tap.test('a message whose time is over before a provider is asked is tried again soon', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, leaseSeconds: 6 } })
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin; lock table svc_catalog.svc_suppression')
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  // Longer than a try may take, and shorter than its lease.
  await sleep(4000)
  await client.query('commit')
  await becomes(server, id, 'sent')
  t.equal(server.email.handed.length, 1)
})

tap.test('a server that is not heard of again while it sends', async (t) => {
  const server = await notifyServer(t, FAST)
  const lost = async (more: string) => {
    const id = randomUUID()
    const sql = `begin; insert into svc_catalog.svc_outbox (id, kind, "to", "from", sub, text, at_most_once, mode)
      values ('${id}', 'email', 'a@example.com', 'b@example.com', 'Lost', 'x', ${more});
      update svc_catalog.svc_outbox set state = 'sending', attempts = 1, provider = 'second', next_at = now() where id = '${id}'; commit`
    await run(server, sql)
    return id
  }
  await becomes(server, await lost(`false, 'queue'`), 'sent')
  t.equal(server.second.handed.length, 1, 'through the provider that may have sent it')
  const once = await lost(`true, 'queue'`)
  await becomes(server, once, 'unknown')
  t.match(await stateOf(server, once), {
    error: /claimed it and stored no result; it may have been sent/,
    text: 'x',
    provider: 'second',
  })
  await becomes(server, await lost(`false, 'sync'`), 'unknown')
  t.equal(server.second.handed.length, 1)
})

tap.test('rows that come by SQL', async (t) => {
  const server = await notifyServer(t, FAST)
  const insert = (columns: string, values: string) =>
    run(server, `insert into svc_catalog.svc_outbox (kind, "to", ${columns}) values (${values})`)
  await insert(
    '"from", sub, text, state, attempts, provider',
    `'email', 'a@example.com', 'b@example.com', 'S', 'x', 'sent', 7, 'second'`,
  )
  await until('it is sent', async () => (await server.messages('?state=sent')).length === 1)
  t.match(await server.messages(), [{ provider: 'first', attempts: 1, sub: 'S' }])
  const counted = `insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text, mode, attempts, claims, losses)
    values ('email', 'a@example.com', 'b@example.com', 'S', 'x', 'sync', 7, 7, 7) returning attempts, claims, losses`
  t.same(await rowsOf(server.databaseUrl, counted), [{ attempts: 0, claims: 0, losses: 0 }])

  const bad: [string, string][] = [
    ['"from", sub, text', `'email', 'a@example.com, b@example.com', 'b@example.com', 'S', 'x'`],
    ['"from", sub, text', `'email', 'a@example.com', 'b@example.com', E'S\r\nBcc: c@example.com', 'x'`],
    ['"from", from_name, sub, text', `'email', 'a@example.com', 'b@example.com', E'B\\n', 'S', 'x'`],
    ['"from", sub, text', `'email', 'a@example.com', 'b@example.com', '=?utf-8?q?a=0A?=', 'x'`],
    ['"from", from_name, sub, text', `'email', 'a@example.com', 'b@example.com', '=?utf-8?q?a?=', 'S', 'x'`],
    ['"from", sub, text, cc', `'email', 'a@example.com', 'b@example.com', 'S', 'x', '{"path": "/etc/passwd"}'`],
    ['country_code, message', `'sms', '12; drop', '1', 'x'`],
  ]
  for (const [columns, values] of bad) await insert(columns, values)
  await until('they failed', async () => (await server.messages('?state=failed')).length === bad.length)
  t.equal(server.email.handed.length, 1)
  t.ok((await server.messages('?state=failed')).every(({ error_code }) => error_code === 'invalid_payload'))
  await t.rejects(insert('sub', `'email', 'a@example.com', 'S'`), /check constraint/)
})

tap.test('the list of messages', async (t) => {
  const server = await notifyServer(t)
  for (let i = 0; i < 5; i++) await server.send(i % 2 ? 'sms' : 'email', i % 2 ? SMS : { ...MAIL, sub: `Mail ${i}` })
  server.email.answers.push(sendError('refused', 'no'))
  await server.send('email', MAIL)

  const page = (await server.fetch('/v1/send?limit=2')).body
  t.match(page.messages, [{ state: 'failed' }, { sub: 'Mail 4', state: 'sent' }])
  const rest = (await server.fetch(`/v1/send?limit=100&before=${page.next}`)).body
  t.equal(rest.messages.length, 4)
  t.equal(rest.next, null)
  t.equal((await server.messages('?kind=sms')).length, 2)
  t.equal((await server.messages('?state=failed')).length, 1)
  for (const query of ['state=x', 'kind=x', 'limit=0', 'limit=x', 'before=x', 'limit=1&limit=2']) {
    t.match(await server.fetch(`/v1/send?${query}`), { status: 400, body: { code: 'invalid_payload' } }, query)
  }
  t.match(await server.fetch('/v1/send/nothing'), {
    status: 404,
    body: { code: 'not_found', message: 'message not found : nothing' },
  })
})

tap.test('addresses that get no mail any more', async (t) => {
  const server = await notifyServer(t)
  const add = (body: object) => server.fetch('/v1/send/suppressed', { method: 'POST', body: JSON.stringify(body) })
  t.match(await add({ address: 'Reader@example.com', reason: 'asked us' }), {
    status: 200,
    body: { address: 'reader@example.com' },
  })
  t.match(await add({ address: 'x' }), { status: 400 })
  t.match(await add({}), { status: 400, body: { message: "Error in $: the key 'address' was not present" } })

  t.match(await server.send('email', MAIL), {
    status: 400,
    body: { code: 'suppressed', message: 'reader@example.com is suppressed: asked us', state: 'failed' },
  })
  t.match(await server.send('email', { ...MAIL, to: 'other@example.com', bcc: 'READER@example.com' }), { status: 400 })
  t.same(server.email.handed, [])
  t.match((await server.fetch('/v1/send/suppressed')).body, {
    suppressed: [{ address: 'reader@example.com', reason: 'asked us' }],
  })
  await add({ address: 'another@example.org' })
  const found = async (query: string) =>
    (await server.fetch(`/v1/send/suppressed?${query}`)).body.suppressed.map(
      (each: { address: string }) => each.address,
    )
  t.same(await found('search=EXAMPLE.com'), ['reader@example.com'])
  t.same(await found('search=%25'), [], 'a text, no pattern')
  t.same(await found('after=another@example.org'), ['reader@example.com'])
  for (const query of ['search=%00', 'after=%00', 'search=a&search=b'])
    t.match(await server.fetch(`/v1/send/suppressed?${query}`), { status: 400, body: { code: 'invalid_payload' } })
  t.equal((await server.fetch('/v1/send/suppressed/READER@example.com', { method: 'DELETE' })).status, 200)
  t.equal((await server.fetch('/v1/send/suppressed/reader@example.com', { method: 'DELETE' })).status, 404)
  t.equal((await server.send('email', MAIL)).status, 200)
})

tap.test('what providers post about messages', async (t) => {
  const server = await notifyServer(t)
  const { email } = server
  email.extra = {
    events({ headers, query, body }) {
      if (headers['x-proof'] !== 'right') throw new ServiceError(401, 'unauthorized', 'wrong proof')
      t.equal(query['a'], '1')
      return JSON.parse(body.toString()) as DeliveryEvent[]
    },
  }
  const post = (path: string, events: unknown, proof = 'right') =>
    server.bare(`/v1/send/events/${path}?a=1`, {
      method: 'POST',
      body: JSON.stringify(events),
      headers: { 'x-proof': proof },
    })
  const { headers, body } = await server.send('email', MAIL)
  const message = async () => (await server.fetch(headers.get('location') as string)).body
  t.match(await message(), { provider_id: body.id, delivery: null })

  const event = (kind: string, more: object = {}) => [{ id: body.id, kind, detail: `it was ${kind}`, ...more }]
  t.match(await post('email/first', event('deferred')), { status: 200, body: { events: 1 } })
  t.match(await message(), { delivery: 'deferred', delivery_detail: 'it was deferred' })
  await post('email/first', event('delivered'))
  await post('email/first', event('deferred'))
  t.match(await message(), { delivery: 'delivered' }, 'in any order')
  await post('email/first', event('complained', { permanent: true, address: 'Reader@example.com' }))
  t.match(await message(), { delivery: 'complained' })
  t.match(await server.send('email', MAIL), {
    status: 400,
    body: { code: 'suppressed', message: /complained: it was/ },
  })
  t.match(await post('email/first', [...event('delivered'), { id: 'nobody', kind: 'bounced', detail: '' }]), {
    status: 200,
  })

  t.match(await post('email/first', event('bounced'), 'wrong'), { status: 401, body: { code: 'unauthorized' } })
  for (const path of ['email/second', 'email/nobody', 'storage/disk', 'sms/first']) {
    t.match(await post(path, []), { status: 404, body: { code: 'not_found' } }, path)
  }
  t.equal((await server.bare('/v1/send/events/email/first')).status, 405)
})

tap.test('a provider that does not answer holds up no other channel, nor the end of the server', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, concurrency: 2 } })
  const given: AbortSignal[] = []
  const hang = (_: unknown, signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      given.push(signal)
      signal.addEventListener('abort', () => reject(new SendError('unknown', 'given up')))
    })
  for (let i = 0; i < 3; i++) {
    server.email.answers.push(hang)
    await server.send('email', { ...MAIL, queue: true })
  }
  await until('two are under way', () => given.length === 2)
  const { id } = (await server.send('sms', { ...SMS, queue: true })).body
  await becomes(server, id, 'sent')
  await server.close()
  t.same(
    given.map(({ aborted }) => aborted),
    [true, true],
  )
  t.equal(server.email.handed.length, 2, 'nothing new is begun')
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  const { rows } = await client.query(
    `select state, provider from svc_catalog.svc_outbox where kind = 'email' order by state, provider`,
  )
  await client.end()
  t.same(rows, [
    { state: 'queued', provider: 'first' },
    { state: 'queued', provider: 'first' },
    { state: 'queued', provider: null },
  ])
})

tap.test('a provider that has forgotten what it took is not asked again for what is sent once at most', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, retrySeconds: 1.5 } })
  server.email.extra = { sendsOnceForSeconds: 1 }
  server.email.answers.push(sendError('unknown', 'no answer'))
  const { id } = (await server.send('email', { ...MAIL, queue: true, atMostOnce: true })).body
  await becomes(server, id, 'unknown')
  t.equal(server.email.handed.length, 1)
  t.match(await stateOf(server, id), {
    error: /no longer recognizes.*before that: first: no answer/,
    provider: 'first',
  })
})

tap.test('what nobody can ever send, or is too old, has failed', async (t) => {
  const server = await notifyServer(t, { ...FAST, email: { failover: ['second'] } })
  server.email.extra = { domains: ['example.org'] }
  server.second.extra = { domains: ['example.net'] }
  const insert = (more: string, values: string) =>
    run(
      server,
      `insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text ${more})
      values ('email', 'a@example.com', 'b@example.com', 'S', 'x' ${values})`,
    )
  await insert('', '')
  await until('it failed', async () => (await server.messages('?state=failed')).length === 1)
  t.match(await server.messages(), [
    { attempts: 0, error: 'first: it may not send from example.com; second: it may not send from example.com' },
  ])

  await run(
    server,
    `insert into svc_catalog.svc_outbox (id, kind, "to", "from", sub, text, mode)
    values ('${randomUUID()}', 'email', 'a@example.com', 'b@example.org', 'Old', 'x', 'sync');
    update svc_catalog.svc_outbox set mode = 'queue', queued_at = now() - interval '3 days', next_at = now() where sub = 'Old'`,
  )
  await until('it failed', async () => (await server.messages('?state=failed')).length === 2)
  t.match(await server.messages(), [{ sub: 'Old', error: /too old/ }, {}])
  t.same(server.email.handed, [])
})

tap.test('a wait that a provider asks for has an end', async (t) => {
  const server = await notifyServer(t, FAST)
  server.email.answers.push(sendError('retry', 'later', { retryAfter: Infinity }))
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await until('it was asked', async () => (await stateOf(server, id)).attempts === 1)
  const { next_at, state } = await stateOf(server, id)
  t.equal(state, 'queued')
  t.ok(new Date(next_at).getTime() < Date.now() + 2 * 3600_000)
})

tap.test('one number is one number, however it is written', async (t) => {
  const server = await notifyServer(t, { sms: { perNumberPerHour: 1 } })
  t.equal((await server.send('sms', { to: '5550100', countryCode: '1', message: 'x' })).status, 200)
  t.equal((await server.send('sms', { to: '550100', countryCode: '15', message: 'x' })).status, 429)
})

tap.test('what came before needs nothing that it needed then', async (t) => {
  const server = await notifyServer(t)
  const template = { subject: 'S', text: 'Hi {{ who }}' }
  await server.fetch('/v1/send/template/t', { method: 'PUT', body: JSON.stringify(template) })
  const body = {
    to: ['a@example.com', 'b@example.com'],
    fromEmail: 'c@example.com',
    templateName: 't',
    templateContent: [{ name: 'who', content: 'x' }],
  }
  const first = await server.send('email-template', body, { 'Idempotency-Key': 'k' })
  t.equal(first.status, 200)
  await server.fetch('/v1/send/template/t', { method: 'DELETE' })
  t.same((await server.send('email-template', body, { 'Idempotency-Key': 'k' })).body, first.body)
})

tap.test('settings that name nobody do not start', async (t) => {
  for (const [notify, message] of [
    [{ email: { failover: ['nobody'] } }, /email\.failover names "nobody"/],
    [{ sms: { perSecond: { nobody: 1 } } }, /sms\.perSecond names "nobody"/],
  ] as const) {
    await t.rejects(notifyServer(t, notify), message)
  }
})

tap.test('the database is away when a provider has taken a message', async (t) => {
  const server = await notifyServer(t, FAST)
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  server.email.answers.push(async () => {
    // The next statement of the server meets a closed connection.
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()`,
    )
    return { id: 'taken', detail: 'yes' }
  })
  t.match(await server.send('email', MAIL), { status: 200, body: { id: 'taken' } })
  t.match(await server.messages(), [{ state: 'sent', provider_id: 'taken' }])
})
