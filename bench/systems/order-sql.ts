/** The body of a request for an order. */
export interface Order {
  readonly customer: string
  readonly items: readonly string[]
  readonly mail: { readonly to: string; readonly from: string; readonly sub: string; readonly text: string }
}

/** Runs a statement in the transaction of the order. @returns its rows */
type Query = (text: string, values: readonly unknown[]) => Promise<readonly { readonly id: string }[]>

/** Stores an order, its items and a mail by statements that are written by hand. */
export async function placeOrder({ customer, items, mail }: Order, query: Query): Promise<unknown> {
  const order = await query('insert into orders (customer) values ($1) returning id', [customer])
  const placed = await query(
    'insert into item (order_id, sku, n) select $1, sku, 1 from unnest($2::text[]) sku returning id',
    [order[0]?.id, items],
  )
  const sent = await query(
    `insert into svc_catalog.svc_outbox (id, kind, mode, "to", "from", sub, text)
      values (gen_random_uuid(), 'email', 'queue', $1, $2, $3, $4) returning id`,
    [mail.to, mail.from, mail.sub, mail.text],
  )
  return [order, placed, sent]
}
