import t from 'tap'
import { databaseForServer } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

t.test('while the database is away requests fail with 503, and when it is back they are served again', async (t) => {
  const database = await databaseForServer(t)
  const proxy = await startProxy(t, database.url)
  const server = await testServer(t, { databaseUrl: proxy.url })
  await server.sql('create table note (id int primary key)')
  await server.must('track_table', 'note')
  const count = () => server.query('count', { table: 'note' })
  t.equal((await count()).status, 200)

  proxy.set({ kind: 'refuse' })
  proxy.killAll()
  await until('the breaker is open', async () => (await server.fetch('/readyz')).status === 503)
  const refused = await count()
  t.equal(refused.status, 503)
  t.ok(refused.headers.has('retry-after'))

  proxy.set({ kind: 'pass' })
  await until('requests are served again', async () => (await count()).status === 200)
  t.equal((await server.fetch('/readyz')).status, 200)
})
