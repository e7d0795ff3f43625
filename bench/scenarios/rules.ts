import { isDeepStrictEqual } from 'node:util'
import type { Bench } from '../bench.js'
import { ARTICLE, loadData, SMALL } from '../data.js'
import { withClient } from '../database.js'
import { LESS_IS_BETTER, REQUEST_COLUMNS, throughDoor } from '../load-rounds.js'
import { interleave, type Section } from '../section.js'
import { byGateway, queryPost, send, startServerChild } from '../systems/server.js'
import { list } from './list.js'
import { requestCount } from './scenario.js'

const CLIENTS = 16
/** Filters that let the same rows through, by the role that has them. */
const RULES = {
  open: { rule: 'no rule', filter: {} },
  column: { rule: 'a rule on columns', filter: { $or: [{ author_id: 'X-Service-User-Id' }, { rating: { $gte: 0 } }] } },
  related: { rule: 'a rule on a relationship', filter: { author: { active: true } } },
  many: { rule: 'a rule on a relationship to many', filter: { comments: { hidden: false } } },
}

/** 100 rows, of roles whose permissions filter nothing, by columns, or by other tables. */
export async function measureRules(bench: Bench): Promise<Section> {
  const url = await bench.database.create('rules')
  await withClient(url, (client) => loadData(client, SMALL))
  const server = await startServerChild(url)
  try {
    const permissions = Object.entries(RULES).map(([role, { filter }]) => ({
      role,
      permission: { columns: ARTICLE, filter },
    }))
    await server.ask('replace_metadata', {
      tables: [
        { table: 'author' },
        {
          table: 'article',
          object_relationships: [{ name: 'author', using: { foreign_key_constraint_on: 'author_id' } }],
          array_relationships: [
            { name: 'comments', using: { foreign_key_constraint_on: { table: 'comment', column: 'article_id' } } },
          ],
          select_permissions: permissions,
        },
        { table: 'comment' },
      ],
      query_templates: [],
    })
    const doors = Object.entries(RULES).map(([role, { rule }]) => ({
      system: `rowhouse, ${rule}`,
      child: server,
      post: (n: number) => queryPost(list.request(n, SMALL), { ...byGateway, 'x-service-role': role }),
      rows: (answer: string) => answer,
    }))
    const answers = await Promise.all(
      doors.map(async ({ post }) => JSON.parse((await send(server.port, post(0))).text)),
    )
    for (const [i, answer] of answers.entries()) {
      if (!isDeepStrictEqual(answer, answers[0])) throw new Error(`m: ${doors[i]?.system} hides other rows`)
    }
    const jobs = doors.map((door) => ({
      system: door.system,
      measure: throughDoor(bench, door, { count: requestCount(SMALL), clients: CLIENTS }),
    }))
    return {
      id: 'm',
      title: `${list.title}, by what the permission filters, ${CLIENTS} clients`,
      columns: REQUEST_COLUMNS,
      compared: 'rps',
      lessIsBetter: LESS_IS_BETTER,
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`m: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}
