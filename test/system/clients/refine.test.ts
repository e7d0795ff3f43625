import t from 'tap'
import { loadPackage, packages } from '../packages.js'
import { BUYER, type Role, type Row, shop } from './shop.js'

/** The filters and sorters of a list, and its rows in SQL. */
interface List {
  readonly of: string
  readonly fields: readonly unknown[]
  readonly filters?: readonly Filter[]
  readonly sorters?: readonly (readonly [string, 'asc' | 'desc'])[]
  readonly sql: string
  readonly order?: string
}
type Filter = readonly [field: string, operator: string, value: unknown] | readonly ['or' | 'and', readonly Filter[]]

const home = await packages(t, 'clients')
const { default: dataProvider, GraphQLClient } = loadPackage(home, '@refinedev/hasura')
const { gql } = loadPackage(home, 'graphql-tag')
const here = await shop(t)

const CUSTOMER = ['id', 'name', 'email']
const customers = (where: string) => `select id, name, email from customer where ${where}`
const sorted = (operation: string, column: string, fields: readonly unknown[]) => {
  const type = `[${operation.slice(0, -1)}_order_by!]`
  return { operation, fields, variables: { by: { name: 'order_by', type, value: { [column]: 'asc' } } } }
}
const byCity = (operator: string, value: unknown, where: string): List => ({
  of: 'customer',
  fields: CUSTOMER,
  filters: [['city', operator, value]],
  sql: customers(where),
})

const LISTS: readonly List[] = [
  { of: 'customer', fields: CUSTOMER, sql: customers('true') },
  byCity('eq', 'Lyon', "city = 'Lyon'"),
  byCity('ne', 'Lyon', "city <> 'Lyon'"),
  byCity('in', ['Lyon', 'Pune'], "city in ('Lyon', 'Pune')"),
  byCity('nin', ['Lyon', 'Pune'], "city not in ('Lyon', 'Pune')"),
  byCity('contains', 'YO', "city ilike '%YO%'"),
  byCity('ncontains', 'YO', "city not ilike '%YO%'"),
  byCity('containss', 'yo', "city like '%yo%'"),
  byCity('ncontainss', 'yo', "city not like '%yo%'"),
  byCity('startswith', 'ly', "city ~* '^ly'"),
  byCity('nstartswith', 'ly', "city !~* '^ly'"),
  byCity('endswith', 'ON', "city ~* 'on$'"),
  byCity('nendswith', 'ON', "city !~* 'on$'"),
  byCity('startswiths', 'Ly', "city like 'Ly%'"),
  byCity('nstartswiths', 'Ly', "city not like 'Ly%'"),
  byCity('endswiths', 'on', "city like '%on'"),
  byCity('nendswiths', 'on', "city not like '%on'"),
  byCity('null', false, 'true'),
  byCity('nnull', true, 'true'),
  {
    of: 'product',
    fields: ['id', 'price', 'attributes', 'stock'],
    filters: [
      [
        'or',
        [
          ['price', 'lt', 9.5],
          [
            'and',
            [
              ['price', 'gte', 90],
              ['stock', 'gt', 20],
              ['stock', 'lte', 100],
            ],
          ],
        ],
      ],
    ],
    sorters: [
      ['price', 'desc'],
      ['id', 'asc'],
    ],
    sql: 'select id, price, attributes, stock from product where price < 9.5 or price >= 90 and stock > 20 and stock <= 100',
    order: 'price desc, id',
  },
  {
    of: 'orders',
    fields: [
      'id',
      'placed_at',
      { customer: ['name'] },
      sorted('items', 'product_id', ['quantity', { product: ['sku'] }]),
    ],
    filters: [
      ['customer.country', 'eq', 'Ecuador'],
      ['items.product.category', 'eq', 'bath'],
    ],
    sorters: [
      ['customer.email', 'asc'],
      ['id', 'desc'],
    ],
    sql: `select o.id, placed_at, json_build_object('name', c.name) as customer, i.items from orders o
      join customer c on c.id = customer_id,
      lateral (select json_agg(json_build_object('quantity', quantity, 'product', json_build_object('sku', sku))
                 order by product_id) as items, bool_or(category = 'bath') as bath
               from item join product p on p.id = product_id where order_id = o.id) i
      where country = 'Ecuador' and bath`,
    order: '(select email from orders o join customer c on c.id = o.customer_id where o.id = t.id), id desc',
  },
]

t.test('lists with their totals', async (t) => {
  for (const role of ['admin', 'staff'] as const) {
    const provider = providerOf(role)
    for (const { of, fields, filters, sorters = [['id', 'asc']], sql, order = 'id' } of LISTS) {
      const { data, total } = await provider.getList({
        resource: of,
        filters: filters?.map(filterOf),
        sorters: sorters.map(([field, order]) => ({ field, order })),
        pagination: { currentPage: 2, pageSize: 5 },
        meta: { fields },
      })

      const name = `${role}: ${of} ${JSON.stringify(filters)}`
      t.strictSame(data, await here.rows(`select * from (${sql}) t order by ${order} limit 5 offset 5`), name)
      t.equal(total, await here.value(`select count(*) from (${sql}) t`), `${name}: total ${total}`)
      t.not(data.length, 0, `${name}: rows`)
    }
  }
})

t.test('rows by id and by ids', async (t) => {
  const fields = ['id', 'name', sorted('reviews', 'id', ['stars'])]
  const sql = `select id, name, coalesce((select json_agg(json_build_object('stars', stars) order by id) from review
    where product_id = p.id), '[]') as reviews from product p`
  const one = gql`
    query ($id: Int!) {
      product_by_pk(id: $id) {
        id
        name
        reviews(order_by: { id: asc }) {
          stars
        }
      }
    }
  `
  const several = gql`
    query ($where: product_bool_exp!) {
      product(where: $where, order_by: { id: asc }) {
        id
        category
      }
    }
  `
  for (const role of ['admin', 'staff', 'customer'] as const) {
    const provider = providerOf(role)
    const product = (method: string, params: object) => provider[method]({ resource: 'product', ...params })
    const same = async (answer: { data: unknown }, sql: string, name: string) =>
      t.strictSame([answer.data].flat(), await here.rows(sql), `${role}: ${name}`)

    await same(await product('getOne', { id: 4, meta: { fields } }), `${sql} where id = 4`, 'getOne')
    await same(await product('getOne', { id: 5, meta: { gqlQuery: one } }), `${sql} where id = 5`, 'getOne, a document')
    await same(
      await product('getMany', { ids: [2, 3, 9999], meta: { fields } }),
      `${sql} where id in (2, 3)`,
      'getMany',
    )
    const where = { category: { _in: ['bath', 'garden'] } }
    await same(
      await product('getMany', { ids: [1, 2, 3, 4, 5], meta: { gqlQuery: several, gqlVariables: { where } } }),
      "select id, category from product where id <= 5 and category in ('bath', 'garden') order by id",
      'getMany, a document',
    )
    const found = await product('getOne', { id: 9999, meta: { fields } })
    t.equal(found.data, null, `${role}: a row that is not there`)
  }
  const hidden = await providerOf('customer').getOne({ resource: 'orders', id: 1, meta: { fields: ['id'] } })
  t.equal(hidden.data, null, 'a row that the role may not see')
})

t.test('lists of a document', async (t) => {
  const gqlQuery = gql`
    query ($where: orders_bool_exp, $order_by: [orders_order_by!], $limit: Int, $offset: Int) {
      orders(where: $where, order_by: $order_by, limit: $limit, offset: $offset) {
        id
        items_aggregate {
          aggregate {
            sum {
              quantity
            }
          }
        }
      }
      orders_aggregate(where: $where) {
        aggregate {
          count
        }
      }
    }
  `
  const { data, total } = await providerOf('staff').getList({
    resource: 'orders',
    filters: [{ field: 'status', operator: 'eq', value: 'paid' }],
    sorters: [{ field: 'placed_at', order: 'desc' }],
    pagination: { currentPage: 3, pageSize: 4 },
    meta: { gqlQuery, gqlVariables: { where: { _and: [{ customer: { city: { _eq: 'Pune' } } }] } } },
  })
  const mine = "from orders o where status = 'paid' and (select city from customer where id = customer_id) = 'Pune'"
  const sum = (answer: any) => answer.items_aggregate.aggregate.sum.quantity
  t.strictSame(
    data.map((row: Row) => ({ id: row['id'], quantity: sum(row) })),
    await here.rows(`select id, (select sum(quantity) from item where order_id = o.id) as quantity ${mine}
      order by placed_at desc limit 4 offset 8`),
  )
  t.equal(total, await here.value(`select count(*) ${mine}`))
})

t.test('an admin creates, changes and deletes', async (t) => {
  const provider = providerOf('admin')
  const product = async (method: string, params: object) =>
    (await provider[method]({ resource: 'product', ...params })).data
  const stored = (where: string) =>
    here.rows(`select id, sku, name, category, price, attributes from product where ${where} order by id`)
  const values = { sku: 'SKU-A', name: 'Paper "hat"', category: 'gifts', price: 3.5, attributes: { a: [1, null] } }
  const fields = ['id', ...Object.keys(values)]

  const first = await product('create', { variables: values })
  t.strictSame([first], await stored("sku = 'SKU-A'"), 'create')
  const create = gql`
    mutation ($object: product_insert_input!) {
      insert_product_one(object: $object) {
        id
        sku
      }
    }
  `
  const second = await product('create', { variables: { ...values, sku: 'SKU-B' }, meta: { gqlMutation: create } })
  t.strictSame([second], await here.rows("select id, sku from product where sku = 'SKU-B'"), 'create, a document')
  const several = ['SKU-C', 'SKU-D', 'SKU-E'].map((sku) => ({ ...values, sku }))
  const more = await product('createMany', { variables: several, meta: { fields: fields.slice(1) } })
  t.strictSame(more, await stored("sku in ('SKU-C', 'SKU-D', 'SKU-E')"), 'createMany')

  const updated = await product('update', { id: first.id, variables: { price: 4.25, name: 'Hat' }, meta: { fields } })
  t.strictSame(updated, { ...first, price: 4.25, name: 'Hat' }, 'update')
  t.strictSame([updated], await stored("sku = 'SKU-A'"))
  const raise = gql`
    mutation ($id: Int!, $object: product_set_input!) {
      update_product_by_pk(pk_columns: { id: $id }, _set: $object, _inc: { stock: 3 }) {
        id
        stock
      }
    }
  `
  const raised = await product('update', { id: first.id, variables: { price: 5 }, meta: { gqlMutation: raise } })
  t.strictSame([raised], await here.rows(`select id, stock from product where id = ${first.id}`), 'update, a document')
  t.equal(raised.stock, 3)
  const ids = [first.id, second.id]
  const both = await product('updateMany', {
    ids,
    variables: { attributes: { b: 1 } },
    meta: { fields: ['attributes'] },
  })
  t.strictSame(
    both,
    await here.rows(`select id, attributes from product where id in (${ids.join()}) order by id`),
    'updateMany',
  )

  const gone = await product('deleteOne', { id: first.id, meta: { fields: ['id', 'sku'] } })
  t.strictSame(gone, { id: first.id, sku: 'SKU-A' }, 'deleteOne')
  const remove = gql`
    mutation ($where: product_bool_exp!) {
      delete_product(where: $where) {
        returning {
          sku
        }
      }
    }
  `
  const where = { sku: { _neq: 'SKU-B' } }
  const left = [second.id, ...more.map(({ id }: Row) => id)]
  const some = await product('deleteMany', { ids: left, meta: { gqlMutation: remove, gqlVariables: { where } } })
  t.strictSame(
    some.map(({ sku }: Row) => sku),
    ['SKU-C', 'SKU-D', 'SKU-E'],
    'deleteMany, a document',
  )
  t.strictSame(await product('deleteMany', { ids: left }), [{ id: second.id }], 'deleteMany')
  t.strictSame(await stored("category = 'gifts'"), [])
  t.equal(await product('deleteOne', { id: first.id }), null, 'deleteOne of a row that is not there')
})

t.test('roles change what they may', async (t) => {
  const [staff, buyer] = [providerOf('staff'), providerOf('customer')]
  const paid = await staff.updateMany({ resource: 'orders', ids: [5, 6], variables: { status: 'paid' } })
  t.strictSame(paid.data, [{ id: 5 }, { id: 6 }], 'staff: updateMany')
  t.equal(await here.value("select count(*) from orders where id in (5, 6) and status = 'paid'"), 2)
  const price = { resource: 'product', variables: { price: 12.5 }, meta: { fields: ['id', 'price'] } }
  t.strictSame((await staff.update({ ...price, id: 9 })).data, { id: 9, price: 12.5 }, 'staff: update')
  t.equal(await here.value('select price from product where id = 9'), 12.5)

  const note = { note: 'please ring' }
  const order = await buyer.create({ resource: 'orders', variables: note, meta: { fields: ['id', 'customer_id'] } })
  const mine = `from orders where customer_id = ${BUYER}`
  t.strictSame(
    [order.data],
    await here.rows(`select max(id) as id, ${BUYER} as customer_id ${mine}`),
    'customer: create',
  )
  const foreign = Number(await here.value(`select min(id) from review where customer_id <> ${BUYER}`))
  const review = { resource: 'review', id: foreign, ids: [foreign], variables: { stars: 1 } }
  const before = await here.rows('select * from review order by id')
  t.equal((await buyer.update(review)).data, null, 'customer: update of the row of another')
  t.strictSame((await buyer.updateMany(review)).data, [], 'customer: updateMany of the row of another')
  t.strictSame((await buyer.deleteMany(review)).data, [], 'customer: deleteMany of the row of another')
  t.strictSame(await here.rows('select * from review order by id'), before)
})

t.test('requests of its own', async (t) => {
  const provider = providerOf('staff')
  const where = { type: 'customer_bool_exp', value: { city: { _eq: 'Kyoto' } } }
  const custom = await provider.custom({
    method: 'get',
    meta: { operation: 'customer_aggregate', fields: [{ aggregate: ['count'] }], variables: { where } },
  })
  t.equal(
    custom.data.aggregate.count,
    await here.value("select count(*) from customer where city = 'Kyoto'"),
    'a query',
  )
  const note = await provider.custom({
    method: 'post',
    meta: {
      operation: 'update_orders',
      fields: ['affected_rows'],
      variables: {
        where: { type: 'orders_bool_exp', required: true, value: { id: { _in: [7, 8] } } },
        _set: { type: 'orders_set_input', value: { note: 'fragile' } },
      },
    },
  })
  t.strictSame(note.data, { affected_rows: 2 }, 'a mutation')
  t.equal(await here.value("select count(*) from orders where note = 'fragile'"), 2)
  const gqlQuery = gql`
    query ($id: Int!) {
      orders_by_pk(id: $id) {
        note
      }
    }
  `
  const document = await provider.custom({ meta: { gqlQuery, gqlVariables: { id: 8 } } })
  t.strictSame(document.data, { orders_by_pk: { note: 'fragile' } }, 'a document')
})

t.test('the naming convention graphql-default', async (t) => {
  const namingConvention = 'graphql-default'
  const there = await shop(t, { namingConvention }, here.databaseUrl)
  const staff = providerOf('staff', there, namingConvention)
  const fields = ['id', 'placedAt', 'customerId', { customer: ['name'] }]
  const orders = `select o.id, placed_at as "placedAt", customer_id as "customerId",
    json_build_object('name', name) as customer from orders o join customer c on c.id = customer_id`
  const { data, total } = await staff.getList({
    resource: 'orders',
    filters: [
      { field: 'customer.city', operator: 'contains', value: 'UNE' },
      { field: 'note', operator: 'null', value: true },
      { field: 'customerId', operator: 'gte', value: 100 },
    ],
    sorters: [
      { field: 'customerId', order: 'asc' },
      { field: 'placedAt', order: 'desc' },
    ],
    pagination: { currentPage: 2, pageSize: 6 },
    meta: { fields },
  })
  const where = "where city ilike '%une%' and note is null and customer_id >= 100"
  const page = `${orders} ${where} order by customer_id, placed_at desc limit 6 offset 6`
  t.strictSame(data, await here.rows(page), 'getList')
  t.equal(total, await here.value(`select count(*) from (${orders} ${where}) t`))
  const one = await staff.getOne({ resource: 'orders', id: 77, meta: { fields } })
  t.strictSame([one.data], await here.rows(`${orders} where o.id = 77`), 'getOne')
  const two = await staff.getMany({ resource: 'orders', ids: [78, 79], meta: { fields } })
  t.strictSame(two.data, await here.rows(`${orders} where o.id in (78, 79) order by o.id`), 'getMany')

  const provider = providerOf('admin', there, namingConvention)
  const review = async (method: string, params: object) =>
    (await provider[method]({ resource: 'review', ...params })).data
  const stored = (where: string) =>
    here.rows(`select id, product_id as "productId", customer_id as "customerId", stars from review where ${where}`)
  const meta = { fields: ['id', 'productId', 'customerId', 'stars'] }
  const free = await here.rows(`select p.id as "productId", ${BUYER} as "customerId", 3 as stars from product p
    where not exists (select from review where customer_id = ${BUYER} and product_id = p.id) order by p.id limit 3`)
  const first = await review('create', { variables: free[0], meta })
  t.strictSame([first], await stored(`id = ${first.id}`), 'create')
  const more = await review('createMany', { variables: free.slice(1), meta })
  const ids = more.map(({ id }: Row) => id)
  t.strictSame(more, await stored(`id in (${ids.join()}) order by id`), 'createMany')
  t.strictSame(
    await review('update', { id: first.id, variables: { stars: 1 }, meta }),
    { ...first, stars: 1 },
    'update',
  )
  const both = await review('updateMany', { ids, variables: { stars: 4 }, meta })
  t.strictSame(both, await stored(`id in (${ids.join()}) and stars = 4 order by id`), 'updateMany')
  t.strictSame(await review('deleteOne', { id: first.id, meta }), { ...first, stars: 1 }, 'deleteOne')
  t.strictSame(await review('deleteMany', { ids, meta }), both, 'deleteMany')
  t.strictSame(await stored(`id in (${[first.id, ...ids].join()})`), [])
})

t.test('errors', async (t) => {
  const [admin, buyer] = [providerOf('admin'), providerOf('customer')]
  const failed = async (request: Promise<unknown>, code: string, name: string) => {
    const error = await request.then(
      () => undefined,
      (thrown: { response: any }) => thrown.response,
    )
    t.match(error, { status: 200, errors: [{ message: String, extensions: { code, path: String } }] }, name)
  }
  const variables = { sku: 'SKU-0001', name: 'n', category: 'c', price: 1 }
  await failed(admin.create({ resource: 'product', variables }), 'constraint-violation', 'a unique key')
  const free = { ...variables, sku: 'x', price: 0 }
  await failed(admin.create({ resource: 'product', variables: free }), 'permission-error', 'a check of the table')
  await failed(buyer.create({ resource: 'product', variables }), 'validation-failed', 'a field that the role has not')
  const unbought = await here.value(`select min(id) from product where id not in
    (select product_id from item join orders o on o.id = order_id where customer_id = ${BUYER})`)
  const review = { product_id: unbought, stars: 5 }
  await failed(buyer.create({ resource: 'review', variables: review }), 'permission-error', 'the check of a permission')
  const list = { resource: 'customer', meta: { fields: ['id', 'salary'] } }
  await failed(admin.getList(list), 'validation-failed', 'an unknown column')
})

function filterOf(filter: Filter): object {
  return filter.length === 2
    ? { operator: filter[0], value: filter[1].map(filterOf) }
    : { field: filter[0], operator: filter[1], value: filter[2] }
}

function providerOf(role: Role, { url } = here, namingConvention = 'hasura-default') {
  const client = new GraphQLClient(url, { headers: here.headers(role) })
  return dataProvider(client, { idType: 'Int', namingConvention })
}
