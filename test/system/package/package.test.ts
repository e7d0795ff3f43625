import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap, { type Test } from 'tap'
import { builtins } from '../../../core/cli/builtins.js'
import { loadServer } from '../../../core/host/server.js'
import { freshDatabase } from '../../kit/database.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { packages } from '../packages.js'
import { environment, run } from './commands.js'
import { asConfiguration, asModule, examplesOf, isConfiguration } from './examples.js'
import { nodesOf, pack } from './tarball.js'

/** The package as `npm publish` makes it, installed into empty folders as its users do. */
const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
/** Without optional packages, in bytes of the files. The README has what they take on a disk. */
const MAX_PRODUCTION_BYTES = 40_000_000

const tools = await packages(tap, 'package')
const folder = await mkdtemp(join(tmpdir(), 'rowhouse-package-'))
tap.teardown(() => rm(folder, { recursive: true, force: true }))
const tarball = await pack(folder)

tap.test('publint and attw find nothing', async (t) => {
  const bin = join(tools, 'node_modules/.bin')

  t.match(await run(folder, [join(bin, 'publint'), tarball, '--strict']), { code: 0 })
  t.match(await run(folder, [join(bin, 'attw'), tarball, '--profile', 'esm-only']), { code: 0 })
})

for (const [name, node] of nodesOf(tools)) {
  const skip = existsSync(node) ? false : 'npm has no such Node.js for this machine'
  tap.test(`an empty folder becomes a project: ${name}`, { skip }, async (t) => {
    const app = await newFolder(t)
    const path = `${join(node, '..')}:${process.env['PATH']}`
    const version = (await run(app, ['node', '--version'], { PATH: path })).out
    t.comment(version)
    t.match(await run(app, ['npm', 'init', '-y'], { PATH: path }), { code: 0 })
    t.match(await run(app, ['npm', 'install', tarball], { PATH: path }), { code: 0 })

    t.match(await run(app, ['npx', 'rowhouse', 'init'], { PATH: path }), {
      code: 0,
      out: /wrote rowhouse\.config\.mjs/,
    })
    const server = await start(t, app, ['npm', 'run', 'dev', '--', '--port', '0'], { PATH: path })
    const secret = await readFile(join(app, '.rowhouse/admin-secret'), 'utf8')
    t.same(await count(server.url, 'customer', secret), { count: 2000 })
    t.equal((await fetch(`${server.url}/console`)).status, 200)
    await server.stop()

    const [major = 0, minor = 0] = version.slice(1).split('.').map(Number)
    const readsTypes = major > 22 || (major === 22 && minor >= 18)
    await rename(join(app, 'rowhouse.config.mjs'), join(app, 'rowhouse.config.mts'))
    await writeFile(join(app, 'rowhouse.config.mts'), 'const port: number = 8080\nexport default { http: { port } }\n')
    const { out, err } = await run(app, ['npx', 'rowhouse', 'check'], { PATH: path })
    t.match(out + err, readsTypes ? /configuration: .*rowhouse\.config\.mts/ : /does not read TypeScript/)
  })
}

tap.test('the install for production is small, and serves', async (t) => {
  const app = await newFolder(t)
  const { url } = await freshDatabase(t)
  await run(app, ['npm', 'init', '-y'])
  t.match(await run(app, ['npm', 'install', '--omit=dev', '--omit=optional', tarball]), { code: 0 })
  const size = await run(app, ['du', '-s', '--apparent-size', '--block-size=1', 'node_modules'])
  t.ok(Number.parseInt(size.out, 10) < MAX_PRODUCTION_BYTES, size.out)

  const env = { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }
  const server = await start(t, app, ['npx', 'rowhouse', 'start', '--port', '0'], env)
  t.match(await count(server.url, 'nothing', ADMIN_SECRET), { code: 'not-exists' })
  await server.stop()
})

tap.test('the examples of the READMEs compile in a strict project, are valid, and run', async (t) => {
  const app = await newFolder(t)
  await run(app, ['npm', 'init', '-y'])
  await run(app, ['npm', 'pkg', 'set', 'type=module'])
  t.match(await run(app, ['npm', 'install', tarball]), { code: 0 })
  const installed = join(app, 'node_modules/rowhouse')
  const markdown = readdirSync(installed, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.md'))
  const examples = examplesOf(installed, markdown)
  const modules = examples.filter((example) => !isConfiguration(example))
  t.ok(modules.length >= 12, `${modules.length} modules`)
  const telemetry = ['exporter-trace-otlp-http', 'resources', 'sdk-trace-node'].map((name) => `@opentelemetry/${name}`)
  await mkdir(join(app, 'node_modules/@opentelemetry'), { recursive: true })
  for (const name of ['tus-js-client', ...telemetry])
    await symlink(join(ROOT, 'node_modules', name), join(app, 'node_modules', name))
  for (const [i, example] of modules.entries()) await writeFile(join(app, `example-${i}.ts`), asModule(example))
  // The tests of the documentation import the provider by this name.
  const gateway = modules.find(({ code }) => code.includes("name: 'gateway'"))
  const suite = modules.find(({ code }) => code.includes('./gateway.js'))
  const guestbook = modules.find(({ code }) => code.includes("name: 'guestbook'"))
  await writeFile(join(app, 'gateway.ts'), gateway?.code ?? '')
  await writeFile(join(app, 'guestbook.ts'), guestbook?.code ?? '')
  await writeFile(join(app, 'gateway.test.ts'), suite?.code ?? '')

  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const settings = '--strict --skipLibCheck false --module nodenext --target es2023 --types node'.split(' ')
  const compile = (source: string) => run(app, [process.execPath, compiler, ...settings, source])
  // Each alone: one may declare what another lacks.
  for (const [i, { place }] of modules.entries())
    t.same(await compile(`example-${i}.ts`), { code: 0, out: '', err: '' }, place)
  for (const source of ['gateway.test.ts', 'guestbook.ts']) t.match(await compile(source), { code: 0 }, source)
  const kept = await run(app, [process.execPath, '--test-reporter=tap', 'gateway.test.js'])
  t.match(kept, { code: 0, out: /ok 1 - a message reaches its number/ }, 'the contract suite passes')

  await mkdir(join(app, 'node_modules/@acme/rowhouse-hello'), { recursive: true })
  await mkdir(join(app, 'node_modules/@acme/rowhouse-guestbook'), { recursive: true })
  const plugin = (name: string, key: string) =>
    `export default { name: '${name}', config: { type: 'object', properties: { ${key}: {} } }, setup() {} }\n`
  await writeFile(join(app, 'node_modules/@acme/rowhouse-hello/index.js'), plugin('hello', 'greeting'))
  await writeFile(join(app, 'node_modules/@acme/rowhouse-hello/package.json'), '{"type": "module"}')
  await writeFile(join(app, 'audit.js'), plugin('audit', 'keepDays'))
  await writeFile(join(app, 'node_modules/@acme/rowhouse-guestbook/package.json'), '{"type": "module"}')
  await writeFile(
    join(app, 'node_modules/@acme/rowhouse-guestbook/index.js'),
    await readFile(join(app, 'guestbook.js'), 'utf8'),
  )
  const configurations = examples.filter(isConfiguration)
  t.ok(configurations.length >= 20, `${configurations.length} configurations`)
  for (const [i, example] of configurations.entries()) {
    const file = join(app, `rowhouse-${i}.config.js`)
    const text = asConfiguration(example)
    await writeFile(file, text)
    const env = Object.fromEntries([...text.matchAll(/\$env: '(\w+)'/g)].map(([, name = '']) => [name, valueOf(name)]))
    const loaded = loadServer({ file, cwd: app, env, builtins: builtins() })
    const warnings = await loaded.then(
      ({ loaded }) => loaded.warnings,
      (error: Error) => [error.message],
    )
    t.same(warnings, [], example.place)
  }

  const { url } = await freshDatabase(t)
  await writeFile(join(app, 'guests.config.js'), `export default { plugins: { guestbook: { use: './guestbook.js' } } }`)
  const env = { DATABASE_URL: url, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }
  const server = await start(t, app, ['npx', 'rowhouse', 'start', '--config', 'guests.config.js', '--port', '0'], env)
  const ask = (path: string, body: unknown) =>
    fetch(server.url + path, {
      method: 'POST',
      headers: { 'X-Service-Admin-Secret': ADMIN_SECRET, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    }).then((response) => response.json())
  await ask('/v1/query', { type: 'run_sql', args: { sql: 'create table guestbook (entry text)' } })
  await ask('/v1/query', { type: 'track_table', args: 'guestbook' })
  t.same(await ask('/v1/guestbook', 'I was here'), { message: 'thank you' })
  t.same(await count(server.url, 'guestbook', ADMIN_SECRET), { count: 1 })
  await server.stop()
})

/** Some text for `$env`, of the form that its setting must have. */
function valueOf(name: string): string {
  if (name === 'DATABASE_URL') return 'postgresql://127.0.0.1/none'
  if (name === 'STAFF_KEY')
    return generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString()
  return 'a text that is long enough for a secret'
}

async function newFolder(t: Test): Promise<string> {
  const app = await mkdtemp(join(tmpdir(), 'rowhouse-app-'))
  t.teardown(() => rm(app, { recursive: true, force: true }))
  return app
}

/** Runs a command that serves, until it listens. */
async function start(
  t: Test,
  cwd: string,
  [command = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  // In a group of its own, so that a signal reaches the server below npm, as Ctrl-C does.
  const child = spawn(command, args, { cwd, env: environment(env), detached: true })
  const gone = once(child, 'close')
  let isGone = false
  void gone.then(() => (isGone = true))
  const stop = async () => {
    if (!isGone) process.kill(-(child.pid as number), 'SIGINT')
    await gone
  }
  t.teardown(stop)
  let output = ''
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk.toString()
      const found = /https?:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0]
      if (found !== undefined) resolve(found)
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('close', () => reject(new Error(`it did not start:\n${output}`)))
  })
  return { url, stop }
}

async function count(url: string, table: string, secret: string): Promise<unknown> {
  const body = JSON.stringify({ type: 'count', args: { table } })
  const response = await fetch(`${url}/v1/query`, {
    method: 'POST',
    headers: { 'X-Service-Admin-Secret': secret },
    body,
  })
  return response.json()
}
