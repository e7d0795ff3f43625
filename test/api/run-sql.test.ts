import pg from 'pg'
import t from 'tap'
import { rowsOf } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

t.test('read_only reads, and writes nothing however it is asked', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table note (id int); insert into note values (1)' })
  const read = (sql: string) => server.query('run_sql', { sql, read_only: true })

  t.match(await read('select id from note'), { status: 200, body: { result: [['id'], ['1']] } })
  for (const sql of [
    'insert into note values (2)',
    'drop table note',
    'set transaction read write; insert into note values (2)',
    'reset transaction_read_only; insert into note values (2)',
    `do $$ begin set transaction read write; insert into note values (2); end $$`,
    `select set_config('transaction_read_only', 'off', true); insert into note values (2)`,
  ]) {
    t.match(await read(sql), { status: 400, body: { code: 'postgres-error' } }, sql)
  }
  t.match(await read('commit'), { status: 400, body: { code: 'not-supported' } })
  t.same(await rowsOf(server.databaseUrl, 'select id from note'), [{ id: 1 }])
})

t.test(
  'no_transaction runs what PostgreSQL refuses inside of a transaction, and nothing that metadata needs',
  async (t) => {
    const server = await testServer(t)
    await server.must('run_sql', { sql: 'create table note (id int)' })
    await server.must('track_table', 'note')
    const alone = (sql: string, more = {}) => server.query('run_sql', { sql, no_transaction: true, ...more })

    t.match(await server.query('run_sql', { sql: 'vacuum note' }), {
      status: 400,
      body: { error: /cannot run inside a transaction block/ },
    })
    t.match(await alone('vacuum note'), { status: 200, body: { result_type: 'CommandOk' } })
    t.match(await alone('create unique index concurrently note_id on note (id)'), { status: 200 })
    const [index] = await rowsOf(
      server.databaseUrl,
      `select indisvalid from pg_index where indexrelid = 'note_id'::regclass`,
    )
    t.same(index, { indisvalid: true })
    t.match(
      await server.query('insert', {
        table: 'note',
        objects: [{ id: 1 }],
        on_conflict: { action: 'ignore', constraint_on: 'id' },
      }),
      { status: 200 },
      'the server knows the new index',
    )

    t.match(await alone('drop table note'), {
      status: 400,
      body: { code: 'not-supported', error: /no_transaction is for/ },
    })
    t.match(await alone('drop table note', { cascade: true }), { status: 400 })
    t.match(await alone('vacuum note; vacuum note'), {
      status: 400,
      body: { code: 'not-supported', error: /single statement/ },
    })
    t.match(await alone('vacuum note', { read_only: true }), { status: 400, body: { path: '$.args.no_transaction' } })
    t.match(await alone('begin'), { status: 400, body: { code: 'not-supported' } })
    t.match(await alone('vacuum nope'), { status: 400, body: { error: 'relation "nope" does not exist' } })
    const inside = await server.query('bulk', [{ type: 'run_sql', args: { sql: 'vacuum note', no_transaction: true } }])
    t.match(inside, { status: 400, body: { code: 'not-supported', path: '$.args[0].args.no_transaction' } })
    await until('no connection is left', async () => (await connections(server.databaseUrl)) === 0)
  },
)

t.test('SQL may take longer than a statement, and when it takes too long it ends in the database too', async (t) => {
  const server = await testServer(t, { config: { database: { statementTimeoutMs: patience(500) } } })
  const sleep = (ms: number) => `select pg_sleep(${ms / 1000}), 'a long one'`
  const running = () =>
    rowsOf(
      server.databaseUrl,
      `select state from pg_stat_activity where pid <> pg_backend_pid() and query like '%a long one%' and state = 'active'`,
    )

  t.match(await server.query('run_sql', { sql: sleep(patience(1500)) }), { status: 504, body: { code: 'timeout' } })
  const long = await server.query('run_sql', { sql: sleep(patience(1500)), timeout_ms: patience(60_000) })
  t.match(long, { status: 200, body: { result_type: 'TuplesOk' } })
  for (const more of [{}, { no_transaction: true, check_metadata_consistency: false }, { read_only: true }]) {
    const late = await server.query('run_sql', { sql: sleep(patience(600_000)), timeout_ms: 200, ...more })
    t.match(late, { status: 504, body: { code: 'timeout', error: 'the SQL took longer than 200 ms' } })
    // PostgreSQL shows it a moment longer.
    await until('nothing is left running', async () => (await running()).length === 0)
  }
  const both = `${sleep(150)}; ${sleep(patience(600_000))}`
  t.match(await server.query('run_sql', { sql: both, timeout_ms: 300 }), { status: 504 }, 'all statements together')
  await until('no connection is left', async () => (await connections(server.databaseUrl)) === 0)
  for (const timeout_ms of [0, -1, 86_400_001, 1.5, '5']) {
    t.match(await server.query('run_sql', { sql: 'select 1', timeout_ms }), {
      status: 400,
      body: { path: '$.args.timeout_ms' },
    })
  }
})

t.test('SQL on connections of its own leaves the other connections of the database to others', async (t) => {
  const database = { poolWaitMs: patience(1000), lockTimeoutMs: patience(60_000) }
  const server = await testServer(t, { config: { database } })
  const holder = new pg.Client({ connectionString: server.databaseUrl })
  await holder.connect()
  await holder.query('select pg_advisory_lock(1)')
  const refused: string[] = []
  const ask = async (i: number) => {
    const more = i % 2 === 0 ? { read_only: true } : { no_transaction: true, check_metadata_consistency: false }
    const args = { sql: 'select pg_advisory_lock_shared(1)', timeout_ms: patience(60_000), ...more }
    const { status, text } = await server.query('run_sql', args)
    if (status !== 200) refused.push(`${status} ${text}`)
    return status
  }

  const asked = Promise.all(Array.from({ length: 4 * PROCESSES + 2 }, (_, i) => ask(i)))
  await until('two are refused', async () => refused.length >= 2)
  await holder.end()

  const statuses = await asked
  t.same([...new Set(statuses)].sort(), [200, 503])
  // Several processes get different numbers of calls.
  if (PROCESSES === 1) t.equal(statuses.filter((status) => status === 200).length, 4)
  t.match(refused[0], /4 calls of run_sql with timeout_ms or no_transaction are running/)
})

t.test('members of a bulk do without the prepared statements that it has thrown away', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table note (id int)' })
  await server.must('track_table', 'note')
  const select = { type: 'select', args: { table: 'note', columns: ['id'] } }
  const throwAway = { type: 'run_sql', args: { sql: 'deallocate all' } }

  const answer = await server.query('bulk', [...Array<object>(5).fill(select), throwAway, select])

  t.match(answer, { status: 200, body: { length: 7 } })
})

async function connections(url: string): Promise<number> {
  const sql = `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'rowhouse run_sql'`
  for (let tries = 0; ; tries++) {
    const [{ n } = { n: NaN }] = await rowsOf<{ n: number }>(url, sql)
    if (n === 0 || tries > 50) return n
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

t.test('an error of SQL in a bulk names its member, at any depth', async (t) => {
  const server = await testServer(t, { config: { database: { statementTimeoutMs: patience(1000) } } })
  const sql = (text: string) => ({ type: 'run_sql', args: { sql: text } })

  t.match(await server.query('bulk', [sql('create table kept (id int)'), sql('select * from nope')]), {
    status: 400,
    body: { path: '$.args[1]', error: 'relation "nope" does not exist', code: 'postgres-error' },
  })
  t.match(await server.query('bulk', [sql('select 1'), { type: 'bulk', args: [sql('select 1'), sql('select 1/0')] }]), {
    status: 400,
    body: { path: '$.args[1].args[1]', error: 'division by zero' },
  })
  t.match(await server.query('bulk', [sql('select 1'), sql('select pg_sleep(60)')]), {
    status: 504,
    body: { path: '$.args[1]', code: 'timeout' },
  })
  t.match(await server.query('run_sql', { sql: 'select * from kept' }), { status: 400 }, 'all of it was rolled back')
})
