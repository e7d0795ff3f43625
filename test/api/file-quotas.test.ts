import { request } from 'node:http'
import tap from 'tap'
import { admin, filestore, type Files, user } from '../kit/files.js'
import { type As, ADMIN_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const permissions = { user: ['create', 'read', 'delete'], small: ['create'] }
const full = { status: 413, body: { code: 'quota_exceeded' } }
const tooLarge = { status: 413, body: { code: 'payload_too_large' } }

/** Without a Content-Length. */
const chunked = (server: Files, id: string, text: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const headers = {
      'X-Service-Admin-Secret': ADMIN_SECRET,
      'X-Service-Role': 'user',
      'X-Service-User-Id': '42',
      'Content-Type': 'a/b',
    }
    const sent = request(`${server.url}/v1/file/${id}`, { method: 'PUT', headers }, (res) => {
      res.resume()
      resolve(res.statusCode ?? 0)
    })
    sent.on('error', reject)
    sent.write(text.slice(0, 1))
    sent.end(text.slice(1))
  })

tap.test('the files of a user have a quota', async (t) => {
  const server = await filestore(t, { permissions, limits: { user: { userBytes: 100 } }, maxBytes: 500 })
  const x = (length: number) => 'x'.repeat(length)

  t.equal((await server.put('a', x(60), user)).status, 200)
  const refused = await server.put('b', x(41), user)
  t.match(refused, full)
  t.match(refused.body.message, /60 of 100 bytes.*plugins\.filestore\.limits\.user\.userBytes/)
  t.equal((await server.put('a', x(100), user)).status, 200, 'what is replaced does not count')
  t.match(await server.put('b', x(1), user), full)
  t.equal((await server.put('empty', '', user)).status, 200)
  t.equal((await server.put('c', x(100), other)).status, 200, 'another user has its own')
  t.equal((await server.put('d', x(400), admin)).status, 200, 'the admin has none')
  t.equal((await server.fetch('/v1/file/a', { method: 'DELETE' }, user)).status, 200)
  t.equal(await chunked(server, 'b', x(70)), 200, 'nothing is announced')
  t.equal(await chunked(server, 'e', x(31)), 413)
  t.equal(await chunked(server, 'e', x(30)), 200)
  t.match(await server.put('f', x(1), user), full)

  const own = { user_id: '42', used_bytes: 100, max_user_bytes: 100, max_bytes: 500 }
  t.strictSame((await server.query('file_usage', {}, user)).body, { ...own, role: 'user' })
  t.match(await server.query('file_usage', {}, { ...user, role: 'none' }), { status: 403 })
  t.match((await server.query('file_usage', {}, admin)).body, {
    user_id: '7',
    max_user_bytes: null,
    owners: [
      { user_id: 7, roles: ['admin'], files: 1, bytes: 400, max_user_bytes: null },
      { user_id: 42, roles: ['user'], files: 3, bytes: 100, max_user_bytes: 100 },
      { user_id: 43, files: 1 },
    ],
  })
})

tap.test('uploads at once stay within the quota, and give back what they do not use', async (t) => {
  const server = await filestore(t, { permissions, limits: { user: { userBytes: 100 } } })
  const tried = await Promise.all(Array.from({ length: 12 }, (_, i) => server.put(`f${i}`, 'x'.repeat(30), user)))
  t.equal(tried.filter(({ status }) => status === 200).length, 3)
  t.same(new Set(tried.map(({ status }) => status)), new Set([200, 413]))

  const form = new FormData()
  for (const text of ['12345', '12345']) form.append('f', new Blob([text]), 'f')
  t.equal((await server.fetch('/v1/file', { method: 'POST', body: form }, user)).status, 200, 'ten bytes were left')
  t.match(await server.fetch('/v1/file', { method: 'POST', body: form }, user), { status: 413 })
  t.match(await server.put('other type', 'x'.repeat(5), other, { 'Content-Type': 'no type' }), { status: 400 })
  await until('nothing is left over', async () => (await server.blobs()) === 5)
})

tap.test('resumable uploads take their room when they begin', async (t) => {
  const server = await filestore(t, { permissions, limits: { user: { userBytes: 100 } } })
  const tus = (method: string, path: string, headers: Record<string, string>, body = '') =>
    server.fetch(
      path,
      {
        method,
        headers: { 'Tus-Resumable': '1.0.0', ...headers },
        ...(body === ''
          ? {}
          : {
              body,
              headers: { ...headers, 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream' },
            }),
      },
      user,
    )
  const begin = (length: number) => tus('POST', '/v1/upload', { 'Upload-Length': String(length) })

  t.match(await begin(101), full)
  const begun = await begin(60)
  t.equal(begun.status, 201)
  t.match(await begin(41), full)
  t.match(await server.put('a', 'x'.repeat(41), user), full)
  t.equal((await server.put('a', 'x'.repeat(40), user)).status, 200)
  const path = begun.headers.get('location') as string
  t.equal((await tus('PATCH', path, { 'Upload-Offset': '0' }, 'x'.repeat(60))).status, 204, 'there is room to end it')
  t.match(await begin(1), full)
  t.equal((await server.fetch('/v1/file/a', { method: 'DELETE' }, user)).status, 200)
  const left = (await begin(40)).headers.get('location') as string
  t.equal((await tus('DELETE', left, {})).status, 204)
  t.equal((await server.put('b', 'x'.repeat(40), user)).status, 200, 'what is given up gives its room back')
})

tap.test('a role may have smaller files than others, or larger ones', async (t) => {
  const server = await filestore(t, {
    permissions,
    maxBytes: 100,
    limits: { small: { maxBytes: 10 }, admin: { maxBytes: 200 } },
  })
  const small: As = { role: 'small', variables: { 'x-service-user-id': '1' } }
  t.match(await server.put('a', 'x'.repeat(11), small), tooLarge)
  t.equal((await server.put('a', 'x'.repeat(10), small)).status, 200)
  t.match(await server.put('b', 'x'.repeat(101), user), tooLarge)
  t.equal((await server.put('b', 'x'.repeat(101), admin)).status, 200)
})
