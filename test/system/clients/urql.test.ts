import t from 'tap'
import { loadPackage, packages } from '../packages.js'
import { BUYER, type Role, shop } from './shop.js'
import { hasText, methods, plain, recorded } from './wire.js'

const home = await packages(t, 'clients')
const { cacheExchange, Client, fetchExchange, gql } = loadPackage(home, '@urql/core')
const { persistedExchange } = loadPackage(home, '@urql/exchange-persisted')
const here = await shop(t)

const REVIEWS = gql`
  query Reviews($where: review_bool_exp!, $order: [review_order_by!], $limit: Int = 4) {
    review(where: $where, order_by: $order, limit: $limit) {
      id
      ...Rest
    }
  }
  fragment Rest on review {
    stars
    body
    created_at
    product {
      name
      price
      attributes
    }
  }
`
const reviews = (rest: string) => `
  select r.id, stars, body, created_at,
    json_build_object('name', name, 'price', price, 'attributes', attributes) as product
  from review r join product p on p.id = product_id ${rest}`

t.test('queries and the cache', async (t) => {
  for (const role of ['admin', 'staff', 'customer'] as const) {
    const { client, sent } = clientOf(role)
    const variables = {
      where: { product: { category: { _eq: 'bath' } }, stars: { _lt: 3 } },
      order: [{ product: { price: 'desc' } }, { id: 'asc' }],
    }
    const expected = await here.rows(reviews("where category = 'bath' and stars < 3 order by price desc, r.id limit 4"))
    for (const stale of [false, true]) {
      const { data, error } = await client.query(REVIEWS, variables)
      t.equal(error, undefined)
      t.strictSame(plain(data.review), expected, `${role}: ${stale ? 'from the cache' : 'from the server'}`)
    }
    t.strictSame(methods(sent), ['GET'], `${role}: the second query needs no request`)
    const fresh = await client.query(REVIEWS, { ...variables, limit: 1 }, { requestPolicy: 'network-only' })
    t.strictSame(plain(fresh.data.review), expected.slice(0, 1))
    t.equal(sent.length, 2)
  }
})

t.test('mutations and the cache', async (t) => {
  const { client, sent } = clientOf('customer')
  const mine = { where: { customer_id: { _eq: BUYER } }, order: [{ id: 'desc' }] }
  const stored = () => here.rows(reviews(`where customer_id = ${BUYER} order by r.id desc limit 4`))
  const before = await client.query(REVIEWS, mine)
  t.strictSame(plain(before.data.review), await stored())
  const bought = `select min(product_id) from item join orders o on o.id = order_id where customer_id = ${BUYER}
    and product_id not in (select product_id from review where customer_id = ${BUYER})`
  const upsert = gql`
    mutation Review($object: review_insert_input!) {
      insert_review_one(
        object: $object
        on_conflict: { constraint: review_product_id_customer_id_key, update_columns: [stars, body] }
      ) {
        id
        stars
        body
        customer_id
      }
    }
  `
  const object = { product_id: await here.value(bought), stars: 2, body: 'naïve "quotes"' }
  for (const stars of [2, 5]) {
    const { data, error } = await client.mutation(upsert, { object: { ...object, stars } })
    t.equal(error, undefined)
    const [row] = await here.rows(`select id, stars, body, customer_id from review order by id desc limit 1`)
    t.strictSame(plain(data.insert_review_one), row, `an upsert: ${stars} stars`)
    t.strictSame([row?.['stars'], row?.['customer_id']], [stars, BUYER])
    const again = await client.query(REVIEWS, mine)
    t.strictSame(plain(again.data.review), await stored(), 'the cached list is requested again')
  }
  t.strictSame(methods(sent), ['GET', 'POST', 'GET', 'POST', 'GET'])

  const remove = gql`
    mutation ($where: review_bool_exp!) {
      delete_review(where: $where) {
        affected_rows
        returning {
          id
        }
      }
    }
  `
  const where = { product_id: { _eq: object.product_id } }
  const others = await here.value(`select count(*) from review where product_id = ${object.product_id}`)
  const { data } = await client.mutation(remove, { where })
  t.equal(data.delete_review.affected_rows, 1, 'deletes its own row only')
  t.equal(await here.value(`select count(*) from review where product_id = ${object.product_id}`), Number(others) - 1)
})

t.test('errors', async (t) => {
  const { client } = clientOf('customer')
  const unknown = await client.query('{ review(limit: 1) { id secret } }', {})
  t.match(unknown.error.graphQLErrors, [{ message: /secret/, extensions: { code: 'validation-failed' } }])
  t.equal(unknown.error.networkError, undefined)
  const bad = await client.query(REVIEWS, { where: { id: { _eq: 'x' } } })
  t.match(bad.error.graphQLErrors, [{ extensions: { code: String, path: String } }], 'a value of another type')
  const place = 'mutation ($stars: smallint!) { insert_review_one(object: {product_id: 1, stars: $stars}) { id } }'
  const count = await here.value('select count(*) from review')
  const check = await client.mutation(place, { stars: 9 })
  t.match(check.error.graphQLErrors, [{ extensions: { code: 'permission-error' } }], 'a check')
  t.equal(await here.value('select count(*) from review'), count)

  const headers = { ...here.headers('admin'), 'x-hasura-admin-secret': 'wrong' }
  const stranger = new Client({ url: here.url, fetchOptions: { headers }, exchanges: [fetchExchange] })
  const refused = await stranger.query(REVIEWS, { where: {} })
  t.equal(refused.error.response.status, 401, 'a wrong secret')
})

t.test('persisted documents', async (t) => {
  for (const preferGetForPersistedQueries of [true, false]) {
    const { client, sent } = clientOf(
      'staff',
      persistedExchange({ preferGetForPersistedQueries, enableForMutation: true }),
    )
    const query = `query ${preferGetForPersistedQueries ? 'ByGet' : 'ByPost'}($id: Int!) { orders_by_pk(id: $id) { id status placed_at } }`
    for (const id of [1, 2]) {
      const { data, error } = await client.query(query, { id })
      t.equal(error, undefined)
      t.strictSame(
        [plain(data.orders_by_pk)],
        await here.rows(`select id, status, placed_at from orders where id = ${id}`),
      )
    }
    t.strictSame(sent.map(hasText), [false, true, false], 'by its hash, with its text, by its hash')
    const note = preferGetForPersistedQueries ? 'a' : 'b'
    const change = `mutation ($id: Int!) { update_orders_by_pk(pk_columns: {id: $id}, _set: {note: "${note}"}) { note } }`
    for (const id of [1, 2]) {
      const { data } = await client.mutation(change, { id })
      t.strictSame([plain(data.update_orders_by_pk)], await here.rows(`select note from orders where id = ${id}`))
    }
    t.strictSame(methods(sent.slice(3)), ['POST', 'POST', 'POST'], 'mutations are never sent by GET')
    t.equal(await here.value(`select count(*) from orders where note = '${note}'`), 2)
  }
})

/** A client of a role, and what it sends. */
function clientOf(role: Role, ...more: readonly unknown[]) {
  const { fetch, sent } = recorded()
  const fetchOptions = { headers: here.headers(role) }
  return {
    client: new Client({ url: here.url, fetch, fetchOptions, exchanges: [cacheExchange, ...more, fetchExchange] }),
    sent,
  }
}
