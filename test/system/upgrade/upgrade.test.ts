import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { freshDatabase, rowsOf } from '../../kit/database.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))

const run = promisify(execFile)
const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
const TAGS = `v${version.split('.')[0]}.*`
/** The first release of this major version, whose servers must run beside all later ones. */
const RELEASE = await firstTag()

t.test(
  'a server of the first release runs and restarts beside a newer one, and after it',
  { skip: RELEASE === undefined && `the history has no release ${TAGS} yet` },
  async (t) => {
    const older = await build(t, RELEASE!)
    const { url } = await freshDatabase(t)
    const folder = t.testdir({
      old: { 'rowhouse.config.json': JSON.stringify({ dataDir: '../data' }) },
      new: {
        // Migrates, as the next versions will.
        'rowhouse.config.json': JSON.stringify({
          dataDir: '../data',
          plugins: { audit: { use: './audit.mjs' } },
        }),
        'audit.mjs': `export default { name: 'audit', setup() {}, migrations: [
          { id: '001-audit', sql: 'create table svc_catalog.svc_audit (id int)' }] }`,
      },
    })
    const start = (which: 'old' | 'new') => serve(t, which === 'old' ? older : ROOT, join(folder, which), url)
    const note = { table: 'note', columns: ['id', 'text'] }
    const text = '[{"id":1,"text":"a"}]'

    const old = await start('old')
    await old.ask('run_sql', {
      sql: `create table note (id int primary key, text text); insert into note values (1, 'a')`,
    })
    await old.ask('track_table', 'note')
    t.equal((await old.fetch('/v1/file/before', file('before'))).status, 200)
    const newer = await start('new')
    const ran = await rowsOf<{ id: string; breaks: boolean }>(
      url,
      `select id, breaks from svc_catalog.svc_migration where owner = 'audit'`,
    )
    t.same(ran, [{ id: '001-audit', breaks: false }], 'the newer one has migrated')

    t.equal(await old.ask('select', note), text, 'the older one goes on')
    const both = [old, newer]
    t.equal((await old.fetch('/v1/file/old', file('old'))).status, 200)
    t.equal((await newer.fetch('/v1/file/new', file('new'))).status, 200)
    for (const id of ['before', 'old', 'new'])
      for (const each of both) t.equal(await (await each.fetch(`/v1/file/${id}`)).text(), id, 'both read files of both')
    const begun = await newer.fetch('/v1/upload', upload('6', 'part'))
    t.equal(begun.status, 201)
    const at = new URL(begun.headers.get('location')!, 'http://localhost').pathname
    t.equal((await old.fetch(at, piece('abc', 0))).status, 204, 'the older one goes on with an upload of the newer one')
    t.equal(await newer.ask('select', note), text)
    await newer.ask('create_select_permission', {
      table: 'note',
      role: 'user',
      permission: { columns: ['id'], filter: {} },
    })
    await until(
      'the older one follows',
      async () =>
        (await old.ask('select', { table: 'note', columns: ['id'] }, 'user').catch(() => '')) === '[{"id":1}]',
    )
    await old.stop()
    const again = await start('old')
    t.equal(await again.ask('select', note), text, 'the older one restarts')
    await again.ask('insert', { table: 'note', objects: [{ id: 2, text: 'b' }] })
    t.equal(await newer.ask('count', { table: 'note' }), '{"count":2}')
    t.equal((await newer.fetch(at, piece('def', 3))).status, 204)
    t.equal(await (await again.fetch('/v1/file/part')).text(), 'abcdef')

    await newer.stop()
    t.equal(await again.ask('count', { table: 'note' }), '{"count":2}', 'the older one is alone again')
    await again.ask('drop_select_permission', { table: 'note', role: 'user' })
    await again.stop()
  },
)

/** Returns the oldest tag of this major version in the history; undefined before its first release. */
async function firstTag(): Promise<string | undefined> {
  const list = ['tag', '--list', TAGS, '--merged', 'HEAD', '--sort=version:refname']
  const { stdout } = await run('git', list, { cwd: ROOT }).catch(() => ({ stdout: '' }))
  return stdout.split('\n').find((name) => name !== '')
}

/** Builds a release. @returns its folder */
async function build(t: Test, tag: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-test-upgrade-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const source = join(folder, 'source')
  await mkdir(source)
  await run('git', ['archive', '--output', join(folder, 'source.tar'), tag], { cwd: ROOT })
  await run('tar', ['-xf', join(folder, 'source.tar'), '-C', source])
  await symlink(join(ROOT, 'node_modules'), join(source, 'node_modules'))
  await run('npm', ['run', 'build'], { cwd: source, maxBuffer: 1 << 24 })
  return source
}

/** Starts the server of a version, which listens on any port. */
async function serve(t: Test, version: string, cwd: string, databaseUrl: string) {
  const env = { PATH: process.env['PATH'], DATABASE_URL: databaseUrl, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }
  const args = [join(version, 'build/core/cli.js'), 'start', '--port', '0']
  const child: ChildProcess = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr!.on('data', (chunk: Buffer) => (log += chunk.toString()))
  const ended = once(child, 'exit')
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await ended
  }
  t.teardown(stop)
  const address = () => /"url":"(http:[^"]+)"/.exec(log)?.[1]
  await until('it listens', () => {
    if (child.exitCode !== null) throw new Error(log)
    return address() !== undefined
  })
  const ask = async (type: string, args: unknown, role?: string): Promise<string> => {
    const response = await fetch(`${address()}/v1/query`, {
      method: 'POST',
      headers: {
        'x-service-admin-secret': ADMIN_SECRET,
        connection: 'close',
        ...(role === undefined ? {} : { 'x-service-role': role }),
      },
      body: JSON.stringify({ type, args }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${type}: ${text}\n${log}`)
    return text
  }
  const send = (path: string, init: RequestInit = {}) =>
    fetch(address() + path, {
      ...init,
      headers: { ...ADMIN, connection: 'close', ...(init.headers as Record<string, string>) },
    })
  return { ask, fetch: send, stop }
}

const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' }
const TUS = { 'tus-resumable': '1.0.0' }
const file = (body: string): RequestInit => ({ method: 'PUT', body, headers: { 'content-type': 'text/plain' } })
const upload = (length: string, id: string): RequestInit => ({
  method: 'POST',
  headers: { ...TUS, 'upload-length': length, 'upload-metadata': `file_id ${btoa(id)}` },
})
const piece = (body: string, offset: number): RequestInit => ({
  method: 'PATCH',
  body,
  headers: { ...TUS, 'upload-offset': String(offset), 'content-type': 'application/offset+octet-stream' },
})
