import t from 'tap'
import { testServer } from '../kit/server.js'

const SAMPLE = new URL('../../plugins/sample/index.js', import.meta.url)

t.test('the sample shop is the same on every machine, and each role sees its own', async (t) => {
  const server = await testServer(t, { builtins: { sample: SAMPLE } })

  const rows = async (table: string) => (await server.must('count', { table })).count as number
  t.same(
    await Promise.all(['customer', 'product', 'orders', 'item', 'review'].map(rows)),
    [2000, 300, 50000, 125000, 8000],
  )
  const sum =
    'select md5(string_agg(o::text || i::text, chr(10) order by o.id, i.product_id)) from orders o join item i on i.order_id = o.id'
  t.equal((await server.must('run_sql', { sql: sum })).result[1][0], CHECKSUM)

  const seven = { role: 'customer', variables: { 'x-service-user-id': '786' } }
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
  t.same(Object.keys(products.body[0]), ['id', 'name', 'category', 'price'])
  t.equal(
    (await server.query('update', { table: 'product', where: { id: 1 }, $set: { stock: 9 } }, { role: 'staff' }))
      .status,
    200,
  )
  t.equal((await server.query('delete', { table: 'product', where: { id: 1 } }, { role: 'staff' })).status, 400)
})

t.test('a database that has tables is left alone', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table mine (id int)' })

  const again = await testServer(t, { databaseUrl: server.databaseUrl, builtins: { sample: SAMPLE } })

  t.same(await again.must('select', { table: { schema: 'svc_catalog', name: 'svc_table' }, columns: ['*'] }), [])
})

const CHECKSUM = '43fce751a963bd892f181d2f958a2f3a'
