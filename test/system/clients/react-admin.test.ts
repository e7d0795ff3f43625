import t from 'tap'
import { loadPackage, packages } from '../packages.js'
import { BUYER, type Role, type Row, shop } from './shop.js'

/** A list as a page of react-admin requests it, and the same list in SQL. */
interface List {
  readonly of: string
  readonly filter?: Row
  /** The names of columns and their directions. */
  readonly sort?: readonly [string, string]
  /** The number of the page and its length. */
  readonly page?: readonly [number, number]
  /** The rows of the filter. */
  readonly sql: string
  readonly order?: string
}

const home = await packages(t, 'clients')
const { default: client } = loadPackage(home, 'ra-data-hasura')
const here = await shop(t)

t.test('lists with their totals', async (t) => {
  for (const role of ['admin', 'staff'] as const) {
    const provider = await providerOf(role)
    for (const { of, filter = {}, sort = ['id', 'ASC'], page = [1, 1000], sql, order = 'id' } of LISTS) {
      const { data, total } = await provider.getList(of, {
        filter,
        sort: { field: sort[0], order: sort[1] },
        pagination: { page: page[0], perPage: page[1] },
      })

      const paged = `${sql} order by ${order} limit ${page[1]} offset ${(page[0] - 1) * page[1]}`
      const name = `${role}: ${of} ${JSON.stringify(filter)} ${sort.join(' ')}`
      t.strictSame(data, await here.rows(paged), name)
      t.equal(total, await here.value(`select count(*) from (${sql}) t`), `${name}: total ${total}`)
      t.not(total, 0, `${name}: rows`)
    }
  }
})

const LISTS: readonly List[] = [
  { of: 'customer', page: [3, 10], sql: 'select * from customer' },
  {
    of: 'customer',
    filter: { city: 'lyo' },
    sort: ['email', 'DESC'],
    page: [1, 5],
    sql: "select * from customer where city ilike '%lyo%'",
    order: 'email desc',
  },
  { of: 'customer', filter: { 'name@_like': 'Ada A' }, sql: "select * from customer where name like '%Ada A%'" },
  {
    of: 'customer',
    filter: { 'name@_ilike,email@_ilike': 'weber1' },
    sql: "select * from customer where name ilike '%weber1%' or email ilike '%weber1%'",
  },
  {
    of: 'customer',
    filter: { 'reviews@{}': true },
    page: [1, 20],
    sql: 'select * from customer c where exists (select from review where customer_id = c.id)',
  },
  {
    of: 'product',
    filter: { 'stock@_gt': 60, category: 'garden' },
    sort: ['category,price,id', 'ASC,DESC,ASC'],
    sql: "select * from product where stock > 60 and category ilike '%garden%'",
    order: 'category, price desc, id',
  },
  { of: 'product', filter: { ids: [1, 5, 9] }, sql: 'select * from product where id in (1, 5, 9)' },
  {
    of: 'product',
    filter: { 'price@_gte': 20.5, 'price@_lte': 30 },
    sql: 'select * from product where price between 20.5 and 30',
  },
  {
    of: 'product',
    filter: { attributes: '{"material":"oak"}' },
    sql: `select * from product where attributes @> '{"material":"oak"}'`,
  },
  {
    of: 'product',
    filter: { 'attributes@_has_keys_any': ['material', 'colour'] },
    page: [2, 10],
    sql: "select * from product where attributes ?| '{material,colour}'",
  },
  {
    of: 'product',
    filter: { distinct_on: 'category' },
    sort: ['category,id', 'asc,asc'],
    sql: 'select distinct on (category) * from product',
    order: 'category, id',
  },
  {
    of: 'orders',
    filter: { status: ['new', 'returned'] },
    page: [4, 25],
    sql: "select * from orders where status in ('new', 'returned')",
  },
  {
    of: 'orders',
    filter: { 'placed_at@_gte': '2024-03-01', 'placed_at@_lt': '2024-03-02T00:00:00Z' },
    sort: ['note@nulls_first,placed_at', 'DESC,ASC'],
    sql: "select * from orders where placed_at >= '2024-03-01Z' and placed_at < '2024-03-02Z'",
    order: 'note desc nulls first, placed_at',
  },
  {
    of: 'orders',
    filter: { 'note@_is_null': true, 'id@_in': [3, 4] },
    sql: 'select * from orders where note is null and id in (3, 4)',
  },
  {
    of: 'orders',
    filter: { 'customer#city@_eq': 'Lyon' },
    page: [2, 7],
    sort: ['customer.email,id', 'asc,desc'],
    sql: "select * from orders o where exists (select from customer where id = o.customer_id and city = 'Lyon')",
    order: '(select email from customer where id = customer_id), id desc',
  },
  {
    of: 'orders',
    filter: { 'items#product#id@_eq': 7 },
    page: [1, 30],
    sql: 'select * from orders o where exists (select from item where order_id = o.id and product_id = 7)',
  },
  {
    of: 'review',
    filter: {
      product: { format: 'hasura-raw-query', value: { category: { _eq: 'bath' }, stock: { _lt: 9 } } },
      stars: [1, 5],
    },
    sql: "select * from review r where stars in (1, 5) and exists (select from product where id = r.product_id and category = 'bath' and stock < 9)",
  },
]

t.test('rows by id, by ids and by reference', async (t) => {
  const page = { pagination: { page: 1, perPage: 10 }, sort: { field: 'id', order: 'DESC' } }
  for (const role of ['admin', 'staff', 'customer'] as const) {
    const provider = await providerOf(role)
    const mine = role === 'customer' ? `customer_id = ${BUYER}` : 'true'
    const same = async (method: string, of: string, params: object, sql: string, total?: string) => {
      const answer = await provider[method](of, params)
      t.strictSame(answer.data, await here.rows(sql), `${role}: ${method} ${of}`)
      if (total !== undefined && role !== 'customer') t.equal(answer.total, await here.value(total))
    }

    const { data } = await provider.getOne('product', { id: 4 })
    t.strictSame([data], await here.rows('select * from product where id = 4'), `${role}: getOne`)
    t.strictSame(await provider.getMany('product', { ids: [] }), { data: [] }, `${role}: getMany of none`)
    await same('getMany', 'product', { ids: [7, 300, 9999] }, 'select * from product where id in (7, 300, 9999)')
    await same(
      'getMany',
      'orders',
      { ids: [1, 2, 49515] },
      `select * from orders where id in (1, 2, 49515) and ${mine}`,
    )
    await same(
      'getManyReference',
      'orders',
      { target: 'customer_id', id: BUYER, ...page },
      `select * from orders where customer_id = ${BUYER} order by id desc limit 10`,
      `select count(*) from orders where customer_id = ${BUYER}`,
    )
    await same(
      'getManyReference',
      'orders',
      { target: 'items.product.category', id: 'bath', filter: { status: 'paid' }, ...page },
      `select * from orders o where status = 'paid' and ${mine} and exists (select from item join product p on p.id = product_id
         where order_id = o.id and category = 'bath') order by id desc limit 10`,
      `select count(*) from orders o where status = 'paid' and exists (select from item join product p on p.id = product_id
         where order_id = o.id and category = 'bath')`,
    )
  }
  const anonymous = await providerOf('anonymous')
  const { data } = await anonymous.getList('product', { ...page, pagination: { page: 1, perPage: 1000 } })
  const sql = 'select id, name, category, price, picture from product where stock > 0 order by id desc limit 100'
  t.strictSame(data, await here.rows(sql), 'anonymous: the columns and rows of its permission')
})

t.test('an admin creates, changes and deletes', async (t) => {
  const provider = await providerOf('admin')
  const stored = (id: number) => here.rows(`select * from product where id = ${id}`)
  const values = { sku: 'SKU-X', name: 'Paper "hat"', category: 'travel', price: 3.5, attributes: { a: [1, null] } }

  const { data: created } = await provider.create('product', { data: { ...values, nothing: 'of the form' } })
  t.strictSame([created], await stored(created.id), 'create')
  t.match(created, values)
  const changes = { ...created, price: 4.25, stock: 2, attributes: { b: 'c' } }
  const { data: updated } = await provider.update('product', { id: created.id, data: changes, previousData: created })
  t.strictSame([updated], await stored(created.id), 'update')
  t.strictSame(updated, changes)
  const ids = [created.id, 1, 2]
  const many = await provider.updateMany('product', { ids, data: { category: 'gifts' } })
  t.strictSame(many.data.toSorted(), ids.toSorted(), 'updateMany')
  t.equal(await here.value("select count(*) from product where category = 'gifts'"), 3)
  const { data: deleted } = await provider.delete('product', { id: created.id, previousData: updated })
  t.strictSame(deleted, { ...updated, category: 'gifts' }, 'delete')
  t.strictSame(await stored(created.id), [])
  const more = await Promise.all(
    ['SKU-Y', 'SKU-Z'].map((sku) => provider.create('product', { data: { ...values, sku } })),
  )
  const both = more.map(({ data }) => data.id)
  const gone = await provider.deleteMany('product', { ids: both })
  t.strictSame(gone.data.toSorted(), both.toSorted(), 'deleteMany')
  t.equal(await here.value("select count(*) from product where sku in ('SKU-Y', 'SKU-Z')"), 0)
})

t.test('roles change what they may', async (t) => {
  const staff = await providerOf('staff')
  const before = (await staff.getOne('product', { id: 11 })).data
  // A form sends every column; the provider leaves out those that the role may not change.
  const { data: after } = await staff.update('product', { id: 11, data: { ...before, sku: 'x', stock: 5 } })
  t.strictSame(after, { ...before, stock: 5 }, 'staff: update')
  t.strictSame([after], await here.rows('select * from product where id = 11'))
  const paid = await staff.updateMany('orders', { ids: [5, 6], data: { status: 'paid' } })
  t.strictSame(paid.data, [5, 6], 'staff: updateMany')
  t.equal(await here.value("select count(*) from orders where id in (5, 6) and status = 'paid'"), 2)
  const unchanged = await staff.update('product', { id: 11, data: after, previousData: after })
  t.equal(unchanged.data, null, 'staff: an update without changes')

  const buyer = await providerOf('customer')
  const { data: order } = await buyer.create('orders', { data: { note: 'please ring' } })
  t.strictSame([order], await here.rows(`select * from orders where id = ${order.id}`), 'customer: create')
  t.match(order, { customer_id: BUYER, status: 'new', note: 'please ring' })
  const bought = await here.value(
    `select min(product_id) from item join orders o on o.id = order_id where customer_id = ${BUYER}
       and product_id not in (select product_id from review where customer_id = ${BUYER})`,
  )
  const { data: review } = await buyer.create('review', { data: { product_id: bought, stars: 4 } })
  const others = await here.value(`select min(id) from review where customer_id <> ${BUYER}`)
  const some = await buyer.updateMany('review', { ids: [review.id, others], data: { stars: 5 } })
  t.strictSame(some.data, [review.id], 'customer: updateMany changes its own rows')
  t.equal(await here.value(`select stars from review where id = ${review.id}`), 5)
  const gone = await buyer.deleteMany('review', { ids: [review.id, others] })
  t.strictSame(gone.data, [review.id], 'customer: deleteMany deletes its own rows')
  t.equal(await here.value(`select count(*) from review where id in (${review.id}, ${others})`), 1)
})

t.test('errors', async (t) => {
  const [admin, buyer, anonymous] = await Promise.all([
    providerOf('admin'),
    providerOf('customer'),
    providerOf('anonymous'),
  ])
  const taken = { sku: 'SKU-0001', name: 'n', category: 'c', price: 1 }
  await t.rejects(admin.create('product', { data: taken }), { message: /unique|Uniqueness/ }, 'a unique key')
  await t.rejects(admin.create('product', { data: { ...taken, sku: 's', price: 'x' } }), { message: /price|numeric/ })
  const bought = here.value(`select min(id) from product where id not in
    (select product_id from item join orders o on o.id = order_id where customer_id = ${BUYER})`)
  const review = { product_id: await bought, stars: 5 }
  await t.rejects(buyer.create('review', { data: review }), { message: /check/ }, 'the check of a permission')
  await t.rejects(anonymous.create('review', { data: review }), { message: /No query or mutation/ }, 'no such field')
  await t.rejects(anonymous.getList('customer', {}), { message: /Unknown resource/ }, 'no such type')
})

/** The data provider of a role. Only roles that may aggregate learn how many rows there are. */
function providerOf(role: Role) {
  const counts = role === 'admin' || role === 'staff'
  return client(
    { clientOptions: { uri: here.url, headers: here.headers(role) } },
    counts ? {} : { aggregateFieldName: () => 'NO_COUNT' },
  )
}
