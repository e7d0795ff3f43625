import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import pg from 'pg'
import type { Test } from 'tap'
import { patience } from '../kit/patience.js'
import { area, type Case } from '../kit/promises.js'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** How much of the server one caller may use, and how long. */
const PROMISES = {
  'statement.timeout': 'a statement that runs longer than database.statementTimeoutMs is a 504, and PostgreSQL ends it',
  'role.timeout': 'a statement of a role in database.roleTimeoutMs ends after the time of the role, with a 504',
  'lock.timeout': 'a statement that waits longer for a lock than database.lockTimeoutMs is a 409',
  'caller.share':
    'one caller has database.callerShare of the connections; beyond that it gets 429, and others are served',
  'anonymous.together':
    'anonymous callers of all addresses together have database.anonymousTotalShare of the connections',
  'pool.wait': 'a request that gets no connection within database.poolWaitMs is a 503 with Retry-After',
  'stream.share': 'one caller has database.streamShare of the streams; beyond that it gets 429, and others are served',
  'stream.age': 'a client that reads a stream for longer than database.streamMaxAgeMs loses its connection',
  'stream.total': 'more streams than database.streamPoolSize are a 503, and small responses still work',
  'unread.caller':
    'a caller who leaves more than database.maxAnswerBytes unread gets 429 until it has read; others do not',
} as const

const MIB = 1024 * 1024
const user = (id: number): As => ({ role: 'user', variables: { 'x-service-user-id': String(id) } })
const SMALL = { table: 'note', columns: ['id'], limit: 1 }
const BIG = { table: 'big', columns: ['id', 't'] }
/** Just too long to count as small. */
const LONG = { ...BIG, table: 'long' }

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Shared>>> = {
  'statement.timeout': async (t, { hasty, running }) => {
    const answer = await hasty.query('select', { table: 'sleepy', columns: ['slept'], limit: 1 }, user(1))
    t.match(answer, { status: 504, body: { code: 'timeout', error: String, path: '$' } })
    t.match(await hasty.query('select', { table: 'sleepy', columns: ['slept'] }, user(1)), { status: 504 }, 'a stream')
    await until('PostgreSQL has ended them', async () => (await running()) === 0)
    t.equal((await hasty.query('select', SMALL, user(1))).status, 200)
  },
  'role.timeout': async (t, server) => {
    const ask = (type: string, args: unknown) => server.query(type, args, { role: 'anonymous' })
    const sleepy = { table: 'sleepy', columns: ['id', 'slept'] }
    const late = { status: 504, body: { code: 'timeout', error: /role "anonymous" .*roleTimeoutMs/ } }
    t.match(await ask('select', { ...sleepy, limit: 1 }), late)
    t.match(await ask('select', sleepy), { status: 504, body: { code: 'timeout' } }, 'a stream')
    t.match(await ask('bulk', [{ type: 'select', args: sleepy }]), { status: 504, body: { code: 'timeout' } })
    await until('PostgreSQL has ended them', async () => (await server.running()) === 0)
    t.equal((await server.query('select', { table: 'brief', columns: ['id'], limit: 1 }, user(1))).status, 200)
    const bulk = await server.query('bulk', [{ type: 'select', args: SMALL }], { role: 'constructor' })
    t.match(bulk, { status: 200, body: [[{ id: 1 }]] }, 'a role with the name of something that every object has')
  },
  'lock.timeout': async (t, { hasty, database }) => {
    await database.query('begin; lock table note in exclusive mode')
    const update = { table: 'note', where: { id: 1 }, $set: { text: 'a' } }
    t.match(await hasty.query('update', update), { status: 409, body: { code: 'lock-timeout' } })
    t.equal((await hasty.query('select', SMALL)).status, 200)
    await database.query('commit')
    t.match(await hasty.query('update', update), { status: 200, body: { affected_rows: 1 } })
  },
  'caller.share': async (t, server) => {
    const slow = () => server.query('select', { table: 'sleepy', columns: ['slept'], limit: 1 }, user(1))
    const held = [slow(), slow()]
    await until('both run', async () => (await server.running()) === 2)
    const refused = await slow()
    t.match(refused, { status: 429, body: { code: 'too-many-requests', error: /2 requests of this caller/ } })
    t.equal(refused.headers.get('retry-after'), '1')
    t.equal(
      (await server.query('bulk', [{ type: 'select', args: SMALL }], user(1))).status,
      429,
      'a transaction counts',
    )
    t.equal((await server.query('select', { table: 'note', columns: ['id'] }, user(1))).status, 429, 'so does a stream')
    const brief = { table: 'brief', columns: ['id'], limit: 1 }
    const others = await Promise.all([2, 3].map((id) => server.query('select', brief, user(id))))
    t.same(
      others.map(({ status }) => status),
      [200, 200],
    )
    t.equal((await server.query('select', SMALL)).status, 200, 'an admin')
    await server.cancel()
    await Promise.all(held)
    const waiting = await Promise.all([1, 2, 3, 4].map(() => server.query('select', brief, user(1))))
    t.same(
      waiting.map(({ status }) => status),
      [200, 200, 200, 200],
      'more than its share wait for each other',
    )
    const stream = () => server.query('select', { table: 'sleepy', columns: ['slept'] }, user(1))
    const streams = [stream(), stream()]
    await until('both run', async () => (await server.running()) === 2)
    t.match(await stream(), { status: 429, body: { error: /2 requests of this caller .*callerShare/ } }, 'streams')
    const all = { table: 'note', columns: ['id'] }
    t.equal((await server.query('select', all, user(2))).status, 200)
    await server.cancel()
    await Promise.all(streams)
    t.equal((await server.query('select', all, user(1))).status, 200, 'given back')
  },
  'anonymous.together': async (t, server) => {
    const ask = (localAddress: string) =>
      new Promise<number | undefined>((resolve) => {
        const body = JSON.stringify({ type: 'select', args: { table: 'sleepy', columns: ['id', 'slept'] } })
        const { port } = new URL(server.url)
        request({ host: '127.0.0.1', port, localAddress, path: '/v1/query', method: 'POST' }, (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode))
        }).end(body)
      })
    let isOver = false
    const all = Promise.all([2, 3, 4, 5, 6].map((i) => ask(`127.0.0.${i}`))).finally(() => (isOver = true))
    let most = 0
    while (!isOver) most = Math.max(most, await server.running())
    t.equal(most, 2, 'of four connections')
    t.ok((await all).includes(504), 'those that run are ended in time')
  },
  'pool.wait': async (t, server) => {
    const slow = () => server.query('select', { table: 'sleepy', columns: ['slept'], limit: 1 })
    const held = [slow(), slow(), slow(), slow()]
    await until('all connections are busy', async () => (await server.running()) === held.length)
    const refused = await slow()
    t.match(refused, { status: 503, body: { message: String } })
    t.ok(Number(refused.headers.get('retry-after')) > 0)
    await server.cancel()
    await Promise.all(held)
    t.equal((await server.query('select', SMALL)).status, 200)
  },
  'stream.share': async (t, server) => {
    const reader = await openStream(t, server, 1)
    await until('its share is used up', async () => (await server.query('select', LONG, user(1))).status === 429)
    t.match(await server.query('select', LONG, user(1)), { body: { code: 'too-many-requests', error: /streamShare/ } })
    t.equal((await server.query('select', LONG, user(2))).status, 200)
    t.equal((await server.query('select', LONG)).status, 200, 'an admin')
    reader.destroy()
    await until('its share is free again', async () => (await server.query('select', LONG, user(1))).status === 200)
  },
  'stream.total': async (t, server) => {
    const readers = await Promise.all([1, 2, 3].map((id) => openStream(t, server, id)))
    const streams = async () =>
      /rowhouse_streams\{caller="user"\} (\d)/.exec((await server.fetch('/metrics')).text)?.[1]
    await until('all streams are open', async () => (await streams()) === '3')
    t.match(await server.query('select', LONG, user(4)), { status: 503, body: { error: /database\.streamPoolSize/ } })
    t.equal((await server.query('select', SMALL, user(4))).status, 200)
    t.equal((await server.query('select', { table: 'note', columns: ['id'] }, user(4))).status, 200)
    for (const reader of readers) reader.destroy()
    await until('they are closed', async () => (await streams()) === '0')
  },
  'stream.age': async (t, { hasty }) => {
    const reader = await openStream(t, hasty, 1, 'endless')
    const closed = new Promise((resolve) => reader.once('close', resolve))
    // It may lose it in the middle of what it reads.
    reader.on('error', () => {})
    const age = setTimeout(() => reader.resume(), 200)
    await closed
    clearTimeout(age)
  },
  'unread.caller': async (t, server) => {
    const select = { type: 'select', args: { ...BIG, limit: 9 } }
    const sockets = await Promise.all([1, 2].map(() => open(t, server, 1, select)))
    await until('what is unread counts', async () => (await server.query('select', SMALL, user(1))).status === 429)
    const refused = await server.query('select', SMALL, user(1))
    t.match(refused.body, {
      code: 'too-many-requests',
      error: /this caller hold \d+ bytes of memory.*19 MiB .*database\.maxAnswerBytes/,
    })
    t.ok(refused.headers.has('retry-after'))
    t.equal((await server.query('select', SMALL, user(2))).status, 200)
    t.equal((await server.query('select', SMALL)).status, 200, 'an admin')
    sockets[0]?.destroy()
    sockets[1]?.resume()
    await until('it counts no more', async () => (await server.query('select', SMALL, user(1))).status === 200)
    sockets[1]?.destroy()
  },
}

/** Sends a request of a user, and reads the beginning of its response and no more. */
async function open(t: Test, { url }: TestServer, id: number, query: object): Promise<Socket> {
  const body = JSON.stringify(query)
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
  t.teardown(() => socket.destroy())
  const head = ['POST /v1/query HTTP/1.1', 'host: x', `x-service-admin-secret: ${ADMIN_SECRET}`, 'x-service-role: user']
  socket.write([...head, `x-service-user-id: ${id}`, `content-length: ${body.length}`, '', body].join('\r\n'))
  socket.once('data', () => socket.pause())
  const [first] = (await once(socket, 'data')) as [Buffer]
  t.match(String(first), /^HTTP\/1\.1 200/)
  return socket
}

const openStream = (t: Test, server: TestServer, id: number, table = 'endless'): Promise<Socket> =>
  open(t, server, id, { type: 'select', args: { table, columns: ['id', 't'] } })

const PAGES = {
  'core/http/README.md': {
    'Limits of callers': {
      'Connections to the database (`database.callerShare`, `anonymousShare`)': 'caller.share',
      'Connections and streams of anonymous callers (`database.anonymousTotalShare`)': 'anonymous.together',
      'Streams (`database.streamShare`)': 'stream.share',
    },
  },
} as const

export const shares = area('shares', { promises: PROMISES, pages: PAGES, cases: CASES, start })

interface Shared extends TestServer {
  /** The same database, with short timeouts. */
  readonly hasty: TestServer
  readonly database: pg.Client
  /** How many statements sleep. */
  running(): Promise<number>
  /** Ends statements that sleep. */
  cancel(): Promise<unknown>
}

async function start(t: Test): Promise<Shared> {
  const server = await testServer(t, {
    config: {
      database: {
        maxAnswerBytes: 19 * MIB,
        poolSize: 4,
        streamPoolSize: 3,
        poolWaitMs: patience(1000),
        roleTimeoutMs: { anonymous: 150 },
        pipelines: 0,
      },
    },
  })
  await server.sql(`create table note (id int primary key, text text);
      insert into note values (1, 'one');
      create table big as select n as id, repeat('x', 2000000) as t from generate_series(1, 9) n;
      create view long as select * from big where id <= 3;
      create view endless as select b.id * 1000 + n as id, t from big b, generate_series(1, 100) n;
      create view sleepy as select 1 as id, pg_sleep(60)::text as slept;
      create view brief as select 1 as id, pg_sleep(0.01)::text as slept`)
  const permission = { columns: '*', filter: {} }
  const tables = ['note', 'big', 'long', 'endless', 'sleepy', 'brief']
  await server.must('bulk', [
    ...tables.map((table) => ({ type: 'track_table', args: table })),
    ...tables.flatMap((table) =>
      ['user', 'anonymous', 'constructor'].map((role) => ({
        type: 'create_select_permission',
        args: { table, role, permission },
      })),
    ),
  ])
  const hasty = await testServer(t, {
    databaseUrl: server.databaseUrl,
    config: { database: { statementTimeoutMs: patience(800), lockTimeoutMs: patience(50), streamMaxAgeMs: 150 } },
  })
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  const sleeping = `from pg_stat_activity where state = 'active' and query like '%"sleepy"%' and pid <> pg_backend_pid()`
  return {
    ...server,
    hasty,
    database,
    running: async () => (await database.query(`select 1 ${sleeping}`)).rows.length,
    cancel: () => database.query(`select pg_cancel_backend(pid) ${sleeping}`),
  }
}
