import pg from 'pg'
import t from 'tap'
import { openCatalog } from '../../core/catalog/catalog.js'
import { inTransaction } from '../../core/db/database.js'
import { readCatalog } from '../../core/metadata/change.js'
import { compile } from '../../core/compile/compile.js'
import { parseJson } from '../../core/json/parse.js'
import type { Field, Read } from '../../core/ir.js'
import { namesFor } from '../../core/plan/names.js'
import { bind } from '../../core/sql/bind.js'
import type { Form } from '../../core/sql/emit.js'
import type { StepShape } from '../../plugins/query/rows/lift/shape.js'
import { liftCall, liftCount, liftSelect } from '../../plugins/query/rows/lift/reads.js'
import { liftDelete, liftInsert, liftUpdate } from '../../plugins/query/rows/lift/writes.js'
import plan from '../../plugins/query/rows/plan.js'
import { testServer } from '../kit/server.js'

const SCHEMA = `
create table author (id int primary key, name text not null, boss int references author);
create table article (id serial primary key, author_id int references author, title text default 'untitled', published bool, meta jsonb);
create index on article (author_id);
create table page (id int primary key, rev int not null);
create function numbers(a int, variadic more text[]) returns setof bigint language sql stable as 'select 1';
create function move(a int, out x int, out y text) language sql as $$ select a, 'y' $$;
create procedure pay(id int, inout note text) language sql as 'select note'`

t.test('each request compiles to the SQL that stands here, and PostgreSQL takes it', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    { type: 'track_table', args: 'author' },
    { type: 'track_table', args: 'article' },
    { type: 'track_table', args: 'page' },
    { type: 'set_table_version', args: { table: 'page', column: 'rev' } },
    ...['numbers', 'move', 'pay'].map((args) => ({ type: 'track_function', args })),
    relationship('object', 'article', 'author', 'author_id'),
    relationship('array', 'author', 'articles', { table: 'article', column: 'author_id' }),
    permission('select', 'author', { columns: ['id', 'name'], filter: { id: 'X-Service-User-Id' }, limit: 10 }),
    permission('select', 'article', { columns: '*', filter: { author: { id: 'X-Service-User-Id' } } }),
    permission('insert', 'article', {
      check: { published: false },
      columns: ['title'],
      set: { author_id: 'X-Service-User-Id' },
    }),
    permission('update', 'article', {
      columns: ['title'],
      filter: { published: false },
      check: { author: { name: 'a' } },
    }),
  ])
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  const catalog = openCatalog(await inTransaction(client, () => readCatalog(client)))

  for (const { name, type, args, role = 'admin', form = 'array', step, sql } of CASES) {
    await t.test(name, async (t) => {
      const request = parseJson(JSON.stringify(args), undefined, /^\/objects$/)
      const lifted = LIFT[type](request)
      const [shape, values] = [{ ...lifted.shape, step }, [...lifted.values, '[]']]
      const compiled = compile({ planner: 'query', shape, role, form }, plan as never, catalog)

      t.same(
        compiled.statements.map(({ text }) => text),
        sql,
      )
      for (const { text, params } of compiled.statements) {
        const bound = bind(params, { values, variables: new Map([['x-service-user-id', '1']]) })
        // PostgreSQL explains no procedures.
        await client.query(text.startsWith('call ') ? text : `explain ${text}`, bound)
      }
    })
  }

  await t.test('the parts of several reads, for a stream', async (t) => {
    const list = (key: string, table: string, single = false): Field => {
      const { shape } = liftSelect({ table, columns: ['id'] })
      return { kind: 'relation', key, on: [], read: { ...(plan(shape, namesFor('admin', catalog)) as Read), single } }
    }
    const constant: Field = { kind: 'constant', key: 'type', value: 'query_root' }
    const fields = [list('a', 'author'), constant, list('one', 'author', true), list('b', 'article')]
    const task = { planner: 'roots', shape: {}, role: 'admin', form: 'rows' as const }
    const { statements } = compile(task, () => ({ kind: 'roots', fields }), catalog)

    t.same(
      statements.map(({ text }) => text),
      [
        'select t5.c0 from pg_catalog.generate_series(1, 5) t4(c0), lateral (select pg_catalog.row_to_json(x)::text from (select t0."id" as "id" from "public"."author" t0) x where t4.c0 = 1 union all select null where t4.c0 = 2 union all select pg_catalog.row_to_json(x)::text from (select $1::text as "type", (select (x.*)::record from (select t2."id" as "id" from "public"."author" t2 limit 1) x) as "one") x where t4.c0 = 3 union all select null where t4.c0 = 4 union all select pg_catalog.row_to_json(x)::text from (select t3."id" as "id" from "public"."article" t3) x where t4.c0 = 5) t5(c0)',
      ],
    )
    await client.query(`explain ${statements[0]?.text}`, ['query_root'])
  })
})

const LIFT = {
  select: liftSelect,
  count: liftCount,
  insert: liftInsert,
  update: liftUpdate,
  delete: liftDelete,
  call: liftCall,
}

interface Case {
  readonly name: string
  readonly type: keyof typeof LIFT
  readonly args: object
  /** A step of a write of related rows. The result of another step is the last value. */
  readonly step?: StepShape
  readonly role?: string
  readonly form?: Form
  readonly sql: readonly string[]
}

const CASES: readonly Case[] = [
  {
    name: 'a row by its key',
    type: 'select',
    args: { table: 'author', columns: ['id', 'name'], where: { id: 1 } },
    sql: [
      'select pg_catalog.array_to_json(array(select x from (select t0."id" as "id", t0."name" as "name" from "public"."author" t0 where (t0."id" = $1::int4)) x))::text',
    ],
  },
  {
    name: 'the version of a row, before the row',
    type: 'select',
    args: { table: 'page', columns: ['id', '$version'], where: { id: 1 } },
    sql: [
      `select case pg_catalog.count(*) when 1 then pg_catalog.to_json(pg_catalog.min(y.v))::text || pg_catalog.chr(10) else '' end || coalesce(pg_catalog.array_to_json(pg_catalog.array_agg(y.r))::text, '[]') from (select t0."rev"::text collate "C" as v, (select x from (select t0."id" as "id", t0."rev"::text collate "C" as "$version") x) as r from "public"."page" t0 where (t0."id" = $1::int4)) y`,
    ],
  },
  {
    name: 'a row of one version is changed',
    type: 'update',
    args: { table: 'page', where: { id: 1 }, expect: { version: '1' }, $inc: { rev: 1 } },
    sql: [
      'with w as (update "public"."page" t0 set "rev" = t0."rev" + $1::int4 where (t0."id" = $2::int4) and t0."rev"::text collate "C" = $3::text returning 1 as one) select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows") r)',
    ],
  },
  {
    name: 'null is no parameter, so an index still serves the rest',
    type: 'select',
    args: { table: 'author', columns: ['id'], where: { boss: null, id: { $in: [1, null] } } },
    sql: [
      'select pg_catalog.array_to_json(array(select x from (select t0."id" as "id" from "public"."author" t0 where ((t0."boss" is null) and ((t0."id" = any($1::_int4)) or (t0."id" is null)))) x))::text',
    ],
  },
  {
    name: 'nested rows, an order through a relationship, a limit',
    type: 'select',
    args: {
      table: 'article',
      columns: [
        'title',
        { name: 'author', columns: ['name', { name: 'articles', alias: 'others', columns: ['id'], limit: 2 }] },
      ],
      order_by: ['-author.name', 'id'],
      limit: 5,
    },
    sql: [
      'select pg_catalog.array_to_json(array(select x from (select t0."title" as "title", (select (x.*)::record from (select t1."name" as "name", array(select (x.*)::record from (select t2."id" as "id" from "public"."article" t2 where t2."author_id" = t1."id" limit $1::int8) x) as "others" from "public"."author" t1 where t1."id" = t0."author_id" limit 1) x) as "author" from "public"."article" t0 order by (select t3."name" from "public"."author" t3 where t3."id" = t0."author_id" limit 1) desc, t0."id" limit $2::int8) x))::text',
    ],
  },
  {
    name: 'a role sees its rows at every level, and its limit',
    type: 'select',
    args: {
      table: 'article',
      columns: ['id', { name: 'author', columns: ['name'] }],
      where: { author: { name: { $like: 'a%' } } },
      order_by: ['author.name'],
    },
    role: 'user',
    sql: [
      'select pg_catalog.array_to_json(array(select x from (select t0."id" as "id", (select (x.*)::record from (select t1."name" as "name" from "public"."author" t1 where t1."id" = t0."author_id" and (t1."id" = $1::int4) limit 1) x) as "author" from "public"."article" t0 where (exists (select 1 from "public"."author" t2 where t2."id" = t0."author_id" and (t2."id" = $1::int4)) and exists (select 1 from "public"."author" t3 where t3."id" = t0."author_id" and ((t3."id" = $1::int4) and (t3."name" like $2::text)))) order by (select t4."name" from "public"."author" t4 where t4."id" = t0."author_id" and (t4."id" = $1::int4) limit 1)) x))::text',
    ],
  },
  {
    name: 'rows one by one, for a stream',
    type: 'select',
    args: { table: 'author', columns: ['id'] },
    form: 'rows',
    sql: ['select pg_catalog.row_to_json(x)::text from (select t0."id" as "id" from "public"."author" t0) x'],
  },
  {
    name: 'cells, for CSV',
    type: 'select',
    args: { table: 'article', columns: ['id', 'meta'] },
    form: 'cells',
    sql: [
      'select pg_catalog.to_json(x."id") #>> \'{}\', x."meta"::text from (select t0."id" as "id", t0."meta" as "meta" from "public"."article" t0) x',
    ],
  },
  {
    name: 'a count of distinct values',
    type: 'count',
    args: { table: 'article', distinct: ['author_id'], where: { $not: { published: true } } },
    sql: [
      'select pg_catalog.row_to_json(x)::text from (select pg_catalog.count(*) as "count" from (select distinct t0."author_id" from "public"."article" t0 where (not (t0."published" = $1::bool))) d) x',
    ],
  },
  {
    name: 'rows with the same keys',
    type: 'insert',
    args: { table: 'article', objects: [{ title: 'a' }, { title: 'b' }], returning: ['id'] },
    sql: [
      'with w as (insert into "public"."article" as t0 ("title") select r0 from rows from (pg_catalog.json_to_recordset($1::json) as ("title" text)) with ordinality as r(r0, ord) order by ord returning t0."id" as "c0") select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows", array(select x from (select "c0" as "id" from w) x) as "returning") r)',
    ],
  },
  {
    name: 'a key that some rows lack takes the default there',
    type: 'insert',
    args: { table: 'article', objects: [{ title: 'a' }, { author_id: 1 }] },
    sql: [
      'with w as (insert into "public"."article" as t0 ("title", "author_id") select case when e.o -> $2::text is not null then r0 else (\'untitled\'::text)::text end, case when e.o -> $3::text is not null then r1 else null end from pg_catalog.json_array_elements($1::json) with ordinality as e(o, ord) cross join lateral rows from (pg_catalog.json_to_record(e.o) as ("title" text, "author_id" int4)) as r(r0, r1) order by ord returning 1 as one) select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows") r)',
    ],
  },
  {
    name: 'an upsert updates the columns present',
    type: 'insert',
    args: {
      table: 'article',
      objects: [{ id: 1, title: 'a' }],
      on_conflict: { action: 'update', constraint_on: 'id' },
    },
    sql: [
      'with w as (insert into "public"."article" as t0 ("id", "title") select r0, r1 from rows from (pg_catalog.json_to_recordset($1::json) as ("id" int4, "title" text)) with ordinality as r(r0, r1, ord) order by ord on conflict ("id") do update set "title" = excluded."title" returning 1 as one) select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows") r)',
    ],
  },
  {
    name: 'a check of the row itself is in the same statement',
    type: 'insert',
    args: { table: 'article', objects: [{ title: 'a' }] },
    role: 'user',
    sql: [
      'with w as (insert into "public"."article" as t0 ("title", "author_id") select r0, $4::int4 from rows from (pg_catalog.json_to_recordset($3::json) as ("title" text)) with ordinality as r(r0, ord) order by ord returning (t0."published" = $1::bool) as ok) select case when exists (select 1 from w where ok is not true) then svc_catalog.svc_refuse($2::text) else (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows") r) end',
    ],
  },
  {
    name: 'a check that needs other rows, and rows returned through a filter, are looked at afterwards',
    type: 'update',
    args: { table: 'article', where: { id: 1 }, $set: { title: 'b' }, returning: ['id'] },
    role: 'user',
    sql: [
      'with w as (update "public"."article" t0 set "title" = $1::text where ((t0."published" = $2::bool) and (t0."id" = $3::int4)) returning t0."id" as k0) select pg_catalog.array_to_json(array(select w from w))::text',
      'with k as (select * from rows from (pg_catalog.json_to_recordset($1::json) as (k0 int4, fresh bool)) with ordinality as k(k0, fresh, ord)), w as (select t0."id" as "c0", exists (select 1 from "public"."author" t1 where t1."id" = t0."author_id" and (t1."name" = $2::text)) as ok, exists (select 1 from "public"."author" t2 where t2."id" = t0."author_id" and (t2."id" = $3::int4)) as seen from k join "public"."article" t0 on t0."id" = k.k0 order by k.ord) select case when (exists (select 1 from w where ok is not true) or (select pg_catalog.count(*) from w) <> (select pg_catalog.count(*) from k)) then svc_catalog.svc_refuse($4::text) else (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from k) as "affected_rows", array(select x from (select "c0" as "id" from w where seen) x) as "returning") r) end',
    ],
  },
  {
    name: 'every kind of assignment',
    type: 'update',
    args: { table: 'article', where: {}, $set: { published: null }, $inc: { author_id: 1 }, $default: ['title'] },
    sql: [
      'with w as (update "public"."article" t0 set "published" = null, "author_id" = t0."author_id" + $1::int4, "title" = default returning 1 as one) select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows") r)',
    ],
  },
  {
    name: 'deleted rows come back as they were',
    type: 'delete',
    args: { table: 'article', where: { published: false }, returning: ['id', 'title'] },
    sql: [
      'with w as (delete from "public"."article" t0 where (t0."published" = $1::bool) returning t0."id" as "c0", t0."title" as "c1") select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows", array(select x from (select "c0" as "id", "c1" as "title" from w) x) as "returning") r)',
    ],
  },
  {
    name: 'rows whose related rows are changed are locked',
    type: 'update',
    args: { table: 'author', where: { id: 1 }, $set: {} },
    step: { from: 'update', via: [], phase: 'write', link: ['id'] },
    sql: [
      'with w as (select t0."id" as k0, t0."id" as l0 from "public"."author" t0 where (t0."id" = $1::int4) for no key update of t0) select pg_catalog.array_to_json(array(select w from w))::text',
    ],
  },
  {
    name: 'related rows are those of the rows of another step',
    type: 'delete',
    args: { table: 'author', where: { published: true } },
    step: { from: 'update', via: ['articles'], within: { slot: 1, links: [0] } },
    sql: [
      'with w as (delete from "public"."article" t0 where (t0."published" = $1::bool) and exists (select 1 from pg_catalog.json_to_recordset($2::json) as p(l0 int4) where p.l0 = t0."author_id") returning 1 as one) select (select pg_catalog.row_to_json(r)::text from (select (select pg_catalog.count(*) from w) as "affected_rows") r)',
    ],
  },
  {
    name: 'values of a function',
    type: 'call',
    args: { function: 'numbers', arguments: { a: 1, more: ['x'] }, where: { value: { $gt: 1 } }, limit: 2 },
    sql: [
      'select pg_catalog.array_to_json(array(select pg_catalog.to_json(x."value") from (select t0."value" as "value" from "public"."numbers"("a" => $1::int4, variadic "more" => $2::_text) t0("value") where (t0."value" > $3::int8) limit $4::int8) x))::text',
    ],
  },
  {
    name: 'a function that changes rows is called before its result is read',
    type: 'call',
    args: { function: 'move', arguments: { a: 1 }, columns: ['y'] },
    sql: [
      'select coalesce(pg_catalog.json_agg(array[t0."x"::text, t0."y"::text]), \'[]\')::text from "public"."move"("a" => $1::int4) t0("x", "y")',
      'select coalesce((select pg_catalog.row_to_json(x) from (select t0."y" as "y" from (select (r ->> 0)::int4 as "x", (r ->> 1)::text as "y" from pg_catalog.json_array_elements($1::json) r) t0 limit 1) x), \'null\')::text',
    ],
  },
  {
    name: 'a procedure',
    type: 'call',
    args: { function: 'pay', arguments: { id: 1, note: 'a' } },
    sql: [
      'call "public"."pay"("id" => $1::int4, "note" => $2::text)',
      'select coalesce((select pg_catalog.row_to_json(x) from (select t0."note" as "note" from (select (r ->> 0)::text as "note" from pg_catalog.json_array_elements($1::json) r) t0 limit 1) x), \'null\')::text',
    ],
  },
  {
    name: 'a key may be called what we call a row',
    type: 'select',
    args: { table: 'article', columns: ['id', { name: 'author', alias: 'x', columns: ['name'] }] },
    sql: [
      'select pg_catalog.array_to_json(array(select xx from (select t0."id" as "id", (select (x.*)::record from (select t1."name" as "name" from "public"."author" t1 where t1."id" = t0."author_id" limit 1) x) as "x" from "public"."article" t0) xx))::text',
    ],
  },
]

const relationship = (type: string, table: string, name: string, on: unknown) => ({
  type: `create_${type}_relationship`,
  args: { table, name, using: { foreign_key_constraint_on: on } },
})
const permission = (type: string, table: string, definition: unknown) => ({
  type: `create_${type}_permission`,
  args: { table, role: 'user', permission: definition },
})
