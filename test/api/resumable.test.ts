import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { readdir, rename, stat, writeFile } from 'node:fs/promises'
import { type ClientRequest, request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { SignJWT } from 'jose'
import tap, { type Test } from 'tap'
import { Upload, type UploadOptions } from 'tus-js-client'
import { freshDatabase } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
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
  create(length: number, metadata?: Headers, headers?: Headers, as?: As, body?: string): Answer
  /** An upload that must be there after this. */
  begin(length: number, metadata?: Headers, as?: As): Promise<string>
  patch(path: string, offset: number, body?: string | Buffer, headers?: Headers, as?: As): Answer
  head(path: string, as?: As): Answer
  remove(path: string, as?: As): Answer
  /** A PATCH that sends some bytes and stops. */
  half(path: string, body: string, length?: number): Promise<ClientRequest>
  file(id: string): Answer
  /** How many bytes of an upload are on the disk. */
  staged(path: string): Promise<number>
  /** Of an upload. */
  left(path: string): Promise<{ readonly known: boolean; readonly staged: boolean }>
}

async function tus(
  t: Pick<Test, 'testdir' | 'teardown'>,
  filestore: object = {},
  options: TestOptions = {},
): Promise<Tus> {
  const dataDir = (options.config?.['dataDir'] as string | undefined) ?? t.testdir({})
  const permissions = { user: ['create', 'read'], reader: ['read'], anonymous: ['create'] }
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
  const create: Tus['create'] = (length, metadata = {}, headers = {}, as = admin, body?) =>
    send('POST', '/v1/upload', { 'Upload-Length': String(length), ...written(metadata), ...headers }, as, body)
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
    remove: (path, as = admin) => send('DELETE', path, {}, as),
    staged: async (path) => (await stat(join(dataDir, 'uploads', path.split('/').at(-1)!))).size,
    async half(path, body, length) {
      const headers = { ...identity, 'tus-resumable': '1.0.0', 'upload-offset': '0', 'content-type': TYPE }
      const known = length === undefined ? {} : { 'content-length': length }
      const req = request(server.url + path, { method: 'PATCH', headers: { ...headers, ...known } })
      req.on('error', () => {})
      req.write(body)
      const id = path.split('/').at(-1)!
      await until('some bytes are staged', async () => (await readdir(join(dataDir, 'uploads'))).includes(id))
      return req
    },
    file: (id) => server.fetch(`/v1/file/${encodeURIComponent(id)}`, {}, admin),
    async left(path) {
      const id = path.split('/').at(-1)!
      const sql = `select count(*) from svc_catalog.svc_upload where upload_id = '${id}'`
      const { result } = await server.must('run_sql', { sql })
      return { known: result[1][0] === '1', staged: (await readdir(join(dataDir, 'uploads'))).includes(id) }
    },
  }
}

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

const origin = 'https://app.example'
const key = 'a key of a test that is long enough for HS256'
const config = { http: { cors: { origins: [origin] } }, auth: { jwt: { algorithms: ['HS256'], key } } }
const server = await tus(tap, { collect: { everySeconds: 1 } }, { config })

tap.test('an upload comes in parts and is a file with the last', async (t) => {
  const options = await server.bare('/v1/upload', { method: 'OPTIONS' })
  t.match(options, { status: 204 })
  t.match(Object.fromEntries(options.headers), {
    'tus-resumable': '1.0.0',
    'tus-version': '1.0.0',
    'tus-extension': 'creation,creation-with-upload,expiration,checksum,termination',
    'tus-max-size': '104857600',
    'tus-checksum-algorithm': 'sha1,sha256,md5',
  })

  const id = 'größe/../%2F "ü" 文'
  const metadata = { file_id: id, content_type: 'text/plain', else: '', filename: 'a.txt' }
  const created = await server.create(11, metadata)
  t.match(created, { status: 201, text: '' })
  t.match(created.headers.get('upload-expires'), / GMT$/)
  t.equal(created.headers.get('tus-resumable'), '1.0.0')
  const path = created.headers.get('location')!
  t.match(path, /^\/v1\/upload\/[\da-f-]{36}$/)
  t.equal((await server.file(id)).status, 404)

  const begun = await server.head(path)
  t.match(Object.fromEntries(begun.headers), {
    'upload-offset': '0',
    'upload-length': '11',
    'upload-metadata': written(metadata)['Upload-Metadata'],
    'cache-control': 'no-store',
    'upload-expires': / GMT$/,
  })
  const first = await server.patch(path, 0, 'hello ')
  t.match([first.status, offsetOf(first)], [204, '6'])
  t.equal(offsetOf(await server.head(path)), '6')
  t.equal((await server.file(id)).status, 404)
  const last = await server.patch(path, 6, 'world')
  t.match([last.status, offsetOf(last)], [204, '11'])
  const got = await server.file(id)
  t.match([got.status, got.text, got.headers.get('content-type')], [200, 'hello world', 'text/plain'])

  t.equal(offsetOf(await server.head(path)), '11', 'and is said to be complete for a while')
  t.match(await server.patch(path, 11), { status: 204 })
  t.same(await server.left(path), { known: true, staged: false })
  const record = await server.must('run_sql', {
    sql: 'select content_type, user_id, user_role from svc_catalog.svc_file',
  })
  t.same(record.result[1], ['text/plain', '7', 'admin'])

  const whole = await server.create(3, {}, { 'Content-Type': TYPE }, admin, 'abc')
  t.match([whole.status, offsetOf(whole)], [201, '3'])
  const own = whole.headers.get('location')!.split('/').at(-1)!
  const unnamed = await server.file(own)
  t.match([unnamed.text, unnamed.headers.get('content-type')], ['abc', 'application/octet-stream'])
  t.match(await server.create(0, { file_id: 'empty', filetype: 'a/b' }), { status: 201 })
  t.match(await server.file('empty'), { status: 200, text: '' })
  const tunnelled = await server.begin(1, { file_id: 'tunnelled', filetype: '' })
  const post = {
    'X-HTTP-Method-Override': 'PATCH',
    'Upload-Offset': '0',
    'Content-Type': TYPE,
    'Tus-Resumable': '1.0.0',
  }
  t.match(await server.fetch(tunnelled, { method: 'POST', headers: post, body: 'x' }, admin), { status: 204 })
  t.equal((await server.file('tunnelled')).text, 'x')
})

tap.test('what is refused, and how', async (t) => {
  const bad = (message: string | RegExp) => ({ status: 400, body: { code: 'bad_request', message } })
  const raw = (metadata: string) => server.create(1, {}, { 'Upload-Metadata': metadata })

  const old = await server.create(1, {}, { 'Tus-Resumable': '0.2.2' })
  t.match(old, { status: 412, body: { code: 'precondition_failed' } })
  t.equal(old.headers.get('tus-version'), '1.0.0')
  t.match(await server.create(104_857_601), { status: 413, body: { code: 'payload_too_large', message: /maxBytes/ } })
  t.match(await server.create(NaN), bad('Upload-Length should be a number of bytes'))
  t.match(await server.create(-1), bad('Upload-Length should be a number of bytes'))
  const resumable = { 'Tus-Resumable': '1.0.0' }
  t.match(
    await server.fetch('/v1/upload', { method: 'POST', headers: resumable }, admin),
    bad('missing header: Upload-Length'),
  )
  t.match(await server.create(1, {}, { 'Upload-Defer-Length': '1' }), bad(/^Upload-Defer-Length is not supported/))
  t.match(await server.create(1, {}, { 'Upload-Concat': 'partial' }), bad('Upload-Concat is not supported'))
  t.match(await server.create(1, {}, {}, {}), bad('missing header: X-Service-User-Id'))
  t.match(await raw('file_id YQ'), bad('Upload-Metadata: file_id is not base64'))
  t.match(await raw('file_id /w=='), bad('Upload-Metadata: file_id is not UTF-8'))
  t.match(await raw('file_id YQ==,file_id Yg=='), bad('Upload-Metadata has file_id twice'))
  t.match(await raw('file_id YQ== Yg=='), bad(/^Upload-Metadata should be/))
  t.match(await raw('file_id'), bad('missing parameter: file_id'))
  t.match(await server.create(1, { file_id: 'a\nb' }), bad('a file_id has no control characters'))
  t.match(await server.create(1, { file_id: 'ü'.repeat(513) }), bad('a file_id has at most 1024 bytes'))
  t.match(await server.create(1, { replace: 'yes' }), bad('Upload-Metadata: replace should be true or false'))
  t.match(await server.create(1, { content_type: 'text/plain\r\nX-Evil: 1' }), bad('Content-Type is not a media type'))
  t.match(await server.create(1, {}, {}, admin, 'x'), { status: 415, body: { code: 'unsupported_media_type' } })

  const path = await server.begin(5, { file_id: 'refused' })
  t.match(await server.patch(path, 0, 'hello', { 'Content-Type': 'text/plain' }), { status: 415 })
  t.match(await server.patch(path, 1, 'ello'), {
    status: 409,
    body: { code: 'wrong_offset', message: /Upload-Offset should be 0/ },
  })
  t.match(await server.patch(path, 0, 'hello!'), {
    status: 413,
    body: { message: /longer than the 5 bytes that are missing/ },
  })
  t.match(await server.patch(path, 0, 'x', { 'Upload-Offset': 'x' }), bad('Upload-Offset should be a number of bytes'))
  t.match(await server.patch(path, 0, 'x', { 'Content-Encoding': 'gzip' }), bad(/^Content-Encoding/))
  t.match(await server.patch(path, 0, 'x', { 'Tus-Resumable': '2' }), { status: 412 })
  const endless = await server.half(path, 'hel')
  const answer = new Promise<number | undefined>((resolve) =>
    endless.once('response', (res) => resolve(res.statusCode)),
  )
  endless.end('lo!')
  t.equal(await answer, 413)
  t.equal(offsetOf(await server.head(path)), '0', 'and nothing of it stays')
  for (const none of ['/v1/upload/00000000-0000-4000-8000-000000000000', '/v1/upload/..%2Fplace']) {
    t.match(await server.patch(none, 0, 'x'), {
      status: 404,
      body: { code: 'not_found', message: /^upload not found/ },
    })
    t.equal((await server.head(none)).status, 404)
    t.equal((await server.remove(none)).status, 404)
  }
  t.match(await server.fetch(path, { method: 'POST', headers: resumable }, admin), bad(/^X-HTTP-Method-Override/))
  t.equal((await server.fetch(path, {}, admin)).status, 405)
})

tap.test('who may, and whose it is', async (t) => {
  const reader: As = { role: 'reader', variables: { 'x-service-user-id': '1' } }
  t.match(await server.create(1, {}, {}, reader), { status: 403, body: { message: 'no permission for role reader' } })

  const path = await server.begin(2, { file_id: 'mine' }, user(1))
  for (const other of [user(2), { ...user(1), role: 'reader' }, { variables: user(1).variables! }]) {
    t.equal((await server.head(path, other)).status, 404)
    t.equal((await server.patch(path, 0, 'x', {}, other)).status, 404)
    t.equal((await server.remove(path, other)).status, 404)
  }
  t.equal((await server.patch(path, 0, 'a', {}, user(1))).status, 204)

  const more = await Promise.all(Array.from({ length: 19 }, () => server.begin(1, {}, user(1))))
  const full = await server.create(1, {}, {}, user(1))
  t.match(full, { status: 429, body: { code: 'too_many_uploads', message: /limit of 20 unfinished uploads/ } })
  t.ok(full.headers.get('retry-after'))
  await server.begin(1, {}, user(2))
  t.equal((await server.patch(path, 1, 'b', {}, user(1))).status, 204)
  await server.begin(1, {}, user(1))
  for (const one of more) t.equal((await server.remove(one, user(1))).status, 204)

  const slow = `create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.05); return new; end';
    create trigger slow before insert on svc_catalog.svc_upload for each row when (new.user_id = 3) execute function slow()`
  await server.must('run_sql', { sql: slow })
  const atOnce = await Promise.all(Array.from({ length: 30 }, () => server.create(1, {}, {}, user(3))))
  t.equal(atOnce.filter(({ status }) => status === 201).length, 20, 'also at once')
  const sql = `select user_id, user_role from svc_catalog.svc_file where file_id = 'mine'`
  const record = await server.must('run_sql', { sql })
  t.same(record.result[1], ['1', 'user'])
})

tap.test('a file that exists stays unless it is to be replaced', async (t) => {
  const taken = { status: 400, body: { code: 'bad_request', message: 'file already exists : taken' } }
  const [one, two] = [await server.begin(3, { file_id: 'taken' }), await server.begin(3, { file_id: 'taken' })]
  t.equal((await server.patch(one, 0, 'one')).status, 204)
  t.match(await server.patch(two, 0, 'two'), taken, 'who comes second')
  t.match(await server.head(two), { status: 400 }, 'is not told that it is complete')
  t.match(await server.create(3, { file_id: 'taken' }), taken)
  t.equal((await server.file('taken')).text, 'one')

  const third = await server.begin(5, { file_id: 'taken', replace: 'true' })
  t.equal((await server.file('taken')).text, 'one')
  t.equal((await server.patch(third, 0, 'three')).status, 204)
  t.equal((await server.file('taken')).text, 'three')
})

tap.test('a checksum is compared, and bytes that differ are gone', async (t) => {
  const path = await server.begin(20, { file_id: 'sums' })
  const checksum = (algorithm: string, text: string) => ({ 'Upload-Checksum': `${algorithm} ${sum(text, algorithm)}` })
  for (const [i, algorithm] of ['sha1', 'sha256', 'md5'].entries()) {
    t.match(await server.patch(path, i * 5, 'hello', checksum(algorithm, 'hellO')), {
      status: 460,
      body: { code: 'checksum_mismatch' },
    })
    t.equal(offsetOf(await server.head(path)), String(i * 5))
    t.match(await server.patch(path, i * 5, 'hello', checksum(algorithm, 'hello')), { status: 204 })
  }
  t.equal((await server.patch(path, 15, 'x', { 'Upload-Checksum': 'crc32 AAAAAA==' })).status, 400)
  t.equal((await server.patch(path, 15, 'x', { 'Upload-Checksum': 'sha1 AAAA' })).status, 400)
  t.equal((await server.patch(path, 15, 'x', { 'Upload-Checksum': 'sha1' })).status, 400)
  t.equal((await server.patch(path, 15, 'hello')).status, 204)
  t.equal((await server.file('sums')).text, 'hello'.repeat(4))

  const cut = await server.begin(9, { file_id: 'half' })
  const id = cut.split('/').at(-1)!
  await server.patch(cut, 0, 'hello')
  await server.must('run_sql', {
    sql: `update svc_catalog.svc_upload set unchecked_from = 2 where upload_id = '${id}'`,
  })
  t.equal(offsetOf(await server.head(cut)), '2', 'nor does what a killed server had not compared count')
  t.equal(offsetOf(await server.patch(cut, 2, 'l')), '3')
})

tap.test('a later request ends the one before', async (t) => {
  const path = await server.begin(10, { file_id: 'later' })
  const stuck = await server.half(path, 'hello', 10)
  const answer = new Promise<number | undefined>((resolve) => stuck.once('response', (res) => resolve(res.statusCode)))

  for (const send of [server.head, server.remove]) t.equal((await send(path, user(1))).status, 404)
  t.equal((await server.patch(path, 0, 'x', {}, user(1))).status, 404)
  stuck.write(', ')
  await until('it goes on, whatever others ask', async () => (await server.staged(path)) === 7)
  t.equal(offsetOf(await server.head(path)), '7')
  t.equal(await answer, 423)
  stuck.destroy()
  t.equal((await server.patch(path, 7, 'you')).status, 204)
  t.equal((await server.file('later')).text, 'hello, you')

  const both = await server.begin(5, { file_id: 'both' })
  await Promise.all(['hello', 'hello'].map((text) => server.patch(both, 0, text)))
  const at = Number(offsetOf(await server.head(both)))
  t.equal((await server.patch(both, at, 'hello'.slice(at))).status, 204)
  t.equal((await server.file('both')).text, 'hello')
})

tap.test('an upload that could not be stored is not complete', async (t) => {
  const path = await server.begin(5, { file_id: 'unstored' })
  const store = join(server.dataDir, 'files')
  await rename(store, `${store}-away`)

  t.equal((await server.patch(path, 0, 'hello')).status, 500)
  t.equal((await server.head(path)).status, 500)
  t.equal((await server.create(0, { file_id: 'none' })).status, 500)
  const begun = await server.must('run_sql', {
    sql: `select count(*) from svc_catalog.svc_upload where file_id = 'none'`,
  })
  t.equal(begun.result[1][0], '0', 'one without bytes has not even begun')
  await rename(`${store}-away`, store)
  t.match(await server.patch(path, 5), { status: 204 })
  t.equal((await server.file('unstored')).text, 'hello')
  t.match(await server.create(0, { file_id: 'none' }), { status: 201 })
})

tap.test('an upload is taken back, or expires', async (t) => {
  const path = await server.begin(5)
  await server.patch(path, 0, 'he')
  t.match(await server.remove(path), { status: 204 })
  t.equal((await server.head(path)).status, 404)
  t.same(await server.left(path), { known: false, staged: false })

  const late = await server.begin(5)
  await server.patch(late, 0, 'he')
  const expire = `update svc_catalog.svc_upload set expires_at = now() where upload_id = '${late.split('/').at(-1)}'`
  await server.must('run_sql', { sql: expire })
  t.ok([404, 410].includes((await server.patch(late, 2, 'l')).status))
  await until('it is gone', async () => !(await server.left(late)).known)
  t.same(await server.left(late), { known: false, staged: false })
})

tap.test('another site cannot upload with the cookie of a user', async (t) => {
  const claims = { 'x-service-allowed-roles': ['user'], 'x-service-default-role': 'user', 'x-service-user-id': '1' }
  const token = new SignJWT({ rowhouse: claims }).setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1h')
  const cookie = `rowhouse_session=${await token.sign(Buffer.from(key))}`
  const ask = (method: string, path: string, more: Headers = {}) => {
    const headers = { cookie, 'Tus-Resumable': '1.0.0', 'Upload-Length': '1', 'Upload-Offset': '0', ...more }
    return server.bare(path, {
      method,
      headers: { ...headers, ...(method === 'PATCH' ? { 'Content-Type': TYPE } : {}) },
    })
  }
  const refused = { status: 403, body: { code: 'csrf' } }

  t.match(await ask('POST', '/v1/upload'), refused)
  const created = await ask('POST', '/v1/upload', { origin })
  t.equal(created.status, 201)
  const path = created.headers.get('location')!
  t.match(await ask('PATCH', path), refused)
  t.match(await ask('DELETE', path), refused)
  t.match(await ask('POST', path, { 'X-HTTP-Method-Override': 'DELETE' }), refused)
  t.equal((await ask('DELETE', path, { 'X-Service-CSRF': '1' })).status, 204)
})

tap.test('pages of other origins may read what the protocol says', async (t) => {
  const preflight = await server.bare('/v1/upload', {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'PATCH', 'access-control-request-headers': 'upload-offset' },
  })
  t.match(Object.fromEntries(preflight.headers), {
    'access-control-allow-methods': 'PATCH',
    'access-control-allow-headers': 'upload-offset',
  })
  t.equal((await server.create(1)).headers.get('access-control-expose-headers'), null)
  const { headers } = await server.create(1, {}, { origin })
  for (const name of ['Location', 'Upload-Offset', 'Upload-Length', 'Tus-Resumable', 'Tus-Max-Size']) {
    t.ok(headers.get('access-control-expose-headers')?.split(', ').includes(name), name)
  }
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
    let it: Upload | undefined
    const ended = upload(
      big.path,
      {
        endpoint: `${new URL(proxy.url).origin}/v1/upload`,
        metadata: { file_id: 'cut' },
        fileReader: stallsOnce(big.bytes, 8 * MIB),
        onBeforeRequest: (req) => void (req.getMethod() === 'PATCH' && offsets.push(req.getHeader('Upload-Offset')!)),
      },
      (begun) => (it = begun),
    )
    const staged = () => join(server.dataDir, 'uploads', it?.url?.split('/').at(-1) ?? 'not yet')
    const size = (path: string) =>
      stat(path).then(
        ({ size }) => size,
        () => 0,
      )
    await until('some bytes are staged', async () => (await size(staged())) > 0)
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

tap.test('an upload outlives its server, and stays where its bytes are', async (t) => {
  const { url: databaseUrl } = await freshDatabase(t)
  const config = { dataDir: t.testdir({}) }
  const before = await tus(t, {}, { databaseUrl, config })
  const path = await before.begin(10, { file_id: 'f' })
  const theirs = await before.begin(1, { file_id: 'g' }, user(1))
  const broken = await before.half(path, 'hello', 10)
  broken.destroy()
  await before.close()
  const orphan = join(config.dataDir, 'uploads', '00000000-0000-4000-8000-000000000000')
  await writeFile(orphan, 'of no upload')

  const server = await tus(t, { permissions: {} }, { databaseUrl, config })
  t.equal(offsetOf(await server.head(path)), '5')
  const denied = { status: 403, body: { code: 'access_denied', message: 'no permission for role user' } }
  t.match(await server.patch(theirs, 0, 'x', {}, user(1)), denied, 'what a role may is asked at the end, too')
  t.equal((await server.head(theirs, user(1))).status, 403)
  t.equal((await server.file('g')).status, 404)

  const elsewhere = await tus(t, {}, { databaseUrl, config: { dataDir: join(config.dataDir, 'else') } })
  const answer = await elsewhere.patch(path, 5, 'world')
  t.match(answer, { status: 503, body: { code: 'other_server' } })
  t.ok(answer.headers.get('retry-after'))
  await until('bytes of no upload are gone', () => !existsSync(orphan))
  await elsewhere.must('run_sql', {
    sql: `update svc_catalog.svc_upload_place set seen_at = now() - interval '6 minutes'`,
  })
  t.equal((await elsewhere.head(path)).status, 410, 'one whose server is gone has to start again')

  t.equal((await server.patch(path, 5, 'world')).status, 204)
  t.equal((await elsewhere.head(path)).status, 200)
})
