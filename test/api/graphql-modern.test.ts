import { buildClientSchema, getIntrospectionQuery, printSchema } from 'graphql'
import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, name text not null, age int, big bigint, data jsonb, tags text[]);
create table article (id serial primary key, title text not null unique, rating int not null default 0, published boolean not null default false, author_id int not null references author);
create table pair (a int, b int, note text, primary key (a, b));
create view pairs as select * from pair;
create schema other;
create table other.thing (id int primary key);
insert into other.thing values (1);
insert into pair values (1, 1, 'x'), (1, 2, 'y');
insert into author (name, age, big, data, tags) values ('Ann', 30, 9007199254740993, '{"a": 1}', '{x,y}'), ('Bob', null, null, null, null), ('Cid', 50, 1, '{"a": 2}', '{}');
insert into article (title, rating, published, author_id) select 'article ' || n, n, n % 2 = 0, 1 + n % 3 from generate_series(1, 9) n;`

tap.test('GraphQL of the newer dialect', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    ...['author', 'article', 'pair', 'pairs', { schema: 'other', name: 'thing' }].map((table) => ({
      type: 'track_table',
      args: table,
    })),
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
        permission: { columns: ['id', 'title', 'author_id'], filter: { published: true }, limit: 2 },
      },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'article',
        role: 'staff',
        permission: { columns: ['id', 'rating'], filter: { published: true }, limit: 2, allow_aggregations: true },
      },
    },
    {
      type: 'create_select_permission',
      args: { table: 'author', role: 'staff', permission: { columns: ['id', 'name'], filter: {} } },
    },
    {
      type: 'create_insert_permission',
      args: {
        table: 'article',
        role: 'user',
        permission: { check: { author_id: 'X-Service-User-Id' }, columns: ['title', 'author_id'] },
      },
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
  const staff: As = { role: 'staff' }
  const ask = (query: string, variables?: object, as?: As, more: object = {}) =>
    server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables, ...more }) }, as)
  const data = async (query: string, variables?: object, as?: As) => {
    const { body, text } = await ask(query, variables, as)
    if (!body.data) throw new Error(text)
    return body.data
  }

  await t.test('conditions on what is computed of related rows', async (t) => {
    const ids = async (where: string, variables?: object, head = '') =>
      (await data(`${head}{ author(where: ${where}, order_by: {id: asc}) { id } }`, variables)).author.map(
        (row: { id: number }) => row.id,
      )
    t.same(await ids('{articles_aggregate: {count: {predicate: {_gte: 3}}}}'), [1, 2, 3])
    t.same(await ids('{articles_aggregate: {count: {predicate: {_eq: 2}, filter: {published: {_eq: true}}}}}'), [3])
    t.same(
      await ids(
        '{articles_aggregate: {count: {predicate: {_gt: $n}, filter: {rating: {_gt: 6}}, arguments: [rating], distinct: true}}}',
        { n: 0 },
        'query q($n: Int!) ',
      ),
      [1, 2, 3],
    )
    t.same(
      await ids(
        '{articles_aggregate: {bool_or: {arguments: published, predicate: {_eq: true}}}, _not: {articles_aggregate: {bool_and: {arguments: published, predicate: {_eq: true}}}}}',
      ),
      [1, 2, 3],
    )
    t.same(
      await ids(
        '$w',
        { w: { articles_aggregate: { count: { predicate: { _in: [2] }, filter: { published: { _eq: true } } } } } },
        'query q($w: author_bool_exp) ',
      ),
      [3],
    )
    const json = (where: object, as?: As) =>
      server.query('select', { table: 'author', columns: ['id'], where, order_by: ['id'] }, as)
    t.same(
      (await json({ articles_aggregate: { count: { predicate: { $eq: 2 }, filter: { published: true } } } })).body,
      [{ id: 3 }],
    )
    t.match((await json({ articles_aggregate: { count: { predicate: { $eq: 2 } } } }, staff)).body, [])
    t.match((await json({ articles_aggregate: { count: { filter: {} } } })).body, {
      code: 'parse-failed',
      path: '$.args.where.articles_aggregate.count',
    })
    t.match(
      (await json({ articles_aggregate: { bool_and: { arguments: 'rating', predicate: { $eq: true } } } })).body,
      { code: 'unexpected-payload' },
    )
    await server.must('create_select_permission', {
      table: 'author',
      role: 'user',
      permission: { columns: '*', filter: {} },
    })
    t.match((await json({ articles_aggregate: { count: { predicate: { $eq: 2 } } } }, user)).body, {
      code: 'permission-denied',
    })
    await server.must('drop_select_permission', { table: 'author', role: 'user' })
  })

  await t.test('an insert without rows and an update without columns affect nothing', async (t) => {
    const nothing = { affected_rows: 0, returning: [] }
    const insert =
      'mutation m($o: [pair_insert_input!]!) { insert_pair(objects: $o, on_conflict: {constraint: pair_pkey, update_columns: [note]}) { affected_rows returning { a } } }'
    t.same(await data(insert, { o: [] }), { insert_pair: nothing })
    t.same(await data(insert, { o: [{ a: 7, b: 7 }] }), { insert_pair: { affected_rows: 1, returning: [{ a: 7 }] } })
    await data('mutation { delete_pair_by_pk(a: 7, b: 7) { a } }')
    t.same(
      await data('mutation { insert_pairs(objects: []) { affected_rows } }'),
      { insert_pairs: { affected_rows: 0 } },
      'also into a view, which has no defaults of its own',
    )
    t.same(
      await data(
        'mutation { insert_article(objects: []) { n: affected_rows rows: returning { id } __typename } }',
        {},
        user,
      ),
      { insert_article: { n: 0, rows: [], __typename: 'article_mutation_response' } },
    )
    for (const as of [undefined, user]) {
      const update =
        'mutation m($s: article_set_input!) { update_article(where: {}, _set: $s) { affected_rows returning { id } } }'
      t.same(await data(update, { s: {} }, as), { update_article: nothing })
      t.same(await data('mutation { update_article_by_pk(pk_columns: {id: 2}, _set: {}) { id } }', {}, as), {
        update_article_by_pk: null,
      })
    }
    t.same(
      await data(
        'mutation { update_author_many(updates: [{where: {id: {_eq: 3}}, _inc: {}}, {where: {id: {_eq: 3}}, _set: {age: 11}}]) { affected_rows } }',
      ),
      { update_author_many: [{ affected_rows: 0 }, { affected_rows: 1 }] },
    )
    t.match((await ask('mutation { update_author(where: {}) { affected_rows } }')).body.errors, [
      { message: 'the update sets no column' },
    ])
    t.match(
      (await ask('mutation { update_author(where: {nope: {_eq: 1}}, _set: {}) { affected_rows } }')).body.errors,
      [{ message: /nope/ }],
    )
  })

  await t.test('a query may ask for a cached answer, and gets the current one', async (t) => {
    const cached = (directive: string, variables = '($n: Int = 5)') =>
      data(`query q${variables} ${directive} { pair(where: {a: {_eq: 5}}) { a } }`)

    t.same(await cached('@cached', ''), { pair: [] })
    t.same(await cached('@cached(ttl: 120, refresh: true)', ''), { pair: [] })
    t.same(await cached('@cached(ttl: $n)'), { pair: [] })
    const refused = await ask('mutation @cached { delete_pair(where: {a: {_eq: 5}}) { affected_rows } }')
    t.match(refused.body, { errors: [{ message: 'Directive "@cached" may not be used on MUTATION.' }] })
  })

  await t.test('a mutation runs when a fragment around it is included, wherever it is asked for', async (t) => {
    const remove = (directive = '') => `delete_pair(where: {a: {_eq: 7}}) ${directive} { affected_rows }`
    const fragment = `fragment Removal on mutation_root { ${remove()} }`
    const removed = { delete_pair: { affected_rows: 0 } }
    const ask = (go: boolean, selection: string, more = '') =>
      data(`mutation m($go: Boolean!) { ${selection} } ${more}`, { go })

    t.same(await ask(false, `... @include(if: $go) { ${remove()} }`), {})
    t.same(await ask(true, `... @include(if: $go) { ${remove()} }`), removed)
    t.same(await ask(true, '...Removal @skip(if: $go)', fragment), {})
    t.same(await ask(false, '...Removal @skip(if: $go)', fragment), removed)
    t.same(await ask(true, `${remove('@skip(if: $go)')} ${remove()}`), removed)
  })

  await t.test('introspection is the schema of the role', async (t) => {
    const introspected = async (as?: As) => {
      const { body } = await ask(getIntrospectionQuery(), undefined, as)
      return printSchema(buildClientSchema(body.data))
    }
    const all = await introspected()
    t.match(all, /author_by_pk\(id: Int!\): author\n/)
    t.match(
      all,
      /insert_author\(objects: \[author_insert_input!\]!, on_conflict: author_on_conflict\): author_mutation_response/,
    )
    const seen = await introspected(user)
    t.notMatch(seen, /rating|type author |delete_|aggregate/)
    t.match(seen, /input article_insert_input {\n {2}title: String\n {2}author_id: Int\n}/)
    t.match(seen, /input article_set_input {\n {2}title: String\n}/)
    const nobody = await introspected({ role: 'nobody' })
    t.match(nobody, /_empty: String/)
    t.same(
      await data('query q($n: String!) { __type(name: $n) { name kind } author_by_pk(id: 1) { id } }', { n: 'author' }),
      { author_by_pk: { id: 1 }, __type: { name: 'author', kind: 'OBJECT' } },
    )
    t.match((await ask('{ __type(name: "author") { name } }', undefined, user)).body.data, { __type: null })
    for (const [query, variables] of [
      ['query ($n: String = "author") { __type(name: $n) { name } }', { n: null }],
      ['query ($b: Boolean = true) { __schema @include(if: $b) { queryType { name } } }', { b: null }],
    ] as const) {
      const { body } = await ask(query, variables)
      t.match(body.errors, [
        { extensions: { code: 'validation-failed', path: '$.query' }, message: /must not be null/ },
      ])
    }
  })
})
