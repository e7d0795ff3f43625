import { buildClientSchema, buildSchema, getIntrospectionQuery, isEnumType, printSchema, validateSchema } from 'graphql'
import type { Test } from 'tap'
import { alpha, data, fails, invalid, modern as ask } from '../kit/graphql-steps.js'
import { permit } from '../kit/library.js'
import { area, type Case, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'

/** What `/v1/graphql` promises of the names of tables, columns and types, and of enums. */
const PROMISES = {
  'custom.table': 'a custom name renames a table, its types and the root fields that derive from it',
  'custom.root-fields': 'custom root fields rename root fields one by one',
  'custom.columns': 'custom names of columns apply in selections, conditions, orders, aggregates and writes',
  'custom.nested': 'and in related rows',
  'custom.hidden': 'the names of the database do not exist beside the custom ones',
  'custom.others': 'the JSON API and the older dialect keep the names of the database',
  'custom.role': 'permissions refer to the columns of the database',
  'custom.refused': 'unknown keys, names that are not valid and columns that do not exist are refused with a path',
  'custom.taken': 'a name that another table, function or column has is refused',
  'custom.free': 'root fields may have names that their table, or a view that cannot be written, does not use',
  'custom.kept': 'the metadata has the names, which no table gets and whose columns are not dropped',
  'custom.removed': 'without a customization the names are those of the database again',
  'odd.table': 'a table and columns with names that are not valid in GraphQL get others',
  'odd.reserved': 'a name that is taken or reserved gets a number',
  'odd.tracked': 'track_table returns the names that it gave',
  'odd.alpha': 'the older dialect leaves such names out',
  'odd.words': 'columns may be called true, false and null',
  'type.scalars': 'integer, real, boolean and text are scalars of GraphQL; other types have the name of PostgreSQL',
  'type.arrays': 'an array is a list, and one of more dimensions a scalar that holds nested lists',
  'type.composite': 'a value of a composite type is an object, or its text',
  'enum.values': 'an enum of PostgreSQL is an enum, in documents and variables, and as a string in a document',
  'enum.same-name': 'an enum has the values of all enums with its name, of the columns that the role sees',
  'enum.alpha': 'the older dialect has scalars and strings instead',
  'enum.wrong': 'a value that the enum does not have is refused with its path',
  'enum.not-names': 'an enum with values that are not names in GraphQL is a scalar',
  'enum.written': 'enums are inserted, updated and keys',
  'enum.added': 'a value that run_sql adds is one in the next request',
  'enum-table.values':
    'the rows of an enum table are the values of the columns that reference it, with their comments, for every role',
  'enum-table.query': 'its values are compared, written and variables',
  'enum-table.wrong': 'another value is refused in a document, and by the foreign key in a variable',
  'enum-table.reload': 'new rows are values after reload_metadata and run_sql',
  'enum-table.named': 'the enum has the custom name of its table, and its columns are strings without it',
  'enum-table.refused': 'a table needs a text key, at most one more column, rows, and values that are names',
  'enum-table.broken':
    'a value that is not a name makes the metadata inconsistent, and the columns have their own type',
  'enum-table.dropped': 'drop_inconsistent_metadata makes it a table like others',
  'convention.roots': 'graphql-default: root fields are camelCase',
  'convention.everywhere': 'no other name of the schema has words with underscores, but those that were given',
  'convention.columns': 'columns, functions and their arguments are camelCase',
  'convention.aggregates': 'aggregates of related rows are camelCase; relationships keep their names',
  'convention.arguments': 'arguments, operators, directions and fields of the schema follow the convention',
  'convention.reads': 'all of this together, with computed fields, functions, ranks and aggregates',
  'convention.types': 'types are PascalCase',
  'convention.custom': 'a custom name stays, and other names derive from it',
  'convention.enums': 'values of enum tables are upper case, also in responses and variables; enums of PostgreSQL stay',
  'convention.enum-values': 'their values in the database are none, and filters of roles have these',
  'convention.writes': 'mutations follow the convention',
  'convention.operators': 'operators, related rows and errors of mutations, too',
  'convention.taken': 'a column keeps its name if the other one is taken',
  'convention.collisions': 'the schema is valid if two tables would have one name',
  'convention.others':
    'the names of the database are not accepted beside, and stay in the older dialect and the JSON API',
  'convention.default': 'without the setting names are those of the database',
  'convention.relay': 'connections follow the convention',
} as const

const SQL = `
create table tbl_author (id int primary key, nm text not null, "odd name" int);
create table tbl_article (id int primary key, ttl text unique, author_id int references tbl_author);
insert into tbl_author values (1, 'Ann', 1), (2, 'Bob', 2);
insert into tbl_article values (1, 'one', 1), (2, 'two', 1), (3, 'three', 2);
create table author (id int);
create table town (id int primary key);
insert into town values (1);
create function town(x int) returns setof town language sql stable as 'select * from town';
create view sight as select 1 as id, 1 from town;
create function size_of(t tbl_article) returns int language sql stable as 'select 1';
create function towns_of(x int) returns setof town language sql stable as 'select * from town';
create table "Order Items" (id int primary key, "unit price" int, "2nd" text, "größe" int, "__secret" text, "a b" int, a_b int);
insert into "Order Items" values (1, 10, 'b', 3, 's', 4, 5);
create table "Boolean" (id int primary key, "Order Item" int references "Order Items");
create table odd ("true" int, "false" boolean, "null" text, constraint "the key" primary key ("true"));
create table no_name ("a b" int default 1, constraint "its key" primary key ("a b"));
create table document (doc json);
create domain board as int[][];
create type place as (x int, y numeric);
create table matrix (id int primary key, rows int[][], flat int[], at place, sized numeric, r real, v varchar,
  texts text[][] not null default '{}', board board);
insert into matrix values (1, '{{1,2},{3,4}}', '{1,2}', row(1, 2.5)::place, null, null, null, '{{a,null}}', '{{1}}');
create type mood as enum ('calm', 'wild');
create type size as enum ('S', 'very large');
create type flag as enum ('true');
create schema other;
create type other.mood as enum ('other', 'calm');
create domain feeling as mood;
create table cat (id int primary key, mood mood not null default 'calm', moods mood[], size size, feeling feeling, flag flag, odd other.mood);
create function cats_in(m mood) returns setof cat language sql stable as 'select * from cat where mood = m';
create table mood_log (mood mood primary key, note text);
insert into cat values (1, 'calm', '{calm,wild}', 'S', 'wild', 'true', 'other'), (2, 'wild', null, 'very large', null, null, null);
create table color (value text primary key, comment text);
insert into color values ('red', 'warm'), ('blue', null);
create table car (id int primary key, color text references color);
insert into car values (1, 'red'), (2, 'blue');
create table keyless (word text);
create table numbered (id int primary key);
create table wide (a text primary key, b text, c text);
create table nothing (word text primary key);
create table bad_word (word text primary key);
insert into bad_word values ('a b');
create table shop_items (item_id int primary key, item_name text, favourite_color text references color, "aB" int, a_b int, extra_data jsonb, mood mood);
create table item_parts (part_id int primary key, item_id int references shop_items, part_name text, is_sold bool, constraint part_names unique (part_name));
create schema far_away;
create table far_away.moon_base (order_no int, line_no int, base_name text, primary key (order_no, line_no));
create table legacy_logs (log_id int primary key, log_text text);
create function part_stats(min_length int) returns table (part_label text, label_length int) language sql stable as
  $$ select part_name, length(part_name) from item_parts where length(part_name) >= min_length $$;
create function parts_of(item_row shop_items) returns setof item_parts language sql stable as
  $$ select * from item_parts where item_id = item_row.item_id $$;
create function name_length(item_row shop_items) returns int language sql stable as 'select length(item_row.item_name)';
insert into shop_items values (1, 'cup', 'red', 1, 2, '{"a": 1}', 'wild'), (2, 'pen', null, 3, 4, '{}', 'calm');
insert into item_parts values (1, 1, 'lid'), (2, 1, 'ear');
create function search_items(name_part text) returns setof shop_items language sql stable as
  $$ select * from shop_items where item_name like '%' || name_part || '%' $$;`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const customize = (
  table: string,
  configuration: unknown,
  expected: Parameters<typeof query>[2] = is({ message: 'success' }),
): Step => query('set_table_customization', { table, configuration }, expected)
const wrongNames = (configuration: object, path: string, error: RegExp): Step =>
  customize('tbl_author', configuration, { status: 400, like: { error, path: `$.args.configuration${path}` } })
const FAR = { schema: 'far_away', name: 'moon_base' }
const NAMES = {
  custom_name: 'author',
  custom_root_fields: { select: 'authors', select_by_pk: 'author', insert_one: 'addAuthor' },
  column_config: { nm: { custom_name: 'name' }, 'odd name': { custom_name: 'odd' }, id: { custom_name: 'key' } },
}
const CAMEL = { plugins: { graphql: { namingConvention: 'graphql-default' } } }

interface Servers extends TestServer {
  /** A server with the convention, which starts when it is first needed. */
  conventional(): Promise<TestServer>
}
/** Names that are given, that PostgreSQL has, or that replace names which are not valid. */
const GIVEN = `query_root mutation_root bool_and bool_or item_parts parts_of name_length the_text one_log a_b a_b_2 part_names unit_price odd_name place_row`
const byConvention =
  (document: string, expected: object, variables?: object) =>
  async (t: Test, servers: Servers): Promise<void> => {
    const server = await servers.conventional()
    const body = JSON.stringify({ query: document, variables })
    t.same((await server.fetch('/v1/graphql', { method: 'POST', body })).body, { data: expected })
  }

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case<Servers>>> = {
  'custom.table': [
    ask(
      '{ article(where: {id: {_eq: 1}}) { __typename } article_by_pk(id: 1) { title } article_aggregate { __typename aggregate { count } } }',
      data({
        article: [{ __typename: 'article' }],
        article_by_pk: { title: 'one' },
        article_aggregate: { __typename: 'article_aggregate', aggregate: { count: 3 } },
      }),
    ),
  ],
  'custom.root-fields': [
    ask(
      '{ authors(order_by: {key: asc}) { key } author(key: 2) { name __typename } author_aggregate { aggregate { count } } }',
      data({
        authors: [{ key: 1 }, { key: 2 }],
        author: { name: 'Bob', __typename: 'author' },
        author_aggregate: { aggregate: { count: 2 } },
      }),
    ),
  ],
  'custom.columns': [
    ask(
      '{ authors(where: {name: {_eq: "Ann"}}, order_by: {odd: desc}) { name odd articles_aggregate { aggregate { count(columns: title) max { title writer } } } } article(distinct_on: writer, order_by: [{writer: asc}, {title: desc}]) { title } }',
      data({
        authors: [
          { name: 'Ann', odd: 1, articles_aggregate: { aggregate: { count: 2, max: { title: 'two', writer: 1 } } } },
        ],
        article: [{ title: 'two' }, { title: 'three' }],
      }),
    ),
    ask(
      '{ authors(where: {articles: {title: {_like: "%e"}}}, order_by: {articles_aggregate: {max: {title: asc}}}) { name articles(order_by: {title: asc}) { title writer author { name } } } }',
      data({
        authors: [
          { name: 'Bob', articles: [{ title: 'three', writer: 2, author: { name: 'Bob' } }] },
          {
            name: 'Ann',
            articles: [
              { title: 'one', writer: 1, author: { name: 'Ann' } },
              { title: 'two', writer: 1, author: { name: 'Ann' } },
            ],
          },
        ],
      }),
    ),
    ask(
      'mutation { addAuthor(object: {key: 3, name: "Kim"}) { name } update_author(where: {name: {_eq: "Kim"}}, _set: {name: "Jim"}, _inc: {key: 1}) { returning { key name } } update_author_by_pk(pk_columns: {key: 4}, _set: {odd: 6}) { odd } delete_author_by_pk(key: 4) { odd } }',
      data({
        addAuthor: { name: 'Kim' },
        update_author: { returning: [{ key: 4, name: 'Jim' }] },
        update_author_by_pk: { odd: 6 },
        delete_author_by_pk: { odd: 6 },
      }),
    ),
  ],
  'custom.nested': [
    ask(
      'mutation ($o: [article_insert_input!]!) { insert_article(objects: $o, on_conflict: {constraint: tbl_article_ttl_key, update_columns: [writer]}) { affected_rows returning { title writer author { name odd } } } delete_article(where: {title: {_eq: "four"}}) { affected_rows } delete_author(where: {odd: {_eq: 5}}) { affected_rows } }',
      data({
        insert_article: {
          affected_rows: 2,
          returning: [{ title: 'four', writer: 9, author: { name: 'Eve', odd: 5 } }],
        },
        delete_article: { affected_rows: 1 },
        delete_author: { affected_rows: 1 },
      }),
      { variables: { o: [{ id: 9, title: 'four', author: { data: { key: 9, name: 'Eve', odd: 5 } } }] } },
    ),
    ask(
      'mutation { addAuthor(object: {key: 9, name: "Kim", articles: {data: [{id: 9, title: "six"}]}}) { name articles { title writer } } insert_article(objects: [{id: 10, title: "six", writer: 1}], on_conflict: {constraint: tbl_article_ttl_key, update_columns: [writer]}) { returning { writer } } delete_article_by_pk(id: 9) { writer } delete_author_by_pk(key: 9) { name } }',
      data({
        addAuthor: { name: 'Kim', articles: [{ title: 'six', writer: 9 }] },
        insert_article: { returning: [{ writer: 1 }] },
        delete_article_by_pk: { writer: 1 },
        delete_author_by_pk: { name: 'Kim' },
      }),
    ),
  ],
  'custom.hidden': ['{ authors { nm } }', '{ authors(where: {nm: {_eq: "x"}}) { key } }', '{ tbl_author { key } }'].map(
    (document) => ask(document, invalid(/nm|tbl_author/)),
  ),
  'custom.others': [
    alpha('{ tbl_author(where: {nm: {_eq: "Ann"}}) { id nm } }', data({ tbl_author: [{ id: 1, nm: 'Ann' }] })),
    query('select', { table: 'tbl_article', columns: ['ttl'], where: { id: 1 } }, is([{ ttl: 'one' }])),
  ],
  'custom.role': [
    ask('{ authors(where: {key: {_eq: 1}}) { key name } }', data({ authors: [{ key: 1, name: 'Ann' }] }), { as: ANN }),
    ask('{ authors { odd } }', invalid(/odd/), { as: ANN }),
    ask('mutation { addAuthor(object: {key: 5, name: "Uma"}) { name } }', data({ addAuthor: { name: 'Uma' } }), {
      as: ANN,
    }),
    ask('mutation { addAuthor(object: {key: 6, name: "no"}) { name } }', fails('permission-error', /./), { as: ANN }),
    query('delete', { table: 'tbl_author', where: { id: 5 } }, is({ affected_rows: 1 })),
  ],
  'custom.refused': [
    wrongNames({ custom: 1 }, '.custom', /unexpected key/),
    wrongNames({ custom_name: 'a b' }, '.custom_name', /name that is valid in GraphQL/),
    wrongNames({ custom_name: '__a' }, '.custom_name', /name that is valid in GraphQL/),
    wrongNames({ custom_root_fields: { pick: 'x' } }, '.custom_root_fields.pick', /unexpected key/),
    wrongNames({ column_config: { none: { custom_name: 'x' } } }, '.column_config.none', /does not exist/),
  ],
  'custom.taken': [
    wrongNames({ custom_name: 'article' }, '.custom_name', /"article" is taken/),
    wrongNames({ custom_name: 'Int' }, '.custom_name', /"Int" is taken/),
    wrongNames({ column_config: { nm: { custom_name: 'id' } } }, '.column_config.nm', /is taken/),
    wrongNames({ column_config: { nm: { custom_name: 'articles' } } }, '.column_config.nm', /is taken/),
    ...(
      [
        ['custom_name', { custom_name: 'town' }, 'the name "town" is taken in GraphQL by table "town"'],
        [
          'custom_root_fields.select',
          { custom_root_fields: { select: 'towns_of' } },
          'the name "towns_of" is taken in GraphQL by function "towns_of"',
        ],
        [
          'custom_root_fields.select',
          { custom_root_fields: { select: 'town' } },
          'the name "town" is taken in GraphQL by table "town"',
        ],
        [
          'custom_root_fields.insert',
          { custom_root_fields: { insert: 'insert_town_one' } },
          'the name "insert_town_one" is taken in GraphQL by table "town"',
        ],
        ['custom_root_fields.select_aggregate', { custom_root_fields: { select: 'x', select_aggregate: 'x' } }, /./],
      ] as const
    ).map(([path, configuration, error]) =>
      customize('tbl_author', configuration, refused('unexpected-payload', error, `$.args.configuration.${path}`)),
    ),
    query(
      'track_function',
      'town',
      refused('unexpected-payload', 'the name "town" is taken in GraphQL by table "town"', '$.args'),
    ),
    query(
      'track_function',
      { function: 'town', configuration: { custom_name: 'car_by_pk' } },
      refused(
        'unexpected-payload',
        'the name "car_by_pk" is taken in GraphQL by table "car"',
        '$.args.configuration.custom_name',
      ),
    ),
    query(
      'create_object_relationship',
      { table: 'tbl_article', name: 'writer', using: { foreign_key_constraint_on: 'author_id' } },
      refused('already-exists', /./, '$.args.name'),
    ),
    query(
      'add_computed_field',
      { table: 'tbl_article', name: 'writer', definition: { function: 'size_of' } },
      refused('already-exists', /./, '$.args.name'),
    ),
  ],
  'custom.free': [
    customize('town', { custom_root_fields: { select: 'town_aggregate', insert_one: 'insert_town' } }),
    ask('{ town_aggregate { id } }', data({ town_aggregate: [{ id: 1 }] })),
    ...[1, 2].map(() =>
      customize('town', {
        custom_name: 'street',
        custom_root_fields: { select_by_pk: 'sight_by_pk', insert: 'insert_sight' },
      }),
    ),
    ask('{ street { id } towns_of(args: {x: 1}) { id } }', data({ street: [{ id: 1 }], towns_of: [{ id: 1 }] })),
    customize('town', null),
  ],
  'custom.kept': async (t, server) => {
    t.match(await server.query('track_table', 'author'), {
      status: 400,
      body: { code: 'already-exists', error: '"tbl_author" is called "author" in GraphQL' },
    })
    t.match((await server.query('run_sql', { sql: 'alter table tbl_author drop column "odd name"' })).body, {
      code: 'dependency-error',
      error: /customization tbl_author/,
    })
    const before = await server.must('export_metadata', {})
    t.same(before.tables.find((each: { table: string }) => each.table === 'tbl_author').configuration, NAMES)
    await server.must('replace_metadata', before)
    t.same(await server.must('export_metadata', {}), before)
  },
  'custom.removed': [
    customize('tbl_author', null),
    ask('{ tbl_author_by_pk(id: 2) { nm } }', data({ tbl_author_by_pk: { nm: 'Bob' } })),
    ask('{ authors { key } }', invalid(/authors/)),
  ],
  'odd.table': [
    ask(
      '{ Order_Items(where: {unit_price: {_gt: 1}}, order_by: {_2nd: asc}) { unit_price _2nd gr__e _secret a_b __typename } }',
      data({
        Order_Items: [{ unit_price: 10, _2nd: 'b', gr__e: 3, _secret: 's', a_b: 5, __typename: 'Order_Items' }],
      }),
    ),
    ask(
      'mutation { update_Order_Items_by_pk(pk_columns: {id: 1}, _inc: {unit_price: 5}) { unit_price } }',
      data({ update_Order_Items_by_pk: { unit_price: 15 } }),
    ),
    ask('{ Order_Items_by_pk(id: 1) { unit_price } }', data({ Order_Items_by_pk: { unit_price: 15 } }), { as: ANN }),
    ask('{ Order_Items { _2nd } }', invalid(/Cannot query field/), { as: ANN }),
    query('select', { table: 'Order Items', columns: ['unit price'], where: { id: 1 } }, is([{ 'unit price': 15 }])),
  ],
  'odd.reserved': [
    ask('{ Order_Items { a_b_2 a_b } }', data({ Order_Items: [{ a_b_2: 4, a_b: 5 }] })),
    ask('{ Boolean_2 { id } }', data({ Boolean_2: [] })),
    ask(
      'mutation ($o: Boolean_2_insert_input!) { insert_Boolean_2_one(object: $o) { Order_Item item { unit_price } } }',
      data({ insert_Boolean_2_one: { Order_Item: 2, item: { unit_price: 7 } } }),
      { variables: { o: { id: 1, item: { data: { id: 2, unit_price: 7 } } } } },
    ),
  ],
  'odd.tracked': [
    query(
      'run_sql',
      {
        sql: 'create table "Order-Items" (id int primary key, "x y" int, "2nd" text, "größe" int, "__secret" text, "a b" int, a_b int)',
      },
      { status: 200 },
    ),
    query(
      'track_table',
      'Order-Items',
      is({
        message: 'success',
        graphql_names: {
          'Order-Items': 'Order_Items_2',
          'x y': 'x_y',
          '2nd': '_2nd',
          größe: 'gr__e',
          __secret: '_secret',
          'a b': 'a_b_2',
        },
      }),
    ),
    ask('{ Order_Items_2 { id } }', data({ Order_Items_2: [] })),
    customize('Order Items', { custom_name: 'items', column_config: { 'unit price': { custom_name: 'price' } } }),
    ask(
      '{ items(where: {id: {_eq: 1}}) { price _2nd } Order_Items { id } }',
      data({ items: [{ price: 15, _2nd: 'b' }], Order_Items: [] }),
    ),
    customize('Order Items', null),
    query('untrack_table', { table: 'Order-Items' }, { status: 200 }),
  ],
  'odd.alpha': async (t, server) => {
    const { schema } = (await server.fetch('/v1alpha1/graphql/schema')).body
    t.notMatch(schema, /Order_Items|unit_price/)
    t.match(schema, /rows\(?.*: \[Int\]/)
    t.same(validateSchema(buildSchema(schema)), [])
  },
  'odd.words': [
    ask(
      'mutation { insert_odd_one(object: {true: 1, false: false}) { true false null } }',
      data({ insert_odd_one: { true: 1, false: false, null: null } }),
    ),
    ask(
      '{ odd(order_by: {true: asc}) { true } odd_by_pk(true: 1) { false } }',
      data({ odd: [{ true: 1 }], odd_by_pk: { false: false } }),
    ),
    ask('mutation { insert_no_name_one(object: {}) { _empty } }', data({ insert_no_name_one: { _empty: '' } })),
  ],
  'type.scalars': async (t, server) => {
    const schema = await schemaOf(t, server)
    const fields = typeOf(schema, 'matrix')
    t.match(fields, { id: 'Int!', sized: 'numeric', r: 'Float', v: 'String', at: /^place/ })
    const { rows, flat, texts, board } = fields
    t.same([rows, flat, texts, board], ['_int4', '[Int]', '_text!', '_int4'])
    t.match(typeOf(schema, 'odd'), { false: 'Boolean', null: 'String' })
  },
  'type.arrays': [
    ask(
      '{ matrix { rows flat texts board } }',
      data({
        matrix: [
          {
            rows: [
              [1, 2],
              [3, 4],
            ],
            flat: [1, 2],
            texts: [['a', null]],
            board: [[1]],
          },
        ],
      }),
    ),
    ask(
      'mutation ($r: _int4, $o: [matrix_insert_input!]!) { insert_matrix_one(object: {id: 2, rows: $r, flat: [7], texts: [["x"], ["y"]], board: $r}) { rows flat texts board } update_matrix_by_pk(pk_columns: {id: 2}, _set: {rows: [[5, 6]]}) { rows } insert_matrix(objects: $o) { returning { rows flat } } more: update_matrix_by_pk(pk_columns: {id: 3}, _set: {rows: $r}) { rows } }',
      data({
        insert_matrix_one: { rows: [[7], [8]], flat: [7], texts: [['x'], ['y']], board: [[7], [8]] },
        update_matrix_by_pk: { rows: [[5, 6]] },
        insert_matrix: { returning: [{ rows: [[[1]]], flat: null }] },
        more: { rows: [[7], [8]] },
      }),
      { variables: { r: [[7], [8]], o: [{ id: 3, rows: [[[1]]] }] } },
    ),
    ask(
      'query ($r: _int4, $w: _int4_comparison_exp!) { a: matrix(where: {rows: {_contains: [[6]]}}) { id } b: matrix(where: {rows: {_contains: $r}}) { id } c: matrix(where: {rows: {_eq: [[5, 6]]}}) { id } d: matrix(where: {rows: $w}) { id } }',
      data({ a: [{ id: 2 }], b: [{ id: 2 }], c: [{ id: 2 }], d: [{ id: 2 }] }),
      { variables: { r: [[6]], w: { _eq: [[5, 6]] } } },
    ),
    ask('mutation { insert_matrix_one(object: {id: 9, rows: [[1], [2, 3]]}) { id } }', fails('data-exception', /./)),
  ],
  'type.composite': [
    ask('{ matrix(where: {at: {_eq: {x: 1, y: 2.5}}}) { at } }', data({ matrix: [{ at: { x: 1, y: 2.5 } }] })),
    ask('{ matrix(where: {at: {_eq: "(1,2.5)"}}) { id } }', data({ matrix: [{ id: 1 }] })),
    ask(
      'mutation ($p: place_row) { update_matrix(where: {at: {_eq: {x: 1, y: 2.5}}}, _set: {at: $p}) { returning { at } } }',
      data({ update_matrix: { returning: [{ at: { x: 3, y: 4.5 } }] } }),
      { variables: { p: { x: 3, y: 4.5 } } },
    ),
    query(
      'update',
      { table: 'matrix', $set: { at: { x: 7 } }, where: { at: { $eq: { x: 3, y: 4.5 } } } },
      is({ affected_rows: 1 }),
    ),
    ask('{ matrix(where: {at: {_eq: "(3"}}) { id } }', fails('data-exception', /./)),
  ],
  'enum.values': [
    ...['{mood: {_eq: wild}}', '{mood: {_in: [wild]}}', '{mood: {_eq: "wild"}}', '{mood: {_gt: calm}}'].map((where) =>
      ask(`{ cat(where: ${where}) { id mood } }`, data({ cat: [{ id: 2, mood: 'wild' }] })),
    ),
    ask(
      'query ($m: mood!, $l: [mood!]) { cat(where: {mood: {_eq: $m, _in: $l}}) { id } }',
      data({ cat: [{ id: 2 }] }),
      {
        variables: { m: 'wild', l: ['wild', 'calm'] },
      },
    ),
    ask(
      '{ cat(where: {moods: {_contains: [wild]}}) { moods feeling } }',
      data({ cat: [{ moods: ['calm', 'wild'], feeling: 'wild' }] }),
    ),
    ask(
      '{ cat(where: {odd: {_eq: other}}) { odd size flag } }',
      data({ cat: [{ odd: 'other', size: 'S', flag: 'true' }] }),
    ),
    ask(
      'query ($m: mood = wild, $w: mood_comparison_exp!) { a: cat(where: {mood: {_eq: $m}}) { id } b: cat(where: {mood: $w}) { id } cats_in(args: {m: wild}) { id } }',
      data({ a: [{ id: 2 }], b: [{ id: 2 }], cats_in: [{ id: 2 }] }),
      { variables: { w: { _nin: ['calm'] } } },
    ),
  ],
  'enum.same-name': async (t, server) => {
    const valuesOf = async (name: string, as?: As) => {
      const type = (await schemaOf(t, server, as)).getType(name)
      return isEnumType(type) ? type.getValues().map((value) => value.name) : undefined
    }
    t.same(await valuesOf('mood'), ['calm', 'wild', 'other'])
    t.same(await valuesOf('mood', ANN), ['calm', 'wild'])
    t.equal(await valuesOf('flag'), undefined, 'a value that is not a name')
  },
  'enum.alpha': [
    {
      path: '/v1alpha1/graphql/schema',
      method: 'GET',
      expected: like({ schema: /^(?![^]*color_enum)[^]*scalar mood/ }),
    },
  ],
  'enum.wrong': [
    ask(
      '{ cat(where: {mood: {_eq: angry}}) { id } }',
      invalid(/"angry" does not exist in "mood" enum/, '$.selectionSet.cat.args.where.mood._eq'),
    ),
    ask('query ($m: [mood!]) { cat(where: {mood: {_in: $m}}) { id } }', invalid(/mood/, '$.variables.m[1]'), {
      variables: { m: ['calm', 'angry'] },
    }),
    ask('query ($m: mood!) { cat(where: {mood: {_eq: $m}}) { id } }', invalid(/enum mood/, '$.variables.m'), {
      variables: { m: 5 },
    }),
    ask(
      'query ($m: mood!) { cat(where: {mood: {_eq: $m}}) { id } }',
      invalid('expecting a value of the enum mood!', '$.variables.m'),
      { variables: { m: 'angry' } },
    ),
    ask('{ cat(where: {mood: {_eq: other}}) { id } }', fails('data-exception', /./)),
  ],
  'enum.not-names': [
    ask('{ __type(name: "size") { kind } }', data({ __type: { kind: 'SCALAR' } })),
    ask('{ __type(name: "mood") { kind } }', data({ __type: { kind: 'ENUM' } })),
    ask('{ cat(where: {size: {_eq: "very large"}}) { id size } }', data({ cat: [{ id: 2, size: 'very large' }] })),
  ],
  'enum.written': [
    ask(
      'mutation ($m: mood!, $all: [cat_insert_input!]!) { insert_cat(objects: $all) { returning { mood moods } } insert_cat_one(object: {id: 4, mood: $m, moods: [calm, $m]}) { mood moods } update_cat_by_pk(pk_columns: {id: 3}, _set: {mood: calm, moods: [wild]}) { mood moods } insert_mood_log_one(object: {mood: $m}) { mood } update_mood_log_by_pk(pk_columns: {mood: wild}, _set: {note: "n"}) { note } delete_mood_log_by_pk(mood: $m) { mood } delete_cat(where: {id: {_gt: 2}}) { affected_rows } }',
      data({
        insert_cat: { returning: [{ mood: 'wild', moods: ['calm'] }] },
        update_cat_by_pk: { mood: 'calm', moods: ['wild'] },
        insert_cat_one: { mood: 'wild', moods: ['calm', 'wild'] },
        insert_mood_log_one: { mood: 'wild' },
        update_mood_log_by_pk: { note: 'n' },
        delete_mood_log_by_pk: { mood: 'wild' },
        delete_cat: { affected_rows: 2 },
      }),
      { variables: { m: 'wild', all: [{ id: 3, mood: 'wild', moods: ['calm'] }] } },
    ),
  ],
  'enum.added': [
    query('run_sql', { sql: `alter type mood add value 'sad'` }, { status: 200 }),
    ask('{ cat(where: {mood: {_eq: sad}}) { id } }', data({ cat: [] })),
  ],
  'enum-table.values': async (t, server) => {
    for (const as of [undefined, ANN]) {
      const type = (await schemaOf(t, server, as)).getType('color_enum')
      const values = isEnumType(type) ? type.getValues() : []
      const described = values.map(({ name, description }) => [name, description ?? null])
      t.same(described, [
        ['blue', null],
        ['red', 'warm'],
      ])
    }
  },
  'enum-table.query': [
    ask('{ car(where: {color: {_eq: red}}) { id color } }', data({ car: [{ id: 1, color: 'red' }] })),
    ask(
      'query ($c: [color_enum!]!) { car(where: {color: {_in: $c}}) { id } color(order_by: {value: asc}) { value } }',
      data({ car: [{ id: 2 }], color: [{ value: 'blue' }, { value: 'red' }] }),
      {
        variables: { c: ['blue'] },
      },
    ),
    ask(
      'mutation ($c: color_enum!) { insert_car_one(object: {id: 3, color: $c}) { color } update_car_by_pk(pk_columns: {id: 3}, _set: {color: blue}) { color } delete_car_by_pk(id: 3) { id } }',
      data({ insert_car_one: { color: 'red' }, update_car_by_pk: { color: 'blue' }, delete_car_by_pk: { id: 3 } }),
      { variables: { c: 'red' } },
    ),
    query(
      'select',
      { table: 'car', columns: ['color'], where: { id: 1, color: { $like: 'r%' } } },
      is([{ color: 'red' }]),
    ),
  ],
  'enum-table.wrong': [
    ask('{ car(where: {color: {_eq: green}}) { id } }', invalid(/"green" does not exist/)),
    ask(
      'mutation ($o: car_insert_input!) { insert_car_one(object: $o) { id } }',
      fails('constraint-violation', /^Foreign key/),
      {
        variables: { o: { id: 9, color: 'green' } },
      },
    ),
  ],
  'enum-table.reload': [
    query('insert', { table: 'color', objects: [{ value: 'green' }] }, { status: 200 }),
    query('reload_metadata', {}, { status: 200 }),
    ask('{ car(where: {color: {_eq: green}}) { id } }', data({ car: [] })),
    query('run_sql', { sql: `insert into color values ('grey')` }, { status: 200 }),
    ask('{ car(where: {color: {_eq: grey}}) { id } }', data({ car: [] })),
  ],
  'enum-table.named': [
    customize('color', { custom_name: 'paint' }),
    ask(
      '{ __type(name: "paint_enum") { enumValues { name } } }',
      data({ __type: { enumValues: ['blue', 'green', 'grey', 'red'].map((name) => ({ name })) } }),
    ),
    query('set_table_is_enum', { table: 'color', is_enum: false }, { status: 200 }),
    ask(
      '{ __type(name: "paint_enum") { name } car(where: {color: {_eq: "red"}}) { id } }',
      data({ __type: null, car: [{ id: 1 }] }),
    ),
    customize('color', null),
    query('set_table_is_enum', { table: 'color', is_enum: true }, { status: 200 }),
    ask('{ car(where: {color: {_eq: red}}) { id } }', data({ car: [{ id: 1 }] })),
  ],
  'enum-table.refused': [
    ...(
      [
        ['keyless', /primary key/],
        ['numbered', /primary key/],
        ['wide', /only one column/],
        ['nothing', /no rows/],
        ['bad_word', /"a b" is not/],
      ] as const
    ).map(([table, error]) =>
      query('track_table', { table, is_enum: true }, refused('unexpected-payload', error, '$.args.table')),
    ),
    query('track_table', { name: 'wide', is_enum: true }, { status: 400, like: { path: '$.args' } }),
    query('set_table_is_enum', { table: 'missing', is_enum: true }, refused('not-exists', /./, '$.args.table')),
    ask('{ wide { a } }', invalid(/wide/)),
  ],
  'enum-table.broken': [
    query('run_sql', { sql: `insert into color values ('light blue')` }, refused('dependency-error', /enum color/)),
    query('insert', { table: 'color', objects: [{ value: 'light blue' }] }, { status: 200 }),
    query('reload_metadata', {}, { status: 200 }),
    query(
      'get_inconsistent_metadata',
      {},
      is({
        is_consistent: false,
        inconsistent_objects: [
          {
            name: 'enum color',
            reason: '"color" cannot be an enum: "light blue" is not a valid value of an enum in GraphQL',
          },
        ],
      }),
    ),
    ask('{ car(where: {color: {_eq: "red"}}) { id } }', data({ car: [{ id: 1 }] })),
    query('delete', { table: 'color', where: { value: 'light blue' } }, { status: 200 }),
    query('reload_metadata', {}, { status: 200 }),
    query('get_inconsistent_metadata', {}, like({ is_consistent: true })),
  ],
  'enum-table.dropped': [
    query('insert', { table: 'color', objects: [{ value: 'light blue' }] }, { status: 200 }),
    query('reload_metadata', {}, { status: 200 }),
    query('drop_inconsistent_metadata', {}, { status: 200 }),
    query('delete', { table: 'color', where: { value: 'light blue' } }, { status: 200 }),
    query('reload_metadata', {}, { status: 200 }),
    ask('{ __type(name: "color_enum") { name } color(limit: 0) { value } }', data({ __type: null, color: [] })),
    query('set_table_is_enum', { table: 'color', is_enum: true }, { status: 200 }),
  ],
  'convention.roots': async (t, server) => {
    const schema = await schemaOf(t, await server.conventional())
    const named = (type: string, part: RegExp) =>
      Object.keys(typeOf(schema, type))
        .filter((name) => part.test(name))
        .sort()
    t.same(named('query_root', /shop/i), ['shopItems', 'shopItemsAggregate', 'shopItemsByPk'])
    t.same(named('mutation_root', /shop/i), [
      'deleteShopItems',
      'deleteShopItemsByPk',
      'insertShopItems',
      'insertShopItemsOne',
      'updateShopItems',
      'updateShopItemsByPk',
      'updateShopItemsMany',
    ])
  },
  'convention.everywhere': async (t, server) => {
    const schema = await schemaOf(t, await server.conventional())
    const words = new Set(printSchema(schema).match(/\b[a-z]+(_[a-z0-9]+)+\b/g))
    for (const given of GIVEN.split(' ')) words.delete(given)
    t.same(
      [...words].filter((word) => !word.endsWith('_pkey') && !word.endsWith('_key')),
      [],
    )
    const fields = (name: string) => {
      const type = schema.getType(name)
      return type && 'getFields' in type ? Object.keys(type.getFields()).sort() : undefined
    }
    const values = (name: string) => {
      const type = schema.getType(name)
      return isEnumType(type) ? type.getValues().map((value) => value.name) : undefined
    }
    const root = (type: string, part: RegExp) => fields(type)?.filter((name) => part.test(name))
    t.same(root('query_root', /log_|_log/i), ['log_Entry', 'log_EntryAggregate', 'one_log'])
    t.same(root('mutation_root', /^insertLog_/), ['insertLog_Entry', 'insertLog_EntryOne'])
    t.same(root('query_root', /search/i), ['searchItems', 'searchItemsAggregate'])
    t.same(root('query_root', /moon/i), ['farAwayMoonBase', 'farAwayMoonBaseAggregate', 'farAwayMoonBaseByPk'])
    t.same(fields('ShopItems'), [
      'aB',
      'a_b',
      'extraData',
      'favouriteColor',
      'itemId',
      'itemName',
      'itemPartsAggregate',
      'item_parts',
      'mood',
      'name_length',
      'parts_of',
    ])
    t.same(fields('log_Entry'), ['logId', 'the_text'])
    t.same(fields('ShopItemsMutationResponse'), ['affectedRows', 'returning'])
    t.same(fields('ShopItemsOnConflict'), ['constraint', 'updateColumns', 'where'])
    t.same(fields('PartStatsArgs'), ['minLength'])
    t.match(fields('ShopItemsAggregateFields'), ['avg', 'count', 'max', 'min', 'stddev', 'stddevPop', 'stddevSamp'])
    t.match(fields('JsonbComparisonExp'), ['_cast', '_containedIn', '_contains', '_eq'])
    t.same(fields('ShopItemsPkColumnsInput'), ['itemId'])
    t.same(fields('ItemPartsAggregateBoolExp'), ['bool_and', 'bool_or', 'count'])
    t.same(values('OrderBy')?.sort(), [
      'ASC',
      'ASC_NULLS_FIRST',
      'ASC_NULLS_LAST',
      'DESC',
      'DESC_NULLS_FIRST',
      'DESC_NULLS_LAST',
    ])
    t.same(values('ColorEnum'), ['BLUE', 'GREEN', 'GREY', 'RED'])
    t.match(values('mood'), ['calm', 'wild'])
    t.same(values('ItemPartsConstraint')?.sort(), ['item_parts_pkey', 'part_names'])
    t.match(values('ShopItemsUpdateColumn'), ['itemId', 'itemName', 'favouriteColor'])
  },
  'convention.columns': byConvention(
    '{ shopItemsByPk(itemId: 1) { itemId itemName extraData(path: "a") } searchItems(args: {namePart: "e"}) { itemName } }',
    { shopItemsByPk: { itemId: 1, itemName: 'cup', extraData: 1 }, searchItems: [{ itemName: 'pen' }] },
  ),
  'convention.aggregates': byConvention(
    '{ shopItems(where: {itemPartsAggregate: {count: {predicate: {_gt: 0}}}}) { itemPartsAggregate { aggregate { count stddevPop { partId } } } item_parts(orderBy: {partId: DESC}) { partName } } }',
    {
      shopItems: [
        {
          itemPartsAggregate: { aggregate: { count: 2, stddevPop: { partId: 0.5 } } },
          item_parts: [{ partName: 'ear' }, { partName: 'lid' }],
        },
      ],
    },
  ),
  'convention.arguments': byConvention(
    'query ($w: ShopItemsBoolExp!, $o: [ShopItemsOrderBy!]) { a: shopItems(where: $w, orderBy: $o) { itemId } b: shopItems(distinctOn: itemId, orderBy: [{itemId: DESC_NULLS_LAST}], where: {extraData: {_hasKey: "a"}, itemName: {_isNull: false}}) { itemId } }',
    { a: [{ itemId: 2 }, { itemId: 1 }], b: [{ itemId: 1 }] },
    { w: { extraData: { _containedIn: { a: 1 } } }, o: [{ itemId: 'DESC' }] },
  ),
  'convention.types': byConvention(
    '{ shopItems(limit: 1) { __typename } shopItemsAggregate { __typename aggregate { __typename count } } a: __type(name: "ShopItemsBoolExp") { kind } b: __type(name: "StringComparisonExp") { kind } c: __type(name: "shop_items_bool_exp") { kind } }',
    {
      shopItems: [{ __typename: 'ShopItems' }],
      shopItemsAggregate: {
        __typename: 'ShopItemsAggregate',
        aggregate: { __typename: 'ShopItemsAggregateFields', count: 2 },
      },
      a: { kind: 'INPUT_OBJECT' },
      b: { kind: 'INPUT_OBJECT' },
      c: null,
    },
  ),
  'convention.reads': byConvention(
    `query ($q: FullTextQuery!, $w: ShopItemsBoolExp!) {
      a: shopItems(where: {itemName: {_matches: $q}}, orderBy: [{itemNameRank: {query: "cup", order: ASC}}]) { itemId aB a_b }
      b: shopItems(orderBy: [{itemPartsAggregate: {max: {partId: DESC_NULLS_LAST}}}], where: {itemPartsAggregate: {count: {predicate: {_gt: 0}, arguments: [partId], filter: {partName: {_eq: "ear"}}}}}) {
        itemPartsAggregate(where: {partName: {_ilike: "%E%"}}) { __typename aggregate { __typename count(columns: [partId]) max { partName } } nodes { partName } } }
      itemParts(orderBy: [{shopItem: {itemName: DESC}}, {partId: DESC}], limit: 1) { shopItem { itemName item_parts { partId } } }
      c: shopItems(orderBy: {partsOfAggregate: {stddevSamp: {partId: ASC_NULLS_LAST}}}, limit: 1) { parts_of(orderBy: {partId: DESC}) { partId } name_length }
      partStats(args: {minLength: 3}, where: {labelLength: {_gte: 3}}, orderBy: {partLabel: ASC}, limit: 1) { partLabel labelLength __typename }
      searchItems(args: {namePart: "e"}, orderBy: {itemId: DESC}) { itemId }
      searchItemsAggregate(args: {namePart: "p"}) { aggregate { count } }
      log_Entry { logId the_text } one_log(logId: 1) { logId }
      d: shopItems(where: $w) { itemId }
    }`,
    {
      a: [{ itemId: 1, aB: 1, a_b: 2 }],
      b: [
        {
          itemPartsAggregate: {
            __typename: 'ItemPartsAggregate',
            aggregate: { __typename: 'ItemPartsAggregateFields', count: 1, max: { partName: 'ear' } },
            nodes: [{ partName: 'ear' }],
          },
        },
      ],
      itemParts: [{ shopItem: { itemName: 'cup', item_parts: [{ partId: 1 }, { partId: 2 }] } }],
      c: [{ parts_of: [{ partId: 2 }, { partId: 1 }], name_length: 3 }],
      partStats: [{ partLabel: 'ear', labelLength: 3, __typename: 'PartStatsResult' }],
      searchItems: [{ itemId: 2 }],
      searchItemsAggregate: { aggregate: { count: 2 } },
      log_Entry: [],
      one_log: null,
      d: [{ itemId: 1 }],
    },
    { q: { query: 'cup' }, w: { extraData: { _hasKeysAny: ['a'], _containedIn: { a: 1 } } } },
  ),
  'convention.custom': byConvention(
    '{ articleByPk(id: 1) { __typename title writer } articleAggregate { aggregate { count } } }',
    {
      articleByPk: { __typename: 'article', title: 'one', writer: 1 },
      articleAggregate: { aggregate: { count: 3 } },
    },
  ),
  'convention.enums': byConvention(
    'query ($c: ColorEnum!, $l: [ColorEnum!]!) { a: shopItems(where: {favouriteColor: {_eq: RED}}) { favouriteColor mood } b: shopItems(where: {favouriteColor: {_in: [$c]}}) { itemId } c: shopItems(where: {favouriteColor: {_neq: BLUE}}) { itemId } d: shopItems(where: {favouriteColor: {_in: $l}}) { itemId } shopItemsAggregate { aggregate { max { favouriteColor } } } }',
    {
      a: [{ favouriteColor: 'RED', mood: 'wild' }],
      b: [{ itemId: 1 }],
      c: [{ itemId: 1 }],
      d: [{ itemId: 1 }],
      shopItemsAggregate: { aggregate: { max: { favouriteColor: 'RED' } } },
    },
    { c: 'RED', l: ['RED', 'BLUE'] },
  ),
  'convention.enum-values': async (t, servers) => {
    const server = await servers.conventional()
    const send = async (body: object, as?: As) =>
      (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(body) }, as)).body
    const query = 'query ($c: ColorEnum!) { shopItems(where: {favouriteColor: {_eq: $c}}) { itemId } }'
    t.match(await send({ query, variables: { c: 'red' } }), {
      errors: [{ extensions: { code: 'validation-failed' } }],
    })
    t.same(await send({ query: '{ car { color } }' }, ANN), { data: { car: [{ color: 'RED' }] } })
  },
  'convention.writes': byConvention(
    'mutation { insertShopItemsOne(object: {itemId: 5, itemName: "hat", favouriteColor: BLUE, extraData: {a: 1, b: 2}, item_parts: {data: [{partId: 9, partName: "rim"}]}}) { favouriteColor item_parts { partName } } insertShopItems(objects: {itemId: 5, itemName: "cap"}, onConflict: {constraint: shop_items_pkey, updateColumns: [itemName]}) { affectedRows } updateShopItemsByPk(pkColumns: {itemId: 5}, _deleteKey: {extraData: "b"}) { itemName extraData } deleteItemParts(where: {partId: {_eq: 9}}) { affectedRows } deleteShopItemsByPk(itemId: 5) { itemId } }',
    {
      insertShopItemsOne: { favouriteColor: 'BLUE', item_parts: [{ partName: 'rim' }] },
      insertShopItems: { affectedRows: 1 },
      updateShopItemsByPk: { itemName: 'cap', extraData: { a: 1 } },
      deleteItemParts: { affectedRows: 1 },
      deleteShopItemsByPk: { itemId: 5 },
    },
  ),
  'convention.operators': async (t, servers) => {
    await byConvention(
      `mutation ($rows: [ShopItemsInsertInput!]!) {
        insertShopItems(objects: $rows, onConflict: {constraint: shop_items_pkey, updateColumns: [itemName, favouriteColor]}) { __typename affectedRows returning { itemId favouriteColor } }
        insertShopItemsOne(object: {itemId: 6, favouriteColor: RED, item_parts: {data: [{partId: 9, partName: "rim"}], onConflict: {constraint: item_parts_pkey, updateColumns: [partName]}}}) { favouriteColor item_parts { partName shopItem { itemId } } }
        updateShopItems(where: {itemId: {_eq: 6}}, _set: {favouriteColor: BLUE}, _inc: {aB: 5}, _append: {extraData: {a: 1}}) { returning { favouriteColor aB extraData } }
        updateShopItemsMany(updates: [{where: {itemId: {_eq: 5}}, _set: {extraData: {a: {b: 1}}}}, {where: {itemId: {_eq: 5}}, _deleteAtPath: {extraData: ["a", "b"]}}]) { affectedRows returning { extraData } }
        insertFarAwayMoonBase(objects: {orderNo: 1, lineNo: 2, baseName: "x"}) { affectedRows }
        deleteFarAwayMoonBaseByPk(orderNo: 1, lineNo: 2) { baseName }
      }`,
      {
        insertShopItems: {
          __typename: 'ShopItemsMutationResponse',
          affectedRows: 2,
          returning: [
            { itemId: 2, favouriteColor: 'RED' },
            { itemId: 5, favouriteColor: 'BLUE' },
          ],
        },
        insertShopItemsOne: { favouriteColor: 'RED', item_parts: [{ partName: 'rim', shopItem: { itemId: 6 } }] },
        updateShopItems: { returning: [{ favouriteColor: 'BLUE', aB: null, extraData: null }] },
        updateShopItemsMany: [
          { affectedRows: 1, returning: [{ extraData: { a: { b: 1 } } }] },
          { affectedRows: 1, returning: [{ extraData: { a: {} } }] },
        ],
        insertFarAwayMoonBase: { affectedRows: 1 },
        deleteFarAwayMoonBaseByPk: { baseName: 'x' },
      },
      {
        rows: [
          { itemId: 2, itemName: 'pen', favouriteColor: 'RED' },
          { itemId: 5, favouriteColor: 'BLUE' },
        ],
      },
    )(t, servers)
    t.same(await servers.must('select', { table: 'shop_items', columns: ['favourite_color'], where: { item_id: 2 } }), [
      { favourite_color: 'red' },
    ])
    await servers.must('update', { table: 'shop_items', where: { item_id: 2 }, $set: { favourite_color: null } })
    await servers.must('delete', { table: 'item_parts', where: { part_id: 9 } })
    await servers.must('delete', { table: 'shop_items', where: { item_id: { $gt: 4 } } })
    const server = await servers.conventional()
    const failing = async (query: string) =>
      (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })).body
    t.match(
      await failing(
        'mutation { insertShopItemsOne(object: {itemId: 7, item_parts: {data: [{partId: 8, itemId: 1}]}}) { itemId } }',
      ),
      { errors: [{ message: /determines the value of "itemId"/ }] },
    )
    t.match(await failing('{ shopItems(distinctOn: itemId, orderBy: {itemName: ASC}) { itemId } }'), {
      errors: [{ extensions: { path: '$.selectionSet.shopItems.args.distinctOn' } }],
    })
  },
  'convention.taken': byConvention('{ shopItemsByPk(itemId: 1) { aB a_b } }', { shopItemsByPk: { aB: 1, a_b: 2 } }),
  'convention.collisions': async (t, servers) => {
    const server = await servers.conventional()
    await server.must('run_sql', {
      sql: 'create table "itemParts" (id int primary key); create table "order" (by int primary key)',
    })
    for (const table of ['itemParts', 'order']) await server.must('track_table', table)
    t.match(printSchema(await schemaOf(t, server)), /type Order {/)
    for (const table of ['itemParts', 'order']) await server.must('untrack_table', { table })
  },
  'convention.others': async (t, servers) => {
    const server = await servers.conventional()
    for (const query of [
      '{ shop_items { item_id } }',
      '{ shopItems(order_by: {itemId: ASC}) { itemId } }',
      '{ shopItems { item_id } }',
    ]) {
      const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })
      t.match(body, { errors: [{ extensions: { code: 'validation-failed' } }] }, query)
    }
    const body = '{"query": "{ shop_items(order_by: [\\"-item_id\\"], limit: 1) { item_id } }"}'
    t.same((await server.fetch('/v1alpha1/graphql', { method: 'POST', body })).body.data, {
      shop_items: [{ item_id: 2 }],
    })
    t.same(await server.must('select', { table: 'shop_items', columns: ['favourite_color'], where: { item_id: 1 } }), [
      { favourite_color: 'red' },
    ])
    const configuration = { custom_name: 'shopItems' }
    t.match((await server.query('set_table_customization', { table: 'legacy_logs', configuration })).body, {
      error: /"shopItems" is taken in GraphQL by table "shop_items"/,
      path: '$.args.configuration.custom_name',
    })
  },
  'convention.default': [
    customize('car', { custom_name: 'shopItems' }),
    customize('car', null),
    ask('{ shopItems { itemId } }', invalid(/shopItems/)),
    ask(
      '{ shop_items_by_pk(item_id: 1) { item_name favourite_color item_parts_aggregate { aggregate { count } } } }',
      data({
        shop_items_by_pk: {
          item_name: 'cup',
          favourite_color: 'red',
          item_parts_aggregate: { aggregate: { count: 2 } },
        },
      }),
    ),
  ],
  'convention.relay': async (t, server) => {
    const document =
      '{ shopItemsConnection(first: 1, orderBy: {itemId: DESC}) { __typename edges { __typename node { __typename id itemId item_partsConnection: itemPartsConnection { edges { node { partId } } } } } } }'
    const { body } = await (
      await server.conventional()
    ).fetch('/v1beta1/relay', { method: 'POST', body: JSON.stringify({ query: document }) })
    t.same(body.data?.shopItemsConnection, {
      __typename: 'ShopItemsConnection',
      edges: [
        {
          __typename: 'ShopItemsEdge',
          node: {
            __typename: 'ShopItems',
            id: btoa('[1, "public", "shop_items", 2]'),
            itemId: 2,
            item_partsConnection: { edges: [] },
          },
        },
      ],
    })
  },
}

/** The schema of a role, which is valid. */
async function schemaOf(t: Test, server: TestServer, as?: As) {
  const body = JSON.stringify({ query: getIntrospectionQuery() })
  const schema = buildClientSchema((await server.fetch('/v1/graphql', { method: 'POST', body }, as)).body.data)
  t.same(validateSchema(schema), [])
  return schema
}

/** The types of the fields of an object type. */
function typeOf(schema: Awaited<ReturnType<typeof schemaOf>>, name: string): Record<string, string> {
  const type = schema.getType(name)
  const fields = type && 'getFields' in type ? Object.values(type.getFields()) : []
  return Object.fromEntries(fields.map((field) => [field.name, String(field.type)]))
}

/** Its promises, with a case for each. */
export const graphqlNames = area('graphql-names', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/names.md': {
      Names: {
        'root fields': ['convention.roots', 'convention.default'],
        'columns, functions and their arguments': 'convention.columns',
        'aggregates of related rows': 'convention.aggregates',
        'arguments and fields of the schema': 'convention.arguments',
        operators: 'convention.arguments',
        types: 'convention.types',
        directions: 'convention.arguments',
        'values of enum tables, also in responses': 'convention.enums',
      },
    },
  },
})

async function start(t: Test): Promise<Servers> {
  const server = await testServer(t)
  const relate = (kind: string, table: string, name: string, on: unknown) => ({
    type: `create_${kind}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  const tables = ['tbl_author', 'tbl_article', 'town', 'sight', 'Order Items', 'Boolean', 'odd', 'no_name', 'document']
  await server.sql(SQL)
  await server.must('bulk', [
    { type: 'track_table', args: { table: 'color', is_enum: true } },
    ...[...tables, 'matrix', 'cat', 'mood_log', 'car', 'shop_items', 'item_parts', FAR, 'legacy_logs'].map((table) => ({
      type: 'track_table',
      args: table,
    })),
    ...['towns_of', 'search_items', 'cats_in', 'part_stats'].map((args) => ({ type: 'track_function', args })),
    relate('array', 'tbl_author', 'articles', { table: 'tbl_article', column: 'author_id' }),
    relate('object', 'tbl_article', 'author', 'author_id'),
    relate('object', 'Boolean', 'item', 'Order Item'),
    relate('array', 'shop_items', 'item_parts', { table: 'item_parts', column: 'item_id' }),
    relate('object', 'item_parts', 'shopItem', 'item_id'),
    {
      type: 'set_table_customization',
      args: {
        table: 'tbl_author',
        configuration: NAMES,
      },
    },
    {
      type: 'set_table_customization',
      args: {
        table: 'tbl_article',
        configuration: { custom_name: 'article', custom_column_names: { ttl: 'title', author_id: 'writer' } },
      },
    },
    permit('select', 'tbl_author', 'user', { columns: ['id', 'nm'], filter: {} }),
    ...['parts_of', 'name_length'].map((name) => ({
      type: 'add_computed_field',
      args: { table: 'shop_items', name, definition: { function: name } },
    })),
    {
      type: 'set_table_customization',
      args: {
        table: 'legacy_logs',
        configuration: {
          custom_name: 'log_Entry',
          custom_root_fields: { select_by_pk: 'one_log' },
          column_config: { log_text: { custom_name: 'the_text' } },
        },
      },
    },
    permit('insert', 'tbl_author', 'user', { columns: ['id', 'nm'], check: { nm: { $ne: 'no' } } }),
    permit('select', 'Order Items', 'user', { columns: ['id', 'unit price'], filter: {} }),
    permit('select', 'cat', 'user', { columns: ['id', 'size', 'mood'], filter: { mood: 'calm' } }),
    permit('select', 'car', 'user', { columns: ['id', 'color'], filter: { color: { $ne: 'blue' } } }),
  ])
  let second: Promise<TestServer> | undefined
  const conventional = () => (second ??= testServer(t, { databaseUrl: server.databaseUrl, config: CAMEL }))
  return { ...server, conventional }
}
