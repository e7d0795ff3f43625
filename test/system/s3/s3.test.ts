import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { pino } from 'pino'
import tap, { type Test } from 'tap'
import s3 from '../../../providers/storage/s3.js'
import { storageContract } from '../../kit/index.js'
import { type Proxy, startProxy } from '../../kit/proxy.js'
import { ADMIN_SECRET, type As, type TestOptions, testServer, type TestServer } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import { startSwift } from './swift.js'

const MIB = 1_048_576
const PIECE = Buffer.alloc(65_536, 7)
const SIGNAL_MS = 60_000

const log = pino({ level: 'silent' })
const swift = await startSwift(tap)
const { access } = swift
const admin = new S3Client({
  endpoint: access.endpoint,
  region: 'us-east-1',
  forcePathStyle: true,
  credentials: { ...access },
  requestChecksumCalculation: 'WHEN_REQUIRED',
})
tap.teardown(() => admin.destroy())
await until('a bucket can be made', () =>
  admin.send(new CreateBucketCommand({ Bucket: 'first' })).then(
    () => true,
    () => false,
  ),
)
tap.jobs = 1

/** A bucket of its own, and what is in it. */
async function bucket() {
  const Bucket = `files-${randomUUID()}`
  await admin.send(new CreateBucketCommand({ Bucket }))
  const left = async () => {
    const { Contents = [] } = await admin.send(new ListObjectsV2Command({ Bucket }))
    const { Uploads = [] } = await admin.send(new ListMultipartUploadsCommand({ Bucket }))
    return { objects: Contents.map(({ Key }) => Key), uploads: Uploads.map(({ Key }) => Key) }
  }
  return { Bucket, left }
}
const unavailable = { status: 503, code: 'storage_unavailable' }
const NOTHING = { objects: [], uploads: [] }

/** As it is configured, but for the limits, which are for tests. */
const settings = (Bucket: string, endpoint = access.endpoint) => ({
  ...access,
  endpoint,
  bucket: Bucket,
  prefix: 'some/files/',
  partBytes: 5 * MIB,
  connectTimeoutMs: 5_000,
  timeoutMs: 10_000,
})

async function open(t: Test, config: Parameters<typeof s3.create>[0]) {
  const store = await s3.create(config, { log, dataDir: '' })
  t.teardown(() => store.close?.())
  return store
}

const deadline = () => AbortSignal.timeout(SIGNAL_MS)

/** `tell` is called before the last piece. */
function body(bytes: number, tell: () => Promise<void> | void = () => {}): Readable {
  return Readable.from(
    (async function* () {
      for (let left = bytes; left > 0; left -= PIECE.length) {
        if (left <= PIECE.length) await tell()
        yield PIECE.subarray(0, Math.min(left, PIECE.length))
      }
    })(),
  )
}

tap.test('it keeps the contract, in a bucket that others use as well', async (t) => {
  const { Bucket, left } = await bucket()
  const store = await s3.create(settings(Bucket), { log, dataDir: '' })
  for (const { name, run } of storageContract) await t.resolves(run(store), name)

  t.same(await left(), NOTHING)
  const other = await open(t, { ...settings(Bucket), prefix: '' })
  const theirs = randomUUID()
  await other.put(theirs, body(1), deadline())
  const again = await open(t, settings(Bucket))
  await again.put('ours', body(1), deadline())
  t.same(await all(again), [{ key: 'ours', size: 1 }])
  t.same(await all(other), [{ key: theirs, size: 1 }], 'what is in folders is not its own')
  await t.rejects(again.delete('../x'), /is not a valid key/)
})

const all = (store: Awaited<ReturnType<typeof open>>) => Readable.from(store.list?.(deadline()) ?? []).toArray()

tap.test('memory stays flat, and nothing is left of an upload that ends early', async (t) => {
  const { Bucket, left } = await bucket()
  const store = await open(t, settings(Bucket))
  const before = process.memoryUsage().rss
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 5)
  const start = performance.now()
  const bytes = 64 * MIB
  t.same(await store.put('large', body(bytes), deadline()), { size: bytes })
  const put = performance.now()
  let got = 0
  for await (const chunk of await store.get('large', undefined, deadline())) got += (chunk as Buffer).length
  const end = performance.now()
  clearInterval(watch)
  const grown = (most - before) / MIB
  t.equal(got, bytes)
  t.ok(grown < 56, `RSS grew by ${grown.toFixed(0)} MiB`)
  const speed = (ms: number) => ((64 * 1000) / ms).toFixed(0)
  t.comment(`64 MiB: up ${speed(put - start)}, down ${speed(end - put)} MiB/s, RSS at most +${grown.toFixed(0)} MiB`)
  await store.delete('large')

  const abort = new AbortController()
  const aborted = body(12 * MIB, async () => {
    await until('an upload is under way', async () => (await left()).uploads.length === 1)
    abort.abort()
  })
  await t.rejects(store.put('aborted', aborted, abort.signal))
  t.same(await left(), NOTHING)

  const broken = body(12 * MIB, async () => {
    await until('an upload is under way', async () => (await left()).uploads.length === 1)
    throw new Error('the client went away')
  })
  await t.rejects(store.put('broken', broken, deadline()), /the client went away/)
  t.same(await left(), NOTHING)
})

tap.test('delete takes what a killed server left of that key, and nothing else', async (t) => {
  const { Bucket, left } = await bucket()
  const store = await open(t, settings(Bucket))
  for (const Key of ['some/files/a1', 'some/files/a1', 'some/files/a12']) {
    const { UploadId } = await admin.send(new CreateMultipartUploadCommand({ Bucket, Key }))
    await admin.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber: 1, Body: PIECE }))
  }
  await store.delete('a1')
  t.same(await left(), { objects: [], uploads: ['some/files/a12'] })
  await store.delete('a12')
  t.same(await left(), NOTHING)
})

tap.test('a signed address ends', async (t) => {
  const { Bucket } = await bucket()
  const store = await open(t, settings(Bucket))
  await store.put('signed', body(5), deadline())
  const url = (await store.signedUrl?.('signed', { expiresInSeconds: 1, contentType: 'a/b' })) as string
  const tampered = await fetch(url.replace('signed', 'other'))
  t.equal(tampered.status, 403)
  await tampered.text()
  await sleep(2_000)
  await until('it is refused', async () => {
    const answer = await fetch(url)
    await answer.text()
    return answer.status === 403
  })
})

tap.test('a connection that breaks is tried again, and what was lost is looked for', async (t) => {
  const { Bucket, left } = await bucket()
  const proxy = await startProxy(t, access.endpoint)
  const store = await open(t, settings(Bucket, proxy.url))
  const reset = store.put(
    'reset',
    body(12 * MIB, async () => {
      await until('the second part is sent', () => proxy.sentTimes('partNumber=2') > 0)
      proxy.killAll()
    }),
    deadline(),
  )
  t.same(await reset, { size: 12 * MIB })
  t.equal((await buffer(await store.get('reset', undefined, deadline()))).length, 12 * MIB)

  for (const { key, bytes, request, times, sent } of [
    { key: 'put', bytes: 100, request: 'PUT put', times: 1, sent: 2 },
    { key: 'put', bytes: 100, request: 'PUT put', times: 3, sent: 3 },
    // One of two parts, which are sent at once.
    { key: 'part', bytes: 6 * MIB, request: 'PUT part?partNumber=', times: 1, sent: 3 },
    { key: 'create', bytes: 6 * MIB, request: 'POST create?uploads', times: 1, sent: 2 },
    { key: 'complete', bytes: 6 * MIB, request: 'POST complete?uploadId=', times: 1, sent: 2 },
    { key: 'complete', bytes: 6 * MIB, request: 'POST complete?uploadId=', times: 3, sent: 3 },
  ]) {
    const text = request.replace(' ', ` /${Bucket}/some/files/`)
    const before = proxy.sentTimes(text)
    // Done by the store, which cannot say so.
    proxy.when(text, { kind: 'cut', afterBytes: 1, times })
    t.same(await store.put(key, body(bytes), deadline()), { size: bytes }, `${request}, ${times} lost`)
    t.equal(proxy.sentTimes(text) - before, sent, `${request}, ${times} lost: so many requests`)
    await store.delete(key)
  }
  await store.delete('reset')
  t.same(await left(), NOTHING)

  proxy.when('?uploads', { kind: 'cut', afterBytes: 1, times: 3 })
  await t.rejects(store.put('unknown', body(20 * MIB), deadline()), unavailable)
  t.same(await left(), NOTHING, 'uploads whose ids were lost are found')
})

tap.test('a store that does not answer is given up in time', async (t) => {
  const { Bucket, left } = await bucket()
  const proxy = await startProxy(t, access.endpoint)
  const patient = await open(t, settings(Bucket, proxy.url))
  const store = await open(t, { ...settings(Bucket, proxy.url), timeoutMs: 500 })
  const recover = () => {
    proxy.set({ kind: 'pass' })
    proxy.killAll()
  }
  await patient.put('there', body(6 * MIB), deadline())

  for (const bytes of [1, 12 * MIB]) {
    const hung = body(bytes, () => proxy.set({ kind: 'hang' }))
    await t.rejects(store.put('hung', hung, deadline()), unavailable)
    recover()
    await t.rejects(store.delete('hung'), unavailable, 'it may still arrive')
  }
  await until('it cannot arrive any more', () =>
    store.delete('hung').then(
      () => true,
      () => false,
    ),
  )
  proxy.set({ kind: 'hang' })
  await t.rejects(store.get('there', undefined, deadline()), unavailable)
  await t.rejects(store.delete('there'), unavailable)
  recover()
  proxy.set({ kind: 'refuse' })
  proxy.killAll()
  await t.rejects(store.put('refused', body(1), deadline()), unavailable)
  await t.rejects(all(store), unavailable)
  recover()

  for (const [mode, told] of [
    [{ kind: 'cut', afterBytes: 1 }, /aborted|ECONNRESET/],
    [{ kind: 'hang' }, /the store was silent/],
  ] as const) {
    const reading = await store.get('there', undefined, deadline())
    const read = async () => {
      for await (const chunk of reading) if (chunk) proxy.set(mode)
    }
    await t.rejects(read(), told, mode.kind)
    recover()
  }
  let got = 0
  for await (const chunk of await store.get('there', undefined, deadline())) {
    // Longer than the store may be silent.
    if (got === 0) await sleep(1_000)
    got += (chunk as Buffer).length
  }
  t.equal(got, 6 * MIB, 'who reads slowly gets it all')
  await patient.delete('there')
  t.same(await left(), NOTHING)
})

interface Files extends TestServer {
  put(id: string, bytes: string | Buffer, method?: string): ReturnType<TestServer['fetch']>
  get(id: string, headers?: Record<string, string>): ReturnType<TestServer['fetch']>
  rows(): Promise<number>
}

const user: As = { variables: { 'x-service-user-id': '7' } }

async function files(t: Test, config: object): Promise<Files> {
  const options: TestOptions = {
    files: true,
    config: {
      dataDir: t.testdir({}),
      plugins: { filestore: { collect: { everySeconds: 1, graceSeconds: 0 } } },
      providers: { storage: { default: 's3', s3: config } },
    },
  }
  const server = await testServer(t, options)
  return {
    ...server,
    put: (id, bytes, method = 'PUT') =>
      server.fetch(
        `/v1/file/${id}`,
        { method, body: bytes as string, headers: { 'Content-Type': 'text/plain' } },
        user,
      ),
    get: (id, headers = {}) => server.fetch(`/v1/file/${id}`, { headers }, user),
    async rows() {
      const { result } = await server.must('run_sql', { sql: 'select count(*) from svc_catalog.svc_blob' })
      return Number(result[1][0])
    },
  }
}

tap.test('a server with its files there', async (t) => {
  const { Bucket, left } = await bucket()
  const server = await files(t, settings(Bucket))

  t.match(await server.put('a', 'hello', 'POST'), { status: 200, body: { file_id: 'a', file_size: 5 } })
  t.match(await server.put('a', 'other', 'POST'), { status: 400, body: { message: 'file already exists : a' } })
  const got = await server.get('a')
  t.match(got, { status: 200, text: 'hello' })
  t.equal(got.headers.get('content-type'), 'text/plain')
  t.match(await server.get('a', { 'If-None-Match': got.headers.get('etag') as string }), { status: 304 })
  t.match(await server.put('a', 'goodbye'), { status: 200, body: { file_size: 7 } })
  t.match(await server.get('a', { Range: 'bytes=4-6' }), { status: 206, text: 'bye' })

  const large = Buffer.alloc(20 * MIB, 'rowhouse')
  t.match(await server.put('large', large), { status: 200, body: { file_size: large.length } })
  const all = await fetch(`${server.url}/v1/file/large`, {
    headers: { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '7' },
  })
  t.ok(Buffer.from(await all.arrayBuffer()).equals(large))
  t.match(await server.get('large', { Range: `bytes=${5 * MIB - 5}-${5 * MIB + 2}` }), {
    status: 206,
    text: 'houserow',
  })

  t.match(await server.fetch('/v1/file/a', { method: 'DELETE' }, user), { status: 200 })
  t.match(await server.get('a'), { status: 404 })
  await until('only the large one is there', async () => (await left()).objects.length === 1)

  const cut = connect(Number(new URL(server.url).port), '127.0.0.1')
  await once(cut, 'connect')
  cut.write(
    `PUT /v1/file/cut HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: ${ADMIN_SECRET}\r\nX-Service-User-Id: 7\r\n` +
      `Content-Type: a/b\r\nContent-Length: ${20 * MIB}\r\n\r\n`,
  )
  cut.write(large.subarray(0, 12 * MIB))
  await until('an upload is under way', async () => (await left()).uploads.length === 1)
  cut.destroy()
  await until('nothing of it is left', async () => (await left()).uploads.length === 0)

  await server.fetch('/v1/file/large', { method: 'DELETE' }, user)
  await until('the collector took all', async () => (await server.rows()) === 0)
  t.same(await left(), NOTHING)
})

tap.test('a server whose store fails says 503, and leaves nothing in the end', async (t) => {
  const { Bucket, left } = await bucket()
  const proxy: Proxy = await startProxy(t, access.endpoint)
  const server = await files(t, { ...settings(Bucket, proxy.url), timeoutMs: 500 })
  const refused = (answer: { headers: Headers }) => {
    t.match(answer, { status: 503, body: { code: 'storage_unavailable' } })
    t.equal(answer.headers.get('retry-after'), '30')
  }
  await server.put('a', 'hello')

  proxy.set({ kind: 'refuse' })
  proxy.killAll()
  refused(await server.put('b', 'hello'))
  refused(await server.get('a'))
  proxy.set({ kind: 'hang' })
  refused(await server.put('b', 'hello'))
  refused(await server.get('a'))
  proxy.set({ kind: 'pass' })
  proxy.killAll()

  t.match(await server.get('a'), { status: 200, text: 'hello' })
  t.match(await server.get('b'), { status: 404 })
  await server.fetch('/v1/file/a', { method: 'DELETE' }, user)
  await until('the collector took all', async () => (await server.rows()) === 0)
  t.same(await left(), NOTHING)
})

tap.test('wrong credentials, or no bucket, are a 503 and words in the log', async (t) => {
  const { Bucket } = await bucket()
  for (const [wrong, told] of [
    [{ secretAccessKey: 'a wrong secret' }, /HTTP 403, SignatureDoesNotMatch, .*check accessKeyId/],
    [{ bucket: 'nowhere' }, /HTTP 404, NoSuchBucket, .*check bucket/],
  ] as const) {
    const config = { ...settings(Bucket), ...wrong }
    const server = await files(t, config)
    const answer = await server.put('a', 'hello')
    t.match(answer, { status: 503, body: { code: 'storage_unavailable' } })
    t.notMatch(answer.text, /secret|Signature/)

    const store = await open(t, config)
    const error = (await store.get('a1', undefined, deadline()).catch((thrown: unknown) => thrown)) as Error
    t.match((error.cause as Error).message, told)
    t.notMatch(inspect(error, { depth: Infinity }), /AWS4-HMAC|a wrong secret/)
  }
  const half = { ...settings(Bucket), secretAccessKey: undefined } as unknown as Parameters<typeof s3.create>[0]
  await t.rejects(async () => s3.create(half, { log, dataDir: '' }), /must be set together/)
})

tap.test('a store that fails itself', async (t) => {
  const { Bucket } = await bucket()
  const store = await open(t, settings(Bucket))
  await store.put('there', body(1), deadline())

  await swift.failObjects()

  await t.rejects(store.put('new', body(1), deadline()), unavailable)
  await t.rejects(
    store.get('there', undefined, deadline()).then((bytes) => buffer(bytes)),
    unavailable,
  )
})
