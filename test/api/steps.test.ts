import tap, { type Test } from 'tap'
import { notifyServer, type NotifyServer } from '../kit/notify.js'
import { until } from '../kit/until.js'

const USER = { role: 'user', variables: { 'x-service-user-id': '7' } }

async function shop(t: Test): Promise<NotifyServer> {
  const server = await notifyServer(t, { queue: { pollMs: 20 } })
  await server.must('run_sql', {
    sql: `
      create table customer (id int primary key, email text not null, user_id int not null, key uuid not null default gen_random_uuid());
      create table orders (id serial primary key, customer_id int references customer, note text, meta jsonb);
      create table item (id serial primary key, order_id int not null references orders, sku text not null, n int not null);
      create table stock (sku text primary key, n int not null check (n >= 0));
      insert into customer values (1, 'ann@example.com', 7), (2, 'bob@example.com', 8);
      insert into stock values ('kite', 5), ('rope', 1);`,
  })
  await server.must(
    'bulk',
    ['customer', 'orders', 'item', 'stock'].map((table) => ({ type: 'track_table', args: table })),
  )
  await server.must('create_object_relationship', {
    table: 'orders',
    name: 'customer',
    using: { foreign_key_constraint_on: 'customer_id' },
  })
  await server.must('create_select_permission', {
    table: 'customer',
    role: 'user',
    permission: { columns: ['id', 'email'], filter: { user_id: 'X-SERVICE-USER-ID' } },
  })
  for (const table of ['orders', 'item']) {
    await server.must('create_insert_permission', { table, role: 'user', permission: { check: {} } })
    await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: {} } })
  }
  return server
}

const order = {
  as: 'order',
  type: 'insert',
  args: { table: 'orders', objects: [{ customer_id: 1, note: 'soon' }], returning: ['id', 'note', 'meta'] },
}
const ID = { $ref: 'order.returning[0].id' }
const items = (...skus: readonly string[]) => ({
  type: 'insert',
  args: { table: 'item', objects: skus.map((sku) => ({ order_id: ID, sku, n: 1 })), returning: ['order_id', 'sku'] },
})
const count = async (server: NotifyServer, table: string) =>
  ((await server.must('count', { table })) as { count: number }).count

tap.test('later steps use answers of earlier ones: in rows, conditions, messages and limits', async (t) => {
  const server = await shop(t)

  const done = await server.query('bulk', [
    { as: 'who', type: 'select', args: { table: 'customer', columns: ['id', 'email'], where: { id: 1 } } },
    {
      ...order,
      args: { ...order.args, objects: [{ customer_id: { $ref: 'who[0].id' }, note: 'a', meta: { $ref: 'who' } }] },
    },
    items('kite', 'rope'),
    { type: 'update', args: { table: 'orders', where: { id: ID }, $set: { note: { $ref: 'who[0].email' } } } },
    { as: 'all', type: 'select', args: { table: 'item', columns: ['id'], where: { order_id: { $eq: ID } } } },
    { type: 'count', args: { table: 'item', where: { id: { $in: { $ref: 'all[*].id' } } } } },
    { as: 'few', type: 'count', args: { table: 'item', where: { sku: 'kite' } } },
    { type: 'select', args: { table: 'item', columns: ['sku'], order_by: 'id', limit: { $ref: 'few.count' } } },
    { type: 'send_email', args: { to: { $ref: 'who[0].email' }, from: 'shop@example.com', sub: 'Yours', text: 'Hi' } },
    {
      type: 'select',
      args: { table: 'orders', columns: ['id', 'note', 'meta', { name: 'customer', columns: ['id'] }] },
    },
  ])

  t.match(done, { status: 200 })
  const body = done.body as readonly any[]
  const id = body[1].returning[0].id
  t.same(body[2].returning, [
    { order_id: id, sku: 'kite' },
    { order_id: id, sku: 'rope' },
  ])
  t.same(body[5], { count: 2 })
  t.same(body[7], [{ sku: 'kite' }])
  t.match(body[8], { detail: 'queued' })
  t.same(body[9], [{ id, note: 'ann@example.com', meta: [{ id: 1, email: 'ann@example.com' }], customer: { id: 1 } }])
  t.match(await server.messages(), [{ to: 'ann@example.com' }])
})

tap.test('a number is put into a message as its text', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', {
    sql: `create table call (id int primary key, number bigint not null, code int not null, price numeric not null, huge numeric not null);
      insert into call values (1, 5550100, 49, 1.10, 90071992547409930)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'call' },
    { type: 'track_table', args: { schema: 'svc_catalog', name: 'svc_outbox' } },
  ])
  const call = { as: 'call', type: 'select', args: { table: 'call', columns: ['*'], where: { id: 1 } } }
  const field = (name: string) => ({ $ref: `call[0].${name}` })
  const sms = (value: (name: string) => object) => ({
    type: 'send_sms',
    args: { to: value('number'), countryCode: value('code'), message: value('price') },
  })
  await server.must('create_query_template', { name: 'sms', template: sms((param) => ({ param })) })
  const args = { number: field('number'), code: field('code'), price: field('huge') }

  t.match(await server.query('bulk', [call, sms(field)]), { status: 200 })
  t.match(await server.query('bulk', [call, { type: 'execute_query_template', args: { name: 'sms', args } }]), {
    status: 200,
  })
  await until('both are sent', async () => server.sms.handed.length === 2)
  t.match(
    server.sms.handed.toSorted((a, b) => JSON.stringify(a).length - JSON.stringify(b).length),
    [
      { to: '5550100', countryCode: '49', message: '1.10' },
      { to: '5550100', countryCode: '49', message: '90071992547409930' },
    ],
  )
})

tap.test('rows of an earlier step can be inserted as they are', async (t) => {
  const server = await shop(t)

  const done = await server.query('bulk', [
    { as: 'low', type: 'select', args: { table: 'stock', columns: ['sku', 'n'], where: { n: { $lt: 5 } } } },
    { as: 'copy', type: 'delete', args: { table: 'stock', where: {}, returning: ['sku'] } },
    { type: 'insert', args: { table: 'stock', objects: { $ref: 'low' } } },
  ])

  t.match(done, { status: 200, body: [[{ sku: 'rope', n: 1 }], { affected_rows: 2 }, { affected_rows: 1 }] })
})

tap.test('for_each runs a step for each row, and counts them', async (t) => {
  const server = await shop(t)
  const all = { as: 'all', type: 'select', args: { table: 'customer', columns: ['id', 'email'], order_by: 'id' } }
  const mail = { type: 'send_email', args: { to: { $ref: 'each.email' }, from: 'a@example.com', sub: 'S', text: 'T' } }

  const sent = await server.query('bulk', [all, { ...mail, for_each: 'all' }])
  t.match(sent, { status: 200, body: [{ length: 2 }, { length: 2 }] })
  t.same((await server.messages()).map(({ to }: any) => to).toSorted(), ['ann@example.com', 'bob@example.com'])

  const { args } = mail
  const alike = { type: 'insert', args: { table: 'orders', objects: [{ note: 'alike' }] } }
  for (const each of [alike, { type: 'send_email', args: { ...args, to: 'all@example.com' } }]) {
    t.match(await server.query('bulk', [all, { ...each, for_each: 'all' }]), { status: 200, body: [{}, { length: 2 }] })
  }

  const nested = await server.query('bulk', [
    all,
    {
      as: 'made',
      for_each: { in: 'all', max: 2 },
      type: 'bulk',
      args: [{ ...order, args: { ...order.args, objects: [{ customer_id: { $ref: 'each.id' } }] } }, items('kite')],
    },
    { type: 'count', args: { table: 'item', where: { order_id: { $ref: 'made[1][0].returning[0].id' } } } },
  ])
  t.match(nested, { status: 200, body: { 2: { count: 1 } } })

  const many = await server.query('bulk', [all, { ...mail, for_each: { in: 'all', max: 1 } }])
  t.match(many, { status: 400, body: { path: '$.args[1].for_each', error: /2 elements.*at most 1/ } })
  t.match(await server.query('bulk', [all, { ...mail, for_each: { in: 'all', max: 1001 } }]), {
    status: 400,
    body: { path: '$.args[1].for_each.max' },
  })
  t.match(await server.query('bulk', [order, { ...mail, for_each: 'order' }]), {
    status: 400,
    body: { path: '$.args[1].for_each', error: /expecting a list, but found object/ },
  })
  t.equal((await server.messages()).length, 4)
})

tap.test('what follows an unmet expectation does not start', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', { sql: 'create sequence used' })
  const use = { type: 'run_sql', args: { sql: "select nextval('used')" } }

  const refused = await server.query('bulk', [{ type: 'count', args: { table: 'customer' }, expect: { rows: 5 } }, use])

  t.match(refused, { status: 409, body: { path: '$.args[0].expect' } })
  t.match(await server.must('run_sql', { sql: 'select is_called from used' }), { result: [['is_called'], ['f']] })
})

tap.test('an expectation that is not met rolls everything back, and names itself', async (t) => {
  const server = await shop(t)
  const take = (sku: string, n: number, expect: object) => ({
    type: 'update',
    args: { table: 'stock', where: { sku, n: { $gte: n } }, $inc: { n: -n } },
    expect,
  })

  t.match(await server.query('bulk', [order, take('rope', 1, { affected: 1 })]), { status: 200 })
  t.match(await server.query('bulk', [order, take('rope', 1, { affected: 1 })]), {
    status: 409,
    body: {
      code: 'unmet-expectation',
      path: '$.args[1].expect.affected',
      error: 'expected 1 affected row, but found 0',
    },
  })
  t.equal(await count(server, 'orders'), 1)

  const find = (expect: object, where: object = {}) =>
    server.query('bulk', [{ type: 'select', args: { table: 'stock', columns: ['sku'], where }, expect }])
  t.match(await find({ rows: 2 }), { status: 200 })
  t.match(await find({ rows: { min: 1, max: 3 } }), { status: 200 })
  t.match(await find({ rows: { min: 3 } }), { status: 409, body: { error: 'expected at least 3 rows, but found 2' } })
  t.match(await find({ exists: true }), { status: 200 })
  t.match(await find({ exists: false }), { status: 409, body: { error: 'a row exists' } })
  t.match(await find({ exists: true }, { sku: 'none' }), { status: 409, body: { path: '$.args[0].expect.exists' } })
  t.match(await server.query('bulk', [{ type: 'count', args: { table: 'stock' }, expect: { rows: 2 } }]), {
    status: 200,
  })
  for (const [expect, path] of [
    [{ rows: -1 }, '.rows'],
    [{ rows: { min: 2, max: 1 } }, '.rows'],
    [{ rows: { least: 1 } }, '.rows.least'],
    [{ row: 1 }, '.row'],
    [{ exists: 1 }, '.exists'],
    [{ affected: 1 }, '.affected'],
    [1, ''],
  ] as const) {
    t.match(
      await find(expect as object),
      { status: 400, body: { path: `$.args[0].expect${path}` } },
      JSON.stringify(expect),
    )
  }
})

tap.test('what cannot exist or fit is refused before anything runs', async (t) => {
  const server = await shop(t)
  // A sequence shows what ran although it was rolled back.
  const next = async () =>
    (await server.must('run_sql', { sql: 'select last_value, is_called from orders_id_seq' })) as any
  const before = await next()
  const refused = async (steps: readonly object[], path: string, error: RegExp) => {
    const answer = await server.query('bulk', [order, ...steps])
    t.match(answer, { status: 400, body: { path: `$.args${path}`, error } }, `${path} ${String(error)}`)
    t.same(await next(), before, 'nothing ran')
  }
  const set = (value: object | string, column = 'note') => ({
    type: 'update',
    args: { table: 'orders', where: { id: 1 }, $set: { [column]: value } },
  })

  await refused([set({ $ref: 'ordre.returning[0].id' })], '[1].args.$set.note', /no earlier step has the name "ordre"/)
  await refused([set({ $ref: 'order.returning[0].nte' })], '[1].args.$set.note', /has no "nte", did you mean "note"/)
  await refused([set({ $ref: 'order.affected[0]' })], '[1].args.$set.note', /has no "affected"/)
  await refused([set({ $ref: 'order[0].id' })], '[1].args.$set.note', /"order" does not exist: it is an object/)
  await refused([set({ $ref: 'order..id' })], '[1].args.$set.note', /expecting a reference/)
  await refused([set({ $ref: 5 })], '[1].args.$set.note', /expecting a reference/)
  await refused([set({ $ref: 'order.returning[0].id' })], '[1].args.$set.note', /type text, but found int32/)
  await refused(
    [set({ $ref: 'order.returning[0].note' }), set({ $ref: 'later.count' })],
    '[2].args.$set.note',
    /no earlier step/,
  )
  await refused([set({ $ref: 'ordr.affected_rows' })], '[1].args.$set.note', /"ordr", did you mean "order"/)
  const later = { as: 'later', type: 'count', args: { table: 'item' } }
  for (const steps of [[set({ $ref: 'later.count' }), later], [{ ...set({ $ref: 'later.count' }), as: 'later' }]])
    await refused(steps, '[1].args.$set.note', /the step "later" is a later one/)
  await refused([{ ...set('a'), for_each: 'later' }, later], '[1].for_each', /the step "later" is a later one/)
  await refused(
    [{ type: 'bulk', args: [set({ $ref: 'later.count' }), later] }],
    '[1].args[0].args.$set.note',
    /the step "later" is a later one/,
  )
  await refused([set({ $ref: 'order.constructor' })], '[1].args.$set.note', /has no "constructor"/)
  await refused([{ ...set('a'), expect: {} }], '[1].expect', /expecting one of the keys affected, rows, exists/)
  await refused([{ ...set('a'), expect: { affected: {} } }], '[1].expect.affected', /min, max or both/)
  await refused(
    [{ type: 'select', args: { table: 'item', columns: ['id'], limit: { $ref: 'order.returning[0].note' } } }],
    '[1].args.limit',
    /whole number/,
  )
  await refused(
    [{ type: 'count', args: { table: 'item', where: { id: { $in: { $ref: 'order.returning[0].id' } } } } }],
    '[1].args.where.id.$in',
    /expecting a list/,
  )
  await refused(
    [
      { as: 'who', type: 'select', args: { table: 'customer', columns: ['key'] } },
      { type: 'count', args: { table: 'item', where: { id: { $ref: 'who[0].key' } } } },
    ],
    '[2].args.where.id',
    /type int4, but found uuid/,
  )
  const who = { as: 'who', type: 'select', args: { table: 'customer', columns: ['id', 'key'] } }
  const key = { $ref: 'who[0].key' }
  await refused(
    [who, { type: 'insert', args: { table: 'item', objects: [{ sku: 'a' }, { sku: 'b', n: key }] } }],
    '[2].args.objects[1].n',
    /type int4, but found uuid/,
  )
  await refused(
    [who, { type: 'insert', args: { table: 'orders', objects: [{ customer: { data: { email: 'a', id: key } } }] } }],
    '[2].args.objects[0].customer.data.id',
    /type int4, but found uuid/,
  )
  await refused(
    [who, { type: 'insert', args: { table: 'item', objects: { $ref: 'who' } } }],
    '[2].args.objects',
    /"key" does not exist|column "key"/,
  )
  await refused(
    [{ type: 'insert', args: { table: 'item', objects: { $ref: 'order.returning' } } }],
    '[1].args.objects',
    /"note" does not exist|column "note"/,
  )
  await refused([{ as: 'order', type: 'count', args: { table: 'item' } }], '[1].as', /used twice/)
  await refused([{ as: 'each', type: 'count', args: { table: 'item' } }], '[1].as', /expecting a name/)
  await refused([{ as: 'a b', type: 'count', args: { table: 'item' } }], '[1].as', /expecting a name/)
  await refused(
    [{ type: 'send_email', args: { to: { $ref: 'order' }, from: 'a@b.c', sub: 's', text: 't' } }],
    '[1].args.to',
    /a string/,
  )
  await refused(
    [{ type: 'bulk', args: [set({ $ref: 'nobody.count' })] }],
    '[1].args[0].args.$set.note',
    /no earlier step/,
  )
  const unknown = { type: 'count', args: { table: 'item', where: { nothing: 1 } } }
  await refused([{ ...unknown, as: 'unknown' }], '[1].args.where.nothing', /nothing/)
  await refused([{ ...unknown, expect: { rows: 0 } }], '[1].args.where.nothing', /nothing/)
  t.match(await server.query('bulk', [order, unknown]), { status: 400, body: { path: '$.args[1].args.where.nothing' } })
  t.notSame(await next(), before, 'a member whose answer nothing uses is checked when it runs')
})

tap.test('a value that turns out to be missing or null is refused, and all is rolled back', async (t) => {
  const server = await shop(t)
  const none = { as: 'none', type: 'select', args: { table: 'customer', columns: ['id'], where: { id: 99 } } }
  const touch = (where: object) => ({ type: 'update', args: { table: 'orders', where, $set: { note: 'x' } } })

  t.match(await server.query('bulk', [order, none, touch({ id: { $ref: 'none[0].id' } })]), {
    status: 400,
    body: { path: '$.args[2].args.where.id', error: '"none[0]" does not exist: the list has 0 rows' },
  })
  const empty = { ...order, args: { ...order.args, objects: [{ customer_id: null }], returning: ['customer_id'] } }
  t.match(await server.query('bulk', [empty, touch({ customer_id: { $ref: 'order.returning[0].customer_id' } })]), {
    status: 400,
    body: { path: '$.args[1].args.where.customer_id', error: /is null/ },
  })
  t.equal(await count(server, 'orders'), 0)
})

tap.test('a key that objects inherit is not in an answer', async (t) => {
  const server = await shop(t)
  const meta = { ...order, args: { ...order.args, objects: [{ meta: { a: 1 } }] } }
  for (const key of ['constructor', '__proto__', 'toString']) {
    const use = { $set: { note: { $ref: `order.returning[0].meta.${key}` } } }
    t.match(await server.query('bulk', [meta, { type: 'update', args: { table: 'orders', where: {}, ...use } }]), {
      status: 400,
      body: { path: '$.args[1].args.$set.note', error: /does not exist/ },
    })
  }
})

tap.test('the error of a for_each names the element, and that of a value the place as written', async (t) => {
  const server = await shop(t)
  const all = { as: 'all', type: 'select', args: { table: 'stock', columns: ['sku'], order_by: 'sku' } }
  const take = {
    type: 'update',
    for_each: 'all',
    args: { table: 'stock', where: { sku: { $ref: 'each.sku' }, n: { $gte: 2 } }, $inc: { n: -2 } },
    expect: { affected: 1 },
  }
  t.match(await server.query('bulk', [all, take]), {
    status: 409,
    body: { path: '$.args[1].expect.affected', error: 'element 1 of for_each: expected 1 affected row, but found 0' },
  })
  for (const operator of ['$ceq', '$is_null']) {
    const column = { type: 'count', args: { table: 'stock', where: { sku: { [operator]: { $ref: 'all[0].sku' } } } } }
    const { status, body } = await server.query('bulk', [all, column])
    t.match(
      { status, body },
      { status: 400, body: { path: `$.args[1].args.where.sku.${operator}`, error: /expecting a/ } },
    )
    t.notMatch(body.error, /[0-9a-f]{8}-[0-9a-f]{4}/)
  }
  const wrong = { type: 'count', args: { table: 'orders', where: { id: { $ref: 'all[0].sku' } } } }
  t.match(await server.query('bulk', [all, wrong]), { status: 400, body: { path: '$.args[1].args.where.id' } })
})

tap.test('a bulk in a bulk may use the tables that it creates', async (t) => {
  const server = await shop(t)
  const inner = {
    as: 'inner',
    type: 'bulk',
    args: [
      { type: 'run_sql', args: { sql: 'create table fresh (id serial primary key, order_id int)' } },
      { type: 'track_table', args: 'fresh' },
      { as: 'row', type: 'insert', args: { table: 'fresh', objects: [{ order_id: ID }], returning: ['id'] } },
      { type: 'count', args: { table: 'fresh', where: { id: { $ref: 'row.returning[0].id' } } }, expect: { rows: 1 } },
    ],
  }
  const last = { type: 'count', args: { table: 'fresh', where: { id: { $ref: 'inner[2].returning[0].id' } } } }
  const wrong = { type: 'count', args: { table: 'fresh', where: { id: { $ref: 'rwo.returning[0].id' } } } }

  t.match(await server.query('bulk', [order, { ...inner, args: [...inner.args, wrong] }]), {
    status: 400,
    body: { path: '$.args[1].args[4].args.where.id', error: /no earlier step has the name "rwo", did you mean "row"/ },
  })
  t.match(await server.query('bulk', [order, inner, last]), { status: 200, body: { 2: { count: 1 } } })
})

tap.test('a bulk without steps stores {"$ref": ...} like any JSON', async (t) => {
  const server = await shop(t)
  const insert = {
    type: 'insert',
    args: { table: 'orders', objects: [{ meta: { $ref: '#/a' } }], returning: ['meta'] },
  }

  t.match(await server.query('bulk', [insert]), { body: [{ returning: [{ meta: { $ref: '#/a' } }] }] })
})

tap.test('a role uses only what it may see, and its errors do not tell more', async (t) => {
  const server = await shop(t)
  const pick = (columns: readonly string[], where: object = {}) => ({
    as: 'who',
    type: 'select',
    args: { table: 'customer', columns, where },
  })
  const use = { ...order, args: { ...order.args, objects: [{ customer_id: { $ref: 'who[0].id' } }] } }

  t.match(await server.query('bulk', [pick(['id']), use], USER), { status: 200 })
  const hidden = await server.query('bulk', [pick(['id'], { id: 2 }), use], USER)
  const missing = await server.query('bulk', [pick(['id'], { id: 3 }), use], USER)
  t.match(hidden, { status: 400 })
  t.same(hidden.body, missing.body)
  const secret = await server.query('bulk', [pick(['id', 'user_id']), use], USER)
  const absent = await server.query('bulk', [pick(['id', 'no_such']), use], USER)
  t.match(secret, { status: 400 })
  t.same(JSON.stringify(secret.body).replace('user_id', 'no_such'), JSON.stringify(absent.body))
})

tap.test('steps are templates, run by REST, and call templates', async (t) => {
  const server = await shop(t)
  const template = {
    type: 'bulk',
    args: [
      { ...order, args: { ...order.args, objects: [{ customer_id: { param: 'customer' } }] } },
      {
        type: 'insert',
        args: { table: 'item', objects: [{ order_id: ID, sku: { param: 'sku' }, n: 1 }] },
        expect: { affected: 1 },
      },
    ],
  }
  await server.must('create_query_template', { name: 'buy', template })
  t.match(await server.fetch('/v1/template/buy', { method: 'POST', body: '{"customer": 1, "sku": "kite"}' }), {
    status: 200,
    body: [{ affected_rows: 1 }, { affected_rows: 1 }],
  })
  t.equal(await count(server, 'item'), 1)
  const openapi = (await server.fetch('/v1/openapi.json', {})).body as any
  t.ok(openapi.paths['/v1/template/buy'])

  const wrong = {
    ...template,
    args: [template.args[0], { type: 'count', args: { table: 'item', where: { sku: ID } } }],
  }
  t.match(await server.query('create_query_template', { name: 'wrong', template: wrong }), {
    status: 400,
    body: { path: '$.args.template.args[1].args.where.sku', error: /type text, but found int32/ },
  })

  await server.must('create_query_template', {
    name: 'items',
    template: { type: 'count', args: { table: 'item', where: { order_id: { param: 'order' } } } },
  })
  const call = (value: object) => ({ type: 'execute_query_template', args: { name: 'items', args: { order: value } } })
  t.match(await server.query('bulk', [order, items('a', 'b'), { ...call(ID), as: 'found', expect: { rows: 2 } }]), {
    status: 200,
    body: { 2: { count: 2 } },
  })
  t.match(
    await server.query('bulk', [{ ...order }, call({ $ref: 'order.returning[0].note' }), call({ $ref: 'order.x' })]),
    {
      status: 400,
      body: { path: '$.args[2].args.args.order', error: /has no "x"/ },
    },
  )
})

tap.test('steps after a change of metadata see it', async (t) => {
  const server = await shop(t)

  const done = await server.query('bulk', [
    order,
    { type: 'run_sql', args: { sql: 'create table fresh (id serial primary key, order_id int)' } },
    { type: 'track_table', args: 'fresh' },
    { as: 'fresh', type: 'insert', args: { table: 'fresh', objects: [{ order_id: ID }], returning: ['id'] } },
    {
      type: 'count',
      args: { table: 'fresh', where: { id: { $ref: 'fresh.returning[0].id' } } },
      expect: { exists: true },
    },
  ])

  t.match(done, { status: 200, body: { 4: { count: 1 } } })
})

tap.test('a dry run and a repeated key work on steps', async (t) => {
  const server = await shop(t)
  const steps = [order, items('kite')]

  t.match(
    await server.fetch('/v1/query', {
      method: 'POST',
      body: JSON.stringify({ type: 'bulk', args: steps, dry_run: true }),
    }),
    {
      status: 200,
    },
  )
  t.equal(await count(server, 'orders'), 0)
  const keyed = {
    method: 'POST',
    body: JSON.stringify({ type: 'bulk', args: steps }),
    headers: { 'Idempotency-Key': 'k' },
  }
  const [one, two] = [await server.fetch('/v1/query', keyed), await server.fetch('/v1/query', keyed)]
  t.same(one.body, two.body)
  t.equal(await count(server, 'orders'), 1)
})

tap.test('references have a limited length', async (t) => {
  const server = await shop(t)
  const long = `order${'[*]'.repeat(400)}`
  const deep = `order${'.a'.repeat(33)}`
  const using = (ref: string) => ({ type: 'count', args: { table: 'item', where: { id: { $ref: ref } } } })

  t.match(await server.query('bulk', [order, { ...using('order.affected_rows'), for_each: long }], USER), {
    status: 400,
    body: { path: '$.args[1].for_each', error: 'a reference has at most 1000 characters' },
  })
  t.match(await server.query('bulk', [order, using(long)], USER), {
    status: 400,
    body: { path: '$.args[1].args.where.id', error: /1000 characters/ },
  })
  t.match(await server.query('bulk', [order, using(deep)], USER), {
    status: 400,
    body: { path: '$.args[1].args.where.id', error: 'a reference has at most 32 keys and indices' },
  })
})

tap.test('arguments of templates and stored data are never references', async (t) => {
  const server = await shop(t)
  const secret = { as: 'secret', type: 'select', args: { table: 'customer', columns: ['email'], where: { id: 2 } } }
  const insert = (objects: object) => ({ type: 'insert', args: { table: 'orders', objects, returning: ['meta'] } })
  const none = { param: 'none', default: { $ref: 'secret[0].email' } }
  for (const [name, objects] of [
    ['one', [{ meta: { param: 'meta' } }]],
    ['rows', { param: 'rows' }],
    ['fallback', [{ meta: none }]],
  ] as const) {
    await server.must('create_query_template', {
      name,
      template: { type: 'bulk', args: [secret, { type: 'bulk', args: [insert(objects)] }, insert(objects)] },
    })
  }
  const REF = { $ref: 'secret[0].email' }
  const stored = (meta: object) => ({
    status: 200,
    body: { 1: [{ returning: [{ meta }] }], 2: { returning: [{ meta }] } },
  })
  const post = (name: string, body: object) =>
    server.fetch(`/v1/template/${name}`, { method: 'POST', body: JSON.stringify(body) })
  const execute = (name: string, args: object) => ({ type: 'execute_query_template', args: { name, args } })

  t.match(await post('one', { meta: REF }), stored(REF))
  t.match(await post('rows', { rows: [{ meta: REF }] }), stored(REF))
  t.match(await post('fallback', {}), stored(REF))
  t.match(await server.query('bulk', [{ ...order, args: { ...order.args, objects: [{ meta: { a: REF } }] } }]), {
    status: 200,
  })
  const called = await server.query('bulk', [
    order,
    execute('one', { meta: { a: REF } }),
    execute('rows', { rows: [{ meta: REF }] }),
  ])
  t.match(called, { status: 200, body: { 1: stored({ a: REF }).body, 2: stored(REF).body } })

  const row = {
    as: 'secret',
    type: 'insert',
    args: { table: 'orders', objects: [{ meta: { kept: REF } }], returning: ['meta'] },
  }
  t.match(await server.query('bulk', [row, execute('one', { meta: { $ref: 'secret.returning[0].meta.kept' } })]), {
    status: 200,
    body: { 1: stored(REF).body },
  })
  t.match(
    await server.query('bulk', [
      row,
      { type: 'bulk', args: [execute('one', { meta: { $ref: 'secret.returning[0].meta.kept' } })] },
    ]),
    { status: 200, body: { 1: [stored(REF).body] } },
  )

  await server.must('create_query_template', { name: 'json', template: insert([{ meta: { $ref: '#/a' } }]) })
  const plain = { affected_rows: 1, returning: [{ meta: { $ref: '#/a' } }] }
  t.match(await post('json', {}), { status: 200, body: plain })
  t.match(await server.query('bulk', [order, execute('json', {})]), { status: 200, body: { 1: plain } })
})

tap.test('a template that is a bulk takes references of the caller', async (t) => {
  const server = await shop(t)
  await server.must('create_query_template', {
    name: 'found',
    template: {
      type: 'bulk',
      args: [
        {
          as: 'all',
          type: 'select',
          args: { table: 'item', columns: ['id'], where: { order_id: { param: 'order' } } },
        },
        { type: 'count', args: { table: 'item', where: { id: { $in: { $ref: 'all[*].id' } } } } },
      ],
    },
  })
  const call = (value: object) => ({ type: 'execute_query_template', args: { name: 'found', args: { order: value } } })

  t.match(await server.query('bulk', [order, items('a', 'b'), { ...call(ID), as: 'f' }], USER), {
    status: 200,
    body: { 2: { 1: { count: 2 } } },
  })
  const orders = { as: 'o', type: 'insert', args: { ...order.args, objects: [{ note: 'a' }, { note: 'b' }] } }
  const each = { ...call({ $ref: 'each.id' }), for_each: 'o.returning' }
  t.match(await server.query('bulk', [orders, each], USER), { status: 200, body: { 1: { length: 2 } } })
  t.match(await server.query('bulk', [order, call({ $ref: 'order.returning' })], USER), {
    status: 400,
    body: { path: '$.args[1].args.args.order', error: /expecting a value for type int4, but found array/ },
  })
  t.match(await server.query('bulk', [order, call({ $ref: 'all[0].id' })], USER), {
    status: 400,
    body: { path: '$.args[1].args.args.order', error: 'no earlier step has the name "all"' },
  })
})

tap.test('a step that calls a template is checked like any call', async (t) => {
  const server = await shop(t)
  await server.must('create_query_template', {
    name: 'one',
    template: { type: 'count', args: { table: 'item', where: { id: { param: 'id' } } } },
  })

  for (const [args, path] of [
    [null, '.args'],
    [{ name: 'one' }, '.args'],
    [{ name: 'one', args: null }, '.args.args'],
    [{ name: 5, args: {} }, '.args.name'],
    [{ name: 'one', args: {}, more: 1 }, '.args.more'],
  ] as const) {
    const call = { as: 'x', type: 'execute_query_template', args, expect: { rows: 1 } }
    t.match(
      await server.query('bulk', [call]),
      { status: 400, body: { path: `$.args[0]${path}` } },
      JSON.stringify(args),
    )
  }
  const two = { as: 'x', type: 'execute_query_template', version: 2, args: { name: 'one', args: { id: 1 } } }
  t.match(await server.query('bulk', [two]), { status: 400, body: { path: '$.args[0].version' } })
})

tap.test('null in a list of a condition, and as a limit, is refused', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', {
    sql: 'create table node (id int primary key, parent int); insert into node values (1, null), (2, 1)',
  })
  await server.must('track_table', 'node')
  const all = { as: 'all', type: 'select', args: { table: 'node', columns: ['id', 'parent'], order_by: ['id'] } }
  const remove = { type: 'delete', args: { table: 'node', where: { parent: { $in: { $ref: 'all[*].parent' } } } } }
  const limited = { type: 'select', args: { table: 'node', columns: ['id'], limit: { $ref: 'all[0].parent' } } }

  t.match(await server.query('bulk', [all, remove]), {
    status: 400,
    body: { path: '$.args[1].args.where.parent.$in', error: /has a null/ },
  })
  t.match(await server.query('bulk', [all, limited]), { status: 400, body: { path: '$.args[1].args.limit' } })
  t.match(await server.query('count', { table: 'node' }), { body: { count: 2 } })
})

tap.test('an answer that is nested too deeply for a check is refused', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', {
    sql: `create table deep (id int primary key, body jsonb); insert into deep values (1, (repeat('[', 5000) || repeat(']', 5000))::jsonb)`,
  })
  await server.must('track_table', 'deep')
  const select = { type: 'select', args: { table: 'deep', columns: ['body'] }, expect: { rows: 1 } }

  t.match(await server.query('bulk', [select]), { status: 400, body: { error: /levels of nesting/ } })
})

tap.test('a short query cannot name a long value without end', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', {
    sql: `create table long (id int primary key, body text); insert into long values (1, repeat('x', 1048576))`,
  })
  await server.must('track_table', 'long')
  const select = { as: 'long', type: 'select', args: { table: 'long', columns: ['body'] } }
  const same = Array.from({ length: 65 }, () => ({ body: { $ref: 'long[0].body' } }))
  const count = (times: number) => ({ type: 'count', args: { table: 'long', where: { $or: same.slice(0, times) } } })

  t.match(await server.query('bulk', [select, count(2)]), { body: { 1: { count: 1 } } })
  t.match(await server.query('bulk', [select, count(65)]), {
    status: 400,
    body: { path: '$.args[1].args.where.$or[64].body', error: /at most 67108864 characters/ },
  })
})
