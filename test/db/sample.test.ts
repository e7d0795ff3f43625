import pg from 'pg'
import t from 'tap'
import { run } from '../kit/command.js'
import { rowsOf } from '../kit/database.js'
import { type As, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const SAMPLE = new URL('../../plugins/sample/index.js', import.meta.url)
const MAILS = { notify: true, config: { providers: { email: { memory: { keep: 10 } } } } }

const user = (role: string, id = 0): As => ({ role, variables: { 'x-service-user-id': String(id) } })

t.test('the sample shop is the same on every machine, and each role sees its own', async (t) => {
  const server = await testServer(t, { builtins: { sample: SAMPLE }, files: true, ...MAILS })

  const rows = async (table: string) => (await server.must('count', { table })).count as number
  t.same(
    await Promise.all(['customer', 'product', 'orders', 'item', 'review'].map(rows)),
    [2000, 300, 50000, 125000, 8000],
  )
  const sum =
    'select md5(string_agg(o::text || i::text, chr(10) order by o.id, i.product_id)) from orders o join item i on i.order_id = o.id'
  t.equal((await server.must('run_sql', { sql: sum })).result[1][0], CHECKSUM)

  const seven = user('customer', 786)
  const orders = await server.query('select', { table: 'orders', columns: ['customer_id'] }, seven)
  t.ok(orders.body.length > 0 && orders.body.every((order: { customer_id: number }) => order.customer_id === 786))
  const insert = (objects: object[]) =>
    server.query('insert', { table: 'orders', objects, returning: ['customer_id', 'status'] }, seven)
  t.same((await insert([{ note: 'ring' }])).body, {
    affected_rows: 1,
    returning: [{ customer_id: 786, status: 'new' }],
  })
  t.match((await insert([{ customer_id: 1 }])).body, { code: 'permission-denied' })

  const review = (product: number) => ({
    table: 'review',
    objects: [{ product_id: product, stars: 5 }],
    on_conflict: { action: 'update', constraint_on: ['product_id', 'customer_id'] },
    returning: ['stars'],
  })
  t.same((await server.query('insert', review(14), seven)).body, { affected_rows: 1, returning: [{ stars: 5 }] })
  const bought = await server.must('select', {
    table: 'product',
    columns: ['id'],
    where: { $not: { items: { order: { customer_id: 786 } } } },
    limit: 1,
  })
  t.match((await server.query('insert', review(bought[0].id), seven)).body, {
    error: /would not pass the insert or update check/,
  })

  const products = await server.query('select', { table: 'product', columns: ['*'] }, { role: 'anonymous' })
  t.equal(products.body.length, 100)
  t.same(Object.keys(products.body[0]), ['id', 'name', 'category', 'price', 'picture'])
  t.equal(
    (await server.query('update', { table: 'product', where: { id: 1 }, $set: { stock: 9 } }, { role: 'staff' }))
      .status,
    200,
  )
  t.equal((await server.query('delete', { table: 'product', where: { id: 1 } }, { role: 'staff' })).status, 400)

  await t.test('a late order is missing for its customer, because the rule forgets a status', async (t) => {
    const ada = user('customer', 157)
    const late = { table: 'orders', columns: ['id', 'status', 'due_on'], where: { id: 46455 } }
    t.same((await server.query('select', late, { role: 'staff' })).body, [
      { id: 46455, status: 'late', due_on: '2025-12-12' },
    ])
    t.same((await server.query('select', late, ada)).body, [])
    const why = { role: 'customer', session: { 'X-Service-User-Id': '157' }, operation: 'select', table: 'orders' }
    const { verdict, reason, filter } = await server.must('explain_permission', { ...why, key: { id: 46455 } })
    t.match([verdict, reason, filter.result], ['refused', 'filter', false])
    t.match(
      filter.all.filter(({ result }: { result: boolean }) => !result),
      [{ clause: { status: { $in: ['new', 'paid', 'shipped', 'returned'] } }, values: { status: 'late' } }],
    )

    const permission = { columns: '*', filter: { customer_id: 'X-Service-User-Id' } }
    await server.must('bulk', [
      { type: 'drop_select_permission', args: { table: 'orders', role: 'customer' } },
      { type: 'create_select_permission', args: { table: 'orders', role: 'customer', permission } },
    ])
    t.same((await server.query('select', late, ada)).body, [{ id: 46455, status: 'late', due_on: '2025-12-12' }])
  })

  await t.test('a visitor sees the pictures of products in stock', async (t) => {
    const get = async (as: As) => server.fetch('/v1/file/products%2F2.png', {}, as)
    const picture = await get(user('anonymous'))
    t.match([picture.status, picture.headers.get('content-type')], [200, 'image/png'])
    await server.must('update', { table: 'product', where: { id: 2 }, $set: { stock: 0 } })
    t.equal((await get(user('anonymous'))).status, 404)
    t.equal((await get(user('customer', 1))).status, 200)
  })

  await t.test('the months, the late orders and the mail about one are there', async (t) => {
    const months = (await server.fetch('/v1/template/orders_by_month')).body
    t.match(
      [months[0], months[23]],
      [
        { month: '2024-01-01', orders: 1114, late: 0 },
        { month: '2025-12-01', orders: 3981, late: 70 },
      ],
    )
    const late = (await server.fetch('/v1/template/late_orders?before=2025-12-13&limit=999')).body
    t.match(late.at(-1), { id: 46497, due_on: '2025-12-12', customer: { id: Number } })
    const { messages } = (await server.fetch('/v1/send')).body
    t.match(messages, [{ sub: 'Your order 46455 is late', to: 'ada.abel157@example.com', template: 'order_late' }])
  })

  await t.test('it is removed as a whole, but nothing else, and stays away', async (t) => {
    const env = { DATABASE_URL: server.databaseUrl }
    const sample = (...args: string[]) => run(t.testdir({}), ['sample', ...args], { env })
    const svcFile = { schema: 'svc_catalog', name: 'svc_file' }
    await server.must('run_sql', {
      sql: `create table wish (id int primary key, customer_id int references customer);
        alter table customer add birthday date; create view cheap as select * from product where price < 9`,
    })
    await server.must('bulk', [
      { type: 'track_table', args: 'wish' },
      {
        type: 'create_object_relationship',
        args: {
          table: 'wish',
          name: 'buyer',
          using: { manual_configuration: { remote_table: 'customer', column_mapping: { customer_id: 'id' } } },
        },
      },
      {
        type: 'create_select_permission',
        args: { table: svcFile, role: 'clerk', permission: { columns: ['file_id'], filter: {} } },
      },
    ])
    t.match(await sample('remove', '--yes'), {
      code: 1,
      err: /remove these first.*\n  column customer.birthday\n  foreign key wish_customer_id_fkey of table wish\n  view cheap\n/,
    })
    await server.must('run_sql', {
      sql: 'drop view cheap; alter table customer drop birthday; alter table wish drop constraint wish_customer_id_fkey',
    })
    const mine = { type: 'select', args: { table: 'wish', columns: ['id'] } }
    await server.must('bulk', [
      { type: 'drop_query_template', args: { name: 'my_orders' } },
      { type: 'create_query_template', args: { name: 'my_orders', template: mine } },
      {
        type: 'run_sql',
        args: {
          sql: `insert into svc_catalog.svc_outbox (kind, "to", "from", template, content)
                values ('email-template', 'me@example.org', 'shop@example.com', 'order_late', '[]')`,
        },
      },
    ])
    await server.must('create_query_template', {
      name: 'mine',
      template: { type: 'select', args: { table: 'orders', columns: ['id'] } },
    })
    const blocked = /^remove these first.*:\n  relationship wish.buyer\n  query-template mine\n*$/
    t.match(await sample('remove'), { code: 1, err: blocked }, 'a preview is what happens')
    t.match(await sample('remove', '--yes'), { code: 1, err: blocked })
    t.equal((await server.must('count', { table: 'orders' })).count, 50_001, 'all is still there')
    await server.must('drop_relationship', { table: 'wish', name: 'buyer' })
    await server.must('drop_query_template', { name: 'mine' })
    t.match(await sample('remove'), {
      code: 1,
      err: /--yes removes the shop.*:\n  1 row that was added to orders\n  view orders_by_month\n.*\n  query template late_orders\n/s,
    })
    t.equal((await server.must('count', { table: 'orders' })).count, 50_001, 'nothing was removed')

    const other = new pg.Client(server.databaseUrl)
    await other.connect()
    await other.query('begin; alter table customer add birthday date')
    const removed = sample('remove', '--yes')
    const waiting = `select from pg_locks where relation = 'customer'::regclass and not granted`
    await until('the command waits', async () => ((await other.query(waiting)).rowCount ?? 0) > 0)
    await other.query('commit')
    t.match(await removed, { code: 1, err: /the sample shop was just extended; run the command again/ })
    await other.query('alter table customer drop birthday')
    await other.end()

    t.match(await sample('remove', '--yes'), {
      code: 0,
      out: /^removed the sample shop, .*\n  view orders_by_month\n/,
    })

    const { tables, query_templates: templates } = await server.must('export_metadata', {})
    t.match(templates, [{ name: 'my_orders', template: mine }])
    t.equal(templates.length, 1)
    t.same(
      tables.map(({ table }: { table: unknown }) => table),
      ['wish', svcFile],
    )
    t.match(tables[1], { object_relationships: [], select_permissions: [{ role: 'clerk' }], update_permissions: [] })
    t.same(
      await rowsOf(
        server.databaseUrl,
        `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S')
         union all select file_id from svc_catalog.svc_file
         union all select "to" from svc_catalog.svc_outbox
         union all select name from svc_catalog.svc_mail_template`,
      ),
      [{ relname: 'wish' }, { relname: 'me@example.org' }],
    )
    t.match(await sample('remove'), { code: 1, err: /this database has no sample shop/ })

    await server.must('bulk', [
      { type: 'drop_query_template', args: { name: 'my_orders' } },
      { type: 'untrack_table', args: { table: 'wish' } },
      { type: 'untrack_table', args: { table: svcFile } },
      { type: 'run_sql', args: { sql: 'drop table wish' } },
    ])
    const again = await testServer(t, { databaseUrl: server.databaseUrl, builtins: { sample: SAMPLE } })
    t.same(await again.must('select', { table: { schema: 'svc_catalog', name: 'svc_table' }, columns: ['*'] }), [])
    t.match(await sample('restore'), { code: 0 })
    const [mark] = await rowsOf(server.databaseUrl, "select to_regclass('svc_catalog.svc_sample_removed') as mark")
    t.same(mark, { mark: null })
  })
})

t.test('a database that has tables is left alone', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table mine (id int)' })

  const again = await testServer(t, { databaseUrl: server.databaseUrl, builtins: { sample: SAMPLE } })

  t.same(await again.must('select', { table: { schema: 'svc_catalog', name: 'svc_table' }, columns: ['*'] }), [])
})

const CHECKSUM = '231bacd4c436c4606a7865a675c9fc8d'
