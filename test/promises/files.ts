import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { bad, coded, denied, get, head, hidden, OK, pathOf, post, put, remove, wrong } from '../kit/file-steps.js'
import { admin, type Files, filestore, user } from '../kit/files.js'
import { rowsOf } from '../kit/database.js'
import { area, type Case, type Expected, like, type Step, takeAll, text } from '../kit/promises.js'
import { rawRequest } from '../kit/raw-http.js'
import { ADMIN_SECRET, type As, GATEWAY_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What `/v1/file` promises. */
const PROMISES = {
  'post.record': 'POST stores a file and answers with its record',
  'post.exists': 'POST refuses an id that exists, and the file stays as it was',
  'post.generated': 'POST /v1/file stores a file under an id that the server generates',
  'put.creates': 'PUT creates a file that does not exist',
  'put.replaces': 'PUT replaces the bytes, the type and the owner of a file, and keeps its created_at',
  'get.bytes': 'GET answers with the bytes that were stored, whatever they are',
  'get.headers': 'a download has its type, length, ETag and date, and a browser keeps it away from this origin',
  'get.missing': 'a file that does not exist is a 404',
  'head.answer': 'HEAD answers as GET, without the bytes',
  'delete.answer': 'DELETE deletes a file, and its id is free again',
  'delete.missing': 'deleting a file that does not exist is a 404',
  'method.other': 'any other method is a 405',
  'file.empty': 'a file may be empty',
  'id.any': 'an id is any text, and never a path on the disk',
  'id.length': 'an id has at most 1,024 bytes',
  'id.control': 'an id has no control characters',
  'id.encoded': 'an id in a path is percent-encoded, its / too',
  'id.missing': 'GET, PUT and DELETE need an id',
  'user.required': 'a request needs X-Service-User-Id',
  'user.integer': 'X-Service-User-Id is an integer of 64 bits',
  'user.anonymous': 'the files of anonymous callers belong to the user 0',
  'type.required': 'an upload needs a Content-Type',
  'type.checked': 'the Content-Type is a media type',
  'type.parameters': 'a type keeps its parameters, in a form too',
  'body.whole': 'an upload is the whole file, without a Content-Encoding or a Content-Range',
  'size.limit': 'a file has at most maxBytes, announced or not',
  'size.role': 'limits.<role>.maxBytes applies to a role instead, smaller or larger',
  'size.buffered': 'small and large files are stored alike, with or without a Content-Length',
  'upload.cut': 'an upload whose connection breaks leaves the file as it was, and no bytes',
  'range.first-last': 'bytes=0-3 answers 206 with these bytes',
  'range.open': 'bytes=7- is the rest of the file',
  'range.last': 'bytes=-2 is the end of the file',
  'range.beyond': 'a range that ends beyond the file ends with the file',
  'range.unreadable': 'a range that cannot be read is refused',
  'range.other-unit': 'a range in another unit than bytes is ignored',
  'range.one': 'a request asks for one range',
  'range.outside': 'a range outside of the file is refused with the size of the file',
  'range.own-header': 'X-Service-Filestore-Range takes precedence over Range',
  'range.if-range': 'If-Range: for another version the whole file is sent',
  'read.if-none-match': 'If-None-Match: 304 for a version that the client has',
  'read.if-modified-since': 'If-Modified-Since: 304 unless the file has changed since',
  'read.if-match': 'If-Match: 412 for another version',
  'read.if-unmodified-since': 'If-Unmodified-Since: 412 if the file has changed since',
  'date.forms': 'a date has one of the three forms of HTTP, and is UTC',
  'date.century': 'a year of two digits is at most 50 years in the future',
  'date.ignored': 'a condition with anything but one date is ignored',
  'date.zone': 'the time zone of the server changes no date',
  'write.if-match': 'If-Match: PUT and DELETE change only this version',
  'write.if-none-match': 'If-None-Match: PUT stores only a new file, or another version',
  'write.if-unmodified-since': 'If-Unmodified-Since: PUT and DELETE change only a file that has not changed since',
  'show.active': 'types that a browser could execute are saved, others shown',
  'show.download': '?download makes a browser save the file, under a name if there is one',
  'show.script': 'a page of this origin cannot use a file as a script, a worker or a style sheet',
  'form.one': 'POST and PUT of a file take a form with one file',
  'form.one-only': 'a form for one file has exactly one',
  'form.several': 'POST /v1/file takes a form with several files, and answers with their records in order',
  'form.all-or-none': 'if one file of a form fails, none is stored',
  'form.limits': 'a form has at most 100 files, and at most maxBytes in all',
  'form.wrong': 'a form that cannot be read is refused, and nothing of it is stored',
  'form.part': 'a part that cannot be read is refused, instead of being left out',
  'form.no-form': 'another kind of multipart is a file',
  'key.repeated': 'an upload and a deletion that are repeated with an Idempotency-Key have one effect',
  'key.other': 'an Idempotency-Key of other bytes is refused',
  'key.wrong': 'an Idempotency-Key that is empty or invalid is refused',
  'key.in-progress': 'an upload whose first request has just ended is to be sent again',
  'dry-run.upload': 'an upload cannot be a dry run',
  'dry-run.delete': 'a deletion can, and the file stays',
} as const

const other: As = { variables: { 'x-service-user-id': '8' } }
const small: As = { role: 'small', variables: { 'x-service-user-id': '1' } }
const large: As = { role: 'large', variables: { 'x-service-user-id': '1' } }
const withId = (id: string): As => ({ variables: { 'x-service-user-id': id } })

const tag = (bytes: string): string => `"${createHash('sha256').update(bytes).digest('hex')}"`
const HELLO = tag('hello')
const LONG_AGO = 'Mon, 01 Jan 2001 00:00:00 GMT'
const FUTURE = 'Fri, 01 Jan 2100 00:00:00 GMT'
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
/** A time in the three forms of HTTP. */
function forms(time: number): readonly [today: string, rfc850: string, asctime: string] {
  const today = new Date(time).toUTCString()
  const [, day = '', month = '', year = '', clock = ''] = today.split(/,? /)
  const [long = ''] = [DAYS[new Date(time).getUTCDay()]]
  return [
    today,
    `${long}, ${day}-${month}-${year.slice(2)} ${clock} GMT`,
    `${today.slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${clock} ${year}`,
  ]
}
const inYears = (years: number): number => Date.now() + years * 365.25 * 86_400_000
const is = (bytes: string): Expected => ({ status: 200, text: bytes })
const tooLarge = (maxBytes: number): Expected =>
  wrong(413, 'payload_too_large', `the upload is larger than ${maxBytes} bytes (plugins.filestore.maxBytes, limits)`)
const stale = wrong(412, 'precondition_failed', 'the version of the file does not meet the conditions of the request')
const part = (bytes: string, range: string): Expected => ({
  status: 206,
  text: bytes,
  headers: { 'content-range': range, 'content-length': String(bytes.length) },
})
const ranged = (range: string, expected: Expected, id = 'ten'): Step => get(id, expected, { Range: range })
const shown = (query: string, disposition: string | null, id = 'a.txt'): Step => ({
  ...get(id, { status: 200, headers: { 'content-disposition': disposition } }),
  path: pathOf(id) + query,
})
const at = (
  method: string,
  path: string,
  expected: Expected,
  headers: Readonly<Record<string, string>> = {},
): Step => ({
  path,
  method,
  as: admin,
  headers,
  expected,
  ...(method.startsWith('P') ? { body: 'x', headers: { 'Content-Type': 'a/b', ...headers } } : {}),
})

/** Types that are stored and sent back as they are. */
const TYPES = [
  'text/plain; charset=utf-8',
  'text/plain;charset=utf-8',
  'text/csv; charset=ISO-8859-1; header=present',
  'video/webm; codecs="vp9, opus"',
  'Text/HTML; Charset="utf-8"',
  'text/plain;;charset=utf-8',
  'text/plain; ; charset=utf-8;; ',
  'text/plain;',
  'a/b; c="; d=\\"e\\\\"; f=g; f=h',
  'application/vnd.api+json;profile="https://example.com/a;b"',
].map((type) => type.trim())

/** What is no date of HTTP, although a part of it looks like the first of January. */
const noDates = (day: string, year: string): readonly string[] => [
  year,
  '12345',
  'foo 1',
  `1/1/${year}`,
  `${year}-01-01`,
  `${year}-01-01T00:00:00Z`,
  `January ${year}`,
  `${Date.UTC(Number(year), 0, 1) / 1000}`,
  ...['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'].flatMap((any) => [
    `${any}, 30 Feb ${year} 00:00:00 GMT`,
    `${any}, 29 Feb ${year} 00:00:00 GMT`,
    `${any}, 00 Jan ${year} 00:00:00 GMT`,
    ...(any === day ? [] : [`${any}, 01 Jan ${year} 00:00:00 GMT`, `${any} Jan  1 00:00:00 ${year}`]),
  ]),
  `${day}, 01 Jan ${year} 00:00:00 PST`,
  `${day}, 01 Jan ${year} 00:00:00 UTC`,
  `${day}, 01 Jan ${year} 00:00:00 +0000`,
  `${day}, 01 Jan ${year} 00:00:00`,
  `${day}, 01 Jan ${year} 00:00:00 gmt`,
  `${day}, 01 JAN ${year} 00:00:00 GMT`,
  `${day.toLowerCase()}, 01 Jan ${year} 00:00:00 GMT`,
  `${day}, 1 Jan ${year} 00:00:00 GMT`,
  `${day}, 01  Jan ${year} 00:00:00 GMT`,
  `${day} 01 Jan ${year} 00:00:00 GMT`,
  `${day},01 Jan ${year} 00:00:00 GMT`,
  `01 Jan ${year} 00:00:00 GMT`,
  `${day}, 01 Jan ${year} 24:00:00 GMT`,
  `${day}, 01 Jan ${year} 00:60:00 GMT`,
  `${day}, 01 Jan ${year} 00:00:60 GMT`,
  `${day}, 01 Jan ${year} 23:59:61 GMT`,
  `${day}, 01 Jan ${year} 00:00 GMT`,
  `${day}, 01 Jan ${year} 00:00:00.5 GMT`,
  `${day}, 01-Jan-${year} 00:00:00 GMT`,
  `${day}, 01-Jan-${year.slice(2)} 00:00:00 GMT`,
  `${day} Jan 1 00:00:00 ${year}`,
  `${day} Jan 01 00:00:00 ${year} GMT`,
  `${day} Jan 01 00:00:00 GMT ${year}`,
  `"${day}, 01 Jan ${year} 00:00:00 GMT"`,
  `${day}, 01 Jan ${year} 00:00:00 GMT, ${day}, 01 Jan ${year} 00:00:00 GMT`,
]

/** The part of a form with a file, after a field `file_id` if there is an id. */
const filePart = (id: string | undefined, bytes: string, type = 'text/plain'): string =>
  (id === undefined ? '' : `--B\r\nContent-Disposition: form-data; name="file_id"\r\n\r\n${id}\r\n`) +
  `--B\r\nContent-Disposition: form-data; name="upload"; filename="name.txt"\r\nContent-Type: ${type}\r\n\r\n${bytes}\r\n`
const field = '--B\r\nContent-Disposition: form-data; name="comment"\r\n\r\nnot a file\r\n'
const formed = (
  parts: readonly string[],
  expected: Expected,
  { path = '/v1/file', method = 'POST', end = '--B--\r\n', type = 'multipart/form-data; boundary=B' } = {},
): Step => ({ path, method, body: parts.join('') + end, headers: { 'Content-Type': type }, as: admin, expected })
const onto = (id: string, method = 'POST') => ({ path: pathOf(id), method })

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Files>>> = {
  'post.record': async (t, server) => {
    const { status, body, headers } = await server.put('a.txt', 'hello', admin, {}, 'POST')
    const { created_at: createdAt, ...rest } = body

    t.equal(status, 200)
    t.match(headers.get('content-type'), /^application\/json/)
    t.strictSame(rest, {
      file_id: 'a.txt',
      content_type: 'text/plain; charset=utf-8',
      file_status: 'uploaded',
      file_size: 5,
      user_id: 7,
      user_role: 'admin',
    })
    t.same(Object.keys(body), [...Object.keys(rest), 'created_at'])
    t.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}\+00:00$/)
    t.ok(Math.abs(Date.parse(createdAt) - Date.now()) < 3_600_000, createdAt)
    t.match((await server.put('b.txt', 'x', user)).body, { user_id: 42, user_role: 'user' })
  },
  'post.exists': [
    post('a.txt', 'other', bad('file already exists : a.txt'), admin),
    post('a.txt', 'other', bad('file already exists : a.txt'), user),
    get('a.txt', is('hello')),
  ],
  'post.generated': async (t, server) => {
    const ids = new Set<string>()
    for (const path of ['/v1/file', '/v1/file/']) {
      const { body } = await server.fetch(
        path,
        { method: 'POST', body: path, headers: { 'Content-Type': 'a/b' } },
        admin,
      )
      t.match(body, { file_id: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/, content_type: 'a/b' })
      ids.add(body.file_id)
      await takeAll(t, server, [get(body.file_id, is(path))])
    }
    t.equal(ids.size, 2)
  },
  'put.creates': [put('new', 'x', like({ file_id: 'new', file_size: 1, user_id: 7 })), get('new', is('x'))],
  'put.replaces': async (t, server) => {
    const before = (await server.put('r', 'one')).body
    const after = (await server.put('r', 'three', other, { 'Content-Type': 'a/b' })).body

    t.strictSame(after, { ...before, content_type: 'a/b', file_size: 5, user_id: 8 })
    await takeAll(t, server, [
      get('r', { status: 200, text: 'three', headers: { 'content-type': 'a/b', etag: tag('three') } }),
    ])
  },
  'get.bytes': async (t, server) => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    await server.put('bytes', bytes)
    const headers = { 'x-service-role': 'user', ...user.variables, 'x-service-gateway-secret': GATEWAY_SECRET }
    const response = await fetch(server.url + pathOf('bytes'), { headers })
    t.same(Buffer.from(await response.arrayBuffer()), bytes)
  },
  'get.headers': async (t, server) => {
    const { headers } = await server.get('a.txt')
    for (const [name, value] of Object.entries(DOWNLOAD)) t.equal(headers.get(name), value, name)
    t.ok(Math.abs(Date.parse(headers.get('last-modified')!) - Date.now()) < 3_600_000)
  },
  'get.missing': [get('none', hidden('none')), get('none', hidden('none'), {}, user)],
  'head.answer': [
    head('a.txt', {
      status: 200,
      text: '',
      headers: { 'content-length': '5', 'content-type': 'text/plain; charset=utf-8', etag: HELLO },
    }),
    head('none', { status: 404, text: '' }),
    head('a.txt', { status: 403 }, {}, { role: 'none', variables: user.variables! }),
  ],
  'delete.answer': [
    put('gone', 'x', OK),
    remove('gone', { status: 200, body: { file_id: 'gone', status: 'deleted' } }),
    get('gone', hidden('gone')),
    post('gone', 'again', OK),
    get('gone', is('again')),
  ],
  'delete.missing': [remove('none', hidden('none'))],
  'method.other': [
    at('PATCH', '/v1/file/a.txt', {
      status: 405,
      body: { code: 'method_not_allowed', message: 'this path does not support PATCH' },
    }),
    get('a.txt', is('hello')),
  ],
  'file.empty': [
    put('empty', '', like({ file_size: 0 })),
    get('empty', { status: 200, text: '', headers: { 'content-length': '0', etag: tag('') } }),
  ],
  'id.any': async (t, server) => {
    const stored = await server.blobs()
    const ids = [
      '..%2f..',
      'a/b/c',
      '/etc/passwd',
      '..\\..\\x',
      'ü ñ 日本 🙂',
      '%',
      '%2e%2e',
      'a\'b"c;--',
      'a?b#c&d=e+f',
      ' ',
      'constructor',
      '__proto__',
      '-',
      '~',
    ]
    for (const id of ids) await takeAll(t, server, [put(id, `of ${id}`, like({ file_id: id }))])
    for (const id of ids) await takeAll(t, server, [get(id, is(`of ${id}`))])
    t.equal(await server.blobs(), stored + ids.length, 'each is in the folder of files')
  },
  'id.length': [
    put('x'.repeat(1024), 'x', like({ file_id: 'x'.repeat(1024) })),
    put('x'.repeat(1025), 'x', bad('a file_id has at most 1024 bytes')),
    put('ü'.repeat(513), 'x', bad('a file_id has at most 1024 bytes')),
  ],
  'id.control': ['%00', '%0a', 'a%0d%0ab', '%1f', '%7f', '%c2%85', '%c2%9f'].map((id) =>
    at('PUT', `/v1/file/${id}`, bad('a file_id has no control characters')),
  ),
  'id.encoded': [
    ...['POST', 'PUT', 'GET', 'DELETE'].map((method) =>
      at(method, '/v1/file/a/b', bad('a / in a file_id is written %2F')),
    ),
    ...['%ff', '%', '%zz', '%ed%a0%80'].map((id) => at('GET', `/v1/file/${id}`, bad('the file_id is not well-formed'))),
  ],
  'id.missing': ['PUT', 'GET', 'DELETE'].map((method) => at(method, '/v1/file/', bad('missing parameter: file_id'))),
  'user.required': [
    get('a.txt', bad('missing header: X-Service-User-Id'), {}, {}),
    put('a.txt', 'x', bad('missing header: X-Service-User-Id'), { role: 'user' }),
    remove('a.txt', bad('missing header: X-Service-User-Id'), {}),
  ],
  'user.integer': async (t, server) => {
    const largest = await server.put('i', 'x', withId('9223372036854775807'))
    t.match(largest, { status: 200, text: /"user_id" ?: ?9223372036854775807\b/ })
    await takeAll(t, server, [
      ...['x', '1.5', '', '1 2', '0x1', '9223372036854775808', '-9223372036854775809'].map((id) =>
        put('a.txt', 'x', bad('X-Service-User-Id should be an integer'), withId(id)),
      ),
      get('a.txt', is('hello')),
      put('i', 'x', like({ user_id: -3 }), withId('-3')),
    ])
  },
  'user.anonymous': [
    { ...put('of all', 'x', like({ user_id: 0, user_role: 'anonymous' })), bare: true },
    { ...get('of all', is('x')), bare: true },
  ],
  'type.required': async (t, server) => {
    const headers = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1' }
    const untyped = await fetch(server.url + pathOf('a.txt'), { method: 'PUT', body: Buffer.from('x'), headers })

    t.equal(untyped.status, 400)
    t.same(await untyped.json(), { code: 'bad_request', message: 'missing header: Content-Type' })
    await takeAll(t, server, [get('a.txt', is('hello'))])
  },
  'type.checked': [
    ...['x', 'text/', 'a/b; c', 'text/plain, a/b', `a/${'b'.repeat(254)}`, 'a/b;c="\u00ff"'].map((type) =>
      put('t', 'x', bad('Content-Type is not a media type'), admin, { 'Content-Type': type }),
    ),
    get('t', hidden('t')),
    put('t', 'x', like({ content_type: `a/${'b'.repeat(253)}` }), admin, { 'Content-Type': `a/${'b'.repeat(253)}` }),
    put('t', 'x', like({ content_type: 'a/b; c="d e"' }), admin, { 'Content-Type': 'a/b;\tc="d e"' }),
    ...['a/b; c = d', 'a/b; c=', 'a/b; c="d', 'a/b; =d', 'a /b', 'a/b c', '/b', 'a/b/c', 'a/b;c=d e'].map((type) =>
      put('t', 'x', bad('Content-Type is not a media type'), admin, { 'Content-Type': type }),
    ),
  ],
  'type.parameters': TYPES.flatMap((type, i) => {
    const typed = (id: string): Expected => ({ status: 200, headers: { 'content-type': type, etag: tag(id) } })
    const [plain, one, several] = [`plain ${i}`, `one ${i}`, `several ${i}`] as const
    return [
      put(plain, plain, like({ content_type: type }), admin, { 'Content-Type': type }),
      get(plain, typed(plain)),
      formed([filePart(undefined, one, type)], like({ content_type: type }), onto(one, 'PUT')),
      get(one, typed(one)),
      formed([filePart(several, several, type), field], { status: 200, like: [{ content_type: type }] }),
      get(several, typed(several)),
    ]
  }),
  'body.whole': [
    ...['gzip', 'br', 'identity, gzip', 'x'].flatMap((coding) => {
      const form = formed([filePart('w', 'x')], coded(coding))
      return [
        put('w', 'x', coded(coding), admin, { 'Content-Encoding': coding }),
        ...[form, { ...form, ...onto('w', 'PUT') }].map((step) => ({
          ...step,
          headers: { ...step.headers, 'Content-Encoding': coding },
        })),
      ]
    }),
    put('w', 'x', bad('Content-Range is not supported: send the whole file'), admin, {
      'Content-Range': 'bytes 0-0/2',
    }),
    get('w', hidden('w')),
    ...['identity', '', 'Identity, identity'].map((coding) => put('w', 'x', OK, admin, { 'Content-Encoding': coding })),
  ],
  'size.limit': async (t, server) => {
    await takeAll(t, server, [
      put('s', 'x'.repeat(2001), tooLarge(2000)),
      get('s', hidden('s')),
      put('s', 'x'.repeat(2000), like({ file_size: 2000 })),
    ])
    t.match(await chunked(server, 's', ['y'.repeat(1000), 'y'.repeat(1001)]), tooLarge(2000).body as object)
    t.equal((await server.get('s')).text, 'x'.repeat(2000), 'and the file stays as it was')
    t.match(await chunked(server, 's', ['y'.repeat(1000), 'y'.repeat(1000)]), { file_size: 2000 })
  },
  'size.role': [
    put('s', 'x'.repeat(11), tooLarge(10), small),
    put('s', 'x'.repeat(10), like({ file_size: 10, user_role: 'small' }), small),
    put('s', 'x'.repeat(3_000_001), tooLarge(3_000_000), large),
    put('s', 'x'.repeat(2001), tooLarge(2000), user),
  ],
  'size.buffered': async (t, server) => {
    for (const size of [1, 65_536, 2 ** 20, 2 ** 20 + 1]) {
      const bytes = 'abcdefg'.repeat(size / 7 + 1).slice(0, size)
      t.match((await server.put('l', bytes, large)).body, { file_size: size })
      const { text: got, headers } = await server.get('l')
      t.ok(got === bytes && headers.get('etag') === tag(bytes), `${size} bytes`)
    }
    t.match(await chunked(server, 'l', ['in ', 'pieces']), { file_size: 9 })
    t.match(await server.get('l'), { text: 'in pieces' })
    const stored = await server.blobs()
    const long = await chunked(server, 'l', ['x'.repeat(2_000_000), 'x'.repeat(1_000_001)], large)
    t.match(long, tooLarge(3_000_000).body as object)
    t.equal(await server.blobs(), stored)
    t.match(await server.get('l'), { text: 'in pieces' }, 'and the file stays as it was')
  },
  'upload.cut': async (t, server) => {
    const stored = await server.blobs()
    const { request } = await server.half(pathOf('a.txt'), 'cut', { 'content-length': 10 })
    request.destroy()
    await until('it is given up', async () => (await coming(server)) === 0)

    t.equal(await server.blobs(), stored)
    await takeAll(t, server, [get('a.txt', is('hello'))])
  },
  'range.first-last': [
    put('ten', '0123456789', OK),
    ranged('bytes=0-3', part('0123', 'bytes 0-3/10')),
    ranged('bytes=3-3', part('3', 'bytes 3-3/10')),
    ranged('Bytes = 1 - 1 ', part('1', 'bytes 1-1/10')),
  ],
  'range.open': [
    ranged('bytes=7-', part('789', 'bytes 7-9/10')),
    ranged('bytes=9-', part('9', 'bytes 9-9/10')),
    ranged('bytes=0-', part('0123456789', 'bytes 0-9/10')),
  ],
  'range.last': [
    ranged('bytes=-2', part('89', 'bytes 8-9/10')),
    ranged('bytes=-99', part('0123456789', 'bytes 0-9/10')),
  ],
  'range.beyond': [
    ranged('bytes=5-99', part('56789', 'bytes 5-9/10')),
    ranged('bytes=5-99999999999999999999999', part('56789', 'bytes 5-9/10')),
  ],
  'range.unreadable': [
    'bytes',
    'x',
    '=0-1',
    'items=',
    'two words=0-1',
    'bytes=a-b',
    'bytes=-',
    'bytes=5-2',
    'bytes=1-2-3',
    'bytes=--1',
    'bytes=+1-2',
    'bytes=1.5-2',
  ].map((range, i) =>
    get('ten', bad('failed to parse range header'), { [i === 0 ? 'X-Service-Filestore-Range' : 'Range']: range }),
  ),
  'range.other-unit': ['items=0-1', 'Seconds=1.5-', 'byte=0-0', 'x-pages=1,2', 'none=bytes=0-1'].flatMap((range) => [
    ranged(range, { ...is('0123456789'), headers: { 'content-range': null } }),
    get('ten', is('0123456789'), { 'X-Service-Filestore-Range': range }),
    ranged(range, is(''), 'empty'),
  ]),
  'range.one': ['bytes=', 'bytes=0-1,3-4', 'bytes=0-1, -1', 'bytes=,'].map((range) =>
    ranged(range, bad('expected one and atmost one byte range in the header')),
  ),
  'range.outside': [
    ...['bytes=10-', 'bytes=10-12', 'bytes=-0', 'bytes=99999999999999999999999-'].map((range) =>
      ranged(range, { ...bad('range not satisfiable'), headers: { 'content-range': 'bytes */10' } }),
    ),
    ranged('bytes=0-', { ...bad('range not satisfiable'), headers: { 'content-range': 'bytes */0' } }, 'empty'),
  ],
  'range.own-header': [
    get('ten', part('12', 'bytes 1-2/10'), { Range: 'bytes=0-0', 'X-Service-Filestore-Range': 'bytes=1-2' }),
  ],
  'range.if-range': async (t, server) => {
    const since = async () => (await server.get('ten')).headers.get('last-modified')!
    const resumed = (version: string, expected: Expected): Step =>
      get('ten', expected, { Range: 'bytes=0-0', 'If-Range': version })
    await takeAll(t, server, [
      resumed(tag('0123456789'), part('0', 'bytes 0-0/10')),
      resumed(tag('other'), is('0123456789')),
      resumed(`W/${tag('0123456789')}`, is('0123456789')),
      // Another version may follow in the same second.
      resumed(await since(), is('0123456789')),
    ])
    await server.sql("update svc_catalog.svc_file set updated_at = now() - interval '1 hour' where file_id = 'ten'")
    await takeAll(t, server, [resumed(await since(), part('0', 'bytes 0-0/10')), resumed(LONG_AGO, is('0123456789'))])
  },
  'read.if-none-match': [
    get(
      'a.txt',
      { status: 304, text: '', headers: { etag: HELLO, 'content-type': null, 'content-length': null } },
      { 'If-None-Match': HELLO },
    ),
    get('a.txt', { status: 304, text: '' }, { 'If-None-Match': `"x", W/${HELLO}` }),
    get('a.txt', { status: 304, text: '' }, { 'If-None-Match': '*' }),
    get('a.txt', is('hello'), { 'If-None-Match': '"x"' }),
    get('a.txt', is('hello'), { 'If-None-Match': '"x"', 'If-Modified-Since': FUTURE }),
    head('a.txt', { status: 304, text: '' }, { 'If-None-Match': HELLO }),
  ],
  'read.if-modified-since': async (t, server) => {
    const since = (await server.get('a.txt')).headers.get('last-modified')!
    await takeAll(t, server, [
      get('a.txt', { status: 304, text: '' }, { 'If-Modified-Since': since }),
      get('a.txt', is('hello'), { 'If-Modified-Since': LONG_AGO }),
    ])
  },
  'read.if-match': [
    get('a.txt', is('hello'), { 'If-Match': HELLO }),
    get('a.txt', is('hello'), { 'If-Match': `"x", ${HELLO}` }),
    get('a.txt', is('hello'), { 'If-Match': '*' }),
    get('a.txt', stale, { 'If-Match': '"x"' }),
    get('a.txt', stale, { 'If-Match': `W/${HELLO}` }),
  ],
  'read.if-unmodified-since': [
    get('a.txt', stale, { 'If-Unmodified-Since': LONG_AGO }),
    get('a.txt', is('hello'), { 'If-Unmodified-Since': FUTURE }),
  ],
  'date.forms': async (t, server) => {
    const changed = Date.parse((await server.get('a.txt')).headers.get('last-modified')!)
    const sixth = Date.UTC(new Date().getUTCFullYear() + 20, 10, 6, 8, 49, 37)
    const before = [changed - 1000, changed - 3 * 3_600_000, Date.UTC(1994, 10, 6, 8, 49, 37)].flatMap(forms)
    const after = [changed, changed + 1000, sixth].flatMap(forms)
    await takeAll(t, server, [
      ...[...after, 'Thu, 31 Dec 2099 23:59:60 GMT', 'Tue, 29 Feb 2028 00:00:00 GMT'].flatMap((date) => [
        get('a.txt', { status: 304, text: '' }, { 'If-Modified-Since': date }),
        head('a.txt', { status: 304, text: '' }, { 'If-Modified-Since': date }),
        get('a.txt', is('hello'), { 'If-Unmodified-Since': date }),
      ]),
      ...[...before, 'Thu, 01 Jan 1970 00:00:00 GMT', 'Sat, 01 Jan 0050 00:00:00 GMT'].flatMap((date) => [
        get('a.txt', is('hello'), { 'If-Modified-Since': date }),
        get('a.txt', stale, { 'If-Unmodified-Since': date }),
        head('a.txt', { status: 412 }, { 'If-Unmodified-Since': date }),
        put('a.txt', 'x', stale, admin, { 'If-Unmodified-Since': date }),
        remove('a.txt', stale, admin, { 'If-Unmodified-Since': date }),
      ]),
      get('a.txt', is('hello')),
    ])
    await server.sql("update svc_catalog.svc_file set updated_at = now() - interval '1 hour' where file_id = 'ten'")
    const written = Date.parse((await server.get('ten')).headers.get('last-modified')!)
    const resumed = (version: string, expected: Expected): Step =>
      get('ten', expected, { Range: 'bytes=0-0', 'If-Range': version })
    await takeAll(t, server, [
      ...forms(written).map((version) => resumed(version, part('0', 'bytes 0-0/10'))),
      ...forms(written + 1000).map((version) => resumed(version, is('0123456789'))),
      resumed(new Date(written).toISOString(), is('0123456789')),
    ])
  },
  'date.century': [
    get('a.txt', { status: 304, text: '' }, { 'If-Modified-Since': forms(inYears(49.9))[1] }),
    get('a.txt', stale, { 'If-Unmodified-Since': forms(inYears(-49.9))[1] }),
    // The day of the week is that of another century.
    get('a.txt', is('hello'), { 'If-Modified-Since': forms(inYears(50.1))[1] }),
    get('a.txt', is('hello'), { 'If-Unmodified-Since': forms(inYears(-50.1))[1] }),
  ],
  'date.ignored': async (t, server) => {
    await takeAll(t, server, [
      ...noDates('Tue', '2030').map((date) => get('a.txt', is('hello'), { 'If-Modified-Since': date })),
      ...noDates('Mon', '2001').map((date) => get('a.txt', is('hello'), { 'If-Unmodified-Since': date })),
      ...['2001', 'foo 1'].map((date) => put('a.txt', 'hello', OK, admin, { 'If-Unmodified-Since': date })),
      get('a.txt', is('hello'), { 'If-Unmodified-Since': LONG_AGO, 'If-Match': HELLO }),
      put('a.txt', 'hello', OK, admin, { 'If-Unmodified-Since': LONG_AGO, 'If-Match': HELLO }),
      put('a.txt', 'hello', OK, admin, { 'If-Modified-Since': FUTURE }),
      put('a.txt', 'hello', stale, admin, { 'If-Match': '' }),
      get('a.txt', stale, { 'If-Match': '' }),
    ])
    const twice = await rawRequest(
      server.url,
      `GET ${pathOf('a.txt')} HTTP/1.1\r\nHost: x\r\nX-Service-Admin-Secret: ${ADMIN_SECRET}\r\nX-Service-User-Id: 7\r\n` +
        `If-Modified-Since: ${FUTURE}\r\nIf-Modified-Since: ${FUTURE}\r\n\r\n`,
    )
    t.equal(twice.status, 200)
  },
  'date.zone': async (t, server) => {
    const { TZ } = process.env
    const changed = Date.parse((await server.get('a.txt')).headers.get('last-modified')!)
    for (const zone of ['America/New_York', 'Asia/Tokyo']) {
      process.env['TZ'] = zone
      await takeAll(t, server, [
        ...forms(changed - 1000).map((date) => put('a.txt', 'x', stale, admin, { 'If-Unmodified-Since': date })),
        ...forms(changed).map((date) => get('a.txt', { status: 304, text: '' }, { 'If-Modified-Since': date })),
      ])
    }
    if (TZ === undefined) delete process.env['TZ']
    else process.env['TZ'] = TZ
  },
  'write.if-match': [
    put('v', 'x', stale, admin, { 'If-Match': '*' }),
    get('v', hidden('v')),
    put('v', 'one', OK),
    put('v', 'two', OK, admin, { 'If-Match': `"other", ${tag('one')}` }),
    put('v', 'x', stale, admin, { 'If-Match': tag('one') }),
    put('v', 'x', stale, admin, { 'If-Match': `W/${tag('two')}` }),
    remove('v', stale, admin, { 'If-Match': tag('one') }),
    get('v', is('two')),
    remove('v', OK, admin, { 'If-Match': tag('two') }),
    remove('v', hidden('v'), admin, { 'If-Match': '*' }),
  ],
  'write.if-none-match': [
    put('n', 'one', OK, admin, { 'If-None-Match': '*' }),
    put('n', 'x', stale, admin, { 'If-None-Match': '*' }),
    put('n', 'x', stale, admin, { 'If-None-Match': `W/${tag('one')}` }),
    get('n', is('one')),
    put('n', 'two', OK, admin, { 'If-None-Match': tag('other') }),
    remove('n', stale, admin, { 'If-None-Match': '*' }),
  ],
  'write.if-unmodified-since': [
    put('n', 'x', stale, admin, { 'If-Unmodified-Since': LONG_AGO }),
    remove('n', stale, admin, { 'If-Unmodified-Since': LONG_AGO }),
    get('n', is('two')),
    put('n', 'three', OK, admin, { 'If-Unmodified-Since': FUTURE }),
    remove('n', OK, admin, { 'If-Unmodified-Since': FUTURE }),
  ],
  'show.active': [
    ...['text/html', 'image/svg+xml', 'application/pdf', 'text/javascript', 'a/b'].flatMap((type) => [
      put('page', '<script>', OK, admin, { 'Content-Type': type }),
      shown('', 'attachment', 'page'),
    ]),
    ...['image/png', 'Text/Plain ; charset=utf-8', 'video/mp4'].flatMap((type) => [
      put('page', 'x', OK, admin, { 'Content-Type': type }),
      shown('', null, 'page'),
    ]),
  ],
  'show.download': [
    shown('?download', 'attachment'),
    shown('?download=x.html', 'attachment; filename=x.html'),
    shown('?download=日.txt', `attachment; filename="?.txt"; filename*=UTF-8''%E6%97%A5.txt`),
    shown('?download=a/b%20c.txt', 'attachment; filename="b c.txt"'),
    shown('?download=%22%5C%0D%0A.txt', `attachment; filename="\\"\\\\??.txt"; filename*=UTF-8''%22%5C%0D%0A.txt`),
    shown("?download=100%25'(1)*", `attachment; filename="100%'(1)*"; filename*=UTF-8''100%25%27%281%29%2A`),
    shown('?download=a&download=b', 'attachment; filename=a'),
  ],
  'show.script': [
    put('a.js', 'alert(1)', OK, admin, { 'Content-Type': 'text/javascript' }),
    ...['script', 'worker', 'serviceworker', 'sharedworker', 'audioworklet', 'style', 'xslt'].flatMap((dest) =>
      ['a.js', 'none'].map((id) =>
        get(id, wrong(403, 'access_denied', 'a file cannot be a script or a style sheet of a page of this server'), {
          'sec-fetch-site': 'same-origin',
          'sec-fetch-dest': dest,
        }),
      ),
    ),
    ...['empty', 'image', 'video', 'iframe', 'document'].map((dest) =>
      get('a.js', OK, { 'sec-fetch-site': 'same-origin', 'sec-fetch-dest': dest }),
    ),
    get('a.js', OK, { 'sec-fetch-site': 'same-site', 'sec-fetch-dest': 'script' }),
  ],
  'form.one': [
    formed(
      [field, filePart(undefined, 'hello', 'image/png')],
      like({ file_id: 'f', content_type: 'image/png', file_size: 5, user_id: 7 }),
      onto('f'),
    ),
    get('f', { status: 200, text: 'hello', headers: { 'content-type': 'image/png' } }),
    formed([filePart(undefined, 'x')], bad('file already exists : f'), onto('f')),
    formed([filePart('another id', 'bye')], like({ file_id: 'f' }), onto('f', 'PUT')),
    get('f', is('bye')),
    {
      ...formed([filePart(undefined, 'x')], denied('none'), onto('f', 'PUT')),
      as: { role: 'none', variables: user.variables! },
    },
  ],
  'form.one-only': [
    formed([field], bad('the form has no file'), onto('g')),
    formed(
      [filePart(undefined, 'x'), filePart(undefined, 'y')],
      bad('the form has more than one file; POST /v1/file takes several'),
      onto('g'),
    ),
    get('g', hidden('g')),
  ],
  'form.several': async (t, server) => {
    const parts = [field, filePart('ü/1', 'one'), filePart(undefined, ''), filePart('3', 'three', 'a/b')]
    const { path, ...init } = formed(parts, OK)
    const { status, body } = await server.fetch(path, init as RequestInit, admin)

    t.equal(status, 200)
    t.equal(body.length, 3)
    t.match(body, [
      { file_id: 'ü/1', file_size: 3, content_type: 'text/plain' },
      { file_id: /^[0-9a-f-]{36}$/, file_size: 0 },
      { file_id: '3', file_size: 5, content_type: 'a/b' },
    ])
    await takeAll(t, server, [get('ü/1', is('one')), get(body[1].file_id, is('')), get('3', is('three'))])
  },
  'form.all-or-none': async (t, server) => {
    const stored = await server.blobs()
    const fails = (second: string, expected: Expected): Step =>
      formed([filePart('n1', 'x'), filePart(second, 'y')], expected)
    await takeAll(t, server, [
      fails('a.txt', bad('file already exists : a.txt')),
      fails('n1', bad('file already exists : n1')),
      fails('a\u0007', bad('a file_id has no control characters')),
      fails('x'.repeat(1025), bad('a file_id has at most 1024 bytes')),
      get('n1', hidden('n1')),
      get('a.txt', is('hello')),
    ])
    t.equal(await server.blobs(), stored)
  },
  'form.limits': async (t, server) => {
    const stored = await server.blobs()
    // The second of them exists, so that few are stored.
    const many = (count: number) => Array.from({ length: count }, (_, i) => filePart(i === 1 ? 'a.txt' : `m${i}`, ''))
    await takeAll(t, server, [
      formed([filePart('n1', 'x'.repeat(1500)), filePart('n2', 'y'.repeat(501))], {
        status: 413,
        like: { code: 'payload_too_large' },
      }),
      formed(many(101), bad('a form has at most 100 files and 200 fields')),
      formed(many(100), bad('file already exists : a.txt')),
      get('n1', hidden('n1')),
      get('m0', hidden('m0')),
    ])
    t.equal(await server.blobs(), stored)
    await takeAll(t, server, [
      formed([filePart('n1', 'x'.repeat(1500)), filePart('n2', 'y'.repeat(500))], OK),
      get('n2', is('y'.repeat(500))),
    ])
  },
  'form.wrong': async (t, server) => {
    const stored = await server.blobs()
    const whole = filePart(undefined, 'hello')
    const headersOnly = '--B\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n--B\r\n\r\n'
    const unchosen =
      '--B\r\nContent-Disposition: form-data; name="f"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n'
    const unreadable = bad(/^the form cannot be read/)
    await takeAll(t, server, [
      formed([whole], unreadable, { end: '' }),
      formed([whole], unreadable, { type: 'multipart/form-data' }),
      formed([], unreadable, { end: '' }),
      formed(['--B\r\nno header'], unreadable, { end: '' }),
      formed([], bad('the form has no file')),
      formed([headersOnly], bad(/headers of a part do not end/), { end: '--\r\n' }),
      formed([headersOnly, '\r\n', whole.slice(5)], bad(/headers of a part do not end/)),
      formed([unchosen, '\r\n'], bad('the form has no file')),
      formed([unchosen, 'bytes\r\n'], bad('a file of a form needs a filename')),
    ])
    t.equal(await server.blobs(), stored)
  },
  'form.part': async (t, server) => {
    const stored = await server.blobs()
    const headed = (headers: string): string => `--B\r\n${headers}\r\n\r\nbytes\r\n`
    const unknown = bad('a part of the form has no valid Content-Disposition')
    await takeAll(t, server, [
      ...[
        'Content-Type: text/plain',
        'Content-Disposition: attachment; filename="a"',
        'Content-Disposition: form-data; name="f"; filename*=martian\'\'a',
        'Content-Disposition: form-data; name=; filename="a"',
      ].map((headers) => formed([filePart('p', 'x'), headed(headers)], unknown)),
      formed([filePart('p', 'x', 'no type')], bad('Content-Type is not a media type')),
      get('p', hidden('p')),
    ])
    t.equal(await server.blobs(), stored)
    const named = 'Content-Disposition: form-data; name="f"; filename*=UTF-8\'\'%e6%97%a5.txt'
    await takeAll(t, server, [
      formed([headed(named)], like({ content_type: 'text/plain', file_size: 5 }), onto('named', 'PUT')),
      formed([headed(`${named}\r\nContent-Type: `)], like({ content_type: 'text/plain' }), onto('named', 'PUT')),
      formed(
        [headed(`content-type: A/B;\r\n c=d\r\n${named}`)],
        like({ content_type: 'A/B; c=d' }),
        onto('named', 'PUT'),
      ),
      ...[
        'multipart/form-data;; boundary=B',
        'Multipart/Form-Data ; boundary="B";',
        'multipart/form-data; a="; boundary=C"; boundary=B; ',
      ].map((type) => formed([filePart(undefined, 'x')], OK, { ...onto('named', 'PUT'), type })),
    ])
  },
  'form.no-form': [
    formed(
      [filePart(undefined, 'x')],
      like({ content_type: 'multipart/mixed; boundary=B', file_size: filePart(undefined, 'x').length + 7 }),
      {
        type: 'multipart/mixed; boundary=B',
      },
    ),
  ],
  'key.repeated': async (t, server) => {
    const key = { 'Idempotency-Key': 'one' }
    const first = await server.put('k', 'one', admin, key)
    await takeAll(t, server, [
      put('k', 'two', OK),
      put('k', 'one', text(first.text), admin, key),
      get('k', is('two')),
      remove('k', OK, admin, { 'Idempotency-Key': 'two' }),
      remove('k', { status: 200, body: { file_id: 'k', status: 'deleted' } }, admin, { 'Idempotency-Key': 'two' }),
    ])
    t.match(first.body, { file_id: 'k', file_size: 3 })
  },
  'key.other': [
    put('k', 'one', OK, admin, { 'Idempotency-Key': 'three' }),
    put('k', 'two', { status: 409, like: { code: 'idempotency_key_reused' } }, admin, { 'Idempotency-Key': 'three' }),
    get('k', is('one')),
  ],
  'key.wrong': ['', 'a b'].map((key) =>
    put(
      'k',
      'x',
      { status: 400, like: { code: 'parse_failed', message: /Idempotency-Key/, error: undefined } },
      admin,
      { 'Idempotency-Key': key },
    ),
  ),
  'key.in-progress': async (t, server) => {
    const key = { 'idempotency-key': 'four' }
    const late = await server.half(pathOf('p'), 'by', { ...key, 'content-length': 5 })
    t.equal((await server.put('p', 'bytes', admin, { ...key, 'Content-Type': 'text/plain' })).status, 200)
    late.request.end('tes')

    t.match(await late.answer, { status: 409, text: /idempotency_in_progress/, headers: { 'retry-after': '1' } })
    await takeAll(t, server, [get('p', is('bytes'))])
  },
  'dry-run.upload': [
    put('d', 'x', { status: 400, like: { code: 'not_supported' } }, admin, { Prefer: 'return=minimal, tx=rollback' }),
    get('d', hidden('d')),
  ],
  'dry-run.delete': [
    put('d', 'x', OK),
    remove('d', { status: 200, body: { file_id: 'd', status: 'deleted' } }, admin, {
      Prefer: 'return=minimal, tx=rollback',
    }),
    get('d', is('x')),
  ],
}

const DOWNLOAD = {
  'content-type': 'text/plain; charset=utf-8',
  'content-length': '5',
  'content-disposition': null,
  'accept-ranges': 'bytes',
  etag: HELLO,
  'cache-control': 'private, no-cache',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; sandbox",
  'cross-origin-resource-policy': 'same-site',
}

/** Stores a file without a Content-Length. @returns the answer */
async function chunked(server: Files, id: string, chunks: readonly string[], as = admin): Promise<unknown> {
  const body = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(Buffer.from(chunk))
      controller.close()
    },
  })
  const init: RequestInit = { method: 'PUT', headers: { 'Content-Type': 'a/b' }, body, duplex: 'half' }
  return (await server.fetch(pathOf(id), init, as)).body
}

/** How many blobs are being received. */
const coming = async ({ databaseUrl }: Files): Promise<number> =>
  (await rowsOf(databaseUrl, `select from svc_catalog.svc_blob where state = 'writing'`)).length

/** Its promises, with a case for each. */
export const files = area('files', {
  promises: PROMISES,
  cases: CASES,
  start: (t: Test) =>
    filestore(t, {
      permissions: {
        user: ['create', 'read'],
        anonymous: ['create', 'read'],
        small: ['create'],
        large: ['create'],
        none: [],
      },
      maxBytes: 2000,
      limits: { small: { maxBytes: 10 }, large: { maxBytes: 3_000_000 } },
    }),
  pages: {
    'plugins/filestore/README.md': {
      filestore: {
        '`POST /v1/file/<file_id>`': ['post.record', 'post.exists'],
        '`POST /v1/file`': 'post.generated',
        '`PUT /v1/file/<file_id>`': ['put.creates', 'put.replaces'],
        '`GET`, `HEAD /v1/file/<file_id>`': ['get.bytes', 'get.headers', 'head.answer'],
        '`DELETE /v1/file/<file_id>`': ['delete.answer', 'delete.missing'],
      },
      Errors: {
        '400': [
          'user.required',
          'user.integer',
          'type.required',
          'id.missing',
          'id.encoded',
          'range.unreadable',
          'range.one',
          'range.outside',
          'post.exists',
          'key.wrong',
          'dry-run.upload',
        ],
        '404': ['get.missing', 'delete.missing'],
        '409': ['key.other', 'key.in-progress'],
        '412': ['read.if-match', 'write.if-match'],
        '415': ['body.whole'],
      },
    },
  },
})
