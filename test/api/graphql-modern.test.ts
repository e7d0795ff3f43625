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

  await t.test('rows, by key, fragments, aliases', async (t) => {
    t.same(await data('{ author(order_by: {id: desc}, limit: 1) { id name __typename } }'), {
      author: [{ id: 3, name: 'Cid', __typename: 'author' }],
    })
    t.same(
      await data(
        '{ author_by_pk(id: 1) { name } none: author_by_pk(id: 99) { name } pair_by_pk(a: 1, b: 2) { note } other_thing { id } }',
      ),
      {
        author_by_pk: { name: 'Ann' },
        none: null,
        pair_by_pk: { note: 'y' },
        other_thing: [{ id: 1 }],
      },
    )
    t.same(
      await data(
        'query q($id: Int!) { author_by_pk(id: $id) { ...A ... on author { articles(order_by: [{rating: desc}], limit: 1) { ...B } } } } fragment A on author { id } fragment B on article { title author { ...A } }',
        { id: 1 },
      ),
      { author_by_pk: { id: 1, articles: [{ title: 'article 9', author: { id: 1 } }] } },
    )
    t.same(
      await data(
        '{ author_by_pk(id: 1) { articles(limit: 1, order_by: {id: asc}) { id } articles(limit: 1, order_by: {id: asc}) { title } } }',
      ),
      {
        author_by_pk: { articles: [{ id: 3, title: 'article 3' }] },
      },
    )
  })

  await t.test('order_by: nulls, relationships, aggregates; distinct_on', async (t) => {
    const ids = async (args: string) =>
      (await data(`{ author(${args}) { id } }`)).author.map((row: { id: number }) => row.id)
    t.same(await ids('order_by: {age: asc}'), [1, 3, 2])
    t.same(await ids('order_by: {age: asc_nulls_first}'), [2, 1, 3])
    t.same(await ids('order_by: {age: desc}'), [2, 3, 1])
    t.same(await ids('order_by: {age: desc_nulls_last}'), [3, 1, 2])
    t.same(await ids('order_by: [{articles_aggregate: {max: {rating: desc}}}]'), [1, 3, 2])
    t.same(await ids('order_by: [{articles_aggregate: {count: asc}}, {id: desc}]'), [3, 2, 1])
    t.same(await data('{ article(order_by: [{author: {name: desc}}, {id: asc}], limit: 2) { id } }'), {
      article: [{ id: 2 }, { id: 5 }],
    })
    t.same(
      await data('{ article(distinct_on: [author_id], order_by: [{author_id: asc}, {rating: desc}]) { rating } }'),
      { article: [{ rating: 9 }, { rating: 7 }, { rating: 8 }] },
    )
    t.match((await ask('{ article(distinct_on: [author_id], order_by: {rating: desc}) { rating } }')).body.errors, [
      { extensions: { code: 'validation-failed', path: '$.selectionSet.article.args.distinct_on' } },
    ])
    t.same(
      await data(
        'query q($o: [author_order_by!], $d: order_by!) { author(order_by: $o, limit: 1) { id } b: author(order_by: {id: $d}, limit: 1) { id } }',
        { o: [{ id: 'desc' }], d: 'desc' },
      ),
      { author: [{ id: 3 }], b: [{ id: 3 }] },
    )
  })

  await t.test('conditions', async (t) => {
    const ids = async (where: string) =>
      (await data(`{ author(where: ${where}, order_by: {id: asc}) { id } }`)).author.map(
        (row: { id: number }) => row.id,
      )
    t.same(await ids('{_or: [{id: {_eq: 1}}, {name: {_ilike: "b%"}}]}'), [1, 2])
    t.same(await ids('{_or: {id: {_eq: 1}}, _and: [{age: {_is_null: false}}]}'), [1])
    t.same(await ids('{_not: {articles: {}}}'), [])
    t.same(await ids('{articles: {rating: {_gt: 8}}}'), [1])
    t.same(await ids('{data: {_contains: {a: 2}}}'), [3])
    t.same(await ids('{data: {_has_keys_any: ["a", "b"]}}'), [1, 3])
    t.same(await ids('{tags: {_contains: ["x"]}}'), [1])
    t.same(await ids('{tags: {_eq: []}}'), [3])
    t.same(await ids('{id: {_in: [3, 1]}}'), [1, 3])
    t.same(await ids('{id: {_nin: []}}'), [1, 2, 3])
    t.same(await ids('{big: {_eq: 9007199254740993}}'), [1])
    t.same(
      await data(
        'query q($id: Int!, $in: [Int!]!) { author(where: {id: {_in: [2, $id]}, _not: {id: {_in: $in}}}) { id } }',
        { id: 3, in: [2] },
      ),
      { author: [{ id: 3 }] },
    )
  })

  await t.test('aggregates', async (t) => {
    t.same(
      await data(
        '{ article_aggregate(where: {rating: {_gt: 3}}) { __typename aggregate { __typename count c: count(columns: [author_id], distinct: true) sum { rating } max { rating title } avg { rating } } nodes { id } } }',
      ),
      {
        article_aggregate: {
          __typename: 'article_aggregate',
          aggregate: {
            __typename: 'article_aggregate_fields',
            count: 6,
            c: 3,
            sum: { rating: 39 },
            max: { rating: 9, title: 'article 9' },
            avg: { rating: 6.5 },
          },
          nodes: [4, 5, 6, 7, 8, 9].map((id) => ({ id })),
        },
      },
    )
    t.same(
      await data(
        '{ author(order_by: {id: asc}, limit: 2) { articles_aggregate(where: {published: {_eq: true}}, limit: 1, order_by: {id: asc}) { aggregate { count min { id } } nodes { id } } } }',
      ),
      {
        author: [
          { articles_aggregate: { aggregate: { count: 1, min: { id: 6 } }, nodes: [{ id: 6 }] } },
          { articles_aggregate: { aggregate: { count: 1, min: { id: 4 } }, nodes: [{ id: 4 }] } },
        ],
      },
    )
    t.same(
      await data('{ article_aggregate { aggregate { count } nodes { id } } }', undefined, staff),
      { article_aggregate: { aggregate: { count: 4 }, nodes: [{ id: 2 }, { id: 4 }] } },
      'the limit of the role holds for nodes',
    )
    for (const query of [
      '{ article_aggregate { aggregate { count } } }',
      '{ article(order_by: {author: {articles_aggregate: {count: asc}}}) { id } }',
    ]) {
      t.match((await ask(query, undefined, user)).body.errors, [{ extensions: { code: 'validation-failed' } }])
    }
  })

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

  await t.test('inserts', async (t) => {
    t.same(
      await data(
        'mutation { insert_author(objects: [{name: "Dan"}, {name: "Eve", age: 5, tags: ["a", "b"], data: {x: 1}}]) { affected_rows returning { id name age tags data articles { id } } } }',
      ),
      {
        insert_author: {
          affected_rows: 2,
          returning: [
            { id: 4, name: 'Dan', age: null, tags: null, data: null, articles: [] },
            { id: 5, name: 'Eve', age: 5, tags: ['a', 'b'], data: { x: 1 }, articles: [] },
          ],
        },
      },
    )
    t.same(
      await data('mutation m($o: author_insert_input!) { insert_author_one(object: $o) { id } }', {
        o: { name: 'Fay' },
      }),
      { insert_author_one: { id: 6 } },
    )
    t.same(
      await data(
        'mutation m($t: String!, $a: Int!) { insert_article_one(object: {title: $t, author_id: $a}) { title author { name } } }',
        { t: 'new', a: 1 },
      ),
      {
        insert_article_one: { title: 'new', author: { name: 'Ann' } },
      },
    )
    const upsert =
      'mutation m($c: article_on_conflict) { insert_article(objects: [{title: "new", author_id: 2, rating: 7}], on_conflict: $c) { affected_rows returning { rating author_id } } }'
    t.same(await data(upsert, { c: { constraint: 'article_title_key', update_columns: ['rating'] } }), {
      insert_article: { affected_rows: 1, returning: [{ rating: 7, author_id: 1 }] },
    })
    t.same(await data(upsert, { c: { constraint: 'article_title_key' } }), {
      insert_article: { affected_rows: 0, returning: [] },
    })
    t.same(
      await data(upsert, {
        c: { constraint: 'article_title_key', update_columns: ['rating'], where: { rating: { _gt: 100 } } },
      }),
      { insert_article: { affected_rows: 0, returning: [] } },
    )
    t.match((await ask(upsert, {})).body.errors, [
      { message: /Uniqueness violation/, extensions: { code: 'constraint-violation' } },
    ])
  })

  await t.test('updates', async (t) => {
    t.same(
      await data(
        'mutation { update_author(where: {id: {_eq: 4}}, _set: {age: 1, data: {a: 1}}) { returning { age data } } }',
      ),
      { update_author: { returning: [{ age: 1, data: { a: 1 } }] } },
    )
    t.same(
      await data(
        'mutation m($d: jsonb) { update_author_by_pk(pk_columns: {id: 4}, _inc: {age: 2}, _append: {data: $d}) { age data } }',
        { d: { b: [1, 2] } },
      ),
      { update_author_by_pk: { age: 3, data: { a: 1, b: [1, 2] } } },
    )
    t.same(
      await data('mutation { update_author_by_pk(pk_columns: {id: 4}, _delete_at_path: {data: ["b", "0"]}) { data } }'),
      { update_author_by_pk: { data: { a: 1, b: [2] } } },
    )
    t.same(await data('mutation { update_author_by_pk(pk_columns: {id: 4}, _delete_key: {data: "b"}) { data } }'), {
      update_author_by_pk: { data: { a: 1 } },
    })
    t.same(
      await data(
        'mutation { a: update_author_by_pk(pk_columns: {id: 4}, _set: {data: null}) { data } b: update_author_by_pk(pk_columns: {id: 99}, _set: {age: 1}) { id } }',
      ),
      { a: { data: null }, b: null },
    )
    t.same(
      await data(
        'mutation { update_author_many(updates: [{where: {id: {_eq: 4}}, _set: {age: 10}}, {where: {id: {_gt: 4}}, _inc: {age: 1}}]) { affected_rows } }',
      ),
      { update_author_many: [{ affected_rows: 1 }, { affected_rows: 2 }] },
    )
    t.same(
      await data('mutation m($u: [author_updates!]!) { update_author_many(updates: $u) { returning { age } } }', {
        u: [
          { where: { id: { _eq: 4 } }, _set: { age: 11 } },
          { where: { id: { _eq: 5 } }, _set: { age: 12 } },
        ],
      }),
      {
        update_author_many: [{ returning: [{ age: 11 }] }, { returning: [{ age: 12 }] }],
      },
    )
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
        'mutation { update_author_many(updates: [{where: {id: {_eq: 4}}, _inc: {}}, {where: {id: {_eq: 4}}, _set: {age: 11}}]) { affected_rows } }',
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

  await t.test('deletes', async (t) => {
    t.same(
      await data(
        'mutation { delete_author_by_pk(id: 4) { name } delete_author(where: {id: {_gt: 4}}) { affected_rows } again: delete_author_by_pk(id: 4) { name } }',
      ),
      {
        delete_author_by_pk: { name: 'Dan' },
        delete_author: { affected_rows: 2 },
        again: null,
      },
    )
    for (const variables of [{}, { id: null }]) {
      t.match(
        (await ask('mutation m($id: Int) { delete_author(where: {id: {_eq: $id}}) { affected_rows } }', variables)).body
          .errors,
        [{ extensions: { code: 'validation-failed' } }],
      )
    }
    t.same(await data('{ author_aggregate { aggregate { count } } }'), {
      author_aggregate: { aggregate: { count: 3 } },
    })
  })

  await t.test('a request is one transaction, its fields in order', async (t) => {
    const failed = await ask(
      'mutation { insert_pair(objects: {a: 5, b: 5}) { affected_rows } again: insert_pair(objects: {a: 5, b: 5}) { affected_rows } }',
    )
    t.equal(failed.status, 200)
    t.match(failed.body, {
      errors: [{ message: /Uniqueness violation/, extensions: { code: 'constraint-violation' } }],
    })
    t.same(await data('{ pair(where: {a: {_eq: 5}}) { a } }'), { pair: [] })
    t.same(
      await data(
        'mutation m($go: Boolean!) { a: insert_pair(objects: {a: 6, b: 6}) @include(if: $go) { affected_rows } b: delete_pair(where: {a: {_eq: 6}}) { affected_rows } }',
        { go: true },
      ),
      { a: { affected_rows: 1 }, b: { affected_rows: 1 } },
    )
    t.same(
      await data(
        'mutation m($go: Boolean!) { a: insert_pair(objects: {a: 6, b: 6}) @include(if: $go) { affected_rows } b: delete_pair(where: {a: {_eq: 6}}) { affected_rows } }',
        { go: false },
      ),
      { b: { affected_rows: 0 } },
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

  await t.test('a role sees and does what it may', async (t) => {
    t.same(await data('{ article { id title } }', undefined, user), {
      article: [
        { id: 2, title: 'article 2' },
        { id: 4, title: 'article 4' },
      ],
    })
    const refused = async (query: string, as = user) => (await ask(query, undefined, as)).body.errors[0].extensions.code
    t.equal(await refused('{ article { rating } }'), 'validation-failed')
    t.equal(await refused('{ author { id } }'), 'validation-failed')
    t.equal(await refused('mutation { delete_article(where: {}) { affected_rows } }'), 'validation-failed')
    t.equal(
      await refused('mutation { insert_article(objects: {title: "x", rating: 1, author_id: 1}) { affected_rows } }'),
      'validation-failed',
    )
    t.equal(
      await refused('mutation { insert_article(objects: {title: "x", author_id: 2}) { affected_rows } }'),
      'permission-error',
    )
    t.same(
      await data('mutation { insert_article_one(object: {title: "hidden", author_id: 1}) { id } }', undefined, user),
      { insert_article_one: null },
      'a row that the role does not see is not returned',
    )
    t.same(await data('{ author(where: {id: {_eq: 1}}) { name articles { id } } }', undefined, staff), {
      author: [{ name: 'Ann', articles: [{ id: 6 }] }],
    })
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

  await t.test('batches, GET, media types', async (t) => {
    const batch = await server.fetch('/v1/graphql', {
      method: 'POST',
      body: JSON.stringify([{ query: '{ author_by_pk(id: 1) { id } }' }, { query: '{ nope }' }]),
    })
    t.equal(batch.status, 200)
    t.match(batch.body, [
      { data: { author_by_pk: { id: 1 } } },
      { errors: [{ extensions: { path: '$[1].selectionSet.nope' } }] },
    ])
    const get = (query: string, headers = {}) =>
      server.fetch(`/v1/graphql?query=${encodeURIComponent(query)}`, { headers })
    t.same((await get('{ author_by_pk(id: 1) { id } }')).body, { data: { author_by_pk: { id: 1 } } })
    const modern = { accept: 'application/graphql-response+json' }
    t.equal((await get('mutation { delete_author(where: {}) { affected_rows } }', modern)).status, 405)
    const wrong = await get('{ nope }', modern)
    t.equal(wrong.status, 400)
    t.match(wrong.headers.get('content-type'), /^application\/graphql-response\+json/)
    t.equal((await get('{ nope }')).status, 200)
    t.equal((await get('{ author { id } }', { accept: 'image/png' })).status, 406)
  })
})
