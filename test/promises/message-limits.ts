import pg from 'pg'
import type { Test } from 'tap'
import type { Data } from 'rowhouse'
import type { Sms } from '../../core/index.js'
import { Outbox } from '../../plugins/notify/outbox.js'
import { rowsOf } from '../kit/database.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { patience } from '../kit/patience.js'
import { until } from '../kit/until.js'
import { area, type Case } from '../kit/promises.js'
import { sendError } from '../kit/sender.js'
import { type Answered, testServer } from '../kit/server.js'

/** How many messages a server sends, to whom, and what its settings change. */
const PROMISES = {
  'limit.per-second': 'a provider that has reached perSecond is passed over',
  'limit.country-codes': 'SMS go to the allowed calling codes only',
  'limit.per-number': 'a number gets so many SMS in an hour, however it is written',
  'limit.per-day': 'so many SMS are sent in a day',
  'limit.windows': 'an hour and a day later, SMS are sent again',
  'breaker.consecutive': 'a success between failures starts the count again',
  'breaker.skips': 'a provider is skipped after consecutive failures, and readyz says so',
  'settings.recipients': 'maxRecipients limits a list',
  'settings.attachments': 'maxAttachmentBytes limits the sum of attachments, files included',
  'settings.own-templates': 'without ownTemplates a stored template is not used',
  'settings.no-worker': 'with a concurrency of 0 a server leaves queued messages to others',
  'settings.names': 'a server does not start with a failover or a limit for a provider that is not configured',
  'settings.keep-days': 'messages are deleted when they are old, but not while they wait',
  'lease.end': 'an attempt ends after half of the lease, and the outcome is then unknown',
} as const

const PAGES = {
  'plugins/notify/README.md': {
    Errors: {
      '400, 429': ['limit.country-codes', 'limit.per-number', 'limit.per-day'],
    },
    Delivery: {
      '`sent`': 'settings.keep-days',
    },
  },
} as const

interface Limited extends NotifyServer {
  /** What became of a mail that its provider does not answer. */
  readonly unanswered: Promise<Answered>
  /** Those of that mail. */
  readonly signals: readonly AbortSignal[]
}

const retry = () => sendError('retry', 'not now')

const CASES: Record<keyof typeof PROMISES, Case<Limited>> = {
  'lease.end': async (t, { unanswered, signals }) => {
    t.match(await unanswered, {
      status: 500,
      body: { code: 'unexpected', state: 'unknown', detail: /no response in time/ },
    })
    t.same(
      signals.map(({ aborted }) => aborted),
      [true],
    )
  },
  'limit.per-second': async (t, server) => {
    // The first message of the limit is the one without an answer.
    t.match(await server.send('email', MAIL), { status: 200, body: { id: /^second-/ } })
    server.second.answers.push(retry())
    t.match(await server.send('email', MAIL), {
      status: 500,
      body: { state: 'failed', detail: /^first: the rate limit is reached \(perSecond\); second: not now/ },
    })
    t.equal(server.email.handed.length, 1)
    t.match((await server.fetch('/v1/send/providers')).body.email, [{ name: 'first', per_second: 0.001 }])
  },
  'limit.country-codes': async (t, server) => {
    const { status, body } = await server.send('sms', { ...SMS, countryCode: 44 })
    t.match([status, body], [400, { code: 'not_allowed', state: 'failed' }])
    t.equal(body.message, 'calling code 44 is not allowed (plugins.notify.sms.countryCodes)')
  },
  'limit.per-number': async (t, server) => {
    t.equal((await server.send('sms', { ...SMS, to: '5550100', countryCode: '1' })).status, 200)
    t.equal((await server.send('sms', { ...SMS, to: '550100', countryCode: '15' })).status, 200)
    const { status, body } = await server.send('sms', SMS)
    t.match([status, body], [429, { code: 'too_many', state: 'failed' }])
    t.equal(body.message, 'this number got 2 messages within an hour (plugins.notify.sms.perNumberPerHour)')
    t.equal((await server.send('sms', { ...SMS, to: 5550101 })).status, 200)
  },
  'limit.per-day': async (t, server) => {
    t.equal((await server.send('sms', { ...SMS, to: 5550102 })).status, 200)
    const { status, body } = await server.send('sms', { ...SMS, to: 5550103 })
    t.match([status, body], [429, { code: 'too_many' }])
    t.equal(body.message, '4 messages were sent within a day (plugins.notify.sms.perDay)')
    t.same(
      server.sms.handed.map((each) => (each as Sms).to),
      ['5550100', '550100', '5550101', '5550102'],
    )
  },
  'limit.windows': async (t, server) => {
    const later = (time: string) =>
      rowsOf(server.databaseUrl, `update svc_catalog.svc_outbox set created_at = created_at - interval '${time}'`)
    await later('55 minutes')
    t.match(await server.send('sms', SMS), { status: 429, body: { message: /perNumberPerHour/ } })
    await later('5 minutes')
    t.match(await server.send('sms', SMS), { status: 429, body: { message: /perDay/ } })
    await later('22 hours 50 minutes')
    t.match(await server.send('sms', SMS), { status: 429, body: { message: /perDay/ } })
    await later('10 minutes')
    t.equal((await server.send('sms', SMS)).status, 200)
  },
  'breaker.consecutive': async (t, server) => {
    const { sms } = server
    await rowsOf(server.databaseUrl, `update svc_catalog.svc_outbox set created_at = created_at - interval '2 days'`)
    sms.handed.length = 0
    sms.answers.push(retry(), async () => ({ id: 'x', detail: 'taken' }), retry(), sendError('refused', 'no'))
    for (const status of [500, 200, 500, 500, 200]) t.equal((await server.send('sms', SMS)).status, status)
    t.equal(sms.handed.length, 5)
  },
  'breaker.skips': async (t, server) => {
    const { sms } = server
    await rowsOf(server.databaseUrl, `update svc_catalog.svc_outbox set created_at = created_at - interval '2 days'`)
    sms.handed.length = 0
    sms.answers.push(retry(), sendError('unknown', 'no answer'))
    await server.send('sms', SMS)
    t.match((await server.fetch('/v1/send/providers')).body.sms, [{ name: 'first', skipped_seconds: null }])
    await server.send('sms', SMS)
    t.match(await server.send('sms', SMS), {
      status: 500,
      body: { state: 'failed', detail: 'first: skipped after repeated failures' },
    })
    t.equal(sms.handed.length, 2, 'not called')
    const [{ skipped_seconds: seconds }] = (await server.fetch('/v1/send/providers')).body.sms
    t.ok(seconds > 60 - patience(20) && seconds <= 60, `${seconds}`)
    const { status, body } = await server.fetch('/readyz')
    t.equal(status, 200)
    t.match(
      body.probes.find(({ name }: { name: string }) => name === 'notify.providers'),
      { ok: true, detail: 'skipped after failures: first' },
    )
  },
  'settings.recipients': async (t, server) => {
    const to = ['a@example.com', 'b@example.com', 'c@example.com']
    t.equal((await server.send('email', { ...MAIL, to: to.slice(1), queue: true })).status, 200)
    t.match(await server.send('email', { ...MAIL, to, queue: true }), {
      status: 400,
      body: { message: 'Error in $.to: more than 2 addresses' },
    })
  },
  'settings.attachments': async (t, server) => {
    const attached = (...texts: readonly string[]) => {
      const attachments = texts.map((text) => ({ filename: 'a', content: Buffer.from(text).toString('base64') }))
      return server.send('email', { ...MAIL, attachments, queue: true })
    }
    t.equal((await attached('12', '3')).status, 200)
    t.match(await attached('12', '34'), {
      status: 400,
      body: {
        code: 'invalid_payload',
        message:
          'Error in $.attachments: the attachments are larger than 3 bytes (plugins.notify.email.maxAttachmentBytes)',
      },
    })
    const put = (id: string, body: string) =>
      server.fetch(`/v1/file/${id}`, {
        method: 'PUT',
        body,
        headers: { 'content-type': 'a/b', 'x-service-user-id': '7' },
      })
    await put('three', '123')
    await put('four', '1234')
    const file = (file_id: string, more: readonly object[] = []) =>
      server.send('email', { ...MAIL, attachments: [...more, { file_id }], queue: true })
    t.equal((await file('three')).status, 200)
    t.equal((await file('four')).status, 413)
    t.equal((await file('three', [{ filename: 'a', content: 'MQ==' }])).status, 413)
  },
  'settings.own-templates': async (t, server) => {
    const template = JSON.stringify({ subject: 'S', text: 'T' })
    t.equal((await server.fetch('/v1/send/template/welcome', { method: 'PUT', body: template })).status, 200)
    t.match(
      await server.send('email-template', {
        to: 'a@example.com',
        fromEmail: 'b@example.com',
        templateName: 'welcome',
      }),
      { status: 400, body: { code: 'invalid_provider' } },
    )
  },
  'settings.no-worker': async (t, server) => {
    const queued = (await server.messages('?kind=email')).filter(({ mode }) => mode === 'queue')
    t.same(
      queued.map(({ state }) => state),
      ['queued', 'queued', 'queued', 'queued'],
    )
  },
  'settings.names': async (t, { databaseUrl }) => {
    const started = (notify: object) =>
      testServer(t, {
        notify: true,
        databaseUrl,
        config: { providers: { email: { default: 'memory', memory: {} } }, plugins: { notify } },
      })
    await t.rejects(started({ email: { failover: ['nobody'] } }), /email\.failover names "nobody"/)
    await t.rejects(started({ sms: { perSecond: { nobody: 1 } } }), /sms\.perSecond names "nobody"/)
  },
  'settings.keep-days': async (t, server) => {
    const client = new pg.Client(server.databaseUrl)
    await client.connect()
    const outbox = new Outbox({
      query: async (sql: string, values: unknown[]) => (await client.query(sql, values)).rows,
    } as unknown as Data)
    const left = async () =>
      (await client.query(`select sub from svc_catalog.svc_outbox where sub like '% days' order by sub`)).rows.map(
        ({ sub }) => sub,
      )
    for (const [days, state] of [
      [29, 'sent'],
      [31, 'sent'],
      [32, 'failed'],
      [33, 'unknown'],
      [34, 'queued'],
      [35, 'sending'],
    ])
      await client.query(
        `begin; insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text)
           values ('email', 'a@example.com', 'b@example.com', '${days} days', 'x');
         update svc_catalog.svc_outbox set state = '${state}', created_at = now() - interval '${days} days'
           where sub = '${days} days'; commit`,
      )
    t.equal(await outbox.prune(30), false, 'that was all')
    t.same(await left(), ['29 days', '34 days', '35 days'])
    await client.end()
  },
}

/** Its promises, with a case for each. */
export const messageLimits = area('message-limits', { promises: PROMISES, pages: PAGES, cases: CASES, start })

async function start(t: Test): Promise<Limited> {
  const server = await notifyServer(
    t,
    {
      email: {
        failover: ['second'],
        perSecond: { first: 0.001 },
        maxRecipients: 2,
        maxAttachmentBytes: 3,
        ownTemplates: false,
      },
      sms: { countryCodes: ['1', '15'], perNumberPerHour: 2, perDay: 4 },
      queue: { concurrency: 0, leaseSeconds: Math.ceil(patience(2000) / 1000) },
      breaker: { failures: 2, seconds: 60 },
    },
    {},
    true,
  )
  const signals: AbortSignal[] = []
  server.email.answers.push((_, signal) => (signals.push(signal), new Promise<never>(() => {})))
  // It takes a second, in which the other promises are proved.
  const unanswered = server.send('email', MAIL)
  await until('its provider has it', async () => signals.length === 1)
  return { ...server, signals, unanswered }
}
