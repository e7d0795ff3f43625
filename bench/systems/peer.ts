import type pg from 'pg'
import { USER_ID } from '../data.js'
import type { Peer } from '../peers.js'
import { type Child, type Post, startChild } from './child.js'

/** The caller, for a peer that leaves permissions to policies of the database. */
export const byPolicy: Readonly<Record<string, string>> = { 'x-bench-user': String(USER_ID) }

/** Waits until the schema is built. */
export function startPeer({ folder }: Peer, databaseUrl: string): Promise<Child> {
  const env = { DATABASE_URL: databaseUrl, PEER_FOLDER: folder, GRAPHILE_ENV: 'production' }
  return startChild('postgraphile', env, peerPost(TYPENAME, {}))
}

const TYPENAME = { query: '{ __typename }' }

export function peerPost(document: object, headers: Readonly<Record<string, string>>): Post {
  const body = JSON.stringify(document)
  return { path: '/graphql', headers: { 'content-type': 'application/json', ...headers }, body }
}

/** The same permissions as the metadata, in PostgreSQL. A superuser, as which everything else connects, passes them by. */
export async function createPolicies(client: pg.Client): Promise<void> {
  await client.query(`
    create role bench_user;
    grant select on author, article, comment to bench_user;
    alter table author enable row level security;
    alter table article enable row level security;
    alter table comment enable row level security;
    create policy visible on author for select to bench_user using (active);
    create policy visible on article for select to bench_user
      using (published or author_id = (select current_setting('bench.user_id')::int));
    create policy visible on comment for select to bench_user using (not hidden);
  `)
}
