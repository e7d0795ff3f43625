import t from 'tap'
import { freshDatabase } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
import { type As, testServer } from '../kit/server.js'

const ADMIN: As = { variables: { 'x-service-user-id': '1' } }
const COMMIT = 'on conflict (file_id) do update'

t.test('a commit whose answer cannot be read has happened or has not, and the file has its bytes', async (t) => {
  const database = await freshDatabase()
  t.teardown(() => database.drop())
  const proxy = await startProxy(t, database.url)
  const server = await testServer(t, { files: true, databaseUrl: proxy.url, config: { dataDir: t.testdir({}) } })
  const store = (method: string, body: string) =>
    server.fetch('/v1/file/f', { method, body, headers: { 'Content-Type': 'a/b' } }, ADMIN)
  t.equal((await store('POST', 'before')).status, 200)

  proxy.set({ kind: 'garble', after: COMMIT })
  const { status } = await store('PUT', 'after')
  proxy.set({ kind: 'pass' })

  t.ok(status >= 500, `${status}`)
  t.match(await server.fetch('/v1/file/f', {}, ADMIN), { status: 200, text: /^(?:before|after)$/ })
})
