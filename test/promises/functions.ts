import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, like, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What functions promise, as operations and as computed fields. */
const PROMISES = {
  'call.value': 'a function that returns a value answers with it',
  'call.output-arguments': 'output arguments are an object',
  'call.composite': 'a composite value is an object, or null',
  'call.row': 'a row of a tracked table is an object with its relationships, or null',
  'call.list': 'a function that returns many answers with a list',
  'call.table': 'returns table (...) is a list of objects',
  'call.void': 'void is null, and so is a procedure without output arguments',
  'call.procedure': 'a procedure answers with its output arguments, and cannot commit',
  'call.columns': 'columns selects columns of objects; the default is all',
  'call.list-keys': 'lists take where, order_by, limit, offset, distinct_on, group_by and aggregates',
  'call.values-column': 'in a list of values the column is called value',
  'call.table-rows': 'rows of a tracked table have its relationships',
  'call.default': 'arguments with a default are optional, and null is a value',
  'call.variadic': 'a variadic argument is a list, and arguments without a name are arg_1, arg_2',
  'call.digits': 'numbers keep their digits in arguments and results',
  'call.once': 'a volatile function runs once, in the transaction of the request, whatever is selected',
  'call.rolled-back': 'a change of a function is rolled back with its bulk',
  'call.forms': 'lists are streamed, and are JSON lines and CSV; a volatile function answers JSON only',
  'call.explain': 'explain has the plan of a call, and refuses a volatile function',
  'call.session': 'a session argument has the variables of the caller, and is not an argument of the request',
  'call.wrong-argument': 'missing, unknown and wrong arguments are refused with their path',
  'call.wrong-key': 'keys and columns that the result does not have are refused',
  'call.unknown': 'an unknown function is refused, with a suggestion',
  'call.error': 'admin gets the words of a function that fails, a role a general message',
  'call.odd-names': 'functions and arguments may have any name and schema',
  'role.permission': 'a role that may call a function sees its whole result',
  'role.table-rows': 'rows of a table also need its select permission, whose filter, columns and limit apply',
  'role.hidden': 'a role cannot tell a function that it may not call from none',
  'role.dropped': 'without the permission it is refused again',
  'track.must-not-be-overloaded': 'a function must not be overloaded, and track_function says what it does not support',
  'track.kept': 'run_sql does not drop a tracked function',
  'field.value': 'a computed field is a value of a row in GraphQL',
  'field.order-where': 'a computed field works in conditions and orders',
  'field.rows': 'a computed field that returns rows of a table is a list with arguments of its own',
  'field.session': 'a computed field can use the variables of the caller',
  'field.role': 'a role needs the field in its select permission',
  'field.filter': 'a permission can filter by a computed field',
  'field.check': 'a check sees the computed fields of rows after the write',
  'field.kept': 'a computed field that a permission uses is not dropped',
} as const

const SQL = `
create schema other;
create table author (id serial primary key, name text not null, secret text default 'hush');
create table article (id int primary key, author_id int references author, title text);
insert into author (name) values ('Ann'), ('Bob'), ('Cid');
insert into article values (1, 1, 'one'), (2, 2, 'two'), (3, 1, 'three');
create type mood as enum ('calm', 'wild');
create type place as (street text, no int);
create function add(a int, b bigint default 10) returns bigint language sql immutable as 'select a + b';
create function moods() returns setof mood language sql stable as $$ values ('calm'::mood), ('wild'), (null) $$;
create function pairs(n int) returns setof int[] language sql stable as $$ values (array[1]), (array[1, n]) $$;
create domain positive as int check (value > 0);
create function home(street text, no positive default 7) returns place language sql stable as $$ select street, no::int where street <> '' $$;
create function places(n int) returns setof place language sql stable rows 5 as $$ select 'street ' || i, i from generate_series(1, n) i $$;
create function divide(a int, b int, out quotient int, out remainder int) language sql immutable as $$ select a / b, a % b $$;
create function shift(inout x int, inout y int default null) language sql immutable as $$ select x + 1, y + 1 $$;
create function counted(n int) returns table (n int, "of all" int) language sql stable as $$ select i, n from generate_series(1, n) i $$;
create function longest(text, variadic text[]) returns text language sql immutable as
  $$ select x from unnest($1 || $2) x order by length(x) desc, x limit 1 $$;
create function most(variadic all_of numeric[]) returns numeric language sql immutable as $$ select max(x) from unnest(all_of) x $$;
create function whoami(session json) returns json language sql stable as $$ select session $$;
create function add_author(name text) returns int language sql as $$ insert into author (name) values (name) returning id $$;
create function add_two() returns setof author language sql as $$ insert into author (name) values ('Two'), ('Two') returning * $$;
create function rename_author(id int, name text, out was text, out now text) language sql as
  $$ update author a set name = rename_author.name from author b where a.id = rename_author.id and b.id = a.id returning b.name, a.name $$;
create function forget(id int) returns void language sql as $$ delete from author where author.id = forget.id $$;
create function refuse(a int) returns int language plpgsql as $$ begin raise exception 'no %', a using errcode = '22023'; end $$;
create procedure pay(id int, inout left_over numeric, inout note text default 'x') language plpgsql as
  $$ begin insert into author (name) values ('paid ' || id); left_over := left_over - 1.50; end $$;
create procedure quiet(name text) language sql as $$ insert into author (name) values (name) $$;
create procedure committing() language plpgsql as $$ begin commit; end $$;
create function articles_of(name text) returns setof article language sql stable as
  $$ select article.* from article join author on author.id = author_id where author.name = articles_of.name $$;
create function first_article(name text) returns article language sql stable as
  $$ select article.* from article join author on author.id = author_id where author.name = first_article.name order by id limit 1 $$;
create function other."Odd ""one"(  "the 'a" int) returns int language sql immutable as 'select "the ''a"';
create function anything(a anyelement) returns anyelement language sql as 'select a';
create function loose() returns record language sql as 'select 1, 2';
create function twins(out column2 text, out int) language sql immutable as $$ select 'a', 1 $$;
create function fires() returns trigger language plpgsql as 'begin return new; end';
create aggregate total(int) (sfunc = int4pl, stype = int);
create function variant(a int) returns int language sql as 'select 1';
create function variant(a text) returns int language sql as 'select 1';
create function twins_of(author) returns int language sql stable as $$ select count(*)::int from author a where a.name = $1.name $$;
create function shout(author) returns text language sql stable as $$ select upper($1.name) || '!' $$;
create function is_me(author, session json) returns boolean language sql stable as
  $$ select $1.id = (session ->> 'x-service-user-id')::int $$;
create function work(a author, min_id int) returns setof article language sql stable as
  $$ select * from article where author_id = a.id and id >= min_id order by id $$;`

const TRACKED =
  `add moods pairs home places divide shift counted longest most add_author add_two rename_author forget refuse pay quiet committing
  articles_of first_article`.split(/\s+/)

const USER: As = { role: 'user', variables: { 'x-service-user-id': '2' } }
const READER: As = { role: 'reader', variables: { 'x-service-user-id': '2' } }

const call = (name: unknown, args: unknown, expected: Expected, more: object = {}, as?: As): Step =>
  query('call', { function: name, arguments: args, ...more }, expected, as)
const wrong = (name: string, args: unknown, path: string, error: RegExp, more: object = {}): Step =>
  call(name, args, { status: 400, like: { path, error } }, more)
const count = (n: number, where: object): Step => query('count', { table: 'author', where }, exactly({ count: n }))
const graphql = (document: string, expected: unknown, as?: As): Step => ({
  path: '/v1/graphql',
  method: 'POST',
  body: JSON.stringify({ query: document }),
  expected: { status: 200, body: { data: expected } },
  ...(as ? { as } : {}),
})
const sent = (accept: string, name: string, args: object, expected: Expected): Step => ({
  ...call(name, args, expected),
  headers: { accept },
})

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'call.value': [
    call('add', { a: 1, b: 2 }, text('3')),
    call({ schema: 'public', name: 'add' }, { a: 2 }, text('12')),
    call('longest', { arg_1: 'a "b"', arg_2: [] }, text(String.raw`"a \"b\""`)),
  ],
  'call.output-arguments': [
    call('divide', { a: 7, b: 2 }, exactly({ quotient: 3, remainder: 1 })),
    call('shift', { x: 1 }, exactly({ x: 2, y: null })),
    call('shift', { x: 1, y: 5 }, exactly({ x: 2, y: 6 })),
  ],
  'call.composite': [
    call('home', { street: 'High' }, exactly({ street: 'High', no: 7 })),
    call('home', { street: '' }, text('null')),
  ],
  'call.row': [
    call('first_article', { name: 'Ann' }, exactly({ id: 1, author_id: 1, title: 'one' })),
    call('first_article', { name: 'Ann' }, exactly({ id: 1, author: { name: 'Ann' } }), {
      columns: ['id', { name: 'author', columns: ['name'] }],
    }),
    call('first_article', { name: 'Zed' }, text('null')),
  ],
  'call.list': [
    call('moods', {}, exactly(['calm', 'wild', null])),
    call('pairs', { n: 2 }, exactly([[1], [1, 2]])),
    call(
      'places',
      { n: 2 },
      exactly([
        { street: 'street 1', no: 1 },
        { street: 'street 2', no: 2 },
      ]),
    ),
    call('places', { n: 0 }, exactly([])),
  ],
  'call.table': [
    call(
      'counted',
      { n: 2 },
      exactly([
        { n: 1, 'of all': 2 },
        { n: 2, 'of all': 2 },
      ]),
    ),
  ],
  'call.void': [
    call('forget', { id: 3 }, text('null')),
    count(0, { id: 3 }),
    call('quiet', { name: 'quiet' }, text('null')),
    count(1, { name: 'quiet' }),
  ],
  'call.procedure': [
    call('pay', { id: 7, left_over: '10.00' }, text('{"left_over":8.50,"note":"x"}')),
    call('pay', { id: 7, left_over: 2, note: 'y' }, text('{"left_over":0.50,"note":"y"}')),
    count(2, { name: 'paid 7' }),
    call('committing', {}, refused('postgres-error', /invalid transaction termination/)),
  ],
  'call.columns': [
    call('home', { street: 'High' }, exactly({ no: 7 }), { columns: ['no'] }),
    call('divide', { a: 7, b: 2 }, exactly({ remainder: 1 }), { columns: ['remainder'] }),
    call('places', { n: 1 }, exactly([{ no: 1, street: 'street 1' }]), { columns: ['no', 'street'] }),
    call('counted', { n: 1 }, exactly([{ n: 1, 'of all': 1 }]), { columns: ['*'] }),
  ],
  'call.list-keys': [
    call('places', { n: 4 }, exactly([{ no: 3 }, { no: 2 }]), {
      columns: ['no'],
      where: { no: { $gt: 1 } },
      order_by: ['-no'],
      limit: 2,
      offset: 1,
    }),
    call('counted', { n: 3 }, exactly([{ n: 3 }]), {
      columns: ['n'],
      distinct_on: ['of all'],
      order_by: ['of all', '-n'],
    }),
    call('places', { n: 3 }, exactly([{ sum_no: 6, count: 3 }]), { columns: [{ sum: 'no' }, { count: '*' }] }),
    call('counted', { n: 3 }, exactly([{ 'of all': 3, count: 3 }]), {
      columns: ['of all', { count: '*' }],
      group_by: ['of all'],
    }),
  ],
  'call.values-column': [
    call('moods', {}, exactly(['wild']), { where: { value: { $neq: 'calm' } } }),
    call('pairs', { n: 2 }, exactly([[1, 2]]), { order_by: ['-value'], limit: 1 }),
  ],
  'call.table-rows': [
    call('articles_of', { name: 'Ann' }, exactly([{ id: 3, author: { name: 'Ann' } }]), {
      columns: ['id', { name: 'author', columns: ['name'] }],
      where: { author: { name: 'Ann' }, id: { $gt: 1 } },
      order_by: ['-author.name', '-id'],
    }),
  ],
  'call.default': [
    call('add', { a: 1 }, text('11')),
    call('add', { a: 1, b: null }, text('null')),
    query('call', { function: 'moods' }, exactly(['calm', 'wild', null])),
  ],
  'call.variadic': [
    call('longest', { arg_1: 'a', arg_2: ['b', 'ccc'] }, text('"ccc"')),
    call('most', { all_of: [1, '12345678901234567.5', 3] }, text('12345678901234567.5')),
  ],
  'call.digits': [
    {
      path: '/v1/query',
      method: 'POST',
      body: '{"type":"call","args":{"function":"add","arguments":{"a":0,"b":9007199254740993}}}',
      expected: text('9007199254740993'),
    },
  ],
  'call.once': [
    call('add_two', {}, exactly([]), { columns: ['id'], where: { id: 0 } }),
    call('add_two', {}, exactly([{ name: 'Two' }]), { columns: ['name'], limit: 1 }),
    count(4, { name: 'Two' }),
    call('add_author', { name: 'Eve' }, { status: 200 }),
    count(1, { name: 'Eve' }),
    call('rename_author', { id: 2, name: 'Rob' }, exactly({ now: 'Rob' }), { columns: ['now'] }),
    call('rename_author', { id: 2, name: 'Bob' }, exactly({ was: 'Rob', now: 'Bob' })),
  ],
  'call.rolled-back': [
    query(
      'bulk',
      [
        { type: 'call', args: { function: 'add_author', arguments: { name: 'Dan' } } },
        { type: 'count', args: { table: 'author', where: { name: 'Dan' } } },
        { type: 'call', args: { function: 'refuse', arguments: { a: 1 } } },
      ],
      refused('postgres-error', /no 1/, '$.args[2].args'),
    ),
    count(0, { name: 'Dan' }),
    query(
      'bulk',
      [
        { type: 'call', args: { function: 'quiet', arguments: { name: 'Dan' } } },
        { type: 'count', args: { table: 'author', where: { name: 'Dan' } } },
      ],
      exactly([null, { count: 1 }]),
    ),
  ],
  'call.forms': [
    sent('application/x-ndjson', 'moods', {}, text('"calm"\n"wild"\nnull\n')),
    sent('application/x-ndjson', 'divide', { a: 7, b: 2 }, text('{"quotient":3,"remainder":1}\n')),
    sent('text/csv', 'places', { n: 1 }, text('street,no\r\nstreet 1,1\r\n')),
    sent('text/csv', 'add_author', { name: 'Csv' }, refused('not-acceptable', /./, undefined, 406)),
    count(0, { name: 'Csv' }),
    call('counted', { n: 1500 }, { status: 200, like: { 1499: { n: 1500 } }, headers: { 'content-length': null } }),
  ],
  'call.explain': async (t, server) => {
    const explain = async (name: string, args: object) => {
      const body = { query: { type: 'call', args: { function: name, arguments: args } } }
      return (await server.fetch('/v1/query/explain', { method: 'POST', body: JSON.stringify(body) })).body
    }
    t.match((await explain('places', { n: 1 })).plans.join('\n'), /Function Scan on generate_series/)
    t.match(await explain('add_author', { name: 'x' }), { path: '$.query.args.function', code: 'unexpected-payload' })
  },
  'call.session': [
    query('track_function', { function: 'whoami', configuration: { session_argument: 'session' } }, { status: 200 }),
    query('create_function_permission', { function: 'whoami', role: 'user' }, { status: 200 }),
    call('whoami', {}, like({ 'x-service-user-id': '2' }), {}, USER),
    call('whoami', { session: {} }, { status: 400, like: { path: '$.args.arguments.session' } }, {}, USER),
  ],
  'call.wrong-argument': [
    wrong('add', { a: 'x' }, '$.args.arguments.a', /./),
    wrong('add', { a: true }, '$.args.arguments.a', /./),
    wrong('add', { a: 1, c: 1 }, '$.args.arguments.c', /unexpected key "c"/),
    wrong('add', {}, '$.args.arguments', /"a" is missing/),
    wrong('rename_author', { id: 2, now: 'x' }, '$.args.arguments.now', /unexpected key "now"/),
    wrong('home', { street: 'a', no: -1 }, '$.args', /positive/),
    wrong('add', 1, '$.args.arguments', /./),
    wrong('longest', { arg_1: 'a', arg_2: ['b', 5] }, '$.args.arguments.arg_2[1]', /./),
  ],
  'call.wrong-key': [
    wrong('add', { a: 1 }, '$.args.columns', /./, { columns: ['x'] }),
    wrong('add', { a: 1 }, '$.args', /does not return a list/, { limit: 1 }),
    wrong('home', { street: 'x' }, '$.args', /does not return a list/, { where: {} }),
    wrong('places', { n: 1 }, '$.args.columns[0]', /"nr"/, { columns: ['nr'] }),
    wrong('places', { n: 1 }, '$.args.after', /./, { after: { no: 1 } }),
    wrong('places', { n: 1 }, '$.args.lmit', /unexpected key "lmit"/, { lmit: 1 }),
    query('call', { arguments: {} }, refused('parse-failed', "the key 'function' was not present", '$.args')),
  ],
  'call.unknown': [
    call('ad', {}, refused('not-exists', /did you mean "add"/, '$.args.function')),
    call('missing', {}, refused('not-exists', /"missing"/, '$.args.function')),
    call('variant', { a: 1 }, refused('not-exists', /"variant"/)),
  ],
  'call.error': [
    call('refuse', { a: 3 }, refused('postgres-error', 'no 3')),
    query('create_function_permission', { function: 'refuse', role: 'user' }, { status: 200 }),
    call('refuse', { a: 3 }, { status: 400, like: { error: /could not evaluate/ } }, {}, USER),
  ],
  'call.odd-names': [call({ schema: 'other', name: 'Odd "one' }, { "the 'a": 5 }, text('5'))],
  'role.permission': [
    call('add', { a: 1 }, text('11'), {}, USER),
    call('places', { n: 1 }, exactly([{ count: 1 }]), { columns: [{ count: '*' }] }, USER),
    call('add_author', { name: 'Fay' }, { status: 200 }, {}, USER),
    count(1, { name: 'Fay' }),
  ],
  'role.table-rows': [
    call('articles_of', { name: 'Ann' }, refused('permission-denied', /./), {}, USER),
    call('articles_of', { name: 'Ann' }, exactly([{ id: 3 }]), {}, READER),
    call('articles_of', { name: 'Ann' }, exactly([{ id: 3 }]), { columns: ['*'], limit: 9 }, READER),
    call(
      'articles_of',
      { name: 'Ann' },
      refused('permission-denied', /"title"/, '$.args.columns[0]'),
      { columns: ['title'] },
      READER,
    ),
  ],
  'role.hidden': async (t, server) => {
    for (const name of ['moods', 'forget', 'pay', 'variant', 'first_article']) {
      const ask = (function_: string) => server.query('call', { function: function_, arguments: { n: 1 } }, USER)
      const [own, none] = [await ask(name), await ask('missing')]
      t.equal(own.status, 400)
      t.equal(own.text.replaceAll(name, 'missing'), none.text)
    }
    t.match((await server.query('call', { function: 'place' }, USER)).body.error, /did you mean "places"/)
    t.match((await server.query('call', { function: 'mods' }, USER)).body.error, /"mods"$/)
  },
  'role.dropped': [
    query('drop_function_permission', { function: 'add', role: 'user' }, exactly({ message: 'success' })),
    call('add', { a: 1 }, { status: 400 }, {}, USER),
    query('create_function_permission', { function: 'add', role: 'user' }, exactly({ message: 'success' })),
    call('add', { a: 1 }, text('11'), {}, USER),
  ],
  'track.must-not-be-overloaded': [
    ...(
      [
        ['variant', /overloaded/],
        ['anything', /anyelement/],
        ['loose', /declare their columns/],
        ['twins', /two columns named "column2"/],
        ['fires', /returns trigger/],
        ['total', /is an aggregate/],
      ] as const
    ).map(([name, error]) => query('track_function', name, refused('not-supported', error))),
    query('track_function', 'missing', refused('not-exists', /"missing"/)),
    query('track_function', 'add', { status: 400, like: { code: 'already-tracked' } }),
  ],
  'track.kept': [
    query('run_sql', { sql: 'drop function add' }, refused('dependency-error', /function add/)),
    call('add', { a: 1 }, text('11')),
  ],
  'field.value': [
    graphql('{ author(where: {id: {_lte: 2}}, order_by: {id: asc}) { shout } }', {
      author: [{ shout: 'ANN!' }, { shout: 'BOB!' }],
    }),
  ],
  'field.order-where': [
    graphql('{ author(where: {shout: {_like: "B%!"}}) { id } }', { author: [{ id: 2 }] }),
    graphql('{ author(where: {id: {_lte: 2}}, order_by: {shout: desc}) { id } }', { author: [{ id: 2 }, { id: 1 }] }),
  ],
  'field.rows': [
    graphql('{ author(where: {id: {_eq: 1}}) { work(args: {min_id: 2}) { title author { name } } } }', {
      author: [{ work: [{ title: 'three', author: { name: 'Ann' } }] }],
    }),
    graphql('{ author(where: {id: {_eq: 1}}) { work(args: {min_id: 1}, order_by: {id: desc}, limit: 1) { id } } }', {
      author: [{ work: [{ id: 3 }] }],
    }),
  ],
  'field.session': [
    graphql('{ author(order_by: {id: asc}) { id is_me } }', { author: [{ id: 2, is_me: true }] }, READER),
  ],
  'field.role': [
    {
      path: '/v1/graphql',
      method: 'POST',
      body: JSON.stringify({ query: '{ author { shout } }' }),
      as: READER,
      expected: { status: 200, like: { errors: [{ message: /shout/ }] } },
    },
  ],
  'field.filter': [
    query('select', { table: 'author', columns: ['id', 'name'] }, exactly([{ id: 2, name: 'Bob' }]), READER),
    query('count', { table: 'author' }, exactly({ count: 1 }), READER),
  ],
  'field.check': [
    query(
      'insert',
      { table: 'author', objects: [{ name: 'Fox' }, { name: 'Fox' }] },
      { status: 400, like: { error: /would not pass the insert check/ } },
      READER,
    ),
    query('insert', { table: 'author', objects: [{ name: 'Fox' }] }, exactly({ affected_rows: 1 }), READER),
    query(
      'insert',
      { table: 'author', objects: [{ name: 'Fox' }] },
      { status: 400, like: { error: /would not pass the insert check/ } },
      READER,
    ),
    query('select', { table: 'author', columns: ['id'], where: { twins_of: 1 } }, { status: 400 }, READER),
  ],
  'field.kept': [
    query(
      'drop_computed_field',
      { table: 'author', name: 'is_me' },
      refused('dependency-error', /permission author\.reader\.select/),
    ),
    query('drop_computed_field', { table: 'author', name: 'shout' }, exactly({ message: 'success' })),
  ],
}

/** Its promises, with a case for each. */
export const functions = area('functions', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/README.md': {
      Operations: {
        '`call`': ['call.value', 'call.list-keys'],
      },
    },
    'plugins/query/functions.md': {
      Call: {
        'A value (`returns bigint`)': 'call.value',
        'Output arguments, as functions and procedures have them': ['call.output-arguments', 'call.procedure'],
        'A composite value, or a row of a table': ['call.composite', 'call.row'],
        '`setof` one of these, or `returns table (...)`': ['call.list', 'call.table'],
        '`void`; a procedure without output arguments': 'call.void',
      },
    },
  },
  start,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const may = (name: string, role = 'user') => ({ type: 'create_function_permission', args: { function: name, role } })
  const field = (name: string, more: object = {}) => ({
    type: 'add_computed_field',
    args: { table: 'author', name, definition: { function: name, ...more } },
  })
  const permit = (table: string, permission: object) => ({
    type: 'create_select_permission',
    args: { table, role: 'reader', permission },
  })
  await server.must('bulk', [
    ...['author', 'article'].map((args) => ({ type: 'track_table', args })),
    {
      type: 'create_object_relationship',
      args: { table: 'article', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    ...[...TRACKED, { schema: 'other', name: 'Odd "one' }].map((args) => ({ type: 'track_function', args })),
    field('shout'),
    field('work'),
    field('twins_of'),
    field('is_me', { session_argument: 'session' }),
    ...['add', 'places', 'add_author', 'articles_of'].map((name) => may(name)),
    may('articles_of', 'reader'),
    permit('article', { columns: ['id'], filter: { id: { $gt: 1 } }, limit: 1 }),
    {
      type: 'create_insert_permission',
      args: { table: 'author', role: 'reader', permission: { check: { twins_of: 1 } } },
    },
    permit('author', { columns: ['id', 'name'], computed_fields: ['is_me'], filter: { is_me: true } }),
  ])
  return server
}
