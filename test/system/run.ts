import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { startMeasured } from '../calibrate.js'
import { filesOf, testFile } from '../files.js'
import { spawnThrowaway } from '../kit/cluster.js'
import { PGBOUNCER } from '../kit/pooler.js'
import { createPool } from '../pool.js'
import { MMDEBSTRAP } from './deploy/dockerfile.js'
import { installPackages, type Packages, TEST_PACKAGES } from './packages.js'
import { canRunSwift, SWIFT_PACKAGES } from './s3/swift.js'
import { fromTarball, onSystemPostgres, onTwoProcesses, throughPooler } from './setups.js'

/**
 * `npm run test:system`: what needs root, Debian packages or npm's registry. Installs what is missing where it can, while
 * other tests run, and says in a line what it could not run. `--quick` leaves out the suites of `npm test` that run again here on
 * other setups.
 */
const QUICK = process.argv.includes('--quick')
const SERVERS = '/usr/lib/postgresql'
const CHROMIUM = '/usr/bin/chromium'
const NGINX = '/usr/sbin/nginx'
const PROMETHEUS = '/usr/bin/prometheus'
const EXIM = '/usr/sbin/exim4'
const HAPROXY = '/usr/sbin/haproxy'
/** Extensions of PostgreSQL, and how their packages end. */
const EXTENSIONS = { postgis: 'postgis-3', hypopg: 'hypopg' }
/** Programs and their packages. */
const TOOLS = { '/usr/bin/strace': 'strace', '/usr/sbin/mkfs.ext4': 'e2fsprogs' }

const pool = createPool()
const mayInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
const notRun: string[] = []
let updated: Promise<void> | undefined

await (await startMeasured()).stop()
const outcomes = await Promise.all([
  ofRegistry('codegen', 'generated clients'),
  ofRegistry('clients', 'public clients'),
  deploy(),
  ofRegistry('package', 'the package, installed', ofPackage),
  ...(QUICK ? [] : [onTwoProcesses(pool)]),
  embedded(),
  benchCommand(),
  systemParts(),
])
// What measures or loads the machine has it to itself.
for (const file of filesOf('system/alone')) outcomes.push(await onCluster([file], {}))
pool.summary()
if (QUICK) notRun.push('the image of the Dockerfile (left out by --quick)')
if (QUICK) notRun.push('the suites of npm test on another setup (left out by --quick)')
for (const what of notRun) console.log(`not run here: ${what}`)
if (!outcomes.flat().every((ok) => ok)) process.exitCode = 1

/** The embedded database as root and as an ordinary user. */
function embedded(): Promise<boolean> {
  return pool.run([testFile('build/test/system/embedded.test.js')])
}

/** The command `rowhouse bench`, which asks a server for seconds, again and again. */
function benchCommand(): Promise<boolean> {
  return onCluster(['build/test/system/bench-command.test.js'], {})
}

/** What needs packages of the npm registry. */
async function ofRegistry(
  of: Packages,
  what: string,
  tests = (folder: string) => withPackages(filesOf(`system/${of}`), folder),
): Promise<boolean> {
  const folder = await installPackages(of)
  if (folder === undefined) {
    notRun.push(`${what} (their packages come from the npm registry)`)
    return true
  }
  const ok = await tests(folder)
  await rm(folder, { recursive: true, force: true })
  return ok
}

function withPackages(files: readonly string[], folder: string): Promise<boolean> {
  return onCluster(files, { [TEST_PACKAGES]: folder }, { first: true })
}

/** The package, and the API with it. */
async function ofPackage(folder: string): Promise<boolean> {
  const suites = [withPackages(filesOf('system/package'), folder), ...(QUICK ? [] : [fromTarball(pool, folder)])]
  return (await Promise.all(suites)).every((ok) => ok)
}

/** The files of `core/deploy`: a test skips what it has no program for, and says so. */
async function deploy(): Promise<boolean> {
  const programs = {
    [HAPROXY]: 'haproxy',
    [MMDEBSTRAP]: 'mmdebstrap',
    [NGINX]: 'nginx-light',
    [PROMETHEUS]: 'prometheus',
  }
  for (const [program, name] of Object.entries(programs)) if (!existsSync(program) && mayInstall) await install(name)
  const files = filesOf('system/deploy').filter((file) => !QUICK || !file.endsWith('/image.test.js'))
  return ofRegistry('deploy', 'the image, units and manifests of core/deploy', (folder) => withPackages(files, folder))
}

/** What needs Debian's packages, each part as soon as its own are there. */
async function systemParts(): Promise<boolean[]> {
  const parts: Promise<boolean>[] = []
  const bin = await systemPostgres()
  if (bin === undefined) notRun.push('the database suite on the PostgreSQL of the system (none is installed)')
  else if (!QUICK) parts.push(onSystemPostgres(pool, bin))
  if (bin !== undefined) parts.push(onCluster(filesOf('system/dump'), { PG_BIN: bin }, { first: true }))
  // Skips itself without the history of the repository.
  parts.push(onCluster(filesOf('system/upgrade'), {}, { first: true }))
  for (const [name, suffix] of Object.entries(EXTENSIONS)) {
    if (bin === undefined || !(await hasExtension(bin, name, suffix)))
      notRun.push(`${name} (needs the package postgresql-<version>-${suffix})`)
    else parts.push(onCluster(filesOf(`system/${name}`), { PG_BIN: bin }, { first: true }))
  }
  if (!(await hasChromium())) notRun.push('the pages in a browser (needs the package chromium)')
  else parts.push(onCluster([...filesOf('system/pages'), ...filesOf('system/console')], {}, { first: true }))
  if (!(await hasTools()))
    notRun.push('kills, power cuts and faults of the disk under files (need root, strace, e2fsprogs)')
  else parts.push(onCluster(filesOf('system/files'), {}, { first: true }))
  if (!(await hasPgBouncer()))
    notRun.push('the API without the fast lanes, through a connection pooler (needs the package pgbouncer)')
  else {
    parts.push(onCluster(filesOf('system/pooler'), {}, { first: true }))
    if (!QUICK) parts.push(throughPooler(pool))
  }
  if (!(await hasNginx())) notRun.push('downloads that nginx sends (needs the package nginx-light)')
  else parts.push(onCluster(filesOf('system/nginx'), {}, { first: true }))
  if (!(await hasExim())) notRun.push('mail by a real server (needs root and the package exim4-daemon-light)')
  else
    parts.push(
      pool.run(
        filesOf('system/smtp').map((file) => testFile(file)),
        { first: true },
      ),
    )
  if (!(await hasSwift()))
    notRun.push(`files on an S3 store (needs root, extended attributes, the packages ${SWIFT_PACKAGES.join(' ')})`)
  else parts.push(onCluster(filesOf('system/s3'), {}, { first: true }))
  return Promise.all(parts)
}

async function onCluster(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
  options?: { first: boolean },
): Promise<boolean> {
  const cluster = await spawnThrowaway(env)
  const jobs = files.map((file) => testFile(file, { databaseUrl: cluster.url, env }))
  const ok = await pool.run(jobs, options)
  await cluster.stop()
  return ok
}

/** The newest PostgreSQL of the machine, after installing Debian's if there is none. */
async function systemPostgres(): Promise<string | undefined> {
  const find = () =>
    existsSync(SERVERS)
      ? readdirSync(SERVERS)
          .sort((a, b) => Number(b) - Number(a))
          .map((version) => join(SERVERS, version, 'bin'))
          .find((bin) => existsSync(join(bin, 'initdb')))
      : undefined
  const found = find()
  if (found || !mayInstall) return found
  await install('postgresql')
  return find()
}

/** True when the server has an extension, after installing Debian's package of it. */
async function hasExtension(bin: string, name: string, suffix: string): Promise<boolean> {
  const version = /postgresql\/(\d+)\/bin$/.exec(bin)?.[1] ?? ''
  const control = `/usr/share/postgresql/${version}/extension/${name}.control`
  if (existsSync(control) || !mayInstall) return existsSync(control)
  await install(`postgresql-${version}-${suffix}`)
  return existsSync(control)
}

async function hasChromium(): Promise<boolean> {
  if (!existsSync(CHROMIUM) && mayInstall) await install('chromium')
  return existsSync(CHROMIUM)
}

/** What the disk under files is made to fail with. */
async function hasTools(): Promise<boolean> {
  for (const [tool, name] of Object.entries(TOOLS)) if (!existsSync(tool) && mayInstall) await install(name)
  return process.getuid?.() === 0 && Object.keys(TOOLS).every((tool) => existsSync(tool))
}

async function hasPgBouncer(): Promise<boolean> {
  if (!existsSync(PGBOUNCER) && mayInstall) await install('pgbouncer')
  return existsSync(PGBOUNCER)
}

async function hasNginx(): Promise<boolean> {
  if (!existsSync(NGINX) && mayInstall) await install('nginx-light')
  return existsSync(NGINX)
}

async function hasExim(): Promise<boolean> {
  if (!existsSync(EXIM) && mayInstall) await install('exim4-daemon-light')
  return process.getuid?.() === 0 && existsSync(EXIM)
}

async function hasSwift(): Promise<boolean> {
  if (!canRunSwift() && mayInstall) await install(...SWIFT_PACKAGES)
  return canRunSwift()
}

async function install(...names: readonly string[]): Promise<void> {
  await (updated ??= aptGet('update', '-qq'))
  await aptGet('install', '-y', '-qq', '--no-install-recommends', ...names)
}

async function aptGet(...args: string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  await once(spawn('apt-get', args, { stdio: 'inherit', env }), 'close')
}
