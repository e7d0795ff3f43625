import t from 'tap'
import { type As, testServer, type TestServer } from '../kit/server.js'

const SQL = `
create type size as enum ('small', 'large');
create table shop (id int primary key, name text not null);
create table item (
  id int primary key, shop_id int references shop, kind text, price numeric, sold bigint, weight int, secret text,
  size size, tags text[], data jsonb, raw json, spot point, added timestamptz default '2024-01-02T03:04:05.123456Z'
);
insert into shop values (1, 'one'), (2, 'two'), (3, 'empty');
insert into item (id, shop_id, kind, price, sold, weight, secret, size, tags, data, raw) values
  (1, 1, 'a', 1.10, 9223372036854775807, 1, 'x', 'small', '{p}', '{"n": 1}', '1'),
  (2, 1, 'a', 2.20, 9223372036854775807, 2, 'x', 'large', '{}', null, '2'),
  (3, 1, 'b', 3.00, 1, 3, 'x', 'small', null, '[]', null),
  (4, 2, 'b', null, null, null, 'x', null, null, null, null),
  (5, 2, null, 10.5, 5, 5, 'x', 'large', null, null, null),
  (6, 2, 'hidden', 1000, 1000, 1000, 'x', 'large', null, null, null)`

const USER: As = { role: 'user' }

async function start(t: Parameters<typeof testServer>[0]): Promise<TestServer> {
  const server = await testServer(t)
  const permission = {
    columns: ['id', 'shop_id', 'kind', 'price', 'sold', 'weight', 'size'],
    filter: { id: { $lt: 6 } },
    limit: 3,
  }
  await server.must('run_sql', { sql: SQL })
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
    ...['user', 'plain'].flatMap((role) => [
      {
        type: 'create_select_permission',
        args: { table: 'item', role, permission: { ...permission, allow_aggregations: role === 'user' } },
      },
      { type: 'create_select_permission', args: { table: 'shop', role, permission: { columns: '*', filter: {} } } },
    ]),
  ])
  return server
}

t.test('groups and hidden rows, and groups in templates', async (t) => {
  const server = await start(t)
  const select = (args: object, as?: As) => server.query('select', { table: 'item', ...args }, as)

  await t.test('a condition on groups is never evaluated on hidden rows', async (t) => {
    const { status, body } = await select(
      {
        columns: ['kind', { count: '*' }],
        group_by: ['kind'],
        having: { kind: { $regex: '^[ab]' } },
        order_by: ['kind'],
      },
      USER,
    )
    const explained = await server.fetch('/v1/query/explain', {
      method: 'POST',
      body: JSON.stringify({
        query: {
          type: 'select',
          args: { table: 'item', columns: ['kind'], group_by: ['kind'], having: { kind: { $regex: 'a' } } },
        },
        role: 'user',
      }),
    })

    t.equal(status, 200)
    t.same(body, [
      { kind: 'a', count: 2 },
      { kind: 'b', count: 2 },
    ])
    const plan = explained.body.plans.join('\n') as string
    t.match(plan, /Subquery Scan[^]*Filter: \(t0.kind ~/, 'the condition is outside of the groups')
  })

  await t.test('a template has parameters in where and having', async (t) => {
    await server.must('create_query_template', {
      name: 'report',
      template: {
        type: 'select',
        args: {
          table: 'item',
          columns: ['kind', { count: '*' }, { sum: 'price', as: 'total' }],
          where: { id: { $lt: { param: 'below' } } },
          group_by: ['kind'],
          having: { total: { $gt: { param: 'above' } } },
          order_by: ['kind'],
          limit: { param: 'limit', default: 9 },
        },
      },
    })

    const { body } = await server.fetch('/v1/template/report?below=6&above=3.2', {}, USER)
    const openapi = await server.fetch('/v1/openapi.json')

    t.same(body, [
      { kind: 'a', count: 2, total: 3.3 },
      { kind: null, count: 1, total: 10.5 },
    ])
    const answer = openapi.text.slice(openapi.text.indexOf('"/v1/template/report"'))
    t.match(
      answer,
      '"kind":{"type":["string","null"]},"count":{"type":"integer","format":"int64"},"total":{"type":["number","null"]}',
    )
  })
})

t.test('after takes exact values, and those of templates', async (t) => {
  const server = await start(t)
  await server.must('run_sql', {
    sql: `insert into item (id, kind, price, weight) select n, chr(97 + n % 3), nullif(n % 4, 0), nullif(n % 5, 0)
      from generate_series(7, 60) n`,
  })
  const select = (args: object, as?: As) => server.query('select', { table: 'item', ...args }, as)

  await t.test('exact values come back: times, numerics, enums', async (t) => {
    for (const column of ['added', 'sold', 'price', 'size']) {
      const args = { columns: [column, 'id'], order_by: [column], where: { id: { $lt: 6 } } }
      const { text } = await select({ ...args, after: {}, limit: 2 })
      const last = `{${text.slice(1, -1).split('},{')[1]}`
      const body = `{"type": "select", "args": ${JSON.stringify({ table: 'item', ...args }).slice(0, -1)}, "after": ${last}}}`

      const rest = await server.fetch('/v1/query', { method: 'POST', body })

      t.equal(rest.body.length, 3, column)
    }
  })

  await t.test('a template takes the values', async (t) => {
    await server.must('create_query_template', {
      name: 'page',
      template: {
        type: 'select',
        args: { table: 'item', columns: ['id'], after: { id: { param: 'id', default: 0 } }, limit: 2 },
      },
    })

    t.same((await server.fetch('/v1/template/page')).body, [{ id: 1 }, { id: 2 }])
    t.same((await server.fetch('/v1/template/page?id=2')).body, [{ id: 3 }, { id: 4 }])
    t.match(await server.fetch('/v1/template/page?id=x'), { status: 400, body: { path: '$.id' } })
  })
})

t.test('the price counts every row that is aggregated, whatever the limit', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: 'create table many (id int primary key, n int); insert into many select n, n from generate_series(1, 9000) n; analyze many',
  })
  await server.must('track_table', 'many')
  await server.must('create_select_permission', {
    table: 'many',
    role: 'user',
    permission: { columns: '*', filter: {}, allow_aggregations: true, limit: 1 },
  })
  const again = await testServer(t, { databaseUrl: server.databaseUrl, config: { limits: { price: 5_000 } } })
  const select = (args: object) => again.query('select', { table: 'many', limit: 1, ...args }, USER)

  t.match(await select({ columns: [{ sum: 'n' }] }), { status: 400, body: { error: /limits.price/ } })
  t.match(await select({ columns: ['n'], group_by: ['n'] }), { status: 400, body: { error: /limits.price/ } })
  t.match(await select({ columns: ['n'], distinct_on: ['n', 'id'] }), { status: 200 })
  const sorts = { columns: ['n'], distinct_on: ['n', 'id'], order_by: ['n', 'id', '-n', '-id'] }
  t.match(await select(sorts), { status: 400, body: { error: /about 6001 points/ } })
  t.equal((await select({ columns: [{ sum: 'n' }], where: { id: 1 } })).status, 200)
  t.equal((await select({ columns: ['n'] })).status, 200)
})
