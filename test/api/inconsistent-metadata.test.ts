import pg from 'pg'
import t from 'tap'
import { testServer } from '../kit/server.js'

t.test('what was dropped from outside is forgotten by drop_inconsistent_metadata, tables included', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table town (id int primary key); create table street (id int primary key, town_id int references town);
      create function big_towns() returns setof town language sql stable as 'select * from town';
      create function long(s street) returns bool language sql stable as 'select true'`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    { type: 'track_table', args: 'street' },
    {
      type: 'create_object_relationship',
      args: { table: 'street', name: 'town', using: { foreign_key_constraint_on: 'town_id' } },
    },
    { type: 'set_table_customization', args: { table: 'town', configuration: { custom_name: 'place' } } },
    { type: 'track_function', args: 'big_towns' },
    { type: 'add_computed_field', args: { table: 'street', name: 'long', definition: { function: 'long' } } },
  ])
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  await client.query('drop table town cascade; drop function long').finally(() => client.end())
  await server.must('reload_metadata', {})
  const broken = (await server.must('get_inconsistent_metadata', {})).inconsistent_objects as { name: string }[]
  t.same(broken.map(({ name }) => name).sort(), [
    'computed-field street.long',
    'function big_towns',
    'relationship street.town',
    'table town',
  ])

  await server.must('drop_inconsistent_metadata', {})

  t.same(await server.must('get_inconsistent_metadata', {}), { is_consistent: true, inconsistent_objects: [] })
  const exported = await server.must('export_metadata', {})
  t.match(exported, { tables: [{ table: 'street', object_relationships: [] }] })
  t.equal(exported.tables.length, 1)
  await server.must('replace_metadata', exported)
})

t.test('run_sql does not write to the tables of the metadata, which would show only at the next start', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table town (id int primary key); create table svc_table (id int)' })
  await server.must('track_table', 'town')
  const before = await server.must('export_metadata', {})
  const writes = [
    'delete from svc_catalog.svc_table',
    `select 1; update svc_catalog.svc_permission set perm_def = '{}'`,
    `insert into "svc_catalog"."svc_query_template" values ('a', '{}')`,
    'truncate town, svc_catalog.svc_table cascade',
    'with gone as (delete from svc_catalog.svc_relationship returning 1) select count(*) from gone',
    'explain analyze delete from svc_catalog.svc_function',
    'merge into svc_catalog.svc_version v using town on true when matched then update set version = 9',
    `copy svc_catalog.svc_table from '/dev/null'`,
  ]
  for (const sql of writes) {
    t.match(
      await server.query('run_sql', { sql }),
      {
        status: 400,
        body: {
          path: '$.args',
          code: 'not-supported',
          error: /^run_sql cannot write to "svc_catalog\.svc_\w+": use the metadata operations, such as /,
        },
      },
      sql,
    )
  }
  t.same(await server.must('export_metadata', {}), before)

  await server.must('run_sql', { sql: 'select * from svc_catalog.svc_table' })
  await server.must('run_sql', { sql: 'delete from svc_table; delete from town' })
  await server.must('run_sql', { sql: 'create table svc_catalog.note (id int); delete from svc_catalog.note' })
})

t.test('diff_metadata tells what replace_metadata would change, and whether it would be refused', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table town (id int primary key, name text, code bigint)' })
  const permission = (filter: unknown) => ({
    role: 'user',
    permission: { columns: ['id'], filter },
    comment: null,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    { type: 'create_select_permission', args: { table: 'town', ...permission({ code: 1 }) } },
  ])
  const now = await server.must('export_metadata', {})

  t.strictSame(await server.must('diff_metadata', now), { changes: [], refused: null })
  const [town] = now.tables
  const then = { ...town, select_permissions: [permission({ code: 2 })], insert_permissions: [] }
  t.strictSame(await server.must('diff_metadata', { ...now, tables: [then] }), {
    changes: [
      {
        change: 'changed',
        object: 'permission town.user.select',
        from: { comment: null, permission: { columns: ['id'], filter: { code: 1 } }, role: 'user' },
        to: { comment: null, permission: { columns: ['id'], filter: { code: 2 } }, role: 'user' },
        effects: [
          {
            role: 'user',
            effect: 'different',
            text: 'role user can read other rows of town: rows where code is 2 (was: rows where code is 1)',
          },
        ],
      },
    ],
    refused: null,
  })
  t.match(await server.must('diff_metadata', { tables: [{ table: 'city' }], query_templates: [] }), {
    changes: [
      { change: 'added', object: 'table city' },
      { change: 'removed', object: 'table town' },
      { change: 'removed', object: 'permission town.user.select' },
    ],
    refused: { path: '$.args.tables[0].table', code: 'not-exists' },
  })
  const large = JSON.stringify({ ...now, tables: [then] }).replace('"code":2', '"code":9007199254740993')
  t.match((await server.raw(`{"type": "diff_metadata", "args": ${large}}`)).text, /9007199254740993/)
  t.strictSame(await server.must('export_metadata', {}), now, 'nothing has changed')
  t.match(await server.query('diff_metadata', now, { role: 'user' }), { status: 400, body: { code: 'access-denied' } })
})
