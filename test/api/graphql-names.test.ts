import { buildClientSchema, getIntrospectionQuery, type IntrospectionQuery, printSchema } from 'graphql'
import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table tbl_author (id serial primary key, nm text not null, "odd name" int, big bigint, data jsonb);
create table tbl_article (id serial primary key, ttl text unique, author_id int references tbl_author);
insert into tbl_author (nm, "odd name", big, data) values
  ('Ann', 1, 9007199254740993, '{"a": {"b": [10, 20]}, "c d": "x", "t": "needle"}'), ('Bob', 2, null, '[1, {"k": null}]');
insert into tbl_article (ttl, author_id) values ('one', 1), ('two', 1), ('three', 2);`

const NAMES = {
  custom_name: 'author',
  custom_root_fields: { select: 'authors', select_by_pk: 'author', insert_one: 'addAuthor' },
  column_config: { nm: { custom_name: 'name' }, 'odd name': { custom_name: 'odd' }, id: { custom_name: 'key' } },
}
const ARTICLE_NAMES = { custom_name: 'article', custom_column_names: { ttl: 'title', author_id: 'writer' } }

tap.test('names that tables and columns have in GraphQL alone', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const customize = (table: string, configuration: unknown) => ({
    type: 'set_table_customization',
    args: { table, configuration },
  })
  await server.must('bulk', [
    ...['tbl_author', 'tbl_article'].map((args) => ({ type: 'track_table', args })),
    {
      type: 'create_array_relationship',
      args: {
        table: 'tbl_author',
        name: 'articles',
        using: { foreign_key_constraint_on: { table: 'tbl_article', column: 'author_id' } },
      },
    },
    {
      type: 'create_object_relationship',
      args: { table: 'tbl_article', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    customize('tbl_author', NAMES),
    customize('tbl_article', ARTICLE_NAMES),
    {
      type: 'create_select_permission',
      args: { table: 'tbl_author', role: 'user', permission: { columns: ['id', 'nm'], filter: {} } },
    },
    {
      type: 'create_insert_permission',
      args: { table: 'tbl_author', role: 'user', permission: { check: { nm: { $ne: 'no' } }, columns: ['nm'] } },
    },
  ])
  const user: As = { role: 'user' }
  const ask = (query: string, variables?: object, as?: As) =>
    server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)
  const data = async (query: string, variables?: object, as?: As) => {
    const { body, text } = await ask(query, variables, as)
    if (!body.data) throw new Error(text)
    return body.data
  }
  const code = async (query: string, as?: As) => (await ask(query, {}, as)).body.errors?.[0].extensions.code

  await t.test('reads', async (t) => {
    t.same(
      await data(
        '{ authors(where: {name: {_eq: "Ann"}, articles: {title: {_like: "%e"}}}, order_by: {odd: desc, name: asc}) { key name odd articles(order_by: {title: asc}) { title writer author { name } } articles_aggregate { aggregate { count(columns: title) max { title writer } } } } }',
      ),
      {
        authors: [
          {
            key: 1,
            name: 'Ann',
            odd: 1,
            articles: [
              { title: 'one', writer: 1, author: { name: 'Ann' } },
              { title: 'two', writer: 1, author: { name: 'Ann' } },
            ],
            articles_aggregate: { aggregate: { count: 2, max: { title: 'two', writer: 1 } } },
          },
        ],
      },
    )
    t.same(await data('{ author(key: 2) { name __typename } }'), { author: { name: 'Bob', __typename: 'author' } })
    t.same(await data('{ article(distinct_on: writer, order_by: [{writer: asc}, {title: desc}]) { title } }'), {
      article: [{ title: 'two' }, { title: 'three' }],
    })
    t.same(await data('{ authors(order_by: {articles_aggregate: {max: {title: asc}}}) { name } }'), {
      authors: [{ name: 'Bob' }, { name: 'Ann' }],
    })
  })

  await t.test('writes, with related rows', async (t) => {
    t.same(
      await data(
        'mutation ($o: [article_insert_input!]!) { insert_article(objects: $o) { affected_rows returning { title writer author { name odd } } } }',
        {
          o: [
            { title: 'four', author: { data: { name: 'Eve', odd: 5 } } },
            { title: 'five', writer: 2 },
          ],
        },
      ),
      {
        insert_article: {
          affected_rows: 3,
          returning: [
            { title: 'four', writer: 3, author: { name: 'Eve', odd: 5 } },
            { title: 'five', writer: 2, author: { name: 'Bob', odd: 2 } },
          ],
        },
      },
    )
    t.same(
      await data(
        'mutation { addAuthor(object: {name: "Kim", articles: {data: [{title: "six"}]}}) { key name articles { title writer } } }',
      ),
      { addAuthor: { key: 4, name: 'Kim', articles: [{ title: 'six', writer: 4 }] } },
    )
    t.same(
      await data(
        'mutation { update_author(where: {name: {_eq: "Kim"}}, _set: {name: "Jim", odd: 1}) { returning { name odd } } update_author_by_pk(pk_columns: {key: 4}, _inc: {odd: 6}) { odd } insert_article(objects: [{title: "six", writer: 1}], on_conflict: {constraint: tbl_article_ttl_key, update_columns: [writer]}) { returning { writer } } delete_article(where: {title: {_eq: "four"}}) { returning { title } } }',
      ),
      {
        update_author: { returning: [{ name: 'Jim', odd: 1 }] },
        update_author_by_pk: { odd: 7 },
        insert_article: { returning: [{ writer: 1 }] },
        delete_article: { returning: [{ title: 'four' }] },
      },
    )
  })

  await t.test('a role, and names that are hidden behind others', async (t) => {
    t.same(await data('mutation { addAuthor(object: {name: "Uma"}) { name } }', {}, user), {
      addAuthor: { name: 'Uma' },
    })
    t.equal(await code('mutation { addAuthor(object: {name: "no"}) { name } }', user), 'permission-error')
    for (const query of [
      '{ authors { nm } }',
      '{ authors(where: {nm: {_eq: "x"}}) { key } }',
      '{ tbl_author { key } }',
    ])
      t.equal(await code(query), 'validation-failed', query)
    t.equal(await code('{ authors { odd } }', user), 'validation-failed')
  })

  await t.test('the older dialect and the JSON API keep the names of the database', async (t) => {
    const { body } = await server.fetch('/v1alpha1/graphql', {
      method: 'POST',
      body: JSON.stringify({ query: '{ tbl_author(where: {nm: {_eq: "Ann"}}) { id nm } }' }),
    })
    t.same(body, { data: { tbl_author: [{ id: 1, nm: 'Ann' }] } })
    t.same(await server.must('select', { table: 'tbl_article', columns: ['ttl'], where: { id: 1 } }), [{ ttl: 'one' }])
  })

  await t.test('definitions that do not hold are refused, and what is exported comes back', async (t) => {
    const refused = async (configuration: unknown, path: string, error: RegExp) => {
      const { body } = await server.query('set_table_customization', { table: 'tbl_author', configuration })
      t.match(body, { path: `$.args.configuration${path}`, error }, JSON.stringify(configuration))
    }
    await refused({ custom: 1 }, '.custom', /unexpected key/)
    await refused({ custom_name: 'a b' }, '.custom_name', /name of GraphQL/)
    await refused({ custom_name: '__a' }, '.custom_name', /name of GraphQL/)
    await refused({ custom_name: 'article' }, '.custom_name', /"article" is taken/)
    await refused({ custom_name: 'Int' }, '.custom_name', /"Int" is taken/)
    await server.must('run_sql', { sql: 'create table author (id int)' })
    t.match((await server.query('track_table', 'author')).body, {
      code: 'already-exists',
      error: '"tbl_author" is called "author" in GraphQL',
    })
    await refused({ custom_root_fields: { pick: 'x' } }, '.custom_root_fields.pick', /unexpected key/)
    await refused({ column_config: { none: { custom_name: 'x' } } }, '.column_config.none', /does not exist/)
    await refused({ column_config: { nm: { custom_name: 'big' } } }, '.column_config.nm', /is taken/)
    await refused({ column_config: { nm: { custom_name: 'articles' } } }, '.column_config.nm', /is taken/)
    const before = await server.must('export_metadata', {})
    t.same(before.tables[1].configuration, NAMES)
    await server.must('replace_metadata', before)
    t.same(await server.must('export_metadata', {}), before)
    const dropped = await server.query('run_sql', { sql: 'alter table tbl_author drop column "odd name"' })
    t.match(dropped.body, { code: 'dependency-error', error: /customization tbl_author/ })
    await server.must('set_table_customization', { table: 'tbl_author', configuration: null })
    t.same(await data('{ tbl_author_by_pk(id: 2) { nm } }'), { tbl_author_by_pk: { nm: 'Bob' } })
  })
})

tap.test('parts of JSON, casts, and numbers as text', async (t) => {
  const server = await testServer(t, { config: { plugins: { graphql: { digitsAsText: true } } } })
  await server.must('run_sql', {
    sql: `create table thing (id int primary key, big bigint, bigs bigint[], exact numeric, data jsonb, plain json);
    insert into thing values (1, 9007199254740993, '{1,9007199254740993}', 1.50, '{"a": {"b": [10, 20]}, "c d": "x", "t": "needle"}', '{"k": [1, {"x": 2}]}'),
      (2, 2, null, 0.1, '[1, {"k": null}]', null);`,
  })
  await server.must('track_table', 'thing')
  const ask = async (query: string, variables?: object) => {
    const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) })
    return body
  }

  await t.test('a header overrides the setting for one request', async (t) => {
    const as = async (text?: string, path = '/v1/graphql') =>
      server.fetch(path, {
        method: 'POST',
        body: JSON.stringify({ query: '{ thing(where: {id: {_eq: 1}}) { big bigs exact } }' }),
        headers: text === undefined ? {} : { 'X-Service-Digits-As-Text': text },
      })
    const numbers = '{"data":{"thing":[{"big":9007199254740993,"bigs":[1,9007199254740993],"exact":1.50}]}}'
    const texts = '{"data":{"thing":[{"big":"9007199254740993","bigs":["1","9007199254740993"],"exact":"1.50"}]}}'
    for (const [header, expected] of [
      [undefined, texts],
      ['false', numbers],
      ['true', texts],
      ['false', numbers],
    ] as const) {
      t.equal((await as(header)).text, expected, `header: ${header}`)
    }
    t.equal((await as('true', '/v1alpha1/graphql')).text, numbers, 'not in the older dialect')
    t.match((await as('yes')).body.errors, [
      { message: 'header "x-service-digits-as-text" is neither true nor false', extensions: { code: 'parse-failed' } },
    ])
  })

  await t.test('paths', async (t) => {
    const part = async (id: number, path: string, column = 'data') =>
      (await ask(`query ($p: String) { thing_by_pk(id: ${id}) { part: ${column}(path: $p) } }`, { p: path })).data
        ?.thing_by_pk.part
    t.equal(await part(1, '$.a.b[1]'), 20)
    t.equal(await part(1, 'a.b[0]'), 10)
    t.same(await part(1, 'a'), { b: [10, 20] })
    t.equal(await part(1, "$['c d']"), 'x')
    t.equal(await part(1, '["c d"]'), 'x')
    t.equal(await part(1, 'none.at.all'), null)
    t.same(await part(2, '$[1]'), { k: null })
    t.equal(await part(1, 'k[1].x', 'plain'), 2)
    t.same(await part(2, '$'), [1, { k: null }])
    t.same(
      (await ask('{ thing(order_by: {id: asc}) { a: data(path: "t") b: data(path: null) } }')).data.thing[0].a,
      'needle',
    )
    for (const path of ['$.', 'a..b', '[', '[x]', '$a', "['x", 'a[', 'a]']) {
      const { errors } = await ask('query ($p: String) { thing { data(path: $p) } }', { p: path })
      t.match(
        errors,
        [{ message: /is not a path/, extensions: { path: '$.selectionSet.thing.selectionSet.data.args.path' } }],
        path,
      )
    }
  })

  await t.test('jsonb as text', async (t) => {
    t.same((await ask('{ thing(where: {data: {_cast: {String: {_like: "%needle%"}}}}) { id } }')).data, {
      thing: [{ id: 1 }],
    })
    t.same(
      (
        await ask('query ($w: String) { thing(where: {data: {_cast: {String: {_ilike: $w}}}}) { id } }', {
          w: '%NULL%',
        })
      ).data,
      {
        thing: [{ id: 2 }],
      },
    )
    t.same(
      await server.must('select', {
        table: 'thing',
        columns: ['id'],
        where: { data: { $cast: { String: { $like: '%needle%' } } } },
      }),
      [{ id: 1 }],
    )
    t.ok((await ask('{ thing(where: {data: {_cast: {Int: {_eq: 1}}}}) { id } }')).errors)
    // A condition never falls away.
    const missing = 'query ($to: String_comparison_exp) { thing(where: {data: {_cast: {String: $to}}}) { id } }'
    t.match(await ask(missing, {}), {
      errors: [{ extensions: { code: 'validation-failed', path: '$.selectionSet.thing.args.where.data._cast' } }],
    })
    t.match(await ask(missing, { to: {} }), {
      errors: [
        { extensions: { code: 'validation-failed', path: '$.selectionSet.thing.args.where.data._cast.String' } },
      ],
    })
  })

  await t.test('composite values, as objects and as text', async (t) => {
    await server.must('run_sql', {
      sql: `create type place as (x int, y numeric); create table home (id int primary key, at place, tags json);
        insert into home values (1, row(1, 2)::place)`,
    })
    await server.must('track_table', 'home')
    t.same(
      (
        await ask(
          'mutation ($p: place_row) { update_home(where: {at: {_eq: {x: 1, y: 2}}}, _set: {at: $p}) { returning { at } } }',
          { p: { x: 3, y: 4.5 } },
        )
      ).data,
      { update_home: { returning: [{ at: { x: 3, y: 4.5 } }] } },
    )
    t.same((await ask('{ home(where: {at: {_eq: "(3,4.5)"}}) { id } }')).data, { home: [{ id: 1 }] })
    t.same(
      (
        await server.query('update', {
          table: 'home',
          $set: { at: { x: 7 } },
          where: { at: { $eq: { x: 3, y: 4.5 } } },
        })
      ).body,
      {
        affected_rows: 1,
      },
    )
    t.match((await ask('{ home(where: {at: {_eq: "(3"}}) { id } }')).errors, [
      { extensions: { code: 'data-exception' } },
    ])
    t.match((await ask('{ home(distinct_on: tags) { id } }')).errors, [{ message: /"tags" is of type json/ }])
    t.match(
      (await server.query('select', { table: 'home', columns: ['id'], where: { id: { $in: [[], [1]] } } })).body,
      {
        code: 'parse-failed',
        path: '$.args.where.id.$in[0]',
      },
    )
  })

  await t.test('bigint and numeric keep their digits', async (t) => {
    t.same((await ask('{ thing(order_by: {id: asc}) { id big bigs exact } }')).data.thing, [
      { id: 1, big: '9007199254740993', bigs: ['1', '9007199254740993'], exact: '1.50' },
      { id: 2, big: '2', bigs: null, exact: '0.1' },
    ])
    t.same(
      (await ask('{ thing_aggregate { aggregate { count sum { id big exact } max { big } avg { id } } } }')).data
        .thing_aggregate.aggregate,
      {
        count: 2,
        sum: { id: '3', big: '9007199254740995', exact: '1.60' },
        max: { big: '9007199254740993' },
        avg: { id: 1.5 },
      },
    )
    t.same(
      (
        await ask(
          'mutation { update_thing(where: {big: {_eq: "2"}}, _inc: {big: "1"}) { affected_rows returning { big } } }',
        )
      ).data.update_thing,
      {
        affected_rows: 1,
        returning: [{ big: '3' }],
      },
    )
    const alpha = await server.fetch('/v1alpha1/graphql', {
      method: 'POST',
      body: '{"query":"{ thing(where: {id: {_eq: 1}}) { big } }"}',
    })
    t.match(alpha.text, '9007199254740993}')
    const introspected = (await ask(getIntrospectionQuery())).data as IntrospectionQuery
    t.match(printSchema(buildClientSchema(introspected)), /data\(path: String\): jsonb\n/)
  })
})
