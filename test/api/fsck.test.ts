import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { readdir, readFile, rename, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import tap from 'tap'
import { findPluginCommand, loadedCommands, optionsOf } from '../../core/cli/plugin-command.js'
import { builtins } from '../../core/cli/builtins.js'
import { patience } from '../kit/patience.js'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const admin: As = { variables: { 'x-service-user-id': '7' } }
const quiet = { collect: { everySeconds: 3600 }, scrub: { bytesPerSecond: 0 } }

interface Fsck {
  readonly code: number | undefined
  readonly text: string
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly report: any
}

const UNUSED = { flags: {}, lists: {}, words: [], env: {}, cwd: tmpdir(), tell() {} }

/** The command, on the database and folder of a server. */
async function fsck(databaseUrl: string, dataDir: string, flags: object = {}, file?: string): Promise<Fsck> {
  const database = { url: databaseUrl, poolWaitMs: patience(10_000) }
  const overrides = { database, dataDir, ...(file ? {} : { plugins: { filestore: quiet } }) }
  const commands = await loadedCommands({
    env: {},
    cwd: tmpdir(),
    ...(file ? { file } : {}),
    overrides,
    builtins: builtins(),
  })
  const lines: string[] = []
  const run = commands.find(({ command }) => command.name === 'fsck')?.run
  const code = await run?.({
    ...UNUSED,
    flags: { json: true, ...flags },
    signal: AbortSignal.timeout(patience(60_000)),
    print: (text: string) => void lines.push(text),
  })
  const text = lines.join('\n')
  return { code, text, report: text.startsWith('{') ? JSON.parse(text) : undefined }
}

/** Findings as `kind of file`, `+` when fixed. */
const found = ({ report }: Fsck): readonly string[] =>
  (report.findings as { kind: string; file_id?: string; fixed: boolean }[])
    .map(({ kind, file_id: file = '', fixed }) => `${kind} ${file}${fixed ? '+' : ''}`)
    .toSorted()

const put = (server: TestServer, id: string, body = `${id}!`, method = 'PUT') =>
  server.fetch(`/v1/file/${id}`, { method, body, headers: { 'Content-Type': 'text/plain' } }, admin)

const sql = (server: TestServer, text: string) => server.must('run_sql', { sql: text })

async function blobs(dataDir: string): Promise<Map<string, string>> {
  const all = await readdir(join(dataDir, 'files'), { recursive: true, withFileTypes: true })
  const paths = all.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  return new Map(await Promise.all(paths.map(async (path) => [await readFile(path, 'utf8'), path] as const)))
}

const placed = (dataDir: string, key: string) => join(dataDir, 'files', key.slice(-2), key)

tap.test('what is wrong is found, what is safe is fixed, and the rest says what to do', async (t) => {
  const dataDir = t.testdir({})
  const server = await testServer(t, { files: true, config: { dataDir, plugins: { filestore: quiet } } })
  const check = (flags: object = {}) => fsck(server.databaseUrl, dataDir, flags)
  const ids = ['rotten', 'short', 'gone', 'etag', 'dead', 'fine', 'replaced']
  for (const id of ids) t.equal((await put(server, id)).status, 200)
  await put(server, 'replaced', 'replaced again!')

  const clean = await check({ deep: true })
  t.equal(clean.code, 0)
  t.match(clean.report, {
    clean: true,
    files: 7,
    blobs: 8,
    stores: [{ provider: 'disk', objects: 8 }],
    read: { files: 7 },
    findings: [],
  })
  t.match(await check({ json: false }), { code: 0, text: '7 files, 8 blobs, 8 objects in the stores; read 0: clean' })

  const path = await blobs(dataDir)
  const [orphan, unowned, upload] = [randomUUID(), randomUUID(), randomUUID()]
  await writeFile(path.get('rotten!') as string, 'rottem!')
  await truncate(path.get('short!') as string, 3)
  await rename(path.get('gone!') as string, join(dataDir, 'away'))
  for (const key of [orphan, unowned, upload]) await writeFile(placed(dataDir, key), 'xyz')
  await writeFile(placed(dataDir, 'not-a-uuid-00'), 'not ours')
  await sql(
    server,
    `alter table svc_catalog.svc_file disable trigger svc_check_file;
    update svc_catalog.svc_file set etag = '"x"' where file_id = 'etag';
    alter table svc_catalog.svc_file enable trigger svc_check_file;
    update svc_catalog.svc_blob set state = 'dead', dead_at = now()
      where blob_id = (select blob_id from svc_catalog.svc_file where file_id = 'dead');
    insert into svc_catalog.svc_blob (blob_id, provider, state, size, sha256) values ('${unowned}', 'disk', 'live', 3, '');
    insert into svc_catalog.svc_blob (blob_id, provider, state, leased_until) values ('${upload}', 'disk', 'writing', 'epoch'),
      ('${randomUUID()}', 'disk', 'writing', now())`,
  )
  const shallow = ['abandoned ', 'missing gone', 'orphan ', 'record dead', 'record etag', 'size short', 'unowned ']

  t.match(await server.must('check_files', { start: true }), { running: { deep: false }, last: null })
  await until('the check is over', async () => (await server.must('check_files', {})).running === null)
  const { last } = await server.must('check_files', {})
  t.same(found({ code: 0, text: '', report: last }), shallow, 'over HTTP too')
  t.match(last, { clean: false, deep: false, total_findings: 7, ended_at: String })
  t.match(await server.query('check_files', {}, { role: 'user' }), { status: 400, body: { code: 'access-denied' } })
  t.match(await server.query('bulk', [{ type: 'check_files', args: { start: true } }]), { status: 400 })

  const first = await check()
  t.equal(first.code, 1)
  t.same(found(first), shallow)
  t.match(first.report.stores, [{ notes: [/^ignored 1 objects whose names are not ids/] }])
  t.equal((await server.fetch('/v1/file/rotten', {}, admin)).status, 500, 'what is small is compared when it is read')
  const text = (await check({ json: false, deep: true })).text
  t.match(text, /^sha256: file "rotten" has different bytes than were written \(.+\)$/m)
  t.match(text, /What to do:[^]* sha256 +restore the bytes from a backup/)
  t.match(text, /: 8 findings remain$/)
  for (const id of ['rotten', 'short', 'gone']) {
    t.match(
      await server.fetch(`/v1/file/${id}`, {}, admin),
      { status: 500, body: { code: 'fatal_internal_error' } },
      id,
    )
  }

  const fixed = await check({ fix: true })
  t.equal(fixed.code, 1)
  const mended = [
    'abandoned +',
    'missing gone',
    'orphan +',
    'record dead',
    'record etag',
    'sha256 rotten',
    'size short',
  ]
  t.same(found(fixed), [...mended, 'unowned +'])
  await t.rejects(readFile(placed(dataDir, orphan)), { code: 'ENOENT' })
  for (const key of [unowned, upload, 'not-a-uuid-00']) t.ok(await readFile(placed(dataDir, key)))
  const states = await sql(
    server,
    `select state from svc_catalog.svc_blob where blob_id in ('${unowned}', '${upload}')`,
  )
  t.same(states.result, [['state'], ['dead'], ['dead']])
  const files = await sql(server, 'select count(*) from svc_catalog.svc_file')
  t.same(files.result[1], ['7'], 'no file is deleted')
  t.same(
    found(await check()),
    mended.filter((finding) => !finding.endsWith('+')),
  )

  await writeFile(path.get('rotten!') as string, 'rotten!')
  await rename(join(dataDir, 'away'), path.get('gone!') as string)
  for (const id of ['short', 'etag', 'dead']) await put(server, id)
  t.match(await check(), { code: 0, report: { repaired: 2, findings: [] } })
  for (const id of ids.slice(0, 5)) t.equal((await server.fetch(`/v1/file/${id}`, {}, admin)).text, `${id}!`)
})

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

tap.test('without the plugin the command says so', async (t) => {
  const folder = t.testdir({
    'off.json': '{"plugins": {"filestore": false}}',
    'wrong.json': '{"plugins": {"fielstore": {}}}',
  })
  const run = async (file: string) => {
    const off = await findPluginCommand('fsck', optionsOf(['--config', file], { env: {}, cwd: folder }))
    return off?.run({ ...UNUSED, signal: AbortSignal.timeout(patience(60_000)), print() {} })
  }
  await t.rejects(run('off.json'), /fsck is a command of the plugin "filestore", which the configuration does not load/)
  await t.rejects(run('wrong.json'), /one mistake:\n.*fielstore/)
})

tap.test('stores that cannot be looked at, and one of another database', async (t) => {
  const dataDir = t.testdir({})
  const server = await testServer(t, { files: true, config: { dataDir, plugins: { filestore: quiet } } })
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

  const other = await testServer(t, { files: true, config: { dataDir, plugins: { filestore: quiet } } })
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
      plugins: { filestore: quiet },
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
