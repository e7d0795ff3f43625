import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { until } from '../kit/until.js'

import { environment, newFolder, run, spawnRowhouse, start } from '../kit/program.js'

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
