import { createHmac } from 'node:crypto'
import { request } from 'node:http'
import type { Test } from 'tap'
import { area, type Case } from '../kit/promises.js'
import { ADMIN_SECRET, type As, GATEWAY_SECRET, type TestServer, testServer } from '../kit/server.js'
import { connect, openSocket, type SocketClient } from '../kit/socket.js'

/** What GraphQL over WebSocket promises. */
const PROMISES = {
  'operation.query': 'a query is answered with next and complete',
  'operation.mutation': 'so is a mutation, and a dry run of one remains one',
  'operation.subscription': 'a subscription is answered with the data, and again whenever it is another one',
  'operation.complete': 'a client ends a subscription with complete',
  'operation.error': 'an error is one message, which ends the operation',
  'operation.later': 'an error of a subscription later is a result, and answers follow',
  'operation.lost-right': 'who loses the right gets the error, and complete',
  'operation.twice': 'an id that is in use closes the connection with 4409',
  'operation.limit': 'a connection has at most 100 operations at a time; the next one is an error',
  'operation.relay': 'the endpoint of Relay has sockets, too',
  'caller.payload': 'the first message says who the caller is, by headers in its payload or by the payload itself',
  'caller.request': 'or the headers of the request say it, and then those of the message count for nothing',
  'caller.wrong': 'wrong credentials close the connection with 4401, a role that the caller does not hold with 4403',
  'caller.header': 'a value that no header can have closes it with 4400',
  'caller.anonymous': 'without credentials, the caller is anonymous',
  'caller.cookie': 'a cookie counts from allowed origins only; a token in the message takes precedence',
  'caller.expired': 'when the credentials expire, the connection is closed with 4403',
  'protocol.unknown': 'another subprotocol, or none, closes the connection with 4406',
  'protocol.early': 'an operation before the connection is acknowledged closes it with 4401',
  'protocol.again': 'a second init closes it with 4429',
  'protocol.timeout': 'without an init in http.headersTimeoutMs it is closed with 4408',
  'protocol.invalid': 'an invalid message closes it with 4400',
  'protocol.large': 'a message of more than http.maxAnonymousJsonBytes closes it with 1009',
  'protocol.ping': 'ping is answered with pong',
  'old.subscription': 'older clients of Hasura start, get data, and stop',
  'old.query': 'their queries and errors have the messages of that protocol',
  'old.early': 'they may start before the connection is acknowledged',
  'old.twice': 'an id that is in use replaces its operation',
  'old.refused': 'wrong credentials are explained before the connection is closed',
  'slow.newest': 'a client that is behind gets the newest answer only',
  'http.ordinary': 'a request that offers another protocol is an ordinary one',
  'http.refused': 'what is no WebSocket is refused as any other request',
  'http.metrics': 'each operation is counted as a request, and each error',
  'http.places': 'a connection without an operation makes room for another one',
  'end.closing': 'a server that stops closes its connections with 1001, when their queries have ended',
} as const

const SQL = `
create table author (id int primary key, name text, tenant text);
create table post (id int primary key, author_id int references author on delete cascade, title text, n int);
insert into author values (1, 'Ana', 'a'), (2, 'Ben', 'b');
insert into post values (1, 1, 'one', 10), (2, 2, 'two', 1);
create function wait(seconds float) returns setof post language sql volatile as $$ select pg_sleep(seconds); select * from post $$;`

const JWT_KEY = 'a key of a test that is long enough for HS256'
const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET }
const A: As = { role: 'user', variables: { 'x-service-tenant': 'a', 'x-service-user-id': 'ana' } }
const POSTS = 'subscription { post(order_by: {id: asc}) { id title } }'
const [ONE, TWO] = [
  { id: 1, title: 'one' },
  { id: 2, title: 'two' },
]
const start = (id: string, query: string, more: object = {}) => ({ id, type: 'subscribe', payload: { query, ...more } })
const next = (id: string, data: object) => ({ id, type: 'next', payload: { data } })
const rest = (ms = 400) => new Promise((resolve) => setTimeout(resolve, ms))
const closes = async (t: Test, client: SocketClient, code: number, reason: RegExp = /./) =>
  t.match(await client.closed, { code, reason }, `${code}`)

/** A request with an Upgrade header, which fetch does not send. */
const upgrading = (server: TestServer, path: string, headers: Record<string, string>, method = 'GET') =>
  new Promise<{ status: number | undefined; body: unknown; connection: string | undefined }>((resolve, reject) => {
    const sent = request(server.url + path, { method, headers: { connection: 'Upgrade', ...headers } }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () =>
        resolve({ status: response.statusCode, body: JSON.parse(text), connection: response.headers.connection }),
      )
    })
    sent.on('error', reject)
    sent.end()
  })

/** Asks for the rows that the caller of a connection sees. */
async function rowsOf(client: SocketClient): Promise<unknown> {
  client.send(start('rows', '{ post(order_by: {id: asc}) { id } }'))
  await client.find('complete', 'rows')
  return (await client.find('next', 'rows')).payload.data.post.map(({ id }: { id: number }) => id)
}
const EVERYBODY = [1, 2]
const OF_A = [1]

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'operation.query': async (t, server) => {
    const client = await connect(server)
    client.send(start('1', 'query Q($id: Int!) { post_by_pk(id: $id) { title } }', { variables: { id: 1 } }))
    await client.has(t, { id: '1', type: 'complete' })
    t.same(await client.find('next', '1'), next('1', { post_by_pk: { title: 'one' } }))
    client.close()
  },
  'operation.mutation': async (t, server) => {
    const client = await connect(server)
    const mutation = 'mutation { update_post(where: {id: {_eq: 1}}, _set: {title: "uno"}) { affected_rows } }'
    const title = async () => (await server.sql('select title from post where id = 1')).result[1]
    for (const [id, dry_run, after] of [
      ['1', true, 'one'],
      ['2', undefined, 'uno'],
    ] as const) {
      client.send(start(id, mutation, { dry_run }))
      await client.has(t, { id, type: 'complete' })
      t.same(await client.find('next', id), next(id, { update_post: { affected_rows: 1 } }))
      t.same(await title(), [after])
    }
    await server.sql(`update post set title = 'one' where id = 1`)
    client.close()
  },
  'operation.subscription': async (t, server) => {
    const [client, other] = await Promise.all([connect(server), connect(server)])
    for (const each of [client, other]) each.send(start('1', POSTS))
    await client.has(t, next('1', { post: [ONE, TWO] }))
    await server.sql(`update post set title = 'uno' where id = 1`)
    for (const each of [client, other]) await each.has(t, next('1', { post: [{ id: 1, title: 'uno' }, TWO] }))
    await server.sql(`update post set title = 'one' where id = 1`)
    await client.has(t, next('1', { post: [ONE, TWO] }))
    for (const each of [client, other]) each.close()
  },
  'operation.complete': async (t, server) => {
    const client = await connect(server)
    client.send(start('1', POSTS))
    await client.has(t, next('1', { post: [ONE, TWO] }))
    client.send({ id: '1', type: 'complete' })
    client.send({ id: 'unknown', type: 'complete' })
    t.same(await rowsOf(client), EVERYBODY, 'the connection goes on')
    await server.sql(`update post set title = 'uno' where id = 1`)
    await rest()
    t.equal(client.count('1'), 1)
    client.send(start('1', POSTS))
    await client.has(t, next('1', { post: [{ id: 1, title: 'uno' }, TWO] }), 'the id is free')
    await server.sql(`update post set title = 'one' where id = 1`)
    client.close()
  },
  'operation.error': async (t, server) => {
    const client = await connect(server)
    const cases: [string, string, object][] = [
      ['1', '{ nothing }', { extensions: { code: 'validation-failed', path: '$.selectionSet.nothing' } }],
      ['2', '{', { extensions: { code: 'parse-failed' } }],
      ['3', 'subscription { a: post { id } b: post { id } }', { message: /one root field/ }],
      ['4', '{ post(limit: -1) { id } }', { extensions: { path: /limit/ } }],
      ['5', 'subscription { post(where: {id: {_eq: "x"}}) { id } }', { extensions: { path: /^\$/ } }],
    ]
    for (const [id, query, error] of cases) {
      client.send(start(id, query))
      t.match(await client.find('error', id), { payload: [error] }, query)
      t.equal(client.count(id), 1)
    }
    client.send({ id: '6', type: 'subscribe', payload: { variables: {} } })
    t.match(await client.find('error', '6'), { payload: [{ message: /query/ }] })
    client.send({ id: '7', type: 'subscribe', payload: [] })
    t.match(await client.find('error', '7'), { payload: [{ message: /object/ }] })
    client.close()
  },
  'operation.later': async (t, server) => {
    const client = await connect(server)
    client.send(start('1', 'subscription { quotient(order_by: {id: asc}) { q } }'))
    await client.has(t, next('1', { quotient: [{ q: 1 }, { q: 10 }] }))
    await server.sql('update post set n = 0 where id = 1')
    for (let tries = 0; tries < 300 && client.count('1') < 2; tries++) await rest(20)
    t.match(client.messages.at(-1), { type: 'next', payload: { errors: [{ message: /zero/ }] } })
    await server.sql('update post set n = 10 where id = 1')
    await client.has(t, next('1', { quotient: [{ q: 1 }, { q: 10 }] }))
    client.close()
  },
  'operation.lost-right': async (t, server) => {
    const client = await connect(server, asHeaders(A))
    client.send(start('1', POSTS))
    await client.has(t, next('1', { post: [ONE] }))
    await server.must('drop_select_permission', { table: 'post', role: 'user' })
    await client.has(t, { id: '1', type: 'complete' })
    t.match(client.messages.at(-2), {
      type: 'next',
      payload: { errors: [{ extensions: { code: 'validation-failed' } }] },
    })
    await server.must('create_select_permission', PERMISSION)
    client.close()
  },
  'operation.twice': async (t, server) => {
    const client = await connect(server)
    client.send(start('1', POSTS))
    client.send(start('1', POSTS))
    await closes(t, client, 4409, /Subscriber for 1 already exists/)
  },
  'operation.limit': async (t, server) => {
    const client = await connect(server)
    for (let i = 0; i <= 100; i++) client.send(start(`s${i}`, POSTS))
    t.match(await client.find('error', 's100'), { payload: [{ extensions: { code: 'too-many-requests' } }] })
    await client.find('next', 's99')
    client.send({ id: 's0', type: 'complete' })
    client.send(start('again', POSTS))
    await client.find('next', 'again')
    client.close()
    const user = await connect(server, asHeaders(A))
    for (let i = 0; i < 5; i++) user.send(start(`s${i}`, POSTS))
    await user.find('next', 's3')
    t.match(
      await user.find('error', 's4'),
      { payload: [{ message: /maxQueriesPerCaller/ }] },
      'and those of the caller',
    )
    user.close()
  },
  'operation.relay': async (t, server) => {
    const client = await connect(server, undefined, { path: '/v1beta1/relay' })
    client.send(start('1', 'subscription { post_connection(first: 1) { edges { node { title } } } }'))
    await client.has(t, next('1', { post_connection: { edges: [{ node: { title: 'one' } }] } }))
    client.close()
  },
  'caller.payload': async (t, server) => {
    const headers = asHeaders(A).headers
    for (const payload of [{ headers }, headers]) {
      const client = await connect(server, payload)
      t.same(await rowsOf(client), OF_A)
      client.close()
    }
    const token = await connect(server, { Authorization: `Bearer ${tokenFor(60)}` })
    t.same(await rowsOf(token), OF_A, 'a token')
    token.close()
  },
  'caller.request': async (t, server) => {
    const { headers } = asHeaders(A)
    const plain = await connect(server, {}, { headers })
    t.same(await rowsOf(plain), OF_A)
    const more = await connect(server, { headers: { 'x-service-role': 'admin', ...ADMIN } }, { headers })
    t.same(await rowsOf(more), OF_A, 'past a gateway, nobody becomes another')
    for (const each of [plain, more]) each.close()
  },
  'caller.wrong': async (t, server) => {
    const cases: [object, number, RegExp][] = [
      [{ 'x-service-admin-secret': 'wrong' }, 4401, /secret/],
      [{ Authorization: 'Bearer a.b.c' }, 4401, /token/],
      [{ Authorization: 'Basic eDp5' }, 4400, /Bearer/],
      [{ 'x-service-role': 'user' }, 4403, /role "user"/],
    ]
    for (const [payload, code, reason] of cases) {
      const client = await openSocket(server)
      client.send({ type: 'connection_init', payload })
      await closes(t, client, code, reason)
      t.same(client.messages, [])
    }
  },
  'caller.header': async (t, server) => {
    for (const value of ['a\nb', 'ł', ['a'], {}]) {
      const client = await openSocket(server)
      client.send({ type: 'connection_init', payload: { headers: { Authorization: value } } })
      await closes(t, client, 4400, /authorization/)
    }
  },
  'caller.anonymous': async (t, server) => {
    for (const payload of [undefined, null, {}, { headers: { 'content-type': 'x', cookie: 'a=b' } }]) {
      const client = await openSocket(server)
      client.send({ type: 'connection_init', payload })
      await client.find('connection_ack')
      client.send(start('1', '{ post { id } }'))
      t.match(await client.find('error', '1'), { payload: [{ message: /Cannot query field "post"/ }] })
      client.close()
    }
  },
  'caller.cookie': async (t, server) => {
    const cookie = { cookie: `rowhouse_session=${tokenFor(600)}` }
    const own = { ...cookie, origin: server.url }
    for (const headers of [
      own,
      { ...cookie, origin: 'https://app.example' },
      { ...own, 'sec-fetch-site': 'same-origin' },
    ]) {
      const client = await connect(server, {}, { headers })
      t.same(await rowsOf(client), OF_A)
      client.close()
    }
    const others = [cookie, { ...cookie, origin: 'https://evil.example' }, { ...own, 'sec-fetch-site': 'cross-site' }]
    for (const headers of others) {
      const client = await openSocket(server, { headers })
      client.send({ type: 'connection_init' })
      await closes(t, client, 4403, /origin/)
    }
    const token = await connect(server, ADMIN, { headers: { ...cookie, origin: 'https://evil.example' } })
    t.same(await rowsOf(token), EVERYBODY)
    token.close()
  },
  'caller.expired': async (t, server) => {
    const [client, idle] = await Promise.all(
      [1, 2].map(() => connect(server, { Authorization: `Bearer ${tokenFor(4)}` })),
    )
    client!.send(start('1', POSTS))
    await client!.has(t, next('1', { post: [ONE] }))
    for (const each of [client!, idle!]) await closes(t, each, 4403, /expired/)
  },
  'protocol.unknown': async (t, server) => {
    for (const protocol of ['', 'graphql']) {
      const client = await openSocket(server, { protocol }).catch((error: Error) => error)
      // The library of this client refuses an answer without the subprotocol that it asked for.
      if (client instanceof Error) t.match(client.message, /no subprotocol/)
      else await closes(t, client, 4406, /graphql-transport-ws, graphql-ws/)
    }
  },
  'protocol.early': async (t, server) => {
    const client = await openSocket(server)
    client.send(start('1', POSTS))
    await closes(t, client, 4401, /Unauthorized/)
    const soon = await openSocket(server)
    soon.send({ type: 'connection_init', payload: ADMIN })
    soon.send(start('1', POSTS))
    await closes(t, soon, 4401, /Unauthorized/)
  },
  'protocol.again': async (t, server) => {
    const client = await connect(server)
    client.send({ type: 'connection_init' })
    await closes(t, client, 4429)
    const soon = await openSocket(server)
    soon.send({ type: 'connection_init' })
    soon.send({ type: 'connection_init' })
    await closes(t, soon, 4429)
  },
  'protocol.timeout': async (t, server) => {
    await closes(t, await openSocket(server), 4408, /timeout/)
  },
  'protocol.invalid': async (t, server) => {
    const cases: [object | string, RegExp][] = [
      ['{', /JSON/],
      ['"text"', /object/],
      [{ type: 'toString' }, /connection_init, subscribe/],
      [{ type: 'start', id: '1' }, /type/],
      [{ type: 'subscribe', payload: {} }, /id/],
      [{ type: 'subscribe', id: 1, payload: {} }, /id/],
      [{ type: 'complete', id: '' }, /id/],
      [{ type: 'connection_init', payload: [] }, /payload/],
    ]
    for (const [message, reason] of cases) {
      const client = await openSocket(server)
      client.send(message)
      await closes(t, client, 4400, reason)
    }
    const binary = await connect(server)
    binary.socket.send(Buffer.from('{"type":"ping"}'))
    await closes(t, binary, 4400, /text/)
  },
  'protocol.large': async (t, server) => {
    const client = await connect(server)
    client.send(start('1', `{ post { id } } #${'x'.repeat(200_000)}`))
    await client.find('next', '1')
    client.send(start('2', 'x'.repeat(1024 * 1024)))
    await closes(t, client, 1009, /^/)
    const stranger = await openSocket(server)
    stranger.send({ type: 'connection_init', payload: { x: 'x'.repeat(100_000) } })
    await closes(t, stranger, 1006, /^/)
  },
  'protocol.ping': async (t, server) => {
    const client = await openSocket(server)
    client.send({ type: 'ping', payload: { a: 1 } })
    client.send({ type: 'pong' })
    await client.has(t, { type: 'pong' })
    client.socket.ping('x')
    await new Promise((resolve) => client.socket.once('pong', resolve))
    client.close()
  },
  'old.subscription': async (t, server) => {
    const client = await connect(server, { headers: ADMIN }, OLD)
    t.same(client.messages.slice(0, 2), [{ type: 'connection_ack' }, { type: 'ka' }])
    client.send({ id: '1', type: 'start', payload: { query: POSTS } })
    await client.has(t, { id: '1', type: 'data', payload: { data: { post: [ONE, TWO] } } })
    await server.sql(`update post set title = 'uno' where id = 1`)
    await client.has(t, { id: '1', type: 'data', payload: { data: { post: [{ id: 1, title: 'uno' }, TWO] } } })
    client.send({ id: '1', type: 'stop' })
    await server.sql(`update post set title = 'one' where id = 1`)
    await rest()
    t.equal(client.count('1'), 2)
    client.send({ type: 'connection_terminate' })
    await closes(t, client, 1000, /^$/)
  },
  'old.query': async (t, server) => {
    const client = await connect(server, ADMIN, OLD)
    client.send({ id: '1', type: 'start', payload: { query: '{ post_by_pk(id: 1) { id } }' } })
    await client.has(t, { id: '1', type: 'complete' })
    t.same(await client.find('data', '1'), { id: '1', type: 'data', payload: { data: { post_by_pk: { id: 1 } } } })
    client.send({ id: '2', type: 'start', payload: { query: '{ nothing }' } })
    t.match(await client.find('error', '2'), { payload: { errors: [{ extensions: { code: 'validation-failed' } }] } })
    client.close()
  },
  'old.early': async (t, server) => {
    const client = await openSocket(server, OLD)
    client.send({ type: 'connection_init', payload: ADMIN })
    client.send({ id: '1', type: 'start', payload: { query: '{ post_by_pk(id: 1) { id } }' } })
    await client.has(t, { id: '1', type: 'complete' })
    client.close()
    const none = await openSocket(server, OLD)
    none.send({ id: '1', type: 'start', payload: { query: '{ post_by_pk(id: 1) { id } }' } })
    await closes(t, none, 4401)
  },
  'old.twice': async (t, server) => {
    const client = await connect(server, ADMIN, OLD)
    client.send({ id: '1', type: 'start', payload: { query: POSTS } })
    await client.find('data', '1')
    client.send({ id: '1', type: 'start', payload: { query: 'subscription { post_by_pk(id: 2) { title } }' } })
    await client.has(t, { id: '1', type: 'data', payload: { data: { post_by_pk: { title: 'two' } } } })
    client.close()
  },
  'old.refused': async (t, server) => {
    const client = await openSocket(server, OLD)
    client.send({ type: 'connection_init', payload: { 'x-service-admin-secret': 'wrong' } })
    await closes(t, client, 4401)
    t.match(client.messages, [{ type: 'connection_error', payload: { message: /secret/ } }])
  },
  'slow.newest': async (t, server) => {
    const client = await connect(server)
    await server.sql(`insert into post select 100, 1, repeat('x', 500000), 1`)
    client.send(start('1', 'subscription { post_by_pk(id: 100) { n title } }'))
    await client.find('next', '1')
    client.socket.pause()
    const other = await connect(server)
    other.send(start('1', 'subscription { post_by_pk(id: 100) { n } }'))
    for (let n = 2; n <= 40; n++) {
      await server.sql(`update post set n = ${n} where id = 100`)
      await other.has(t, next('1', { post_by_pk: { n } }), `change ${n}`)
    }
    client.socket.resume()
    for (let tries = 0; tries < 600 && client.messages.at(-1).payload.data.post_by_pk.n < 40; tries++) await rest(20)
    t.equal(client.messages.at(-1).payload.data.post_by_pk.n, 40)
    t.ok(client.count('1') < 40, `${client.count('1')} of 40`)
    t.same(await rowsOf(client), [1, 2, 100], 'and it is heard again')
    for (const each of [client, other]) each.close()
    await server.sql('delete from post where id = 100')
  },
  'http.ordinary': async (t, server) => {
    const query = `/v1/graphql?query=${encodeURIComponent('{ post { id } }')}`
    const socket = {
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    const status = async (path: string, headers: Record<string, string>, method?: string) =>
      (await upgrading(server, path, headers, method)).status
    t.equal(await status(query, { upgrade: 'h2c', 'http2-settings': '', ...ADMIN }), 200, 'HTTP/2')
    t.equal(await status('/v1/nothing', { ...socket, ...ADMIN }), 404, 'at another path')
    t.equal(await status('/healthz', socket), 200)
    t.equal(await status('/v1/graphql', { ...socket, ...ADMIN }, 'DELETE'), 405)
  },
  'http.refused': async (t, server) => {
    const refused = async (headers: Record<string, string>) =>
      openSocket(server, { headers }).then(
        () => 'open',
        (error: Error) => error.message,
      )
    t.match(await refused({ 'idempotency-key': 'a' }), /^400 .*"code":"not-supported"/)
    t.match(await refused({ prefer: 'tx=rollback' }), /^400 .*dry run/)
    const none = await upgrading(server, '/v1/graphql', { upgrade: 'websocket' })
    t.match(none, { status: 400, body: { code: 'parse-failed', error: /no WebSocket: .*key/ }, connection: 'close' })
  },
  'http.metrics': async (t, server) => {
    const client = await connect(server)
    client.send(start('1', '{ nothing }'))
    await client.find('error', '1')
    client.close()
    const metrics = (await server.fetch('/metrics')).text
    t.match(
      metrics,
      /http_request_duration_seconds_count\{method="MESSAGE",route="\/v1\/graphql",status="200",plugin="graphql"\}/,
    )
    t.match(metrics, /errors_total\{route="\/v1\/graphql",code="validation-failed"\}/)
    t.match(metrics, /rowhouse_graphql_connections \d/)
  },
  'http.places': async (t, server) => {
    const busy = await connect(server)
    busy.send(start('1', POSTS))
    await busy.find('next', '1')
    const idle: SocketClient[] = []
    for (let i = 0; i < 30; i++) idle.push(await openSocket(server))
    t.equal((await Promise.race(idle.map(({ closed }) => closed))).code, 1006, 'one of them is closed')
    t.equal(busy.socket.readyState, busy.socket.OPEN)
    for (const each of [busy, ...idle]) each.close()
  },
  'end.closing': async (t, server) => {
    const [busy, idle] = await Promise.all([connect(server), connect(server)])
    idle.send(start('1', POSTS))
    await idle.find('next', '1')
    busy.send(start('1', 'mutation { wait(args: {seconds: 2}) { id } }'))
    await rest()
    const closed = server.close()
    await closes(t, idle, 1001, /closing/)
    await busy.has(t, { id: '1', type: 'complete' }, 'the mutation has ended')
    await closes(t, busy, 1001, /closing/)
    await closed
  },
}

const OLD = { protocol: 'graphql-ws' }
const PERMISSION = {
  table: 'post',
  role: 'user',
  permission: { columns: ['id', 'title'], filter: { author: { tenant: 'X-Service-Tenant' } } },
}

const asHeaders = ({ role, variables }: As) => ({
  headers: { 'x-service-gateway-secret': GATEWAY_SECRET, 'x-service-role': role, ...variables } as Record<
    string,
    string
  >,
})

function tokenFor(seconds: number): string {
  const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const claims = { 'x-service-allowed-roles': ['user'], 'x-service-default-role': 'user', 'x-service-tenant': 'a' }
  const body = { sub: 'ana', exp: Math.floor(Date.now() / 1000) + seconds, rowhouse: claims }
  const text = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded(body)}`
  return `${text}.${createHmac('sha256', JWT_KEY).update(text).digest('base64url')}`
}

/** Its promises, with a case for each. */
export const sockets = area('sockets', { promises: PROMISES, cases: CASES, start: begin })

async function begin(t: Test): Promise<TestServer> {
  const server = await testServer(t, {
    builtins: { live: new URL('../../plugins/live/index.js', import.meta.url) },
    config: {
      http: { headersTimeoutMs: 2000, maxConnections: 30, cors: { origins: ['https://app.example'] }, metrics: 'open' },
      auth: { jwt: [{ algorithms: ['HS256'], key: JWT_KEY, leewaySeconds: 0 }] },
      plugins: { live: { pollMs: 300, maxQueriesPerCaller: 4 } },
    },
  })
  await server.sql(SQL)
  await server.sql('create view quotient as select id, 10 / n as q from post')
  await server.must('bulk', [
    ...['author', 'post', 'quotient'].map((args) => ({ type: 'track_table', args })),
    { type: 'track_function', args: 'wait' },
    ...['author', 'post'].map((table) => ({ type: 'set_table_live', args: { table, live: true } })),
    {
      type: 'create_object_relationship',
      args: { table: 'post', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    { type: 'create_select_permission', args: PERMISSION },
  ])
  return server
}
