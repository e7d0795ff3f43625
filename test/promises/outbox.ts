import type { Test } from 'tap'
import type { Sms } from '../../core/index.js'
import { rowsOf } from '../kit/database.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { becomes, get, invalid, key, last, missing, send } from '../kit/notify-steps.js'
import { area, type Case, type Expected, is, like, type Step } from '../kit/promises.js'
import { sendError } from '../kit/sender.js'
import { until } from '../kit/until.js'

/** What the outbox promises: the list of messages, sending one again, the suppression list, and repeated requests. */
const PROMISES = {
  'list.order': 'messages are listed newest first, in pages',
  'list.filter': 'the list can be filtered by state and kind',
  'list.refused': 'an unknown filter of the list is refused',
  'list.one': 'a stored message has its contents until it is sent',
  'list.none': 'a message that does not exist is not found',
  'list.browser': 'without the console a browser gets the list as other clients do',
  'retry.failed': 'a failed message can be queued again, and is then sent',
  'retry.refused': 'no other message can be sent again',
  'suppressed.refused': 'an address on the suppression list gets no mail, not as a copy either',
  'suppressed.add': 'an admin adds an address to the list, with a reason',
  'suppressed.list': 'the list is sorted, and can be searched',
  'suppressed.remove': 'an address that was removed gets mail again',
  'key.same': 'the same Idempotency-Key has one effect and one answer',
  'key.failed': 'a failed answer is returned again, too',
  'key.queued': 'a queued message is stored once for a key',
  'key.reused': 'a key for another request is refused',
  'key.caller': 'a key belongs to its caller',
  'key.progress': 'while the first request is in progress, its repetition is told to wait',
  'key.crowd': 'of many requests with one key at the same time, one has an effect',
  'key.form': 'a key has up to 255 visible ASCII characters',
  'key.day': 'a key is good for 24 hours',
  'key.needs': 'a repeated request no longer needs its template',
  'error.fallback': 'any other failure is a 500 that says nothing of the inside',
} as const

const PAGES = {
  'plugins/notify/README.md': {
    notify: {
      '`GET /v1/send?state=&kind=&limit=&before=`': ['list.order', 'list.filter', 'list.refused', 'list.browser'],
      '`GET /v1/send/<id>`': ['list.one', 'list.none'],
      '`POST /v1/send/<id>/retry`': ['retry.failed', 'retry.refused'],
      '`GET`, `POST /v1/send/suppressed`, `DELETE /v1/send/suppressed/<address>`': [
        'suppressed.add',
        'suppressed.list',
        'suppressed.remove',
      ],
    },
    Errors: {
      '400': 'suppressed.refused',
      '404': 'list.none',
      '409': ['key.progress', 'key.reused', 'retry.refused'],
      '500': 'error.fallback',
    },
  },
} as const

const mail = (more: object, expected: Expected): Step => send('email', { ...MAIL, ...more }, expected)
const ok = like({ detail: 'taken' })
const KEY_RULE = 'Idempotency-Key should be 1 to 255 visible ASCII characters; in quotes it may contain spaces'
const TEMPLATE_MAIL = { to: 'a@example.com', fromEmail: 'b@example.com', templateName: 'welcome' }
const NONE = '00000000-0000-4000-8000-000000000000'
const unsuppress = (address: string, expected: Expected): Step => ({
  path: `/v1/send/suppressed/${address}`,
  method: 'DELETE',
  expected,
})

const CASES: Record<keyof typeof PROMISES, Case<NotifyServer>> = {
  'list.order': async (t, server) => {
    await server.send('email', { ...MAIL, to: Array.from({ length: 50 }, (_, i) => `a${i}@example.com`) })
    for (const sub of ['One', 'Two', 'Three']) await server.send('email', { ...MAIL, sub })
    const { messages, next } = (await server.fetch('/v1/send?limit=2')).body
    t.match(messages, [{ sub: 'Three' }, { sub: 'Two' }])
    t.equal(messages.length, 2)
    t.equal(next, messages[1].id)
    t.match(await server.messages(`?limit=1&before=${next}`), [{ sub: 'One' }])
    t.equal((await server.messages()).length, 50, 'a page without a limit')
    const [oldest] = (await server.sql('select id from svc_catalog.svc_outbox order by created_at, id')).result[1]!
    t.same((await server.fetch(`/v1/send?before=${oldest}`)).body, { messages: [], next: null })
  },
  'list.filter': async (t, server) => {
    const kinds = async (query: string) => new Set((await server.messages(query)).map(({ kind }) => kind))
    await server.send('sms', SMS)
    t.same(await kinds('?kind=sms'), new Set(['sms']))
    t.same(await kinds('?kind=email'), new Set(['email']))
    server.email.answers.push(sendError('unknown', 'no answer'))
    const { id } = (await server.send('email', MAIL)).body
    t.match(await server.messages('?state=unknown'), [{ id, state: 'unknown' }])
    t.same(await server.messages('?state=unknown&kind=sms'), [])
  },
  'list.refused': ['state=x', 'kind=x', 'limit=0', 'limit=1001', 'limit=x', 'before=x', 'limit=1&limit=2'].map(
    (query) => get(`?${query}`, { status: 400, like: { code: 'invalid_payload' } }),
  ),
  'list.one': async (t, server) => {
    const sent = (await server.send('email', { ...MAIL, html: '<p>', cc: 'c@example.com' })).headers.get('location')
    t.match((await server.fetch(sent as string)).body, {
      kind: 'email',
      state: 'sent',
      mode: 'sync',
      to: MAIL.to,
      from: MAIL.from,
      sub: 'Hello',
      provider: 'first',
      attempts: 1,
      text: null,
      html: null,
      cc: null,
      error: null,
      sent_at: /^\d{4}-/,
      delivery: null,
      attachments: [],
    })
    server.sms.answers.push(sendError('refused', 'no'))
    const { id } = (await server.send('sms', SMS)).body
    t.match((await server.fetch(`/v1/send/${id}`)).body, {
      kind: 'sms',
      state: 'failed',
      to: '5550100',
      country_code: '1',
      message: 'Hello',
      error: 'first: no',
      error_code: 'unexpected',
      sent_at: null,
    })
  },
  'list.none': ['nothing', NONE].map((id) =>
    get(`/${id}`, { status: 404, body: { code: 'not_found', message: `message "${id}" not found` } }),
  ),
  'list.browser': [
    {
      ...get('?limit=1', like({ messages: [{ kind: 'sms' }] })),
      headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' },
    },
    {
      path: '/v1/send',
      method: 'GET',
      bare: true,
      headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' },
      expected: { status: 401, like: { code: 'unauthorized' } },
    },
  ],
  'retry.failed': async (t, server) => {
    server.email.answers.push(sendError('refused', 'no'))
    const { id } = (await server.send('email', { ...MAIL, sub: 'Again' })).body
    const retried = await server.send(`${id}/retry`, {})
    t.same([retried.status, retried.body], [200, { id, detail: 'queued' }])
    await becomes(server, id, 'sent')
    t.match(last(server), { id, subject: 'Again' })
  },
  'retry.refused': async (t, server) => {
    const [sent] = await server.messages('?state=sent&limit=1')
    t.match(await server.send(`${sent.id}/retry`, {}), { status: 409, body: { code: 'not_failed' } })
    t.match(await server.send(`${NONE}/retry`, {}), {
      status: 404,
      body: { code: 'not_found', message: `message "${NONE}" not found` },
    })
  },
  'suppressed.refused': async (t, server) => {
    const { length } = server.email.handed
    const add = await server.send('suppressed', { address: 'Gone@example.com', reason: 'asked us' })
    t.same([add.status, add.body], [200, { address: 'gone@example.com' }])
    const refusal = { status: 400, body: { code: 'suppressed', state: 'failed' } }
    for (const field of ['to', 'cc', 'bcc']) {
      const answer = await server.send('email', { ...MAIL, [field]: 'GONE@example.com' })
      t.match(answer, refusal, field)
      t.equal(answer.body.message, 'gone@example.com is suppressed: asked us')
    }
    t.equal(server.email.handed.length, length)
  },
  'suppressed.add': [
    send('suppressed', { address: 'x' }, invalid('expecting an address', '$.address')),
    send('suppressed', { address: 'A <a@example.com>' }, invalid('expecting an address', '$.address')),
    send('suppressed', {}, missing('address')),
    send('suppressed', { address: 'another@example.org' }, is({ address: 'another@example.org' })),
  ],
  'suppressed.list': async (t, server) => {
    const found = async (query: string) =>
      (await server.fetch(`/v1/send/suppressed${query}`)).body.suppressed.map(
        ({ address, reason }: Record<string, string>) => `${address}: ${reason}`,
      )
    const [another, gone] = ['another@example.org: added by an admin', 'gone@example.com: asked us']
    t.same(await found(''), [another, gone])
    t.same(await found('?search=EXAMPLE.com'), [gone])
    t.same(await found('?search=%25'), [], 'a text, no pattern')
    t.same(await found('?after=another@example.org'), [gone])
    for (const query of ['search=%00', 'after=%00', 'search=a&search=b'])
      t.match(await server.fetch(`/v1/send/suppressed?${query}`), { status: 400, body: { code: 'invalid_payload' } })
  },
  'suppressed.remove': [
    unsuppress('GONE@example.com', is({ address: 'gone@example.com' })),
    unsuppress('gone@example.com', { status: 404, like: { code: 'not_found' } }),
    mail({ to: 'gone@example.com' }, ok),
  ],
  'key.same': async (t, server) => {
    const first = await server.send('email', MAIL, key('order-7'))
    const { length } = server.email.handed
    const again = await server.send('email', MAIL, key('order-7'))
    t.same([again.status, again.body], [200, first.body])
    t.equal(again.headers.get('idempotency-replayed'), 'true')
    t.equal(first.headers.get('idempotency-replayed'), null)
    t.equal(again.headers.get('location'), first.headers.get('location'))
    t.equal(server.email.handed.length, length)
  },
  'key.failed': async (t, server) => {
    server.email.answers.push(sendError('refused', 'no', { response: '550' }))
    const failed = await server.send('email', MAIL, key('bad'))
    const { length } = server.email.handed
    const repeated = await server.send('email', MAIL, key('bad'))
    t.same([repeated.status, repeated.body], [500, failed.body])
    t.equal(server.email.handed.length, length)
  },
  'key.queued': async (t, server) => {
    const queued = await server.send('sms', { ...SMS, message: 'once', queue: true }, key('queued'))
    t.same((await server.send('sms', { ...SMS, message: 'once', queue: true }, key('queued'))).body, queued.body)
    await becomes(server, queued.body.id, 'sent')
    t.equal(server.sms.handed.filter((each) => (each as Sms).message === 'once').length, 1)
  },
  'key.reused': [
    ...[
      { sub: 'Other' },
      { to: 'other@example.com' },
      { from: 'other@example.com' },
      { fromName: 'Other' },
      { text: 'other' },
      { html: '<p>other</p>' },
      { cc: 'other@example.com' },
    ].map((other) =>
      send('email', { ...MAIL, ...other }, { status: 409, like: { code: 'idempotency_key_reused' } }, key('order-7')),
    ),
    send('email', { ...MAIL, attachments: [{ filename: 'a', content: '' }] }, { status: 409 }, key('order-7')),
    send('sms', SMS, { status: 409, like: { code: 'idempotency_key_reused' } }, key('order-7')),
  ],
  'key.caller': async (t, server) => {
    const { length } = server.email.handed
    t.equal(
      (await server.send('email', { ...MAIL, sub: 'Mine' }, { ...key('order-7'), 'X-Service-User-Id': '9' })).status,
      200,
    )
    t.equal(server.email.handed.length, length + 1)
  },
  'key.progress': async (t, server) => {
    const { email } = server
    const { length } = email.handed
    let release = () => {}
    email.answers.push(() => new Promise((resolve) => (release = () => resolve({ id: 'x', detail: '' }))))
    const slow = server.send('email', MAIL, key('slow'))
    await until('it is being sent', () => email.handed.length > length)
    const repeated = await server.send('email', MAIL, key('slow'))
    t.match(repeated, { status: 409, body: { code: 'in_progress' } })
    t.equal(repeated.headers.get('retry-after'), '1')
    t.match(await server.messages('?limit=1'), [{ mode: 'sync', state: 'sending' }])
    release()
    t.match(await slow, { status: 200, body: { id: 'x' } })
    t.equal(email.handed.length, length + 1)
  },
  'key.crowd': async (t, server) => {
    const { length } = server.sms.handed
    const crowd = await Promise.all(Array.from({ length: 10 }, () => server.send('sms', SMS, key('crowd'))))
    t.equal(server.sms.handed.length, length + 1)
    const statuses = new Set(crowd.map(({ status }) => status))
    statuses.delete(409)
    t.same(statuses, new Set([200]))
  },
  'key.form': [
    send('sms', SMS, invalid(KEY_RULE, '$.headers.Idempotency-Key'), key('a b')),
    send('sms', SMS, invalid(KEY_RULE, '$.headers.Idempotency-Key'), key('x'.repeat(256))),
    send('sms', SMS, ok, key('x'.repeat(255))),
  ],
  'key.day': async (t, server) => {
    const { length } = server.email.handed
    const later = (hours: number) =>
      rowsOf(
        server.databaseUrl,
        `update svc_catalog.svc_kept_answer set expires_at = expires_at - interval '${hours} hours'`,
      )
    await later(23)
    t.equal((await server.send('email', MAIL, key('order-7'))).status, 200)
    t.equal(server.email.handed.length, length, 'after 23 hours')
    await later(1)
    t.equal((await server.send('email', { ...MAIL, sub: 'Other' }, key('order-7'))).status, 200)
    t.equal(server.email.handed.length, length + 1, 'after 24 hours')
  },
  'key.needs': async (t, server) => {
    const template = JSON.stringify({ subject: 'S', text: 'Hi {{ who }}' })
    await server.fetch('/v1/send/template/welcome', { method: 'PUT', body: template })
    const body = { ...TEMPLATE_MAIL, templateContent: [{ name: 'who', content: 'x' }] }
    const first = await server.send('email-template', body, key('template'))
    t.equal(first.status, 200)
    await server.fetch('/v1/send/template/welcome', { method: 'DELETE' })
    t.same((await server.send('email-template', body, key('template'))).body, first.body)
  },
  'error.fallback': async (t, server) => {
    server.email.extra = {
      events() {
        throw new Error('something of the inside')
      },
    }
    const { status, body } = await server.bare('/v1/send/events/email/first', { method: 'POST' })
    t.same([status, body], [500, { code: 'unexpected', message: 'fallback 500 error handler' }])
  },
}

/** Its promises, with a case for each. */
export const outbox = area('outbox', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t: Test) => notifyServer(t, { email: { failover: ['second'] } }),
})
