import type { Test } from 'tap'
import pg from 'pg'
import { graphql, permit, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

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
      t.match(late, { status: 409, body: { code: 'lock-timeout', error: 'waited too long for a lock', path: '$' } })
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
}

export const sqlstates = area('sqlstates', { promises: PROMISES, start, cases: CASES })

async function start(t: Test) {
  const server = await testServer(t, { config: { database: { lockTimeoutMs: 150, roleTimeoutMs: { hasty: 100 } } } })
  await server.sql(SQL)
  await server.must('bulk', [
    ...['kind', 'thing', 'raising', 'tried', 'large', 'slow'].map(track),
    permit('insert', 'raising', 'user', { check: {} }),
    permit('insert', 'slow', 'hasty', { check: {} }),
  ])
  return server
}
