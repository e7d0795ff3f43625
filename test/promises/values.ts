import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, is, like, query, type Step, text } from '../kit/promises.js'
import { testServer } from '../kit/server.js'

/** What values of each type promise, written by inserts and updates, and read again. */
const PROMISES = {
  'value.numbers': 'numbers keep all their digits',
  'value.times': 'times have microseconds, and come in UTC',
  'value.text': 'texts keep every character, but U+0000 and half surrogates are refused with their path',
  'value.json': 'json keeps its text, jsonb its value',
  'value.array': 'arrays are lists, also nested and with null, and their elements have the type',
  'value.domain': 'arrays of a domain are written, compared and given to functions like arrays of its base type',
  'value.hstore': 'hstore is an object of strings and nulls',
  'value.composite': 'a composite value is an object, and lists of them work',
  'value.others': 'booleans, enums, uuids, bytes, ranges and dates come back as they were written',
  'value.whole': 'an integer is a whole number in any form, also in lists, conditions and limits, and nothing else',
  'value.wide': 'limit and offset have 64 bits',
  'value.real': 'a real is NaN or infinite in GraphQL too',
  'value.citext': 'the operators of an extension are found in whatever schema it is',
  'value.incomparable': 'what PostgreSQL cannot compare is refused where values must be distinct',
  'value.wrong': 'a text that PostgreSQL cannot read is refused',
} as const

const SQL = `
create schema ext; create extension hstore schema ext; create extension citext schema ext; create extension ltree schema ext;
create table loose (id int primary key, small int2, big int8, list int[], r real, mail ext.citext unique, tree ext.ltree, spot point, doc xml);
insert into loose (id, mail, tree) values (1, 'Ann@example.com', 'a.b');
create type mood as enum ('sad', 'happy');
create type place as (street text, no int);
create domain flag as boolean;
create domain word as text;
create domain short_word as word check (length(value) < 5);
create domain any_json as jsonb;
create domain home_place as place;
create table inside (id int primary key, f flag[], w short_word[], j any_json[], c home_place[]);
create function words(given short_word[]) returns setof inside language sql stable as 'select * from inside where w = given';
create table value (
  id int primary key, i int8, n numeric, price numeric(10, 2), x float8, ts timestamptz, plain timestamp, j json, b jsonb, s text, tags text[], grid int[],
  bag ext.hstore default 'd=>1', home place, homes place[], flag boolean, mood mood, uid uuid, bytes bytea, span int4range, day date, at time
);
`

const raw = (body: string, expected: Expected): Step => ({ path: '/v1/query', method: 'POST', body, expected })
/** Writes a row of `value`, and reads its columns. */
const kept = (columns: string, written: string, returned = written): readonly Step[] => [
  raw('{"type":"delete","args":{"table":"value","where":{}}}', { status: 200 }),
  raw(
    `{"type":"insert","args":{"table":"value","objects":[{"id":1},{"id":2,${written}}],"returning":["id"]}}`,
    text('{"affected_rows":2,"returning":[{"id":1},{"id":2}]}'),
  ),
  raw(`{"type":"update","args":{"table":"value","where":{"id":1},"$set":{${written}}}}`, text('{"affected_rows":1}')),
  raw(
    `{"type":"select","args":{"table":"value","columns":[${columns}],"order_by":"id"}}`,
    text(`[{${returned}},{${returned}}]`),
  ),
]
const wrongValue = (row: string, path: string, code = 'parse-failed'): Step =>
  raw(`{"type":"insert","args":{"table":"value","objects":[{"id":7},{"id":8,${row}}]}}`, {
    status: 400,
    like: { code, path },
  })

/** Reads ids of `loose`. */
const loose = (args: string, rows: string): Step =>
  raw(`{"type":"select","args":{"table":"loose","columns":["id"],${args.slice(1)}}`, text(rows))
const document = (query: string, variables: string, expected: Expected): Step => ({
  path: '/v1/graphql',
  method: 'POST',
  body: `{"query":${JSON.stringify(query)},"variables":${variables}}`,
  expected,
})
const asked = (query: string, variables: string, answer: string): Step =>
  document(query, variables, text(`{"data":{"loose":${answer}}}`))
const refused = (query: string, variables: string, message: RegExp): Step =>
  document(query, variables, like({ errors: [{ message }] }))

const GRAPHQL = { bag: { a: '1', b: null, 'q"': 'x\\' }, homes: [{ street: 'a, "b"', no: 1 }, null] }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'value.numbers': [
    ...kept('"i","n","x"', '"i":9223372036854775807,"n":1.10000000000000000000000001,"x":0.1'),
    ...kept('"i","n"', '"i":"9007199254740993","n":"1.10"', '"i":9007199254740993,"n":1.10'),
    wrongValue('"i":9223372036854775808', '$.args', 'postgres-error'),
    wrongValue('"i":1.5', '$.args.objects[1].i'),
    ...kept('"price"', '"price":1.005', '"price":1.01'),
  ],
  'value.times': [
    ...kept(
      '"ts","plain","at"',
      '"ts":"2024-01-01T02:00:00.123456+02:00","plain":"2024-01-01 02:00:00.1","at":"03:04:05.000001"',
      '"ts":"2024-01-01T00:00:00.123456+00:00","plain":"2024-01-01T02:00:00.1","at":"03:04:05.000001"',
    ),
  ],
  'value.text': [
    ...kept('"s"', String.raw`"s":"a\"b\\c\n\t'$1 漢😀é"`),
    ...kept('"s"', String.raw`"s":"\u00e9\/"`, '"s":"é/"'),
    ...kept('"s"', '"s":""'),
    wrongValue(String.raw`"s":"a\u0000b"`, '$.args.objects[1].s'),
    wrongValue(String.raw`"s":"\ud800"`, '$.args.objects[1].s'),
  ],
  'value.json': [
    ...kept(
      '"j","b"',
      '"j":{"b":1,"a":[1.0]},"b":{"x":12345678901234567890,"a":null}',
      '"j":{"b":1,"a":[1.0]},"b":{"a": null, "x": 12345678901234567890}',
    ),
    raw(
      '{"type":"insert","args":{"table":"value","objects":[{"id":9,"j":{"b" : 1,"a":[1.0]}}],"returning":["j"]}}',
      text('{"affected_rows":1,"returning":[{"j":{"b" : 1,"a":[1.0]}}]}'),
    ),
    ...kept('"j","b"', '"j":"text","b":[]'),
    ...kept('"j","b"', '"j":null,"b":null'),
  ],
  'value.array': [
    ...kept('"tags","grid"', String.raw`"tags":["a,\"b\"",null,"","NULL","{}"],"grid":[[1,2],[3,null]]`),
    ...kept('"tags","grid"', '"tags":[],"grid":[]'),
    wrongValue('"tags":["a",1]', '$.args.objects[1].tags[1]'),
    wrongValue('"tags":[true]', '$.args.objects[1].tags[0]'),
    wrongValue('"grid":[[1],["x"]]', '$.args', 'postgres-error'),
  ],
  'value.domain': async (t, server) => {
    const row = { f: [true, null], w: ['a', 'b'], j: [{ x: 1 }, [2], 'y'], c: [{ street: 'x', no: 1 }] }
    await server.must('insert', { table: 'inside', objects: [{ id: 1, ...row }, { id: 2 }] })
    await server.must('update', { table: 'inside', where: { id: 2 }, $set: row })
    const all = (await server.query('select', { table: 'inside', columns: ['*'], order_by: ['w', 'id'] })).body
    t.same(all, [
      { id: 1, ...row },
      { id: 2, ...row },
    ])
    for (const where of [
      { w: row.w },
      { w: { $contains: ['b'] } },
      { w: { $contained_in: ['a', 'b', 'c'] } },
      { f: { $contains: [true] } },
    ])
      t.match(await server.must('count', { table: 'inside', where }), { count: 2 }, JSON.stringify(where))
    const long = { status: 400, body: { error: /violates check constraint "short_word_check"/ } }
    t.match(await server.query('insert', { table: 'inside', objects: [{ id: 3, w: ['too long'] }] }), long)
    t.match(await server.query('insert', { table: 'inside', objects: [{ id: 3, w: [1] }] }), {
      status: 400,
      body: { code: 'parse-failed' },
    })
    const called = await server.query('call', { function: 'words', arguments: { given: row.w }, columns: ['id'] })
    t.same(called.body, [{ id: 1 }, { id: 2 }])
    const mutation =
      'mutation { update_inside(where: {w: {_contains: ["a"]}}, _set: {f: [false], w: ["q"]}) { returning { f w } } }'
    const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query: mutation }) })
    t.same(body.data.update_inside.returning, [
      { f: [false], w: ['q'] },
      { f: [false], w: ['q'] },
    ])
  },
  'value.hstore': [
    ...kept(
      '"bag"',
      String.raw`"bag":{"a":"1","b":null,"q\"":"x\\"}`,
      String.raw`"bag":{"a": "1", "b": null, "q\"": "x\\"}`,
    ),
    ...kept('"bag"', '"bag":{}'),
    ...kept('"bag"', '"bag":null'),
    ...kept('"bag"', '"bag":"a=>1"', '"bag":{"a": "1"}'),
    raw(
      '{"type":"insert","args":{"table":"value","objects":[{"id":3,"bag":"a=>2"},{"id":4}],"returning":["bag"]}}',
      text('{"affected_rows":2,"returning":[{"bag":{"a": "2"}},{"bag":{"d": "1"}}]}'),
    ),
    wrongValue('"bag":"[2,9)"', '$.args', 'postgres-error'),
    wrongValue('"bag":"a=>"', '$.args', 'postgres-error'),
    wrongValue('"bag":{"a":1}', '$.args.objects[1].bag.a'),
    wrongValue('"bag":[]', '$.args.objects[1].bag'),
  ],
  'value.composite': [
    ...kept('"home"', String.raw`"home":{"street":"a, \"b\"","no":1}`),
    ...kept('"homes"', String.raw`"homes":[{"street":"a)","no":1},null,{"street":null,"no":2}]`),
    ...[
      { $eq: [{ street: 'a)', no: 1 }, null, { street: null, no: 2 }] },
      { $contains: [{ street: 'a)', no: 1 }] },
      '{"(\\"a)\\",1)",NULL,"(,2)"}',
    ].map((homes) => query('count', { table: 'value', where: { homes } }, exactly({ count: 2 }))),
    ...kept('"homes"', '"homes":[]'),
    ...kept('"homes"', '"homes":null'),
    {
      path: '/v1/graphql',
      method: 'POST',
      body: JSON.stringify({
        query: 'mutation ($o: [value_insert_input!]!) { insert_value(objects: $o) { returning { bag homes } } }',
        variables: { o: [{ id: 5, ...GRAPHQL }] },
      }),
      expected: is({ data: { insert_value: { returning: [GRAPHQL] } } }),
    },
    wrongValue('"home":{"street":"a","no":"x"}', '$.args', 'postgres-error'),
  ],
  'value.others': [
    ...kept(
      '"flag","mood","uid","bytes","span","day"',
      String.raw`"flag":false,"mood":"happy","uid":"8d6f2b1e-4c0a-4f57-9b1e-0a1b2c3d4e5f","bytes":"\\x00ff","span":"[1,5)","day":"2024-02-29"`,
    ),
  ],
  'value.whole': [
    raw(
      '{"type":"insert","args":{"table":"loose","objects":[{"id":20e-1,"small":1e1,"big":-0,"list":[1.0,-20e-1,null]}],"returning":["id","small","big","list"]}}',
      text('{"affected_rows":1,"returning":[{"id":2,"small":10,"big":0,"list":[1,-2,null]}]}'),
    ),
    raw(
      '{"type":"update","args":{"table":"loose","where":{"id":{"$in":[2.0]}},"$set":{"small":2.0,"list":[3.0]},"$inc":{"big":5.0},"returning":["small","big","list"]}}',
      text('{"affected_rows":1,"returning":[{"small":2,"big":5,"list":[3]}]}'),
    ),
    loose('{"where":{"id":1e0},"limit":1.0,"offset":0e5}', '[{"id":1}]'),
    asked(
      'query ($i: Int!, $l: Int) { loose(where: {id: {_eq: $i}}, limit: $l) { id } }',
      '{"i":2.0,"l":1e1}',
      '[{"id":2}]',
    ),
    asked('{ loose(where: {id: {_in: [1.0]}, small: {_is_null: true}}, limit: 1e1) { id } }', '{}', '[{"id":1}]'),
    ...['{"id":1.5}', '{"id":7,"small":32768.0}', '{"id":7,"list":[1,1.5]}', '{"id":7,"big":1e19}'].map((row) =>
      raw(`{"type":"insert","args":{"table":"loose","objects":[{"id":6},${row}]}}`, {
        status: 400,
        like: {
          code: 'parse-failed',
          path: /^\$\.args\.objects\[1\]\.\w+(\[1\])?$/,
          error: /^expecting a whole number in the range of /,
        },
      }),
    ),
    refused('query ($i: Int!) { loose(where: {id: {_eq: $i}}) { id } }', '{"i":1.5}', /expecting a value of type Int!/),
    refused('query ($i: Int!) { loose(where: {id: {_eq: $i}}) { id } }', '{"i":2147483648}', /in the range of int4/),
    refused('{ loose(where: {id: {_eq: 1.5}}) { id } }', '{}', /Int cannot represent non-integer value: 1.5/),
  ],
  'value.wide': [
    loose('{"limit":9223372036854775807,"order_by":"id"}', '[{"id":1},{"id":2}]'),
    loose('{"offset":9223372036854775807}', '[]'),
    ...['limit', 'offset'].map((key) =>
      raw(`{"type":"select","args":{"table":"loose","columns":["id"],"${key}":9223372036854775808}}`, {
        status: 400,
        like: { code: 'parse-failed', path: `$.args.${key}` },
      }),
    ),
    asked('{ loose(limit: 9223372036854775807, order_by: {id: asc}) { id } }', '{}', '[{"id":1},{"id":2}]'),
    asked('query ($n: Int) { loose(offset: $n) { id } }', '{"n":9223372036854775807}', '[]'),
    refused('{ loose(limit: 9223372036854775808) { id } }', '{}', /Int cannot represent/),
    refused(
      'query ($n: Int) { loose(limit: $n) { id } }',
      '{"n":9223372036854775808}',
      /expecting a value of type Int/,
    ),
  ],
  'value.real': [
    ...['NaN', 'Infinity', '-Infinity'].flatMap((value) => [
      asked(
        `mutation { loose: update_loose(where: {id: {_eq: 1}}, _set: {r: "${value}"}) { returning { r } } }`,
        '{}',
        `{"returning":[{"r":"${value}"}]}`,
      ),
      asked(
        'query ($r: Float!) { loose(where: {r: {_eq: $r}}) { id r } }',
        `{"r":"${value}"}`,
        `[{"id":1,"r":"${value}"}]`,
      ),
    ]),
    refused('{ loose(where: {r: {_eq: "one"}}) { id } }', '{}', /Float cannot represent/),
    refused(
      'query ($r: Float!) { loose(where: {r: {_eq: $r}}) { id } }',
      '{"r":"1"}',
      /expecting a value of type Float!/,
    ),
  ],
  'value.citext': [
    ...['$eq', '$in', '$like', '$regex'].map((op) =>
      loose(`{"where":{"mail":{"${op}":${op === '$in' ? '["ANN@example.com"]' : '"ANN@example.com"'}}}}`, '[{"id":1}]'),
    ),
    ...['$ne', '$nin', '$nlike', '$gt', '$is_distinct'].map((op) =>
      loose(`{"where":{"id":1,"mail":{"${op}":${op === '$nin' ? '["ANN@example.com"]' : '"ANN@example.com"'}}}}`, '[]'),
    ),
    loose('{"where":{"tree":"a.b"}}', '[{"id":1}]'),
    loose('{"where":{"tree":{"$in":["a.b"],"$gte":"a","$descendant":"a"}}}', '[{"id":1}]'),
    loose('{"where":{"id":1,"tree":{"$nin":["a.b"]}}}', '[]'),
  ],
  'value.incomparable': [
    refused('{ loose(distinct_on: spot) { id } }', '{}', /"spot" is of type point, which PostgreSQL cannot compare/),
    refused('{ loose(distinct_on: doc) { id } }', '{}', /"doc" is of type xml, which PostgreSQL cannot compare/),
    refused('{ loose_aggregate { aggregate { count(columns: spot, distinct: true) } } }', '{}', /cannot compare/),
    asked(
      '{ loose: loose_aggregate { aggregate { count(columns: spot) max { __typename list } } } }',
      '{}',
      '{"aggregate":{"count":0,"max":{"__typename":"loose_max_fields","list":[3]}}}',
    ),
    refused('{ loose_aggregate { aggregate { max { nope } } } }', '{}', /"nope" on type "loose_max_fields"/),
  ],
  'value.wrong': [
    wrongValue('"mood":"angry"', '$.args', 'postgres-error'),
    wrongValue('"day":"2024-02-30"', '$.args', 'postgres-error'),
    wrongValue('"flag":5', '$.args.objects[1].flag'),
    wrongValue('"uid":{}', '$.args.objects[1].uid'),
    wrongValue('"s":[]', '$.args.objects[1].s'),
    query('count', { table: 'value', where: { id: { $gte: 7 } } }, exactly({ count: 0 })),
  ],
}

/** Its promises, with a case for each. */
export const values = area('values', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  for (const table of ['value', 'inside', 'loose']) await server.must('track_table', table)
  await server.must('track_function', 'words')
  return server
}
