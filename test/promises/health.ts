import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { track } from '../kit/metadata-requests.js'
import { area, type Case, query, refused } from '../kit/promises.js'
import { testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

/** What an admin sees of a running server. */
const PROMISES = {
  'health.status': 'server_status has versions, plugins, providers, pools, the database and its servers',
  'health.migrations': 'migration_status has the state of each SQL file, and why the folder cannot be read',
  'health.slow': 'slow_queries has the statements that took longer than slowQueryMs, by form and role, without values',
  'health.fast': 'and none that are faster',
  'health.shared': 'a slow statement on a shared connection is listed, too',
  'health.plan': 'a slow query has a plan for any values',
  'health.log': 'log_lines has the last lines, from a number and a level on',
  'health.slow-line': 'a slow statement leaves a line without its SQL and values',
  'health.slow-request':
    'the line names the request, its route, and the tables and functions that it asked for, whatever the API and the connection',
  'health.admin-only': 'all of this is for admin only',
} as const

const SLOW = { table: 'slow', columns: ['id'], where: { word: 'marker-of-a-value' } }

const slowOnes = async (server: TestServer) =>
  (await server.must('slow_queries', {})).queries.filter(({ sql }: { sql: string }) => sql.includes('"slow"'))

/** Returns what the log says of the slow statement of a request. */
const slowLine = async (server: TestServer, requestId: string) => {
  const { lines } = await server.must('log_lines', { level: 'warn' })
  return lines
    .map(({ line }: { line: Record<string, unknown> }) => line)
    .find((line: Record<string, unknown>) => line['msg'] === 'slow query' && line['requestId'] === requestId)
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'health.status': async (t, server) => {
    const status = await server.must('server_status', {})
    t.match(status, {
      server: /^[0-9a-f-]{36}$/,
      version: /^\d+\.\d+\.\d+/,
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      pid: PROCESSES === 1 ? process.pid : Number,
      started_at: /^\d{4}-\d\d-\d\dT/,
      plugins: ['query', 'template', 'graphql', 'sql', 'notify'],
      providers: [{ kind: 'email', name: 'memory', provider: 'memory', default: true }],
      metadata: { version: /^\d+$/, listening: true },
      compile: { busy: 0, waiting: 0 },
      database: { standby: false, version: /^\d+/, migrations: { core: /^\d{3}-/, notify: /^\d{3}-/ } },
    })
    t.equal(status.database.metadata_version, status.metadata.version)
    t.match(
      status.pools.find(({ name }: { name: string }) => name === 'main'),
      { max: 10 * PROCESSES, idle: Number, busy: Number, waiting: 0 },
    )
    t.match(status.database.servers, [{ own: true, servers: PROCESSES, since: /^\d{4}-\d\d-\d\dT/ }])
    const [{ connections }] = status.database.servers
    t.ok(connections >= 2, `${connections} connections`)
  },
  'health.migrations': async (t, server) => {
    const dir = t.testdir({
      '20260101000000_a.up.sql': 'select 1',
      '20260102000000_b.up.sql': 'select 2',
      '20260103000000_c.up.sql': 'select 3',
    })
    await server.sql(`insert into svc_catalog.svc_migration (owner, id, checksum) values
        ('sql files', '20260101000000_a', '${createHash('sha256').update('select 1').digest('hex')}'),
        ('sql files', '20260102000000_b', 'other'), ('sql files', '20251231000000_z', 'gone')`)
    const other = await testServer(t, { databaseUrl: server.databaseUrl, config: { plugins: { sql: { dir } } } })
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
    t.same(
      migrations.map(({ state }: { state: string }) => state),
      ['applied', 'applied', 'applied'],
    )
  },
  'health.slow': async (t, server) => {
    await server.must('select', SLOW)
    await server.must('select', { ...SLOW, where: { word: 'another marker' } })
    await server.query('select', SLOW, { role: 'user' })
    await server.fetch('/v1/template/by_word?word=third-marker', {}, { role: 'user' })
    await server.must('select', { ...SLOW, limit: 100_000 })
    const graphql = { query: 'query Slow { slow { word } }', operationName: 'Slow' }
    await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(graphql) })
    t.equal((await server.query('select', { table: 'failing', columns: ['share'], limit: 1 })).status, 400)
    const { threshold_ms: threshold, queries } = await server.must('slow_queries', {})
    const found = await slowOnes(server)

    t.equal(threshold, 40)
    t.equal(found.length, 4, 'one for each statement and role')
    const byAdmin = found.find(({ role, count }: { role: string; count: number }) => role === 'admin' && count > 1)
    t.match(byAdmin, {
      kind: 'read',
      planner: 'query',
      count: 2,
      sql: /from "public"."slow".*\$1/s,
      last_seen: /^\d{4}-\d\d-\d\dT/,
    })
    t.ok(byAdmin.max_ms >= 55 && byAdmin.mean_ms <= byAdmin.max_ms && byAdmin.total_ms >= 110, 'times')
    t.match(
      found.find(({ role }: { role: string }) => role === 'user'),
      { count: 2, name: 'by_word' },
    )
    t.match(
      found.find(({ planner }: { planner: string }) => planner === 'graphql'),
      { count: 1, name: 'Slow', kind: 'roots' },
    )
    t.notMatch(JSON.stringify(found), /marker/)
    t.ok(
      queries.some(({ sql }: { sql: string }) => sql.includes('"failing"')),
      'one that fails',
    )
  },
  'health.fast': async (t, server) => {
    await server.sql('update pause set seconds = 0')
    const count = async () =>
      (await slowOnes(server)).reduce((sum: number, each: { count: number }) => sum + each.count, 0)
    const before = await count()
    for (let i = 0; i < 5; i++) await server.must('select', SLOW)
    t.ok((await count()) < before + 5)
  },
  'health.shared': async (t, server) => {
    if (process.env['ROWHOUSE_TEST_FAST'] === 'false') return
    const shared = { table: 'slow', columns: ['word'], limit: 1 }
    await until('its reads share a connection', async () => {
      await server.must('select', shared)
      const rows = await rowsOf(
        server.databaseUrl,
        `select 1 from pg_stat_activity where application_name = 'rowhouse pipeline'
         and datname = current_database() and query like '%"slow"%'`,
      )
      return rows.length > 0
    })
    await server.sql('update pause set seconds = 0.06')
    const body = JSON.stringify({ type: 'select', args: shared })
    await server.fetch('/v1/query', { method: 'POST', body, headers: { 'x-request-id': 'shared' } })
    t.match(
      await slowLine(server, 'shared'),
      { lane: 'shared', plan: 'cached', route: '/v1/query', table: 'slow', server: undefined },
      'its line, too, names the request',
    )
    t.match(
      (await slowOnes(server)).find(
        ({ planner, sql }: Record<string, string>) => planner === 'query' && /select t0\."word"/.test(sql!),
      ),
      { role: 'admin', kind: 'read', planner: 'query' },
    )
  },
  'health.plan': async (t, server) => {
    const { id, sql } = (await slowOnes(server)).find((each: { sql: string }) => each.sql.includes('where'))
    const { status, body } = await server.query('slow_queries', { plan: id })
    const { database } = await server.must('server_status', {})
    if (parseInt(database.version) < 16) t.match(body, { path: '$.args.plan', code: 'not-supported' })
    else {
      t.match({ status, body }, { status: 200, body: { id, sql } })
      t.match(body.plan.join('\n'), /Scan on word.*\$1/s)
    }
    t.match(await server.query('slow_queries', { plan: 'admin:none' }), {
      status: 400,
      body: { path: '$.args.plan', code: 'unexpected-payload', error: /no slow query "admin:none"/ },
    })
    t.match((await server.query('slow_queries', { plan: 1 })).body, { path: '$.args.plan', code: 'parse-failed' })
  },
  'health.log': async (t, server) => {
    const { last, lines } = await server.must('log_lines', {})
    t.ok(lines.length >= 4)
    t.match(lines[0], { number: Number, line: { level: String, time: /^\d{4}-/, msg: String } })
    const numbers = lines.map(({ number }: { number: number }) => number)
    t.same(
      numbers,
      numbers.toSorted((a: number, b: number) => a - b),
    )
    if (PROCESSES === 1) t.equal(numbers.at(-1), last)
    else t.ok(numbers.at(-1) < last, 'another process may write a line with a number between them')
    t.same((await server.must('log_lines', { after: last })).lines, [])
    t.equal((await server.must('log_lines', { after: 2 * last })).lines.length, lines.length, 'from the future')
    t.equal((await server.must('log_lines', { after: numbers.at(-1) - 1 })).lines.length, 1)
    t.same((await server.must('log_lines', { level: 'error' })).lines, [])
    for (const args of [{ after: -1 }, { after: '1' }, { level: 'loud' }, { more: 1 }]) {
      t.match(await server.query('log_lines', args), { status: 400, body: { path: /^\$\.args/ } })
    }
  },
  'health.slow-line': async (t, server) => {
    const { lines } = await server.must('log_lines', { level: 'warn' })
    const slow = lines.filter(({ line }: { line: { msg: string } }) => line.msg === 'slow query')
    t.match(slow.find(({ line }: { line: { role: string } }) => line.role === 'user').line, {
      level: 'warn',
      query: /^user:/,
      ms: Number,
      kind: 'read',
      planner: 'query',
      requestId: String,
    })
    t.match(slow.find(({ line }: { line: { role: string } }) => line.role === 'admin').line, {
      query: /^admin:/,
      kind: 'read',
      planner: 'query',
      shape: /^[\w-]{22}$/,
      plan: 'compiled',
      lane: 'stream',
    })
    t.match(
      slow.find(({ line }: { line: { name?: string } }) => line.name === 'by_word').line,
      { role: 'user', plan: PROCESSES === 1 ? 'cached' : /^(cached|compiled)$/, shape: slow[0].line.shape },
      'one shape for all roles',
    )
    t.notMatch(JSON.stringify(lines), /marker|select /)
  },
  'health.slow-request': async (t, server) => {
    await server.sql('update pause set seconds = 0.06')
    const graphql = (query: string) => ({ query })
    const where = { id: 1 }
    const cases: Record<string, readonly [path: string, body: unknown, table: string, route?: string]> = {
      stream: ['/v1/query', { type: 'select', args: SLOW }, 'slow'],
      'one-row': ['/v1/query', { type: 'select', args: { ...SLOW, where, limit: 1 } }, 'slow'],
      count: ['/v1/query', { type: 'count', args: { table: 'slow' } }, 'slow'],
      related: [
        '/v1/query',
        { type: 'select', args: { table: 'word', columns: ['id', { name: 'slowly', columns: ['id'] }], limit: 1 } },
        'word',
      ],
      bulk: ['/v1/query', { type: 'bulk', args: [{ type: 'select', args: SLOW }] }, 'slow'],
      update: ['/v1/query', { type: 'update', args: { table: 'slow', where, $set: { word: 'a' } } }, 'slow'],
      template: ['/v1/template/by_word', { word: 'fourth-marker' }, 'slow', '/v1/template/:name'],
      graphql: ['/v1/graphql', graphql('{ slow { id } word { id } again: slow { id } }'), 'slow, word'],
      aggregate: [
        '/v1/graphql',
        graphql('{ word_aggregate { aggregate { count } } slow_aggregate { aggregate { count } } }'),
        'word, slow',
      ],
      function: ['/v1/graphql', graphql('{ slow_words { id } }'), 'slow_words'],
      alpha: ['/v1alpha1/graphql', graphql('{ slow { id } }'), 'slow'],
      schema: [
        '/v1/query',
        { type: 'select', args: { table: { schema: 'aside', name: 'slow' }, columns: ['id'] } },
        'aside.slow',
      ],
    }
    for (const [id, [path, body, table, route = path]] of Object.entries(cases)) {
      const sent = { method: 'POST', body: JSON.stringify(body), headers: { 'x-request-id': id } }
      const { status, text } = await server.fetch(path, sent)
      t.equal(status, 200, `${id}: ${text}`)
      t.match(await slowLine(server, id), { requestId: id, route, table, server: undefined }, id)
    }
    t.notMatch(JSON.stringify(await server.must('log_lines', { level: 'warn' })), /marker|select /)
  },
  'health.admin-only': ['server_status', 'migration_status', 'slow_queries', 'log_lines'].map((type) =>
    query(type, {}, refused('access-denied', 'only the role admin may do this'), { role: 'user' }),
  ),
}

export const health = area('health', {
  promises: PROMISES,
  pages: {
    'plugins/query/review.md': {
      'Health (admin)': {
        '`server_status`': 'health.status',
        '`migration_status`': 'health.migrations',
        '`slow_queries`': ['health.slow', 'health.plan'],
        '`log_lines`': ['health.log', 'health.slow-line', 'health.slow-request'],
      },
    },
  },
  start,
  cases: CASES,
})

/** Rows of `slow` take 60 ms to read. */
async function start(t: Test) {
  const server = await testServer(t, {
    notify: true,
    threads: 1,
    config: {
      log: { level: 'warn' },
      database: { slowQueryMs: 40, pipelineMaxMs: 60_000 },
      providers: { email: { default: 'memory', memory: { keep: 10 } } },
    },
  })
  await server.sql(`create table pause (seconds float8); insert into pause values (0.06);
      create function paused() returns bool stable language plpgsql as $$
        begin perform pg_sleep((select seconds from pause)); return true; end $$;
      create table word (id int primary key, word text); insert into word values (1, 'a'), (2, 'b');
      create view failing as select id, 1 / (id - id) as share from word where (select paused());
      create view slow as select id, word from word where (select paused());
      create schema aside; create view aside.slow as select * from slow;
      create function slow_words() returns setof word stable language sql as 'select * from word where (select paused())'`)
  await server.must('bulk', [
    track('slow'),
    track('failing'),
    track('word'),
    { type: 'track_table', args: { schema: 'aside', name: 'slow' } },
    { type: 'track_function', args: 'slow_words' },
    {
      type: 'create_array_relationship',
      args: {
        table: 'word',
        name: 'slowly',
        using: { manual_configuration: { remote_table: 'slow', column_mapping: { id: 'id' } } },
      },
    },
    {
      type: 'create_select_permission',
      args: { table: 'slow', role: 'user', permission: { columns: ['id', 'word'], filter: { id: { $gt: 1 } } } },
    },
    {
      type: 'create_query_template',
      args: { name: 'by_word', template: { type: 'select', args: { ...SLOW, where: { word: '{{word}}' } } } },
    },
  ])
  return server
}
