import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from '../bench.js'
import { ARTICLE, loadData, SMALL } from '../data.js'
import { withClient } from '../database.js'
import { type Attacker, startAttack } from '../load/attack.js'
import { runClient, type Window } from '../load/load.js'
import type { Steady, SteadyJob } from '../load/steady.js'
import { interleave, type Job, type Measured, type Section } from '../section.js'
import { type Ask, type BenchServer, byGateway, queryPost, send, startServerChild } from '../systems/server.js'

const QUIET = 'rowhouse, quiet'
const ATTACKED = 'rowhouse, twelve attackers'
/** Times the p99 without attackers. */
const MOST_P99 = 5
const PER_SECOND = 100
const SECONDS = 4
/** Before a window with attackers begins, so that all of them have begun. */
const BEGUN_MS = 500
const HONEST = 10

/** What honest users read, at a steady rate, while others ask for the worst that is allowed. */
export async function measureAttackers(bench: Bench): Promise<Section> {
  const url = await bench.database.create('attackers')
  await withClient(url, (client) => loadData(client, SMALL))
  const server = await startServerChild(url)
  try {
    await loadMetadata(server.ask)
    await check(server)
    const jobs: Job[] = [
      { system: QUIET, measure: () => measure(bench, server, []) },
      { system: ATTACKED, measure: () => measure(bench, server, ATTACKERS) },
    ]
    return {
      id: 't',
      title: `one row by key and lists of 20, ${PER_SECOND} a second, beside ${ATTACKERS.length} attackers`,
      columns: {
        answered: 'answered',
        p50: 'p50 ms',
        p99: 'p99 ms',
        ...Object.fromEntries([429, 503, 504].map((status) => [`honest${status}`, `${status}`])),
        failed: 'other failures',
        ...Object.fromEntries([200, 400, 429, 503, 504].map((status) => [`attack${status}`, `attackers: ${status}`])),
        refusal: 'attackers: slowest 400, ms',
      },
      compared: 'p99',
      subjects: [ATTACKED],
      lessIsBetter: ['p50', 'p99', 'honest429', 'honest503', 'honest504', 'failed', 'refusal'],
      targets: [
        { system: ATTACKED, figure: 'p99', against: QUIET, most: MOST_P99 },
        ...['honest429', 'honest503', 'honest504', 'failed'].map((figure) => {
          return { system: ATTACKED, figure, most: 0 }
        }),
      ],
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`t: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}

async function measure(bench: Bench, server: BenchServer, attackers: readonly Attacker[]): Promise<Measured> {
  // So that the server knows what is asked, as it does after a while.
  await honest(server, { kind: 'requests', requests: PER_SECOND })
  const attack = startAttack(server.port, attackers)
  try {
    if (attackers.length > 0 && bench.window.kind === 'seconds') await sleep(BEGUN_MS)
    const window: Window = bench.window.kind === 'requests' ? bench.window : { kind: 'seconds', seconds: SECONDS }
    const { requests, p50, p99, failed } = await honest(server, window)
    const { 429: honest429 = 0, 503: honest503 = 0, 504: honest504 = 0, ...others } = failed
    const answers = [200, 400, 429, 503, 504].map((status) => [`attack${status}`, attack.answers.get(status) ?? 0])
    return {
      figures: {
        answered: requests,
        p50,
        p99,
        honest429,
        honest503,
        honest504,
        failed: Object.values(others).reduce((sum, count) => sum + count, 0),
        ...(attackers.length > 0 ? { ...Object.fromEntries(answers), refusal: attack.slowestRefusal } : {}),
      },
      ...(requests === 0 ? { void: 'nothing was answered' } : {}),
    }
  } finally {
    await attack.stop()
  }
}

async function honest({ port }: BenchServer, window: Window): Promise<Steady> {
  const requests = Array.from({ length: 200 }, (_, n) =>
    queryPost(HONEST_READS[n % HONEST_READS.length]?.(n + 1), asUser(1 + (n % HONEST))),
  )
  const job: SteadyJob = { port, path: '/v1/query', requests, perSecond: PER_SECOND, window }
  return runClient<Steady>('steady', job)
}

const select = (table: string, more: object): object => ({ type: 'select', args: { table, ...more } })

const HONEST_READS: readonly ((n: number) => object)[] = [
  (n) => select('article', { columns: ['id', 'title'], where: { id: n } }),
  (n) => select('article', { columns: ['id', 'title'], where: { author_id: 1 + (n % 100) }, limit: 20 }),
  (n) => select('comment', { columns: ['id', 'body'], where: { article_id: n } }),
]

const asUser = (id: number) => ({ ...byGateway, 'x-service-user-id': String(id) })

/** As many characters of regular expressions as are allowed, of one that tries all ways to cut a text into parts. */
const patterns = (column: string): object => ({
  $or: Array.from({ length: 5 }, () => ({ [column]: { $regex: '(.+)(.+)(.+)\\2\\3\\1$' } })),
})
/** As many operators as are allowed, for each row of related lists. */
const far: object = {
  author: { articles: { $or: Array.from({ length: 4 }, () => ({ content: { $regex: '(.+)(.+)(.+)\\2\\3\\1$' } })) } },
}
/** Levels without a limit, below the most points. */
const nested = (levels: number): object[] =>
  levels === 0
    ? []
    : [{ name: 'author', columns: ['id', { name: 'articles', columns: ['id', 'title', ...nested(levels - 1)] }] }]
/** More than the buffers of a connection hold. */
const large = [
  'id',
  { name: 'article', columns: ['id', { name: 'author', columns: ['id', { name: 'articles', columns: ['content'] }] }] },
]

const bodiesOf = (...queries: readonly object[]): readonly string[] => queries.map((query) => JSON.stringify(query))
const one = { columns: ['id'], limit: 1 }
const WORST = {
  patterns: bodiesOf(select('article', { ...one, where: patterns('content') })),
  'patterns of any number of rows': bodiesOf(select('article', { columns: ['id'], where: patterns('content') })),
  'a slow condition': bodiesOf(select('article', { ...one, where: far })),
  'a slow condition of any number of rows': bodiesOf(select('article', { columns: ['id'], where: far })),
  'nested lists': bodiesOf(select('article', { columns: ['id', ...nested(2)], limit: 1000 })),
  'a stream that is not read': bodiesOf(select('comment', { columns: large })),
  /** More than is allowed. */
  '900 patterns': bodiesOf(
    select('article', {
      ...one,
      where: {
        $or: Array.from({ length: 900 }, (_, n) => ({ content: { $iregex: `(q|z)${n}w[a-z]{3,200}(x|yy)+k3$` } })),
      },
    }),
  ),
}
/** Ways of asking for too much. */
type Worst = keyof typeof WORST

const anonymous = (from: string, what: Worst): Attacker => ({ from, headers: {}, bodies: WORST[what] })
const user = (id: number, what: Worst): Attacker => ({
  headers: asUser(id),
  bodies: WORST[what],
  unread: what === 'a stream that is not read',
})

const ATTACKERS: readonly Attacker[] = [
  anonymous('127.0.0.1', 'patterns'),
  anonymous('127.0.0.1', '900 patterns'),
  anonymous('127.0.0.2', 'patterns of any number of rows'),
  anonymous('127.0.0.3', 'a slow condition'),
  anonymous('127.0.0.4', 'a slow condition of any number of rows'),
  anonymous('127.0.0.5', 'a stream that is not read'),
  user(101, 'patterns'),
  user(102, 'a slow condition'),
  user(103, 'a slow condition of any number of rows'),
  user(104, 'nested lists'),
  user(105, 'a stream that is not read'),
  user(106, '900 patterns'),
]

/** What the role `user` may see, and what anybody may. */
async function loadMetadata(ask: Ask): Promise<void> {
  const select = (columns: readonly string[]) => ({
    select_permissions: ['user', 'anonymous'].map((role) => ({ role, permission: { columns, filter: {} } })),
  })
  const many = (name: string, table: string, column: string) => ({
    array_relationships: [{ name, using: { foreign_key_constraint_on: { table, column } } }],
  })
  await ask('replace_metadata', {
    tables: [
      { table: 'author', ...many('articles', 'article', 'author_id'), ...select(['id', 'name']) },
      {
        table: 'article',
        object_relationships: [{ name: 'author', using: { foreign_key_constraint_on: 'author_id' } }],
        ...many('comments', 'comment', 'article_id'),
        ...select(ARTICLE),
      },
      {
        table: 'comment',
        object_relationships: [{ name: 'article', using: { foreign_key_constraint_on: 'article_id' } }],
        ...select(['id', 'article_id', 'body']),
      },
    ],
    query_templates: [],
  })
}

async function check({ port }: BenchServer): Promise<void> {
  const { text } = await send(port, queryPost(HONEST_READS[0]?.(7), asUser(7)))
  if (text !== '[{"id":7,"title":"Article 7"}]') throw new Error(`t: a row by key is answered ${text}`)
  const refused = await fetch(`http://127.0.0.1:${port}/v1/query`, {
    method: 'POST',
    body: WORST['900 patterns'][0] ?? '',
  })
  if (refused.status !== 400) throw new Error(`t: 900 patterns are answered ${refused.status}`)
}
