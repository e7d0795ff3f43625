import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { freshDatabase } from '../../kit/database.js'
import { testServer } from '../../kit/server.js'

const TABLES = 500
const LOOPS = 8

t.test('a busy machine does not shorten the deadline of compilations on a large catalog', async (t) => {
  const { url } = await freshDatabase(t)
  const server = await testServer(t, { databaseUrl: url, config: { compile: { threads: 1, timeoutMs: 250 } } })
  const tables = Array.from({ length: TABLES }, (_, i) => `t${i}`)
  await server.must('run_sql', {
    sql: tables
      .map((name) => `create table ${name} (id int primary key, up int references ${name}, note text);`)
      .join(''),
  })
  await server.must('bulk', [
    ...tables.map((name) => ({ type: 'track_table', args: name })),
    ...tables.map((table) => ({
      type: 'create_object_relationship',
      args: { table, name: 'parent', using: { foreign_key_constraint_on: 'up' } },
    })),
  ])
  const loops = Array.from({ length: LOOPS }, () => spawn(process.execPath, ['-e', 'for (;;);']))
  const ended = loops.map((loop) => once(loop, 'exit'))
  t.teardown(async () => {
    for (const loop of loops) loop.kill('SIGKILL')
    await Promise.all(ended)
  })

  const statuses: number[] = []
  for (let round = 0; round < 4; round++) {
    // Each change of metadata empties the cache and has the worker read a new catalog.
    await server.must('untrack_table', { table: `t${TABLES - 1 - round}`, cascade: true })
    for (let i = 0; i < 5; i++) {
      const table = `t${round * 5 + i}`
      const columns = ['id', { name: 'parent', columns: ['id', { name: 'parent', columns: ['note'] }] }]
      statuses.push((await server.query('select', { table, columns, limit: 2 })).status)
      const query = `{ ${table}(limit: 2) { id parent { id parent { note } } } }`
      const { status, text } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })
      statuses.push(text.includes('compile-failed') ? 503 : status)
    }
  }

  t.same(
    statuses,
    Array.from({ length: 40 }, () => 200),
  )
})
