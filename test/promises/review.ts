import type { Test } from 'tap'
import { permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'

/** What requests would do, and why a role may not. */
const PROMISES = {
  'explain.read': 'explain has the SQL of a read for a role, without its values, and the plan of PostgreSQL',
  'explain.analyze': 'with analyze the statement runs, and a write is rolled back',
  'explain.write': 'an insert or update runs and is rolled back, and one that would pass has no refused',
  'explain.refused': 'the clauses of the check that refuse a row are named with their paths',
  'explain.clauses': 'each once, deep in $and, with related rows as one clause, and in the order of the check',
  'explain.view': 'a write to a view is explained',
  'explain.moved': 'a row that a trigger moves is refused without a clause',
  'explain.upsert': 'of an upsert, new rows meet the check of the insert, and existing rows that of the update',
  'explain.error': 'a write that fails for another reason answers that error',
  'explain.template': 'the query of a template is explained, for a role',
  'explain.graphql': 'each root field of a GraphQL request is explained',
  'explain.admin-only': 'only admin explains, and single queries only',
  'why.allowed': 'explain_permission says that a role may, with the tree of its rule',
  'why.filter': 'a hidden row has the tree of the filter, with the values that it compares',
  'why.related': 'and the related rows with the rule about each',
  'why.whole': 'all of an answer is the verdict, the rule, the columns, the limit, the session and the statement',
  'why.null': 'a comparison with null is null in the tree',
  'why.row': 'a row that is not there has the reason row',
  'why.versions': 'a table with row versions is explained like any other',
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
  'internal.bulk': 'in a bulk, and for many rows, it has the permission only',
  'internal.table': 'the table is that of the relationship, and may be missing',
  'internal.session': 'a session variable that is missing is null',
  'internal.forms': 'templates and GraphQL have it, too',
  'internal.failed': 'a failure to explain leaves the error as it is, with the permission only',
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
create table note (id int primary key, owner_id int references customer, state text, title text default 'untitled');
create trigger keep after insert or update on note for each row execute function keep();
create view draft as select id, owner_id, title from note where state = 'draft';
create table moved (id int primary key, owner_id int references customer);
create function move() returns trigger language plpgsql as
  $$ begin update moved set id = id + 100 where id = new.id; return null; end $$;
create trigger move after insert on moved for each row execute function move();
create table fickle (id int primary key, state text);
create sequence tries;
create function once() returns trigger language plpgsql as $$ begin
  if nextval('tries') > 1 then raise exception 'only once'; end if; return new; end $$;
create trigger once before insert on fickle for each row execute function once();
insert into customer values (1, 'Quito'), (2, 'Oslo'), (3, 'Quito');
insert into note values (10, 1, 'draft', 'mine'), (11, 1, 'final', 'also mine');
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
const tried = (question: object, permission: unknown, expected: Expected): Step =>
  why({ ...question, permission }, expected)
const OWN = { owner_id: { $eq: 'X-Service-User-Id' } }
const RED = { owner: { city: 'X-Service-City' } }
const note = (...objects: object[]) => ({ table: 'note', objects })
const refusedBy = (permission: string, path: string, clause: object) => ({ permission, path, clause })
/** The answer of explain, as the role or another caller. */
const explained = async (server: TestServer, type: string, args: object, { role, variables }: As = USER) => {
  const body = JSON.stringify({ query: { type, args }, role, headers: variables })
  return (await server.fetch('/v1/query/explain', { method: 'POST', body })).body
}
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
  'explain.clauses': async (t, server) => {
    const ask = (type: string, args: object, as?: As) => explained(server, type, args, as)
    const by = (...all: object[]) => ({ role: 'user', table: 'note', clauses: all })
    const draft = refusedBy('insert', '$.check.$and[0].state', { state: 'draft' })
    const own = refusedBy('insert', '$.check.$and[1].owner_id', OWN)
    const gone = refusedBy('update', '$.check._and[0].state', { state: { _ne: 'gone' } })

    const both = await ask(
      'insert',
      note({ id: 1, owner_id: 1, state: 'draft' }, { id: 2, owner_id: 3, state: 'final', title: 'bad' }),
    )
    t.same(both.refused, by(draft, own, refusedBy('insert', '$.check.title', { title: { $ne: 'bad' } })))
    t.match(both.sql, /^with w as \(insert into "public"."note"/)
    t.notMatch(both.sql, /draft|final|bad/)
    t.match(both.plans.join('\n'), /Insert on note/)
    t.same((await ask('insert', note({ id: 1, owner_id: 1, state: null }))).refused, by(draft))
    t.same(
      (await ask('insert', note({ id: 1, owner_id: 2, state: 'draft' }))).refused,
      by(refusedBy('insert', '$.check.$and[1].$and[0].owner', RED), own),
    )
    t.same(
      (await ask('update', { table: 'note', where: {}, $set: { state: 'gone', owner_id: 2 } })).refused,
      by(gone, refusedBy('update', '$.check.owner_id', OWN)),
    )
    t.equal((await ask('update', { table: 'note', where: { id: 12 }, $set: { state: 'gone' } })).refused, undefined)
    const upsert = (...objects: object[]) =>
      ask('insert', { ...note(...objects), on_conflict: { action: 'update', constraint: 'note_pkey' } })
    t.same(
      (await upsert({ id: 10, state: 'gone', owner_id: 1 }, { id: 12, state: 'gone', owner_id: 1 })).refused,
      by(draft, gone),
    )
    t.equal((await upsert({ id: 10, state: 'final', owner_id: 1 })).refused, undefined)
    t.match(await upsert({ id: 1, owner_id: 1, state: 'draft' }, { id: 2, owner_id: 1, state: 'draft', title: 'x' }), {
      code: 'unexpected-payload',
      path: '$.query.args.objects',
    })
    const returning = { ...note({ id: 1, owner_id: 1, state: 'draft' }), returning: ['id', 'title'] }
    t.strictSame(Object.keys(await ask('insert', returning)), ['sql', 'plans'])
    const admin = await ask('insert', note({ id: 1, owner_id: 2, state: 'gone' }), {})
    t.strictSame(Object.keys(admin), ['sql', 'plans'])
  },
  'explain.view': async (t, server) => {
    const row = { id: 1, owner_id: 1, title: 'note' }
    t.same((await explained(server, 'insert', { table: 'draft', objects: [row] })).refused, {
      role: 'user',
      table: 'draft',
      clauses: [refusedBy('insert', '$.check.title', { title: { $like: 'D%' } })],
    })
  },
  'explain.moved': async (t, server) => {
    const { refused: found } = await explained(server, 'insert', { table: 'moved', objects: [{ id: 1, owner_id: 1 }] })
    t.same(found, { role: 'user', table: 'moved', clauses: [] })
  },
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
    explain('execute_query_template', { name: 'two', args: {} }, refused('parse-failed', /./, '$.query.args.template')),
    explain('execute_query_template', { name: 'add' }, { status: 400, like: { path: '$.query.args' } }),
    explain('execute_query_template', { name: 'add', args: { id: 'x', state: 'new' } }, refused('postgres-error', /./)),
    explain(
      'execute_query_template',
      { name: 'add', args: { id: 20, state: 'new' } },
      like({ sql: /^with w as \(insert into "public"."orders"/, refused: undefined }),
    ),
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
      {
        query: 'query ($id: Int!) { mine: note(where: {id: {_eq: $id}}) { title } all: note_by_pk(id: 11) { id } }',
        variables: { id: 10 },
        analyze: true,
      },
      like([
        { field: 'mine', sql: /^select .*"title"/, plans: /actual [^]*Buffers[^]*Execution Time/ },
        { field: 'all', sql: /^(?!.*title)select .*"id"/s },
      ]),
      ACTING,
    ),
    post(
      '/v1/graphql/explain',
      {
        query:
          'mutation ($rows: [note_insert_input!]!) { insert_note(objects: $rows) { affected_rows } gone: update_note(where: {}, _set: {state: "gone"}) { affected_rows } __typename }',
        variables: { rows: [{ id: 1, owner_id: 3, state: 'draft' }] },
      },
      like({
        length: 2,
        0: { field: 'insert_note', sql: /insert into/, refused: { clauses: [{ path: '$.check.$and[1].owner_id' }] } },
        1: { field: 'gone', sql: /update/, plans: Array, refused: { clauses: [{ path: '$.check._and[0].state' }] } },
      }),
      ACTING,
    ),
    post(
      '/v1/graphql/explain',
      {
        query:
          'mutation { update_note_many(updates: [{where: {}, _set: {title: "x"}}, {where: {id: {_eq: 10}}, _set: {title: "y"}}]) { affected_rows } }',
      },
      like([{ field: 'update_note_many' }, { field: 'update_note_many' }]),
      ACTING,
    ),
    post(
      '/v1/graphql/explain',
      { query: '{ nothing { id } }' },
      { status: 400, like: { errors: [{ extensions: { code: 'validation-failed' } }] } },
      ACTING,
    ),
    post(
      '/v1/graphql/explain',
      { query: '{ note { id } }', analyze: 'yes' },
      { status: 400, like: { errors: [{ extensions: { path: '$.analyze' } }] } },
      ACTING,
    ),
    post(
      '/v1/graphql/explain',
      { query: 'mutation { insert_note(objects: [{id: 1, owner: {data: {id: 9}}}]) { affected_rows } }' },
      { status: 400, like: { errors: [{ message: 'explain takes no rows of relationships' }] } },
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
  'why.whole': async (t, server) => {
    const question = { role: 'user', session: ANNA, table: 'orders', operation: 'select', key: { id: 11 } }
    const { body } = await server.query('explain_permission', question)
    const related = { customer: { city: 'X-Service-City' } }
    t.match(body.sql, /^select .*"id".* where /s)
    t.same(
      { ...body, sql: '' },
      {
        verdict: 'refused',
        reason: 'filter',
        filter: {
          path: '$.filter',
          result: false,
          clause: { $or: [{ customer_id: 'X-Service-User-Id' }, related], state: 'new' },
          all: [
            {
              path: '$.filter.$or',
              result: false,
              clause: { $or: [{ customer_id: 'X-Service-User-Id' }, related] },
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
                  clause: related,
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
        columns: ORDER_COLUMNS,
        limit: 10,
        session: { 'x-service-user-id': '1', 'x-service-city': 'Quito' },
        sql: '',
      },
    )
  },
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
  'why.versions': async (t, server) => {
    const explain = async (question: object) =>
      (await server.query('explain_permission', { role: 'user', session: ANNA, table: 'orders', ...question })).body
    for (const column of ['xmin', 'id']) {
      await server.must('set_table_version', { table: 'orders', column })
      t.match(await explain({ operation: 'select', key: { id: 10 } }), { verdict: 'allowed', filter: { result: true } })
      const hidden = { verdict: 'refused', reason: 'filter', filter: { result: false } }
      t.match(await explain({ operation: 'select', key: { id: 11 } }), hidden)
      t.match(await explain({ operation: 'select', key: { id: 99 } }), { verdict: 'refused', reason: 'row' })
      const late = { operation: 'update', key: { id: 10 }, object: { state: 'late' } }
      t.match(await explain(late), { verdict: 'allowed', filter: { result: true }, check: { result: true } })
    }
    await server.must('set_table_version', { table: 'orders', column: null })
  },
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
      like({
        verdict: 'allowed',
        filter: { result: true, values: { customer_id: 2 } },
        columns: { allowed: ['id'] },
        session: { 'x-service-user-id': '1' },
      }),
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
    tried(
      { operation: 'select', key: { id: 11 } },
      { columns: ['id'], filter: { total: 1 } },
      like({ reason: 'filter', filter: { result: false }, limit: undefined }),
    ),
    tried({ operation: 'delete', key: { id: 11 } }, { filter: {} }, like({ verdict: 'allowed' })),
    tried(
      { operation: 'insert', object: { id: 1, secret: 's', total: 3 } },
      { columns: '*', check: { total: 3 }, set: { state: 'x' } },
      like({ verdict: 'allowed', check: { values: { total: 3 } }, presets: { state: 'x' } }),
    ),
    tried(
      { operation: 'select', key: { id: 11 } },
      { columns: ['id'], filter: { total: 'x' } },
      refused('unexpected-payload', /./, '$.args.permission'),
    ),
    tried({ operation: 'select', key: { id: 11 } }, 1, { status: 400, like: { path: '$.args.permission' } }),
    tried(
      { operation: 'delete', key: { id: 11 }, role: 'a b' },
      { filter: {} },
      { status: 400, like: { path: '$.args.role' } },
    ),
    ...['user', 'new'].map((role) =>
      why({ operation: 'delete', role, key: { id: 11 } }, like({ reason: 'permission', error: Object })),
    ),
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
    why(
      {
        operation: 'update',
        table: 'item',
        key: { order_id: 10, place: 1 },
        object: { order: { update: { where: {}, $set: { state: 'x' } } } },
      },
      { status: 400, like: { path: '$.args.object', error: /takes no rows of relationships/ } },
    ),
  ],
  'why.admin-only': async (t, server) => {
    const question = { operation: 'select', table: 'orders', key: { id: 11 } }
    t.same((await server.query('explain_permission', question, USER)).body, {
      path: '$',
      error: 'only the role admin may do this',
      code: 'access-denied',
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
    t.match((await open.query('explain_permission', question)).body, {
      code: 'parse-failed',
      error: /'role' was not present/,
    })
    t.match((await open.query('run_sql', { sql: 'select 1' }, USER)).body, { code: 'access-denied' })
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
    query(
      'select',
      { table: 'note', columns: ['*'], order_by: 'id' },
      is([
        { id: 10, owner_id: 1, state: 'draft', title: 'mine' },
        { id: 11, owner_id: 1, state: 'final', title: 'also mine' },
      ]),
    ),
    query('count', { table: 'moved' }, is({ count: 0 })),
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
            check: {
              all: [
                { result: true },
                { path: '$.check.state', result: false, clause: { state: 'new' }, values: { state: 'old' } },
              ],
            },
            sql: /^with .*insert into/,
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
        like: {
          internal: {
            reason: 'check',
            operation: 'update',
            filter: { result: true, values: { customer_id: 1 } },
            check: { result: false, not: { result: true, values: { state: 'gone' } } },
          },
        },
      },
      ACTING,
    ),
    query(
      'insert',
      insert({ id: 20, state: 'new' }, { id: 21, state: 'late' }),
      { status: 400, like: { internal: { check: { result: false, all: [{}, { values: { state: 'late' } }] } } } },
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
    const permission = { check: { state: 'new' } }
    const only = { reason: 'check', operation: 'insert', permission, check: undefined }
    const rows = Array.from({ length: 101 }, (_, i) => ({ id: 100 + i, state: i === 7 ? 'old' : 'new' }))
    t.match((await server.query('insert', insert(...rows), ACTING)).body.internal, only)
    await server.must('insert', insert({ id: 13, customer_id: 1, state: 'new' }))
    const both = { table: 'orders', where: {}, $set: { state: 'gone' } }
    t.match((await server.query('update', both, ACTING)).body.internal, {
      reason: 'check',
      operation: 'update',
      permission: {},
      check: undefined,
    })
    await server.must('delete', { table: 'orders', where: { id: 13 } })
  },
  'internal.table': [
    query(
      'select',
      { table: 'orders', columns: ['id', { name: 'customer', columns: ['city'] }] },
      { status: 400, like: { internal: { table: 'customer', operation: 'select', permission: null } } },
      ACTING,
    ),
    query(
      'select',
      { table: 'nothing', columns: ['id'] },
      {
        status: 400,
        like: {
          internal: {
            table: 'nothing',
            error: { code: 'not-exists', error: /table "nothing" does not exist/ },
          },
        },
      },
      ACTING,
    ),
  ],
  'internal.session': [
    query(
      'select',
      { table: 'orders', columns: ['id'] },
      {
        status: 400,
        like: { code: 'not-found', internal: { reason: 'request', session: { 'x-service-city': null } } },
      },
      { ...ACTING, variables: { 'X-Service-User-Id': '1' } },
    ),
  ],
  'internal.forms': async (t, server) => {
    const template = (args: object, as: As) => server.query('execute_query_template', { name: 'add', args }, as)
    const { internal, ...others } = (await template({ id: 20, state: 'old' }, ACTING)).body
    t.match(internal, { reason: 'check', check: { all: [{}, { values: { state: 'old' } }] } })
    t.same((await template({ id: 20, state: 'old' }, USER)).body, others)
    t.equal((await template({ id: 20, state: { a: 1 } }, ACTING)).body.internal, undefined)

    const body = '{"query": "mutation { insert_orders(objects: [{id: 20, state: \\"old\\"}]) { affected_rows } }"}'
    const send = async (as: As) => (await server.fetch('/v1/graphql', { method: 'POST', body }, as)).body.errors[0]
    t.match(await send(ACTING), {
      extensions: {
        code: 'permission-error',
        internal: { check: { all: [{}, { values: { state: 'old' } }] } },
      },
    })
    t.same(Object.keys((await send(USER)).extensions), ['path', 'code'])
  },
  'internal.failed': async (t, server) => {
    const args = { table: 'fickle', objects: [{ id: 20, state: 'old' }] }
    const { status, body } = await server.query('insert', args, ACTING)
    t.equal(status, 400)
    t.match(body, { error: /would not pass the insert check/, internal: { reason: 'check', permission: {} } })
    t.equal(body.internal.check, undefined)
  },
  'internal.own': async (t, server) => {
    const { body } = await server.query('insert', insert({ id: 20, state: 'old' }), USER)
    t.same(body, {
      path: '$.args',
      error: 'the row would not pass the insert check of role "user" on "orders"',
      code: 'postgres-error',
    })
    for (const [type, args] of [
      ['select', { table: 'orders', columns: ['secret'] }],
      ['select', { table: 'orders', columns: ['id', { name: 'customer', columns: ['city'] }] }],
      ['select', { table: 'nothing', columns: ['id'] }],
      ['insert', insert({ id: 20, state: 'new' }, { id: 21, state: 'late' })],
      ['update', { table: 'orders', where: { id: 10 }, $set: { state: 'gone' } }],
      ['delete', { table: 'orders', where: {} }],
    ] as const) {
      const own = await server.query(type, args, USER)
      const { internal, ...others } = (await server.query(type, args, ACTING)).body
      t.ok(internal)
      t.same(Object.keys(own.body), ['path', 'error', 'code'])
      t.same(own.body, others, 'the answer is the same')
    }
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
    'plugins/query/review.md': {
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
  const server = await testServer(t, { threads: 1 })
  await server.sql(SQL)
  await server.must('bulk', [
    ...['customer', 'orders', 'item', 'log', 'note', 'draft', 'moved', 'fickle'].map(track),
    relate('object', 'orders', 'customer', 'customer_id'),
    relate('object', 'note', 'owner', 'owner_id'),
    relate('object', 'moved', 'owner', 'owner_id'),
    relate('object', 'item', 'order', 'order_id'),
    permit('insert', 'note', 'user', {
      check: { $and: [{ state: 'draft' }, { $and: [RED], ...OWN }], title: { $ne: 'bad' } },
      allow_upsert: true,
    }),
    permit('select', 'note', 'user', { columns: '*', filter: {} }),
    permit('update', 'note', 'user', {
      columns: '*',
      filter: OWN,
      check: { _and: [{ state: { _ne: 'gone' } }], ...OWN },
    }),
    permit('insert', 'draft', 'user', { check: { ...OWN, title: { $like: 'D%' } } }),
    permit('insert', 'moved', 'user', { check: RED }),
    permit('insert', 'fickle', 'user', { check: { state: 'new' } }),
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
    permit('update', 'item', 'user', { columns: ['note'], filter: {} }),
    permit('delete', 'item', 'user', { filter: { note: 'a' } }),
    { type: 'create_query_template', args: { name: 'two', template: { type: 'bulk', args: [] } } },
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
