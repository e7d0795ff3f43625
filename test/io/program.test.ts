import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { inspectEmbedded } from '../../providers/database/embedded/index.js'
import { type Done, run as inProcess } from '../kit/command.js'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { freePort } from '../kit/free-port.js'
import { endKeptConnections } from '../kit/server.js'
import { until } from '../kit/until.js'

// What only the program itself can show: its exit code, its signals, its streams, and its own child processes.

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))
const SECRET = 'a secret for the tests of the program'

t.test('answers go to standard output, mistakes to standard error, and the exit code says which', async (t) => {
  const folder = await newFolder(t)

  t.match(await run(folder, ['--help']), { code: 0, out: /dev .*\n.*start/, err: '' })
  t.match(await run(folder, ['dev', '--help']), { code: 0, out: /^rowhouse dev [^]*--config FILE/, err: '' })
  t.match(await run(folder, ['--version']), { code: 0, out: /^\d+\.\d+\.\d+\n$/, err: '' })
  t.match(await run(folder, []), { code: 2, out: /start/, err: '' })
  t.match(await run(folder, ['dve']), { code: 2, out: '', err: /did you mean dev\?/ })
  t.match(await run(folder, ['start']), { code: 1, out: '', err: /^no database: set DATABASE_URL/ })
  t.match(await run(folder, ['import', 'dump.sql']), {
    code: 1,
    err: "ENOENT: no such file or directory, stat 'dump.sql'\n",
  })
})

t.test('the first dev run makes a database with the shop, and its curl lines work as pasted', async (t) => {
  const folder = await newFolder(t)

  const server = await start(t, folder, ['dev', '--port', '0'])

  const lines = server
    .output()
    .split('\n')
    .filter((line) => line.startsWith('curl '))
  t.equal(lines.length, 5)
  const answers = await Promise.all(lines.map((line) => paste(folder, line)))
  t.match(answers[0], [{ name: String, orders: [{ id: Number }] }])
  t.match(answers[1], { affected_rows: 1, returning: [{ name: 'Teapot' }] })
  t.match(answers[2], [{ id: Number, status: String }])
  t.match(answers[3], { verdict: 'refused', reason: 'filter' })
  t.match(answers[4], { id: /^memory-/, detail: /kept in memory/ })
  const why = { type: 'explain_permission', args: { operation: 'select', table: 'orders', key: { id: 1 } } }
  const anonymous = await fetch(`${server.url}/v1/query`, { method: 'POST', body: JSON.stringify(why) })
  t.match(await anonymous.json(), { verdict: 'refused', reason: 'permission' }, 'everybody may ask about themselves')
  const rebound = request(`${server.url}/v1/query`, { method: 'POST', headers: { host: 'evil.test' } })
  const [refused] = (await once(rebound.end(JSON.stringify(why)), 'response')) as [IncomingMessage]
  t.equal(refused.resume().statusCode, 421, 'but no page of another site by a name of its own')
  const secret = join(folder, '.rowhouse/admin-secret')
  t.equal((await stat(secret)).mode & 0o777, 0o600)
  t.notMatch(server.output(), await readFile(secret, 'utf8'))

  const key = await readFile(secret, 'utf8')
  const caught = await fetch(`${server.url}/v1/send`, { headers: { 'X-Service-Admin-Secret': key } })
  const { messages } = (await caught.json()) as { messages: { id: string }[] }
  t.match(messages, [
    { state: 'sent', sub: 'It works', provider: 'memory' },
    { state: 'sent', sub: 'Your order 46455 is late', provider: 'memory' },
  ])
  const mail = await fetch(`${server.url}/v1/send/${messages[0]?.id}`, { headers: { 'X-Service-Admin-Secret': key } })
  t.match(await mail.json(), { text: 'This mail goes nowhere.' })
  t.match(server.output(), /Mail and SMS are not delivered. Open http/)
  const outside = { type: 'run_sql', args: { sql: "copy (select 1) to program 'true'" } }
  t.match(await post(server.url, outside, key), { internal: { error: { status_code: '42501' } } })
  const extension = { type: 'run_sql', args: { sql: 'create extension citext' } }
  t.same(await post(server.url, extension, key), { result_type: 'CommandOk' })

  // The second start finds what the first one left, even when that was killed.
  await server.stop('SIGKILL')
  await writeFile(join(folder, 'rowhouse.config.json'), '{"http": {"explainPermissions": false}}')
  const again = await start(t, folder, ['dev', '--port', '0'])
  const teapots = { type: 'count', args: { table: 'product', where: { sku: 'NEW-1' } } }
  t.same(await post(again.url, teapots, await readFile(secret, 'utf8')), { count: 1 })
  const silent = await fetch(`${again.url}/v1/query`, { method: 'POST', body: JSON.stringify(why) })
  t.match(await silent.json(), { code: 'access-denied' }, 'and nobody if the configuration says so')
  t.match(await run(folder, ['dev', '--port', '0']), { code: 1, err: /is already running/ })
  const init = {
    method: 'PUT',
    body: 'x',
    headers: { 'X-Service-Admin-Secret': key, 'X-Service-User-Id': '1', 'Content-Type': 'a/b' },
  }
  t.equal((await fetch(`${again.url}/v1/file/x`, init)).status, 200)
  const checked = { code: 0, out: /^17 files, 17 blobs, 17 objects in the stores; read 0: clean\n$/ }
  t.match(await inProcess(folder, ['fsck']), checked)
  t.match(await inProcess(folder, ['metadata', 'export']), { code: 0, out: /"name": "product"|"table": "product"/ })
  t.match(await inProcess(folder, ['migrate']), { code: 0, out: 'nothing to migrate\n' })
  t.equal(await again.stop('SIGINT'), 0)
  t.match(await inProcess(folder, ['fsck']), checked, 'on a database that is started for it')
  t.equal((await inspectEmbedded(join(folder, '.rowhouse'))).server, undefined)
})

t.test('dev --watch restarts when a source changes, and survives mistakes in it', async (t) => {
  const folder = await newFolder(t)
  const project = join(folder, 'project')
  const config = (plugins: object) =>
    writeFile(
      join(project, 'rowhouse.config.json'),
      JSON.stringify({
        plugins: { query: false, template: false, graphql: false, filestore: false, notify: false, ...plugins },
      }),
    )
  const hello = { use: '../shared/hello.mjs' }
  const plugin = (word: string) => `import { mark } from './lib/mark.mjs'
export default { name: 'hello', database: false, config: { type: 'object', properties: { to: { type: 'string', default: 'you' } } }, setup(host, { to }) {
  host.router.get('/v1/hello', (ctx) => void (ctx.body = '${word} ' + to + mark))
} }`
  for (const each of ['project', 'shared', 'shared/lib']) await mkdir(join(folder, each))
  await config({ hello })
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Hello'))
  await writeFile(join(folder, 'shared/lib/mark.mjs'), 'export const mark = "."')
  const port = await freePort()
  const dev = await start(t, project, ['dev', '--watch', '--port', String(port)])
  const says = (word: string) =>
    until(word, async () => {
      const text = await fetch(`${dev.url}/v1/hello`).then((answer) => answer.text(), () => '') // prettier-ignore
      return text === word
    })

  await says('Hello you.')
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Moin'))
  await says('Moin you.')
  await writeFile(join(folder, 'shared/lib/mark.mjs'), 'export const mark = "!"')
  await says('Moin you!')
  await config({ hello: { ...hello, to: 'all' } })
  await says('Moin all!')
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Oops').replace('} }', '} '))
  await until('it waits', () => dev.output().includes('rowhouse dev ended; waiting for a change'))
  t.match(dev.output(), /"\.\.\/shared\/hello\.mjs" cannot be loaded: .* \(\/.*\/shared\/hello\.mjs:\d+\)/)
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Back with'))
  await says('Back with all!')

  t.match(dev.output(), /mark\.mjs changed; restarting/)
  t.equal(await dev.stop('SIGINT'), 0)
  await t.rejects(fetch(dev.url))
})

t.test('start logs to standard error, and SIGTERM lets requests under way finish', async (t) => {
  const folder = await newFolder(t)
  await configure(folder, SLOW)
  const server = await start(t, folder, ['start', '--port', '0'], { ROWHOUSE_ADMIN_SECRET: SECRET })
  const asked = fetch(`${server.url}/slow`)
  await until('it is under way', () => server.output().includes('"msg":"asked"'))

  server.child.kill('SIGTERM')
  await until('the server stops', () => server.output().includes('"by":"SIGTERM","msg":"stopping"'))
  await writeFile(join(folder, 'go-on'), '')

  t.equal(await (await asked).text(), 'done')
  t.equal(await server.ended, 0)
  for (const line of server.output().trim().split('\n')) t.match(JSON.parse(line), { level: String, time: String })
})

t.test('a second Ctrl-C does not wait for requests under way, and the exit code is 130', async (t) => {
  const folder = await newFolder(t)
  await configure(folder, SLOW)
  const server = await start(t, folder, ['dev', '--port', '0'])
  const asked = t.rejects(fetch(`${server.url}/slow`))
  await until('it is under way', () => server.output().includes('"msg":"asked"'))
  const drains = () => fetch(`${server.url}/v1/version`).then(() => false, () => true) // prettier-ignore

  server.child.kill('SIGINT')
  await until('the server drains', drains)
  server.child.kill('SIGINT')

  t.equal(await server.ended, 130)
  await asked
})

t.test('a worker ends with SIGTERM', async (t) => {
  const folder = await newFolder(t)
  await configure(folder, '')
  const worker = await start(t, folder, ['worker', '--port', '0'])

  t.equal((await fetch(`${worker.url}/healthz`)).status, 200)
  t.equal(await worker.stop('SIGTERM'), 0)
})

t.test('Ctrl-C lets the command of a plugin clean up, and ends other commands immediately', async (t) => {
  const folder = await newFolder(t)
  await configure(folder, '')
  const waiting = spawnRowhouse(t, folder, ['wait'])
  await until('it waits', () => waiting.output().includes('waiting'))
  waiting.child.kill('SIGINT')
  t.equal(await waiting.ended, 5)
  t.equal(waiting.output(), 'waiting\ncleaned up: interrupted\n')

  const { url } = await freshDatabase(t)
  const prompt = spawnRowhouse(t, folder, ['sql'], { PATH: '', DATABASE_URL: url })
  const connected = `select pid from pg_stat_activity where application_name = 'rowhouse sql' and datname = current_database()`
  await until('it reads statements', async () => (await rowsOf(url, connected)).length > 0)
  prompt.child.kill('SIGINT')
  t.equal(await prompt.ended, null)
  t.equal(prompt.child.signalCode, 'SIGINT')
})

t.test('without psql, sql reads statements from standard input', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  const env = { PATH: '', DATABASE_URL: url }

  t.match(await run(folder, ['sql'], env, 'select 7 as seven;\nselect 8 as eight'), {
    code: 0,
    out: ' seven\n-------\n 7\n(1 row)\n eight\n-------\n 8\n(1 row)\n',
    err: '',
  })
  t.match(await run(folder, ['sql'], env, 'select nope;\nselect 9;'), {
    code: 3,
    out: '',
    err: 'SQL:1:8: column "nope" does not exist\n',
  })
})

t.test('a reader may stop early', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  const head = (...args: readonly string[]) =>
    new Promise<{ out: string; err: string }>((resolve) => {
      const script = '"$0" "$@" | head -n 1; echo "${PIPESTATUS[0]}"'
      const env = environment({ DATABASE_URL: url })
      execFile(
        'bash',
        ['--norc', '-c', script, process.execPath, CLI, ...args],
        { cwd: folder, env },
        (_error, out, err) => resolve({ out, err }),
      )
    })
  const copied = 'copy (select n from generate_series(1, 1000000) n) to stdout'
  const rows = "select n, repeat('x', 100) from generate_series(1, 10000) n"

  t.match(await head('--help'), { out: /^rowhouse .*\n0\n$/, err: '' })
  t.same(await head('sql', '-c', rows), { out: ' n     | repeat\n0\n', err: '' })
  t.same(await head('sql', '-c', copied), { out: '1\n1\n', err: 'SQL:1:1: write EPIPE\n' }, 'PostgreSQL stops, too')
})

t.test('sql opens psql where there is one, and tells it the password in its environment only', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  await mkdir(join(folder, 'bin'))
  const show = '#!/bin/sh\necho "args:$*"\nenv | grep ^PG | sort\nexit 3\n'
  await writeFile(join(folder, 'bin/psql'), show, { mode: 0o755 })
  const { hostname, port, username, password, pathname } = new URL(url)

  const { code, out } = await run(folder, ['sql'], {
    PATH: `${join(folder, 'bin')}:/usr/bin:/bin`,
    PGSERVICE: 'other',
    DATABASE_URL: `${url.replace(hostname, `absent.invalid,${hostname}`)}?sslmode=prefer&target_session_attrs=read-write`,
  })

  t.equal(code, 3)
  t.same(out.trim().split('\n'), [
    'args:-v ON_ERROR_STOP=1',
    `PGDATABASE=${pathname.slice(1)}`,
    `PGHOST=absent.invalid,${hostname}`,
    `PGPASSWORD=${decodeURIComponent(password)}`,
    `PGPORT=5432,${port}`,
    'PGSSLMODE=prefer',
    'PGTARGETSESSIONATTRS=read-write',
    `PGUSER=${username}`,
  ])
})

/** A request that is answered once there is a file, and a command that waits for Ctrl-C. */
const SLOW = `host.router.get('/slow', async (ctx) => {
    host.use('log').warn('asked')
    while (!existsSync(new URL('go-on', import.meta.url))) await new Promise((resolve) => setTimeout(resolve, 10))
    ctx.body = 'done'
  })`

/** Loads one plugin alone, which needs no database. */
async function configure(folder: string, setup: string): Promise<void> {
  const off = { query: false, template: false, graphql: false, filestore: false, notify: false }
  const plugins = { ...off, slow: { use: './slow.mjs' } }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify({ plugins }))
  await writeFile(
    join(folder, 'slow.mjs'),
    `import { existsSync } from 'node:fs'
import { once } from 'node:events'
export default {
  name: 'slow',
  database: false,
  setup(host) { ${setup} },
  commands: [{ name: 'wait', summary: 'waits', usage: 'rowhouse wait', help: 'Waits.', async run({ signal, print }) {
    const timer = setInterval(() => {}, 1000)
    print('waiting')
    await once(signal, 'abort')
    clearInterval(timer)
    print('cleaned up: ' + signal.reason.message)
    return 5
  } }],
}`,
  )
}

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-program-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

type Environment = Readonly<Record<string, string>>
const environment = (env: Environment) => ({ PATH: process.env['PATH'], ...env })

/** Runs the program until its end. */
function run(folder: string, args: readonly string[], env: Environment = {}, stdin = ''): Promise<Done> {
  return new Promise((resolve) => {
    const options = { cwd: folder, env: environment(env) }
    const child = execFile(process.execPath, [CLI, ...args], options, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out, err }),
    )
    child.stdin?.end(stdin)
  })
}

/** Starts the program. */
function spawnRowhouse(t: Test, folder: string, args: readonly string[], env: Environment = {}) {
  const child = spawn(process.execPath, [CLI, ...args], { cwd: folder, env: environment(env) })
  const ended = (once(child, 'close') as Promise<[number | null]>).then(([code]) => code)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const stop = (signal: NodeJS.Signals) => {
    endKeptConnections()
    child.kill(signal)
    return ended
  }
  t.teardown(() => (child.exitCode === null && child.signalCode === null ? stop('SIGTERM') : undefined))
  return { child, ended, stop, output: () => output }
}

/** Starts a command that serves, and waits until it says where and all that it has to say. */
async function start(t: Test, folder: string, args: readonly string[], env: Environment = {}) {
  const started = spawnRowhouse(t, folder, args, env)
  const { child, output } = started
  const url = () => /https?:\/\/127\.0\.0\.1:\d+/.exec(output())?.[0]
  await until('it serves', () => {
    if (child.exitCode !== null) throw new Error(`it did not start:\n${output()}`)
    const isWhole =
      (output().includes('Try, from this folder') && output().trimEnd().endsWith("'")) ||
      /without a database[^]*The admin secret/.test(output())
    return url() !== undefined && (args[0] !== 'dev' || isWhole)
  })
  return { ...started, url: url() as string }
}

async function post(url: string, query: object, secret = SECRET): Promise<unknown> {
  const body = JSON.stringify(query)
  const response = await fetch(`${url}/v1/query`, {
    method: 'POST',
    body,
    headers: { 'X-Service-Admin-Secret': secret },
  })
  return response.json()
}

function paste(folder: string, line: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    execFile('bash', ['-c', line], { cwd: folder }, (error, out) => (error ? reject(error) : resolve(JSON.parse(out))))
  })
}
