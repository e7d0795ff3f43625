import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** Clients that ask for answers that are held in memory, and do not read them. */

const user = (id: number): As => ({ role: 'user', variables: { 'x-service-user-id': String(id) } })
const SMALL = { table: 'large', columns: ['id'], limit: 1 }
/** 18 MB: more than the system buffers of a connection. */
const LARGE = { table: 'large', columns: ['id', 'text'], limit: 900 }
const MiB = 1024 * 1024

async function start(t: Parameters<typeof testServer>[0], database: object = {}): Promise<TestServer> {
  const server = await testServer(t, { config: { database: { maxAnswerBytes: 32 * MiB, poolSize: 4, ...database } } })
  await server.must('run_sql', {
    sql: `create table large as select n as id, repeat('x', 20000) as text from generate_series(1, 900) n;
      create table huge as select n as id, repeat('x', 20000000) as text from generate_series(1, 1) n`,
  })
  for (const table of ['large', 'huge']) {
    await server.must('track_table', table)
    await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: {} } })
  }
  await server.must('create_query_template', { name: 'large', template: { type: 'select', args: LARGE } })
  return server
}

interface Ask {
  readonly method?: string
  readonly path?: string
  readonly accept?: string
  readonly body?: unknown
}
const SELECT = { body: { type: 'select', args: LARGE } }
const WAYS: Readonly<Record<string, Ask>> = {
  'a select': SELECT,
  'a select through Koa': { ...SELECT, accept: 'application/json;q=0.9' },
  'a stream with one large row': {
    body: { type: 'select', args: { table: 'huge', columns: ['id', 'text'] } },
  },
  'a bulk': { body: { type: 'bulk', args: [SELECT.body] } },
  GraphQL: { path: '/v1/graphql', body: { query: '{ large(limit: 900) { id text } }' } },
  'a template': { method: 'GET', path: '/v1/template/large' },
}

/** Sends a request as a user, and reads the beginning of its answer and no more. */
function ask(server: TestServer, { method = 'POST', path = '/v1/query', accept = '*/*', body }: Ask, id = 1): Socket {
  const text = body === undefined ? '' : JSON.stringify(body)
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    [
      `${method} ${path} HTTP/1.1`,
      'host: x',
      `accept: ${accept}`,
      `x-service-admin-secret: ${ADMIN_SECRET}`,
      'x-service-role: user',
      `x-service-user-id: ${id}`,
      `content-length: ${text.length}`,
      '',
      text,
    ].join('\r\n'),
  )
  socket.once('data', () => socket.pause())
  return socket
}

const begun = (sockets: readonly Socket[]): Promise<string[]> =>
  Promise.all(sockets.map(async (socket) => String((await once(socket, 'data'))[0]).slice(9, 12)))

t.test('a caller who leaves much unread is answered nothing more until it has read', async (t) => {
  const server = await start(t)
  for (const [way, how] of Object.entries(WAYS)) {
    const sockets = [ask(server, how), ask(server, how)]
    t.same(await begun(sockets), ['200', '200'], way)

    await until(`${way} counts`, async () => (await server.query('select', SMALL, user(1))).status === 429)
    const refused = await server.query('select', SMALL, user(1))
    t.match(refused, {
      status: 429,
      body: {
        code: 'too-many-requests',
        error: /this caller hold \d+ bytes of memory.*32 MiB .*database\.maxAnswerBytes/,
      },
    })
    t.ok(refused.headers.has('retry-after'))
    t.equal((await server.query('select', SMALL, user(2))).status, 200, 'another caller')
    t.equal((await server.query('select', SMALL)).status, 200, 'an admin')

    const [one, other] = sockets as [Socket, Socket]
    one.destroy()
    other.resume()
    await until('what was read or given up counts no more', async () => {
      return (await server.query('select', SMALL, user(1))).status === 200
    })
    other.destroy()
  }
})

t.test('of many that come together only some are answered', async (t) => {
  const server = await start(t)
  const sockets = Array.from({ length: 16 }, () => ask(server, SELECT))
  const statuses = await begun(sockets)
  const answered = statuses.filter((status) => status === '200').length
  t.ok(answered >= 2 && answered <= 6, `${answered} of 16`)
  t.equal(statuses.filter((status) => status === '429').length, 16 - answered)
  for (const socket of sockets) socket.destroy()
})

t.test('a whole answer that is read too slowly is cut off like a stream', async (t) => {
  const server = await start(t, { streamMaxAgeMs: 2000 })
  for (const [way, how] of Object.entries(WAYS)) {
    const socket = ask(server, how)
    await begun([socket])
    await until('it counts no more', async () => {
      const metrics = await server.fetch('/metrics')
      // This request alone.
      return /^rowhouse_http_requests_in_flight 1$/m.test(metrics.text)
    })

    let bytes = 0
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.on('data', (chunk: Buffer) => (bytes += chunk.length))
    socket.resume()
    await closed
    t.ok(bytes < 17_000_000, `${way}: it came in part`)
  }
})

t.test('one answer of the largest size may be under way', async (t) => {
  const server = await start(t, { maxAnswerBytes: 19 * MiB })
  const socket = ask(server, SELECT)
  await begun([socket])
  for (let i = 0; i < 5; i++) t.equal((await server.query('select', SMALL, user(1))).status, 200)
  socket.destroy()
})

t.test('unfinished bodies of one caller are bounded together, others are not in their way', async (t) => {
  const server = await start(t, { maxAnswerBytes: 4 * MiB })
  const body = `{"type": "select", "args": ${' '.repeat(900_000)}`
  const begin = (id: number) => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    socket.on('error', () => undefined)
    const head = ['POST /v1/query HTTP/1.1', 'host: x', 'x-service-role: user', `x-service-user-id: ${id}`]
    socket.write([...head, `x-service-admin-secret: ${ADMIN_SECRET}`, 'content-length: 950000', '', body].join('\r\n'))
    return socket
  }
  const sockets = Array.from({ length: 6 }, () => begin(1))
  const [answer] = await Promise.race(sockets.map((socket) => once(socket, 'data')))
  t.match(String(answer), /^HTTP\/1\.1 429 [^]*unfinished bodies/)
  const others = await Promise.all([1, 2].map((id) => server.query('select', SMALL, user(id))))
  t.same(
    others.map(({ status }) => status),
    [200, 200],
  )
  for (const socket of sockets) socket.destroy()
  const again = begin(1)
  again.write(`${' '.repeat(950_000 - body.length - 1)}}`)
  const [refused] = await once(again, 'data')
  t.match(String(refused), /^HTTP\/1\.1 400 /, 'what is gone does not count')
  again.destroy()
})
