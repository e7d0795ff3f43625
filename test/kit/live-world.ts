import type pg from 'pg'
import type { As } from './server.js'

/** Tables, queries and writers of live queries, for tests that nothing is missed. */

export const SQL = `
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

export const ROLES: readonly (As | undefined)[] = [
  undefined,
  ...[0, 1, 2].map((tenant) => ({ role: 'user', variables: { 'x-service-tenant': `t${tenant}` } })),
]
const select = (table: string, columns: readonly unknown[], more: object = {}) => ({
  type: 'select',
  args: { table, columns, order_by: ['id'], ...more },
})
export type Query = { readonly type: string; readonly args: object }
const QUERIES: Readonly<Record<string, Query>> = {
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
/** More queries of a stream, which ask for some rows of a few. */
const ASKED = 14

/** Returns the queries of a stream, by name. */
export const queriesOf = (random: () => number): Readonly<Record<string, Query>> => ({
  ...QUERIES,
  ...Object.fromEntries(Array.from({ length: ASKED }, (_, i) => [`q${i}`, queryOf(random)] as const)),
})

/** Relationships by table, with the table that each leads to, and columns. */
const SHAPE: Readonly<
  Record<string, { readonly columns: readonly string[]; readonly to: Readonly<Record<string, string>> }>
> = {
  author: { columns: ['id', 'tenant', 'name'], to: { posts: 'post' } },
  post: { columns: ['id', 'author_id', 'n'], to: { author: 'author', items: 'item' } },
  item: { columns: ['id', 'post_id', 'v'], to: { post: 'post' } },
}

/** A read of some rows by a key, by the caller, by rows that belong to them, or by what these lack. */
function queryOf(random: () => number): Query {
  const below = (n: number) => Math.floor(random() * n)
  const one = <T>(of: readonly T[]): T => of[below(of.length)]!
  const condition = (table: string, depth: number): object => {
    const { columns, to } = SHAPE[table]!
    const key = one([columns[0]!, columns[1]!])
    const value = key === 'tenant' ? one(['t0', 't1', 't2']) : 1 + below(14)
    const related = one(Object.entries(to))
    const all = [
      () => ({ [key]: value }),
      () => ({ [key]: value }),
      () => ({ [key]: { $in: [value, key === 'tenant' ? 't1' : 1 + below(60)] } }),
      () => ({ $and: [condition(table, depth + 1), condition(table, depth + 1)] }),
      () => ({ $or: [condition(table, depth + 1), condition(table, depth + 1)] }),
      () => ({ $not: condition(table, depth + 1) }),
      () => ({ [related[0]]: condition(related[1], depth + 1) }),
      () => ({ [related[0]]: condition(related[1], depth + 1) }),
      () => ({ [columns[2]!]: { $gte: table === 'author' ? 'a1' : 50 } }),
    ]
    return depth > 2 ? { [key]: value } : one(all)()
  }
  const rows = (table: string, depth: number): object => {
    const { columns, to } = SHAPE[table]!
    const related = depth > 2 ? [] : Object.entries(to).filter(() => random() < 0.5)
    return {
      columns: [
        ...columns.filter(() => random() < 0.7),
        'id',
        ...related.map(([name, there]) => ({ name, ...rows(there, depth + 1) })),
      ],
      ...(random() < (depth === 0 ? 0.9 : 0.3) ? { where: condition(table, 0) } : {}),
      ...(random() < 0.3 ? { limit: 1 + below(4) } : {}),
      order_by: ['id'],
    }
  }
  const table = one(Object.keys(SHAPE))
  if (random() < 0.15) return { type: 'count', args: { table, where: condition(table, 0) } }
  return { type: 'select', args: { table, ...uniqueColumns(rows(table, 0)) } }
}

/** A relationship to one row takes no order and no limit, and a column is named once. */
function uniqueColumns(part: object): object {
  const { columns, ...rest } = part as { columns: (string | { name: string })[] }
  const each = columns.map((column) => {
    if (typeof column === 'string') return column
    const { order_by: _, limit: __, where: ___, ...single } = uniqueColumns(column) as Record<string, unknown>
    return column.name === 'author' || column.name === 'post' ? single : uniqueColumns(column)
  })
  return { ...rest, columns: each.filter((column, i) => typeof column !== 'string' || each.indexOf(column) === i) }
}

/** A random number below one. */
export function numbers(seed: number): () => number {
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
export async function write(client: pg.Client, random: () => number): Promise<void> {
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

/** Returns the metadata of the tables: all of them live, under permissions. */
export function metadataRequests(): readonly object[] {
  const tables = ['author', 'post', 'item', 'part', 'base']
  const relationship = (table: string, name: string, type: string, using: object) => ({
    type: `create_${type}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: using } },
  })
  const own = (where: object) => ({ columns: '*', filter: where, allow_aggregations: true })
  const mine = { tenant: 'X-Service-Tenant' }
  return [
    ...tables.map((args) => ({ type: 'track_table', args })),
    ...tables.map((table) => ({
      type: 'set_table_live',
      args: { table, live: true, ...(table === 'author' ? { columns: ['tenant'] } : {}) },
    })),
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
  ]
}
