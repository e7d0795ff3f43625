import { notesOf } from '../scenarios/write.js'
import { startChild } from './child.js'
import { rowsOf } from './peer-directus.js'
import type { PeerAdapter } from './peer.js'
import { byToken, JWT_KEY } from './server.js'

const headers = await byToken()

/** Routes written by hand, for callers with a token; it writes one row at a time. */
export const fastify: PeerAdapter = {
  start: (folder, databaseUrl) =>
    startChild(
      'fastify',
      { DATABASE_URL: databaseUrl, PEER_FOLDER: folder, JWT_KEY },
      { method: 'GET', path: '/healthz', headers: {}, body: '' },
    ),
  reads: (scenario, size) => [
    { how: '', post: (n) => ({ method: 'GET', path: scenario.fastify(n, size), headers, body: '' }), rows },
  ],
  writes: (scenario) =>
    scenario.rows > 1
      ? []
      : [
          {
            how: '',
            post: (n) => ({
              path: '/notes',
              headers: { 'content-type': 'application/json', ...headers },
              body: JSON.stringify(notesOf(n, scenario)[0]),
            }),
            rows,
          },
        ],
}

/** Its times have three decimals. */
const rows = (answer: string): string => rowsOf(JSON.stringify({ data: JSON.parse(answer) as unknown }))
