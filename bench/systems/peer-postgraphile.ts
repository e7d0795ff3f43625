import { USER_ID } from '../data.js'
import { ASKED, type Document, HIDDEN, rowsOf, type Visible } from '../scenarios/postgraphile.js'
import { aliasesOf } from '../scenarios/write.js'
import { type Post, startChild } from './child.js'
import type { PeerAdapter, Way } from './peer.js'

const TYPENAME = { query: '{ __typename }' }
/** The caller, whose permissions are policies of the database. */
const byPolicy: Readonly<Record<string, string>> = { 'x-bench-user': String(USER_ID) }

/** The same program of two major versions. */
export const postgraphile: PeerAdapter = adapterOf('postgraphile', (document) => document)
export const postgraphile4: PeerAdapter = adapterOf('postgraphile-4', olderNames)

/** Without permissions, with documents that ask for permitted rows only; and with policies of the database. */
function adapterOf(program: 'postgraphile' | 'postgraphile-4', named: (document: Document) => Document): PeerAdapter {
  const ways = (documentOf: (n: number, visible: Visible) => Document, rows: Way['rows']): readonly Way[] => [
    { how: '', post: (n) => documentPost(named(documentOf(n, ASKED)), {}), rows },
    { how: ' with policies', post: (n) => documentPost(named(documentOf(n, HIDDEN)), byPolicy), rows },
  ]
  return {
    start: (folder, databaseUrl) => {
      const env = { DATABASE_URL: databaseUrl, PEER_FOLDER: folder, GRAPHILE_ENV: 'production' }
      return startChild(program, env, documentPost(TYPENAME, {}))
    },
    reads: (scenario, size) => ways((n, visible) => scenario.postgraphile(n, size, visible), rowsOf),
    writes: (scenario) => ways((n) => aliasesOf(n, scenario), notesIn),
  }
}

/** Version 4 calls the column `id` by its name. */
function olderNames({ query, variables }: Document): Document {
  const older = { rowId: 'id', ByRowId: 'ById', ROW_ID: 'ID' }
  return {
    query: query.replaceAll(/rowId(?=\W)|ByRowId|ROW_ID/g, (name) => older[name as keyof typeof older]),
    variables,
  }
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
