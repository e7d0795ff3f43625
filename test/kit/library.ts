import type { TestServer } from './server.js'

/** Three authors, one of them without a name; six articles, the odd ones published and by Ann. No notes and no pets. */
const SQL = `
create table author (
  id int primary key, name text, code varchar unique, age int, big bigint, num numeric, made timestamptz, born date, uid uuid, flag bool,
  tags text[], data jsonb, doc json
);
create table article (
  id int primary key, title text not null default 'untitled', rating int, weight real, published bool not null default false,
  author_id int references author, twice int generated always as (id * 2) stored, check (id < 1000)
);
create table note (id int primary key, body text, n int, data jsonb, owner int);
create table pet (id int primary key, name text, age int, owner int references author);
insert into author values
  (1, 'Ann', 'a', 30, 9007199254740993, 1.10, '2024-01-02Z', '1970-01-02', '00000000-0000-0000-0000-000000000001', true, '{a,b}', '{"k": 1}', '1'),
  (2, 'Bob', 'b', null, 2, 2, null, null, null, false, '{}', '{"k": 2}', null),
  (3, null, null, 50, null, null, null, null, null, null, null, null, null);
insert into article (id, title, rating, published, author_id)
  select n, 'a' || n, n * 10, n % 2 = 1, 1 + (n + 1) % 2 from generate_series(1, 6) n;`

const relate = (type: 'object' | 'array', table: string, name: string, on: unknown) => ({
  type: `create_${type}_relationship`,
  args: { table, name, using: { foreign_key_constraint_on: on } },
})

/** What `permit` may permit. */
type Permission = 'select' | 'insert' | 'update' | 'delete'

/** The operation that creates a permission. */
export const permit = (type: Permission, table: string, role: string, permission: object) => ({
  type: `create_${type}_permission`,
  args: { table, role, permission },
})

/**
 * Creates authors, their articles and pets, and notes, tracks them, and relates them.
 * @param more operations after that
 */
export async function setUpLibrary(server: TestServer, more: readonly object[] = []): Promise<void> {
  await server.must('run_sql', { sql: SQL })
  await server.must('bulk', [
    ...['author', 'article', 'note', 'pet'].map((table) => ({ type: 'track_table', args: table })),
    relate('object', 'article', 'author', 'author_id'),
    relate('array', 'author', 'articles', { table: 'article', column: 'author_id' }),
    relate('object', 'pet', 'master', 'owner'),
    relate('array', 'author', 'pets', { table: 'pet', column: 'owner' }),
    ...more,
  ])
}
