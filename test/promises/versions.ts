import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, is, like, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What versions of rows promise: `$version`, `expect`, ETag and If-Match. */
const PROMISES = {
  'read.etag': 'a select by primary key has the version of the row as ETag',
  'read.etag-relationship': 'the ETag of a select with relationships is the version of its own row',
  'read.no-etag': 'other selects, forms and rows have no ETag, and so have tables without versions',
  'read.version': '$version is a value in lists, relationships and returning',
  'read.wildcard': 'wildcards do not contain $version, and conditions and orders cannot use it',
  'read.any-text': 'any text can be a version: its ETag is encoded, and leads to the row again',
  'read.functions': 'rows of functions have a column as version, and not xmin',
  'read.inherited': 'a key that rows of inheriting tables share has no ETag',
  'read.long': 'a version of more than about 1,000 characters has no ETag',
  'write.must-not-overwrite': 'an update or delete with an old version changes nothing, and fails with 412',
  'write.expect': 'an update or delete with the version of the row succeeds',
  'write.missing': 'a row that does not exist is no error: no row is affected',
  'write.hidden': 'a row that the role may not select is like one that does not exist',
  'write.seen-only': 'a row that the role may select and not change is not affected, or has another version',
  'write.must-equal-key': 'the where of a write with a version must equal the primary key and no more',
  'write.form': 'expect is an object with the version as text',
  'write.quoted': 'a version is only a value, whatever it contains',
  'write.bulk': 'expect works in a bulk, which is rolled back as a whole',
  'write.related': 'an update of related rows needs the version, too',
  'write.dry-run': 'a dry run says whether the version is the right one',
  'match.version': 'If-Match with an ETag is the version of an update or delete',
  'match.any': 'If-Match: * requires that the row exists, on all tables',
  'match.form': 'If-Match is one strong ETag or *',
  'match.both': 'expect and If-Match exclude each other',
  'match.others': 'If-Match with other operations, in a bulk and in GraphQL is refused, and nothing happens',
  'match.key': 'an Idempotency-Key belongs to the version, and a refusal is not kept',
  'role.no-column': 'a role that may not select the column has no versions',
  'table.none': 'a table without a version takes no expect',
  'xmin.changes': 'xmin changes with each update',
  'xmin.partitions': 'xmin works on partitions, in inserts and upserts too',
  'set.column': 'the version is a column that is not null, or xmin, of a table with a primary key',
  'set.admin': 'only admin sets it',
  'set.metadata': 'the version is part of the metadata, and of what changes in it',
  'set.used': 'a version that a template expects stays, and no relationship has its name',
  'set.kept': 'run_sql does not drop the column, unless it cascades; then the table has no versions',
} as const

const SQL = `
create table team (id int primary key, name text);
insert into team values (1, 'a'), (2, 'b');
create table note (id int primary key, team_id int references team, text text, secret text, rev int not null default 1);
create function bump() returns trigger language plpgsql as $$ begin new.rev := old.rev + 1; return new; end $$;
create trigger bump before update on note for each row execute function bump();
create table counter (id int primary key, n int not null);
create table part (id int, kind int, text text, primary key (id, kind)) partition by list (kind);
create table part_1 (extra int, id int not null, kind int not null, text text);
alter table part_1 drop column extra;
alter table part attach partition part_1 for values in (1);
create table part_2 partition of part for values in (2);
create table plain (id int primary key, text text);
create table odd (v text not null, id int primary key);
create view seen as select 1 as id, 2 as rev; create table keyless (a int not null);
create table more (id int primary key, a point not null, b int, c int not null);
create table taken (id int primary key, "$version" int);
create table base (id int primary key, text text); create table heir (primary key (id)) inherits (base);
insert into base values (1, 'a'); insert into heir values (1, 'b'), (2, 'c');
create function notes() returns setof note language sql stable as 'select * from note';
create function counters() returns setof counter language sql stable as 'select * from counter';
insert into counter values (1, 0);
insert into part values (1, 1, 'a'), (1, 2, 'b');
insert into plain values (1, 'a');`

const USER: As = { role: 'user', variables: { 'x-service-team-id': '1' } }
/** May not select the column of the version. */
const BLIND: As = { ...USER, role: 'blind' }

const FRESH: Step = query(
  'bulk',
  [
    { type: 'delete', args: { table: 'note', where: {} } },
    {
      type: 'insert',
      args: {
        table: 'note',
        objects: [
          { id: 1, team_id: 1, text: 'one', secret: 's' },
          { id: 2, team_id: 2, text: 'two', secret: 's' },
          { id: 3, team_id: 1, text: 'three', secret: 's' },
        ],
      },
    },
  ],
  { status: 200 },
)
const one = (id: number, table = 'note') => ({ table, columns: ['id', 'text'], where: { id } })
const etag = (value: string | null, expected: Expected = { status: 200 }): Expected => ({
  ...expected,
  headers: { etag: value },
})
const setText = (id: number) => ({ table: 'note', where: { id }, $set: { text: 'new' } })
const update = (id: number, version: unknown, expected: Expected, as?: As): Step =>
  query('update', { ...setText(id), expect: { version } }, expected, as)
const remove = (id: number, version: unknown, expected: Expected, as?: As): Step =>
  query('delete', { table: 'note', where: { id }, expect: { version } }, expected, as)
const match = (header: string, type: string, args: unknown, expected: Expected, as?: As): Step => ({
  ...query(type, args, expected, as),
  headers: { 'if-match': header },
})
const affected = (affected_rows: number, returning?: unknown): Expected =>
  exactly({ affected_rows, ...(returning ? { returning } : {}) })
const failed = (path: string): Expected => ({
  status: 412,
  body: { path, error: 'the row does not have the expected version', code: 'precondition-failed' },
})
const NO_VERSION = (table: string) => `the rows of "${table}" have no versions`
const OLD = failed('$.args.expect.version')
const OLD_MATCH = failed('$.headers.If-Match')
const noteIs = (id: number, textIs: string): Step =>
  query('select', { table: 'note', columns: ['text'], where: { id } }, exactly([{ text: textIs }]))

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'read.etag': [
    FRESH,
    ...[undefined, USER, undefined, USER, undefined, USER, undefined, USER].map((as) =>
      query('select', one(1), etag('"1"', text('[{"id":1,"text":"one"}]')), as),
    ),
    query('update', setText(1), affected(1)),
    query('select', one(1), etag('"2"')),
    query('select', { ...one(1), columns: [] }, etag('"2"', text('[{}]'))),
  ],
  'read.etag-relationship': [undefined, USER].map((as) =>
    query(
      'select',
      { ...one(1), columns: ['id', { name: 'team', columns: ['name'] }] },
      etag('"2"', exactly([{ id: 1, team: { name: 'a' } }])),
      as,
    ),
  ),
  'read.no-etag': [
    ...[
      { ...one(1), where: { id: 1, text: 'new' } },
      { ...one(1), where: { id: { $in: [1] } } },
      { ...one(1), where: {} },
      { ...one(1), offset: 1 },
      { ...one(9) },
      { ...one(1, 'plain') },
      { table: 'note', columns: [{ count: '*' }], where: { id: 1 } },
    ].map((args) => query('select', args, etag(null))),
    ...(
      [
        ['application/x-ndjson', '{"id":1,"text":"new"}\n'],
        ['text/csv', 'id,text\r\n1,new\r\n'],
      ] as const
    ).map(([accept, exact]): Step => ({ ...query('select', one(1), etag(null, text(exact))), headers: { accept } })),
    query('bulk', [{ type: 'select', args: one(1) }], etag(null, exactly([[{ id: 1, text: 'new' }]]))),
    query('select', one(2), etag(null, text('[]')), USER),
  ],
  'read.version': [
    FRESH,
    query(
      'select',
      { table: 'note', columns: ['id', '$version'], order_by: 'id' },
      text('[{"id":1,"$version":"1"},{"id":3,"$version":"1"}]'),
      USER,
    ),
    query(
      'select',
      { table: 'team', columns: [{ name: 'notes', columns: ['$version'] }], where: { id: 2 } },
      exactly([{ notes: [{ $version: '1' }] }]),
    ),
    query(
      'insert',
      {
        table: 'note',
        objects: [{ id: 4 }, { id: 5, rev: 8 }],
        returning: ['$version', { name: 'team', columns: ['name'] }],
      },
      affected(2, [
        { $version: '1', team: null },
        { $version: '8', team: null },
      ]),
    ),
    query('update', { ...setText(4), returning: ['$version'] }, affected(1, [{ $version: '2' }])),
    query(
      'delete',
      { table: 'note', where: { id: { $gt: 3 } }, returning: ['id', '$version'] },
      { status: 200, like: { affected_rows: 2 } },
    ),
  ],
  'read.wildcard': [
    query(
      'select',
      { table: 'note', columns: ['*'], where: { id: 1 } },
      exactly([{ id: 1, team_id: 1, text: 'one', secret: 's', rev: 1 }]),
    ),
    ...[{ where: { $version: '1' } }, { order_by: '$version' }, { distinct_on: ['$version'] }].map((more) =>
      query('select', { table: 'note', columns: ['id'], ...more }, { status: 400 }),
    ),
  ],
  'read.any-text': async (t, server) => {
    for (const [id, v] of ['', '*', 'a b', '"', '50%', 'é\n😀', '\\', 'W/"x"', "'; --"].entries()) {
      await server.must('insert', { table: 'odd', objects: [{ id, v }] })
      const { body, headers } = await server.query('select', { table: 'odd', columns: ['v'], where: { id } })
      t.strictSame(body, [{ v }])
      const tag = headers.get('etag') ?? 'none'
      t.match(tag, /^"[!#-~]*"$/)
      const change = JSON.stringify({ type: 'update', args: { table: 'odd', where: { id }, $set: { v: 'next' } } })
      t.equal((await server.raw(change, {}, { 'if-match': '"other"' })).status, 412, v)
      t.strictSame((await server.raw(change, {}, { 'if-match': tag })).body, { affected_rows: 1 }, v)
    }
  },
  'read.functions': [
    query(
      'call',
      { function: 'notes', columns: ['id', '$version'], where: { id: 1 } },
      exactly([{ id: 1, $version: '1' }]),
    ),
    query(
      'call',
      { function: 'counters', columns: ['$version'] },
      refused('unexpected-payload', /./, '$.args.columns'),
    ),
  ],
  'read.inherited': [
    query(
      'select',
      { ...one(1, 'base'), order_by: 'text' },
      etag(
        null,
        exactly([
          { id: 1, text: 'a' },
          { id: 1, text: 'b' },
        ]),
      ),
    ),
    query('select', one(2, 'base'), { status: 200, headers: { etag: /^"\d+"$/ } }),
  ],
  'read.long': [
    query(
      'insert',
      {
        table: 'odd',
        objects: [
          { id: 98, v: 'x'.repeat(900) },
          { id: 99, v: 'x'.repeat(5000) },
        ],
      },
      affected(2),
    ),
    query('select', { table: 'odd', columns: ['id'], where: { id: 98 } }, etag(`"${'x'.repeat(900)}"`)),
    query('select', { table: 'odd', columns: ['id'], where: { id: 99 } }, etag(null)),
  ],
  'write.must-not-overwrite': [
    FRESH,
    ...[undefined, USER].flatMap((as) => [update(1, '7', OLD, as), remove(1, '7', OLD, as), update(1, '01', OLD, as)]),
    noteIs(1, 'one'),
  ],
  'write.expect': [
    query(
      'update',
      { ...setText(1), expect: { version: '1' }, returning: ['text', '$version'] },
      affected(1, [{ text: 'new', $version: '2' }]),
      USER,
    ),
    update(1, '1', OLD),
    remove(1, '2', affected(1), USER),
  ],
  'write.missing': [update(1, '2', affected(0), USER), remove(99, '1', affected(0))],
  'write.hidden': [
    ...['1', '7'].flatMap((version) => [update(2, version, affected(0), USER), remove(2, version, affected(0), USER)]),
    ...[2, 99].flatMap((id) => [
      match('"1"', 'update', setText(id), affected(0), USER),
      match('"7"', 'update', setText(id), affected(0), USER),
      match('*', 'update', setText(id), OLD_MATCH, USER),
      match('"1"', 'delete', { table: 'note', where: { id } }, affected(0), USER),
      match('"7"', 'delete', { table: 'note', where: { id } }, affected(0), USER),
      match('*', 'delete', { table: 'note', where: { id } }, OLD_MATCH, USER),
    ]),
    noteIs(2, 'two'),
  ],
  'write.seen-only': [update(3, '1', affected(0), USER), update(3, '7', OLD, USER)],
  'write.must-equal-key': [
    FRESH,
    ...[
      {},
      { id: 1, text: 'one' },
      { id: { $gte: 1 } },
      { $or: [{ id: 1 }] },
      { $not: { id: 1 } },
      { text: 'one' },
    ].flatMap((where) => [
      query(
        'update',
        { ...setText(1), where, expect: { version: '1' } },
        refused('unexpected-payload', /./, '$.args.where'),
      ),
      match('*', 'update', { ...setText(1), where }, refused('unexpected-payload', /./, '$.args.where')),
    ]),
    query(
      'delete',
      { table: 'note', where: {}, expect: { version: '1' } },
      refused('unexpected-payload', /./, '$.args.where'),
    ),
    noteIs(1, 'one'),
  ],
  'write.form': (
    [
      [null, 'parse-failed', ''],
      ['a', 'parse-failed', ''],
      [{}, 'parse-failed', ''],
      [{ version: null }, 'parse-failed', '.version'],
      [{ version: 1 }, 'parse-failed', '.version'],
      [{ version: ['1'] }, 'parse-failed', '.version'],
      [{ version: '1', rows: 1 }, 'unexpected-payload', '.rows'],
    ] as const
  ).map(([expect, code, path]) =>
    query('update', { ...setText(1), expect }, refused(code, /./, `$.args.expect${path}`)),
  ),
  'write.quoted': [update(1, `1' or '1'='1`, OLD), noteIs(1, 'one')],
  'write.bulk': [
    query(
      'bulk',
      [
        { type: 'update', args: { ...setText(1), expect: { version: '1' } } },
        { type: 'update', args: { ...setText(1), expect: { version: '2' }, $set: { text: 'b' } } },
        { type: 'delete', args: { table: 'note', where: { id: 3 }, expect: { version: '1' } } },
      ],
      exactly([{ affected_rows: 1 }, { affected_rows: 1 }, { affected_rows: 1 }]),
    ),
    query(
      'bulk',
      [
        { type: 'update', args: { ...setText(1), expect: { version: '3' } } },
        { type: 'update', args: { ...setText(1), expect: { version: '2' } } },
      ],
      failed('$.args[1].args.expect.version'),
    ),
    noteIs(1, 'b'),
  ],
  'write.related': async (t, server) => {
    const where = { id: 1 }
    const [row] = await server.must('select', { table: 'team', columns: ['$version'], where })
    const change = (version: string) => ({
      table: 'team',
      where,
      expect: { version },
      $set: { notes: { update: { where: {}, $set: { text: 'of a' } } } },
    })
    t.match(await server.query('update', change('1')), { status: 412, body: { code: 'precondition-failed' } })
    t.strictSame(await server.must('count', { table: 'note', where: { text: 'of a' } }), { count: 0 })
    t.strictSame(await server.must('update', change(row.$version)), { affected_rows: 2 })
  },
  'write.dry-run': [
    FRESH,
    ...(
      [
        ['1', affected(1)],
        ['7', OLD],
      ] as const
    ).map(([version, expected]): Step => ({
      path: '/v1/query',
      method: 'POST',
      body: JSON.stringify({ type: 'update', args: { ...setText(1), expect: { version } }, dry_run: true }),
      expected,
    })),
    noteIs(1, 'one'),
  ],
  'match.version': [
    match('"7"', 'update', setText(1), OLD_MATCH, USER),
    match('"1"', 'update', setText(1), affected(1), USER),
    match('"1"', 'delete', { table: 'note', where: { id: 1 } }, OLD_MATCH),
    match('"2"', 'delete', { table: 'note', where: { id: 1 } }, affected(1)),
  ],
  'match.any': [
    FRESH,
    match('*', 'update', setText(1), affected(1), USER),
    match('*', 'update', setText(99), OLD_MATCH),
    match('*', 'update', { ...setText(1), table: 'plain' }, affected(1)),
    match('*', 'delete', { table: 'plain', where: { id: 9 } }, OLD_MATCH),
  ],
  'match.form': [
    ...['1', 'W/"2"', '"1", "2"', '"2', '"%zz"', '"%00"', '""2'].map((header) =>
      match(header, 'update', setText(1), refused('parse-failed', /./, '$.headers.If-Match')),
    ),
    noteIs(1, 'new'),
  ],
  'match.both': [
    match(
      '"2"',
      'update',
      { ...setText(1), expect: { version: '2' } },
      refused('unexpected-payload', /./, '$.args.expect'),
    ),
  ],
  'match.others': [
    ...(
      [
        ['select', one(1)],
        ['count', { table: 'note' }],
        ['insert', { table: 'plain', objects: [{ id: 5 }] }],
        ['bulk', [{ type: 'update', args: setText(1) }]],
        ['run_sql', { sql: 'delete from note' }],
        ['describe', {}],
      ] as const
    ).map(([type, args]) => match('"1"', type, args, refused('not-supported', /./, '$.headers.If-Match'))),
    ...['/v1/graphql', '/v1alpha1/graphql'].map((path): Step => ({
      path,
      method: 'POST',
      body: JSON.stringify({ query: 'mutation { delete_note(where: {}) { affected_rows } }' }),
      headers: { 'if-match': '"1"' },
      expected: { status: 400, like: { errors: [{ message: /If-Match/ }] } },
    })),
    query('count', { table: 'note' }, exactly({ count: 3 })),
    query('count', { table: 'plain' }, exactly({ count: 1 })),
  ],
  'match.key': async (t, server) => {
    await server.must('update', setText(3))
    const keyed = async (key: string, tag: string) => {
      const headers = { 'idempotency-key': key, 'if-match': tag }
      const { status, headers: given } = await server.raw(
        JSON.stringify({ type: 'update', args: setText(3) }),
        {},
        headers,
      )
      return [status, given.get('idempotency-replayed')]
    }
    t.strictSame(await keyed('a', '"7"'), [412, null])
    t.strictSame(await keyed('b', '"2"'), [200, null])
    t.strictSame(await keyed('b', '"2"'), [200, 'true'])
    t.strictSame(await keyed('b', '"3"'), [409, null], 'another version is another request')
    t.strictSame(await keyed('a', '"3"'), [200, null], 'a refusal is not kept')
  },
  'role.no-column': [
    FRESH,
    query('select', one(1), etag(null, exactly([{ id: 1, text: 'one' }])), BLIND),
    query(
      'select',
      { ...one(1), columns: ['$version'] },
      refused('permission-denied', /./, '$.args.columns[0]'),
      BLIND,
    ),
    update(1, '1', refused('unexpected-payload', NO_VERSION('note'), '$.args.expect'), BLIND),
    match('"1"', 'update', setText(1), refused('unexpected-payload', /./, '$.headers.If-Match'), BLIND),
    query('describe', {}, like({ tables: [{ table: { name: 'note' }, version: undefined }, {}] }), BLIND),
    query('describe', {}, like({ tables: [{ table: { name: 'note' }, version: 'rev' }, {}] }), USER),
  ],
  'table.none': [
    query(
      'update',
      { ...setText(1), table: 'plain', expect: { version: '1' } },
      refused('unexpected-payload', NO_VERSION('plain'), '$.args.expect'),
    ),
    match('"1"', 'update', { ...setText(1), table: 'plain' }, refused('unexpected-payload', /./, '$.headers.If-Match')),
    query('select', { ...one(1, 'plain'), columns: ['$version'] }, refused('not-exists', /./, '$.args.columns[0]')),
  ],
  'xmin.changes': async (t, server) => {
    const read = async () => {
      const { body, headers } = await server.query('select', {
        table: 'counter',
        columns: ['$version', 'n'],
        where: { id: 1 },
      })
      t.match(body[0].$version, /^\d+$/)
      t.equal(headers.get('etag'), `"${body[0].$version}"`)
      return body[0].$version as string
    }
    const first = await read()
    const change = (version: string) => ({ table: 'counter', where: { id: 1 }, expect: { version }, $inc: { n: 1 } })
    const changed = await server.must('update', { ...change(first), returning: ['$version', 'n'] })
    t.strictSame(changed.returning, [{ $version: await read(), n: 1 }])
    t.not(changed.returning[0].$version, first)
    t.equal((await server.query('update', change(first))).status, 412)
  },
  'xmin.partitions': async (t, server) => {
    const at = { table: 'part', where: { id: 1, kind: 1 } }
    const more = { id: 2, kind: 2 }
    const now = async (where: object) => {
      const [row] = await server.must('select', { table: 'part', where, columns: ['$version'] })
      return { $version: row.$version as string }
    }
    const returning = ['$version']
    const returned = async (type: string, args: object) => (await server.must(type, { ...args, returning })).returning
    t.strictSame(await returned('update', { ...at, $set: { text: 'c' } }), [await now(at.where)])
    t.strictSame(await returned('insert', { table: 'part', objects: [more] }), [await now(more)])
    const conflict = { constraint_on: ['id', 'kind'], action: 'update' }
    const upsert = { table: 'part', objects: [{ ...more, text: 'd' }], on_conflict: conflict }
    t.strictSame(await returned('insert', upsert), [await now(more)])
    const { $version: version } = await now(at.where)
    const [last] = await returned('update', { ...at, expect: { version }, $set: { text: 'x' } })
    t.equal((await server.query('delete', { ...at, expect: { version } })).status, 412)
    t.strictSame(await returned('delete', { ...at, expect: { version: last.$version } }), [last])
  },
  'set.column': [
    ...(
      [
        ['seen', 'rev', 'unexpected-payload', 'column'],
        ['seen', 'xmin', 'unexpected-payload', 'column'],
        ['keyless', 'a', 'unexpected-payload', 'column'],
        ['taken', 'id', 'unexpected-payload', 'column'],
        ['more', 'a', 'unexpected-payload', 'column'],
        ['more', 'b', 'unexpected-payload', 'column'],
        ['more', 'nothing', 'not-exists', 'column'],
        ['more', 'ctid', 'not-exists', 'column'],
        ['more', 1, 'parse-failed', 'column'],
        ['nothing', 'c', 'not-exists', 'table'],
      ] as const
    ).map(([table, column, code, key]) =>
      query('set_table_version', { table, column }, refused(code, /./, `$.args.${key}`)),
    ),
    query('set_table_version', { table: 'more', column: 'c' }, exactly({ message: 'success' })),
    query('set_table_version', { table: 'counter', column: null }, exactly({ message: 'success' })),
    query('select', { table: 'counter', columns: ['n'], where: { id: 1 } }, etag(null)),
  ],
  'set.admin': [
    query(
      'set_table_version',
      { table: 'note', column: null },
      refused('access-denied', /only the role admin/, '$'),
      USER,
    ),
  ],
  'set.metadata': async (t, server) => {
    const now = await server.must('export_metadata', {})
    type Entry = { table: string; version_column?: string | undefined }
    const versioned = now.tables.filter((each: Entry) => 'version_column' in each)
    t.same(Object.fromEntries(versioned.map((each: Entry) => [each.table, each.version_column])), {
      base: 'xmin',
      more: 'c',
      note: 'rev',
      odd: 'v',
      part: 'xmin',
      team: 'xmin',
    })
    t.same(await server.must('diff_metadata', now), { changes: [], refused: null })
    const other = (columns: Readonly<Record<string, string | undefined>>) => ({
      ...now,
      tables: now.tables.map(({ version_column, ...rest }: Entry) => {
        const column = rest.table in columns ? columns[rest.table] : version_column
        return column === undefined ? rest : { ...rest, version_column: column }
      }),
    })
    const { changes } = await server.must('diff_metadata', other({ note: 'xmin', part: undefined, plain: 'xmin' }))
    t.match(changes, [
      { change: 'added', object: 'version plain', from: null, to: { column: 'xmin' } },
      { change: 'removed', object: 'version part', from: { column: 'xmin' }, to: null },
      { change: 'changed', object: 'version note', from: { column: 'rev' }, to: { column: 'xmin' } },
    ])
    t.equal(changes.length, 3)
    const { status, body } = await server.query('replace_metadata', other({ note: 'nothing' }))
    t.equal(status, 400)
    t.match(body.path, /^\$\.args\.tables\[\d+\]\.version_column$/)
    await server.must('clear_metadata', {})
    for (const [type, args] of [
      ['replace_metadata', now],
      ['reload_metadata', {}],
    ] as const) {
      await server.must(type, args)
      t.same(await server.must('export_metadata', {}), now)
      t.equal((await server.query('select', one(1))).headers.get('etag'), '"1"')
    }
  },
  'set.used': [
    query(
      'create_query_template',
      {
        name: 'set_text',
        template: { type: 'update', args: { ...setText(1), expect: { version: { param: 'rev' } } } },
      },
      { status: 200 },
    ),
    query('set_table_version', { table: 'note', column: null }, refused('dependency-error', /query-template set_text/)),
    query('drop_query_template', { name: 'set_text' }, { status: 200 }),
    query(
      'create_object_relationship',
      { table: 'note', name: '$version', using: { foreign_key_constraint_on: 'team_id' } },
      { status: 400 },
    ),
  ],
  'set.kept': [
    ...[
      'alter table note drop column rev',
      'alter table note alter column rev drop not null',
      'alter table note drop constraint note_pkey',
    ].map((sql) => query('run_sql', { sql }, refused('dependency-error', /version note/))),
    query('select', one(1), etag('"1"')),
    query('run_sql', { sql: 'alter table note drop column rev', cascade: true }, { status: 200 }),
    query('select', one(1), etag(null)),
    query('get_inconsistent_metadata', {}, is({ is_consistent: true, inconsistent_objects: [] })),
  ],
}

/** Its promises, with a case for each. */
export const versions = area('versions', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/writes.md': {
      'Row versions': {
        'Its `where` must test equality with the primary key and nothing else.': 'write.must-equal-key',
      },
    },
  },
  start,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const permit = (role: string, type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role, permission },
  })
  const version = (table: string, column: string) => ({ type: 'set_table_version', args: { table, column } })
  const filter = { team_id: 'X-Service-Team-Id' }
  const many = { foreign_key_constraint_on: { table: 'note', column: 'team_id' } }
  await server.must('bulk', [
    ...['team', 'note', 'counter', 'part', 'plain', 'odd', 'seen', 'keyless', 'more', 'taken', 'base'].map((args) => ({
      type: 'track_table',
      args,
    })),
    {
      type: 'create_object_relationship',
      args: { table: 'note', name: 'team', using: { foreign_key_constraint_on: 'team_id' } },
    },
    { type: 'create_array_relationship', args: { table: 'team', name: 'notes', using: many } },
    ...['notes', 'counters'].map((args) => ({ type: 'track_function', args })),
    version('note', 'rev'),
    version('odd', 'v'),
    ...['team', 'counter', 'part', 'base'].map((table) => version(table, 'xmin')),
    ...['user', 'blind'].flatMap((role) => [
      permit(role, 'select', 'note', {
        columns: ['id', 'team_id', 'text', ...(role === 'user' ? ['rev'] : [])],
        filter,
      }),
      permit(role, 'update', 'note', { columns: ['text'], filter: { ...filter, id: { $ne: 3 } } }),
      permit(role, 'delete', 'note', { filter }),
      permit(role, 'select', 'team', { columns: ['id', 'name'], filter: {} }),
    ]),
  ])
  return server
}
