import type { Test } from 'tap'
import { counted, data, fails, invalid, modern as ask } from '../kit/graphql-steps.js'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What functions and computed fields promise in `/v1/graphql`. */
const PROMISES = {
  'function.rows': 'a function that returns rows of a table is a list, with the arguments of the table',
  'function.arguments': 'arguments have their defaults, and may come as a variable; others are required',
  'function.wrong-arguments': 'unknown arguments and values of another type are refused',
  'function.aggregate': 'the rows of a function are aggregated',
  'function.one-row': 'a function that returns one row is that row or null',
  'function.schema': 'functions of other schemas have the name of the schema before their own',
  'function.value': 'a function that returns a value is a field of its type, one that returns values a list',
  'function.result': 'the columns of returns table are an object type, a list of which takes the arguments of a list',
  'function.void': 'a function that returns void is a mutation, and null',
  'function.unnamed': 'arguments without a name are arg_1 and so on, and need those before them',
  'function.error': 'an exception of a function is an error of the request',
  'function.alpha': 'the older dialect has no functions',
  'volatile.mutation': 'a volatile function is a mutation, and not a query',
  'volatile.once': 'it is called once, whatever where and limit select, and related rows show its effects',
  'volatile.row': 'the row that it returns is as it was written, or null',
  'volatile.role': 'a role sees of its rows those of the filter, which sees its effects',
  'volatile.atomic': 'it runs in the transaction of the request',
  'volatile.exposed': 'exposed_as makes a stable function a mutation',
  'procedure.mutation': 'a procedure is a mutation',
  'session.argument': 'a function receives the session variables in its session argument, which clients cannot set',
  'computed.value': 'a computed value is a field, with arguments of its own',
  'computed.where': 'conditions and order_by use computed values',
  'computed.where-rows': 'conditions use computed rows like those of a relationship',
  'computed.rows': 'computed rows take arguments, and those of a list',
  'computed.row': 'a function that returns one row of a table is an object or null',
  'computed.aggregate-order': 'rows are sorted by aggregates of computed rows',
  'computed.session': 'a computed field receives the session variables',
  'computed.written': 'rows that were written have their computed fields',
  'permission.function': 'a role needs a permission to call a function',
  'permission.rows': 'the filter, limit and columns of the table apply to its rows',
  'permission.table': 'without select permission of the table the function does not exist',
  'permission.computed': 'a computed value must be listed in computed_fields; * does not include it',
  'permission.computed-rows': 'computed rows need select permission of both tables, and are filtered',
  'permission.computed-conditions': 'the same holds for conditions on computed rows',
  'permission.computed-filter': 'filters of permissions use computed rows too',
  'permission.inferred': 'with inferFunctionPermissions the select permission is enough for queries that return rows',
  'track.names': 'names of arguments must be valid in GraphQL, or the function is left out',
  'track.refused': 'overloaded and polymorphic functions, and rows of untracked tables, are refused',
  'track.held': 'tables of its rows and the function itself are not dropped, nor is it overloaded, unless with cascade',
} as const

const SQL = `
create function label(a author, sep text default ' ') returns text language sql stable as $$ select a.name || sep || a.code $$;
create function initial(a author) returns text language sql immutable as $$ select left(a.name, 1) $$;
create function best(a author, low int) returns setof article language sql stable as
  $$ select * from article where author_id = a.id and rating >= low $$;
create function latest(a author) returns setof article language sql stable as $$ select * from article where author_id = a.id and id > 2 $$;
create function writer_of(a article) returns author language sql stable as $$ select w from author w where w.id = a.author_id $$;
create function seen_by(session json, a author) returns text language sql stable as $$ select a.name || ' by ' || (session ->> 'x-service-user-id') $$;
create function titled(word text, low int default 0) returns setof article language sql stable as
  $$ select * from article where title like word || '%' and rating >= low $$;
create function first_author() returns author language sql stable as $$ select * from author order by id limit 1 $$;
create function no_author() returns author language sql stable as $$ select null::author $$;
create function mine(session jsonb) returns setof article language sql stable as
  $$ select * from article where author_id = (session ->> 'x-service-user-id')::int $$;
create function next_number(n int) returns int language sql stable as 'select n + 1';
create function numbers(n int) returns setof int language sql stable as 'select generate_series(1, n)';
create function stats(low int) returns table (word text, size int) language sql stable as
  $$ select title, rating from article where rating >= low $$;
create function cut(int, low int default 2) returns setof article language sql stable as $$ select * from article where id in ($1, low) $$;
create function twice(int, low int default 2, jsonb default '{}') returns setof article language sql stable as
  $$ select * from article where id in ($1, ($3 ->> 'x-service-user-id')::int) and rating >= low $$;
create function fail(n int) returns setof article language plpgsql stable as $$ begin raise exception 'no such number'; end $$;
create function add_notes(amount int) returns setof note language sql volatile as
  $$ insert into note (id, n) select 100 + i, i from generate_series(1, amount) i returning * $$;
create function add_author(new_id int) returns author language plpgsql volatile as $$ declare made author;
  begin
    insert into author (id, name) values (new_id, 'made') returning * into made;
    insert into article (id, author_id) values (new_id, new_id), (new_id + 1, new_id);
    return made;
  end $$;
create table made (id int primary key, gone int, "t0" text, tags text[], born date, data jsonb);
alter table made drop column gone;
create function make(new_id int) returns made language plpgsql volatile as $$ declare row made;
  begin
    if new_id < 0 then return null; end if;
    insert into made values (new_id, 'O"Hara, (1)', '{"a b",null}', '2020-02-29', '{"a": [1.50]}') returning * into row;
    return row;
  end $$;
create function clear_notes() returns void language sql volatile as 'delete from note';
create procedure put_note(new_id int) language sql as 'insert into note (id) values (new_id)';
create function counted_up() returns setof note language sql stable as 'select * from note';
create function variant(a int) returns setof article language sql stable as $$ select * from article $$;
create function variant(a text) returns setof article language sql stable as $$ select * from article $$;
create function anything(a anyelement) returns setof article language sql stable as $$ select * from article $$;
create function odd("my arg" int) returns setof article language sql stable as $$ select * from article $$;
create table secret (id int primary key);
create function secrets() returns setof secret language sql stable as $$ select * from secret $$;
create schema lib;
create function lib.everything() returns setof article language sql stable as $$ select * from article $$;`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const GUEST: As = { role: 'guest' }
const ids = (...all: readonly number[]) => all.map((id) => ({ id }))
const hidden = (document: string, name: RegExp, as: As = ANN): Step => ask(document, invalid(name), { as })
const untrackable = (args: unknown, error: RegExp): Step =>
  query('track_function', args, refused('not-supported', error, '$.args'))

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'function.rows': [
    ask(
      '{ titled(args: {word: "a"}, where: {rating: {_gt: 10}}, order_by: {id: desc}, limit: 2, offset: 1) { id __typename author { name } } }',
      data({
        titled: [
          { id: 5, __typename: 'article', author: { name: 'Ann' } },
          { id: 4, __typename: 'article', author: { name: 'Bob' } },
        ],
      }),
    ),
  ],
  'function.arguments': [
    ask('query ($a: titled_args!) { titled(args: $a) { id } }', data({ titled: ids(6) }), {
      variables: { a: { word: 'a', low: 60 } },
    }),
    ask(
      'query ($n: Int) { titled(args: {word: "a", low: $n}, order_by: {id: asc}) { id } }',
      data({ titled: ids(5, 6) }),
      {
        variables: { n: 50 },
      },
    ),
    ask('{ titled(args: {low: 1}) { id } }', fails('unexpected-payload', /"word" is missing/)),
    ask('{ titled { id } }', invalid(/args/)),
  ],
  'function.wrong-arguments': [
    ask('{ titled(args: {word: "a", other: 1}) { id } }', invalid(/other/)),
    ask('{ titled(args: {word: "a", low: "x"}) { id } }', invalid(/Int/)),
  ],
  'function.aggregate': [
    ask(
      '{ titled_aggregate(args: {word: "a", low: 40}, order_by: {id: asc}) { aggregate { count max { rating } } nodes { id } } }',
      data({ titled_aggregate: { aggregate: { count: 3, max: { rating: 60 } }, nodes: ids(4, 5, 6) } }),
    ),
  ],
  'function.one-row': [
    ask(
      '{ first_author { id name } no_author { id } }',
      data({ first_author: { id: 1, name: 'Ann' }, no_author: null }),
    ),
  ],
  'function.schema': [
    ask('{ lib_everything(limit: 1, order_by: {id: asc}) { id } }', data({ lib_everything: ids(1) })),
    query('export_metadata', {}, like({ functions: [{ function: { schema: 'lib', name: 'everything' } }] })),
  ],
  'function.value': [
    ask('{ next_number(args: {n: 41}) numbers(args: {n: 3}) }', data({ next_number: 42, numbers: [1, 2, 3] })),
  ],
  'function.result': [
    ask(
      '{ stats(args: {low: 20}, where: {size: {_lt: 60}}, order_by: {size: desc}, limit: 2) { word size __typename } }',
      data({
        stats: [
          { word: 'a5', size: 50, __typename: 'stats_result' },
          { word: 'a4', size: 40, __typename: 'stats_result' },
        ],
      }),
    ),
  ],
  'function.void': [
    ask('mutation { put_note(args: {new_id: 1}) clear_notes }', data({ put_note: null, clear_notes: null })),
    counted('note', 0),
    ask('{ clear_notes }', invalid(/clear_notes/)),
  ],
  'function.unnamed': [
    ask('{ cut(args: {arg_1: 3, low: 1}, order_by: {id: asc}) { id } }', data({ cut: ids(1, 3) })),
    ask('{ cut(args: {arg_1: 3}, order_by: {id: asc}) { id } }', data({ cut: ids(2, 3) })),
    ask('{ twice(args: {arg_1: 3}) { id } }', fails('unexpected-payload', /"low" is missing/)),
    ask('{ twice(args: {arg_1: 3, low: 1}, order_by: {id: asc}) { id } }', data({ twice: ids(1, 3) }), { as: ANN }),
  ],
  'function.error': [ask('{ fail(args: {n: 1}) { id } }', fails('data-exception', 'no such number'))],
  'function.alpha': [
    {
      ...ask('{ titled(args: {word: "a"}) { id } }', {
        status: 400,
        like: { errors: [{ code: 'validation-failed' }] },
      }),
      path: '/v1alpha1/graphql',
    },
  ],
  'volatile.mutation': [
    ask(
      'mutation { add_notes(args: {amount: 2}) { id n } }',
      data({
        add_notes: [
          { id: 101, n: 1 },
          { id: 102, n: 2 },
        ],
      }),
    ),
    ask('{ add_notes(args: {amount: 2}) { id } }', invalid(/add_notes/)),
    {
      path: `/v1/graphql?query=${encodeURIComponent('mutation { clear_notes }')}`,
      method: 'GET',
      expected: { status: 405, like: { errors: [{ message: /POST/ }] } },
    },
    counted('note', 2),
  ],
  'volatile.once': [
    ask(
      'mutation { clear_notes add_notes(args: {amount: 4}, where: {n: {_neq: 2}}, order_by: {id: desc}, limit: 2) { n } add_author(args: {new_id: 10}) { name articles(order_by: {id: asc}) { id } latest { id } label(args: {sep: null}) } }',
      data({
        clear_notes: null,
        add_notes: [{ n: 4 }, { n: 3 }],
        add_author: { name: 'made', articles: ids(10, 11), latest: ids(10, 11), label: null },
      }),
    ),
    counted('note', 4),
    ask(
      'mutation { clear_notes add_notes(args: {amount: 3}, limit: 0) { n } }',
      data({ clear_notes: null, add_notes: [] }),
    ),
    counted('note', 3),
  ],
  'volatile.row': [
    ask(
      'mutation { make(args: {new_id: 1}) { t0 tags born data } none: make(args: {new_id: -1}) { t0 } }',
      data({
        make: { t0: 'O"Hara, (1)', tags: ['a b', null], born: '2020-02-29', data: { a: [1.5] } },
        none: null,
      }),
    ),
  ],
  'volatile.role': [
    ask(
      'mutation ($id: Int!) { add_author(args: {new_id: $id}) { name } clear_notes add_notes(args: {amount: 3}) { n } }',
      data({ add_author: { name: 'made' }, clear_notes: null, add_notes: [{ n: 1 }] }),
      { variables: { id: 12 }, as: { role: 'writer' } },
    ),
    counted('note', 3),
  ],
  'volatile.atomic': [
    ask(
      'mutation { clear_notes a: add_notes(args: {amount: 1}) { id } b: add_notes(args: {amount: 1}) { id } }',
      fails('constraint-violation', /^Uniqueness violation/),
    ),
    counted('note', 3),
  ],
  'volatile.exposed': [
    ask('mutation { counted_up(order_by: {id: asc}) { n } }', data({ counted_up: [{ n: 1 }, { n: 2 }, { n: 3 }] })),
    ask('{ counted_up { n } }', invalid(/counted_up/)),
  ],
  'procedure.mutation': [
    ask('mutation { put_note(args: {new_id: 7}) }', data({ put_note: null })),
    counted('note', 4),
    ask('{ put_note(args: {new_id: 8}) }', invalid(/put_note/)),
  ],
  'session.argument': [
    ask('{ mine(order_by: {id: asc}) { id } }', data({ mine: ids(1, 3) }), { as: ANN }),
    hidden('{ mine(args: {session: "{}"}) { id } }', /args/),
    hidden('{ author { seen_by(args: {session: "{}"}) } }', /args/),
    ask('{ twice(args: {arg_1: 3, low: 1, arg_2: "{}"}) { id } }', invalid(/arg_2/)),
  ],
  'computed.value': [
    ask(
      'query ($s: String) { author(where: {id: {_lt: 3}}, order_by: {id: asc}) { label dashed: label(args: {sep: "-"}) plus: label(args: {sep: $s}) initial } }',
      data({
        author: [
          { label: 'Ann a', dashed: 'Ann-a', plus: 'Ann+a', initial: 'A' },
          { label: 'Bob b', dashed: 'Bob-b', plus: 'Bob+b', initial: 'B' },
        ],
      }),
      { variables: { s: '+' } },
    ),
    ask(
      'query ($a: author_label_args) { author_by_pk(id: 1) { label(args: $a) } }',
      data({ author_by_pk: { label: 'Ann-a' } }),
      {
        variables: { a: { sep: '-' } },
      },
    ),
  ],
  'computed.where': [
    ask('{ author(where: {label: {_ilike: "%B"}}) { id } }', data({ author: ids(2) })),
    ask('{ author(where: {_not: {initial: {_in: ["A"]}}, id: {_lt: 9}}) { id } }', data({ author: ids(2) })),
    ask('{ author(where: {initial: {_is_null: false, _in: ["A"]}, id: {_lt: 9}}) { id } }', data({ author: ids(1) })),
    ask('{ author(order_by: {label: desc_nulls_last}, where: {id: {_lt: 9}}) { id } }', data({ author: ids(2, 1, 3) })),
  ],
  'computed.where-rows': [
    ask('{ author(where: {latest: {id: {_eq: 6}}}) { id } }', data({ author: ids(2) })),
    ask('{ author(where: {latest: {}, id: {_lt: 9}}, order_by: {id: asc}) { id } }', data({ author: ids(1, 2) })),
    ask('{ author(where: {_not: {latest: {}}, id: {_lt: 9}}) { id } }', data({ author: ids(3) })),
    ask(
      'query ($w: article_bool_exp!) { article(where: $w, order_by: {id: asc}) { id } }',
      data({ article: ids(1, 3, 5) }),
      { variables: { w: { writer_of: { latest: { writer_of: { name: { _eq: 'Ann' } } } } } } },
    ),
    ask('{ article(where: {_not: {writer_of: {}}}) { id } }', data({ article: ids(7) })),
    ask('{ author(where: {best: {id: {_eq: 1}}}) { id } }', invalid(/best/)),
    ask('{ author(where: {latest: {nope: {_eq: 1}}}) { id } }', invalid(/nope/)),
    ask('{ author(where: {latest: {id: {_eq: null}}}) { id } }', fails('validation-failed', /null/)),
  ],
  'computed.rows': [
    ask(
      '{ author(where: {id: {_lt: 3}}, order_by: {id: asc}) { best(args: {low: 30}, order_by: {rating: desc}, limit: 1) { id } } }',
      data({ author: [{ best: ids(5) }, { best: ids(6) }] }),
    ),
    ask(
      'query ($a: author_best_args!) { author_by_pk(id: 1) { best(args: $a, distinct_on: published) { published } } }',
      data({ author_by_pk: { best: [{ published: true }] } }),
      { variables: { a: { low: 0 } } },
    ),
    ask('{ author { best { id } } }', invalid(/args/)),
    ask('{ author { best(args: {}) { id } } }', fails('unexpected-payload', /"low" is missing/)),
  ],
  'computed.row': [
    ask(
      '{ article(where: {id: {_in: [1, 7]}}, order_by: {id: asc}) { writer_of { name label } } }',
      data({ article: [{ writer_of: { name: 'Ann', label: 'Ann a' } }, { writer_of: null }] }),
    ),
  ],
  'computed.aggregate-order': [
    ask(
      '{ author(order_by: [{latest_aggregate: {count: desc}}, {id: desc}], where: {id: {_lt: 9}}) { id } }',
      data({ author: ids(2, 1, 3) }),
    ),
    ask(
      '{ author(order_by: {latest_aggregate: {max: {rating: asc_nulls_first}}}, where: {id: {_lt: 9}}) { id } }',
      data({ author: ids(3, 1, 2) }),
    ),
    ask(
      '{ article(order_by: [{author: {latest_aggregate: {max: {rating: desc_nulls_last}}}}, {id: asc}], limit: 4) { id } }',
      data({ article: ids(2, 4, 6, 1) }),
    ),
    ask(
      '{ author(order_by: [{latest_aggregate: {max: {rating: desc_nulls_last}}}, {id: desc}], where: {id: {_lt: 9}}) { id } }',
      data({ author: ids(1, 3, 2) }),
      { as: { role: 'counter' } },
    ),
    ask('{ author(order_by: {best_aggregate: {count: desc}}) { id } }', invalid(/best_aggregate/)),
  ],
  'computed.session': [
    ask('{ author_by_pk(id: 2) { seen_by } }', data({ author_by_pk: { seen_by: 'Bob by 1' } }), { as: ANN }),
  ],
  'computed.written': [
    ask(
      'mutation { insert_author_one(object: {id: 20, name: "Eve", code: "e"}) { label } update_author(where: {id: {_eq: 20}}, _set: {name: "Zed"}) { returning { label } } delete_author(where: {id: {_eq: 20}}) { returning { label best(args: {low: 0}) { id } } } }',
      data({
        insert_author_one: { label: 'Eve e' },
        update_author: { returning: [{ label: 'Zed e' }] },
        delete_author: { returning: [{ label: 'Zed e', best: [] }] },
      }),
    ),
  ],
  'permission.function': [
    hidden('{ first_author { id } }', /first_author/),
    hidden('{ next_number(args: {n: 1}) }', /next_number/),
    hidden('mutation { clear_notes }', /./),
    ask('{ titled(args: {word: "a", low: 30}, order_by: {id: asc}) { id } }', data({ titled: ids(3, 5) }), { as: ANN }),
  ],
  'permission.rows': [
    ask('{ titled(args: {word: "a"}, order_by: {id: asc}) { id } }', data({ titled: ids(1, 3) }), { as: ANN }),
    hidden('{ titled(args: {word: "a"}) { weight } }', /weight/),
    hidden('{ titled(args: {word: "a"}, where: {weight: {_gt: 1}}) { id } }', /weight/),
    hidden('{ titled_aggregate(args: {word: "a"}) { aggregate { count } } }', /titled_aggregate/),
  ],
  'permission.table': [
    hidden('{ titled(args: {word: "a"}) { id } }', /titled/, GUEST),
    ask(
      '{ a: __type(name: "titled_args") { name } b: __type(name: "author_best_args") { name } }',
      data({ a: null, b: null }),
      { as: GUEST },
    ),
  ],
  'permission.computed': [
    ask('{ author_by_pk(id: 1) { label } }', data({ author_by_pk: { label: 'Ann a' } }), { as: ANN }),
    hidden('{ author { initial } }', /initial/),
    hidden('{ author(where: {initial: {_eq: "A"}}) { id } }', /initial/),
    hidden('{ author(order_by: {initial: asc}) { id } }', /initial/),
    hidden('{ author { label } }', /label/, GUEST),
  ],
  'permission.computed-rows': [
    ask(
      '{ author_by_pk(id: 1) { best(args: {low: 0}, order_by: {id: asc}) { id } } }',
      data({ author_by_pk: { best: ids(1, 3) } }),
      { as: ANN },
    ),
    ask('{ author_by_pk(id: 2) { best(args: {low: 0}) { id } } }', data({ author_by_pk: { best: [] } }), { as: ANN }),
    hidden('{ author { best(args: {low: 0}) { id } } }', /best/, GUEST),
    hidden('{ author(order_by: {latest_aggregate: {count: asc}}) { id } }', /latest_aggregate/),
  ],
  'permission.computed-conditions': [
    ask('{ author(where: {latest: {}}) { id } }', data({ author: ids(1) }), { as: ANN }),
    ask('{ author(where: {latest: {id: {_eq: 6}}}) { id } }', data({ author: [] }), { as: ANN }),
    hidden('{ author(where: {latest: {weight: {_gt: 0}}}) { id } }', /weight/),
    hidden('{ author(where: {latest: {}}) { id } }', /latest/, GUEST),
  ],
  'permission.computed-filter': [
    query(
      'create_select_permission',
      {
        table: 'author',
        role: 'fan',
        permission: {
          columns: ['id'],
          filter: {
            $or: [
              { latest: { rating: { $gt: 0 }, id: { $cgt: ['$', 'id'] }, writer_of: { name: 'Bob' } } },
              { label: 'x' },
            ],
          },
        },
      },
      is({ message: 'success' }),
    ),
    ask('{ author { id } }', data({ author: ids(2) }), { as: { role: 'fan' } }),
    ask(
      'mutation { insert_author_one(object: {id: 30, name: "Bob"}) { id } delete_author(where: {id: {_eq: 30}}) { affected_rows } }',
      data({ insert_author_one: { id: 30 }, delete_author: { affected_rows: 1 } }),
    ),
    query(
      'drop_computed_field',
      { table: 'author', name: 'latest' },
      refused('dependency-error', /permission.*author.*fan/),
    ),
    ...[{ best: {} }, { latest: 1 }, { latest: { nope: 1 } }].map((filter) =>
      query(
        'create_select_permission',
        { table: 'author', role: 'other', permission: { columns: ['id'], filter } },
        { status: 400, like: { path: /^\$\.args\.permission\.filter\./ } },
      ),
    ),
    query('drop_select_permission', { table: 'author', role: 'fan' }, is({ message: 'success' })),
  ],
  'permission.inferred': async (t, { databaseUrl }) => {
    const config = { plugins: { graphql: { inferFunctionPermissions: true } } }
    const server = await testServer(t, { databaseUrl, config })
    const send = async (query: string, as: As) => {
      const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)
      return body.errors?.[0].extensions.code ?? body.data
    }
    t.same(await send('{ first_author { id } }', GUEST), { first_author: { id: 1 } })
    t.same(await send('{ lib_everything(order_by: {id: asc}) { id } }', ANN), { lib_everything: ids(1, 3) })
    t.equal(await send('{ lib_everything { id } }', GUEST), 'validation-failed', 'no permission of the table')
    t.equal(await send('{ next_number(args: {n: 1}) }', ANN), 'validation-failed', 'no rows of a table')
    t.equal(await send('mutation { add_author(args: {new_id: 90}) { id } }', GUEST), 'validation-failed', 'volatile')
    const value = { function: 'next_number', arguments: { n: 1 } }
    t.match((await server.query('call', value, ANN)).body, { code: 'permission-denied' })
    await server.must('create_function_permission', { function: 'next_number', role: 'user' })
    t.same(await send('{ first_author { id } }', GUEST), { first_author: { id: 1 } }, 'after a change of the metadata')
    await server.must('drop_function_permission', { function: 'next_number', role: 'user' })
  },
  'track.names': [query('track_function', 'odd', { status: 200 }), ask('{ odd { id } }', invalid(/odd/))],
  'track.refused': [
    untrackable('variant', /overloaded/),
    untrackable('anything', /not plain inputs/),
    untrackable('secrets', /tracked table/),
    query('track_function', 'nothing', refused('not-exists', /"nothing" does not exist/, '$.args')),
    query('track_function', 'titled', refused('already-tracked', /already tracked/, '$.args')),
  ],
  'track.held': [
    query(
      'untrack_table',
      { table: 'article' },
      refused('dependency-error', /computed-field author\.best.*function titled/),
    ),
    query(
      'run_sql',
      { sql: 'create function mine() returns setof article language sql as $$ select * from article $$' },
      refused('dependency-error', /function mine/),
    ),
    query('run_sql', { sql: 'drop function cut(int, int)', cascade: true }, { status: 200 }),
    ask('{ cut(args: {arg_1: 3, low: 1}) { id } }', invalid(/cut/)),
  ],
}

/** Its promises, with a case for each. */
export const graphqlFunctions = area('graphql-functions', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/README.md': {
      Functions: {
        'A select permission must list a value in `computed_fields`;': 'permission.computed',
        'All arguments before one without a name must be given with it, even if they have a default.':
          'function.unnamed',
        'Other names must be valid in GraphQL.': 'track.names',
      },
    },
  },
})

async function start(t: Test) {
  const server = await testServer(t)
  const field = (table: string, name: string, more: object = {}) => ({
    type: 'add_computed_field',
    args: { table, name, definition: { function: name, ...more } },
  })
  const functions = [
    'titled',
    'first_author',
    'no_author',
    'next_number',
    'numbers',
    'stats',
    'cut',
    'fail',
    'add_notes',
  ]
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: `${SQL} insert into article (id, title) values (7, 'orphan')` } },
    { type: 'track_table', args: 'made' },
    ...[...functions, 'add_author', 'make', 'clear_notes', 'put_note', { schema: 'lib', name: 'everything' }].map(
      (args) => ({
        type: 'track_function',
        args,
      }),
    ),
    { type: 'track_function', args: { function: 'mine', configuration: { session_argument: 'session' } } },
    { type: 'track_function', args: { function: 'twice', configuration: { session_argument: 'arg_2' } } },
    { type: 'track_function', args: { function: 'counted_up', configuration: { exposed_as: 'mutation' } } },
    field('author', 'label'),
    field('author', 'initial'),
    field('author', 'best'),
    field('author', 'latest'),
    field('author', 'seen_by', { table_argument: 'a', session_argument: 'session' }),
    field('article', 'writer_of'),
    permit('select', 'author', 'user', { columns: '*', filter: {}, computed_fields: ['label', 'seen_by'] }),
    permit('select', 'article', 'user', {
      columns: ['id', 'title', 'rating'],
      filter: { published: true },
      limit: 2,
    }),
    permit('select', 'author', 'guest', { columns: '*', filter: {} }),
    permit('select', 'author', 'counter', { columns: '*', filter: {} }),
    permit('select', 'article', 'counter', {
      columns: ['rating'],
      filter: { published: true },
      allow_aggregations: true,
    }),
    permit('select', 'author', 'writer', { columns: ['name'], filter: { articles: {} } }),
    permit('select', 'note', 'writer', { columns: ['n'], filter: { n: { $lt: 2 } } }),
    ...['titled', 'mine', 'twice'].map((name) => ({
      type: 'create_function_permission',
      args: { function: name, role: 'user' },
    })),
    ...['add_author', 'add_notes', 'clear_notes'].map((name) => ({
      type: 'create_function_permission',
      args: { function: name, role: 'writer' },
    })),
    { type: 'create_function_permission', args: { function: 'titled', role: 'guest' } },
  ])
  return server
}
