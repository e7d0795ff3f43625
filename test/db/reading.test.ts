import pg from 'pg'
import t from 'tap'
import { tableKey } from '../../core/catalog/catalog.js'
import { readAll, type Reading } from '../../core/catalog/change.js'
import { testServer } from '../kit/server.js'

/** What is read and made again after a change is counted here. */

const SCHEMA = `
create type mood as enum ('sad', 'glad');
create function one() returns int language sql immutable as 'select 1';
create table author (id int primary key, name text);
create table article (id int primary key, author_id int references author, title text);
create table note (id int primary key, mood mood, size int default one())`

t.test('a reading takes from the one before what is still so', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    ...['author', 'article', 'note'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'article', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    permission('article', { columns: '*', filter: { author: { name: 'Ann' } } }),
    permission('author', { columns: ['id'], filter: { id: 1 } }),
    permission('note', { columns: '*', filter: {} }),
  ])
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  let before = await readAll(client)
  /** Names of the tables that were read again, and of those that were made again. */
  const readAgain = async () => {
    const now = await readAll(client, undefined, before)
    const fresh = await readAll(client)
    t.same(meaning(now), meaning(fresh), 'and it is what one finds who knows nothing')
    const names = {
      looked: [...now.found.tables].filter(([key, table]) => table !== before.found.tables.get(key)),
      said: [...now.metadata.tables].filter(([key, table]) => table !== before.metadata.tables.get(key)),
      made: now.data.tables.filter((table) => !before.data.tables.includes(table)).map((table) => [tableKey(table)]),
    }
    before = now
    return Object.fromEntries(Object.entries(names).map(([what, of]) => [what, of.map(([key]) => nameIn(key))]))
  }

  t.same(await readAgain(), { looked: [], said: [], made: [] }, 'nothing has changed')

  await client.query('alter table note add column more int')
  t.same(await readAgain(), { looked: ['note'], said: [], made: ['note'] }, 'a column')

  await client.query(`alter type mood rename to humour`)
  t.same(await readAgain(), { looked: ['note'], said: [], made: ['note'] }, 'a type')

  await client.query(`alter function one() rename to uno`)
  t.same(await readAgain(), { looked: ['note'], said: [], made: ['note'] }, 'the function of a default')

  await client.query(`update svc_catalog.svc_permission set comment = 'own rows' where table_name = 'note'`)
  t.same(await readAgain(), { looked: [], said: ['note'], made: [] }, 'a comment means nothing')

  await client.query(`update svc_catalog.svc_permission set perm_def = '{"columns": ["id", "name"], "filter": {"name": "Ann"}}'
    where table_name = 'author'`)
  t.same(await readAgain(), { looked: [], said: ['author'], made: ['author'] }, 'a permission concerns its own table')

  await client.query('alter table author alter name type varchar')
  t.same(
    await readAgain(),
    { looked: ['author'], said: [], made: ['article', 'author'] },
    'a permission is made again when a column of another table that it compares has changed',
  )

  await client.query('alter table author drop column name')
  t.same(await readAgain(), { looked: ['author'], said: [], made: ['article', 'author'] }, 'and when it has gone')
  t.match(before.data.inconsistent, [
    { object: 'permission article.user.select' },
    { object: 'permission author.user.select' },
  ])

  await client.query('drop table note')
  t.same(await readAgain(), { looked: [], said: [], made: [] }, 'a table that has gone is not there any more')
  t.match(before.data.inconsistent[2], { object: 'table note' })
})

const permission = (table: string, definition: object) => ({
  type: 'create_select_permission',
  args: { table, role: 'user', permission: definition },
})

const nameIn = (key: unknown): string => String(key).replace(/^.*\0/, '')

/** Each reading has an id of its own and puts filters in places of its own. */
function meaning({ data, metadata, found }: Reading) {
  const { id: _, filters, tables, ...rest } = data
  const meant = tables.map((table) => ({
    ...table,
    permissions: table.permissions.map(({ select, ...more }) => ({
      ...more,
      select: select && { ...select, filter: filters[select.filter] },
    })),
  }))
  return { ...rest, tables: meant, metadata, found: found.tables }
}
