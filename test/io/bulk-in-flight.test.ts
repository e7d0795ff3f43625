import pg from 'pg'
import t from 'tap'
import { freshDatabase } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
import { patience } from '../kit/patience.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

const { url } = await freshDatabase(t)
const database = new pg.Client(url)
await database.connect()
t.teardown(() => database.end())
const proxy = await startProxy(t, url)
const MAIL = {
  notify: true,
  providers: { email: { memory: new URL('../../providers/email/memory.js', import.meta.url) } },
}
const CATCHER = { providers: { email: { default: 'memory', memory: {} } } }
const server = await testServer(t, { databaseUrl: proxy.url, ...MAIL, config: CATCHER })
await database.query(`create table first (id int primary key); create table second (id int primary key, n int);
  create table third (id int primary key); create table fourth (id int primary key)`)
for (const table of ['first', 'second']) await server.must('track_table', table)

const insert = (table: string, object: object, more: object = {}) => ({
  ...more,
  type: 'insert',
  args: { table, objects: [object], returning: ['id'] },
})
const mail = {
  type: 'send_email',
  args: { to: 'ann@example.com', from: 'shop@example.com', sub: 'Hello', text: 'Hello' },
}
/** Runs `fn` while statements wait that write to `first`. */
async function whileLocked(fn: () => Promise<unknown>): Promise<void> {
  await database.query('begin; lock table first in exclusive mode')
  await fn()
  await database.query('commit')
}

t.test('a bulk sends a member before the one before it has answered', async (t) => {
  let answer: ReturnType<typeof server.query> | undefined
  await whileLocked(async () => {
    answer = server.query('bulk', [insert('first', { id: 1 }), insert('second', { id: 1 }), mail])
    await until('the second is sent', async () => proxy.sentTimes('into "public"."second"') === 1)
    await until('the mail is sent', async () => proxy.sentTimes('insert into svc_catalog.svc_outbox ') === 1)
  })

  t.match(await answer, {
    status: 200,
    text: /^\[{"affected_rows":1,"returning":\[{"id":1}\]},{"affected_rows":1,"returning":\[{"id":1}\]},{"id":/,
  })
})

t.test('a member with a reference waits', async (t) => {
  let answer: ReturnType<typeof server.query> | undefined
  const sent = proxy.sentTimes('"n"')
  await whileLocked(async () => {
    const second = insert('second', { id: 2, n: { $ref: 'one.returning[0].id' } })
    answer = server.query('bulk', [insert('first', { id: 2 }, { as: 'one' }), second])
    await until('the first waits', async () => {
      const { rows } = await database.query<{ n: number }>('select count(*)::int as n from pg_locks where not granted')
      return rows[0]!.n === 1
    })
    t.equal(proxy.sentTimes('"n"'), sent)
  })

  t.match(await answer, { status: 200 })
  t.match(await server.query('select', { table: 'second', columns: ['n'], where: { id: 2 } }), { body: [{ n: 2 }] })
})

t.test('the answer has the first of several errors, and nothing is stored', async (t) => {
  const members = [insert('second', { id: 3 }), insert('first', { id: 1 }), insert('second', { id: 1 })]
  const none = { type: 'insert', args: { table: 'none', objects: [] } }

  for (const all of [members, [...members, none]]) {
    t.match(await server.query('bulk', all), {
      status: 400,
      body: { error: /^Uniqueness/, path: /^\$\.args\[1\]/ },
    })
  }
  const track = ['third', 'fourth'].map((table) => ({ type: 'track_table', args: table }))
  t.match(await server.query('bulk', [insert('first', { id: 1 }), ...track]), {
    status: 400,
    body: { error: /^Uniqueness/, path: /^\$\.args\[0\]/ },
  })
  t.match(await server.query('bulk', [members[0]!, none]), { status: 400, body: { path: /^\$\.args\[1\]/ } })
  t.equal((await server.query('count', { table: 'second', where: { id: 3 } })).text, '{"count":0}')
  t.match(
    await server.query(
      'bulk',
      Array.from({ length: 100 }, (_, i) => insert('second', { id: 10 + i })),
    ),
    { status: 200 },
  )
})

t.test('the time of a member does not count for those after it', async (t) => {
  const limit = 2 * Math.round(patience(1000))
  const slow = await testServer(t, {
    databaseUrl: url,
    ...MAIL,
    config: { ...CATCHER, database: { statementTimeoutMs: limit, slowQueryMs: limit / 2 } },
  })
  await database.query(`create view sleeper as select 1 as id, pg_sleep(${0.6 * limit} / 1000.0)::text as text`)
  await slow.must('track_table', 'sleeper')
  const read = { type: 'select', args: { table: 'sleeper', columns: ['text'] } }

  const answer = await slow.query('bulk', [read, read, mail])

  t.match(answer, { status: 200 })
  await slow.must('track_table', { schema: 'svc_catalog', name: 'svc_outbox' })
  await slow.must('create_query_template', { name: 'mail', template: { type: 'bulk', args: [mail] } })
  const byTemplate = { type: 'execute_query_template', args: { name: 'mail', args: {} } }
  t.match(await slow.query('bulk', [read, read, byTemplate]), { status: 200 })
  await slow.must('bulk', [read, { type: 'count', args: { table: 'second' } }])
  const { queries } = await slow.must('slow_queries', {})
  t.ok(queries.some(({ sql }: { sql: string }) => sql.includes('"sleeper"')))
  t.notOk(queries.some(({ sql }: { sql: string }) => sql.includes('"second"')))
})
