import type { Test } from 'tap'
import type { Mail, Sms } from '../../core/index.js'
import { notifyServer, type NotifyServer } from '../kit/notify.js'
import { becomes, FAST } from '../kit/notify-steps.js'
import { area, type Case, like, query, refused, type Step } from '../kit/promises.js'
import { until } from '../kit/until.js'

/** What `send_email` and `send_sms` of the query API promise. */
const PROMISES = {
  'role.untracked': 'while the outbox is not tracked, only admin sends',
  'commit.sent': 'a message of a bulk is sent once the bulk is committed',
  'commit.rolled-back': 'no message is left of a bulk that failed, and none is sent',
  'commit.dry-run': 'a dry run sends nothing',
  'commit.alone': 'a message alone is always queued',
  'payload.list': 'a list of recipients has a message each',
  'payload.refused': 'a refused payload has its path in the request',
  'payload.attachments': 'messages of the query API take no attachments',
  'payload.synchronous': 'messages of the query API cannot be synchronous',
  'role.none': 'a role without insert permission cannot send',
  'role.sends': 'a role sends what its permission allows, with the values that it sets',
  'role.check': 'a recipient outside the check is refused',
  'role.columns': 'a field outside the permission is refused, also one that it sets',
  'role.kind': 'the kind of a message is checked, too',
  'role.state': 'no role can set the state of a message',
  'role.select': 'a role reads the messages that its permission allows',
  'role.domain': 'a sender that a permission sets is not refused for the payload’s absence of it',
  'role.presets': 'a field that the permission sets may be absent, and no other',
  'role.acting': 'an admin who acts as a role sees why it may not send; the role does not',
  'template.sends': 'a template sends, with fields as parameters and their defaults',
  'template.refused': 'a wrong value of a parameter is refused with its path, and nothing is left',
  'template.missing': 'a missing parameter is refused',
  'template.number': 'a number as a parameter is sent with its digits',
  'template.role': 'a role calls such a template only if it may send and do the rest',
  'template.openapi': 'the OpenAPI document lists the parameters of a message',
} as const

const OUTBOX = { schema: 'svc_catalog', name: 'svc_outbox' }
const mail = (sub: string, more: object = {}) => ({
  to: 'reader@example.com',
  from: 'shop@example.com',
  sub,
  text: 'Hi',
  ...more,
})
const buy = (what: string) => ({ type: 'insert', args: { table: 'buy', objects: [{ what }] } })
const email = (args: object) => ({ type: 'send_email', args })
const queued = like({ id: /^[0-9a-f-]{36}$/, detail: 'queued' })

/** Mails of a subject that providers got. */
const handed = (server: NotifyServer, sub: string) =>
  server.email.handed.filter((each) => (each as Mail).subject === sub)
const isSent = (server: NotifyServer, sub: string) => until(`"${sub}" is sent`, () => handed(server, sub).length > 0)
const count = async (server: NotifyServer, where: string): Promise<number> =>
  (await server.must('count', { table: OUTBOX, where: { sub: where } })).count

const USER = { role: 'user', variables: { 'x-service-user-id': '42' } }
const TO_ME = { to: 'member@example.com', sub: 'To me', text: 'x' }
const asUser = (args: object, expected: Step['expected'], role = 'user') =>
  query('send_email', args, expected, { role })

const call = (body: object, expected: Step['expected'], role?: string): Step => ({
  path: '/v1/template/bought',
  method: 'POST',
  body: JSON.stringify(body),
  expected,
  ...(role === undefined ? {} : { as: { role } }),
})

const insertPermission = (role: string, columns: readonly string[], set: object, check: object = {}) => ({
  type: 'create_insert_permission',
  args: { table: OUTBOX, role, permission: { columns: ['id', 'kind', ...columns, 'at_most_once'], set, check } },
})
const PERMISSIONS = [
  insertPermission(
    'user',
    ['to', 'sub', 'text'],
    { from: 'shop@shop.example.com' },
    { kind: 'email', to: { $like: '%@example.com' } },
  ),
  insertPermission('writer', ['to', 'from', 'sub', 'text'], {}, { to: { $like: '%@example.com' } }),
  insertPermission('textless', ['to', 'country_code', 'message'], {}, { kind: 'email' }),
  insertPermission('desk', ['sub', 'text'], { to: 'help@example.com', from: 'desk@example.com' }),
  insertPermission('greeter', ['to'], { from: 'shop@example.com', sub: 'Welcome', html: '<p>Hi' }),
  insertPermission('picker', ['to'], { country_code: '1', message: 'Ready' }),
  insertPermission('caller', ['message', 'country_code'], { to: '5550199' }),
  {
    type: 'create_select_permission',
    args: {
      table: OUTBOX,
      role: 'user',
      permission: { columns: ['sub', 'state'], filter: { to: 'member@example.com' } },
    },
  },
]
const BOUGHT = {
  type: 'bulk',
  args: [
    { type: 'insert', args: { table: 'buy', objects: { param: 'rows' } } },
    email({ to: { param: 'to' }, from: 'shop@example.com', sub: { param: 'sub', default: 'Thanks' }, text: 'x' }),
    { type: 'send_sms', args: { to: { param: 'number' }, countryCode: '1', message: 'Bought' } },
  ],
}

const CASES: Record<keyof typeof PROMISES, Case<NotifyServer>> = {
  'role.untracked': [
    query(
      'send_email',
      mail('x'),
      refused('access-denied', /only the role admin .* until svc_catalog.svc_outbox is tracked/, '$'),
      USER,
    ),
    query('send_email', mail('untracked'), queued),
    // From here on, the outbox is tracked.
    query('track_table', OUTBOX, { status: 200 }),
    query('bulk', PERMISSIONS, { status: 200 }),
    query('create_query_template', { name: 'bought', template: BOUGHT }, { status: 200 }),
  ],
  'commit.sent': async (t, server) => {
    const { status, body } = await server.query('bulk', [buy('kite'), email(mail('kite'))])
    t.match([status, body], [200, [{ affected_rows: 1 }, { id: /^[0-9a-f-]{36}$/, detail: 'queued' }]])
    await becomes(server, body[1].id, 'sent')
    t.match(handed(server, 'kite'), [
      { to: { address: 'reader@example.com' }, from: { address: 'shop@example.com' }, text: 'Hi' },
    ])
  },
  'commit.rolled-back': async (t, server) => {
    t.match(await server.query('bulk', [email(mail('never')), buy('kite')]), {
      status: 400,
      body: { path: /^\$\.args\[1\]/ },
    })
    t.equal(await count(server, 'never'), 0)
    t.equal((await server.query('send_email', mail('afterwards'))).status, 200)
    await isSent(server, 'afterwards')
    t.same(handed(server, 'never'), [])
  },
  'commit.dry-run': async (t, server) => {
    const body = JSON.stringify({ ...email(mail('dry')), dry_run: true })
    t.match(await server.raw(body), { status: 200, body: { detail: 'queued' } })
    t.equal(await count(server, 'dry'), 0)
  },
  'commit.alone': async (t, server) => {
    const { status, body } = await server.query('send_sms', { to: 5550100, countryCode: 1, message: 'alone' })
    t.match([status, body], [200, { detail: 'queued' }])
    await becomes(server, body.id, 'sent')
    const { id: _, ...sms } = server.sms.handed.at(-1) as Sms
    t.same(sms, { to: '5550100', countryCode: '1', message: 'alone' })
    t.match((await server.fetch(`/v1/send/${body.id}`)).body, { mode: 'queue', kind: 'sms' })
  },
  'payload.list': async (t, server) => {
    const { body } = await server.query('send_email', mail('two', { to: ['a@example.com', 'b@example.com'] }))
    t.match(body, { detail: 'queued', results: [{ to: 'a@example.com', detail: 'queued' }, { to: 'b@example.com' }] })
    for (const { id } of body.results) await becomes(server, id, 'sent')
    t.equal(handed(server, 'two').length, 2)
  },
  'payload.refused': [
    query(
      'bulk',
      [buy('x'), email(mail('x', { to: 'a@x, b@x' }))],
      refused('unexpected-payload', /^expecting one address/, '$.args[1].args.to'),
    ),
    query(
      'bulk',
      [buy('x'), email({ from: 'a@example.com' })],
      refused('unexpected-payload', "the key 'to' was not present", '$.args[1].args'),
    ),
    query('send_email', mail('x', { headers: {} }), refused('unexpected-payload', /unexpected key/, '$.args.headers')),
    query('select', { table: 'buy', columns: ['what'], where: { what: 'x' } }, { status: 200, body: [] }),
  ],
  'payload.attachments': [
    query(
      'send_email',
      mail('x', { attachments: [{ filename: 'a', content: '' }] }),
      refused('unexpected-payload', /takes attachments/, '$.args.attachments'),
    ),
  ],
  'payload.synchronous': [
    query('send_email', mail('x', { queue: false }), refused('unexpected-payload', /always queued/, '$.args.queue')),
    query('send_email', mail('explicit', { queue: true }), queued),
  ],
  'role.none': [
    asUser(mail('x'), refused('permission-denied', /role "guest" may not insert/, '$.args'), 'guest'),
    query('send_sms', { to: 5550100, countryCode: 1, message: 'x' }, refused('permission-denied', /guest/), {
      role: 'guest',
    }),
  ],
  'role.sends': async (t, server) => {
    server.email.extra = { domains: ['shop.example.com'] }
    const { status, body } = await server.query('send_email', TO_ME, USER)
    t.match([status, body], [200, { detail: 'queued' }])
    await becomes(server, body.id, 'sent')
    t.match(handed(server, 'To me'), [
      { from: { address: 'shop@shop.example.com' }, to: { address: 'member@example.com' }, text: 'x' },
    ])
    server.email.extra = {}
  },
  'role.check': [
    asUser(
      { ...TO_ME, to: 'other@example.org' },
      {
        status: 400,
        body: {
          path: '$.args',
          error: 'the row would not pass the insert check of role "user" on "svc_catalog.svc_outbox"',
          code: 'postgres-error',
        },
      },
    ),
    asUser(
      { ...TO_ME, to: ['a@example.com', 'other@example.org'] },
      refused('postgres-error', /would not pass the insert check/),
    ),
  ],
  'role.columns': [
    asUser({ ...TO_ME, from: 'boss@shop.example.com' }, refused('permission-denied', /"from"/, '$.args')),
    asUser({ ...TO_ME, html: '<p>' }, refused('permission-denied', /"html"/, '$.args')),
  ],
  'role.kind': [
    query('send_sms', { to: 5550100, countryCode: 1, message: 'x' }, { status: 400 }, { role: 'user' }),
    query('send_sms', { to: 5550100, countryCode: 1, message: 'x' }, refused('postgres-error', /would not pass/), {
      role: 'textless',
    }),
  ],
  'role.state': async (t, server) => {
    const columns = {
      id: '00000000-0000-4000-8000-00000000000a',
      kind: 'email',
      to: 'me@example.com',
      sub: 'Forged',
      text: 'x',
    }
    const row = { ...columns, at_most_once: false }
    for (const more of [{ state: 'sent' }, { attempts: 9 }, { provider: 'x' }]) {
      const answer = await server.query('insert', { table: OUTBOX, objects: [{ ...row, ...more }] }, USER)
      t.match(answer, { status: 400, body: { code: 'permission-denied' } })
    }
    t.equal((await server.query('insert', { table: OUTBOX, objects: [row] }, USER)).status, 200)
    await becomes(server, row.id, 'sent')
  },
  'role.select': [
    query(
      'select',
      { table: OUTBOX, columns: ['sub', 'state'], where: { sub: 'To me' } },
      { status: 200, body: [{ sub: 'To me', state: 'sent' }] },
      USER,
    ),
    query('select', { table: OUTBOX, columns: ['sub'], where: { sub: 'kite' } }, { status: 200, body: [] }, USER),
    query('select', { table: OUTBOX, columns: ['text'] }, refused('permission-denied', /"text"/), USER),
  ],
  'role.domain': async (t, server) => {
    server.email.extra = { domains: ['elsewhere.example'] }
    t.match(await server.query('send_email', mail('x'), USER), { status: 400 })
    const { body } = await server.query('send_email', { ...TO_ME, sub: 'Domain' }, USER)
    await becomes(server, body.id, 'failed')
    server.email.extra = {}
  },
  'role.presets': async (t, server) => {
    const send = async (type: string, args: unknown, role: string) => server.query(type, args, { role })
    const ids = []
    for (const [type, args, role] of [
      ['send_email', { sub: 'Broken', text: 'x' }, 'desk'],
      ['send_email', { to: 'a@example.com' }, 'greeter'],
      ['send_sms', { to: 5550100 }, 'picker'],
      ['send_sms', { countryCode: 44, message: 'Hi' }, 'caller'],
    ] as const) {
      const { status, body } = await send(type, args, role)
      t.match([status, body], [200, { detail: 'queued' }], role)
      ids.push(body.id)
    }
    for (const id of ids) await becomes(server, id, 'sent')
    t.match(handed(server, 'Broken'), [
      { to: { address: 'help@example.com' }, from: { address: 'desk@example.com' }, text: 'x' },
    ])
    t.match(handed(server, 'Welcome'), [
      { to: { address: 'a@example.com' }, from: { address: 'shop@example.com' }, html: '<p>Hi' },
    ])
    t.same(
      server.sms.handed
        .slice(-2)
        .map((each) => (each as Sms).to)
        .toSorted(),
      ['5550100', '5550199'],
    )
    t.match(
      server.sms.handed.find((each) => (each as Sms).message === 'Ready'),
      { to: '5550100', countryCode: '1' },
    )
    t.match(
      server.sms.handed.find((each) => (each as Sms).message === 'Hi'),
      { to: '5550199', countryCode: '44' },
    )
    const missing = (key: string) => ({
      status: 400,
      body: { path: '$.args', error: `the key '${key}' was not present` },
    })
    t.match(await send('send_email', { sub: 'x' }, 'desk'), { status: 400, body: { error: /'text' and 'html'/ } })
    t.match(await send('send_email', {}, 'greeter'), missing('to'))
    t.match(await send('send_sms', {}, 'picker'), missing('to'))
    t.match(await send('send_sms', { countryCode: 1 }, 'caller'), missing('message'))
    t.match(await send('send_sms', { message: 'x' }, 'caller'), missing('countryCode'))
    for (const args of [null, 'x', []]) t.equal((await send('send_sms', args, 'picker')).status, 400)
  },
  'role.acting': async (t, server) => {
    const internal = async (args: object, role = 'writer') => {
      const acting = await server.query('send_email', args, { role, acting: true })
      const own = await server.query('send_email', args, { role })
      const { internal: seen, ...others } = acting.body
      t.same([acting.status, others], [400, own.body], 'otherwise the answer is the same')
      return seen
    }
    t.match(await internal(mail('x', { to: 'other@example.org' })), {
      verdict: 'refused',
      reason: 'check',
      table: 'svc_catalog.svc_outbox',
      operation: 'insert',
      check: { path: '$.check.to', result: false, values: { to: 'other@example.org' } },
    })
    const allowed = ['id', 'kind', 'to', 'from', 'sub', 'text', 'at_most_once']
    t.match(await internal(mail('x', { html: '<p>' })), { reason: 'permission', columns: { allowed } })
    t.match(await internal(mail('x'), 'guest'), { reason: 'permission', operation: 'insert', permission: null })
    t.equal(await internal(mail('x', { to: 'nobody' })), undefined, 'other errors')
  },
  'template.sends': async (t, server) => {
    const { status, body } = await server.fetch('/v1/template/bought', {
      method: 'POST',
      body: JSON.stringify({ rows: [{ what: 'top' }], to: 'a@example.com', number: '5550100' }),
    })
    t.match([status, body], [200, [{ affected_rows: 1 }, { detail: 'queued' }, { detail: 'queued' }]])
    await becomes(server, body[1].id, 'sent')
    await becomes(server, body[2].id, 'sent')
    t.match(handed(server, 'Thanks'), [{ to: { address: 'a@example.com' } }])
    t.match(server.sms.handed.at(-1), { to: '5550100', message: 'Bought' })
  },
  'template.refused': [
    call(
      { rows: [{ what: 'y' }], to: 'a@x, b@x', number: '5550100' },
      {
        status: 400,
        like: { path: '$.to', error: /^parameter "to"/ },
      },
    ),
    query('select', { table: 'buy', columns: ['what'], where: { what: 'y' } }, { status: 200, body: [] }),
  ],
  'template.missing': [call({ rows: [{ what: 'z' }], to: 'a@example.com' }, refused('invalid-params', /"number"/))],
  'template.number': async (t, server) => {
    const body =
      '{"rows": [{"what": "number"}], "to": "a@example.com", "number": 5550199, "sub": 12345678901234567890.10}'
    const answer = await server.fetch('/v1/template/bought', { method: 'POST', body })
    t.equal(answer.status, 200)
    await isSent(server, '12345678901234567890.10')
    await becomes(server, answer.body[2].id, 'sent')
    t.match(server.sms.handed.at(-1), { to: '5550199' })
  },
  'template.role': [
    call(
      { rows: [{ what: 'role' }], to: 'a@example.com', number: '5550100' },
      refused('permission-denied', /.*/),
      'user',
    ),
    call({ rows: [{ what: 'role' }], to: 'a@example.com', number: '5550100' }, { status: 400 }, 'guest'),
  ],
  'template.openapi': async (t, server) => {
    const { paths } = (await server.fetch('/v1/openapi.json')).body
    t.match(paths['/v1/template/bought'].post.requestBody.content['application/json'].schema, {
      properties: { to: { type: ['string', 'null'] }, sub: { default: 'Thanks' }, number: {} },
      required: ['rows', 'to', 'number'],
    })
  },
}

/** Its promises, with a case for each. */
export const sends = area('sends', { promises: PROMISES, cases: CASES, start })

async function start(t: Test): Promise<NotifyServer> {
  const server = await notifyServer(t, FAST)
  await server.sql('create table buy (id serial primary key, what text not null unique)')
  await server.must('track_table', 'buy')
  return server
}
