import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { Draft } from '../../core/metadata/draft.js'
import { startEmbedded } from '../../providers/database/embedded/index.js'
import { freshDatabase } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { startProxy } from '../kit/proxy.js'
import { ADMIN_SECRET, type Answered, type TestOptions, type TestServer, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

type Tap = Parameters<typeof testServer>[0]

const SLOW = { table: 'slow', columns: ['id'], limit: 1 }
const ASLEEP = { table: 'asleep', columns: ['id'], limit: 1 }
const ITEMS = { table: 'item', columns: ['id', 'n'], order_by: 'id', limit: 10 }
const UNAVAILABLE = { status: 503, body: { path: '$', code: 'unavailable', error: /not available/ } }

t.test('a read whose connection is lost is asked again, once', async (t) => {
  const { server, proxy, database } = await startBehindProxy(t, { database: { lockTimeoutMs: patience(60_000) } })
  const sent = () => proxy.sentTimes('from "public"."slow"')
  const lose = async () => {
    await until('the query runs', async () => (await active(database)) === 1)
    // Whom to end is found out before the connection is lost: by then the same query may run again.
    const { rows } = await database.query<{ pid: number }>(
      `select pid from pg_stat_activity where query like '%"slow"%' and pid <> pg_backend_pid()`,
    )
    proxy.killAll()
    for (const { pid } of rows) await database.query('select pg_terminate_backend($1)', [pid])
  }

  const hold = () => database.query('select pg_advisory_lock(1)')
  const release = () => database.query('select pg_advisory_unlock(1)')

  await hold()
  const once = server.query('select', SLOW)
  await lose()
  await until('it is asked again', () => sent() === 2)
  await release()
  t.match(await once, { status: 200, text: '[{"id":1}]' })
  t.equal(sent(), 2)

  await hold()
  const query = JSON.stringify({ query: '{ slow(limit: 1) { id } }' })
  const inGraphql = server.fetch('/v1/graphql', { method: 'POST', body: query })
  await lose()
  await until('it is asked again', () => sent() === 4)
  await release()
  t.match(await inGraphql, { status: 200, text: '{"data":{"slow":[{"id":1}]}}' })
  t.equal(sent(), 4)

  await hold()
  const twice = server.query('select', SLOW)
  await lose()
  await until('it is asked again', () => sent() === 6)
  await lose()
  isUnavailable(t, await twice)
  t.equal(sent(), 6)
  // A connection that was only being opened may be lost too: then new requests fail for a moment.
  await until('requests are served again', async () => (await server.query('select', ITEMS)).status === 200)
})

t.test('a read whose connection is lost at any byte of its answer is asked again', async (t) => {
  const { server, proxy } = await startBehindProxy(t)
  const reads = {
    cell: () => server.query('select', ITEMS),
    rows: () => server.query('select', { table: 'item', columns: ['id', 'n'] }),
  }
  for (const [lane, read] of Object.entries(reads)) {
    const { text } = await read()
    let at = 1
    for (; ; at += 16) {
      proxy.set({ kind: 'cut', afterBytes: at, times: 1 })
      const before = proxy.resets
      const answer = await read()
      if (answer.text !== text) t.fail(`${lane} lost at byte ${at}: ${answer.text}`)
      if (proxy.resets === before) break
    }
    proxy.set({ kind: 'pass' })
    t.ok(at > text.length, `${lane}: lost at up to ${at} bytes`)
  }
})

t.test('a write whose connection is lost is answered 503, is not asked again, and is never half done', async (t) => {
  const { server, proxy, database } = await startBehindProxy(t, { database: { pipelines: 0 } })
  const insert = (table: string, n: number) => ({
    type: 'insert',
    args: {
      table,
      objects: [
        { id: n, n },
        { id: -n, n },
      ],
    },
  })
  const counts = new Map<number, number>()

  for (let n = 1; n <= 40; n++) {
    // A connection that was only being opened may have been cut too.
    await until('it is served', async () => (await server.query('count', { table: 'item' })).status === 200)
    proxy.set({ kind: 'cut', afterBytes: n * 4 })
    const answer = await server.query('bulk', [insert('left_half', n), insert('right_half', n)])
    proxy.set({ kind: 'pass' })
    counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1)
    if (answer.status !== 200 && !answer.headers.has('retry-after')) t.fail(answer.text)
    const { rows } = await database.query(
      'select (select count(*)::int from left_half where n = $1) as l, (select count(*)::int from right_half where n = $1) as r',
      [n],
    )
    if (rows[0].l !== rows[0].r || rows[0].l % 2 !== 0)
      t.fail(`half of the write ${n} is there: ${JSON.stringify(rows[0])}`)
    if (answer.status === 200 && rows[0].l !== 2) t.fail(`the write ${n} was confirmed and is not there`)
  }
  t.same([...counts.keys()].sort(), [200, 503], 'some were cut')
  t.ok(proxy.sentTimes('insert into "public"."left_half"') <= 40, 'none was sent twice')
})

t.test('a database that says nothing any more is answered for within the limits, and found again', async (t) => {
  const { server, proxy } = await startBehindProxy(t, {
    database: { statementTimeoutMs: patience(1_000), poolWaitMs: patience(500) },
  })
  await server.must('select', ITEMS)

  proxy.set({ kind: 'hang' })
  const answers = await Promise.all([
    server.query('select', ITEMS),
    server.query('update', { table: 'item', where: { id: 1 }, $inc: { n: 1 } }),
    server.query('bulk', [{ type: 'select', args: ITEMS }]),
    server.query('select', { table: 'many', columns: ['id'] }),
    server.query('run_sql', { sql: 'select 1' }),
  ])
  for (const { status, headers } of answers) {
    t.ok(status === 503 || status === 504, `status ${status}`)
    if (status === 503) t.ok(headers.get('retry-after'))
  }
  t.match(await get(server, '/healthz'), { status: 200 })
  t.match(await get(server, '/readyz'), { status: 503 })

  proxy.set({ kind: 'pass' })
  proxy.killAll()
  await until('it is served again', async () => (await server.query('select', ITEMS)).status === 200)
  await until('it is ready again', async () => (await get(server, '/readyz')).status === 200)
})

t.test('what waits for a database that is proven to say nothing ends before its own limit', async (t) => {
  const config = { database: { statementTimeoutMs: 3_600_000, poolWaitMs: patience(500) }, log: { level: 'info' } }
  const { server, proxy, database } = await startBehindProxy(t, config)
  await database.query('create table kept (id int primary key)')
  await server.must('track_table', 'kept')
  let id = 0
  const insert = () => server.query('insert', { table: 'kept', objects: [{ id: ++id }] })
  // Quick enough by now to share connections.
  for (let i = 0; i < 30; i++) {
    await server.must('select', ITEMS)
    await insert()
  }
  const query = JSON.stringify({ query: '{ item { id } }' })
  const waiting: Readonly<Record<string, () => Promise<Answered>>> = {
    'a read on a shared connection': () => server.query('select', ITEMS),
    'an insert with a shared commit': insert,
    'a read of one text': () => server.query('count', { table: 'item', where: { id: { $gt: 0 } } }),
    'a read of many rows': () => server.query('select', { table: 'many', columns: ['id'] }),
    GraphQL: () => server.fetch('/v1alpha1/graphql', { method: 'POST', body: query }),
    'an update': () => server.query('update', { table: 'item', where: { id: 1 }, $inc: { n: 1 } }),
    'a bulk': () =>
      server.query('bulk', [{ type: 'update', args: { table: 'item', where: { id: 1 }, $inc: { n: 1 } } }]),
    'SQL of an admin': () => server.query('run_sql', { sql: 'update item set n = n + 1 where id = 1' }),
  }
  const alone = ['a read of many rows']
  for (const [name, send] of [...alone.map((each) => [each, waiting[each]] as const), ['all', undefined] as const]) {
    await until('it listens', async () => (await server.must('server_status', {})).metadata.listening)
    proxy.set({ kind: 'hang' })
    const answers = await Promise.all(send ? [send()] : Object.values(waiting).map((each) => each()))
    for (const { status, headers, text } of answers) {
      t.match([status, headers.get('retry-after'), text], [503, '1', /the database is not available right now/], name)
    }
    proxy.set({ kind: 'pass' })
    proxy.killAll()
    await until('it is served again', async () => (await server.query('select', ITEMS)).status === 200)
    await until('it is ready again', async () => (await get(server, '/readyz')).status === 200)
  }
  const { rows } = await database.query('select n from item where id = 1')
  t.ok(rows[0].n <= 6, 'no write ran twice')
})

t.test('a statement that PostgreSQL works on is not ended while no connection can be opened', async (t) => {
  const { server, proxy, database } = await startBehindProxy(t)
  await database.query('select pg_advisory_lock(1)')
  const working = [server.query('select', SLOW), server.query('select', { table: 'slow', columns: ['id'] })]
  await until('they run', async () => (await active(database, '"slow"')) === 2)

  proxy.set({ kind: 'refuse' })
  for (const until = performance.now() + 8000; performance.now() < until; await sleep(50))
    await server.query('select', ITEMS)
  await database.query('select pg_advisory_unlock(1)')

  for (const { status, text } of await Promise.all(working)) t.equal(status, 200, text)
})

t.test('while PostgreSQL is stopped, requests fail at once instead of waiting for a connection', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'rowhouse-test-'))
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  let resume: (() => void) | undefined
  t.teardown(async () => {
    resume?.()
    await cluster.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  const poolWaitMs = patience(2_000)
  const config = { database: { poolSize: 2, poolWaitMs, statementTimeoutMs: patience(60_000) } }
  const server = await testServer(t, { databaseUrl: cluster.url, config })
  await server.must('run_sql', { sql: 'create table item (id int primary key, n int); insert into item values (1, 1)' })
  await server.must('track_table', 'item')
  const requests: [string, unknown][] = [
    ['select', ITEMS],
    ['select', { table: 'item', columns: ['id'] }],
    ['insert', { table: 'item', objects: [{ id: 2, n: 2 }], on_conflict: { action: 'ignore' } }],
    ['bulk', [{ type: 'select', args: ITEMS }]],
    ['run_sql', { sql: 'select 1' }],
  ]
  // Quick enough by now to share connections.
  for (let i = 0; i < 30; i++) for (const [type, args] of requests) await server.must(type, args)
  t.equal(await breakerOf(server), 0)

  resume = stopPostgres(await postmasterOf(server))
  const held = Promise.all(Array.from({ length: 3 }, () => server.query('bulk', [{ type: 'select', args: ITEMS }])))
  await until('the breaker opens', async () => (await breakerOf(server)) === 1)
  const since = performance.now()
  for (let i = 0; i < 4; i++) for (const [type, args] of requests) isUnavailable(t, await server.query(type, args))
  t.match(await get(server, '/readyz'), { status: 503 })
  t.ok(performance.now() - since < 10 * poolWaitMs, 'twenty answers take less than twenty waits for a connection')

  resume()
  await until('the breaker closes', async () => (await breakerOf(server)) === 0)
  for (const [type, args] of requests) t.match(await server.query(type, args), { status: 200 }, type)
  const statuses = (await held).map(({ status }) => status)
  t.same(
    [...new Set(statuses)].sort(),
    [200, 503],
    'one that had a connection is answered late, one that had none is not',
  )
})

t.test('slow queries on all connections do not open the breaker', async (t) => {
  const { server, database } = await start(t, { database: { poolSize: 1, poolWaitMs: patience(200) } })
  const unlock = await lockItems(database)

  const holder = server.query('update', { table: 'item', where: { id: 1 }, $set: { n: 5 } })
  await until('the connection is taken', async () => (await active(database, 'update')) === 1)
  for (let i = 0; i < 5; i++) {
    t.match(await server.query('count', { table: 'slow' }), { status: 503, body: { error: /^all connections/ } })
    t.match(await server.query('select', { table: 'left_half', columns: ['id'] }), { status: 200 })
    t.match(await server.query('run_sql', { sql: 'select 1' }), { status: 200 })
    t.equal(await breakerOf(server), 0)
  }

  await unlock()
  t.match(await holder, { status: 200 })
})

t.test('a database that refuses connections is answered for at once, and found again', async (t) => {
  const { server, proxy } = await startBehindProxy(t)

  proxy.set({ kind: 'refuse' })
  proxy.killAll()
  for (const type of ['select', 'count', 'bulk']) {
    const args = type === 'bulk' ? [{ type: 'select', args: ITEMS }] : type === 'count' ? { table: 'item' } : ITEMS
    isUnavailable(t, await server.query(type, args))
  }
  isUnavailable(t, await server.query('select', { table: 'many', columns: ['id'] }))
  isUnavailable(t, await server.query('track_table', 'many'))
  await until('the breaker opens', async () => (await breakerOf(server)) === 1)
  const sent = proxy.sentTimes('rowhouse main')
  for (let i = 0; i < 20; i++) isUnavailable(t, await server.query('select', ITEMS))
  t.equal(proxy.sentTimes('rowhouse main'), sent, 'and none tried to connect')

  proxy.set({ kind: 'pass' })
  await until('the breaker closes', async () => (await breakerOf(server)) === 0)
  t.match(await server.query('select', ITEMS), { status: 200 })
})

t.test('a login that takes longer than a request waits is no outage', async (t) => {
  const { server, proxy } = await startBehindProxy(t, { database: { poolWaitMs: 300 } })

  // An answer comes after 700 ms, and a login takes several.
  proxy.set({ kind: 'delay', ms: 350 })
  proxy.killAll()
  let opened = false
  await until('it is served again', async () => {
    opened ||= (await breakerOf(server)) === 1
    return (await server.query('select', ITEMS)).status === 200
  })
  await until('it is ready', async () => (await get(server, '/readyz')).status === 200)
  t.equal(opened || (await breakerOf(server)) === 1, false, 'the breaker never opened')
})

t.test('while no connection can be opened, those that are open serve', async (t) => {
  const { server, proxy } = await startBehindProxy(t)
  t.match(await server.query('select', ITEMS), { status: 200 })

  proxy.set({ kind: 'refuse' })
  // There are more requests than idle connections, so the pool tries to open others.
  const many = await Promise.all(Array.from({ length: 20 }, () => server.query('count', { table: 'slow' })))
  t.ok(
    many.some(({ status }) => status === 503),
    'some got none',
  )
  for (let i = 0; i < 30; i++) {
    t.match(await server.query('select', ITEMS), { status: 200 })
    t.equal(await breakerOf(server), 0)
    await sleep(50)
  }
})

t.test('a PostgreSQL that is restarted is found again without a restart of the server', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'rowhouse-test-'))
  let cluster = await startEmbedded({ dataDir, throwaway: true })
  t.teardown(async () => {
    await cluster.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  const server = await testServer(t, {
    databaseUrl: cluster.url,
    notify: true,
    config: {
      database: { poolWaitMs: patience(1_000) },
      log: { level: 'warn' },
      plugins: { notify: { queue: { pollMs: 100 } } },
      providers: { email: { memory: {} } },
    },
  })
  await server.must('run_sql', { sql: 'create table item (id int primary key, n int); insert into item values (1, 1)' })
  await server.must('track_table', 'item')
  t.match(await server.query('select', ITEMS), { status: 200 })

  await cluster.stop()
  isUnavailable(t, await server.query('select', ITEMS))
  isUnavailable(t, await server.query('insert', { table: 'item', objects: [{ id: 2 }] }))
  t.match(await get(server, '/healthz'), { status: 200 })
  t.match(await get(server, '/readyz'), { status: 503, headers: { 'retry-after': '1' } })
  await until('the breaker opens', async () => (await breakerOf(server)) === 1)
  for (let i = 0; i < 5; i++) isUnavailable(t, await server.query('select', ITEMS))

  cluster = await startEmbedded({ dataDir, throwaway: true })
  await until('it is served again', async () => (await server.query('select', ITEMS)).status === 200)
  t.same((await server.query('select', ITEMS)).body, [{ id: 1, n: 1 }])
  t.match(await server.query('insert', { table: 'item', objects: [{ id: 2 }] }), { status: 200 })
  await until('the log says that it is back', async () => (await logged(server)).length > 1)
  t.match(
    await logged(server),
    [
      { level: 'warn', msg: 'the database is unavailable', error: /./, err: undefined },
      { level: 'warn', msg: 'the database is available again' },
    ],
    'the log has one line for the loss and one for the return, and no stack',
  )
  t.equal((await logged(server)).length, 2)
  t.match(
    await server.query('create_select_permission', {
      table: 'item',
      role: 'user',
      permission: { columns: ['id'], filter: {} },
    }),
    { status: 200 },
  )
})

t.test('a database that refuses new connections answers, so its reason is logged and told to an admin', async (t) => {
  const { server, url } = await start(t, { log: { level: 'warn' } })
  const place = new URL(url)
  const name = place.pathname.slice(1)
  place.pathname = '/postgres'
  const outside = new pg.Client({ connectionString: place.href })
  await outside.connect()
  t.teardown(() => outside.end())
  const allow = (yes: boolean) => outside.query(`alter database "${name}" allow_connections ${yes}`)

  await allow(false)
  await outside.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name like 'rowhouse%'`,
    [name],
  )
  await until('it is refused', async () => /refuses/.test((await server.query('select', ITEMS)).text))
  const refused = await server.query('select', ITEMS)

  t.equal(refused.headers.get('retry-after'), '1')
  t.match(refused, {
    status: 503,
    body: {
      code: 'unavailable',
      error: 'the database refuses the connections of this server',
      internal: { status_code: '55000', message: /not currently accepting connections/ },
    },
  })
  t.notMatch((await server.query('select', ITEMS, { role: 'user' })).text, /internal|accepting/)
  t.match(
    (await logged(server)).filter((line) => 'sqlstate' in line && line.sqlstate === '55000'),
    [{ level: 'warn', msg: 'request failed', code: 'unavailable', cause: /not currently accepting connections/ }],
  )
  await allow(true)
  await until('it is served again', async () => (await server.query('select', ITEMS)).status === 200)
})

t.test('connections that are lost together leave one line, and one when there are others again', async (t) => {
  const { server, proxy, database } = await startBehindProxy(t, { log: { level: 'info' } })
  const told = async () =>
    (await logged(server)).filter((line) => 'msg' in line && /^(lost connections|connected)/.test(String(line.msg)))
  await Promise.all(Array.from({ length: 8 }, () => server.query('count', { table: 'item' })))

  proxy.killAll()
  await until('both lines are there', async () => (await told()).length >= 2)
  const [lost, again] = (await told()) as [{ connections: number; pools: object }, object]
  t.match(lost, {
    level: 'info',
    msg: 'lost connections to the database',
    error: /./,
    pools: { main: Number, listen: 1 },
  })
  t.equal(
    lost.connections,
    Object.values(lost.pools).reduce((sum, count) => sum + count, 0),
  )
  t.match(again, { level: 'info', msg: 'connected to the database again', ms: Number, connections: undefined })

  await until('others are open', async () => (await server.query('count', { table: 'item' })).status === 200)
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'rowhouse listen'`,
  )
  await until('a single loss is logged', async () => (await told()).length >= 3)
  t.match((await told())[2], { connections: 1, pools: { listen: 1 }, error: /terminating connection/ })
  t.equal((await told()).length, 3, 'others were there all the time')
})

t.test('a single connection that is lost is logged, although the database is not out of reach', async (t) => {
  const { server, database } = await start(t, { log: { level: 'warn' } })
  const sleeping = server.query('run_sql', { sql: 'select pg_sleep(600)' })
  await until('it runs', async () => (await active(database, 'select pg_sleep')) === 1)
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(600)' and pid <> pg_backend_pid()`,
  )

  isUnavailable(t, await sleeping)
  const isOfIt = (line: object) => 'sqlstate' in line && line.sqlstate === '57P01'
  await until('the log says so', async () => (await logged(server)).some(isOfIt))
  t.match((await logged(server)).filter(isOfIt), [{ level: 'warn', msg: 'request failed', code: 'unavailable' }])
})

t.test('a request that gets no connection in time is answered 503, while health is still told', async (t) => {
  const { server, database } = await start(t, { database: { poolSize: 1, poolWaitMs: patience(500) } })
  const unlock = await lockItems(database)

  const holder = server.query('update', { table: 'item', where: { id: 1 }, $set: { n: 5 } })
  await until('the connection is taken', async () => (await active(database, 'update')) === 1)
  const waited = await server.query('count', { table: 'slow' })
  t.match(waited, { status: 503, body: { code: 'unavailable', error: /^all connections .* are busy/ } })
  t.match(await get(server, '/healthz'), { status: 200 })
  t.match(await get(server, '/readyz'), { status: 200 })

  await unlock()
  t.match(await holder, { status: 200 })
  t.match(await server.query('select', ITEMS), { status: 200 })
})

t.test('a statement that takes too long is answered 504, and has ended in the database too', async (t) => {
  const { server, database } = await start(t, { database: { statementTimeoutMs: patience(1_000) } })
  const whole = { table: 'asleep', columns: ['id'] }
  const requests: [string, unknown, string][] = [
    ['select', ASLEEP, '$'],
    ['select', whole, '$'],
    ['count', { table: 'asleep' }, '$'],
    ['bulk', [{ type: 'select', args: ASLEEP }], '$.args[0]'],
    ['run_sql', { sql: 'select pg_sleep(600)' }, '$'],
  ]

  for (const [type, args, path] of requests) {
    t.match(await server.query(type, args), { status: 504, body: { code: 'timeout', path } }, type)
    await until(`${type} has ended`, async () => (await active(database)) === 0)
  }
  t.match(await server.query('select', ITEMS), { status: 200 })
})

t.test('a lock that is not had in time is answered 409', async (t) => {
  const { server, database } = await start(t, { database: { lockTimeoutMs: patience(500) } })
  const unlock = await lockItems(database)

  const update = { table: 'item', where: { id: 1 }, $inc: { n: 1 } }
  t.match(await server.query('update', update), { status: 409, body: { code: 'lock-timeout', path: '$' } })
  t.match(await server.query('bulk', [{ type: 'update', args: update }]), { status: 409, body: { path: '$.args[0]' } })
  await unlock()

  t.match(await server.query('update', update), { status: 200, body: { affected_rows: 1 } })
})

t.test('what deadlocks is done again as a whole, and no increment is lost or done twice', async (t) => {
  const { server, database } = await start(t)
  // Found soon, and often: both orders at once, on two rows.
  await database.query(
    `do $$ begin execute format('alter database %I set deadlock_timeout = ''5ms''', current_database()); end $$`,
  )
  const inc = (id: number) => ({ type: 'update', args: { table: 'item', where: { id }, $inc: { n: 1 } } })
  const { before, after } = await crossings(server, database, 500, (i) => (i % 2 ? [inc(1), inc(2)] : [inc(2), inc(1)]))

  const { rows } = await database.query(
    `select deadlocks::int as n from pg_stat_database where datname = current_database()`,
  )
  t.ok(rows[0].n > 0, `${rows[0].n} deadlocks`)
  t.same(
    after.sums,
    before.sums.map((n) => n + after.done),
    `${after.done} of 500 done`,
  )
  t.same(
    [...after.statuses].filter((status) => status !== 200 && status !== 409),
    [],
  )
  t.ok(after.done > 250, 'most got through')
})

t.test('what cannot be serialized is done again as a whole', async (t) => {
  const { server, database } = await start(t)
  await database.query(
    `do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`,
  )
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'rowhouse %'`,
  )
  await until('it is served', async () => (await server.query('select', ITEMS)).status === 200)
  const inc = { type: 'update', args: { table: 'item', where: { id: 1 }, $inc: { n: 1 } } }
  const { before, after } = await crossings(server, database, 200, () => [
    { type: 'count', args: { table: 'item' } },
    inc,
  ])

  t.same(after.sums, [(before.sums[0] ?? 0) + after.done, before.sums[1]])
  t.same(
    [...after.statuses].filter((status) => status !== 200 && status !== 409),
    [],
  )
  t.ok(after.done > 20, `${after.done} of 200 done`)
})

t.test('a query that nobody waits for any more is cancelled, and the next one on its pool is unharmed', async (t) => {
  const { server, database } = await start(t, { database: { poolSize: 1, streamPoolSize: 1 } })
  const bodies = {
    'a read': { type: 'select', args: ASLEEP },
    'a read that would be streamed': { type: 'select', args: { table: 'asleep', columns: ['id'] } },
    'a bulk': { type: 'bulk', args: [{ type: 'select', args: ASLEEP }] },
    'SQL of an admin': { type: 'run_sql', args: { sql: 'select pg_sleep(600)' } },
  }
  const ways = { closed: (socket: Socket) => socket.destroy(), reset: (socket: Socket) => socket.resetAndDestroy() }

  for (const [what, body] of Object.entries(bodies)) {
    for (const [way, leave] of Object.entries(ways)) {
      await t.test(`${what}, of a client whose connection is ${way}`, async (t) => {
        const socket = send(server, JSON.stringify(body))
        await until('it runs', async () => (await active(database)) === 1)
        leave(socket)

        await until('it is gone', async () => (await active(database)) === 0)
        t.equal((await server.query('select', ITEMS)).status, 200)
        t.equal((await server.query('select', { table: 'item', columns: ['id'] })).text, '[{"id":1},{"id":2}]')
      })
    }
  }
})

t.test('a stream that breaks cannot be taken for a complete one', async (t) => {
  const { server } = await start(t)
  const body = JSON.stringify({ type: 'select', args: { table: 'breaking', columns: ['id', 'text', 'q'] } })

  await t.test('its chunks have no end', async (t) => {
    for (const accept of ['application/json', 'application/x-ndjson', 'text/csv']) {
      let received = 0
      await t.rejects(
        readAll(server, body, accept, (bytes) => (received += bytes)),
        accept,
      )
      t.ok(received > 100_000, `${accept}: something came`)
    }
  })
  await t.test('in HTTP/1.0, which has no chunks, the connection is reset', async (t) => {
    const { socket } = await open(server, body, 'HTTP/1.0')
    socket.resume()
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
    t.equal(error.code, 'ECONNRESET')
  })
  await t.test('one that breaks after few rows is an ordinary error', async (t) => {
    for (const accept of ['application/json', 'application/x-ndjson', 'text/csv']) {
      const early = JSON.stringify({ type: 'select', args: { table: 'early', columns: ['id', 'q'] } })
      t.match(await server.raw(early, {}, { accept }), { status: 400, body: { code: 'postgres-error' } }, accept)
    }
  })
  await t.test('one that breaks before its first byte is an ordinary error', async (t) => {
    const answer = await server.query('select', {
      table: 'breaking',
      columns: ['id', 'q'],
      where: { id: { $gt: 59_990 } },
    })
    t.match(answer, { status: 400, body: { code: 'postgres-error', path: '$.args' } })
  })
})

t.test('a reader that stops reading stops the cursor, and one that goes away closes it', async (t) => {
  const { server, proxy, database } = await startBehindProxy(t, { database: { streamPoolSize: 2 } })
  const body = JSON.stringify({ type: 'select', args: { table: 'many', columns: ['id', 'text'] } })

  await t.test('a few megabytes are read ahead, of four hundred', async (t) => {
    const { socket } = await open(server, body)
    await untilStill(() => proxy.received)

    t.ok(proxy.received < 40_000_000, `${proxy.received} bytes`)
    t.equal(await streaming(database), 1)
    socket.destroy()
    await until('the cursor is closed', async () => (await streaming(database)) === 0)
  })
  await t.test('whenever it is that it goes', async () => {
    for (let i = 0; i < 40; i++) {
      const socket = send(server, body)
      await new Promise((resolve) => setTimeout(resolve, i % 20))
      socket.resetAndDestroy()
    }
    await until('every cursor is closed', async () => (await streaming(database)) === 0)
    const both = await Promise.all([open(server, body), open(server, body)])
    await until('both connections stream', async () => (await streaming(database)) === 2)
    for (const { socket } of both) socket.destroy()
    await until('the cursors are closed', async () => (await streaming(database)) === 0)
  })
})

t.test('a schema that changes behind the server is found out, and never a 500', async (t) => {
  const { server, database } = await start(t)
  await server.must('run_sql', {
    sql: 'create table plan (id int, a int, b text, c int); insert into plan values (1, 2, $$three$$, 4)',
  })
  await server.must('track_table', 'plan')
  await server.must('create_select_permission', {
    table: 'plan',
    role: 'user',
    permission: { columns: '*', filter: { a: { $gt: 0 } } },
  })
  const all = { table: 'plan', columns: ['*'], limit: 5 }
  const as = { role: 'user' }
  const changes: [string, string, unknown, number][] = [
    ['a column is dropped', 'alter table plan drop column c', { id: 1, a: 2, b: 'three' }, 200],
    ['a column is added', 'alter table plan add column d int default 9', { id: 1, a: 2, b: 'three' }, 200],
    ['a type changes', `alter table plan alter column b type int using 3`, { id: 1, a: 2, b: 3 }, 200],
    ['the column of a permission is dropped', 'alter table plan drop column a', undefined, 400],
    ['the table is renamed', 'alter table plan rename to plan_b', undefined, 400],
  ]

  for (const [what, sql, row, status] of changes) {
    await t.test(what, async (t) => {
      await until('the server knows what was before', async () => (await server.query('select', all)).status === 200)
      await database.query(sql)
      const statuses = new Set<number>()
      await until('it is answered rightly', async () => {
        const answers = await Promise.all([
          server.query('select', all, as),
          server.query('select', { ...all, limit: undefined }, as),
          server.query('bulk', [{ type: 'select', args: all }], as),
        ])
        for (const answer of answers) statuses.add(answer.status)
        const right = (found: unknown) => row === undefined || contains(found, row)
        return answers.every(
          (answer) => answer.status === status && (status !== 200 || right([answer.body].flat(2)[0])),
        )
      })
      t.same(
        [...statuses].filter((each) => each !== 200 && each !== 400),
        [],
      )
    })
  }
})

t.test('a worker that loops, ends, throws or eats its memory costs its own request alone', async (t) => {
  const { server } = await startWithPlanner(t)
  let shape = 0
  const other = async () =>
    (
      await server.query('select', {
        ...ITEMS,
        where: { id: { $in: Array.from({ length: 2 }, () => 1) } },
        columns: ['id', { name: 'self', alias: `a${shape++}`, columns: ['n'] }],
      })
    ).status

  for (const how of ['loop', 'exit', 'throw', 'memory', 'reject']) {
    await t.test(how, async (t) => {
      const bad = server.query('plant', how)
      const others = await Promise.all(Array.from({ length: 10 }, other))

      // A planner that throws is a bug; one that is late or gone may be asked again.
      const expected = how === 'throw' ? { status: 500, code: 'unexpected' } : { status: 503, code: 'compile-failed' }
      t.match(await bad, { status: expected.status, body: { code: expected.code, path: '$' } })
      t.equal((await bad).headers.has('retry-after'), expected.status === 503)
      if (how === 'loop') t.match((await bad).text, /could not be compiled in time/)
      if (how === 'exit') t.match((await bad).text, /the compile worker ended/)
      // It takes a while to eat all memory: the time may be over first.
      if (how === 'memory') t.match((await bad).text, /the compile worker ended|could not be compiled in time/)
      t.same(new Set(others), new Set([200]))
      t.equal(await other(), 200)
    })
  }
  await t.test('all workers at once, and they are there again', async (t) => {
    const bad = await Promise.all(Array.from({ length: 6 }, (_, i) => server.query('plant', i % 2 ? 'loop' : 'exit')))

    t.same(new Set(bad.map(({ status }) => status)), new Set([503]))
    t.same(
      await Promise.all(Array.from({ length: 10 }, other)),
      Array.from({ length: 10 }, () => 200),
    )
  })
})

t.test('a planner that cannot be imported is refused at the start, by name', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-planner-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const plugin = join(folder, 'plugin.mjs')
  await writeFile(
    plugin,
    `export default {
      name: 'planter',
      setup(host) { host.planner('planter', new URL('./not-built.mjs', import.meta.url)) },
    }`,
  )
  for (const threads of [0, 1]) {
    const plugins = { planter: JSON.stringify({ use: plugin }) }
    await t.rejects(
      start(t, { compile: { threads }, plugins }),
      { message: /^planner "planter" cannot be imported from .*not-built\.mjs: Cannot find module/ },
      `${threads} threads`,
    )
  }
})

t.test('a thousand changes of metadata in a bulk share one rebuild', async (t) => {
  const { server } = await start(t)
  const tables = Array.from({ length: 250 }, (_, i) => `t${i}`)
  await server.must('run_sql', {
    sql: tables.map((name) => `create table ${name} (id int primary key, up int references ${name});`).join(''),
  })
  const builds = countBuilds(t)
  const filter = { parent: { id: 1 } }

  const made = await server.query('bulk', [
    ...tables.map((name) => ({ type: 'track_table', args: name })),
    ...tables.map((table) => ({
      type: 'create_object_relationship',
      args: { table, name: 'parent', using: { foreign_key_constraint_on: 'up' } },
    })),
    ...tables.map((table) => ({
      type: 'create_select_permission',
      args: { table, role: 'user', permission: { columns: '*', filter } },
    })),
    ...tables.map((table) => ({
      type: 'create_delete_permission',
      args: { table, role: 'user', permission: { filter } },
    })),
  ])
  t.match(made, { status: 200 })
  t.equal(builds(), 1)

  t.match(
    await server.query(
      'bulk',
      tables.map((table) => ({ type: 'drop_select_permission', args: { table, role: 'user' } })),
    ),
    { status: 200 },
  )
  t.equal(builds(), 2)
})

const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET }

/** Tables for these tests: one whose reads a test can hold, one with very many rows, and one whose last rows cannot be read. */
const SQL = `
create table item (id int primary key, n int not null default 0, up int references item);
insert into item values (1, 0, 1), (2, 0, 1);
create table left_half (id int primary key, n int);
create table right_half (id int primary key, n int);
create view slow as select 1 as id from pg_advisory_xact_lock_shared(1);
create view asleep as select 1 as id from pg_sleep(600);
create view many as select i as id, repeat('x', 400) as text from generate_series(1, 1000000) i;
create view early as select i as id, 1 / (1500 - i) as q from generate_series(1, 5000) i;
create view breaking as select i as id, repeat('x', 400) as text, 1 / (60000 - i) as q from generate_series(1, 60001) i;
`

interface Started {
  readonly server: TestServer
  readonly database: pg.Client
  readonly url: string
}

async function start(t: Tap, config: Record<string, unknown> = {}, more: TestOptions = {}): Promise<Started> {
  const { url } = await freshDatabase(t)
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(SQL)
  const server = await testServer(t, { databaseUrl: url, config, ...more })
  await trackAll(server)
  return { server, database, url }
}

async function startBehindProxy(t: Tap, config: Record<string, unknown> = {}) {
  const { url } = await freshDatabase(t)
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(SQL)
  const proxy = await startProxy(t, url)
  const server = await testServer(t, { databaseUrl: proxy.url, config })
  await trackAll(server)
  return { server, proxy, database }
}

async function trackAll(server: TestServer): Promise<void> {
  const names = ['item', 'left_half', 'right_half', 'slow', 'asleep', 'many', 'early', 'breaking']
  await server.must(
    'bulk',
    names.map((name) => ({ type: 'track_table', args: name })),
  )
  const using = { foreign_key_constraint_on: 'up' }
  await server.must('create_object_relationship', { table: 'item', name: 'self', using })
}

async function logged(server: TestServer): Promise<readonly object[]> {
  const { lines } = (await server.must('log_lines', {})) as { readonly lines: readonly { readonly line: object }[] }
  return lines.map(({ line }) => line)
}

/** With an operation `plant` whose planner misbehaves as it is told. */
async function startWithPlanner(t: Tap): Promise<Started> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-planner-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const planner = join(folder, 'planner.mjs')
  await writeFile(planner, PLANNER)
  const plugin = join(folder, 'plugin.mjs')
  await writeFile(
    plugin,
    `export default {
      name: 'planter',
      setup(host) {
        const data = host.use('data')
        host.planner('planter', new URL(${JSON.stringify(pathToFileURL(planner).href)}))
        host.operation('plant', {
          run: async (shape, call) => ({ kind: 'text', text: await data.run({ planner: 'planter', shape, values: [] }, call) }),
        })
      },
    }`,
  )
  const compile = { threads: 2, timeoutMs: patience(1_000) }
  return start(t, { compile, plugins: { planter: JSON.stringify({ use: plugin }) } })
}

const PLANNER = `
export default function plan(how) {
  if (how === 'loop') for (;;);
  if (how === 'exit') process.exit(3)
  if (how === 'memory') for (const all = []; ; ) all.push(new Array(1e6).fill(how.length))
  if (how === 'reject') {
    Promise.reject(new Error('stray'))
    for (;;);
  }
  throw new Error('planted')
}
`

function isUnavailable(t: Test, answer: Answered): void {
  t.match(answer, UNAVAILABLE)
  t.ok(answer.headers.get('retry-after'), 'says when to come back')
}

async function get(server: TestServer, path: string) {
  const { status, headers } = await fetch(server.url + path)
  return { status, headers: Object.fromEntries(headers) }
}

/** 1 while requests are refused because the database does not answer. */
async function breakerOf(server: TestServer): Promise<number> {
  const answer = await fetch(`${server.url}/metrics`, { headers: ADMIN })
  return Number(/^rowhouse_database_breaker_open (\d)$/m.exec(await answer.text())?.[1])
}

/** @returns the postmaster that a server is connected to */
async function postmasterOf(server: TestServer): Promise<number> {
  const { result } = (await server.must('run_sql', { sql: 'show data_directory' })) as { result: string[][] }
  return Number.parseInt(readFileSync(join(result[1]?.[0] as string, 'postmaster.pid'), 'utf8'), 10)
}

/** Stops a postmaster and all its children. @returns lets them go on */
function stopPostgres(postmaster: number): () => void {
  process.kill(postmaster, 'SIGSTOP')
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').split(' ').filter(Boolean)
  for (const child of children) process.kill(Number(child), 'SIGSTOP')
  // The postmaster is the last to go on: until it reaps a child, the id of the child stays valid.
  let isStopped = true
  return () => {
    if (isStopped) for (const each of [...children, postmaster]) process.kill(Number(each), 'SIGCONT')
    isStopped = false
  }
}

/** Statements of the server's pools that run now. */
async function active(database: pg.Client, like = ''): Promise<number> {
  const { rows } = await database.query<{ n: number }>(
    `select count(*)::int as n from pg_stat_activity
     where datname = current_database() and application_name in ('rowhouse main', 'rowhouse admin', 'rowhouse stream') and state = 'active' and query like '%' || $1 || '%'`,
    [like],
  )
  return rows[0]?.n ?? 0
}

/** Cursors that are open. */
async function streaming(database: pg.Client): Promise<number> {
  const { rows } = await database.query<{ n: number }>(
    `select count(*)::int as n from pg_stat_activity
     where datname = current_database() and application_name = 'rowhouse stream' and state <> 'idle'`,
  )
  return rows[0]?.n ?? 0
}

async function lockItems({ host, port, database, user, password }: pg.Client): Promise<() => Promise<void>> {
  const client = new pg.Client({ host, port, database: database ?? '', user: user ?? '', password: password ?? '' })
  await client.connect()
  await client.query('begin; lock table item in exclusive mode')
  return () => client.end()
}

async function crossings(server: TestServer, database: pg.Client, times: number, bulkOf: (i: number) => unknown[]) {
  const sums = async () =>
    (await database.query<{ n: number }>('select n from item order by id')).rows.map(({ n }) => n)
  const before = { sums: await sums() }
  const statuses = new Set<number>()
  let done = 0
  const pending = Array.from({ length: times }, (_, i) => i).values()
  const worker = async () => {
    for (const i of pending) {
      const { status } = await server.query('bulk', bulkOf(i))
      statuses.add(status)
      if (status === 200) done++
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker))
  return { before, after: { sums: await sums(), done, statuses } }
}

const head = (body: string, version = 'HTTP/1.1'): string =>
  [
    `POST /v1/query ${version}`,
    'Host: a',
    `Content-Length: ${body.length}`,
    `x-service-admin-secret: ${ADMIN_SECRET}`,
    '',
    body,
  ].join('\r\n')

/** Sends a query over a connection of its own. */
function send(server: TestServer, body: string, version = 'HTTP/1.1'): Socket {
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(server.url).port) })
  socket.on('error', () => {}).write(head(body, version))
  return socket
}

/** Sends a query and reads the first bytes of its answer, and no more. */
async function open(server: TestServer, body: string, version?: string): Promise<{ socket: Socket }> {
  const socket = send(server, body, version)
  await once(socket, 'data')
  socket.pause()
  return { socket }
}

/** Reads an answer to its end; rejects when it has none. */
async function readAll(server: TestServer, body: string, accept: string, onBytes: (n: number) => void): Promise<void> {
  const sent = request(`${server.url}/v1/query`, { method: 'POST', headers: { ...ADMIN, accept } })
  // Told by the response too, when there is one.
  sent.on('error', () => {}).end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  for await (const chunk of response) onBytes((chunk as Buffer).length)
}

/** Waits until a figure has stopped growing. */
async function untilStill(figure: () => number): Promise<void> {
  for (let last = -1, still = 0; still < 20;) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    still = figure() === last ? still + 1 : 0
    last = figure()
  }
}

const contains = (found: unknown, row: unknown): boolean =>
  Object.entries(row as object).every(([key, value]) => (found as Record<string, unknown> | undefined)?.[key] === value)

/** Counts how often a snapshot is built from here on. */
function countBuilds(t: Tap): () => number {
  const { build } = Draft.prototype
  let builds = 0
  Draft.prototype.build = function counted() {
    builds++
    return build.call(this)
  }
  t.teardown(async () => {
    Draft.prototype.build = build
  })
  return () => builds
}
