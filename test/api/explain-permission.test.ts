import { SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { type As, testServer, type TestServer } from '../kit/server.js'

const ANNA = { 'X-Service-User-Id': '1' }
const KEY = 'a key of a test that is long enough for HS256'

async function shop(t: Test, http: object = {}): Promise<TestServer> {
  const auth = { jwt: { algorithms: ['HS256'], key: KEY } }
  const server = await testServer(t, { threads: 1, config: { auth, http } })
  await server.must('run_sql', {
    sql: `create table customer (id int primary key, city text);
      create table orders (id int primary key, customer_id int references customer deferrable initially deferred,
        state text, total numeric, secret text);
      create table log (line text);
      create function keep() returns trigger language plpgsql as $$ begin insert into log values (tg_op); return null; end $$;
      create trigger keep after insert or update or delete on orders for each row execute function keep();
      insert into customer values (1, 'Quito'), (2, 'Oslo');
      insert into orders values (10, 1, 'new', 1.10, 'x'), (11, 2, 'new', 5, 'x'), (12, null, 'late', 5, 'x');
      truncate log`,
  })
  const permit = (type: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table: 'orders', role: 'user', permission },
  })
  await server.must('bulk', [
    ...['customer', 'orders', 'log'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'orders', name: 'customer', using: { foreign_key_constraint_on: 'customer_id' } },
    },
    permit('select', {
      columns: ['id', 'state'],
      filter: { $or: [{ customer_id: 'X-Service-User-Id' }, { customer: { city: 'X-Service-City' } }], state: 'new' },
      limit: 10,
    }),
    permit('insert', { columns: ['id', 'state'], set: { customer_id: 'X-Service-User-Id' }, check: { state: 'new' } }),
    permit('update', {
      columns: ['state'],
      filter: { customer_id: 'X-Service-User-Id' },
      check: { $not: { state: 'gone' } },
    }),
  ])
  return server
}

const why = (server: TestServer, question: object, as?: As) =>
  server.query('explain_permission', { role: 'user', session: ANNA, table: 'orders', ...question }, as)

t.test('columns of an inherited role that no part sees in the row are said to be null', async (t) => {
  const server = await shop(t)
  const permit = (role: string, columns: readonly string[], filter: object) => ({
    type: 'create_select_permission',
    args: { table: 'orders', role, permission: { columns, filter } },
  })
  await server.must('bulk', [
    permit('all', ['id'], {}),
    permit('payer', ['id', 'total', 'secret'], { customer_id: 'X-Service-User-Id' }),
    { type: 'set_role_inheritance', args: { role: 'both', roles: ['all', 'payer'] } },
  ])
  const columns = async (id: number, role = 'both') =>
    (await why(server, { role, operation: 'select', key: { id } })).body.columns

  const [allowed, refused] = [
    ['id', 'total', 'secret'],
    ['customer_id', 'state'],
  ]
  t.same(await columns(11), { allowed, refused, null: ['total', 'secret'] })
  t.same(await columns(12), { allowed, refused, null: ['total', 'secret'] }, 'unknown is not true')
  t.same(await columns(10), { allowed, refused, null: [] })
  t.same(await columns(10, 'payer'), { allowed, refused }, 'a role that sees its columns in all rows')
})

t.test('a hidden row has the tree of the filter, with the values that it compares', async (t) => {
  const server = await shop(t)
  const { body } = await why(server, {
    operation: 'select',
    key: { id: 11 },
    session: { ...ANNA, 'X-Service-City': 'Quito' },
  })

  t.match(body.sql, /^select .*"id".* where /)
  t.same(
    { ...body, sql: '' },
    {
      verdict: 'refused',
      reason: 'filter',
      filter: {
        path: '$.filter',
        result: false,
        clause: {
          $or: [{ customer_id: 'X-Service-User-Id' }, { customer: { city: 'X-Service-City' } }],
          state: 'new',
        },
        all: [
          {
            path: '$.filter.$or',
            result: false,
            clause: { $or: [{ customer_id: 'X-Service-User-Id' }, { customer: { city: 'X-Service-City' } }] },
            any: [
              {
                path: '$.filter.$or[0].customer_id',
                result: false,
                clause: { customer_id: 'X-Service-User-Id' },
                values: { customer_id: 2 },
              },
              {
                path: '$.filter.$or[1].customer',
                result: false,
                clause: { customer: { city: 'X-Service-City' } },
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
          { path: '$.filter.state', result: true, clause: { state: 'new' }, values: { state: 'new' } },
        ],
      },
      columns: { allowed: ['id', 'state'], refused: ['customer_id', 'total', 'secret'] },
      limit: 10,
      session: { 'x-service-user-id': '1', 'x-service-city': 'Quito' },
      sql: '',
    },
  )
})

t.test('a comparison with null is neither true nor false', async (t) => {
  const server = await shop(t)
  const session = { ...ANNA, 'X-Service-City': 'Quito' }
  const { body } = await why(server, { operation: 'select', key: { id: 12 }, session })
  t.match(body.filter, { result: false, all: [{ result: null, any: [{ result: null }, { result: false, rows: [] }] }] })
})

t.test('each verdict has its reason', async (t) => {
  const server = await shop(t)
  const session = { ...ANNA, 'X-Service-City': 'Quito' }
  const ask = async (question: object) => (await why(server, { session, ...question })).body
  const insert = (object: object) => ask({ operation: 'insert', object })
  const update = (id: number, object: object) => ask({ operation: 'update', key: { id }, object })

  t.match(await ask({ operation: 'select', key: { id: 10 } }), { verdict: 'allowed', filter: { result: true } })
  t.match(await ask({ operation: 'select', key: { id: 99 } }), { verdict: 'refused', reason: 'row' })
  t.match(await ask({ operation: 'delete', key: { id: 10 } }), {
    reason: 'permission',
    error: { code: 'permission-denied', error: /delete on "orders" for role "user" is not allowed/ },
  })
  t.match(await insert({ id: 1, state: 'new' }), {
    verdict: 'allowed',
    check: { result: true, values: { state: 'new' } },
    presets: { customer_id: 'X-Service-User-Id' },
    columns: { allowed: ['id', 'state'] },
  })
  t.match(await insert({ id: 1, state: 'old' }), { verdict: 'refused', reason: 'check', check: { result: false } })
  t.match(await insert({ id: 1, total: 1 }), { reason: 'permission', error: { error: /column "total"/ } })
  t.match(await insert({ id: 10, state: 'new' }), { reason: 'request', error: { error: /Uniqueness violation/ } })
  t.match(await insert({ id: 'x', state: 'new' }), { reason: 'request', error: { error: /invalid input syntax/ } })
  t.match(await update(10, { state: 'late' }), {
    verdict: 'allowed',
    filter: { result: true },
    check: { result: true },
  })
  t.match(await update(11, { state: 'late' }), { verdict: 'refused', reason: 'filter' })
  t.match(await update(10, { state: 'gone' }), { reason: 'check', check: { not: { values: { state: 'gone' } } } })
  t.match(await ask({ operation: 'select', key: { id: 10 }, session: ANNA }), {
    reason: 'request',
    error: { error: /x-service-city header is expected/ },
  })
  t.match(await ask({ operation: 'insert', object: { id: 1, state: 'new' }, session: { 'x-service-user-id': '7' } }), {
    reason: 'request',
    error: { error: /Foreign key violation/ },
  })

  t.same(await server.must('select', { table: 'log', columns: ['line'] }), [], 'nothing was written')
})

t.test('a permission can be tried before it is saved', async (t) => {
  const server = await shop(t, { explainPermissions: true })
  const before = await server.must('export_metadata', {})
  const ask = async (question: object) => (await why(server, question)).body
  const select = (filter: object) =>
    ask({ operation: 'select', key: { id: 11 }, permission: { columns: ['id'], filter } })

  t.match(await ask({ operation: 'select', key: { id: 11 }, session: { ...ANNA, 'X-Service-City': 'Quito' } }), {
    reason: 'filter',
  })
  t.match(await select({ customer_id: { $gt: 'X-Service-User-Id' } }), {
    verdict: 'allowed',
    filter: { result: true, values: { customer_id: 2 } },
    columns: { allowed: ['id'] },
    session: { 'x-service-user-id': '1' },
  })
  t.match(await select({ total: 1 }), { reason: 'filter', filter: { result: false }, limit: undefined })
  t.match(await ask({ operation: 'delete', key: { id: 11 }, permission: { filter: {} } }), { verdict: 'allowed' })
  t.match(await ask({ operation: 'delete', key: { id: 11 }, permission: { filter: { state: 'old' } } }), {
    reason: 'filter',
    filter: { values: { state: 'new' } },
  })
  t.match(await ask({ operation: 'select', role: 'new', key: { id: 11 }, permission: { columns: [], filter: {} } }), {
    verdict: 'allowed',
  })
  const insert = { operation: 'insert', object: { id: 1, total: 3 } }
  t.match(await ask(insert), { reason: 'permission' })
  t.match(await ask({ ...insert, permission: { columns: '*', check: { total: 3 }, set: { state: 'x' } } }), {
    verdict: 'allowed',
    check: { values: { total: 3 } },
    presets: { state: 'x' },
  })

  t.match(await select({ nr: 1 }), { code: 'not-exists', path: '$.args.permission.filter.nr' })
  t.match(await select({ total: 'x' }), { code: 'unexpected-payload', path: '$.args.permission' })
  t.match(await ask({ operation: 'select', key: { id: 11 }, permission: 1 }), { path: '$.args.permission' })
  t.match(await ask({ operation: 'delete', key: { id: 11 }, permission: { filters: {} } }), {
    path: '$.args.permission.filters',
  })
  t.match(await ask({ operation: 'delete', key: { id: 11 }, role: 'a b', permission: { filter: {} } }), {
    path: '$.args.role',
  })
  const own = { operation: 'select', table: 'orders', key: { id: 11 }, permission: { columns: ['id'], filter: {} } }
  t.match((await withToken(server, { type: 'explain_permission', args: own })).body, {
    code: 'access-denied',
    path: '$.args.permission',
  })
  t.same(await server.must('export_metadata', {}), before)
  t.same(await server.must('count', { table: 'orders' }), { count: 3 })
})

t.test('only an admin may ask, and a mistake in the question has a path', async (t) => {
  const server = await shop(t)
  const ask = async (question: object, as?: As) => (await why(server, question, as)).body
  const key = { id: 10 }

  t.match(await ask({ operation: 'select', key }, { role: 'user' }), { code: 'access-denied' })
  t.match(await ask({ operation: 'select' }), { path: '$.args', error: /'key' was not present/ })
  t.match(await ask({ operation: 'select', key, object: {} }), { path: '$.args.object' })
  t.match(await ask({ operation: 'insert', key, object: {} }), { path: '$.args.key' })
  t.match(await ask({ operation: 'update', key }), { path: '$.args', error: /'object' was not present/ })
  t.match(await ask({ operation: 'select', key: { nr: 1 } }), { path: '$.args.key.nr', code: 'not-exists' })
  t.match(await ask({ operation: 'select', key: {}, session: { ...ANNA, 'X-Service-City': 'Quito' } }), {
    path: '$.args.key',
    error: /more than one row/,
  })
  t.match(await ask({ operation: 'select', key, role: 'admin' }), { path: '$.args.role' })
  await server.must('create_update_permission', {
    table: 'customer',
    role: 'user',
    permission: { columns: ['city'], filter: {} },
  })
  const related = { operation: 'update', key, object: { customer: { update: { where: {}, $set: { city: 'x' } } } } }
  await server.must('create_select_permission', {
    table: 'customer',
    role: 'user',
    permission: { columns: ['city'], filter: {} },
  })
  t.match(await ask(related), { path: '$.args.object', error: /takes no rows of relationships/ })
  t.match(await ask({ operation: 'select', key, table: 'nothing' }), { path: /\$\.args\.table/, code: 'not-exists' })
  t.match(await ask({ operation: 'select', key, session: { a: 1 } }), { path: '$.args.session.a' })
  t.match(await ask({ operation: 'select', key, session: { 'User-Id': '1' } }), { error: /is called X-Service-/ })
})

const AS_ANNA: As = { role: 'user', variables: { ...ANNA, 'X-Service-City': 'Quito' }, acting: true }

/** `POST` by somebody who has a token of the role, and no secret. */
async function withToken(server: TestServer, body: object, path = '/v1/query') {
  const rowhouse = {
    'x-service-allowed-roles': ['user'],
    'x-service-default-role': 'user',
    'x-service-user-id': '1',
    'x-service-city': 'Quito',
  }
  const token = await new SignJWT({ rowhouse })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(Buffer.from(KEY))
  const headers = { authorization: `Bearer ${token}` }
  return server.bare(path, { method: 'POST', headers, body: JSON.stringify(body) })
}

t.test('an admin who acts as a role sees why it is refused, and nobody else does', async (t) => {
  const server = await shop(t)
  /** Sends the same as an admin who acts as the role, and with a token of the role. */
  const internal = async (t: Test, type: string, args: object, path = '/v1/query') => {
    const acting = await server.query(type, args, AS_ANNA)
    const own = await withToken(server, { type, args }, path)
    const { internal, ...others } = acting.body
    t.equal(acting.status, 400)
    t.same({ status: acting.status, body: others }, { status: own.status, body: own.body }, 'the answer is the same')
    return internal
  }
  const insert = (...objects: object[]) => ({ table: 'orders', objects })

  await t.test('a check: the tree of the rule', async (t) => {
    const row = { id: 20, state: 'old' }
    t.match(await internal(t, 'insert', insert(row)), {
      verdict: 'refused',
      reason: 'check',
      table: 'orders',
      operation: 'insert',
      permission: { columns: ['id', 'state'], check: { state: 'new' } },
      check: { path: '$.check.state', result: false, clause: { state: 'new' }, values: { state: 'old' } },
      columns: { allowed: ['id', 'state'], refused: ['customer_id', 'total', 'secret'] },
      presets: { customer_id: 'X-Service-User-Id' },
      session: { 'x-service-user-id': '1' },
      sql: /^with .*insert into/,
    })
    const several = await internal(t, 'insert', insert({ id: 20, state: 'new' }, { id: 21, state: 'late' }))
    t.match(several.check, { result: false, values: { state: 'late' } })
    t.match(await internal(t, 'update', { table: 'orders', where: { id: 10 }, $set: { state: 'gone' } }), {
      reason: 'check',
      operation: 'update',
      filter: { result: true, values: { customer_id: 1 } },
      check: { result: false, not: { result: true, values: { state: 'gone' } } },
    })
  })

  await t.test('many rows, and requests in a transaction: the permission', async (t) => {
    const rows = Array.from({ length: 101 }, (_, i) => ({ id: 100 + i, state: i === 7 ? 'old' : 'new' }))
    const only = { reason: 'check', operation: 'insert', permission: { check: { state: 'new' } }, check: undefined }
    t.match(await internal(t, 'insert', insert(...rows)), only)
    const members = [{ type: 'insert', args: insert({ id: 20, state: 'old' }) }]
    t.match(await internal(t, 'bulk', members), only)
    await server.must('insert', { table: 'orders', objects: [{ id: 13, customer_id: 1, state: 'new' }] })
    const both = await internal(t, 'update', { table: 'orders', where: {}, $set: { state: 'gone' } })
    t.match(both, { reason: 'check', operation: 'update', permission: {}, check: undefined })
    await server.must('delete', { table: 'orders', where: { id: 13 } })
  })

  await t.test('a permission that is missing, or lacks a column: also of a related table', async (t) => {
    t.match(await internal(t, 'delete', { table: 'orders', where: {} }), {
      verdict: 'refused',
      reason: 'permission',
      operation: 'delete',
      permission: null,
    })
    t.match(await internal(t, 'select', { table: 'orders', columns: ['id', 'total'] }), {
      reason: 'permission',
      operation: 'select',
      permission: { limit: 10 },
      columns: { allowed: ['id', 'state'], refused: ['customer_id', 'total', 'secret'] },
      limit: 10,
      session: { 'x-service-city': 'Quito' },
    })
    const related = { table: 'orders', columns: ['id', { name: 'customer', columns: ['city'] }] }
    t.match(await internal(t, 'select', related), { table: 'customer', operation: 'select', permission: null })
    t.match(await internal(t, 'select', { table: 'nothing', columns: ['id'] }), {
      table: 'nothing',
      error: { code: 'not-exists', error: /table "nothing" does not exist/ },
    })
  })

  await t.test('a session variable that is missing', async (t) => {
    const args = { table: 'orders', columns: ['id'] }
    const { body } = await server.query('select', args, { ...AS_ANNA, variables: ANNA })
    t.match(body, { code: 'not-found', internal: { reason: 'request', session: { 'x-service-city': null } } })
  })

  await t.test('other errors are as they were', async (t) => {
    t.equal(await internal(t, 'insert', insert({ id: 10, state: 'new' })), undefined, 'a unique key')
    t.equal(await internal(t, 'insert', insert({ id: 'x', state: 'new' })), undefined, 'a value')
    t.equal(await internal(t, 'run_sql', { sql: 'select 1' }), undefined, 'an operation for admins')
  })

  await t.test('templates and GraphQL carry it too', async (t) => {
    const args = { table: 'orders', objects: [{ id: { param: 'id' }, state: { param: 'state' } }] }
    await server.must('create_query_template', { name: 'add', template: { type: 'insert', args } })
    const given = { name: 'add', args: { id: 20, state: 'old' } }
    t.match(await internal(t, 'execute_query_template', given), {
      reason: 'check',
      check: { values: { state: 'old' } },
    })
    t.match(await internal(t, 'execute_query_template', { name: 'add', args: { id: 20, state: { a: 1 } } }), undefined)

    const query = 'mutation { insert_orders(objects: [{id: 20, state: "old"}]) { affected_rows } }'
    const body = JSON.stringify({ query })
    const { body: acting } = await server.fetch('/v1/graphql', { method: 'POST', body }, AS_ANNA)
    t.match(acting.errors[0], {
      extensions: { code: 'permission-error', internal: { check: { values: { state: 'old' } } } },
    })
    const { body: own } = await withToken(server, { query }, '/v1/graphql')
    t.same(Object.keys(own.errors[0].extensions), ['path', 'code'])
  })

  t.same(await server.must('count', { table: 'orders' }), { count: 3 }, 'nothing was written')
})

t.test('a failure to explain leaves the error as it is', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', {
    sql: `create sequence tries;
      create function once() returns trigger language plpgsql as $$ begin
        if nextval('tries') > 1 then raise exception 'only once'; end if; return new; end $$;
      create trigger once before insert on orders for each row execute function once()`,
  })

  const { status, body } = await server.query(
    'insert',
    { table: 'orders', objects: [{ id: 20, state: 'old' }] },
    AS_ANNA,
  )

  t.equal(status, 400)
  t.match(body, { error: /would not pass the insert check/, internal: { reason: 'check', permission: {} } })
  t.equal(body.internal.check, undefined)
})

t.test('with http.explainPermissions everybody may ask about themselves, and only then', async (t) => {
  const args = { operation: 'select', table: 'orders', key: { id: 11 } }
  const type = 'explain_permission'
  const server = await shop(t, { explainPermissions: true })
  const ask = async (more: object) => (await withToken(server, { type, args: { ...args, ...more } })).body
  const refused = { verdict: 'refused', reason: 'filter', session: { 'x-service-user-id': '1' } }

  t.match(await ask({}), refused)
  t.match(await ask({ role: 'user', session: ANNA }), refused)
  t.match(await ask({ role: 'guest' }), { code: 'access-denied', path: '$.args.role' })
  t.match(await ask({ session: { 'X-Service-User-Id': '2' } }), {
    code: 'access-denied',
    path: '$.args.session.x-service-user-id',
  })
  t.match((await server.query(type, args)).body, { code: 'parse-failed', error: /'role' was not present/ })
  t.match((await withToken(server, { type: 'run_sql', args: { sql: 'select 1' } })).body, { code: 'access-denied' })

  const usual = await shop(t)
  t.same((await withToken(usual, { type, args })).body, {
    path: '$',
    error: 'restricted access : admin only',
    code: 'access-denied',
  })
})
