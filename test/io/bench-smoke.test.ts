import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { testServer } from '../kit/server.js'
import { startProxy } from '../kit/proxy.js'

const BENCH = fileURLToPath(new URL('../../bench/run.js', import.meta.url))

t.test('the bench runs every scenario and checks the answers', async (t) => {
  const { code, out, err } = await new Promise<{ code: number; out: string; err: string }>((resolve) => {
    execFile(process.execPath, [BENCH, '--requests', '50', '--rounds', '1'], (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
    )
  })

  t.equal(code, 0, err)
  for (const id of ['a', 'b', 'c', 'd', 'g', 'h', 'i', 'n'])
    t.match(out, new RegExp(`### ${id}: [^]*?\\| rowhouse`), id)
  t.match(out, /not measured: postgraphile [\d.]+\S*, which --peers installs/, 'peers are installed for who asks')
})

t.test('the bench runs every curve and checks the answers', async (t) => {
  const ids = ['tables', 'roles', 'rows', 'nesting', 'clients', 'instances']
  const { code, out, err } = await new Promise<{ code: number; out: string; err: string }>((resolve) => {
    const args = ['--requests', '50', '--rounds', '1', '--only', ids.join(',')]
    execFile(process.execPath, [BENCH, ...args], (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
    )
  })

  t.equal(code, 0, err)
  for (const id of ids) t.match(out, new RegExp(`### ${id}: [^]*?\\| rowhouse`), id)
})

t.test('a read that was asked before is one round trip, without a transaction, a parse or a worker', async (t) => {
  const direct = await testServer(t)
  await direct.must('run_sql', {
    sql: 'create table row (id int primary key); insert into row values (1), (2), (3), (4)',
  })
  await direct.must('track_table', 'row')
  const proxy = await startProxy(t, direct.databaseUrl)
  const server = await testServer(t, { databaseUrl: proxy.url, threads: 1, config: { database: { poolSize: 1 } } })
  const read = (id: number) => server.query('select', { table: 'row', columns: ['id'], where: { id } })
  const compilations = async () => {
    const response = await fetch(`${server.url}/metrics`)
    return Object.fromEntries(
      [...(await response.text()).matchAll(/rowhouse_compilations_total\{by="(\w+)"\} (\d+)/g)].map(([, by, n]) => [
        by,
        Number(n),
      ]),
    )
  }
  for (const id of [1, 2, 3]) t.same((await read(id)).body, [{ id }])
  const before = await compilations()
  const begins = proxy.sentTimes('begin')
  const texts = proxy.sentTimes('array_to_json')

  t.same((await read(4)).body, [{ id: 4 }])

  t.same(await compilations(), { ...before, cache: (before['cache'] ?? 0) + 1 })
  t.equal(before['worker'], 1)
  t.equal(proxy.sentTimes('begin'), begins, 'no transaction')
  t.equal(proxy.sentTimes('array_to_json'), texts, 'no text to parse')
})
