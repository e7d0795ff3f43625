/** What the comments of all tables of the shop begin with. `rowhouse sample remove` knows the tables by them. */
export const MARK = 'Sample shop: '

/** The tables that the shop consists of, with their columns and a condition that only rows meet that somebody added. */
export const TABLES: Readonly<Record<string, { readonly columns: readonly string[]; readonly added?: string }>> = {
  orders_by_month: { columns: ['month', 'orders', 'customers', 'late'] },
  review: {
    columns: ['id', 'product_id', 'customer_id', 'stars', 'body', 'created_at'],
    added: 'id > 8000',
  },
  item: {
    columns: ['order_id', 'product_id', 'quantity', 'unit_price'],
    added: 'order_id > 50000 or product_id > 300',
  },
  orders: {
    columns: ['id', 'customer_id', 'status', 'placed_at', 'due_on', 'shipped_at', 'note'],
    added: 'id > 50000',
  },
  product: {
    columns: ['id', 'sku', 'name', 'category', 'price', 'attributes', 'stock', 'picture'],
    added: 'id > 300',
  },
  customer: {
    columns: ['id', 'name', 'email', 'city', 'country', 'created_at'],
    added: 'id > 2000',
  },
}

/**
 * Orders of each month from January 2024 to December 2025: the shop grows, and sells most before Christmas. Their sum is
 * 50,000.
 */
const ORDERS_BY_MONTH = [
  [1114, 1071, 1305, 1442, 1586, 1547, 1383, 1474, 1782, 1998, 2494, 2821],
  [1849, 1741, 2081, 2259, 2443, 2347, 2069, 2177, 2599, 2881, 3556, 3981],
].flat()

/**
 * The tables of the shop and their rows, which are computed from `generate_series` by multiplications modulo primes, so
 * that they are the same on every machine. The shop's today is the first of January 2026.
 */
export const SCHEMA = `
create table customer (
  id serial primary key,
  name text not null,
  email text not null unique,
  city text not null,
  country text not null,
  created_at timestamptz not null default now()
);
create table product (
  id serial primary key,
  sku text not null unique,
  name text not null,
  category text not null,
  price numeric(10, 2) not null check (price > 0),
  attributes jsonb not null default '{}',
  stock integer not null default 0 check (stock >= 0),
  picture text unique
);
create table orders (
  id serial primary key,
  customer_id integer not null references customer,
  status text not null default 'new' check (status in ('new', 'paid', 'shipped', 'returned', 'late')),
  placed_at timestamptz not null default now(),
  due_on date not null default current_date + 8,
  shipped_at timestamptz,
  note text
);
create index on orders (customer_id);
create table item (
  order_id integer not null references orders,
  product_id integer not null references product,
  quantity integer not null check (quantity > 0),
  unit_price numeric(10, 2) not null,
  primary key (order_id, product_id)
);
create index on item (product_id);
create table review (
  id serial primary key,
  product_id integer not null references product,
  customer_id integer not null references customer,
  stars smallint not null check (stars between 1 and 5),
  body text,
  created_at timestamptz not null default now(),
  unique (product_id, customer_id)
);
create index on review (customer_id);
create view orders_by_month as
select date_trunc('month', placed_at at time zone 'UTC')::date as month, count(*)::integer as orders,
  count(distinct customer_id)::integer as customers, (count(*) filter (where status = 'late'))::integer as late
from orders group by 1;
comment on table customer is '${MARK}people who order';
comment on table product is '${MARK}what it sells';
comment on table orders is '${MARK}orders. Those that were not shipped when they were due are late';
comment on table item is '${MARK}products of an order';
comment on table review is '${MARK}what customers think of products';
comment on view orders_by_month is '${MARK}the number of orders in each month, and how many of them are late';

create function pg_temp.pick(words text[], seed bigint) returns text language sql immutable
  as $$ select words[1 + seed % array_length(words, 1)] $$;

insert into customer (name, email, city, country, created_at)
select first || ' ' || last, lower(first) || '.' || lower(last) || n || '@example.com',
  split_part(place, ',', 1), split_part(place, ',', 2),
  timestamptz '2023-01-01 08:00+00' + n * 7919 % 1000 * interval '1 day'
from generate_series(1::bigint, 2000) n,
  lateral (select
    pg_temp.pick('{Ada,Ben,Chen,Dora,Elif,Femi,Greta,Hugo,Ines,Jonas,Kofi,Lena,Maja,Nils,Olga,Pia,Ravi,Sara,Tom,Yuki}', n * 104729 % 7907) as first,
    pg_temp.pick('{Abel,Brandt,Costa,Diaz,Eriksen,Fischer,Gruber,Haas,Ito,Jansen,Kaya,Lund,Moreau,Novak,Okafor,Patel,Rossi,Silva,Tanaka,Weber}', n * 15485863 % 6491) as last,
    pg_temp.pick(array['Berlin,Germany','Lyon,France','Porto,Portugal','Kyoto,Japan','Lagos,Nigeria','Quito,Ecuador','Bergen,Norway','Pune,India'], n * 32452843 % 5003) as place
  ) as words;

insert into product (sku, name, category, price, attributes, stock, picture)
select 'SKU-' || lpad(n::text, 4, '0'), material || ' ' || thing, category,
  (490 + n * 7907 % 9500)::numeric / 100,
  jsonb_build_object('material', lower(material), 'weight_g', 50 + n * 6451 % 3000), (n * 5003 % 120)::int,
  case when n <= 16 then 'products/' || n || '.png' end
from generate_series(1::bigint, 300) n,
  lateral (select
    pg_temp.pick('{Oak,Steel,Linen,Glass,Clay,Cork,Wool,Brass}', n * 7919 % 6997) as material,
    pg_temp.pick('{kitchen,garden,office,bath,travel}', n * 6007 % 4999) as category,
    pg_temp.pick('{bowl,lamp,tray,mug,box,stool,brush,hook,frame,basket}', n * 4507 % 3989) as thing
  ) as words;

insert into orders (customer_id, status, placed_at, due_on, shipped_at)
select 1 + least(n * 7919 % 2003 % 2000, n * 104729 % 2011 % 2000), status, placed_at,
  (placed_at at time zone 'UTC')::date + 8,
  case when status in ('shipped', 'returned') then placed_at + interval '1 hour' * case
    when is_new then 6 + n % 12
    when n % 31 = 0 then 200 + n % 60
    else 20 + n * 7919 % 97 end end
from (
  select before + k as n, (start + interval '1 second' * ((2 * k - 1) * seconds / (2 * orders))) at time zone 'UTC' as placed_at
  from (
    select orders, sum(orders) over (order by month)::bigint - orders as before, start,
      extract(epoch from start + interval '1 month' - start)::bigint as seconds
    from unnest(array[${ORDERS_BY_MONTH.join()}]::bigint[]) with ordinality as counts(orders, month),
      lateral (select timestamp '2024-01-01' + (month - 1) * interval '1 month' as start) as starts
  ) as months, lateral generate_series(1, orders) k
) as placed,
  lateral (select placed_at >= timestamptz '2025-12-24 00:00+00' as is_new) as age,
  lateral (select case
    when is_new then (array['shipped', 'shipped', 'shipped', 'paid', 'new', 'shipped'])[1 + n % 6]
    when n % 6 = 5 then 'returned'
    when n % 42 = 3 and placed_at >= timestamptz '2025-10-01 00:00+00' then 'late'
    else 'shipped' end as status) as states
order by n;

insert into item (order_id, product_id, quantity, unit_price)
select o, product.id, 1 + (o * 31 + k * 17) % 4, product.price
from generate_series(1::bigint, 50000) o cross join lateral generate_series(1::bigint, 1 + o * 13 % 4) k
join product on product.id = 1 + (least(o * 7907 % 307, o * 15485863 % 311) + k * 37) % 300;

insert into review (product_id, customer_id, stars, body, created_at)
select product_id, customer_id, 1 + greatest(n * 6007 % 5, n * 4507 % 4),
  pg_temp.pick(array['Does what it should.','Lovely.','Smaller than I thought.','Arrived late, but fine.','Would buy again.','Broke after a week.'], n * 104729 % 4001),
  placed_at + interval '9 days'
from (
  select product_id, customer_id, min(placed_at) as placed_at,
    row_number() over (order by min(order_id), product_id) as n
  from item join orders on orders.id = item.order_id
  group by product_id, customer_id
) bought
where n % 11 = 0 and n <= 88000;

drop function pg_temp.pick;
analyze customer; analyze product; analyze orders; analyze item; analyze review`

/** Whether the shop may be loaded: the schema `public` has no table, and the shop was not removed. */
export const MAY_LOAD = `
select to_regclass('svc_catalog.svc_sample_removed') is null
  and not exists (select from information_schema.tables where table_schema = 'public') as yes`
