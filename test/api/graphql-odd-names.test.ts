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

/** What PostgreSQL keeps of every long key, so that only what follows tells them apart. */
const LONG = 'x'.repeat(63)
/** Documents whose keys `k1`, `k2` and so on can become long. */
const DOCUMENTS: readonly (readonly [path: string, query: string])[] = [
  [
    '/v1/graphql',
    '{ k1: item(order_by: {id: asc}) { k2: id k3: label k4: data k5: shape_of k6: __typename } k7: __typename }',
  ],
  [
    '/v1/graphql',
    '{ item(order_by: {id: asc}) { k1: id k2: data(path: "a") id } k3: item { k1: id } item_by_pk(id: 1) { k4: id } }',
  ],
  [
    '/v1/graphql',
    '{ k1: item_by_pk(id: 2) { k2: parent { k3: label k4: parent { k5: id } } k6: children { k7: id k8: label } } }',
  ],
  [
    '/v1/graphql',
    '{ item_by_pk(id: 9) { k1: id } k2: item_by_pk(id: 9) { k1: id } item { children(order_by: {id: desc}) { k1: id } } }',
  ],
  [
    '/v1/graphql',
    `{ k1: item_aggregate { k2: aggregate { k3: count k4: max { k5: id k6: label k7: __typename } k8: sum { id } k9: __typename }
      k10: nodes { k11: id k12: children_aggregate { k13: aggregate { k14: count } } } k15: __typename } }`,
  ],
  ['/v1/graphql', '{ k1: all_items { k2: id } k3: twice(args: {n: 2}) }'],
  [
    '/v1/graphql',
    `mutation { k1: insert_item(objects: [{id: 7, label: "g", parent_id: 1}, {id: 8, label: "h", children: {data: {id: 9, label: "i"}}}]) {
      k2: affected_rows k3: returning { k4: id k5: parent { k6: label } k7: children { k8: id } } k9: __typename }
      k10: update_item_by_pk(pk_columns: {id: 7}, _set: {label: "G"}) { k11: label k12: id }
      k13: update_item_many(updates: [{where: {id: {_eq: 8}}, _set: {label: "H"}}]) { k14: returning { k15: label } }
      k16: insert_item_one(object: {id: 10, data: {a: 1}}) { k17: data k18: __typename } k19: __typename
      k20: delete_item(where: {id: {_gt: 6}}) { k21: affected_rows k22: returning { k23: id } } }`,
  ],
  ['/v1alpha1/graphql', '{ k1: item(order_by: ["id"]) { k2: id k3: children { k4: id k5: parent { k6: label } } } }'],
  [
    '/v1beta1/relay',
    `{ k1: item_connection(order_by: {id: asc}, first: 2) { k2: pageInfo { k3: hasNextPage k4: endCursor } k5: __typename
      k6: edges { k7: cursor k8: node { k9: id k10: label k11: children_connection { k12: edges { k13: node { k14: label } } } } k15: __typename } } }`,
  ],
]

/** Requests of the JSON API in the same way. */
const REQUESTS: readonly (readonly [type: string, args: object])[] = [
  [
    'select',
    {
      table: 'item',
      columns: ['id', { name: 'children', alias: 'k1', columns: ['id'], order_by: 'id' }],
      order_by: 'id',
    },
  ],
  [
    'select',
    {
      table: 'item',
      columns: [
        'id',
        'data',
        { name: 'parent', alias: 'k1', columns: [{ name: 'children', alias: 'k2', columns: ['*'] }] },
      ],
      where: { id: 2 },
    },
  ],
  [
    'select',
    {
      table: 'item',
      columns: ['parent_id', { count: '*', as: 'k1' }, { max: 'label', as: 'k2' }],
      group_by: ['parent_id'],
      having: { k1: { $gt: 0 }, k2: { $ne: 'z' } },
      order_by: ['-k1', '-k2'],
    },
  ],
  [
    'insert',
    {
      table: 'item',
      objects: [{ id: 7 }, { id: 8, parent_id: 1 }],
      returning: ['id', { name: 'parent', alias: 'k1', columns: ['label'] }],
    },
  ],
  [
    'delete',
    { table: 'item', where: { id: { $gt: 6 } }, returning: [{ name: 'children', alias: 'k1', columns: ['id'] }, 'id'] },
  ],
]

t.test('keys that are longer than a name in PostgreSQL change nothing else', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table item (id int primary key, label text, data json, parent_id int references item);
      create function shape_of(i item) returns numeric language sql stable as 'select i.id * 1.50';
      create function all_items() returns setof item language sql stable as 'select * from item';
      create function twice(n int) returns setof int language sql stable as 'select n * 2';
      insert into item values (1, 'a', '{"b":1, "a":[2]}', null), (2, 'b', null, 1), (3, null, '"x"', 1), (4, 'd', 'null', 2)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'item' },
    { type: 'track_function', args: 'all_items' },
    { type: 'track_function', args: 'twice' },
    { type: 'add_computed_field', args: { table: 'item', name: 'shape_of', definition: { function: 'shape_of' } } },
    {
      type: 'create_object_relationship',
      args: { table: 'item', name: 'parent', using: { foreign_key_constraint_on: 'parent_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'item',
        name: 'children',
        using: { foreign_key_constraint_on: { table: 'item', column: 'parent_id' } },
      },
    },
  ])
  const long = (text: string) => text.replace(/\bk(?=\d)/g, `${LONG}k`)
  for (const [path, query] of DOCUMENTS) {
    const ask = (text: string) =>
      server.fetch(path, {
        method: 'POST',
        body: JSON.stringify({ query: text.replaceAll('shape_of', path === '/v1/graphql' ? 'shape_of' : 'id') }),
      })
    const [short, whole] = [await ask(query), await ask(long(query))]
    t.ok(short.body.data, `${query}: ${short.text}`)
    t.equal(whole.text, long(short.text), query)
  }
  for (const [type, args] of REQUESTS) {
    const text = JSON.stringify({ type, args, ...(type === 'select' ? {} : { dry_run: true }) })
    for (const accept of type === 'select'
      ? ['application/json', 'application/x-ndjson', 'text/csv']
      : ['application/json']) {
      const ask = (body: string) => server.raw(body, undefined, { accept })
      const short = await ask(text)
      t.equal(short.status, 200, short.text)
      t.equal((await ask(long(text))).text, long(short.text), `${accept} ${text}`)
    }
  }
})

t.test('names that a schema makes of long names work', async (t) => {
  const server = await testServer(t)
  const table = 'wallet_transaction_consumptions_by_inbound_wallet_transactions'
  const [relation, column] = ['r'.repeat(255), `c${'o'.repeat(99)}`]
  await server.must('run_sql', {
    sql: `create table ${table} (id int primary key, label text, at jsonb, other_id int references ${table})`,
  })
  const using = { foreign_key_constraint_on: { table, column: 'other_id' } }
  await server.must('bulk', [
    { type: 'track_table', args: table },
    {
      type: 'set_table_customization',
      args: {
        table,
        configuration: { column_config: { label: { custom_name: column }, at: { custom_name: `${column}2` } } },
      },
    },
    { type: 'create_array_relationship', args: { table, name: relation, using } },
  ])
  t.match(await server.query('create_array_relationship', { table, name: `${relation}r`, using }), {
    status: 400,
    body: { path: '$.args.name', error: 'a relationship name has at most 255 bytes' },
  })
  const must = async (query: string) => {
    const answer = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })
    return answer.body.data ?? answer.text
  }

  t.same(
    await must(`mutation {
      insert_${table}_one(object: {id: 1, ${column}: "a", ${column}2: {b: [1]}, ${relation}: {data: [{id: 2, ${column}: "b"}, {id: 3}]}}) {
        ${column} ${column}2 ${relation}_aggregate { aggregate { count } } }
      insert_${table}(objects: [{id: 4, ${column}: null}, {id: 5, ${column}2: null}]) { affected_rows }
      update_${table}_by_pk(pk_columns: {id: 4}, _set: {${column}: "d"}) { ${column} }
      delete_${table}_by_pk(id: 5) { ${column}2 } }`),
    {
      [`insert_${table}_one`]: {
        [column]: 'a',
        [`${column}2`]: { b: [1] },
        [`${relation}_aggregate`]: { aggregate: { count: 2 } },
      },
      [`insert_${table}`]: { affected_rows: 2 },
      [`update_${table}_by_pk`]: { [column]: 'd' },
      [`delete_${table}_by_pk`]: { [`${column}2`]: null },
    },
  )
  t.same(
    await must(
      `{ ${table}_aggregate(where: {${relation}: {${column}: {_eq: "b"}}}) { aggregate { max { ${column} } } } }`,
    ),
    {
      [`${table}_aggregate`]: { aggregate: { max: { [column]: 'a' } } },
    },
  )
  t.same(await server.must('select', { table, columns: [{ name: relation, columns: ['id'] }], where: { id: 1 } }), [
    { [relation]: [{ id: 2 }, { id: 3 }] },
  ])
})
