import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SignJWT } from 'jose'
import tap, { type Test } from 'tap'
import { freshDatabase } from '../kit/database.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

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
})

tap.test('with userId: text, an admin needs no user id, and others do', async (t) => {
  const server = await files(t, { limits: { admin: { userBytes: 1 } } })
  const put = (id: string, as: As) =>
    server.fetch(`/v1/file/${id}`, { method: 'PUT', body: 'xyz', headers: { 'Content-Type': 'a/b' } }, as)
  t.match(await put('a', {}), { status: 200, body: { user_id: null, user_role: 'admin' } })
  t.match(await put('b', {}), { status: 200 }, 'a quota needs an owner')
  t.equal((await server.fetch('/v1/file/a')).text, 'xyz')
  t.match(await put('c', { role: 'user' }), { status: 400, body: { message: 'missing header: X-Service-User-Id' } })
  t.match(await put('c', { variables: { 'x-service-user-id': 'x'.repeat(256) } }), {
    status: 400,
    body: {
      code: 'bad_request',
      message: 'X-Service-User-Id should be 1 to 255 characters without control characters',
    },
  })
  t.match(await server.fetch('/v1/upload', tus('POST', { 'Upload-Length': '3' })), { status: 201 })
})

const tus = (method: string, headers: Record<string, string>, body?: string): RequestInit => ({
  method,
  headers: { 'Tus-Resumable': '1.0.0', ...headers },
  ...(body === undefined ? {} : { body }),
})

tap.test('a resumable upload belongs to the user id that began it', async (t) => {
  const server = await files(t, { resumable: { maxPerUser: 1 } })
  const begin = (who: string) => server.fetchAs(who, '/v1/upload', tus('POST', { 'Upload-Length': '3' }))
  const [mine, theirs] = [await begin(NAMED), await begin('a b')]
  t.match([mine.status, theirs.status], [201, 201])
  t.equal((await begin('a b')).status, 429, 'each user is counted alone')
  t.equal((await begin('a')).status, 201)
  const path = mine.headers.get('location') as string
  const bytes = { 'Upload-Offset': '0', 'Content-Type': 'application/offset+octet-stream' }
  t.equal((await server.fetchAs('a b', path, tus('PATCH', bytes, 'abc'))).status, 404)
  t.equal((await server.fetchAs(NAMED, path, tus('PATCH', bytes, 'abc'))).status, 204)
  const { result } = await server.must('run_sql', { sql: 'select user_id, file_size from svc_catalog.svc_file' })
  t.same(result[1], [NAMED, '3'])
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

tap.test('a hook gets the id percent-encoded where a header cannot hold it', async (t) => {
  const seen: IncomingHttpHeaders[] = []
  const hook = createServer((req, res) => {
    seen.push(req.headers)
    res.end()
  })
  hook.listen(0, '127.0.0.1')
  await once(hook, 'listening')
  t.teardown(() => hook.close())
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`
  const server = await files(t, { hook: { url } })
  for (const who of [UUID, NAMED, ' a']) t.equal((await server.put(who, 'f', 'x')).status, 200)
  t.same(
    seen.map((headers) => headers['x-service-user-id']),
    [UUID, 'auth0|O\'Neil%20"%E6%BC%A2"%20100%25', '%20a'],
  )
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
