import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { startDatabase, withClient } from '../database.js'
import { median } from '../statistics.js'
import { type Endpoint, type Post, startChild } from '../systems/child.js'
import { byAdmin, queryPost, startServerChild } from '../systems/server.js'

/**
 * `node build/bench/micro/steps.js`: an order, five items and a mail in one transaction, alternately as a `bulk` with
 * references, as one without, and by SQL that is written by hand: in a plugin of the same server, and in a server of its own
 * that does nothing else.
 */
const ROUNDS = 15
const PER_ROUND = 60
/** Rounds before those that count. A server compiles its code while it runs, and needs some thousand requests for it. */
const WARM_UP = 40
const SKUS = Array.from({ length: 5 }, (_, i) => `sku ${i}`)
const MAIL = { to: 'ann@example.com', from: 'shop@example.com', sub: 'Your order', text: 'Thank you.' }

const TABLES = `
  create table orders (id bigint generated always as identity primary key, customer text not null);
  create table item (id bigint generated always as identity primary key, order_id bigint not null references orders, sku text not null, n int not null);
  insert into orders (customer) values ('Ann');`

const BY_HAND: Post = { path: '/', headers: {}, body: JSON.stringify({ customer: 'Ann', items: SKUS, mail: MAIL }) }
const IN_PLUGIN: Post = { ...BY_HAND, path: '/v1/order', headers: { 'content-type': 'application/json', ...byAdmin } }
const STEPS = order({ as: 'order' }, { $ref: 'order.returning[0].id' })
const BULK = order({}, 1)

const database = await startDatabase()
try {
  const url = await database.create('steps')
  await withClient(url, (client) => client.query(TABLES))
  const smtp = { SMTP_PORT: '9', CONNECTIONS: '1' }
  const env = { ROWHOUSE_PLUGINS__NOTIFY__QUEUE__CONCURRENCY: '0', PLUGIN: 'order-plugin' }
  const server = await startServerChild(url, undefined, { smtp, env })
  try {
    for (const table of ['orders', 'item']) await server.ask('track_table', table)
    const byHand = await startChild('order-by-hand', { DATABASE_URL: url }, BY_HAND)
    try {
      await compare({
        'SQL in a plugin': [server, IN_PLUGIN],
        bulk: [server, BULK],
        'bulk with references': [server, STEPS],
        'SQL in a server of its own': [byHand, BY_HAND],
      })
    } finally {
      await byHand.stop()
    }
  } finally {
    await server.stop()
  }
} finally {
  await database.stop()
}

function order(first: object, orderId: unknown): Post {
  const objects = SKUS.map((sku) => ({ order_id: orderId, sku, n: 1 }))
  const args = [
    { ...first, type: 'insert', args: { table: 'orders', objects: [{ customer: 'Ann' }], returning: ['id'] } },
    { type: 'insert', args: { table: 'item', objects, returning: ['id'] } },
    { type: 'send_email', args: MAIL },
  ]
  return queryPost({ type: 'bulk', args }, byAdmin)
}

/** Prints the medians of the rounds, and their ratios to the first. */
async function compare(ways: Readonly<Record<string, readonly [Endpoint, Post]>>): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const all = Object.entries(ways).map(([name, [{ port }, post]]) => ({
    name,
    run: () => send(port, agent, post),
    ms: [] as number[],
  }))
  for (let round = 0; round < WARM_UP; round++) for (const { run } of all) await ofRound(run)
  for (let round = 0; round < ROUNDS; round++) for (const { run, ms } of all) ms.push(await ofRound(run))
  agent.destroy()
  const base = all[0]?.ms ?? []
  console.log(
    `| | ms, median | least | most | ratio, median | least | most |\n| --- | --- | --- | --- | --- | --- | --- |`,
  )
  for (const { name, ms } of all) {
    const ratios = ms.map((each, i) => each / (base[i] ?? NaN))
    const cells = [ms, ratios].flatMap((each) => [median(each), Math.min(...each), Math.max(...each)])
    console.log(`| ${name} | ${cells.map((cell) => cell.toFixed(2)).join(' | ')} |`)
  }
}

/** Returns the milliseconds of one request, as the median of a round. */
async function ofRound(run: () => Promise<unknown>): Promise<number> {
  const all: number[] = []
  for (let n = 0; n < PER_ROUND; n++) {
    const start = performance.now()
    await run()
    all.push(performance.now() - start)
  }
  return median(all)
}

/** By `node:http` with a connection that is kept: less than `fetch` needs itself. */
async function send(port: number, agent: Agent, { path, headers, body }: Post): Promise<void> {
  const answer = await new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const length = { 'content-length': Buffer.byteLength(body) }
    const options = { host: '127.0.0.1', port, agent, method: 'POST', path, headers: { ...headers, ...length } }
    const sent = request(options, (response) => {
      text(response).then((all) => resolve({ status: response.statusCode, body: all }), reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
  if (answer.status !== 200) throw new Error(answer.body)
}
