import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { type ClientRequest, request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import tap, { type Test } from 'tap'
import { Upload, type UploadOptions } from 'tus-js-client'
import { freshDatabase, rowsOf } from '../kit/database.js'
import fc, { cases } from '../kit/property.js'
import { startProxy } from '../kit/proxy.js'
import { serverProcess } from '../kit/server-process.js'
import { ADMIN_SECRET, type As, type TestOptions, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const MIB = 1024 * 1024
const admin: As = { variables: { 'x-service-user-id': '7' } }
const user = (id: number): As => ({ role: 'user', variables: { 'x-service-user-id': String(id) } })
const TYPE = 'application/offset+octet-stream'

type Headers = Readonly<Record<string, string>>
type Answer = ReturnType<TestServer['fetch']>

interface Tus extends TestServer {
  readonly dataDir: string
  create(length: number, metadata?: Headers, headers?: Headers, as?: As): Answer
  /** An upload that must be there after this. */
  begin(length: number, metadata?: Headers, as?: As): Promise<string>
  patch(path: string, offset: number, body?: string | Buffer, headers?: Headers, as?: As): Answer
  head(path: string, as?: As): Answer
  /** A PATCH that sends some bytes and stops. */
  half(path: string, body: string | Buffer, headers?: Readonly<Record<string, string | number>>): Promise<ClientRequest>
  file(id: string): Answer
  /** Whether the record of an upload is there, and pieces of it. */
  left(path: string): Promise<{ readonly known: boolean; readonly pieces: boolean }>
}

async function tus(
  t: Pick<Test, 'testdir' | 'teardown'>,
  filestore: object = {},
  options: TestOptions = {},
): Promise<Tus> {
  const dataDir = (options.config?.['dataDir'] as string | undefined) ?? t.testdir({})
  const permissions = { user: ['create', 'read'] }
  const plugins = { filestore: { permissions, ...filestore } }
  const server = await testServer(t, { files: true, ...options, config: { dataDir, plugins, ...options.config } })
  const send = (method: string, path: string, headers: Headers, as: As, body?: string | Buffer) =>
    server.fetch(
      path,
      {
        method,
        headers: { 'Tus-Resumable': '1.0.0', ...headers },
        ...(body === undefined ? {} : { body: body as string }),
      },
      as,
    )
  const create: Tus['create'] = (length, metadata = {}, headers = {}, as = admin) =>
    send('POST', '/v1/upload', { 'Upload-Length': String(length), ...written(metadata), ...headers }, as)
  return {
    ...server,
    dataDir,
    create,
    async begin(length, metadata, as) {
      const { status, headers, text } = await create(length, metadata, {}, as)
      if (status !== 201) throw new Error(`${status} ${text}`)
      return headers.get('location')!
    },
    patch: (path, offset, body = '', headers = {}, as = admin) =>
      send('PATCH', path, { 'Upload-Offset': String(offset), 'Content-Type': TYPE, ...headers }, as, body),
    head: (path, as = admin) => send('HEAD', path, {}, as),
    half: (path, body, headers) => half(server, path, body, headers),
    file: (id) => server.fetch(`/v1/file/${encodeURIComponent(id)}`, {}, admin),
    async left(path) {
      const of = (table: string) => `select upload_id from svc_catalog.${table} where upload_id = '${idOf(path)}'`
      const rows = await Promise.all(
        ['svc_upload', 'svc_upload_piece'].map((table) => rowsOf(server.databaseUrl, of(table))),
      )
      return { known: rows[0]!.length > 0, pieces: rows[1]!.length > 0 }
    },
  }
}

/** A PATCH that sends some bytes and stops. */
async function half(
  { url, databaseUrl }: { readonly url: string; readonly databaseUrl: string },
  path: string,
  body: string | Buffer,
  headers: Readonly<Record<string, string | number>> = {},
): Promise<ClientRequest> {
  const all = { ...identity, 'tus-resumable': '1.0.0', 'upload-offset': 0, 'content-type': TYPE, ...headers }
  const before = await coming(databaseUrl)
  const req = request(url + path, { method: 'PATCH', headers: all })
  req.on('error', () => {})
  req.write(body)
  await until('some bytes have come', async () => (await coming(databaseUrl)) > before)
  return req
}

/** How many pieces a server is receiving. */
const coming = async (databaseUrl: string): Promise<number> =>
  (await rowsOf(databaseUrl, `select from svc_catalog.svc_blob where state = 'writing' and leased_until < 'infinity'`))
    .length

/** How many pieces the collector will delete. */
const released = async ({ databaseUrl }: TestServer): Promise<number> =>
  (await rowsOf(databaseUrl, `select from svc_catalog.svc_blob where dead_at = 'epoch'`)).length

const idOf = (path: string): string => path.split('/').at(-1)!

const identity = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '7' }
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const written = (metadata: Headers): Headers => {
  const pairs = Object.entries(metadata).map(([name, value]) => `${name} ${base64(value)}`)
  return pairs.length === 0 ? {} : { 'Upload-Metadata': pairs.join(',') }
}
const offsetOf = ({ headers }: { headers: globalThis.Headers }): string | null => headers.get('upload-offset')
const sum = (bytes: Buffer | string, algorithm = 'sha256'): string =>
  createHash(algorithm).update(bytes).digest('base64')

/** Uploads with the public client, until it says that all is well. */
function upload(path: string, options: UploadOptions, begun: (upload: Upload) => void = () => {}): Promise<Upload> {
  return new Promise((resolve, reject) => {
    const it: Upload = new Upload(createReadStream(path) as never, {
      headers: identity,
      retryDelays: [0, 100, 300, 1_000],
      onError: reject,
      onSuccess: () => resolve(it),
      ...options,
    })
    begun(it)
    it.start()
  })
}

/** Reads some bytes and then no more, until it is asked for the rest. */
function stallsOnce(bytes: Buffer, size: number): NonNullable<UploadOptions['fileReader']> {
  const stalled = new Readable({ read() {} })
  stalled.push(bytes.subarray(0, size))
  const slice = async (start: number) => {
    const value = start === 0 ? stalled : bytes.subarray(start)
    return { value: Object.assign(value, { size: bytes.length - start }), done: true }
  }
  return { openFile: async () => ({ size: bytes.length, slice, close() {} }) }
}

interface RandomFile {
  readonly path: string
  readonly bytes: Buffer
  readonly etag: string
}

async function randomFile(folder: string, size: number): Promise<RandomFile> {
  const bytes = randomBytes(size)
  const path = join(folder, `random-${size}`)
  await writeFile(path, bytes)
  return { path, bytes, etag: `"${createHash('sha256').update(bytes).digest('hex')}"` }
}
const etagOf = async (server: Tus, id: string): Promise<string | null> =>
  (await server.fetch(`/v1/file/${encodeURIComponent(id)}`, { method: 'HEAD' }, admin)).headers.get('etag')

const server = await tus(tap, { collect: { everySeconds: 1 } })

tap.test('a user has at most 20 unfinished uploads', async (t) => {
  for (let i = 0; i < 20; i++) await server.begin(1, {}, user(1))
  const full = await server.create(1, {}, {}, user(1))
  t.match(full, { status: 429, body: { code: 'too_many_uploads', message: /limit of 20 unfinished uploads/ } })
  t.ok(full.headers.get('retry-after'))
  const slow = `create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.05); return new; end';
    create trigger slow before insert on svc_catalog.svc_upload for each row when (new.user_id = 3) execute function slow()`
  await server.must('run_sql', { sql: slow })
  const atOnce = await Promise.all(Array.from({ length: 30 }, () => server.create(1, {}, {}, user(3))))
  t.equal(atOnce.filter(({ status }) => status === 201).length, 20, 'also at once')
})

tap.test('an upload that could not be stored is not complete', async (t) => {
  const path = await server.begin(5, { file_id: 'unstored' })
  const store = join(server.dataDir, 'files')
  t.equal((await server.patch(path, 0, 'hell')).status, 204)
  await rename(store, `${store}-away`)

  t.equal((await server.patch(path, 4, 'o')).status, 503)
  t.equal((await server.create(0, { file_id: 'none' })).status, 503)
  const begun = await server.must('run_sql', {
    sql: `select count(*) from svc_catalog.svc_upload where file_id = 'none'`,
  })
  t.equal(begun.result[1][0], '0', 'one without bytes has not even begun')
  await rename(`${store}-away`, store)
  const [piece] = await rowsOf<{ id: string }>(
    server.databaseUrl,
    `select blob_id as id from svc_catalog.svc_upload_piece where upload_id = '${idOf(path)}'`,
  )
  const bytes = join(store, piece!.id.slice(-2), piece!.id)
  await rename(bytes, `${bytes}-away`)
  t.equal((await server.patch(path, 4, 'o')).status, 500)
  t.equal((await server.head(path)).status, 500)
  await rename(`${bytes}-away`, bytes)
  t.match(await server.patch(path, 5), { status: 204 })
  t.equal((await server.file('unstored')).text, 'hello')
  t.match(await server.create(0, { file_id: 'none' }), { status: 201 })
})

tap.test('an upload that has expired is taken away', async (t) => {
  const late = await server.begin(5)
  await server.patch(late, 0, 'he')
  const expire = `update svc_catalog.svc_upload set expires_at = now() where upload_id = '${idOf(late)}'`
  await server.must('run_sql', { sql: expire })
  t.ok([404, 410].includes((await server.patch(late, 2, 'l')).status))
  await until('it is gone', async () => !(await server.left(late)).known)
  t.same(await server.left(late), { known: false, pieces: false })
  await until('its bytes are gone', async () => (await released(server)) === 0)
})

tap.test('the public client', async (t) => {
  const endpoint = `${server.url}/v1/upload`
  const big = await randomFile(server.dataDir, 20 * MIB)
  await t.test('uploads in chunks, several at once, and again', async (t) => {
    await upload(big.path, { endpoint, chunkSize: 5 * MIB, metadata: { file_id: 'big' } })
    t.equal(await etagOf(server, 'big'), big.etag)
    const small = await randomFile(server.dataDir, 3 * MIB)
    const ids = ['one', 'two ü', 'three/3']
    await Promise.all(ids.map((file_id) => upload(small.path, { endpoint, chunkSize: MIB, metadata: { file_id } })))
    for (const id of ids) t.equal(await etagOf(server, id), small.etag)
    await t.rejects(upload(small.path, { endpoint, metadata: { file_id: 'one' } }), {
      message: /file already exists : one/,
    })
    const during = { endpoint, uploadDataDuringCreation: true, metadata: { file_id: 'four', filetype: 'a/b' } }
    await upload(small.path, during)
    t.match(await server.file('four'), { status: 200 })
  })
  await t.test('goes on when its connection was cut', async (t) => {
    const proxy = await startProxy(t, server.url)
    const offsets: string[] = []
    const ended = upload(big.path, {
      endpoint: `${new URL(proxy.url).origin}/v1/upload`,
      metadata: { file_id: 'cut' },
      fileReader: stallsOnce(big.bytes, 9 * MIB),
      onBeforeRequest: (req) => void (req.getMethod() === 'PATCH' && offsets.push(req.getHeader('Upload-Offset')!)),
    })
    await until('some bytes have come', async () => (await coming(server.databaseUrl)) > 0)
    proxy.killAll()
    await ended
    t.equal(await etagOf(server, 'cut'), big.etag)
    t.equal(offsets[0], '0')
    t.ok(Number(offsets[1]) > 0 && offsets.length === 2, `it went on at ${offsets.join()}`)
  })
  await t.test('takes an upload back', async (t) => {
    let it: Upload | undefined
    const ended = upload(
      big.path,
      {
        endpoint,
        chunkSize: MIB,
        onChunkComplete: () => void it?.abort(true).then(() => it?.options.onError?.(new Error('taken back'))),
      },
      (begun) => (it = begun),
    )
    await t.rejects(ended, { message: 'taken back' })
    t.equal((await server.head(new URL(it!.url!).pathname)).status, 404)
  })
})

tap.test('an upload goes on at another server', async (t) => {
  const { url: databaseUrl } = await freshDatabase(t)
  const dataDir = t.testdir({})
  const start = (filestore: object = {}) => tus(t, filestore, { databaseUrl, config: { dataDir } })
  const [one, two] = [await start(), await start()]

  await t.test('while a request for it has not ended at the first', async (t) => {
    const path = await one.begin(10, { file_id: 'g' })
    const stuck = await one.half(path, 'hello', { 'content-length': 10 })
    const answer = new Promise((resolve) => stuck.once('response', (res) => resolve(res.statusCode)))
    t.equal(offsetOf(await two.head(path)), '5', 'what it has received counts')
    t.equal(await answer, 423)
    t.equal((await two.patch(path, 5, 'there')).status, 204)
    t.equal((await one.file('g')).text, 'hellothere')
  })
  await t.test('when the first was killed', async (t) => {
    const first = await serverProcess(t, databaseUrl, { env: { ROWHOUSE_DATA_DIR: dataDir } })
    const path = await two.begin(20 * MIB, { file_id: 'k' })
    const bytes = randomBytes(20 * MIB)
    const stuck = await half({ ...first, databaseUrl }, path, bytes.subarray(0, 12 * MIB), {
      'content-length': 20 * MIB,
    })
    const recorded = `select from svc_catalog.svc_upload_piece where upload_id = '${idOf(path)}'`
    await until('a piece is recorded', async () => (await rowsOf(databaseUrl, recorded)).length > 0)
    await first.kill()
    stuck.destroy()
    const at = Number(offsetOf(await two.head(path)))
    t.ok(at > 0 && at <= 12 * MIB, `it goes on at ${at}`)
    t.equal((await two.patch(path, at, bytes.subarray(at))).status, 204)
    t.equal(await etagOf(one, 'k'), `"${createHash('sha256').update(bytes).digest('hex')}"`)
  })
  await t.test('wherever requests are cut, and however many there are at once', async (t) => {
    const servers = [one, two]
    const size = fc.integer({ min: 1, max: 40_000 })
    const step = fc.record({
      size,
      server: fc.nat(1),
      how: fc.constantFrom('whole', 'whole', 'broken', 'twice', 'checked', 'wrong'),
    })
    let n = 0
    const isWhole = async (steps: readonly { size: number; server: number; how: string }[]): Promise<boolean> => {
      const bytes = randomBytes(100_000)
      const id = `random-${n++}`
      const path = await one.begin(bytes.length, { file_id: id })
      const at = async () => Number(offsetOf(await two.head(path)))
      for (const { size, server, how } of steps) {
        const from = await at()
        if (from === bytes.length) break
        const part = bytes.subarray(from, from + size)
        const it = servers[server]!
        if (how === 'broken') {
          const cut = await it.half(path, part, { 'upload-offset': from, 'content-length': bytes.length - from })
          cut.destroy()
        } else if (how === 'twice') {
          await Promise.all(servers.map((each) => each.patch(path, from, part)))
        } else {
          const digest = how === 'wrong' ? sum('other bytes') : sum(part)
          const { status } = await it.patch(
            path,
            from,
            part,
            how === 'whole' ? {} : { 'Upload-Checksum': `sha256 ${digest}` },
          )
          if (status !== (how === 'wrong' ? 460 : 204)) return false
        }
        const now = await at()
        if (now < from || now > from + part.length || (how === 'wrong' && now > from)) return false
      }
      const from = await at()
      if (from < bytes.length && (await one.patch(path, from, bytes.subarray(from))).status !== 204) return false
      return (await etagOf(two, id)) === `"${createHash('sha256').update(bytes).digest('hex')}"`
    }
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 6 }), isWhole), { numRuns: cases(15) })
    t.pass('it is the same bytes')
  })
})
