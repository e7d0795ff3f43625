import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { permit, relate, track } from '../kit/metadata-requests.js'
import { patience } from '../kit/patience.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What run_sql does, and what it refuses. */
const PROMISES = {
  'run_sql.rows': 'a statement that returns rows answers TuplesOk: the names, then cells as text, null as NULL',
  'run_sql.command': 'a statement without rows answers CommandOk and no result',
  'run_sql.last': 'of several statements the last one answers',
  'run_sql.atomic': 'all statements are one transaction: if one fails, none has an effect',
  'run_sql.admin': 'run_sql is for admin only',
  'run_sql.required': 'it needs sql, a text, and refuses keys that it does not know',
  'run_sql.empty': 'SQL without a statement answers CommandOk',
  'run_sql.session':
    'nothing of its session is left, whether it succeeds or not: settings, roles, locks, temporary tables, prepared statements, cursors and channels',
  'run_sql.max-rows': 'a result has at most 10,000 rows',
  'run_sql.dependents':
    'dropping a column, table or function that metadata needs is refused, naming what depends on it',
  'run_sql.cascade': 'with cascade the dependents are dropped too',
  'run_sql.type': 'a type cannot change under what depends on it, cascade or not',
  'run_sql.type-of-rules': 'filters, checks and presets of all four permissions are among what depends on a type',
  'run_sql.type-of-presets':
    'a preset of an insert permission is not named as one of the update permission, nor the other way round',
  'run_sql.type-of-listed': 'the type of a column that permissions and templates only list can change',
  'run_sql.constants':
    'values of permissions and templates stay readable: a change of what they name, such as the label of an enum, is refused, and drops them with cascade',
  'run_sql.constants-outside':
    'if it is made past the server, the next SQL or reload finds them inconsistent, and again consistent',
  'run_sql.free': 'what nothing depends on is dropped and altered, and the API follows',
  'run_sql.rename-table': 'a table cannot be renamed, nor inside of a do block',
  'run_sql.rename-column': 'a column cannot be renamed',
  'run_sql.transaction': 'transaction control is refused, and nothing is left of the rest',
  'run_sql.copy': 'COPY from or to the client is refused',
  'run_sql.metadata': 'writes to the tables of the metadata are refused, reads are not',
  'run_sql.taken-name': 'a new column does not take the name of a relationship',
  'run_sql.error': 'an error has the message of PostgreSQL, its SQLSTATE, hint, line and column',
  'run_sql.error-short': 'and not the whole of a long statement',
  'run_sql.params': 'params are the values of $1, $2 and so on; arrays and objects are JSON, numbers keep their digits',
  'run_sql.params-single': 'params are for a single statement, and each parameter needs a value',
  'run_sql.read-only': 'read_only reads and writes nothing, however it is asked',
  'run_sql.timeout': 'a run that takes longer than timeout_ms fails with 504, and ends in the database',
  'run_sql.timeout-range': 'timeout_ms is between 1 and a day',
  'run_sql.statement-timeout': 'without timeout_ms each statement has database.statementTimeoutMs',
  'run_sql.no-transaction': 'no_transaction runs a statement that PostgreSQL refuses inside of a transaction',
  'run_sql.no-transaction-only': 'and no other statement, nor several, nor with read_only',
  'run_sql.unchecked': 'without check_metadata_consistency a drop is not refused, and what it breaks is inconsistent',
  'run_sql.bulk': 'in a bulk it is part of the transaction, and an error has the path of the member',
  'run_sql.bulk-options': 'and takes cascade and params only',
  'run_sql.dry-run': 'a dry run has the answer, and leaves nothing',
} as const

const sql = (text: string, expected: Expected, more: object = {}): Step =>
  query('run_sql', { sql: text, ...more }, expected)
const rows = (...result: readonly string[][]): Expected => is({ result_type: 'TuplesOk', result })
const OK: Expected = { status: 200, text: '{"result_type":"CommandOk"}' }
const ADMIN_ONLY = refused('access-denied', 'only the role admin may do this')
const held = (by: string) => refused('dependency-error', `cannot drop because of dependent objects: ${by}`, '$.args')
const count = (table: string, n: number): Step => sql(`select count(*) from ${table}`, rows(['count'], [String(n)]))
const unsupported = (error: string | RegExp) => refused('not-supported', error, '$.args')

/** Columns of the table `ruled`, each in one rule of a permission of this type. */
const RULES = {
  checked: 'insert',
  preset: 'insert',
  seen: 'select',
  changeable: 'update',
  changed: 'update',
  stamped: 'update',
  deletable: 'delete',
} as const

/** What would be left of a session. */
const LEAVES = [
  `set work_mem = '1234kB'; set search_path = nowhere; set plan_cache_mode = force_custom_plan`,
  'set role pg_monitor',
  'set session authorization pg_monitor; set session authorization default; set session characteristics as transaction read only',
  'select pg_advisory_lock(823746299)',
  'create temp table left_behind (id int); create temp table author (other int)',
  'prepare left_behind as select 1',
  'deallocate all',
  `do $$ begin execute 'deallocate all'; execute 'prepare left_behind as select 1'; end $$`,
  'declare left_behind cursor with hold for select 1',
  'listen left_behind',
]
const LEFT = `select string_agg(what, ', ') as left from (
  select name || ' ' || setting as what from pg_settings where setting is distinct from reset_val
    and name in ('work_mem', 'search_path', 'plan_cache_mode', 'default_transaction_read_only', 'role')
  union all select 'role' where current_user <> session_user
  union all select 'lock' from pg_locks where locktype = 'advisory' and objid = 823746299
  union all select 'table' from pg_class where relnamespace = pg_my_temp_schema()
  union all select 'statement' from pg_prepared_statements where from_sql
  union all select 'cursor' from pg_cursors where is_holdable
  union all select 'channel' from pg_listening_channels()
) x`

/** Changes of what constants name, and whose constants they are. */
const CHANGES: Readonly<Record<string, Change>> = {
  label: {
    change: `alter type named.state rename value 'new' to 'fresh'`,
    undo: `alter type named.state rename value 'fresh' to 'new'`,
    dependents: [
      'permission author.elsewhere.select',
      'permission named.thing.among.select',
      ...['insert', 'update'].map((type) => `permission named.thing.checker.${type}`),
      ...['composite', 'domain', 'lists', 'reader'].map((role) => `permission named.thing.${role}.select`),
      ...['delete', 'insert', 'update'].map((each) => `permission named.thing.writer.${each}`),
      ...['default', 'fixed', 'inserts'].map((name) => `query-template named-${name}`),
    ],
  },
  'type of the same name': {
    change: `alter table named.thing drop column mood; drop type named.mood; create type named.mood as enum ('glad');
      alter table named.thing add column mood named.mood`,
    undo: `alter type named.mood add value 'sad'`,
    dependents: ['permission named.thing.moody.select'],
  },
  attribute: {
    change: 'alter type named.pair drop attribute n',
    undo: 'alter type named.pair add attribute n int',
    dependents: ['permission named.thing.paired.select'],
  },
  table: {
    change: 'drop table named.gone',
    undo: 'create table named.gone ()',
    dependents: ['permission named.thing.class.select'],
  },
  schema: {
    change: 'alter schema named_words rename to named_others',
    undo: 'alter schema named_others rename to named_words',
    dependents: ['permission named.thing.words.select'],
  },
  'text search': {
    change: 'alter text search configuration named_words.words rename to others',
    undo: 'alter text search configuration named_words.others rename to words',
    dependents: ['permission named.thing.words.select'],
  },
  function: {
    change: 'drop function named.made(int)',
    undo: `create function named.made(int) returns int language sql as 'select $1'`,
    dependents: ['permission named.thing.calls.select'],
  },
}
interface Change {
  readonly change: string
  readonly undo: string
  /** In the order of their names. */
  readonly dependents: readonly string[]
}

const objectsIn = (text: string): string[] =>
  [...text.matchAll(/(?:permission|query-template) [\w.-]+/g)].map(([each]) => each).sort()

/** Makes a schema with tables whose permissions and templates name parts of the database. */
async function nameThings(server: TestServer): Promise<void> {
  await server.sql(`create schema named; create schema named_words;
    create type named.state as enum ('new', 'paid');
    create type named.mood as enum ('sad', 'glad');
    create type named.pair as (word text, n int);
    create type named.mixed as (state named.state, n int);
    create domain named.some_state as named.state;
    create table named.gone (id int);
    create function named.made(int) returns int language sql as 'select $1';
    create text search configuration named_words.words (copy = simple);
    create table named.thing (id int primary key, author_id int, state named.state, states named.state[], mood named.mood,
      pair named.pair, mixed named.mixed, own named.some_state, class regclass, words regconfig, calls regprocedure, n int)`)
  const thing = { schema: 'named', name: 'thing' }
  const select = (role: string, filter: object) => permit('select', thing, role, { columns: ['id'], filter })
  const template = (name: string, type: string, args: object) => ({
    type: 'create_query_template',
    args: { name: `named-${name}`, template: { type, args: { table: thing, ...args } } },
  })
  await server.must('bulk', [
    { type: 'track_table', args: thing },
    select('reader', { state: 'new' }),
    select('lists', { states: { $contains: ['new'] } }),
    select('among', { $or: [{ $not: { state: { $in: ['paid', 'new'] } } }] }),
    select('domain', { own: { $ne: 'new' } }),
    select('composite', { mixed: '(new,1)' }),
    select('moody', { mood: 'sad' }),
    select('paired', { pair: '(a,1)' }),
    select('class', { class: 'named.gone' }),
    select('words', { words: 'named_words.words' }),
    select('calls', { calls: 'named.made(int)' }),
    select('others', { n: 1, state: 'paid' }),
    permit('select', 'author', 'elsewhere', {
      columns: ['id'],
      filter: { $exists: { _table: thing, _where: { state: 'new' } } },
    }),
    permit('insert', thing, 'writer', { columns: ['id'], check: {}, set: { state: 'new' } }),
    permit('update', thing, 'writer', { columns: ['id'], filter: {}, set: { states: ['new'] } }),
    permit('delete', thing, 'writer', { filter: { state: 'new' } }),
    permit('insert', thing, 'checker', { columns: ['id'], check: { state: 'new' } }),
    permit('update', thing, 'checker', { columns: ['id'], filter: {}, check: { state: 'new' } }),
    template('fixed', 'select', { columns: ['id'], where: { state: 'new' } }),
    template('default', 'select', { columns: ['id'], where: { state: { $eq: { param: 'state', default: 'new' } } } }),
    template('inserts', 'insert', { objects: [{ id: 1, state: 'new' }] }),
  ])
}

const AUTHORS = { type: 'select', args: { table: 'author', columns: ['id'], order_by: 'id' } }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'run_sql.rows': [
    sql(
      'select 1 as a, null as b, true as c, 1.10 as d, array[1] as e',
      rows(['a', 'b', 'c', 'd', 'e'], ['1', 'NULL', 't', '1.10', '{1}']),
    ),
    sql('select id from author where false', rows(['id'])),
    sql('insert into other values (9) returning id', rows(['id'], ['9'])),
  ],
  'run_sql.command': [sql('create index on author (name)', OK), sql('delete from other where id = 9', OK)],
  'run_sql.last': [
    sql('select 1; select id, name from author order by id', rows(['id', 'name'], ['1', 'Ann'], ['2', 'Ben'])),
    sql('select 1; create table later (id int)', OK),
    sql('create table latest (id int); select 2 as x', rows(['x'], ['2'])),
  ],
  'run_sql.atomic': [
    sql('insert into other values (1); insert into other values (1/0)', refused('postgres-error', 'division by zero')),
    count('other', 0),
  ],
  'run_sql.admin': [
    query('run_sql', { sql: 'select 1' }, ADMIN_ONLY, { role: 'user' }),
    query('run_sql', { sql: 'select 1', read_only: true }, ADMIN_ONLY, { role: 'user' }),
    query('bulk', [{ type: 'run_sql', args: { sql: 'select 1' } }], refused('access-denied', /only the role admin/), {
      role: 'user',
    }),
  ],
  'run_sql.required': [
    query('run_sql', {}, refused('parse-failed', /'sql' was not present/, '$.args')),
    query('run_sql', { sql: 1 }, refused('parse-failed', /./, '$.args.sql')),
    query('run_sql', { sql: 'select 1', cascad: true }, refused('unexpected-payload', /cascad/, '$.args.cascad')),
    query('run_sql', { sql: 'select 1', cascade: 'yes' }, refused('parse-failed', /./, '$.args.cascade')),
  ],
  'run_sql.empty': ['', ' ', '-- nothing'].flatMap((text) =>
    [{}, { params: [] }, { no_transaction: true }, { read_only: true }].map((more) => sql(text, OK, more)),
  ),
  'run_sql.session': LEAVES.flatMap((text) => [
    sql(text, { status: 200 }),
    sql(LEFT, rows(['left'], ['NULL'])),
    sql(`${text}; select 1/0`, refused('postgres-error', 'division by zero')),
    sql(LEFT, rows(['left'], ['NULL'])),
    query('get_inconsistent_metadata', {}, is({ is_consistent: true, inconsistent_objects: [] })),
  ]),
  'run_sql.max-rows': [
    sql('select generate_series(1, 10001) as n', refused('unexpected-payload', /more than 10000 rows/, '$.args.sql')),
    sql('select generate_series(1, 10001); select 1 as n', rows(['n'], ['1'])),
    sql('select count(*) from (select generate_series(1, 10001)) x', rows(['count'], ['10001'])),
    tenThousand(),
  ],
  'run_sql.dependents': [
    sql('alter table author drop column owner', held('permission author.user.select')),
    sql(
      'drop table article',
      held(
        'relationship article.author, permission article.user.select, relationship author.articles, query-template articles',
      ),
    ),
    sql('drop table article cascade', held('relationship article.author, permission article.user.select')),
    sql('drop function shout', held('computed-field author.loud')),
    sql(
      'alter table article drop constraint article_author_id_fkey',
      held('relationship article.author, permission article.user.select, relationship author.articles'),
    ),
    query('select', { table: 'author', columns: ['id'] }, is([{ id: 1 }]), {
      role: 'user',
      variables: { 'x-service-user-id': '1' },
    }),
  ],
  'run_sql.cascade': [
    sql('alter table author drop column owner', OK, { cascade: true }),
    query('select', { table: 'author', columns: ['id'] }, refused('permission-denied', /./), {
      role: 'user',
      variables: { 'x-service-user-id': '1' },
    }),
    query('select', { table: 'article', columns: ['id'] }, is([{ id: 1 }]), { role: 'user' }),
    sql('drop table article', OK, { cascade: true }),
    query('execute_query_template', { name: 'articles', args: {} }, refused('not-exists', /articles/)),
    query('select', { table: 'author', columns: [{ name: 'articles', columns: ['id'] }] }, { status: 400 }),
    query('get_inconsistent_metadata', {}, is({ is_consistent: true, inconsistent_objects: [] })),
  ],
  'run_sql.type': [
    sql(
      'alter table note alter column size type bigint',
      refused(
        'dependency-error',
        /^cannot change type of column "size" in table "note" because of dependent objects: permission note\.user\.select/,
        '$.args',
      ),
    ),
    sql(
      'alter table note alter column size type bigint',
      refused('dependency-error', /^cannot change type of column "size"/),
      { cascade: true },
    ),
  ],
  'run_sql.type-of-rules': Object.entries(RULES).map(([column, type]) =>
    sql(
      `alter table ruled alter column ${column} type bigint`,
      refused('dependency-error', new RegExp(`dependent objects: .*permission ruled\\.user\\.${type}`), '$.args'),
    ),
  ),
  'run_sql.type-of-presets': [
    sql(
      'alter table ruled alter column preset type bigint',
      refused('dependency-error', /dependent objects: permission ruled\.user\.insert$/),
    ),
    sql(
      'alter table ruled alter column stamped type bigint',
      refused('dependency-error', /dependent objects: permission ruled\.user\.update$/),
    ),
  ],
  'run_sql.type-of-listed': async (t, server) => {
    await server.sql(
      `create table listed (id int primary key, n int, other text); insert into listed values (1, 2, 'a')`,
    )
    const all = ['id', 'n', 'other']
    await server.must('bulk', [
      track('listed'),
      permit('insert', 'listed', 'user', { columns: all, check: { id: 1 } }),
      permit('select', 'listed', 'user', { columns: all, filter: { id: 1 } }),
      permit('update', 'listed', 'user', { columns: all, filter: { id: 1 }, check: { id: 1 } }),
      {
        type: 'create_query_template',
        args: {
          name: 'lists',
          template: { type: 'select', args: { table: 'listed', columns: all, where: { id: 1 } } },
        },
      },
    ])

    await server.must('run_sql', {
      sql: 'alter table listed alter column n type text, alter column other type json using null',
    })

    const listed = [{ id: 1, n: '2', other: null }]
    t.same((await server.query('select', { table: 'listed', columns: all }, { role: 'user' })).body, listed)
    t.same((await server.query('execute_query_template', { name: 'lists', args: {} }, { role: 'user' })).body, listed)
    const { status, body } = await server.query('run_sql', {
      sql: 'alter table listed alter column id type text',
      cascade: true,
    })
    t.match(
      [status, body],
      [400, { code: 'dependency-error', error: /permission listed\.user\.insert, .*query-template lists$/ }],
    )
  },
  'run_sql.constants': async (t, server) => {
    await nameThings(server)
    for (const [name, { change, dependents }] of Object.entries(CHANGES)) {
      const before = await server.must('export_metadata', {})
      const { status, body } = await server.query('run_sql', { sql: change })
      t.match([status, body], [400, { path: '$.args', code: 'dependency-error' }], name)
      t.same(objectsIn(String(body.error)), dependents, name)
      t.same(await server.must('export_metadata', {}), before, `${name}: nothing changed`)
      const args = [
        { type: 'run_sql', args: { sql: change, cascade: true } },
        { type: 'get_inconsistent_metadata', args: {} },
        { type: 'export_metadata', args: {} },
      ]
      const tried = await server.raw(JSON.stringify({ type: 'bulk', args, dry_run: true }))
      t.match(tried.body, [{}, { is_consistent: true }], `${name}: cascade`)
      t.not(JSON.stringify(tried.body[2]), JSON.stringify(before), `${name}: cascade drops them`)
    }
  },
  'run_sql.constants-outside': async (t, server) => {
    const broken = async () => objectsIn(JSON.stringify(await server.must('get_inconsistent_metadata', {})))
    for (const [name, { change, dependents, undo }] of Object.entries(CHANGES)) {
      await server.sql(change)
      await (name === 'label'
        ? server.must('run_sql', { sql: 'create table named.unrelated ()' })
        : server.must('reload_metadata', {}))
      t.same(await broken(), dependents, name)
      await server.must('run_sql', { sql: 'create table named.other (); drop table named.other' })
      await server.must('run_sql', { sql: undo })
      t.same(await broken(), [], name)
    }
    await server.must('run_sql', { sql: 'drop schema named cascade; drop schema named_words cascade', cascade: true })
    t.same(await broken(), [])
  },
  'run_sql.free': [
    sql(
      'alter table note drop column spare; alter table note alter column code type bigint; alter table note add column fresh int default 3',
      OK,
    ),
    query('select', { table: 'note', columns: ['*'] }, { status: 200, text: '[{"id":1,"size":5,"code":7,"fresh":3}]' }),
  ],
  'run_sql.rename-table': [
    sql('alter table author rename to writer', unsupported('run_sql cannot rename tables: "author"')),
    sql('alter view seen rename to viewed', unsupported('run_sql cannot rename tables: "seen"')),
    sql(
      'do $$ begin execute $x$alter table author rename to writer$x$; end $$',
      unsupported('run_sql cannot rename tables: "author"'),
    ),
  ],
  'run_sql.rename-column': [
    sql('alter table author rename name to n', unsupported('run_sql cannot rename columns: "author"."name"')),
  ],
  'run_sql.transaction': [
    sql(
      'create table left_behind (id int); commit; begin',
      unsupported(/^transaction control is not allowed in run_sql/),
    ),
    ...['begin', 'commit', 'rollback', 'savepoint x'].map((text) => sql(text, unsupported(/^transaction control/))),
    sql(`select to_regclass('left_behind')::text as found`, rows(['found'], ['NULL'])),
  ],
  'run_sql.copy': [
    sql('copy author from stdin', unsupported('run_sql does not support COPY from or to the client')),
    sql('copy author to stdout', unsupported(/COPY/)),
  ],
  'run_sql.metadata': [
    ...[
      'delete from svc_catalog.svc_table',
      `select 1; update svc_catalog.svc_permission set perm_def = '{}'`,
      `insert into "svc_catalog"."svc_query_template" values ('a', '{}')`,
      'truncate other, svc_catalog.svc_table cascade',
      'with gone as (delete from svc_catalog.svc_relationship returning 1) select count(*) from gone',
      'explain analyze delete from svc_catalog.svc_function',
      'merge into svc_catalog.svc_version v using other on true when matched then update set version = 9',
      `copy svc_catalog.svc_table from '/dev/null'`,
    ].map((text) =>
      sql(text, unsupported(/^run_sql cannot write to "svc_catalog\.svc_\w+": use the metadata operations, such as /)),
    ),
    sql('create table svc_table (id int); delete from svc_table; drop table svc_table', OK),
    sql('create table svc_catalog.note (id int); delete from svc_catalog.note; drop table svc_catalog.note', OK),
    sql(`select count(*) > 0 as some from svc_catalog.svc_table`, rows(['some'], ['t'])),
  ],
  'run_sql.taken-name': [
    sql(
      'alter table author add notes int',
      refused('already-exists', 'column or relationship "notes" of table "author" already exists'),
    ),
  ],
  'run_sql.error': [
    sql('create table big (id int, name text);\ninsert into bog values (1)', {
      status: 400,
      like: {
        path: '$.args',
        code: 'postgres-error',
        error: /^relation "bog" does not exist$/,
        internal: { error: { status_code: '42P01', line: '2', column: '13' } },
      },
    }),
    sql("select '🐘';\n  select '🐘', idd from (select 1 as id) as x", {
      status: 400,
      like: {
        path: '$.args',
        code: 'postgres-error',
        error: /^column "idd" does not exist$/,
        internal: {
          statement: "  select '🐘', idd from (select 1 as id) as x",
          error: { status_code: '42703', line: '2', column: '15', hint: /x\.id/ },
        },
      },
    }),
    sql('insert into author values (1)', {
      status: 400,
      like: { error: /^duplicate key/, internal: { error: { description: 'Key (id)=(1) already exists.' } } },
    }),
    sql('selec', {
      status: 400,
      like: { error: /^syntax error at or near "selec"$/, internal: { error: { status_code: '42601' } } },
    }),
  ],
  'run_sql.error-short': async (t, server) => {
    const { status, text } = await server.query('run_sql', { sql: `insert into bog values ${'(1), '.repeat(5000)}(1)` })
    t.equal(status, 400)
    t.ok(text.length < 1000, text)
  },
  'run_sql.params': [
    sql(
      'select $1::int + 1 as n, $2::text as t, $3::jsonb ->> $4 as j, $5::bool as b, $6::text is null as empty',
      rows(['n', 't', 'j', 'b', 'empty'], ['42', "'; drop table x", '[1]', 't', 't']),
      {
        params: [41, "'; drop table x", { a: [1] }, 'a', true, null],
      },
    ),
    {
      path: '/v1/query',
      method: 'POST',
      body: '{"type":"run_sql","args":{"sql":"select $1::numeric as n","params":[12345678901234567890.10]}}',
      expected: rows(['n'], ['12345678901234567890.10']),
    },
  ],
  'run_sql.params-single': [
    sql('select $1::int; select 2', refused('postgres-error', /multiple commands/), { params: [1] }),
    sql('select $1::int', { status: 400, like: { code: 'postgres-error' } }, { params: [] }),
    sql('select 1', { status: 400, like: { path: '$.args.params' } }, { params: 'x' }),
    sql(
      'select 1',
      { status: 400, like: { path: '$.args.params' } },
      { params: Array.from({ length: 65_536 }, () => 1) },
    ),
  ],
  'run_sql.read-only': [
    sql('select name from author where id = 1', rows(['name'], ['Ann']), { read_only: true }),
    ...[
      'insert into other values (2)',
      'drop table other',
      'set transaction read write; insert into other values (2)',
      'reset transaction_read_only; insert into other values (2)',
      'do $$ begin set transaction read write; insert into other values (2); end $$',
      `select set_config('transaction_read_only', 'off', true); insert into other values (2)`,
    ].map((text) => sql(text, { status: 400, like: { code: 'postgres-error' } }, { read_only: true })),
    sql('commit', { status: 400, like: { code: 'not-supported' } }, { read_only: true }),
    ...[
      'insert into other values (2)',
      'reset transaction_read_only; insert into other values (2)',
      `select set_config('transaction_read_only', 'off', true); insert into other values (2)`,
    ].map((text) =>
      query('bulk', [member(text, { read_only: true })], { status: 400, like: { code: 'postgres-error' } }),
    ),
    count('other', 0),
    query(
      'bulk',
      [member('table other', { read_only: true }), member('insert into other values (3)'), member('delete from other')],
      { status: 200 },
    ),
    count('other', 0),
  ],
  'run_sql.timeout': async (t, server) => {
    const text = `select pg_sleep(600), 'a long one'`
    const late = await server.query('run_sql', { sql: text, timeout_ms: 50 })
    t.match(late, { status: 504, body: { code: 'timeout', error: 'the SQL took longer than 50 ms' } })
    const running = `select 1 from pg_stat_activity where pid <> pg_backend_pid() and query like '%a long one%' and state = 'active'`
    await until('nothing is left running', async () => (await rowsOf(server.databaseUrl, running)).length === 0)
    t.match(await server.query('run_sql', { sql: 'select 1', timeout_ms: patience(60_000) }), { status: 200 })
    t.match(await server.query('run_sql', { sql: 'vacuum other', no_transaction: true }), { status: 200 })
    const own = `select 1 from pg_stat_activity where datname = current_database() and application_name = 'rowhouse run_sql'`
    await until('no connection is left', async () => (await rowsOf(server.databaseUrl, own)).length === 0)
  },
  'run_sql.timeout-range': [0, -1, 86_400_001, 1.5, '5'].map((timeout_ms) =>
    sql('select 1', { status: 400, like: { path: '$.args.timeout_ms' } }, { timeout_ms }),
  ),
  'run_sql.statement-timeout': [
    sql('set local statement_timeout = 20; select pg_sleep(600)', {
      status: 504,
      like: {
        code: 'timeout',
        error: 'the statement took longer than the server allows (database.statementTimeoutMs)',
      },
    }),
  ],
  'run_sql.no-transaction': [
    sql('vacuum other', refused('postgres-error', /cannot run inside a transaction block/)),
    sql('vacuum other', OK, { no_transaction: true }),
    sql('create unique index concurrently other_id on other (id)', OK, { no_transaction: true }),
    query(
      'insert',
      { table: 'other', objects: [{ id: 1 }, { id: 1 }], on_conflict: { action: 'ignore', constraint_on: 'id' } },
      is({ affected_rows: 1 }),
    ),
    sql('delete from other', OK),
    sql('vacuum nope', refused('postgres-error', 'relation "nope" does not exist'), { no_transaction: true }),
  ],
  'run_sql.no-transaction-only': [
    sql('drop table other', unsupported(/no_transaction is for statements that PostgreSQL refuses/), {
      no_transaction: true,
    }),
    sql('drop table other', { status: 400 }, { no_transaction: true, cascade: true }),
    sql('vacuum other; vacuum other', unsupported(/single statement/), { no_transaction: true }),
    sql(
      'vacuum other',
      { status: 400, like: { path: '$.args.no_transaction' } },
      { no_transaction: true, read_only: true },
    ),
    sql('begin', { status: 400, like: { code: 'not-supported' } }, { no_transaction: true }),
  ],
  'run_sql.unchecked': [
    sql('alter table note drop column size', held('permission note.user.select')),
    sql('alter table note drop column size', OK, { check_metadata_consistency: false }),
    query(
      'get_inconsistent_metadata',
      {},
      like({ is_consistent: false, inconsistent_objects: [{ name: 'permission note.user.select', reason: /size/ }] }),
    ),
    query('select', { table: 'note', columns: ['id'] }, refused('permission-denied', /./), { role: 'user' }),
    query('select', { table: 'note', columns: ['id'] }, is([{ id: 1 }])),
    query('drop_inconsistent_metadata', {}, is({ message: 'success' })),
  ],
  'run_sql.bulk': [
    query(
      'bulk',
      [member('create table kept (id int)'), member('select * from nope')],
      refused('postgres-error', 'relation "nope" does not exist', '$.args[1]'),
    ),
    query(
      'bulk',
      [member('select 1'), { type: 'bulk', args: [member('select 1'), member('select 1/0')] }],
      refused('postgres-error', 'division by zero', '$.args[1].args[1]'),
    ),
    query('bulk', [member('select 1'), member('set local statement_timeout = 20; select pg_sleep(600)')], {
      status: 504,
      like: { path: '$.args[1]', code: 'timeout' },
    }),
    query(
      'bulk',
      [...Array<object>(5).fill(AUTHORS), member('deallocate all'), AUTHORS],
      like({ length: 7, 6: [{ id: 1 }, { id: 2 }] }),
    ),
    sql('select * from kept', refused('postgres-error', 'relation "kept" does not exist')),
    query(
      'bulk',
      [member('select $1::int as n', { params: [4] }), member('select 1 as a')],
      is([
        { result_type: 'TuplesOk', result: [['n'], ['4']] },
        { result_type: 'TuplesOk', result: [['a'], ['1']] },
      ]),
    ),
  ],
  'run_sql.bulk-options': Object.entries({
    timeout_ms: 5,
    no_transaction: true,
    check_metadata_consistency: false,
  }).map(([key, value]) =>
    query(
      'bulk',
      [member('select 1', { [key]: value })],
      refused('not-supported', `"${key}" is not possible inside of a bulk`, `$.args[0].args.${key}`),
    ),
  ),
  'run_sql.dry-run': [
    {
      path: '/v1/query',
      method: 'POST',
      body: JSON.stringify({
        type: 'run_sql',
        args: { sql: 'insert into other values (5) returning id' },
        dry_run: true,
      }),
      expected: rows(['id'], ['5']),
    },
    count('other', 0),
  ],
}

function member(text: string, more: object = {}) {
  return { type: 'run_sql', args: { sql: text, ...more } }
}
function tenThousand(): Step {
  return sql(
    'select generate_series(1, 10000) as n',
    rows(['n'], ...Array.from({ length: 10_000 }, (_, i) => [String(i + 1)])),
  )
}

export const runSql = area('run-sql', {
  promises: PROMISES,
  pages: {
    'plugins/query/metadata.md': {
      'SQL and metadata (admin)': {
        '`run_sql`': [
          'run_sql.rows',
          'run_sql.command',
          'run_sql.max-rows',
          'run_sql.transaction',
          'run_sql.rename-table',
          'run_sql.metadata',
          'run_sql.dependents',
          'run_sql.constants',
          'run_sql.type-of-rules',
          'run_sql.type-of-listed',
          'run_sql.cascade',
        ],
      },
      run_sql: {
        '`params`': ['run_sql.params', 'run_sql.params-single'],
        '`read_only`': 'run_sql.read-only',
        '`timeout_ms`': ['run_sql.timeout', 'run_sql.timeout-range', 'run_sql.statement-timeout'],
        '`no_transaction`': ['run_sql.no-transaction', 'run_sql.no-transaction-only'],
        '`check_metadata_consistency`': 'run_sql.unchecked',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table author (id int primary key, name text, owner int);
      create table article (id int primary key, author_id int references author);
      create table note (id int primary key, size int, code int, spare text);
      create table other (id int);
      create table ruled (id int primary key, ${Object.keys(RULES)
        .map((column) => `${column} int`)
        .join()});
      create view seen as select 1 as one;
      create function shout(a author) returns text language sql stable as 'select upper(a.name)';
      insert into author values (1, 'Ann', 1), (2, 'Ben', 2);
      insert into article values (1, 1);
      insert into note values (1, 5, 7)`,
  })
  await server.must('bulk', [
    ...['author', 'article', 'note', 'other', 'seen'].map(track),
    relate('object', 'article', 'author', 'author_id'),
    relate('array', 'author', 'articles', { table: 'article', column: 'author_id' }),
    {
      type: 'create_array_relationship',
      args: {
        table: 'author',
        name: 'notes',
        using: { manual_configuration: { remote_table: 'note', column_mapping: { id: 'id' } } },
      },
    },
    { type: 'add_computed_field', args: { table: 'author', name: 'loud', definition: { function: 'shout' } } },
    permit('select', 'author', 'user', { columns: ['id'], filter: { owner: 'X-Service-User-Id' } }),
    permit('select', 'article', 'user', { columns: ['id'], filter: { author: { name: 'Ann' } } }),
    permit('select', 'note', 'user', { columns: ['id'], filter: { size: { $gt: 1 } } }),
    track('ruled'),
    permit('insert', 'ruled', 'user', { columns: ['id'], check: { checked: 1 }, set: { preset: 1 } }),
    permit('select', 'ruled', 'user', { columns: ['id'], filter: { seen: 1 } }),
    permit('update', 'ruled', 'user', {
      columns: ['id'],
      filter: { changeable: 1 },
      check: { changed: 1 },
      set: { stamped: 1 },
    }),
    permit('delete', 'ruled', 'user', { filter: { deletable: 1 } }),
    {
      type: 'create_query_template',
      args: { name: 'articles', template: { type: 'count', args: { table: 'article' } } },
    },
  ])
  return server
}
