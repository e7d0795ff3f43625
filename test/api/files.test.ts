import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import pg from 'pg'
import tap from 'tap'
import { admin, filestore, user } from '../kit/files.js'
import { testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

const ofOneProcess = { skip: PROCESSES > 1 && 'each process has a memory of its own' }
const RECORD = {
  content_type: 'text/plain; charset=utf-8',
  file_status: 'uploaded',
  file_size: 5,
  user_id: 7,
  user_role: 'admin',
  created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}\+00:00$/,
}

tap.test('a file comes and goes', async (t) => {
  const server = await filestore(t, { collect: { everySeconds: 1, graceSeconds: 0 } })

  const created = await server.put('a.txt', 'hello', admin, {}, 'POST')
  t.match(created, { status: 200, body: { file_id: 'a.txt', ...RECORD } })
  t.same(Object.keys(created.body), ['file_id', ...Object.keys(RECORD)])
  t.match(created.headers.get('content-type'), /^application\/json/)

  const got = await server.get('a.txt')
  t.match(got, { status: 200, text: 'hello' })
  const etag = `"${createHash('sha256').update('hello').digest('hex')}"`
  t.match(Object.fromEntries(got.headers), {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': '5',
    'accept-ranges': 'bytes',
    etag,
    'last-modified': /GMT$/,
    'cache-control': 'private, no-cache',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  })
  t.equal(got.headers.get('content-disposition'), null)

  const again = await server.put('a.txt', 'other', admin, {}, 'POST')
  t.match(again, { status: 400, body: { code: 'bad_request', message: 'file already exists : a.txt' } })
  t.same(Object.keys(again.body), ['code', 'message'])
  t.equal((await server.get('a.txt')).text, 'hello')

  const replaced = await server.put('a.txt', 'goodbye', { variables: { 'x-service-user-id': '8' } })
  t.match(replaced.body, { ...RECORD, file_size: 7, user_id: 8, created_at: created.body.created_at })
  t.equal((await server.get('a.txt')).text, 'goodbye')
  t.match((await server.put('new', 'x')).body, { file_id: 'new', file_size: 1 })

  t.match(await server.fetch('/v1/file/a.txt', { method: 'DELETE' }, admin), {
    status: 200,
    body: { file_id: 'a.txt', status: 'deleted' },
  })
  t.match(await server.get('a.txt'), { status: 404, body: { code: 'not_found', message: 'file not found : a.txt' } })
  t.match(await server.fetch('/v1/file/a.txt', { method: 'DELETE' }, admin), { status: 404 })
  await until('1 blobs on the disk', async () => (await server.blobs()) === 1)
  await until('1 blobs known', async () => (await blobRows(server)) === 1)
})

const blobRows = async (server: TestServer): Promise<number> =>
  Number((await server.must('run_sql', { sql: 'select count(*) from svc_catalog.svc_blob' })).result[1][0])

tap.test('bytes that cannot be taken away stay known, and do not keep others from going', async (t) => {
  const server = await filestore(t, { collect: { everySeconds: 1, graceSeconds: 0 } })
  await server.must('run_sql', {
    sql: `insert into svc_catalog.svc_blob (blob_id, provider, state, dead_at)
      values ('00000000-0000-4000-8000-000000000000', 'a store that is gone', 'dead', 'epoch')`,
  })
  await server.put('f', 'one')
  await server.put('f', 'two')
  await until('1 blobs on the disk', async () => (await server.blobs()) === 1)
  await until('2 blobs known', async () => (await blobRows(server)) === 2)
})

tap.test('sizes, and uploads that break off', async (t) => {
  const server = await filestore(t, { maxBytes: 6 * 2 ** 20, collect: { everySeconds: 1, graceSeconds: 0 } })
  for (const size of [0, 1, 65_536, 5 * 2 ** 20]) {
    const bytes = Buffer.alloc(size, 'abcdefg')
    t.match((await server.put('f', bytes)).body, { file_size: size })
    const response = await fetch(`${server.url}/v1/file/f`, {
      headers: { 'X-Service-Admin-Secret': 'a secret of a test, 32 characters.', 'X-Service-User-Id': '7' },
    })
    t.ok(bytes.equals(Buffer.from(await response.arrayBuffer())), `${size} bytes`)
  }
  const large = {
    status: 413,
    body: { code: 'payload_too_large', message: /6291456 bytes.*plugins\.filestore\.maxBytes/ },
  }
  t.match(await server.put('f', Buffer.alloc(6 * 2 ** 20 + 1)), large, 'declared')
  const chunked = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const req = request(`${server.url}/v1/file/f`, {
      method: 'PUT',
      headers: {
        'X-Service-Admin-Secret': 'a secret of a test, 32 characters.',
        'X-Service-User-Id': '7',
        'Content-Type': 'a/b',
      },
    })
    req.on('error', reject).on('response', (res) => {
      let text = ''
      res
        .on('data', (chunk: Buffer) => (text += chunk.toString()))
        .on('end', () => resolve({ status: res.statusCode, text }))
    })
    const piece = Buffer.alloc(2 ** 20)
    for (let i = 0; i < 7; i++) req.write(piece)
    req.end()
  })
  t.match(chunked, { status: 413, text: /payload_too_large/ }, 'found')
  t.equal(
    (await server.fetch('/v1/file/f', { method: 'HEAD' }, admin)).headers.get('content-length'),
    String(5 * 2 ** 20),
  )

  const { port } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write(
    `PUT /v1/file/f HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: a secret of a test, 32 characters.\r\nX-Service-User-Id: 7\r\nContent-Type: a/b\r\nContent-Length: 1000000\r\n\r\n${'x'.repeat(1000)}`,
  )
  await until('an upload is under way', async () => (await writing(server)) === 1)
  socket.destroy()
  await until('1 blobs known', async () => (await blobRows(server)) === 1)
  await until('1 blobs on the disk', async () => (await server.blobs()) === 1)
  t.equal((await server.get('f')).text.length, 5 * 2 ** 20, 'the file is as it was')
})

const writing = async (server: TestServer): Promise<number> =>
  Number(
    (await server.must('run_sql', { sql: "select count(*) from svc_catalog.svc_blob where state = 'writing'" }))
      .result[1][0],
  )

tap.test('a lease that ran out: the upload fails, and its bytes go', async (t) => {
  const server = await filestore(t, { collect: { everySeconds: 1, graceSeconds: 0 } })
  await server.put('f', 'before')
  const { port } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1')
  const answer: Buffer[] = []
  socket.on('data', (chunk: Buffer) => answer.push(chunk)).on('error', () => {})
  socket.write(
    'PUT /v1/file/f HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: a secret of a test, 32 characters.\r\nX-Service-User-Id: 7\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nafte',
  )
  await until('an upload is under way', async () => (await writing(server)) === 1)
  await server.must('run_sql', {
    sql: "update svc_catalog.svc_blob set leased_until = 'epoch' where state = 'writing'",
  })
  await until('1 blobs known', async () => (await blobRows(server)) === 1)
  socket.write('r')
  await until('the upload is refused', () => Buffer.concat(answer).includes('upload_lost'))
  socket.destroy()
  t.match(Buffer.concat(answer).toString(), /^HTTP\/1\.1 503 /)
  t.equal((await server.get('f')).text, 'before')
  await until('1 blobs on the disk', async () => (await server.blobs()) === 1)
})

tap.test('an upload that others have forgotten takes its bytes with it', async (t) => {
  const server = await filestore(t)
  await server.put('f', 'before')
  const { port } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1')
  const answer: Buffer[] = []
  socket.on('data', (chunk: Buffer) => answer.push(chunk)).on('error', () => {})
  socket.write(
    'PUT /v1/file/f HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: a secret of a test, 32 characters.\r\nX-Service-User-Id: 7\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nafte',
  )
  const writing = "select count(*) from svc_catalog.svc_blob where state = 'writing'"
  const noted = async () => (await server.must('run_sql', { sql: writing })).result[1][0] === '1'
  await until('it is noted', noted)
  // A collector came before the store had anything.
  await server.must('run_sql', { sql: "delete from svc_catalog.svc_blob where state = 'writing'" })
  socket.write('r')
  await until('the upload is refused', () => Buffer.concat(answer).includes('upload_lost'))
  socket.destroy()
  await until('1 blobs on the disk', async () => (await server.blobs()) === 1)
})

tap.test('one file, many writers and readers: every answer is one whole version', async (t) => {
  const server = await filestore(t, { collect: { everySeconds: 1, graceSeconds: 0 } })
  const version = (n: number) => Buffer.alloc(40_000 + n, String.fromCharCode(97 + (n % 26)))
  await server.put('f', version(0))
  const seen = new Set<string>()
  await Promise.all(
    Array.from({ length: 12 }, async (_, client) => {
      for (let round = 0; round < 12; round++) {
        if (client % 3 === 0) t.equal((await server.put('f', version(client * 12 + round))).status, 200)
        else {
          const { status, text, headers } = await server.get('f')
          const whole = text === (text[0] ?? '').repeat(text.length)
          const etag = `"${createHash('sha256').update(text).digest('hex')}"`
          if (status !== 200 || !whole || headers.get('etag') !== etag) t.fail(`torn: ${status} ${text.length}`)
          seen.add(etag)
        }
      }
    }),
  )
  t.ok(seen.size > 1, `${seen.size} versions seen`)
  await until('1 blobs on the disk', async () => (await server.blobs()) === 1)

  const created = await Promise.all(
    Array.from({ length: 8 }, (_, n) => server.put('once', String(n), admin, {}, 'POST')),
  )
  t.equal(created.filter(({ status }) => status === 200).length, 1)
  t.equal(created.filter(({ body }) => body.message === 'file already exists : once').length, 7)
  await until('2 blobs on the disk', async () => (await server.blobs()) === 2)
})

tap.test('small files are kept in memory', ofOneProcess, async (t) => {
  const server = await filestore(t, { cacheBytes: 6000, collect: { everySeconds: 1, graceSeconds: 900 } })
  for (const id of ['a', 'b', 'changed']) await server.put(id, id.repeat(1000).slice(0, 1000))
  const [a, changed] = [await server.blobOf('a'), await server.blobOf('changed')]
  await writeFile(changed, 'x'.repeat(1000))
  const first = await server.get('a')

  t.match(await server.get('changed'), { status: 500 }, 'what is not what was written is neither sent nor kept')
  t.match(first, { status: 200, text: 'a'.repeat(1000) })
  await rm(a)
  t.match(await server.get('a'), { status: 200, text: first.text })
  t.match(await server.get('a', { Range: 'bytes=1-2' }), { status: 206, text: 'aa' })
  t.match(await server.get('a', {}, user), { status: 403 }, 'who may read it is asked every time')
  await server.put('a', 'new')
  t.match(await server.get('a'), { status: 200, text: 'new' })
  await server.fetch('/v1/file/a', { method: 'DELETE' }, admin)
  t.match(await server.get('a'), { status: 404 })
})

tap.test('of small files those that were asked for last are kept', ofOneProcess, async (t) => {
  const server = await filestore(t, { cacheBytes: 7000 })
  const ids = ['a', 'b', 'c']
  const blobs: string[] = []
  for (const id of ids) {
    await server.put(id, id.repeat(1000))
    blobs.push(await server.blobOf(id))
  }
  for (const id of ['a', 'b', 'a', 'c']) await server.get(id)
  for (const blob of blobs) await rm(blob)

  t.match(await server.get('a'), { status: 200 })
  t.match(await server.get('b'), { status: 500 })
  t.match(await server.get('c'), { status: 200 })
})

tap.test('files of up to 1 MiB are kept as well, and do not drive out smaller ones', ofOneProcess, async (t) => {
  const server = await filestore(t, { cacheBytes: 2 ** 21 + 2 ** 12 })
  const sizes = { small: 1000, first: 2 ** 20 - 1, second: 2 ** 20, long: 2 ** 20 + 1 }
  for (const [id, size] of Object.entries(sizes)) await server.put(id, 'x'.repeat(size))
  for (const id of Object.keys(sizes))
    t.match(await server.get(id), { status: 200, text: 'x'.repeat(sizes[id as 'small']) })
  for (const id of Object.keys(sizes)) await rm(await server.blobOf(id))

  t.match(await server.get('small'), { status: 200 })
  t.match(await server.get('second'), { status: 200, text: 'x'.repeat(sizes.second) })
  t.match(await server.get('second', { Range: 'bytes=5-6' }), { status: 206, text: 'xx' })
  t.match(await server.get('first'), { status: 500 }, 'there was room for one')
  t.match(await server.get('long'), { status: 500 })
})

tap.test(
  'uploads that are sent slowly fill no memory: past 64 MiB of them they are streamed',
  ofOneProcess,
  async (t) => {
    const server = await filestore(t)
    await server.put('f', 'x')
    const sockets = Array.from({ length: 66 }, (_, i) => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      socket.write(
        `PUT /v1/file/f${i} HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: a secret of a test, 32 characters.\r\nX-Service-User-Id: 7\r\nContent-Type: a/b\r\nContent-Length: 1048576\r\n\r\nx`,
      )
      return socket
    })
    await until('two of them are on their way to the disk', async () => (await server.blobs()) === 3)
    for (const socket of sockets) socket.destroy()
    await until('nothing is left of them', async () => (await server.blobs()) === 1)
  },
)

tap.test('of many files that are asked for at once each is answered with its own', async (t) => {
  const server = await filestore(t)
  const ids = Array.from({ length: 12 }, (_, i) => `f${i}`)
  const stored = await Promise.all(ids.map((id) => server.put(id, `bytes of ${id}`)))
  t.same(
    stored.map(({ body }) => body.file_id),
    ids,
  )
  const asked = [...ids, 'missing', ...ids.toReversed(), 'missing as well']
  const got = await Promise.all(asked.map((id) => server.get(id)))
  t.same(
    got.map(({ status, text }) => (status === 200 ? text : status)),
    asked.map((id) => (ids.includes(id) ? `bytes of ${id}` : 404)),
  )
})

tap.test('nobody waits for a lock on a file of others', async (t) => {
  const server = await testServer(t, {
    files: true,
    config: { dataDir: t.testdir({}), database: { lockTimeoutMs: 300_000, statementTimeoutMs: 300_000 } },
  })
  const put = (method: string, id: string) =>
    server.fetch(`/v1/file/${id}`, { method, body: 'x', headers: { 'Content-Type': 'a/b' } }, admin)
  await put('PUT', 'there')
  const somebody = new pg.Client(server.databaseUrl)
  await somebody.connect()
  t.teardown(() => somebody.end())
  for (const method of ['POST', 'PUT']) {
    const held = `held by ${method}`
    await somebody.query('begin')
    await somebody.query(HOLD, [held])

    const waits = put(method, encodeURIComponent(held))
    const others = await Promise.all(Array.from({ length: 12 }, (_, i) => put(method, `${method}${i}`)))
    await somebody.query('rollback')
    t.same(new Set(others.map(({ status }) => status)), new Set([200]), method)
    t.match(await waits, { status: 200 }, 'who waits is answered when it is free')
  }
})

/** A file whose transaction has not ended. */
const HOLD = `
with blob as (
  insert into svc_catalog.svc_blob (blob_id, provider, state, size, sha256)
  select gen_random_uuid(), provider, state, size, sha256 from svc_catalog.svc_blob where state = 'live' limit 1
  returning blob_id
)
insert into svc_catalog.svc_file (file_id, blob_id, content_type, file_size, user_id, user_role, etag)
select $1, (select blob_id from blob), content_type, file_size, user_id, user_role, etag
from svc_catalog.svc_file where file_id = 'there'`
