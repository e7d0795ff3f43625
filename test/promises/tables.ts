import type { Test } from 'tap'
import { graphql, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** Tables and relationships that an admin gives the API. */
const PROMISES = {
  'track.effect': 'a tracked table can be queried by admin, one that is not tracked cannot',
  'track.forms':
    'a table is named by its name, by schema and name, or as the key table; add_existing_table_or_view does the same',
  'track.view': 'a view can be tracked',
  'track.twice': 'a table is tracked once',
  'track.missing': 'a table must exist',
  'track.version-2': 'version 2 takes the names for GraphQL beside the table',
  'track.versions': 'other versions of an operation are refused',
  'track.graphql-names': 'the answer has the names that GraphQL has instead of invalid ones',
  'track.admin-only': 'only admin tracks and relates',
  'track.extra-key': 'an unknown key is refused',
  'enum.set': 'the rows of an enum table are the values of an enum in GraphQL',
  'enum.tracked': 'a table can be tracked as an enum table',
  'enum.refused': 'an enum table has a text as its primary key, and values that GraphQL can have',
  'version.set': 'a column, or xmin, is the version of a row, and null ends that',
  'version.refused': 'a version is a column that is there and never null, of a table with a primary key',
  'untrack.effect': 'an untracked table is gone with its permissions and relationships',
  'untrack.missing': 'a table that is not tracked cannot be untracked',
  'untrack.system': 'the tables of the metadata cannot be untracked',
  'untrack.dependents': 'relationships, permissions and templates of other tables hold a table, and are named',
  'untrack.cascade': 'with cascade they go too',
  'relationship.object': 'an object relationship follows a foreign key of the table',
  'relationship.object-remote': 'or a unique one of the other table',
  'relationship.array': 'an array relationship follows a foreign key of the other table',
  'relationship.columns': 'a foreign key may have several columns',
  'relationship.manual': 'a relationship may join columns without a foreign key',
  'relationship.no-key': 'a relationship needs a foreign key on the column',
  'relationship.using': 'it takes exactly one of foreign_key_constraint_on and manual_configuration',
  'relationship.columns-exist': 'its columns exist, and its other table is tracked',
  'relationship.taken': 'its name is not that of a column, a relationship or a computed field',
  'relationship.name-length': 'its name has at most 255 bytes',
  'relationship.drop': 'a dropped relationship is gone',
  'relationship.drop-missing': 'what is not there cannot be dropped, renamed or commented',
  'relationship.drop-dependents': 'permissions and templates hold a relationship, and are named',
  'relationship.drop-cascade': 'with cascade they go too',
  'relationship.rename': 'a renamed relationship is the same under another name',
  'relationship.rename-taken': 'the new name must be free',
  'relationship.rename-dependents': 'permissions and templates that name it prevent that',
  'relationship.comment': 'a comment can be set and removed',
  'partition.keys': 'a foreign key of a partitioned table counts once',
} as const

const SQL = `
create schema other;
create table author (id int primary key, name text);
create table article (id int primary key, title text, author_id int references author, editor_id int references author);
create table passport (id int primary key, author_id int unique references author);
create table line (order_id int, n int, primary key (order_id, n));
create table part (id int primary key, order_id int, n int, foreign key (order_id, n) references line);
create table other.note (id int primary key, author_id int);
create table "Odd ones" (id int primary key, "first name" text);
create table plain (id int primary key, mood text);
create table mood (value text primary key, comment text);
create table thing (id int primary key, mood text references mood, at timestamptz, stamp int not null default 1);
create table keyless (id int not null);
create table place (id int not null, day int not null, primary key (id, day)) partition by range (day);
create table place_1 partition of place for values from (0) to (10);
create table place_2 partition of place for values from (10) to (20);
create table visit (id int primary key, place_id int, day int, foreign key (place_id, day) references place);
create view short as select id, title from article;
create table outside (id int);
insert into author values (1, 'Ann'), (2, 'Ben');
insert into article values (1, 'one', 1, 2), (2, 'two', 1, null), (3, 'three', 2, 1);
insert into passport values (7, 1);
insert into line values (1, 1), (1, 2);
insert into part values (1, 1, 1), (2, 1, 2);
insert into other.note values (1, 2);
insert into mood values ('calm', 'At ease'), ('loud', null);
insert into thing values (1, 'calm');
insert into place values (1, 1), (2, 11);
insert into visit values (1, 1, 1), (2, 2, 11)`

const SUCCESS: Expected = { status: 200, text: '{"message":"success"}' }
const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const ADMIN_ONLY = refused('access-denied', 'only the role admin may do this')
const OTHER_NOTE = { schema: 'other', name: 'note' }

const select = (table: unknown, columns: readonly unknown[], expected: Expected, who?: As): Step =>
  query('select', { table, columns, order_by: 'id' }, expected, who)
const relationship = (
  type: 'object' | 'array',
  table: unknown,
  name: string,
  using: object,
  expected: Expected = SUCCESS,
): Step => query(`create_${type}_relationship`, { table, name, using }, expected)
const on = (column: unknown) => ({ foreign_key_constraint_on: column })
const by = (remote_table: unknown, column_mapping: object) => ({
  manual_configuration: { remote_table, column_mapping },
})
const drop = (table: string, name: string, expected: Expected = SUCCESS, more: object = {}): Step =>
  query('drop_relationship', { table, relationship: name, ...more }, expected)
const held = (by: string, what = 'drop') =>
  refused('dependency-error', `cannot ${what} because of dependent objects: ${by}`)
const gone = (table: string) =>
  refused('not-exists', new RegExp(`^table "${table}" (does not exist|exists but is not tracked)`), '$.args.table')
const data = (value: object) => is({ data: value })

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'track.effect': [
    select('plain', ['id'], gone('plain')),
    query('track_table', 'plain', SUCCESS),
    select('plain', ['id'], is([])),
    select('plain', ['id'], refused('permission-denied', /^select on "plain" for role "user" is not allowed/), USER),
  ],
  'track.forms': [
    query('add_existing_table_or_view', OTHER_NOTE, SUCCESS),
    select(OTHER_NOTE, ['id'], is([{ id: 1 }])),
    query('untrack_table', { table: OTHER_NOTE }, SUCCESS),
    query('track_table', { table: OTHER_NOTE }, SUCCESS),
    select({ name: 'plain' }, ['id'], is([])),
  ],
  'track.view': [query('track_table', 'short', SUCCESS), select('short', ['*'], like([{ id: 1, title: 'one' }]))],
  'track.twice': [
    query('track_table', 'author', refused('already-tracked', 'table or view "author" is already tracked', '$.args')),
    query('track_table', { schema: 'svc_catalog', name: 'svc_table' }, refused('already-tracked', /svc_table/)),
  ],
  'track.missing': [
    query(
      'track_table',
      'nope',
      refused('not-exists', 'table or view "nope" does not exist in the database', '$.args'),
    ),
    query(
      'track_table',
      { schema: 'other', name: 'x' },
      refused('not-exists', 'table or view "other.x" does not exist in the database'),
    ),
  ],
  'track.version-2': [
    versioned(2, 'track_table', { table: 'keyless', configuration: { custom_name: 'Kurz' } }, SUCCESS),
    graphql('{ Kurz { id } }', data({ Kurz: [] })),
    versioned(2, 'track_table', { table: 'nope', configuration: {} }, refused('not-exists', /"nope"/, '$.args.table')),
    query('untrack_table', { table: 'keyless' }, SUCCESS),
    query(
      'bulk',
      [
        { type: 'track_table', version: 2, args: { table: 'keyless', configuration: { custom_name: 'Kurz' } } },
        { type: 'select', version: 1, args: { table: 'keyless', columns: ['id'] } },
      ],
      is([{ message: 'success' }, []]),
    ),
    query('untrack_table', { table: 'keyless' }, SUCCESS),
  ],
  'track.versions': [
    versioned(1, 'track_table', 'keyless', SUCCESS),
    versioned(
      '2',
      'track_table',
      'keyless',
      refused('parse-failed', '"track_table" has versions 1 and 2', '$.version'),
    ),
    versioned(3, 'track_table', 'keyless', refused('parse-failed', '"track_table" has versions 1 and 2', '$.version')),
    versioned(
      2,
      'untrack_table',
      { table: 'keyless' },
      refused('parse-failed', '"untrack_table" has version 1 only', '$.version'),
    ),
  ],
  'track.graphql-names': [
    query(
      'track_table',
      'Odd ones',
      is({ message: 'success', graphql_names: { 'Odd ones': 'Odd_ones', 'first name': 'first_name' } }),
    ),
    graphql('{ Odd_ones { first_name } }', data({ Odd_ones: [] })),
  ],
  'track.admin-only': [
    ['track_table', 'outside'],
    ['add_existing_table_or_view', 'outside'],
    ['untrack_table', { table: 'plain' }],
    ['set_table_is_enum', { table: 'mood', is_enum: true }],
    ['set_table_version', { table: 'thing', column: 'xmin' }],
    ['create_object_relationship', { table: 'article', name: 'x', using: on('author_id') }],
    ['create_array_relationship', { table: 'author', name: 'x', using: on({ table: 'article', column: 'author_id' }) }],
    ['drop_relationship', { table: 'article', relationship: 'author' }],
    ['rename_relationship', { table: 'article', name: 'author', new_name: 'x' }],
    ['set_relationship_comment', { table: 'article', relationship: 'author', comment: 'x' }],
    ['track_function', 'add_up'],
    ['untrack_function', 'add_up'],
    ['create_function_permission', { function: 'add_up', role: 'user' }],
    ['drop_function_permission', { function: 'add_up', role: 'user' }],
    ['add_computed_field', { table: 'author', name: 'shout', definition: { function: 'shout' } }],
    ['drop_computed_field', { table: 'author', name: 'shout' }],
    ['set_table_customization', { table: 'author', configuration: null }],
    ['track_all', {}],
  ].map(([type, args]) => query(type as string, args, ADMIN_ONLY, USER)),
  'track.extra-key': [
    query(
      'untrack_table',
      { table: 'plain', cascad: true },
      refused('unexpected-payload', /unexpected key "cascad"/, '$.args.cascad'),
    ),
    query(
      'drop_relationship',
      { table: 'plain' },
      refused('parse-failed', "the key 'relationship' was not present", '$.args'),
    ),
  ],
  'enum.set': [
    query('set_table_is_enum', { table: 'mood', is_enum: true }, SUCCESS),
    graphql(
      '{ __type(name: "mood_enum") { enumValues { name } } thing { mood } }',
      data({
        __type: {
          enumValues: [{ name: 'calm' }, { name: 'loud' }],
        },
        thing: [{ mood: 'calm' }],
      }),
    ),
    query('set_table_is_enum', { table: 'mood', is_enum: false }, SUCCESS),
    graphql('{ __type(name: "mood_enum") { name } }', data({ __type: null })),
  ],
  'enum.tracked': [
    query('untrack_table', { table: 'mood' }, SUCCESS),
    query('track_table', { table: 'mood', is_enum: true }, SUCCESS),
    graphql(
      '{ __type(name: "mood_enum") { enumValues { name } } }',
      data({ __type: { enumValues: [{ name: 'calm' }, { name: 'loud' }] } }),
    ),
  ],
  'enum.refused': [
    query(
      'set_table_is_enum',
      { table: 'author', is_enum: true },
      refused(
        'unexpected-payload',
        '"author" cannot be an enum: its primary key must be one column of type text',
        '$.args.table',
      ),
    ),
    query('run_sql', { sql: 'create table grade (value text primary key)' }, is({ result_type: 'CommandOk' })),
    query(
      'track_table',
      { table: 'grade', is_enum: true },
      refused('unexpected-payload', /it has no rows/, '$.args.table'),
    ),
    query('run_sql', { sql: `insert into grade values ('not good')` }, is({ result_type: 'CommandOk' })),
    query(
      'track_table',
      { table: 'grade', is_enum: true },
      refused('unexpected-payload', /"not good" is not a valid value of an enum/),
    ),
    select('grade', ['value'], gone('grade')),
  ],
  'version.set': async (t, server) => {
    const version = async (column: string | null) => {
      await server.must('set_table_version', { table: 'thing', column })
      const { tables } = await server.must('describe', {})
      return tables.find(({ table }: { table: { name: string } }) => table.name === 'thing').version
    }
    t.equal(await version('stamp'), 'stamp')
    t.equal(await version('xmin'), 'xmin')
    t.equal(await version(null), undefined)
  },
  'version.refused': [
    query(
      'set_table_version',
      { table: 'thing', column: 'nope' },
      refused('not-exists', /column "nope" does not exist in "thing"/, '$.args.column'),
    ),
    query(
      'set_table_version',
      { table: 'thing', column: 'at' },
      refused('unexpected-payload', /the column can be null/, '$.args.column'),
    ),
    query(
      'set_table_version',
      { table: 'keyless', column: 'id' },
      refused('unexpected-payload', /the table has no primary key/),
    ),
  ],
  'untrack.effect': [
    query(
      'create_select_permission',
      { table: 'plain', role: 'user', permission: { columns: '*', filter: {} } },
      SUCCESS,
    ),
    select('plain', ['id'], is([]), USER),
    query('untrack_table', { table: 'plain' }, SUCCESS),
    select('plain', ['id'], gone('plain')),
    query('track_table', 'plain', SUCCESS),
    select('plain', ['id'], refused('permission-denied', /./), USER),
  ],
  'untrack.missing': [
    query(
      'untrack_table',
      { table: 'nope' },
      refused('already-untracked', 'table or view "nope" is not tracked', '$.args.table'),
    ),
  ],
  'untrack.system': [
    query(
      'untrack_table',
      { table: { schema: 'svc_catalog', name: 'svc_table' } },
      refused('not-supported', '"svc_catalog.svc_table" belongs to Rowhouse and cannot be untracked'),
    ),
  ],
  'untrack.dependents': [
    query(
      'create_select_permission',
      {
        table: 'plain',
        role: 'user',
        permission: { columns: '*', filter: { $exists: { _table: 'line', _where: {} } } },
      },
      SUCCESS,
    ),
    query('create_query_template', { name: 'lines', template: { type: 'count', args: { table: 'line' } } }, SUCCESS),
    relationship('object', 'part', 'line', on(['order_id', 'n'])),
    query(
      'untrack_table',
      { table: 'line' },
      held('relationship part.line, permission plain.user.select, query-template lines'),
    ),
    query('count', { table: 'line' }, is({ count: 2 })),
  ],
  'untrack.cascade': [
    query('untrack_table', { table: 'line', cascade: true }, SUCCESS),
    query('execute_query_template', { name: 'lines', args: {} }, refused('not-exists', /lines/)),
    select('plain', ['id'], refused('permission-denied', /./), USER),
    select('part', ['id', { name: 'line', columns: ['n'] }], { status: 400 }),
    query('track_table', 'line', SUCCESS),
  ],
  'relationship.object': [
    relationship('object', 'article', 'author', on('author_id')),
    select(
      'article',
      ['id', { name: 'author', columns: ['name'] }],
      is([
        { id: 1, author: { name: 'Ann' } },
        { id: 2, author: { name: 'Ann' } },
        { id: 3, author: { name: 'Ben' } },
      ]),
    ),
    relationship('object', 'article', 'editor', on('editor_id')),
    select(
      'article',
      [{ name: 'editor', columns: ['id'] }],
      is([{ editor: { id: 2 } }, { editor: null }, { editor: { id: 1 } }]),
    ),
  ],
  'relationship.object-remote': [
    relationship('object', 'author', 'passport', on({ table: 'passport', column: 'author_id' })),
    select('author', [{ name: 'passport', columns: ['id'] }], is([{ passport: { id: 7 } }, { passport: null }])),
  ],
  'relationship.array': [
    relationship('array', 'author', 'articles', on({ table: 'article', column: 'author_id' })),
    relationship('array', 'author', 'edited', on({ table: 'article', column: 'editor_id' })),
    select(
      'author',
      [
        { name: 'articles', columns: ['id'], order_by: 'id' },
        { name: 'edited', columns: ['id'] },
      ],
      is([
        { articles: [{ id: 1 }, { id: 2 }], edited: [{ id: 3 }] },
        { articles: [{ id: 3 }], edited: [{ id: 1 }] },
      ]),
    ),
  ],
  'relationship.columns': [
    relationship('object', 'part', 'line', on(['order_id', 'n'])),
    select('part', [{ name: 'line', columns: ['n'] }], is([{ line: { n: 1 } }, { line: { n: 2 } }])),
    relationship('array', 'line', 'parts', on({ table: 'part', columns: ['n', 'order_id'] })),
    query(
      'select',
      { table: 'line', columns: ['n', { name: 'parts', columns: ['id'] }], order_by: 'n' },
      is([
        { n: 1, parts: [{ id: 1 }] },
        { n: 2, parts: [{ id: 2 }] },
      ]),
    ),
  ],
  'relationship.manual': [
    relationship('object', OTHER_NOTE, 'writer', by('author', { author_id: 'id' })),
    select(OTHER_NOTE, [{ name: 'writer', columns: ['name'] }], is([{ writer: { name: 'Ben' } }])),
    relationship('array', 'author', 'notes', {
      manual_mapping: { remote_table: OTHER_NOTE, column_mapping: { id: 'author_id' } },
    }),
    select('author', [{ name: 'notes', columns: ['id'] }], is([{ notes: [] }, { notes: [{ id: 1 }] }])),
  ],
  'relationship.no-key': [
    relationship(
      'object',
      'article',
      'x',
      on('title'),
      refused(
        'constraint-error',
        'no foreign constraint exists on the given column',
        '$.args.using.foreign_key_constraint_on',
      ),
    ),
    relationship(
      'array',
      'author',
      'x',
      on({ table: 'article', column: 'title' }),
      refused('constraint-error', 'no foreign constraint exists on the given column'),
    ),
    relationship(
      'array',
      'line',
      'x',
      on({ table: 'article', column: 'author_id' }),
      refused('constraint-error', 'no foreign constraint exists on the given column'),
    ),
  ],
  'relationship.using': [
    relationship(
      'object',
      'article',
      'x',
      {},
      refused('parse-failed', /expecting foreign_key_constraint_on or manual_configuration/, '$.args.using'),
    ),
    relationship(
      'object',
      'article',
      'x',
      { ...on('author_id'), ...by('author', { id: 'id' }) },
      refused('parse-failed', /only one of foreign_key_constraint_on and manual_configuration/),
    ),
    relationship(
      'object',
      'article',
      'x',
      { foreign_key: 'author_id' },
      refused('unexpected-payload', /unexpected key "foreign_key"/, '$.args.using.foreign_key'),
    ),
    relationship(
      'object',
      'article',
      'x',
      by('author', {}),
      refused('parse-failed', /column names/, '$.args.using.manual_configuration.column_mapping'),
    ),
  ],
  'relationship.columns-exist': [
    relationship(
      'object',
      'article',
      'x',
      on('nope'),
      refused('not-exists', /column "nope" does not exist in "article"/),
    ),
    relationship(
      'object',
      'article',
      'x',
      by('author', { author_id: 'nope' }),
      refused(
        'not-exists',
        /column "nope" does not exist in "author"/,
        '$.args.using.manual_configuration.column_mapping.author_id',
      ),
    ),
    relationship(
      'object',
      'article',
      'x',
      by('outside', { id: 'id' }),
      refused('not-exists', /"outside"/, '$.args.using.manual_configuration.remote_table'),
    ),
    relationship('object', 'nope', 'x', on('id'), refused('not-exists', /"nope"/, '$.args.table')),
  ],
  'relationship.taken': [
    relationship(
      'object',
      'article',
      'title',
      on('author_id'),
      refused('already-exists', 'column or relationship "title" of table "article" already exists'),
    ),
    relationship(
      'object',
      'article',
      'author',
      on('author_id'),
      refused('already-exists', 'column or relationship "author" of table "article" already exists'),
    ),
    query(
      'run_sql',
      { sql: 'alter table article add column editor int' },
      refused('already-exists', 'column or relationship "editor" of table "article" already exists'),
    ),
  ],
  'relationship.name-length': [
    relationship(
      'object',
      'article',
      'x'.repeat(256),
      on('author_id'),
      refused('parse-failed', 'a relationship name has at most 255 bytes', '$.args.name'),
    ),
    relationship('object', 'article', 'x'.repeat(255), on('author_id')),
    drop('article', 'x'.repeat(255)),
    relationship('object', 'article', '', on('author_id'), { status: 400, like: { path: '$.args.name' } }),
  ],
  'relationship.drop': [
    drop('article', 'editor'),
    select('article', [{ name: 'editor', columns: ['id'] }], { status: 400 }),
    query('drop_relationship', { table: 'author', name: 'edited' }, SUCCESS),
    select('author', [{ name: 'edited', columns: ['id'] }], { status: 400 }),
  ],
  'relationship.drop-missing': [
    drop('article', 'nope', refused('not-exists', 'relationship "nope" does not exist', '$.args.relationship')),
    query(
      'rename_relationship',
      { table: 'article', name: 'nope', new_name: 'x' },
      refused('not-exists', 'relationship "nope" does not exist', '$.args.name'),
    ),
    query(
      'set_relationship_comment',
      { table: 'article', relationship: 'nope', comment: 'x' },
      refused('not-exists', 'relationship "nope" does not exist'),
    ),
  ],
  'relationship.drop-dependents': [
    query(
      'create_select_permission',
      { table: 'article', role: 'user', permission: { columns: '*', filter: { author: { name: 'Ann' } } } },
      SUCCESS,
    ),
    query(
      'create_query_template',
      {
        name: 'written',
        template: { type: 'select', args: { table: 'article', columns: [{ name: 'author', columns: ['id'] }] } },
      },
      SUCCESS,
    ),
    drop('article', 'author', held('permission article.user.select, query-template written')),
    select('article', ['id'], is([{ id: 1 }, { id: 2 }]), USER),
  ],
  'relationship.drop-cascade': [
    drop('article', 'author', SUCCESS, { cascade: true }),
    select('article', ['id'], refused('permission-denied', /./), USER),
    query('execute_query_template', { name: 'written', args: {} }, refused('not-exists', /written/)),
    relationship('object', 'article', 'author', on('author_id')),
  ],
  'relationship.rename': [
    query('set_relationship_comment', { table: 'article', relationship: 'author', comment: 'wrote it' }, SUCCESS),
    query('rename_relationship', { table: 'article', name: 'author', new_name: 'writer' }, SUCCESS),
    select(
      'article',
      [{ name: 'writer', columns: ['id'] }],
      is([{ writer: { id: 1 } }, { writer: { id: 1 } }, { writer: { id: 2 } }]),
    ),
    select('article', [{ name: 'author', columns: ['id'] }], { status: 400 }),
    query(
      'select',
      {
        table: { schema: 'svc_catalog', name: 'svc_relationship' },
        columns: ['comment'],
        where: { rel_name: 'writer', table_name: 'article' },
      },
      is([{ comment: 'wrote it' }]),
    ),
  ],
  'relationship.rename-taken': ['author_id', 'writer', 'x'.repeat(256)].map((new_name) =>
    query(
      'rename_relationship',
      { table: 'article', name: 'writer', new_name },
      { status: 400, like: { code: new_name.length > 63 ? 'parse-failed' : 'already-exists' } },
    ),
  ),
  'relationship.rename-dependents': [
    query(
      'create_delete_permission',
      { table: 'article', role: 'user', permission: { filter: { writer: { name: 'Ann' } } } },
      SUCCESS,
    ),
    query(
      'rename_relationship',
      { table: 'article', name: 'writer', new_name: 'author' },
      held('permission article.user.delete', 'rename'),
    ),
    query(
      'create_query_template',
      {
        name: 'written',
        template: { type: 'select', args: { table: 'article', columns: [{ name: 'writer', columns: ['id'] }] } },
      },
      SUCCESS,
    ),
    query(
      'rename_relationship',
      { table: 'article', name: 'writer', new_name: 'author' },
      held('permission article.user.delete, query-template written', 'rename'),
    ),
    query('drop_query_template', { name: 'written' }, SUCCESS),
    query('drop_delete_permission', { table: 'article', role: 'user' }, SUCCESS),
  ],
  'relationship.comment': ['who wrote it', null].flatMap((comment) => [
    query('set_relationship_comment', { table: 'article', relationship: 'writer', comment }, SUCCESS),
    query(
      'select',
      {
        table: { schema: 'svc_catalog', name: 'svc_relationship' },
        columns: ['comment'],
        where: { rel_name: 'writer', table_name: 'article' },
      },
      is([{ comment }]),
    ),
  ]),
  'partition.keys': [
    relationship('object', 'visit', 'place', on(['place_id', 'day'])),
    relationship('array', 'place', 'visits', on({ table: 'visit', column: ['place_id', 'day'] })),
    select(
      'visit',
      ['id', { name: 'place', columns: ['day'] }],
      is([
        { id: 1, place: { day: 1 } },
        { id: 2, place: { day: 11 } },
      ]),
    ),
    query(
      'run_sql',
      {
        sql: 'create table place_3 partition of place for values from (20) to (30); alter table place detach partition place_3; drop table place_3',
      },
      is({ result_type: 'CommandOk' }),
    ),
    select(
      'place',
      ['id', { name: 'visits', columns: ['id'] }],
      is([
        { id: 1, visits: [{ id: 1 }] },
        { id: 2, visits: [{ id: 2 }] },
      ]),
    ),
    query('get_inconsistent_metadata', {}, is({ is_consistent: true, inconsistent_objects: [] })),
  ],
}

function versioned(version: unknown, type: string, args: unknown, expected: Expected): Step {
  return { path: '/v1/query', method: 'POST', body: JSON.stringify({ type, version, args }), expected }
}

export const tables = area('tables', {
  promises: PROMISES,
  pages: {
    'plugins/query/metadata.md': {
      'Tables and relationships (admin)': {
        '`track_table` (`add_existing_table_or_view`)': [
          'track.effect',
          'track.forms',
          'track.version-2',
          'enum.tracked',
          'track.graphql-names',
        ],
        '`set_table_is_enum`': ['enum.set', 'enum.refused'],
        '`set_table_version`': ['version.set', 'version.refused'],
        '`untrack_table`': ['untrack.effect', 'untrack.dependents', 'untrack.cascade'],
        '`create_object_relationship`': ['relationship.object', 'relationship.manual', 'relationship.columns'],
        '`create_array_relationship`': ['relationship.array', 'relationship.manual'],
        '`drop_relationship`': ['relationship.drop', 'relationship.drop-cascade'],
        '`rename_relationship`': ['relationship.rename', 'relationship.rename-dependents'],
        '`set_relationship_comment`': 'relationship.comment',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  await server.must(
    'bulk',
    ['author', 'article', 'passport', 'line', 'part', 'mood', 'thing', 'place', 'visit'].map(track),
  )
  return server
}
