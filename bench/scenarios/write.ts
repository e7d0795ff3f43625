import type { ClientBase } from 'pg'
import { USER_ID } from '../data.js'
import type { Aims } from '../efficiency.js'
import type { Ask } from '../systems/server.js'
import type { Document } from './postgraphile.js'

/** Rows that are written by one request after another. */
export interface WriteScenario {
  readonly id: string
  readonly title: string
  /** Connections, each with one request under way. */
  readonly clients: number
  /** How many a request writes. */
  readonly rows: number
  /** How many different requests there are. */
  readonly count: number
  readonly aims?: Aims
}

export const insertOne: WriteScenario = {
  id: 'e',
  title: 'insert one row',
  clients: 64,
  rows: 1,
  count: 1000,
  aims: { efficiency: 1.3, fastify: 0.6, postgraphile: 6 },
}
export const insertMany: WriteScenario = {
  id: 'f',
  title: 'insert 1,000 rows',
  clients: 1,
  rows: 1000,
  count: 10,
}

/** How many articles notes may be about. */
const ARTICLES = 1000

/** What a role sends of a note; whose it is, is set by its permission. */
export interface Note {
  readonly article_id: number
  readonly body: string
}

/** Of the n-th request. */
export function notesOf(n: number, { rows }: WriteScenario): readonly Note[] {
  return Array.from({ length: rows }, (_, i) => noteOf(n + i))
}

const noteOf = (i: number): Note => ({ article_id: 1 + (i % ARTICLES), body: BODY })
const BODY = 'It begins where the other ends, and says so.'

/** Notes about articles, with a foreign key that each insert checks. */
export async function createNotes(client: ClientBase): Promise<void> {
  await client.query(`
    create table article (id int primary key, title text not null);
    insert into article select i, 'Article ' || i from generate_series(1, ${ARTICLES}) i;
  `)
  await createNoteTable(client)
  await client.query('vacuum analyze')
}

/** Beside articles. */
export async function createNoteTable(client: ClientBase): Promise<void> {
  await client.query(`
    create table note (
      id int generated always as identity primary key,
      article_id int not null references article,
      user_id int not null,
      body text not null
    );
    create index on note (article_id);
  `)
}

const mine = { user_id: 'X-Service-User-Id' }
const insert = { check: {}, columns: ['article_id', 'body'], set: mine }
const select = { columns: ['id', 'article_id', 'body'], filter: mine }

/** The same as `permitNotes`, where other tables are tracked. */
export async function permitNotesToo(ask: Ask): Promise<void> {
  await ask('track_table', 'note')
  await ask('create_insert_permission', { table: 'note', role: 'user', permission: insert })
  await ask('create_select_permission', { table: 'note', role: 'user', permission: select })
}

/** The role `user` writes notes of its own and reads those. */
export async function permitNotes(ask: Ask): Promise<void> {
  await ask('replace_metadata', {
    tables: [
      { table: 'article' },
      {
        table: 'note',
        insert_permissions: [{ role: 'user', permission: insert }],
        select_permissions: [{ role: 'user', permission: select }],
      },
    ],
    query_templates: [],
  })
}

/** The same permission in PostgreSQL, for the role that policies are for. */
export async function createNotePolicies(client: ClientBase): Promise<void> {
  await client.query(`
    grant select on article to bench_user;
    grant select, insert on note to bench_user;
    alter table note enable row level security;
    create policy own on note for all to bench_user
      using (user_id = (select current_setting('bench.user_id')::int));
  `)
}

/** A body of `POST /v1/query`. */
export function insertOf(n: number, scenario: WriteScenario): object {
  return {
    type: 'insert',
    args: { table: 'note', objects: notesOf(n, scenario), returning: ['id', 'article_id', 'body'] },
  }
}

/** A body of `POST /v1/graphql`; its field `root` holds `returning`. */
export function mutationOf(n: number, scenario: WriteScenario): Document {
  return {
    query: `mutation ($notes: [note_insert_input!]!) { root: insert_note(objects: $notes) {
      returning { id article_id body } } }`,
    variables: { notes: notesOf(n, scenario) },
  }
}

/** A body for PostGraphile, which writes one row for each field; they are `r0`, `r1`, ... */
export function aliasesOf(n: number, scenario: WriteScenario): Document {
  const notes = notesOf(n, scenario)
  const fields = notes.map(
    (_, i) => `r${i}: createNote(input: {note: $n${i}}) { note { id: rowId article_id: articleId body } }`,
  )
  return {
    query: `mutation (${notes.map((_, i) => `$n${i}: NoteInput!`).join(', ')}) { ${fields.join(' ')} }`,
    variables: Object.fromEntries(
      notes.map(({ article_id, body }, i) => [`n${i}`, { articleId: article_id, userId: USER_ID, body }]),
    ),
  }
}
