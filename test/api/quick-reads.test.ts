import pg from 'pg'
import t from 'tap'
import { rowsOf } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { startProxy } from '../kit/proxy.js'
import { type Answered, testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

/** Whatever this machine is busy with. */
const SHARED = { poolSize: 2, pipelines: 2, pipelineMaxMs: 60_000 }
const NAMED = 'rowhouse pipeline'

/** A server on a table of numbers, whose connections can be told apart by their names. */
async function start(t: Parameters<typeof testServer>[0], config: object = {}): Promise<TestServer> {
  const server = await testServer(t, { config: { database: { ...SHARED, ...config } } })
  await server.must('run_sql', {
    sql: `create table n (id int primary key, note text);
      insert into n select i, 'note ' || i from generate_series(1, 100) i;
      create view hard as select id, note, 100 / (id - 50) as share from n`,
  })
  await server.must('track_table', 'n')
  await server.must('track_table', 'hard')
  return server
}

const byId = (server: TestServer, id: number, table = 'n', columns = ['id', 'note']) =>
  server.query('select', { table, columns, where: { id }, limit: 1 })

/** Asks until reads of this form go over shared connections. */
async function untilShared(server: TestServer, table = 'n', columns = ['id', 'note']): Promise<void> {
  await until('its reads share connections', async () => {
    await byId(server, 1, table, columns)
    return (await connectionsOf(server)) > 0 && (await sharedStatements(server)) > 0
  })
}

const connectionsOf = (server: TestServer): Promise<number> =>
  count(
    server,
    `select count(*)::int as n from pg_stat_activity where application_name = '${NAMED}'
    and datname = current_database()`,
  )
/** Backends on which something was asked. */
const sharedStatements = (server: TestServer): Promise<number> =>
  count(
    server,
    `select count(*)::int as n from pg_stat_activity where application_name = '${NAMED}'
    and datname = current_database() and query <> ''`,
  )

const count = async (server: TestServer, sql: string): Promise<number> => (await ask<{ n: number }>(server, sql))[0]!.n

const ask = <Row extends object>({ databaseUrl }: TestServer, sql: string): Promise<Row[]> => rowsOf(databaseUrl, sql)
const many = (server: TestServer, ids: readonly number[], table = 'n', columns?: string[]): Promise<Answered[]> =>
  Promise.all(ids.map((id) => byId(server, id, table, columns)))
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

t.test('reads that have proven to be quick share connections, and each gets its own answer', async (t) => {
  const server = await start(t)
  await untilShared(server)
  for (let round = 0; round < 3; round++) {
    const answers = await many(server, ids(1, 100))
    answers.forEach(({ status, body }, i) =>
      t.same({ status, body }, { status: 200, body: [{ id: i + 1, note: `note ${i + 1}` }] }),
    )
  }
  t.ok((await connectionsOf(server)) <= 2 * PROCESSES, 'no more than are configured')
})

t.test('one that fails says why, and takes no other with it', async (t) => {
  const server = await start(t)
  await untilShared(server, 'hard', ['id', 'share'])
  const answers = await many(server, ids(41, 60), 'hard', ['id', 'share'])
  answers.forEach(({ status, body }, i) => {
    const id = i + 41
    if (id === 50) t.match({ status, body }, { status: 400, body: { code: 'postgres-error' } }, 'a division by zero')
    else t.same(body, [{ id, share: Math.trunc(100 / (id - 50)) }])
  })
})

t.test('connections that break while reads are under way lose none', async (t) => {
  const direct = await start(t)
  const proxy = await startProxy(t, direct.databaseUrl)
  const server = await testServer(t, { databaseUrl: proxy.url, config: { database: SHARED } })
  await untilShared(server)
  for (let round = 0; round < 5; round++) {
    const asked = many(server, ids(1, 40))
    setTimeout(() => proxy.killAll(), round)
    const answers = await asked
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
    t.same(
      answers.map(({ body }) => body[0]?.id),
      ids(1, 40),
    )
  }
})

t.test('nobody waits behind a read that was quick before and is not with this value', async (t) => {
  const server = await start(t, { poolSize: 10, pipelineMaxMs: patience(100) })
  await server.must('run_sql', {
    sql: `create function waits(id int) returns text language plpgsql stable as $$
        begin if id = 50 then perform pg_advisory_xact_lock(1); end if; return 'x'; end $$;
      create view sometimes as select id, waits(id) as note from n`,
  })
  await server.must('track_table', 'sometimes')
  await untilShared(server)
  for (let i = 0; i < 60; i++) await byId(server, 1, 'sometimes')
  const holder = new pg.Client({ connectionString: server.databaseUrl })
  await holder.connect()
  await holder.query('select pg_advisory_lock(1)')

  const slow = many(server, [50, 50, 50, 50], 'sometimes')
  await until('all wait for the lock', async () => (await locked(server)) > 0)
  for (let round = 0; round < 3; round++) {
    for (const { status, body } of await many(server, ids(1, 20))) t.match({ status, body }, { status: 200 })
  }
  t.ok((await locked(server)) > 0, 'it is still held')
  await holder.end()
  t.same(new Set((await slow).map(({ status, text }) => `${status} ${text}`)), new Set(['200 [{"id":50,"note":"x"}]']))
})

const locked = (server: TestServer): Promise<number> =>
  count(
    server,
    `select count(*)::int as n from pg_stat_activity where wait_event = 'advisory' and datname = current_database()`,
  )

t.test('a column whose type changes is read as what it is', async (t) => {
  const server = await start(t)
  await untilShared(server)
  await server.must('run_sql', {
    cascade: true,
    sql: 'alter table n add column more int; drop view hard; alter table n alter column id type bigint',
  })
  t.same((await byId(server, 3)).body, [{ id: 3, note: 'note 3' }])
  await ask(server, 'alter table n alter column note type varchar(50)')
  for (const answer of await many(server, ids(1, 20))) t.equal(answer.status, 200)
})

t.test('an answer that is larger than allowed is refused, also where it would share a connection', async (t) => {
  const server = await start(t, { maxAnswerBytes: 4096 })
  await untilShared(server)
  await server.must('run_sql', { sql: `update n set note = repeat('x', 10000) where id = 7` })
  const answers = await many(server, ids(1, 20))
  answers.forEach(({ status, body }, i) => {
    if (i + 1 === 7) t.match({ status, body }, { status: 400, body: { code: 'answer-too-large' } })
    else t.equal(status, 200)
  })
})

t.test('with 0 of them, no connection is shared', async (t) => {
  const server = await start(t, { pipelines: 0 })
  for (let i = 0; i < 30; i++) await byId(server, 1)
  t.equal(await connectionsOf(server), 0)
})
