import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { appendFile, mkdir, readdir, readFile, rename, rm, rmdir, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { fastInterval } from '../kit/fast-interval.js'
import { bad, get, head, hidden, OK, pathOf, put, remove, wrong } from '../kit/file-steps.js'
import { admin, type Files, filestore, user } from '../kit/files.js'
import { found, fsck, QUIET } from '../kit/fsck.js'
import { area, type Case, type Expected, query, type Step, takeAll } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

/** How bytes get to clients by other ways, and what keeps them whole. */
const PROMISES = {
  'url.signed': 'a caller who may read a file gets a URL that needs no credentials',
  'url.read-only': 'a signed URL reads one file, with ranges and conditions, and does nothing else',
  'url.download': 'a signed URL may name the file for the browser',
  'url.embedded': 'a page of any origin may embed a file by its signed URL',
  'embedded.listed': 'a page of an origin in http.cors.origins may embed any file that it may read',
  'url.tampered': 'a URL that was changed is refused',
  'url.expired': 'a URL that has expired is refused',
  'url.secret': 'another secret in the database makes all URLs invalid',
  'url.permission': 'who may not read a file gets no URL of it, and a missing file has none',
  'url.seconds': 'expires_in is a whole number of seconds, by default 900 and at most signedUrls.maxSeconds',
  'url.arguments': 'the request for a URL is an object with file_id, expires_in and download',
  'off.settings': 'signedUrls.maxSeconds 0 and resumable.enabled false turn these paths off',
  'hand-off.accel': 'with x-accel-redirect, nginx gets the path of the bytes, after the checks',
  'hand-off.sendfile': 'with x-sendfile, Apache or lighttpd gets it',
  'hand-off.redirect': 'with redirect, the client gets a signed URL of the object store',
  'hand-off.small': 'files smaller than minBytes are sent by the server itself',
  'store.kept': 'files stay in their store if the default changes, as long as it is configured',
  'store.gone': 'a file of a store that is not configured any more is a 500',
  'store.unavailable': 'a store that cannot be written is a 503 with Retry-After, and nothing changes',
  'service.read': 'another plugin reads a whole file, with its type',
  'service.limit': 'and is refused one that is longer than it takes, and one that does not exist',
  'service.unchecked': 'the calling plugin checks permissions, not the service',
  'service.write': 'another plugin stores files, all or none, which belong to the user 0',
  'cache.kept': 'files that were read are kept in memory, and permissions are checked all the same',
  'cache.off': 'cacheBytes 0 turns that off',
  'bytes.lost': 'a file whose bytes are lost is a 500',
  'bytes.longer-or-shorter':
    'a file with more or fewer bytes than were written is a 500, or a download that breaks off',
  'bytes.damaged': 'a file of up to 1 MiB with other bytes than were written is a 500',
  'upload.lease': 'the lease of an upload in progress is renewed',
  'upload.lost': 'an upload that has lost its lease is a 503, and the file stays as it was',
  'upload.slow': 'an upload that is slower than minBytesPerSecond is a 408',
  'check.clean': 'fsck finds nothing wrong with a store that is whole',
  'check.finds': 'check_files and fsck find missing bytes, wrong sizes, contradictions, and what no file uses',
  'check.deep': 'fsck --deep reads all bytes, and says what to do',
  'check.unreadable': 'a file that the store fails to read is a finding',
  'check.fix': 'fsck --fix deletes objects without a row, leaves other waste to the collector, and deletes no file',
  'check.repaired': 'a file whose bytes are back, or that is uploaded again, is whole again',
  'check.admin': 'only an admin may check files, and not in a bulk',
  'scrub.finds': 'in the background, servers verify stored files and report damage',
  'scrub.off': 'scrub.bytesPerSecond 0 turns that off',
  'collect.grace': 'the collector deletes bytes that no file has used for graceSeconds',
  'collect.unreachable': 'bytes that cannot be deleted stay known, and do not keep others from it',
  'collect.lease': 'and what uploads have left whose lease has expired',
} as const

const guest: As = { role: 'guest', variables: user.variables! }
const BROKEN = wrong(500, 'fatal_internal_error', 'internal server error')
const content = (text: string): Expected => ({ status: 200, text })
const refused = wrong(403, 'access_denied', 'the signature is wrong, or has expired')
const sign = (body: unknown, expected: Expected, as: As = user): Step => ({
  path: '/v1/file-url',
  method: 'POST',
  body: JSON.stringify(body),
  as,
  expected,
})
const peek = (id: string, most: number, expected: Expected): Step => ({
  path: `/peek?id=${encodeURIComponent(id)}&most=${most}`,
  method: 'GET',
  as: guest,
  expected,
})
const APP = 'https://app.example'
type Headers = Readonly<Record<string, string>>
/** What a browser says of the page that embeds a file. */
const OUR_PAGES: readonly Headers[] = [
  { Origin: APP },
  { Referer: `${APP}/` },
  { Referer: `${APP}/a?b=https://evil.example/` },
]
const OTHER_PAGES: readonly Headers[] = [
  {},
  { Origin: 'https://evil.example' },
  { Origin: 'null' },
  { Referer: `https://evil.example/${APP}/` },
  { Referer: `${APP}.evil.example/` },
  { Referer: `${APP}:8443/` },
  { Referer: 'http://app.example/' },
  { Referer: 'https://app.example@evil.example/' },
  { Referer: 'about:blank' },
  { Referer: 'app.example' },
]
const embedded = (policy: string, headers: Headers, status = 200): Step =>
  get('ä b/c?.txt', { status, headers: { 'cross-origin-resource-policy': policy } }, headers)
const inProcess =
  (proof: (t: Test, server: Files) => Promise<void>) =>
  async (t: Test, server: Files): Promise<void> => {
    if (PROCESSES > 1) t.pass('not for several processes')
    else await proof(t, server)
  }

const sqlOf = (server: Files, sql: string) => server.sql(sql)
const urlOf = async (server: Files, body: object): Promise<string> =>
  (await server.fetch('/v1/file-url', { method: 'POST', body: JSON.stringify(body) }, user)).body.url

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Files>>> = {
  'url.signed': async (t, server) => {
    await server.put('ä b/c?.txt', 'hello')
    const body = JSON.stringify({ file_id: 'ä b/c?.txt', expires_in: 100 })
    const signed = await server.fetch('/v1/file-url', { method: 'POST', body }, user)

    t.equal(signed.status, 200)
    t.same(Object.keys(signed.body), ['file_id', 'url', 'expires_at'])
    t.equal(signed.body.file_id, 'ä b/c?.txt')
    t.match(signed.body.expires_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/)
    t.ok(Math.abs(Date.parse(signed.body.expires_at) - Date.now() - 100_000) < 60_000)
    t.match(await server.bare(signed.body.url), { status: 200, text: 'hello' })
  },
  'url.read-only': async (t, server) => {
    const url = await urlOf(server, { file_id: 'ä b/c?.txt' })
    t.match(await server.bare(url, { method: 'HEAD' }), { status: 200, text: '' })
    t.match(await server.bare(url, { headers: { Range: 'bytes=1-2' } }), { status: 206, text: 'el' })
    t.equal((await server.bare(url, { headers: { 'If-None-Match': '*' } })).status, 304)
    t.equal((await server.bare(url, { method: 'DELETE' })).status, 403)
    t.equal((await server.bare(url, { method: 'PUT', body: 'x' })).status, 403)
    await server.put('ä b/c?.txt', 'current')
    t.equal((await server.bare(url)).text, 'current')
  },
  'url.download': async (t, server) => {
    const url = await urlOf(server, { file_id: 'ä b/c?.txt', download: 'greeting.txt' })
    t.equal((await server.bare(url)).headers.get('content-disposition'), 'attachment; filename=greeting.txt')
  },
  'url.embedded': async (t, server) => {
    const url = await urlOf(server, { file_id: 'ä b/c?.txt' })
    const policyOf = async (init: RequestInit): Promise<unknown> => {
      const { status, headers } = await server.bare(url, init)
      return [status, headers.get('cross-origin-resource-policy')]
    }
    t.same(await policyOf({}), [200, 'cross-origin'])
    t.same(await policyOf({ method: 'HEAD' }), [200, 'cross-origin'])
    t.same(await policyOf({ headers: { Range: 'bytes=0-0' } }), [206, 'cross-origin'])
    t.same(await policyOf({ headers: { 'If-None-Match': '*' } }), [304, 'cross-origin'])
  },
  'embedded.listed': [
    ...OUR_PAGES.flatMap((headers) => [
      embedded('cross-origin', headers),
      embedded('cross-origin', { ...headers, Range: 'bytes=0-0' }, 206),
      embedded('cross-origin', { ...headers, 'If-None-Match': '*' }, 304),
    ]),
    ...OTHER_PAGES.map((headers) => embedded('same-site', headers)),
  ],
  'url.tampered': async (t, server) => {
    await server.put('other', 'secret')
    const url = await urlOf(server, { file_id: 'ä b/c?.txt', download: 'a.txt' })
    const tampered = [
      url.replace(/file\/[^?]*/, 'file/other'),
      url.replace(/expires=(\d+)/, (_: string, at: string) => `expires=${Number(at) + 1}`),
      url.replace(/download=[^&]*/, 'download=x.exe'),
      url.replace(/download=[^&]*&/, ''),
      `${url}&download=x`,
      url.replace(/signature=(.)/, (_: string, first: string) => `signature=${first === '_' ? '-' : '_'}`),
      url.replace(/signature=.*/, 'signature='),
      `${url}&signature=x`,
      url.replace(/expires=\d+&/, ''),
      url.replace(/expires=\d+/, 'expires=1e20'),
    ]
    t.notOk(tampered.includes(url))
    await takeAll(
      t,
      server,
      tampered.map((path) => ({ path, method: 'GET', bare: true, expected: refused })),
    )
  },
  'url.expired': async (t, server) => {
    const real = Date.now
    t.teardown(() => void (Date.now = real))
    if (PROCESSES === 1) Date.now = () => real() - 3_000_000
    const url = await urlOf(server, { file_id: 'other', expires_in: PROCESSES === 1 ? 3000 : 1 })
    if (PROCESSES === 1) t.equal((await server.bare(url)).status, 200)
    Date.now = real
    await until('it has expired', async () => (await server.bare(url)).status === 403)
    t.match(await server.bare(url), { status: refused.status, body: refused.body as object })
  },
  'url.secret': async (t, server) => {
    const url = await urlOf(server, { file_id: 'other' })
    await sqlOf(server, `update svc_catalog.svc_file_secret set secret = 'other'`)
    // A server caches the secret for a minute.
    const second = await filestore(t, QUIET, {}, server)
    t.match(await second.bare(url), { status: refused.status, body: refused.body as object })
  },
  'url.permission': [
    sign({ file_id: 'other' }, wrong(403, 'access_denied', 'no permission for role guest'), guest),
    sign({ file_id: 'other' }, bad('missing header: X-Service-User-Id'), { role: 'user' }),
    sign({ file_id: 'none' }, hidden('none')),
    sign({ file_id: 'other' }, OK, admin),
  ],
  'url.seconds': async (t, server) => {
    const rule = bad(
      'expires_in should be a whole number of seconds from 1 to 3600 (plugins.filestore.signedUrls.maxSeconds)',
    )
    await takeAll(t, server, [
      ...[3601, 0, -1, 1.5, '60', null].map((seconds) => sign({ file_id: 'other', expires_in: seconds }, rule)),
      ...[1, 3600].map((seconds) => sign({ file_id: 'other', expires_in: seconds }, OK)),
    ])
    const { body } = await server.fetch('/v1/file-url', { method: 'POST', body: '{"file_id":"other"}' }, user)
    t.ok(Math.abs(Date.parse(body.expires_at) - Date.now() - 900_000) < 60_000)
  },
  'url.arguments': [
    sign({ file_id: 'other', expires: 10 }, bad('unexpected key "expires"')),
    sign({ expires_in: 10 }, bad('missing parameter: file_id')),
    sign({ file_id: 'other', download: 1 }, bad('download should be a string')),
    sign([1], bad(/expecting an object/)),
    sign({ file_id: '' }, bad('missing parameter: file_id')),
  ],
  'off.settings': async (t, server) => {
    const off = { ...QUIET, signedUrls: { maxSeconds: 0 }, resumable: { enabled: false }, cacheBytes: 0 }
    const without = await filestore(t, off, {}, server)
    await takeAll(t, without, [
      sign({ file_id: 'other' }, { status: 404 }, admin),
      { path: '/v1/upload', method: 'POST', as: admin, expected: { status: 404 } },
      get('other', content('secret')),
    ])
    await rename(await server.blobOf('other'), `${await server.blobOf('other')}.away`)
    await takeAll(t, without, [get('other', BROKEN)])
    await rename(`${await server.blobOf('other')}.away`, await server.blobOf('other'))
  },
  'hand-off.accel': async (t, server) => {
    await server.put('large', '1234567890')
    const accel = await filestore(t, handOff('x-accel-redirect'), {}, server)
    await handsOff(t, accel, 'x-accel-redirect', decodeURIComponent)
  },
  'hand-off.sendfile': async (t, server) => {
    const sendfile = await filestore(t, handOff('x-sendfile'), {}, server)
    await handsOff(t, sendfile, 'x-sendfile', (path) => path)
  },
  'hand-off.redirect': async (t, server) => {
    const linked = join(server.dataDir, 'linked.mjs')
    await writeFile(linked, LINKED)
    const redirecting = await testServer(t, {
      files: true,
      databaseUrl: server.databaseUrl,
      providers: { storage: { linked: pathToFileURL(linked) } },
      config: {
        dataDir: server.dataDir,
        plugins: { filestore: { ...QUIET, ...handOff('redirect') } },
        providers: { storage: { default: 'linked', linked: {}, disk: {} } },
      },
    })
    await takeAll(t, redirecting, [put('in the store', '1234567890', OK), put('small in the store', '123456789', OK)])
    const { status, headers } = await redirecting.fetch(
      `${pathOf('in the store')}?download=a.txt`,
      { redirect: 'manual' },
      admin,
    )
    t.equal(status, 307)
    t.match(
      headers.get('location'),
      /^https:\/\/store\.example\/[\da-f-]{36}\?300&text\/plain; charset=utf-8&attachment; filename=a\.txt$/,
    )
    t.equal(headers.get('cache-control'), 'no-store')
    await takeAll(t, redirecting, [
      get('small in the store', content('123456789')),
      { ...get('in the store', wrong(403, 'access_denied', 'no permission for role user')), as: user },
      // The disk has no signed URLs.
      get('large', content('1234567890')),
    ])
  },
  'hand-off.small': async (t, server) => {
    const accel = await filestore(t, handOff('x-accel-redirect'), {}, server)
    await takeAll(t, accel, [
      put('small', '123456789', OK),
      get('small', { status: 200, text: '123456789', headers: { 'x-accel-redirect': null } }),
    ])
  },
  'store.kept': async (t, server) => {
    const moved = await testServer(t, {
      files: true,
      databaseUrl: server.databaseUrl,
      config: {
        dataDir: server.dataDir,
        plugins: { filestore: QUIET },
        providers: { storage: { default: 'memory', memory: {}, disk: {} } },
      },
    })
    await takeAll(t, moved, [
      get('large', content('1234567890')),
      put('in memory', 'x', OK),
      get('in memory', content('x')),
    ])
  },
  'store.gone': [
    get('in memory', BROKEN),
    remove('in memory', OK),
    remove('in the store', OK),
    remove('small in the store', OK),
  ],
  'store.unavailable': async (t, server) => {
    const folder = join(server.dataDir, 'files')
    await rename(folder, `${folder}-away`)
    await takeAll(t, server, [
      put('large', 'x', {
        ...wrong(503, 'storage_unavailable', 'the store cannot accept files at the moment'),
        headers: { 'retry-after': '30' },
      }),
      put('unstored', 'x', { status: 503 }),
    ])
    await rename(`${folder}-away`, folder)
    await takeAll(t, server, [
      get('large', content('1234567890')),
      get('unstored', hidden('unstored')),
      put('unstored', 'x', OK),
    ])
  },
  'service.read': async (t, server) => {
    for (const [id, bytes] of Object.entries({ little: 'hello', long: 'large '.repeat(300_000), nothing: '' })) {
      await server.put(id, bytes)
      await takeAll(t, server, [
        peek(id, 10_000_000, { status: 200, text: bytes, headers: { 'x-type': 'text/plain; charset=utf-8' } }),
      ])
      t.equal((await server.get(id)).text, bytes, 'the plugin may modify what it got')
    }
  },
  'service.limit': [
    peek('little', 5, content('hello')),
    peek('little', 4, wrong(413, 'payload-too-large', 'the file "little" is larger than 4 bytes')),
    peek('none', 9, wrong(404, 'not-found', 'file not found : none')),
    peek('', 9, wrong(400, 'bad-request', 'missing parameter: file_id')),
  ],
  'service.unchecked': [
    get('little', wrong(403, 'access_denied', 'no permission for role guest'), {}, guest),
    peek('little', 9, content('hello')),
  ],
  'service.write': [
    { path: '/poke?ids=little,poked', method: 'GET', as: guest, expected: OK },
    get('little', { status: 200, text: 'of little', headers: { 'content-type': 'a/b' } }),
    query(
      'run_sql',
      { sql: "select user_id, user_role from svc_catalog.svc_file where file_id = 'poked'" },
      {
        status: 200,
        like: {
          result: [
            ['user_id', 'user_role'],
            ['0', 'admin'],
          ],
        },
      },
    ),
    {
      path: '/poke?ids=little,one,',
      method: 'GET',
      as: guest,
      expected: wrong(400, 'bad-request', 'missing parameter: file_id'),
    },
    get('one', hidden('one')),
  ],
  'cache.kept': inProcess(async (t, server) => {
    await server.put('cached', 'cached')
    await takeAll(t, server, [get('cached', content('cached'))])
    await rm(await server.blobOf('cached'))
    await takeAll(t, server, [
      get('cached', content('cached')),
      get('cached', { status: 206, text: 'ac' }, { Range: 'bytes=1-2' }),
      get('cached', wrong(403, 'access_denied', 'no permission for role guest'), {}, guest),
      put('cached', 'new', OK),
      get('cached', content('new')),
      remove('cached', OK),
      get('cached', hidden('cached')),
    ])
  }),
  'cache.off': async (t, server) => {
    const uncached = await filestore(t, { ...QUIET, cacheBytes: 0 }, {}, server)
    await takeAll(t, uncached, [put('uncached', 'x', OK), get('uncached', content('x'))])
    await rm(await server.blobOf('uncached'))
    await takeAll(t, uncached, [get('uncached', BROKEN), remove('uncached', OK)])
  },
  'bytes.lost': async (t, server) => {
    await server.put('lost', 'x')
    await rm(await server.blobOf('lost'))
    await takeAll(t, server, [get('lost', BROKEN), peek('lost', 9, { status: 500 }), remove('lost', OK)])
  },
  'bytes.longer-or-shorter': async (t, server) => {
    const text = 'x'.repeat(300_000)
    for (const id of ['shorter', 'longer']) await server.put(id, text)
    await server.put('very long', text.repeat(4))
    await truncate(await server.blobOf('shorter'), 200_000)
    await appendFile(await server.blobOf('longer'), 'y')
    await truncate(await server.blobOf('very long'), 1_000_000)
    await takeAll(t, server, [
      get('shorter', BROKEN),
      get('longer', BROKEN),
      get('very long', { status: 206, text: 'xxxxxxxxxx' }, { Range: 'bytes=0-9' }),
    ])
    await t.rejects(server.get('very long'))
    await takeAll(
      t,
      server,
      ['shorter', 'longer', 'very long'].map((id) => remove(id, OK)),
    )
  },
  'bytes.damaged': async (t, server) => {
    await server.put('damaged', 'x'.repeat(100_000))
    const blob = await server.blobOf('damaged')
    await writeFile(blob, 'y'.repeat(100_000))
    await takeAll(t, server, [get('damaged', BROKEN)])
    await writeFile(blob, 'x'.repeat(100_000))
    await takeAll(t, server, [get('damaged', content('x'.repeat(100_000))), remove('damaged', OK)])
  },
  'upload.lease': inProcess(async (t, server) => {
    fastInterval(t, 20_000)
    const { request, answer } = await server.half(pathOf('leased'), 'hel', { 'content-length': 5 })
    const left = async () =>
      (
        await rowsOf<{ left: number }>(
          server.databaseUrl,
          `select extract(epoch from leased_until - now())::float8 as left from svc_catalog.svc_blob where state = 'writing'`,
        )
      )[0]!.left
    t.ok((await left()) > 30)
    await sqlOf(server, `update svc_catalog.svc_blob set leased_until = now() + interval '5 s' where state = 'writing'`)
    await until('the lease is renewed', async () => (await left()) > 30)
    request.end('lo')
    t.match(await answer, { status: 200 })
  }),
  'upload.lost': async (t, server) => {
    const stored = await server.blobs()
    // A collector has come, and with the second one its row is gone.
    for (const lost of [
      `update svc_catalog.svc_blob set state = 'dead', dead_at = now() where state = 'writing'`,
      `delete from svc_catalog.svc_blob where state = 'writing'`,
    ]) {
      const { request, answer } = await server.half(pathOf('leased'), 'oth', { 'content-length': 5 })
      await sqlOf(server, lost)
      request.end('er')

      t.match(await answer, { status: 503, text: /upload_lost/, headers: { 'retry-after': '1' } })
      await takeAll(t, server, [get('leased', content('hello'))])
      t.equal(await server.blobs(), stored, 'its bytes are gone')
    }
  },
  'upload.slow': inProcess(async (t, server) => {
    fastInterval(t, 30_000)
    const body = new ReadableStream({ start: (stream) => stream.enqueue(Buffer.from('x')) })
    const init: RequestInit = { method: 'PUT', body, headers: { 'Content-Type': 'a/b' }, duplex: 'half' }
    const { status, body: answer } = await server.fetch(pathOf('leased'), init, admin)
    t.equal(status, 408)
    t.strictSame(answer, {
      code: 'request_timeout',
      message: 'the upload is too slow (plugins.filestore.minBytesPerSecond)',
    })
    await takeAll(t, server, [get('leased', content('hello'))])
  }),
  'check.clean': async (t, server) => {
    // What other cases have left, and the files of this one.
    await sqlOf(server, 'delete from svc_catalog.svc_file; delete from svc_catalog.svc_blob')
    const all = await readdir(join(server.dataDir, 'files'), { recursive: true, withFileTypes: true })
    for (const entry of all) if (entry.isFile()) await rm(join(entry.parentPath, entry.name))
    for (const id of CHECKED) await server.put(id, `${id}!`)
    await server.put('replaced', 'replaced again!')

    const { code, report } = await fsck(server.databaseUrl, server.dataDir, { deep: true })
    t.equal(code, 0)
    t.match(report, {
      clean: true,
      files: 7,
      blobs: 8,
      stores: [{ provider: 'disk', objects: 8 }],
      read: { files: 7 },
      findings: [],
    })
    t.match(await fsck(server.databaseUrl, server.dataDir, { json: false }), {
      code: 0,
      text: '7 files, 8 blobs, 8 objects in the stores; read 0: clean',
    })
  },
  'check.finds': async (t, server) => {
    const { orphan, unowned, upload } = WASTE
    await writeFile(await server.blobOf('rotten'), 'rottem!')
    await truncate(await server.blobOf('short'), 3)
    await rename(await server.blobOf('gone'), join(server.dataDir, 'away'))
    for (const key of [orphan, unowned, upload]) await writeFile(placed(server, key), 'xyz')
    await writeFile(placed(server, 'not-a-uuid-00'), 'not ours')
    await sqlOf(
      server,
      `alter table svc_catalog.svc_file disable trigger svc_check_file;
      update svc_catalog.svc_file set etag = '"x"' where file_id = 'etag';
      alter table svc_catalog.svc_file enable trigger svc_check_file;
      update svc_catalog.svc_blob set state = 'dead', dead_at = now()
        where blob_id = (select blob_id from svc_catalog.svc_file where file_id = 'dead');
      insert into svc_catalog.svc_blob (blob_id, provider, state, size, sha256) values ('${unowned}', 'disk', 'live', 3, '');
      insert into svc_catalog.svc_blob (blob_id, provider, state, leased_until)
        values ('${upload}', 'disk', 'writing', 'epoch'), ('${randomUUID()}', 'disk', 'writing', now())`,
    )

    t.match(await server.must('check_files', { start: true }), { running: { deep: false }, last: null })
    await until('the check is over', async () => (await server.must('check_files', {})).running === null)
    const { last } = await server.must('check_files', {})
    t.same(found({ report: last }), SHALLOW)
    t.match(last, { clean: false, deep: false, total_findings: 7, started_at: String, ended_at: String })
    const command = await fsck(server.databaseUrl, server.dataDir)
    t.equal(command.code, 1)
    t.same(found(command), SHALLOW)
    t.match(command.report.stores, [{ notes: [/^ignored 1 objects whose names are not ids/] }])
  },
  'check.deep': async (t, server) => {
    const { code, text } = await fsck(server.databaseUrl, server.dataDir, { json: false, deep: true })
    t.equal(code, 1)
    t.match(text, /^sha256: file "rotten" has different bytes than were written \(.+\)$/m)
    t.match(text, /What to do:[^]* sha256 +restore the bytes from a backup/)
    t.match(text, /: 8 findings remain$/)
    await takeAll(
      t,
      server,
      ['rotten', 'short', 'gone'].map((id) => get(id, BROKEN)),
    )
  },
  'check.unreadable': async (t, server) => {
    const path = await server.blobOf('fine')
    await rename(path, `${path}.away`)
    await mkdir(path)
    t.ok(found(await fsck(server.databaseUrl, server.dataDir)).includes('unreadable fine'))
    await rmdir(path)
    await rename(`${path}.away`, path)
  },
  'check.fix': async (t, server) => {
    const { orphan, unowned, upload } = WASTE
    const fixed = await fsck(server.databaseUrl, server.dataDir, { fix: true })
    t.equal(fixed.code, 1)
    t.same(found(fixed), [...MENDED, 'unowned +'])
    await t.rejects(readFile(placed(server, orphan)), { code: 'ENOENT' })
    for (const key of [unowned, upload, 'not-a-uuid-00']) t.ok(await readFile(placed(server, key)))
    const left = `select state from svc_catalog.svc_blob where blob_id in ('${unowned}', '${upload}')`
    t.same((await sqlOf(server, left)).result, [['state'], ['dead'], ['dead']])
    t.same((await sqlOf(server, 'select count(*) from svc_catalog.svc_file')).result[1], ['7'])
    t.same(
      found(await fsck(server.databaseUrl, server.dataDir)),
      MENDED.filter((finding) => !finding.endsWith('+')),
    )
  },
  'check.repaired': async (t, server) => {
    await writeFile(await server.blobOf('rotten'), 'rotten!')
    await rename(join(server.dataDir, 'away'), await server.blobOf('gone'))
    for (const id of ['short', 'etag', 'dead']) await server.put(id, `${id}!`)
    t.match(await fsck(server.databaseUrl, server.dataDir), { code: 0, report: { repaired: 2, findings: [] } })
    await takeAll(
      t,
      server,
      CHECKED.slice(0, 5).map((id) => get(id, content(`${id}!`))),
    )
  },
  'check.admin': [
    query('check_files', {}, { status: 400, like: { code: 'access-denied' } }, { role: 'user' }),
    query('bulk', [{ type: 'check_files', args: { start: true } }], {
      status: 400,
      like: { error: 'a bulk cannot start a check' },
    }),
  ],
  'scrub.finds': async (t, server) => {
    const { etag } = Object.fromEntries((await server.get('rotten')).headers) as { etag: string }
    await writeFile(await server.blobOf('rotten'), 'rottem!')
    await truncate(await server.blobOf('short'), 3)
    await rename(await server.blobOf('gone'), join(server.dataDir, 'away'))
    const scrubbing = await filestore(t, { scrub: { bytesPerSecond: 2 ** 30, everyDays: 0.000001 } }, {}, server)
    const damaged = async () =>
      (
        await sqlOf(
          server,
          'select file_id, damaged from svc_catalog.svc_file join svc_catalog.svc_blob using (blob_id) where damaged is not null order by 1',
        )
      ).result.slice(1) as string[][]
    await until('all three are found', async () => (await damaged()).length === 3)

    t.same(await damaged(), [
      ['gone', 'missing'],
      ['rotten', 'sha256'],
      ['short', 'size'],
    ])
    const { body, status } = await scrubbing.fetch('/readyz')
    const probe = body.probes.find(({ name }: { name: string }) => name === 'filestore.bytes')
    t.equal(status, 200)
    t.match(probe, { ok: true, detail: 'damaged files: 3; rowhouse fsck lists them' })
    t.match((await scrubbing.fetch('/metrics')).text, /^rowhouse_filestore_damaged 3$/m)
    t.match((await scrubbing.fetch('/metrics')).text, /^rowhouse_filestore_verified_total [1-9]/m)
    await takeAll(t, server, [
      get('rotten', BROKEN),
      head('rotten', { status: 500 }),
      get('rotten', BROKEN, { Range: 'bytes=0-1' }),
      get('rotten', { status: 304 }, { 'If-None-Match': etag }),
      get('fine', content('fine!')),
    ])
    await writeFile(await server.blobOf('rotten'), 'rotten!')
    await rename(join(server.dataDir, 'away'), await server.blobOf('gone'))
    await server.put('short', 'short again')
    await until('all are whole', async () => (await damaged()).length === 0)
    await takeAll(t, server, [get('rotten', content('rotten!')), get('short', content('short again'))])
    await scrubbing.close()
  },
  'scrub.off': async (t, server) => {
    t.match((await server.fetch('/metrics')).text, /^rowhouse_filestore_verified_total 0$/m)
  },
  'collect.grace': async (t, server) => {
    const graceful = await collecting(t, server)
    const blobOf = async (id: string) => (await server.blobOf(id)).split('/').at(-1)!
    const [fresh, old] = [await blobOf('fine'), await blobOf('rotten')]
    await takeAll(t, server, [remove('fine', OK), put('rotten', 'another', OK)])
    await sqlOf(
      server,
      `update svc_catalog.svc_blob set dead_at = now() - interval '10 s' where blob_id = '${fresh}';
      update svc_catalog.svc_blob set dead_at = now() - interval '61 s' where blob_id = '${old}'`,
    )
    await until('old bytes are deleted', async () => !(await isKnown(server, old)))

    await t.rejects(readFile(placed(server, old)), { code: 'ENOENT' })
    t.ok(await isKnown(server, fresh))
    t.equal((await readFile(placed(server, fresh))).toString(), 'fine!')
    await takeAll(t, server, [get('rotten', content('another'))])
    await graceful.close()
  },
  'collect.unreachable': async (t, server) => {
    const [gone, old] = [randomUUID(), randomUUID()]
    await writeFile(placed(server, old), 'xyz')
    await sqlOf(
      server,
      `insert into svc_catalog.svc_blob (blob_id, provider, state, dead_at)
        values ('${gone}', 'a store that is gone', 'dead', 'epoch'), ('${old}', 'disk', 'dead', now() - interval '61 s')`,
    )
    const graceful = await collecting(t, server)
    await until('old bytes are deleted', async () => !(await isKnown(server, old)))

    await t.rejects(readFile(placed(server, old)), { code: 'ENOENT' })
    t.ok(await isKnown(server, gone))
    await graceful.close()
  },
  'collect.lease': async (t, server) => {
    const [expired, held] = [randomUUID(), randomUUID()]
    for (const key of [expired, held]) await writeFile(placed(server, key), 'xyz')
    await sqlOf(
      server,
      `insert into svc_catalog.svc_blob (blob_id, provider, state, leased_until)
        values ('${expired}', 'disk', 'writing', now() - interval '1 s'), ('${held}', 'disk', 'writing', now() + interval '60 s')`,
    )
    const graceful = await collecting(t, server)
    await until('what was left is deleted', async () => !(await isKnown(server, expired)))

    await t.rejects(readFile(placed(server, expired)), { code: 'ENOENT' })
    t.equal((await readFile(placed(server, held))).toString(), 'xyz')
    await graceful.close()
  },
}

const CHECKED = ['rotten', 'short', 'gone', 'etag', 'dead', 'fine', 'replaced']
const SHALLOW = ['abandoned ', 'missing gone', 'orphan ', 'record dead', 'record etag', 'size short', 'unowned ']
const MENDED = ['abandoned +', 'missing gone', 'orphan +', 'record dead', 'record etag', 'sha256 rotten', 'size short']
const WASTE = { orphan: randomUUID(), unowned: randomUUID(), upload: randomUUID() }
const placed = ({ dataDir }: Files, key: string): string => join(dataDir, 'files', key.slice(-2), key)

const isKnown = async (server: Files, blob: string): Promise<boolean> =>
  (await rowsOf(server.databaseUrl, `select from svc_catalog.svc_blob where blob_id = '${blob}'`)).length > 0

/** A server that collects in short intervals, with a grace period of a minute. */
function collecting(t: Test, server: Files): Promise<Files> {
  const everySeconds = PROCESSES > 1 ? 1 : 77
  fastInterval(t, everySeconds * 1000)
  return filestore(t, { ...QUIET, collect: { everySeconds, graceSeconds: 60 } }, {}, server)
}

const handOff = (mode: string) => ({
  ...QUIET,
  permissions: { user: [] },
  handOff: { mode, prefix: '/_files', minBytes: 10 },
})

/** A server tells a proxy where the bytes of a file are. */
async function handsOff(t: Test, server: Files, header: string, decode: (path: string) => string): Promise<void> {
  const { status, headers, text } = await server.get('large', { Range: 'bytes=0-1' })
  t.match({ status, text }, { status: 200, text: '' }, 'the proxy answers the range')
  t.equal(headers.get('content-type'), 'text/plain; charset=utf-8')
  const path = decode(headers.get(header) ?? '')
  t.match(path, /^\/_files\//)
  t.equal(await readFile(path.replace('/_files', ''), 'utf8'), '1234567890')
  const etag = headers.get('etag')!
  await takeAll(t, server, [
    get('large', { status: 304 }, { 'If-None-Match': etag }),
    get('large', bad('range not satisfiable'), { Range: 'bytes=11-' }),
    get('large', { status: 206, text: '12' }, { Range: 'bytes=0-1', 'If-Range': etag }),
    get('large', { status: 206, text: '12' }, { 'X-Service-Filestore-Range': 'bytes=0-1' }),
    get(
      'large',
      { ...wrong(403, 'access_denied', 'no permission for role user'), headers: { [header]: null } },
      {},
      user,
    ),
  ])
}

/** A store in memory with URLs of its own. */
const LINKED = `
import memory from '${new URL('../../providers/storage/memory.js', import.meta.url).href}'
const create = async (config, context) => ({
  ...(await memory.create(config, context)),
  signedUrl: async (key, { expiresInSeconds, contentType, disposition }) =>
    'https://store.example/' + key + '?' + expiresInSeconds + '&' + contentType + '&' + disposition,
})
export default { kind: 'storage', name: 'linked', create }
`

/** A plugin that reads and writes files for every caller. */
const PEEK = `export default { name: 'peek', needs: ['filestore'], setup(host) {
  const files = host.use('filestore')
  const never = new AbortController().signal
  host.router.get('/peek', async (ctx) => {
    const { contentType, content } = await files.read(ctx.query.id, Number(ctx.query.most), never)
    ctx.set('X-Type', contentType)
    ctx.body = Buffer.from(content)
    content.fill(0)
  })
  host.router.get('/poke', async (ctx) => {
    const contents = ctx.query.ids.split(',').map((id) => ({ id, contentType: 'a/b', content: Buffer.from('of ' + id) }))
    await files.write(contents, never)
    ctx.body = ''
    ctx.status = 200
  })
  host.formatError(({ code, message }) => ({ code, message }))
} }`

function peekPlugin(t: Test): URL {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-peek-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'peek.mjs')
  writeFileSync(file, PEEK)
  return pathToFileURL(file)
}

/** Its promises, with a case for each. */
export const fileBytes = area('file-bytes', {
  promises: PROMISES,
  cases: CASES,
  start: (t: Test) =>
    filestore(
      t,
      { ...QUIET, permissions: { user: ['read'] }, signedUrls: { maxSeconds: 3600 } },
      { peek: peekPlugin(t) },
      undefined,
      { http: { cors: { origins: [APP] } } },
    ),
  pages: {
    'plugins/filestore/README.md': {
      filestore: {
        '`POST /v1/file-url`': 'url.signed',
      },
      'Large downloads through a proxy': {
        '`x-accel-redirect`': 'hand-off.accel',
        '`x-sendfile`': 'hand-off.sendfile',
        '`redirect`': 'hand-off.redirect',
        'Clients must reach Rowhouse through the proxy only.': 'hand-off.accel',
      },
      Errors: {
        '403': ['url.tampered', 'url.expired'],
        '408': 'upload.slow',
        '500': ['bytes.lost', 'bytes.damaged'],
        '503': ['store.unavailable', 'upload.lost'],
      },
      'For other plugins': {
        '**The calling plugin must check permissions**:': 'service.unchecked',
      },
    },
    'plugins/filestore/checking.md': {
      'rowhouse fsck': {
        '`missing`, `size`, `sha256`': ['check.finds', 'check.deep'],
        '`unreadable`': 'check.unreadable',
        '`record`': 'check.finds',
        '`orphan`': ['check.finds', 'check.fix'],
        '`unowned`, `abandoned`': ['check.finds', 'check.fix'],
      },
    },
  },
})
