import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import type { ClientBase } from 'pg'
import { startDatabase, withClient } from '../database.js'
import { median } from '../statistics.js'
import { byAdmin, startServerChild } from '../systems/server.js'

/**
 * `node build/bench/micro/steps.js`: an order, five items and a mail in one transaction, as a `bulk` with references by HTTP
 * and as SQL that is written by hand, alternately.
 */
const ROUNDS = 15
const PER_ROUND = 60
const ITEMS = 5
const MAIL = { to: 'ann@example.com', from: 'shop@example.com', sub: 'Your order', text: 'Thank you.' }

const TABLES = `
  create table orders (id bigint generated always as identity primary key, customer text not null);
  create table item (id bigint generated always as identity primary key, order_id bigint not null references orders, sku text not null, n int not null);`

const STEPS = JSON.stringify({
  type: 'bulk',
  args: [
    { as: 'order', type: 'insert', args: { table: 'orders', objects: [{ customer: 'Ann' }], returning: ['id'] } },
    {
      type: 'insert',
      args: {
        table: 'item',
        objects: Array.from({ length: ITEMS }, (_, i) => ({
          order_id: { $ref: 'order.returning[0].id' },
          sku: `sku ${i}`,
          n: 1,
        })),
        returning: ['id'],
      },
    },
    { type: 'send_email', args: MAIL },
  ],
})

const database = await startDatabase()
try {
  const url = await database.create('steps')
  await withClient(url, (client) => client.query(TABLES))
  const smtp = { SMTP_PORT: '9', CONNECTIONS: '1' }
  const env = { ROWHOUSE_PLUGINS__NOTIFY__QUEUE__CONCURRENCY: '0' }
  const server = await startServerChild(url, undefined, { smtp, env })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  try {
    for (const table of ['orders', 'item']) await server.ask('track_table', table)
    await withClient(url, async (client) => {
      const byHand = () => orderBySql(client)
      const bySteps = () => post(server.port, agent, STEPS)
      const [hand, steps, ratios]: [number[], number[], number[]] = [[], [], []]
      await each(byHand)
      await each(bySteps)
      for (let round = 0; round < ROUNDS; round++) {
        const pair = [await each(byHand), await each(bySteps)] as const
        hand.push(pair[0])
        steps.push(pair[1])
        ratios.push(pair[1] / pair[0])
      }
      const { rows } = await client.query<{ n: string }>('select count(*) as n from item')
      console.log(`| | ms, median | least | most |\n| --- | --- | --- | --- |`)
      for (const [name, all] of Object.entries({ 'SQL by hand': hand, 'steps of a bulk': steps, ratio: ratios })) {
        console.log(
          `| ${name} | ${[median(all), Math.min(...all), Math.max(...all)].map((ms) => ms.toFixed(2)).join(' | ')} |`,
        )
      }
      console.log(`${rows[0]?.n} items were written`)
    })
  } finally {
    agent.destroy()
    await server.stop()
  }
} finally {
  await database.stop()
}

/** Returns the milliseconds of one run, as the median of a round. */
async function each(run: () => Promise<unknown>): Promise<number> {
  const all: number[] = []
  for (let n = 0; n < PER_ROUND; n++) {
    const start = performance.now()
    await run()
    all.push(performance.now() - start)
  }
  return median(all)
}

async function orderBySql(client: ClientBase): Promise<void> {
  const skus = Array.from({ length: ITEMS }, (_, i) => `sku ${i}`)
  await client.query('begin')
  const insert = 'insert into orders (customer) values ($1) returning id'
  const { rows } = await client.query<{ id: string }>({ name: 'order', text: insert, values: ['Ann'] })
  await client.query({
    name: 'items',
    text: 'insert into item (order_id, sku, n) select $1, sku, 1 from unnest($2::text[]) sku returning id',
    values: [rows[0]?.id, skus],
  })
  await client.query({
    name: 'mail',
    text: `insert into svc_catalog.svc_outbox (id, kind, mode, "to", "from", sub, text) values (gen_random_uuid(), 'email', 'queue', $1, $2, $3, $4)`,
    values: [MAIL.to, MAIL.from, MAIL.sub, MAIL.text],
  })
  await client.query('commit')
}

async function post(port: number, agent: Agent, body: string): Promise<void> {
  const answer = await new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const headers = { ...byAdmin, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const sent = request({ host: '127.0.0.1', port, agent, method: 'POST', path: '/v1/query', headers }, (response) => {
      text(response).then((all) => resolve({ status: response.statusCode, body: all }), reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
  if (answer.status !== 200) throw new Error(answer.body)
}
