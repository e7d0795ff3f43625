import tap from 'tap'
import { admin, filestore, type Files, user } from '../kit/files.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const refused = { status: 403, body: { code: 'access_denied', message: 'the signature is wrong, or has expired' } }

const sign = (server: Files, body: object, as = user) =>
  server.fetch('/v1/file-url', { method: 'POST', body: JSON.stringify(body) }, as)

tap.test('a signed address ends: by its time, and with its secret', async (t) => {
  const server = await filestore(t)
  await server.put('f', 'hello')
  const short = (await sign(server, { file_id: 'f', expires_in: 1 }, admin)).body.url
  await until('it has expired', async () => (await server.bare(short)).status === 403)

  const { url } = (await sign(server, { file_id: 'f' }, admin)).body
  const second = await testServer(t, {
    files: true,
    databaseUrl: server.databaseUrl,
    config: { dataDir: t.testdir({}) },
  })
  t.equal((await second.bare(url, { method: 'HEAD' })).status, 200, 'another server knows it')
  await server.must('run_sql', { sql: `update svc_catalog.svc_file_secret set secret = 'other'` })
  const third = await testServer(t, {
    files: true,
    databaseUrl: server.databaseUrl,
    config: { dataDir: t.testdir({}) },
  })
  t.match(await third.bare(url), refused)
})
