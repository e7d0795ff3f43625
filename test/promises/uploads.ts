import { createHash, randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { bad, coded, denied, get, hidden, OK, post, put, wrong } from '../kit/file-steps.js'
import { admin, type Files, filestore, type HalfRequest, user } from '../kit/files.js'
import { area, type Case, type Expected, query, type Step, takeAll } from '../kit/promises.js'
import type { Answered, As } from '../kit/server.js'

/** What resumable uploads promise (tus 1.0). */
const PROMISES = {
  'options.protocol': 'OPTIONS names the version, the extensions, the checksums and the maximum size',
  'create.answer': 'POST /v1/upload begins an upload, and answers with its Location and expiry',
  'create.with-bytes': 'the first request may have bytes, and all of them',
  'create.empty': 'an upload of no bytes is a file at once',
  'create.length': 'Upload-Length is required, a number of bytes, at most maxBytes',
  'create.unsupported': 'the length is known at the beginning, and uploads are not concatenated',
  'create.user': 'an upload needs a user id',
  'create.exists': 'an upload of an id that exists is refused at the beginning, and at the end',
  'metadata.file-id': 'file_id is the id of the file, by default the id of the upload',
  'metadata.type': 'content_type or filetype is the type of the file, by default application/octet-stream',
  'metadata.replace': 'with replace, the upload replaces a file',
  'metadata.pending': 'with pending, the upload becomes a pending one',
  'metadata.other': 'HEAD returns the metadata as they were sent',
  'metadata.wrong': 'metadata that cannot be read are refused',
  'head.progress': 'HEAD tells the offset, the length and the expiry, and is never cached',
  'patch.parts': 'PATCH appends bytes, and the file exists with the last of them',
  'patch.complete': 'a complete upload is said to be complete',
  'patch.offset': 'Upload-Offset is the offset of the upload; otherwise 409',
  'patch.type': 'the Content-Type of bytes is application/offset+octet-stream; otherwise 415',
  'patch.too-long': 'bytes beyond Upload-Length are refused, and none of them is kept',
  'patch.broken': 'the bytes of a request that breaks off count',
  'checksum.match': 'bytes that match Upload-Checksum are kept, others are discarded with 460',
  'checksum.wrong': 'a checksum of another algorithm or form is refused',
  'checksum.broken': 'with a checksum, the bytes of a request that breaks off do not count',
  'method.override': 'POST with X-HTTP-Method-Override does as PATCH and DELETE',
  'version.other': 'Tus-Resumable is 1.0.0; otherwise 412 with the version of the server',
  'remove.answer': 'DELETE takes an upload back, and its bytes',
  'unknown.upload': 'an upload that does not exist is a 404',
  'expiry.gone': 'an upload that has expired is a 410',
  'expiry.hours': 'an upload expires after resumable.expireHours without new bytes',
  'access.create': 'a role needs create when the upload begins',
  'access.end': 'and when it ends',
  'access.owner': 'an upload belongs to its user in its role; others get a 404',
  'access.record': 'the file belongs to the user and the role of the upload',
  'access.limit': 'a user has at most resumable.maxPerUser unfinished uploads; then 429',
  'access.site': 'a page of another site cannot upload with the cookie of a user',
  'cors.exposed': 'pages of origins in http.cors.origins may read the headers of the protocol',
  'lock.taken-over': 'a new request for an upload ends the one before, which gets 423 and whose bytes count',
  'lock.others': 'a request of another user ends none',
  'lock.lost': 'a request that has lost the upload stores nothing',
  'servers.any': 'any server that shares the database and the store continues an upload',
} as const

const TYPE = 'application/offset+octet-stream'
const ORIGIN = 'https://app.example'
const KEY = 'a key of a test that is long enough for HS256'
const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const reader: As = { role: 'reader', variables: user.variables! }

type Headers = Readonly<Record<string, string>>
const base64 = (text: string | Buffer): string => Buffer.from(text).toString('base64')
const written = (metadata: Headers): string =>
  Object.entries(metadata)
    .map(([name, value]) => `${name} ${base64(value)}`)
    .join()
const content = (text: string): Expected => ({ status: 200, text })
const at = (offset: number): Expected => ({ status: 204, headers: { 'upload-offset': String(offset) } })

const tus = (method: string, path: string, headers: Headers, expected: Expected, as = admin, body?: string): Step => ({
  path,
  method,
  headers: { 'Tus-Resumable': '1.0.0', ...headers },
  ...(body === undefined ? {} : { body }),
  as,
  expected,
})
const create = (
  length: number | string,
  metadata: Headers,
  expected: Expected,
  headers: Headers = {},
  as = admin,
): Step =>
  tus(
    'POST',
    '/v1/upload',
    {
      'Upload-Length': String(length),
      ...(Object.keys(metadata).length === 0 ? {} : { 'Upload-Metadata': written(metadata) }),
      ...headers,
    },
    expected,
    as,
  )
const whole = (bytes: string, metadata: Headers, expected: Expected, as = admin): Step => ({
  ...create(bytes.length, metadata, expected, { 'Content-Type': TYPE }, as),
  body: bytes,
})
const patch = (
  path: string,
  offset: number,
  bytes: string,
  expected: Expected,
  headers: Headers = {},
  as = admin,
): Step =>
  tus('PATCH', path, { 'Upload-Offset': String(offset), 'Content-Type': TYPE, ...headers }, expected, as, bytes)
const progress = (path: string, offset: number, as = admin): Step =>
  tus('HEAD', path, {}, { status: 200, headers: { 'upload-offset': String(offset) } }, as)
const raw = (metadata: string, expected: Expected): Step => create(1, {}, expected, { 'Upload-Metadata': metadata })

const taken = (server: Files, { path, method, headers, body, as }: Step): Promise<Answered> =>
  server.fetch(path, { method, headers: headers!, ...(body === undefined ? {} : { body }) }, as)
/** Begins an upload. @returns its path */
async function begin(server: Files, length: number, metadata: Headers = {}, as = admin): Promise<string> {
  const { status, headers, text } = await taken(server, create(length, metadata, OK, {}, as))
  if (status !== 201) throw new Error(`${status} ${text}`)
  return headers.get('location')!
}
/** A PATCH of the admin, of which only a part has arrived. */
const half = (server: Files, path: string, bytes: string, headers: Headers): Promise<HalfRequest> =>
  server.half(
    path,
    bytes,
    { 'tus-resumable': '1.0.0', 'content-type': TYPE, 'upload-offset': '0', ...headers },
    'PATCH',
  )

const idOf = (path: string): string => path.split('/').at(-1)!
const change = (server: Files, path: string, set: string) =>
  rowsOf(server.databaseUrl, `update svc_catalog.svc_upload set ${set} where upload_id = '${idOf(path)}'`)
const pieces = async ({ databaseUrl }: Files, path: string): Promise<number> =>
  (await rowsOf(databaseUrl, `select from svc_catalog.svc_upload_piece where upload_id = '${idOf(path)}'`)).length

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Files>>> = {
  'options.protocol': ['/v1/upload', '/v1/upload/x'].map((path) => ({
    path,
    method: 'OPTIONS',
    bare: true,
    expected: {
      status: 204,
      headers: {
        'tus-resumable': '1.0.0',
        'tus-version': '1.0.0',
        'tus-extension': 'creation,creation-with-upload,expiration,checksum,termination',
        'tus-max-size': '104857600',
        'tus-checksum-algorithm': 'sha1,sha256,md5',
      },
    },
  })),
  'create.answer': [
    create(
      11,
      { file_id: 'begun' },
      {
        status: 201,
        text: '',
        headers: {
          location: /^\/v1\/upload\/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/,
          'upload-expires': / GMT$/,
          'tus-resumable': '1.0.0',
          'cache-control': 'no-store',
        },
      },
    ),
    get('begun', hidden('begun')),
  ],
  'create.with-bytes': [
    whole('hello', { file_id: 'whole' }, { status: 201, headers: { 'upload-offset': '5' } }),
    get('whole', content('hello')),
    {
      ...create(
        9,
        { file_id: 'first part' },
        { status: 201, headers: { 'upload-offset': '2' } },
        { 'Content-Type': TYPE },
      ),
      body: 'he',
    },
    get('first part', hidden('first part')),
  ],
  'create.empty': [create(0, { file_id: 'empty' }, { status: 201 }), get('empty', content(''))],
  'create.length': [
    tus('POST', '/v1/upload', {}, bad('missing header: Upload-Length')),
    ...['NaN', '-1', '1.5'].map((length) => create(length, {}, bad('Upload-Length should be a number of bytes'))),
    create(
      104_857_601,
      {},
      wrong(413, 'payload_too_large', 'the upload is larger than 104857600 bytes (plugins.filestore.maxBytes, limits)'),
    ),
    create(104_857_600, {}, { status: 201 }),
  ],
  'create.unsupported': [
    create(1, {}, bad('Upload-Defer-Length is not supported: send the length in Upload-Length'), {
      'Upload-Defer-Length': '1',
    }),
    create(1, {}, bad('Upload-Concat is not supported'), { 'Upload-Concat': 'partial' }),
  ],
  'create.user': [create(1, {}, bad('missing header: X-Service-User-Id'), {}, {})],
  'create.exists': async (t, server) => {
    const late = await begin(server, 3, { file_id: 'taken' })
    const exists = bad('file already exists : taken')
    await takeAll(t, server, [
      post('taken', 'one', OK),
      create(3, { file_id: 'taken' }, exists),
      patch(late, 0, 'two', exists),
      tus('HEAD', late, {}, { status: 400 }),
      get('taken', content('one')),
    ])
  },
  'metadata.file-id': async (t, server) => {
    const id = 'größe/../%2F "ü" 文'
    const own = await taken(server, whole('abc', {}, OK))
    await takeAll(t, server, [
      whole('hello', { file_id: id }, { status: 201 }),
      get(id, content('hello')),
      get(idOf(own.headers.get('location')!), {
        ...content('abc'),
        headers: { 'content-type': 'application/octet-stream' },
      }),
    ])
  },
  'metadata.type': [
    [{ content_type: 'text/plain', filetype: 'a/b' }, 'text/plain'],
    [{ filetype: 'a/b' }, 'a/b'],
    [{ filetype: '' }, 'application/octet-stream'],
    [{ filetype: 'Text/CSV; charset="ISO-8859-1"; header=present' }, 'Text/CSV; charset="ISO-8859-1"; header=present'],
    [{ content_type: 'text/plain;;charset=utf-8' }, 'text/plain;;charset=utf-8'],
  ].flatMap(([types, expected], i) => [
    whole('x', { file_id: `type ${i}`, ...(types as Headers) }, { status: 201 }),
    get(`type ${i}`, { status: 200, headers: { 'content-type': expected as string } }),
  ]),
  'metadata.replace': async (t, server) => {
    const path = await begin(server, 5, { file_id: 'taken', replace: 'true' })
    await takeAll(t, server, [
      get('taken', content('one')),
      patch(path, 0, 'three', at(5)),
      get('taken', content('three')),
      whole('x', { file_id: 'taken', replace: 'false' }, bad('file already exists : taken')),
      create(1, { replace: 'yes' }, bad('Upload-Metadata: replace should be true or false')),
    ])
  },
  'metadata.pending': [
    whole('frames', { file_id: 'film', pending: 'true' }, { status: 201, headers: { 'upload-offset': '6' } }),
    get('film', hidden('film')),
    query('attach_file', { file_id: 'film' }, { status: 200, like: { file_size: 6, user_id: 7 } }, admin),
    get('film', content('frames')),
  ],
  'metadata.other': async (t, server) => {
    const metadata = { file_id: 'described', else: '', filename: 'a.txt' }
    const path = await begin(server, 1, metadata)
    await takeAll(t, server, [
      tus('HEAD', path, {}, { status: 200, headers: { 'upload-metadata': written(metadata) } }),
      tus('HEAD', await begin(server, 1), {}, { status: 200, headers: { 'upload-metadata': null } }),
    ])
  },
  'metadata.wrong': [
    raw('file_id YQ', bad('Upload-Metadata: file_id is not base64')),
    raw('file_id /w==', bad('Upload-Metadata: file_id is not UTF-8')),
    raw('file_id YQ==,file_id Yg==', bad('Upload-Metadata has file_id twice')),
    raw('file_id YQ== Yg==', bad('Upload-Metadata should be pairs of a key and base64, separated by commas')),
    raw('file_id', bad('missing parameter: file_id')),
    create(1, { file_id: 'a\nb' }, bad('a file_id has no control characters')),
    create(1, { file_id: 'ü'.repeat(513) }, bad('a file_id has at most 1024 bytes')),
    create(1, { content_type: 'text/plain\r\nX-Evil: 1' }, bad('Content-Type is not a media type')),
  ],
  'head.progress': async (t, server) => {
    const path = await begin(server, 11)
    await takeAll(t, server, [
      tus(
        'HEAD',
        path,
        {},
        {
          status: 200,
          text: '',
          headers: {
            'upload-offset': '0',
            'upload-length': '11',
            'cache-control': 'no-store',
            'upload-expires': / GMT$/,
            'tus-resumable': '1.0.0',
          },
        },
      ),
      tus('GET', path, {}, { status: 405 }),
      { path, method: 'GET', as: admin, expected: { status: 405 } },
    ])
  },
  'patch.parts': async (t, server) => {
    const path = await begin(server, 11, { file_id: 'parts', content_type: 'text/plain' })
    await takeAll(t, server, [
      patch(path, 0, 'hello ', at(6)),
      progress(path, 6),
      get('parts', hidden('parts')),
      patch(path, 6, 'w', at(7)),
      patch(path, 7, 'orld', at(11)),
      get('parts', {
        status: 200,
        text: 'hello world',
        headers: { 'content-type': 'text/plain', etag: `"${digest('hello world', 'sha256', 'hex')}"` },
      }),
    ])
    t.equal(await pieces(server, path), 0, 'and the pieces are left to the collector')
  },
  'patch.complete': async (t, server) => {
    const path = await begin(server, 2, { file_id: 'complete' })
    await takeAll(t, server, [
      patch(path, 0, 'ab', at(2)),
      progress(path, 2),
      patch(path, 2, '', at(2)),
      patch(path, 0, 'ab', { status: 409 }),
      get('complete', content('ab')),
    ])
  },
  'patch.offset': async (t, server) => {
    const path = await begin(server, 5)
    await takeAll(t, server, [
      patch(path, 1, 'ello', wrong(409, 'wrong_offset', 'Upload-Offset should be 0')),
      patch(path, 0, 'x', bad('Upload-Offset should be a number of bytes'), { 'Upload-Offset': 'x' }),
      tus('PATCH', path, { 'Content-Type': TYPE }, bad('missing header: Upload-Offset'), admin, 'x'),
      progress(path, 0),
    ])
  },
  'patch.type': async (t, server) => {
    const path = await begin(server, 5)
    const refused = wrong(415, 'unsupported_media_type', `the Content-Type should be ${TYPE}`)
    await takeAll(t, server, [
      patch(path, 0, 'hello', refused, { 'Content-Type': 'text/plain' }),
      { ...create(5, {}, refused, { 'Content-Type': 'text/plain' }), body: 'hello' },
      patch(path, 0, 'hello', coded('gzip'), { 'Content-Encoding': 'gzip' }),
      { ...create(5, {}, coded('br'), { 'Content-Type': TYPE, 'Content-Encoding': 'br' }), body: 'hello' },
      progress(path, 0),
      patch(path, 0, 'hello', at(5), { 'Content-Type': 'Application/Offset+Octet-Stream; charset=utf-8' }),
    ])
  },
  'patch.too-long': async (t, server) => {
    const path = await begin(server, 5)
    const refused = wrong(
      413,
      'payload_too_large',
      'the body is longer than the 5 bytes that are missing from Upload-Length',
    )
    await takeAll(t, server, [patch(path, 0, 'hello!', refused), progress(path, 0)])
    const { request, answer } = await half(server, path, 'hel', {})
    request.end('lo!')
    t.equal((await answer).status, 413)
    await takeAll(t, server, [progress(path, 0)])
  },
  'patch.broken': async (t, server) => {
    const path = await begin(server, 9, { file_id: 'broken' })
    const { request } = await half(server, path, 'hello', { 'content-length': '9' })
    request.destroy()
    await takeAll(t, server, [progress(path, 5), patch(path, 5, ' you', at(9)), get('broken', content('hello you'))])
  },
  'checksum.match': async (t, server) => {
    const path = await begin(server, 20, { file_id: 'sums' })
    const steps = ['sha1', 'sha256', 'md5'].flatMap((algorithm, i) => [
      patch(
        path,
        i * 5,
        'hello',
        wrong(460, 'checksum_mismatch', 'the bytes do not match Upload-Checksum; send them again'),
        { 'Upload-Checksum': `${algorithm} ${digest('hellO', algorithm)}` },
      ),
      progress(path, i * 5),
      patch(path, i * 5, 'hello', at(i * 5 + 5), { 'Upload-Checksum': `${algorithm} ${digest('hello', algorithm)}` }),
    ])
    await takeAll(t, server, [...steps, patch(path, 15, 'hello', at(20)), get('sums', content('hello'.repeat(4)))])
  },
  'checksum.wrong': async (t, server) => {
    const path = await begin(server, 5)
    const checked = (checksum: string, message: string) =>
      patch(path, 0, 'x', bad(message), { 'Upload-Checksum': checksum })
    await takeAll(t, server, [
      checked('crc32 AAAAAA==', 'Upload-Checksum supports sha1, sha256, md5'),
      checked('sha1 AAAA', 'Upload-Checksum is not a sha1 digest in base64'),
      checked('sha1', 'Upload-Checksum should be an algorithm and a digest in base64'),
      progress(path, 0),
    ])
  },
  'checksum.broken': async (t, server) => {
    const path = await begin(server, 9)
    const checksum = { 'upload-checksum': `sha1 ${digest('hello you', 'sha1')}`, 'content-length': '9' }
    const { request } = await half(server, path, 'hello', checksum)
    request.destroy()
    await takeAll(t, server, [progress(path, 0), patch(path, 0, 'h', at(1))])
  },
  'method.override': async (t, server) => {
    const path = await begin(server, 2, { file_id: 'tunnelled' })
    const tunnel = (method: string, expected: Expected, body?: string): Step =>
      tus(
        'POST',
        path,
        { 'X-HTTP-Method-Override': method, 'Upload-Offset': '0', 'Content-Type': TYPE },
        expected,
        admin,
        body,
      )
    await takeAll(t, server, [
      tunnel('PUT', bad('X-HTTP-Method-Override should be PATCH or DELETE'), 'ab'),
      tunnel('PATCH', at(2), 'ab'),
      get('tunnelled', content('ab')),
      tunnel('DELETE', { status: 204 }),
      tus('HEAD', path, {}, { status: 404 }),
    ])
  },
  'version.other': async (t, server) => {
    const path = await begin(server, 1)
    const refused = {
      ...wrong(412, 'precondition_failed', 'Tus-Resumable should be 1.0.0'),
      headers: { 'tus-version': '1.0.0', 'tus-resumable': '1.0.0' },
    }
    await takeAll(t, server, [
      create(1, {}, refused, { 'Tus-Resumable': '0.2.2' }),
      patch(path, 0, 'x', refused, { 'Tus-Resumable': '2' }),
      { ...tus('HEAD', path, {}, { status: 412 }), headers: {} },
      tus('DELETE', path, { 'Tus-Resumable': '' }, refused),
      progress(path, 0),
    ])
  },
  'remove.answer': async (t, server) => {
    const path = await begin(server, 5)
    await takeAll(t, server, [patch(path, 0, 'he', at(2))])
    t.equal(await pieces(server, path), 1)
    await takeAll(t, server, [tus('DELETE', path, {}, { status: 204 }), tus('HEAD', path, {}, { status: 404 })])
    t.equal(await pieces(server, path), 0)
    const dead = `select from svc_catalog.svc_blob where state = 'dead' and dead_at = 'epoch' and size is null`
    t.ok((await rowsOf(server.databaseUrl, dead)).length > 0, 'the collector deletes them')
  },
  'unknown.upload': [randomUUID(), 'no-id', '..%2Fplace'].flatMap((id) => {
    const missing = wrong(404, 'not_found', /^upload ".*" not found/)
    return [
      patch(`/v1/upload/${id}`, 0, 'x', missing),
      tus('HEAD', `/v1/upload/${id}`, {}, { status: 404 }),
      tus('DELETE', `/v1/upload/${id}`, {}, missing),
    ]
  }),
  'expiry.gone': async (t, server) => {
    const path = await begin(server, 5)
    await change(server, path, 'expires_at = now()')
    await takeAll(t, server, [
      patch(path, 0, 'he', wrong(410, 'gone', 'the upload has expired; start a new one')),
      tus('HEAD', path, {}, { status: 410 }),
    ])
  },
  'expiry.hours': async (t, server) => {
    const hours = (text: string | null) => Math.round((Date.parse(text!) - Date.now()) / 3_600_000)
    const begun = await taken(server, create(5, {}, OK))
    t.equal(hours(begun.headers.get('upload-expires')), 24)
    const path = begun.headers.get('location')!
    await change(server, path, "expires_at = now() + interval '1 hour'")
    t.equal(hours((await taken(server, progress(path, 0))).headers.get('upload-expires')), 1)
    t.equal(hours((await taken(server, patch(path, 0, 'x', OK))).headers.get('upload-expires')), 24)
  },
  'access.create': [create(1, {}, denied('reader'), {}, reader), create(1, {}, { status: 201 }, {}, user)],
  'access.end': async (t, server) => {
    const path = await begin(server, 1, { file_id: 'ended' }, user)
    const strict = await filestore(t, { permissions: { user: ['read'] } }, {}, server)
    await takeAll(t, strict, [
      patch(path, 0, 'x', denied('user'), {}, user),
      tus('HEAD', path, {}, { status: 403 }, user),
      get('ended', hidden('ended')),
    ])
    await takeAll(t, server, [progress(path, 1, user), get('ended', content('x'))])
  },
  'access.owner': async (t, server) => {
    const path = await begin(server, 2, { file_id: 'owned' }, user)
    for (const as of [other, reader, { variables: user.variables! }]) {
      await takeAll(t, server, [
        tus('HEAD', path, {}, { status: 404 }, as),
        patch(path, 0, 'x', wrong(404, 'not_found', `upload "${idOf(path)}" not found`), {}, as),
        tus('DELETE', path, {}, { status: 404 }, as),
      ])
    }
    await takeAll(t, server, [patch(path, 0, 'ab', at(2), {}, user), get('owned', content('ab'))])
  },
  'access.record': [
    query(
      'run_sql',
      { sql: "select user_id, user_role, content_type from svc_catalog.svc_file where file_id = 'owned'" },
      {
        status: 200,
        like: {
          result: [
            ['user_id', 'user_role', 'content_type'],
            ['42', 'user', 'application/octet-stream'],
          ],
        },
      },
    ),
  ],
  'access.limit': async (t, server) => {
    const few = await filestore(t, { permissions: { user: ['create'] }, resumable: { maxPerUser: 2 } }, {}, server)
    const third: As = { role: 'user', variables: { 'x-service-user-id': '44' } }
    const [one, two] = [await begin(few, 1, {}, third), await begin(few, 1, {}, third)]
    await takeAll(t, few, [
      create(
        1,
        {},
        {
          ...wrong(
            429,
            'too_many_uploads',
            'the limit of 2 unfinished uploads is reached (plugins.filestore.resumable.maxPerUser)',
          ),
          headers: { 'retry-after': '60' },
        },
        {},
        third,
      ),
      create(1, {}, { status: 201 }, {}, other),
      patch(one, 0, 'x', at(1), {}, third),
      create(1, {}, { status: 201 }, {}, third),
      create(1, {}, { status: 429 }, {}, third),
      tus('DELETE', two, {}, { status: 204 }, third),
      create(1, {}, { status: 201 }, {}, third),
    ])
  },
  'access.site': async (t, server) => {
    const claims = { 'x-service-allowed-roles': ['user'], 'x-service-default-role': 'user', 'x-service-user-id': '1' }
    const token = new SignJWT({ rowhouse: claims }).setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1h')
    const cookie = `rowhouse_session=${await token.sign(Buffer.from(KEY))}`
    const ask = (method: string, path: string, expected: Expected, more: Headers = {}): Step => ({
      ...tus(method, path, { cookie, 'Upload-Length': '1', 'Upload-Offset': '0', ...more }, expected),
      bare: true,
    })
    const refused = { status: 403, like: { code: 'csrf' } }
    const begun = ask('POST', '/v1/upload', OK, { origin: ORIGIN })
    const created = await server.bare(begun.path, { method: 'POST', headers: begun.headers! })
    const path = created.headers.get('location')!
    t.equal(created.status, 201)
    await takeAll(t, server, [
      ask('POST', '/v1/upload', refused),
      ask('PATCH', path, refused, { 'Content-Type': TYPE }),
      ask('DELETE', path, refused),
      ask('POST', path, refused, { 'X-HTTP-Method-Override': 'DELETE' }),
      ask('DELETE', path, { status: 204 }, { 'X-Service-CSRF': '1' }),
    ])
  },
  'cors.exposed': [
    create(1, {}, { status: 201, headers: { 'access-control-expose-headers': null } }),
    ...[
      'Location',
      'Upload-Offset',
      'Upload-Length',
      'Upload-Expires',
      'Upload-Metadata',
      'Tus-Resumable',
      'Tus-Max-Size',
    ].map((name) =>
      create(
        1,
        {},
        { status: 201, headers: { 'access-control-expose-headers': new RegExp(`(?:^|, )${name}(?:,|$)`) } },
        { Origin: ORIGIN },
      ),
    ),
    {
      path: '/v1/upload',
      method: 'OPTIONS',
      headers: {
        origin: ORIGIN,
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'upload-offset',
      },
      bare: true,
      expected: {
        status: 204,
        headers: { 'access-control-allow-methods': 'PATCH', 'access-control-allow-headers': 'upload-offset' },
      },
    },
  ],
  'lock.taken-over': async (t, server) => {
    const path = await begin(server, 10, { file_id: 'later' })
    const { answer, request } = await half(server, path, 'hello', { 'content-length': '10' })
    await takeAll(t, server, [progress(path, 5)])
    t.match(await answer, { status: 423, text: /"locked".*another request has taken over this upload/ })
    request.destroy()
    await takeAll(t, server, [patch(path, 5, ', you', at(10)), get('later', content('hello, you'))])
  },
  'lock.others': async (t, server) => {
    const path = await begin(server, 10, { file_id: 'unhurt' })
    const { answer, request } = await half(server, path, 'hello', { 'content-length': '10' })
    await takeAll(t, server, [
      tus('HEAD', path, {}, { status: 404 }, user),
      tus('DELETE', path, {}, { status: 404 }, user),
      patch(path, 0, 'x', { status: 404 }, {}, user),
    ])
    request.end(', you')
    t.match(await answer, { status: 204 })
    await takeAll(t, server, [get('unhurt', content('hello, you'))])
  },
  'lock.lost': async (t, server) => {
    const path = await begin(server, 5, { file_id: 'unowned' })
    const { answer, request } = await half(server, path, 'hel', { 'content-length': '5' })
    await change(server, path, 'holder = gen_random_uuid()')
    request.end('lo')
    t.match(await answer, { status: 423 })
    await change(server, path, 'holder = null')
    await takeAll(t, server, [progress(path, 0), get('unowned', hidden('unowned'))])
  },
  'servers.any': async (t, server) => {
    const second = await filestore(t, {}, {}, server)
    const path = await begin(server, 12, { file_id: 'shared' })
    await takeAll(t, server, [patch(path, 0, 'hel', at(3))])
    await takeAll(t, second, [patch(path, 3, 'lo, ', at(7))])
    await takeAll(t, server, [progress(path, 7), patch(path, 7, 'you', at(10))])
    await takeAll(t, second, [patch(path, 10, 'rs', at(12)), get('shared', content('hello, yours'))])
    await takeAll(t, server, [get('shared', content('hello, yours')), progress(path, 12), put('shared', 'x', OK)])
  },
}

function digest(bytes: string, algorithm: string, encoding: 'base64' | 'hex' = 'base64'): string {
  return createHash(algorithm).update(bytes).digest(encoding)
}

/** Its promises, with a case for each. */
export const uploads = area('uploads', {
  promises: PROMISES,
  cases: CASES,
  start: (t: Test) =>
    filestore(
      t,
      { permissions: { user: ['create', 'read'], reader: ['read'] }, resumable: { maxPerUser: 1000 } },
      {},
      undefined,
      { http: { cors: { origins: [ORIGIN] } }, auth: { jwt: { algorithms: ['HS256'], key: KEY } } },
    ),
  pages: {
    'plugins/filestore/README.md': {
      filestore: {
        '`/v1/upload`': ['create.answer', 'patch.parts'],
      },
    },
    'plugins/filestore/uploads.md': {
      'Resumable uploads': {
        '409': 'patch.offset',
        '412': 'version.other',
        '415': 'patch.type',
        '423': 'lock.taken-over',
        '429': 'access.limit',
        '460': 'checksum.match',
        '`file_id`': 'metadata.file-id',
        '`content_type`, or `filetype`': 'metadata.type',
        '`replace`': ['metadata.replace', 'create.exists'],
        '`pending`': 'metadata.pending',
        'other keys, such as `filename`': 'metadata.other',
        '400, 403, 413': ['create.length', 'access.create', 'patch.too-long', 'metadata.wrong'],
        '404, 410': ['unknown.upload', 'access.owner', 'expiry.gone'],
        'Pages of another origin must be listed in `http.cors.origins`.': ['cors.exposed', 'access.site'],
        'The length must be known at the beginning.': ['create.length', 'create.unsupported'],
      },
    },
  },
})
