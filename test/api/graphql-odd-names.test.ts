import { buildClientSchema, buildSchema, getIntrospectionQuery, validateSchema } from 'graphql'
import t from 'tap'
import { testServer } from '../kit/server.js'

t.test('what is called like a type of another table or function takes nothing from it', async (t) => {
  const server = await testServer(t)
  const tables = [
    ...['obj_rel_insert_input', 'append_input', 'sum_fields', 'aggregate_bool_exp_count'].map((end) => `author_${end}`),
    'search_args',
    'jsonb_cast_exp',
    'Int_comparison_exp',
    'st_d_within_input',
  ]
  await server.must('run_sql', {
    sql: `create type order_by as enum ('a'); create type author_bool_exp as enum ('b'); create type "Int" as enum ('c');
      create table author (id int primary key, data jsonb, o order_by default 'a', b author_bool_exp, i "Int");
      insert into author (id) values (1), (2);
      create function search(low int) returns setof author language sql stable as 'select * from author where id >= low';
      create function author_best(n text) returns setof author language sql stable as 'select * from author';
      create function best(a author, low int) returns int language sql stable as 'select low';
      create function odd("my arg" int) returns setof author language sql stable as 'select * from author';
      ${tables.map((name) => `create table "${name}" (id int primary key, author_id int references author)`).join(';')}`,
  })
  await server.must('bulk', [
    ...[...tables, 'author'].map((args) => ({ type: 'track_table', args })),
    ...['search', 'author_best', 'odd'].map((args) => ({ type: 'track_function', args })),
    { type: 'add_computed_field', args: { table: 'author', name: 'best', definition: { function: 'best' } } },
    ...tables.map((table) => ({
      type: 'create_object_relationship',
      args: { table, name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    })),
  ])
  const ask = async (query: string) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })).body

  const { data } = await ask(getIntrospectionQuery())
  t.ok(data, 'a schema')
  t.same(validateSchema(buildClientSchema(data)), [])
  t.same(validateSchema(buildSchema((await server.fetch('/v1alpha1/graphql/schema')).body.schema)), [])
  t.same(await ask('{ search(args: {low: 2}) { id o } author_best(args: {n: "x"}) { best(args: {low: 3}) } }'), {
    data: { search: [{ id: 2, o: 'a' }], author_best: [{ best: 3 }, { best: 3 }] },
  })
  t.match(await ask('{ odd { id } }'), { errors: [{ extensions: { code: 'validation-failed' } }] })
})

t.test('a key called path is a value: another value is not compiled again', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table file (path text primary key, size int); insert into file values ('7', 3)`,
  })
  await server.must('track_table', 'file')
  const size = async (path: string) => {
    const query = 'query ($path: String!) { file_by_pk(path: $path) { size } }'
    const { body } = await server.fetch('/v1/graphql', {
      method: 'POST',
      body: JSON.stringify({ query, variables: { path } }),
    })
    return body.data.file_by_pk
  }
  const compilations = async () =>
    (await server.fetch('/metrics')).text
      .split('\n')
      .filter((line) => /^rowhouse_compilations_total\{by="(process|worker)"\}/.test(line))

  t.equal(await size('a'), null)
  const before = await compilations()
  t.not(before.length, 0)
  t.same(await size('7'), { size: 3 })
  t.same(await compilations(), before)
})
