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
);
create table secret (id serial primary key, item_id int references item);
create view cheap as select id, purchase_id, sku from item;`

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
    ...['customer', 'purchase', 'item', 'secret', 'cheap'].map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'purchase', 'customer', { foreign_key_constraint_on: 'customer_id' }),
    relate('array', 'customer', 'purchases', {
      foreign_key_constraint_on: { table: 'purchase', column: 'customer_id' },
    }),
    relate('array', 'purchase', 'items', { foreign_key_constraint_on: { table: 'item', column: 'purchase_id' } }),
    relate('object', 'item', 'purchase', { foreign_key_constraint_on: 'purchase_id' }),
    relate('array', 'item', 'secrets', { foreign_key_constraint_on: { table: 'secret', column: 'item_id' } }),
    relate('array', 'cheap', 'items', { manual_configuration: { remote_table: 'item', column_mapping: { id: 'id' } } }),
    permit('select', 'customer', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'purchase', { columns: ['id', 'note'], filter: {} }),
    permit('select', 'item', { columns: ['id', 'sku', 'qty'], filter: {} }),
    permit('insert', 'purchase', { check: { items: { qty: { $lt: 100 } } }, set: { owner: 'X-Service-User-Id' } }),
    permit('insert', 'item', { check: { qty: { $gt: 0 } } }),
    permit('update', 'purchase', { columns: ['note'], filter: { owner: 'X-Service-User-Id' } }),
    permit('update', 'item', { columns: ['qty'], filter: { qty: { $lt: 50 } }, check: { qty: { $gt: 0 } } }),
    permit('delete', 'item', { filter: { sku: { $ne: 'keep' } } }),
  ])
  const user: As = { role: 'user', variables: { 'x-service-user-id': '7' } }
  const ITEMS = { name: 'items', columns: ['sku', 'qty'], order_by: ['sku'] }
  const insert = (objects: unknown, as?: As, more: object = { returning: ['note', ITEMS] }) =>
    server.query('insert', { table: 'purchase', objects, ...more }, as)
  const counts = async () =>
    (
      await server.must(
        'bulk',
        ['customer', 'purchase', 'item'].map((table) => ({ type: 'count', args: { table } })),
      )
    ).map(({ count }: { count: number }) => count)

  await t.test('inserts go down and up, and returning shows what was inserted', async (t) => {
    const answer = await insert([
      {
        note: 'a',
        tags: { data: [1] },
        customer: { data: { name: 'Ann' } },
        items: { data: [{ sku: 'x', qty: 2 }, { sku: 'y' }] },
      },
      { note: 'b', items: { data: { sku: 'z' } }, customer: null },
      { note: 'c' },
    ])
    t.same(answer.body, {
      affected_rows: 7,
      returning: [
        {
          note: 'a',
          items: [
            { sku: 'x', qty: 2 },
            { sku: 'y', qty: 1 },
          ],
        },
        { note: 'b', items: [{ sku: 'z', qty: 1 }] },
        { note: 'c', items: [] },
      ],
    })
    t.same((await insert([{ note: 'big', items: { data: [{ sku: '9', id: 2147483647 }] } }])).body.affected_rows, 2)
    t.same(
      await server.must('select', {
        table: 'purchase',
        columns: ['tags', { name: 'customer', columns: ['name'] }],
        where: { note: 'a' },
      }),
      [{ tags: { data: [1] }, customer: { name: 'Ann' } }],
      'a column whose values look like related rows stays a column',
    )
  })

  await t.test('an insert resolves conflicts of related rows', async (t) => {
    const customer = (action: string) => ({
      data: { name: 'Ann', vip: true },
      on_conflict: { action, constraint: 'customer_name_key' },
    })
    t.match((await insert([{ note: 'skip', customer: customer('ignore') }])).body, { error: /on_conflict skipped/ })
    t.same((await insert([{ note: 'd', customer: customer('update') }])).body.affected_rows, 2)
    t.same(await server.must('select', { table: 'customer', columns: ['name', 'vip'] }), [{ name: 'Ann', vip: true }])
    const before = await counts()
    const failed = await insert([{ note: 'e', items: { data: [{ sku: 'q' }, { sku: 'q' }] } }])
    t.match(failed.body, { error: /Uniqueness violation/ })
    t.same(await counts(), before, 'all or nothing')
  })

  await t.test('every insert needs its own permission', async (t) => {
    const before = await counts()
    t.match((await insert([{ note: 'u', items: { data: [{ sku: 's', qty: 0 }] } }], user)).body, {
      error: /insert check of role "user" on "item"/,
    })
    t.match((await insert([{ note: 'u', items: { data: [{ sku: 's', qty: 100 }] } }], user)).body, {
      error: /insert check of role "user" on "purchase"/,
    })
    t.match((await insert([{ note: 'u', customer: { data: { name: 'New' } } }], user)).body, {
      error: /insert on "customer" for role "user" is not allowed/,
      path: '$.args.objects.customer',
    })
    t.same(await counts(), before)
    t.same((await insert([{ note: 'u', items: { data: [{ sku: 's' }] } }], user)).body, {
      affected_rows: 2,
      returning: [{ note: 'u', items: [{ sku: 's', qty: 1 }] }],
    })
    t.same(await server.must('select', { table: 'purchase', columns: ['owner'], where: { note: 'u' } }), [{ owner: 7 }])
  })

  await t.test('related rows that existed already must pass the check of updates', async (t) => {
    const clerk: As = { role: 'clerk' }
    const may = (type: string, table: string, permission: object) => ({
      type: `create_${type}_permission`,
      args: { table, role: 'clerk', permission },
    })
    await server.must('bulk', [
      may('select', 'purchase', { columns: ['id', 'note'], filter: {} }),
      may('insert', 'purchase', { check: {} }),
      may('update', 'purchase', { columns: ['note'], filter: {}, check: { note: { $ne: 'locked' } } }),
      may('select', 'item', { columns: ['id', 'qty'], filter: {} }),
      may('insert', 'item', { check: {} }),
      may('update', 'item', { columns: ['qty'], filter: {}, check: { qty: { $lt: 10 } } }),
    ])
    await insert([{ note: 'conflict', items: { data: { id: 1_000_000, sku: 'c' } } }])
    const item = (qty: number) => ({
      data: { id: 1_000_000, sku: 'c', qty },
      on_conflict: { action: 'update', constraint: 'item_pkey' },
    })
    const purchase = (note: string) => ({
      data: { id: 1, note },
      on_conflict: { action: 'update', constraint: 'purchase_pkey' },
    })
    const refused = /insert or update check of role "clerk" on /
    const graphql = (qty: number) =>
      server.fetch(
        '/v1/graphql',
        {
          method: 'POST',
          body: JSON.stringify({
            query: `mutation { insert_purchase(objects: [{note: "g", items: {data: [{id: 1000000, sku: "c", qty: ${qty}}],
              on_conflict: {constraint: item_pkey, update_columns: [qty]}}}]) { affected_rows } }`,
          }),
        },
        clerk,
      )

    t.match((await insert([{ note: 'k', items: item(50) }], clerk, {})).body, { error: refused })
    const into = (qty: number) =>
      server.query(
        'update',
        { table: 'purchase', where: { note: 'conflict' }, $set: { items: { insert: item(qty) } } },
        clerk,
      )
    t.match((await into(50)).body, { error: refused })
    t.match((await graphql(50)).body, { errors: [{ message: refused }] })
    const up = (note: string) =>
      server.query('insert', { table: 'item', objects: [{ sku: note, qty: 50, purchase: purchase(note) }] }, clerk)
    t.match((await up('locked')).body, { error: refused })

    t.same((await insert([{ note: 'k', items: item(5) }], clerk, {})).body, { affected_rows: 2 })
    t.match((await into(6)).body, { affected_rows: 2 })
    t.same((await graphql(7)).body, { data: { insert_purchase: { affected_rows: 2 } } })
    t.same((await up('open')).body, { affected_rows: 2 })
  })

  await t.test('a hidden relationship is like one that does not exist', async (t) => {
    const answers = await Promise.all(
      ['secrets', 'nothing'].flatMap((name) => [
        server.query('insert', { table: 'item', objects: [{ sku: 'h', [name]: { data: [] } }] }, user),
        insert([{ note: 'h', items: { data: [{ sku: 'h', [name]: null }] } }], user),
        server.query('update', { table: 'item', where: {}, $set: { [name]: { delete: { where: {} } } } }, user),
      ]),
    )
    const texts = answers.map(({ status, text }) => `${status} ${text.replaceAll(/secrets|nothing/g, 'X')}`)
    t.same(texts.slice(0, 3), texts.slice(3))
    t.match(texts, /^400/)
  })

  await t.test('mistakes in rows have their path', async (t) => {
    const path = async (rows: unknown) => (await insert(rows)).body.path
    const wrong = { sku: 5 }
    t.same(
      await path([{ note: 'p' }, { note: 'p', items: { data: [{ sku: 'a' }, wrong] } }]),
      '$.args.objects[1].items.data[1].sku',
    )
    t.same(await path([{ note: 'p' }, { items: { data: [] }, note: 5 }]), '$.args.objects[1].note')
    t.same(await path([{ note: 'p', items: {} }]), '$.args.objects[0].items')
    t.same(await path([{ note: 'p', items: { data: [5] } }]), '$.args.objects[0].items.data')
    t.same(await path([{ note: 'p', items: { data: { purchase_id: 1 } } }]), '$.args.objects[0].items.data.purchase_id')
    t.same(
      await path([{ note: 'p', items: { data: { sku: 'a' }, on_conflict: { action: 'no' } } }]),
      '$.args.objects[0].items.on_conflict.action',
    )
    const twice = await server.fetch('/v1/query', {
      method: 'POST',
      body: '{"type":"insert","args":{"table":"purchase","objects":[{"note":"p","items":{"data":[{"sku":"a","sku":"b"}]}}]}}',
    })
    t.same([twice.status, twice.body.path], [400, '$.args.objects[0].items.data[0].sku'])
    t.match((await insert([{ note: 'p', items: { data: { nope: 1 } } }])).body, {
      error: 'column "nope" does not exist',
      path: '$.args.objects.items',
    })
    t.match(
      await server.query('insert', { table: 'cheap', objects: [{ purchase_id: 1, sku: 'v', items: { data: [] } }] }),
      {
        status: 400,
        body: { error: /"cheap" has no key/ },
      },
    )
    t.same(await server.must('count', { table: 'purchase', where: { note: 'p' } }), { count: 0 })
  })

  const update = (where: object, $set: object, as?: As, more: object = {}) =>
    server.query('update', { table: 'purchase', where, $set, ...more }, as)
  const returning = ['note', ITEMS]

  await t.test('updates delete, update and insert related rows', async (t) => {
    await server.must('run_sql', { sql: 'truncate purchase, item restart identity cascade' })
    await server.must('insert', {
      table: 'purchase',
      objects: [
        { note: 'a', owner: 7, items: { data: [{ sku: 'x' }, { sku: 'y' }, { sku: 'keep' }] } },
        { note: 'b', owner: 8, items: { data: [{ sku: 'x' }, { sku: 'z', qty: 60 }] } },
      ],
    })
    const changed = await update(
      { note: 'a' },
      {
        note: 'a2',
        items: {
          insert: { data: [{ sku: 'new' }, { sku: 'y', qty: 9 }] },
          update: [
            { where: { sku: 'x' }, $set: { qty: 5 } },
            { where: { sku: 'x' }, $inc: { qty: 1 } },
          ],
          delete: { where: { sku: { $in: ['y', 'z'] } } },
        },
      },
      undefined,
      { returning },
    )
    t.same(changed.body, {
      affected_rows: 6,
      returning: [
        {
          note: 'a2',
          items: [
            { sku: 'keep', qty: 1 },
            { sku: 'new', qty: 1 },
            { sku: 'x', qty: 6 },
            { sku: 'y', qty: 9 },
          ],
        },
      ],
    })
    t.same(
      await server.must('select', {
        table: 'item',
        columns: ['sku', 'qty'],
        where: { purchase: { note: 'b' } },
        order_by: ['sku'],
      }),
      [
        { sku: 'x', qty: 1 },
        { sku: 'z', qty: 60 },
      ],
      'rows of others stay as they are',
    )
    const each = await update({}, { items: { insert: { data: { sku: 'each' } } } })
    t.same(each.body, { affected_rows: 4 }, 'every row that the condition meets gets the rows')
    const deep = await server.query('update', {
      table: 'customer',
      where: {},
      $set: { purchases: { update: { where: {}, $set: { items: { delete: { where: {} } } } } } },
    })
    t.same(deep.body, { affected_rows: 1 }, 'a customer without purchases')
    await server.must('update', { table: 'purchase', where: { note: 'b' }, $set: { customer_id: 1 } })
    const z = { update: { where: {}, $set: { items: { delete: { where: { sku: 'z' } } } } } }
    t.same((await server.query('update', { table: 'customer', where: {}, $set: { purchases: z } })).body, {
      affected_rows: 3,
    })
    const up = await server.query('update', {
      table: 'item',
      where: { sku: 'new' },
      $set: { purchase: { update: { where: {}, $set: { note: 'up' } } } },
      returning: [{ name: 'purchase', columns: ['note'] }],
    })
    t.same(up.body, { affected_rows: 2, returning: [{ purchase: { note: 'up' } }] })
  })

  await t.test('every part of an update needs its own permission', async (t) => {
    const qty = (sku: string, to: number) => ({ items: { update: { where: { sku }, $set: { qty: to } } } })
    t.same((await update({}, qty('x', 7), user)).body, { affected_rows: 2 }, 'only rows of the own purchase')
    t.same(
      await server.must('select', { table: 'item', columns: ['qty'], where: { sku: 'x' }, order_by: ['purchase_id'] }),
      [{ qty: 7 }, { qty: 1 }],
    )
    t.match((await update({}, qty('x', 0), user)).body, {
      error: /update check of role "user" on "item"/,
    })
    t.same((await update({}, { items: { delete: { where: { sku: 'keep' } } } }, user)).body, { affected_rows: 1 })
    t.match((await update({}, { items: { update: { where: {}, $set: { sku: 'q' } } } }, user)).body, {
      error: /permission to update column "sku"/,
      path: '$.args.$set.items.update.$set',
    })
    t.match((await update({}, { items: { insert: { data: { sku: 'n', qty: 0 } } } }, user)).body, {
      error: /insert check of role "user" on "item"/,
    })
    t.match((await update({}, { customer: { update: { where: {}, $set: { name: 'q' } } } }, user)).body, {
      error: /update on "customer" for role "user" is not allowed/,
      path: '$.args.$set.customer.update',
    })
    t.match((await server.query('update', { table: 'customer', where: {}, $set: { purchases: {} } }, user)).body, {
      error: /update on "customer" for role "user" is not allowed/,
    })
  })

  await t.test('what an update refuses', async (t) => {
    const refused = async (items: unknown) => (await update({}, { items })).body
    t.match(await refused([]), {
      error: 'expecting an object with the keys insert, update, delete',
      path: '$.args.$set.items',
    })
    t.match(await refused({ upsert: {} }), { path: '$.args.$set.items.upsert' })
    t.match(await refused({ delete: {} }), {
      error: "the key 'where' was not present",
      path: '$.args.$set.items.delete',
    })
    t.match(await refused({ update: [{ where: {} }] }), { error: /atleast one/, path: '$.args.$set.items.update[0]' })
    t.match(await refused({ update: { where: { nope: 1 }, $set: { qty: 1 } } }), {
      path: '$.args.$set.items.update.where.nope',
    })
    t.match(await refused({ update: { where: {}, $set: { qty: 'x' } } }), {
      error: /./,
      path: /^\$\.args\.\$set\.items\.update/,
    })
    t.match(await refused({ insert: { data: [{ sku: 1 }] } }), { path: '$.args.$set.items.insert.data[0].sku' })
    t.match(await refused({ insert: { data: Array(5001).fill({ sku: 's' }) } }), { error: /more than 10000 rows/ })
    t.match(await refused({ delete: Array(2001).fill({ where: {} }) }), { error: /more than 2000 statements/ })
    t.match((await update({}, { customer: { insert: { data: {} } } })).body, { path: '$.args.$set.customer.insert' })
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
    t.match((await update({}, { $inc: { items: 1 } })).status, 400)
  })

  await t.test('a template inserts related rows, with parameters in them', async (t) => {
    await server.must('run_sql', { sql: 'truncate purchase, item restart identity cascade' })
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
      error: /^when processing parameter "items"/,
      path: '$.args.args.items[0].sku',
    })
    t.match((await run('one', { note: 'n', who: 'Zed', sku: 's', qty: 1.5 })).body, {
      error: /^when processing parameter "qty"/,
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
