import t from 'tap'
import { operatorNames } from '../../core/plan/operators.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

interface Described {
  readonly tables: readonly DescribedTable[]
  readonly functions: readonly { readonly function: { readonly name: string } }[]
  readonly operators: Readonly<Record<string, readonly string[]>>
  readonly roles?: readonly string[]
}
interface DescribedTable {
  readonly table: { readonly schema: string; readonly name: string }
  readonly columns: readonly {
    readonly name: string
    readonly type: string
    readonly select: boolean
    readonly insert: boolean
    readonly update: boolean
  }[]
  readonly relationships: readonly { readonly name: string }[]
  readonly actions: Readonly<Record<string, boolean>>
  readonly aggregations: boolean
}

let server: TestServer

t.before(async () => {
  server = await testServer(t)
  await server.must('run_sql', {
    sql: `create type mood as enum ('calm', 'loud');
      create table customer (id int primary key, name text not null, email text unique, secret text, moods mood[]);
      create table orders (id bigint generated always as identity primary key, customer_id int references customer on delete cascade,
        checked_by int references customer, note jsonb, total numeric default 0 not null, code text, unique (customer_id, code));
      create table item (order_id bigint references orders on delete set null, place int, at timestamptz, spot point,
        twice int generated always as (place * 2) stored, primary key (order_id, place));
      create table private (id int primary key, customer_id int references customer on delete restrict);
      create table node (id int primary key, parent_id int references node);
      create view busy as select id, name from customer where name > 'a';
      create view counts as select count(*) as n from customer;
      create table untracked (id int primary key, customer_id int references customer);
      comment on table orders is 'What was "ordered"';
      comment on column orders.total is 'With tax';
      create function initials(c customer) returns text language sql stable as 'select left(c.name, 1)';
      create function found(query text, most int default 10) returns setof customer language sql stable as 'select * from customer';
      create function sum_of(int, int) returns int language sql immutable as 'select $1 + $2';
      insert into customer select n, 'c' || n, n || '@x.example' from generate_series(1, 3) n;
      insert into orders (customer_id, checked_by, code) values (1, 2, '1'), (1, 2, '2');
      insert into item select 1, n from generate_series(1, 3) n;
      insert into private values (1, 3);
      insert into node values (1, 1), (2, 1), (3, null)`,
  })
  const permit = (type: string, table: string, role: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role, permission },
  })
  const tables = ['customer', 'orders', 'item', 'private', 'node', 'busy', 'counts']
  await server.must('track_all', { tables })
  await server.must('bulk', [
    { type: 'add_computed_field', args: { table: 'customer', name: 'initials', definition: { function: 'initials' } } },
    { type: 'track_function', args: 'found' },
    { type: 'track_function', args: 'sum_of' },
    { type: 'create_function_permission', args: { function: 'found', role: 'clerk' } },
    { type: 'create_function_permission', args: { function: 'found', role: 'writer' } },
    { type: 'create_function_permission', args: { function: 'sum_of', role: 'caller' } },
    permit('select', 'customer', 'clerk', {
      columns: ['id', 'name', 'moods'],
      filter: {},
      computed_fields: ['initials'],
    }),
    permit('select', 'orders', 'clerk', {
      columns: ['id', 'customer_id', 'note'],
      filter: { id: { $gt: 1 } },
      allow_aggregations: true,
      limit: 5,
    }),
    permit('insert', 'orders', 'clerk', { columns: ['customer_id', 'total'], check: {}, allow_upsert: true }),
    permit('update', 'orders', 'clerk', { columns: ['note'], filter: {} }),
    permit('select', 'item', 'clerk', { columns: ['place', 'at', 'spot'], filter: {} }),
    permit('select', 'busy', 'clerk', { columns: '*', filter: {} }),
    permit('insert', 'counts', 'clerk', { columns: '*', check: {} }),
    permit('insert', 'customer', 'writer', { columns: ['id', 'name', 'secret'], check: {} }),
    permit('update', 'item', 'writer', { columns: ['place', 'twice'], filter: {} }),
    permit('delete', 'orders', 'cleaner', { filter: {} }),
    permit('select', 'customer', 'cleaner', { columns: ['id'], filter: {} }),
    permit('select', 'node', 'cleaner', { columns: '*', filter: {} }),
    permit('delete', 'private', 'keeper', { filter: {}, backend_only: true }),
  ])
})

const BACKEND = { 'x-service-use-backend-only-permissions': 'true' }
const CALLERS: readonly As[] = [
  {},
  ...['clerk', 'writer', 'cleaner', 'caller', 'keeper', 'nobody'].map((role) => ({ role })),
  { role: 'keeper', variables: BACKEND },
]

async function described(as: As): Promise<Described> {
  const { status, body, text } = await server.query('describe', {}, as)
  t.equal(status, 200, 'describe answers', { text })
  return body as Described
}
const tableIn = ({ tables }: Described, name: string) => tables.find(({ table }) => table.name === name)

t.test('describe says what each role can do, and nothing else', async (t) => {
  const everything = await described({})
  for (const as of CALLERS) {
    const who = `${as.role ?? 'admin'}${as.variables ? ' of a backend' : ''}`
    const found = await described(as)
    for (const { table, columns, relationships } of everything.tables) {
      if (table.schema !== 'public' && table.name !== 'svc_table') continue
      const own = tableIn(found, table.name)
      const may = async (what: string, expected: boolean, type: string, args: object) => {
        const { status, body } = await server.fetch(
          '/v1/query/explain',
          post({ query: { type, args: { table, ...args } }, role: as.role }),
        )
        const refused = status === 400 && REFUSALS.includes(body.code)
        if (refused === expected) t.fail(`${who} ${what} ${table.name}`, { expected, status, body })
      }
      // Explain knows no backends.
      if (as.variables) continue
      for (const { name } of columns) {
        const column = own?.columns.find((each) => each.name === name)
        await may(`selects ${name} of`, column?.select === true, 'select', { columns: [name] })
        await may(`inserts ${name} of`, column?.insert === true, 'insert', { objects: [{ [name]: null }] })
        await may(`updates ${name} of`, column?.update === true, 'update', { where: {}, $set: { [name]: null } })
      }
      for (const { name } of relationships) {
        const isTold = own?.relationships.some((each) => each.name === name) === true
        if (own?.actions['select'] !== true) continue
        await may(`follows ${name} of`, isTold, 'select', { columns: [{ name, columns: [] }] })
      }
      await may('selects', own?.actions['select'] === true, 'count', {})
      await may('deletes', own?.actions['delete'] === true, 'delete', { where: {} })
      const sum = { columns: [{ count: '*', as: 'n' }] }
      await may('aggregates', own?.aggregations === true, 'select', sum)
    }
    for (const { function: called } of everything.functions) {
      const isTold = found.functions.some((each) => each.function.name === called.name)
      const { body } = await server.query('call', { function: called }, as)
      t.equal(body.code === 'permission-denied', !isTold, `${who} calls ${called.name}`)
    }
    t.same(found.roles, as.role === undefined ? ['caller', 'cleaner', 'clerk', 'keeper', 'writer'] : undefined)
  }
  t.same(await described({ role: 'nobody' }), { tables: [], functions: [], operators: {} })
  t.same((await described({ role: 'keeper' })).tables, [])
  t.same((await described({ role: 'keeper', variables: BACKEND })).tables[0]?.actions, {
    select: false,
    insert: false,
    update: false,
    delete: true,
    upsert: false,
  })
})
const REFUSALS = ['permission-denied', 'unexpected-payload', 'not-exists']

const post = (body: object): RequestInit => ({ method: 'POST', body: JSON.stringify(body) })

t.test('the operators of a type are those that a condition takes', async (t) => {
  const { tables, operators } = await described({})
  const value = (operator: string, column: string) => {
    if (/n?in$|_any$|_all$/.test(operator)) return []
    return operator === '$is_null'
      ? true
      : operator === '$cast'
        ? { text: { $is_null: true } }
        : /^\$c(n?eq?|[gl]te?)$/.test(operator)
          ? column
          : null
  }
  // One column of each type.
  const columns = tables.flatMap(({ table, columns }) => columns.map(({ name, type }) => ({ table, name, type })))
  const byType = new Map(columns.map((column) => [column.type, column]))
  for (const { table, name, type } of byType.values()) {
    for (const operator of operatorNames('$')) {
      const where = { [name]: { [operator]: value(operator, name) } }
      const { status, text } = await server.query('count', { table, where })
      const isTold = operators[type]?.includes(operator) === true
      if ((status === 200) !== isTold) t.fail(`${operator} on ${type}`, { isTold, text })
    }
  }
  t.ok(byType.size > 8)
})

t.test('describe tells types, keys, values and comments as far as a role sees them', async (t) => {
  const of = async (as: As, name: string) => tableIn(await described(as), name) as DescribedTable
  const column = { has_default: undefined, generated: false, values: undefined, comment: undefined }
  const no = { select: false, insert: false, update: false }
  const noActions = { ...no, delete: false, upsert: false }

  const { columns, ...orders } = await of({}, 'orders')
  t.match(orders, {
    kind: 'table',
    comment: 'What was "ordered"',
    primary_key: ['id'],
    unique: [
      { name: 'orders_pkey', columns: ['id'] },
      { name: 'orders_customer_id_code_key', columns: ['customer_id', 'code'] },
    ],
    limit: null,
  })
  const total = { name: 'total', type: 'numeric', nullable: false, has_default: true, generated: false }
  t.same(columns[4], { ...total, comment: 'With tax', select: true, insert: true, update: true })

  t.same(
    await of({ role: 'clerk' }, 'orders'),
    plain({
      table: { schema: 'public', name: 'orders' },
      kind: 'table',
      primary_key: ['id'],
      unique: [{ name: 'orders_pkey', columns: ['id'] }],
      columns: [
        { ...column, ...no, name: 'id', type: 'int8', nullable: false, generated: true, select: true },
        {
          ...column,
          ...no,
          name: 'customer_id',
          type: 'int4',
          nullable: true,
          has_default: false,
          select: true,
          insert: true,
        },
        { ...column, ...no, name: 'note', type: 'jsonb', nullable: true, select: true, update: true },
        { ...total, ...no, insert: true },
      ],
      computed_fields: [],
      relationships: [
        { name: 'customer', type: 'object', table: { schema: 'public', name: 'customer' } },
        {
          name: 'customer_by_customer',
          type: 'object',
          table: { schema: 'public', name: 'customer' },
          columns: { customer_id: 'id' },
        },
        { name: 'items', type: 'array', table: { schema: 'public', name: 'item' } },
      ],
      actions: { ...noActions, select: true, insert: true, update: true, upsert: true },
      aggregations: true,
      limit: 5,
    }),
  )
  t.match(await of({ role: 'clerk' }, 'customer'), {
    columns: [{ name: 'id' }, { name: 'name' }, { name: 'moods', type: 'public.mood[]', values: ['calm', 'loud'] }],
    computed_fields: [{ name: 'initials', type: 'text', arguments: [] }],
  })
  t.match(await of({ role: 'clerk' }, 'item'), { primary_key: [], unique: [] }, 'a part of a key is not told')
  t.match(await of({ role: 'clerk' }, 'counts'), { actions: noActions }, 'a view that cannot be written to')
  t.match(await of({ role: 'cleaner' }, 'orders'), {
    columns: [],
    relationships: [],
    actions: { ...noActions, delete: true },
  })
})

t.test('dependents are counted as far as a role sees them, with what a delete does', async (t) => {
  const fill = 'insert into orders (customer_id, checked_by, code) select 1, 2, n from generate_series(3, 1002) n'
  await server.must('run_sql', { sql: fill })
  t.teardown(() => server.must('run_sql', { sql: 'delete from orders where id > 2' }))
  const of = async (table: string, key: object, as?: As) => {
    const { body } = await server.query('dependents', { table, key }, as)
    return body.dependents ?? body
  }
  const dependent = (name: string, columns: object, on_delete: string, rows: number, blocks = false) => ({
    table: { schema: 'public', name },
    columns,
    on_delete,
    rows,
    more: false,
    blocks,
  })
  const referenced = [
    { ...dependent('orders', { customer_id: 'id' }, 'cascade', 1000), more: true },
    dependent('orders', { checked_by: 'id' }, 'no action', 0),
    dependent('private', { customer_id: 'id' }, 'restrict', 0),
  ]

  t.same(sorted(await of('customer', { id: 1 })), sorted(referenced))
  t.match(
    sorted(await of('customer', { name: 'c2' })),
    sorted([
      { ...referenced[0], rows: 0, more: false },
      { ...referenced[1], rows: 1000, more: true, blocks: true },
      { ...referenced[2], rows: 0 },
    ]),
  )
  t.match(await of('customer', { id: 3 }), [{}, {}, { on_delete: 'restrict', rows: 1, blocks: true }])
  t.same(await of('orders', { id: 1 }), [dependent('item', { order_id: 'id' }, 'set null', 3)])
  t.same(await of('node', { id: 1 }), [dependent('node', { parent_id: 'id' }, 'no action', 1, true)], 'but for itself')
  t.same(await of('node', { id: 2 }), [dependent('node', { parent_id: 'id' }, 'no action', 0)])

  const clerk = { role: 'clerk' }
  t.same(
    await of('customer', { id: 1 }, clerk),
    [{ ...referenced[0], rows: 5, more: true }],
    'the limit of the permission, and neither the hidden column nor the hidden table',
  )
  t.same(await of('orders', { id: 2 }, clerk), [], 'not through a hidden column of the other table')
  t.match(await of('orders', { id: 1 }, clerk), { code: 'not-exists', path: '$.args.key' }, 'a hidden row')
  t.match(await of('orders', { id: 0 }, clerk), { code: 'not-exists', path: '$.args.key' }, 'no row')
  t.match(await of('orders', { code: '1' }, clerk), { code: 'permission-denied', path: '$.args.key.code' })
  t.match(await of('private', { id: 1 }, clerk), { code: 'permission-denied', path: '$.args.table' })
  t.match(await of('customer', {}), { code: 'unexpected-payload', path: '$.args.key' })
  t.match((await server.query('dependents', { table: 'customer' })).body, { code: 'parse-failed', path: '$.args' })
})
const sorted = (all: readonly object[]) => all.map((each) => JSON.stringify(each)).sort()

/** As JSON has it: without keys that are undefined. */
const plain = (value: object): unknown => JSON.parse(JSON.stringify(value))

t.test('lists of tables have one order: those of public first, whatever the case', async (t) => {
  const server = await testServer(t)
  const names = ['public.alpha', 'public.Beta', 'public.Mixed Case', 'public.zeta', 'Big.x', 'hr.Employee', 'hr.pay']
  const quoted = (name: string) => name.replace(/(.*)\.(.*)/, '"$1"."$2"')
  await server.must('run_sql', {
    sql: `create schema "Big"; create schema hr; ${[...names]
      .sort()
      .map((name) => `create table ${quoted(name)} (id int primary key);`)
      .join(' ')}`,
  })
  const listed = (tables: readonly unknown[]) =>
    tables
      .map(
        (table) => (typeof table === 'string' ? { schema: 'public', name: table } : table) as DescribedTable['table'],
      )
      .filter(({ schema }) => schema !== 'svc_catalog')
      .map(({ schema, name }) => `${schema}.${name}`)

  t.same(listed((await server.must('track_all', { dry_run: true })).tables), names)
  t.same(listed((await server.must('track_all', {})).tables), names)
  const { tables } = (await server.must('describe', {})) as Described
  t.same(listed(tables.map(({ table }) => table)), names)
  const sizes = (await server.must('table_sizes', {})).tables as readonly DescribedTable[]
  t.same(listed(sizes.map(({ table }) => table)), names)
})
