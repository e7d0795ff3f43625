import type { Test } from 'tap'
import { area, type Case, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What the database learns of who writes. */
const PROMISES = {
  'told.trigger': 'triggers of each kind know role, user id and request id, from the first statement trigger on',
  'told.update': 'those of updates, upserts and deletes, too',
  'told.default': 'defaults know them, in inserts that share a commit as well',
  'told.variables': 'session variables of `database.writerVariables` are settings of their own',
  'told.absent': 'what is not known is an empty text',
  'told.function': 'functions that mutations call know them',
  'told.sql': 'the SQL of an admin knows them',
  'told.cascade': 'triggers that a foreign key, a view or a partition leads to know them',
  'told.bulk': 'each member of a bulk, and each row with related rows, knows them',
  'told.dry-run': 'a dry run knows them, too',
  'told.refused': 'a write that fails leaves its statement as usable as before',
  'told.quoted': 'they are only values, whatever they contain',
  'kept.transaction': 'nothing of them is left after the transaction',
} as const

const SQL = `
create function told() returns text language sql stable as $$
  select concat_ws('/', current_setting('service.role', true), current_setting('service.user_id', true),
    current_setting('service.request_id', true), current_setting('service.org_id', true)) $$;
create table log (id serial primary key, what text, who text);
create function note() returns trigger language plpgsql as $$ begin
  insert into log (what, who) values (concat_ws(' ', tg_table_name, tg_when, tg_op, tg_level), told());
  return case when tg_op = 'DELETE' then old else new end;
end $$;
create table item (id int primary key, text text unique);
create trigger before_rows before insert or update or delete on item for each row execute function note();
create trigger before_all before insert or update or delete on item execute function note();
create trigger after_all after insert or update or delete on item execute function note();
create table owner (id int primary key, name text);
create table owned (id int primary key, owner_id int references owner on delete cascade on update cascade);
create trigger after_all after insert or update or delete on owned for each row execute function note();
create table grand (id int primary key);
alter table owner add column grand_id int references grand on delete cascade;
create table part (id int primary key) partition by list (id);
create table part_1 partition of part for values in (1);
create trigger after_all after insert on part_1 for each row execute function note();
create view item_view as select * from item;
create table stamped (id serial primary key, who text default concat_ws('/', current_setting('service.role', true), current_setting('service.user_id', true)));
create table checked (id int primary key, n int check (n > 0));
create trigger before_rows before insert on checked for each row execute function note();
create function add_item(id int, text text) returns setof item language sql as $$ insert into item values (id, text) returning * $$;
create table plain (id int primary key);`

const ANA: As = { role: 'user', variables: { 'x-service-user-id': 'ana', 'x-service-org-id': '7' } }
const insert = (table: string, object: object, more: object = {}) => ({ table, objects: [object], ...more })
const by = (id: string, step: Step): Step => ({ ...step, headers: { ...step.headers, 'x-request-id': id } })
const ok: Step['expected'] = { status: 200 }

/** What was noted since the last time, in order. */
const noted = (...rows: readonly (readonly [what: string, who: string])[]): readonly Step[] => [
  query(
    'select',
    { table: 'log', columns: ['what', 'who'], order_by: ['id'] },
    is(rows.map(([what, who]) => ({ what, who }))),
  ),
  query('delete', { table: 'log', where: {} }, ok),
]
const each = (who: string, ...whats: readonly string[]) => noted(...whats.map((what) => [what, who] as const))

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'told.trigger': [
    by('r1', query('insert', insert('item', { id: 1, text: 'a' }), ok, ANA)),
    ...each('user/ana/r1/7', 'item BEFORE INSERT STATEMENT', 'item BEFORE INSERT ROW', 'item AFTER INSERT STATEMENT'),
  ],
  'told.update': [
    by('r2', query('update', { table: 'item', where: { id: 1 }, $set: { text: 'b' } }, ok, ANA)),
    ...each('user/ana/r2/7', 'item BEFORE UPDATE STATEMENT', 'item BEFORE UPDATE ROW', 'item AFTER UPDATE STATEMENT'),
    by('r3', query('delete', { table: 'item', where: { id: 5 } }, ok, ANA)),
    ...each('user/ana/r3/7', 'item BEFORE DELETE STATEMENT', 'item AFTER DELETE STATEMENT'),
    by(
      'r4',
      query(
        'insert',
        insert('item', { id: 1, text: 'c' }, { on_conflict: { action: 'update', constraint: 'item_pkey' } }),
        ok,
        ANA,
      ),
    ),
    ...each(
      'user/ana/r4/7',
      'item BEFORE INSERT STATEMENT',
      'item BEFORE UPDATE STATEMENT',
      'item BEFORE INSERT ROW',
      'item BEFORE UPDATE ROW',
      'item AFTER UPDATE STATEMENT',
      'item AFTER INSERT STATEMENT',
    ),
  ],
  'told.default': async (t, server) => {
    // Some of them share commits, once their statement is known to be quick.
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, async (_, i) => {
          const user = `u${round}-${i}`
          const as = { role: 'user', variables: { 'x-service-user-id': user } }
          const body = JSON.stringify({ type: 'insert', args: { table: 'stamped', objects: [{}], returning: ['who'] } })
          const answer = await server.fetch('/v1/query', { method: 'POST', body }, as)
          return { got: answer.body, wanted: { affected_rows: 1, returning: [{ who: `user/${user}` }] } }
        }),
      )
      t.same(
        answers.map(({ got }) => got),
        answers.map(({ wanted }) => wanted),
      )
    }
  },
  'told.variables': [
    by('r5', query('insert', insert('part', { id: 1 }), ok, { role: 'user', variables: { 'x-service-org-id': 'o' } })),
    ...each('user//r5/o', 'part_1 AFTER INSERT ROW'),
  ],
  'told.absent': [
    by('r6', query('insert', insert('owned', { id: 1 }), ok)),
    ...each('admin//r6/', 'owned AFTER INSERT ROW'),
  ],
  'told.function': [
    by('r7', query('call', { function: 'add_item', arguments: { id: 7, text: 'f' } }, ok, ANA)),
    ...each('user/ana/r7/7', 'item BEFORE INSERT STATEMENT', 'item BEFORE INSERT ROW', 'item AFTER INSERT STATEMENT'),
  ],
  'told.sql': [
    by('r8', query('run_sql', { sql: 'insert into owned values (8)' }, ok)),
    ...each('admin//r8/', 'owned AFTER INSERT ROW'),
  ],
  'told.cascade': [
    query('insert', insert('grand', { id: 1 }), ok),
    query('insert', insert('owner', { id: 1, grand_id: 1 }), ok),
    query('insert', insert('owned', { id: 9, owner_id: 1 }), ok),
    query('delete', { table: 'log', where: {} }, ok),
    by('r9', query('update', { table: 'owner', where: { id: 1 }, $set: { id: 2 } }, ok, ANA)),
    ...each('user/ana/r9/7', 'owned AFTER UPDATE ROW'),
    by('r10', query('delete', { table: 'grand', where: { id: 1 } }, ok, ANA)),
    ...each('user/ana/r10/7', 'owned AFTER DELETE ROW'),
    by('r11', query('update', { table: 'item_view', where: { id: 1 }, $set: { text: 'v' } }, ok, ANA)),
    ...each('user/ana/r11/7', 'item BEFORE UPDATE STATEMENT', 'item BEFORE UPDATE ROW', 'item AFTER UPDATE STATEMENT'),
  ],
  'told.bulk': [
    by(
      'r12',
      query(
        'bulk',
        [
          { type: 'insert', args: insert('plain', { id: 1 }) },
          { type: 'insert', args: insert('owned', { id: 10 }) },
          { type: 'insert', args: insert('owner', { id: 3, all: { data: [{ id: 11 }] } }) },
        ],
        ok,
        ANA,
      ),
    ),
    ...each('user/ana/r12/7', 'owned AFTER INSERT ROW', 'owned AFTER INSERT ROW'),
  ],
  'told.dry-run': [
    {
      ...by('r13', query('insert', insert('checked', { id: 1, n: 0 }), refused('postgres-error', /check/), ANA)),
      headers: { prefer: 'tx=rollback', 'x-request-id': 'r13' },
    },
    {
      ...by(
        'r13',
        query('insert', insert('stamped', {}, { returning: ['who'] }), like({ returning: [{ who: 'user/ana' }] }), ANA),
      ),
      headers: { prefer: 'tx=rollback', 'x-request-id': 'r13' },
    },
  ],
  'told.refused': [
    ...[1, 2, 3].map((id) =>
      query('insert', insert('checked', { id, n: -1 }), refused('postgres-error', /check/), ANA),
    ),
    ...[1, 2, 3].map((id) => by('r14', query('insert', insert('checked', { id, n: 1 }), ok, ANA))),
    ...each('user/ana/r14/7', ...[1, 2, 3].map(() => 'checked BEFORE INSERT ROW')),
  ],
  'told.quoted': [
    by(
      'r15',
      query('insert', insert('owned', { id: 15 }), ok, {
        role: 'user',
        variables: { 'x-service-user-id': `a'b"; drop table log; --`, 'x-service-org-id': '$1 \\ e' },
      }),
    ),
    ...each(`user/a'b"; drop table log; --/r15/$1 \\ e`, 'owned AFTER INSERT ROW'),
  ],
  'kept.transaction': async (t, server) => {
    const asked = Array.from({ length: 12 }, () =>
      server.must('run_sql', { sql: 'select pg_sleep(0.01)', read_only: true }),
    )
    await Promise.all(asked)
    const body = JSON.stringify({ type: 'select', args: { table: 'telling', columns: ['who'] } })
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => server.fetch('/v1/query', { method: 'POST', body }, ANA)),
    )
    t.ok(answers.every(({ body: found }) => (found as { who: string }[])[0]?.who.replaceAll('/', '') === ''))
  },
}

/** Its promises, with a case for each. */
export const writers = area('writers', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t, { config: { database: { writerVariables: ['x-service-org-id'] } } })
  await server.sql(SQL)
  await server.sql('create view telling as select told() as who')
  const tables = [
    'log',
    'item',
    'owner',
    'owned',
    'grand',
    'part',
    'item_view',
    'stamped',
    'checked',
    'plain',
    'telling',
  ]
  await server.must('bulk', [
    ...tables.map((args) => ({ type: 'track_table', args })),
    { type: 'track_function', args: 'add_item' },
    { type: 'create_function_permission', args: { function: 'add_item', role: 'user' } },
    {
      type: 'create_array_relationship',
      args: {
        table: 'owner',
        name: 'all',
        using: { foreign_key_constraint_on: { table: 'owned', column: 'owner_id' } },
      },
    },
    ...tables.flatMap((table) => [
      { type: 'create_select_permission', args: { table, role: 'user', permission: { columns: '*', filter: {} } } },
      ...(table === 'log' || table === 'telling'
        ? []
        : [
            {
              type: 'create_insert_permission',
              args: { table, role: 'user', permission: { check: {}, columns: '*' } },
            },
            {
              type: 'create_update_permission',
              args: { table, role: 'user', permission: { filter: {}, columns: '*' } },
            },
            { type: 'create_delete_permission', args: { table, role: 'user', permission: { filter: {} } } },
          ]),
    ]),
  ])
  return server
}
