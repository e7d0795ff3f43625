import pg from 'pg'
import t from 'tap'
import { type EventClient, openEvents } from '../kit/events.js'
import { metadataRequests, numbers, type Query, queriesOf, ROLES, SQL, write } from '../kit/live-world.js'
import { type TestServer, testServer } from '../kit/server.js'

/**
 * Nothing is missed: whatever is written, by whomever and in whatever order it commits, after each quiet moment the last event of
 * each live query is the answer to a fresh request, byte for byte. `ROWHOUSE_LIVE` is the number of moments.
 */
const MOMENTS = Number(process.env['ROWHOUSE_LIVE'] ?? 8)
/** Then others are asked. */
const MOMENTS_EACH = 4

/** Returns the queries whose last event is not the answer to a fresh request, once nothing changes any more. */
async function missed(
  server: TestServer,
  clients: readonly EventClient[],
  queries: Readonly<Record<string, Query>>,
): Promise<readonly string[]> {
  for (let tries = 0; ; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 250))
    const wrong: string[] = []
    for (const [i, as] of ROLES.entries()) {
      for (const [name, { type, args }] of Object.entries(queries)) {
        const { body } = await server.query(type, args, as)
        if (JSON.stringify(clients[i]!.last(name)) !== JSON.stringify(body))
          wrong.push(`${name} of ${i}: ${JSON.stringify(args)}`)
      }
    }
    if (wrong.length === 0 || tries === 8) return wrong
  }
}

async function run(server: TestServer, moments: number, seed: number): Promise<readonly string[]> {
  const random = numbers(seed)
  const writers = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const client = new pg.Client(server.databaseUrl)
      await client.connect()
      return client
    }),
  )
  let wrong: readonly string[] = []
  for (let moment = 0; moment < moments && wrong.length === 0;) {
    const queries = queriesOf(random)
    const body = JSON.stringify(queries)
    const clients = await Promise.all(ROLES.map((as) => openEvents(server, '/v1/live', { method: 'POST', body }, as)))
    for (let i = 0; i < MOMENTS_EACH && wrong.length === 0; i++, moment++) {
      await Promise.all(
        writers.map(async (client) => {
          for (let times = 0; times < 6; times++) await write(client, random)
        }),
      )
      wrong = await missed(server, clients, queries)
    }
    for (const client of clients) client.close()
  }
  for (const client of writers) await client.end()
  return wrong
}

t.test('live queries miss nothing', { timeout: 20 * 60_000 }, async (t) => {
  const live = new URL('../../plugins/live/index.js', import.meta.url)
  const server = await testServer(t, {
    builtins: { live },
    // Streams that were closed count until their connections are.
    config: { plugins: { live: { maxQueriesPerCaller: 1000 } } },
  })
  await server.sql(SQL)
  await server.must('bulk', metadataRequests())
  t.same(await run(server, MOMENTS, 4711), [])

  const wrongAfter = async (change: string, back: string): Promise<readonly string[]> => {
    // The server does not read the catalog again, so it takes the triggers for what they were.
    await server.sql(change)
    const wrong = await run(server, 40, 815)
    await server.sql(back)
    return wrong
  }
  const triggerOf = async (table: string, event: string): Promise<string> => {
    const { result } = await server.sql(
      `select tgname from pg_trigger where tgrelid = '${table}'::regclass and tgname like 'svc\\_capture%${event}'`,
    )
    return result[1]?.[0] ?? ''
  }

  await t.test('without one of the triggers, something is missed', async (t) => {
    for (const [table, event] of [
      ['item', 'update'],
      ['part_0', 'delete'],
      ['part_1', 'insert'],
    ] as const) {
      const trigger = await triggerOf(table, event)
      const turn = (how: string) => `alter table ${table} ${how} trigger "${trigger}"`
      t.not((await wrongAfter(turn('disable'), turn('enable always'))).length, 0, `${table} ${event}`)
    }
  })

  await t.test('without the values before a change, or those at the end of a way, it is missed', async (t) => {
    await server.sql(`truncate author cascade; insert into author values (1, 't0', 'a'), (2, 't1', 'b');
      insert into post values (1, 1, 1), (2, 2, 2); insert into item values (1, 1, 1), (2, 2, 2)`)
    const [tenant] = ROLES.filter((as) => as !== undefined)
    for (const [table, left, instead, query, change] of [
      [
        'post',
        'rows_old',
        'rows_new',
        { where: { author_id: 1 } },
        'update post set author_id = 3 - author_id where id = 1',
      ],
      [
        'item',
        'rows_old',
        'rows_new',
        { where: { post: { id: 1 } } },
        'update item set post_id = 3 - post_id where id = 1',
      ],
      ['author', 'r."tenant"', 'r."name"', {}, `update author set tenant = 't2' where id = 1`],
    ] as const) {
      const ask = { type: 'select', args: { table, columns: ['id'], order_by: ['id'], ...query } }
      const { result } = await server.sql(
        `select pg_get_functiondef('svc_catalog."${await triggerOf(table, 'update')}"'::regproc)`,
      )
      const text = result[1]?.[0] ?? ''
      t.not(text.replaceAll(left, instead), text)
      for (const [body, isKnown] of [
        [text.replaceAll(left, instead), false],
        [text, true],
      ] as const) {
        await server.sql(body)
        const as = table === 'author' ? tenant : undefined
        const client = await openEvents(server, '/v1/live', { method: 'POST', body: JSON.stringify({ ask }) }, as)
        await client.has(t, 'ask', [{ id: 1 }], 'at first')
        await server.sql(change)
        if (isKnown) await client.has(t, 'ask', [], 'it is known')
        else await new Promise((resolve) => setTimeout(resolve, 1500))
        t.same(client.last('ask'), isKnown ? [] : [{ id: 1 }], `${table}, ${isKnown ? 'whole' : `without ${left}`}`)
        client.close()
        await server.sql(
          `update post set author_id = id; update item set post_id = id; update author set tenant = 't0' where id = 1`,
        )
      }
    }
  })
})
