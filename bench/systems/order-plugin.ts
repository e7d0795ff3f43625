import { callOf, definePlugin, readJson } from 'rowhouse'
import { type Order, placeOrder } from './order-sql.js'

/** The same order as an endpoint in a plugin: by the same statements, with what the server does for every request. */
export default definePlugin({
  name: 'own',
  api: '^1',
  needs: ['data'],
  setup(host) {
    const data = host.use('data')
    host.route('post', '/v1/order', async (exchange) => {
      const order = (await readJson(exchange)) as unknown as Order
      const placed = await data.transaction(callOf(exchange), ({ transaction }) =>
        placeOrder(order, (text, values) => data.query(text, values, transaction)),
      )
      return { kind: 'text', text: JSON.stringify(placed) }
    })
  },
})
