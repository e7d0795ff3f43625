import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { patience } from '../kit/patience.js'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What one caller may ask for, so that others are served. */

const user = (id: number): As => ({ role: 'user', variables: { 'x-service-user-id': String(id) } })

async function start(
  t: Parameters<typeof testServer>[0],
  config: Readonly<Record<string, unknown>> = {},
): Promise<TestServer> {
  const server = await testServer(t, { config })
  await server.must('run_sql', {
    sql: `create table item (id int primary key);
      insert into item select generate_series(1, 20);
      create table large as select n as id, repeat('x', 10000) as text from generate_series(1, 3000) n`,
  })
  for (const table of ['item', 'large']) {
    await server.must('track_table', table)
    const permission = { columns: '*', filter: {} }
    await server.must('create_select_permission', { table, role: 'user', permission })
  }
  return server
}

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
