import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  unlink,
  writeFile,
  chmod,
  chown,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import type { StartedDatabase } from 'rowhouse'
import t, { type Test } from 'tap'
import { findBinaries, packageFolder, repairLinks } from '../../providers/database/embedded/binaries.js'
import { inspectEmbedded, startEmbedded } from '../../providers/database/embedded/index.js'
import { isAlive, startTime } from '../../providers/database/embedded/processes.js'

const root = process.getuid?.() === 0
let template: Promise<string> | undefined
t.comment(`runs as ${root ? 'root' : 'an ordinary user'}`)

t.test('the first start makes a cluster with a database, and the second finds it as it was', async (t) => {
  const dataDir = await newDataDir(t)
  const said: string[] = []

  const first = await startEmbedded({ dataDir, progress: (message) => said.push(message) })
  await query(first.url, 'create table kept as select 42 as answer')
  const settings = await query(
    first.url,
    `select current_setting('shared_buffers') as shared_buffers, current_setting('max_connections') as max_connections,
            current_setting('fsync') as fsync, current_setting('listen_addresses') as listen_addresses,
            current_setting('unix_socket_directories') as sockets, current_setting('timezone') as timezone`,
  )
  const database = await query(
    first.url,
    `select datname, pg_encoding_to_char(encoding) as encoding, datcollate, datlocprovider, datlocale
     from pg_database where datname = current_database()`,
  )
  await first.stop()
  const second = await startEmbedded({ dataDir })
  const kept = await query(second.url, 'select answer from kept')
  await second.stop()

  t.ok(Number(new URL(first.url).port) < 32_768, 'no port that a system gives to whoever asks for any')
  t.match(said[0], /^creating a database cluster with PostgreSQL 18/)
  t.match(first, { version: /^18\./, adopted: false })
  t.equal(second.url, first.url, 'the port and the password stay')
  t.equal(second.adopted, false)
  t.strictSame(kept, [{ answer: 42 }])
  t.strictSame(settings, [
    {
      shared_buffers: '128MB',
      max_connections: '100',
      fsync: 'on',
      listen_addresses: '127.0.0.1',
      sockets: '',
      timezone: 'UTC',
    },
  ])
  t.strictSame(database, [
    { datname: 'rowhouse', encoding: 'UTF8', datcollate: 'C', datlocprovider: 'b', datlocale: 'C.UTF-8' },
  ])
})

t.test('nobody enters without the password, which others cannot read', async (t) => {
  const { dataDir, cluster } = await started(t)
  const wrong = new URL(cluster.url)
  wrong.password = 'wrong'
  const file = await stat(join(dataDir, 'postgres', 'password'))
  const folder = await stat(dataDir)

  await t.rejects(query(wrong.href, 'select 1'), { code: '28P01' })
  t.match(new URL(cluster.url).password, /^[\w-]{43}$/, '32 random bytes')
  t.equal(file.mode & 0o077, 0)
  t.equal(folder.mode & 0o067, 0)
})

t.test('a throwaway cluster does not wait for the disk', async (t) => {
  const { cluster } = await started(t)

  t.strictSame(await query(cluster.url, `select current_setting('fsync') as fsync`), [{ fsync: 'off' }])
})

t.test('libraries without their links, as npm --ignore-scripts leaves them, are repaired', async (t) => {
  const folder = await newFolder(t)
  const native = join(folder, 'native')
  await cp(packageFolder() ?? '', native, { recursive: true, verbatimSymlinks: true })
  const missing = await removeLinks(native)
  const broken = await run(join(native, 'bin', 'postgres'), '--version')

  const made = await repairLinks(native)
  const again = await repairLinks(native)
  const repaired = await run(join(native, 'bin', 'postgres'), '--version')

  t.ok(missing > 0)
  t.match(broken, process.platform === 'linux' ? /cannot open shared object file/ : /not loaded/i)
  t.equal(made >= missing, true, `${missing} were missing, ${made} made`)
  t.equal(again, 0, 'a second repair has nothing to do')
  t.match(repaired, /PostgreSQL/)
})

t.test('links are made for the library names of macOS too', async (t) => {
  const folder = await newFolder(t)
  await mkdir(join(folder, 'lib'))
  for (const name of ['libicuuc.68.2.dylib', 'libpq.5.dylib', 'libz.a']) await writeFile(join(folder, 'lib', name), '')

  await repairLinks(folder)

  t.strictSame((await readdir(join(folder, 'lib'))).sort(), [
    'libicuuc.68.2.dylib',
    'libicuuc.68.dylib',
    'libicuuc.dylib',
    'libpq.5.dylib',
    'libz.a',
  ])
})

t.test('binaries in a read-only folder without links are copied, once for two starts at a time', async (t) => {
  if (root) {
    t.comment('not run here: needs an ordinary user, because root may write everywhere')
    return
  }
  const folder = await newFolder(t)
  const native = join(folder, 'package', 'native')
  await cp(packageFolder() ?? '', native, { recursive: true, verbatimSymlinks: true })
  await cp(join(packageFolder() ?? '', '..', 'package.json'), join(folder, 'package', 'package.json'))
  await removeLinks(native)
  await chmod(join(native, 'lib'), 0o555)
  t.teardown(() => chmod(join(native, 'lib'), 0o755))
  const copyTo = join(folder, 'copies')

  const find = () => findBinaries({ native, copyTo, pgBin: undefined })
  const found = await Promise.all([find(), find()])

  t.strictSame(await readdir(copyTo), [found[0].bin.split('/').at(-2)], 'one copy, and no leftovers')
  t.strictSame(found[0], found[1])
  t.match(found[0].bin, copyTo)
})

t.test('where nothing runs, the error says what was tried and what to do', async (t) => {
  const folder = await newFolder(t)
  await writeFile(join(folder, 'postgres'), '#!/bin/sh\necho "postgres (PostgreSQL) 9.6.1"\n', { mode: 0o755 })
  const absent = join(folder, 'absent')

  await t.rejects(findBinaries({ pgBin: absent }), { message: /absent.postgres does not run: ENOENT[^]*DATABASE_URL/ })
  await t.rejects(findBinaries({ pgBin: folder }), { message: /is PostgreSQL 9; version 14 or newer is required/ })
})

t.test('a cluster that outlives a killed Rowhouse is adopted by the next one', async (t) => {
  const dataDir = await copiedDataDir(t)
  const child = await startInChild(t, dataDir, { dieWithParent: false })
  await query(child.url, 'create table kept as select 1 as one')

  await kill(child.process)
  const adopted = await startEmbedded({ dataDir, throwaway: true })
  const kept = await query(adopted.url, 'select one from kept')
  const { server } = await inspectEmbedded(dataDir)
  await adopted.stop()

  t.equal(adopted.adopted, true)
  t.equal(adopted.url, child.url)
  t.equal(server?.pid, child.pid, 'the same server process')
  t.strictSame(kept, [{ one: 1 }])
  t.equal(await isAlive(child.pid), false, 'who adopts it, stops it')
})

t.test('a cluster ends with the Rowhouse that is killed, and starts again with its data', async (t) => {
  if (process.platform !== 'linux' || !(await run('setpriv', '--help')).includes('pdeathsig')) {
    t.comment('not run here: needs setpriv of util-linux')
    return
  }
  const dataDir = await copiedDataDir(t)
  const child = await startInChild(t, dataDir, {})
  await query(child.url, 'create table kept as select 1 as one')

  await kill(child.process)
  // At once, while the old server is still stopping.
  const next = await startEmbedded({ dataDir, throwaway: true })
  const { server } = await inspectEmbedded(dataDir)
  const kept = await query(next.url, 'select one from kept')
  await next.stop()

  t.equal(next.adopted, false)
  t.not(server?.pid, child.pid)
  t.equal(await isAlive(child.pid), false)
  t.strictSame(kept, [{ one: 1 }])
})

t.test('a second start on the same data directory is told who runs there', async (t) => {
  const dataDir = await newDataDir(t)

  const starts = await Promise.allSettled([1, 2].map(() => startEmbedded({ dataDir, throwaway: true })))
  const failed = starts.filter((start) => start.status === 'rejected')
  const running = starts.filter((start) => start.status === 'fulfilled')
  for (const { value } of running) await value.stop()
  const later = await startEmbedded({ dataDir, throwaway: true })
  await later.stop()

  t.equal(running.length, 1)
  t.match(failed[0]?.reason, { message: new RegExp(`is already running on .*pid ${process.pid}.*ROWHOUSE_DATA_DIR`) })
})

t.test('a lock is stale when its pid was given to a later process', async (t) => {
  const { dataDir, cluster } = await started(t)
  await cluster.stop()
  const stale = { pid: process.pid, started: `${await startTime(process.pid)}0` }
  await writeFile(join(dataDir, 'lock'), JSON.stringify(stale))

  const next = await startEmbedded({ dataDir, throwaway: true })
  await next.stop()

  t.equal(next.adopted, false)
})

t.test('a postmaster.pid whose pid another program has by now does not prevent a start', async (t) => {
  const { dataDir, cluster } = await started(t)
  const data = join(dataDir, 'postgres', 'data')
  const pidFile = await readFile(join(data, 'postmaster.pid'), 'utf8')
  await cluster.stop()
  // PostgreSQL looks only at processes of its own user.
  const owner = await stat(data)
  const other = spawn('sleep', ['600'], { cwd: '/', ...(root ? { uid: owner.uid, gid: owner.gid } : {}) })
  t.teardown(() => other.kill())
  await once(other, 'spawn')
  await writeFile(join(data, 'postmaster.pid'), pidFile.replace(/^\d+/, String(other.pid)), { mode: 0o600 })
  await chown(join(data, 'postmaster.pid'), owner.uid, owner.gid)

  const next = await startEmbedded({ dataDir, throwaway: true })
  const { server } = await inspectEmbedded(dataDir)
  await next.stop()

  t.equal(next.adopted, false)
  t.not(server?.pid, other.pid)
  t.equal(other.exitCode, null, 'the other program is left alone')
})

t.test('a path longer than a socket name may be is no obstacle', async (t) => {
  const dataDir = join(await newFolder(t), 'deep-'.repeat(20), 'deep-'.repeat(20), '.rowhouse')

  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const rows = await query(cluster.url, 'select 1 as one')
  await cluster.stop()

  t.strictSame(rows, [{ one: 1 }])
})

t.test('a data directory open to others, which PostgreSQL refuses, is closed again', async (t) => {
  const { dataDir, cluster } = await started(t)
  await cluster.stop()
  const data = join(dataDir, 'postgres', 'data')
  await chmod(data, 0o755)

  const next = await startEmbedded({ dataDir, throwaway: true })
  await next.stop()

  t.equal((await stat(data)).mode & 0o777, 0o700)
})

t.test('a server that ends early is reported with its own words, and leaves no lock', async (t) => {
  const { dataDir, cluster } = await started(t)
  await cluster.stop()
  const conf = join(dataDir, 'postgres', 'data', 'postgresql.auto.conf')
  const before = await readFile(conf, 'utf8')
  await writeFile(conf, 'no_such_setting = on\n')

  await t.rejects(startEmbedded({ dataDir, throwaway: true }), {
    message:
      /did not start on .*ended unexpectedly[^]*unrecognized configuration parameter "no_such_setting"[^]*DATABASE_URL/,
  })
  await writeFile(conf, before)
  const next = await startEmbedded({ dataDir, throwaway: true })
  await next.stop()
})

t.test('data of another major version are refused with instructions', async (t) => {
  const { dataDir, cluster } = await started(t)
  await cluster.stop()
  await writeFile(join(dataDir, 'postgres', 'data', 'PG_VERSION'), '15\n')

  await t.rejects(startEmbedded({ dataDir }), {
    message: /was created by PostgreSQL 15, and .* is PostgreSQL 18\..*PG_BIN.*pg_dump.*DATABASE_URL/,
  })
})

t.test('a lost or wrong password is explained', async (t) => {
  const { dataDir, cluster } = await started(t)
  await cluster.stop()
  const file = join(dataDir, 'postgres', 'password')

  await writeFile(file, 'wrong\n')
  await t.rejects(startEmbedded({ dataDir }), { message: /password authentication failed/ })
  await unlink(file)
  await t.rejects(startEmbedded({ dataDir }), { message: /password of the database cluster cannot be read from/ })
})

t.test('a port that somebody took meanwhile is exchanged for a free one', async (t) => {
  const { dataDir, cluster } = await started(t)
  await cluster.stop()
  const { port } = new URL(cluster.url)
  const squatter = createServer().listen(Number(port), '127.0.0.1')
  t.teardown(() => squatter.close())
  await once(squatter, 'listening')

  const next = await startEmbedded({ dataDir, throwaway: true })
  await query(next.url, 'select 1')
  await next.stop()

  t.not(new URL(next.url).port, port)
})

t.test('a first start that was cut short is begun again', async (t) => {
  const { dataDir, cluster } = await started(t)
  const postgres = join(dataDir, 'postgres')
  await cluster.stop()
  await rm(join(postgres, 'data'), { recursive: true })
  await mkdir(join(postgres, 'data.new'))
  await writeFile(join(postgres, 'data.new', 'PG_VERSION'), '18\n')

  const next = await startEmbedded({ dataDir, throwaway: true })
  const rows = await query(next.url, 'select current_database() as name')
  await next.stop()

  t.strictSame(rows, [{ name: 'rowhouse' }])
  t.notOk((await readdir(postgres)).includes('data.new'))
})

t.test('the database is created where a first start did not come so far', async (t) => {
  const { dataDir, cluster } = await started(t)
  const maintenance = new URL(cluster.url)
  maintenance.pathname = '/postgres'
  await query(maintenance.href, 'drop database rowhouse')
  await cluster.stop()

  const next = await startEmbedded({ dataDir, throwaway: true })
  const rows = await query(next.url, 'select current_database() as name')
  await next.stop()

  t.strictSame(rows, [{ name: 'rowhouse' }])
})

t.test('stop disconnects clients, ends cleanly, and may be called twice', async (t) => {
  const { dataDir, cluster } = await started(t)
  const { server } = await inspectEmbedded(dataDir)
  const client = new pg.Client(cluster.url)
  // First the server's farewell, then the end of the connection.
  const errors: Error[] = []
  client.on('error', (error) => errors.push(error))
  await client.connect()

  await Promise.all([cluster.stop(), cluster.stop()])

  t.match(errors[0], { code: '57P01' })
  t.equal(await isAlive(server?.pid ?? 0), false)
  t.notOk((await readdir(join(dataDir, 'postgres', 'data'))).includes('postmaster.pid'))
})

const LEFTOVERS = 'waiting for processes of the previous PostgreSQL to end'

t.test('a server that is killed can be started again, with its data, for those who know its address', async (t) => {
  const dataDir = await copiedDataDir(t)
  const said: string[] = []
  let busyPid = 0
  const progress = (message: string) => {
    said.push(message)
    // It goes on until the next start has met it.
    if (message === LEFTOVERS) process.kill(busyPid, 'SIGTERM')
  }
  const cluster = await startEmbedded({ dataDir, throwaway: true, progress })
  t.teardown(() => cluster.stop())
  await query(cluster.url, 'create table kept as select 1 as one')
  // A throwaway cluster does not write at each commit.
  await query(cluster.url, 'checkpoint')
  const before = (await inspectEmbedded(dataDir)).server?.pid ?? 0
  // A process that computes does not notice that its postmaster is gone.
  const busy = query(cluster.url, 'do $$ begin loop null; end loop; end $$').catch(() => 'cut')
  busyPid = await busyProcess(cluster.url)

  process.kill(before, 'SIGKILL')
  await cluster.died()
  await cluster.restart()
  const kept = await query(cluster.url, 'select one from kept')
  await busy

  t.strictSame(kept, [{ one: 1 }])
  t.not((await inspectEmbedded(dataDir)).server?.pid, before)
  t.ok(said.includes(LEFTOVERS), said.join())
  const died = cluster.died().then(() => 'died')
  await cluster.stop()
  t.equal(await Promise.race([died, sleep(1000, 'stopped')]), 'stopped', 'being stopped is no death')
  await cluster.restart()
  t.equal((await inspectEmbedded(dataDir)).server, undefined, 'and what was stopped stays so')
})

t.test('the server has a process group of its own, so that Ctrl-C reaches Rowhouse alone', async (t) => {
  const { dataDir } = await started(t)
  const { server } = await inspectEmbedded(dataDir)

  const group = await run('ps', '-o', 'pgid=', '-p', String(server?.pid))

  t.equal(Number(group), server?.pid)
})

t.test('variables of the environment meant for other servers change nothing', async (t) => {
  const hostile = { PGDATA: '/nowhere', PGPORT: '1', PGHOST: '/nowhere', PGSSLMODE: 'require', LC_ALL: 'tr_TR.UTF-8' }
  const before = Object.keys(hostile).map((name) => [name, process.env[name]] as const)
  Object.assign(process.env, hostile)
  t.teardown(() => {
    for (const [name, value] of before) value === undefined ? delete process.env[name] : (process.env[name] = value)
  })
  const dataDir = await newDataDir(t)

  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const { server } = await inspectEmbedded(dataDir)
  // postgres_fdw would connect with them.
  const passedOn = await readFile(`/proc/${server?.pid}/environ`, 'utf8').catch(() => '')
  await cluster.stop()

  t.match(cluster.version, /^18/)
  t.notMatch(passedOn, /PGHOST|tr_TR/)
})

t.test('inspection tells what there is and changes nothing', async (t) => {
  const dataDir = await newDataDir(t)

  const before = await inspectEmbedded(dataDir)
  const made = await stat(dataDir).catch(() => 'absent')
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const during = await inspectEmbedded(dataDir)
  await cluster.stop()
  const after = await inspectEmbedded(dataDir)

  t.equal(made, 'absent')
  t.match(before, { cluster: undefined, heldBy: undefined, server: undefined, binaries: { major: 18 } })
  t.match(during, { heldBy: { pid: process.pid }, server: { url: cluster.url }, cluster: { major: 18 } })
  t.match(after, { heldBy: undefined, server: undefined, cluster: { folder: join(dataDir, 'postgres') } })
})

/** A cluster that is stopped at the end of the test. */
async function started(t: Test): Promise<{ dataDir: string; cluster: StartedDatabase }> {
  const dataDir = await copiedDataDir(t)
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  t.teardown(() => cluster.stop())
  return { dataDir, cluster }
}

/** A data directory after its first start: a copy is much cheaper than another first start. */
async function copiedDataDir(t: Pick<Test, 'teardown'>): Promise<string> {
  const dataDir = await newDataDir(t)
  await run('cp', '-a', await (template ??= makeTemplate()), dataDir)
  return dataDir
}

async function makeTemplate(): Promise<string> {
  const dataDir = await newDataDir(t)
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  await cluster.stop()
  return dataDir
}

async function newDataDir(t: Pick<Test, 'teardown'>): Promise<string> {
  return join(await newFolder(t), '.rowhouse')
}

/** A folder that others may enter, because root runs PostgreSQL as another user. */
async function newFolder(t: Pick<Test, 'teardown'>): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), `rowhouse-${randomBytes(4).toString('hex')}-`))
  await chmod(folder, 0o755)
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** The process of PostgreSQL that computes. */
async function busyProcess(url: string): Promise<number> {
  const busy = `select pid from pg_stat_activity where state = 'active' and query like 'do $$ begin loop%'`
  for (;;) {
    const [row] = (await query(url, busy)) as { pid: number }[]
    if (row !== undefined) return row.pid
    await sleep(10)
  }
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url, ssl: false })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}

interface Started {
  readonly process: ChildProcess
  readonly url: string
  /** Of the server. */
  readonly pid: number
}

/** Starts a cluster in another process, to be killed. */
async function startInChild(t: Test, dataDir: string, options: { dieWithParent?: boolean }): Promise<Started> {
  const module = new URL('../../providers/database/embedded/index.js', import.meta.url).href
  const program = `
    import { startEmbedded } from ${JSON.stringify(module)}
    const cluster = await startEmbedded(${JSON.stringify({ dataDir, throwaway: true, ...options })})
    console.log(cluster.url)
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve)
    child.once('close', () => reject(new Error('the child did not start its cluster')))
  })
  const { server } = await inspectEmbedded(dataDir)
  return { process: child, url, pid: server?.pid ?? 0 }
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
  while (await isAlive(child.pid ?? 0)) await sleep(10)
}

async function removeLinks(native: string): Promise<number> {
  const links = (await readdir(join(native, 'lib'), { withFileTypes: true })).filter((entry) => entry.isSymbolicLink())
  for (const link of links) await unlink(join(native, 'lib', link.name))
  return links.length
}

/** Output of a program, whether or not it fails. */
async function run(file: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(file, args).catch(
    (error: { stdout?: string; stderr?: string }) => ({ stdout: error.stdout ?? '', stderr: error.stderr ?? '' }),
  )
  return stdout + stderr
}
