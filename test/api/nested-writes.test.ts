import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table customer (id serial primary key, name text not null unique, vip bool not null default false);
create table purchase (
  id serial primary key, note text not null, tags jsonb, customer_id int references customer, owner int not null default 1
);
create table item (
  id serial primary key, purchase_id int not null references purchase on delete cascade, sku text not null,
  qty int not null default 1, unique (purchase_id, sku)
);`

tap.test('writes of rows with their related rows in the JSON API', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const relate = (kind: string, table: string, name: string, using: unknown) => ({
    type: `create_${kind}_relationship`,
    args: { table, name, using },
  })
  const permit = (type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role: 'user', permission },
  })
  await server.must('bulk', [
    ...['customer', 'purchase', 'item'].map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'purchase', 'customer', { foreign_key_constraint_on: 'customer_id' }),
    relate('array', 'purchase', 'items', { foreign_key_constraint_on: { table: 'item', column: 'purchase_id' } }),
    permit('select', 'customer', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'purchase', { columns: ['id', 'note'], filter: {} }),
    permit('select', 'item', { columns: ['id', 'sku', 'qty'], filter: {} }),
    permit('insert', 'purchase', { check: { items: { qty: { $lt: 100 } } }, set: { owner: 'X-Service-User-Id' } }),
    permit('insert', 'item', { check: { qty: { $gt: 0 } } }),
  ])
  const user: As = { role: 'user', variables: { 'x-service-user-id': '7' } }
  const ITEMS = { name: 'items', columns: ['sku', 'qty'], order_by: ['sku'] }

  await t.test('an update whose condition meets too many rows is refused', async (t) => {
    await server.must('run_sql', {
      sql: `create table wide (id text primary key);
        insert into wide select repeat('x', 2000) || i from generate_series(1, 2200) i`,
    })
    await server.must('track_table', 'wide')
    await server.must('create_array_relationship', {
      table: 'wide',
      name: 'same',
      using: { manual_configuration: { remote_table: 'wide', column_mapping: { id: 'id' } } },
    })
    const most = await server.query('update', { table: 'wide', where: {}, $set: { same: { delete: [] } } })
    t.match(most.body, { error: /the condition meets too many rows/, path: '$.args.where' })
  })

  await t.test('a template inserts related rows, with parameters in them', async (t) => {
    const param = (name: string, fallback?: unknown) => ({ param: name, default: fallback })
    const create = (name: string, objects: unknown, more: object = {}) =>
      server.query('create_query_template', {
        name,
        template: { type: 'insert', args: { table: 'purchase', objects, returning: ['note', ITEMS], ...more } },
      })
    const run = (name: string, args: object, as?: As) => server.query('execute_query_template', { name, args }, as)
    const one = {
      note: param('note'),
      customer: { data: { name: param('who') } },
      items: { data: [{ sku: 'fix' }, { sku: param('sku'), qty: param('qty', 3) }] },
    }
    await create('one', [one])
    await create('many', [{ note: param('note'), items: { data: param('items') } }])
    await create('whole', param('objects'))
    t.same((await run('one', { note: 'n', who: 'Zoe', sku: 's' })).body, {
      affected_rows: 4,
      returning: [
        {
          note: 'n',
          items: [
            { sku: 'fix', qty: 1 },
            { sku: 's', qty: 3 },
          ],
        },
      ],
    })
    const rest = await server.fetch(
      '/v1/template/many',
      { method: 'POST', body: JSON.stringify({ note: 'm', items: [{ sku: 'a' }, { sku: 'b', qty: 2 }] }) },
      user,
    )
    t.same(rest.body, {
      affected_rows: 3,
      returning: [
        {
          note: 'm',
          items: [
            { sku: 'a', qty: 1 },
            { sku: 'b', qty: 2 },
          ],
        },
      ],
    })
    t.same((await run('whole', { objects: [{ note: 'w', items: { data: { sku: 'c' } } }] })).body.affected_rows, 2)
    t.match((await run('one', { note: 'n', who: 'Zoe', sku: 's' }, user)).body, { error: /"customer"/ })
    t.match((await run('many', { note: 'm', items: [{ sku: 1 }] })).body, {
      error: /^parameter "items"/,
      path: '$.args.args.items[0].sku',
    })
    t.match((await run('one', { note: 'n', who: 'Zed', sku: 's', qty: 1.5 })).body, {
      error: /^parameter "qty"/,
      path: '$.args.args.qty',
    })
    t.match((await create('bad', [{ items: { data: [{ qty: 'x' }] } }])).body, { error: /./ })
    t.match((await create('bad', [{ items: { data: [{ nope: param('x') }] } }])).body, {
      error: 'column "nope" does not exist',
    })
    t.match((await create('bad', [{ items: { data: param('x', [{ nope: 1 }]) } }])).body, {
      error: 'column "nope" does not exist',
    })
    const allowed = (await server.fetch('/v1/template', {}, user)).body as {
      name: string
      parameters: { name: string; schema: { items: { properties: object } } }[]
    }[]
    t.same(allowed.map(({ name }) => name).sort(), ['many', 'whole'])
    const items = allowed.find(({ name }) => name === 'many')?.parameters.find(({ name }) => name === 'items')
    t.same(Object.keys(items?.schema.items.properties ?? {}), ['id', 'sku', 'qty'])
    await server.must('drop_query_template', { name: 'one' })
    t.match((await server.query('drop_relationship', { table: 'purchase', relationship: 'items' })).body, {
      error: /many/,
    })
    t.match(
      await server.query('create_query_template', {
        name: 'u',
        template: {
          type: 'update',
          args: { table: 'purchase', where: {}, $set: { items: { delete: { where: {} } } } },
        },
      }),
      {
        status: 400,
        body: {
          error: 'a template cannot change the rows of a relationship, such as "items"',
          path: '$.args.template.args.$set',
        },
      },
    )
    const explained = await server.fetch('/v1/query/explain', {
      method: 'POST',
      body: JSON.stringify({ query: { type: 'update', args: { table: 'purchase', where: {}, $set: { items: {} } } } }),
    })
    t.same(
      [explained.status, explained.body.error],
      [400, 'explain takes no rows of relationships, and only rows with the same keys'],
    )
  })
})
