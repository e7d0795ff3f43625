import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { spawnThrowaway } from '../../kit/cluster.js'
import { freshDatabase, rowsOf } from '../../kit/database.js'
import { admin } from '../../kit/files.js'
import { ADMIN_SECRET, testServer } from '../../kit/server.js'

const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
const BIN = process.env['PG_BIN'] ?? ''
const run = promisify(execFile)
const FILES = 20
const TEXT = { 'content-type': 'text/plain' }

/** As core/deploy/README.md says: first the database, then the files, while the server works. */
t.test('a backup of a running server restores database and files in a new cluster', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-restore-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [root, copy] = [join(folder, 'files'), join(folder, 'copy')]
  const from = await freshDatabase(t)
  const server = await serverWith(t, from.url, root)
  await server.must('run_sql', { sql: 'create table note (id int primary key, text text)' })
  await server.must('track_table', 'note')
  await server.must('create_select_permission', {
    table: 'note',
    role: 'user',
    permission: { columns: '*', filter: {} },
  })
  await server.must('insert', { table: 'note', objects: [{ id: 1, text: 'before' }] })
  const put = async (id: string, body: string) =>
    t.equal((await server.fetch(`/v1/file/${id}`, { method: 'PUT', body, headers: TEXT }, admin)).status, 200)
  for (let i = 0; i < FILES; i++) await put(`file-${i}`, `the file ${i}`)

  await run(join(BIN, 'pg_dump'), ['--format=custom', `--file=${join(folder, 'dump')}`, from.url])
  // Between the two, the server works on: it replaces, deletes and adds.
  await put('file-0', 'replaced')
  await server.fetch('/v1/file/file-1', { method: 'DELETE' }, admin)
  await put('late', 'not in the dump')
  await cp(root, copy, { recursive: true })
  await server.close()

  const cluster = await spawnThrowaway({ PG_BIN: BIN })
  t.teardown(() => cluster.stop())
  await rowsOf(cluster.url, `create role app login password 'secret'`)
  await rowsOf(cluster.url, 'create database shop owner app')
  const to = Object.assign(new URL(cluster.url), { pathname: '/shop' })
  await run(join(BIN, 'pg_restore'), [
    '--no-owner',
    '--no-privileges',
    '--role=app',
    `--dbname=${to.href}`,
    '--exit-on-error',
    join(folder, 'dump'),
  ])

  const url = Object.assign(new URL(to), { username: 'app', password: 'secret' }).href
  const command = (...args: readonly string[]) =>
    run(process.execPath, [CLI, ...args], {
      cwd: folder,
      env: { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET, ROWHOUSE_PROVIDERS__STORAGE__DISK__ROOT: copy },
    })
  await command('upgrade')
  t.match((await command('check')).stdout, /ok +metadata: 1 table tracked/)
  const checked = await command('fsck', '--deep', '--json').catch((error: { stdout: string }) => error)
  const { findings } = JSON.parse(checked.stdout) as { findings: readonly { kind: string }[] }
  t.strictSame([...new Set(findings.map(({ kind }) => kind))], ['orphan'], 'bytes of later files, and nothing else')
  await command('fsck', '--fix')
  t.match((await command('fsck', '--deep')).stdout, /clean/)

  const restored = await serverWith(t, url, copy)
  t.strictSame((await restored.query('select', { table: 'note', columns: ['text'] }, { role: 'user' })).body, [
    { text: 'before' },
  ])
  for (let i = 0; i < FILES; i++)
    t.equal(
      (await restored.fetch(`/v1/file/file-${i}`, {}, admin)).text,
      `the file ${i}`,
      'as it was at the time of the dump',
    )
  t.equal((await restored.fetch('/v1/file/late', {}, admin)).status, 404)
})

const serverWith = (t: Test, databaseUrl: string, root: string) =>
  testServer(t, {
    databaseUrl,
    files: true,
    config: { providers: { storage: { disk: { root } } }, database: {} },
  })
