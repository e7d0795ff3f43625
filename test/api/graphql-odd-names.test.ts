import { buildClientSchema, buildSchema, getIntrospectionQuery, type GraphQLObjectType, validateSchema } from 'graphql'
import t from 'tap'
import { type As, testServer } from '../kit/server.js'

t.test('a variable may name columns that the document does not', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table town (id int primary key, name text, land text, coast boolean);
      insert into town values (1, 'Oslo', 'Norway', true), (2, 'Bergen', 'Norway', true), (3, 'Bern', 'Switzerland', false)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    {
      type: 'create_select_permission',
      args: { table: 'town', role: 'reader', permission: { columns: ['id', 'name'], filter: {} } },
    },
  ])
  const ask = async (query: string, variables: object, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body

  const lands = 'query ($by: [town_select_column!]) { town(distinct_on: $by, order_by: {id: asc}) { id } }'
  t.same(await ask(lands, { by: ['id'] }), { data: { town: [{ id: 1 }, { id: 2 }, { id: 3 }] } })
  const names = 'query ($by: [town_select_column!]) { town(distinct_on: $by) { id } }'
  t.equal((await ask(names, { by: ['land'] })).data.town.length, 2)
  const count =
    'query ($of: [town_select_column!]) { town_aggregate { aggregate { count(columns: $of, distinct: true) } } }'
  t.same(await ask(count, { of: ['land'] }), { data: { town_aggregate: { aggregate: { count: 2 } } } })
  const upsert = `mutation ($on: town_on_conflict) {
    insert_town(objects: [{id: 1, name: "Christiania"}], on_conflict: $on) { affected_rows returning { name land } } }`
  t.same(await ask(upsert, { on: { constraint: 'town_pkey', update_columns: ['name'] } }), {
    data: { insert_town: { affected_rows: 1, returning: [{ name: 'Christiania', land: 'Norway' }] } },
  })
  t.match(await ask(names, { by: ['land'] }, { role: 'reader' }), {
    errors: [{ extensions: { code: 'validation-failed', path: '$.variables.by[0]' } }],
  })
})

t.test('a view that rows cannot be deleted from is not offered for it', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table visit (town text); insert into visit values ('Oslo'), ('Oslo');
      create view towns as select town, count(*) from visit group by town; create view visits as select town from visit`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'towns' },
    { type: 'track_table', args: 'visits' },
  ])

  t.match((await server.query('delete', { table: 'towns', where: {} })).body, {
    code: 'unexpected-payload',
    error: '"towns" does not support deletes',
  })
  const { schema } = (await server.fetch('/v1alpha1/graphql/schema')).body
  t.match(schema, /delete_visits\(/)
  t.notMatch(schema, /delete_towns\(/)
  t.equal((await server.must('delete', { table: 'visits', where: {} })).affected_rows, 2)
})

t.test('the schema is valid whatever tables and columns are called', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table odd ("true" int, "false" boolean, "null" text, constraint "the key" primary key ("true"));
      create table no_name ("a b" int default 1, constraint "its key" primary key ("a b"));
      create table document (doc json)`,
  })
  await server.must(
    'bulk',
    ['odd', 'no_name', 'document'].map((args) => ({ type: 'track_table', args })),
  )
  const ask = async (query: string, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)).body

  const schema = buildClientSchema((await ask(getIntrospectionQuery())).data)
  t.same(validateSchema(schema), [])
  t.same(validateSchema(buildSchema((await server.fetch('/v1alpha1/graphql/schema')).body.schema)), [])
  t.same(await ask('mutation { insert_odd_one(object: {true: 1, false: false}) { true false null } }'), {
    data: { insert_odd_one: { true: 1, false: false, null: null } },
  })
  t.same(await ask('mutation { insert_no_name_one(object: {}) { _empty } }'), {
    data: { insert_no_name_one: { _empty: '' } },
  })
  t.match(await ask('{ odd(order_by: {true: asc}) { true } }'), { data: { odd: [{ true: 1 }] } })
  const nobody = buildClientSchema((await ask(getIntrospectionQuery(), { role: 'nobody' })).data)
  t.same(validateSchema(nobody), [])
  t.same(await ask('{ _empty }', { role: 'nobody' }), { data: { _empty: '' } })
})

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

t.test('two root fields of a table cannot have one name', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table town (id int primary key); insert into town values (1)' })
  await server.must('track_table', 'town')
  const customize = (custom_root_fields: object) =>
    server.query('set_table_customization', { table: 'town', configuration: { custom_root_fields } })

  t.match((await customize({ select: 'towns', select_aggregate: 'towns' })).body, {
    code: 'unexpected-payload',
    path: '$.args.configuration.custom_root_fields.select_aggregate',
  })
  t.equal((await customize({ select: 'town_aggregate', insert_one: 'insert_town' })).status, 200)
  const query = '{ town_aggregate { id } }'
  const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })
  t.same(body, { data: { town_aggregate: [{ id: 1 }] } })
})

t.test('a name in GraphQL that something else has is refused: one of the two would be left out', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table town (id int primary key); create table road (id int primary key);
      create view sight as select 1 as id, 1 from town;
      create function towns_of(x int) returns setof town language sql stable as 'select * from town';
      create function town(x int) returns setof town language sql stable as 'select * from town'`,
  })
  await server.must('bulk', [
    ...['town', 'road', 'sight'].map((args) => ({ type: 'track_table', args })),
    { type: 'track_function', args: 'towns_of' },
  ])
  const customize = async (configuration: object) =>
    (await server.query('set_table_customization', { table: 'road', configuration })).body
  const roots = '$.args.configuration.custom_root_fields'
  const refused = (path: string, name: string, owner: string) => ({
    code: 'unexpected-payload',
    path,
    error: `the name "${name}" is taken in GraphQL by ${owner}`,
  })

  t.same(await customize({ custom_name: 'town' }), refused('$.args.configuration.custom_name', 'town', 'table "town"'))
  t.same(
    await customize({ custom_root_fields: { select: 'town' } }),
    refused(`${roots}.select`, 'town', 'table "town"'),
  )
  t.same(
    await customize({ custom_root_fields: { insert: 'insert_town_one' } }),
    refused(`${roots}.insert`, 'insert_town_one', 'table "town"'),
  )
  t.same(
    await customize({ custom_root_fields: { select: 'towns_of' } }),
    refused(`${roots}.select`, 'towns_of', 'function "towns_of"'),
  )
  t.same((await server.query('track_function', 'town')).body, refused('$.args', 'town', 'table "town"'))
  t.same(
    (await server.query('track_function', { function: 'town', configuration: { custom_name: 'road_by_pk' } })).body,
    refused('$.args.configuration.custom_name', 'road_by_pk', 'table "road"'),
  )
  // A view without a key and without writes leaves these names to others.
  const free = { select_by_pk: 'sight_by_pk', insert: 'insert_sight' }
  t.same(await customize({ custom_name: 'street', custom_root_fields: free }), { message: 'success' })
  t.same(await customize({ custom_name: 'street', custom_root_fields: free }), { message: 'success' }, 'once more')
  const query = '{ town { id } street { id } towns_of(args: {x: 1}) { id } }'
  t.same((await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })).body, {
    data: { town: [], street: [], towns_of: [] },
  })
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

t.test('what a column is called in GraphQL is no name for a relationship', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table town (id int primary key, land text, next int references town);
      create function size(t town) returns int language sql stable as 'select 1'`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    {
      type: 'set_table_customization',
      args: { table: 'town', configuration: { column_config: { land: { custom_name: 'country' } } } },
    },
  ])

  const taken = { code: 'already-exists', path: '$.args.name' }
  const args = { table: 'town', name: 'country' }
  const using = { foreign_key_constraint_on: 'next' }
  t.match((await server.query('create_object_relationship', { ...args, using })).body, taken)
  t.match((await server.query('add_computed_field', { ...args, definition: { function: 'size' } })).body, taken)
  await server.must('create_object_relationship', { ...args, name: 'neighbour', using })
})

t.test('a column of nested lists', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create domain board as int[][]; create table matrix (id int primary key, rows int[][], flat int[], texts text[][] not null default '{}', board board);
      insert into matrix values (1, '{{1,2},{3,4}}', '{1,2}', '{{a,null}}', '{{1}}')`,
  })
  await server.must('track_table', 'matrix')
  const ask = async (query: string, variables?: object) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) })).body

  const schema = buildClientSchema((await ask(getIntrospectionQuery())).data)
  t.same(validateSchema(schema), [])
  const fields = (schema.getType('matrix') as GraphQLObjectType).getFields()
  t.same(
    ['rows', 'flat', 'texts', 'board'].map((name) => String(fields[name]?.type)),
    ['_int4', '[Int]', '_text!', '_int4'],
  )
  const all = 'rows flat texts board'
  t.same((await ask(`{ matrix { ${all} } }`)).data.matrix, [
    {
      rows: [
        [1, 2],
        [3, 4],
      ],
      flat: [1, 2],
      texts: [['a', null]],
      board: [[1]],
    },
  ])
  const insert = `mutation m($rows: _int4, $o: [matrix_insert_input!]!) {
    a: insert_matrix_one(object: {id: 2, rows: [[5, 6]], texts: [["x"], ["y"]], board: $rows}) { ${all} }
    b: insert_matrix(objects: $o) { returning { rows } }
    c: update_matrix_by_pk(pk_columns: {id: 3}, _set: {rows: $rows}) { rows } }`
  t.same((await ask(insert, { rows: [[7], [8]], o: [{ id: 3, rows: [[[1]]] }] })).data, {
    a: { rows: [[5, 6]], flat: null, texts: [['x'], ['y']], board: [[7], [8]] },
    b: { returning: [{ rows: [[[1]]] }] },
    c: { rows: [[7], [8]] },
  })
  const found = { data: { matrix: [{ id: 2 }] } }
  t.same(await ask('{ matrix(where: {rows: {_eq: [[5, 6]]}}) { id } }'), found)
  t.same(await ask('query q($r: _int4) { matrix(where: {rows: {_contains: $r}}) { id } }', { r: [[6]] }), found)
  t.same(
    await ask('query q($w: _int4_comparison_exp!) { matrix(where: {rows: $w}) { id } }', { w: { _eq: [[5, 6]] } }),
    found,
  )
  t.match(await ask('mutation { insert_matrix_one(object: {id: 9, rows: [[1], [2, 3]]}) { id } }'), {
    errors: [{ extensions: { code: 'data-exception' } }],
  })
  t.match(
    (await server.fetch('/v1alpha1/graphql/schema')).body.schema,
    /rows\(?.*: \[Int\]/,
    'the older dialect is the same',
  )
})

t.test('tables and columns whose names are not valid in GraphQL get others', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table "Order Items" (id int primary key, "unit price" int, "2nd" text, "größe" int, "__secret" text, "a b" int, a_b int);
      create table "Order-Items" (id int primary key); create table order_items (id int primary key);
      create table "Boolean" (id int primary key, "Order Item" int references "Order Items");
      insert into "Order Items" values (1, 10, 'b', 3, 's', 4, 5)`,
  })
  const tracked = await server.must(
    'bulk',
    ['Order-Items', 'Order Items', 'order_items', 'Boolean'].map((args) => ({ type: 'track_table', args })),
  )
  t.match(tracked, [
    { message: 'success', graphql_names: { 'Order-Items': 'Order_Items' } },
    {
      graphql_names: {
        'Order Items': String,
        'unit price': 'unit_price',
        '2nd': '_2nd',
        größe: 'gr__e',
        __secret: '_secret',
        'a b': 'a_b_2',
      },
    },
    { message: 'success', graphql_names: undefined },
    { graphql_names: { Boolean: 'Boolean_2', 'Order Item': 'Order_Item' } },
  ])
  await server.must('bulk', [
    {
      type: 'create_object_relationship',
      args: { table: 'Boolean', name: 'item', using: { foreign_key_constraint_on: 'Order Item' } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'Order Items', role: 'user', permission: { columns: ['id', 'unit price'], filter: {} } },
    },
  ])
  const ask = async (query: string, variables?: object, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body

  const all = 'unit_price _2nd gr__e _secret a_b_2 a_b'
  t.same(await ask(`{ Order_Items(where: {unit_price: {_gt: 1}}, order_by: {_2nd: asc}) { ${all} __typename } }`), {
    data: {
      Order_Items: [{ unit_price: 10, _2nd: 'b', gr__e: 3, _secret: 's', a_b_2: 4, a_b: 5, __typename: 'Order_Items' }],
    },
  })
  t.same(await ask('{ Order_Items_2 { id } order_items { id } }'), { data: { Order_Items_2: [], order_items: [] } })
  t.same(
    await ask(
      'mutation m($o: Boolean_2_insert_input!) { insert_Boolean_2_one(object: $o) { Order_Item item { unit_price } } }',
      { o: { id: 1, item: { data: { id: 2, unit_price: 7 } } } },
    ),
    { data: { insert_Boolean_2_one: { Order_Item: 2, item: { unit_price: 7 } } } },
  )
  t.same(await ask('{ Order_Items_by_pk(id: 1) { unit_price } }', {}, { role: 'user' }), {
    data: { Order_Items_by_pk: { unit_price: 10 } },
  })
  t.match(await ask('{ Order_Items { _2nd } }', {}, { role: 'user' }), { errors: [{ message: /Cannot query field/ }] })
  t.same(validateSchema(buildClientSchema((await ask(getIntrospectionQuery())).data)), [])
  t.same(await server.must('select', { table: 'Order Items', columns: ['unit price'], where: { id: 1 } }), [
    { 'unit price': 10 },
  ])

  await server.must('set_table_customization', {
    table: 'Order Items',
    configuration: { custom_name: 'items', column_config: { 'unit price': { custom_name: 'price' } } },
  })
  t.same(await ask('{ items(where: {id: {_eq: 1}}) { price _2nd } Order_Items { id } }'), {
    data: { items: [{ price: 10, _2nd: 'b' }], Order_Items: [] },
  })
})
