import type { Test } from 'tap'
import { area, type Case, exactly, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What the history of rows promises. */
const PROMISES = {
  'kept.writes': 'an insert, an update and a delete of the API are changes, with who made them',
  'kept.columns': 'an update keeps the columns that it changed, and nothing if it changed none',
  'kept.anybody': 'changes of SQL, of cascades, of partitions and of tables that inherit are kept, with the login',
  'kept.key': 'a changed key is the key after the change, and part of what changed',
  'kept.many': 'one statement on many rows keeps a change of each',
  'kept.truncate': 'that a table was truncated is kept',
  'kept.rolled-back': 'what is rolled back leaves no change',
  'kept.types': 'values of all types are kept with their digits, in any time zone',
  'kept.names': 'tables and columns may have any name',
  'kept.some': 'with `columns`, only these are kept, and the key',
  'kept.added': 'a column that is added later is kept, and one that is dropped breaks nothing',
  'role.rows': 'a role sees the history of rows that it may select, and not of others',
  'role.columns': 'a role sees columns that it may select in all its rows, and neither others nor who wrote',
  'role.life': 'a role sees nothing of rows that had the same key before, and cannot count changes that it may not see',
  'role.hidden': 'a table or key column that a role may not select looks like one that does not exist',
  'ask.limit': 'limit and before page through the changes, the latest first',
  'ask.wrong': 'a wrong key, table or limit is refused with its path',
  'undo.each': 'undo of an insert, an update and a delete restores the row',
  'undo.dry': 'a dry run of undo changes nothing',
  'undo.changed': 'a row that changed since is refused with 412',
  'set.refused': 'views, tables without a primary key and unknown columns are refused',
  'set.metadata': 'it is part of the metadata: exported, replaced, compared and cleared',
  'set.off': 'after it is switched off, or the table is untracked, no trigger is left',
  'set.shares': 'inserts into such a table still share commits',
} as const

const SQL = `
create table item (id int primary key, owner text, text text, secret text, n numeric);
create table child (id int primary key, item_id int references item on delete cascade);
create table part (id int, kind int, text text, primary key (id, kind)) partition by list (kind);
create table part_1 (extra int, text text, kind int not null, id int not null);
alter table part_1 drop column extra;
alter table part attach partition part_1 for values in (1);
create table part_2 partition of part for values in (2);
create table base (id int primary key, text text); create table heir (more int) inherits (base);
create table typed (id timestamptz primary key, n numeric, big bigint, f float8, j json, jb jsonb, a text[], d date, i interval, b bytea, e int4range);
create schema "o'dd\\";
create table "o'dd\\"."t""a'b\\" ("x" int primary key, "r" text, "a'b""c\\" text, "$svc$" text);
create table partly (id int primary key, a text, b text);
create table grown (id int primary key, gone text);
create table keyless (a int); create view seen as select 1 as id;`

const ANA: As = { role: 'user', variables: { 'x-service-user-id': 'ana' } }
const BEN: As = { role: 'user', variables: { 'x-service-user-id': 'ben' } }
const ok: Step['expected'] = { status: 200 }
const ODD = { schema: `o'dd\\`, name: `t"a'b\\` }

const sql = (text: string): Step => query('run_sql', { sql: text }, ok)
const history = (args: object, expected: Step['expected'], as?: As): Step => query('row_history', args, expected, as)
const idOf = async (server: { query(type: string, args: unknown): Promise<unknown> }, table: string): Promise<string> =>
  ((await server.query('row_history', { table, limit: 1 })) as { body: { id: string }[] }).body[0]!.id

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'kept.writes': [
    {
      ...query(
        'insert',
        { table: 'item', objects: [{ id: 1, owner: 'ana', text: 'a', secret: 's', n: 1.1 }] },
        ok,
        ANA,
      ),
      headers: { 'x-request-id': 'r1' },
    },
    query('update', { table: 'item', where: { id: 1 }, $set: { text: 'b' } }, ok, ANA),
    query('delete', { table: 'item', where: { id: 1 } }, ok, ANA),
    history(
      { table: 'item', key: { id: 1 } },
      like([
        {
          operation: 'delete',
          old: { id: 1, owner: 'ana', text: 'b', secret: 's', n: 1.1 },
          new: null,
          key: { id: 1 },
          role: 'user',
          user_id: 'ana',
        },
        { operation: 'update', old: { text: 'a' }, new: { text: 'b' }, key: { id: 1 } },
        {
          id: /^\d+$/,
          time: /^\d{4}-\d\d-\d\dT.*\+00:00$/,
          operation: 'insert',
          old: null,
          new: { id: 1, owner: 'ana', text: 'a', secret: 's', n: 1.1 },
          request_id: 'r1',
        },
      ]),
    ),
  ],
  'kept.columns': [
    query('insert', { table: 'item', objects: [{ id: 2, owner: 'ana', n: 1.0 }] }, ok),
    query('update', { table: 'item', where: { id: 2 }, $set: { text: 'x', owner: 'ana' } }, ok),
    query('update', { table: 'item', where: { id: 2 }, $set: { text: 'x', owner: 'ana' } }, ok),
    history(
      { table: 'item', key: { id: 2 } },
      like([
        { operation: 'update', old: { text: null }, new: { text: 'x' }, role: 'admin', user_id: null },
        { operation: 'insert' },
      ]),
    ),
  ],
  'kept.anybody': async (t, server) => {
    await server.sql(`insert into item (id, owner) values (3, 'ben'); insert into child values (1, 3)`)
    await server.sql(`insert into part values (1, 1, 'a'); insert into part_1 (id, kind, text) values (2, 1, 'b');
      update part set kind = 2 where id = 1; delete from part_2`)
    await server.sql(`insert into heir values (1, 'h', 2); update base set text = 'i'; delete from heir`)
    await server.must('delete', { table: 'item', where: { id: 3 } })
    const of = async (table: string) =>
      ((await server.query('row_history', { table })) as { body: Record<string, unknown>[] }).body.map(
        ({ operation, old, new: now, role, login }) => [operation, old, now, role, typeof login],
      )
    t.same(await of('child'), [
      ['delete', { id: 1, item_id: 3 }, null, 'admin', 'string'],
      ['insert', null, { id: 1, item_id: 3 }, null, 'string'],
    ])
    t.same(await of('part'), [
      ['delete', { id: 1, kind: 2, text: 'a' }, null, null, 'string'],
      ['update', { kind: 1 }, { kind: 2 }, null, 'string'],
      ['insert', null, { id: 2, kind: 1, text: 'b' }, null, 'string'],
      ['insert', null, { id: 1, kind: 1, text: 'a' }, null, 'string'],
    ])
    t.same(await of('base'), [
      ['delete', { id: 1, text: 'i', more: 2 }, null, null, 'string'],
      ['update', { text: 'h' }, { text: 'i' }, null, 'string'],
      ['insert', null, { id: 1, text: 'h', more: 2 }, null, 'string'],
    ])
  },
  'kept.key': [
    sql(`insert into item (id, owner) values (4, 'ana'); update item set id = id + 1000 where id = 4`),
    history(
      { table: 'item', key: { id: 1004 } },
      like([{ operation: 'update', key: { id: 1004 }, old: { id: 4 }, new: { id: 1004 } }]),
    ),
  ],
  'kept.many': async (t, server) => {
    await server.sql('insert into item (id, owner) select g, g::text from generate_series(2000, 2999) g')
    await server.sql(`update item set id = id + 5000, text = owner where id between 2000 and 2999`)
    const { body } = (await server.query('row_history', { table: 'item', limit: 1000 })) as {
      body: { operation: string; key: { id: number }; old: { id: number }; new: { id: number; text: string } }[]
    }
    t.equal(body.length, 1000)
    t.ok(
      body.every(
        (each) =>
          each.operation === 'update' &&
          each.new.id === each.old.id + 5000 &&
          each.key.id === each.new.id &&
          each.new.text === String(each.old.id),
      ),
    )
    await server.sql('delete from item where id >= 7000')
  },
  'kept.truncate': [
    sql('truncate partly'),
    history({ table: 'partly' }, like([{ operation: 'truncate', key: null, old: null, new: null, role: 'admin' }])),
  ],
  'kept.rolled-back': [
    sql(`insert into item (id, owner) values (50, 'ana')`),
    {
      ...query('update', { table: 'item', where: { id: 50 }, $set: { text: 'x' } }, ok),
      headers: { prefer: 'tx=rollback' },
    },
    query(
      'bulk',
      [
        { type: 'update', args: { table: 'item', where: { id: 50 }, $set: { text: 'x' } } },
        { type: 'insert', args: { table: 'item', objects: [{ id: 50 }] } },
      ],
      refused('postgres-error', /item_pkey/),
    ),
    history({ table: 'item', key: { id: 50 } }, like([{ operation: 'insert' }])),
  ],
  'kept.types': async (t, server) => {
    await server.sql(`set timezone = 'America/New_York'; set intervalstyle = 'iso_8601'; set datestyle = 'german'; set bytea_output = 'escape';
      insert into typed values ('2026-01-02 03:04:05.123456+00', 1.10, 9223372036854775807, 0.1, '{"b": 1, "a": [1.50]}', '{"x": 1.50}', '{a,null}',
        '2026-01-02', '1 day 02:00', '\\x00ff', '[1,5)')`)
    const answer = await server.query('row_history', {
      table: 'typed',
      key: { id: '2026-01-02T04:04:05.123456+01:00' },
    })
    t.match(answer, { status: 200 })
    t.match(
      answer.text,
      '"new":{"a":["a",null],"b":"\\\\x00ff","d":"2026-01-02","e":"[1,5)","f":0.1,"i":"1 day 02:00:00","j":{"a":[1.50],"b":1},"n":1.10,"id":"2026-01-02T03:04:05.123456+00:00","jb":{"x":1.50},"big":9223372036854775807}',
    )
  },
  'kept.names': [
    query('insert', { table: ODD, objects: [{ x: 1, r: 'r', [`a'b"c\\`]: 'é\\', $svc$: '$svc$' }] }, ok),
    query('update', { table: ODD, where: { x: 1 }, $set: { [`a'b"c\\`]: `'` } }, ok),
    history(
      { table: ODD, key: { x: 1 } },
      like([{ old: { [`a'b"c\\`]: 'é\\' }, new: { [`a'b"c\\`]: `'` } }, { new: { x: 1, r: 'r', $svc$: '$svc$' } }]),
    ),
  ],
  'kept.some': [
    sql(
      `insert into partly values (1, 'a', 'b'); update partly set b = 'c'; update partly set a = 'd', b = 'e'; delete from partly`,
    ),
    history(
      { table: 'partly', key: { id: 1 } },
      like([
        { operation: 'delete', key: { id: 1 }, old: { a: 'd' } },
        { operation: 'update', key: { id: 1 }, old: { a: 'a' }, new: { a: 'd' } },
        { operation: 'insert', key: { id: 1 }, new: { a: 'a' } },
      ]),
    ),
  ],
  'kept.added': [
    sql(`insert into grown values (1, 'g')`),
    sql(`alter table grown add column later int default 7, drop column gone`),
    sql(`update grown set later = 8`),
    history(
      { table: 'grown', key: { id: 1 } },
      like([{ old: { later: 7 }, new: { later: 8 } }, { new: { gone: 'g' } }]),
    ),
  ],
  'role.rows': [
    sql(`insert into item (id, owner, text) values (60, 'ana', 'a'), (61, 'ben', 'b')`),
    history(
      { table: 'item', key: { id: 60 } },
      like([{ operation: 'insert', old: null, new: { id: 60, text: 'a' } }]),
      ANA,
    ),
    history({ table: 'item', key: { id: 61 } }, exactly([]), ANA),
    history({ table: 'item', key: { id: 62 } }, exactly([]), ANA),
    sql(`delete from item where id = 60`),
    history({ table: 'item', key: { id: 60 } }, exactly([]), ANA),
    history({ table: 'item', key: { id: 61 } }, like([{ operation: 'insert' }]), BEN),
  ],
  'role.columns': async (t, server) => {
    await server.sql(
      `update item set secret = 'new' where id = 61; update item set secret = 'other', text = 'c' where id = 61`,
    )
    const { body } = await server.query('row_history', { table: 'item', key: { id: 61 } }, BEN)
    t.same(
      (body as object[]).map((change) => ({ ...change, time: undefined })),
      [
        { time: undefined, operation: 'update', old: { text: 'b' }, new: { text: 'c' } },
        { time: undefined, operation: 'insert', old: null, new: { id: 61, owner: 'ben', text: 'b' } },
      ],
    )
  },
  'role.life': [
    sql(
      `insert into item (id, owner, text) values (80, 'ben', 'old'); update item set text = 'older' where id = 80; delete from item where id = 80`,
    ),
    sql(`insert into item (id, owner, text) values (80, 'ana', 'new'); update item set secret = 'x' where id = 80`),
    history({ table: 'item', key: { id: 80 }, limit: 1 }, like([{ operation: 'insert', new: { text: 'new' } }]), ANA),
    sql(`update item set id = 81 where id = 80; insert into item (id, owner, text) values (80, 'ben', 'third')`),
    history(
      { table: 'item', key: { id: 80 } },
      like([{ operation: 'insert', old: null, new: { text: 'third' } }]),
      BEN,
    ),
    sql(`delete from item where id = 80; update item set id = 80 where id = 61`),
    history({ table: 'item', key: { id: 80 } }, like([{ operation: 'update', old: { id: 61 }, new: { id: 80 } }]), BEN),
    sql(`update item set id = 61 where id = 80`),
  ],
  'role.hidden': [
    history({ table: 'child', key: { id: 1 } }, refused('permission-denied', /child/, '$.args.table'), ANA),
    history({ table: 'nothing', key: { id: 1 } }, refused('permission-denied', /nothing/, '$.args.table'), ANA),
    history({ table: 'item', key: { secret: 'x' } }, refused('permission-denied', /"secret"/), ANA),
    history({ table: 'item', key: { nothing: 'x' } }, refused('permission-denied', /"nothing"/), ANA),
    history({ table: 'item' }, refused('parse-failed', /key/), ANA),
    history({ table: 'item', key: { id: 60 }, before: '9' }, refused('parse-failed', /admin/, '$.args.before'), ANA),
    history({ table: 'item', key: { id: { $gt: 0 } } }, { status: 400, like: { path: /^\$/ } }, ANA),
    query('undo_change', { id: '1' }, refused('access-denied', /./), ANA),
    query('set_table_history', { table: 'item' }, refused('access-denied', /./), ANA),
  ],
  'ask.limit': async (t, server) => {
    const page = async (more: object) =>
      (await server.query('row_history', { table: 'item', limit: 2, ...more })) as { body: { id: string }[] }
    const { body: first } = await page({})
    const { body: second } = await page({ before: first[1]!.id })
    t.equal(first.length + second.length, 4)
    t.ok(BigInt(second[0]!.id) < BigInt(first[1]!.id))
  },
  'ask.wrong': [
    history({ table: 'item', key: {} }, refused('parse-failed', /primary key: id/, '$.args.key')),
    history({ table: 'item', key: { id: 1, n: 1 } }, refused('parse-failed', /primary key/, '$.args.key')),
    history({ table: 'item', key: { id: 'x' } }, { status: 400, like: { path: /^\$/ } }),
    history({ table: 'item', key: { id: 'x' } }, { status: 400, like: { path: /^\$/ } }, ANA),
    history({ table: 'nothing', key: { id: 1 } }, refused('not-exists', /nothing/, '$.args.table')),
    history({ table: 'seen' }, refused('unexpected-payload', /no history/, '$.args.table')),
    history({ table: 'item', limit: 0 }, refused('parse-failed', /./, '$.args.limit')),
    history({ table: 'item', before: 'x' }, { status: 400, like: { path: '$.args.before' } }),
  ],
  'undo.each': async (t, server) => {
    const row = async () => (await server.query('select', { table: 'item', columns: ['*'], where: { id: 70 } })).body
    const before = [{ id: 70, owner: 'ana', text: 'a', secret: null, n: 1.5 }]
    await server.sql(`insert into item values (70, 'ana', 'a', null, 1.5)`)
    await server.sql(`update item set text = 'b', secret = 'x' where id = 70`)
    await server.must('undo_change', { id: await idOf(server, 'item') })
    t.same(await row(), before)
    await server.sql(`delete from item where id = 70`)
    await server.must('undo_change', { id: await idOf(server, 'item') })
    t.same(await row(), before)
    // The undoing is a change of its own.
    await server.must('undo_change', { id: await idOf(server, 'item') })
    t.same(await row(), [])
  },
  'undo.dry': async (t, server) => {
    await server.sql(`insert into item (id, owner) values (71, 'ana'); delete from item where id = 71`)
    const id = await idOf(server, 'item')
    const body = JSON.stringify({ type: 'undo_change', args: { id } })
    const answer = await server.fetch('/v1/query', { method: 'POST', body, headers: { prefer: 'tx=rollback' } })
    t.match(answer, { status: 200, body: { table: 'item', undone: 'delete', key: { id: 71 } } })
    t.same((await server.query('select', { table: 'item', columns: ['id'], where: { id: 71 } })).body, [])
    t.equal(await idOf(server, 'item'), id)
  },
  'undo.changed': async (t, server) => {
    await server.sql(`insert into item (id, owner) values (72, 'ana'); update item set text = 'a' where id = 72`)
    const id = await idOf(server, 'item')
    await server.sql(`update item set text = 'b' where id = 72`)
    t.match(await server.query('undo_change', { id }), {
      status: 412,
      body: { code: 'precondition-failed', path: '$.args.id' },
    })
    await server.sql(`delete from item where id = 72`)
    t.match(await server.query('undo_change', { id }), { status: 412 })
    t.match(await server.query('undo_change', { id: '999999999' }), { status: 400, body: { path: '$.args.id' } })
  },
  'set.refused': [
    query('set_table_history', { table: 'seen' }, refused('unexpected-payload', /view/)),
    query('set_table_history', { table: 'keyless' }, refused('unexpected-payload', /primary key/)),
    query('set_table_history', { table: 'item', columns: ['a'] }, refused('not-exists', /"a"/)),
    query('set_table_history', { table: 'nothing' }, refused('not-exists', /nothing/, '$.args.table')),
  ],
  'set.metadata': async (t, server) => {
    const { body: exported } = await server.query('export_metadata', {})
    const { tables } = exported as { tables: { table: unknown; captures?: object }[] }
    t.same(tables.find(({ table }) => table === 'partly')?.captures, { history: { columns: ['a'] } })
    await server.must('clear_metadata', {})
    const triggers = async () =>
      (await server.sql(`select count(*)::int as n from pg_trigger where tgname like 'svc\\_capture%'`)).result[1]?.[0]
    const functions = async () =>
      (await server.sql(`select count(*)::int as n from pg_proc where proname like 'svc\\_capture%'`)).result[1]?.[0]
    t.equal(await triggers(), '0')
    t.equal(await functions(), '0')
    await server.must('replace_metadata', exported)
    t.ok(Number(await triggers()) > 0)
    t.same((await server.query('export_metadata', {})).body, exported)
    t.same((await server.query('get_inconsistent_metadata', {})).body, {
      is_consistent: true,
      inconsistent_objects: [],
    })
  },
  'set.off': async (t, server) => {
    const count = async (table: string) =>
      (
        await server.sql(
          `select count(*)::int as n from pg_trigger where tgrelid = '${table}'::regclass and not tgisinternal`,
        )
      ).result[1]?.[0]
    t.equal(await count('grown'), '4')
    await server.must('set_table_history', { table: 'grown', history: false })
    t.equal(await count('grown'), '0')
    await server.must('untrack_table', { table: 'child', cascade: true })
    t.equal(await count('child'), '0')
    await server.must('run_sql', { sql: 'create table part_3 partition of part for values in (3)' })
    t.equal(await count('part_3'), '4')
  },
  'set.shares': async (t, server) => {
    for (let round = 0; round < 20; round++) {
      await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          server.must('insert', { table: 'partly', objects: [{ id: 100 + round * 10 + i, a: 'x' }] }),
        ),
      )
    }
    const { text } = await server.fetch('/metrics')
    t.match(text, /database_batches_total\{pool="commits",outcome="good"\}/)
    t.equal((await server.query('row_history', { table: 'partly', limit: 200 })).body.length, 200)
  },
}

/** Its promises, with a case for each. */
export const rowHistory = area('history', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t, {
    builtins: { history: new URL('../../plugins/history/index.js', import.meta.url) },
  })
  await server.sql(SQL)
  const tables = ['item', 'child', 'part', 'base', 'typed', ODD, 'partly', 'grown', 'keyless', 'seen']
  await server.must('bulk', [
    ...tables.map((args) => ({ type: 'track_table', args })),
    ...['item', 'child', 'part', 'base', 'typed', ODD, 'grown'].map((table) => ({
      type: 'set_table_history',
      args: { table },
    })),
    { type: 'set_table_history', args: { table: 'partly', columns: ['a'] } },
    ...(
      [
        ['select', { columns: ['id', 'owner', 'text'], filter: { owner: 'X-Service-User-Id' } }],
        ['insert', { columns: '*', check: {} }],
        ['update', { columns: '*', filter: {} }],
        ['delete', { filter: {} }],
      ] as const
    ).map(([type, permission]) => ({
      type: `create_${type}_permission`,
      args: { table: 'item', role: 'user', permission },
    })),
  ])
  return server
}
