import pg from 'pg'
import t from 'tap'
import { type EventClient, openEvents } from '../kit/events.js'
import { type As, type TestServer, testServer } from '../kit/server.js'

/**
 * Nothing is missed: whatever is written, by whomever and in whatever order it commits, after each quiet moment the last event of
 * each live query is the answer to a fresh request, byte for byte. `ROWHOUSE_LIVE` is the number of moments.
 */
const MOMENTS = Number(process.env['ROWHOUSE_LIVE'] ?? 8)

const SQL = `
create table author (id int primary key, tenant text, name text);
create table post (id int primary key, author_id int references author on delete cascade on update cascade, n int);
create table item (id int primary key, post_id int references post on delete set null, v int);
create table part (id int, kind int, v int, primary key (id, kind)) partition by list (kind);
create table part_0 partition of part for values in (0);
create table part_1 (v int, id int not null, kind int not null); alter table part attach partition part_1 for values in (1);
create table base (id int, v int); create table heir (more int) inherits (base);
insert into author select g, 't' || g % 3, 'a' || g from generate_series(1, 12) g;
insert into post select g, 1 + g % 12, g from generate_series(1, 40) g;
insert into item select g, 1 + g % 40, g from generate_series(1, 80) g;`

const ROLES: readonly (As | undefined)[] = [
  undefined,
  ...[0, 1, 2].map((tenant) => ({ role: 'user', variables: { 'x-service-tenant': `t${tenant}` } })),
]
const select = (table: string, columns: readonly unknown[], more: object = {}) => ({
  type: 'select',
  args: { table, columns, order_by: ['id'], ...more },
})
const QUERIES: Readonly<Record<string, { readonly type: string; readonly args: object }>> = {
  authors: select('author', [
    'id',
    { name: 'posts', columns: ['id', { name: 'items', columns: ['v'], order_by: ['id'] }], order_by: ['id'] },
  ]),
  last: select('post', ['id', 'n'], { order_by: ['-n', 'id'], limit: 5 }),
  busy: select('author', ['name'], { where: { posts: { items: { v: { $gt: 60 } } } } }),
  count: { type: 'count', args: { table: 'item', where: { post: { author: { name: { $like: 'a1%' } } } } } },
  part: select('part', ['id', 'kind', 'v'], { order_by: ['id', 'kind'] }),
  base: select('base', ['id', 'v'], { order_by: ['id', 'v'] }),
}

/** A random number below one. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

/** Statements with the right chances: some fail, which is part of it. */
function statement(random: () => number): string {
  const below = (n: number) => Math.floor(random() * n)
  const id = 1 + below(60)
  const all = [
    `insert into author values (${id}, 't${below(3)}', 'a${below(20)}') on conflict (id) do update set tenant = excluded.tenant`,
    `update author set tenant = 't${below(3)}' where id = ${id}`,
    `update author set id = id + 60 where id = ${id} and not exists (select from author where id = ${id + 60})`,
    `delete from author where id = ${id}`,
    `insert into post select ${id}, id, ${below(100)} from author order by random() limit 1 on conflict do nothing`,
    `update post set n = ${below(100)} where id % 7 = ${below(7)}`,
    `update post set author_id = (select id from author order by random() limit 1) where id = ${id}`,
    `delete from post where id = ${id}`,
    `insert into item select ${below(200)}, id, ${below(100)} from post order by random() limit 1 on conflict do nothing`,
    `update item set v = ${below(100)} where id % 11 = ${below(11)}`,
    `update item set post_id = ${below(2) ? 'null' : '(select id from post order by random() limit 1)'} where id = ${below(200)}`,
    `delete from item where v < ${below(10)}`,
    `insert into part values (${below(10)}, ${below(2)}, ${below(100)}) on conflict (id, kind) do update set v = excluded.v`,
    `update part set kind = 1 - kind where id = ${below(10)}`,
    `insert into part_1 (id, kind, v) values (${below(10)}, 1, 1) on conflict do nothing`,
    `delete from part_0 where v < ${below(50)}`,
    `insert into heir values (${below(10)}, ${below(10)}, 1)`,
    `update base set v = v + 1 where id = ${below(10)}`,
    `delete from only heir where v > ${below(12)}`,
    `savepoint s; delete from item; rollback to s`,
    `merge into item using (values (${below(200)}, ${below(100)})) as w(id, v) on item.id = w.id when matched then update set v = w.v`,
    ...(random() < 0.02 ? [`truncate ${['item', 'part', 'part_1', 'heir'][below(4)]}`] : []),
    `set constraints all immediate; update item set v = v where id = 1`,
  ]
  return all[below(all.length)]!
}

/** Writes in transactions that may take a while, or be rolled back. */
async function write(client: pg.Client, random: () => number): Promise<void> {
  try {
    await client.query('begin')
    for (let left = 1 + Math.floor(random() * 4); left > 0; left--) {
      await client.query(statement(random))
      if (random() < 0.3) await new Promise((resolve) => setTimeout(resolve, random() * 150))
    }
    await client.query(random() < 0.15 ? 'rollback' : 'commit')
  } catch {
    await client.query('rollback')
  }
}

async function prepare(server: TestServer): Promise<void> {
  await server.sql(SQL)
  const tables = ['author', 'post', 'item', 'part', 'base']
  const relationship = (table: string, name: string, type: string, using: object) => ({
    type: `create_${type}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: using } },
  })
  const own = (where: object) => ({ columns: '*', filter: where, allow_aggregations: true })
  const mine = { tenant: 'X-Service-Tenant' }
  await server.must('bulk', [
    ...tables.map((args) => ({ type: 'track_table', args })),
    ...tables.map((table) => ({ type: 'set_table_live', args: { table, live: true } })),
    relationship('author', 'posts', 'array', { table: 'post', column: 'author_id' }),
    relationship('post', 'items', 'array', { table: 'item', column: 'post_id' }),
    {
      type: 'create_object_relationship',
      args: { table: 'post', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    {
      type: 'create_object_relationship',
      args: { table: 'item', name: 'post', using: { foreign_key_constraint_on: 'post_id' } },
    },
    ...Object.entries({
      author: mine,
      post: { author: mine },
      item: { post: { author: mine } },
      part: {},
      base: {},
    }).map(([table, filter]) => ({
      type: 'create_select_permission',
      args: { table, role: 'user', permission: own(filter) },
    })),
  ])
}

/** Returns the queries whose last event is not the answer to a fresh request, once nothing changes any more. */
async function missed(server: TestServer, clients: readonly EventClient[]): Promise<readonly string[]> {
  for (let tries = 0; ; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 250))
    const wrong: string[] = []
    for (const [i, as] of ROLES.entries()) {
      for (const [name, { type, args }] of Object.entries(QUERIES)) {
        const { body } = await server.query(type, args, as)
        if (JSON.stringify(clients[i]!.last(name)) !== JSON.stringify(body)) wrong.push(`${name} of ${i}`)
      }
    }
    if (wrong.length === 0 || tries === 8) return wrong
  }
}

async function run(server: TestServer, moments: number, seed: number): Promise<readonly string[]> {
  const random = numbers(seed)
  const writers = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const client = new pg.Client(server.databaseUrl)
      await client.connect()
      return client
    }),
  )
  const body = JSON.stringify(QUERIES)
  const clients = await Promise.all(ROLES.map((as) => openEvents(server, '/v1/live', { method: 'POST', body }, as)))
  let wrong: readonly string[] = []
  for (let moment = 0; moment < moments && wrong.length === 0; moment++) {
    await Promise.all(
      writers.map(async (client) => {
        for (let times = 0; times < 6; times++) await write(client, random)
      }),
    )
    wrong = await missed(server, clients)
  }
  for (const client of clients) client.close()
  for (const client of writers) await client.end()
  return wrong
}

t.test('live queries miss nothing', { timeout: 20 * 60_000 }, async (t) => {
  const live = new URL('../../plugins/live/index.js', import.meta.url)
  const server = await testServer(t, { builtins: { live } })
  await prepare(server)
  t.same(await run(server, MOMENTS, 4711), [])

  await t.test('without one of the triggers, something is missed', async (t) => {
    for (const [table, event] of [
      ['item', 'update'],
      ['part_0', 'delete'],
      ['part_1', 'insert'],
    ] as const) {
      const { result } = await server.sql(
        `select tgname from pg_trigger where tgrelid = '${table}'::regclass and tgname like 'svc\\_capture%${event}'`,
      )
      const trigger = result[1]?.[0] ?? ''
      // The server does not read the catalog again, and takes it for there.
      await server.sql(`alter table ${table} disable trigger "${trigger}"`)
      t.not((await run(server, 40, 815)).length, 0, `${table} ${event}`)
      await server.sql(`alter table ${table} enable always trigger "${trigger}"`)
    }
  })
})
