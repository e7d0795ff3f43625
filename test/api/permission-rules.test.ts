import t, { type Test } from 'tap'
import { type As, testServer, type TestServer } from '../kit/server.js'

const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }

/** Statements, tracked tables, and the permissions of the role user. */
async function serverWith(t: Test, sql: string, tables: readonly string[], permissions: readonly Permit[]) {
  const server = await testServer(t)
  await server.must('run_sql', { sql })
  await server.must('bulk', [
    ...tables.map((table) => ({ type: 'track_table', args: table })),
    ...permissions.map(([type, table, permission]) => permit(type, table, permission)),
  ])
  return server
}
type Permit = readonly [type: string, table: string, permission: object]

const permit = (type: string, table: string, permission: object, role = 'user') => ({
  type: `create_${type}_permission`,
  args: { table, role, permission },
})

const graphql = async (server: TestServer, query: string, as: As = USER, variables: object = {}) =>
  (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body

t.test('a role that may insert and update may upsert', async (t) => {
  const server = await serverWith(
    t,
    `create table shelf (id int primary key, label text);
     create table book (id int primary key, code int unique, secret int constraint book_secret_key unique,
       owner int not null, title text, note text, seen int default 0, shelf_id int references shelf);
     insert into shelf values (1, 'old');
     insert into book (id, code, secret, owner, title, note) values (1, 11, 111, 1, 'mine', 'n'), (2, 12, 112, 2, 'hers', 'n')`,
    ['shelf', 'book'],
    [
      [
        'insert',
        'book',
        { check: { owner: 'X-Service-User-Id' }, columns: ['id', 'code', 'owner', 'title', 'note', 'shelf_id'] },
      ],
      [
        'update',
        'book',
        {
          columns: ['title'],
          filter: { owner: 'X-Service-User-Id' },
          check: { title: { $ne: 'bad' } },
          set: { seen: 7 },
        },
      ],
      ['select', 'book', { columns: ['id', 'title', 'note', 'seen'], filter: { owner: 'X-Service-User-Id' } }],
      ['insert', 'shelf', { check: {} }],
      ['update', 'shelf', { columns: ['label'], filter: {} }],
      ['select', 'shelf', { columns: '*', filter: {} }],
    ],
  )
  await server.must('create_object_relationship', {
    table: 'book',
    name: 'shelf',
    using: { foreign_key_constraint_on: 'shelf_id' },
  })
  const upsert = (row: object, conflict: object = { action: 'update', constraint: 'book_pkey' }, as: As = USER) =>
    server.query(
      'insert',
      {
        table: 'book',
        objects: [{ owner: 1, ...row }],
        on_conflict: conflict,
        returning: ['id', 'title', 'note', 'seen'],
      },
      as,
    )
  const stored = (id: number) =>
    server.must('select', { table: 'book', columns: ['owner', 'title', 'note', 'seen'], where: { id } })

  await t.test('the columns and the presets of the update permission are written, and no others', async (t) => {
    t.same((await upsert({ id: 1, title: 'new', note: 'x' })).body, {
      affected_rows: 1,
      returning: [{ id: 1, title: 'new', note: 'n', seen: 7 }],
    })
  })

  await t.test('the check of the update permission holds for the row', async (t) => {
    const refused = { status: 400, body: { error: /would not pass the insert or update check/ } }
    t.match(await upsert({ id: 1, title: 'bad' }), refused)
    t.match(await upsert({ id: 9, title: 'x', owner: 2 }), refused)
  })

  await t.test('a row outside the filter stays as it is and is not counted', async (t) => {
    t.same((await upsert({ id: 2, title: 'taken' })).body, { affected_rows: 0, returning: [] })
    t.same(await stored(2), [{ owner: 2, title: 'hers', note: 'n', seen: 0 }])
  })

  await t.test('ignoring conflicts', async (t) => {
    t.same((await upsert({ id: 2 }, { action: 'ignore' })).body, { affected_rows: 0, returning: [] })
  })

  await t.test('a constraint on columns that the role may not know is not there', async (t) => {
    const known = await upsert({ id: 3 }, { action: 'ignore', constraint: 'book_secret_key' })
    t.match(known, { status: 400, body: { code: 'unexpected-payload' } })
    const missing = await upsert({ id: 3 }, { action: 'ignore', constraint: 'book_nothing_key' })
    t.equal(known.text.replaceAll('secret', 'nothing'), missing.text)
    t.same(
      (await graphql(server, '{ __type(name: "book_constraint") { enumValues { name } } }')).data.__type.enumValues,
      [{ name: 'book_pkey' }, { name: 'book_code_key' }],
    )
  })

  await t.test('not in a variable either', async (t) => {
    const mutation =
      'mutation ($c: book_on_conflict) { insert_book(objects: {id: 3, owner: 1}, on_conflict: $c) { affected_rows } }'
    const given = (constraint: string) => graphql(server, mutation, USER, { c: { constraint, update_columns: [] } })
    const known = await given('book_secret_key')
    t.match(known, { errors: [{ message: /expecting a value of the enum/ }] })
    t.same(JSON.parse(JSON.stringify(known).replaceAll('secret', 'nothing')), await given('book_nothing_key'))
    t.match(await given('book_code_key'), { data: { insert_book: { affected_rows: 1 } } })
    const nested = `mutation ($b: [book_insert_input!]!) { insert_book(objects: $b) { affected_rows } }`
    const data = { id: 1, label: 'x' }
    const shelf = { data, on_conflict: { constraint: 'shelf_nothing_key', update_columns: [] } }
    t.match(await graphql(server, nested, USER, { b: [{ id: 4, owner: 1, shelf }] }), { errors: [{}] })
    await server.must('delete', { table: 'book', where: { id: 3 } })
  })

  await t.test('in GraphQL, with a column outside of the update permission', async (t) => {
    const mutation = (columns: string) => `mutation { insert_book(
      objects: {id: 1, owner: 1, title: "by graph", note: "y"},
      on_conflict: {constraint: book_pkey, update_columns: [${columns}]}
    ) { affected_rows returning { title note seen } } }`
    t.same((await graphql(server, mutation('title'))).data.insert_book, {
      affected_rows: 1,
      returning: [{ title: 'by graph', note: 'n', seen: 7 }],
    })
    t.match(await graphql(server, mutation('note')), { errors: [{ message: /note/ }] })
  })

  await t.test('in a nested insert', async (t) => {
    const mutation = `mutation { insert_book(objects: {id: 20, owner: 1, title: "t", shelf: {
      data: {id: 1, label: "fresh"}, on_conflict: {constraint: shelf_pkey, update_columns: [label]}
    }}) { affected_rows } }`
    t.same(await graphql(server, mutation), { data: { insert_book: { affected_rows: 2 } } })
    t.same(await server.must('select', { table: 'shelf', columns: ['id', 'label'] }), [{ id: 1, label: 'fresh' }])
  })

  await t.test('without an update permission only allow_upsert will do', async (t) => {
    await server.must('drop_update_permission', { table: 'book', role: 'user' })
    t.match(await upsert({ id: 2 }, { action: 'ignore' }), {
      status: 400,
      body: { code: 'permission-denied', error: 'upsert is not allowed for role "user"', path: '$.args.on_conflict' },
    })
  })
})

t.test('updates and deletes of a role that sets presets, or may not select', async (t) => {
  const server = await serverWith(
    t,
    `create table job (id int primary key, owner int not null, state text);
     insert into job values (1, 1, 'new'), (2, 2, 'new'), (3, 1, 'new')`,
    ['job'],
    [
      ['update', 'job', { columns: [], filter: { owner: 'X-Service-User-Id' }, set: { state: 'done' } }],
      ['delete', 'job', { filter: { state: 'done' } }],
    ],
  )
  await server.must('bulk', [
    permit('update', 'job', { columns: ['state'], filter: {} }, 'clerk'),
    permit('update', 'job', { columns: ['owner'], filter: {}, set: { state: 'seen' } }, 'boss'),
  ])
  const states = async () =>
    (await server.must('select', { table: 'job', columns: ['state'], order_by: 'id' })).map(
      ({ state }: { state: string }) => state,
    )

  await t.test('an empty $set writes the presets', async (t) => {
    const updated = await server.query('update', { table: 'job', where: {}, $set: {} }, USER)
    t.same(updated.body, { affected_rows: 2 })
    t.same(await states(), ['done', 'new', 'done'])
  })

  await t.test('in GraphQL too, without _set, as no column can be set', async (t) => {
    await server.must('update', { table: 'job', where: {}, $set: { state: 'new' } })
    t.same(await graphql(server, 'mutation { update_job(where: {}) { affected_rows } }'), {
      data: { update_job: { affected_rows: 2 } },
    })
    t.same(await states(), ['done', 'new', 'done'])
    t.same(await graphql(server, 'mutation { update_job(where: {}, _set: {}) { affected_rows } }', { role: 'boss' }), {
      data: { update_job: { affected_rows: 3 } },
    })
    t.same(await states(), ['seen', 'seen', 'seen'])
    await server.must('update', { table: 'job', where: { id: { $in: [1, 3] } }, $set: { state: 'done' } })
    await server.must('update', { table: 'job', where: { id: 2 }, $set: { state: 'new' } })
  })

  await t.test('without presets it sets nothing', async (t) => {
    t.match(await server.query('update', { table: 'job', where: {}, $set: {} }, { role: 'clerk' }), {
      status: 400,
      body: { code: 'unexpected-payload' },
    })
    const before = await states()
    t.same(await graphql(server, 'mutation { update_job(where: {}, _set: {}) { affected_rows } }', { role: 'clerk' }), {
      data: { update_job: { affected_rows: 0 } },
    })
    t.match(await graphql(server, 'mutation { update_job(where: {}) { affected_rows } }', { role: 'clerk' }), {
      errors: [{ message: /sets no column/ }],
    })
    t.same(await states(), before)
  })

  await t.test('a condition needs the select permission', async (t) => {
    for (const where of [{ id: 1 }, { $not: {} }]) {
      for (const [type, args] of [
        ['update', { $set: {} }],
        ['delete', {}],
      ] as const) {
        t.match(await server.query(type, { table: 'job', where, ...args }, USER), {
          status: 400,
          body: { code: 'permission-denied', error: /^select on "job" for role "user" is not allowed/ },
        })
      }
    }
    t.match(await graphql(server, 'mutation { delete_job(where: {id: {_eq: 1}}) { affected_rows } }'), {
      errors: [{ extensions: { code: 'validation-failed' } }],
    })
    t.match(await graphql(server, 'mutation { delete_job(where: {_not: {}}) { affected_rows } }'), {
      errors: [{ extensions: { code: 'permission-denied' } }],
    })
  })

  await t.test('returning does as well', async (t) => {
    t.match(await server.query('delete', { table: 'job', where: {}, returning: ['id'] }, USER), {
      status: 400,
      body: { code: 'permission-denied', path: '$.args.returning' },
    })
  })

  await t.test('and a delete of every row that the permission shows does not', async (t) => {
    t.same(await graphql(server, 'mutation { delete_job(where: {}) { affected_rows } }'), {
      data: { delete_job: { affected_rows: 2 } },
    })
    t.same((await server.query('delete', { table: 'job', where: {} }, USER)).body, { affected_rows: 0 })
    t.same(await states(), ['new'])
  })
})

t.test('a permission for backends only', async (t) => {
  const backend = { 'x-service-use-backend-only-permissions': 'true' }
  const asBackend: As = { role: 'user', variables: { ...USER.variables, ...backend } }
  const server = await serverWith(
    t,
    `create table account (id int primary key, owner int, balance int);
     create table entry (id int primary key);
     insert into account values (1, 1, 10), (2, 2, 20)`,
    ['account', 'entry'],
    [
      ['select', 'account', { columns: '*', filter: { owner: 'X-Service-User-Id' } }],
      ['insert', 'account', { check: {}, backend_only: true }],
      ['update', 'account', { columns: ['balance'], filter: { owner: 'X-Service-User-Id' }, backend_only: true }],
      ['delete', 'account', { filter: { owner: 'X-Service-User-Id' }, backend_only: true }],
      ['insert', 'entry', { check: {} }],
    ],
  )
  const add = (id: number, as: As) => server.query('insert', { table: 'account', objects: [{ id, owner: 1 }] }, as)

  await t.test('does not exist for other requests, before and after those of a backend', async (t) => {
    const without = await server.query('insert', { table: 'entries', objects: [{ id: 1 }] }, USER)
    const refused = await add(3, USER)
    t.match(refused, { status: 400, body: { code: 'permission-denied' } })
    t.equal(
      refused.text.replaceAll('account', 'entries').replace(' (did you mean "entry"?)', ''),
      without.text.replace(' (did you mean "entry"?)', ''),
    )
    t.same((await add(3, asBackend)).body, { affected_rows: 1 })
    t.same((await add(4, USER)).text, refused.text)
    t.same((await add(4, asBackend)).body, { affected_rows: 1 })
  })

  await t.test('is in the GraphQL schema of a backend only', async (t) => {
    const fields = async (as: As) =>
      (
        await graphql(server, '{ __schema { mutationType { fields { name } } } }', as)
      ).data.__schema.mutationType.fields.map(({ name }: { name: string }) => name)
    t.same(await fields(USER), ['insert_entry'])
    t.match(await fields(asBackend), ['insert_account', 'insert_account_one', 'update_account'])
    const mutation =
      'mutation { update_account(where: {}, _set: {balance: 5}) { affected_rows returning { id owner } } }'
    t.match(await graphql(server, mutation, USER), { errors: [{ extensions: { code: 'validation-failed' } }] })
    t.match(await graphql(server, mutation, asBackend), { data: { update_account: { affected_rows: 3 } } })
    t.match(await graphql(server, mutation, USER), { errors: [{ extensions: { code: 'validation-failed' } }] })
  })

  await t.test('needs a role, a secret and the value true', async (t) => {
    t.match(await add(5, { role: 'user', variables: { 'x-service-use-backend-only-permissions': 'false' } }), {
      status: 400,
    })
    t.match(await add(5, { role: 'user', variables: { 'x-service-use-backend-only-permissions': 'yes' } }), {
      status: 400,
      body: { code: 'parse-failed' },
    })
    const body = JSON.stringify({ type: 'insert', args: { table: 'account', objects: [{ id: 5 }] } })
    const bare = await server.bare('/v1/query', { method: 'POST', body, headers: backend })
    t.match(bare, { status: 400, body: { code: 'permission-denied', error: /role "anonymous"/ } })
  })

  await t.test('a role keeps its other permissions in a request of a backend', async (t) => {
    t.same((await server.query('insert', { table: 'entry', objects: [{ id: 1 }] }, asBackend)).body, {
      affected_rows: 1,
    })
    t.same((await server.query('select', { table: 'account', columns: ['id'], where: { id: 2 } }, asBackend)).body, [])
    t.match(await server.query('insert', { table: 'entry', objects: [{ nope: 1 }] }, asBackend), {
      body: { error: /^role "user" does not/ },
    })
  })

  await t.test('a select permission cannot be for backends only, and the flag is exported', async (t) => {
    t.match(
      await server.query('create_select_permission', {
        table: 'entry',
        role: 'user',
        permission: { columns: '*', filter: {}, backend_only: true },
      }),
      { status: 400, body: { code: 'unexpected-payload' } },
    )
    t.match(JSON.stringify(await server.must('export_metadata', {})), /"backend_only":true/)
    t.match(
      await server.query('run_sql', {
        sql: 'alter table account drop column balance; alter table account alter owner type text',
      }),
      {
        body: { error: /permission account.user.delete$/ },
      },
    )
  })
})

t.test('the role admin has every permission already', async (t) => {
  const server = await serverWith(t, 'create table thing (id int)', ['thing'], [])
  for (const [type, permission] of [
    ['select', { columns: '*', filter: {} }],
    ['delete', { filter: {} }],
  ] as const) {
    t.match(await server.query(`create_${type}_permission`, { table: 'thing', role: 'admin', permission }), {
      status: 400,
      body: { code: 'already-exists', error: `'${type}' permission on "thing" for role "admin" already exists` },
    })
  }
})

t.test('versions of operations', async (t) => {
  const server = await serverWith(t, 'create table first (id int); create table second (id int)', [], [])
  const send = (query: object) => server.raw(JSON.stringify(query))

  t.match(await send({ type: 'track_table', version: 1, args: 'first' }), { status: 200 })
  t.match(
    await send({
      type: 'bulk',
      args: [
        { type: 'track_table', version: 2, args: { table: 'second', configuration: { custom_name: 'Zweite' } } },
        { type: 'select', version: 1, args: { table: 'second', columns: ['id'] } },
      ],
    }),
    { status: 200 },
  )
  t.same(await graphql(server, '{ Zweite { id } }', {}), { data: { Zweite: [] } })
  t.match(await send({ type: 'track_table', version: 2, args: { table: 'third', configuration: {} } }), {
    status: 400,
    body: { code: 'not-exists', path: '$.args.table' },
  })
  t.match(await send({ type: 'select', version: 2, args: { table: 'second', columns: ['id'] } }), {
    status: 400,
    body: { code: 'parse-failed', error: '"select" has version 1 only', path: '$.version' },
  })
  t.match(await send({ type: 'track_table', version: '2', args: 'first' }), {
    status: 400,
    body: { code: 'parse-failed', error: '"track_table" has versions 1 and 2', path: '$.version' },
  })
})

t.test('renaming a relationship', async (t) => {
  const server = await serverWith(
    t,
    'create table author (id int primary key, name text); create table article (id int primary key, author_id int references author)',
    ['author', 'article'],
    [],
  )
  await server.must('create_object_relationship', {
    table: 'article',
    name: 'author',
    using: { foreign_key_constraint_on: 'author_id' },
    comment: 'who wrote it',
  })
  const rename = (name: string, new_name: string) =>
    server.query('rename_relationship', { table: 'article', name, new_name })

  await t.test('keeps what it is', async (t) => {
    t.same((await rename('author', 'writer')).body, { message: 'success' })
    t.same(await server.must('select', { table: 'article', columns: [{ name: 'writer', columns: ['id'] }] }), [])
    const { tables } = await server.must('export_metadata', {})
    t.match(tables.find(({ table }: { table: string }) => table === 'article').object_relationships, [
      { name: 'writer', comment: 'who wrote it' },
    ])
  })

  await t.test('is refused for a name that is missing or taken', async (t) => {
    t.match((await rename('author', 'other')).body, { code: 'not-exists', path: '$.args.name' })
    t.match((await rename('writer', 'author_id')).body, { code: 'already-exists' })
    t.match((await rename('writer', 'writer')).body, { code: 'already-exists' })
    t.match((await rename('writer', 'x'.repeat(64))).body, { code: 'parse-failed' })
  })

  await t.test('is refused while permissions and templates name it', async (t) => {
    await server.must('bulk', [permit('select', 'article', { columns: '*', filter: { writer: { name: 'Ann' } } })])
    await server.must('create_query_template', {
      name: 'written',
      template: { type: 'select', args: { table: 'article', columns: [{ name: 'writer', columns: ['id'] }] } },
    })
    t.match((await rename('writer', 'author')).body, {
      code: 'dependency-error',
      error:
        'cannot rename due to the following dependent objects : permission article.user.select, query-template written',
    })
    t.same(await server.must('select', { table: 'article', columns: [{ name: 'writer', columns: ['id'] }] }), [])
  })
})

t.test('computed fields and permissions', async (t) => {
  const server = await serverWith(
    t,
    `create table person (id int primary key, name text);
     create table note (id int primary key, person_id int references person, state text);
     insert into person values (1, 'Ann'), (2, 'Bob');
     insert into note values (1, 1, 'open'), (2, 1, 'done'), (3, 2, 'open');
     create function is_mine(note, session json) returns boolean language sql stable
       as $$ select $1.person_id = (session ->> 'x-service-user-id')::int $$;
     create function written(note) returns int language sql stable
       as $$ select count(*)::int from note n where n.person_id = $1.person_id $$;
     create function is_of(note, int) returns boolean language sql stable as $$ select true $$;
     create function notes_of(person) returns setof note language sql stable
       as $$ select * from note where person_id = $1.id order by id $$;`,
    ['person', 'note'],
    [],
  )
  const field = (table: string, name: string, more: object = {}) =>
    server.must('add_computed_field', { table, name, definition: { function: name, ...more } })
  await field('note', 'is_mine', { session_argument: 'session' })
  await field('note', 'written')
  await field('person', 'notes_of')
  await server.must('bulk', [
    permit('select', 'note', { columns: ['id', 'state'], filter: { is_mine: true } }),
    permit('insert', 'note', { check: { written: { $lte: 3 } } }),
  ])

  await t.test('a filter can use one', async (t) => {
    t.same((await server.query('select', { table: 'note', columns: ['id'], order_by: 'id' }, USER)).body, [
      { id: 1 },
      { id: 2 },
    ])
    t.match(await server.query('select', { table: 'note', columns: ['id'], where: { is_mine: true } }, USER), {
      status: 400,
    })
  })

  await t.test('a check sees the rows as they are after the write', async (t) => {
    const add = (...ids: number[]) =>
      server.query('insert', { table: 'note', objects: ids.map((id) => ({ id, person_id: 1 })) }, USER)
    t.match((await add(4, 5)).body, { error: /would not pass the insert check/ })
    t.same((await add(4)).body, { affected_rows: 1 })
    t.match((await add(5)).body, { error: /would not pass the insert check/ })
  })

  await t.test('a computed field that a permission uses stays', async (t) => {
    t.match((await server.query('drop_computed_field', { table: 'note', name: 'is_mine' })).body, {
      code: 'dependency-error',
      error: /permission note\.user\.select/,
    })
  })

  await t.test('rows are seen by a role that may select from both tables', async (t) => {
    const query = '{ person { notes_of { id } } }'
    await server.must('bulk', [permit('select', 'person', { columns: ['name'], filter: { id: 1 } })])
    t.same(await graphql(server, query), { data: { person: [{ notes_of: [{ id: 1 }, { id: 2 }, { id: 4 }] }] } })
    await server.must('bulk', [permit('select', 'person', { columns: ['name'], filter: {} }, 'clerk')])
    t.match(await graphql(server, query, { role: 'clerk' }), {
      errors: [{ extensions: { code: 'validation-failed' } }],
    })
  })
})
