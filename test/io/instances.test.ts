import pg from 'pg'
import t from 'tap'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { type TestServer, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

type Tap = Parameters<typeof testServer>[0]

const AS_USER = { role: 'user', variables: { 'x-service-user-id': '1' } }
const CHANGES = 60

t.test('two instances change metadata at the same time and none of the changes is lost', async (t) => {
  const { instances, database } = await start(t)
  const versionBefore = await version(database)

  const changes = instances.map(async ({ query }, instance) => {
    for (let i = 0; i < CHANGES; i++) {
      const permission = { columns: ['id'], filter: { id: i } }
      const { status } = await query('create_select_permission', {
        table: 'note',
        role: `r${instance}-${i}`,
        permission,
      })
      if (status !== 200) throw new Error(`instance ${instance} change ${i}: ${status}`)
    }
  })
  await Promise.all(changes)

  const roles = Array.from({ length: CHANGES }, (_, i) => [`r0-${i}`, `r1-${i}`]).flat()
  t.same((await storedRoles(database)).sort(), [...roles, 'user'].sort())
  t.equal((await version(database)) - versionBefore, BigInt(2 * CHANGES), 'each counts once')
  for (const { query } of instances) {
    await until('both hold every change', async () => {
      const state = (await query('dump_internal_state', {})).body
      return state.version === String(await version(database)) && rolesOf(state).length === roles.length + 1
    })
  }
  const [first, second] = await Promise.all(
    instances.map(async ({ must }) => rolesOf(await must('dump_internal_state', {}))),
  )
  t.same(first, second)
})

t.test('a permission narrowed on one instance is enforced on the other', async (t) => {
  const { instances, database } = await start(t)
  const [one, other] = instances

  await t.test('when the notification arrives', async (t) => {
    t.same((await notes(other)).body, [
      { id: 1, text: 'mine' },
      { id: 2, text: 'secret' },
    ])
    const heard = await listen(t, database)

    await narrow(one, { id: 1 })

    await until('the other one has heard', async () => (await notes(other)).text === '[{"id":1,"text":"mine"}]')
    t.same(heard(), [String(await version(database))], 'one change is one notification with the new version')
  })
  await t.test('when the connection that listens was killed', async (t) => {
    const killed = await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'rowhouse listen'`,
    )
    t.equal(killed.rowCount, 2)

    await narrow(one, { id: 2 })

    await until('the other one has asked', async () => (await notes(other)).text === '[{"id":2,"text":"secret"}]')
  })
  await t.test('and both listen again', async () => {
    await until('two connections listen', async () => {
      const { rows } = await database.query(
        `select count(*)::int as n from pg_stat_activity
         where datname = current_database() and application_name = 'rowhouse listen'`,
      )
      return rows[0].n === 2
    })
  })
  await t.test('and a role that lost its permission is refused', async (t) => {
    await one.must('drop_select_permission', { table: 'note', role: 'user' })

    await until('the other one refuses', async () => (await notes(other)).status === 400)
    t.match((await notes(other)).body, { code: 'permission-denied', path: '$.args.table' })
  })
})

/** Replaces the filter in one transaction, so that there is no moment without a permission. */
async function narrow({ must }: TestServer, filter: object): Promise<void> {
  const args = { table: 'note', role: 'user' }
  await must('bulk', [
    { type: 'drop_select_permission', args },
    { type: 'create_select_permission', args: { ...args, permission: { columns: '*', filter } } },
  ])
}

const notes = ({ query }: TestServer) =>
  query('select', { table: 'note', columns: ['id', 'text'], order_by: 'id' }, AS_USER)

async function start(t: Tap) {
  const { url } = await freshDatabase(t)
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(
    `create table note (id int primary key, text text); insert into note values (1, 'mine'), (2, 'secret')`,
  )
  const one = await testServer(t, { databaseUrl: url })
  const other = await testServer(t, { databaseUrl: url })
  await one.must('track_table', 'note')
  const permission = { columns: '*', filter: {} }
  await one.must('create_select_permission', { table: 'note', role: 'user', permission })
  await until('the other one knows', async () => (await notes(other)).status === 200)
  return { instances: [one, other] as const, database }
}

async function version(database: pg.Client): Promise<bigint> {
  const { rows } = await database.query<{ version: string }>('select version::text from svc_catalog.svc_version')
  return BigInt(rows[0]?.version ?? 0)
}

async function storedRoles(database: pg.Client): Promise<string[]> {
  const { rows } = await database.query<{ role_name: string }>('select role_name from svc_catalog.svc_permission')
  return rows.map(({ role_name: role }) => role)
}

const rolesOf = (state: { tables: { name: string; permissions: { role: string }[] }[] }): string[] =>
  state.tables
    .filter(({ name }) => name === 'note')
    .flatMap(({ permissions }) => permissions.map(({ role }) => role))
    .sort()

/** What is notified from now on. */
async function listen(t: Tap, { host, port, database, user, password }: pg.Client): Promise<() => string[]> {
  const client = new pg.Client({
    host,
    port,
    ...(database ? { database } : {}),
    ...(user ? { user } : {}),
    ...(password ? { password } : {}),
  })
  const heard: string[] = []
  client.on('notification', ({ payload }) => heard.push(payload ?? ''))
  await client.connect()
  t.teardown(() => client.end())
  await client.query('listen svc_catalog')
  return () => heard
}

t.test('reload_metadata reads the database again on the other instance, too', async (t) => {
  const { instances, database } = await start(t)
  const [one, other] = instances
  const columns = { table: 'note', columns: ['id', 'author'], where: { id: 1 } }
  await database.query('alter table note add author text')
  t.equal((await other.query('select', columns)).status, 400)

  await one.must('reload_metadata', {})

  t.same(await one.must('select', columns), [{ id: 1, author: null }])
  await until('the other one has heard', async () => (await other.query('select', columns)).status === 200)
})

t.test('a database that has gone back in time is followed', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table note (id int primary key)' })
  await server.must('track_table', 'note')
  await server.must('create_select_permission', {
    table: 'note',
    role: 'user',
    permission: { columns: '*', filter: {} },
  })
  const read = async () => (await server.query('select', { table: 'note', columns: ['id'] }, { role: 'user' })).status
  t.equal(await read(), 200)
  await rowsOf(server.databaseUrl, 'update svc_catalog.svc_version set version = 1')
  await server.must('drop_select_permission', { table: 'note', role: 'user' })
  t.equal(await read(), 400, 'a permission that was dropped is gone at once')
  await server.must('create_select_permission', {
    table: 'note',
    role: 'user',
    permission: { columns: '*', filter: {} },
  })
  t.equal(await read(), 200)
})
