import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import tap from 'tap'
import { admin, filestore, type Files, user } from '../kit/files.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const refused = { status: 403, body: { code: 'access_denied', message: 'the signature is wrong, or has expired' } }
const bad = (message: RegExp | string) => ({ status: 400, body: { code: 'bad_request', message } })

const sign = (server: Files, body: object, as = user) =>
  server.fetch('/v1/file-url', { method: 'POST', body: JSON.stringify(body) }, as)

tap.test('a signed address needs nobody', async (t) => {
  const server = await filestore(t, { permissions: { user: ['read'] }, signedUrls: { maxSeconds: 3600 } })
  const id = 'ä b/c?.txt'
  await server.put(id, 'hello')
  await server.put('other', 'secret')

  const { status, body } = await sign(server, { file_id: id, expires_in: 100 })
  t.equal(status, 200)
  t.equal(body.file_id, id)
  t.ok(Math.abs(Date.parse(body.expires_at) - Date.now() - 100_000) < 60_000)
  t.match(await server.bare(body.url), { status: 200, text: 'hello' })
  t.match(await server.bare(body.url, { method: 'HEAD' }), { status: 200, text: '' })
  t.match(await server.bare(body.url, { headers: { Range: 'bytes=1-2' } }), { status: 206, text: 'el' })
  t.equal((await server.bare(body.url, { method: 'DELETE' })).status, 403, 'to read, and for nothing else')
  t.equal((await server.bare(body.url, { method: 'PUT', body: 'x' })).status, 403)

  const { url } = (await sign(server, { file_id: id, download: 'ü.txt' })).body
  t.match((await server.bare(url)).headers.get('content-disposition'), /^attachment; filename=/)
  const tampered = {
    'another file': url.replace(/file\/[^?]*/, 'file/other'),
    'a longer life': url.replace(/expires=(\d+)/, (_: string, at: string) => `expires=${Number(at) + 1}`),
    'another name': url.replace(/download=[^&]*/, 'download=x.exe'),
    'no name': url.replace(/download=[^&]*&/, ''),
    'a name twice': `${url}&download=x`,
    'another signature': url.replace(/signature=./, 'signature=_'),
    'no signature': url.replace(/signature=.*/, 'signature='),
    'two signatures': `${url}&signature=x`,
    'no end': url.replace(/expires=\d+&/, ''),
    'an end that is no number': url.replace(/expires=\d+/, 'expires=1e20'),
  }
  for (const [name, changed] of Object.entries(tampered)) {
    t.not(changed, url, name)
    t.match(await server.bare(changed), refused, name)
  }
  t.equal((await server.bare('/v1/file/other')).status, 403, 'and without one nobody is anonymous')
})

tap.test('who may have a signed address', async (t) => {
  const server = await filestore(t, { permissions: { user: ['read'] }, signedUrls: { maxSeconds: 3600 } })
  await server.put('f', 'hello')

  t.match(await sign(server, { file_id: 'f' }, { role: 'guest', variables: user.variables ?? {} }), { status: 403 })
  t.match(await sign(server, { file_id: 'f' }, { role: 'user' }), bad('missing header: X-Service-User-Id'))
  t.match(await sign(server, { file_id: 'g' }), { status: 404, body: { code: 'not_found' } })
  t.match(await sign(server, { file_id: 'f', expires_in: 3601 }), bad(/from 1 to 3600/))
  for (const expires_in of [0, -1, 1.5, '60', null])
    t.match(await sign(server, { file_id: 'f', expires_in }), bad(/whole number/))
  t.match(await sign(server, { file_id: 'f', expires: 10 }), bad('unexpected key "expires"'))
  t.match(await sign(server, { expires_in: 10 }), bad('missing parameter: file_id'))
  t.match(await sign(server, { file_id: 'f', download: 1 }), bad(/download/))
  t.match(await server.fetch('/v1/file-url', { method: 'POST', body: '[1]' }, user), bad(/expecting an object/))
})

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

tap.test('a proxy that reads the same disk is told where the bytes are', async (t) => {
  for (const by of ['x-accel-redirect', 'x-sendfile']) {
    const server = await filestore(t, { handOff: { mode: by, prefix: '/_files', minBytes: 10 } })
    await server.put('small', '123456789')
    await server.put('large', '1234567890')
    t.equal((await server.get('small')).text, '123456789')

    const { status, headers, text } = await server.get('large', { Range: 'bytes=0-1' })
    t.match({ status, text }, { status: 200, text: '' }, 'the proxy answers the range')
    t.equal(headers.get('content-type'), 'text/plain; charset=utf-8')
    const path = headers.get(by) ?? ''
    t.match(path, /^\/_files\//)
    t.equal(await readFile(decodeURIComponent(path).replace('/_files', ''), 'utf8'), '1234567890')
    const etag = `"${createHash('sha256').update('1234567890').digest('hex')}"`
    t.match(await server.get('large', { 'If-None-Match': etag }), { status: 304 }, 'what needs no bytes is ours')
    t.match(await server.get('large', { Range: 'bytes=11-' }), { status: 400 })
    t.match(await server.get('large', { Range: 'bytes=0-1', 'If-Range': etag }), { status: 206, text: '12' })
    t.match(await server.get('large', { 'X-Service-Filestore-Range': 'bytes=0-1' }), { status: 206, text: '12' })
    t.equal((await server.get('large', {}, user)).headers.get(by), null, 'not without permission')
  }
})
