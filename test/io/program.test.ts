import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { environment, newFolder, run, spawnRowhouse, start } from '../kit/program.js'
import { configure, SLOW } from '../kit/slow-plugin.js'
import { until } from '../kit/until.js'

// What only the program itself can show: its exit code, its signals, its streams, and its own child processes.

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))

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
