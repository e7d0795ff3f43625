import t, { type Test } from 'tap'
import pg from 'pg'
import fc from '../kit/property.js'
import { type As, testServer, type TestServer } from '../kit/server.js'
import { TYPES, TYPES_SQL } from '../kit/typed-values.js'

const USER: As = {
  role: 'user',
  variables: { 'x-service-org': '1', 'x-service-span': '[4,6)', 'x-service-number': '4' },
}

/** The ids of the rows that match, by each door. */
async function ids(t: Test, server: TestServer, table: string, where: object): Promise<readonly number[]> {
  const rows = await server.must('select', { table, columns: ['id'], where, order_by: 'id' })
  const found = (rows as { id: number }[]).map(({ id }) => id)
  const template = { type: 'select', args: { table, columns: ['id'], where, order_by: 'id' } }
  await server.must('create_query_template', { name: 'same', template })
  t.same(await server.must('execute_query_template', { name: 'same', args: {} }), rows, 'a template')
  await server.must('drop_query_template', { name: 'same' })
  for (const [path, order] of [
    ['/v1/graphql', '{id: asc}'],
    ['/v1alpha1/graphql', '["+id"]'],
  ] as const) {
    const query = `query ($where: ${table}_bool_exp) { ${table}(where: $where, order_by: ${order}) { id } }`
    const variables = { where: JSON.parse(JSON.stringify(where).replaceAll(/"\$(?=\w+":)/g, '"_')) }
    const { body } = await server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables }) })
    t.same(body.errors, undefined, path)
    t.same(
      body.data?.[table]?.map(({ id }: { id: number }) => id),
      found,
      path,
    )
  }
  return found
}

/** The plan of a select of an admin. */
async function plan(server: TestServer, table: string, where: object, more: object = {}): Promise<string> {
  const query = { type: 'select', args: { table, columns: ['id'], where, ...more } }
  const { body } = await server.fetch('/v1/query/explain', { method: 'POST', body: JSON.stringify({ query }) })
  return (body.plans as string[]).join('\n')
}

/** A table of this SQL, all of which the role `user` may select where `org` is its own. */
async function tableOf(t: Test, sql: string, table = 'thing'): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql })
  await server.must('track_table', table)
  await server.must('create_select_permission', {
    table,
    role: 'user',
    permission: { columns: '*', filter: { org: 'X-Service-Org' } },
  })
  return server
}

const RANGES = `
create type sizes as range (subtype = float8);
create table thing (
  id int primary key, org int not null default 1, span int4range, spans int4multirange, days daterange, size sizes,
  tags text[], net inet, block cidr
);
insert into thing values
  (1, 1, '[1,5)', '{[1,3),[7,9)}', '[2024-01-01,2024-02-01)', '[0.5,1.5]', '{a,b}', '10.1.0.0/16', '10.1.0.0/16'),
  (2, 1, '[5,9)', '{[20,30)}', '[2024-02-01,)', '[2,3)', '{b,c}', '10.1.2.3', '10.1.2.0/24'),
  (3, 2, 'empty', '{}', 'empty', 'empty', '{}', '::1', 'fe80::/10'),
  (4, 1, null, null, null, null, null, null, null)`

t.test('ranges, arrays and networks are compared by what they contain', async (t) => {
  const server = await tableOf(t, RANGES)
  const cases: readonly (readonly [where: object, found: readonly number[]])[] = [
    [{ span: { $contains: 4 } }, [1]],
    [{ span: { $contains: '4' } }, [1]],
    [{ span: { $contains: '[5,7)' } }, [2]],
    [{ span: { $contains: 'empty' } }, [1, 2, 3]],
    [{ span: { $contained_in: '[0,6)' } }, [1, 3]],
    [{ span: { $overlaps: '[4,6)' } }, [1, 2]],
    [{ span: { $adjacent: '[9,10)' } }, [2]],
    [{ spans: { $contains: 8 } }, [1]],
    [{ spans: { $contains: '[21,22)' } }, [2]],
    [{ spans: { $contains: '{[1,2),[8,9)}' } }, [1]],
    [{ spans: { $contained_in: '{[0,40)}' } }, [1, 2, 3]],
    [{ spans: { $overlaps: '{[2,21)}' } }, [1, 2]],
    [{ spans: { $adjacent: '{[9,10)}' } }, [1]],
    [{ days: { $contains: '2024-01-31' } }, [1]],
    [{ days: { $contains: '[2024-03-01,)' } }, [2]],
    [{ size: { $contains: 1.5 } }, [1]],
    [{ size: { $overlaps: '[1,2]' } }, [1, 2]],
    [{ tags: { $overlaps: ['a', 'c'] } }, [1, 2]],
    [{ tags: { $overlaps: [] } }, []],
    [{ net: { $contains: '10.1.2.3' } }, [1, 2]],
    [{ net: { $contained_in: '10.1.2.0/24' } }, [2]],
    [{ net: { $overlaps: '10.0.0.0/8' } }, [1, 2]],
    [{ block: { $contains: '10.1.2.128/25' } }, [1, 2]],
    [{ block: { $overlaps: '10.1.2.128' } }, [1, 2]],
  ]
  for (const [where, found] of cases) t.same(await ids(t, server, 'thing', where), found, JSON.stringify(where))

  const own = { table: 'thing', columns: ['id'], where: { span: { $contained_in: '[0,99)' } } }
  t.same((await server.query('select', own, USER)).body, [{ id: 1 }, { id: 2 }], 'hidden rows stay hidden')
})

t.test('ranges and networks work in permissions, with session variables', async (t) => {
  const server = await tableOf(t, RANGES)
  for (const [filter, found] of [
    [{ span: { $contains: 'X-Service-Number' } }, [1]],
    [{ spans: { $contains: 'X-Service-Number' } }, []],
    [{ span: { $overlaps: 'X-Service-Span' } }, [1, 2]],
    [{ days: { $contains: '2024-01-31' } }, [1]],
  ] as const) {
    await server.must('drop_select_permission', { table: 'thing', role: 'user' })
    const permission = { columns: '*', filter }
    await server.must('create_select_permission', { table: 'thing', role: 'user', permission })
    const { body } = await server.query('select', { table: 'thing', columns: ['id'], order_by: 'id' }, USER)
    t.same(
      body.map(({ id }: { id: number }) => id),
      found,
      JSON.stringify(filter),
    )
  }
})

t.test('GiST and GIN indexes serve ranges, networks and arrays', async (t) => {
  const server = await tableOf(
    t,
    `create table thing (id int primary key, org int default 1, span int4range, tags text[], net inet);
    insert into thing select i, i % 2, int4range(i, i + 2), array[i::text], ('10.' || i % 256 || '.' || i / 256 || '.1')::inet
      from generate_series(1, 20000) i;
    create index by_span on thing using gist (span);
    create index by_tags on thing using gin (tags);
    create index by_net on thing using gist (net inet_ops);
    analyze thing`,
  )
  for (const [where, index] of [
    [{ span: { $contains: 7 } }, 'by_span'],
    [{ span: { $overlaps: '[7,9)' } }, 'by_span'],
    [{ span: { $adjacent: '[7,9)' } }, 'by_span'],
    [{ tags: { $overlaps: ['7', '8'] } }, 'by_tags'],
    [{ net: { $contained_in: '10.7.7.0/28' } }, 'by_net'],
  ] as const) {
    t.match(await plan(server, 'thing', where), new RegExp(`Index Scan (on|using) ${index}`), JSON.stringify(where))
  }
})

const TEXTS = `
create extension citext;
create table thing (
  id int primary key, org int not null default 1, body text, title varchar(80), name citext,
  words tsvector generated always as (to_tsvector('english', coalesce(body, ''))) stored
);
insert into thing values
  (1, 1, 'The red shoes of my neighbour', 'Red shoe', 'Shoe'),
  (2, 1, 'A shoe, a shoe, a red shoe', 'Hats', 'hat'),
  (3, 2, 'A red hat', 'Red hats', 'HAT'),
  (4, 1, null, null, null)`

t.test('$matches searches text by words, in a language', async (t) => {
  const server = await tableOf(t, TEXTS)
  const english = (query: string) => ({ $matches: { query, language: 'english' } })
  const cases: readonly (readonly [where: object, found: readonly number[]])[] = [
    [{ body: english('red shoe') }, [1, 2]],
    [{ body: english('"red shoe"') }, [1, 2]],
    [{ body: english('hats or neighbours') }, [1, 3]],
    [{ body: english('red -shoes') }, [3]],
    [{ body: english('" & ! (') }, []],
    [{ body: { $matches: { query: 'shoes', language: 'pg_catalog.simple' } } }, [1]],
    [{ body: { $matches: { query: 'shoe' } } }, [1, 2]],
    [{ title: english('hat') }, [2, 3]],
    [{ name: english('hats') }, [2, 3]],
    [{ words: english('shoes') }, [1, 2]],
    [{ words: { $matches: { query: 'neighbours' } } }, [1]],
    [{ $not: { body: english('hat') } }, [1, 2]],
  ]
  for (const [where, found] of cases) t.same(await ids(t, server, 'thing', where), found, JSON.stringify(where))

  const select = (where: object) => ({ table: 'thing', columns: ['id'], where, order_by: 'id' })
  t.same(await server.must('select', select({ body: { $matches: 'shoe' } })), [{ id: 1 }, { id: 2 }], 'a plain text')
  t.same((await server.query('select', select({ title: { $matches: 'hat' } }), USER)).body, [{ id: 2 }], 'a role')

  const template = {
    type: 'select',
    args: select({ body: { $matches: { query: { param: 'q' }, language: 'english' } } }),
  }
  await server.must('create_query_template', { name: 'search', template })
  t.same(await server.must('execute_query_template', { name: 'search', args: { q: 'hats' } }), [{ id: 3 }])

  const query = 'query ($q: String!, $l: String) { thing(where: {body: {_matches: {query: $q, language: $l}}}) { id } }'
  const body = JSON.stringify({ query, variables: { q: 'hats', l: 'english' } })
  t.same((await server.fetch('/v1/graphql', { method: 'POST', body })).body, { data: { thing: [{ id: 3 }] } })
})

t.test('GraphQL ranks, and searches for a plain text', async (t) => {
  const server = await tableOf(
    t,
    `${TEXTS}; create table note (id int primary key, thing_id int references thing); insert into note values (1, 1), (2, 2), (3, 3);`,
  )
  await server.must('track_table', 'note')
  const using = { foreign_key_constraint_on: 'thing_id' }
  await server.must('create_object_relationship', { table: 'note', name: 'thing', using })
  const ask = async (query: string, variables: object = {}, as?: As, path = '/v1/graphql') =>
    (await server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body
  const ids = (rows: readonly { id: number }[]) => rows.map(({ id }) => id)
  const ranked = (rank: string) => `{ thing(order_by: [{body_rank: ${rank}}, {id: asc}]) { id } }`

  t.same(ids((await ask(ranked('{query: "shoe", language: "english"}'))).data.thing), [2, 1, 3, 4])
  t.same(ids((await ask(ranked('{query: "shoe", language: "english", order: asc}'))).data.thing), [3, 1, 2, 4])
  const variable = 'query ($o: [thing_order_by!]) { thing(order_by: $o) { id } }'
  const o = [{ words_rank: { query: 'shoe', language: 'english' } }, { id: 'asc' }]
  t.same(ids((await ask(variable, { o })).data.thing), [2, 1, 3, 4])
  const slots = `query ($q: String!) ${ranked('{query: $q, language: "english"}')}`
  t.same(ids((await ask(slots, { q: 'shoe' })).data.thing), [2, 1, 3, 4])
  t.same(ids((await ask(slots, { q: 'shoe' }, USER)).data.thing), [2, 1, 4])
  const related = '{ note(order_by: [{thing: {body_rank: {query: "shoe", language: "english"}}}]) { id } }'
  t.same(ids((await ask(related)).data.note), [2, 1, 3])
  const permission = { columns: '*', filter: {} }
  await server.must('create_select_permission', { table: 'note', role: 'user', permission })
  const many = Array(11).fill('{thing: {body_rank: {query: "x"}}}')
  t.match((await ask(`{ note(order_by: [${many.join()}]) { id } }`, {}, USER)).errors, [{ message: /pattern/ }])
  t.match((await ask(slots, { q: 'x'.repeat(501) })).errors, [{ message: /at most 500/ }])
  t.match((await ask('{ thing(order_by: {id_rank: {query: "x"}}) { id } }')).errors, [{ message: /id_rank/ }])

  const matching = (value: string, more = '') => `query q${more} { thing(where: {body: {_matches: ${value}}}) { id } }`
  t.same(ids((await ask(matching('"shoe"'))).data.thing), [1, 2])
  t.same(ids((await ask(matching('$m', '($m: full_text_query!)'), { m: 'shoe' })).data.thing), [1, 2])
  const hats = { query: 'hats', language: 'english' }
  t.same(ids((await ask(matching('$m', '($m: full_text_query!)'), { m: hats })).data.thing), [3])
  t.same(
    ids(
      (await ask('{ thing(where: {body: {_matches: "shoe"}}) { id } }', {}, undefined, '/v1alpha1/graphql')).data.thing,
    ),
    [1, 2],
  )
  for (const wrong of [
    '5',
    '["x"]',
    '{language: "english"}',
    '{query: "x", lang: "y"}',
    '{query: null}',
    '{query: 5}',
    'null',
    '{}',
  ]) {
    t.match((await ask(matching(wrong))).errors, [{ extensions: { path: /^\$\.selectionSet/ } }], wrong)
  }
  for (const m of [5, ['x'], { language: 'english' }, { query: ['x'] }, { query: null }, {}]) {
    t.match(
      (await ask(matching('$m', '($m: full_text_query!)'), { m })).errors,
      [{ extensions: { code: /./ } }],
      JSON.stringify(m),
    )
  }
})

t.test('GIN indexes serve full-text search', async (t) => {
  const server = await tableOf(
    t,
    `create table thing (id int primary key, org int default 1, body text, title varchar, words tsvector);
    insert into thing select i, i % 2, 'word' || i || ' of many', 'title' || i, to_tsvector('simple', 'word' || i)
      from generate_series(1, 5000) i;
    create index by_body on thing using gin (to_tsvector('english', body));
    create index by_title on thing using gin (to_tsvector('english', title));
    create index by_words on thing using gin (words);
    analyze thing`,
  )
  for (const [column, index, matches] of [
    ['body', 'by_body', { query: 'word7', language: 'english' }],
    ['title', 'by_title', { query: 'title7', language: 'english' }],
    ['words', 'by_words', { query: 'word7', language: 'simple' }],
    ['words', 'by_words', 'word7'],
  ] as const) {
    const where = { [column]: { $matches: matches } }
    t.match(await plan(server, 'thing', where), new RegExp(`Index Scan (on|using) ${index}`), JSON.stringify(where))
  }
  const { body } = await server.fetch('/v1/query/explain', {
    method: 'POST',
    body: JSON.stringify({
      query: { type: 'select', args: { table: 'thing', columns: ['id'], where: { words: { $matches: 'word7' } } } },
      role: 'user',
      headers: USER.variables,
    }),
  })
  t.match((body.plans as string[]).join(), /Index Scan on by_words/, 'for a role with a filter too')
})

const MIXED = `
create schema ext;
create extension hstore schema ext;
create extension pg_trgm schema ext;
create table thing (id int primary key, org int not null default 1, data jsonb, bag ext.hstore, word varchar(40), n int);
insert into thing values
  (1, 1, '{"a": [1, 5], "b": "x"}', 'a=>1, b=>null', 'elephant', 1),
  (2, 1, '{"a": "2024-01-01"}', 'a=>2, c=>3', 'elephants', 2),
  (3, 2, '[]', '', 'ant', 1),
  (4, 1, null, null, null, null)`

t.test('JSON paths, hstore, trigrams and distinct values', async (t) => {
  const server = await tableOf(t, MIXED)
  const cases: readonly (readonly [where: object, found: readonly number[]])[] = [
    [{ data: { $path_exists: '$.a[*] ? (@ > 4)' } }, [1]],
    [{ data: { $path_match: '$.b == "x"' } }, [1]],
    [{ data: { $path_match: 'strict $.none == "x"' } }, []],
    [{ bag: { $contains: { a: '1' } } }, [1]],
    [{ bag: { $contains: { b: null } } }, [1]],
    [{ bag: { $contained_in: { a: '2', c: '3', d: '"' } } }, [2, 3]],
    [{ bag: { $has_key: 'c' } }, [2]],
    [{ bag: { $has_keys_any: ['b', 'c'] } }, [1, 2]],
    [{ bag: { $has_keys_all: ['a', 'b'] } }, [1]],
    [{ bag: { $eq: { a: '2', c: '3' } } }, [2]],
    [{ bag: { $neq: { a: '2', c: '3' } } }, [1, 3]],
    [{ bag: { $in: [{ a: '2', c: '3' }, {}] } }, [2, 3]],
    [{ word: { $trigram: 'elephan' } }, [1, 2]],
    [{ n: { $is_distinct: 1 } }, [2, 4]],
    [{ n: { $is_not_distinct: 1 } }, [1, 3]],
    [{ $not: { n: { $is_distinct: 1 } } }, [1, 3]],
    [{ data: { $is_not_distinct: [] } }, [3]],
    [{ bag: { $is_distinct: {} } }, [1, 2, 4]],
  ]
  for (const [where, found] of cases) t.same(await ids(t, server, 'thing', where), found, JSON.stringify(where))

  const select = (where: object) => ({ table: 'thing', columns: ['id'], where, order_by: 'id' })
  t.same(await server.must('select', select({ n: { $is_not_distinct: null } })), [{ id: 4 }])
  t.same((await server.must('select', select({ n: { $is_distinct: null } }))).length, 3)
  for (const [where, path, error] of [
    [{ data: { $path_exists: '$.' } }, '$.args.where.data.$path_exists', /syntax error/],
    [{ data: { $path_exists: 5 } }, '$.args.where.data.$path_exists', /expecting a string/],
    [
      { bag: { $contains: { a: 1 } } },
      '$.args.where.bag.$contains.a',
      /expecting a string or null, but found a number/,
    ],
    [{ bag: { $contains: [] } }, '$.args.where.bag.$contains', /expecting an object of strings and nulls/],
  ] as const) {
    const { status, body } = await server.query('select', select(where))
    t.match({ status, ...body }, { status: 400, path, error }, JSON.stringify(where))
  }
})

t.test('a time zone that a JSON path would need does not tell of a hidden row', async (t) => {
  const server = await tableOf(t, `${MIXED}; update thing set data = '["2024-01-01"]' where id = 3`)
  const where = { data: { $path_exists: '$[0].datetime() ? (@ < "2024-01-01T00:00:00+00:00".datetime())' } }

  t.same((await server.query('select', { table: 'thing', columns: ['id'], where })).status, 400)
  t.same((await server.query('select', { table: 'thing', columns: ['id'], where }, USER)).body, [])
})

t.test('what PostgreSQL compares without interruption is limited, but for admin', async (t) => {
  const server = await tableOf(
    t,
    'create extension pg_trgm; create table thing (id int primary key, org int, word text, tags int[])',
  )
  const tags = (count: number) => Array.from({ length: count }, (_, i) => i)
  const count = (where: object, as?: As) => server.query('count', { table: 'thing', where }, as)
  const refused = (path: string, error: RegExp) => ({ status: 400, body: { path: `$.args.where.${path}`, error } })

  t.equal((await count({ word: { $trigram: 'x'.repeat(200) } }, USER)).status, 200)
  const long = { word: { $trigram: 'x'.repeat(201) } }
  t.match(await count(long, USER), refused('word.$trigram', /at most 200 characters \(limits.patterns.characters/))
  t.equal((await count(long)).status, 200)
  for (const operator of ['$overlaps', '$contains', '$contained_in']) {
    t.equal((await count({ tags: { [operator]: tags(10_000) } }, USER)).status, 200)
    const many = { tags: { [operator]: tags(10_001) } }
    t.match(await count(many, USER), refused(`tags.${operator}`, /has 10001 elements, and at most 10000 are allowed/))
    t.match(await count({ tags: { [operator]: `{${tags(10_001).join()}}` } }, USER), { status: 400 }, 'as text')
    t.equal((await count(many)).status, 200)
  }
})

t.test('GIN indexes serve JSON paths, hstore and trigrams', async (t) => {
  const server = await tableOf(
    t,
    `create extension hstore; create extension pg_trgm;
    create table thing (id int primary key, org int default 1, data jsonb, bag hstore, word text);
    insert into thing select i, i % 2, json_build_object('k' || i, i), hstore('k' || i, 'v'), md5(i::text) from generate_series(1, 20000) i;
    create index by_data on thing using gin (data);
    create index by_bag on thing using gin (bag);
    create index by_word on thing using gin (word gin_trgm_ops);
    analyze thing`,
  )
  for (const [where, index] of [
    [{ data: { $path_exists: '$ ? (@.k7 == 7)' } }, 'by_data'],
    [{ data: { $path_match: '$.k7 == 7' } }, 'by_data'],
    [{ bag: { $contains: { k7: 'v' } } }, 'by_bag'],
    [{ bag: { $has_key: 'k7' } }, 'by_bag'],
    [{ word: { $trigram: '8f14e45fceea167a5a36dedd4bea2543' } }, 'by_word'],
  ] as const) {
    t.match(await plan(server, 'thing', where), new RegExp(`Index Scan (on|using) ${index}`), JSON.stringify(where))
  }
})

t.test('a column has only the operators of its type', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create extension ltree; create table thing (id int primary key, spot point, spots point[], area polygon, note xml, square box,
      path ltree, name varchar, net cidr, mood xml[], at timestamptz, span int4range)`,
  })
  await server.must('track_table', 'thing')
  const all = { table: 'thing', columns: ['id'] }
  for (const args of [
    { where: { spot: { $eq: '(1,2)' } } },
    { where: { spot: '(1,2)' } },
    { where: { spot: { $in: ['(1,2)'] } } },
    { where: { spot: { $ceq: 'spot' } } },
    { where: { spots: { $contains: ['(1,2)'] } } },
    { where: { spots: { $eq: ['(1,2)'] } } },
    { where: { note: { $gt: '<a/>' } } },
    { where: { area: { $is_distinct: '((1,2))' } } },
    { order_by: 'spot' },
    { order_by: ['square'] },
    { order_by: ['mood'] },
  ]) {
    const { status, body } = await server.query('select', { ...all, ...args })
    t.match({ status, ...body }, { status: 400, error: /which PostgreSQL cannot (compare|sort)/ }, JSON.stringify(args))
  }
  for (const name of ['square', 'path', 'name', 'net', 'at', 'span'])
    await server.must('select', {
      ...all,
      where: {
        [name]: { $gt: { square: '(1,2),(3,4)', path: 'a', name: 'a', net: '::1', at: 'now', span: 'empty' }[name] },
      },
    })
  await server.must('select', {
    ...all,
    order_by: ['path', 'name', 'net', 'at', 'span'],
    where: { spot: { $is_null: true } },
  })

  const query =
    '{ order: __type(name: "thing_order_by") { inputFields { name } } point: __type(name: "point_comparison_exp") { inputFields { name } } }'
  const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })
  const namesOf = ({ inputFields }: { inputFields: { name: string }[] }) => inputFields.map(({ name }) => name).sort()
  t.same(namesOf(body.data.order), ['at', 'id', 'name', 'name_rank', 'net', 'path', 'span'])
  t.same(namesOf(body.data.point), ['_is_null'])
})

t.test('a variable for a pattern has the type of the column, or String', async (t) => {
  const server = await tableOf(
    t,
    `${TEXTS}; alter table thing add code char(4) default 'Shoe', add flag bool default true`,
  )
  await server.must('create_array_relationship', {
    table: 'thing',
    name: 'same',
    using: { manual_configuration: { remote_table: 'thing', column_mapping: { org: 'org' } } },
  })
  const ask = async (query: string, variables: object, path = '/v1/graphql') =>
    (await server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables }) })).body
  const where = (of: string) => `where: {${of}}, order_by: {id: asc}`
  for (const [column, type] of [
    ['name', 'citext'],
    ['code', 'bpchar'],
    ['title', 'String'],
  ] as const) {
    for (const operator of [
      '_like',
      '_nlike',
      '_ilike',
      '_nilike',
      '_similar',
      '_nsimilar',
      '_regex',
      '_iregex',
      '_nregex',
      '_niregex',
    ]) {
      const answers = []
      for (const given of new Set([type, `${type}!`, 'String', 'String!'])) {
        const query = `query ($q: ${given}) { thing(${where(`${column}: {${operator}: $q}`)}) { id } }`
        answers.push(await ask(query, { q: 'sh%' }))
      }
      t.ok(answers[0].data, JSON.stringify(answers[0]))
      for (const answer of answers) t.same(answer, answers[0], `${column} ${operator}`)
    }
    for (const given of [type, 'String']) {
      const query = `query ($q: ${given}!, $l: [${given}!]!) { thing(${where(`${column}: {_eq: $q, _in: $l}`)}) { id } }`
      t.ok((await ask(query, { q: 'Shoe', l: ['Shoe'] })).data, `${column} ${given}`)
    }
  }
  t.match(await ask('query ($q: String!) { thing(where: {name: {_like: $q}}) { id } }', { q: 5 }), { errors: [{}] })
  for (const [type, column] of [
    ['Int', 'name'],
    ['bpchar', 'name'],
    ['String', 'id'],
    ['citext', 'title'],
  ]) {
    const query = `query ($q: ${type}!) { thing(where: {${column}: {_eq: $q}}) { id code name } }`
    t.match(await ask(query, { q: 'x' }), { errors: [{ message: /in position expecting/ }] }, query)
  }
  t.match(await ask('query ($q: String) { thing_by_pk(id: $q) { id } }', { q: 'x' }), {
    errors: [{ message: /in position expecting/ }],
  })

  const names = ['and', 'or'].map((fn) => `thing_select_column_thing_aggregate_bool_exp_bool_${fn}_arguments_columns`)
  for (const [i, name] of names.entries()) {
    const fn = ['bool_and', 'bool_or'][i]
    const query = `query ($c: ${name}!) { thing(${where(`same_aggregate: {${fn}: {arguments: $c, predicate: {_eq: true}}}`)}) { id } }`
    t.same(await ask(query, { c: 'flag' }), { data: { thing: [1, 2, 3, 4].map((id) => ({ id })) } })
    t.match(await ask(query, { c: 'name' }), { errors: [{ message: /enum/ }] })
  }
})

t.test('a value that PostgreSQL cannot read is refused whatever rows there are', async (t) => {
  const server = await testServer(t)
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  const names =
    'i4 s uid ts mood pos b tree ci bag r4 mr pt tsq i4s words grid moods ranges bags place places trip parcels'
  const operators =
    'eq in contains contained_in overlaps adjacent has_keys_any path_exists similar regex niregex ancestor_any matches matches_any matches_fulltext'.split(
      ' ',
    )
  const types = names.split(' ').map((name) => [name, TYPES[name]!] as const)
  const columns = types.map(([name, { sql }]) => `${name} ${sql}`).join(', ')
  // Plans for any value: PostgreSQL then knows none before it runs them.
  await database.query(`alter database ${new URL(server.databaseUrl).pathname.slice(1)} set plan_cache_mode = force_generic_plan;
    set search_path = public, ext; ${TYPES_SQL}
    create table full_one (id int primary key, ${columns}); create table empty_one (like full_one including all);
    insert into full_one (id) values (1)`)
  for (const [name, { of, sql, from }] of types) {
    const text = fc.sample(of, { numRuns: 1, seed: 1 })
    await database.query(`update full_one set ${name} = ${from ?? `$1::text::${sql}`}`, text)
  }
  await server.must(
    'bulk',
    ['full_one', 'empty_one'].map((table) => ({ type: 'track_table', args: table })),
  )
  const filter = { id: { $gt: 0 } }
  await server.must('create_select_permission', {
    table: 'empty_one',
    role: 'user',
    permission: { columns: '*', filter },
  })

  let refused = 0
  for (const [name] of types) {
    for (const operator of operators) {
      for (const value of ['((', [null, '((']]) {
        const where = { [name]: { [`$${operator}`]: value } }
        const read = (table: string, as?: As, limit?: number) =>
          server.query('select', { table, columns: ['id'], where, limit }, as)
        const { status, body } = await read('full_one')
        if (status === 200 || /^(unknown operator|expecting)|not supported|no list type/.test(body.error)) continue
        refused++
        const found = []
        // The third time with a statement that was prepared.
        for (let i = 0; i < 3; i++) found.push(await read('empty_one', USER, 10))
        found.push(await server.query('delete', { table: 'empty_one', where }))
        const wrong = found.filter((each) => each.status !== status)
        t.same(
          wrong.map(({ text }) => text),
          [],
          `${name} ${operator} ${JSON.stringify(value)}`,
        )
      }
    }
  }
  for (const [name] of types) {
    const set = (table: string) => server.query('update', { table, where: { id: 1 }, $set: { [name]: '((' } })
    const { status } = await set('full_one')
    for (let i = 0; i < 3; i++) t.same((await set('empty_one')).status, status, `${name} set`)
  }
  t.ok(refused > 100, String(refused))
})
