import pg from 'pg'
import t from 'tap'
import { survey } from '../../core/catalog/survey.js'
import { freshDatabase } from '../kit/database.js'

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
