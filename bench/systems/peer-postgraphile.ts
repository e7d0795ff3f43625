import { USER_ID } from '../data.js'
import { ASKED, HIDDEN, rowsOf } from '../scenarios/postgraphile.js'
import { aliasesOf } from '../scenarios/write.js'
import { type Post, startChild } from './child.js'
import type { PeerAdapter } from './peer.js'

const TYPENAME = { query: '{ __typename }' }
/** The caller, whose permissions are policies of the database. */
const byPolicy: Readonly<Record<string, string>> = { 'x-bench-user': String(USER_ID) }

/** Without permissions, with documents that ask for permitted rows only; and with policies of the database. */
export const postgraphile: PeerAdapter = {
  start: (folder, databaseUrl) => {
    const env = { DATABASE_URL: databaseUrl, PEER_FOLDER: folder, GRAPHILE_ENV: 'production' }
    return startChild('postgraphile', env, documentPost(TYPENAME, {}))
  },
  reads: (scenario, size) => [
    { how: '', post: (n) => documentPost(scenario.postgraphile(n, size, ASKED), {}), rows: rowsOf },
    {
      how: ' with policies',
      post: (n) => documentPost(scenario.postgraphile(n, size, HIDDEN), byPolicy),
      rows: rowsOf,
    },
  ],
  writes: (scenario) => [
    { how: '', post: (n) => documentPost(aliasesOf(n, scenario), {}), rows: notesIn },
    { how: ' with policies', post: (n) => documentPost(aliasesOf(n, scenario), byPolicy), rows: notesIn },
  ],
}

/** A body of `POST /graphql`. */
export function documentPost(document: object, headers: Readonly<Record<string, string>>): Post {
  const body = JSON.stringify(document)
  return { path: '/graphql', headers: { 'content-type': 'application/json', ...headers }, body }
}

/** Of `r0`, `r1`, ... */
export function notesIn(answer: string): string {
  const { data } = JSON.parse(answer) as { data: Record<string, { note: unknown }> }
  return JSON.stringify(Object.values(data).map(({ note }) => note))
}
