import pg from 'pg'
import t, { type Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'

/** Tickets of users, of which few are open. */
async function tickets(t: Test, config: Readonly<Record<string, unknown>> = {}): Promise<TestServer> {
  const server = await testServer(t, { config })
  await server.must('run_sql', {
    sql: `create table "Ticket" (id int primary key, user_id int not null, org_id int, state text not null, due date not null,
        size int, body text);
      insert into "Ticket" select i, i % 1000, i % 500, case when i % 200 = 0 then 'open' else 'done' end,
        date '2026-01-01' + i % 365, i, repeat('x', 100) from generate_series(1, 20000) i;
      create index on "Ticket" (org_id);
      create table empty (id int primary key, user_id int);
      analyze "Ticket"`,
  })
  const select = (table: string, role: string, filter: object) => ({
    type: 'create_select_permission',
    args: { table, role, permission: { columns: '*', filter } },
  })
  const template = (name: string, where: object, more: object = {}) => ({
    type: 'create_query_template',
    args: { name, template: { type: 'select', args: { table: 'Ticket', columns: ['id'], where, ...more } } },
  })
  await server.must('bulk', [
    ...['Ticket', 'empty'].map((table) => ({ type: 'track_table', args: table })),
    select('Ticket', 'user', { user_id: 'X-Service-User-Id' }),
    select('Ticket', 'org', { org_id: 'X-Service-Org-Id' }),
    select('Ticket', 'clerk', {}),
    select('empty', 'user', { user_id: 'X-Service-User-Id' }),
    {
      type: 'create_update_permission',
      args: { table: 'Ticket', role: 'clerk', permission: { columns: ['state'], filter: {} } },
    },
    template('open', { state: 'open', due: { $lt: { param: 'before' } } }),
    // Half of the rows: no index helps.
    template('smaller', { size: { $lt: { param: 'size' } } }),
  ])
  return server
}

interface Advice {
  readonly sql: string
  readonly checked: string | null
  readonly reason?: string
  readonly bytes: number | null
  readonly updatable_by: readonly string[]
  readonly statements: readonly { name: string; role: string; calls: number | null; before: number; after: number }[]
}
const adviseAll = async (server: TestServer, args: object = {}): Promise<readonly Advice[]> =>
  (await server.must('advise_indexes', args)).advice

const OWN = 'create index concurrently on public."Ticket" (user_id)'
const indexes = (server: TestServer) => rowsOf(server.databaseUrl, 'select count(*) from pg_index')

t.test('indexes for filters and templates are proposed, and tried without leaving them', async (t) => {
  const server = await tickets(t)
  const before = await indexes(server)
  for (const _ of [1, 2, 3])
    await server.must('execute_query_template', { name: 'open', args: { before: '2026-02-01' } })

  const guessed = await adviseAll(server)
  const tried = await adviseAll(server, { try: true })

  t.same(
    guessed.map(({ sql, checked }) => [sql, checked]),
    [
      [OWN, null],
      ['create index concurrently on public."Ticket" (state)', null],
    ],
  )
  // Each process counts its own.
  const calls = PROCESSES === 1 ? 3 : Number
  t.match(guessed[1], { reason: /not checked/, statements: [{ name: 'template open', calls, before: null }] })
  const [open, own, ...others] = tried.toSorted((a, b) => (a.sql < b.sql ? -1 : 1))
  t.same(others, [])
  t.match(open, { sql: /\(state(, due)?\)$/, checked: 'created', bytes: Number, updatable_by: ['clerk'] })
  t.match(own, { sql: OWN, updatable_by: [] })
  const gain = own!.statements.find(({ name }) => name === 'filter of Ticket')
  t.match(gain, { role: 'user', calls: null })
  t.ok(gain!.after < gain!.before / 5)
  t.same(await indexes(server), before)
  await server.must('run_sql', { sql: 'create index on "Ticket" (user_id); create index on "Ticket" (state, due)' })
  t.same(await adviseAll(server, { try: true }), [])
  t.match(await server.must('advise_indexes', {}), { advice: [], without_statistics: ['empty'], left_out: 0 })
})

t.test('a locked table is not waited for, and what was not tried says why', async (t) => {
  const server = await tickets(t)
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin; update "Ticket" set size = 0 where id = 1')

  const [advice] = await adviseAll(server, { try: true })

  t.match(advice, { checked: null, reason: /lock/, statements: [{ before: null, after: null }] })
  await client.query('rollback')
})

t.test('slow statements count, and only admins get advice', async (t) => {
  const server = await tickets(t, { database: { slowQueryMs: 1 } })
  const where = { body: { $like: '%y%' }, due: '2026-03-01' }
  for (const _ of [1, 2])
    await server.query('select', { table: 'Ticket', columns: ['id', 'body'], where }, { role: 'clerk' })
  const { queries } = await server.must('slow_queries', {})
  const [found] = await rowsOf(server.databaseUrl, `select current_setting('server_version_num')::int as version`)

  const advice = await adviseAll(server, { try: true })

  const names = advice.flatMap(({ statements }) => statements.map(({ name }) => name))
  // It may have been fast.
  const isExpected = queries.length > 0 && (found as { version: number }).version >= 160_000
  t.equal(
    names.some((name) => name.startsWith('slow query')),
    isExpected,
  )
  t.match((await server.query('advise_indexes', {}, { role: 'clerk' })).body, { code: 'access-denied' })
  t.match((await server.query('advise_indexes', { try: 1 })).body, { path: '$.args.try' })
})
