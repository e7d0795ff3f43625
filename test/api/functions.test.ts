import { buildClientSchema, getIntrospectionQuery, type IntrospectionQuery, printSchema } from 'graphql'
import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, name text not null);
insert into author (name) values ('Ann'), ('Bob'), ('Cid');
create type mood as enum ('calm', 'wild');
create type place as (street text, no int);
create domain positive as int check (value > 0);
create function add(a int, b bigint default 10) returns bigint language sql immutable as 'select a + b';
create function moods() returns setof mood language sql stable as $$ values ('calm'::mood), ('wild'), (null) $$;
create function pairs(n int) returns setof int[] language sql stable as $$ values (array[1]), (array[1, n]) $$;
create function home(street text, no positive default 7) returns place language sql stable as $$ select street, no::int where street <> '' $$;
create function places(n int) returns setof place language sql stable rows 5 as $$ select 'street ' || i, i from generate_series(1, n) i $$;
create function divide(a int, b int, out quotient int, out remainder int) language sql immutable as $$ select a / b, a % b $$;
create function shift(inout x int, inout y int default null) language sql immutable as $$ select x + 1, y + 1 $$;
create function counted(n int) returns table (n int) language sql stable as $$ select generate_series(1, n) $$;
create function authors() returns table (id int, name text) language sql stable as $$ select id, name from author $$;
create function longest(text, variadic text[]) returns text language sql immutable as
  $$ select x from unnest($1 || $2) x order by length(x) desc, x limit 1 $$;
create function most(variadic all_of numeric[]) returns numeric language sql immutable as $$ select max(x) from unnest(all_of) x $$;
create function whoami(session json) returns json language sql stable as $$ select session $$;
create function add_author(name text) returns int language sql as $$ insert into author (name) values (name) returning id $$;
create function rename_author(id int, name text, out was text, out now text) language sql as
  $$ update author a set name = rename_author.name from author b where a.id = rename_author.id and b.id = a.id returning b.name, a.name $$;
create function forget(id int) returns void language sql as $$ delete from author where author.id = forget.id $$;
create function refuse(a int) returns int language plpgsql as $$ begin raise exception 'no %', a using errcode = '22023'; end $$;
create procedure pay(id int, inout left_over numeric, inout note text default 'x') language plpgsql as
  $$ begin insert into author (name) values ('paid ' || id); left_over := left_over - 1.50; end $$;
create procedure quiet(name text) language sql as $$ insert into author (name) values (name) $$;
create procedure committing() language plpgsql as $$ begin commit; end $$;
create function anything(a anyelement) returns anyelement language sql as 'select a';
create function loose() returns record language sql as 'select 1, 2';
create function twins(out column2 text, out int) language sql immutable as $$ select 'a', 1 $$;
create function fires() returns trigger language plpgsql as 'begin return new; end';
create aggregate total(int) (sfunc = int4pl, stype = int);
create function variant(a int) returns int language sql as 'select 1';
create function variant(a text) returns int language sql as 'select 1';
create function author_list() returns setof author language sql stable as 'select * from author';
create function nap() returns int language plpgsql as $$ begin perform pg_sleep(60); return 1; end $$;
create function dear() returns int language sql immutable cost 1e11 as 'select 1';
create function long() returns table (n int) language sql stable rows 1e10 as 'select 1';
create table places_result (id int primary key);
create function nothing() returns int language sql stable as 'select null::int';
`
const TRACKED =
  `add moods pairs home places divide shift counted authors most whoami add_author rename_author forget refuse pay
  quiet committing author_list nap nothing dear long longest`.split(/\s+/)

tap.test('functions that return values, composites and columns', async (t) => {
  const server = await testServer(t, { config: { database: { roleTimeoutMs: { hasty: 500 } } } })
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    { type: 'track_table', args: 'author' },
    { type: 'track_table', args: 'places_result' },
    ...TRACKED.map((name) => ({
      type: 'track_function',
      args: name === 'whoami' ? { function: name, configuration: { session_argument: 'session' } } : name,
    })),
    ...['add', 'places', 'divide', 'add_author', 'refuse', 'author_list', 'dear', 'long'].map((name) => ({
      type: 'create_function_permission',
      args: { function: name, role: 'user' },
    })),
  ])
  const user: As = { role: 'user', variables: { 'x-service-user-id': '2' } }
  const call = (name: string, args: object = {}, more: object = {}, as?: As) =>
    server.query('call', { function: name, arguments: args, ...more }, as)
  const answers = async (name: string, args: object = {}, more: object = {}, as?: As) => {
    const { status, body, text } = await call(name, args, more, as)
    if (status !== 200) throw new Error(text)
    return body
  }
  const refusal = async (name: string, args: object = {}, more: object = {}, as?: As) => {
    const { status, body } = await call(name, args, more, as)
    return { status, ...body }
  }

  await t.test('values', async (t) => {
    t.same(await answers('add', { a: 1 }), 11)
    t.same(await answers('nothing'), null)
    t.same(await answers('add', { a: 1, b: null }), null)
    t.same(await answers('moods'), ['calm', 'wild', null])
    t.same(await answers('moods', {}, { where: { value: { $neq: 'calm' } } }), ['wild'])
    t.same(await answers('pairs', { n: 2 }, { order_by: ['-value'], limit: 1 }), [[1, 2]])
    t.same(await answers('pairs', { n: 2 }), [[1], [1, 2]])
    t.same(await answers('longest', { arg_1: 'a', arg_2: ['b', 'ccc'] }), 'ccc')
    t.equal((await call('most', { all_of: [1, '12345678901234567.5'] })).text, '12345678901234567.5')
  })

  await t.test('composites, output arguments and returned columns', async (t) => {
    t.same(await answers('home', { street: 'High' }), { street: 'High', no: 7 })
    t.same(await answers('home', { street: '' }), null)
    t.same(await answers('home', { street: 'High' }, { columns: ['no'] }), { no: 7 })
    t.same(await answers('places', { n: 3 }, { columns: ['no'], where: { no: { $gt: 1 } }, order_by: ['-no'] }), [
      { no: 3 },
      { no: 2 },
    ])
    t.same(await answers('places', { n: 3 }, { columns: [{ sum: 'no' }, { count: '*' }] }), [{ sum_no: 6, count: 3 }])
    t.same(await answers('divide', { a: 7, b: 2 }), { quotient: 3, remainder: 1 })
    t.same(await answers('shift', { x: 1 }), { x: 2, y: null })
    t.same(await answers('counted', { n: 2 }), [{ n: 1 }, { n: 2 }])
    t.same(await answers('authors', {}, { where: { name: { $like: 'B%' } } }), [{ id: 2, name: 'Bob' }])
    t.same(await answers('author_list', {}, { columns: ['name'], limit: 1 }), [{ name: 'Ann' }])
  })

  await t.test('streams, other formats, bulks, explain', async (t) => {
    t.same((await answers('places', { n: 2000 })).length, 2000)
    const asks = (accept: string, name: string, args: object) =>
      server.fetch('/v1/query', {
        method: 'POST',
        headers: { accept },
        body: JSON.stringify({ type: 'call', args: { function: name, arguments: args } }),
      })
    t.equal((await asks('application/x-ndjson', 'moods', {})).text, '"calm"\n"wild"\nnull\n')
    t.equal((await asks('application/x-ndjson', 'divide', { a: 7, b: 2 })).text, '{"quotient":3,"remainder":1}\n')
    t.equal((await asks('text/csv', 'places', { n: 1 })).text, 'street,no\r\nstreet 1,1\r\n')
    t.equal((await asks('text/csv', 'add_author', { name: 'Csv' })).status, 406)
    const { plans } = (
      await server.fetch('/v1/query/explain', {
        method: 'POST',
        body: JSON.stringify({ query: { type: 'call', args: { function: 'places', arguments: { n: 1 } } } }),
      })
    ).body
    t.match(plans.join('\n'), /Function Scan on generate_series/)
    const explained = await server.fetch('/v1/query/explain', {
      method: 'POST',
      body: JSON.stringify({ query: { type: 'call', args: { function: 'add_author', arguments: { name: 'x' } } } }),
    })
    t.match(explained.body, { path: '$.query.args.function', code: 'unexpected-payload' })
    t.same(
      await server.must('bulk', [
        { type: 'call', args: { function: 'add', arguments: { a: 1 } } },
        { type: 'call', args: { function: 'quiet', arguments: { name: 'Dan' } } },
        { type: 'count', args: { table: 'author', where: { name: 'Dan' } } },
      ]),
      [11, null, { count: 1 }],
    )
  })

  await t.test('changes: called once, whatever is selected of the result', async (t) => {
    const id = await answers('add_author', { name: 'Eve' })
    t.type(id, 'number')
    t.same(await answers('rename_author', { id, now: 'x' }).catch(() => 'refused'), 'refused')
    t.same(await answers('rename_author', { id, name: 'Eva' }, { columns: ['now'] }), { now: 'Eva' })
    t.same(await answers('forget', { id }), null)
    t.same(await server.must('count', { table: 'author', where: { id } }), { count: 0 })
    t.same(await answers('pay', { id: 7, left_over: '10.00' }), { left_over: 8.5, note: 'x' })
    t.same(await answers('quiet', { name: 'quiet' }), null)
    t.same(await server.must('count', { table: 'author', where: { name: { $in: ['paid 7', 'quiet'] } } }), { count: 2 })
    t.match(await refusal('committing'), {
      status: 400,
      code: 'postgres-error',
      error: /invalid transaction termination/,
    })
  })

  await t.test('session variables', async (t) => {
    await server.must('create_function_permission', { function: 'whoami', role: 'user' })
    t.match(await answers('whoami', {}, {}, user), { 'x-service-user-id': '2' })
    t.match(await refusal('whoami', { session: {} }, {}, user), { path: '$.args.arguments.session' })
    await server.must('drop_function_permission', { function: 'whoami', role: 'user' })
  })

  await t.test('mistakes have a path', async (t) => {
    t.match(await refusal('add', { a: 'x' }), { status: 400, path: '$.args.arguments.a' })
    t.match(await refusal('add', { a: 1, c: 1 }), { path: '$.args.arguments.c', error: /unexpected key "c"/ })
    t.match(await refusal('add'), { path: '$.args.arguments', error: /"a" is missing/ })
    t.match(await refusal('add', { a: 1 }, { columns: ['x'] }), { path: '$.args.columns' })
    t.match(await refusal('add', { a: 1 }, { limit: 1 }), { path: '$.args', error: /does not return a list/ })
    t.match(await refusal('places', { n: 1 }, { columns: ['nr'] }), { path: '$.args.columns[0]' })
    t.match(await refusal('places', { n: 1 }, { after: { no: 1 } }), { path: '$.args.after' })
    t.match(await server.query('call', { function: 'add', arguments: 1 }), { body: { path: '$.args.arguments' } })
    t.match(await refusal('ad'), { error: /did you mean "add"/ })
    t.match(await refusal('author', {}, {}, user), { error: /"author"$/ }, 'nothing that the role may not call')
    t.match(await refusal('divid', {}, {}, user), { error: /did you mean "divide"/ })
    t.match(await refusal('missing'), { status: 400, path: '$.args.function', code: 'not-exists' })
    t.match(await refusal('refuse', { a: 3 }), { status: 400, error: /no 3/ })
    await server.must('create_function_permission', { function: 'nap', role: 'hasty' })
    t.match(await refusal('nap', {}, {}, { role: 'hasty' }), { status: 504, code: 'timeout' })
    t.match(await refusal('refuse', { a: 3 }, {}, user), { status: 400, error: /could not evaluate/ })
  })

  await t.test('a call has the price that its function declares', async (t) => {
    for (const name of ['dear', 'long']) {
      t.match(await refusal(name, {}, {}, user), { status: 400, error: /may cost about \d+ points/ })
    }
    t.same(await answers('long', {}, { limit: 3 }, user), [{ n: 1 }])
    t.same(await answers('dear'), 1, 'an admin')
  })

  await t.test('track_function says what cannot be tracked', async (t) => {
    const track = (name: string) => server.query('track_function', name).then(({ body }) => body)
    t.match(await track('anything'), { code: 'not-supported', error: /anyelement/ })
    t.match(await track('loose'), { code: 'not-supported', error: /declare their columns/ })
    t.match(await track('twins'), { code: 'not-supported', error: /two columns named "column2"/ })
    t.match(await track('fires'), { code: 'not-supported', error: /returns trigger/ })
    t.match(await track('total'), { code: 'not-supported', error: /is an aggregate/ })
    t.match(await track('variant'), { code: 'not-supported', error: /overloaded/ })
    t.match(await track('missing'), { code: 'not-exists' })
  })

  await t.test('a role cannot tell a function that it may not call from none', async (t) => {
    t.same(await answers('add', { a: 1 }, {}, user), 11)
    t.same(await answers('divide', { a: 5, b: 3 }, {}, user), { quotient: 1, remainder: 2 })
    t.same(await answers('places', { n: 1 }, { columns: [{ count: '*' }] }, user), [{ count: 1 }])
    t.type(await answers('add_author', { name: 'Fay' }, {}, user), 'number')
    for (const name of ['authors', 'forget', 'pay', 'author_list', 'variant']) {
      const [own, none] = [await refusal(name, { n: 1 }, {}, user), await refusal('missing', { n: 1 }, {}, user)]
      t.equal(own.status, 400)
      t.same(JSON.stringify(own).replaceAll(name, 'missing'), JSON.stringify(none))
    }
    t.match(await server.query('select', { table: 'place', columns: ['*'] }, user), { status: 400 })
  })

  await t.test('templates', async (t) => {
    const create = (name: string, args: object) =>
      server.must('create_query_template', { name, template: { type: 'call', args } })
    await create('sum', { function: 'add', arguments: { a: { param: 'a' }, b: { param: 'b', default: 5 } } })
    await create('streets', {
      function: 'places',
      arguments: { n: { param: 'n' } },
      columns: ['street'],
      where: { no: { $gte: { param: 'from', default: 1 } } },
      limit: { param: 'limit', default: 10 },
    })
    await create('quotient', { function: 'divide', arguments: { a: { param: 'a' }, b: 2 } })
    await create('join', { function: 'add_author', arguments: { name: { param: 'name' } } })
    t.same((await server.fetch('/v1/template/sum?a=2', {}, user)).body, 7)
    t.same((await server.fetch('/v1/template/streets?n=3&from=3', {}, user)).body, [{ street: 'street 3' }])
    t.match((await server.fetch('/v1/template/sum?a=x', {}, user)).body, { code: /./, path: /a$/ })
    t.type((await server.query('execute_query_template', { name: 'join', args: { name: 'Gil' } }, user)).body, 'number')
    const wrong = await server.query('create_query_template', {
      name: 'wrong',
      template: { type: 'call', args: { function: 'add', arguments: { a: true } } },
    })
    t.match(wrong.body, { path: /arguments\.a$/ })
    const { paths } = (await server.fetch('/v1/openapi.json')).body
    const schema = (name: string) =>
      paths[`/v1/template/${name}`].post.responses['200'].content['application/json'].schema
    t.same(schema('sum'), { type: ['integer', 'null'], format: 'int64' })
    t.match(schema('streets'), { type: 'array', items: { properties: { street: { type: ['string', 'null'] } } } })
    t.match(schema('quotient'), { type: 'object', properties: { quotient: { type: ['integer', 'null'] } } })
    t.equal(paths['/v1/template/join'].get, undefined)
    const asked = paths['/v1/template/sum'].get.parameters
    t.match(asked[1], { name: 'a', required: true, schema: { type: ['integer', 'null'], format: 'int32' } })
    t.match((await server.query('untrack_function', 'add')).body, { code: 'dependency-error' })
    const drop = { sql: 'alter type place drop attribute street' }
    t.match((await server.query('run_sql', drop)).body, { code: 'dependency-error', error: /streets/ })
  })

  await t.test('GraphQL: values, objects and lists of them', async (t) => {
    const ask = async (query: string, variables?: object, as?: As) => {
      const body = JSON.stringify({ query, variables })
      return (await server.fetch('/v1/graphql', { method: 'POST', body }, as)).body
    }
    t.same(
      (
        await ask(
          `query ($n: Int!) { add(args: {a: $n}) moods pairs(args: {n: 2}) home(args: {street: "High"}) { no street __typename }
             places(args: {n: 3}, where: {no: {_gt: 1}}, order_by: {no: desc}, limit: 1) { no }
             divide(args: {a: 7, b: 2}) { quotient } none: home(args: {street: ""}) { no } nothing author_list(limit: 1) { name } }`,
          { n: 1 },
        )
      ).data,
      {
        add: 11,
        moods: ['calm', 'wild', null],
        pairs: [[1], [1, 2]],
        home: { no: 7, street: 'High', __typename: 'home_result' },
        places: [{ no: 3 }],
        divide: { quotient: 3 },
        none: null,
        nothing: null,
        author_list: [{ name: 'Ann' }],
      },
    )
    t.match(
      await ask(
        'mutation { add_author(args: {name: "Hal"}) pay(args: {id: 8, left_over: 2}) { left_over } quiet(args: {name: "q"}) }',
      ),
      { data: { add_author: Number, pay: { left_over: 0.5 }, quiet: null } },
    )
    const long = await ask('{ places(args: {n: 3000}) { no } moods add(args: {a: 1}) }')
    t.equal(long.data.places.length, 3000)
    t.same([long.data.moods, long.data.add], [['calm', 'wild', null], 11])
    t.match(await ask('{ add_author(args: {name: "x"}) }'), { errors: [{ message: /add_author/ }] })
    t.same((await ask('{ add(args: {a: 1}) }', {}, user)).data, { add: 11 })
    t.match(await ask('{ authors { id } }', {}, user), { errors: [{ message: /authors/ }] })
    const introspected = (await ask(getIntrospectionQuery(), {}, user)).data as IntrospectionQuery
    const sdl = printSchema(buildClientSchema(introspected))
    t.match(sdl, /add\(args: add_args!\): bigint\n/)
    t.match(sdl, /divide\(args: divide_args!\): divide_result\n/)
    t.match(sdl, /type places_result \{\n {2}street: String\n {2}no: Int\n\}/)
    t.match(sdl, /add_author\(args: add_author_args!\): Int/)
    for (const hidden of ['moods', 'pay', 'home', 'counted']) t.notMatch(sdl, new RegExp(hidden))
    const all = (await ask(getIntrospectionQuery())).data as IntrospectionQuery
    t.match(printSchema(buildClientSchema(all)), /moods: \[mood\]!/)
    // A table has the name that the type of `places` would have.
    t.match(printSchema(buildClientSchema(all)), /type places_result_ \{\n {2}street: String\n/)
  })
})
