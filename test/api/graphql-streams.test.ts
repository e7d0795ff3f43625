import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import pg from 'pg'
import t, { type Test } from 'tap'
import { freshDatabase } from '../kit/database.js'
import { startProxy } from '../kit/proxy.js'
import { TEST_POOLER_URL } from '../kit/pooler.js'
import { ADMIN_SECRET, type TestServer, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

/** A small list, one that is streamed, one of 150 MB, and two whose last rows cannot be read. */
const SQL = `
create table pen (id int primary key, name text not null);
insert into pen values (1, 'a "quoted" one'), (2, 'another');
create table ink (id int primary key, pen_id int references pen, text text);
insert into ink select i, 1 + i % 2, case when i % 7 > 0 then repeat('ü', i % 40) end from generate_series(1, 5000) i;
create view many as select i as id, repeat('x', 500) as text from generate_series(1, 300000) i;
create view early as select i as id, 1 / (1500 - i) as q from generate_series(1, 5000) i;
create view breaking as select i as id, repeat('x', 400) as text, 1 / (60000 - i) as q from generate_series(1, 60001) i;
`
const TABLES = ['pen', 'ink', 'many', 'early', 'breaking']
const GRAPHQL_TYPE = 'application/graphql-response+json'

t.test('long lists in GraphQL', async (t) => {
  const { server, proxy, database } = await start(t)
  const graphql = (query: string, variables?: object, headers = {}, path = '/v1/graphql') =>
    server.fetch(path, { method: 'POST', headers, body: JSON.stringify({ query, variables }) })
  const isStreamed = ({ headers }: { readonly headers: Headers }) => !headers.has('content-length')
  /** A batch is one text. */
  const whole = async (query: string, variables?: object) => {
    const { text } = await server.fetch('/v1/graphql', {
      method: 'POST',
      body: JSON.stringify([{ query, variables }]),
    })
    return text.slice(1, -1)
  }

  await t.test('they are streamed, and other lists are not', async (t) => {
    const lists: Record<string, boolean> = {
      '{ ink { id } }': true,
      '{ ink(limit: 1001) { id } }': true,
      '{ ink(limit: 1000) { id } }': false,
      '{ ink(where: {id: {_eq: 7}}) { id } }': false,
      '{ ink_by_pk(id: 7) { id } }': false,
      '{ pen(limit: 5) { id inks { id } } }': false,
      'mutation { update_ink(where: {}, _inc: {pen_id: 0}) { returning { id } } }': false,
    }
    for (const [query, streamed] of Object.entries(lists)) {
      const answer = await graphql(query)
      t.equal(answer.status, 200)
      t.equal(isStreamed(answer), streamed, query)
    }
    const limited = 'query ($most: Int) { ink(limit: $most) { id } }'
    for (const most of [3, 1000, 1001, 4000, null]) {
      const answer = await graphql(limited, { most })
      t.equal(answer.body.data.ink.length, most ?? 5000)
      t.equal(isStreamed(answer), most === null || most > 1000, `limit: ${most}`)
    }
  })

  await t.test('they have the text that they have when they are not streamed', async (t) => {
    const queries = [
      '{ ink(order_by: {id: asc}) { id text pen { name } } }',
      `query ($yes: Boolean = true) {
        type: __typename
        first: pen(order_by: {id: asc}) { name }
        a: ink(order_by: {id: asc}) { ...Ink pen { id } }
        none: ink(where: {id: {_lt: 0}}) { id }
        b: ink(order_by: {id: desc}) @include(if: $yes) { ...Ink }
        c: ink @skip(if: $yes) { id }
        missing: pen_by_pk(id: 9) { id }
        ink_aggregate { aggregate { count } }
        ... on query_root { pen(limit: 1, order_by: {id: asc}) { id } }
        pen(limit: 1, order_by: {id: asc}) { name }
        last: ink(where: {id: {_lt: 0}}) { id }
      }
      fragment Ink on ink { id text }`,
      '{ pen_aggregate { aggregate { count } } ink(order_by: {id: asc}) { id } one: pen_by_pk(id: 1) { name } __typename }',
    ]
    for (const query of queries) {
      const answer = await graphql(query)
      t.ok(isStreamed(answer))
      t.equal(answer.text, await whole(query))
      const inUrl = await server.fetch(`/v1/graphql?query=${encodeURIComponent(query)}`)
      t.ok(isStreamed(inUrl))
      t.equal(inUrl.text, answer.text)
    }
    const alpha = await graphql('{ ink(order_by: ["+id"]) { id } }', undefined, {}, '/v1alpha1/graphql')
    t.ok(isStreamed(alpha))
    t.equal(alpha.text, await whole('{ ink(order_by: {id: asc}) { id } }'))
    const role = await server.fetch(
      '/v1/graphql',
      { method: 'POST', body: JSON.stringify({ query: '{ ink(order_by: {id: asc}) { id } }' }) },
      { role: 'user', variables: { 'x-service-user-id': '1' } },
    )
    t.ok(isStreamed(role))
    t.same(
      role.body.data.ink,
      alpha.body.data.ink.filter(({ id }: { id: number }) => id % 2 === 0),
    )
  })

  // The test counts statements between the server and the database, and would miss those to a pooler.
  const skip = process.env[TEST_POOLER_URL] !== undefined || (PROCESSES > 1 && 'each process learns by itself')
  await t.test('a query whose lists were short is expected to stay so, until one is long', { skip }, async (t) => {
    const query = 'query ($above: Int) { many(where: {id: {_gt: $above}}) { text } }'
    const count = async (above: number) => (await graphql(query, { above })).body.data.many.length
    const streams = () => proxy.sentTimes('row_to_json(x)::text from (select t0."text" as "text" from "public"."many"')

    t.equal(await count(299_990), 10)
    t.equal(streams(), 1)
    for (let i = 0; i < 5; i++) t.equal(await count(299_990), 10)
    t.equal(streams(), 1, 'one text each')
    t.equal(await count(297_000), 3000, 'more than maxAnswerBytes')
    t.equal(streams(), 2)
    t.equal(await count(299_990), 10)
    t.equal(streams(), 3)
  })

  await t.test('a reader that stops reading stops the rows', async (t) => {
    const before = proxy.received
    const { answer } = await open(server, '{ pen { id } many { id text } last: many { id } }')
    await untilStill(() => proxy.received)
    t.ok(proxy.received - before < 40_000_000, `${proxy.received - before} bytes`)
    answer.destroy()
    await until('its cursor is closed', async () => (await streaming(database)) === 0)
  })

  await t.test('errors come last when a list fails after its first rows', async (t) => {
    const query = '{ pen(order_by: {id: asc}) { id } b: breaking { id text q } ink { id } }'
    for (const accept of ['application/json', GRAPHQL_TYPE]) {
      const answer = await graphql(query, undefined, { accept })
      t.equal(answer.status, 200, 'it was sent with the first rows')
      t.match(answer.headers.get('content-type'), accept)
      const { data, errors } = answer.body
      t.same(data.pen, [{ id: 1 }, { id: 2 }])
      t.ok(data.b.length > 1000 && data.b.length < 60_000)
      t.same(
        data.b.map(({ id }: { id: number }) => id),
        Array.from(data.b, (_, i) => i + 1),
      )
      t.same(Object.keys(data), ['pen', 'b'])
      const extensions = { path: '$.selectionSet.b', code: 'data-exception', internal: Object }
      t.match(errors, [{ message: 'division by zero', path: ['b', data.b.length], extensions }])
      t.equal(errors.length, 1)
    }
    const alpha = await graphql('{ breaking { id text q } }', undefined, {}, '/v1alpha1/graphql')
    t.equal(alpha.status, 200)
    t.match(alpha.body, {
      data: { breaking: [{ id: 1 }] },
      errors: [{ path: '$.selectionSet.breaking', error: 'division by zero', code: 'postgres-error' }],
    })
  })

  await t.test('a list that fails before its first rows are sent is an ordinary error', async (t) => {
    for (const query of ['{ early { id q } }', '{ pen { id } early { id q } }']) {
      const answer = await graphql(query, undefined, { accept: GRAPHQL_TYPE })
      t.equal(answer.status, 400)
      t.match(answer.body, { errors: [{ message: 'division by zero', extensions: { path: '$.selectionSet' } }] })
      t.notOk('data' in answer.body)
    }
  })

  await t.test('errors come last when the connection to the database ends, too', async (t) => {
    const { answer } = await open(server, '{ many { id text } }')
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where query like '%"many"%' and pid <> pg_backend_pid()`,
    )
    let text = ''
    for await (const chunk of answer) text += String(chunk)
    const { data, errors } = JSON.parse(text)
    t.ok(data.many.length > 100 && data.many.length < 300_000)
    t.match(errors, [{ path: ['many', data.many.length], extensions: { code: 'unavailable' } }])
    t.match(await graphql('{ ink { id } }'), { status: 200 })
  })
})

async function start(t: Test) {
  const { url } = await freshDatabase(t)
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(SQL)
  const proxy = await startProxy(t, url)
  const server = await testServer(t, { databaseUrl: proxy.url, config: { database: { maxAnswerBytes: 1024 * 1024 } } })
  await server.must('bulk', [
    ...TABLES.map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'ink', name: 'pen', using: { foreign_key_constraint_on: 'pen_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'pen',
        name: 'inks',
        using: { foreign_key_constraint_on: { table: 'ink', column: 'pen_id' } },
      },
    },
    {
      type: 'create_select_permission',
      args: { table: 'ink', role: 'user', permission: { columns: ['id'], filter: { pen_id: 'X-Service-User-Id' } } },
    },
  ])
  return { server, proxy, database }
}

/** Sends a query and reads the beginning of its answer. */
async function open(server: TestServer, query: string): Promise<{ readonly answer: IncomingMessage }> {
  const headers = { 'x-service-admin-secret': ADMIN_SECRET }
  const asked = request(`${server.url}/v1/graphql`, { method: 'POST', headers, agent: false })
  asked.end(JSON.stringify({ query }))
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return { answer }
}

async function untilStill(read: () => number): Promise<void> {
  let last = -1
  await until('it is still', async () => {
    const now = read()
    const isStill = now === last
    last = now
    if (!isStill) await new Promise((resolve) => setTimeout(resolve, 300))
    return isStill
  })
}

async function streaming(database: pg.Client): Promise<number> {
  const { rows } = await database.query<{ n: number }>(
    `select count(*)::int as n from pg_stat_activity
    where query like '%"many"%' and state <> 'idle' and pid <> pg_backend_pid()`,
  )
  return rows[0]?.n ?? 0
}
