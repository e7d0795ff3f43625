import { createHash } from 'node:crypto'
import { readdir, readFile, rename, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import pg from 'pg'
import tap, { type Test } from 'tap'
import { CheckResults } from '../../plugins/filestore/checking/results.js'
import { verify } from '../../plugins/filestore/checking/verify.js'
import storage from '../../providers/storage/memory.js'
import { freshDatabase } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const admin: As = { variables: { 'x-service-user-id': '7' } }
const FAST = { bytesPerSecond: 2 ** 30, everyDays: 0.000001 }

async function pair(t: Test): Promise<{ servers: readonly TestServer[]; blobs: () => Promise<Map<string, string>> }> {
  const dataDir = t.testdir({})
  const { url: databaseUrl } = await freshDatabase(t)
  const start = () =>
    testServer(t, { files: true, databaseUrl, config: { dataDir, plugins: { filestore: { scrub: FAST } } } })
  const servers = [await start(), await start()]
  return {
    servers,
    /** Paths by file id, of files whose content is their id and `!`. */
    async blobs() {
      const all = await readdir(join(dataDir, 'files'), { recursive: true, withFileTypes: true })
      const paths = all.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
      return new Map(await Promise.all(paths.map(async (path) => [await textOf(path), path] as const)))
    },
  }
}

const textOf = async (path: string) => (await readFile(path, 'utf8')).replace('!', '')

tap.test('bytes that rot are found, their file is not served, and whole ones are served again', async (t) => {
  const { servers, blobs } = await pair(t)
  const [server, other] = servers as [TestServer, TestServer]
  const ids = ['rotten', 'short', 'gone', 'fine']
  for (const id of ids) {
    const init = { method: 'PUT', body: `${id}!`, headers: { 'Content-Type': 'text/plain' } }
    t.equal((await server.fetch(`/v1/file/${id}`, init, admin)).status, 200)
  }
  const path = await blobs()
  const status = async (id: string, init: RequestInit = {}) => (await other.fetch(`/v1/file/${id}`, init, admin)).status
  const damage = async () => {
    const sql = `select file_id, damaged from svc_catalog.svc_file join svc_catalog.svc_blob using (blob_id)
      where damaged is not null order by 1`
    return (await server.must('run_sql', { sql })).result.slice(1) as string[][]
  }
  const metric = async (name: string, from: TestServer): Promise<number> =>
    Number(new RegExp(`^rowhouse_filestore_${name} (\\d+)`, 'm').exec((await from.fetch('/metrics')).text)?.[1])
  await until('both have looked', async () => {
    const counts = await Promise.all(servers.map((each) => metric('verified_total', each)))
    return counts.every((count) => count > 4)
  })
  t.same(await damage(), [])
  t.match((await server.fetch('/readyz')).body.probes, [
    { name: 'database' },
    { name: 'filestore.store', ok: true },
    { name: 'filestore.bytes', ok: true },
  ])
  t.notOk((await server.fetch('/readyz')).text.includes('damaged'))

  const { etag } = Object.fromEntries((await other.fetch('/v1/file/rotten', {}, admin)).headers) as { etag: string }
  await writeFile(path.get('rotten') as string, 'rottem!')
  await truncate(path.get('short') as string, 3)
  await rename(path.get('gone') as string, `${path.get('gone')}.away`)
  const found = [
    ['gone', 'missing'],
    ['rotten', 'sha256'],
    ['short', 'size'],
  ]
  await until('all three are found', async () => (await damage()).length === 3)

  t.same(await damage(), found)
  t.match(await other.fetch('/v1/file/rotten', {}, admin), {
    status: 500,
    body: { code: 'fatal_internal_error', message: 'internal server error' },
  })
  t.equal(await status('rotten', { method: 'HEAD' }), 500)
  t.equal(await status('rotten', { headers: { Range: 'bytes=0-1' } }), 500)
  t.equal(await status('rotten', { headers: { 'If-None-Match': etag } }), 304, 'who has the right bytes may keep them')
  t.equal(await status('fine'), 200)
  const ready = await other.fetch('/readyz')
  const detail = 'damaged files: 3; rowhouse fsck lists them'
  t.match(ready, { status: 200, body: { probes: [{}, {}, { name: 'filestore.bytes', ok: true, detail }] } })
  t.equal(await metric('damaged', other), 3)

  await writeFile(path.get('rotten') as string, 'rotten!')
  await rename(`${path.get('gone')}.away`, path.get('gone') as string)
  const again = { method: 'PUT', body: 'short again', headers: { 'Content-Type': 'text/plain' } }
  t.equal((await server.fetch('/v1/file/short', again, admin)).status, 200)
  await until('all are whole', async () => (await damage()).length === 0)
  t.equal((await other.fetch('/v1/file/rotten', {}, admin)).text, 'rotten!')
  t.equal((await other.fetch('/v1/file/short', {}, admin)).text, 'short again')
  t.notOk((await other.fetch('/readyz')).text.includes('damaged'))
})

tap.test('the longest unread is read first, and by one', async (t) => {
  const { url: databaseUrl } = await freshDatabase(t)
  const config = { plugins: { filestore: { scrub: { bytesPerSecond: 0, everyDays: 0 } } } }
  const server = await testServer(t, { files: true, databaseUrl, config: { dataDir: t.testdir({}), ...config } })
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 6 })
  t.teardown(() => pool.end())
  const blobs = ['1', '2', '3'].map((digit) => `00000000-0000-0000-0000-00000000000${digit}`)
  const made = (blob: string, days: number, size: number) =>
    server.must('run_sql', {
      sql: `insert into svc_catalog.svc_blob (blob_id, provider, state, size, sha256, created_at)
        values ('${blob}', 'disk', 'live', ${size}, '', now() - interval '${days} days')`,
    })
  for (const [i, blob] of blobs.entries()) await made(blob, 50 - i, i * 1000)
  const verified = new CheckResults({ query: async (text, values = []) => (await pool.query(text, [...values])).rows })
  const claim = async () => (await verified.claim(30, 10))?.blob

  t.equal(await claim(), blobs[0])
  const claims = await Promise.all(Array.from({ length: 6 }, claim))
  t.same(claims.filter((blob) => blob !== undefined).toSorted(), blobs.slice(1), 'each has one reader')
  await verified.record(blobs[1] as string, undefined)
  await verified.postpone(blobs[0] as string)
  const later = (seconds: number) =>
    server.must('run_sql', {
      sql: `update svc_catalog.svc_blob set scrub_until = scrub_until - interval '${seconds} seconds'`,
    })
  await later(599)
  t.equal(await claim(), undefined, '2000 bytes, at 10 a second, may take ten minutes')
  await later(2)
  t.equal(await claim(), blobs[2], 'its reader is gone')
  await later(86_400)
  t.equal(await claim(), blobs[0], 'what could not be read has its turn again')
  t.equal(await claim(), blobs[2])
  t.equal(await claim(), undefined, 'what was read waits for 30 days')
})

tap.test('bytes are compared in pieces of any size', async (t) => {
  const signal = AbortSignal.timeout(patience(60_000))
  const store = await storage.create({}, {} as never)
  for (const size of [0, 1, 7, 8, 9, 16]) {
    const bytes = Buffer.alloc(size, 'abc')
    const sha256 = createHash('sha256').update(bytes).digest()
    const written = { blob: `b-${size}`, provider: 'memory', size, sha256 }
    const judge = async (stored: Buffer) => {
      await store.delete(written.blob)
      await store.put(written.blob, Readable.from([stored]), signal)
      let read = 0
      const damage = await verify(store, written, { pieceBytes: 8, signal, onPiece: (count) => void (read += count) })
      return { damage, read }
    }
    t.same(await judge(bytes), { damage: undefined, read: size }, `${size} bytes`)
    t.equal((await judge(Buffer.concat([bytes, Buffer.from('x')]))).damage, 'size', `${size} and one more`)
    if (size === 0) continue
    t.equal((await judge(bytes.subarray(1))).damage, 'size', `${size} but one`)
    t.equal((await judge(Buffer.alloc(size, 'x'))).damage, 'sha256', `${size} others`)
    await store.delete(written.blob)
    t.equal(await verify(store, written, { pieceBytes: 8, signal }), 'missing')
  }
  const written = { blob: 'b-0', provider: 'memory', size: 0, sha256: Buffer.alloc(32) }
  await t.rejects(verify(store, written, { pieceBytes: 8, signal: AbortSignal.abort() }), /aborted/)
})
