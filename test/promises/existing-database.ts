import { rowsOf } from '../kit/database.js'
import { area, type Case } from '../kit/promises.js'
import { testServer, type TestServer } from '../kit/server.js'

/** What track_all makes of an existing database. */
const PROMISES = {
  'existing.names': 'track_all tracks tables, views, functions and foreign keys, with the documented names',
  'existing.free-names': 'relationships never fail for want of a name',
  'existing.extensions': 'track_all leaves out what belongs to extensions',
  'existing.dry-run': 'a dry run of track_all has the same answer, and changes nothing',
  'existing.again': 'track_all again adds what is new, and leaves alone what is there',
  'existing.arguments': 'track_all takes schemas, tables and other words for names',
  'existing.remove': 'track_all lists what is gone, and leaves it to an admin to remove it',
} as const

const SCHEMA = `
  create table customer (id int primary key, name text);
  create table address (id int primary key, customer_id int references customer);
  create table orders (id int primary key, customer_id int references customer,
    billing_address_id int references address, shipping_address_id int references address);
  create table order_line (order_id int references orders, line int, primary key (order_id, line));
  create table shipment (id int primary key, order_id int, line int, foreign key (order_id, line) references order_line);
  create table passport (id int primary key references customer, number text);
  create table account (id int primary key, customer_id int references customer);
  create unique index on account (customer_id);
  create table employee (id int primary key, "managerId" int references employee, boss int references employee);
  create table person (id int primary key);
  create table pet (id int primary key, person_id int references person, person text);
  create view big_order as select * from orders;
  create materialized view totals as select count(*) from orders;
  create table log (id int not null, day int not null, primary key (id, day)) partition by range (day);
  create table log_1 partition of log for values from (0) to (10);
  create table log_note (id int primary key, log_id int, day int, foreign key (log_id, day) references log);
  create table "Order Items" (id int primary key, "first name" text);
  create table query_root (id int primary key);
  create schema other;
  create table other.orders (id int primary key, customer_id int references public.customer);
  create table twice (id int primary key, a int references person, b int);
  alter table twice add foreign key (a) references customer;
  create function big_orders(minimum int) returns setof orders language sql stable as 'select * from orders';
  create function overloaded(a int) returns setof orders language sql stable as 'select * from orders';
  create function overloaded(a text) returns setof orders language sql stable as 'select * from orders';
  create function count_orders() returns bigint language sql stable as 'select count(*) from orders';
  create function touch() returns trigger language plpgsql as 'begin return new; end'`

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

/** The server, with another database, of which nothing is tracked. */
async function fresh(server: TestServer, sql = SCHEMA): Promise<TestServer> {
  await server.must('clear_metadata', {})
  await server.must('run_sql', {
    sql: `drop schema public cascade; drop schema if exists other cascade; create schema public; ${sql}`,
  })
  return server
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'existing.names': async (t, server) => {
    const { must, query } = await fresh(server)

    const report = (await must('track_all', {})) as Report

    t.strictSame(report.tables.map(text), [
      'account',
      'address',
      'big_order',
      'customer',
      'employee',
      'log',
      'log_note',
      'Order Items',
      'order_line',
      'orders',
      'passport',
      'person',
      'pet',
      'query_root',
      'shipment',
      'totals',
      'twice',
      'other.orders',
    ])
    t.strictSame(named(report).toSorted(), [
      'account.customer object customer',
      'address.customer object customer',
      'address.orders_by_billing_address array orders',
      'address.orders_by_shipping_address array orders',
      'customer.account object account',
      'customer.addresses array address',
      'customer.orders array other.orders',
      'customer.orders_by_customer array orders',
      'customer.passport object passport',
      'customer.twices array twice',
      'employee.employee object employee',
      'employee.employees_by_boss array employee',
      'employee.employees_by_manager array employee',
      'employee.manager object employee',
      'log.log_notes array log_note',
      'log_note.log object log',
      'order_line.order object orders',
      'order_line.shipments array shipment',
      'orders.billing_address object address',
      'orders.customer object customer',
      'orders.order_lines array order_line',
      'orders.shipping_address object address',
      'other.orders.customer object customer',
      'passport.customer object customer',
      'person.pets array pet',
      'person.twices array twice',
      'pet.person_by_person object person',
      'shipment.order_line object order_line',
      'twice.customer object customer',
      'twice.person object person',
    ])
    t.strictSame(report.functions, ['big_orders'])
    t.strictSame(report.left_out, [
      { name: 'function count_orders', reason: 'returns no rows of a table; track_function tracks it' },
      { name: 'function overloaded', reason: 'function "overloaded" is overloaded' },
    ])
    t.strictSame(report.not_in_graphql, [])
    t.strictSame(report.remove, [])
    t.match(
      report.relationships.find(({ table, name }) => table === 'orders' && name === 'order_lines'),
      { using: { foreign_key_constraint_on: { table: 'order_line', column: 'order_id' } } },
      'what creates the relationship alone',
    )
    t.match(report.counts, { tables: 18, relationships: 30, functions: 1, left_out: 2, not_in_graphql: 0, remove: 0 })
    t.same((await must('get_inconsistent_metadata', {})).inconsistent_objects, [])
    await must('replace_metadata', await must('export_metadata', {}))
    await must('run_sql', {
      sql: 'insert into customer values (1); insert into passport values (1); insert into twice values (1)',
    })
    const columns = ['id', { name: 'passport', columns: ['id'] }, { name: 'twices', columns: ['id'] }]
    t.same(await must('select', { table: 'customer', columns }), [{ id: 1, passport: { id: 1 }, twices: [] }])
    t.match(await query('select', { table: 'customer', columns: ['id'] }, { role: 'user' }), { status: 400 })
  },
  'existing.free-names': async (t, server) => {
    const long = 'x'.repeat(60)
    const { must } = await fresh(
      server,
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
  },
  'existing.extensions': async (t, server) => {
    const { must } = await fresh(
      server,
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
  },
  'existing.dry-run': async (t, server) => {
    const { must } = await fresh(server)
    const before = await must('export_metadata', {})

    const { dry_run: dry, ...wanted } = await must('track_all', { dry_run: true })

    t.equal(dry, true)
    t.same(await must('export_metadata', {}), before)
    const { dry_run: _, ...done } = await must('track_all', {})
    t.same(done, wanted)
  },
  'existing.again': async (t, server) => {
    const { must } = await fresh(
      server,
      'create table customer (id int primary key); create table orders (id int primary key, customer_id int references customer)',
    )
    await must('bulk', [
      { type: 'track_table', args: 'customer' },
      { type: 'track_table', args: 'orders' },
      {
        type: 'create_object_relationship',
        args: { table: 'orders', name: 'buyer', using: { foreign_key_constraint_on: 'customer_id' } },
      },
      {
        type: 'create_array_relationship',
        args: {
          table: 'customer',
          name: 'bought',
          using: { manual_configuration: { remote_table: 'orders', column_mapping: { id: 'customer_id' } } },
        },
      },
    ])
    const before = await must('export_metadata', {})

    t.match(await must('track_all', {}), { counts: { tables: 0, relationships: 0, left_out: 0 } })
    t.same(await must('export_metadata', {}), before)
    await must('run_sql', {
      sql: 'alter table orders add payer_id int references customer; create table note (id int)',
    })
    const added = (await must('track_all', {})) as Report
    t.strictSame(added.tables, ['note'])
    t.strictSame(named(added), ['orders.payer object customer', 'customer.orders_by_payer array orders'])
  },
  'existing.arguments': async (t, server) => {
    const { must, query } = await fresh(server)

    const first = (await must('track_all', {
      tables: ['person', 'pet', 'log_1', 'pet'],
      names: { 'public.person': { singular: 'human' }, pet: { plural: 'animals' } },
    })) as Report
    t.strictSame(first.tables, ['person', 'pet', 'log_1'])
    t.strictSame(named(first), ['pet.human object person', 'person.animals array pet'])
    t.strictSame(first.functions, [])

    const second = (await must('track_all', { schemas: ['other'] })) as Report
    t.strictSame(second.tables, [{ schema: 'other', name: 'orders' }])
    t.strictSame(second.left_out, [
      { name: 'foreign key other.orders.orders_customer_id_fkey', reason: 'table "customer" is not tracked' },
    ])

    const refused = async (args: object, code: string, path: string, error: string | RegExp) =>
      t.match(await query('track_all', args), { status: 400, body: { code, path, error } }, JSON.stringify(args))
    await refused({ tables: ['customer', 'nope'] }, 'not-exists', '$.args.tables[1]', /does not exist in the database/)
    await refused({ schemas: ['nope'] }, 'not-exists', '$.args.schemas[0]', 'schema "nope" does not exist')
    await refused({ names: { nope: {} } }, 'not-exists', '$.args.names.nope', /does not exist/)
    await refused({ names: { person: { plural: 1 } } }, 'parse-failed', '$.args.names.person.plural', /string/)
    await refused({ schemas: [], tables: [] }, 'parse-failed', '$.args', /either/)
    await refused({ schema: 'public' }, 'unexpected-payload', '$.args.schema', /did you mean "schemas"/)
    t.match(await query('track_all', {}, { role: 'user' }), { status: 400, body: { code: 'access-denied' } })
    t.strictSame((await must('export_metadata', {})).tables.length, 4)
  },
  'existing.remove': async (t, server) => {
    const { must, databaseUrl } = await fresh(server, 'create table a (id int); create table b (id int)')
    await must('track_all', {})
    await rowsOf(databaseUrl, 'drop table a')

    const report = (await must('track_all', {})) as Report

    t.strictSame(report.remove, [{ name: 'table a', reason: 'table or view "a" does not exist in the database' }])
    t.strictSame((await must('export_metadata', {})).tables.length, 2)
  },
}

export const existingDatabase = area('existing-database', {
  promises: PROMISES,
  pages: {
    'plugins/query/metadata.md': {
      'An existing database': {
        '`schemas`': 'existing.arguments',
        '`tables`': 'existing.arguments',
        '`names`': 'existing.arguments',
        '`dry_run`': 'existing.dry-run',
        'one row': 'existing.names',
        '': 'existing.names',
        'many rows': 'existing.names',
        'one row, because the columns of the foreign key are unique': 'existing.names',
      },
      'Tables and relationships (admin)': {
        '`track_all`': 'existing.names',
      },
    },
  },
  start: (t) => testServer(t),
  cases: CASES,
})
