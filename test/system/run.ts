import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installGenerators } from './codegen/packages.js'

/**
 * `npm run test:system`: what needs root, Debian packages or npm's registry. Installs what is missing where it can, and says in a line
 * what it could not run.
 */
const SERVERS = '/usr/lib/postgresql'
const CHROMIUM = '/usr/bin/chromium'

/** Tests of the API that depend on what PostgreSQL does. */
const OF_THE_DATABASE = [
  'data-service',
  'files',
  'graphql-functions',
  'graphql-modern',
  'graphql-names',
  'graphql-nested',
  'promises',
  'templates',
  'writes-at-the-edge',
].map((name) => `build/test/api/${name}.test.js`)

const run = fileURLToPath(new URL('../run.js', import.meta.url))
const failures: string[] = []

function tests(what: string, files: readonly string[], env: Readonly<Record<string, string>> = {}): void {
  console.log(`\n== ${what}`)
  const { status } = spawnSync(process.execPath, [run, ...files], { stdio: 'inherit', env: { ...process.env, ...env } })
  if (status !== 0) failures.push(what)
}

/** The newest PostgreSQL of the machine, after installing Debian's if there is none. */
function systemPostgres(): string | undefined {
  const find = () =>
    existsSync(SERVERS)
      ? readdirSync(SERVERS)
          .sort((a, b) => Number(b) - Number(a))
          .map((version) => join(SERVERS, version, 'bin'))
          .find((bin) => existsSync(join(bin, 'initdb')))
      : undefined
  const found = find()
  if (found || !mayInstall()) return found
  install('postgresql')
  return find()
}

/** True when the server has PostGIS, after installing Debian's package of it. */
function hasPostgis(bin: string): boolean {
  const version = /postgresql\/(\d+)\/bin$/.exec(bin)?.[1] ?? ''
  const control = `/usr/share/postgresql/${version}/extension/postgis.control`
  if (existsSync(control) || !mayInstall()) return existsSync(control)
  install(`postgresql-${version}-postgis-3`)
  return existsSync(control)
}

function hasChromium(): boolean {
  if (!existsSync(CHROMIUM) && mayInstall()) install('chromium')
  return existsSync(CHROMIUM)
}

const mayInstall = (): boolean => process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')

function install(name: string): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('apt-get', ['update', '-qq'], { stdio: 'inherit' })
  spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', name], { stdio: 'inherit', env })
}

const bin = systemPostgres()
tests('the embedded database as root and as an ordinary user', ['build/test/system/*.test.js'])
if (bin === undefined)
  console.log('not run here: the database suite on the PostgreSQL of the system (none is installed)')
else tests(`the database suite on ${bin}`, ['build/test/db/**/*.test.js', ...OF_THE_DATABASE], { PG_BIN: bin })
if (bin === undefined || !hasPostgis(bin))
  console.log('not run here: PostGIS (needs the package postgresql-<version>-postgis-3)')
else tests('PostGIS', ['build/test/system/postgis/*.test.js'], { PG_BIN: bin })
if (!hasChromium()) console.log('not run here: the pages in a browser (needs the package chromium)')
else tests('the pages in Chromium', ['build/test/system/pages/*.test.js'])
const generators = installGenerators()
if (generators === undefined)
  console.log('not run here: generated clients (their generators come from the npm registry)')
else {
  tests('generated clients', ['build/test/system/codegen/*.test.js'], { ROWHOUSE_GENERATORS: generators })
  rmSync(generators, { recursive: true, force: true })
}

if (failures.length > 0) {
  console.log(`failed: ${failures.join('; ')}`)
  process.exitCode = 1
}
