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
create function counted(n int) returns table (n int) language sql stable as $$ select generate_series(1, n) $$;
create function add_author(name text) returns int language sql as $$ insert into author (name) values (name) returning id $$;
create procedure pay(id int, inout left_over numeric, inout note text default 'x') language plpgsql as
  $$ begin insert into author (name) values ('paid ' || id); left_over := left_over - 1.50; end $$;
create procedure quiet(name text) language sql as $$ insert into author (name) values (name) $$;
create function author_list() returns setof author language sql stable as 'select * from author';
create function dear() returns int language sql immutable cost 1e11 as 'select 1';
create function long() returns table (n int) language sql stable rows 1e10 as 'select 1';
create table places_result (id int primary key);
create function nothing() returns int language sql stable as 'select null::int';
`
const TRACKED = 'add moods pairs home places divide counted add_author pay quiet author_list nothing dear long'.split(
  ' ',
)

tap.test('functions that return values, composites and columns', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    { type: 'track_table', args: 'author' },
    { type: 'track_table', args: 'places_result' },
    ...TRACKED.map((args) => ({ type: 'track_function', args })),
    ...['add', 'places', 'divide', 'add_author', 'author_list', 'dear', 'long'].map((name) => ({
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

  await t.test('a call has the price that its function declares', async (t) => {
    for (const name of ['dear', 'long']) {
      t.match(await refusal(name, {}, {}, user), { status: 400, error: /may cost about \d+ points/ })
    }
    t.same(await answers('long', {}, { limit: 3 }, user), [{ n: 1 }])
    t.same(await answers('dear'), 1, 'an admin')
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
