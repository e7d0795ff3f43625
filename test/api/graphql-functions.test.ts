import { buildClientSchema, getIntrospectionQuery, type IntrospectionQuery, printSchema } from 'graphql'
import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, first_name text not null, last_name text not null, mentor_id int references author);
create table article (id serial primary key, title text not null, rating int not null, author_id int not null references author);
create table secret (id int primary key);
insert into author (first_name, last_name, mentor_id) values ('Ann', 'Lee', null), ('Bob', 'Ray', 1), ('Cid', 'Fox', 1);
insert into article (title, rating, author_id) select 'article ' || n, n, 1 + n % 3 from generate_series(1, 9) n;
create function full_name(a author, sep text default ' ') returns text language sql stable as
  $$ select a.first_name || sep || a.last_name $$;
create function initials(a author) returns text language sql immutable as $$ select left(a.first_name, 1) || left(a.last_name, 1) $$;
create function best(a author, low int) returns setof article language sql stable as
  $$ select * from article where author_id = a.id and rating >= low $$;
create function latest(author) returns setof article language sql stable as
  $$ select * from article where author_id = $1.id and id >= 5 $$;
create function mentor_of(a author) returns author language sql stable as $$ select m from author m where m.id = a.mentor_id $$;
create function seen_by(session json, a author) returns text language sql stable as
  $$ select a.first_name || ' by ' || (session ->> 'x-service-user-id') $$;
create function articles_like(word text, low int default 0) returns setof article language sql stable as
  $$ select * from article where title like '%' || word || '%' and rating >= low order by id $$;
create function first_author() returns author language sql stable as $$ select * from author order by id limit 1 $$;
create function no_author() returns author language sql stable as $$ select null::author $$;
create function mine(session jsonb) returns setof article language sql stable as
  $$ select * from article where author_id = (session ->> 'x-service-user-id')::int $$;
create function add_article(title text, author_id int) returns setof article language sql volatile as
  $$ insert into article (title, rating, author_id) values (title, 0, author_id) returning * $$;
create function rated(low int) returns setof article language plpgsql stable as
  $$ begin if low < 0 then raise exception 'no such rating'; end if; return query select * from article where rating >= low; end $$;
create function twice(int, low int default 2, jsonb default '{}') returns setof article language sql stable as
  $$ select * from article where id in ($1, ($3 ->> 'x-service-user-id')::int) and rating >= low $$;
create function variant(a int) returns setof article language sql stable as $$ select * from article $$;
create function variant(a text) returns setof article language sql stable as $$ select * from article $$;
create function anything(a anyelement) returns setof article language sql stable as $$ select * from article $$;
create function outs(a int) returns record language sql stable as $$ select 1, 2 $$;
create function secrets() returns setof secret language sql stable as $$ select * from secret $$;
create function noisy(a author) returns text language sql volatile as $$ select '' $$;
create function plain() returns setof article language sql stable as $$ select * from article $$;
create schema lib;
create function lib.all_articles() returns setof article language sql stable as $$ select * from article $$;`

const everything = { columns: '*', filter: {} }

tap.test('functions and computed fields in GraphQL', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const field = (name: string, fn: string, more: object = {}) => ({
    type: 'add_computed_field',
    args: { table: 'author', name, definition: { function: fn, ...more } },
  })
  await server.must('bulk', [
    ...['author', 'article'].map((args) => ({ type: 'track_table', args })),
    field('full_name', 'full_name'),
    field('initials', 'initials'),
    field('best', 'best'),
    field('latest', 'latest'),
    field('mentor_of', 'mentor_of', { table_argument: 'a' }),
    field('seen_by', 'seen_by', { table_argument: 'a', session_argument: 'session' }),
    ...[
      'articles_like',
      'first_author',
      'no_author',
      'add_article',
      'rated',
      { schema: 'lib', name: 'all_articles' },
    ].map((args) => ({ type: 'track_function', args })),
    {
      type: 'track_function',
      args: { function: 'mine', configuration: { session_argument: 'session' }, comment: 'own' },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'author',
        role: 'user',
        permission: { ...everything, computed_fields: ['full_name', 'best', 'seen_by'] },
      },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'article',
        role: 'user',
        permission: { columns: ['id', 'title', 'rating'], filter: { rating: { $lte: 8 } }, limit: 3 },
      },
    },
    {
      type: 'create_object_relationship',
      args: { table: 'author', name: 'mentor', using: { foreign_key_constraint_on: 'mentor_id' } },
    },
    { type: 'create_select_permission', args: { table: 'author', role: 'counter', permission: everything } },
    {
      type: 'create_select_permission',
      args: {
        table: 'article',
        role: 'counter',
        permission: { columns: ['rating'], filter: { rating: { $lte: 8 } }, allow_aggregations: true },
      },
    },
    {
      type: 'track_function',
      args: { function: 'twice', configuration: { session_argument: 'arg_2' } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'author', role: 'guest', permission: { ...everything, computed_fields: ['best'] } },
    },
    ...['articles_like', 'mine', 'add_article', 'twice'].map((name) => ({
      type: 'create_function_permission',
      args: { function: name, role: 'user' },
    })),
    { type: 'create_function_permission', args: { function: 'articles_like', role: 'guest' } },
  ])
  const user: As = { role: 'user', variables: { 'x-service-user-id': '2' } }
  const guest: As = { role: 'guest' }
  const ask = (query: string, variables?: object, as?: As) =>
    server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)
  const data = async (query: string, variables?: object, as?: As) => {
    const { body, text } = await ask(query, variables, as)
    if (!body.data) throw new Error(text)
    return body.data
  }
  const failure = async (query: string, variables?: object, as?: As) => {
    const { body, text } = await ask(query, variables, as)
    if (!body.errors) throw new Error(text)
    const { message, extensions } = body.errors[0]
    return { message, ...extensions }
  }
  const sdl = async (as?: As) => {
    const introspected = (await data(getIntrospectionQuery(), undefined, as)) as IntrospectionQuery
    return printSchema(buildClientSchema(introspected))
  }

  await t.test('computed values: selected, with arguments, compared, sorted by', async (t) => {
    t.same(
      await data(
        '{ author(order_by: {full_name: desc}, limit: 2) { full_name dashed: full_name(args: {sep: "-"}) initials } }',
      ),
      {
        author: [
          { full_name: 'Cid Fox', dashed: 'Cid-Fox', initials: 'CF' },
          { full_name: 'Bob Ray', dashed: 'Bob-Ray', initials: 'BR' },
        ],
      },
    )
    t.same(
      await data(
        'query ($s: String, $w: String!) { author(where: {full_name: {_ilike: $w}}) { full_name(args: {sep: $s}) } }',
        {
          s: '+',
          w: '%ray',
        },
      ),
      { author: [{ full_name: 'Bob+Ray' }] },
    )
    t.same(
      await data('{ author(where: {initials: {_is_null: false, _in: ["AL"]}}) { id full_name(args: {sep: null}) } }'),
      {
        author: [{ id: 1, full_name: null }],
      },
    )
    t.same(await data('{ author(where: {_not: {full_name: {_eq: "Ann Lee"}}}, order_by: {id: asc}) { id } }'), {
      author: [{ id: 2 }, { id: 3 }],
    })
  })

  await t.test('computed rows, with arguments and what a list takes', async (t) => {
    t.same(
      await data(
        '{ author(order_by: {id: asc}) { id best(args: {low: 5}, order_by: {rating: desc}, limit: 1) { title rating } mentor_of { id full_name } } }',
      ),
      {
        author: [
          { id: 1, best: [{ title: 'article 9', rating: 9 }], mentor_of: null },
          { id: 2, best: [{ title: 'article 7', rating: 7 }], mentor_of: { id: 1, full_name: 'Ann Lee' } },
          { id: 3, best: [{ title: 'article 8', rating: 8 }], mentor_of: { id: 1, full_name: 'Ann Lee' } },
        ],
      },
    )
    t.match(await failure('{ author { best(args: {}) { id } } }'), {
      code: 'unexpected-payload',
      message: /"low" is missing/,
    })
    t.match(await failure('{ author { best { id } } }'), { code: 'validation-failed' })
  })

  await t.test('rows can be sorted by aggregates of computed rows that need no arguments', async (t) => {
    const ids = async (order: string, as?: As) =>
      (await data(`{ author(order_by: [${order}, {id: asc}]) { id } }`, undefined, as)).author.map(
        ({ id }: { id: number }) => id,
      )
    t.same(await ids('{latest_aggregate: {max: {rating: desc}}}'), [1, 3, 2])
    t.same(await ids('{latest_aggregate: {count: asc}}'), [2, 1, 3])
    t.same(await ids('{mentor: {latest_aggregate: {max: {rating: desc_nulls_last}}}}'), [2, 3, 1])
    // Article 9 is hidden from this role.
    t.same(await ids('{latest_aggregate: {max: {rating: desc}}}', { role: 'counter' }), [3, 2, 1])
    t.match(await failure('{ author(order_by: {latest_aggregate: {max: {rating: desc}}}) { id } }', {}, user), {
      message: /"latest_aggregate" is not defined/,
    })
    t.match(await failure('{ author(order_by: {best_aggregate: {count: desc}}) { id } }'), {
      code: 'validation-failed',
    })
  })

  await t.test('arguments without names', async (t) => {
    // PostgreSQL cannot leave out an argument before another one without a name.
    t.match(await failure('{ twice(args: {arg_1: 3}) { id } }', {}, user), {
      code: 'unexpected-payload',
      message: /"low" is missing/,
    })
    t.same(await data('{ twice(args: {arg_1: 3, low: 1}) { id } }', {}, user), { twice: [{ id: 2 }, { id: 3 }] })
    t.notMatch(await sdl(), /arg_2/)
  })

  await t.test('root fields: arguments, defaults, conditions, aggregates', async (t) => {
    t.same(
      await data(
        '{ articles_like(args: {word: "article"}, where: {rating: {_gt: 3}}, order_by: {id: desc}, limit: 2) { id __typename } }',
      ),
      {
        articles_like: [
          { id: 9, __typename: 'article' },
          { id: 8, __typename: 'article' },
        ],
      },
    )
    t.same(
      await data('query ($a: articles_like_args!) { articles_like(args: $a) { id } }', { a: { word: '9', low: 9 } }),
      {
        articles_like: [{ id: 9 }],
      },
    )
    t.same(
      await data(
        '{ articles_like_aggregate(args: {word: "e", low: 7}) { aggregate { count max { rating } } nodes { id } } lib_all_articles(limit: 1, order_by: {id: asc}) { id } }',
      ),
      {
        articles_like_aggregate: {
          aggregate: { count: 3, max: { rating: 9 } },
          nodes: [{ id: 7 }, { id: 8 }, { id: 9 }],
        },
        lib_all_articles: [{ id: 1 }],
      },
    )
    t.same(await data('{ first_author { id full_name } no_author { id } }'), {
      first_author: { id: 1, full_name: 'Ann Lee' },
      no_author: null,
    })
    t.match(await failure('{ articles_like(args: {low: 1}) { id } }'), { message: /"word" is missing/ })
    t.match(await failure('{ articles_like(args: {word: "a", other: 1}) { id } }'), { code: 'validation-failed' })
    t.match(await failure('{ articles_like(args: {word: "a", low: "x"}) { id } }'), { code: 'validation-failed' })
    t.match(await failure('query ($n: Int) { rated(args: {low: $n}) { id } }', { n: -1 }), {
      message: /no such rating/,
    })
    t.match(await failure('query ($n: Int) { rated(args: {low: $n}) { id } }', { n: 1e10 }), {
      path: /variables|args/,
    })
  })

  await t.test('a role sees what it was given, and its row filter and limit hold', async (t) => {
    t.same(
      await data(
        '{ articles_like(args: {word: "e", low: 5}) { id } mine { id } author_by_pk(id: 2) { full_name seen_by best(args: {low: 0}) { id } } }',
        {},
        user,
      ),
      {
        articles_like: [{ id: 5 }, { id: 6 }, { id: 7 }],
        mine: [{ id: 1 }, { id: 4 }, { id: 7 }],
        author_by_pk: { full_name: 'Bob Ray', seen_by: 'Bob by 2', best: [{ id: 1 }, { id: 4 }, { id: 7 }] },
      },
    )
    for (const query of [
      '{ author { initials } }',
      '{ author(where: {initials: {_eq: "AL"}}) { id } }',
      '{ author(order_by: {initials: asc}) { id } }',
      '{ first_author { id } }',
      '{ rated(args: {low: 0}) { id } }',
      '{ articles_like_aggregate(args: {word: "e"}) { aggregate { count } } }',
      '{ articles_like(args: {word: "e"}) { author_id } }',
      '{ mine(args: {session: "{}"}) { id } }',
    ]) {
      t.equal((await failure(query, {}, user)).code, 'validation-failed', query)
    }
    // The function is given to the role, the table of its rows is not.
    t.equal((await failure('{ articles_like(args: {word: "e"}) { id } }', {}, guest)).code, 'validation-failed')
    t.equal((await failure('{ author { best(args: {low: 0}) { id } } }', {}, guest)).code, 'validation-failed')
    t.notMatch(await sdl(guest), /best|articles_like/)
    t.match(await sdl(user), /full_name\(args: author_full_name_args\): String\n/)
    t.match(await sdl(user), /best\(args: author_best_args!, distinct_on/)
    t.notMatch(await sdl(user), /session/)
  })

  await t.test('a volatile function is a mutation, in the transaction of the others', async (t) => {
    const count = async () =>
      (await data('{ article_aggregate { aggregate { count } } }')).article_aggregate.aggregate.count
    const before = await count()
    t.same(
      await data(
        'mutation ($t: String!) { add_article(args: {title: $t, author_id: 2}) { title rating } other: add_article(args: {title: "b", author_id: 1}) { title } }',
        { t: 'new' },
        user,
      ),
      { add_article: [{ title: 'new', rating: 0 }], other: [{ title: 'b' }] },
    )
    t.equal(await count(), before + 2)
    t.match(
      await failure(
        'mutation { a: add_article(args: {title: "c", author_id: 1}) { id } b: add_article(args: {title: "d", author_id: 99}) { id } }',
      ),
      {
        code: 'constraint-violation',
      },
    )
    t.equal(await count(), before + 2, 'both or none')
    t.equal((await failure('{ add_article(args: {title: "c", author_id: 1}) { id } }')).code, 'validation-failed')
    const got = `/v1/graphql?query=${encodeURIComponent('mutation { add_article(args: {title: "x", author_id: 1}) { id } }')}`
    t.match((await server.fetch(got)).body, { errors: [{ message: /POST/ }] })
    t.equal(await count(), before + 2, 'a GET changes nothing')
  })

  await t.test('computed fields of rows that were written', async (t) => {
    t.same(
      await data(
        'mutation { insert_author_one(object: {first_name: "Eve", last_name: "Kim"}) { full_name best(args: {low: 0}) { id } } update_author(where: {first_name: {_eq: "Eve"}}, _set: {last_name: "Zed"}) { returning { full_name } } delete_author(where: {first_name: {_eq: "Eve"}}) { returning { full_name } } }',
      ),
      {
        insert_author_one: { full_name: 'Eve Kim', best: [] },
        update_author: { returning: [{ full_name: 'Eve Zed' }] },
        delete_author: { returning: [{ full_name: 'Eve Zed' }] },
      },
    )
  })

  await t.test('definitions that do not hold are refused', async (t) => {
    const refused = async (type: string, args: unknown, message: RegExp, code: string, path: string) => {
      const { status, body } = await server.query(type, args)
      t.match({ status, ...body }, { status: 400, error: message, code }, `${type} ${JSON.stringify(args)}`)
      t.equal(body.path, path, `${type} ${JSON.stringify(args)}`)
    }
    const track = (args: unknown, message: RegExp, code: string, path: string) =>
      refused('track_function', args, message, code, path)
    await track('nothing', /no such function exists in postgres : "nothing"/, 'not-exists', '$.args')
    await track('articles_like', /already tracked/, 'already-tracked', '$.args')
    await track('variant', /overloaded/, 'not-supported', '$.args')
    await track('anything', /not plain inputs/, 'not-supported', '$.args')
    await track('nothing_there', /no such function/, 'not-exists', '$.args')
    await track('outs', /declare their columns/, 'not-supported', '$.args')
    await track('secrets', /tracked table/, 'not-supported', '$.args')
    await track(
      { function: 'plain', configuration: { session: 'x' } },
      /unexpected key/,
      'unexpected-payload',
      '$.args.configuration.session',
    )
    await refused('untrack_function', 'secrets', /not tracked/, 'not-exists', '$.args.function')
    await refused(
      'create_function_permission',
      { function: 'mine', role: 'user' },
      /already exists/,
      'already-exists',
      '$.args',
    )
    await refused(
      'drop_function_permission',
      { function: 'mine', role: 'nobody' },
      /does not exist/,
      'not-exists',
      '$.args',
    )
    const add = (args: object, message: RegExp, code: string, path: string) =>
      refused('add_computed_field', { table: 'author', name: 'x', ...args }, message, code, path)
    const at = '$.args.definition.function'
    await add({ definition: { function: 'nothing' } }, /no such function/, 'not-exists', at)
    await add({ definition: { function: 'noisy' } }, /volatile/, 'not-supported', at)
    await add({ definition: { function: 'articles_like' } }, /not a row of "author"/, 'unexpected-payload', at)
    await add({ definition: { function: 'seen_by' } }, /not a row of "author"/, 'unexpected-payload', at)
    await add(
      { definition: { function: 'full_name', session_argument: 'sep' } },
      /json/,
      'unexpected-payload',
      '$.args.definition.session_argument',
    )
    await add(
      { definition: { function: 'full_name', session_argument: 'y' } },
      /no argument "y"/,
      'not-exists',
      '$.args.definition.session_argument',
    )
    await add(
      { name: 'first_name', definition: { function: 'full_name' } },
      /already exists/,
      'already-exists',
      '$.args.name',
    )
    await add(
      { name: 'full_name', definition: { function: 'full_name' } },
      /already exists/,
      'already-exists',
      '$.args.name',
    )
    await refused(
      'create_select_permission',
      { table: 'author', role: 'x', permission: { ...everything, computed_fields: ['y'] } },
      /"y" does not exist/,
      'not-exists',
      '$.args.permission.computed_fields[0]',
    )
  })

  await t.test('permissions to call functions can be inferred', async (t) => {
    const config = { plugins: { graphql: { inferFunctionPermissions: true } } }
    const inferring = await testServer(t, { databaseUrl: server.databaseUrl, config })
    const ids = async (query: string, as: As, on = inferring) => {
      const { body } = await on.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)
      return body.errors?.[0].extensions.code ?? Object.values(body.data)
    }
    const stable = '{ first_author { id } }'
    t.same(await ids(stable, guest, server), 'validation-failed')
    t.same(await ids(stable, guest), [{ id: 1 }])
    // This role has no permission on the table.
    t.same(await ids('{ rated(args: {low: 9}) { id } }', guest), 'validation-failed')
    t.same(await ids(stable, { role: 'nobody' }), 'validation-failed')
    const rated = '{ rated(args: {low: 8}) { rating } }'
    t.same(await ids(rated, { role: 'counter' }), [[{ rating: 8 }]])
    // A volatile function still needs a permission.
    const write = 'mutation { add_article(args: {title: "x", author_id: 1}) { rating } }'
    t.same(await ids(write, { role: 'counter' }), 'validation-failed')
    // A function that returns no rows of a table needs one, too.
    await inferring.must('run_sql', { sql: `create function one() returns int language sql immutable as 'select 1'` })
    await inferring.must('track_function', 'one')
    t.same(await ids('{ one }', { role: 'admin' }), [1])
    t.same(await ids('{ one }', guest), 'validation-failed')
    t.match((await inferring.query('call', { function: 'one' }, guest)).body, { code: 'permission-denied' })
    await inferring.must('untrack_function', 'one')
    // After a change of the metadata, too.
    await inferring.must('create_function_permission', { function: 'rated', role: 'user' })
    t.same(await ids(stable, guest), [{ id: 1 }])
    await inferring.must('drop_function_permission', { function: 'rated', role: 'user' })
    await inferring.close()
  })

  await t.test('what is used cannot be dropped', async (t) => {
    const refused = async (type: string, args: unknown, dependents: RegExp) => {
      const { body } = await server.query(type, args)
      t.match(body, { code: 'dependency-error', error: dependents })
    }
    await refused('drop_computed_field', { table: 'author', name: 'full_name' }, /permission author\.user\.select/)
    await refused('untrack_table', { table: 'article' }, /computed-field author\.best.*function articles_like/)
    await refused('run_sql', { sql: 'drop function articles_like(text, int)' }, /function articles_like/)
    await refused('run_sql', { sql: 'drop function initials(author)' }, /computed-field author\.initials/)
    await refused(
      'run_sql',
      { sql: 'create function mine() returns setof article language sql as $$ select * from article $$' },
      /function mine/,
    )
    await server.must('run_sql', { sql: 'drop function rated(int)', cascade: true })
    t.equal((await failure('{ rated(args: {low: 1}) { id } }')).code, 'validation-failed')
  })

  await t.test('metadata goes out and comes back the same', async (t) => {
    const before = await server.must('export_metadata', {})
    t.match(before.functions, [
      { function: { schema: 'lib', name: 'all_articles' } },
      { function: 'add_article', permissions: [{ role: 'user' }] },
      { function: 'articles_like', permissions: [{ role: 'guest' }, { role: 'user' }] },
      { function: 'first_author', permissions: [] },
      { function: 'mine', configuration: { session_argument: 'session' }, comment: 'own' },
      { function: 'no_author' },
      { function: 'twice', configuration: { session_argument: 'arg_2' } },
    ])
    await server.must('replace_metadata', before)
    t.same(await server.must('export_metadata', {}), before)
    t.equal((await data('{ mine { id } }', {}, user)).mine.length, 3)
    const { functions: _, ...without } = before
    t.match((await server.query('replace_metadata', { ...without, functions: [{ function: 'nope' }] })).body, {
      code: 'not-exists',
      path: '$.args.functions[0]',
    })
    const [row] = await server.must('select', {
      table: { schema: 'svc_catalog', name: 'svc_function' },
      columns: ['function_name', { name: 'permissions', columns: ['role_name'] }],
      where: { function_name: 'mine' },
    })
    t.same(row, { function_name: 'mine', permissions: [{ role_name: 'user' }] })
  })
})

tap.test('a function that changes the database is called once, and what it did is seen', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table author (id serial primary key, gone int, "t0" text, tags text[], born date, data jsonb);
      create table article (id serial primary key, author_id int not null references author);
      alter table author drop column gone;
      create function articles(a author) returns bigint language sql stable as
        'select count(*) from article where author_id = a.id';
      create function add_author(of int) returns author language plpgsql as $$ declare made author;
        begin
          if of < 0 then return null; end if;
          insert into author (t0, tags, born, data) values ('O"Hara, (1)', '{"a b",null}', '2020-02-29', '{"a": [1.50]}') returning * into made;
          insert into article (author_id) select made.id from generate_series(1, of);
          return made;
        end $$;
      create function add_authors(of int) returns setof author language sql as
        'insert into author (t0) select n::text from generate_series(1, of) n returning *'`,
  })
  await server.must('bulk', [
    ...['author', 'article'].map((args) => ({ type: 'track_table', args })),
    {
      type: 'create_array_relationship',
      args: {
        table: 'author',
        name: 'written',
        using: { foreign_key_constraint_on: { table: 'article', column: 'author_id' } },
      },
    },
    { type: 'add_computed_field', args: { table: 'author', name: 'articles', definition: { function: 'articles' } } },
    ...['add_author', 'add_authors'].map((args) => ({ type: 'track_function', args })),
    {
      type: 'create_select_permission',
      args: { table: 'author', role: 'user', permission: { columns: ['t0'], filter: { written: { id: { $gt: 0 } } } } },
    },
    ...['add_author', 'add_authors'].map((name) => ({
      type: 'create_function_permission',
      args: { function: name, role: 'user' },
    })),
  ])
  const ask = async (query: string, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)).body

  t.same(await ask('mutation { add_author(args: {of: 2}) { t0 tags born data articles written { id } } }'), {
    data: {
      add_author: {
        t0: 'O"Hara, (1)',
        tags: ['a b', null],
        born: '2020-02-29',
        data: { a: [1.5] },
        articles: 2,
        written: [{ id: 1 }, { id: 2 }],
      },
    },
  })
  t.same(await ask('mutation { add_author(args: {of: -1}) { t0 } }'), { data: { add_author: null } })
  t.same(await ask('mutation { add_author(args: {of: 1}) { t0 } }', { role: 'user' }), {
    data: { add_author: { t0: 'O"Hara, (1)' } },
  })
  t.same(await ask('mutation { add_authors(args: {of: 2}) { t0 } }', { role: 'user' }), { data: { add_authors: [] } })
  t.same(await ask('mutation { add_authors(args: {of: 3}, limit: 0) { t0 } }'), { data: { add_authors: [] } })
  t.same(
    await ask(
      'mutation { add_authors(args: {of: 4}, where: {t0: {_neq: "2"}}, order_by: {id: desc}, limit: 2) { t0 } }',
    ),
    { data: { add_authors: [{ t0: '4' }, { t0: '3' }] } },
  )
  t.same(await ask('{ author_aggregate { aggregate { count } } }'), {
    data: { author_aggregate: { aggregate: { count: 11 } } },
  })
})
