/** The metadata of the shop, for `replace_metadata`. */
export const METADATA = {
  query_templates: [
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
          columns: ['id', 'status', { name: 'items', columns: ['quantity', { name: 'product', columns: ['name'] }] }],
          where: { status: { $in: { param: 'statuses', default: ['new', 'paid', 'shipped'] } } },
          order_by: ['-id'],
          limit: { param: 'limit', default: 20 },
        },
      },
    },
  ],
  tables: [
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
        may('anonymous', { columns: ['id', 'name', 'category', 'price'], filter: { stock: { $gt: 0 } }, limit: 100 }),
        may('customer', { columns: ['id', 'sku', 'name', 'category', 'price', 'attributes', 'stock'], filter: {} }),
        may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
      ],
      update_permissions: [may('staff', { columns: ['price', 'stock'], filter: {} })],
    },
    {
      table: 'orders',
      object_relationships: [toOne('customer', 'customer_id')],
      array_relationships: [toMany('items', 'item', 'order_id')],
      select_permissions: [
        may('customer', { columns: '*', filter: { customer_id: 'X-Service-User-Id' } }),
        may('staff', { columns: '*', filter: {}, allow_aggregations: true }),
      ],
      insert_permissions: [
        may('customer', { check: {}, columns: ['note'], set: { customer_id: 'X-Service-User-Id', status: 'new' } }),
      ],
      update_permissions: [may('staff', { columns: ['status', 'note'], filter: {} })],
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
      update_permissions: [
        may('customer', { columns: ['stars', 'body'], filter: { customer_id: 'X-Service-User-Id' } }),
      ],
      delete_permissions: [may('customer', { filter: { customer_id: 'X-Service-User-Id' } })],
    },
  ],
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
