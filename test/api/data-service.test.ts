import t, { type Test } from 'tap'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** A sentence, who asks, what, and what comes back: a whole body, or the status and parts of an error. */
type Case = readonly [sentence: string, as: As, type: string, args: unknown, expected: unknown]

const ADMIN: As = {}
const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const GUEST: As = { role: 'guest' }

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

/** author and article, as in the manuals of old; guest may nothing. */
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

t.test('selecting', async (t) => {
  const server = await library(t)
  const titles = (where: object) => ({ table: 'article', columns: ['id'], where, order_by: ['id'] })
  const ids = (...all: number[]) => all.map((id) => ({ id }))
  const ada = { id: 1, name: 'Ada', auth_id: 1 }
  const ben = { id: 2, name: 'Ben', auth_id: 2 }
  const one = { id: 1, title: 'one', author_id: 1, category_id: 1, published: true }
  const two = { id: 2, title: 'two', author_id: 1, category_id: null, published: false }
  const three = { id: 3, title: 'three', author_id: 2, category_id: 1, published: true }

  await check(t, server, [
    [
      'columns by name, in the order asked',
      ADMIN,
      'select',
      { table: 'author', columns: ['name', 'id'], order_by: '+id' },
      [
        { name: 'Ada', id: 1 },
        { name: 'Ben', id: 2 },
      ],
    ],
    [
      '* is every column that the role may select',
      USER,
      'select',
      { table: 'author', columns: ['*'], order_by: 'id' },
      [ada, ben],
    ],
    [
      '*.* adds every relationship that the role may read, and leaves out the others',
      USER,
      'select',
      { table: 'author', columns: ['*.*'], order_by: 'id' },
      [
        { ...ada, articles: [one, two] },
        { ...ben, articles: [three] },
      ],
    ],
    [
      'the deepest wildcard wins',
      USER,
      'select',
      { table: 'author', columns: ['*', '*.*', '*.*.*'], where: { id: 2 } },
      [{ ...ben, articles: [{ ...three, author: ben }] }],
    ],
    [
      'what is named overrides the wildcard',
      USER,
      'select',
      { table: 'author', columns: ['*.*', { name: 'articles', columns: ['title'] }], where: { id: 1 } },
      [{ ...ada, articles: [{ title: 'one' }, { title: 'two' }] }],
    ],
    [
      'a relationship has its own where, order_by, limit, offset and alias',
      ADMIN,
      'select',
      {
        table: 'author',
        columns: [
          {
            name: 'articles',
            alias: 'last',
            columns: ['id'],
            where: { id: { $gt: 0 } },
            order_by: ['-id'],
            limit: 1,
            offset: 1,
          },
        ],
        order_by: ['id'],
      },
      [{ last: ids(1) }, { last: ids(3) }],
    ],
    [
      'an object relationship without a row is null',
      ADMIN,
      'select',
      { table: 'article', columns: [{ name: 'category', columns: ['name'] }], where: { id: 2 } },
      [{ category: null }],
    ],
    ['no rows is an empty array', ADMIN, 'select', { table: 'author', columns: ['id'], where: { id: 9 } }, []],
    [
      'order by descends with - and goes through object relationships',
      ADMIN,
      'select',
      { table: 'article', columns: ['id'], order_by: ['-author.name', '+id'] },
      ids(3, 4, 1, 2),
    ],
    [
      'order by takes objects with type or order, and nulls',
      ADMIN,
      'select',
      {
        table: 'article',
        columns: ['id'],
        order_by: [
          { column: 'category_id', order: 'asc', nulls: 'first' },
          { column: ['id'], type: 'desc' },
        ],
      },
      ids(2, 4, 3, 1),
    ],
    [
      'a condition on a relationship asks for some row',
      ADMIN,
      'select',
      { table: 'author', columns: ['id'], where: { articles: { title: 'three' } } },
      ids(2),
    ],
    ['several keys must all hold', ADMIN, 'select', titles({ published: true, author_id: 2 }), ids(3)],
    [
      '$or and $not combine',
      ADMIN,
      'select',
      titles({ $or: [{ id: 1 }, { $not: { published: true } }] }),
      ids(1, 2, 4),
    ],
    ['an empty $or is false, an empty $and true', ADMIN, 'select', titles({ $or: [] }), []],
    ['null means is null', ADMIN, 'select', titles({ category_id: null }), ids(2)],
    ['$ne null means is not null', ADMIN, 'select', titles({ category_id: { $ne: null } }), ids(1, 3, 4)],
    ['$ne with a value leaves out nulls', ADMIN, 'select', titles({ category_id: { $neq: 5 } }), ids(1, 3, 4)],
    ['$in may hold null', ADMIN, 'select', titles({ category_id: { $in: [7, null] } }), ids(2)],
    ['an empty $in is false', ADMIN, 'select', titles({ id: { $in: [] } }), []],
    ['an empty $nin is true', ADMIN, 'select', titles({ id: { $nin: [] } }), ids(1, 2, 3, 4)],
    [
      'other comparisons with null give nothing, negated too',
      ADMIN,
      'select',
      titles({ $not: { id: { $gt: null } } }),
      [],
    ],
    [
      'every operator is also written with _',
      ADMIN,
      'select',
      titles({ _and: [{ id: { _gte: 2 } }, { title: { _like: 't%' } }] }),
      ids(2, 3),
    ],
    ['columns compare with columns', ADMIN, 'select', titles({ id: { $ceq: 'author_id' } }), ids(1)],
    [
      'a role cannot tell a hidden column from none',
      USER,
      'select',
      { table: 'author', columns: ['email'] },
      refused(
        'permission-denied',
        'role "user" does not have permission to select column "email"',
        '$.args.columns[0]',
      ),
    ],
    [
      'nor in a condition',
      USER,
      'select',
      { table: 'author', columns: ['id'], where: { $or: [{ email: 'a@x' }] } },
      refused(
        'permission-denied',
        'role "user" does not have permission to select column "email"',
        '$.args.where.$or[0].email',
      ),
    ],
    [
      'nor in an order',
      USER,
      'select',
      { table: 'author', columns: ['id'], order_by: ['+email'] },
      refused(
        'permission-denied',
        'role "user" does not have permission to select column "email"',
        '$.args.order_by[0]',
      ),
    ],
    [
      'a relationship to a table without permission is refused when named',
      USER,
      'select',
      { table: 'article', columns: [{ name: 'category', columns: ['id'] }] },
      refused('permission-denied', /read relationship "category"/),
    ],
    [
      'a condition through a relationship sees only rows that the role sees',
      USER,
      'select',
      { table: 'author', columns: ['id'], where: { articles: { title: 'four' } } },
      [],
    ],
    [
      'without a permission nothing',
      GUEST,
      'select',
      { table: 'author', columns: ['id'] },
      refused('permission-denied', 'select on "author" for role "guest" is not allowed. ', '$.args.table'),
    ],
    [
      'an unknown table looks the same to a role',
      GUEST,
      'select',
      { table: 'nope', columns: ['id'] },
      refused('permission-denied', 'select on "nope" for role "guest" is not allowed. '),
    ],
    [
      'and does not exist for the admin',
      ADMIN,
      'select',
      { table: 'nope', columns: ['id'] },
      refused('not-exists', 'table "nope" does not exist', '$.args.table'),
    ],
    [
      'an unknown operator is named',
      ADMIN,
      'select',
      titles({ id: { $foo: 1 } }),
      refused('unexpected-payload', 'Unknown operator : $foo'),
    ],
    [
      'a text operator wants text',
      ADMIN,
      'select',
      titles({ id: { $like: '1' } }),
      refused('unexpected-payload', /works only on columns of type "varchar"\/"text"/),
    ],
    [
      'an unknown key is refused',
      ADMIN,
      'select',
      { table: 'author', columns: [], limt: 1 },
      refused('unexpected-payload', 'unexpected key "limt"', '$.args.limt'),
    ],
    [
      'a missing key is named',
      ADMIN,
      'select',
      { columns: [] },
      refused('parse-failed', "the key 'table' was not present"),
    ],
    [
      'a wrong value has its path',
      ADMIN,
      'select',
      titles({ id: { $in: [1, true] } }),
      refused('parse-failed', /expecting a whole number/, '$.args.where.id.$in[1]'),
    ],
    [
      'text that PostgreSQL cannot read has its path too',
      ADMIN,
      'select',
      titles({ id: { $gt: 'x' } }),
      refused('postgres-error', /invalid input syntax/, '$.args.where.id.$gt'),
    ],
    [
      '$exists is for permissions',
      USER,
      'select',
      titles({ $exists: { _table: 'author', _where: {} } }),
      refused('unexpected-payload', /in permissions only/),
    ],
    [
      'an object relationship takes no limit',
      ADMIN,
      'select',
      { table: 'article', columns: [{ name: 'author', columns: ['id'], limit: 1 }] },
      refused('unexpected-payload', /object relationship/),
    ],
    [
      'an order needs a direction that exists',
      ADMIN,
      'select',
      { table: 'article', columns: ['id'], order_by: [] },
      refused('unexpected-payload', 'order_by array should not be empty'),
    ],
    ['count', ADMIN, 'count', { table: 'article' }, { count: 4 }],
    ['count where', USER, 'count', { table: 'article', where: { author_id: 1 } }, { count: 2 }],
    ['count of distinct values', ADMIN, 'count', { table: 'article', distinct: ['author_id'] }, { count: 2 }],
    [
      'distinct columns must be selectable',
      USER,
      'count',
      { table: 'author', distinct: ['email'] },
      refused('permission-denied', /select column "email"/),
    ],
    [
      'count needs select',
      GUEST,
      'count',
      { table: 'author' },
      refused('permission-denied', /"count" is only allowed if/),
    ],
  ])
})

t.test('writing', async (t) => {
  const server = await library(t)
  const article = (...objects: object[]) => ({ table: 'article', objects })

  await check(t, server, [
    [
      'insert answers with the rows asked for',
      ADMIN,
      'insert',
      {
        ...article({ title: 'five', author_id: 1 }, { title: 'six', author_id: 2, published: true }),
        returning: ['id', 'published'],
      },
      {
        affected_rows: 2,
        returning: [
          { id: 5, published: false },
          { id: 6, published: true },
        ],
      },
    ],
    [
      'a missing key takes the default where others have it',
      ADMIN,
      'insert',
      { ...article({ author_id: 1 }, { author_id: 1, published: true }), returning: ['published'] },
      { affected_rows: 2, returning: [{ published: false }, { published: true }] },
    ],
    [
      'a role inserts what its check allows',
      USER,
      'insert',
      article({ title: 'mine', author_id: 1 }),
      { affected_rows: 1 },
    ],
    [
      'and nothing else',
      USER,
      'insert',
      article({ author_id: 1 }, { author_id: 2 }),
      refused('postgres-error', /^the row would not pass the insert check of role "\w+" on "\w+"$/),
    ],
    ['the failed insert left nothing', ADMIN, 'count', { table: 'article' }, { count: 9 }],
    [
      'without insert permission',
      GUEST,
      'insert',
      article({ author_id: 1 }),
      refused('permission-denied', 'insert on "article" for role "guest" is not allowed. '),
    ],
    [
      'no objects',
      ADMIN,
      'insert',
      article(),
      refused('unexpected-payload', 'objects should not be empty', '$.args.objects'),
    ],
    [
      'objects must be objects',
      ADMIN,
      'insert',
      { table: 'article', objects: [1] },
      refused('parse-failed', /object/, '$.args.objects[0]'),
    ],
    ['an unknown column', ADMIN, 'insert', article({ nope: 1 }), refused('not-exists', 'column "nope" does not exist')],
    [
      'the rows of a relationship are data',
      ADMIN,
      'insert',
      article({ author: {} }),
      refused('unexpected-payload', 'expecting an object with the key data', '$.args.objects[0].author'),
    ],
    [
      'a wrong kind of value has the path of its row',
      ADMIN,
      'insert',
      article({ author_id: 1 }, { author_id: 1, title: 5 }),
      refused('parse-failed', /type text/, '$.args.objects[1].title'),
    ],
    [
      'uniqueness',
      ADMIN,
      'insert',
      { table: 'author', objects: [{ name: 'x', auth_id: 1 }] },
      refused(
        'postgres-error',
        'Uniqueness violation. duplicate key value violates unique constraint "author_auth_id_key"',
      ),
    ],
    [
      'not null',
      ADMIN,
      'insert',
      { table: 'author', objects: [{ name: null }] },
      refused('postgres-error', /^Not-NULL violation\. null value in column "name"/),
    ],
    [
      'foreign key',
      ADMIN,
      'insert',
      article({ author_id: 99 }),
      refused('postgres-error', /^Foreign key violation\. /),
    ],
    [
      'ignore leaves a conflicting row out',
      ADMIN,
      'insert',
      {
        table: 'author',
        objects: [
          { name: 'x', auth_id: 1 },
          { name: 'Cy', auth_id: 3 },
        ],
        on_conflict: { action: 'ignore' },
        returning: ['name'],
      },
      { affected_rows: 1, returning: [{ name: 'Cy' }] },
    ],
    [
      'update changes the columns given, and only those',
      ADMIN,
      'insert',
      {
        table: 'author',
        objects: [{ name: 'Ada L.', auth_id: 1 }],
        on_conflict: { action: 'update', constraint_on: 'auth_id' },
        returning: ['id', 'name', 'email'],
      },
      { affected_rows: 1, returning: [{ id: 1, name: 'Ada L.', email: 'a@x' }] },
    ],
    [
      'an upsert of rows with different keys resets nothing',
      ADMIN,
      'insert',
      {
        table: 'author',
        objects: [
          { name: 'Ada', auth_id: 1 },
          { name: 'Ben', auth_id: 2, email: 'b@x' },
        ],
        on_conflict: { action: 'update', constraint: 'author_auth_id_key' },
        returning: ['name', 'email'],
      },
      {
        affected_rows: 2,
        returning: [
          { name: 'Ada', email: 'a@x' },
          { name: 'Ben', email: 'b@x' },
        ],
      },
    ],
    [
      'update needs a target',
      ADMIN,
      'insert',
      { table: 'author', objects: [{ name: 'x' }], on_conflict: { action: 'update' } },
      refused('unexpected-payload', "Expecting 'constraint' or 'constraint_on' when the 'action' is 'update'"),
    ],
    [
      'one target',
      ADMIN,
      'insert',
      {
        table: 'author',
        objects: [{ name: 'x' }],
        on_conflict: { action: 'ignore', constraint: 'a', constraint_on: 'b' },
      },
      refused('unexpected-payload', "'constraint' and 'constraint_on' cannot be set at a time"),
    ],
    [
      'a role that may insert and update may upsert',
      USER,
      'insert',
      { ...article({ id: 1, author_id: 1 }), on_conflict: { action: 'ignore' } },
      { affected_rows: 0 },
    ],

    [
      '$set, $inc, $mul and $default',
      ADMIN,
      'update',
      {
        table: 'article',
        where: { id: 3 },
        $set: { title: null },
        $inc: { author_id: -1 },
        $default: ['published'],
        returning: ['title', 'author_id', 'published'],
      },
      { affected_rows: 1, returning: [{ title: null, author_id: 1, published: false }] },
    ],
    [
      '$mul gives the product',
      ADMIN,
      'update',
      { table: 'author', where: { id: 2 }, $mul: { auth_id: 10 }, returning: ['auth_id'] },
      { affected_rows: 1, returning: [{ auth_id: 20 }] },
    ],
    [
      'nothing matches',
      ADMIN,
      'update',
      { table: 'author', where: { id: 99 }, $set: { name: 'x' }, returning: ['id'] },
      { affected_rows: 0, returning: [] },
    ],
    [
      'nothing to do',
      ADMIN,
      'update',
      { table: 'author', where: {} },
      refused('unexpected-payload', 'atleast one of $set, $inc, $mul has to be present'),
    ],
    [
      'a column twice',
      ADMIN,
      'update',
      { table: 'author', where: {}, $inc: { id: 1 }, $mul: { id: 1 } },
      refused('unexpected-payload', 'multiple assignments to same column "id"'),
    ],
    [
      'where is required',
      ADMIN,
      'update',
      { table: 'author', $set: { name: 'x' } },
      refused('parse-failed', "the key 'where' was not present"),
    ],
    [
      'a null where is not every row',
      ADMIN,
      'delete',
      { table: 'author', where: null },
      refused('parse-failed', /condition/),
    ],
    [
      'a role updates its rows',
      USER,
      'update',
      { table: 'author', where: {}, $set: { name: 'A.' }, returning: ['id', 'name'] },
      { affected_rows: 1, returning: [{ id: 1, name: 'A.' }] },
    ],
    [
      'and its columns',
      USER,
      'update',
      { table: 'author', where: {}, $set: { email: 'x' } },
      refused('permission-denied', 'role "user" does not have permission to update column "email"', '$.args.$set'),
    ],
    [
      'a check holds after the update',
      USER,
      'update',
      { table: 'article', where: { id: 1 }, $set: { title: 'bad' } },
      refused('postgres-error', /would not pass the update check/),
    ],
    [
      'a role deletes its rows',
      USER,
      'delete',
      { table: 'article', where: { id: { $in: [2, 4] } }, returning: ['id'] },
      { affected_rows: 1, returning: [{ id: 2 }] },
    ],
    [
      'a referenced row stays',
      ADMIN,
      'delete',
      { table: 'author', where: {} },
      refused('postgres-error', /^Foreign key violation\. /),
    ],
    [
      'without delete permission',
      USER,
      'delete',
      { table: 'author', where: {} },
      refused('permission-denied', 'delete on "author" for role "user" is not allowed. '),
    ],

    [
      'a bulk answers in order',
      ADMIN,
      'bulk',
      [
        { type: 'count', args: { table: 'category' } },
        { type: 'bulk', args: [] },
      ],
      [{ count: 1 }, []],
    ],
    [
      'all of a bulk happens, or none; the path says where',
      ADMIN,
      'bulk',
      [
        { type: 'insert', args: { table: 'category', objects: [{ id: 2 }] } },
        { type: 'insert', args: { table: 'category', objects: [{ id: 2 }] } },
      ],
      refused('postgres-error', /Uniqueness/, '$.args[1].args'),
    ],
    ['nothing was inserted', ADMIN, 'count', { table: 'category' }, { count: 1 }],
    [
      'each member of a bulk is authorised alone',
      USER,
      'bulk',
      [
        { type: 'count', args: { table: 'article' } },
        { type: 'select', args: { table: 'category', columns: ['id'] } },
      ],
      refused('permission-denied', /select on "category"/, '$.args[1].args.table'),
    ],
  ])
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

t.test('numbers and text keep what they are', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: 'create table v (id int primary key, i int8, n numeric, j json, b jsonb, ts timestamptz, s text)',
  })
  await server.must('track_table', 'v')
  const insert = (values: string) =>
    server.raw(`{"type":"insert","args":{"table":"v","objects":[${values}],"returning":["i","n","j","ts"]}}`)

  const row =
    '{"id":1,"i":9223372036854775807,"n":1.10000000000000000000000001,"j":{"b" : 1,"a":[1.0]},"ts":"2024-01-01T00:00:00.123456Z"}'
  t.equal(
    (await insert(row)).text,
    '{"affected_rows":1,"returning":[{"i":9223372036854775807,"n":1.10000000000000000000000001,"j":{"b" : 1,"a":[1.0]},"ts":"2024-01-01T00:00:00.123456+00:00"}]}',
  )
  const found = await server.raw(
    '{"type":"count","args":{"table":"v","where":{"i":9223372036854775807,"n":{"$in":[1.10000000000000000000000001]}}}}',
  )
  t.same(found.body, { count: 1 })
  const updated = await server.raw(
    '{"type":"update","args":{"table":"v","where":{"id":1},"$set":{"n":0.30000000000000000001,"b":{"x":12345678901234567890}},"returning":["n","b"]}}',
  )
  t.equal(
    updated.text,
    '{"affected_rows":1,"returning":[{"n":0.30000000000000000001,"b":{"x": 12345678901234567890}}]}',
  )

  for (const [bad, path] of [
    ['{"id":2,"s":"\\ud800"}', '$.args.objects[0].s'],
    ['{"id":2,"s":"\\u0000"}', '$.args.objects[0].s'],
    ['{"id":2,"id":3}', '$.args.objects[0].id'],
    ['{"id":2.5}', '$.args.objects[0].id'],
    ['{"id":2,"i":9223372036854775808}', '$.args'],
  ]) {
    t.match(await insert(bad as string), { status: 400, body: { path } }, String(bad))
  }
  t.match(await server.raw('{"type":"select"'), { status: 400, body: { code: 'invalid-json' } })
  t.match(await server.raw('[]'), { status: 400, body: { code: 'parse-failed', path: '$' } })
  t.match(await server.raw('{"type":"nope","args":{}}'), {
    status: 400,
    body: { code: 'parse-failed', path: '$.type' },
  })
  t.same(await server.must('count', { table: 'v' }), { count: 1 })
})

t.test('large answers are streamed, in three forms', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table big (id int primary key, t text, j json);
      insert into big select n, case when n % 3 = 0 then null when n % 3 = 1 then '' else 'a "b", c' end, E'{"x":\\n1}' from generate_series(1, 5000) n`,
  })
  await server.must('track_table', 'big')
  const ask = (accept: string, more = '') =>
    server.raw(
      `{"type":"select","args":{"table":"big","columns":["id","t","j"],"order_by":["id"]${more}}}`,
      {},
      { accept },
    )

  const json = await ask('application/json')
  t.equal(json.body.length, 5000)
  t.equal(json.headers.get('content-length'), null)
  t.ok((await ask('application/json', ',"limit":1000')).headers.get('content-length'))
  const lines = (await ask('application/x-ndjson')).text.trimEnd().split('\n')
  t.equal(lines.length, 5000)
  t.same(
    lines.map((line) => JSON.parse(line)),
    json.body,
  )
  const csv = (await ask('text/csv', ',"limit":3')).text
  t.equal(csv, 'id,t,j\r\n1,"","{""x"":\n1}"\r\n2,"a ""b"", c","{""x"":\n1}"\r\n3,,"{""x"":\n1}"\r\n')
  const count = await server.raw('{"type":"count","args":{"table":"big"}}', {}, { accept: 'text/csv' })
  t.match(count, { status: 406, body: { code: 'not-acceptable' } })
})
