import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import tap from 'tap'
import { found, fsck, QUIET } from '../kit/fsck.js'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const admin: As = { variables: { 'x-service-user-id': '7' } }

const put = (server: TestServer, id: string, body = `${id}!`, method = 'PUT') =>
  server.fetch(`/v1/file/${id}`, { method, body, headers: { 'Content-Type': 'text/plain' } }, admin)

const sql = (server: TestServer, text: string) => server.must('run_sql', { sql: text })

async function blobs(dataDir: string): Promise<Map<string, string>> {
  const all = await readdir(join(dataDir, 'files'), { recursive: true, withFileTypes: true })
  const paths = all.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  return new Map(await Promise.all(paths.map(async (path) => [await readFile(path, 'utf8'), path] as const)))
}

tap.test('a server at work has nothing wrong', async (t) => {
  const dataDir = t.testdir({})
  const filestore = { collect: { everySeconds: 1, graceSeconds: 0 } }
  const server = await testServer(t, { files: true, config: { dataDir, plugins: { filestore } } })
  const count = async (where: string) =>
    Number((await sql(server, `select count(*) from svc_catalog.svc_blob where ${where}`)).result[1][0])
  for (const id of ['kept', 'deleted', 'replaced']) await put(server, id)
  const uploads = Array.from({ length: 20 }, (_, n) => beginUpload(server, `upload-${n}`))
  await until('20 uploads are under way', async () => (await count("state = 'writing'")) === 20)

  const during = await fsck(server.databaseUrl, dataDir, { deep: true, fix: true })
  t.match(during, { code: 0, report: { files: 3, blobs: 23, stores: [{ objects: 23 }] } })
  t.same(found(during), [])
  t.equal(await count("state = 'writing'"), 20)

  const file = join(dataDir, 'config.mjs')
  await writeFile(file, HALTING)
  let halted = false
  halts.rowhouseListed = async () => {
    halted = true
    for (const { end } of uploads) end()
    t.same(await Promise.all(uploads.map(({ status }) => status)), Array(20).fill(200))
    await server.fetch('/v1/file/deleted', { method: 'DELETE' }, admin)
    for (const id of ['replaced', 'new']) await put(server, id, 'since')
    await until('what nobody has is taken away', async () => (await count('true')) === 23)
  }
  let collected: Promise<void> | undefined
  const collect = async () => {
    await server.fetch('/v1/file/new', { method: 'DELETE' }, admin)
    await until('its bytes are gone', async () => (await count('true')) === 22)
  }
  halts.rowhouseReads = () => (collected ??= collect())
  const meanwhile = await fsck(server.databaseUrl, dataDir, { fix: true }, file)
  t.ok(halted)
  t.ok(collected)
  t.match(meanwhile, { code: 0, report: { files: 23, blobs: 23, stores: [{ objects: 23 }] } })
  t.same(found(meanwhile), [], 'between its look at the store and at the rows everything has changed')
  t.equal((await server.fetch('/v1/file/upload-7', {}, admin)).text, 'first half, second half')
})

const halts = globalThis as { rowhouseListed?: () => Promise<void>; rowhouseReads?: () => Promise<void> }

/** The disk, which lets the test do what it likes when it has been listed, and before it is read. */
const HALTING = `
import disk from '${new URL('../../providers/storage/disk.js', import.meta.url).href}'
const create = async (config, context) => {
  const store = await disk.create(config, context)
  const list = async function* (signal) {
    yield* store.list(signal)
    await globalThis.rowhouseListed()
  }
  const get = async (key, range, signal) => {
    await globalThis.rowhouseReads()
    return store.get(key, range, signal)
  }
  return { ...store, list, get }
}
export default { providers: { storage: { disk: { use: { ...disk, create } } } } }
`

function beginUpload({ url }: TestServer, id: string): { end(): void; readonly status: Promise<number | undefined> } {
  const req = request(`${url}/v1/file/${id}`, {
    method: 'PUT',
    headers: { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '7', 'Content-Type': 'text/plain' },
  })
  const status = once(req, 'response').then(([response]) => {
    const { statusCode } = (response as IncomingMessage).resume()
    return statusCode
  })
  req.write('first half, ')
  return { end: () => void req.end('second half'), status }
}

tap.test('stores that cannot be looked at, and one of another database', async (t) => {
  const dataDir = t.testdir({})
  const server = await testServer(t, { files: true, config: { dataDir, plugins: { filestore: QUIET } } })
  for (const id of ['a', 'b', 'c']) await put(server, id)
  const moved = (id: string, provider: string) =>
    sql(
      server,
      `update svc_catalog.svc_blob set provider = '${provider}'
        where blob_id = (select blob_id from svc_catalog.svc_file where file_id = '${id}')`,
    )
  await moved('a', 'old')
  await moved('b', 'mute')
  const file = join(dataDir, 'config.mjs')
  await writeFile(file, STORES)

  const shallow = await fsck(server.databaseUrl, dataDir, { fix: true }, file)
  t.same({ code: shallow.code, found: found(shallow) }, { code: 1, found: [] })
  t.match(shallow.report.stores, [
    { provider: 'disk', objects: 3, notes: [/^ignored 2 objects that belong to another store/] },
    { provider: 'down', problem: /cannot be listed: .*no route/ },
    { provider: 'mute', problem: /cannot list its objects/ },
    { provider: 'old', problem: /no storage provider "old" is configured/ },
  ])
  t.equal((await blobs(dataDir)).size, 3, 'nothing is deleted')
  const deep = await fsck(server.databaseUrl, dataDir, { deep: true }, file)
  t.same(found(deep), ['missing b'])
  t.match(deep.report.stores[2], { provider: 'mute', notes: [/objects without a row are not found/] })

  const other = await testServer(t, { files: true, config: { dataDir, plugins: { filestore: QUIET } } })
  const wrong = await fsck(other.databaseUrl, dataDir, { fix: true })
  t.match(wrong.report.stores, [{ notes: [/no row in this database: is it the right one/] }])
  t.same({ code: wrong.code, found: found(wrong) }, { code: 1, found: ['orphan ', 'orphan ', 'orphan '] })
  t.equal((await blobs(dataDir)).size, 3)
  const nowhere = await fsck(server.databaseUrl, t.testdir({}), {})
  t.match(nowhere.report.stores[0], {
    provider: 'disk',
    objects: 0,
    notes: ['the store is empty: is the location correct, and mounted?'],
  })
})

/** Beside the disk a store that cannot be had, and one that cannot list and has lost everything. */
const STORES = `
const lost = () => Promise.reject(Object.assign(new Error('not here'), { code: 'ENOENT' }))
const down = { kind: 'storage', name: 'down', create: () => Promise.reject(new Error('no route')) }
const mute = { kind: 'storage', name: 'mute', create: () => ({ put: lost, get: lost, delete: async () => {} }) }
export default { providers: { storage: { default: 'disk', disk: {}, down: { use: down }, mute: { use: mute } } } }
`

tap.test('a check of a store that never answers delays neither its stop nor the end of the server', async (t) => {
  const folder = t.testdir({ 'stuck.mjs': STUCK })
  const server = await testServer(t, {
    files: true,
    config: {
      dataDir: folder,
      plugins: { filestore: QUIET },
      providers: { storage: { default: 'stuck', stuck: { seconds: 9 } } },
    },
    providers: { storage: { stuck: pathToFileURL(join(folder, 'stuck.mjs')) } },
  })

  await server.must('check_files', { start: true })
  t.match(await server.must('check_files', { stop: true }), { running: { deep: false }, last: null })
  await server.close()
})

const STUCK = `
const never = () => new Promise(() => {})
const list = () => ({ [Symbol.asyncIterator]: () => ({ next: never }) })
const config = { type: 'object', properties: { seconds: { type: 'integer' } } }
export default { kind: 'storage', name: 'stuck', config, create: () => ({ put: never, get: never, delete: never, list }) }
`
