import { createHash } from 'node:crypto'
import t from 'tap'
import { loadPackage, packages } from '../packages.js'
import { BUYER, type Role, type Row, shop } from './shop.js'
import { hasText, methods, plain, recorded } from './wire.js'

const home = await packages(t, 'clients')
const { ApolloClient, CombinedGraphQLErrors, gql, HttpLink, InMemoryCache, ServerError } = loadPackage(
  home,
  '@apollo/client',
)
const { BatchHttpLink } = loadPackage(home, '@apollo/client/link/batch-http')
const { PersistedQueryLink } = loadPackage(home, '@apollo/client/link/persisted-queries')
const here = await shop(t)

const ORDERS = gql`
  query Orders($customer: Int!, $where: orders_bool_exp!, $items: Boolean!) {
    orders(where: { _and: [{ customer_id: { _eq: $customer } }, $where] }, order_by: { id: desc }, limit: 5) {
      ...Order
      items(order_by: { product_id: asc }) @include(if: $items) {
        quantity
        product {
          ...Product
        }
      }
    }
    best: product(order_by: [{ price: desc }, { id: asc }], limit: 1) {
      ...Product
    }
  }
  fragment Order on orders {
    id
    status
    placed_at
    buyer: customer {
      id
      name
    }
  }
  fragment Product on product {
    id
    price
    attributes
  }
`
const PRODUCT = "json_build_object('id', p.id, 'price', price, 'attributes', attributes)"
const ITEMS = `(select json_agg(json_build_object('quantity', quantity, 'product', ${PRODUCT}) order by product_id)
  from item join product p on p.id = product_id where order_id = o.id) as items`
const ordersOf = (customer: number, items: boolean) => `
  select o.id, status, placed_at, json_build_object('id', c.id, 'name', name) as buyer${items ? `, ${ITEMS}` : ''}
  from orders o join customer c on c.id = customer_id
  where customer_id = ${customer} and status in ('paid', 'shipped') order by o.id desc limit 5`

t.test('queries with variables, fragments and directives', async (t) => {
  for (const role of ['admin', 'staff', 'customer'] as const) {
    const { client, sent } = clientOf(role)
    for (const items of [false, true]) {
      const variables = { customer: BUYER, where: { status: { _in: ['paid', 'shipped'] } }, items }
      const { data } = await client.query({ query: ORDERS, variables })
      t.strictSame(plain(data.orders), await here.rows(ordersOf(BUYER, items)), `${role}: orders, items: ${items}`)
      const best = 'select id, price, attributes from product order by price desc, id limit 1'
      t.strictSame(plain(data.best), await here.rows(best), `${role}: the other field`)
    }
    t.equal(sent.length, 2)
    t.ok(client.cache.extract()[`customer:${BUYER}`], `${role}: by type and id`)
  }
  const other = { customer: 1, where: { status: { _in: ['paid', 'shipped'] } }, items: true }
  const { data } = await clientOf('customer').client.query({ query: ORDERS, variables: other })
  t.strictSame(data.orders, [], 'orders of another customer')
})

t.test('aggregates as admin', async (t) => {
  const { client } = clientOf('admin')
  const query = gql`
    query ($category: String!) {
      product_aggregate(where: { category: { _eq: $category } }) {
        aggregate {
          count
          categories: count(columns: [category], distinct: true)
          avg {
            price
          }
          max {
            name
            stock
          }
        }
        nodes {
          id
        }
      }
    }
  `
  const { data } = await client.query({ query, variables: { category: 'garden' } })
  const { aggregate, nodes } = plain(data.product_aggregate)
  const [expected] = await here.rows(`
    select count(*), count(distinct category) as categories, json_build_object('price', avg(price)) as avg,
      json_build_object('name', max(name), 'stock', max(stock)) as max from product where category = 'garden'`)
  t.strictSame(aggregate, expected)
  t.strictSame(nodes.toSorted(byId), await here.rows("select id from product where category = 'garden' order by id"))
})

t.test('a mutation changes the rows of the cache', async (t) => {
  const { client, sent } = clientOf('staff')
  const query = gql`
    query ($id: Int!) {
      product_by_pk(id: $id) {
        id
        name
        stock
      }
    }
  `
  const mutation = gql`
    mutation ($id: Int!, $by: Int!) {
      update_product_by_pk(pk_columns: { id: $id }, _inc: { stock: $by }) {
        id
        stock
      }
    }
  `
  await client.query({ query, variables: { id: 12 } })
  const watched = client.watchQuery({ query, variables: { id: 12 } })
  const seen: unknown[] = []
  const stop = watched.subscribe(({ data }: { data?: Row }) => seen.push(plain(data?.['product_by_pk'])))
  const [before] = await here.rows('select id, name, stock from product where id = 12')
  const { data } = await client.mutate({ mutation, variables: { id: 12, by: 3 } })
  const [after] = await here.rows('select id, name, stock from product where id = 12')
  await new Promise((resolve) => setImmediate(resolve))
  stop.unsubscribe()

  t.strictSame(plain(data.update_product_by_pk), { id: 12, stock: Number(before?.['stock']) + 3 })
  t.strictSame(seen.filter(Boolean), [before, after], 'the watched query sees it')
  t.equal(sent.length, 2, 'without another request')
})

t.test('mutations with variables', async (t) => {
  const { client } = clientOf('admin')
  const insert = gql`
    mutation ($objects: [orders_insert_input!]!) {
      insert_orders(objects: $objects) {
        affected_rows
        returning {
          id
          note
          items(order_by: { product_id: asc }) {
            product_id
            quantity
          }
        }
      }
    }
  `
  const item = (product_id: number) => ({ product_id, quantity: 2, unit_price: 1.5 })
  const objects = [
    { customer_id: 1, note: 'a "gift"', items: { data: [item(1), item(2)] } },
    { customer_id: 2, note: null, items: { data: [item(3)] } },
  ]
  const { data } = await client.mutate({ mutation: insert, variables: { objects } })
  t.equal(data.insert_orders.affected_rows, 5)
  const stored = await here.rows(`select id, note, (select json_agg(json_build_object('product_id', product_id,
      'quantity', quantity) order by product_id) from item where order_id = o.id) as items
    from orders o where id > 50000 order by id`)
  t.strictSame(plain(data.insert_orders.returning), stored, 'rows with related rows')

  const upsert = gql`
    mutation ($object: product_insert_input!, $update: [product_update_column!]!) {
      insert_product_one(object: $object, on_conflict: { constraint: product_sku_key, update_columns: $update }) {
        id
        name
        price
      }
    }
  `
  const object = { sku: 'SKU-0010', name: 'New name', category: 'none', price: 7.25 }
  const upserted = await client.mutate({ mutation: upsert, variables: { object, update: ['price'] } })
  const [row] = await here.rows("select id, name, price from product where sku = 'SKU-0010'")
  t.strictSame(plain(upserted.data.insert_product_one), row, 'an upsert')
  t.equal(row?.['price'], 7.25)

  const several = gql`
    mutation ($ids: [Int!]!) {
      update_orders(where: { id: { _in: $ids } }, _set: { status: "returned" }) {
        affected_rows
      }
      delete_item(where: { order_id: { _in: $ids } }) {
        affected_rows
      }
    }
  `
  const ids = stored.map(({ id }) => id)
  const both = await client.mutate({ mutation: several, variables: { ids } })
  t.strictSame(plain(both.data), { update_orders: { affected_rows: 2 }, delete_item: { affected_rows: 3 } })
  t.equal(await here.value(`select count(*) from item where order_id in (${ids.join()})`), 0)

  const buyer = clientOf('customer').client
  const order = gql`
    mutation ($note: String) {
      insert_orders_one(object: { note: $note }) {
        id
        customer_id
        status
      }
    }
  `
  const placed = await buyer.mutate({ mutation: order, variables: { note: 'ring' } })
  t.strictSame(
    [plain(placed.data.insert_orders_one)],
    await here.rows("select id, customer_id, status from orders where note = 'ring'"),
    'an order of a customer',
  )
  t.equal(placed.data.insert_orders_one.customer_id, BUYER)
})

t.test('errors', async (t) => {
  const { client } = clientOf('admin')
  const errorOf = (request: Promise<unknown>) =>
    request.then(
      () => undefined,
      (error: unknown) => error,
    ) as Promise<any>
  const unknown = gql`
    {
      product(limit: 1) {
        colour
      }
    }
  `
  const invalid = await errorOf(client.query({ query: unknown }))
  t.ok(CombinedGraphQLErrors.is(invalid), 'an unknown field')
  t.match(invalid.errors, [{ message: /colour/, extensions: { code: 'validation-failed', path: String } }])
  const all = await client.query({ query: unknown, errorPolicy: 'all' })
  t.equal(all.data, undefined)
  t.match(all.error.errors, [{ message: /colour/ }], 'as part of the answer')

  const two = gql`
    mutation ($sku: String!) {
      update_product_by_pk(pk_columns: { id: 1 }, _set: { stock: 77 }) {
        id
      }
      insert_product_one(object: { sku: $sku, name: "n", category: "c", price: 1 }) {
        id
      }
    }
  `
  const taken = await errorOf(client.mutate({ mutation: two, variables: { sku: 'SKU-0002' } }))
  t.match(taken.errors, [{ extensions: { code: 'constraint-violation' } }], 'a unique key')
  t.not(await here.value('select stock from product where id = 1'), 77, 'and the field before it changed nothing')

  const secret = { ...here.headers('admin'), 'x-hasura-admin-secret': 'wrong' }
  const stranger = new ApolloClient({
    cache: new InMemoryCache(),
    link: new HttpLink({ uri: here.url, headers: secret }),
  })
  const refused = await errorOf(stranger.query({ query: ORDERS, variables: { customer: 1, where: {}, items: false } }))
  t.ok(ServerError.is(refused), 'a wrong secret')
  t.match(refused, { statusCode: 401, bodyText: /access-denied/ })
})

t.test('queries by GET', async (t) => {
  const { client, sent } = clientOf('staff', (options) => new HttpLink({ ...options, useGETForQueries: true }))
  const query = gql`
    query ($name: String!) {
      customer(where: { name: { _eq: $name } }, order_by: { id: asc }) {
        id
        email
      }
    }
  `
  const { data } = await client.query({ query, variables: { name: 'Olga Costa' } })
  t.strictSame(
    plain(data.customer),
    await here.rows("select id, email from customer where name = 'Olga Costa' order by id"),
  )
  t.strictSame(methods(sent), ['GET'])
})

t.test('persisted queries', async (t) => {
  for (const useGETForHashedQueries of [false, true]) {
    const { client, sent } = clientOf('customer', (options) =>
      new PersistedQueryLink({ sha256, useGETForHashedQueries }).concat(new HttpLink(options)),
    )
    const query = gql`
      query ${useGETForHashedQueries ? 'ByGet' : 'ByPost'}($limit: Int!) {
        review(order_by: { id: asc }, limit: $limit) {
          id
          stars
          created_at
        }
      }
    `
    for (const limit of [2, 3]) {
      const { data } = await client.query({ query, variables: { limit } })
      const rows = await here.rows(`select id, stars, created_at from review order by id limit ${limit}`)
      t.strictSame(plain(data.review), rows, `GET: ${useGETForHashedQueries}: ${limit} rows`)
    }
    const hashed = useGETForHashedQueries ? 'GET' : 'POST'
    t.strictSame(methods(sent), [hashed, 'POST', hashed], 'by its hash, with its text, by its hash')
    t.strictSame(sent.map(hasText), [false, true, false])
  }
})

t.test('batches', async (t) => {
  const batched = clientOf('staff', (options) => new BatchHttpLink({ ...options, batchInterval: 5 }))
  const query = gql`
    query ($id: Int!) {
      orders_by_pk(id: $id) {
        id
        placed_at
      }
    }
  `
  const ask = (id: unknown) => batched.client.query({ query, variables: { id }, errorPolicy: 'all' })
  const [first, second, wrong] = await Promise.all([ask(1), ask(2), ask('x')])
  const rows = await here.rows('select id, placed_at from orders where id in (1, 2) order by id')
  t.strictSame(
    [first, second].map(({ data }) => plain(data.orders_by_pk)),
    rows,
  )
  t.match(wrong.error.errors, [{ extensions: { code: String } }], 'an error of one is no error of the others')
  t.equal(batched.sent.length, 1, 'one request')
  t.equal(batched.sent[0]?.body.length, 3)
})

type Link = (options: { uri: string; headers: Record<string, string>; fetch: typeof fetch }) => unknown

/** A client of a role, and what it sends. */
function clientOf(role: Role, link: Link = (options) => new HttpLink(options)) {
  const { fetch, sent } = recorded()
  const of = link({ uri: here.url, headers: here.headers(role), fetch })
  return { client: new ApolloClient({ cache: new InMemoryCache(), link: of }), sent }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const byId = (a: { id: number }, b: { id: number }): number => a.id - b.id
