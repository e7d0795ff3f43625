import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

const USER = { role: 'user', variables: { 'x-service-user-id': '1' } }
const SLOW = { table: 'slow', columns: ['id'], where: { word: 'marker-of-a-value' } }

/** Rows of `slow` take as long to read as `pause` says. */
async function start(t: Test): Promise<TestServer> {
  const server = await testServer(t, {
    notify: true,
    threads: 1,
    config: {
      log: { level: 'warn' },
      database: { slowQueryMs: 200, pipelineMaxMs: 60_000 },
      providers: { email: { default: 'memory', memory: { keep: 10 } } },
    },
  })
  await server.must('run_sql', {
    sql: `create table pause (seconds float8); insert into pause values (0);
      create function paused() returns bool stable language plpgsql as $$
        begin perform pg_sleep((select seconds from pause)); return true; end $$;
      create table word (id int primary key, word text); insert into word values (1, 'a'), (2, 'b');
      create view slow as select id, word from word where paused()`,
  })
  await server.must('track_table', 'slow')
  await server.must('track_table', 'word')
  await server.must('create_select_permission', {
    table: 'slow',
    role: 'user',
    permission: { columns: ['id', 'word'], filter: { id: { $gt: 1 } } },
  })
  await server.must('create_query_template', {
    name: 'by_word',
    template: { type: 'select', args: { ...SLOW, where: { word: '{{word}}' } } },
  })
  return server
}

const pause = (server: TestServer, seconds: number) =>
  server.must('run_sql', { sql: 'update pause set seconds = $1', params: [seconds] })

t.test('an admin sees what the server does', async (t) => {
  const server = await start(t)

  await t.test('server_status: versions, pools, connected servers', async (t) => {
    const status = await server.must('server_status', {})

    t.match(status, {
      server: /^[0-9a-f-]{36}$/,
      version: /^\d+\.\d+\.\d+/,
      node: process.version,
      pid: PROCESSES === 1 ? process.pid : Number,
      started_at: /^\d{4}-\d\d-\d\dT/,
      plugins: ['query', 'template', 'graphql', 'notify'],
      providers: [{ kind: 'email', name: 'memory', provider: 'memory', default: true }],
      metadata: { version: /^\d+$/, listening: true },
      compile: { busy: 0, waiting: 0 },
      database: { standby: false, version: /^\d+/, migrations: { core: /^\d{3}-/, notify: /^\d{3}-/ } },
    })
    t.equal(status.database.metadata_version, status.metadata.version)
    const main = status.pools.find(({ name }: { name: string }) => name === 'main')
    t.match(main, { max: 10 * PROCESSES, idle: Number, busy: Number, waiting: 0 })
    t.match(status.database.servers, [{ own: true, servers: PROCESSES, since: /^\d{4}-\d\d-\d\dT/ }])
    const [{ connections }] = status.database.servers
    t.ok(connections >= 2, `${connections} connections`)
  })

  await t.test('migration_status: what ran, what is pending, and a folder that is not there', async (t) => {
    const dir = t.testdir({
      '20260101000000_a.up.sql': 'select 1',
      '20260102000000_b.up.sql': 'select 2',
      '20260103000000_c.up.sql': 'select 3',
    })
    await server.must('run_sql', {
      sql: `insert into svc_catalog.svc_migration (owner, id, checksum) values
        ('sql files', '20260101000000_a', '${createHash('sha256').update('select 1').digest('hex')}'),
        ('sql files', '20260102000000_b', 'other'), ('sql files', '20251231000000_z', 'gone')`,
    })
    const other = await testServer(t, { databaseUrl: server.databaseUrl, config: { migrationsDir: dir } })
    t.same(await other.must('migration_status', {}), {
      dir,
      migrations: [
        { id: '20251231000000_z', state: 'missing' },
        { id: '20260101000000_a', state: 'applied' },
        { id: '20260102000000_b', state: 'changed' },
        { id: '20260103000000_c', state: 'pending' },
      ],
    })
    const { problem, migrations } = await server.must('migration_status', {})
    t.match(problem, /cannot read the folder/)
    t.equal(migrations.length, 3)
    t.ok(migrations.every(({ state }: { state: string }) => state === 'applied'))
  })

  await t.test('slow_queries: forms with their times, without values', async (t) => {
    for (let i = 0; i < 20; i++) await server.must('select', { table: 'word', columns: ['id'], limit: 1 })
    await pause(server, 0.3)
    await server.must('select', SLOW)
    await server.must('select', { ...SLOW, where: { word: 'another marker' } })
    await server.query('select', SLOW, USER)
    await server.fetch('/v1/template/by_word?word=third-marker', {}, USER)
    await server.must('select', { ...SLOW, limit: 100_000 })
    const graphql = { query: 'query Slow { slow { word } }', operationName: 'Slow' }
    await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(graphql) })

    const { threshold_ms, queries: all } = await server.must('slow_queries', {})
    const isSlow = ({ sql }: { sql: string }) => sql.includes('"slow"')
    const queries = all.filter(isSlow)
    const fast = all.find((each: { sql: string }) => !isSlow(each))

    t.equal(threshold_ms, 200)
    t.ok(!fast || fast.count < 20, 'fast runs are not listed')
    t.equal(queries.length, 4, 'one for each statement and role')
    const byAdmin = queries.find(({ role, count }: { role: string; count: number }) => role === 'admin' && count > 1)
    t.match(byAdmin, { kind: 'read', planner: 'query', count: 2, sql: /from "public"."slow".*\$1/s, last_seen: String })
    t.ok(byAdmin.max_ms >= 290 && byAdmin.mean_ms <= byAdmin.max_ms && byAdmin.total_ms >= 580, 'times')
    t.match(
      queries.find(({ role }: { role: string }) => role === 'user'),
      { count: 2, name: 'by_word' },
    )
    t.match(
      queries.find(({ planner }: { planner: string }) => planner === 'graphql'),
      { count: 1, name: 'Slow', kind: 'roots' },
    )
    t.notMatch(JSON.stringify(queries), /marker/)

    const { status, body } = await server.query('slow_queries', { plan: byAdmin.id })
    const { database } = await server.must('server_status', {})
    if (parseInt(database.version) < 16) t.match(body, { path: '$.args.plan', code: 'not-supported' })
    else {
      t.match({ status, body }, { status: 200, body: { id: byAdmin.id, sql: byAdmin.sql } })
      t.match(body.plan.join('\n'), /Scan on word.*\$1/s)
    }
  })

  await t.test('a statement that fails after a long time is slow, too', async (t) => {
    await pause(server, 0.3)
    await server.must('run_sql', {
      sql: `create view failing as select id, 1 / (id - id) as share from word where paused()`,
    })
    await server.must('track_table', 'failing')
    t.equal((await server.query('select', { table: 'failing', columns: ['share'], limit: 1 })).status, 400)

    const { queries } = await server.must('slow_queries', {})

    t.ok(queries.some(({ sql }: { sql: string }) => sql.includes('"failing"')))
  })

  await t.test(
    'a slow statement on a shared connection is listed',
    { skip: process.env['ROWHOUSE_TEST_FAST'] === 'false' },
    async (t) => {
      const shared = { table: 'slow', columns: ['word'], limit: 1 }
      await pause(server, 0)
      await until('its reads share a connection', async () => {
        await server.must('select', shared)
        const rows = await rowsOf(
          server.databaseUrl,
          `select 1 from pg_stat_activity where application_name = 'rowhouse pipeline'
         and datname = current_database() and query like '%"slow"%'`,
        )
        return rows.length > 0
      })
      await pause(server, 0.3)
      await server.must('select', shared)

      const { queries } = await server.must('slow_queries', {})

      t.match(
        queries.find(
          ({ planner, sql }: Record<string, string>) => planner === 'query' && /select t0\."word"/.test(sql!),
        ),
        { role: 'admin', kind: 'read', planner: 'query' },
      )
    },
  )

  await t.test('a plan needs a slow query of this server', async (t) => {
    t.match(await server.query('slow_queries', { plan: 'admin:none' }), {
      status: 400,
      body: { path: '$.args.plan', code: 'unexpected-payload', error: /no slow query "admin:none"/ },
    })
    t.match((await server.query('slow_queries', { plan: 1 })).body, { path: '$.args.plan', code: 'parse-failed' })
  })

  await t.test('log_lines: the last lines, from a number and a level on', async (t) => {
    await server.bare('/v1/query', { headers: { 'x-service-admin-secret': 'wrong' } })

    const { last, lines } = await server.must('log_lines', {})

    const { number } = lines.at(-1)
    if (PROCESSES === 1) t.equal(number, last)
    else t.ok(number < last, 'another process may write a line with a number between them')
    t.match(lines.find(({ line }: { line: { msg: string } }) => line.msg === 'slow query').line, {
      level: 'warn',
      query: /^admin:/,
      ms: Number,
      role: 'admin',
      kind: 'read',
      planner: 'query',
      shape: /^[\w-]{22}$/,
      plan: 'compiled',
      lane: 'stream',
      requestId: String,
    })
    const slow = lines.filter(({ line }: { line: { msg: string } }) => line.msg === 'slow query')
    const named = slow.find(({ line }: { line: { name?: string } }) => line.name === 'by_word')
    t.match(
      named.line,
      { role: 'user', plan: PROCESSES === 1 ? 'cached' : /^(cached|compiled)$/, shape: slow[0].line.shape },
      'one shape for all roles',
    )
    t.notMatch(JSON.stringify(lines), /marker/)
    t.same((await server.must('log_lines', { after: last })).lines, [])
    t.equal((await server.must('log_lines', { after: number - 1 })).lines.length, 1)
    t.equal((await server.must('log_lines', { after: 2 * last })).lines.length, lines.length, 'from the future')
    t.same((await server.must('log_lines', { level: 'error' })).lines, [])
    for (const args of [{ after: -1 }, { after: '1' }, { level: 'loud' }, { more: 1 }]) {
      t.match(await server.query('log_lines', args), { status: 400, body: { path: /^\$\.args/ } })
    }
  })

  await t.test('other roles get none of it', async (t) => {
    for (const type of ['server_status', 'migration_status', 'slow_queries', 'log_lines']) {
      t.match(await server.query(type, {}, USER), { status: 400, body: { code: 'access-denied' } })
    }
  })

  await t.test('/metrics has what a plot needs', async (t) => {
    // Of mode sync, so that no worker takes it for a minute.
    await rowsOf(
      server.databaseUrl,
      `insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text, mode) values ('email', 'a@b.c', 'd@e.f', 's', 't', 'sync')`,
    )
    await rowsOf(server.databaseUrl, `update svc_catalog.svc_outbox set queued_at = now() - interval '90 seconds'`)

    const { text } = await server.fetch('/metrics')

    for (const line of [
      /^rowhouse_http_request_duration_seconds_count\{.*status="200",plugin="query"/m,
      /^rowhouse_database_connections\{pool="main",state="waiting"\} 0/m,
      /^rowhouse_compile_tasks\{state="busy"\} 0/m,
      /^rowhouse_compile_tasks\{state="waiting"\} 0/m,
      /^nodejs_eventloop_lag_p99_seconds /m,
      /^nodejs_heap_size_used_bytes /m,
      /^process_resident_memory_bytes /m,
      /^rowhouse_metadata_version \d+/m,
      /^rowhouse_metadata_listening 1/m,
      /^rowhouse_build_info\{version="[\d.]+"\} 1/m,
      /^rowhouse_notify_outbox_messages\{kind="email",state="queued"\} 1$/m,
      /^rowhouse_notify_outbox_messages\{kind="sms",state="failed"\} 0/m,
      /^rowhouse_notify_outbox_oldest_seconds\{kind="email"\} 9\d/m,
    ]) {
      t.match(text, line)
    }
  })
})
