import type { Bench } from '../bench.js'
import { withClient } from '../database.js'
import { runLoad } from '../load/load.js'
import { LESS_IS_BETTER, REQUEST_COLUMNS, measured } from '../load-rounds.js'
import { interleave, type Job, type Section } from '../section.js'
import { byGateway, queryPost, send, startServerChild } from '../systems/server.js'
import { createTables, rolesOf } from './many-tables.js'

const CLIENTS = 16
const ROLES = 100
const ROWS = 1000
const rowQuery = (n: number): object => ({
  type: 'select',
  args: { table: 't1', columns: ['id', 'name'], where: { id: 1 + (n % ROWS) } },
})

/** The same requests, sent by one role or by many in turn: each has plans and prepared statements of its own. */
export async function measureRoles(bench: Bench): Promise<Section> {
  const url = await createTables(bench, 10, ROLES)
  await withClient(url, (client) =>
    client.query(`
      insert into t1 (id, name) select i, 'Row ' || i from generate_series(1, ${ROWS}) i on conflict do nothing;
    `),
  )
  const server = await startServerChild(url)
  try {
    const as = (role: string) => ({ ...byGateway, 'x-service-role': role })
    for (const role of rolesOf(ROLES)) {
      const { text } = await send(server.port, queryPost(rowQuery(6), as(role)))
      if (text !== '[{"id":7,"name":"Row 7"}]') throw new Error(`l: ${role} is answered ${text}`)
    }
    const jobs = [1, 10, ROLES].map((count): Job => {
      const roles = rolesOf(count)
      const measure = measured(bench, server, (window) => {
        const { path, headers } = queryPost({}, {})
        const bodies = Array.from({ length: ROWS }, (_, n) => JSON.stringify(rowQuery(n)))
        const headersEach = bodies.map((_, n) => as(roles[n % count] as string))
        return runLoad({ port: server.port, path, headers, headersEach, bodies, clients: CLIENTS, window })
      })
      return { system: `rowhouse, ${count} ${count === 1 ? 'role' : 'roles'}`, measure }
    })
    return {
      id: 'l',
      title: `one row by key, the same requests by roles in turn, ${CLIENTS} clients`,
      columns: REQUEST_COLUMNS,
      compared: 'rps',
      lessIsBetter: LESS_IS_BETTER,
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`l: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}
