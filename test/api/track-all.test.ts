import pg from 'pg'
import t, { type Test } from 'tap'
import { survey } from '../../core/catalog/survey.js'
import { freshDatabase } from '../kit/database.js'
import { testServer, type TestServer } from '../kit/server.js'

const named = (report: Report) =>
  report.relationships.map(({ table, name, type, to }) => `${text(table)}.${name} ${type} ${text(to)}`)
const text = (name: Name) => (typeof name === 'string' ? name : `${name.schema}.${name.name}`)

type Name = string | { readonly schema: string; readonly name: string }
interface Report {
  readonly counts: Record<string, number>
  readonly tables: readonly Name[]
  readonly relationships: readonly { table: Name; name: string; type: string; to: Name }[]
  readonly functions: readonly Name[]
  readonly left_out: readonly { name: string; reason: string }[]
  readonly not_in_graphql: readonly string[]
  readonly remove: readonly { name: string; reason: string }[]
}

async function server(t: Test, sql: string): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql })
  return server
}

t.test('track_all leaves out what belongs to extensions', async (t) => {
  const { must } = await server(
    t,
    `create extension pg_stat_statements; create table a (id int);
     create function stats() returns setof pg_stat_statements language sql stable as 'select * from pg_stat_statements'`,
  )

  const report = (await must('track_all', {})) as Report

  t.strictSame(report.tables, ['a'])
  t.match(report.left_out, [
    { name: 'table pg_stat_statements', reason: 'belongs to the extension "pg_stat_statements"' },
    { name: 'table pg_stat_statements_info' },
    { name: 'function stats', reason: /does not return rows of a tracked table/ },
  ])
})

t.test('a survey names the reason when the database login may not use a table', async (t) => {
  const { url } = await freshDatabase(t)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  t.teardown(() => client.end())
  await client.query(`create table open (id int); create table closed (id int); create table half (id int, secret text);
    create schema shut; create table shut.open (id int);
    grant select on open, shut.open to pg_monitor; grant select (id) on half to pg_monitor; set role pg_monitor`)

  const { tables } = await survey(client)

  const closed = 'the database login of the server has no privileges on it'
  t.strictSame(
    tables.map(({ schema, name, reason }) => [`${schema}.${name}`, reason]),
    [
      ['public.closed', closed],
      ['public.half', null],
      ['public.open', null],
      ['shut.open', closed],
    ],
  )
})

t.test('relationships never fail for want of a name', async (t) => {
  const long = 'x'.repeat(60)
  const { must } = await server(
    t,
    `create table parent (id int primary key, orders int, "orders_by_parent" int);
     create table orders (id int primary key, parent_id int references parent, parent text, parent_by_parent text);
     create table ${long}_id (id int primary key);
     create table b (${long}_id int references ${long}_id, "é" int references parent);
     create table a (id int primary key references parent, id2 int);
     alter table a add foreign key (id) references parent;
     alter table a add foreign key (id2) references parent`,
  )

  const report = (await must('track_all', {})) as Report

  const names = named(report)
  t.ok(names.includes('orders.parent_by_parent_2 object parent'), names.join('\n'))
  t.ok(names.includes('parent.orders_by_parent_2 array orders'), names.join('\n'))
  t.ok(report.relationships.every(({ name }) => Buffer.byteLength(name) <= 63))
  t.same((await must('get_inconsistent_metadata', {})).inconsistent_objects, [])
})
