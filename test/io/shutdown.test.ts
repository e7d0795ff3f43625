import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { inspectEmbedded, startEmbedded } from '../../providers/database/embedded/index.js'
import { rowsOf } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))
const SECRET = 'a secret for the tests of shutting down'
const LISTENING = `select count(*)::int as n from pg_stat_activity where application_name = 'rowhouse listen'`

t.test('a server that cannot LISTEN, as on a standby, keeps no connection for it, and ends', async (t) => {
  const dataDir = await newFolder(t)
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  t.teardown(() => cluster.stop())
  const before = await testServer(t, { databaseUrl: cluster.url })
  await before.close()
  const { cluster: found, server: running } = await inspectEmbedded(dataDir)
  // What is written is on the disk: this cluster commits without waiting for it.
  await rowsOf(cluster.url, 'checkpoint')
  await writeFile(join(found!.folder, 'data', 'standby.signal'), '')
  process.kill(running!.pid, 'SIGKILL')
  await until('it has ended', async () => (await inspectEmbedded(dataDir)).server === undefined)
  await cluster.restart()
  t.same(await rowsOf(cluster.url, 'select pg_is_in_recovery() as standby'), [{ standby: true }])

  const proxy = await startProxy(t, cluster.url)
  const server = await testServer(t, { databaseUrl: proxy.url })

  t.match((await server.fetch('/readyz')).body, {
    probes: [{ name: 'database' }, { name: 'metadata', detail: /LISTEN/ }],
  })
  await until('it has tried again', () => proxy.sentTimes('listen svc_catalog') >= 3)
  const listening = async () => (await rowsOf<{ n: number }>(cluster.url, LISTENING))[0]!.n
  await until('its connections have ended', async () => (await listening()) === 0)
  await server.close()
})

t.test('what holds the end longer than shutdownTimeoutMs is named, and the process ends with 1', async (t) => {
  const folder = await newFolder(t)
  const never = 'new Promise(() => setInterval(() => {}, 1000))'
  const cases: readonly [string, string, object, RegExp][] = [
    [
      'a close that never ends',
      `host.onClose(() => ${never})`,
      {},
      /plugin \\"slow\\" did not finish \\"close\\" within 1 s/,
    ],
    [
      'a drain that never ends',
      `host.onDrain(() => ${never})`,
      {},
      /plugin \\"slow\\" did not finish \\"drain\\" within 1 s/,
    ],
    ['a long drain', '', { drainDelayMs: 60_000 }, /http did not finish \\"drain\\" within 1 s/],
  ]
  for (const [what, code, http, named] of cases) {
    await writeFile(
      join(folder, 'slow.mjs'),
      `export default { name: 'slow', database: false, setup(host) { ${code} } }`,
    )
    const server = await start(t, folder, { shutdownTimeoutMs: 1000, http })
    t.equal(await server.stop('SIGTERM'), 1, what)
    const lines = server
      .output()
      .split('\n')
      .filter((line) => named.test(line))
    t.match(lines, [/^\{"level":"error"/], what)
    t.equal(lines.length, 1)
  }
})

t.test('a timer that a plugin leaves does not hold the end', async (t) => {
  const folder = await newFolder(t)
  await writeFile(
    join(folder, 'slow.mjs'),
    `export default { name: 'slow', database: false, setup() { setInterval(() => {}, 1000) } }`,
  )
  const server = await start(t, folder, {})
  t.equal(await server.stop('SIGTERM'), 0)
})

t.test('a server that npm started ends with npm, which does not pass SIGTERM on', async (t) => {
  const folder = await newFolder(t)
  const project = { scripts: { serve: `"${process.execPath}" "${CLI}" start --port 0` } }
  await writeFile(join(folder, 'package.json'), JSON.stringify(project))
  await writeFile(join(folder, 'slow.mjs'), `export default { name: 'slow', database: false, setup() {} }`)
  await configure(folder, {})
  const quiet = { npm_config_update_notifier: 'false', npm_config_audit: 'false' }
  const env = { PATH: process.env['PATH'], HOME: folder, ROWHOUSE_ADMIN_SECRET: SECRET, ...quiet }
  const npm = spawn('npm', ['run', 'serve'], { cwd: folder, env })
  let output = ''
  npm.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  // The streams end with the last process that has them.
  const closed = once(npm, 'close')
  await until('it listens', () => output.includes('"msg":"listening"'))
  npm.kill('SIGTERM')

  await closed
  t.match(output, /"by":"the end of npm".*\n(.*\n)*.*"stopped"/)
})

t.test(
  'a start that fails or hangs ends with 1, whatever a plugin left, and stops the PostgreSQL of dev',
  async (t) => {
    const cases: readonly [string, string, RegExp][] = [
      ['start', `throw new Error('boom')`, /plugin "slow" failed in "setup": boom/],
      ['start', 'return new Promise(() => {})', /plugin "slow" did not finish "setup" within 30 s/],
      ['dev', `throw new Error('boom')`, /plugin "slow" failed in "setup": boom/],
      ['start', `Promise.reject(new Error('boom')); return new Promise(() => {})`, /"plugin":"slow".*boom/],
      ['dev', `setTimeout(() => { throw new Error('boom') }); return new Promise(() => {})`, /"plugin":"slow".*boom/],
    ]
    await Promise.all(
      cases.map(async ([command, code, said]) => {
        const folder = await newFolder(t)
        const needs = command === 'dev' ? `needs: ['data']` : 'database: false'
        const plugin = `export default { name: 'slow', ${needs}, setup(host) { setInterval(() => {}, 1000); ${code} } }`
        await writeFile(join(folder, 'slow.mjs'), plugin)
        const child = await spawnRowhouse(t, folder, command, {})
        t.equal(await child.ended, 1, `${command}: ${code}`)
        t.match(child.output(), said)
        t.equal((await inspectEmbedded(join(folder, '.rowhouse'))).server, undefined, 'no PostgreSQL is left')
      }),
    )
  },
)

t.test(
  'what a plugin throws where nothing catches it is one line that names it; the server drains and ends with 1',
  async (t) => {
    const later = (code: string) => `host.router.get('/slow', async (ctx) => {
    setTimeout(() => { ${code} }, 0); await new Promise((resolve) => setTimeout(resolve, 1000)); ctx.body = 'done' })`
    const cases: readonly [string, RegExp][] = [
      [`throw new Error('boom')`, /uncaught error/],
      [`Promise.reject(new Error('boom'))`, /unhandled promise rejection/],
      [`setInterval(() => { throw new Error('boom') }, 10)`, /uncaught error/],
    ]
    for (const command of ['start', 'dev']) {
      for (const [code, said] of cases) {
        const folder = await newFolder(t)
        await writeFile(
          join(folder, 'slow.mjs'),
          `export default { name: 'slow', database: false, setup(host) { ${later(code)} } }`,
        )
        const server = await start(t, folder, {}, command)
        t.equal(await (await fetch(`${server.url()}/slow`)).text(), 'done', 'what is under way is answered')
        t.equal(await server.ended, 1)
        const lines = server
          .output()
          .split('\n')
          .filter((line) => line.includes('boom'))
        t.equal(lines.length, 1, server.output())
        t.match(JSON.parse(lines[0]!), { level: 'fatal', plugin: 'slow', msg: said, err: { stack: /slow\.mjs/ } })
      }
    }
  },
)

t.test('an operation of a plugin that never answers is cut, and what it began is rolled back', async (t) => {
  const folder = await newFolder(t)
  const file = join(folder, 'stuck.mjs')
  await writeFile(file, STUCK)
  const server = await testServer(t, {
    builtins: { stuck: new URL(`file://${file}`) },
    config: { database: { statementTimeoutMs: 1000, poolSize: 1 } },
  })
  await server.must('run_sql', { sql: 'create table note (id int primary key)' })
  await server.must('track_table', 'note')
  const insert = (id: number) => ({ type: 'insert', args: { table: 'note', objects: [{ id }] } })
  const timeout = { status: 504, body: { code: 'timeout', error: /^the operation "\w+" took longer than 1 s/ } }

  t.match(await server.query('wait', {}), timeout)
  t.match(await server.query('bulk', [insert(1), { type: 'wait', args: {} }]), {
    ...timeout,
    body: { ...timeout.body, path: '$.args[1]' },
  })
  t.match(await server.query('insert_and_wait', { id: 2 }), timeout)
  t.match(await server.query('wait_long', {}), { status: 200, body: 'waited' }, 'a plugin may allow more')
  t.same(await server.must('select', { table: 'note', columns: ['id'] }), [], 'nothing of it is there')
  await until('its connections are gone', async () => (await transactions(server.databaseUrl)) === 0)

  t.match(await server.query('bulk', [insert(3)]), { status: 200 }, 'and the pool has its connection')
})

t.test('a bulk whose client is gone gives its connection back, whatever its operations wait for', async (t) => {
  const folder = await newFolder(t)
  const file = join(folder, 'stuck.mjs')
  await writeFile(file, STUCK)
  const server = await testServer(t, { builtins: { stuck: new URL(`file://${file}`) } })
  const abort = new AbortController()
  const body = JSON.stringify({ type: 'bulk', args: [{ type: 'wait_for_ever', args: {} }] })
  const asked = server.fetch('/v1/query', { method: 'POST', body, signal: abort.signal })
  await until('it has begun', async () => (await transactions(server.databaseUrl)) === 1)

  abort.abort()

  await t.rejects(asked)
  await until('its connection is gone', async () => (await transactions(server.databaseUrl)) === 0)
})

const transactions = async (url: string): Promise<number> => {
  const sql = `select count(*)::int as n from pg_stat_activity
    where application_name = 'rowhouse main' and state like 'idle in transaction%' and datname = current_database()`
  const [row] = await rowsOf<{ n: number }>(url, sql)
  return row!.n
}

/** Operations that do not answer. */
const STUCK = `export default { name: 'stuck', needs: ['data'], setup(host) {
  const data = host.use('data')
  const never = () => new Promise(() => {})
  host.operation('wait', { run: never })
  host.operation('wait_for_ever', { timeoutMs: 0, run: never })
  host.operation('wait_long', { timeoutMs: 60_000, run: () =>
    new Promise((resolve) => setTimeout(resolve, 1500, { kind: 'text', text: '"waited"' })) })
  host.operation('insert_and_wait', { run: (args, call) => data.transaction(call, async ({ transaction }) => {
    await data.query('insert into note values ($1)', [args.id], transaction)
    await never()
  }) })
} }`

// What the tests need.

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-shutdown-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** `rowhouse start` or `dev` with the plugin of `slow.mjs` alone. */
async function configure(folder: string, config: object): Promise<void> {
  const off = { query: false, template: false, graphql: false, filestore: false, notify: false }
  const plugins = { ...off, slow: { use: './slow.mjs' } }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify({ ...config, plugins }))
}

async function spawnRowhouse(t: Test, folder: string, command: string, config: object) {
  await configure(folder, config)
  const env = { PATH: process.env['PATH'], ROWHOUSE_ADMIN_SECRET: SECRET }
  const child = spawn(process.execPath, [CLI, command, '--port', '0'], { cwd: folder, env })
  const ended = (once(child, 'close') as Promise<[number | null]>).then(([code]) => code)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  t.teardown(() => void child.kill('SIGKILL'))
  return { child, ended, output: () => output }
}

/** The same, once it listens. */
async function start(t: Test, folder: string, config: object, command = 'start') {
  const spawned = await spawnRowhouse(t, folder, command, config)
  const { child, ended, output } = spawned
  const url = () => /http:\/\/127\.0\.0\.1:\d+/.exec(output())?.[0]
  await until('it listens', () => {
    if (child.exitCode !== null) throw new Error(output())
    return url() !== undefined
  })
  return {
    ...spawned,
    url,
    stop(signal: NodeJS.Signals) {
      child.kill(signal)
      return ended
    },
  }
}
