import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { rowsOf } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What one caller may ask for, so that others are served. */

const user = (id: number): As => ({ role: 'user', variables: { 'x-service-user-id': String(id) } })
const ANONYMOUS: As = { role: 'anonymous' }

async function start(
  t: Parameters<typeof testServer>[0],
  config: Readonly<Record<string, unknown>> = {},
): Promise<TestServer> {
  const server = await testServer(t, { config })
  await server.must('run_sql', {
    sql: `create table item (id int primary key, name text, owner int references item, tags jsonb);
      insert into item select n, 'item ' || n, 1 from generate_series(1, 20) n;
      create view slow as select 1 as id, pg_sleep(60)::text as slept;
      create view brief as select 1 as id, pg_sleep(0.2)::text as slept;
      create table large as select n as id, repeat('x', 10000) as text from generate_series(1, 3000) n`,
  })
  for (const table of ['item', 'slow', 'brief', 'large']) {
    await server.must('track_table', table)
    const permission = { columns: '*', filter: {} }
    for (const role of ['user', 'anonymous']) await server.must('create_select_permission', { table, role, permission })
  }
  await server.must('create_array_relationship', {
    table: 'item',
    name: 'owned',
    using: { foreign_key_constraint_on: { table: 'item', column: 'owner' } },
  })
  return server
}

const like = (n: number, op = '$like') => ({ $or: Array.from({ length: n }, (_, i) => ({ name: { [op]: `a${i}` } })) })
const items = (where: object) => ({ table: 'item', columns: ['id'], where, limit: 1 })
const graphql = (server: TestServer, query: string, as: As) =>
  server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)

t.test('a request of a role has few pattern operators, in whatever way it comes', async (t) => {
  const server = await start(t)
  const refused = {
    status: 400,
    body: {
      code: 'unexpected-payload',
      error: /has 11 pattern operators, and at most 10 .*limits\.patterns\.operators/,
    },
  }
  t.equal((await server.query('select', items(like(10)), user(1))).status, 200)
  t.match(await server.query('select', items(like(11)), user(1)), refused)
  t.match(await server.query('select', { ...items(like(11)), limit: undefined }, ANONYMOUS), refused)
  t.match(await server.query('count', { table: 'item', where: { owned: like(11, '$iregex') } }, user(1)), refused)
  const bulk = [6, 5].map((n) => ({ type: 'select', args: items(like(n)) }))
  t.match(await server.query('bulk', bulk, user(1)), refused)
  const or = like(11)
    .$or.map(({ name }) => `{name: {_like: "${name['$like']}"}}`)
    .join()
  t.match((await graphql(server, `{item(where: {_or: [${or}]}) {id}}`, user(1))).body, {
    errors: [{ message: refused.body.error }],
  })
  await server.must('create_query_template', { name: 'many', template: { type: 'select', args: items(like(11)) } })
  t.match(await server.fetch('/v1/template/many', {}, user(1)), refused)
  t.equal((await server.query('select', items(like(900)))).status, 200, 'an admin is not limited')
})

t.test('patterns are short for roles', async (t) => {
  const server = await start(t)
  const ask = (name: object, as = user(1)) => server.query('select', items({ name }), as)
  t.equal((await ask({ $regex: 'x'.repeat(100) })).status, 200)
  t.match(await ask({ $regex: 'x'.repeat(101) }), {
    status: 400,
    body: { path: '$.args.where.name.$regex', error: /101 characters of regular expressions, and at most 100/ },
  })
  t.match(await ask({ $regex: String.raw`(.+)\1` }), { status: 400, body: { error: /back-reference/ } })
  t.equal((await ask({ $regex: String.raw`^a\d+` })).status, 200)
  t.equal((await ask({ $like: 'x'.repeat(1000) })).status, 200)
  t.match(await ask({ $nilike: 'x'.repeat(1001) }), { status: 400, body: { error: /at most 1000 characters/ } })
  t.match(await ask({ $ilike: '_'.repeat(21) }), { status: 400, body: { error: /21 wildcards, and at most 20/ } })
  const escaped = String.raw`\_\%`.repeat(20)
  t.equal((await ask({ $like: `${escaped}${'%'.repeat(20)}` })).status, 200, 'what is escaped stands for itself')
  t.match(await ask({ $like: String.raw`\\%`.repeat(21) }), { status: 400, body: { error: /21 wildcards/ } })
  t.equal((await ask({ $ilike: '_'.repeat(21), $regex: 'x'.repeat(101) }, {})).status, 200, 'an admin')
})

t.test('a request has a price, by the rows that its lists are likely to have', async (t) => {
  const server = await start(t, { limits: { newQueries: { perSecond: 0 }, price: 50_000 } })
  await server.must('run_sql', {
    sql: `create table region (id int primary key);
      insert into region select generate_series(1, 10);
      create table town (id int primary key, region int references region, name text);
      insert into town select n, 1 + n % 10, 'town ' || n from generate_series(1, 20000) n;
      analyze region, town`,
  })
  for (const table of ['region', 'town']) {
    await server.must('track_table', table)
    await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: {} } })
  }
  const own = { columns: '*', filter: { region: 'X-Service-User-Id' } }
  await server.must('create_select_permission', { table: 'town', role: 'mayor', permission: own })
  await server.must('create_array_relationship', {
    table: 'region',
    name: 'towns',
    using: { foreign_key_constraint_on: { table: 'town', column: 'region' } },
  })
  const read = (args: object, as: As = user(1)) => server.query('select', args, as)
  const towns = (limit?: number) => ({
    table: 'region',
    columns: ['id', { name: 'towns', columns: ['id', 'name'], limit }],
  })

  await t.test('row counts come from the statistics', async (t) => {
    const again = await testServer(t, { databaseUrl: server.databaseUrl, config: { limits: { price: 50_000 } } })
    const ask = (args: object, as: As = user(1)) => again.query('select', args, as)
    t.match(await ask(towns()), {
      status: 400,
      body: {
        error:
          'the request may cost about 200100 points, and at most 50000 are allowed (limits.price); limit its lists',
      },
    })
    t.equal((await ask(towns(10))).status, 200, 'a limit makes a list short')
    t.equal((await again.query('select', towns())).status, 200, 'an admin')
    t.match((await ask({ table: 'town', columns: ['*'] })).body, { error: /about 300000 points/ })
    t.equal((await ask({ table: 'town', columns: ['*'], where: { id: 1 } })).status, 200, 'a key gives one row')
    t.equal((await ask({ table: 'town', columns: ['*'], where: { name: 'x' } })).status, 200, 'a value leaves few rows')
    const later = await ask({ table: 'town', columns: ['*'], where: { id: { $gt: 1 } } })
    t.match(later.body, { error: /about 110000 points/ })
    const mayor = { role: 'mayor', variables: { 'x-service-user-id': '1' } }
    t.equal((await ask({ table: 'town', columns: ['*'] }, mayor)).status, 200, 'the filter of a role leaves few rows')
  })

  t.equal((await read(towns())).status, 200, 'this server has not read the statistics of the new tables yet')
  const bulk = [1, 2].map(() => ({ type: 'select', args: { table: 'item', columns: ['*'], limit: 80 } }))
  t.equal((await server.query('bulk', bulk.concat(bulk), user(1))).status, 200)
  t.match(
    (
      await server.query(
        'bulk',
        Array.from({ length: 160 }, () => bulk[0]),
        user(1),
      )
    ).body,
    { error: /points/ },
  )
  t.equal(
    (
      await server.query(
        'bulk',
        Array.from({ length: 160 }, () => bulk[0]),
      )
    ).status,
    200,
    'an admin',
  )
})

t.test('one caller takes a share of the connections; others do not wait for it', async (t) => {
  const server = await start(t, { database: { poolSize: 4, poolWaitMs: 1000, roleTimeoutMs: {} } })
  const slow = (as: As) => server.query('select', { table: 'slow', columns: ['*'], limit: 1 }, as)
  const running = async () =>
    (
      await rowsOf(
        server.databaseUrl,
        `select pid from pg_stat_activity where state = 'active' and query like '%"slow"%' and pid <> pg_backend_pid()`,
      )
    ).length
  const held = [slow(user(1)), slow(user(1))]
  await until('both run', async () => (await running()) === 2)

  const refused = await slow(user(1))
  t.match(refused, { status: 429, body: { code: 'too-many-requests', error: /2 requests of this caller/ } })
  t.equal(refused.headers.get('retry-after'), '1')
  const brief = { table: 'brief', columns: ['id'], limit: 1 }
  const others = await Promise.all([2, 3].map((id) => server.query('select', brief, user(id))))
  t.same(
    others.map(({ status }) => status),
    [200, 200],
  )
  t.equal((await server.query('bulk', [{ type: 'select', args: brief }], user(1))).status, 429, 'a transaction counts')

  await rowsOf(
    server.databaseUrl,
    `select pg_cancel_backend(pid) from pg_stat_activity where query like '%"slow"%' and pid <> pg_backend_pid()`,
  )
  await Promise.all(held)
  const waiting = await Promise.all([1, 2, 3, 4].map(() => server.query('select', brief, user(1))))
  t.same(
    waiting.map(({ status }) => status),
    [200, 200, 200, 200],
    'more than its share wait for each other',
  )
})

t.test('reads without a limit take of the same share until their first rows are there', async (t) => {
  const server = await start(t, { database: { poolSize: 4, poolWaitMs: 300, statementTimeoutMs: 4000 } })
  const slow = () => server.query('select', { table: 'slow', columns: ['slept'] }, user(1))
  const held = [slow(), slow()]
  await until('both run', async () => {
    const active = `select 1 from pg_stat_activity where state = 'active' and query like '%"slow"%' and pid <> pg_backend_pid()`
    return (await rowsOf(server.databaseUrl, active)).length === 2
  })

  t.match(await slow(), { status: 429, body: { error: /2 requests of this caller .*callerShare/ } })
  t.equal((await server.query('select', { table: 'item', columns: ['id'] }, user(2))).status, 200, 'others')
  await Promise.all(held)
  t.equal((await server.query('select', { table: 'item', columns: ['id'] }, user(1))).status, 200, 'given back')
})

t.test('a role may have the name of something that every object has', async (t) => {
  const server = await start(t)
  const role = 'constructor'
  await server.must('create_select_permission', { table: 'item', role, permission: { columns: '*', filter: {} } })
  const bulk = [{ type: 'select', args: items({ id: 1 }) }]
  t.match(await server.query('bulk', bulk, { role }), { status: 200, body: [[{ id: 1 }]] })
})

t.test('statements of a role end when its time is over', async (t) => {
  const server = await start(t, { database: { roleTimeoutMs: { anonymous: 300 } } })
  const ask = (limit?: number) =>
    server.query('select', { table: 'slow', columns: ['slept'], ...(limit ? { limit } : {}) }, ANONYMOUS)
  t.match(await ask(1), { status: 504, body: { code: 'timeout', error: /role "anonymous" .*roleTimeoutMs/ } })
  t.match(await ask(), { status: 504, body: { code: 'timeout' } }, 'without a limit')
  const bulk = await server.query(
    'bulk',
    [{ type: 'select', args: { table: 'slow', columns: ['id', 'slept'] } }],
    ANONYMOUS,
  )
  t.match(bulk, { status: 504, body: { code: 'timeout' } })
  await until('PostgreSQL has ended them', async () => {
    const active = `select 1 from pg_stat_activity where state = 'active' and query like '%"slow"%' and pid <> pg_backend_pid()`
    return (await rowsOf(server.databaseUrl, active)).length === 0
  })
})

/** A select of everything, by somebody who reads its beginning and no more. */
function openStream(server: TestServer, table = 'large'): Socket {
  const body = JSON.stringify({ type: 'select', args: { table, columns: ['id', 'text'] } })
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `POST /v1/query HTTP/1.1\r\nhost: x\r\nx-service-admin-secret: ${ADMIN_SECRET}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  socket.once('data', () => socket.pause())
  return socket
}

t.test('readers that do not read leave small answers to others', async (t) => {
  const server = await start(t, { database: { streamPoolSize: 3, streamMaxAgeMs: patience(2000) } })
  const readers = [1, 2, 3].map(() => openStream(server))
  const begun = await Promise.all(readers.map((reader) => once(reader, 'data')))
  for (const [chunk] of begun) t.match(String(chunk), /^HTTP\/1.1 200/)

  const everything = { table: 'item', columns: ['id'] }
  const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((id) => server.query('select', everything, user(id))))
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200, 200],
  )
  const large = { table: 'large', columns: ['id', 'text'] }
  t.match(await server.query('select', large, user(1)), { status: 503, body: { error: /database\.streamPoolSize/ } })

  await until(
    'the readers are cut off when their time is over',
    async () => (await server.query('select', large, user(1))).status === 200,
  )
  for (const reader of readers) reader.destroy()
})
