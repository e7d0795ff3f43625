import t, { type Test } from 'tap'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** A sentence, who asks, what, and what comes back: a whole body, or the status and parts of an error. */
type Case = readonly [sentence: string, as: As, type: string, args: unknown, expected: unknown]

const ADMIN: As = {}
const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }

async function check(t: Test, server: TestServer, cases: readonly Case[]): Promise<void> {
  for (const [sentence, as, type, args, expected] of cases) {
    const { status, body } = await server.query(type, args, as)
    if (isRefusal(expected)) t.match({ status, ...body }, { status: 400, ...expected }, sentence)
    else t.strictSame({ status, body }, { status: 200, body: expected }, sentence)
  }
}
const isRefusal = (expected: unknown): expected is { code: string } =>
  typeof expected === 'object' && expected !== null && 'code' in expected

const refused = (code: string, error: string | RegExp, path?: string) => ({ code, error, ...(path ? { path } : {}) })
const SUCCESS = { message: 'success' }

/** author and article, as in the manuals of old. */
async function library(t: Test): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table author (id serial primary key, name text not null, auth_id int unique, email text);
      create table category (id int primary key, name text);
      create table article (id serial primary key, title text, author_id int not null references author,
        category_id int references category, published bool not null default false);
      insert into author (name, auth_id, email) values ('Ada', 1, 'a@x'), ('Ben', 2, null);
      insert into category values (1, 'news');
      insert into article (title, author_id, category_id, published)
        values ('one', 1, 1, true), ('two', 1, null, false), ('three', 2, 1, true), ('four', 2, 1, false)`,
  })
  await server.must('bulk', [
    ...['author', 'category', 'article'].map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'article', 'author', 'author_id'),
    relate('object', 'article', 'category', 'category_id'),
    relate('array', 'author', 'articles', { table: 'article', column: 'author_id' }),
  ])
  const own = { author: { auth_id: 'X-SERVICE-USER-ID' } }
  await server.must('bulk', [
    permit('select', 'author', { columns: ['id', 'name', 'auth_id'], filter: {} }),
    permit('select', 'article', { columns: '*', filter: { $or: [{ published: true }, own] } }),
    permit('insert', 'article', { check: own }),
    permit('update', 'author', { columns: ['name'], filter: { auth_id: 'X-SERVICE-USER-ID' } }),
    permit('update', 'article', { columns: ['title', 'published'], filter: own, check: { title: { $ne: 'bad' } } }),
    permit('delete', 'article', { filter: own }),
  ])
  return server
}

const relate = (type: string, table: string, name: string, on: unknown) => ({
  type: `create_${type}_relationship`,
  args: { table, name, using: { foreign_key_constraint_on: on } },
})
const permit = (type: string, table: string, permission: object) => ({
  type: `create_${type}_permission`,
  args: { table, role: 'user', permission },
})

t.test('metadata and SQL', async (t) => {
  const server = await library(t)
  const comment = { table: 'author', role: 'user', type: 'select' }

  await check(t, server, [
    [
      'a table is tracked once',
      ADMIN,
      'track_table',
      'author',
      refused('already-tracked', 'view/table already tracked : "author"'),
    ],
    [
      'a table must exist',
      ADMIN,
      'track_table',
      { schema: 'other', name: 'x' },
      refused('not-exists', 'no such table/view exists in postgres : "other.x"'),
    ],
    [
      'untracking what is not tracked',
      ADMIN,
      'untrack_table',
      { table: 'nope' },
      refused('already-untracked', 'view/table already untracked : "nope"'),
    ],
    [
      'relationships of others hold a table',
      ADMIN,
      'untrack_table',
      { table: 'category' },
      refused('dependency-error', 'cannot drop due to the following dependent objects : relationship article.category'),
    ],
    [
      'a permission is made once',
      ADMIN,
      'create_select_permission',
      { table: 'author', role: 'user', permission: { columns: '*', filter: {} } },
      refused('already-exists', `'select' permission on "author" for role "user" already exists`),
    ],
    [
      'a role may not make permissions',
      USER,
      'create_select_permission',
      { table: 'author', role: 'user', permission: { columns: '*', filter: {} } },
      refused('access-denied', 'restricted access : admin only'),
    ],
    [
      'dropping a permission that is not there',
      ADMIN,
      'drop_insert_permission',
      { table: 'author', role: 'user' },
      refused('permission-denied', 'insert permisson on "author" for role "user" does not exist'),
    ],
    [
      'a typing mistake does not widen a permission',
      ADMIN,
      'create_delete_permission',
      { table: 'author', role: 'user', permission: { filter: {}, fliter: {} } },
      refused('unexpected-payload', 'unexpected key "fliter"', '$.args.permission.fliter'),
    ],
    [
      'a permission names columns that exist',
      ADMIN,
      'create_update_permission',
      { table: 'category', role: 'user', permission: { columns: ['nope'], filter: {} } },
      refused('not-exists', 'column "nope" does not exist', '$.args.permission.columns[0]'),
    ],
    [
      'the user id stands for no boolean',
      ADMIN,
      'create_select_permission',
      { table: 'article', role: 'other', permission: { columns: '*', filter: { published: 'X-Service-User-Id' } } },
      refused(
        'unexpected-payload',
        /requires a smallint, .*; the type here is bool/,
        '$.args.permission.filter.published',
      ),
    ],
    ['a comment is set', ADMIN, 'set_permission_comment', { ...comment, comment: 'who wrote' }, SUCCESS],
    [
      'and can be read',
      ADMIN,
      'select',
      {
        table: { schema: 'svc_catalog', name: 'svc_permission' },
        columns: ['comment'],
        where: { table_name: 'author', perm_type: 'select' },
      },
      [{ comment: 'who wrote' }],
    ],
    ['and removed', ADMIN, 'set_permission_comment', { ...comment, comment: null }, SUCCESS],
    [
      'the catalog is not for others',
      USER,
      'select',
      { table: { schema: 'svc_catalog', name: 'svc_permission' }, columns: ['*'] },
      refused('permission-denied', /svc_permission/),
    ],
    [
      'nor changed by rows',
      ADMIN,
      'delete',
      { table: { schema: 'svc_catalog', name: 'svc_permission' }, where: {} },
      refused('unexpected-payload', /only metadata operations/),
    ],
    [
      'a relationship needs a name of its own',
      ADMIN,
      'create_object_relationship',
      { table: 'article', name: 'title', using: { foreign_key_constraint_on: 'author_id' } },
      refused('already-exists', 'column/relationship "title" of table "article" already exists'),
    ],
    [
      'and a foreign key',
      ADMIN,
      'create_object_relationship',
      { table: 'article', name: 'x', using: { foreign_key_constraint_on: 'title' } },
      refused('constraint-error', 'no foreign constraint exists on the given column'),
    ],
    [
      'or columns by hand',
      ADMIN,
      'create_array_relationship',
      {
        table: 'category',
        name: 'articles',
        using: { manual_configuration: { remote_table: 'article', column_mapping: { id: 'category_id' } } },
      },
      SUCCESS,
    ],
    [
      'which then works',
      ADMIN,
      'select',
      { table: 'category', columns: [{ name: 'articles', columns: ['id'], order_by: ['id'] }] },
      [{ articles: [{ id: 1 }, { id: 3 }, { id: 4 }] }],
    ],
    ['it can be dropped by either key', ADMIN, 'drop_relationship', { table: 'category', name: 'articles' }, SUCCESS],
    [
      'permissions hold a relationship',
      ADMIN,
      'drop_relationship',
      { table: 'article', relationship: 'author' },
      refused(
        'dependency-error',
        'cannot drop due to the following dependent objects : permission article.user.delete, permission article.user.insert, permission article.user.select, permission article.user.update',
      ),
    ],

    [
      'only the result of the last statement is returned',
      ADMIN,
      'run_sql',
      { sql: 'select 1; select id, email from author order by id' },
      {
        result_type: 'TuplesOk',
        result: [
          ['id', 'email'],
          ['1', 'a@x'],
          ['2', 'NULL'],
        ],
      },
    ],
    [
      'a statement without rows',
      ADMIN,
      'run_sql',
      { sql: 'create index on article (title)' },
      { result_type: 'CommandOk' },
    ],
    [
      'only the admin may run it',
      USER,
      'run_sql',
      { sql: 'select 1' },
      refused('access-denied', 'restricted access : admin only'),
    ],
    [
      'what metadata depends on is not dropped',
      ADMIN,
      'run_sql',
      { sql: 'alter table author drop column auth_id' },
      refused('dependency-error', /permission article.user.insert.*permission author.user.select/, '$.args'),
    ],
    [
      'types under permissions are not altered, cascade or not',
      ADMIN,
      'run_sql',
      { sql: 'alter table author alter auth_id type bigint', cascade: true },
      refused('dependency-error', /^cannot change type of column "auth_id" in table "author"/),
    ],
    [
      'a column is not renamed',
      ADMIN,
      'run_sql',
      { sql: 'alter table author rename name to n' },
      refused('not-supported', 'column renames are not yet supported : "author"."name"'),
    ],
    [
      'a table is not renamed, however hidden',
      ADMIN,
      'run_sql',
      { sql: 'do $$ begin execute $x$alter table author rename to writer$x$; end $$' },
      refused('not-supported', 'table renames are not yet supported : "author"'),
    ],
    [
      'a transaction is not ended',
      ADMIN,
      'run_sql',
      { sql: 'create table left_behind (id int); commit; begin' },
      refused('not-supported', /transaction control/),
    ],
    [
      'nothing is left of it',
      ADMIN,
      'run_sql',
      { sql: `select to_regclass('left_behind')::text as found` },
      { result_type: 'TuplesOk', result: [['found'], ['NULL']] },
    ],
    ['COPY from the client', ADMIN, 'run_sql', { sql: 'copy author from stdin' }, refused('not-supported', /COPY/)],
    [
      'SQL that fails says why to the admin',
      ADMIN,
      'run_sql',
      { sql: 'selec' },
      {
        ...refused('postgres-error', 'syntax error at or near "selec"'),
        internal: { error: { status_code: '42601' } },
      },
    ],
    [
      'a new column may not take a relationship its name',
      ADMIN,
      'run_sql',
      { sql: 'alter table author add articles int' },
      refused('already-exists', 'column/relationship "articles" of table "author" already exists'),
    ],
    [
      'with cascade the dependents go too',
      ADMIN,
      'run_sql',
      { sql: 'drop table category cascade', cascade: true },
      { result_type: 'CommandOk' },
    ],
  ])

  const exported = await server.must('export_metadata', {})
  t.same(
    exported.tables.map(({ table }: { table: string }) => table),
    ['article', 'author'],
  )
  t.same(
    exported.tables[0].object_relationships.map(({ name }: { name: string }) => name),
    ['author'],
  )
  await server.must('clear_metadata', {})
  t.match((await server.query('count', { table: 'author' })).body, { code: 'not-exists' })
  t.same(await server.must('replace_metadata', exported), SUCCESS)
  t.same(await server.must('export_metadata', {}), exported)
  t.equal((await server.query('count', { table: 'article' }, USER)).status, 200)
})
