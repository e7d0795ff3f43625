import type { Bench } from '../bench.js'
import { check } from '../check.js'
import { withClient } from '../database.js'
import { type Door, LESS_IS_BETTER, REQUEST_COLUMNS, throughDoor } from '../load-rounds.js'
import { interleave, type Section } from '../section.js'
import { byGateway, queryPost, send, startServerChild } from '../systems/server.js'
import { byPk } from './by-pk.js'
import { requestCount } from './scenario.js'

const TEMPLATE = 'article_by_id'
const OVER_REST = 'rowhouse, GET of a template'
const QUERY = 'rowhouse, /v1/query'

/** A template over REST beside the same query: it has less to send and less to read. */
export async function measureTemplates(bench: Bench): Promise<Section> {
  const { size } = bench
  const server = await startServerChild(bench.url)
  try {
    const { args } = byPk.request(0, size)
    const template = { type: 'select', args: { ...args, where: { id: { param: 'id' } } } }
    await server.ask('create_query_template', { name: TEMPLATE, template })
    const idOf = (n: number) => (byPk.request(n, size).args as { where: { id: number } }).where.id
    const { headers } = queryPost({}, byGateway)
    const path = `/v1/template/${TEMPLATE}`
    const rows = (answer: string) => answer
    const doors: Door[] = [
      {
        system: OVER_REST,
        child: server,
        post: (n) => ({ method: 'GET', path: `${path}?id=${idOf(n)}`, headers: byGateway, body: '' }),
        rows,
      },
      {
        system: 'rowhouse, POST of a template',
        child: server,
        post: (n) => ({ path, headers, body: JSON.stringify({ id: idOf(n) }) }),
        rows,
      },
      {
        system: 'rowhouse, execute_query_template',
        child: server,
        post: (n) =>
          queryPost({ type: 'execute_query_template', args: { name: TEMPLATE, args: { id: idOf(n) } } }, byGateway),
        rows,
      },
      { system: QUERY, child: server, post: (n) => queryPost(byPk.request(n, size), byGateway), rows },
    ]
    const answers = doors.map(({ system, post }) => [
      system,
      async (n: number) => (await send(server.port, post(n))).text,
    ])
    await withClient(bench.url, (client) => check(byPk, size, client, Object.fromEntries(answers)))
    const jobs = doors.map((door) => ({
      system: door.system,
      measure: throughDoor(bench, door, { count: requestCount(size), clients: byPk.clients }),
    }))
    return {
      id: 'r',
      title: `${byPk.title}, as a template, ${byPk.clients} clients`,
      columns: REQUEST_COLUMNS,
      compared: 'rps',
      lessIsBetter: LESS_IS_BETTER,
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`r: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.ask('drop_query_template', { name: TEMPLATE })
    await server.stop()
  }
}
