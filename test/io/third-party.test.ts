import { execFileSync, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freshDatabase } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { serverProcess } from '../kit/server-process.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** A plugin as a stranger writes it: a package of its own, with a table, a service, and a route with its own errors. */
const COUNTER = `
import { definePlugin, ServiceError } from 'rowhouse'

export interface Counter {
  next(): number
}
declare module 'rowhouse' {
  interface Services {
    counter: Counter
  }
}

export default definePlugin({
  name: 'counter',
  config: { type: 'object', properties: { from: { type: 'integer', default: 0 } } },
  migrations: [{ id: '001-init', sql: 'create table svc_catalog.svc_counter (n int)' }],
  setup(host, { from }) {
    let n = from
    const served = host.metric.counter('served_total', 'Numbers served')
    host.health('counter', () => {})
    host.router.get('/v1/counter/broken', () => {
      throw new ServiceError(400, 'broken', 'as it should be')
    })
    host.formatError((error) => ({ oops: error.code }))
    host.operation('count_up', {
      args: { type: 'object', properties: { by: { type: 'integer' } } },
      templatable: { by: 'value', of: { '*': 'text' } },
      run: async (args) => ({ kind: 'text', text: JSON.stringify(args) }),
    })
    return {
      next() {
        served.inc()
        return ++n
      },
    }
  },
})
`

/** Needs the other one, wants a built-in one, and has an SMS provider of the same stranger. */
const GREETER = `
import { definePlugin } from 'rowhouse'
import type {} from 'rowhouse/plugins/filestore'
import type {} from '@acme/counter'

export default definePlugin({
  name: 'greeter',
  needs: ['counter'],
  wants: ['filestore'],
  setup(host) {
    const counter = host.use('counter')
    const read: ((id: string, maxBytes: number, signal: AbortSignal) => Promise<{ content: Buffer }>) | undefined = host.find('filestore')?.read
    if (read) throw new Error('there are no files here')
    host.router.get('/v1/greet/:name', async (ctx) => {
      const sms = await host.provider('sms')
      const sent = await sms.send({ id: ctx.state.requestId, to: '5550100', countryCode: '1', message: 'Hi' }, AbortSignal.timeout(60_000))
      ctx.body = { greeting: \`Hello, \${ctx.params['name']}\`, n: counter.next(), sent: sent.id }
    })
  },
})
`

const PIGEON = `
import { defineProvider } from 'rowhouse'

export default defineProvider({
  kind: 'sms',
  name: 'pigeon',
  config: { type: 'object', required: ['loft'], properties: { loft: { type: 'string' } } },
  create: ({ loft }) => ({ send: async (sms) => ({ id: \`\${loft}-\${sms.to}\`, detail: 'on its way' }) }),
})
`

t.test(
  'plugins and a provider of strangers compile against the public types, install from tarballs, load, and serve',
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'rowhouse-strangers-'))
    t.teardown(() => rm(folder, { recursive: true }))
    await stranger(folder, 'counter', COUNTER)
    await stranger(folder, 'greeter', GREETER)
    await stranger(folder, 'pigeon', PIGEON)
    await symlink(root, join(folder, 'node_modules/rowhouse'))
    const config = {
      http: { metrics: 'open' },
      plugins: { filestore: false, greeter: { use: '@acme/greeter' }, counter: { use: '@acme/counter', from: 41 } },
      providers: { sms: { default: 'pigeon', pigeon: { use: '@acme/pigeon', loft: 'roof' } } },
    }
    await write(folder, 'rowhouse.config.json', JSON.stringify(config))
    const sources = ['counter', 'greeter', 'pigeon'].map((name) => `node_modules/@acme/${name}/index.ts`)
    t.equal(compile(folder, sources), '')
    for (const name of ['counter', 'greeter', 'pigeon']) await installPacked(folder, name)
    const database = await freshDatabase(t)

    const server = await serverProcess(t, database.url, { args: ['--config', join(folder, 'rowhouse.config.json')] })

    const greeting = await fetch(`${server.url}/v1/greet/you`)
    t.same(await greeting.json(), { greeting: 'Hello, you', n: 42, sent: 'roof-5550100' })
    const broken = await fetch(`${server.url}/v1/counter/broken`)
    t.same([broken.status, await broken.json()], [400, { oops: 'broken' }])
    const metrics = await fetch(`${server.url}/metrics`)
    t.match(await metrics.text(), 'rowhouse_counter_served_total 1')
    const ready = await fetch(`${server.url}/readyz`)
    t.match(await ready.text(), '"counter"')
  },
)

t.test('the providers of the documentation compile, and keep the contract', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-documented-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const readme = await readFile(join(root, 'providers/README.md'), 'utf8')
  const [provider, suite = '', withHelpers] = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code)
  await write(folder, 'package.json', '{"type": "module"}')
  await write(folder, 'gateway.ts', provider ?? '')
  await write(folder, 'gateway.test.ts', suite)
  await write(folder, 'helped.ts', withHelpers ?? '')
  await write(folder, 'helped.test.ts', suite.replace('./gateway.js', './helped.js'))
  await mkdir(join(folder, 'node_modules'))
  await symlink(root, join(folder, 'node_modules/rowhouse'))

  t.equal(compile(folder, ['gateway.ts', 'gateway.test.ts', 'helped.ts', 'helped.test.ts']), '')
  // Without the loaders that this test runs with.
  for (const file of ['gateway.test.js', 'helped.test.js']) {
    const command = ['-u', 'NODE_OPTIONS', process.execPath, '--test-reporter=tap', file]
    const { stdout, status } = spawnSync('env', command, { cwd: folder, encoding: 'utf8', timeout: 300_000 })
    t.equal(status, 0, stdout)
    t.match(stdout, 'ok 1 - a message reaches its number')
  }
})

async function stranger(folder: string, name: string, source: string): Promise<void> {
  const path = `node_modules/@acme/${name}`
  const about = { name: `@acme/${name}`, version: '1.0.0', type: 'module', exports: './index.js' }
  await write(folder, `${path}/package.json`, JSON.stringify(about))
  await write(folder, `${path}/index.ts`, source)
}

/** Packs a package as for publishing and unpacks the tarball in its place, as an installer would. */
async function installPacked(folder: string, name: string): Promise<void> {
  const path = join(folder, 'node_modules/@acme', name)
  const run = (command: string, args: readonly string[]) =>
    execFileSync(command, args, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' })
  const tarball = run('npm', ['pack', '--silent', '--offline', path]).trim()
  await rm(path, { recursive: true })
  await mkdir(path, { recursive: true })
  run('tar', ['-xzf', tarball, '--strip-components=1', '-C', path])
}

async function write(folder: string, path: string, text: string): Promise<void> {
  await mkdir(dirname(join(folder, path)), { recursive: true })
  await writeFile(join(folder, path), text)
}

/** Compiles sources in their place, with the settings an author is likely to have; gives what the compiler says. */
function compile(folder: string, sources: readonly string[]): string {
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const settings = '--strict --module nodenext --target es2023 --declaration --skipLibCheck --types node --typeRoots'
  const types = join(root, 'node_modules/@types')
  // Without the loaders that the test runner gives to every child.
  const command = ['-u', 'NODE_OPTIONS', process.execPath, compiler, ...settings.split(' '), types, ...sources]
  const { stdout, stderr } = spawnSync('env', command, { cwd: folder, encoding: 'utf8', timeout: patience(600_000) })
  return stdout + stderr
}
