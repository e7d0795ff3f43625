import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { inspectEmbedded } from '../../providers/database/embedded/index.js'
import { endKeptConnections } from '../kit/server.js'
import { until } from '../kit/until.js'

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))

t.test('rowhouse dev makes a database with the sample shop, keeps it, and leaves nothing running', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-smoke-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const isRunning = async () => (await inspectEmbedded(join(folder, '.rowhouse'))).server !== undefined

  const first = await dev(t, folder)
  t.match(first.output(), /Rowhouse runs at http:.* on embedded PostgreSQL \d+[^]*curl -s/)
  const orders = { type: 'select', args: { table: 'orders', columns: ['id'], limit: 3 } }
  t.equal((await first.ask(orders)).length, 3)
  t.match(
    await first.ask({
      type: 'insert',
      args: { table: 'product', objects: [{ sku: 'NEW-1', name: 'Teapot', category: 'kitchen', price: 1, stock: 3 }] },
    }),
    { affected_rows: 1 },
  )
  t.equal(await first.stop(), 0)
  t.equal(await isRunning(), false)

  const second = await dev(t, folder)
  const count = { type: 'count', args: { table: 'product', where: { sku: 'NEW-1' } } }
  t.same(await second.ask(count), { count: 1 }, 'the second start finds the data of the first')
  t.equal(await second.stop(), 0)
  t.equal(await isRunning(), false)
})

async function dev(t: Test, folder: string) {
  const env = { PATH: process.env['PATH'] }
  const child = spawn(process.execPath, [CLI, 'dev', '--port', '0'], { cwd: folder, env })
  const ended = once(child, 'exit').then(([code]) => code as number | null)
  t.teardown(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const url = () => /Rowhouse runs at (\S+) on/.exec(output)?.[1]
  await until('it runs', () => {
    if (child.exitCode !== null) throw new Error(output)
    return url() !== undefined
  })
  const secret = await readFile(join(folder, '.rowhouse/admin-secret'), 'utf8')
  return {
    output: () => output,
    async ask(body: object) {
      const headers = { 'X-Service-Admin-Secret': secret.trim() }
      const response = await fetch(`${url()}/v1/query`, { method: 'POST', headers, body: JSON.stringify(body) })
      return (await response.json()) as any
    },
    stop() {
      endKeptConnections()
      child.kill('SIGTERM')
      return ended
    },
  }
}
