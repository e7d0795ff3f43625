import type { Test } from 'tap'
import { type EventClient, openEvents } from '../kit/events.js'
import { fails, invalid, modern as ask } from '../kit/graphql-steps.js'
import { area, type Case, like, type Step } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'
import { connect } from '../kit/socket.js'

/** What subscriptions promise over server-sent events. */
const PROMISES = {
  'schema.roots': 'subscription_root has the fields of query_root, for the role that asks',
  'events.answer': 'a subscription is answered with the data, and again whenever it is another one',
  'events.kinds': 'a row by its key, an aggregate, an alias, a fragment, a relationship, variables',
  'events.roles': 'each role gets what it may read, and fields that it may not read do not exist',
  'events.same': 'the same answer is not sent again, and not to a client that sends its last event id',
  'events.single': 'queries and mutations are answered with one event, and complete',
  'events.get': 'GET works, too, as EventSource does it',
  'events.relay': 'so does the endpoint of Relay',
  'events.invalid': 'errors of a document are one event, and complete',
  'events.later': 'an error later is an event, and answers follow',
  'events.lost-right': 'who loses the right gets the error, and complete',
  'events.limit': 'a caller has at most maxQueriesPerCaller subscriptions; others are a 429',
  'events.batch': 'a batch is not answered with events',
  'stream.schema': 'subscription_root has a stream of each table, with a cursor',
  'stream.batches': 'a stream sends each row once, in batches in the order of the cursor, and then those that are new',
  'stream.order': 'downwards too, with a condition, and from a value or from null',
  'stream.values': 'values of a cursor keep all their digits',
  'stream.roles': 'a role gets the rows that it may read, and no cursor of a column that it may not read',
  'stream.slow': 'a client that reads slowly misses no batch',
  'stream.naming': 'with graphql-default, its words are in camelCase',
  'stream.wrong': 'a stream has one cursor of one column',
  'refuse.plain': 'without Accept: text/event-stream, a subscription is a 406 that says what to do',
  'refuse.roots': 'a subscription has exactly one root field, without conditions',
  'refuse.alpha': 'the older dialect has no subscriptions',
} as const

const SQL = `
create table author (id int primary key, name text, tenant text);
create table post (id int primary key, author_id int references author on delete cascade, title text, n int);
create table exact (id int primary key, big bigint, num numeric, at timestamptz, text text);
insert into exact values (1, 9007199254740993, 1.00000000000000000001, '2026-01-01T00:00:00.000001Z', 'a'),
  (2, 9007199254740994, 1.00000000000000000002, '2026-01-01T00:00:00.000002Z', 'b'),
  (3, 9007199254740995, 1.00000000000000000003, '2026-01-01T00:00:00.000003Z', 'c');
insert into author values (1, 'Ana', 'a'), (2, 'Ben', 'b');
insert into post values (1, 1, 'one', 10), (2, 2, 'two', 1);`

const A: As = { role: 'user', variables: { 'x-service-tenant': 'a', 'x-service-user-id': 'ana' } }
const B: As = { role: 'user', variables: { 'x-service-tenant': 'b', 'x-service-user-id': 'ben' } }
const STREAM = { accept: 'text/event-stream' }

interface More {
  readonly variables?: object
  readonly as?: As
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
}
const subscribe = (
  server: TestServer,
  query: string,
  { variables, as, headers, path = '/v1/graphql' }: More = {},
): Promise<EventClient> =>
  openEvents(
    server,
    path,
    { method: 'POST', body: JSON.stringify({ query, variables }), headers: { ...STREAM, ...headers } },
    as,
  )
const POSTS = 'subscription { post(order_by: {id: asc}) { id title } }'
const [ONE, TWO] = [
  { id: 1, title: 'one' },
  { id: 2, title: 'two' },
]
const posts = (...post: readonly object[]) => ({ data: { post } })
const rest = (ms = 400) => new Promise((resolve) => setTimeout(resolve, ms))
const isComplete = (t: Test, client: EventClient, message = 'complete') => client.has(t, 'complete', '', message)
const roots = (type: string, expected: unknown, as?: As): Step =>
  ask(`{ __type(name: "${type}") { fields { name } } }`, like({ data: { __type: expected } }), as ? { as } : {})
const named = (...names: readonly string[]) => ({ fields: names.map((name) => ({ name })) })

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'schema.roots': [
    ask(
      '{ __schema { subscriptionType { name } } }',
      like({ data: { __schema: { subscriptionType: { name: 'subscription_root' } } } }),
    ),
    roots('subscription_root', named('post', 'post_by_pk', 'post_stream'), A),
    ask('{ __schema { subscriptionType { name } } }', like({ data: { __schema: { subscriptionType: null } } }), {
      as: { role: 'nobody' },
    }),
  ],
  'events.answer': async (t, server) => {
    const client = await subscribe(server, POSTS)
    await client.has(t, 'next', posts(ONE, TWO), 'at first')
    await server.must('update', { table: 'post', where: { id: 1 }, $set: { title: 'uno' } })
    await client.has(t, 'next', posts({ id: 1, title: 'uno' }, TWO), 'after a write')
    await server.sql(`update post set title = 'one' where id = 1`)
    await client.has(t, 'next', posts(ONE, TWO), 'after SQL')
    client.close()
  },
  'events.kinds': async (t, server) => {
    const all: [string, object | undefined, (n: number) => object][] = [
      ['subscription { post_by_pk(id: 1) { n } }', undefined, (n) => ({ post_by_pk: { n } })],
      [
        'subscription { post_aggregate { aggregate { max { n } } } }',
        undefined,
        (n) => ({ post_aggregate: { aggregate: { max: { n } } } }),
      ],
      [
        'query A { post { id } } subscription B($id: Int!) { mine: post(where: {id: {_eq: $id}}) { ...F } } fragment F on post { m: n author { name } }',
        { id: 1 },
        (n) => ({ mine: [{ m: n, author: { name: 'Ana' } }] }),
      ],
    ]
    for (const [query, variables, data] of all) {
      const body = JSON.stringify({ query, variables, operationName: query.includes('query A') ? 'B' : null })
      const client = await openEvents(server, '/v1/graphql', { method: 'POST', body, headers: STREAM })
      await client.has(t, 'next', { data: data(10) }, query)
      await server.sql('update post set n = 11 where id = 1')
      await client.has(t, 'next', { data: data(11) }, 'later')
      await server.sql('update post set n = 10 where id = 1')
      await client.has(t, 'next', { data: data(10) }, 'and back')
      client.close()
    }
  },
  'events.roles': async (t, server) => {
    const [a, b] = await Promise.all([subscribe(server, POSTS, { as: A }), subscribe(server, POSTS, { as: B })])
    await a.has(t, 'next', posts(ONE), 'of a')
    await b.has(t, 'next', posts(TWO), 'of b')
    await server.sql(`insert into post values (3, 1, 'three', 0)`)
    await a.has(t, 'next', posts(ONE, { id: 3, title: 'three' }), 'of a again')
    await rest()
    t.equal(b.count('next'), 1, 'b hears nothing of it')
    const hidden = await subscribe(server, 'subscription { post { n } }', { as: A })
    await isComplete(t, hidden)
    t.match(hidden.last('next'), { errors: [{ message: /Cannot query field "n"/ }] })
    for (const each of [a, b]) each.close()
    await server.sql('delete from post where id = 3')
  },
  'events.same': async (t, server) => {
    const client = await subscribe(server, POSTS)
    await client.has(t, 'next', posts(ONE, TWO), 'at first')
    await server.sql('update post set n = n + 1')
    await server.sql('update post set n = n - 1')
    await rest()
    t.equal(client.count('next'), 1)
    const id = client.events.at(-1)?.id ?? ''
    t.not(id, '')
    client.close()
    const again = await subscribe(server, POSTS, { headers: { 'last-event-id': id } })
    await rest()
    t.equal(again.count('next'), 0, 'it has that')
    await server.sql(`update post set title = 'uno' where id = 1`)
    await again.has(t, 'next', posts({ id: 1, title: 'uno' }, TWO), 'but not this')
    await server.sql(`update post set title = 'one' where id = 1`)
    again.close()
  },
  'events.single': async (t, server) => {
    const query = await subscribe(server, '{ post(order_by: {id: asc}) { id title } }')
    await isComplete(t, query)
    t.same(query.events, [
      { event: 'next', id: undefined, data: posts(ONE, TWO) },
      { event: 'complete', id: undefined, data: '' },
    ])
    const mutation = await subscribe(
      server,
      'mutation { update_post(where: {id: {_eq: 1}}, _set: {n: 10}) { affected_rows } }',
    )
    await isComplete(t, mutation)
    t.same(mutation.last('next'), { data: { update_post: { affected_rows: 1 } } })
  },
  'events.get': async (t, server) => {
    const client = await openEvents(server, `/v1/graphql?query=${encodeURIComponent(POSTS)}`, { headers: STREAM })
    await client.has(t, 'next', posts(ONE, TWO), 'a subscription')
    client.close()
    const mutation = encodeURIComponent('mutation { delete_post(where: {}) { affected_rows } }')
    const { status } = await server.fetch(`/v1/graphql?query=${mutation}`, { headers: STREAM })
    t.equal(status, 405, 'no mutation')
  },
  'events.relay': async (t, server) => {
    const document = 'subscription { post_connection(order_by: {id: asc}, first: 1) { edges { node { title } } } }'
    const client = await subscribe(server, document, { path: '/v1beta1/relay' })
    await client.has(t, 'next', { data: { post_connection: { edges: [{ node: { title: 'one' } }] } } }, 'a connection')
    client.close()
  },
  'events.invalid': async (t, server) => {
    const cases: [string, object][] = [
      ['subscription { nothing { id } }', { extensions: { code: 'validation-failed' } }],
      ['subscription { post(where: {id: {_eq: "x"}}) { id } }', { extensions: { code: /./, path: /^\$/ } }],
      ['subscription {', { extensions: { code: 'parse-failed' } }],
    ]
    for (const [document, error] of cases) {
      const client = await subscribe(server, document)
      await isComplete(t, client, document)
      t.match(client.last('next'), { data: undefined, errors: [error] })
    }
  },
  'events.later': async (t, server) => {
    const client = await subscribe(server, 'subscription { quotient(order_by: {id: asc}) { q } }')
    const quotient = { data: { quotient: [{ q: 1 }, { q: 10 }] } }
    await client.has(t, 'next', quotient, 'at first')
    await server.sql('update post set n = 0 where id = 1')
    for (let tries = 0; tries < 300 && client.count('next') < 2; tries++) await rest(20)
    t.match(client.last('next'), { errors: [{ message: /zero/, extensions: { path: '$.selectionSet' } }] })
    await server.sql('update post set n = 10 where id = 1')
    await client.has(t, 'next', quotient, 'again')
    client.close()
  },
  'events.lost-right': async (t, server) => {
    const client = await subscribe(server, POSTS, { as: A })
    await client.has(t, 'next', posts(ONE), 'at first')
    await server.must('drop_select_permission', { table: 'post', role: 'user' })
    await isComplete(t, client)
    t.match(client.last('next'), { errors: [{ extensions: { code: 'validation-failed' } }] })
    await server.must('create_select_permission', PERMISSION)
  },
  'events.limit': async (t, server) => {
    const open: EventClient[] = []
    for (let i = 0; i < 4; i++) open.push(await subscribe(server, POSTS, { as: A }))
    await t.rejects(subscribe(server, POSTS, { as: A }), /too-many-requests/)
    const body = JSON.stringify({ query: POSTS })
    const { status, headers } = await server.fetch('/v1/graphql', { method: 'POST', body, headers: STREAM }, A)
    t.same([status, headers.get('retry-after')], [429, '5'])
    open.push(await subscribe(server, POSTS, { as: B }))
    for (const each of open) each.close()
  },
  'events.batch': async (t, server) => {
    const body = JSON.stringify([{ query: '{ post { id } }' }])
    const client = await openEvents(server, '/v1/graphql', { method: 'POST', body, headers: STREAM })
    await isComplete(t, client)
    t.match(client.last('next'), { errors: [{ message: /batch/ }] })
  },
  'stream.schema': [
    ask(
      '{ __type(name: "post_stream_cursor_value_input") { inputFields { name } } }',
      like({ data: { __type: { inputFields: [{ name: 'id' }, { name: 'title' }] } } }),
      { as: A },
    ),
  ],
  'stream.batches': async (t, server) => {
    const client = await subscribe(
      server,
      'subscription { post_stream(batch_size: 2, cursor: {initial_value: {id: 0}}) { title } }',
    )
    const batches = () => client.events.map(({ data }) => (data as Batch).data.post_stream.map(({ title }) => title))
    await client.has(t, 'next', stream({ title: 'one' }, { title: 'two' }), 'the first batch')
    await server.sql(`insert into post select id, 1, id::text, 1 from generate_series(10, 14) id`)
    await client.has(t, 'next', stream({ title: '14' }), 'new rows')
    t.same(batches(), [['one', 'two'], ['10', '11'], ['12', '13'], ['14']])
    await server.sql(`update post set title = 'x' where id = 10; delete from post where id = 12`)
    await server.sql(`insert into post values (15, 1, '15', 1)`)
    await client.has(t, 'next', stream({ title: '15' }), 'changes of rows before it send nothing')
    t.equal(client.count('next'), 5)
    client.close()
    await server.sql('delete from post where id >= 10')
  },
  'stream.order': async (t, server) => {
    const stream = (cursor: object, where: object = {}) =>
      subscribe(
        server,
        'subscription ($cursor: [post_stream_cursor_input]!, $where: post_bool_exp) { post_stream(batch_size: 1, cursor: $cursor, where: $where) { id } }',
        { variables: { cursor, where } },
      )
    const all: [object, object, number[]][] = [
      [[{ initial_value: { id: 2 }, ordering: 'DESC' }], {}, [1]],
      [{ initial_value: { id: null }, ordering: 'DESC' }, {}, [2, 1]],
      [{ initial_value: { title: null } }, {}, [1, 2]],
      [{ initial_value: { id: 0 } }, { title: { _eq: 'two' } }, [2]],
      [{ initial_value: { id: 1 } }, {}, [2]],
    ]
    for (const [cursor, where, ids] of all) {
      const client = await stream(cursor, where)
      await client.has(t, 'next', { data: { post_stream: [{ id: ids.at(-1) }] } }, JSON.stringify(cursor))
      await rest(200)
      t.same(
        client.events.map(({ data }) => (data as Batch).data.post_stream[0]?.id),
        ids,
      )
      client.close()
    }
  },
  'stream.values': async (t, server) => {
    for (const column of ['big', 'num', 'at', 'text']) {
      const document = `subscription { exact_stream(batch_size: 1, cursor: {initial_value: {${column}: null}}) { id } }`
      const client = await subscribe(server, document)
      await client.has(t, 'next', { data: { exact_stream: [{ id: 3 }] } }, column)
      await rest(200)
      t.equal(client.count('next'), 3, 'each once')
      client.close()
    }
  },
  'stream.roles': async (t, server) => {
    const document = 'subscription { post_stream(batch_size: 5, cursor: {initial_value: {id: 0}}) { title } }'
    const client = await subscribe(server, document, { as: B })
    await client.has(t, 'next', stream({ title: 'two' }), 'of b')
    await server.sql(`insert into post values (3, 1, 'three', 1), (4, 2, 'four', 1)`)
    await client.has(t, 'next', stream({ title: 'four' }), 'new ones')
    client.close()
    await server.sql('delete from post where id > 2')
    const hidden = await subscribe(server, document.replace('{id: 0}', '{n: 0}'), { as: B })
    await isComplete(t, hidden)
    t.match(hidden.last('next'), { errors: [{ message: /"n" is not defined/ }] })
  },
  'stream.slow': async (t, server) => {
    await server.sql(`insert into exact select id, id, id, now(), repeat('x', 400000) from generate_series(10, 49) id`)
    const document = 'subscription { exact_stream(batch_size: 1, cursor: {initial_value: {id: 9}}) { id text } }'
    const client = await connect(server)
    client.send({ id: '1', type: 'subscribe', payload: { query: document } })
    await client.find('next', '1')
    client.socket.pause()
    await rest(1000)
    client.socket.resume()
    for (let tries = 0; tries < 300 && client.count('1') < 40; tries++) await rest(20)
    t.same(
      client.messages.slice(1).map(({ payload }) => payload.data.exact_stream[0].id),
      [...Array(40).keys()].map((i) => i + 10),
    )
    client.close()
    await server.sql('delete from exact where id > 9')
  },
  'stream.naming': async (t, server) => {
    const other = await testServer(t, {
      databaseUrl: server.databaseUrl,
      builtins: LIVE,
      config: { plugins: { graphql: { namingConvention: 'graphql-default' } } },
    })
    const document = 'subscription ($c: [PostStreamCursorInput]!) { postStream(batchSize: 5, cursor: $c) { authorId } }'
    const variables = { c: { initialValue: { authorId: 1 }, ordering: 'ASC' } }
    const client = await subscribe(other, document, { variables })
    await client.has(t, 'next', { data: { postStream: [{ authorId: 2 }] } }, 'rows')
    client.close()
    await other.close()
  },
  'stream.wrong': async (t, server) => {
    const wrong = [
      '[]',
      '{initial_value: {}}',
      '{initial_value: {id: 1, title: "a"}}',
      '[{initial_value: {id: 1}}, {initial_value: {id: 2}}]',
    ]
    for (const cursor of wrong) {
      const client = await subscribe(server, `subscription { post_stream(batch_size: 1, cursor: ${cursor}) { id } }`)
      await isComplete(t, client, cursor)
      t.match(client.last('next'), { errors: [{ message: /expecting one/, extensions: { path: /cursor/ } }] })
    }
  },
  'refuse.plain': [
    ask(POSTS, fails('not-acceptable', /Accept: text\/event-stream/, '$.query', 406)),
    { path: `/v1/graphql?query=${encodeURIComponent(POSTS)}`, method: 'GET', expected: { status: 406 } },
  ],
  'refuse.roots': [
    ...[
      'subscription { a: post { id } b: post { id } }',
      'subscription { post { id } ...F } fragment F on subscription_root { post_by_pk(id: 1) { id } }',
      'subscription { __typename }',
    ].map((document) => ask(document, invalid(/exactly one root field/))),
    ask('subscription ($x: Boolean!) { post @include(if: $x) { id } }', invalid(/@skip/)),
    ask('subscription { ... @skip(if: false) { post { id } } }', invalid(/@skip/)),
  ],
  'refuse.alpha': [
    {
      path: '/v1alpha1/graphql',
      method: 'POST',
      body: JSON.stringify({ query: 'subscription { post { id } }' }),
      expected: { status: 400, like: { errors: [{ message: 'subscriptions are not supported' }] } },
    },
  ],
}

const LIVE = { live: new URL('../../plugins/live/index.js', import.meta.url) }

interface Batch {
  readonly data: { readonly post_stream: readonly { readonly id?: number; readonly title?: string }[] }
}
const stream = (...post_stream: readonly object[]) => ({ data: { post_stream } })

const PERMISSION = {
  table: 'post',
  role: 'user',
  permission: { columns: ['id', 'title'], filter: { author: { tenant: 'X-Service-Tenant' } } },
}

/** Its promises, with a case for each. */
export const subscriptions = area('subscriptions', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t, {
    builtins: LIVE,
    config: { plugins: { live: { pollMs: 300, maxQueriesPerCaller: 4 } } },
  })
  await server.sql(SQL)
  await server.sql('create view quotient as select id, 10 / n as q from post')
  await server.must('bulk', [
    ...['author', 'post', 'quotient', 'exact'].map((args) => ({ type: 'track_table', args })),
    ...['author', 'post', 'exact'].map((table) => ({ type: 'set_table_live', args: { table, live: true } })),
    {
      type: 'create_object_relationship',
      args: { table: 'post', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    { type: 'create_select_permission', args: PERMISSION },
  ])
  return server
}
