/**
 * Returns the metadata of the shop, for `replace_metadata`.
 * @param pictures whether the products have pictures in the filestore
 */
export const metadata = (pictures: boolean) => ({
  query_templates: TEMPLATES,
  tables: pictures ? [...TABLES, FILES] : TABLES,
})

/** The statuses of orders that a customer sees. The mistake to find: `late` was added to the shop later, and forgotten here. */
const STATUSES = ['new', 'paid', 'shipped', 'returned']

export const TEMPLATES = [
  {
    name: 'products_below',
    comment: 'Products that cost less than a price, the cheapest first.',
    template: {
      type: 'select',
      args: {
        table: 'product',
        columns: ['id', 'name', 'category', 'price'],
        where: { price: { $lt: { param: 'price' } } },
        order_by: ['+price', '+id'],
        limit: { param: 'limit', default: 10 },
      },
    },
  },
  {
    name: 'my_orders',
    comment: 'The orders of a customer with their items, the newest first.',
    template: {
      type: 'select',
      args: {
        table: 'orders',
        columns: [
          'id',
          'status',
          'due_on',
          { name: 'items', columns: ['quantity', { name: 'product', columns: ['name'] }] },
        ],
        where: { status: { $in: { param: 'statuses', default: ['new', 'paid', 'late', 'shipped'] } } },
        order_by: ['-id'],
        limit: { param: 'limit', default: 20 },
      },
    },
  },
  {
    name: 'late_orders',
    comment: 'Orders that were not shipped when they were due, those that wait longest first.',
    template: {
      type: 'select',
      args: {
        table: 'orders',
        columns: ['id', 'placed_at', 'due_on', { name: 'customer', columns: ['id', 'name', 'email'] }],
        where: { status: 'late', due_on: { $lt: { param: 'before', default: '2026-01-01' } } },
        order_by: ['+due_on', '+id'],
        limit: { param: 'limit', default: 20 },
      },
    },
  },
  {
    name: 'orders_by_month',
    comment: 'The number of orders in each month, for a plot.',
    template: {
      type: 'select',
      args: {
        table: 'orders_by_month',
        columns: ['month', 'orders', 'customers', 'late'],
        where: { month: { $gte: { param: 'from', default: '2024-01-01' } } },
        order_by: ['+month'],
      },
    },
  },
]

const TABLES = [
  {
    table: 'customer',
    array_relationships: [toMany('orders', 'orders', 'customer_id'), toMany('reviews', 'review', 'customer_id')],
    select_permissions: [
      may('customer', { columns: '*', filter: { id: 'X-Service-User-Id' } }),
      may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
    ],
    update_permissions: [
      may('customer', { columns: ['name', 'city', 'country'], filter: { id: 'X-Service-User-Id' } }),
    ],
  },
  {
    table: 'product',
    array_relationships: [toMany('items', 'item', 'product_id'), toMany('reviews', 'review', 'product_id')],
    select_permissions: [
      may('anonymous', {
        columns: ['id', 'name', 'category', 'price', 'picture'],
        filter: { stock: { $gt: 0 } },
        limit: 100,
      }),
      may('customer', {
        columns: ['id', 'sku', 'name', 'category', 'price', 'attributes', 'stock', 'picture'],
        filter: {},
      }),
      may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
    ],
    update_permissions: [may('staff', { columns: ['price', 'stock', 'picture'], filter: {} })],
  },
  {
    table: 'orders',
    object_relationships: [toOne('customer', 'customer_id')],
    array_relationships: [toMany('items', 'item', 'order_id')],
    select_permissions: [
      may('customer', { columns: '*', filter: { customer_id: 'X-Service-User-Id', status: { $in: STATUSES } } }),
      may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
    ],
    insert_permissions: [
      may('customer', { check: {}, columns: ['note'], set: { customer_id: 'X-Service-User-Id', status: 'new' } }),
    ],
    update_permissions: [may('staff', { columns: ['status', 'due_on', 'shipped_at', 'note'], filter: {} })],
  },
  {
    table: 'item',
    object_relationships: [toOne('order', 'order_id'), toOne('product', 'product_id')],
    select_permissions: [
      may('customer', { columns: '*', filter: { order: { customer_id: 'X-Service-User-Id' } } }),
      may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
    ],
  },
  {
    table: 'review',
    object_relationships: [toOne('product', 'product_id'), toOne('customer', 'customer_id')],
    select_permissions: [
      may('anonymous', { columns: ['id', 'product_id', 'stars', 'body'], filter: {}, limit: 100 }),
      may('customer', { columns: '*', filter: {} }),
      may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
    ],
    insert_permissions: [
      may('customer', {
        // Only of products that the customer has bought.
        check: { product: { items: { order: { customer_id: 'X-Service-User-Id' } } } },
        columns: ['product_id', 'stars', 'body'],
        set: { customer_id: 'X-Service-User-Id' },
        allow_upsert: true,
      }),
    ],
    update_permissions: [may('customer', { columns: ['stars', 'body'], filter: { customer_id: 'X-Service-User-Id' } })],
    delete_permissions: [may('customer', { filter: { customer_id: 'X-Service-User-Id' } })],
  },
  {
    table: 'orders_by_month',
    select_permissions: [may('staff', { columns: '*', filter: {}, allow_aggregations: true })],
  },
]

const FILE_COLUMNS = ['file_id', 'content_type', 'file_size', 'created_at']

/** Rules for pictures: who sees a product sees its picture. */
const FILES = {
  table: { schema: 'svc_catalog', name: 'svc_file' },
  object_relationships: [
    {
      name: 'product',
      using: { manual_configuration: { remote_table: 'product', column_mapping: { file_id: 'picture' } } },
    },
  ],
  select_permissions: [
    may('anonymous', { columns: FILE_COLUMNS, filter: { product: { stock: { $gt: 0 } } } }),
    may('customer', { columns: FILE_COLUMNS, filter: { product: {} } }),
    may('staff', { columns: FILE_COLUMNS, filter: { product: {} } }),
  ],
  update_permissions: [may('staff', { columns: [], filter: { product: {} } })],
}

function may(role: string, permission: object) {
  return { role, permission }
}

function toOne(name: string, column: string) {
  return { name, using: { foreign_key_constraint_on: column } }
}

function toMany(name: string, table: string, column: string) {
  return { name, using: { foreign_key_constraint_on: { table, column } } }
}

/** The permissions of the shop that are not on its own tables. */
export const FILE_RULES = [
  ...FILES.select_permissions.map((each) => ({ ...each, type: 'select' })),
  ...FILES.update_permissions.map((each) => ({ ...each, type: 'update' })),
]
