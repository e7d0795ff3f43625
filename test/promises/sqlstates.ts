import type { Test } from 'tap'
import pg from 'pg'
import { graphql, permit, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

/** Which errors of PostgreSQL become which of ours, for admin, who gets PostgreSQL's text. */
const PROMISES = {
  'sqlstate.23502': 'a missing value is a Not-NULL violation',
  'sqlstate.23503': 'a foreign key that refers to nothing, or is referred to, is a Foreign key violation',
  'sqlstate.23001': 'a restricted delete says that data is referred to',
  'sqlstate.23505': 'a duplicate is a Uniqueness violation',
  'sqlstate.23514': 'a check of the table is a Check constraint violation',
  'sqlstate.23P01': 'an exclusion constraint is an Exclusion violation',
  'sqlstate.22P02': 'a value that PostgreSQL cannot read is refused with its path',
  'sqlstate.22003': 'and so is a number that is too large for its column',
  'sqlstate.22001': 'and a text that is too long',
  'sqlstate.22012': 'an error while a statement runs has the path of its arguments',
  'sqlstate.42P10': 'conflict columns without a unique constraint are refused',
  'sqlstate.P0001': 'an exception of a trigger has its own text',
  'sqlstate.own-class': 'an exception with a class of its own is no bug of the server',
  'sqlstate.42501': 'a missing privilege of the database login is a permission error',
  'sqlstate.44000': 'a row outside of the condition of a view with check option is refused',
  'sqlstate.40001': 'a conflict that remains after three attempts is 409 concurrent-update',
  'sqlstate.55P03': 'a lock that is not free in time is 409 lock-timeout',
  'sqlstate.57014': 'a statement that takes too long is 504 timeout',
  'sqlstate.25006': 'a write to a read-only database is 503 read-only, with Retry-After',
  'sqlstate.XX000': 'any other error is a 500 that shows nothing but its request id',
  'sqlstate.class': 'each class of errors has its answer: only internal errors of PostgreSQL are a 500',
  'sqlstate.trouble':
    'a database that answers and cannot is 503 with its own message, internal for admins only, and a warning',
  'sqlstate.function': 'an error of a statement inside a function of the database is no bug of the server',
} as const

const SQL = `
create extension btree_gist;
create table kind (id int primary key, name text not null);
create table thing (id int primary key, n int check (n < 1000), code varchar(3), kind_id int references kind,
  strict_id int references kind on delete restrict, span int4range, exclude using gist (span with &&));
create table raising (id int primary key, state text, said text);
create function raise_it() returns trigger language plpgsql as $$ begin
  raise exception using errcode = new.state, message = new.said; end $$;
create trigger raise_it before insert on raising for each row execute function raise_it();
create table tried (id int primary key);
create sequence tries;
create function try_it() returns trigger language plpgsql as $$ begin
  if nextval('tries') % 3 > 0 or new.id = 0 then raise exception using errcode = '40001', message = 'not now'; end if; return new; end $$;
create trigger try_it before insert on tried for each row execute function try_it();
create function broken() returns trigger language plpgsql as $$ begin
  case new.id when 1 then execute 'selec'; when 2 then execute 'set wal_level = replica';
    when 3 then execute 'select * from nowhere.at_all'; when 4 then execute 'set role nobody_at_all';
    when 5 then execute 'fetch from no_cursor'; when 6 then raise sqlstate '28000'; end case; return new; end $$;
create table breaking (id int);
create trigger broken before insert on breaking for each row execute function broken();
create view large as select id, n from thing where n > 10 with check option;
create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(600); return new; end $$;
create table slow (id int);
create trigger nap before insert on slow for each row execute function nap();
insert into kind values (1, 'small'), (2, 'large');
insert into thing values (1, 1, 'abc', 1, null, '[1,5)'), (2, 2, null, null, 2, null)`

const says = (error: string | RegExp, path = '$.args'): Expected => refused('postgres-error', error, path)
const insert = (table: string, row: object, expected: Expected, as?: As): Step =>
  query('insert', { table, objects: [row] }, expected, as)
/** The same write by GraphQL: the code there. */
const modern = (table: string, row: string, code: string, message: string | RegExp): Step =>
  graphql(`mutation { insert_${table}(objects: [${row}]) { affected_rows } }`, {
    status: 200,
    like: { errors: [{ message, extensions: { code } }] },
  })
const raised = (state: string, code: string): Step[] => [
  insert('raising', { id: 1, state, said: 'said so' }, says(/said so$/)),
  modern('raising', `{id: 1, state: "${state}", said: "said so"}`, code, /said so$/),
]

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'sqlstate.23502': [
    insert(
      'kind',
      { id: 9 },
      says(/^Not-NULL violation\. null value in column "name" of relation "kind" violates not-null constraint$/),
    ),
    modern('kind', '{id: 9}', 'constraint-violation', /^Not-NULL violation\. /),
  ],
  'sqlstate.23503': [
    query(
      'delete',
      { table: 'kind', where: { id: 1 } },
      says(
        /^Foreign key violation\. update or delete on table "kind" violates foreign key constraint "thing_kind_id_fkey"/,
      ),
    ),
    insert('thing', { id: 9, kind_id: 99 }, says(/^Foreign key violation\. insert or update on table "thing"/)),
    modern('thing', '{id: 9, kind_id: 99}', 'constraint-violation', /^Foreign key violation\. /),
  ],
  'sqlstate.23001': [
    query(
      'delete',
      { table: 'kind', where: { id: 2 } },
      says(/^(Can not delete or update due to data being referred|Foreign key violation)\. .*"thing_strict_id_fkey"/),
    ),
    insert(
      'raising',
      { id: 1, state: '23001', said: 'said so' },
      says('Can not delete or update due to data being referred. said so'),
    ),
    modern(
      'raising',
      '{id: 1, state: "23001", said: "said so"}',
      'constraint-violation',
      'Can not delete or update due to data being referred. said so',
    ),
  ],
  'sqlstate.23505': [
    insert(
      'kind',
      { id: 1, name: 'x' },
      says(/^Uniqueness violation\. duplicate key value violates unique constraint "kind_pkey"$/),
    ),
    modern('kind', '{id: 1, name: "x"}', 'constraint-violation', /^Uniqueness violation\. /),
  ],
  'sqlstate.23514': [
    insert(
      'thing',
      { id: 9, n: 1000 },
      says(/^Check constraint violation\. new row for relation "thing" violates check constraint "thing_n_check"$/),
    ),
    modern('thing', '{id: 9, n: 1000}', 'permission-error', /^Check constraint violation\. /),
  ],
  'sqlstate.23P01': [
    insert('thing', { id: 9, span: '[2,3)' }, says(/^Exclusion violation\. /)),
    modern('thing', '{id: 9, span: "[2,3)"}', 'constraint-violation', /^Exclusion violation\. /),
  ],
  'sqlstate.22P02': [
    query(
      'select',
      { table: 'thing', columns: ['id'], where: { n: 'many' } },
      says(/^invalid input syntax for type integer: "many"$/, '$.args.where.n'),
    ),
    query(
      'update',
      { table: 'thing', where: {}, $set: { span: 'x' } },
      says(/^malformed range literal: "x"$/, '$.args.$set.span'),
    ),
  ],
  'sqlstate.22003': [
    query(
      'select',
      { table: 'thing', columns: ['id'], where: { n: 99999999999 } },
      refused('parse-failed', 'expecting a whole number in the range of int4, but found a number', '$.args.where.n'),
    ),
    query(
      'select',
      { table: 'thing', columns: ['id'], where: { n: '99999999999' } },
      says(/out of range for type integer/, '$.args.where.n'),
    ),
    insert('thing', { id: 99999999999 }, { status: 400, like: { error: /range/ } }),
    query('update', { table: 'thing', where: { id: 1 }, $inc: { n: 2147483647 } }, says('integer out of range')),
  ],
  'sqlstate.22001': [
    insert('thing', { id: 9, code: 'long' }, says('value too long for type character varying(3)')),
    modern('thing', '{id: 9, code: "long"}', 'data-exception', 'value too long for type character varying(3)'),
  ],
  'sqlstate.22012': [...raised('22012', 'data-exception'), ...raised('21000', 'data-exception')],
  'sqlstate.42P10': [
    query(
      'insert',
      { table: 'kind', objects: [{ id: 1, name: 'x' }], on_conflict: { action: 'update', constraint_on: 'name' } },
      says(/^there is no unique or exclusion constraint/),
    ),
  ],
  'sqlstate.P0001': [...raised('P0001', 'data-exception')],
  'sqlstate.own-class': [...raised('MY001', 'data-exception')],
  'sqlstate.42501': [...raised('42501', 'permission-error')],
  'sqlstate.44000': [
    insert('large', { id: 9, n: 1 }, says(/^new row violates check option for view "large"$/)),
    ...raised('44000', 'permission-error'),
  ],
  'sqlstate.40001': [
    insert(
      'tried',
      { id: 0 },
      { status: 409, like: { code: 'concurrent-update', error: 'serialization failure due to concurrent update' } },
    ),
    query('run_sql', { sql: `select setval('tries', 3)` }, { status: 200 }),
    insert('tried', { id: 1 }, { status: 200, body: { affected_rows: 1 } }),
  ],
  'sqlstate.55P03': async (t, server) => {
    const holder = new pg.Client({ connectionString: server.databaseUrl })
    await holder.connect()
    try {
      await holder.query('begin; update thing set n = 5 where id = 1')
      const late = await server.query('update', { table: 'thing', where: { id: 1 }, $set: { n: 6 } })
      t.match(late, {
        status: 409,
        body: { code: 'lock-timeout', error: 'waited too long for a lock (database.lockTimeoutMs)', path: '$' },
      })
    } finally {
      await holder.end()
    }
  },
  'sqlstate.57014': [
    insert(
      'slow',
      { id: 1 },
      {
        status: 504,
        like: {
          code: 'timeout',
          error: 'the request took longer than role "hasty" allows (database.roleTimeoutMs, statementTimeoutMs)',
          path: '$',
        },
      },
      { role: 'hasty' },
    ),
  ],
  'sqlstate.25006': [
    insert(
      'raising',
      { id: 1, state: '25006', said: 'x' },
      {
        status: 503,
        like: { code: 'read-only', error: 'the database is read-only, as a standby is' },
        headers: { 'retry-after': /^\d+$/ },
      },
    ),
  ],
  'sqlstate.XX000': async (t, server) => {
    const { status, body, text } = await server.query(
      'insert',
      { table: 'raising', objects: [{ id: 1, state: 'XX000', said: 'a secret' }] },
      { role: 'user' },
    )
    t.equal(status, 500)
    t.match(body, { code: 'unexpected', error: String })
    t.notMatch(text, /a secret/)
  },
  'sqlstate.class': async (t, server) => {
    const rows = (answer: string) => ANSWERS[answer]!.join(',').split(',')
    for (const answer of Object.keys(ANSWERS)) {
      for (const state of rows(answer)) {
        const { status, body } = await server.query('insert', {
          table: 'raising',
          objects: [{ id: 1, state, said: 'x' }],
        })
        t.equal(`${status} ${body.code}`, answer, state)
        if (status !== 500) t.equal(body.internal?.status_code, state, `${state}: internal`)
      }
    }
    const logged = async (level: string) =>
      new Set((await linesOf(server)).filter((line) => line.level === level).map(({ sqlstate }) => sqlstate))
    t.same([...(await logged('error'))], [undefined], 'only internal errors are errors of the server')
    const all = [...rows('503 unavailable'), ...rows('504 timeout')]
    await until('all others have a warning', async () => {
      const warned = await logged('warn')
      return all.every((state) => warned.has(state))
    })
  },
  'sqlstate.trouble': async (t, server) => {
    const graphql = (state: string) => ({
      method: 'POST',
      body: JSON.stringify({
        query: `mutation { insert_raising(objects: [{id: 1, state: "${state}", said: "/a/path"}]) { affected_rows } }`,
      }),
    })
    for (const state of ['53000', '53100', '53200', '53300', '53400', '58030']) {
      const row = { table: 'raising', objects: [{ id: 1, state, said: '/a/path' }] }
      const asUser = await server.query('insert', row, { role: 'user' })
      t.match(
        asUser,
        { status: 503, body: { code: 'unavailable', path: '$', error: /^the (database|disk|request)/ } },
        state,
      )
      t.notMatch(asUser.text, /not available right now|a\/path|internal/, state)
      t.equal(asUser.headers.get('retry-after'), WAIT[state] ?? asUser.headers.get('retry-after'), state)
      const modern = await server.fetch('/v1/graphql', graphql(state))
      t.match(modern.body, {
        errors: [{ message: asUser.body.error, extensions: { code: 'unavailable', internal: { status_code: state } } }],
      })
      t.equal(modern.headers.get('retry-after'), asUser.headers.get('retry-after'))
    }
    const spill = 'select count(*) from (select n from generate_series(1, 100000) n order by md5(n::text)) sorted'
    const sql = `set local temp_file_limit = '64kB'; set local work_mem = '64kB'; ${spill}`
    t.match(await server.query('run_sql', { sql }), {
      status: 503,
      body: { error: /a limit in the configuration/, internal: { message: /temp_file_limit/ } },
    })
    const isOf = (line: Line) => line.sqlstate === '53200'
    const before = (await linesOf(server)).filter(isOf).length
    const insert = () => server.query('insert', { table: 'raising', objects: [{ id: 1, state: '53200', said: 'x' }] })
    await Promise.all(Array.from({ length: 20 }, insert))
    const more = (await linesOf(server)).filter(isOf).length - before
    t.ok(more < 20 * PROCESSES, `${more} lines of 20`)
    t.match((await linesOf(server)).find(isOf), {
      level: 'warn',
      msg: 'request failed',
      code: 'unavailable',
      cause: String,
    })
  },
  'sqlstate.function': async (t, server) => {
    for (const id of [1, 2, 3, 4, 5, 6, 7]) {
      const { status, body } = await server.query('insert', { table: 'breaking', objects: [{ id }] })
      t.match({ status, body }, { status: 400, body: { code: 'postgres-error' } }, `${id}`)
    }
  },
}

/** A SQLSTATE of each class, and of the conditions that differ from their class, by the status and code of the answer. */
const ANSWERS: Readonly<Record<string, readonly string[]>> = {
  '400 postgres-error': [
    '02000,03000,09000,0A000,0B000,0F000,0L000,0P000,0Z000,10608,20000,21000,22000,23000,24000,25000,25001,25P02,26000',
    '27000,28000,28P01,2B000,2D000,2F000,34000,38000,39000,3B000,3D000,3F000,40002,42000,42601,42P01,44000,54000,54001',
    '55000,55006,55P02,57000,HV000,P0001,P0002',
  ],
  '409 concurrent-update': ['40001,40P01'],
  '409 lock-timeout': ['55P03'],
  '500 unexpected': ['XX000,XX001,XX002'],
  '503 read-only': ['25006'],
  '503 unavailable': [
    '08000,08001,08006,08P01,53000,53100,53200,53300,53400,57P01,57P02,57P03,57P04,57P05,58000,58030,58P01,72000,F0000,HV00N',
  ],
  '504 timeout': ['25P03,25P04'],
}
const WAIT: Readonly<Record<string, string>> = { '53100': '30', '58030': '30', '53200': '5', '53300': '1' }

interface Line {
  readonly level: string
  readonly msg: string
  readonly sqlstate?: string
}
const linesOf = async (server: TestServer): Promise<readonly Line[]> =>
  (await server.must('log_lines', {})).lines.map(({ line }: { readonly line: Line }) => line)

export const sqlstates = area('sqlstates', { promises: PROMISES, start, cases: CASES })

async function start(t: Test) {
  const server = await testServer(t, {
    config: { database: { lockTimeoutMs: 150, roleTimeoutMs: { hasty: 100 } }, log: { level: 'warn' } },
  })
  await server.sql(SQL)
  await server.must('bulk', [
    ...['kind', 'thing', 'raising', 'tried', 'large', 'slow', 'breaking'].map(track),
    permit('insert', 'raising', 'user', { check: {} }),
    permit('insert', 'slow', 'hasty', { check: {} }),
  ])
  return server
}
