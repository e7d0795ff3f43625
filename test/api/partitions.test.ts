import t, { type Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { testServer, type TestServer } from '../kit/server.js'

const TABLES = `
  create table place (id int not null, day int not null, owner int, near_id int, near_day int,
    primary key (id, day), foreign key (near_id, near_day) references place) partition by range (day);
  create table visit (id int not null, place_id int, place_day int,
    primary key (id, place_day), foreign key (place_id, place_day) references place) partition by range (place_day);
  create table note (id int primary key, place_id int, place_day int, foreign key (place_id, place_day) references place);`

const PARTITIONS = `
  create table place_1 partition of place for values from (0) to (10);
  create table visit_1 partition of visit for values from (0) to (10);`

const ROWS = `
  insert into place values (1, 1, 7, null, null), (2, 1, 8, 1, 1);
  insert into visit values (1, 1, 1), (2, 2, 1);
  insert into note values (1, 1, 1), (2, 2, 1);`

/** What may happen to partitions while a server runs. After each step nothing that is tracked may have changed. */
const STEPS: readonly string[] = [
  'create table place_2 partition of place for values from (10) to (20)',
  'create table place_3 (like place including all); alter table place attach partition place_3 for values from (20) to (30)',
  'create table place_4 partition of place for values from (30) to (50) partition by range (day)',
  'create table place_41 partition of place_4 for values from (30) to (40)',
  `create table visit_2 (like visit including all, foreign key (place_id, place_day) references place);
   alter table visit attach partition visit_2 for values from (10) to (20)`,
  'alter table place detach partition place_2',
  'drop table place_2',
  'alter table place detach partition place_3; drop table place_3',
  'alter table visit detach partition visit_2',
  'drop table visit_2',
]

const REFERENCES = { foreign_key_constraint_on: ['place_id', 'place_day'] }
const referencesOf = (table: string, columns = ['place_id', 'place_day']) => ({
  foreign_key_constraint_on: { table, columns },
})

const track = (table: string) => ({ type: 'track_table', args: table })
const relate = (type: 'object' | 'array', table: string, name: string, using: object) => ({
  type: `create_${type}_relationship`,
  args: { table, name, using },
})
const permit = (table: string, filter: object) => ({
  type: 'create_select_permission',
  args: { table, role: 'user', permission: { columns: ['id'], filter } },
})

const METADATA = [
  ...['place', 'visit', 'note'].map(track),
  relate('object', 'note', 'place', REFERENCES),
  relate('object', 'visit', 'place', REFERENCES),
  relate('object', 'place', 'near', { foreign_key_constraint_on: ['near_id', 'near_day'] }),
  relate('array', 'place', 'notes', referencesOf('note')),
  relate('array', 'place', 'visits', referencesOf('visit')),
  relate('array', 'place', 'near_by', referencesOf('place', ['near_id', 'near_day'])),
  permit('place', { owner: 'X-Service-User-Id' }),
  permit('visit', { place: { owner: 'X-Service-User-Id' } }),
  permit('note', { place: { owner: 'X-Service-User-Id' } }),
]

/** Relationships both ways resolve, a role sees what is its own, and the export can be applied. */
async function assertServed(t: Test, server: TestServer): Promise<void> {
  const user = { role: 'user', variables: { 'x-service-user-id': '7' } }
  const select = (table: string) => server.query('select', { table, columns: ['id'] }, user)
  t.same((await server.must('get_inconsistent_metadata', {})).inconsistent_objects, [])
  for (const table of ['place', 'visit', 'note'])
    t.same((await select(table)).body, [{ id: 1 }], `the role reads ${table}`)
  t.same(
    await server.must('select', {
      table: 'place',
      columns: ['id', ...['near', 'near_by', 'notes', 'visits'].map((name) => ({ name, columns: ['id'] }))],
      order_by: '+id',
    }),
    [
      { id: 1, near: null, near_by: [{ id: 2 }], notes: [{ id: 1 }], visits: [{ id: 1 }] },
      { id: 2, near: { id: 1 }, near_by: [], notes: [{ id: 2 }], visits: [{ id: 2 }] },
    ],
  )
  t.same(
    await server.must('select', {
      table: 'visit',
      columns: ['id', { name: 'place', columns: ['id'] }],
      order_by: '+id',
    }),
    [
      { id: 1, place: { id: 1 } },
      { id: 2, place: { id: 2 } },
    ],
  )
}

t.test('tables that have partitions already can be related, and the export of that applied', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: TABLES + PARTITIONS + ROWS })

  await server.must('bulk', METADATA)

  await assertServed(t, server)
  await server.must('replace_metadata', await server.must('export_metadata', {}))
  await assertServed(t, server)
})

t.test('what run_sql does to partitions leaves relationships and permissions alone', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: TABLES })
  await server.must('bulk', METADATA)
  await server.must('run_sql', { sql: PARTITIONS + ROWS })
  const exported = await server.must('export_metadata', {})

  for (const sql of STEPS) {
    t.comment(sql)
    await server.must('run_sql', { sql })
    await assertServed(t, server)
  }

  t.same(await server.must('export_metadata', {}), exported)
})

t.test('what others do to partitions leaves relationships and permissions alone', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: TABLES })
  await server.must('bulk', METADATA)
  await rowsOf(server.databaseUrl, PARTITIONS + ROWS)
  const exported = await server.must('export_metadata', {})

  for (const sql of STEPS) {
    t.comment(sql)
    await rowsOf(server.databaseUrl, sql)
    await server.must('reload_metadata', {})
    await assertServed(t, server)
    await server.must('replace_metadata', exported)
  }

  await assertServed(t, server)
})

t.test('a partition that is tracked itself has the foreign keys of its table', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: TABLES + PARTITIONS + ROWS })
  await server.must('bulk', METADATA)

  await server.must('bulk', [
    ...['place_1', 'visit_1'].map(track),
    relate('object', 'visit_1', 'place', REFERENCES),
    relate('array', 'place', 'visits_1', referencesOf('visit_1')),
    relate('object', 'place_1', 'near', { foreign_key_constraint_on: ['near_id', 'near_day'] }),
  ])

  const read = async () => ({
    visits: await server.must('select', {
      table: 'visit_1',
      columns: ['id', { name: 'place', columns: ['id'] }],
      order_by: '+id',
    }),
    places: await server.must('select', {
      table: 'place_1',
      columns: ['id', { name: 'near', columns: ['id'] }],
      order_by: '+id',
    }),
  })
  const all = {
    visits: [1, 2].map((id) => ({ id, place: { id } })),
    places: [
      { id: 1, near: null },
      { id: 2, near: { id: 1 } },
    ],
  }
  t.same(await read(), all)
  await server.must('run_sql', { sql: 'alter table visit detach partition visit_1' })
  t.same(await read(), all, 'detached, it keeps them')
  await server.must('run_sql', { sql: 'alter table visit attach partition visit_1 for values from (0) to (10)' })
  t.same(await read(), all, 'attached again')
  await server.must('replace_metadata', await server.must('export_metadata', {}))
  await assertServed(t, server)
})
