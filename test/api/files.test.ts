import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import pg from 'pg'
import tap from 'tap'
import { admin, filestore } from '../kit/files.js'
import { testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

const ofOneProcess = { skip: PROCESSES > 1 && 'each process has a memory of its own' }
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
