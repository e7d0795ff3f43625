import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freshDatabase } from '../kit/database.js'
import { environment, newFolder, spawnRowhouse, start } from '../kit/program.js'
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

t.test('Ctrl-C lets the command of a plugin clean up', async (t) => {
  const folder = await newFolder(t)
  await configure(folder, '')
  const waiting = spawnRowhouse(t, folder, ['wait'])
  await until('it waits', () => waiting.output().includes('waiting'))
  waiting.child.kill('SIGINT')
  t.equal(await waiting.ended, 5)
  t.equal(waiting.output(), 'waiting\ncleaned up: interrupted\n')

  const { url } = await freshDatabase(t)
  const psql = `#!${process.execPath}\nconsole.log('a prompt'); process.stdin.resume().on('end', () => process.exit(4))`
  await writeFile(join(folder, 'psql'), psql, { mode: 0o755 })
  const prompt = spawnRowhouse(t, folder, ['sql'], { PATH: folder, DATABASE_URL: url })
  await until('psql runs', () => prompt.output().includes('a prompt'))
  prompt.child.kill('SIGINT')
  prompt.child.kill('SIGINT')
  prompt.child.stdin.end()
  t.equal(await prompt.ended, 4, 'Ctrl-C is for psql')
})

t.test('a reader may stop early', async (t) => {
  const folder = await newFolder(t)
  const head = (...args: readonly string[]) =>
    new Promise<{ out: string; err: string }>((resolve) => {
      const script = '"$0" "$@" | head -n 1; echo "${PIPESTATUS[0]}"'
      const env = environment({})
      execFile(
        'bash',
        ['--norc', '-c', script, process.execPath, CLI, ...args],
        { cwd: folder, env },
        (_error, out, err) => resolve({ out, err }),
      )
    })

  t.match(await head('--help'), { out: /^rowhouse .*\n0\n$/, err: '' })
})
