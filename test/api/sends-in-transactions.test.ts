import tap, { type Test } from 'tap'
import { notifyServer, type NotifyServer } from '../kit/notify.js'
import { until } from '../kit/until.js'

const FAST = { queue: { retrySeconds: 0.01, pollMs: 20 } }
const OUTBOX = { schema: 'svc_catalog', name: 'svc_outbox' }
const mail = (sub: string) => ({ to: 'reader@example.com', from: 'shop@example.com', sub, text: 'Hi' })

async function shop(t: Test): Promise<NotifyServer> {
  const server = await notifyServer(t, FAST)
  await server.must('run_sql', {
    sql: 'create table buy (id serial primary key, what text not null unique)',
  })
  await server.must('track_table', 'buy')
  return server
}

const buy = (what: string) => ({ type: 'insert', args: { table: 'buy', objects: [{ what }], returning: ['id'] } })

tap.test('a message exists if and only if the rows beside it do', async (t) => {
  const server = await shop(t)
  const done = await server.query('bulk', [buy('kite'), { type: 'send_email', args: mail('kite') }])
  t.match(done, { status: 200, body: [{ affected_rows: 1 }, { id: /^[0-9a-f-]{36}$/, detail: 'queued' }] })
  t.match(await server.query('bulk', [{ type: 'send_email', args: mail('again') }, buy('kite')]), { status: 400 })
  t.match(await server.query('send_sms', { to: 5550100, countryCode: 1, message: 'alone' }), {
    status: 200,
    body: { detail: 'queued' },
  })
  t.match(
    await server.query('bulk', [
      { type: 'send_email', args: { ...mail('two'), to: ['a@example.com', 'b@example.com'] } },
    ]),
    {
      body: [{ detail: 'queued', results: [{ to: 'a@example.com' }, { to: 'b@example.com' }] }],
    },
  )
  await until('all are sent', async () => (await server.messages('?state=sent')).length === 4)
  t.equal((await server.messages()).length, 4)
  t.same(server.email.handed.map((each) => 'subject' in each && each.subject).toSorted(), ['kite', 'two', 'two'])

  const bad = (args: object) => server.query('bulk', [buy('x'), { type: 'send_email', args }])
  t.match(await bad({ ...mail('x'), to: 'a@x, b@x' }), {
    status: 400,
    body: { code: 'unexpected-payload', path: '$.args[1].args.to' },
  })
  t.match(await bad({ from: 'a@example.com' }), {
    status: 400,
    body: { path: '$.args[1].args', error: /'to' was not present/ },
  })
  t.match(await bad({ ...mail('x'), attachments: [{ filename: 'a', content: '' }] }), {
    status: 400,
    body: { path: '$.args[1].args.attachments' },
  })
  t.match(await server.query('send_email', mail('x'), { role: 'user' }), {
    status: 400,
    body: { code: 'access-denied', path: '$' },
  })
})

tap.test('a role sends what its permission allows', async (t) => {
  const server = await shop(t)
  await server.must('track_table', OUTBOX)
  // What a permission sets is not judged by what stands in for it.
  server.email.extra = { domains: ['shop.example.com'] }
  const permit = (role: string, permission: object) =>
    server.must('create_insert_permission', { table: OUTBOX, role, permission })
  await permit('user', {
    columns: ['id', 'kind', 'to', 'sub', 'text', 'at_most_once'],
    set: { from: 'shop@shop.example.com' },
    check: { kind: 'email', to: { $like: '%@example.com' } },
  })
  const user = { role: 'user', variables: { 'x-service-user-id': '42' } }
  const args = { to: 'member@example.com', sub: 'To me', text: 'x' }

  t.match(await server.query('send_email', args, user), { status: 200, body: { detail: 'queued' } })
  await until('it is sent', async () => (await server.messages('?state=sent')).length === 1)
  t.match(server.email.handed, [{ from: { address: 'shop@shop.example.com' }, to: { address: 'member@example.com' } }])

  t.match(await server.query('send_email', { ...args, to: 'other@example.org' }, user), {
    status: 400,
    body: { error: /would not pass the/ },
  })
  t.match(await server.query('send_email', { ...args, from: 'boss@shop.example.com' }, user), {
    status: 400,
    body: { code: 'permission-denied', error: /"from"/ },
  })
  t.match(await server.query('send_email', { ...args, html: '<p>' }, user), { status: 400, body: { error: /"html"/ } })
  t.match(await server.query('send_sms', { to: 5550100, countryCode: 1, message: 'x' }, user), { status: 400 })
  t.match(await server.query('send_email', { ...args, from: 'a@shop.example.com' }, { role: 'guest' }), {
    status: 400,
    body: { code: 'permission-denied' },
  })
  t.equal((await server.query('send_email', { ...args, from: 'a@shop.example.com' })).status, 200, 'admin')
  await until('both are sent', async () => (await server.messages('?state=sent')).length === 2)
  t.equal((await server.messages()).length, 2)
})

tap.test('an admin who acts as a role sees why it may not send, and nobody else does', async (t) => {
  const server = await shop(t)
  await server.must('track_table', OUTBOX)
  const columns = ['id', 'kind', 'to', 'from', 'sub', 'text', 'at_most_once']
  const permission = { columns, check: { to: { $like: '%@example.com' } } }
  await server.must('create_insert_permission', { table: OUTBOX, role: 'user', permission })
  const args = mail('Hi')
  const internal = async (args: object, role = 'user') => {
    const acting = await server.query('send_email', args, { role, acting: true })
    const own = await server.query('send_email', args, { role })
    const { internal, ...others } = acting.body
    t.equal(acting.status, 400)
    t.same({ status: acting.status, body: others }, { status: own.status, body: own.body }, 'the answer is the same')
    return internal
  }

  t.match(await internal({ ...args, to: 'other@example.org' }), {
    verdict: 'refused',
    reason: 'check',
    table: 'svc_catalog.svc_outbox',
    operation: 'insert',
    permission,
    check: { path: '$.check.to', result: false, values: { to: 'other@example.org' } },
  })
  t.match(await internal({ ...args, html: '<p>' }), { reason: 'permission', columns: { allowed: columns } })
  t.match(await internal(args, 'guest'), { reason: 'permission', operation: 'insert', permission: null })
  t.equal(await internal({ ...args, to: 'nobody' }), undefined, 'other errors')
  t.same(await server.messages(), [])
})

tap.test('a key may be absent where the permission sets its column', async (t) => {
  const server = await shop(t)
  await server.must('track_table', OUTBOX)
  const permit = (role: string, columns: readonly string[], set: object) =>
    server.must('create_insert_permission', {
      table: OUTBOX,
      role,
      permission: { columns: ['id', 'kind', 'at_most_once', ...columns], set, check: {} },
    })
  await permit('desk', ['sub', 'text'], { to: 'help@example.com', from: 'desk@example.com' })
  await permit('greeter', ['to'], { from: 'shop@example.com', sub: 'Welcome', html: '<p>Hi' })
  await permit('picker', ['to'], { country_code: '1', message: 'Ready' })
  await permit('caller', ['message', 'country_code'], { to: '5550199' })
  const send = (type: string, args: unknown, role: string) => server.query(type, args, { role })

  t.match(await send('send_email', { sub: 'Broken', text: 'x' }, 'desk'), { status: 200, body: { detail: 'queued' } })
  t.match(await send('send_email', { to: 'a@example.com' }, 'greeter'), { status: 200 })
  t.match(await send('send_sms', { to: 5550100 }, 'picker'), { status: 200 })
  t.match(await send('send_sms', { countryCode: 44, message: 'Hi' }, 'caller'), { status: 200 })
  await until('all are sent', async () => (await server.messages('?state=sent')).length === 4)
  t.match(
    server.email.handed.toSorted((a, b) => ('subject' in a && 'subject' in b && a.subject < b.subject ? -1 : 1)),
    [
      { to: { address: 'help@example.com' }, from: { address: 'desk@example.com' }, subject: 'Broken', text: 'x' },
      { to: { address: 'a@example.com' }, from: { address: 'shop@example.com' }, subject: 'Welcome', html: '<p>Hi' },
    ],
  )
  t.match(
    server.sms.handed.toSorted((a, b) => ('to' in a && 'to' in b && a.to < b.to ? -1 : 1)),
    [
      { to: '5550100', countryCode: '1', message: 'Ready' },
      { to: '5550199', countryCode: '44', message: 'Hi' },
    ],
  )

  const missing = (key: string) => ({ status: 400, body: { path: '$.args', error: new RegExp(`'${key}' was not`) } })
  t.match(await send('send_email', { sub: 'x' }, 'desk'), { status: 400, body: { error: /'text' and 'html'/ } })
  t.match(await send('send_email', {}, 'greeter'), missing('to'))
  t.match(await send('send_sms', {}, 'picker'), missing('to'))
  t.match(await send('send_sms', { countryCode: 1 }, 'caller'), missing('message'))
  t.match(await send('send_sms', { message: 'x' }, 'caller'), missing('countryCode'))
  for (const args of [null, 'x', []]) t.match(await send('send_sms', args, 'picker'), { status: 400 })
})

tap.test('a template sends', async (t) => {
  const server = await shop(t)
  await server.must('track_table', OUTBOX)
  const template = {
    type: 'bulk',
    args: [
      { type: 'insert', args: { table: 'buy', objects: { param: 'rows' } } },
      {
        type: 'send_email',
        args: { to: { param: 'to' }, from: 'shop@example.com', sub: { param: 'sub', default: 'Thanks' }, text: 'x' },
      },
      { type: 'send_sms', args: { to: { param: 'number' }, countryCode: '1', message: 'Bought' } },
    ],
  }
  await server.must('create_query_template', { name: 'bought', template })
  const call = (body: object, as = {}) =>
    server.fetch('/v1/template/bought', { method: 'POST', body: JSON.stringify(body) }, as)

  t.match(await call({ rows: [{ what: 'kite' }], to: 'a@example.com', number: '5550100' }), {
    status: 200,
    body: [{ affected_rows: 1 }, { detail: 'queued' }, { detail: 'queued' }],
  })
  await until('both are sent', async () => (await server.messages('?state=sent')).length === 2)
  t.match(server.email.handed, [{ subject: 'Thanks', to: { address: 'a@example.com' } }])

  t.match(await call({ rows: [{ what: 'top' }], to: 'a@x, b@x', number: '5550100' }), {
    status: 400,
    body: { path: '$.to', error: /when processing parameter "to"/ },
  })
  t.match(await call({ rows: [{ what: 'top' }], to: 'a@example.com' }), {
    status: 400,
    body: { code: 'invalid-params' },
  })
  t.equal(
    (await call({ rows: [{ what: 'top' }], to: 'a@example.com', number: '5550100' }, { role: 'user' })).status,
    400,
  )
  t.equal((await server.messages()).length, 2)
  const openapi = (await server.fetch('/v1/openapi.json')).body
  t.match(openapi.paths['/v1/template/bought'].post.requestBody.content['application/json'].schema, {
    properties: { to: { type: ['string', 'null'] }, sub: { default: 'Thanks' }, number: {} },
    required: ['rows', 'to', 'number'],
  })
})
