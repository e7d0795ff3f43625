import type { Test } from 'tap'
import { graphql, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** Functions, computed fields and names that an admin gives the API. */
const PROMISES = {
  'function.track': 'a tracked function can be called by admin, and by roles with the permission',
  'function.forms': 'it is named by its name, by schema and name, or as the key function',
  'function.version-2': 'version 2 of track_function is the same',
  'function.twice': 'it is tracked once',
  'function.missing': 'it must exist',
  'function.overloaded': 'it must not be overloaded',
  'function.unfit':
    'aggregates, triggers, polymorphic arguments, untyped records and rows of untracked tables are refused',
  'function.configuration': 'session_argument, exposed_as and custom_name configure it',
  'function.configuration-refused': 'a configuration that does not fit is refused with its path',
  'function.untrack': 'an untracked function cannot be called',
  'function.permission': 'a permission to call it is given and taken once',
  'function.arguments': 'its arguments without a name are arg_1, arg_2 and so on',
  'computed.add': 'a computed field is a field of its table in GraphQL',
  'computed.session': 'its function may take the row by name, and the session',
  'computed.taken': 'its name is not that of a column or a relationship',
  'computed.refused': 'its function exists, takes a row of the table, and changes nothing',
  'computed.drop': 'a dropped computed field is gone, unless permissions use it and cascade is not set',
  'customize.names': 'a table, its root fields and its columns get other names in GraphQL',
  'customize.older': 'set_table_custom_fields sets the names of root fields and columns, too, in its versions 1 and 2',
  'customize.null': 'null restores the names of the database',
  'customize.refused': 'names that are taken, or that GraphQL cannot have, are refused',
} as const

const SQL = `
create table author (id int primary key, name text);
create table article (id int primary key, title text, author_id int references author);
create table outside (id int);
create function articles_by(author int) returns setof article language sql stable as
  'select * from article where author_id = $1 order by id';
create function add_up(int, int default 2) returns int language sql immutable as 'select $1 + $2';
create function who(session json) returns text language sql stable as $$ select session ->> 'x-service-user-id' $$;
create function bump() returns int language sql volatile as 'update author set name = name returning 1';
create function twice_as(a int) returns int language sql as 'select 1';
create function twice_as(a text) returns int language sql as 'select 1';
create function anything(a anyelement) returns int language sql as 'select 1';
create function loose() returns record language sql as 'select 1, 2';
create function fires() returns trigger language plpgsql as 'begin return new; end';
create function outer_rows() returns setof outside language sql stable as 'select * from outside';
create aggregate total (int) (sfunc = int4pl, stype = int);
create function shout(a author) returns text language sql stable as 'select upper(a.name)';
create function greet(session json, a author) returns text language sql stable as
  $$ select a.name || ' and ' || (session ->> 'x-service-user-id') $$;
create function signed(a author, sep text) returns text language sql stable as 'select a.name || sep';
create function touch(a author) returns text language sql volatile as 'select a.name';
insert into author values (1, 'Ann'), (2, 'Ben');
insert into article values (1, 'one', 1), (2, 'two', 1), (3, 'three', 2)`

const SUCCESS: Expected = { status: 200, text: '{"message":"success"}' }
const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const held = (by: string) => refused('dependency-error', `cannot drop because of dependent objects: ${by}`)
const customize = (table: string, configuration: unknown, expected: Expected = SUCCESS): Step =>
  query('set_table_customization', { table, configuration }, expected)
const versioned = (version: number, type: string, args: unknown, expected: Expected): Step => ({
  ...query(type, args, expected),
  body: JSON.stringify({ type, version, args }),
})
const data = (value: object) => is({ data: value })
const INVALID = like({ errors: [{ extensions: { code: 'validation-failed' } }] })

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'function.track': [
    query('call', { function: 'articles_by', arguments: { author: 1 } }, { status: 400 }),
    query('track_function', 'articles_by', SUCCESS),
    query('call', { function: 'articles_by', arguments: { author: 1 }, columns: ['id'] }, is([{ id: 1 }, { id: 2 }])),
    query(
      'call',
      { function: 'articles_by', arguments: { author: 1 }, columns: ['id'] },
      refused('permission-denied', /./),
      USER,
    ),
    query('create_function_permission', { function: 'articles_by', role: 'user' }, SUCCESS),
    query(
      'create_select_permission',
      { table: 'article', role: 'user', permission: { columns: ['id'], filter: { id: { $gt: 1 } } } },
      SUCCESS,
    ),
    query('call', { function: 'articles_by', arguments: { author: 1 } }, is([{ id: 2 }]), USER),
  ],
  'function.forms': [
    query('track_function', { schema: 'public', name: 'add_up' }, SUCCESS),
    query('untrack_function', { function: 'add_up' }, SUCCESS),
    query('track_function', { function: 'add_up', comment: 'adds' }, SUCCESS),
    query('call', { function: { schema: 'public', name: 'add_up' }, arguments: { arg_1: 1, arg_2: 5 } }, is(6)),
  ],
  'function.version-2': [
    query('untrack_function', 'add_up', SUCCESS),
    versioned(2, 'track_function', { function: 'add_up', configuration: { custom_name: 'plus' } }, SUCCESS),
    graphql('{ plus(args: {arg_1: 1}) }', data({ plus: 3 })),
    query('untrack_function', 'add_up', SUCCESS),
    query('track_function', { function: 'add_up', comment: 'adds' }, SUCCESS),
    versioned(3, 'track_function', 'add_up', refused('parse-failed', /has versions 1 and 2/, '$.version')),
  ],
  'function.twice': [
    query('track_function', 'add_up', refused('already-tracked', 'function "add_up" is already tracked', '$.args')),
  ],
  'function.missing': [
    query('track_function', 'nope', refused('not-exists', 'function "nope" does not exist in the database', '$.args')),
  ],
  'function.overloaded': [
    query('track_function', 'twice_as', refused('not-supported', 'function "twice_as" is overloaded')),
  ],
  'function.unfit': Object.entries({
    total: /is an aggregate/,
    fires: /returns trigger/,
    anything: /anyelement/,
    loose: /declare their columns/,
    outer_rows: /does not return rows of a tracked table/,
  }).map(([name, error]) => query('track_function', name, refused('not-supported', error, '$.args'))),
  'function.configuration': [
    query(
      'track_function',
      { function: 'who', configuration: { session_argument: 'session', exposed_as: 'mutation', custom_name: 'ask' } },
      SUCCESS,
    ),
    query('create_function_permission', { function: 'who', role: 'user' }, SUCCESS),
    graphql('mutation { ask }', data({ ask: '1' }), USER),
    query('call', { function: 'who', arguments: {} }, is('1'), USER),
    query('call', { function: 'who', arguments: { session: {} } }, { status: 400 }, USER),
    query(
      'export_metadata',
      {},
      like({
        functions: [
          { function: 'add_up', comment: 'adds' },
          { function: 'articles_by', permissions: [{ role: 'user' }] },
          {
            function: 'who',
            configuration: { session_argument: 'session', exposed_as: 'mutation', custom_name: 'ask' },
          },
        ],
      }),
    ),
  ],
  'function.configuration-refused': [
    query(
      'track_function',
      { function: 'bump', configuration: { exposed_as: 'query' } },
      refused(
        'not-supported',
        'function "bump" is volatile: only a mutation may call it',
        '$.args.configuration.exposed_as',
      ),
    ),
    query(
      'track_function',
      { function: 'bump', configuration: { exposed_as: 'both' } },
      refused('parse-failed', 'expecting "query" or "mutation"'),
    ),
    query(
      'track_function',
      { function: 'bump', configuration: { session_argument: 'x' } },
      refused('not-exists', 'function "bump" has no argument "x"', '$.args.configuration.session_argument'),
    ),
    query(
      'track_function',
      { function: 'bump', configuration: { custom_nam: 'x' } },
      refused('unexpected-payload', /unexpected key "custom_nam"/, '$.args.configuration.custom_nam'),
    ),
    query(
      'track_function',
      { function: 'bump', configuration: { custom_name: 'author' } },
      refused('unexpected-payload', /is taken/, '$.args.configuration.custom_name'),
    ),
  ],
  'function.untrack': [
    query('untrack_function', 'articles_by', SUCCESS),
    query('call', { function: 'articles_by', arguments: { author: 1 } }, { status: 400 }),
    query(
      'untrack_function',
      'articles_by',
      refused('not-exists', 'function "articles_by" is not tracked', '$.args.function'),
    ),
  ],
  'function.permission': [
    query('create_function_permission', { function: 'add_up', role: 'user' }, SUCCESS),
    query('call', { function: 'add_up', arguments: { arg_1: 1 } }, is(3), USER),
    query(
      'create_function_permission',
      { function: 'add_up', role: 'user' },
      refused('already-exists', 'permission of role "user" to call function "add_up" already exists', '$.args'),
    ),
    query('drop_function_permission', { function: 'add_up', role: 'user' }, SUCCESS),
    query('call', { function: 'add_up', arguments: { arg_1: 1 } }, refused('permission-denied', /./), USER),
    query(
      'drop_function_permission',
      { function: 'add_up', role: 'user' },
      refused('not-exists', 'permission of role "user" to call function "add_up" does not exist', '$.args'),
    ),
    query(
      'create_function_permission',
      { function: 'nope', role: 'user' },
      refused('not-exists', 'function "nope" is not tracked'),
    ),
    query('create_function_permission', { function: 'add_up', role: 'a b' }, refused('parse-failed', /a role name/)),
  ],
  'function.arguments': [
    query('call', { function: 'add_up', arguments: { arg_1: 3 } }, is(5)),
    query('call', { function: 'add_up', arguments: { arg_2: 3 } }, { status: 400, like: { error: /arg_1/ } }),
  ],
  'computed.add': [
    query('add_computed_field', { table: 'author', name: 'loud', definition: { function: 'shout' } }, SUCCESS),
    graphql('{ author(order_by: {id: asc}) { loud } }', data({ author: [{ loud: 'ANN' }, { loud: 'BEN' }] })),
  ],
  'computed.session': [
    query(
      'add_computed_field',
      {
        table: 'author',
        name: 'greeting',
        definition: { function: 'greet', table_argument: 'a', session_argument: 'session' },
        comment: 'hello',
      },
      SUCCESS,
    ),
    query(
      'create_select_permission',
      {
        table: 'author',
        role: 'user',
        permission: { columns: ['id'], filter: { id: 2 }, computed_fields: ['greeting'] },
      },
      SUCCESS,
    ),
    graphql('{ author { greeting } }', data({ author: [{ greeting: 'Ben and 1' }] }), USER),
  ],
  'computed.taken': ['name', 'loud'].map((name) =>
    query(
      'add_computed_field',
      { table: 'author', name, definition: { function: 'shout' } },
      refused('already-exists', `column or relationship "${name}" of table "author" already exists`, '$.args.name'),
    ),
  ),
  'computed.refused': [
    query(
      'add_computed_field',
      { table: 'author', name: 'x', definition: { function: 'nope' } },
      refused('not-exists', /function "nope" does not exist in the database/, '$.args.definition.function'),
    ),
    query(
      'add_computed_field',
      { table: 'article', name: 'x', definition: { function: 'shout' } },
      refused(
        'unexpected-payload',
        'the first argument of "shout" is not a row of "article"',
        '$.args.definition.function',
      ),
    ),
    query(
      'add_computed_field',
      { table: 'author', name: 'x', definition: { function: 'touch' } },
      refused('not-supported', 'function "touch" is volatile', '$.args.definition.function'),
    ),
    query(
      'add_computed_field',
      { table: 'author', name: 'x', definition: { function: 'greet' } },
      refused(
        'unexpected-payload',
        'the first argument of "greet" is not a row of "author"',
        '$.args.definition.function',
      ),
    ),
    query(
      'add_computed_field',
      {
        table: 'author',
        name: 'x',
        definition: { function: 'greet', table_argument: 'a', session_argument: 'y' },
      },
      refused('not-exists', /no argument "y"/, '$.args.definition.session_argument'),
    ),
    query(
      'add_computed_field',
      { table: 'author', name: 'x', definition: { function: 'signed', session_argument: 'sep' } },
      refused('unexpected-payload', /json/, '$.args.definition.session_argument'),
    ),
  ],
  'computed.drop': [
    query('drop_computed_field', { table: 'author', name: 'greeting' }, held('permission author.user.select')),
    query('drop_computed_field', { table: 'author', name: 'greeting', cascade: true }, SUCCESS),
    query('drop_computed_field', { table: 'author', name: 'loud' }, SUCCESS),
    graphql('{ author { loud } }', INVALID),
    query(
      'drop_computed_field',
      { table: 'author', name: 'loud' },
      refused('not-exists', 'computed field "loud" does not exist', '$.args.name'),
    ),
  ],
  'customize.names': [
    customize('article', {
      custom_name: 'Text',
      custom_root_fields: { select: 'texts', insert_one: 'addText' },
      column_config: { title: { custom_name: 'heading' } },
    }),
    graphql(
      '{ texts(where: {heading: {_eq: "one"}}) { __typename heading } }',
      data({ texts: [{ __typename: 'Text', heading: 'one' }] }),
    ),
    graphql('{ Text_by_pk(id: 2) { heading } }', data({ Text_by_pk: { heading: 'two' } })),
    graphql(
      'mutation { addText(object: {id: 9, heading: "nine"}) { id heading } }',
      data({ addText: { id: 9, heading: 'nine' } }),
    ),
    graphql('{ article { id } }', INVALID),
    query('delete', { table: 'article', where: { title: 'nine' } }, is({ affected_rows: 1 })),
  ],
  'customize.older': [
    ...[1, 2].flatMap((version) => [
      customize('article', null),
      versioned(
        version,
        'set_table_custom_fields',
        { table: 'article', custom_root_fields: { select: `texts` }, custom_column_names: { title: 'heading' } },
        SUCCESS,
      ),
      graphql('{ texts(where: {id: {_eq: 1}}) { heading } }', data({ texts: [{ heading: 'one' }] })),
    ]),
    query(
      'set_table_custom_fields',
      { table: 'article', custom_root_fields: { selct: 'x' } },
      refused('unexpected-payload', /selct/, '$.args.custom_root_fields.selct'),
    ),
    query(
      'set_table_custom_fields',
      { table: 'article', custom_root_fields: { select: 'author' } },
      refused('unexpected-payload', /is taken/, '$.args.custom_root_fields.select'),
    ),
    query(
      'set_table_custom_fields',
      { table: 'article', custom_name: 'x' },
      refused('unexpected-payload', /custom_name/, '$.args.custom_name'),
    ),
    query('set_table_custom_fields', { table: 'nope' }, refused('not-exists', /"nope"/, '$.args.table')),
  ],
  'customize.null': [
    customize('article', null),
    graphql('{ article(where: {id: {_eq: 1}}) { title } }', data({ article: [{ title: 'one' }] })),
    graphql('{ texts { id } }', INVALID),
  ],
  'customize.refused': [
    customize(
      'article',
      { custom_name: 'author' },
      refused('unexpected-payload', /the name "author" is taken/, '$.args.configuration.custom_name'),
    ),
    customize(
      'article',
      { custom_name: 'two words' },
      refused('parse-failed', 'expecting a name that is valid in GraphQL', '$.args.configuration.custom_name'),
    ),
    customize(
      'article',
      { column_config: { title: { custom_name: 'id' } } },
      refused('unexpected-payload', /the name "id" is taken/),
    ),
    customize(
      'article',
      { column_config: { nope: { custom_name: 'x' } } },
      refused('not-exists', /column "nope" does not exist in "article"/),
    ),
    customize('article', { custom_root_fields: { selct: 'x' } }, refused('unexpected-payload', /selct/)),
    customize('nope', null, refused('not-exists', /"nope"/, '$.args.table')),
  ],
}

export const functionsAndNames = area('functions-and-names', {
  promises: PROMISES,
  pages: {
    'plugins/query/functions.md': {
      'Track functions (admin)': {
        '`track_function`': ['function.track', 'function.forms', 'function.version-2', 'function.configuration'],
        '`untrack_function`': 'function.untrack',
        '`create_function_permission`, `drop_function_permission`': 'function.permission',
        '`add_computed_field`': ['computed.add', 'computed.session'],
        '`drop_computed_field`': 'computed.drop',
        '`set_table_customization`': ['customize.names', 'customize.older', 'customize.null'],
        'A function is identified by schema and name, so it must not be overloaded.': 'function.overloaded',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  await server.must('bulk', ['author', 'article'].map(track))
  return server
}
