import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap, { type Test } from 'tap'
import { freshDatabase, rowsOf } from '../../kit/database.js'
import { startPooler, tellPooler } from '../../kit/pooler.js'
import { ADMIN_SECRET, testServer } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))

/** A database with settings of its own that a server does not want, and PgBouncer before it. */
async function pooled(t: Test, options: readonly string[] = []) {
  const database = await freshDatabase(t)
  const name = new URL(database.url).pathname.slice(1)
  await rowsOf(database.url, `alter database ${name} set timezone = 'Asia/Tokyo'`)
  await rowsOf(database.url, `alter database ${name} set datestyle = 'SQL, DMY'`)
  const pooler = await startPooler(database.url, options)
  t.teardown(() => pooler.stop())
  return { name, pooler: pooler.url, url: `${pooler.url}/${name}`, directUrl: database.url }
}

/** Every transaction of everybody has the same session. */
const ONE_SESSION = ['default_pool_size = 1', 'max_db_connections = 1']

tap.test('time limits, time zone and styles are those of a direct connection', async (t) => {
  const place = await pooled(t)
  const limits = { statementTimeoutMs: 61_000, lockTimeoutMs: 31_000 }
  const direct = await testServer(t, { databaseUrl: place.directUrl, config: { database: limits } })
  const { url, directUrl } = place
  const server = await testServer(t, { databaseUrl: directUrl, config: { database: { url, directUrl, ...limits } } })
  const sql = `select name, setting from pg_settings where context = 'user' and name <> 'application_name' order by name`
  const [ofPooler, ofDirect] = [await server.must('run_sql', { sql }), await direct.must('run_sql', { sql })]
  t.strictSame(ofPooler, ofDirect)
  const settings = Object.fromEntries(ofPooler.result)
  t.match(settings, { statement_timeout: '61000', lock_timeout: '31000', TimeZone: 'UTC', IntervalStyle: 'postgres' })

  await server.must('run_sql', { sql: 'create table event (id int primary key, at timestamptz)' })
  await server.must('track_table', 'event')
  const objects = [{ id: 1, at: '2026-03-04 10:00:00' }]
  const inserted = await server.must('insert', { table: 'event', objects, returning: ['at'] })
  t.strictSame(inserted.returning, [{ at: '2026-03-04T10:00:00+00:00' }])
  const rows = await rowsOf<{ at: Date }>(place.directUrl, 'select at from event')
  t.equal(rows[0]?.at.toISOString(), '2026-03-04T10:00:00.000Z')
})

tap.test('what run_sql sets for its session is gone for the next transaction', async (t) => {
  const { name, url, directUrl } = await pooled(t, ONE_SESSION)
  const server = await testServer(t, {
    databaseUrl: directUrl,
    config: { database: { url, directUrl, statementTimeoutMs: 61_000 } },
  })

  await server.must('run_sql', {
    sql: `set timezone = 'Asia/Tokyo'; set statement_timeout = '1h'; set search_path = 'pg_catalog'; create role nobody_${name};
      create temp table left_over (); prepare left_over as select 1; listen left_over; select pg_advisory_lock(1);
      set role nobody_${name}`,
  })
  const { result } = await server.must('run_sql', {
    sql: `select current_setting('timezone'), current_setting('statement_timeout'), current_setting('search_path'),
      current_user = session_user, to_regclass('left_over'),
      (select count(*) from pg_prepared_statements), (select count(*) from pg_listening_channels()),
      (select count(*) from pg_locks where locktype = 'advisory' and classid = 0 and objid = 1)`,
  })
  t.strictSame(result[1], ['UTC', '61s', '"$user", public', 't', 'NULL', '0', '0', '0'])
  await server.must('run_sql', { sql: `drop role nobody_${name}` })

  await server.must('run_sql', {
    sql: `create table late (id int); create function late() returns trigger language plpgsql as
        $$ begin perform set_config('statement_timeout', '77', false); return null; end $$;
      create constraint trigger late after insert on late initially deferred for each row execute function late();
      insert into late values (1)`,
  })
  const { result: after } = await server.must('run_sql', { sql: `select current_setting('statement_timeout')` })
  t.strictSame(after[1], ['61s'], 'nor what a trigger sets that waits for the end of the transaction')

  const failed = await server.query('run_sql', {
    sql: 'select pg_advisory_lock(2); prepare left_over as select 1; select 1 / 0',
  })
  t.equal(failed.status, 400)
  const { result: left } = await server.must('run_sql', {
    sql: `select (select count(*) from pg_prepared_statements), (select count(*) from pg_locks where locktype = 'advisory' and objid = 2)`,
  })
  t.strictSame(left[1], ['0', '0'], 'nor is anything left of what failed')
})

tap.test('what nobody waits for any more is cancelled', async (t) => {
  const place = await pooled(t)
  const server = await testServer(t, {
    databaseUrl: place.directUrl,
    config: { database: { url: place.url, directUrl: place.directUrl, roleTimeoutMs: { user: 500 } } },
  })
  await server.must('run_sql', {
    sql: `create view slow as select 1 as id, pg_sleep(5000)::text as slept; create table rows as select generate_series(1, 10) as id`,
  })
  for (const table of ['slow', 'rows']) {
    await server.must('track_table', table)
    await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: {} } })
  }
  const isRunning = async (): Promise<boolean> =>
    (
      await rowsOf(
        place.directUrl,
        `select from pg_stat_activity where state = 'active' and query like '%slow%' and pid <> pg_backend_pid()`,
      )
    ).length > 0

  const whole = await server.query('select', { table: 'slow', columns: ['slept'], limit: 5 }, { role: 'user' })
  t.equal(whole.status, 504)
  await until('PostgreSQL has ended it', async () => !(await isRunning()))
  const streamed = await server.query('select', { table: 'slow', columns: ['slept'] }, { role: 'user' })
  t.equal(streamed.status, 504)
  await until('PostgreSQL has ended it', async () => !(await isRunning()))
  t.equal((await server.query('select', { table: 'rows', columns: ['id'] }, { role: 'user' })).body.length, 10)
})

tap.test('a stream may take longer than a statement', async (t) => {
  const place = await pooled(t, ONE_SESSION)
  const server = await testServer(t, {
    databaseUrl: place.directUrl,
    config: { database: { url: place.url, directUrl: place.directUrl, statementTimeoutMs: 2000 } },
  })
  await server.must('run_sql', {
    sql: `create function slowly() returns setof int language plpgsql as
        $$ begin for i in 1..4000 loop return next i; end loop; end $$;
      create view slow as select i as id, case when i % 1000 = 0 then pg_sleep(1)::text else '' end as slept, repeat('x', 1000) as text
        from generate_series(1, 4000) i`,
  })
  await server.must('track_table', 'slow')
  const { status, body } = await server.query('select', { table: 'slow', columns: ['id', 'slept', 'text'] })
  t.equal(status, 200)
  t.equal(body.length, 4000)
  const { result } = await server.must('run_sql', { sql: `select current_setting('statement_timeout')` })
  t.strictSame(result[1], ['2s'])
})

tap.test('migrate sets the defaults, doctor and start prove that sessions of the pooler have them', async (t) => {
  const place = await pooled(t, [...ONE_SESSION, 'server_idle_timeout = 600'])
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-pooler-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const run = (...args: readonly string[]) =>
    rowhouse(folder, args, { DATABASE_URL: place.url, ROWHOUSE_DATABASE__DIRECT_URL: place.directUrl })
  // The pooler has a session from before.
  await rowsOf(place.url, 'select 1')

  t.match(await run('doctor'), { code: 1, out: /BAD +connection pooler: .*lock_timeout is 0 instead of 10000/ })
  const dry = await run('upgrade', '--dry-run')
  t.match(dry, { code: 0, out: /would set timezone = UTC for role \w+ in database \w+/ })
  t.match(dry, { out: /would run core/ })

  const migrated = await run('upgrade')
  t.match(migrated, { code: 1, out: /migrating core/, err: /timezone is Asia\/Tokyo instead of UTC.*RECONNECT/ })
  t.match(await run('start', '--port', '0'), { code: 1, err: /connection pooler.*RECONNECT/ })

  await tellPooler(place.pooler, `reconnect ${place.name}`)
  t.match(await run('upgrade'), { code: 0, out: /svc_catalog is up to date/ })
  t.match(await run('doctor'), { code: 0, out: /ok +connection pooler/ })

  const url = `/${place.name}`
  t.match(
    await rowhouse(folder, ['doctor'], { ROWHOUSE_DATABASE__DIRECT_URL: url }),
    { code: 1, err: /\$\.database\.directUrl.*database\.url/ },
    'a direct URL alone is a mistake',
  )
})

function rowhouse(folder: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const all = { PATH: process.env['PATH'], ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET, ...env }
  return new Promise<{ code: number; out: string; err: string }>((resolve) => {
    const child = execFile(process.execPath, [CLI, ...args], { cwd: folder, env: all }, (_, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err }),
    )
  })
}
