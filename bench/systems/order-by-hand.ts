import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import pg from 'pg'

/** An order, its items and a mail in one transaction, as an endpoint that is written by hand for nothing else. */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

interface Order {
  readonly customer: string
  readonly items: readonly string[]
  readonly mail: { readonly to: string; readonly from: string; readonly sub: string; readonly text: string }
}

const MAIL = `insert into svc_catalog.svc_outbox (id, kind, mode, "to", "from", sub, text)
  values (gen_random_uuid(), 'email', 'queue', $1, $2, $3, $4) returning id`
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })

createServer((req, res) => {
  const answer = (status: number, body: unknown) =>
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  json(req)
    .then((order) => place(order as Order))
    .then(
      (placed) => answer(200, placed),
      (error: Error) => answer(500, error.message),
    )
}).listen(Number(process.env['PORT']), '127.0.0.1')

async function place({ customer, items, mail }: Order): Promise<unknown> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const order = await client.query<{ id: string }>({
      name: 'order',
      text: 'insert into orders (customer) values ($1) returning id',
      values: [customer],
    })
    const placed = await client.query({
      name: 'items',
      text: 'insert into item (order_id, sku, n) select $1, sku, 1 from unnest($2::text[]) sku returning id',
      values: [order.rows[0]?.id, items],
    })
    const sent = await client.query({ name: 'mail', text: MAIL, values: [mail.to, mail.from, mail.sub, mail.text] })
    await client.query('commit')
    return [order.rows, placed.rows, sent.rows]
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}
