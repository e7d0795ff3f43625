import pg from 'pg'
import t from 'tap'
import { migrate, pendingMigrations, type MigrationSet } from '../../core/host/migrate.js'
import { freshDatabase } from '../kit/database.js'

/** Connections to a database of its own. */
async function database(t: { teardown(fn: () => Promise<void>): void }) {
  const { url, drop } = await freshDatabase()
  const open: pg.Client[] = []
  t.teardown(async () => {
    await Promise.allSettled(open.map((client) => client.end()))
    await drop()
  })
  return async () => {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    open.push(client)
    await client.connect()
    return client
  }
}

const core = (...migrations: readonly (readonly [id: string, sql: string])[]): MigrationSet => ({
  owner: 'core',
  migrations: migrations.map(([id, sql]) => ({ id, sql })),
})
const ONE = ['001-one', 'create table svc_catalog.svc_one (id int)'] as const
const TWO = [
  '002-two',
  'create table svc_catalog.svc_two (id int); insert into svc_catalog.svc_two values (1)',
] as const

async function tables(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'svc_catalog' order by 1`,
  )
  return rows.map(({ name }) => name)
}

t.test('migrations run once, in order, and are recorded', async (t) => {
  const client = await (await database(t))()
  const notify = {
    owner: 'notify',
    migrations: [{ id: '001-one', sql: 'create table svc_catalog.svc_outbox (id int)' }],
  }

  const first = await migrate(client, [core(ONE, TWO), notify])
  const second = await migrate(client, [core(ONE, TWO), notify])

  t.same(first, [
    { owner: 'core', id: '001-one' },
    { owner: 'core', id: '002-two' },
    { owner: 'notify', id: '001-one' },
  ])
  t.same(second, [])
  t.same(await tables(client), ['svc_migration', 'svc_one', 'svc_outbox', 'svc_two'])
  const { rows } = await client.query<{ checksum: string }>('select * from svc_catalog.svc_migration')
  t.match(rows, [{ owner: 'core', id: '001-one', checksum: /^[0-9a-f]{64}$/, applied_at: Date }])
})

t.test('a new migration runs alone', async (t) => {
  const client = await (await database(t))()
  await migrate(client, [core(ONE)])

  t.same(await migrate(client, [core(ONE, TWO)]), [{ owner: 'core', id: '002-two' }])
})

t.test('what is pending can be asked without changing anything', async (t) => {
  const client = await (await database(t))()

  const before = await pendingMigrations(client, [core(ONE, TWO)])
  t.same(await tables(client), [])
  await migrate(client, [core(ONE)])
  const after = await pendingMigrations(client, [core(ONE, TWO)])

  t.same(
    before.map(({ id }) => id),
    ['001-one', '002-two'],
  )
  t.same(
    after.map(({ id }) => id),
    ['002-two'],
  )
})

t.test('a migration that fails leaves nothing of itself, keeps those before it, and is named', async (t) => {
  const client = await (await database(t))()
  const bad = ['002-bad', 'create table svc_catalog.svc_bad (id int); select 1 / 0'] as const

  await t.rejects(migrate(client, [core(ONE, bad)]), {
    message: 'migration "002-bad" of "core" failed: division by zero',
  })
  await t.rejects(migrate(client, [core(ONE, ['002-bad', 'select 1;\ncreate tabel x ()'])]), {
    message: 'migration "002-bad" of "core" failed: syntax error at or near "tabel" (line 2 of its SQL)',
  })

  t.same(await tables(client), ['svc_migration', 'svc_one'])
  t.same(await migrate(client, [core(ONE, TWO)]), [{ owner: 'core', id: '002-two' }])
})

t.test('a migration that has changed since it ran is refused', async (t) => {
  const client = await (await database(t))()
  await migrate(client, [core(ONE)])
  const changed = core([ONE[0], `${ONE[1]} -- changed`])

  const message = 'migration "001-one" of "core" was changed after it ran on this database'
  await t.rejects(migrate(client, [changed]), { message })
  await t.rejects(pendingMigrations(client, [changed]), { message })
})

t.test(
  'a database that a newer version has migrated is accepted, unless a migration breaks older versions',
  async (t) => {
    const client = await (await database(t))()
    const [id, sql] = TWO
    const three = { id: '003-three', sql: 'select 3', breaks: true as const }
    const two = { owner: 'core', migrations: [...core(ONE).migrations, { id, sql }] }
    await migrate(client, [two])

    t.same(await migrate(client, [core(ONE)]), [])
    t.same(await pendingMigrations(client, [core(ONE)]), [])

    await migrate(client, [{ owner: 'core', migrations: [...two.migrations, three] }])

    const message = 'this database was migrated by a newer version, which has the migration "003-three"'
    await t.rejects(migrate(client, [core(ONE)]), { message })
    await t.rejects(pendingMigrations(client, [two]), { message })
  },
)

t.test('a plugin is refused that a newer version of it has broken', async (t) => {
  const client = await (await database(t))()
  const plugin = (...migrations: { id: string; sql: string; breaks?: true }[]) => ({ owner: 'audit', migrations })
  const [first, second] = [
    { id: '1', sql: 'select 1' },
    { id: '2', sql: 'select 2' },
  ]
  await migrate(client, [core(ONE), plugin(first, second)])
  t.same(await migrate(client, [core(ONE), plugin(first)]), [])

  await migrate(client, [core(ONE), plugin(first, second, { id: '3', sql: 'select 3', breaks: true })])

  await t.rejects(migrate(client, [core(ONE), plugin(first)]), {
    message: 'this database was migrated by a newer version of the plugin "audit", which has the migration "3"',
  })
  t.same(await migrate(client, [core(ONE)]), [], 'unless it is not loaded')
})

t.test('migrations of a plugin that is not loaded are ignored', async (t) => {
  const client = await (await database(t))()
  const plugin = { owner: 'audit', migrations: [{ id: '900-late', sql: 'select 1' }] }
  await migrate(client, [core(ONE), plugin])

  t.same(await migrate(client, [core(ONE)]), [])
})

t.test('two migrations of one id are refused', async (t) => {
  const client = await (await database(t))()

  await t.rejects(migrate(client, [core(ONE, ONE)]), { message: 'there are two migrations "001-one" of "core"' })
})

t.test('processes that start at the same time migrate once', async (t) => {
  const connect = await database(t)
  const clients = await Promise.all([connect(), connect(), connect(), connect()])

  const done = await Promise.all(clients.map((client) => migrate(client, [core(ONE, TWO)])))

  t.same(done.map(({ length }) => length).toSorted(), [0, 0, 0, 2])
})

t.test('one that waits says so, and goes on when the other is gone', async (t) => {
  const connect = await database(t)
  const [busy, client, killer] = await Promise.all([connect(), connect(), connect()])
  const { rows } = await busy.query<{ pid: number }>('select pg_backend_pid() as pid')
  const started = new Promise<void>((resolve) => {
    const endless = migrate(busy, [core(['001-endless', 'select pg_sleep(600)'])], () => resolve())
    void t.rejects(endless, { message: /^migration "001-endless" of "core" failed/ })
  })
  await started

  const messages: string[] = []
  const done = await migrate(client, [core(ONE)], (message) => {
    messages.push(message)
    if (messages.length === 1) void killer.query('select pg_terminate_backend($1)', [rows[0]?.pid])
  })

  t.same(messages, ['waiting for another process that is migrating this database', 'migrating core 001-one'])
  t.equal(done.length, 1)
})

t.test('killed at any statement, it goes on where it was', async (t) => {
  const total = await statementsOf(t, [core(ONE, TWO)])
  t.ok(total > 8, 'there are statements to be killed at')

  for (let at = 1; at <= total; at++) {
    const connect = await database(t)
    const victim = await connect()
    killAt(victim, at, await connect())
    await t.rejects(
      migrate(victim, [core(ONE, TWO)]).then(() => victim.query('select 1')),
      `killed at statement ${at}`,
    )

    const client = await connect()
    await migrate(client, [core(ONE, TWO)])

    t.same(await tables(client), ['svc_migration', 'svc_one', 'svc_two'], `statement ${at}`)
    const { rows } = await client.query('select * from svc_catalog.svc_two')
    t.equal(rows.length, 1, `the second migration ran once, killed at statement ${at}`)
  }
})

/** How many statements an undisturbed run has. */
async function statementsOf(t: { teardown(fn: () => Promise<void>): void }, sets: readonly MigrationSet[]) {
  const client = await (await database(t))()
  let count = 0
  onStatement(client, async () => void count++)
  await migrate(client, sets)
  return count
}

/** Ends the connection just before its n-th statement is sent. */
function killAt(victim: pg.Client, nth: number, killer: pg.Client): void {
  let count = 0
  onStatement(victim, async () => {
    if (++count !== nth) return
    const { rows } = await victim.query<{ pid: number }>('select pg_backend_pid() as pid')
    await killer.query('select pg_terminate_backend($1, 60000)', [rows[0]?.pid])
  })
}

function onStatement(client: pg.Client, before: () => Promise<void>): void {
  const query = client.query.bind(client) as (...args: readonly unknown[]) => Promise<unknown>
  let inside = false
  const wrapped = async (...args: readonly unknown[]) => {
    if (inside) return query(...args)
    inside = true
    await before().finally(() => (inside = false))
    return query(...args)
  }
  Object.assign(client, { query: wrapped })
}
