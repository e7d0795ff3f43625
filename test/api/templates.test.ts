import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, name text not null, born date, tags text[] not null default '{}', data jsonb);
create table article (
  id serial primary key, title text not null, rating int not null default 0, published boolean not null default false,
  author_id int not null references author
);
insert into author (name, tags) values ('Ann', '{a,b}'), ('Bob', '{}'), ('Cid', '{c}');
insert into article (title, rating, published, author_id)
  select 'article ' || n, n, n % 2 = 0, 1 + n % 3 from generate_series(1, 12) n;`

const template = (type: string, args: unknown) => ({ type, args })
const param = (name: string, fallback?: unknown) => ({
  param: name,
  ...(fallback === undefined ? {} : { default: fallback }),
})

tap.test('query templates', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    { type: 'track_table', args: 'author' },
    { type: 'track_table', args: 'article' },
    {
      type: 'create_object_relationship',
      args: { table: 'article', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'author',
        name: 'articles',
        using: { foreign_key_constraint_on: { table: 'article', column: 'author_id' } },
      },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'article',
        role: 'user',
        permission: { columns: ['id', 'title', 'rating'], filter: { published: true } },
      },
    },
  ])
  const create = (name: string, definition: unknown, comment?: string) =>
    server.query('create_query_template', { name, template: definition, ...(comment === undefined ? {} : { comment }) })
  const execute = (name: string, args: object = {}, as?: As) =>
    server.query('execute_query_template', { name, args }, as)
  const user: As = { role: 'user' }

  await t.test('a select: values of conditions, limit and offset', async (t) => {
    const made = await create(
      'by_rating',
      template('select', {
        table: 'article',
        columns: ['id', 'rating'],
        where: { rating: { $gt: param('above', 3) }, id: { $in: param('ids', [4, 5, 6, 7]) } },
        order_by: ['id'],
        limit: param('limit', 10),
        offset: param('offset', 0),
      }),
      'articles above a rating',
    )
    t.same(made.body, { message: 'success' })
    t.same(
      (await execute('by_rating')).body.map((row: { id: number }) => row.id),
      [4, 5, 6, 7],
    )
    t.same((await execute('by_rating', { above: 5, limit: 1, offset: 1 })).body, [{ id: 7, rating: 7 }])
    t.same((await execute('by_rating', { ids: [1, 12] })).body, [{ id: 12, rating: 12 }])
    t.same((await execute('by_rating', { ids: [] })).body, [])
    t.same((await execute('by_rating', { limit: null, offset: null })).body.length, 4, 'null: no limit')
    t.same(
      (await execute('by_rating', { unknown: 1, limit: 1 })).body.length,
      1,
      'arguments that nothing asks for are ignored',
    )
  })

  await t.test(
    'elements of a list, conditions under combinators and relationships, columns of relationships',
    async (t) => {
      await server.must('create_query_template', {
        name: 'deep',
        template: template('select', {
          table: 'author',
          columns: [
            'name',
            {
              name: 'articles',
              columns: ['id'],
              where: { rating: { $lte: param('most') } },
              order_by: ['id'],
              limit: param('n', 2),
            },
          ],
          where: { $or: [{ name: param('name') }, { articles: { id: { $in: [param('one'), 2] } } }] },
          order_by: ['id'],
        }),
      })
      t.same((await execute('deep', { most: 6, name: 'Ann', one: null })).body, [
        { name: 'Ann', articles: [{ id: 3 }, { id: 6 }] },
        { name: 'Cid', articles: [{ id: 2 }, { id: 5 }] },
      ])
      const missing = await execute('deep', { most: 6, name: 'Ann' })
      t.equal(missing.status, 400)
      t.match(missing.body, { code: 'invalid-params', error: 'missing parameter : "one"', path: '$.args.args' })
    },
  )

  await t.test('an argument is a value, whatever it looks like', async (t) => {
    await server.must('create_query_template', {
      name: 'by_name',
      template: template('select', { table: 'author', columns: ['id'], where: { name: param('name') } }),
    })
    const injected = await execute('by_name', { name: { $ne: 'x' } })
    t.match(injected.body, { code: 'parse-failed', path: '$.args.args.name' })
    t.match(injected.body.error, /^when processing parameter "name" : expecting a string/)
    t.same((await execute('by_name', { name: "' or true --" })).body, [])
    t.same((await execute('by_name', { name: null })).body, [], 'null is looked for as null')
  })

  await t.test('a JSON value is never searched for parameters', async (t) => {
    await server.must('create_query_template', {
      name: 'set_data',
      template: template('update', {
        table: 'author',
        where: { id: param('id') },
        $set: { data: { inner: param('x') } },
        returning: ['data'],
      }),
    })
    t.same((await execute('set_data', { id: 1 })).body, {
      returning: [{ data: { inner: { param: 'x' } } }],
      affected_rows: 1,
    })
    await server.must('create_query_template', {
      name: 'set_whole',
      template: template('update', {
        table: 'author',
        where: { id: param('id') },
        $set: { data: param('data') },
        returning: ['data'],
      }),
    })
    t.equal(
      (await execute('set_whole', { id: 1, data: { $big: 1 } })).text,
      '{"affected_rows":1,"returning":[{"data":{"$big": 1}}]}',
    )
  })

  await t.test('an insert: n rows for n elements', async (t) => {
    await server.must('create_query_template', {
      name: 'add',
      template: template('insert', { table: 'article', objects: param('objects'), returning: ['title'] }),
    })
    const rows = [
      { title: 'one', author_id: 1 },
      { title: 'two', author_id: 2, rating: 5 },
    ]
    t.same((await execute('add', { objects: rows })).body, {
      affected_rows: 2,
      returning: [{ title: 'one' }, { title: 'two' }],
    })
    t.match((await execute('add', { objects: [] })).body, { code: 'unexpected-payload', path: '$.args.args.objects' })
    t.match((await execute('add', { objects: [{ title: 5, author_id: 1 }] })).body, {
      code: 'parse-failed',
      path: '$.args.args.objects[0].title',
    })
    t.match((await execute('add', { objects: { title: 'x' } })).body, {
      code: 'parse-failed',
      path: '$.args.args.objects',
    })
    const objects = [{ title: param('title'), author_id: 1 }]
    const one = template('insert', { table: 'article', objects, returning: ['title', 'author_id'] })
    await server.must('create_query_template', { name: 'add_one', template: one })
    t.same((await execute('add_one', { title: 'three' })).body.returning, [{ title: 'three', author_id: 1 }])
  })

  await t.test('an update, a delete, a count and a bulk', async (t) => {
    await server.must('create_query_template', {
      name: 'everything',
      template: template('bulk', [
        template('update', {
          table: 'article',
          where: { id: { $eq: param('id') } },
          $inc: { rating: param('by') },
          returning: ['rating'],
        }),
        template('update', {
          table: 'article',
          where: { id: param('id') },
          $mul: { rating: param('times', 1) },
          $set: { title: param('title', 'x') },
        }),
        template('count', { table: 'article', where: { title: param('title', 'x') } }),
        template('delete', { table: 'article', where: { id: param('id') } }),
      ]),
    })
    t.same((await execute('everything', { id: 1, by: 4, times: 2 })).body, [
      { affected_rows: 1, returning: [{ rating: 5 }] },
      { affected_rows: 1 },
      { count: 1 },
      { affected_rows: 1 },
    ])
    const failed = await execute('everything', { id: 2, by: 'many' })
    t.equal(failed.status, 400)
    t.match(
      (await server.query('bulk', [{ type: 'execute_query_template', args: { name: 'by_name', args: {} } }])).body,
      {
        code: 'invalid-params',
        path: '$.args[0].args.args',
      },
    )
  })

  await t.test('what may not be a template', async (t) => {
    const cases: [unknown, object][] = [
      [template('run_sql', { sql: 'select 1' }), { code: 'unexpected-payload', path: '$.args.template.type' }],
      [
        template('bulk', [template('track_table', 'x')]),
        { code: 'unexpected-payload', path: '$.args.template.args[0].type' },
      ],
      ['select', { code: 'parse-failed', path: '$.args.template' }],
      [template('select', { table: param('t'), columns: ['id'] }), { path: '$.args.template.args.table' }],
      [
        template('select', { table: 'article', columns: [param('c')] }),
        { path: '$.args.template.args.columns[0].param' },
      ],
      [
        template('select', { table: 'article', columns: ['id'], order_by: param('o') }),
        { path: '$.args.template.args.order_by.param' },
      ],
      [
        template('select', { table: 'nowhere', columns: ['id'] }),
        { code: 'not-exists', path: '$.args.template.args.table' },
      ],
      [
        template('select', { table: 'article', columns: ['id'], where: { id: param('id', 'one') } }),
        { code: 'unexpected-payload', path: '$.args.template' },
      ],
      [
        template('select', { table: 'article', columns: ['id'], where: { id: param('id', 1.5) } }),
        { code: 'parse-failed', path: '$.args.template.args.where.id.$eq.default' },
      ],
      [
        template('select', { table: 'article', columns: ['id'], limit: param('n', -1) }),
        { code: 'parse-failed', path: '$.args.template.args.limit.default' },
      ],
      [
        template('insert', { table: 'article', objects: param('o', [{ nope: 1 }]) }),
        { path: '$.args.template.args.objects.default' },
      ],
      [
        template('select', { table: 'article', columns: ['id'], where: { id: { $in: param('x'), $gt: param('x') } } }),
        { code: 'unexpected-payload' },
      ],
    ]
    for (const [definition, expected] of cases) {
      const { status, body } = await create('bad', definition)
      t.equal(status, 400, JSON.stringify(definition))
      t.match(body, expected, JSON.stringify(definition))
    }
    t.match((await create('by_name', template('count', { table: 'author' }))).body, { code: 'already-exists' })
    t.match((await execute('nope')).body, { code: 'not-exists', error: 'query-template "nope" does not exist' })
    t.match(
      (
        await server.query(
          'create_query_template',
          { name: 'x', template: template('count', { table: 'author' }) },
          user,
        )
      ).body,
      { code: 'access-denied' },
    )
    t.match((await server.query('drop_query_template', { name: 'by_name' }, user)).body, { code: 'access-denied' })
  })

  await t.test("permissions are the caller's", async (t) => {
    t.same((await execute('by_rating', { above: 0 }, user)).body, [
      { id: 4, rating: 4 },
      { id: 6, rating: 6 },
    ])
    t.match((await execute('by_name', { name: 'Ann' }, user)).body, { code: 'permission-denied' })
    t.same(
      (await server.fetch('/v1/template', {}, user)).body.map((each: { name: string }) => each.name),
      ['by_rating'],
    )
  })

  await t.test('listing, comment, drop', async (t) => {
    const list = async () =>
      (await server.must('select', {
        table: { schema: 'svc_catalog', name: 'svc_query_template' },
        columns: ['*'],
        where: { template_name: 'by_rating' },
      })) as object[]
    t.match(await list(), [
      { template_name: 'by_rating', comment: 'articles above a rating', template_defn: { type: 'select' } },
    ])
    await server.must('set_query_template_comment', { name: 'by_rating', comment: null })
    t.match(await list(), [{ comment: null }])
    await server.must('create_query_template', { name: 'gone', template: template('count', { table: 'author' }) })
    await server.must('drop_query_template', { name: 'gone' })
    t.match((await execute('gone')).body, { code: 'not-exists' })
    t.match((await server.query('drop_query_template', { name: 'gone' })).body, { code: 'not-exists' })
  })

  await t.test('what a template needs cannot be dropped by mistake', async (t) => {
    await server.must('run_sql', { sql: 'create table pet (id int primary key, name text, age int)' })
    await server.must('track_table', 'pet')
    const pets = {
      name: 'pets',
      template: template('select', { table: 'pet', columns: ['id', 'age'], where: { name: param('name') } }),
    }
    await server.must('create_query_template', pets)
    const refused = async (sql: string, cascade = false) => (await server.query('run_sql', { sql, cascade })).body
    t.match(await refused('alter table pet drop column age'), {
      code: 'dependency-error',
      error: 'cannot drop due to the following dependent objects : query-template pets',
    })
    t.match(await refused('alter table pet alter column age type bigint', true), {
      code: 'dependency-error',
      error: /query-template pets/,
    })
    t.match(await refused('drop table pet'), { code: 'dependency-error', error: /query-template pets/ })
    t.match((await server.query('untrack_table', { table: 'pet' })).body, {
      code: 'dependency-error',
      error: /query-template pets/,
    })
    t.same(await refused('alter table pet drop column age', true), { result_type: 'CommandOk' })
    t.match((await execute('pets', { name: 'x' })).body, { code: 'not-exists' })
  })

  await t.test('metadata out and in', async (t) => {
    const exported = await server.must('export_metadata', {})
    await server.must('replace_metadata', exported)
    t.same(await server.must('export_metadata', {}), exported)
    t.same((await execute('by_rating', { limit: 1 })).body, [{ id: 4, rating: 4 }])
    const broken = { ...exported, query_templates: [{ name: 'x', template: template('count', { table: 'nowhere' }) }] }
    t.match((await server.query('replace_metadata', broken)).body, {
      code: 'not-exists',
      path: '$.args.query_templates[0].template.args.table',
    })
  })

  await t.test('other forms for a read', async (t) => {
    const body = JSON.stringify({ type: 'execute_query_template', args: { name: 'by_rating', args: { limit: 2 } } })
    t.equal((await server.raw(body, {}, { accept: 'text/csv' })).text, 'id,rating\r\n4,4\r\n5,5\r\n')
    t.equal(
      (await server.fetch('/v1/template/by_rating?limit=1', { headers: { accept: 'application/x-ndjson' } })).text,
      '{"id":4,"rating":4}\n',
    )
    t.equal(
      (
        await server.fetch('/v1/template/add', {
          method: 'POST',
          body: '{"objects":[{"title":"t","author_id":1}]}',
          headers: { accept: 'text/csv' },
        })
      ).status,
      406,
    )
  })

  await t.test('REST: where arguments come from', async (t) => {
    const call = async (path: string, init?: RequestInit) => (await server.fetch(`/v1/template/${path}`, init)).body
    t.same(await call('by_rating?above=5&limit=1'), [{ id: 6, rating: 6 }])
    t.same(await call('by_rating?ids=4&ids=7'), [
      { id: 4, rating: 4 },
      { id: 7, rating: 7 },
    ])
    t.same(await call('by_rating?ids=[4,7]&limit=1'), [{ id: 4, rating: 4 }])
    t.same(await call('by_rating?ids=7'), [{ id: 7, rating: 7 }])
    t.same(
      await call('by_rating?limit=3', { method: 'POST', body: '{"limit": 1}' }),
      [{ id: 4, rating: 4 }],
      'the body wins',
    )
    t.same(await call('by_rating?limit=1', { method: 'PUT' }), [{ id: 4, rating: 4 }], 'an empty body is {}')
    t.same(await call('by_rating?limit=1', { method: 'DELETE' }), [{ id: 4, rating: 4 }])
    t.same(await call(`add?objects=${encodeURIComponent('[{"title":"by url","author_id":1}]')}`), {
      affected_rows: 1,
      returning: [{ title: 'by url' }],
    })
    t.same(await call('add', { method: 'POST', body: '{"objects":[{"title":"by body","author_id":1}]}' }), {
      affected_rows: 1,
      returning: [{ title: 'by body' }],
    })
    t.match(await call('set_whole?id=2&data={"a":[1]}'), { returning: [{ data: { a: [1] } }] })
  })

  await t.test('REST: what is refused', async (t) => {
    const call = async (path: string, init?: RequestInit) => server.fetch(`/v1/template/${path}`, init)
    t.match(await call('by_rating?above=1&above=2'), { status: 400, body: { code: 'invalid-params', path: '$.above' } })
    t.match(await call('by_rating?limit=many'), { status: 400, body: { code: 'invalid-params', path: '$.limit' } })
    t.match(await call('by_rating?above=many'), { status: 400 })
    t.match(await call('by_rating?ids=[4'), { status: 400, body: { code: 'invalid-json', path: '$.ids' } })
    t.match(await call('deep?most=1'), { status: 400, body: { code: 'invalid-params', path: '$' } })
    t.match(await call('nope'), { status: 400, body: { code: 'not-exists' } })
    t.match(await call('by_rating', { method: 'POST', body: '[]' }), { status: 400, body: { code: 'parse-failed' } })
    t.match(await call('by_rating', { method: 'POST', body: '{' }), { status: 400, body: { code: 'invalid-json' } })
    t.equal((await call('by_rating', { method: 'HEAD' })).status, 405)
    t.equal((await call('by_rating', { method: 'PATCH' })).status, 405)
    t.match(await call('everything?id=3&by=1', { headers: { 'sec-purpose': 'prefetch' } }), {
      status: 403,
      body: { code: 'csrf' },
    })
    t.equal((await call('by_rating')).headers.get('cache-control'), 'no-store')
  })

  await t.test('/metrics counts and times the calls of each template', async (t) => {
    const name = 'say "so" \\ \n'
    await create(name, template('count', { table: 'article', where: { id: { $gt: param('above') } } }))
    await execute(name, { above: 1 })
    await server.fetch(`/v1/template/${encodeURIComponent(name)}?above=2`)
    await execute(name)
    await execute(name, { above: 1 }, { role: 'nobody' })
    await execute('no such template')

    const { text } = await server.fetch('/metrics')
    const label = String.raw`template="say \"so\" \\ \n"`
    const count = (outcome: string) =>
      text
        .split('\n')
        .find((line) => line.startsWith(`rowhouse_template_duration_seconds_count{${label},outcome="${outcome}"}`))
        ?.split(' ')
        .at(-1)
    t.equal(count('ok'), '2')
    t.equal(count('refused'), '2')
    t.notMatch(text, /no such template/)
  })
})
