import type { Test } from 'tap'
import { permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What requests would do, and why a role may not. */
const PROMISES = {
  'explain.read': 'explain has the SQL of a read for a role, without its values, and the plan of PostgreSQL',
  'explain.analyze': 'with analyze the statement runs, and a write is rolled back',
  'explain.write': 'an insert or update runs and is rolled back, and one that would pass has no refused',
  'explain.refused': 'the clauses of the check that refuse a row are named with their paths',
  'explain.upsert': 'of an upsert, new rows meet the check of the insert, and existing rows that of the update',
  'explain.error': 'a write that fails for another reason answers that error',
  'explain.template': 'the query of a template is explained, for a role',
  'explain.graphql': 'each root field of a GraphQL request is explained',
  'explain.admin-only': 'only admin explains, and single queries only',
  'why.allowed': 'explain_permission says that a role may, with the tree of its rule',
  'why.filter': 'a hidden row has the tree of the filter, with the values that it compares',
  'why.related': 'and the related rows with the rule about each',
  'why.null': 'a comparison with null is null in the tree',
  'why.row': 'a row that is not there has the reason row',
  'why.permission': 'a missing permission or column has the reason permission',
  'why.check': 'a refused write has the tree of the check',
  'why.request': 'any other failure has the reason request, with its error',
  'why.details': 'an answer has the columns, presets, limit, session and statement',
  'why.delete': 'a delete is explained by its filter',
  'why.try': 'a permission can be tried before it is saved',
  'why.question': 'a mistake in the question has its path',
  'why.admin-only': 'only admin asks, unless http.explainPermissions lets callers ask about themselves',
  'why.nothing-written': 'nothing of this writes anything',
  'internal.check': 'a refused request of an admin who acts as a role says why, as explain_permission does',
  'internal.permission': 'also for a missing permission or column',
  'internal.bulk': 'in a bulk it has the permission only',
  'internal.own': 'the callers of the role itself never get it',
  'internal.others': 'other errors do not have it',
} as const

const SQL = `
create table customer (id int primary key, city text);
create table orders (id int primary key, customer_id int references customer deferrable initially deferred,
  state text, total numeric default 0, secret text);
create table item (order_id int references orders on delete cascade, place int, note text, primary key (order_id, place));
create table log (line text);
create function keep() returns trigger language plpgsql as $$ begin insert into log values (tg_op); return null; end $$;
create trigger keep after insert or update or delete on orders for each row execute function keep();
insert into customer values (1, 'Quito'), (2, 'Oslo');
insert into orders values (10, 1, 'new', 1.10, 'x'), (11, 2, 'new', 5, 'x'), (12, null, 'late', 5, 'x');
insert into item values (10, 1, 'a'), (10, 2, 'b');
truncate log`

const ANNA = { 'X-Service-User-Id': '1', 'X-Service-City': 'Quito' }
const USER: As = { role: 'user', variables: ANNA }
const ACTING: As = { ...USER, acting: true }

const post = (path: string, body: object, expected: Expected, as?: As): Step => ({
  path,
  method: 'POST',
  body: JSON.stringify(body),
  expected,
  ...(as ? { as } : {}),
})
const explain = (
  type: string,
  args: unknown,
  expected: Expected,
  more: object = { role: 'user', headers: ANNA },
): Step => post('/v1/query/explain', { query: { type, args }, ...more }, expected)
const insert = (...objects: object[]) => ({ table: 'orders', objects })
const why = (question: object, expected: Expected, as?: As): Step =>
  query('explain_permission', { role: 'user', session: ANNA, table: 'orders', ...question }, expected, as)
const clauses = (...all: (readonly [permission: string, path: string, clause: object])[]) => ({
  role: 'user',
  table: 'orders',
  clauses: all.map(([permission, path, clause]) => ({ permission, path, clause })),
})
const NEW = ['insert', '$.check.state', { state: 'new' }] as const
const CHEAP = ['insert', '$.check.$and[0].total', { total: { $lt: 100 } }] as const
const NOT_GONE = ['update', '$.check.$not', { $not: { state: 'gone' } }] as const
const onConflict = { on_conflict: { action: 'update', constraint: 'orders_pkey' } }
const ORDER_COLUMNS = { allowed: ['id', 'state', 'total'], refused: ['customer_id', 'secret'] }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'explain.read': async (t, server) => {
    const body = {
      query: { type: 'select', args: { table: 'orders', columns: ['id'], where: { total: 777.25 } } },
      role: 'user',
      headers: ANNA,
    }
    const { status, body: found } = await server.fetch('/v1/query/explain', {
      method: 'POST',
      body: JSON.stringify(body),
    })
    t.equal(status, 200)
    t.match(found.sql, /^select .*"customer_id".*"total" = \$\d/s)
    t.notMatch(found.sql, /777|Quito/)
    t.match(found.plans.join('\n'), /Scan .*on orders/)
    t.notMatch(found.plans.join('\n'), /actual/)
  },
  'explain.analyze': async (t, server) => {
    const ask = async (type: string, args: object, analyze: unknown = true) => {
      const body = JSON.stringify({ query: { type, args: { table: 'orders', ...args } }, analyze })
      return server.fetch('/v1/query/explain', { method: 'POST', body })
    }
    t.match(
      (await ask('count', {})).body.plans.join('\n'),
      /Seq Scan on orders .*actual [^]*Buffers: [^]*Execution Time/,
    )
    t.match((await ask('delete', { where: {} })).body.plans.join('\n'), /Delete on orders .*actual .*rows=3/)
    t.notMatch((await ask('delete', { where: {} }, false)).text, /actual/)
    t.match(await ask('delete', { where: {} }, 'yes'), {
      status: 400,
      body: { code: 'parse-failed', path: '$.analyze' },
    })
  },
  'explain.write': async (t, server) => {
    for (const [type, args] of [
      ['insert', insert({ id: 20, state: 'new' })],
      ['update', { table: 'orders', where: { id: 10 }, $set: { state: 'late' } }],
    ] as const) {
      const body = JSON.stringify({ query: { type, args }, role: 'user', headers: ANNA })
      const made = await server.fetch('/v1/query/explain', { method: 'POST', body })
      t.same([made.status, Object.keys(made.body)], [200, ['sql', 'plans']])
    }
  },
  'explain.refused': [
    explain(
      'insert',
      insert({ id: 20, state: 'new' }, { id: 21, state: 'old', total: 100 }),
      like({ sql: /^with w as \(insert into "public"."orders"/ }),
    ),
    explain(
      'insert',
      insert({ id: 20, state: 'new' }, { id: 21, state: 'old', total: 100 }),
      like({ refused: clauses(CHEAP, NEW) }),
    ),
    explain('insert', insert({ id: 20, state: null }), like({ refused: clauses(NEW) })),
    explain('update', { table: 'orders', where: {}, $set: { state: 'gone' } }, like({ refused: clauses(NOT_GONE) })),
  ],
  'explain.upsert': [
    explain(
      'insert',
      { ...insert({ id: 10, state: 'gone' }, { id: 22, state: 'gone' }), ...onConflict },
      like({ refused: clauses(NEW, NOT_GONE) }),
    ),
  ],
  'explain.error': [
    explain('insert', insert({ id: 10, state: 'new' }), refused('postgres-error', /^Uniqueness violation/)),
  ],
  'explain.template': [
    explain('execute_query_template', { name: 'add', args: { id: 20, state: 'old' } }, like({ refused: clauses(NEW) })),
    explain(
      'execute_query_template',
      { name: 'add', args: { id: 20 } },
      refused('invalid-params', /state/, '$.query.args.args'),
    ),
    explain('execute_query_template', { name: 'none', args: {} }, refused('not-exists', /none/, '$.query.args.name')),
  ],
  'explain.graphql': [
    post(
      '/v1/graphql/explain',
      { query: '{ mine: orders(where: {id: {_eq: 10}}) { state } }' },
      like([{ field: 'mine', sql: /^select .*"state"/, plans: { length: Number } }]),
      ACTING,
    ),
    post(
      '/v1/graphql/explain',
      { query: 'mutation { insert_orders(objects: [{id: 20, state: "old"}]) { affected_rows } }' },
      like([{ field: 'insert_orders', refused: clauses(NEW) }]),
      ACTING,
    ),
  ],
  'explain.admin-only': [
    post(
      '/v1/query/explain',
      { query: { type: 'count', args: { table: 'orders' } } },
      refused('access-denied', /./, '$'),
      USER,
    ),
    {
      ...post('/v1/graphql/explain', { query: '{ orders { id } }' }, { status: 400, like: { code: 'access-denied' } }),
      bare: true,
    },
    explain('bulk', [], refused('parse-failed', /./, '$.query')),
    explain('run_sql', { sql: 'select 1' }, refused('parse-failed', /./, '$.query')),
  ],
  'why.allowed': [
    why(
      { operation: 'select', key: { id: 10 } },
      like({ verdict: 'allowed', filter: { path: '$.filter', result: true } }),
    ),
    why(
      { operation: 'insert', object: { id: 20, state: 'new' } },
      like({ verdict: 'allowed', check: { result: true } }),
    ),
    why(
      { operation: 'update', key: { id: 10 }, object: { state: 'late' } },
      like({ verdict: 'allowed', filter: { result: true }, check: { result: true } }),
    ),
  ],
  'why.filter': [
    why(
      { operation: 'select', key: { id: 11 } },
      like({
        verdict: 'refused',
        reason: 'filter',
        filter: {
          path: '$.filter',
          result: false,
          all: [
            {
              path: '$.filter.$or',
              result: false,
              any: [
                {
                  path: '$.filter.$or[0].customer_id',
                  result: false,
                  clause: { customer_id: 'X-Service-User-Id' },
                  values: { customer_id: 2 },
                },
                { result: false },
              ],
            },
            { path: '$.filter.state', result: true, clause: { state: 'new' }, values: { state: 'new' } },
          ],
        },
      }),
    ),
  ],
  'why.related': [
    why(
      { operation: 'select', key: { id: 11 } },
      like({
        filter: {
          all: [
            {
              any: [
                {},
                {
                  path: '$.filter.$or[1].customer',
                  rows: [
                    {
                      key: { id: 2 },
                      rule: {
                        path: '$.filter.$or[1].customer.city',
                        result: false,
                        clause: { city: 'X-Service-City' },
                        values: { city: 'Oslo' },
                      },
                    },
                  ],
                },
              ],
            },
          ],
        },
      }),
    ),
  ],
  'why.null': [
    why(
      { operation: 'select', key: { id: 12 } },
      like({
        filter: {
          result: false,
          all: [{ result: null, any: [{ result: null }, { result: false, rows: { length: 0 } }] }, { result: false }],
        },
      }),
    ),
  ],
  'why.row': [
    why({ operation: 'select', key: { id: 99 } }, like({ verdict: 'refused', reason: 'row' })),
    why({ operation: 'update', key: { id: 99 }, object: { state: 'x' } }, like({ verdict: 'refused', reason: 'row' })),
  ],
  'why.permission': [
    why(
      { operation: 'delete', key: { id: 10 } },
      like({
        verdict: 'refused',
        reason: 'permission',
        error: { code: 'permission-denied', error: /delete on "orders" for role "user" is not allowed/ },
      }),
    ),
    why(
      { operation: 'insert', object: { id: 20, secret: 'x' } },
      like({ verdict: 'refused', reason: 'permission', error: { error: /column "secret"/ } }),
    ),
  ],
  'why.check': [
    why(
      { operation: 'insert', object: { id: 20, state: 'old' } },
      like({
        verdict: 'refused',
        reason: 'check',
        check: {
          result: false,
          all: [{ result: true }, { path: '$.check.state', result: false, values: { state: 'old' } }],
        },
      }),
    ),
    why(
      { operation: 'update', key: { id: 10 }, object: { state: 'gone' } },
      like({
        reason: 'check',
        filter: { result: true },
        check: { path: '$.check.$not', result: false, not: { result: true, values: { state: 'gone' } } },
      }),
    ),
    why(
      { operation: 'update', key: { id: 11 }, object: { state: 'late' } },
      like({ reason: 'filter', filter: { result: false, values: { customer_id: 2 } } }),
    ),
  ],
  'why.request': [
    why(
      { operation: 'insert', object: { id: 10, state: 'new' } },
      like({ verdict: 'refused', reason: 'request', error: { error: /Uniqueness violation/ } }),
    ),
    why(
      { operation: 'insert', object: { id: 'x', state: 'new' } },
      like({ reason: 'request', error: { error: /invalid input syntax/ } }),
    ),
    why(
      { operation: 'insert', object: { id: 20, state: 'new' }, session: { 'x-service-user-id': '7' } },
      like({ reason: 'request', error: { error: /Foreign key violation/ } }),
    ),
    why(
      { operation: 'select', key: { id: 10 }, session: { 'X-Service-User-Id': '1' } },
      like({ reason: 'request', error: { error: /x-service-city header is expected/ } }),
    ),
  ],
  'why.details': [
    why(
      { operation: 'select', key: { id: 10 } },
      like({
        columns: ORDER_COLUMNS,
        limit: 10,
        session: { 'x-service-user-id': '1', 'x-service-city': 'Quito' },
        sql: /^select .*"id".* where /s,
      }),
    ),
    why(
      { operation: 'insert', object: { id: 20, state: 'new' } },
      like({ columns: ORDER_COLUMNS, presets: { customer_id: 'X-Service-User-Id' }, sql: /insert into/ }),
    ),
  ],
  'why.delete': [
    why(
      { operation: 'delete', key: { order_id: 10, place: 1 }, table: 'item' },
      like({ verdict: 'allowed', filter: { result: true } }),
    ),
    why(
      { operation: 'delete', key: { order_id: 10, place: 2 }, table: 'item' },
      like({ verdict: 'refused', reason: 'filter', filter: { result: false, values: { note: 'b' } } }),
    ),
  ],
  'why.try': [
    why(
      {
        operation: 'select',
        key: { id: 11 },
        permission: { columns: ['id'], filter: { customer_id: { $gt: 'X-Service-User-Id' } } },
      },
      like({ verdict: 'allowed', filter: { result: true, values: { customer_id: 2 } }, columns: { allowed: ['id'] } }),
    ),
    why(
      { operation: 'delete', key: { id: 11 }, permission: { filter: { state: 'old' } } },
      like({ verdict: 'refused', reason: 'filter', filter: { values: { state: 'new' } } }),
    ),
    why(
      { operation: 'select', role: 'new', key: { id: 11 }, permission: { columns: [], filter: {} } },
      like({ verdict: 'allowed' }),
    ),
    why(
      { operation: 'select', key: { id: 11 }, permission: { columns: ['id'], filter: { nr: 1 } } },
      refused('not-exists', /"nr"/, '$.args.permission.filter.nr'),
    ),
    why(
      { operation: 'delete', key: { id: 11 }, permission: { filters: {} } },
      refused('unexpected-payload', /filters/, '$.args.permission.filters'),
    ),
    why({ operation: 'delete', key: { id: 11 } }, like({ reason: 'permission' })),
  ],
  'why.question': [
    why({ operation: 'select' }, refused('parse-failed', /'key' was not present/, '$.args')),
    why({ operation: 'select', key: { id: 10 }, object: {} }, { status: 400, like: { path: '$.args.object' } }),
    why({ operation: 'insert', key: { id: 10 }, object: {} }, { status: 400, like: { path: '$.args.key' } }),
    why({ operation: 'update', key: { id: 10 } }, refused('parse-failed', /'object' was not present/, '$.args')),
    why({ operation: 'select', key: { nr: 1 } }, refused('not-exists', /"nr"/, '$.args.key.nr')),
    why({ operation: 'select', key: {} }, { status: 400, like: { path: '$.args.key', error: /more than one row/ } }),
    why({ operation: 'select', key: { id: 10 }, role: 'admin' }, { status: 400, like: { path: '$.args.role' } }),
    why({ operation: 'select', key: { id: 10 }, table: 'nothing' }, refused('not-exists', /"nothing"/, '$.args.table')),
    why(
      { operation: 'select', key: { id: 10 }, session: { 'User-Id': '1' } },
      { status: 400, like: { error: /is called X-Service-/ } },
    ),
    why(
      { operation: 'select', key: { id: 10 }, session: { 'X-Service-A': 1 } },
      { status: 400, like: { path: '$.args.session.X-Service-A' } },
    ),
  ],
  'why.admin-only': async (t, server) => {
    const question = { operation: 'select', table: 'orders', key: { id: 11 } }
    t.match((await server.query('explain_permission', question, USER)).body, {
      code: 'access-denied',
      error: 'restricted access : admin only',
    })
    const open = await testServer(t, {
      databaseUrl: server.databaseUrl,
      config: { http: { explainPermissions: true } },
    })
    const ask = async (more: object) => (await open.query('explain_permission', { ...question, ...more }, USER)).body
    t.match(await ask({}), { verdict: 'refused', reason: 'filter', session: { 'x-service-user-id': '1' } })
    t.match(await ask({ role: 'user', session: ANNA }), { verdict: 'refused', reason: 'filter' })
    t.match(await ask({ role: 'guest' }), { code: 'access-denied', path: '$.args.role' })
    t.match(await ask({ session: { 'X-Service-User-Id': '2' } }), {
      code: 'access-denied',
      path: '$.args.session.x-service-user-id',
    })
    t.match(await ask({ permission: { columns: ['id'], filter: {} } }), {
      code: 'access-denied',
      path: '$.args.permission',
    })
    await open.close()
  },
  'why.nothing-written': [
    query(
      'select',
      { table: 'orders', columns: ['id', 'state'], order_by: 'id' },
      is([
        { id: 10, state: 'new' },
        { id: 11, state: 'new' },
        { id: 12, state: 'late' },
      ]),
    ),
    query('count', { table: 'log' }, is({ count: 0 })),
    query('count', { table: 'item' }, is({ count: 2 })),
  ],
  'internal.check': [
    query(
      'insert',
      insert({ id: 20, state: 'old' }),
      {
        status: 400,
        like: {
          path: '$.args',
          error: 'the row would not pass the insert check of role "user" on "orders"',
          code: 'postgres-error',
          internal: {
            verdict: 'refused',
            reason: 'check',
            table: 'orders',
            operation: 'insert',
            permission: { check: { state: 'new' } },
            columns: ORDER_COLUMNS,
            presets: { customer_id: 'X-Service-User-Id' },
            session: { 'x-service-user-id': '1' },
            check: { all: [{ result: true }, { path: '$.check.state', result: false, values: { state: 'old' } }] },
          },
        },
      },
      ACTING,
    ),
    query(
      'update',
      { table: 'orders', where: { id: 10 }, $set: { state: 'gone' } },
      {
        status: 400,
        like: { internal: { reason: 'check', operation: 'update', check: { not: { values: { state: 'gone' } } } } },
      },
      ACTING,
    ),
  ],
  'internal.permission': [
    query(
      'delete',
      { table: 'orders', where: {} },
      {
        status: 400,
        like: { internal: { verdict: 'refused', reason: 'permission', operation: 'delete', permission: null } },
      },
      ACTING,
    ),
    query(
      'select',
      { table: 'orders', columns: ['id', 'secret'] },
      {
        status: 400,
        like: {
          internal: { reason: 'permission', operation: 'select', permission: { limit: 10 }, columns: ORDER_COLUMNS },
        },
      },
      ACTING,
    ),
    query(
      'select',
      { table: 'orders', columns: ['id', { name: 'log', columns: ['line'] }] },
      { status: 400, like: { code: 'permission-denied' } },
      ACTING,
    ),
  ],
  'internal.bulk': async (t, server) => {
    const { status, body } = await server.query(
      'bulk',
      [{ type: 'insert', args: insert({ id: 20, state: 'old' }) }],
      ACTING,
    )
    t.equal(status, 400)
    t.match(body, {
      path: '$.args[0].args',
      internal: { reason: 'check', operation: 'insert', permission: { check: { state: 'new' } } },
    })
    t.equal(body.internal.check, undefined)
  },
  'internal.own': async (t, server) => {
    const { body } = await server.query('insert', insert({ id: 20, state: 'old' }), USER)
    t.same(body, {
      path: '$.args',
      error: 'the row would not pass the insert check of role "user" on "orders"',
      code: 'postgres-error',
    })
    const denied = await server.query('select', { table: 'orders', columns: ['secret'] }, USER)
    t.same(Object.keys(denied.body), ['path', 'error', 'code'])
  },
  'internal.others': async (t, server) => {
    for (const [type, args] of [
      ['insert', insert({ id: 10, state: 'new' })],
      ['insert', insert({ id: 'x', state: 'new' })],
      ['run_sql', { sql: 'select 1' }],
    ] as const) {
      const { status, body } = await server.query(type, args, ACTING)
      t.same([status, body.internal], [400, undefined])
    }
  },
}

export const review = area('review', {
  promises: PROMISES,
  pages: {
    'plugins/query/README.md': {
      'Why a role may not': {
        '`select`, `delete`': ['why.filter', 'why.delete'],
        '`insert`': 'why.check',
        '`update`': 'why.check',
        '`permission`': 'why.permission',
        '`row`': 'why.row',
        '`filter`, `check`': ['why.filter', 'why.check'],
        '`request`': 'why.request',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  await server.must('bulk', [
    ...['customer', 'orders', 'item', 'log'].map(track),
    relate('object', 'orders', 'customer', 'customer_id'),
    permit('select', 'orders', 'user', {
      columns: ['id', 'state', 'total'],
      filter: { $or: [{ customer_id: 'X-Service-User-Id' }, { customer: { city: 'X-Service-City' } }], state: 'new' },
      limit: 10,
    }),
    permit('insert', 'orders', 'user', {
      columns: ['id', 'state', 'total'],
      set: { customer_id: 'X-Service-User-Id' },
      check: { $and: [{ total: { $lt: 100 } }], state: 'new' },
    }),
    permit('update', 'orders', 'user', {
      columns: ['state'],
      filter: { customer_id: 'X-Service-User-Id' },
      check: { $not: { state: 'gone' } },
    }),
    permit('select', 'item', 'user', { columns: ['order_id', 'place'], filter: {} }),
    permit('delete', 'item', 'user', { filter: { note: 'a' } }),
    {
      type: 'create_query_template',
      args: {
        name: 'add',
        template: {
          type: 'insert',
          args: { table: 'orders', objects: [{ id: { param: 'id' }, state: { param: 'state' } }] },
        },
      },
    },
  ])
  return server
}
