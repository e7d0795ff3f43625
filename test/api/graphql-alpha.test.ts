import { buildSchema } from 'graphql'
import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, name text not null, age int, big bigint, data jsonb, tags text[]);
create table article (id serial primary key, title text not null, rating int not null default 0, published boolean not null default false, author_id int not null references author);
create schema other;
create table other.hidden (id int primary key);
insert into author (name, age, big, data, tags) values ('Ann', 30, 9007199254740993, '{"a": 1}', '{x,y}'), ('Bob', null, null, null, null), ('Cid', 50, 1, '{"a": 2}', '{}');
insert into article (title, rating, published, author_id) select 'article ' || n, n, n % 2 = 0, 1 + n % 3 from generate_series(1, 9) n;`

tap.test('GraphQL of the older dialect', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    { type: 'track_table', args: 'author' },
    { type: 'track_table', args: 'article' },
    { type: 'track_table', args: { schema: 'other', name: 'hidden' } },
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
        permission: { columns: ['id', 'title', 'author_id'], filter: { published: true } },
      },
    },
    {
      type: 'create_insert_permission',
      args: { table: 'article', role: 'user', permission: { check: { author_id: 'X-Service-User-Id' } } },
    },
    {
      type: 'create_update_permission',
      args: {
        table: 'article',
        role: 'user',
        permission: { columns: ['title'], filter: { author_id: 'X-Service-User-Id' } },
      },
    },
  ])
  const user: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
  const ask = (query: string, variables?: object, as?: As, more: object = {}) =>
    server.fetch('/v1alpha1/graphql', { method: 'POST', body: JSON.stringify({ query, variables, ...more }) }, as)
  const data = async (query: string, variables?: object, as?: As) => {
    const { body, status, text } = await ask(query, variables, as)
    if (status !== 200) throw new Error(text)
    return body.data
  }

  await t.test('reads: where, order_by, limit, offset, relationships, aliases, __typename', async (t) => {
    t.same(await data('{ author(where: {name: {_eq: "Ann"}}) { id name } }'), { author: [{ id: 1, name: 'Ann' }] })
    t.same(
      await data(
        'query { a: author(order_by: ["-id"], limit: 1) { __typename id } b: author(order_by: "+id", offset: 2) { n: name } }',
      ),
      {
        a: [{ __typename: 'author', id: 3 }],
        b: [{ n: 'Cid' }],
      },
    )
    t.same(
      await data(
        '{ author(where: {articles: {rating: {_gte: 9}}}) { name articles(order_by: ["+rating"], limit: 2, where: {published: {_eq: true}}) { id author { name } } } }',
      ),
      {
        author: [{ name: 'Ann', articles: [{ id: 6, author: { name: 'Ann' } }] }],
      },
    )
    t.same(await data('{ article(order_by: ["-author.name", "id"], limit: 2) { id } __typename }'), {
      article: [{ id: 2 }, { id: 5 }],
      __typename: 'query_root',
    })
    const { text } = await ask('{ author(where: {id: {_eq: 1}}) { big data tags } }')
    t.equal(text, '{"data":{"author":[{"big":9007199254740993,"data":{"a": 1},"tags":["x","y"]}]}}')
  })

  await t.test('variables of every kind', async (t) => {
    t.same(await data('query q($id: Int!) { author(where: {id: {_eq: $id}}) { name } }', { id: 2 }), {
      author: [{ name: 'Bob' }],
    })
    t.same(
      await data(
        'query q($w: author_bool_exp, $o: [String], $n: Int) { author(where: $w, order_by: $o, limit: $n) { id } }',
        { w: { _or: [{ id: { _in: [1, 3] } }, { name: { _like: 'B%' } }] }, o: ['-id'], n: 2 },
      ),
      { author: [{ id: 3 }, { id: 2 }] },
    )
    t.same(await data('query q($n: Int = 1) { author(limit: $n, order_by: ["id"]) { id } }'), { author: [{ id: 1 }] })
    t.same(await data('query q($ids: [Int!]) { author(where: {id: {_in: $ids}}) { id } }', { ids: [2] }), {
      author: [{ id: 2 }],
    })
    t.same(await data('query q($j: jsonb) { author(where: {data: {_contains: $j}}) { id } }', { j: { a: 2 } }), {
      author: [{ id: 3 }],
    })
    t.same(
      await data('query q($x: Boolean!) { author(limit: 1) { id @include(if: $x) name @skip(if: $x) } }', { x: true }),
      { author: [{ id: 1 }] },
    )
    t.same(
      await data('query q($x: Boolean!) { author(limit: 1) { id @include(if: $x) name @skip(if: $x) } }', { x: false }),
      { author: [{ name: 'Ann' }] },
    )
    t.same(
      await data('query q($w: author_bool_exp) { author(where: $w) { id } }', { w: { age: { _is_null: true } } }),
      { author: [{ id: 2 }] },
    )
  })

  await t.test('writes', async (t) => {
    t.same(
      await data(
        'mutation { insert_author(objects: [{name: "Dan", age: 1}, {name: "Eve"}]) { affected_rows returning { id name age } } }',
      ),
      {
        insert_author: {
          affected_rows: 2,
          returning: [
            { id: 4, name: 'Dan', age: 1 },
            { id: 5, name: 'Eve', age: null },
          ],
        },
      },
    )
    t.same(
      await data('mutation m($o: [author_input!]!) { insert_author(objects: $o) { affected_rows } }', {
        o: [{ name: 'Fay', data: { x: [1] } }],
      }),
      { insert_author: { affected_rows: 1 } },
    )
    t.same(
      await data(
        'mutation m($n: String, $s: author_input!) { update_author(where: {name: {_eq: $n}}, _set: $s) { affected_rows returning { age data } __typename } }',
        { n: 'Fay', s: { age: 9, data: null } },
      ),
      {
        update_author: {
          affected_rows: 1,
          returning: [{ age: 9, data: null }],
          __typename: 'author_mutation_response',
        },
      },
    )
    t.same(
      await data(
        'mutation { a: delete_author(where: {id: {_gt: 4}}) { affected_rows } b: insert_author(objects: {name: "Gus"}) { r: returning { name articles { id } } } __typename }',
      ),
      {
        a: { affected_rows: 2 },
        b: { r: [{ name: 'Gus', articles: [] }] },
        __typename: 'mutation_root',
      },
    )
  })

  await t.test('several mutations are one transaction', async (t) => {
    const failed = await ask(
      'mutation { a: insert_author(objects: [{name: "Hal"}]) { affected_rows } b: insert_article(objects: [{title: "x", author_id: 999}]) { affected_rows } }',
    )
    t.equal(failed.status, 400)
    t.match(failed.body.errors[0], { code: 'postgres-error', error: /Foreign key violation/ })
    t.same(await data('{ author(where: {name: {_eq: "Hal"}}) { id } }'), { author: [] })
  })

  await t.test('what is refused, with status 400 and one shape', async (t) => {
    const cases: [string, object | undefined, object][] = [
      [
        '{ author { nope } }',
        undefined,
        {
          code: 'validation-failed',
          path: '$.selectionSet.author.selectionSet.nope',
          locations: [{ line: 1, column: 12 }],
        },
      ],
      ['{ nope { id } }', undefined, { code: 'validation-failed', path: '$.selectionSet.nope' }],
      ['{ author(where: {id: {_eq: "x"}}) { id } }', undefined, { code: 'validation-failed' }],
      [
        '{ author(where: {id: {_eq: null}}) { id } }',
        undefined,
        { code: 'validation-failed', path: '$.selectionSet.author.args.where.id._eq' },
      ],
      ['query q($x: Int) { author(where: {id: {_eq: $x}}) { id } }', {}, { code: 'validation-failed' }],
      [
        'mutation m($x: Int) { delete_author(where: {id: {_eq: $x}}) { affected_rows } }',
        {},
        { code: 'validation-failed' },
      ],
      ['query q($x: Int!) { author(limit: $x) { id } }', {}, { code: 'validation-failed', path: '$.variables.x' }],
      [
        'query q($x: Int!) { author(limit: $x) { id } }',
        { x: 'one' },
        { code: 'validation-failed', path: '$.variables.x' },
      ],
      ['query q($x: String) { author(limit: $x) { id } }', { x: '1' }, { code: 'validation-failed' }],
      [
        'query q($w: author_bool_exp) { author(where: $w) { id } }',
        { w: { nope: 1 } },
        { code: 'validation-failed', path: '$.variables.w.nope' },
      ],
      ['{ author { id', undefined, { code: 'parse-failed', locations: [{ line: 1, column: 14 }] }],
      [
        '{ author { ...f } } fragment f on author { id }',
        undefined,
        { code: 'not-supported', message: /\/v1\/graphql/ },
      ],
      ['{ author { ... on author { id } } }', undefined, { code: 'not-supported' }],
      ['{ __schema { types { name } } }', undefined, { code: 'not-supported', message: /\/v1\/graphql/ }],
      ['{ author(order_by: ["+nope"]) { id } }', undefined, { path: '$.selectionSet.author.args.order_by[0]' }],
      ['{ author(limit: -1) { id } }', undefined, { code: 'validation-failed' }],
      ['subscription { author { id } }', undefined, { code: 'validation-failed' }],
      ['query a { author { id } } query b { author { id } }', undefined, { code: 'validation-failed' }],
      ['{ author { a: id a: name } }', undefined, { code: 'validation-failed' }],
      ['{ hidden { id } }', undefined, { code: 'validation-failed' }],
      ['mutation { update_author(where: {}, _set: {}) { affected_rows } }', undefined, { code: 'validation-failed' }],
    ]
    for (const [query, variables, expected] of cases) {
      const { status, body } = await ask(query, variables)
      t.equal(status, 400, query)
      t.match(body.errors?.[0], expected, query)
      t.notOk('data' in body, query)
      t.same(body.errors?.[0].extensions, { path: body.errors?.[0].path, code: body.errors?.[0].code }, query)
    }
    t.same(
      (
        await ask('query a { author(limit: 1) { id } } query b { author { name } }', undefined, undefined, {
          operationName: 'a',
        })
      ).body,
      { data: { author: [{ id: 1 }] } },
    )
  })

  await t.test('permissions', async (t) => {
    t.same(await data('{ article(order_by: ["id"], limit: 1) { id title } }', undefined, user), {
      article: [{ id: 2, title: 'article 2' }],
    })
    const refused = async (query: string) => (await ask(query, undefined, user)).body.errors[0]
    t.match(await refused('{ article { rating } }'), { code: 'validation-failed' })
    t.match(await refused('{ article(where: {rating: {_eq: 1}}) { id } }'), { code: 'validation-failed' })
    t.match(await refused('{ article(order_by: ["rating"]) { id } }'), { code: 'validation-failed', error: /rating/ })
    t.match(await refused('{ author { id } }'), { code: 'validation-failed' })
    t.match(await refused('{ article { author { id } } }'), { code: 'validation-failed' })
    t.match(await refused('mutation { delete_article(where: {}) { affected_rows } }'), { code: 'validation-failed' })
    t.match(await refused('mutation { insert_article(objects: [{title: "x", author_id: 2}]) { affected_rows } }'), {
      code: 'postgres-error',
      message: /would not pass the/,
    })
    t.match(await refused('mutation { update_article(where: {}, _set: {rating: 1}) { affected_rows } }'), {
      code: 'permission-denied',
    })
    t.same(
      await data(
        'mutation { update_article(where: {}, _set: {title: "mine"}) { affected_rows returning { title } } }',
        undefined,
        user,
      ),
      {
        update_article: { affected_rows: 3, returning: [{ title: 'mine' }] },
      },
    )
    t.match((await ask('{ article { id } }', undefined, { role: 'nobody' })).body.errors[0], {
      code: 'validation-failed',
    })
  })

  await t.test('the schema endpoint', async (t) => {
    const { body } = await server.fetch('/v1alpha1/graphql/schema')
    const schema = buildSchema(body.schema)
    t.match(body.schema, /author\(where: author_bool_exp, limit: Int, offset: Int, order_by: \[String\]\): \[author\]/)
    t.match(body.schema, /insert_author\(objects: \[author_input!\]!\): author_mutation_response/)
    t.match(body.schema, /update_author\(where: author_bool_exp!, _set: author_input!\): author_mutation_response/)
    t.notMatch(body.schema, /hidden/)
    t.ok(schema.getType('author'))
    t.match(await server.fetch('/v1alpha1/graphql/schema', {}, user), { status: 400, body: { code: 'access-denied' } })
  })

  await t.test('bodies that are no requests', async (t) => {
    const raw = (body: string) => server.fetch('/v1alpha1/graphql', { method: 'POST', body })
    for (const body of [
      '',
      '{',
      '[]',
      '{"query": 5}',
      '{"variables": {}}',
      '{"query": "{ author { id } }", "variables": []}',
      '{"query": "{ author { id } }", "operationName": 1}',
    ]) {
      const answer = await raw(body)
      t.equal(answer.status, 400, body)
      t.match(answer.body.errors, [{ code: String, path: String }], body)
    }
    t.equal((await server.fetch('/v1alpha1/graphql')).status, 405)
  })
})
