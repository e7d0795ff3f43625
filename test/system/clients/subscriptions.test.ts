import t, { type Test } from 'tap'
import { sqlOn } from '../../kit/database.js'
import { loadPackage, packages } from '../packages.js'
import { BUYER, type Role, shop } from './shop.js'
import { plain } from './wire.js'

const home = await packages(t, 'clients')
const { WebSocket } = loadPackage(home, 'ws')
const { createClient } = loadPackage(home, 'graphql-ws')
const sse = loadPackage(home, 'graphql-sse')
const { SubscriptionClient } = loadPackage(home, 'subscriptions-transport-ws')
const { ApolloClient, InMemoryCache, gql } = loadPackage(home, '@apollo/client')
const { GraphQLWsLink } = loadPackage(home, '@apollo/client/link/subscriptions')
const urql = loadPackage(home, '@urql/core')
const { EventSource } = loadPackage(home, 'eventsource')
const here = await shop(t)
const socketUrl = here.url.replace('http', 'ws')

const DOCUMENT = 'subscription Mine($id: Int!) { orders_by_pk(id: $id) { id status note } }'
const STREAM = 'subscription { orders_stream(batch_size: 2, cursor: {initial_value: {id: 49998}}) { id } }'
const id = Number(await here.value(`select max(id) from orders where customer_id = ${BUYER}`))
const write = (note: string) => sqlOn(here.databaseUrl, `update orders set note = '${note}' where id = ${id}`)
const stored = async () => ({
  orders_by_pk: (await here.rows(`select id, status, note from orders where id = ${id}`))[0],
})

const live = { type: 'set_table_live', args: { table: 'orders', live: true } }
const setLive = await fetch(here.url.replace('graphql', 'query'), {
  method: 'POST',
  headers: here.headers('admin'),
  body: JSON.stringify(live),
})
t.equal(setLive.status, 200)

/** The answers that a client got. */
class Seen {
  readonly all: unknown[] = []
  readonly errors: unknown[] = []
  isComplete = false
  readonly next = (data: unknown): void => void this.all.push(plain(data))
  readonly error = (error: unknown): void => void this.errors.push(error)
  readonly complete = (): void => void (this.isComplete = true)

  async has(t: Test, wanted: unknown, message: string): Promise<void> {
    for (let tries = 0; tries < 600 && JSON.stringify(this.all.at(-1)) !== JSON.stringify(wanted); tries++) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    t.strictSame(this.all.at(-1), wanted, message)
    t.same(this.errors, [])
  }
}

/** Takes a subscription of a client through changes. @param stop ends it */
async function follows(t: Test, seen: Seen, stop: () => void): Promise<void> {
  await write('first')
  await seen.has(t, await stored(), 'an answer')
  await write('second')
  await seen.has(t, await stored(), 'the next')
  stop()
  await write('third')
  await new Promise((resolve) => setTimeout(resolve, 500))
  t.match(seen.all.at(-1), { orders_by_pk: { note: 'second' } }, 'none when it has ended')
}

const socketOf = (role: Role) =>
  createClient({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: () => ({ headers: here.headers(role) }) })
const sink = (seen: Seen) => ({
  error: seen.error,
  complete: seen.complete,
  next: ({ data, errors }: { data: unknown; errors: unknown }) => (errors ? seen.error(errors) : seen.next(data)),
})

t.test('graphql-ws', async (t) => {
  for (const role of ['admin', 'customer'] as const) {
    const client = socketOf(role)
    const seen = new Seen()
    await follows(t, seen, client.subscribe({ query: DOCUMENT, variables: { id } }, sink(seen)))
    const query = new Seen()
    client.subscribe({ query: `{ orders_by_pk(id: ${id}) { id status note } }` }, sink(query))
    await query.has(t, await stored(), 'a query')
    const wrong: unknown = await client
      .iterate({ query: '{ nothing }' })
      .next()
      .catch((error: unknown) => error)
    t.match(wrong, [{ extensions: { code: 'validation-failed' } }])
    await client.dispose()
  }
  const client = socketOf('admin')
  const batches = new Seen()
  const stop = client.subscribe({ query: STREAM }, sink(batches))
  await batches.has(t, { orders_stream: [{ id: 49_999 }, { id: 50_000 }] }, 'a stream')
  stop()
  await client.dispose()
})

t.test('graphql-sse', async (t) => {
  for (const role of ['admin', 'customer'] as const) {
    const client = sse.createClient({ url: here.url, headers: here.headers(role) })
    const seen = new Seen()
    await follows(t, seen, client.subscribe({ query: DOCUMENT, variables: { id } }, sink(seen)))
    const once = new Seen()
    client.subscribe({ query: `{ orders_by_pk(id: ${id}) { id status note } }` }, sink(once))
    await once.has(t, await stored(), 'a query')
    for (let tries = 0; tries < 100 && !once.isComplete; tries++) await new Promise((done) => setTimeout(done, 20))
    client.dispose()
  }
})

t.test('subscriptions-transport-ws, as older clients of Hasura have it', async (t) => {
  const connectionParams = { headers: here.headers('customer') }
  const client = new SubscriptionClient(socketUrl, { connectionParams, reconnect: true }, WebSocket)
  const seen = new Seen()
  const { unsubscribe } = client.request({ query: DOCUMENT, variables: { id } }).subscribe(sink(seen))
  await follows(t, seen, unsubscribe)
  const wrong = new Seen()
  client
    .request({ query: '{ nothing }' })
    .subscribe({ next: ({ errors }: { errors: unknown }) => wrong.next(errors), error: wrong.next })
  for (let tries = 0; tries < 300 && wrong.all.length === 0; tries++) await new Promise((done) => setTimeout(done, 20))
  t.match(JSON.stringify(wrong.all), /validation-failed/)
  client.close()
})

t.test('Apollo Client with graphql-ws', async (t) => {
  const socket = socketOf('customer')
  const client = new ApolloClient({ link: new GraphQLWsLink(socket), cache: new InMemoryCache() })
  const seen = new Seen()
  const subscription = client.subscribe({ query: gql(DOCUMENT), variables: { id } }).subscribe(sink(seen))
  await follows(t, seen, () => subscription.unsubscribe())
  const { data } = await client.query({ query: gql(`query { orders_by_pk(id: ${id}) { id status note } }`) })
  t.strictSame(plain(data), await stored(), 'a query over the socket')
  await socket.dispose()
})

t.test('urql with graphql-ws and graphql-sse', async (t) => {
  const socket = socketOf('customer')
  const events = sse.createClient({ url: here.url, headers: here.headers('customer') })
  for (const via of [socket, events]) {
    const forwardSubscription = ({ query, variables }: { query: string; variables: object }) => ({
      subscribe: (to: object) => ({ unsubscribe: via.subscribe({ query, variables }, to) }),
    })
    const exchanges = [urql.subscriptionExchange({ forwardSubscription })]
    const client = new urql.Client({ url: here.url, exchanges })
    const seen = new Seen()
    const { unsubscribe } = client.subscription(DOCUMENT, { id }).subscribe(sink(seen).next)
    await follows(t, seen, unsubscribe)
  }
  await socket.dispose()
  events.dispose()
})

t.test('EventSource', async (t) => {
  const headers = here.headers('customer')
  const search = new URLSearchParams({ query: DOCUMENT, variables: JSON.stringify({ id }) })
  const fetchWith = (url: string, init: RequestInit) =>
    fetch(url, { ...init, headers: { ...(init.headers as object), ...headers } })
  const source = new EventSource(`${here.url}?${search.toString()}`, { fetch: fetchWith })
  const seen = new Seen()
  source.addEventListener('next', ({ data }: { data: string }) => seen.next(JSON.parse(data).data))
  await follows(t, seen, () => source.close())
})
