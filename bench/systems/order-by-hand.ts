import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import pg from 'pg'
import { type Order, placeOrder } from './order-sql.js'

/**
 * An order, its items and a mail in one transaction, as an endpoint that is written by hand for nothing else: without
 * authentication, checks, limits, metrics or a log.
 */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })

createServer((req, res) => {
  const answer = (status: number, body: unknown) =>
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  json(req)
    .then((order) => inTransaction(order as Order))
    .then(
      (placed) => answer(200, placed),
      (error: Error) => answer(500, error.message),
    )
}).listen(Number(process.env['PORT']), '127.0.0.1')

async function inTransaction(order: Order): Promise<unknown> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const placed = await placeOrder(order, async (text, values) => {
      return (await client.query<{ id: string }>({ name: text.slice(0, 30), text, values: [...values] })).rows
    })
    await client.query('commit')
    return placed
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}
