import { USER_ID } from '../data.js'
import { withClient } from '../database.js'
import { runProgram } from '../program.js'
import { notesOf } from '../scenarios/write.js'
import { type Post, startChild } from './child.js'
import type { PeerAdapter } from './peer.js'

const TOKEN = 'the-static-token-of-the-bench'
const headers = { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}` }

/** By REST, its usual interface, as its administrator with a static token; requests ask for the permitted rows only. */
export const directus: PeerAdapter = {
  async start(folder, databaseUrl) {
    const env = {
      PEER_FOLDER: folder,
      NODE_ENV: 'production',
      DB_CLIENT: 'pg',
      DB_CONNECTION_STRING: databaseUrl,
      // Its own tables stand apart from the data.
      DB_SEARCH_PATH: 'array:directus,public',
      DB_POOL__MAX: '10',
      SECRET: TOKEN,
      ADMIN_EMAIL: 'bench@example.com',
      ADMIN_PASSWORD: TOKEN,
      ADMIN_TOKEN: TOKEN,
      PUBLIC_URL: 'http://127.0.0.1',
      HOST: '127.0.0.1',
      CACHE_ENABLED: 'false',
      RATE_LIMITER_ENABLED: 'false',
      WEBSOCKETS_ENABLED: 'false',
      TELEMETRY: 'false',
      LOG_LEVEL: 'fatal',
    }
    await withClient(databaseUrl, (client) => client.query('create schema if not exists directus'))
    await runProgram(process.execPath, [`${folder}/node_modules/@directus/api/dist/cli/run.js`, 'bootstrap'], env)
    await withClient(databaseUrl, (client) => client.query(CONFIGURATION))
    return startChild('directus', env, { method: 'GET', path: '/server/ping', headers: {}, body: '' })
  },
  reads: (scenario, size) => [
    { how: '', post: (n) => ({ method: 'GET', path: scenario.directus(n, size), headers, body: '' }), rows: rowsOf },
  ],
  writes: (scenario) => [
    {
      how: '',
      post: (n): Post => {
        const notes = notesOf(n, scenario).map((note) => ({ ...note, user_id: USER_ID }))
        return { path: '/items/note?fields=id,article_id,body&limit=-1', headers, body: JSON.stringify(notes) }
      },
      rows: rowsOf,
    },
  ],
}

/** The lists of a row's relationships, and no history of what is written. */
const CONFIGURATION = `
  delete from directus.directus_relations;
  delete from directus.directus_fields;
  delete from directus.directus_collections;
  insert into directus.directus_relations (many_collection, many_field, one_collection, one_field)
  values ('article', 'author_id', 'author', 'articles'), ('comment', 'article_id', 'article', 'comments');
  insert into directus.directus_fields (collection, field, special)
  values ('author', 'articles', 'o2m'), ('article', 'comments', 'o2m');
  insert into directus.directus_collections (collection, accountability)
  values ('author', null), ('article', null), ('comment', null), ('note', null);
`

/**
 * Its answer as the rows of the others: by a key it gives one row and no list, and times have three decimals.
 * @returns JSON text
 */
export function rowsOf(answer: string): string {
  const { data } = JSON.parse(answer, (name, value: unknown) =>
    name === 'created_at' ? String(value).replace('.000Z', '+00:00') : value,
  ) as { data: unknown }
  return JSON.stringify(Array.isArray(data) ? data : [data])
}
