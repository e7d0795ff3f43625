import t from 'tap'
import { type As, testServer } from '../kit/server.js'

const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }

t.test('writes return wildcards and relationships', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table shop (id int primary key, name text not null, secret text default 'hush');
      create table item (id int primary key, shop_id int references shop, owner_id int, name text not null);
      insert into shop values (1, 'one'), (2, 'two');
      insert into item values (1, 1, 1, 'mine'), (2, 1, 2, 'other'), (3, 1, 1, 'last')`,
  })
  const filter = { owner_id: 'X-Service-User-Id' }
  await server.must('bulk', [
    { type: 'track_table', args: 'shop' },
    { type: 'track_table', args: 'item' },
    {
      type: 'create_object_relationship',
      args: { table: 'item', name: 'shop', using: { foreign_key_constraint_on: 'shop_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'shop',
        name: 'items',
        using: { foreign_key_constraint_on: { table: 'item', column: 'shop_id' } },
      },
    },
    ...[
      { table: 'shop', permission: { columns: ['id', 'name'], filter: {} } },
      { table: 'item', permission: { columns: ['id', 'shop_id', 'name'], filter } },
    ].map((args) => ({ type: 'create_select_permission', args: { ...args, role: 'user' } })),
    { type: 'create_insert_permission', args: { table: 'item', role: 'user', permission: { check: {} } } },
    {
      type: 'create_update_permission',
      args: { table: 'item', role: 'user', permission: { columns: ['name'], filter: {} } },
    },
    {
      type: 'create_update_permission',
      args: { table: 'shop', role: 'user', permission: { columns: ['name'], filter: {} } },
    },
    { type: 'create_delete_permission', args: { table: 'item', role: 'user', permission: { filter } } },
  ])

  await t.test('"*" is every column that the role may select', async (t) => {
    const objects = [{ id: 10, shop_id: 2, owner_id: 1, name: 'new' }]

    const { body } = await server.query('insert', { table: 'item', objects, returning: ['*'] }, USER)
    const all = await server.must('update', { table: 'item', where: { id: 10 }, $set: { name: 'b' }, returning: ['*'] })

    t.same(body, { affected_rows: 1, returning: [{ id: 10, shop_id: 2, name: 'new' }] })
    t.same(all, { affected_rows: 1, returning: [{ id: 10, shop_id: 2, owner_id: 1, name: 'b' }] })
  })

  await t.test('a relationship is what a select would return, with the permissions of the other table', async (t) => {
    const returning = ['id', { name: 'shop', columns: ['*', { name: 'items', columns: ['id'], order_by: ['id'] }] }]
    const objects = [{ id: 11, shop_id: 1, owner_id: 1, name: 'new' }]
    const rows = [{ id: 11, shop: { id: 1, name: 'one', items: [{ id: 1 }, { id: 3 }, { id: 11 }] } }]

    const inserted = await server.query('insert', { table: 'item', objects, returning }, USER)
    const updated = await server.query(
      'update',
      {
        table: 'shop',
        where: { id: 1 },
        $set: { name: 'uno' },
        returning: ['name', { name: 'items', alias: 'last', columns: ['id'], where: { id: { $gt: 1 } }, limit: 1 }],
      },
      USER,
    )
    const deleted = await server.query(
      'delete',
      { table: 'item', where: { id: 11 }, returning: ['*', { name: 'shop', columns: ['name'] }] },
      USER,
    )

    t.same(inserted.body, { affected_rows: 1, returning: rows })
    t.same(updated.body, { affected_rows: 1, returning: [{ name: 'uno', last: [{ id: 3 }] }] })
    t.same(deleted.body.returning, [{ id: 11, shop_id: 1, name: 'new', shop: { name: 'uno' } }])
  })

  await t.test('rows of different keys return relationships in their order', async (t) => {
    const objects = [
      { id: 31, name: 'a', shop_id: 2 },
      { id: 30, name: 'b' },
    ]

    const { returning } = await server.must('insert', {
      table: 'item',
      objects,
      returning: ['id', { name: 'shop', columns: ['name'] }],
    })

    t.same(returning, [
      { id: 31, shop: { name: 'two' } },
      { id: 30, shop: null },
    ])
  })

  await t.test('hidden rows are counted and not returned, and hidden names are refused', async (t) => {
    const update = (returning: unknown) =>
      server.query('update', { table: 'item', where: { id: { $in: [1, 2] } }, $set: { name: 'x' }, returning }, USER)

    const refused = await update(['id', { name: 'shop', columns: ['secret'] }])
    const missing = await update(['id', { name: 'shop', columns: ['nothing'] }])

    t.equal(refused.status, 400)
    t.equal(refused.body.path, '$.args.returning[1].columns[0]')
    t.equal(refused.text.replaceAll('secret', 'nothing'), missing.text)
    t.match((await update([{ columns: ['id'] }])).body, { path: '$.args.returning[0]' })
    t.match((await update(['id', 'id'])).body, { path: '$.args.returning[1]' })
  })

  await t.test('a template may return them, with parameters', async (t) => {
    await server.must('create_query_template', {
      name: 'rename',
      template: {
        type: 'update',
        args: {
          table: 'shop',
          where: { id: 1 },
          $set: { name: { param: 'name' } },
          returning: [
            '*',
            { name: 'items', columns: ['id'], where: { id: { $gt: { param: 'above' } } }, order_by: ['id'] },
          ],
        },
      },
    })

    const { body } = await server.query(
      'execute_query_template',
      { name: 'rename', args: { name: 'ein', above: 1 } },
      USER,
    )

    t.same(body, { affected_rows: 1, returning: [{ id: 1, name: 'ein', items: [{ id: 3 }] }] })
  })
})
