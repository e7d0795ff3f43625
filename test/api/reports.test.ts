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

t.test('groups and aggregates', async (t) => {
  const server = await start(t)
  const select = (args: object, as?: As) => server.query('select', { table: 'item', ...args }, as)

  await t.test('groups have their columns and aggregates, with conditions and an order', async (t) => {
    const { body } = await select({
      columns: ['kind', { count: '*' }, { sum: 'price', as: 'total' }],
      where: { id: { $lt: 6 } },
      group_by: ['kind'],
      having: { total: { $gte: 3 }, $or: [{ count: 2 }, { kind: null }] },
      order_by: ['-total'],
    })

    t.same(body, [
      { kind: null, count: 1, total: 10.5 },
      { kind: 'a', count: 2, total: 3.3 },
      { kind: 'b', count: 2, total: 3 },
    ])
  })

  await t.test('without group_by there is one row, also of no rows', async (t) => {
    const columns = [{ count: '*' }, { count: 'kind' }, { count: 'kind', distinct: true, as: 'kinds' }, { max: 'id' }]

    t.same((await select({ columns })).body, [{ count: 6, count_kind: 5, kinds: 3, max_id: 6 }])
    t.same((await select({ columns, where: { id: 0 } })).body, [{ count: 0, count_kind: 0, kinds: 0, max_id: null }])
    t.same((await select({ columns, having: { count: { $gt: 6 } } })).body, [])
  })

  await t.test('numbers are exact', async (t) => {
    const { text } = await select({
      columns: [{ sum: 'sold' }, { min: 'price' }, { avg: 'weight' }, { sum: 'price' }],
      where: { id: { $lte: 2 } },
    })

    t.equal(
      text,
      '[{"sum_sold":18446744073709551614,"min_price":1.10,"avg_weight":1.5000000000000000,"sum_price":3.30}]',
    )
  })

  await t.test('lists are sorted, and statistics are those of PostgreSQL', async (t) => {
    const { body } = await select({
      columns: [
        'kind',
        { array_agg: 'id', as: 'ids' },
        { jsonb_agg: 'data', as: 'data' },
        { array_agg: 'size', distinct: true, as: 'sizes' },
        { jsonb_agg: 'tags', as: 'tags' },
        { array_agg: 'raw', as: 'raws' },
        { min: 'added' },
      ],
      where: { kind: 'a' },
      group_by: ['kind'],
    })
    const statistics = 'stddev stddev_pop stddev_samp var_pop var_samp variance'.split(' ')
    const numbers = await select({
      columns: statistics.map((fn) => ({ [fn]: 'weight', as: fn })),
      where: { kind: 'a' },
    })

    t.same(body, [
      {
        kind: 'a',
        ids: [1, 2],
        data: [{ n: 1 }, null],
        sizes: ['small', 'large'],
        tags: [[], ['p']],
        raws: [1, 2],
        min_added: '2024-01-02T03:04:05.123456+00:00',
      },
    ])
    t.match(numbers.body, [{ var_pop: 0.25, variance: 0.5, var_samp: 0.5, stddev_pop: 0.5 }])
  })

  await t.test('limit and offset are about groups; an order may use a column that is not shown', async (t) => {
    const args = { columns: [{ count: '*', as: 'n' }], group_by: ['kind', 'shop_id'], order_by: ['-kind', 'shop_id'] }

    t.same((await select({ ...args, limit: 2, offset: 1 })).body, [{ n: 1 }, { n: 1 }])
    t.same((await select({ ...args, where: { kind: { $in: ['a', 'b'] } } })).body, [{ n: 1 }, { n: 1 }, { n: 2 }])
  })

  await t.test('CSV and JSON lines', async (t) => {
    const args = {
      table: 'item',
      columns: ['kind', { count: '*' }, { jsonb_agg: 'kind', as: 'all' }],
      group_by: ['kind'],
      where: { id: { $in: [1, 2, 5] } },
      order_by: ['kind'],
    }
    const sent = (accept: string) =>
      server.fetch('/v1/query', {
        method: 'POST',
        headers: { accept },
        body: JSON.stringify({ type: 'select', args }),
      })

    t.equal((await sent('text/csv')).text, 'kind,count,all\r\na,2,"[""a"", ""a""]"\r\n,1,[null]\r\n')
    t.equal(
      (await sent('application/x-ndjson')).text,
      '{"kind":"a","count":2,"all":["a", "a"]}\n{"kind":null,"count":1,"all":[null]}\n',
    )
  })

  await t.test('a relationship has the groups of its rows', async (t) => {
    const { body } = await server.query(
      'select',
      {
        table: 'shop',
        columns: [
          'id',
          { name: 'items', alias: 'all', columns: [{ count: '*' }, { sum: 'weight' }] },
          { name: 'items', alias: 'kinds', columns: ['kind', { count: '*' }], group_by: ['kind'], order_by: ['kind'] },
        ],
        order_by: ['id'],
      },
      USER,
    )

    t.same(body, [
      {
        id: 1,
        all: [{ count: 3, sum_weight: 6 }],
        kinds: [
          { kind: 'a', count: 2 },
          { kind: 'b', count: 1 },
        ],
      },
      {
        id: 2,
        all: [{ count: 2, sum_weight: 5 }],
        kinds: [
          { kind: 'b', count: 1 },
          { kind: null, count: 1 },
        ],
      },
      { id: 3, all: [{ count: 0, sum_weight: null }], kinds: [] },
    ])
  })

  await t.test('a role aggregates all rows that it may select; its limit is about groups', async (t) => {
    const all = await select({ columns: [{ count: '*' }, { max: 'price' }] }, USER)
    const groups = await select({ columns: ['id', { count: '*' }], group_by: ['id'], order_by: ['id'] }, USER)

    t.same(all.body, [{ count: 5, max_price: 10.5 }])
    t.same(groups.body.length, 3)
  })

  await t.test('a role needs the permission to aggregate, and to select every column', async (t) => {
    const refusals: [object, string][] = [
      [{ columns: [{ count: 'secret' }] }, '$.args.columns[0].count'],
      [{ columns: [{ count: '*' }], group_by: ['secret'] }, '$.args.group_by[0]'],
      [{ columns: [{ count: '*' }], where: { secret: 'x' } }, '$.args.where.secret'],
    ]
    for (const [args, path] of refusals) {
      const refused = await select(args, USER)
      const missing = await select(JSON.parse(JSON.stringify(args).replaceAll('secret', 'nothing')), USER)
      t.match(refused, { status: 400, body: { path } })
      t.equal(refused.text.replaceAll('secret', 'nothing'), missing.text)
    }
    for (const args of [{ columns: [{ count: '*' }] }, { columns: ['kind'], group_by: ['kind'] }]) {
      t.match(await select(args, { role: 'plain' }), { status: 400, body: { code: 'permission-denied' } })
    }
    t.match(await select({ columns: [{ count: '*' }] }, { role: 'nobody' }), { status: 400 })
  })

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

  await t.test('mistakes are named with their path', async (t) => {
    const wrong: [object, string, RegExp?][] = [
      [{ columns: ['price', { count: '*' }], group_by: ['kind'] }, '$.args.columns[0]', /group_by/],
      [{ columns: ['kind', { count: '*' }] }, '$.args.columns[0]', /group_by/],
      [{ columns: ['*', { count: '*' }] }, '$.args.columns[0]'],
      [{ columns: [{ name: 'shop', columns: ['id'] }], group_by: ['shop_id'] }, '$.args.columns[0]'],
      [{ columns: [{ count: '*' }], group_by: [] }, '$.args.group_by'],
      [{ columns: [{ count: '*' }], group_by: 'kind' }, '$.args.group_by'],
      [{ columns: [{ count: '*' }], group_by: ['raw'] }, '$.args.group_by[0]', /json/i],
      [{ columns: [{ count: '*' }], group_by: ['spot'] }, '$.args.group_by[0]', /type point, which/],
      [{ columns: [{ count: 'spot', distinct: true }] }, '$.args.columns[0].count', /type point, which/],
      [{ columns: [{ array_agg: 'spot', as: 'all' }], order_by: ['all'] }, '$.args.order_by[0]', /cannot compare/],
      [{ columns: [{ count: '*' }], group_by: ['kind', 'kind'] }, '$.args.group_by[1]'],
      [{ columns: [{ count: '*' }], group_by: ['shop'] }, '$.args.group_by[0]'],
      [{ columns: [{ count: '*' }, { count: '*' }] }, '$.args.columns[1]', /twice/],
      [{ columns: [{ sum: 'price', as: 'kind' }], group_by: ['kind'] }, '$.args.columns[0]', /twice/],
      [{ columns: [{ sum: 'price', as: '' }] }, '$.args.columns[0]'],
      [{ columns: [{ sum: 'price', as: 5 }] }, '$.args.columns[0].as'],
      [{ columns: [{ sum: 'price', as: 'x'.repeat(64) }] }, '$.args.columns[0]', /63/],
      [{ columns: [{ sum: 'kind' }] }, '$.args.columns[0].sum', /text/],
      [{ columns: [{ max: 'raw' }] }, '$.args.columns[0].max'],
      [{ columns: [{ array_agg: 'tags' }] }, '$.args.columns[0].array_agg', /jsonb_agg/],
      [{ columns: [{ sum: '*' }] }, '$.args.columns[0].sum'],
      [{ columns: [{ sum: 5 }] }, '$.args.columns[0].sum'],
      [{ columns: [{ count: '*', distinct: true }] }, '$.args.columns[0].distinct'],
      [{ columns: [{ count: 'kind', distinct: 'yes' }] }, '$.args.columns[0].distinct'],
      [{ columns: [{ count: 'raw', distinct: true }] }, '$.args.columns[0].count'],
      [{ columns: [{ count: 'kind', sum: 'price' }] }, '$.args.columns[0]'],
      [{ columns: [{ count: '*', where: {} }] }, '$.args.columns[0].where'],
      [{ columns: [{ count: '*' }], order_by: ['price'] }, '$.args.order_by[0]'],
      [{ columns: [{ count: '*' }], order_by: ['shop.name'] }, '$.args.order_by[0]'],
      [{ columns: [{ jsonb_agg: 'kind' }, { count: '*' }], having: { price: 1 } }, '$.args.having.price'],
      [{ columns: [{ count: '*' }], having: { count: { $gt: 'x' } } }, '$.args.having.count.$gt'],
      [{ columns: [{ count: '*' }], having: { shop: { id: 1 } } }, '$.args.having.shop'],
      [{ columns: [{ count: '*' }], having: { $exists: { _table: 'shop', _where: {} } } }, '$.args.having.$exists'],
      [{ columns: [{ count: '*' }], having: [] }, '$.args.having'],
      [{ columns: ['kind'], having: {} }, '$.args.having'],
      [{ columns: [{ name: 'shop', columns: [{ count: '*' }] }] }, '$.args.columns[0]'],
    ]
    for (const [args, path, message = /./] of wrong) {
      t.match(await select(args), { status: 400, body: { path, error: message } }, JSON.stringify(args))
    }
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

t.test('distinct_on returns the first row of each combination', async (t) => {
  const server = await start(t)
  const select = (args: object, as?: As) => server.query('select', { table: 'item', ...args }, as)
  const args = { columns: ['kind', 'id'], distinct_on: ['kind'], order_by: ['kind', '-id'] }

  t.same((await select({ ...args, limit: 2 })).body, [
    { kind: 'a', id: 2 },
    { kind: 'b', id: 4 },
  ])
  t.same((await select(args, USER)).body, [
    { kind: 'a', id: 2 },
    { kind: 'b', id: 4 },
    { kind: null, id: 5 },
  ])
  t.same((await select({ columns: ['size'], distinct_on: ['size'] })).body.length, 3)
  const nested = await server.must('select', {
    table: 'shop',
    columns: [{ name: 'items', columns: ['kind'], distinct_on: ['kind'], order_by: ['kind'] }],
    where: { id: 1 },
  })
  t.same(nested, [{ items: [{ kind: 'a' }, { kind: 'b' }] }])

  const wrong: [object, string, As?][] = [
    [{ ...args, order_by: ['id'] }, '$.args.distinct_on'],
    [{ ...args, distinct_on: [] }, '$.args.distinct_on'],
    [{ ...args, distinct_on: 'kind' }, '$.args.distinct_on'],
    [{ ...args, distinct_on: ['raw'], order_by: ['id'] }, '$.args.distinct_on[0]'],
    [{ ...args, distinct_on: ['nothing'] }, '$.args.distinct_on[0]'],
    [{ ...args, distinct_on: ['secret'] }, '$.args.distinct_on[0]', USER],
    [{ columns: [{ count: '*' }], distinct_on: ['kind'] }, '$.args.distinct_on'],
    [{ columns: [{ name: 'shop', columns: ['id'], distinct_on: ['id'] }] }, '$.args.columns[0]'],
  ]
  for (const [args, path, as] of wrong) {
    t.match(await select(args, as), { status: 400, body: { path } }, JSON.stringify(args))
  }
})

t.test('after continues behind a row', async (t) => {
  const server = await start(t)
  await server.must('run_sql', {
    sql: `insert into item (id, kind, price, weight) select n, chr(97 + n % 3), nullif(n % 4, 0), nullif(n % 5, 0)
      from generate_series(7, 60) n`,
  })
  type Row = Record<string, unknown>
  const select = (args: object, as?: As) => server.query('select', { table: 'item', ...args }, as)
  const pages = async (order: unknown[], columns: string[], limit: number, as?: As): Promise<Row[]> => {
    const all: Row[] = []
    for (let after: Row = {}; all.length < 100;) {
      const { body } = await select({ columns, after, limit, ...(order.length > 0 ? { order_by: order } : {}) }, as)
      if (!Array.isArray(body)) throw new Error(JSON.stringify(body))
      all.push(...(body as Row[]))
      if (body.length < limit) break
      after = body.at(-1) as Row
    }
    return all
  }

  await t.test('pages have every row once, in the order, whatever is null', async (t) => {
    const orders: { column: string; type: string; nulls?: string }[][] = [
      [],
      [{ column: 'weight', type: 'asc' }],
      [{ column: 'weight', type: 'desc' }],
      [
        { column: 'weight', type: 'asc', nulls: 'first' },
        { column: 'kind', type: 'desc' },
      ],
      [
        { column: 'kind', type: 'desc', nulls: 'last' },
        { column: 'weight', type: 'asc' },
        { column: 'price', type: 'desc', nulls: 'first' },
      ],
      [{ column: 'id', type: 'desc' }],
    ]
    for (const order of orders) {
      const columns = [...new Set([...order.map(({ column }) => column), 'id'])]
      const withKey = columns.length > order.length ? [...order, 'id'] : order
      const whole = (await select({ columns, order_by: withKey })).body

      t.same(await pages(order, columns, 7), whole, JSON.stringify(order))
    }
  })

  await t.test('a role continues too, within its rows and its limit', async (t) => {
    const rows = await pages(['-kind'], ['kind', 'id'], 2, USER)

    t.same(
      rows.map(({ id }) => id),
      [5, 3, 4, 1, 2],
    )
  })

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

  await t.test('mistakes are named with their path', async (t) => {
    const args = { columns: ['id'], order_by: ['kind'] }
    const wrong: [object, string, As?][] = [
      [{ ...args, after: { id: 1 } }, '$.args.after'],
      [{ ...args, after: {}, distinct_on: ['kind'] }, '$.args.after'],
      [{ columns: [{ count: '*' }], after: {} }, '$.args.after'],
      [{ ...args, after: { kind: 'a', id: 1, price: 2 } }, '$.args.after.price'],
      [{ ...args, after: { kind: 'a', id: 'x' } }, '$.args.after.id'],
      [{ ...args, after: { kind: 'a', id: { $gt: 1 } } }, '$.args.after.id'],
      [{ ...args, after: 5 }, '$.args.after'],
      [{ ...args, after: ['a', 1] }, '$.args.after'],
      [{ ...args, order_by: ['shop.name'], after: {} }, '$.args.order_by[0]'],
      [{ ...args, order_by: ['secret'], after: { secret: 'x', id: 1 } }, '$.args.order_by[0]', USER],
      [{ columns: [{ name: 'shop', columns: ['id'], after: {} }] }, '$.args.columns[0].after'],
    ]
    for (const [args, path, as] of wrong) {
      t.match(await select(args, as), { status: 400, body: { path } }, JSON.stringify(args))
    }
  })

  await t.test('a role that may select no key cannot continue', async (t) => {
    await server.must('create_select_permission', {
      table: 'item',
      role: 'keyless',
      permission: { columns: ['kind'], filter: {} },
    })

    const { status, body } = await select({ columns: ['kind'], order_by: ['kind'], after: {} }, { role: 'keyless' })

    t.equal(status, 400)
    t.notMatch(body.error, /id/)
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
