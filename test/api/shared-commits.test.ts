import pg from 'pg'
import t from 'tap'
import { rowsOf } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import fc from '../kit/property.js'
import { startProxy } from '../kit/proxy.js'
import { type Answered, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** Quick is whatever this machine can do. */
const SHARED = { poolSize: 4, sharedCommits: 1, pipelineMaxMs: 60_000 }

/** To insert an id that is a multiple of 1000 takes a while. */
const TABLES = `
  create function waits() returns bool language sql stable as 'select pg_sleep(${patience(2_000) / 1000}) is not null';
  create table place (id int primary key);
  insert into place values (1), (2);
  create table note (
    id int primary key check (id % 1000 <> 0 or waits()),
    text text, place int references place, positive int check (positive > 0)
  );
  create table watched (id int primary key);
  create function nothing() returns trigger language plpgsql as 'begin return new; end';
  create trigger watch before insert on watched for each row execute function nothing();
  create table ruled (id int primary key);
  create rule no_more as on delete to ruled do instead nothing;
  create table deferring (id int primary key deferrable initially deferred);
  create function told() returns int language sql as $$ select pg_notify('told', ''); select 1 $$;
  create table telling (id int primary key, told int default told());
  create table checking (id int primary key, told int check (told() = 1));
  create domain told as int check (told() = 1);
  create table of_domain (id int primary key, told told);
  create table policed (id int primary key);
  alter table policed enable row level security;
  create policy telling on policed with check (told() = 1);
  create table counting (id int primary key, counted xid8 default pg_current_xact_id());
  create table setting (id int primary key, mode text default set_config('test.mode', 'on', true));
  create table locking (id int primary key, check (pg_advisory_xact_lock_shared(1) is not null));
  create table policed_by_builtin (id int primary key);
  alter table policed_by_builtin enable row level security;
  create policy locking on policed_by_builtin with check (pg_try_advisory_xact_lock_shared(2));
  create domain noted as text default pg_notify('told', 'x')::text;
  create table of_default (id int primary key, noted noted);
  create function notes(int, int) returns int language sql as 'select told()';
  create operator ### (function = notes, leftarg = int, rightarg = int);
  create table by_operator (id int primary key, told int default 1 ### 1);
  create table parted (id int primary key) partition by range (id);
  create table part partition of parted for values from (0) to (1000)`
/** Tables of which a transaction may be seen from outside. */
const ALONE =
  'watched ruled deferring telling checking of_domain policed part parted counting setting locking policed_by_builtin of_default by_operator'.split(
    ' ',
  )

async function start(t: Parameters<typeof testServer>[0], config: object = {}): Promise<TestServer> {
  const server = await testServer(t, { config: { database: { ...SHARED, ...config } } })
  await server.must('run_sql', { sql: TABLES })
  await server.must(
    'bulk',
    ['note', ...ALONE].map((args) => ({ type: 'track_table', args })),
  )
  return server
}

const insert = (server: TestServer, row: object, table = 'note'): Promise<Answered> =>
  server.query('insert', { table, objects: [row], returning: 'text' in row ? ['id', 'text'] : ['id'] })
const insertAll = (server: TestServer, rows: readonly object[], table?: string): Promise<Answered[]> =>
  Promise.all(rows.map((row) => insert(server, row, table)))
const ids = (all: readonly { readonly id: number }[]): number[] => all.map(({ id }) => id)
const rows = (from: number, count: number): { id: number }[] =>
  Array.from({ length: count }, (_, i) => ({ id: from + i }))

const ask = <Row extends object>({ databaseUrl }: TestServer, sql: string): Promise<Row[]> => rowsOf(databaseUrl, sql)
const idsOf = async (server: TestServer, table = 'note'): Promise<number[]> =>
  ids(await ask<{ id: number }>(server, `select id from ${table} where id > 0 order by id`))
/** By how many transactions rows were written. */
const transactionsOf = async (server: TestServer, table = 'note'): Promise<number> =>
  (await ask<{ n: number }>(server, `select count(distinct xmin::text)::int as n from ${table} where id > 0`))[0]!.n

/** Inserts rows with ids below 0 until inserts of this form share commits. */
async function untilShared(server: TestServer, row: (id: number) => object = (id) => ({ id }), table = 'note') {
  let id = 0
  await until('inserts share connections', async () => {
    const answers = await Promise.all([1, 2, 3].map(async () => insert(server, row(--id), table)))
    for (const { status, text } of answers) if (status !== 200) throw new Error(text)
    const shared = `select count(distinct xmin::text) < count(*) as ok from ${table} where id < 0`
    return (await ask<{ ok: boolean }>(server, shared))[0]!.ok
  })
}
let slow = 0
/** Inserts rows of one form, which come while the one connection is busy. */
async function insertTogether(server: TestServer, given: readonly object[], table = 'note'): Promise<Answered[]> {
  slow -= 1000
  const first = insert(server, { ...given[0], id: slow }, table)
  await until('it waits', async () => {
    const waiting = `select pid from pg_stat_activity where wait_event = 'PgSleep' and application_name = 'rowhouse commits'
      and datname = current_database()`
    return (await ask(server, waiting)).length > 0
  })
  const answers = await insertAll(server, given, table)
  if ((await first).status !== 200) throw new Error((await first).text)
  return answers
}

const statuses = (answers: readonly Answered[]): number[] => answers.map(({ status }) => status)

t.test('quick inserts that come together are committed together, and each gets its own answer', async (t) => {
  const server = await start(t)
  await untilShared(server)
  const answers = await insertTogether(server, rows(1, 20))
  answers.forEach(({ status, body }, i) =>
    t.same({ status, body }, { status: 200, body: { affected_rows: 1, returning: [{ id: i + 1 }] } }),
  )
  t.same(await idsOf(server), ids(rows(1, 20)))
  t.equal(await transactionsOf(server), 1)
})

t.test('an answer comes when its row is committed', async (t) => {
  const server = await start(t)
  await untilShared(server)
  await Promise.all(
    rows(1, 40).map(async (row) => {
      t.equal((await insert(server, row)).status, 200)
      t.same(await ask(server, `select id from note where id = ${row.id}`), [row])
    }),
  )
})

t.test('one that is refused says why, and takes no other with it', async (t) => {
  const server = await start(t)
  await untilShared(server)
  await insertAll(server, [{ id: 7 }])
  const answers = await insertTogether(server, rows(1, 20))
  answers.forEach(({ status, body }, i) => {
    if (i + 1 === 7) t.match({ status, body }, { status: 400, body: { error: /Uniqueness violation/ } })
    else t.equal(status, 200)
  })
  t.same(await idsOf(server), ids(rows(1, 20)))
})

t.test('a user whose inserts are refused does not keep those of others from sharing', async (t) => {
  const server = await start(t)
  const permission = { columns: '*', check: {} }
  await server.must('create_insert_permission', { table: 'note', role: 'user', permission })
  const insertAs = (user: number, row: object) =>
    server.query(
      'insert',
      { table: 'note', objects: [row] },
      { role: 'user', variables: { 'x-service-user-id': String(user) } },
    )
  const batches = async (user: number, row: (i: number) => object) => {
    const all = await Promise.all(rows(1, 20).map(async ({ id }) => insertAs(user, row(id))))
    return new Set(statuses(all))
  }
  let id = 0
  const isShared = async (): Promise<boolean> => {
    const from = id
    t.same(await batches(2, () => ({ id: ++id })), new Set([200]))
    const shared = `select count(distinct xmin::text) < count(*) as ok from note where id > ${from}`
    return (await ask<{ ok: boolean }>(server, shared))[0]!.ok
  }
  await until('inserts share connections', isShared)

  for (let i = 0; i < 5; i++) t.same(await batches(1, () => ({ id: 1 })), new Set([400]))

  t.ok(await isShared(), 'at once')
})

t.test('what is refused and what is written is the same as one by one', async (t) => {
  const server = await start(t)
  await untilShared(server, (id) => ({ id, place: 1, positive: 1 }))
  let base = 0
  const row = fc.record({
    id: fc.integer({ min: 1, max: 99 }),
    place: fc.constantFrom(1, 1, 1, 2, 9),
    positive: fc.constantFrom(1, 2, 3, 4, 0),
  })
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(row, { selector: ({ id }) => id, maxLength: 24 }), async (wanted) => {
      base += 100
      const answers = await insertAll(
        server,
        wanted.map((each) => ({ ...each, id: base + each.id })),
      )
      const good = wanted.filter(({ place, positive }) => place !== 9 && positive > 0)
      t.same(
        statuses(answers),
        wanted.map((each) => (good.includes(each) ? 200 : 400)),
      )
      t.same(
        (await idsOf(server)).filter((id) => id >= base),
        ids(good.map(({ id }) => ({ id: base + id }))).toSorted((a, b) => a - b),
      )
    }),
    { numRuns: 25 },
  )
})

t.test('nobody waits behind one that waits for a lock', async (t) => {
  const server = await start(t, { pipelineMaxMs: patience(100), statementTimeoutMs: 600_000, lockTimeoutMs: 600_000 })
  await untilShared(server)
  const holder = new pg.Client({ connectionString: server.databaseUrl })
  await holder.connect()
  await holder.query('begin; insert into note values (5)')

  const asked = insertTogether(server, [...rows(10, 10), { id: 5 }, ...rows(20, 10)])
  await until('the others are there', async () => (await idsOf(server)).length === 20)
  await holder.query('rollback')
  await holder.end()
  t.same(new Set(statuses(await asked)), new Set([200]), 'and the one when the lock is gone')
  t.same(await idsOf(server), [5, ...ids(rows(10, 20))])
})

t.test('those that wait for each other are all inserted or refused', async (t) => {
  const server = await start(t, { sharedCommits: 2, pipelineMaxMs: patience(100) })
  await untilShared(server)
  for (let base = 0; base < 500; base += 100) {
    // Each id is asked for twice, in opposite orders.
    const once = rows(base + 1, 12)
    const answers = await insertAll(server, [...once, ...once.toReversed()])
    t.equal(answers.filter(({ status }) => status === 200).length, once.length)
    t.same(new Set(statuses(answers)), new Set([200, 400]))
  }
})

t.test('when connections break, what was confirmed is there, and what was not is there or not', async (t) => {
  const direct = await start(t)
  const proxy = await startProxy(t, direct.databaseUrl)
  const server = await testServer(t, { databaseUrl: proxy.url, config: { database: SHARED } })
  const unknown = { there: 0, lost: 0 }
  for (let round = 0; round < 20; round++) {
    await untilShared(server, (id) => ({ id: -1000 * (round + 1) + id }))
    const asked = rows(1 + 100 * round, 20)
    // Either before PostgreSQL has heard of all, or when it answers: then it has committed.
    if (round % 2 === 0) proxy.set({ kind: 'cut', afterBytes: 1, times: 1 })
    else setTimeout(() => proxy.killAll(), round / 4)
    const answers = await insertAll(server, asked)
    proxy.set({ kind: 'pass' })
    const there = new Set(await idsOf(direct))
    answers.forEach(({ status, body }, i) => {
      const { id } = asked[i] as { id: number }
      if (status === 200) t.ok(there.has(id), `${id} was confirmed`)
      else {
        t.match({ status, body }, { status: 503, body: { code: 'unavailable' } })
        unknown[there.has(id) ? 'there' : 'lost']++
      }
    })
  }
  t.ok(unknown.there > 0, 'answers were lost after the commit')
})

t.test('where somebody may tell, each request has a transaction', async (t) => {
  const server = await start(t)
  await untilShared(server)
  for (const table of ALONE) {
    for (let from = 1; from < 60; from += 20) await insertAll(server, rows(from, 20), table)
    t.equal(await transactionsOf(server, table), 60, table)
  }
  await server.must('run_sql', {
    sql: 'create trigger watch before insert on note for each row execute function nothing()',
  })
  await insertAll(server, rows(1, 60))
  t.equal(await transactionsOf(server), 60, 'a trigger that is new')
})

t.test('functions that change nothing, and those of extensions, make no difference', async (t) => {
  const server = await start(t)
  await server.must('run_sql', {
    sql: `create extension pgcrypto; alter table note enable row level security; create policy own on note using (place = 1);
      create function one() returns int language sql immutable as 'select 1';
      alter table note add column key uuid default gen_random_uuid(), add column one int default one(),
        add column secret text default gen_salt('md5'), add column at timestamptz default clock_timestamp(),
        add column number serial, add column chance float8 default random(), add column made timestamptz default now()`,
  })
  await untilShared(server)
  t.same(
    statuses(await insertTogether(server, rows(1, 20))),
    rows(1, 20).map(() => 200),
  )
  t.equal(await transactionsOf(server), 1)
})

t.test('an answer that is larger than allowed is told to the one who asked for it', async (t) => {
  const server = await start(t, { maxAnswerBytes: 4096 })
  await untilShared(server, (id) => ({ id, text: 'short' }))
  const texts = rows(1, 20).map(({ id }) => ({ id, text: id === 7 ? 'x'.repeat(10_000) : 'short' }))
  const answers = await insertTogether(server, texts)
  answers.forEach(({ status, body }, i) => {
    if (i + 1 === 7) t.match({ status, body }, { status: 400, body: { code: 'answer-too-large' } })
    else t.equal(status, 200)
  })
  t.equal(await transactionsOf(server), 1)
})

t.test('with 0 of them, each insert is a transaction', async (t) => {
  const server = await start(t, { sharedCommits: 0 })
  for (let from = 1; from < 100; from += 20) await insertAll(server, rows(from, 20))
  t.equal(await transactionsOf(server), 100)
})
