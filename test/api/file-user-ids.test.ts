import { SignJWT } from 'jose'
import tap, { type Test } from 'tap'
import { freshDatabase } from '../kit/database.js'
import { testServer, type TestServer } from '../kit/server.js'

const KEY = 'a shared secret of a test, 32 characters.'
const UUID = '8d6f2b1e-4c0a-4f57-9b1e-0a1b2c3d4e5f'
const NAMED = 'auth0|O\'Neil "漢" 100%'

interface Files extends TestServer {
  fetchAs(id: string, path: string, init?: RequestInit, role?: string): ReturnType<TestServer['fetch']>
  put(who: string, id: string, body: string): ReturnType<TestServer['fetch']>
}

async function files(t: Test, filestore: object, databaseUrl?: string): Promise<Files> {
  const claims = { allowedRoles: '/roles', variables: { 'x-service-user-id': '/sub' } }
  const server = await testServer(t, {
    files: true,
    databaseUrl,
    config: {
      dataDir: t.testdir({}),
      auth: { jwt: { algorithms: ['HS256'], key: KEY, claims } },
      plugins: { filestore: { userId: 'text', permissions: { user: ['create', 'read', 'delete'] }, ...filestore } },
    },
  })
  const fetchAs: Files['fetchAs'] = async (sub, path, init = {}, role = 'user') => {
    const token = await new SignJWT({ roles: [role], sub })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1h')
      .sign(Buffer.from(KEY))
    return server.bare(path, { ...init, headers: { ...(init.headers as object), Authorization: `Bearer ${token}` } })
  }
  return {
    ...server,
    fetchAs,
    put: (who, id, body) =>
      fetchAs(who, `/v1/file/${id}`, { method: 'PUT', body, headers: { 'Content-Type': 'text/plain' } }),
  }
}

tap.test('any user id owns files with the setting userId: text', async (t) => {
  const server = await files(t, { limits: { user: { userBytes: 10 } } })
  for (const [i, who] of [UUID, NAMED, '7', 'a b', 'a'].entries()) {
    t.match(await server.put(who, `f${i}`, '123456'), { status: 200, body: { user_id: who, user_role: 'user' } })
    t.match(await server.put(who, `g${i}`, '123456'), { status: 413, body: { code: 'quota_exceeded' } }, who)
    t.equal((await server.put(who, `f${i}`, '1234567890')).status, 200)
    t.equal((await server.fetchAs(who, `/v1/file/f${i}`)).text, '1234567890')
  }
  const form = new FormData()
  form.append('f', new Blob(['1']), 'f')
  t.match(await server.fetchAs('new', '/v1/file', { method: 'POST', body: form }), { body: [{ user_id: 'new' }] })
  const signed = await server.fetchAs(UUID, '/v1/file-url', { method: 'POST', body: '{"file_id":"f0"}' })
  t.equal((await server.bare(signed.body.url)).text, '1234567890')
  t.match(await server.fetchAs(NAMED, '/v1/file/f1', { method: 'DELETE' }), { status: 200 })
  t.match(await server.fetchAs(NAMED, '/v1/file/f1'), { status: 404 })
  for (const [i, who] of [
    [0, UUID],
    [2, '7'],
  ] as const)
    t.match(await server.fetchAs(who, `/v1/file/f${i}`), { status: 200, text: '1234567890' }, 'others keep their files')
  t.equal((await server.bare(signed.body.url)).text, '1234567890')
})

const tus = (method: string, headers: Record<string, string>, body?: string): RequestInit => ({
  method,
  headers: { 'Tus-Resumable': '1.0.0', ...headers },
  ...(body === undefined ? {} : { body }),
})

tap.test('rules on the table of files compare text ids', async (t) => {
  const server = await files(t, { permissions: {} })
  const table = { schema: 'svc_catalog', name: 'svc_file' }
  const mine = { user_id: 'X-Service-User-Id' }
  await server.must('track_table', table)
  await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: mine } })
  await server.must('create_insert_permission', { table, role: 'user', permission: { columns: '*', check: mine } })
  t.match(await server.put(NAMED, 'f', 'x'), { status: 200 })
  t.match(await server.fetchAs(NAMED, '/v1/file/f'), { status: 200 })
  t.match(await server.fetchAs(UUID, '/v1/file/f'), { status: 404 })
})

tap.test('userId: text converts the owners of stored files, and there is no way back', async (t) => {
  const database = await freshDatabase()
  t.teardown(() => database.drop())
  const before = await files(t, { userId: 'integer' }, database.url)
  t.match(await before.put('42', 'f', 'x'), { status: 200, body: { user_id: 42 } })
  t.match(await before.put(UUID, 'g', 'x'), {
    status: 400,
    body: { message: 'X-Service-User-Id should be an integer' },
  })
  const upload = await before.fetchAs('42', '/v1/upload', tus('POST', { 'Upload-Length': '3' }))
  t.equal(upload.status, 201)
  await before.close()

  const after = await files(t, { limits: { user: { userBytes: 10 } } }, database.url)
  const sql =
    "select (select user_id from svc_catalog.svc_file where file_id = 'f'), user_id from svc_catalog.svc_upload"
  t.same((await after.must('run_sql', { sql })).result[1], ['42', '42'])
  t.match(await after.put('42', 'h', '1234567'), { status: 413 }, 'one byte and an upload of three are there')
  t.match(await after.put('42', 'h', '123456'), { status: 200, body: { user_id: '42' } })
  await after.close()

  await t.rejects(files(t, { userId: 'integer' }, database.url), /plugins\.filestore\.userId is "integer", but/)
})
