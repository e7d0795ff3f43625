import pg from 'pg'
import t from 'tap'
import { survey } from '../../core/metadata/survey.js'
import { toOne } from '../../plugins/query/metadata/relationship-names.js'
import { freshDatabase } from '../kit/database.js'
import { testServer } from '../kit/server.js'

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

t.test('the singular of a name is a word', async (t) => {
  const singulars: Readonly<Record<string, string>> = {
    artist_meta: 'artist_meta',
    edit_data: 'edit_data',
    metadata: 'metadata',
    quota: 'quota',
    pizzas: 'pizza',
    media: 'medium',
    criteria: 'criterion',
    sms: 'sms',
    gps: 'gps',
    gas: 'gas',
    dns: 'dns',
    user_ids: 'user_id',
    atlas: 'atlas',
    sleeves: 'sleeve',
    reserves: 'reserve',
    valves: 'valve',
    olives: 'olive',
    nerves: 'nerve',
    book_shelves: 'book_shelf',
    Wives: 'Wife',
    halves: 'half',
    order_lines: 'order_line',
    OrderStatuses: 'OrderStatus',
    CATEGORIES: 'CATEGORY',
    addresses: 'address',
    analyses: 'analysis',
    cookies: 'cookie',
    caches: 'cache',
    heroes: 'hero',
    indexes: 'index',
    people: 'person',
    news: 'news',
    status: 'status',
  }
  const found = Object.keys(singulars).map((table) => [table, toOne({ columns: ['a', 'b'], table, words: {} })[0]])
  t.strictSame(Object.fromEntries(found), singulars)
})

t.test('foreign keys that only the partitions have are left out, and said to be', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create table customer (id int primary key, no int unique);
      create table payment (id int, day int, customer_id int, staff_no int, other_id int) partition by range (day);
      create table payment_1 partition of payment for values from (0) to (10);
      create table payment_2 partition of payment for values from (10) to (30) partition by range (day);
      create table payment_3 partition of payment_2 for values from (10) to (20);
      alter table payment_1 add foreign key (customer_id) references customer, add foreign key (staff_no) references customer (no);
      alter table payment_3 add foreign key (customer_id) references customer;
      alter table payment add foreign key (other_id) references customer`,
  })
  const reason = 'only its partitions have it; create a relationship to "customer" with manual_configuration'

  const { left_out: leftOut, relationships } = await server.must('track_all', {})

  t.strictSame(leftOut, [{ name: 'foreign key payment (customer_id)', reason }])
  t.strictSame(
    relationships.map(({ name }: { name: string }) => name),
    ['other', 'payments'],
  )
  await server.must('create_object_relationship', {
    table: 'payment',
    name: 'customer',
    using: { manual_configuration: { remote_table: 'customer', column_mapping: { customer_id: 'id' } } },
  })
  t.strictSame((await server.must('track_all', {})).left_out, [])
})
