import type { ClientBase } from 'pg'
import type { Ask } from './systems/server.js'

/** How much data: every author has 20 articles, every article 5 comments. */
export interface Size {
  readonly name: string
  readonly authors: number
}
export const SMALL: Size = { name: 'S', authors: 100 }
export const FULL: Size = { name: 'M', authors: 10_000 }

export const articles = ({ authors }: Size): number => authors * 20
export const comments = (size: Size): number => articles(size) * 5

/** Who asks, and may see: its own articles and the published ones, and comments that are not hidden. */
export const USER_ID = 7

/** Deterministic: 7919 is a prime that divides no size, so `i * 7919 % n` is every number below n once, scattered. */
export async function loadData(client: ClientBase, size: Size): Promise<void> {
  await client.query(`
    create table author (
      id int primary key,
      name text not null,
      active boolean not null
    );
    create table article (
      id int primary key,
      author_id int not null references author,
      title text not null,
      content text not null,
      published boolean not null,
      rating int not null,
      created_at timestamptz not null
    );
    create table comment (
      id int primary key,
      article_id int not null references article,
      body text not null,
      hidden boolean not null
    );
    insert into author
    select i, 'Author ' || i, true
    from generate_series(1, ${size.authors}) i;
    insert into article
    select i, i::bigint * 7919 % ${articles(size)} / 20 + 1, 'Article ' || i, repeat(md5(i::text), 2), i % 10 <> 0,
      i::bigint * 7919 % 100, timestamptz '2025-01-01 00:00:00Z' + i * interval '1 minute'
    from generate_series(1, ${articles(size)}) i;
    insert into comment
    select i, i::bigint * 7919 % ${comments(size)} / 5 + 1, 'Comment ' || md5(i::text), i % 100 = 0
    from generate_series(1, ${comments(size)}) i;
    create index on article (author_id);
    create index on comment (article_id);
  `)
  await client.query('vacuum analyze')
}

/** Tracks the tables and lets the role `user` see a part of the rows of each. */
export async function loadMetadata(ask: Ask): Promise<void> {
  const select = (columns: readonly string[], filter: object) => ({
    select_permissions: [{ role: 'user', permission: { columns, filter } }],
  })
  const mine = [{ author_id: 'X-SERVICE-USER-ID' }, { published: true }]
  const table = (name: string, column: string) => ({ foreign_key_constraint_on: { table: name, column } })
  await ask('replace_metadata', {
    tables: [
      {
        table: 'author',
        array_relationships: [{ name: 'articles', using: table('article', 'author_id') }],
        ...select(['id', 'name'], { active: true }),
      },
      {
        table: 'article',
        object_relationships: [{ name: 'author', using: { foreign_key_constraint_on: 'author_id' } }],
        array_relationships: [{ name: 'comments', using: table('comment', 'article_id') }],
        ...select(ARTICLE, { $or: mine }),
      },
      { table: 'comment', ...select(['id', 'article_id', 'body'], { hidden: false }) },
    ],
    query_templates: [],
  })
}
export const ARTICLE = ['id', 'author_id', 'title', 'content', 'published', 'rating', 'created_at']
