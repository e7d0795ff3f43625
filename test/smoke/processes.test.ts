import t from 'tap'
import { databaseForServer, rowsOf } from '../kit/database.js'
import { ADMIN_SECRET } from '../kit/server.js'
import { serverProcess } from '../kit/server-process.js'
import { until } from '../kit/until.js'

const COUNT = { type: 'count', args: { table: 'note' } }

t.test('a server that has to end answers what is in progress first', async (t) => {
  const database = await databaseForServer(t)
  const server = await serverProcess(t, database.url)
  await rowsOf(database.url, 'create view slow as select pg_sleep(0.5)::text as slept')
  await must(server.url, 'track_table', 'slow')
  const slow = { type: 'select', args: { table: 'slow', columns: ['slept'] } }
  const running = `select count(*)::int as n from pg_stat_activity where query like '%"slow"%' and state = 'active' and pid <> pg_backend_pid()`

  const asked = Array.from({ length: 5 }, () => ask(server.url, slow))
  await until('they run', async () => (await rowsOf<{ n: number }>(database.url, running))[0]!.n > 0)
  const ended = server.stop()

  const answers = await Promise.all(asked)
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  )
  t.equal(await ended, 0)
  await t.rejects(ask(server.url, COUNT), 'nobody listens any more')
})

t.test('a server that is killed has stored what it acknowledged, and no half of a bulk', async (t) => {
  const database = await databaseForServer(t)
  const first = await serverProcess(t, database.url)
  await must(first.url, 'run_sql', { sql: 'create table note (id int primary key, half int not null)' })
  await must(first.url, 'track_table', 'note')
  const pair = (n: number) =>
    [0, 1].map((half) => ({ type: 'insert', args: { table: 'note', objects: [{ id: 2 * n + half, half: n }] } }))
  const acknowledged: number[] = []
  const writer = async (from: number) => {
    for (let n = from; ; n += 4) {
      const response = await ask(first.url, { type: 'bulk', args: pair(n) }).catch(() => undefined)
      if (response?.status !== 200) return
      acknowledged.push(n)
    }
  }

  const writers = [0, 1, 2, 3].map(writer)
  await until('some are stored', () => acknowledged.length > 40)
  await first.kill()
  await Promise.all(writers)
  const second = await serverProcess(t, database.url)

  const select = { type: 'select', args: { table: 'note', columns: ['half'], order_by: ['id'] } }
  const rows = (await (await ask(second.url, select)).json()) as { half: number }[]
  const count = (n: number) => rows.filter(({ half }) => half === n).length
  t.same(
    acknowledged.filter((n) => count(n) !== 2),
    [],
    'what was acknowledged is there',
  )
  t.same(
    rows.map(({ half }) => half).filter((n) => count(n) !== 2),
    [],
    'the rest as a whole or not at all',
  )
})

t.test('two processes serve one port with one metadata, and one that dies is replaced', async (t) => {
  const database = await databaseForServer(t)
  const server = await serverProcess(t, database.url, { args: ['--processes', '2'] })
  const times = (text: string) => server.log().split(text).length - 1
  await until('both listen', () => times('"msg":"listening"') === 2)
  await must(server.url, 'run_sql', { sql: 'create table note (id int primary key)' })
  await must(server.url, 'track_table', 'note')

  // Each request has a connection of its own, so the processes take turns.
  for (let i = 0; i < 6; i++) {
    await until('the table is tracked in both', async () => (await ask(server.url, COUNT)).status === 200)
  }
  process.kill(server.children()[0]!, 'SIGKILL')

  await until('there are two again', () => times('"msg":"listening"') === 3)
  t.equal(times('"msg":"a process ended; replacing it"'), 1)
  for (let i = 0; i < 6; i++) t.equal((await ask(server.url, COUNT)).status, 200)
  t.equal(await server.stop(), 0)
})

/** A request on a connection of its own. */
const ask = (url: string, body: object) =>
  fetch(`${url}/v1/query`, {
    method: 'POST',
    headers: { 'x-service-admin-secret': ADMIN_SECRET, connection: 'close' },
    body: JSON.stringify(body),
  })

async function must(url: string, type: string, args: unknown): Promise<void> {
  const response = await ask(url, { type, args })
  if (!response.ok) throw new Error(await response.text())
}
