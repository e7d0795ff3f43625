import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Mail, Receipt, RecipientOutcome } from '../../core/index.js'
import { rowsOf } from '../kit/database.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { becomes, FAST, last, stateOf } from '../kit/notify-steps.js'
import { patience } from '../kit/patience.js'
import { area, type Case } from '../kit/promises.js'
import { sendError } from '../kit/sender.js'
import { until } from '../kit/until.js'

/** What becomes of a message: queue, retries, failover, leases, and outcomes that are unknown. */
const PROMISES = {
  'queue.answer': 'a queued message is answered with its id, and sent later',
  'queue.several': 'queued messages for a list of recipients have an id each',
  'queue.retry': 'a message that was not sent is sent again, with the same id and contents',
  'queue.refused': 'a message that the provider refuses has failed, and keeps its contents',
  'queue.pause': 'pauses between attempts double, up to 15 minutes',
  'queue.retry-after': 'a pause that a provider asks for is kept, up to an hour',
  'queue.age': 'a message is no longer sent when it is older than a day',
  'queue.suppressed': 'a queued message to a suppressed address has failed',
  'queue.concurrency': 'a provider that does not answer holds up no other channel',
  'stored.first': 'a message is stored before any provider gets it',
  'stored.deleted': 'contents and attachments are deleted once a provider has accepted the message',
  'stored.caught': 'a message that a provider only catches is caught, not sent, and keeps its contents',
  'stored.by-sql': 'a row that is inserted by SQL is sent, whatever it says of its state',
  'stored.by-sql-checked': 'a row that is inserted by SQL is checked like a payload',
  'lease.length': 'a message that is being sent is kept from other servers for two minutes',
  'lease.waits': 'a message that another server is sending is left alone until its lease ends',
  'lease.queued': 'after a crash a queued message is sent again, through the provider that may have sent it',
  'lease.at-most-once': 'after a crash a message to send at most once is unknown, and not sent again',
  'lease.synchronous': 'after a crash a message whose caller waited is unknown, and not sent again',
  'lease.losses': 'a message that was claimed five times without an outcome is unknown',
  'lease.not-called': 'claims that end before a provider is called do not count as outcomes',
  'lease.lost': 'a server whose lease is over stores nothing',
  'unknown.synchronous': 'if the outcome is unknown, the answer says so, and no other provider gets the message',
  'unknown.queued': 'a queued message of unknown outcome is sent again by the same provider only',
  'unknown.at-most-once': 'a message to send at most once is not sent again when its outcome is unknown',
  'unknown.recognized': 'unless the provider recognizes a repeated message',
  'unknown.forgotten': 'and only as long as the provider recognizes it',
  'unknown.refused': 'a refusal after an unknown outcome leaves it unknown',
  'unknown.unreadable': 'a queued message whose answer cannot be read is unknown, and not sent again',
  'unknown.not-stored': 'a message whose outcome PostgreSQL does not store is unknown',
  'recipients.again': 'a queued mail goes again to the recipients that were postponed, and to no others',
  'recipients.synchronous': 'a mail whose caller waited is partly sent if some did not get it, and the answer says who',
  'recipients.none': 'a mail that no recipient got has failed, or is unknown, and the error says who was refused',
  'recipients.unknown': 'if the outcome is unknown, it is unknown for those whom the provider had not rejected',
  'recipients.may-have': 'a recipient who may have got a mail is not said to have been refused by a later attempt',
  'recipients.whole': 'a provider that cannot send to some recipients never gets a mail that others have got',
  'recipients.failover': 'a recipient that a provider refuses goes to no other',
  'recipients.age': 'a mail whose postponed recipients are too old is partly sent',
  'recipients.suppressed': 'only recipients who did not get it yet are looked up on the suppression list',
  'recipients.retry': 'a partly sent mail is sent again to those who did not get it',
  'recipients.unreadable': 'outcomes of recipients that cannot be read leave it unknown who got the mail',
  'recipients.duplicates': 'no address occurs twice in to, cc and bcc of a mail',
  'failover.next': 'a message goes to the next provider when the default one does not accept it',
  'failover.refused': 'a message that a provider refuses goes to no other',
  'failover.limit':
    'a message beyond a limit of one provider goes to the next, and has failed with 400 without another',
  'failover.never': 'a message that no provider can ever send has failed immediately',
  'state.providers': 'an admin sees the providers in their order, what they can do, and for how long one is skipped',
  'state.metrics': 'metrics count attempts by their result, and the messages of the outbox that were not sent',
} as const

const PAGES = {
  'plugins/notify/README.md': {
    notify: {
      '`GET /v1/send/providers`': 'state.providers',
    },
    Payloads: {
      '`sent`': 'recipients.synchronous',
      '`postponed`': 'recipients.synchronous',
      '`refused`': ['recipients.synchronous', 'recipients.none'],
      '`unknown`': ['recipients.synchronous', 'recipients.may-have'],
    },
    Delivery: {
      '`queued`': 'queue.answer',
      '`sending`': ['lease.length', 'lease.waits'],
      '`sent`': 'stored.deleted',
      '`partly_sent`': ['recipients.synchronous', 'recipients.retry', 'recipients.age'],
      '`caught`': 'stored.caught',
      '`failed`': 'queue.refused',
      '`unknown`': 'unknown.at-most-once',
      'queued, the provider recognizes repeats': ['unknown.recognized', 'unknown.unreadable', 'unknown.forgotten'],
      queued: ['unknown.queued', 'unknown.unreadable'],
      'queued, `atMostOnce`': 'unknown.at-most-once',
      synchronous: 'unknown.synchronous',
    },
  },
} as const

const queue = async (server: NotifyServer, more: object = {}): Promise<string> => {
  const { status, text, body } = await server.send('email', { ...MAIL, queue: true, ...more })
  if (status !== 200) throw new Error(text)
  return body.id
}
const retry = () => sendError('retry', 'not now')
const postponed = (address: string) => ({ address, outcome: 'postponed', detail: '450 later' }) as const
const refused = (address: string) => ({ address, outcome: 'refused', detail: '550 no' }) as const
const maybe = (address: string) => ({ address, outcome: 'unknown', detail: '' }) as const
const unknown = () => sendError('unknown', 'no answer')

/** Stores a mail by SQL, and changes it before any server sees it. */
async function store(server: NotifyServer, set: string, mode = 'queue', more = 'false'): Promise<string> {
  const id = randomUUID()
  await rowsOf(
    server.databaseUrl,
    `begin; insert into svc_catalog.svc_outbox (id, kind, "to", "from", sub, text, at_most_once, mode)
       values ('${id}', 'email', 'a@example.com', 'b@example.com', 'Stored', 'x', ${more}, '${mode}');
     update svc_catalog.svc_outbox set ${set.includes('next_at') ? '' : 'next_at = now(), '}${set} where id = '${id}'; commit`,
  )
  return id
}
/** As a server leaves a message that it was sending. */
const LOST = `state = 'sending', attempts = 1, provider = 'second'`

const secondsUntil = (time: string) => (new Date(time).getTime() - Date.now()) / 1000

/** The state after a number of attempts. */
async function after(server: NotifyServer, id: string, attempts: number) {
  await until(`attempt ${attempts}`, async () => (await stateOf(server, id)).attempts === attempts)
  return stateOf(server, id)
}

/** An answer that the test gives later. */
function later(): { readonly answer: () => Promise<Receipt>; readonly give: () => void } {
  let give = () => {}
  const given = new Promise<Receipt>((resolve) => (give = () => resolve({ id: 'late', detail: '250 ok' })))
  return { answer: () => given, give: () => give() }
}

const CASES: Record<keyof typeof PROMISES, Case<NotifyServer>> = {
  'queue.answer': async (t, server) => {
    const { answer, give } = later()
    server.email.answers.push(answer)
    const { status, body, headers } = await server.send('email', { ...MAIL, queue: true })
    t.same([status, body], [200, { id: body.id, detail: 'queued' }])
    t.equal(headers.get('location'), `/v1/send/${body.id}`)
    await until('the provider is called', () => server.email.handed.length === 1)
    t.match(await stateOf(server, body.id), {
      state: 'sending',
      mode: 'queue',
      provider: 'first',
      attempts: 0,
      text: 'Hi',
    })
    give()
    await becomes(server, body.id, 'sent')
    t.match(await stateOf(server, body.id), { provider: 'first', provider_id: 'late', detail: '250 ok', attempts: 1 })
    t.equal(last(server).id, body.id)
  },
  'queue.several': async (t, server) => {
    const { body } = await server.send('email', { ...MAIL, to: ['a@example.com', 'b@example.com'], queue: true })
    const [a, b] = body.results
    t.match(body, { id: a.id, detail: 'queued' })
    t.same(
      [a, b],
      [
        { to: 'a@example.com', id: a.id, detail: 'queued' },
        { to: 'b@example.com', id: b.id, detail: 'queued' },
      ],
    )
    t.not(a.id, b.id)
    for (const { id } of [a, b]) await becomes(server, id, 'sent')
  },
  'queue.retry': async (t, server) => {
    const { handed, answers } = server.email
    handed.length = 0
    const attachments = [{ filename: 'a', content: Buffer.from('bytes').toString('base64') }]
    answers.push(retry(), sendError('retry', 'busy', { retryAfter: 0.02 }))
    server.second.answers.push(retry(), retry())
    const id = await queue(server, { attachments })
    await becomes(server, id, 'sent')
    t.equal(handed.length, 3)
    t.same([handed[1], handed[2]], [handed[0], handed[0]])
    t.same((handed[2] as Mail).attachments?.[0]?.content, Buffer.from('bytes'))
    t.match(await stateOf(server, id), { attempts: 3, attachments: [] })
  },
  'queue.refused': async (t, server) => {
    server.email.answers.push(sendError('refused', 'no such mailbox', { response: '550 no' }))
    const id = await queue(server)
    await becomes(server, id, 'failed')
    t.match(await stateOf(server, id), { error: 'first: no such mailbox', detail: '550 no', text: 'Hi', attempts: 1 })
  },
  'queue.pause': async (t, server) => {
    const paused = async (attempts: number) => {
      server.email.answers.push(retry())
      server.second.answers.push(retry())
      const id = await store(server, `attempts = ${attempts}`)
      const { state, next_at } = await after(server, id, attempts + 1)
      t.equal(state, 'queued')
      // So that it is not sent in the middle of another promise.
      await rowsOf(
        server.databaseUrl,
        `update svc_catalog.svc_outbox set next_at = now() + interval '1 hour' where id = '${id}'`,
      )
      return secondsUntil(next_at)
    }
    // 0.01 s, doubled ten times, and up to half of it more; less what has passed since.
    const pause = await paused(10)
    t.ok(pause > 10.24 - patience(5) && pause <= 15.4, `${pause}`)
    const longest = await paused(20)
    t.ok(longest > 900 - patience(30) && longest <= 1351, `${longest}`)
  },
  'queue.retry-after': async (t, server) => {
    const asked = async (retryAfter: number) => {
      server.email.answers.push(sendError('retry', 'later', { retryAfter }))
      server.second.answers.push(retry())
      const { next_at, state } = await after(server, await queue(server), 1)
      t.equal(state, 'queued')
      return secondsUntil(next_at)
    }
    const [some, endless] = [await asked(600), await asked(Infinity)]
    t.ok(some > 600 - patience(30) && some <= 901, `${some}`)
    t.ok(endless > 3600 - patience(30) && endless <= 5401, `${endless}`)
  },
  'queue.age': async (t, server) => {
    const { length } = server.email.handed
    const old = await store(
      server,
      `queued_at = now() - interval '24 hours 1 minute', attempts = 3, error = 'first: never'`,
    )
    await becomes(server, old, 'failed')
    t.match(await stateOf(server, old), {
      error: 'too old to send (queue.maxAgeSeconds); before that: first: never',
      text: 'x',
    })
    t.equal(server.email.handed.length, length)
    await becomes(server, await store(server, `queued_at = now() - interval '23 hours'`), 'sent')
  },
  'queue.suppressed': async (t, server) => {
    await server.send('suppressed', { address: 'gone@example.com' })
    const id = await queue(server, { to: 'Gone@example.com' })
    await becomes(server, id, 'failed')
    t.match(await stateOf(server, id), { error_code: 'suppressed', attempts: 0 })
  },
  'queue.concurrency': async (t, server) => {
    const { handed, answers } = server.email
    const [one, two] = [later(), later()]
    handed.length = 0
    answers.push(one.answer, two.answer)
    const ids = [await queue(server), await queue(server), await queue(server)]
    await until('two are being sent', () => handed.length === 2)
    const { id } = (await server.send('sms', { ...SMS, queue: true })).body
    await becomes(server, id, 'sent')
    t.equal(handed.length, 2, 'as many as the concurrency')
    one.give()
    await until('the third follows', () => handed.length === 3)
    two.give()
    for (const each of ids) await becomes(server, each, 'sent')
  },
  'stored.first': async (t, server) => {
    let stored: unknown
    server.email.answers.push(async ({ id }) => {
      stored = await rowsOf(server.databaseUrl, `select mode, text from svc_catalog.svc_outbox where id = '${id}'`)
      return { id: 'x', detail: '' }
    })
    t.equal((await server.send('email', MAIL)).status, 200)
    t.same(stored, [{ mode: 'sync', text: 'Hi' }])
  },
  'stored.deleted': async (t, server) => {
    const attachments = [{ filename: 'a', content: '' }]
    const more = { html: '<p>', cc: 'c@example.com', bcc: 'd@example.com', replyTo: 'e@example.com', attachments }
    const { body } = await server.send('email', { ...MAIL, ...more })
    const contents = `text, html, cc, bcc, reply_to, message, content, "to", sub,
      (select count(*)::int from svc_catalog.svc_outbox_attachment where message_id = o.id) as files`
    const [row] = await rowsOf(
      server.databaseUrl,
      `select ${contents} from svc_catalog.svc_outbox o where provider_id = '${body.id}'`,
    )
    const gone = Object.fromEntries(
      ['text', 'html', 'cc', 'bcc', 'reply_to', 'message', 'content'].map((name) => [name, null]),
    )
    t.same(row, { ...gone, to: MAIL.to, sub: 'Hello', files: 0 })
    await server.send('sms', SMS)
    t.match(await server.messages('?kind=sms&limit=1'), [{ state: 'sent', message: null }])
  },
  'stored.caught': async (t, server) => {
    server.email.extra = { catches: true }
    const { headers } = await server.send('email', { ...MAIL, html: '<p>' })
    server.email.extra = {}
    const caught = (await server.fetch(headers.get('location') as string)).body
    t.match(caught, { state: 'caught', text: 'Hi', html: '<p>' })
    t.match(await server.messages('?state=caught&limit=1'), [{ id: caught.id, state: 'caught' }])
    t.notMatch(await server.messages('?state=sent'), [{ id: caught.id }], 'it is not listed as sent')
    const id = await queue(server)
    await becomes(server, id, 'sent')
    t.match(await stateOf(server, caught.id), { state: 'caught' }, 'whatever the provider does later')
  },
  'stored.by-sql': async (t, server) => {
    const id = randomUUID()
    await rowsOf(
      server.databaseUrl,
      `insert into svc_catalog.svc_outbox (id, kind, "to", "from", sub, text, state, attempts, provider, provider_id)
       values ('${id}', 'email', 'a@example.com', 'b@example.com', 'S', 'x', 'sent', 7, 'second', 'mine')`,
    )
    await becomes(server, id, 'sent')
    t.match(await stateOf(server, id), { provider: 'first', attempts: 1, sub: 'S', provider_id: /^email-/ })
    t.equal(last(server).id, id)
    const counted = `insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text, mode, attempts, claims, losses)
      values ('email', 'a@example.com', 'b@example.com', 'Counted', 'x', 'sync', 7, 7, 7) returning attempts, claims, losses`
    t.same(await rowsOf(server.databaseUrl, counted), [{ attempts: 0, claims: 0, losses: 0 }])
    await rowsOf(server.databaseUrl, `delete from svc_catalog.svc_outbox where sub = 'Counted'`)
  },
  'stored.by-sql-checked': async (t, server) => {
    const { length } = server.email.handed
    const bad: [string, string][] = [
      ['"from", sub, text', `'email', 'a@example.com, b@example.com', 'b@example.com', 'S', 'x'`],
      ['"from", sub, text', `'email', 'a@example.com', 'b@example.com', E'S\\r\\nBcc: c@example.com', 'x'`],
      ['"from", from_name, sub, text', `'email', 'a@example.com', 'b@example.com', E'B\\n', 'S', 'x'`],
      ['"from", sub, text', `'email', 'a@example.com', 'b@example.com', '=?utf-8?q?a=0A?=', 'x'`],
      ['"from", sub, text, cc', `'email', 'a@example.com', 'b@example.com', 'S', 'x', '{"path": "/etc/passwd"}'`],
      ['"from", from_name, sub, text', `'email', 'a@example.com', 'b@example.com', '=?utf-8?q?a?=', 'S', 'x'`],
      ['"from", sub, text, reply_to', `'email', 'a@example.com', 'b@example.com', 'S', 'x', 'a, b'`],
      ['country_code, message', `'sms', '12; drop', '1', 'x'`],
    ]
    const ids = bad.map(() => randomUUID())
    const values = bad.map(
      ([columns, row], i) =>
        `insert into svc_catalog.svc_outbox (id, kind, "to", ${columns}) values ('${ids[i]}', ${row})`,
    )
    await rowsOf(server.databaseUrl, values.join(';'))
    for (const id of ids) {
      await becomes(server, id, 'failed')
      t.match(await stateOf(server, id), { error_code: 'invalid_payload', attempts: 0 })
    }
    t.equal(server.email.handed.length, length)
    const half = `insert into svc_catalog.svc_outbox (kind, "to", sub) values ('email', 'a@example.com', 'S')`
    await t.rejects(rowsOf(server.databaseUrl, half), /check constraint/)
  },
  'lease.length': async (t, server) => {
    const { answer, give } = later()
    const { length } = server.email.handed
    server.email.answers.push(answer)
    const id = await queue(server)
    await until('it is being sent', () => server.email.handed.length > length)
    const { state, next_at } = await stateOf(server, id)
    t.equal(state, 'sending')
    const seconds = secondsUntil(next_at)
    t.ok(seconds > 120 - patience(20) && seconds <= 121, `${seconds}`)
    give()
    await becomes(server, id, 'sent')
  },
  'lease.waits': async (t, server) => {
    const id = await store(server, `state = 'sending', provider = 'first', next_at = now() + interval '1 minute'`)
    // The next message shows that the worker has looked for messages since.
    await becomes(server, await queue(server), 'sent')
    t.match(await stateOf(server, id), { state: 'sending', provider: 'first', attempts: 0 })
    t.notOk(server.email.handed.some((each) => each.id === id))
  },
  'lease.queued': async (t, server) => {
    server.second.handed.length = 0
    const id = await store(server, LOST)
    await becomes(server, id, 'sent')
    t.same(
      server.second.handed.map((each) => each.id),
      [id],
    )
    t.match(await stateOf(server, id), { provider: 'second', attempts: 2 })
  },
  'lease.at-most-once': async (t, server) => {
    const { length } = server.second.handed
    const id = await store(server, LOST, 'queue', 'true')
    await becomes(server, id, 'unknown')
    t.match(await stateOf(server, id), {
      error: 'a server claimed it and stored no result; it may have been sent',
      text: 'x',
      provider: 'second',
    })
    t.equal(server.second.handed.length, length)
  },
  'lease.synchronous': async (t, server) => {
    const { length } = server.second.handed
    await becomes(server, await store(server, LOST, 'sync'), 'unknown')
    await becomes(server, await store(server, `mode = 'sync'`, 'sync'), 'unknown')
    t.equal(server.second.handed.length, length)
  },
  'lease.losses': async (t, server) => {
    const { length } = server.second.handed
    await becomes(server, await store(server, `${LOST}, losses = 3`), 'sent')
    t.equal(server.second.handed.length, length + 1)
    const id = await store(server, `${LOST}, losses = 4`)
    await becomes(server, id, 'unknown')
    t.match(await stateOf(server, id), { error: /^a server claimed it 5 times in a row and stored no result/ })
    t.equal(server.second.handed.length, length + 1)
  },
  'lease.not-called': async (t, server) => {
    const { length } = server.second.handed
    server.email.extra = server.second.extra = { domains: ['example.net'] }
    const id = await store(server, `${LOST}, losses = 2`)
    await becomes(server, id, 'unknown')
    await rowsOf(
      server.databaseUrl,
      `update svc_catalog.svc_outbox set state = 'queued', next_at = now() where id = '${id}'`,
    )
    await becomes(server, id, 'unknown')
    const lost = `update svc_catalog.svc_outbox set state = 'sending', losses = losses + 1, next_at = now() where id = '${id}'`
    server.email.extra = server.second.extra = {}
    await rowsOf(server.databaseUrl, lost)
    await becomes(server, id, 'unknown')
    t.match(await stateOf(server, id), { error: /^a server claimed it 5 times in a row and stored no result/ })
    t.equal(server.second.handed.length, length)
  },
  'lease.lost': async (t, server) => {
    const { answer, give } = later()
    const { length } = server.email.handed
    server.email.answers.push(answer)
    const id = await queue(server)
    await until('it is being sent', () => server.email.handed.length > length)
    const other = `claims = claims + 1, provider = 'second', next_at = now() + interval '1 hour'`
    await rowsOf(server.databaseUrl, `update svc_catalog.svc_outbox set ${other} where id = '${id}'`)
    give()
    // The next message shows that the delivery of this one has ended.
    await becomes(server, await queue(server), 'sent')
    t.match(await stateOf(server, id), {
      state: 'sending',
      provider: 'second',
      provider_id: null,
      text: 'Hi',
      attempts: 0,
    })
  },
  'unknown.synchronous': async (t, server) => {
    server.email.answers.push(unknown())
    server.second.handed.length = 0
    const answer = await server.send('email', MAIL)
    t.match(answer, {
      status: 500,
      body: { code: 'unexpected', state: 'unknown', detail: 'first: no answer; it may have been sent' },
    })
    t.match(await stateOf(server, answer.body.id), { state: 'unknown', text: 'Hi', attempts: 1 })
    t.same(server.second.handed, [])
  },
  'unknown.queued': async (t, server) => {
    server.email.handed.length = 0
    server.email.answers.push(unknown(), retry(), unknown())
    const id = await queue(server)
    await becomes(server, id, 'sent')
    t.same(
      server.email.handed.map((each) => each.id),
      [id, id, id, id],
    )
    t.same(server.second.handed, [])
  },
  'unknown.at-most-once': async (t, server) => {
    server.email.handed.length = 0
    server.email.answers.push(unknown())
    await becomes(server, await queue(server, { atMostOnce: true }), 'unknown')
    t.equal(server.email.handed.length, 1)
  },
  'unknown.recognized': async (t, server) => {
    server.email.handed.length = 0
    server.email.extra = { sendsOnceForSeconds: 60 }
    server.email.answers.push(unknown())
    await becomes(server, await queue(server, { atMostOnce: true }), 'sent')
    t.equal(server.email.handed.length, 2)
  },
  'unknown.forgotten': async (t, server) => {
    server.email.handed.length = 0
    const since = (seconds: number) =>
      store(
        server,
        `attempts = 1, provider = 'first', unknown_since = now() - interval '${seconds} seconds'`,
        'queue',
        'true',
      )
    const id = await since(61)
    await becomes(server, id, 'unknown')
    t.match(await stateOf(server, id), { error: /^the provider no longer recognizes a repeated message/ })
    t.same(server.email.handed, [])
    await becomes(server, await since(5), 'sent')
    server.email.extra = {}
  },
  'unknown.refused': async (t, server) => {
    server.email.answers.push(unknown(), sendError('refused', 'no'))
    const id = await queue(server)
    await becomes(server, id, 'unknown')
    t.match(await stateOf(server, id), { attempts: 2, error: 'first: no' })
  },
  'unknown.unreadable': async (t, server) => {
    server.email.handed.length = 0
    server.email.answers.push(sendError('unknown', 'what is that', { response: '200 <html>', unreadable: true }))
    const id = await queue(server)
    await becomes(server, id, 'unknown')
    t.match(await stateOf(server, id), { attempts: 1, error_code: 'response_changed', detail: '200 <html>' })
    server.email.answers.push(async () => 5 as never)
    const none = await queue(server)
    await becomes(server, none, 'unknown')
    t.match(await stateOf(server, none), { error_code: 'response_changed', detail: 'number' })
    t.equal(server.email.handed.length, 2)
  },
  'unknown.not-stored': async (t, server) => {
    // Too long for an index, and nothing in it repeats.
    const id = Array.from({ length: 1000 }, (_, i) => String.fromCodePoint(0x4e00 + ((i * 7919) % 20_000))).join('')
    const { length } = server.email.handed
    server.email.answers.push(
      async () => ({ id, detail: 'sent' }),
      async () => ({ id, detail: 'sent' }),
    )
    t.match(await server.send('email', MAIL), {
      status: 500,
      body: { code: 'unexpected', state: 'unknown', detail: 'its result could not be stored; it may have been sent' },
    })
    const queued = await queue(server)
    await becomes(server, queued, 'unknown')
    t.match(await stateOf(server, queued), { attempts: 1, provider: 'first' })
    t.equal(server.email.handed.length, length + 2)
  },
  'recipients.again': async (t, server) => {
    server.email.extra = { sendsToSome: true }
    server.email.handed.length = 0
    // The last answer is for all who are left.
    const tries: readonly (readonly RecipientOutcome[])[] = [
      [postponed('Late@Example.com'), refused('away@example.com')],
      [postponed('late@example.com')],
      [],
    ]
    server.email.answers.push(...tries.map((recipients) => async () => ({ id: 'x', detail: '250 ok', recipients })))
    const id = await queue(server, { cc: ['late@example.com', 'away@example.com'], bcc: 'later@example.com' })
    await becomes(server, id, 'partly_sent')
    const [first, ...others] = server.email.handed as Mail[]
    t.equal(first?.only, undefined)
    t.same(
      others.map(({ only }) => only),
      [['late@example.com'], ['late@example.com']],
    )
    const { only: _, ...same } = others[0]!
    t.same(same, first, 'everything else of the mail stays')
    t.match(await stateOf(server, id), {
      provider_id: 'x',
      attempts: 3,
      text: 'Hi',
      sent_at: /./,
      error: 'first: away@example.com was refused (550 no)',
      recipients: [
        { address: 'reader@example.com', outcome: 'sent', detail: '250 ok' },
        { address: 'late@example.com', outcome: 'sent', detail: '250 ok' },
        { address: 'away@example.com', outcome: 'refused', detail: '550 no' },
        { address: 'later@example.com', outcome: 'sent' },
      ],
    })

    server.email.answers.push(async () => ({ id: 'x', detail: 'ok', recipients: [postponed('late@example.com')] }))
    const all = await queue(server, { cc: 'late@example.com' })
    await becomes(server, all, 'sent')
    t.match(await stateOf(server, all), { recipients: null, error: null, text: null, cc: null, attempts: 2 })
    server.email.extra = {}
  },
  'recipients.synchronous': async (t, server) => {
    server.email.extra = { sendsToSome: true }
    for (const recipients of [
      [postponed('cc@example.com')],
      [refused('reader@example.com')],
      [maybe('cc@example.com')],
    ]) {
      server.email.answers.push(async () => ({ id: 'x', detail: '250 ok', recipients }))
      const { status, body, headers } = await server.send('email', { ...MAIL, cc: 'cc@example.com' })
      const sent = { outcome: 'sent', detail: '250 ok' }
      const outcomes = ['reader@example.com', 'cc@example.com'].map(
        (address) => recipients.find((each) => each.address === address) ?? { address, ...sent },
      )
      t.same([status, body], [200, { id: 'x', detail: '250 ok', state: 'partly_sent', recipients: outcomes }])
      const stored = (await server.fetch(headers.get('location') as string)).body
      t.match(stored, { state: 'partly_sent', recipients: outcomes, attempts: 1, provider: 'first', text: 'Hi' })
      t.match(await server.messages('?state=partly_sent&limit=1'), [{ id: stored.id, recipients: outcomes }])
    }
    server.email.extra = {}
  },
  'recipients.none': async (t, server) => {
    for (const [outcome, reported, state, code] of [
      ['refused', [refused('cc@example.com')], 'failed', 'unexpected'],
      ['retry', [refused('cc@example.com')], 'failed', 'unexpected'],
      ['unknown', [refused('cc@example.com')], 'unknown', 'unexpected'],
    ] as const) {
      server.email.answers.push(sendError(outcome, 'no', { recipients: reported }))
      server.second.answers.push(retry())
      const { status, body } = await server.send('email', { ...MAIL, cc: 'cc@example.com' })
      server.second.answers.length = 0
      t.match(
        [status, body],
        [500, { code, state, recipients: [{ address: 'reader@example.com' }, ...reported] }],
        outcome,
      )
    }
    const all = [refused('reader@example.com'), refused('cc@example.com')]
    server.email.answers.push(async () => ({ id: 'x', detail: 'none', recipients: all }))
    t.match(await server.send('email', { ...MAIL, cc: 'cc@example.com' }), {
      status: 500,
      body: { state: 'failed', recipients: all },
    })
  },
  'recipients.unknown': async (t, server) => {
    server.email.extra = { sendsToSome: true }
    server.second.handed.length = 0
    const others = [postponed('late@example.com'), refused('away@example.com')]
    const more = { cc: ['late@example.com', 'away@example.com'] }
    const broken = sendError('unknown', 'cut off', { recipients: others })
    const run = async (atMostOnce: boolean) => {
      server.email.handed.length = 0
      server.email.answers.push(broken)
      const id = await queue(server, { ...more, atMostOnce })
      await becomes(server, id, 'partly_sent')
      const { recipients } = await stateOf(server, id)
      return [
        server.email.handed.map((each) => (each as Mail).only),
        recipients.map(({ outcome }: RecipientOutcome) => outcome),
      ]
    }
    const again = [undefined, ['reader@example.com', 'late@example.com']]
    t.same(await run(false), [again, ['sent', 'sent', 'refused']], 'it is sent again to those who may have got it')
    const once = [undefined, ['late@example.com']]
    t.same(await run(true), [once, ['unknown', 'sent', 'refused']], 'a mail to send at most once only to the others')

    server.email.answers.push(broken)
    t.match(await server.send('email', { ...MAIL, ...more }), {
      status: 500,
      body: { state: 'unknown', recipients: [{ address: 'reader@example.com', outcome: 'unknown' }, ...others] },
    })
    t.same(server.second.handed, [])
    server.email.extra = {}
  },
  'recipients.may-have': async (t, server) => {
    const { length } = server.second.handed
    const refusal = sendError('refused', 'no', { recipients: [refused('reader@example.com')] })
    const later = sendError('retry', 'later', { recipients: [postponed('reader@example.com')] })
    for (const answers of [[refusal], [later, refusal]]) {
      server.email.answers.push(unknown(), ...answers)
      const id = await queue(server)
      await becomes(server, id, 'unknown')
      const recipients = [{ address: 'reader@example.com', outcome: 'unknown' }]
      t.match(await stateOf(server, id), { attempts: answers.length + 1, recipients }, 'of all recipients')
    }
    t.equal(server.second.handed.length, length, 'and no other provider gets it')

    server.email.extra = { sendsToSome: true }
    const lost = { address: 'a@example.com', outcome: 'postponed', detail: '450 later' }
    for (const [other, state] of [
      [{ address: 'b@example.com', outcome: 'refused', detail: '550 no' }, 'unknown'],
      [{ address: 'b@example.com', outcome: 'sent', detail: '250 ok' }, 'partly_sent'],
    ] as const) {
      server.email.answers.push(sendError('refused', 'no', { recipients: [refused('a@example.com')] }))
      const set = `cc = '["b@example.com"]', recipients = '${JSON.stringify([lost, other])}'`
      const id = await store(server, `${LOST.replace('second', 'first')}, ${set}`)
      await becomes(server, id, state)
      t.match(await stateOf(server, id), { recipients: [{ outcome: 'unknown' }, other] }, 'of a claim that was lost')
    }
    server.email.extra = {}
  },
  'recipients.whole': async (t, server) => {
    server.email.handed.length = server.second.handed.length = 0
    const answer = async () => ({ id: 'x', detail: '250 ok', recipients: [postponed('late@example.com')] })
    server.email.answers.push(answer)
    const id = await queue(server, { cc: 'late@example.com' })
    await becomes(server, id, 'partly_sent')
    t.match(await stateOf(server, id), { attempts: 1, recipients: [{ outcome: 'sent' }, { outcome: 'postponed' }] })
    t.equal(server.email.handed.length + server.second.handed.length, 1)

    server.email.answers.push(answer)
    server.second.extra = { sendsToSome: true }
    const other = await queue(server, { cc: 'late@example.com' })
    await becomes(server, other, 'sent')
    t.match(server.second.handed, [{ id: other, only: ['late@example.com'] }], 'another that can gets it')
    server.second.extra = {}
  },
  'recipients.failover': async (t, server) => {
    server.second.handed.length = 0
    const answer = sendError('retry', 'not all', { recipients: [refused('away@example.com')] })
    server.email.answers.push(answer, answer)
    server.second.extra = { sendsToSome: true }
    const more = { cc: 'away@example.com' }
    t.match(await server.send('email', { ...MAIL, ...more }), {
      status: 200,
      body: { state: 'partly_sent', recipients: [{ outcome: 'sent' }, refused('away@example.com')] },
    })
    t.match(server.second.handed, [{ only: ['reader@example.com'] }])
    server.second.extra = {}
    t.match(await server.send('email', { ...MAIL, ...more }), { status: 200, body: { id: /^second-/ } })
    t.equal((server.second.handed[1] as Mail).only, undefined, 'nobody has got it, so it may go to all')
  },
  'recipients.age': async (t, server) => {
    const { length } = server.email.handed
    const recipients = [{ address: 'a@example.com', outcome: 'sent', detail: '' }, postponed('late@example.com')]
    const set = `recipients = '${JSON.stringify(recipients)}', cc = '["late@example.com"]', attempts = 9`
    const id = await store(server, `${set}, queued_at = now() - interval '24 hours 1 minute'`)
    await becomes(server, id, 'partly_sent')
    t.match(await stateOf(server, id), { error: /^too old to send/, recipients, text: 'x' })
    t.equal(server.email.handed.length, length)
  },
  'recipients.suppressed': async (t, server) => {
    server.email.extra = { sendsToSome: true }
    await server.send('suppressed', { address: 'complained@example.com' })
    const sent = { address: 'complained@example.com', outcome: 'sent', detail: '' }
    const set = (recipients: readonly object[], cc: string) =>
      `"to" = 'complained@example.com', cc = '["${cc}"]', recipients = '${JSON.stringify(recipients)}'`
    await becomes(server, await store(server, set([sent, postponed('late@example.com')], 'late@example.com')), 'sent')
    const both = await store(
      server,
      set([{ ...sent, address: 'b@example.com' }, postponed('gone@example.com')], 'gone@example.com'),
    )
    await becomes(server, both, 'partly_sent')
    t.match(await stateOf(server, both), { error_code: 'suppressed' })
    const { length } = server.second.handed
    server.email.answers.push(retry())
    const nobody = await store(
      server,
      set([{ ...sent, outcome: 'refused' }, postponed('late@example.com')], 'late@example.com'),
    )
    await becomes(server, nobody, 'failed')
    t.match(await stateOf(server, nobody), { error_code: 'suppressed' }, 'a mail that may go to all is for all')
    t.equal(server.second.handed.length, length)
    server.email.answers.length = 0
    server.email.extra = {}
  },
  'recipients.retry': async (t, server) => {
    server.email.extra = { sendsToSome: true }
    const recipients = [refused('cc@example.com')]
    server.email.answers.push(async () => ({ id: 'x', detail: '250 ok', recipients }))
    const { headers } = await server.send('email', { ...MAIL, cc: 'cc@example.com' })
    const id = headers.get('location')!.split('/').at(-1)!
    server.email.handed.length = 0
    t.match(await server.send(`${id}/retry`, {}), { status: 200, body: { id, detail: 'queued' } })
    await becomes(server, id, 'sent')
    t.match(server.email.handed, [{ id, only: ['cc@example.com'] }])
    t.match(await stateOf(server, id), { recipients: null, text: null })
    t.match(await server.send(`${id}/retry`, {}), { status: 409, body: { code: 'not_failed' } })
    server.email.extra = {}
  },
  'recipients.unreadable': async (t, server) => {
    const wrong: readonly unknown[] = [
      5,
      {},
      [null],
      [{ address: 'reader@example.com', outcome: 'later', detail: '' }],
      [{ address: 'reader@example.com', outcome: 'sent' }],
      [{ address: 'another@example.com', outcome: 'refused', detail: '' }],
    ]
    for (const recipients of wrong) {
      server.email.answers.push(async () => ({ id: 'x', detail: 'ok', recipients }) as Receipt)
      const body = { code: 'response_changed', state: 'unknown' }
      t.match(await server.send('email', MAIL), { status: 500, body }, JSON.stringify(recipients))
      server.email.answers.push(sendError('refused', 'no', { recipients: recipients as never }))
      t.match(await server.send('email', MAIL), { status: 500, body: { state: 'unknown' } })
    }
  },
  'recipients.duplicates': async (t, server) => {
    const { headers } = await server.send('email', {
      ...MAIL,
      to: 'Reader <reader@example.com>',
      cc: ['READER@example.com', 'one@example.com', 'One <One@Example.com>'],
      bcc: ['one@example.COM', 'two@example.com', 'two@example.com'],
    })
    t.ok(headers.get('location'))
    t.match(last(server), {
      to: { address: 'reader@example.com', name: 'Reader' },
      cc: [{ address: 'one@example.com' }],
      bcc: [{ address: 'two@example.com' }],
    })
    t.equal(last(server).cc?.length, 1)
    t.equal(last(server).bcc?.length, 1)
  },
  'failover.next': async (t, server) => {
    server.email.answers.push(retry(), retry())
    t.match(await server.send('email', MAIL), { status: 200, body: { id: /^second-/ } })
    const id = await queue(server)
    await becomes(server, id, 'sent')
    t.match(await stateOf(server, id), { provider: 'second', attempts: 1, error: null })
    server.email.answers.push(retry())
    server.second.answers.push(sendError('retry', 'full'))
    t.match(await server.send('email', MAIL), {
      status: 500,
      body: { code: 'unexpected', state: 'failed', detail: 'first: not now; second: full' },
    })
  },
  'failover.refused': async (t, server) => {
    server.second.handed.length = 0
    server.email.answers.push(sendError('refused', 'no'))
    t.match(await server.send('email', MAIL), { status: 500, body: { state: 'failed', detail: 'first: no' } })
    t.same(server.second.handed, [])
  },
  'failover.limit': async (t, server) => {
    const large = (outcome: 'refused' | 'retry' = 'refused') =>
      sendError(outcome, 'too large', { response: '552 too large', limit: true })
    server.email.answers.push(large())
    t.match(await server.send('email', MAIL), { status: 200, body: { id: /^second-/ } })
    server.email.answers.push(large())
    const id = await queue(server)
    await becomes(server, id, 'sent')
    t.match(await stateOf(server, id), { provider: 'second', attempts: 1, error: null })
    server.email.answers.push(large())
    server.second.answers.push(large())
    const { status, body } = await server.send('email', MAIL)
    t.match(
      [status, body],
      [400, { code: 'invalid_payload', state: 'failed', message: 'first: too large; second: too large' }],
    )
    server.email.answers.push(large())
    server.second.answers.push(large())
    const lost = await queue(server)
    await becomes(server, lost, 'failed')
    t.match(await stateOf(server, lost), {
      attempts: 1,
      error: 'first: too large; second: too large',
      detail: '552 too large',
    })
    // One provider may take it later.
    server.email.answers.push(large())
    server.second.answers.push(retry())
    const later = await queue(server)
    await becomes(server, later, 'sent')
    t.match(await stateOf(server, later), { provider: 'first', attempts: 2 })
    server.sms.answers.push(large())
    t.match(await server.send('sms', SMS), { status: 400, body: { code: 'invalid_payload', state: 'failed' } })
  },
  'failover.never': async (t, server) => {
    server.email.handed.length = server.second.handed.length = 0
    server.email.extra = { domains: ['example.org'] }
    server.second.extra = { domains: ['example.net'] }
    const id = await store(server, `attempts = 0`)
    await becomes(server, id, 'failed')
    t.match(await stateOf(server, id), {
      attempts: 0,
      error: 'first: it may not send from example.com; second: it may not send from example.com',
    })
    t.same([...server.email.handed, ...server.second.handed], [])
    server.email.extra = server.second.extra = {}
  },
  'state.providers': async (t, server) => {
    server.second.extra = { catches: true, domains: ['example.com'], sendTemplate: unknown(), events: () => [] }
    const common = {
      catches: false,
      templates: false,
      domains: null,
      events: false,
      per_second: null,
      skipped_seconds: null,
    }
    const { body } = await server.fetch('/v1/send/providers')
    t.same(body, {
      email: [
        { ...common, name: 'first', position: 1 },
        {
          ...common,
          name: 'second',
          position: 2,
          catches: true,
          domains: ['example.com'],
          templates: true,
          events: true,
        },
        { ...common, name: 'memory', position: null, catches: true },
      ],
      sms: [{ ...common, name: 'first', position: 1 }],
    })
    server.second.extra = {}
  },
  'state.metrics': async (t, server) => {
    const metrics = async () => {
      const { text } = await server.fetch('/metrics')
      return (name: string) =>
        Number(
          text
            .split('\n')
            .find((line) => line.startsWith(`rowhouse_notify_${name} `))
            ?.split(' ')[1],
        )
    }
    const before = await metrics()
    server.sms.answers.push(sendError('refused', 'no'))
    await server.send('sms', SMS)
    await server.send('sms', SMS)
    const afterwards = await metrics()
    for (const [state, more] of [
      ['failed', 1],
      ['sent', 1],
      ['unknown', 0],
    ] as const) {
      const name = `messages_total{kind="sms",state="${state}"}`
      t.equal((afterwards(name) || 0) - (before(name) || 0), more, state)
    }
    const counts = await rowsOf<{ state: string; count: number }>(
      server.databaseUrl,
      `select state, count(*)::int from svc_catalog.svc_outbox where kind <> 'sms' and state not in ('sent', 'caught') group by 1`,
    )
    t.same(counts.map(({ state }) => state).toSorted(), ['failed', 'partly_sent', 'queued', 'sending', 'unknown'])
    for (const { state, count } of counts)
      t.equal(before(`outbox_messages{kind="email",state="${state}"}`), count, state)
    t.ok(before('outbox_oldest_seconds{kind="email"}') > 0)
    t.equal(before('outbox_oldest_seconds{kind="sms"}'), 0)
  },
}

/** Its promises, with a case for each. */
export const delivery = area('delivery', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t: Test) =>
    notifyServer(
      t,
      { email: { failover: ['second'] }, breaker: { failures: 1000 }, queue: { ...FAST.queue, concurrency: 2 } },
      { email: { memory: {} } },
    ),
})
