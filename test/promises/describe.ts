import type { Test } from 'tap'
import { permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, is, like, query, refused } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What a role may use, and what depends on a row. */
const PROMISES = {
  'describe.role': 'describe has the tables, columns and actions that the role may use, and nothing else',
  'describe.admin': 'admin gets all of them, with comments and the names of roles',
  'describe.keys': 'a key is described to a role that may select all of its columns',
  'describe.functions': 'functions have their arguments and results, for roles that may call them',
  'describe.operators': 'and each type the operators that a condition takes',
  'describe.changed': 'a change of a permission is described immediately, also within a bulk',
  'dependents.rows': 'dependents counts the rows that refer to a row, and says what a delete does',
  'dependents.role': 'as far as the role sees them',
} as const

const SQL = `
create type mood as enum ('calm', 'loud');
create table customer (id int primary key, city text);
create table orders (id int primary key, customer_id int references customer, state text, total numeric default 0, secret text);
create table item (order_id int references orders on delete cascade, place int, note text, primary key (order_id, place));
create table felt (id bigint generated always as identity primary key, mood mood not null default 'calm', hidden int unique);
create view busy as select id from customer;
comment on table felt is 'How it was';
comment on column felt.mood is 'Of two kinds';
create function sum_of(int, int) returns int language sql immutable as 'select $1 + $2';
create function cities(prefix text, most int default 10) returns setof customer language sql stable as 'select * from customer';
insert into customer values (1, 'Quito'), (2, 'Oslo');
insert into orders values (10, 1, 'new'), (11, 2, 'new');
insert into item values (10, 1, 'a'), (10, 2, 'b')`

const USER: As = { role: 'user' }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'describe.role': async (t, server) => {
    const { tables, functions, roles } = (await server.query('describe', {}, USER)).body
    t.same(
      tables.map(({ table }: { table: { name: string } }) => table.name),
      ['customer', 'felt', 'item', 'orders'],
    )
    const [customer, felt, item, orders] = tables
    t.match(orders, {
      table: { schema: 'public', name: 'orders' },
      kind: 'table',
      primary_key: ['id'],
      actions: { select: true, insert: true, update: true, delete: false, upsert: true },
      aggregations: false,
      limit: 10,
    })
    t.same(
      orders.columns.map(({ name, type, select, insert: adds, update }: Record<string, unknown>) => [
        name,
        type,
        select,
        adds,
        update,
      ]),
      [
        ['id', 'int4', true, true, false],
        ['state', 'text', true, true, true],
        ['total', 'numeric', true, true, false],
      ],
    )
    t.same(orders.relationships, [{ name: 'customer', type: 'object', table: { schema: 'public', name: 'customer' } }])
    t.match(customer, { columns: [{ name: 'city' }], primary_key: { length: 0 }, aggregations: true, limit: null })
    t.match(felt.columns, [
      { name: 'mood', type: 'public.mood', nullable: false, generated: false, values: ['calm', 'loud'], insert: false },
    ])
    t.match(item.actions, { select: true, insert: false, update: false, delete: true, upsert: false })
    t.same([functions, roles], [[], undefined])
    t.same((await server.query('describe', {}, { role: 'nobody' })).body, { tables: [], functions: [], operators: {} })
  },
  'describe.admin': async (t, server) => {
    const { tables, roles } = await server.must('describe', {})
    const of = (name: string) => tables.find(({ table }: { table: { name: string } }) => table.name === name)
    t.match(of('felt'), {
      comment: 'How it was',
      columns: [
        { name: 'id', generated: true, insert: false },
        { name: 'mood', comment: 'Of two kinds', has_default: true },
        { name: 'hidden' },
      ],
    })
    t.match(of('busy'), { kind: 'view' })
    t.match(of('orders').relationships, [{ name: 'customer', columns: { customer_id: 'id' } }])
    t.same(roles, ['caller', 'clerk', 'user'])
  },
  'describe.keys': async (t, server) => {
    const keys = async (who: As) => {
      const { tables } = (await server.query('describe', {}, who)).body
      const { primary_key: primary, unique } = tables.find(
        ({ table }: { table: { name: string } }) => table.name === 'felt',
      )
      return [primary, unique.map(({ name }: { name: string }) => name).toSorted()]
    }
    t.same(await keys(USER), [[], []])
    t.same(await keys({ role: 'clerk' }), [['id'], ['felt_pkey']])
    t.same(await keys({}), [['id'], ['felt_hidden_key', 'felt_pkey']])
  },
  'describe.functions': async (t, server) => {
    const { functions } = (await server.query('describe', {}, { role: 'caller' })).body
    t.same(functions, [
      {
        function: { schema: 'public', name: 'cities' },
        arguments: [
          { name: 'prefix', type: 'text', has_default: false },
          { name: 'most', type: 'int4', has_default: true },
        ],
        returns: { table: { schema: 'public', name: 'customer' }, set: true },
        volatile: false,
      },
      {
        function: { schema: 'public', name: 'sum_of' },
        arguments: [
          { name: 'arg_1', type: 'int4', has_default: false },
          { name: 'arg_2', type: 'int4', has_default: false },
        ],
        returns: { type: 'int4', set: false },
        volatile: false,
      },
    ])
  },
  'describe.operators': async (t, server) => {
    const { operators } = (await server.query('describe', {}, USER)).body
    t.ok(['$eq', '$ne', '$gt', '$in', '$is_null'].every((each) => operators.int4.includes(each)))
    t.ok(operators.text.includes('$like') && !operators.int4.includes('$like'))
    t.same(Object.keys(operators).toSorted(), ['int4', 'numeric', 'public.mood', 'text'])
  },
  'describe.changed': async (t, server) => {
    const as = { role: 'changing' }
    const tables = async () => (await server.query('describe', {}, as)).body.tables
    t.same(await tables(), [])
    const change = permit('select', 'busy', 'changing', { columns: ['id'], filter: {} })
    const [, inside] = await server.must('bulk', [change, { type: 'describe', args: {} }])
    t.ok(inside.roles.includes('changing'))
    t.match(await tables(), [{ table: { name: 'busy' }, columns: [{ name: 'id' }] }])
    await server.must('drop_select_permission', { table: 'busy', ...as })
    t.same(await tables(), [])
  },
  'dependents.rows': [
    query(
      'dependents',
      { table: 'orders', key: { id: 10 } },
      is({
        dependents: [
          {
            table: { schema: 'public', name: 'item' },
            columns: { order_id: 'id' },
            on_delete: 'cascade',
            rows: 2,
            more: false,
            blocks: false,
          },
        ],
      }),
    ),
    query(
      'dependents',
      { table: 'customer', key: { id: 1 } },
      is({
        dependents: [
          {
            table: { schema: 'public', name: 'orders' },
            columns: { customer_id: 'id' },
            on_delete: 'no action',
            rows: 1,
            more: false,
            blocks: true,
          },
        ],
      }),
    ),
    query('dependents', { table: 'customer', key: {} }, refused('unexpected-payload', /./, '$.args.key')),
  ],
  'dependents.role': [
    query(
      'dependents',
      { table: 'orders', key: { id: 10 } },
      like({ dependents: [{ table: { name: 'item' }, rows: 1, more: false }] }),
      { role: 'clerk' },
    ),
    query('dependents', { table: 'orders', key: { id: 11 } }, refused('not-exists', /./, '$.args.key'), {
      role: 'clerk',
    }),
    query(
      'dependents',
      { table: 'orders', key: { secret: 'x' } },
      refused('permission-denied', /"secret"/, '$.args.key.secret'),
      { role: 'clerk' },
    ),
    query('dependents', { table: 'customer', key: { city: 'Quito' } }, is({ dependents: [] }), USER),
  ],
}

export const describe = area('describe', { promises: PROMISES, start, cases: CASES })

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const all = (columns: readonly string[]) => ({ columns, filter: {} })
  await server.must('bulk', [
    ...['customer', 'orders', 'item', 'felt', 'busy'].map(track),
    relate('object', 'orders', 'customer', 'customer_id'),
    ...['cities', 'sum_of'].flatMap((name) => [
      { type: 'track_function', args: name },
      { type: 'create_function_permission', args: { function: name, role: 'caller' } },
    ]),
    permit('select', 'customer', 'caller', all(['id', 'city'])),
    permit('select', 'customer', 'user', { ...all(['city']), allow_aggregations: true }),
    permit('select', 'felt', 'user', all(['mood'])),
    permit('select', 'felt', 'clerk', all(['id', 'mood'])),
    permit('select', 'orders', 'clerk', { columns: ['id'], filter: { id: 10 } }),
    permit('select', 'item', 'clerk', { columns: ['order_id'], filter: { note: 'a' } }),
    permit('select', 'orders', 'user', { ...all(['id', 'state', 'total']), limit: 10 }),
    permit('insert', 'orders', 'user', { columns: ['id', 'state', 'total'], check: {} }),
    permit('update', 'orders', 'user', all(['state'])),
    permit('select', 'item', 'user', all(['place'])),
    permit('delete', 'item', 'user', { filter: {} }),
  ])
  return server
}
