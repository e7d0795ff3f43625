import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What groups and aggregates promise. */
const PROMISES = {
  'group.columns': 'a row for each combination of the columns of group_by, with null as a value',
  'group.none': 'without group_by there is one row, also of no rows',
  'group.key': 'the key of an aggregate is `as`, by default <function>_<column>, and count for all rows',
  'group.where': 'where selects the rows before they are grouped',
  'group.having': 'having selects groups by their columns and aggregates',
  'group.order': 'groups are ordered by their columns and aggregates, also by those that are not shown',
  'group.limit': 'limit and offset cut the list of groups',
  'group.relationship': 'a relationship to many rows has groups of its rows',
  'group.csv': 'groups are CSV and JSON lines, too',
  'group.odd-keys': 'the key of an aggregate may be any text',
  'group.wrong': 'columns that are not grouped, wildcards, relationships and keys that appear twice are refused',
  'group.wrong-having': 'having takes only columns of group_by and the keys of aggregates',
  'group.must-group': 'having without groups is refused',
  'aggregate.count': 'count counts rows, values that are not null, and different values',
  'aggregate.sum': 'sum and avg are exact',
  'aggregate.statistics': 'stddev, variance and their forms are those of PostgreSQL',
  'aggregate.min-max': 'min and max work on numbers, texts, times, money and addresses',
  'aggregate.list': 'array_agg and jsonb_agg are sorted lists with nulls',
  'aggregate.distinct': 'distinct uses each value once',
  'aggregate.type': 'a function refuses columns of types that it does not work on',
  'aggregate.wrong': 'an aggregate of a wrong form is refused with its path',
  'group.role-rows': 'a role aggregates all rows that it may select; the limit of its permission is about groups',
  'group.role-permission': 'a role needs allow_aggregations',
  'group.role-columns': 'a role cannot tell a hidden column from none in aggregates and groups',
  'group.role-having': 'a condition on groups sees only what the role may select',
} as const

const SQL = `
create type size as enum ('small', 'large');
create table shop (id int primary key, name text not null);
create table item (
  id int primary key, shop_id int references shop, kind text, price numeric, sold bigint, weight int, secret text,
  size size, tags text[], data jsonb, raw json, spot point, added timestamptz, paid money, net inet
);
insert into shop values (1, 'one'), (2, 'two'), (3, 'empty');
insert into item (id, shop_id, kind, price, sold, weight, secret, size, tags, data, raw, added, paid, net) values
  (1, 1, 'a', 1.10, 9223372036854775807, 1, 'x', 'small', '{p}', '{"n": 1}', '1', '2024-01-02T03:04:05.123456Z', 1, '10.0.0.2'),
  (2, 1, 'a', 2.20, 9223372036854775807, 2, 'x', 'large', '{}', null, '2', '2024-01-02T03:04:05.123457Z', 2, '10.0.0.10'),
  (3, 1, 'b', 3.00, 1, 3, 'x', 'small', null, '[]', null, null, null, null),
  (4, 2, 'b', null, null, null, 'x', null, null, null, null, null, null, null),
  (5, 2, null, 10.5, 5, 5, 'x', 'large', null, null, null, null, null, null),
  (6, 2, 'hidden', 1000, 1000, 1000, 'x', 'large', null, null, null, null, null, null)`

const USER: As = { role: 'user' }
const PLAIN: As = { role: 'plain' }

const select = (args: object, expected: Expected, as?: As): Step =>
  query('select', { table: 'item', ...args }, expected, as)
const COUNT = { count: '*' }
const wrong = (args: object, path: string, message = /./): Step =>
  select(args, { status: 400, like: { path, error: message } })
const sent = (accept: string, args: object, exact: string): Step => ({
  ...select(args, text(exact)),
  headers: { accept },
})

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'group.columns': [
    select(
      { columns: ['kind', COUNT], group_by: ['kind'], order_by: ['kind'] },
      exactly([
        { kind: 'a', count: 2 },
        { kind: 'b', count: 2 },
        { kind: 'hidden', count: 1 },
        { kind: null, count: 1 },
      ]),
    ),
    select(
      {
        columns: [COUNT, 'shop_id', 'kind'],
        group_by: ['kind', 'shop_id'],
        where: { kind: 'b' },
        order_by: ['shop_id'],
      },
      exactly([
        { count: 1, shop_id: 1, kind: 'b' },
        { count: 1, shop_id: 2, kind: 'b' },
      ]),
    ),
    select(
      { columns: ['size'], group_by: ['size'], order_by: ['size'] },
      exactly([{ size: 'small' }, { size: 'large' }, { size: null }]),
    ),
  ],
  'group.none': [
    select({ columns: [COUNT, { max: 'id' }] }, exactly([{ count: 6, max_id: 6 }])),
    select(
      { columns: [COUNT, { count: 'kind' }, { sum: 'price' }, { array_agg: 'id' }], where: { id: 0 } },
      exactly([{ count: 0, count_kind: 0, sum_price: null, array_agg_id: null }]),
    ),
    select({ columns: [COUNT], group_by: ['kind'], where: { id: 0 } }, exactly([])),
  ],
  'group.key': [
    select(
      {
        columns: [COUNT, { count: '*', as: 'all' }, { count: 'kind' }, { max: 'price', as: 'highest' }, { min: 'id' }],
      },
      exactly([{ count: 6, all: 6, count_kind: 5, highest: 1000, min_id: 1 }]),
    ),
  ],
  'group.where': [
    select(
      {
        columns: ['kind', { sum: 'weight' }],
        group_by: ['kind'],
        where: { weight: { $gt: 1, $lt: 9 } },
        order_by: ['kind'],
      },
      exactly([
        { kind: 'a', sum_weight: 2 },
        { kind: 'b', sum_weight: 3 },
        { kind: null, sum_weight: 5 },
      ]),
    ),
  ],
  'group.having': [
    select(
      {
        columns: ['kind', COUNT, { sum: 'price', as: 'total' }],
        where: { id: { $lt: 6 } },
        group_by: ['kind'],
        having: { total: { $gte: 3.3 }, $or: [{ count: 2 }, { kind: null }] },
        order_by: ['-total'],
      },
      text('[{"kind":null,"count":1,"total":10.5},{"kind":"a","count":2,"total":3.30}]'),
    ),
    select({ columns: [COUNT], having: { count: { $gt: 6 } } }, exactly([])),
    select({ columns: [COUNT], having: { count: { $gt: 5 } } }, exactly([{ count: 6 }])),
  ],
  'group.order': [
    select(
      { columns: ['kind', { sum: 'price', as: 'total' }], group_by: ['kind'], order_by: ['+total'] },
      text(
        '[{"kind":"b","total":3.00},{"kind":"a","total":3.30},{"kind":null,"total":10.5},{"kind":"hidden","total":1000}]',
      ),
    ),
    select(
      { columns: [{ count: '*', as: 'n' }], group_by: ['kind', 'shop_id'], order_by: ['-kind', 'shop_id'] },
      exactly([{ n: 1 }, { n: 1 }, { n: 1 }, { n: 1 }, { n: 2 }]),
    ),
  ],
  'group.limit': [
    select(
      { columns: ['kind'], group_by: ['kind'], order_by: ['kind'], limit: 2, offset: 1 },
      exactly([{ kind: 'b' }, { kind: 'hidden' }]),
    ),
  ],
  'group.relationship': [
    query(
      'select',
      {
        table: 'shop',
        columns: [
          'id',
          { name: 'items', alias: 'all', columns: [COUNT, { sum: 'weight' }] },
          { name: 'items', alias: 'kinds', columns: ['kind', COUNT], group_by: ['kind'], order_by: ['kind'] },
        ],
        order_by: ['id'],
      },
      exactly([
        {
          id: 1,
          all: [{ count: 3, sum_weight: 6 }],
          kinds: [
            { kind: 'a', count: 2 },
            { kind: 'b', count: 1 },
          ],
        },
        {
          id: 2,
          all: [{ count: 2, sum_weight: 5 }],
          kinds: [
            { kind: 'b', count: 1 },
            { kind: null, count: 1 },
          ],
        },
        { id: 3, all: [{ count: 0, sum_weight: null }], kinds: [] },
      ]),
      USER,
    ),
  ],
  'group.csv': [
    sent(
      'text/csv',
      {
        columns: ['kind', COUNT, { jsonb_agg: 'kind', as: 'all' }],
        group_by: ['kind'],
        where: { id: { $in: [1, 2, 5] } },
        order_by: ['kind'],
      },
      'kind,count,all\r\na,2,"[""a"", ""a""]"\r\n,1,[null]\r\n',
    ),
    sent(
      'application/x-ndjson',
      { columns: ['kind', COUNT], group_by: ['kind'], where: { id: { $in: [1, 2, 5] } }, order_by: ['kind'] },
      '{"kind":"a","count":2}\n{"kind":null,"count":1}\n',
    ),
  ],
  'group.odd-keys': [
    select({ columns: [{ count: '*', as: `a"'\\ b` }] }, exactly([{ [`a"'\\ b`]: 6 }])),
    select({ columns: [{ count: '*', as: 'x'.repeat(63) }] }, exactly([{ ['x'.repeat(63)]: 6 }])),
    select({ columns: [{ count: '*', as: 'x'.repeat(64) }] }, exactly([{ ['x'.repeat(64)]: 6 }])),
    wrong({ columns: [{ sum: 'price', as: '' }] }, '$.args.columns[0]'),
    wrong({ columns: [{ sum: 'price', as: 5 }] }, '$.args.columns[0].as'),
  ],
  'group.wrong': [
    wrong({ columns: ['price', COUNT], group_by: ['kind'] }, '$.args.columns[0]', /group_by/),
    wrong({ columns: ['kind', COUNT] }, '$.args.columns[0]', /group_by/),
    wrong({ columns: ['*', COUNT] }, '$.args.columns[0]'),
    wrong({ columns: [{ name: 'shop', columns: ['id'] }], group_by: ['shop_id'] }, '$.args.columns[0]'),
    wrong({ columns: [{ name: 'shop', columns: [COUNT] }] }, '$.args.columns[0]'),
    wrong({ columns: [COUNT], group_by: [] }, '$.args.group_by'),
    wrong({ columns: [COUNT], group_by: 'kind' }, '$.args.group_by'),
    wrong({ columns: [COUNT], group_by: ['raw'] }, '$.args.group_by[0]', /json/i),
    wrong({ columns: [COUNT], group_by: ['spot'] }, '$.args.group_by[0]', /type point, which/),
    wrong({ columns: [COUNT], group_by: ['shop'] }, '$.args.group_by[0]'),
    wrong({ columns: [COUNT], group_by: ['kind', 'kind'] }, '$.args.group_by[1]'),
    wrong({ columns: [COUNT, COUNT] }, '$.args.columns[1]', /twice/),
    wrong({ columns: [{ sum: 'price', as: 'kind' }], group_by: ['kind'] }, '$.args.columns[0]', /twice/),
    wrong({ columns: [COUNT], order_by: ['price'] }, '$.args.order_by[0]'),
    wrong({ columns: [COUNT], order_by: ['shop.name'] }, '$.args.order_by[0]'),
    wrong({ columns: [{ array_agg: 'spot', as: 'all' }], order_by: ['all'] }, '$.args.order_by[0]', /cannot compare/),
  ],
  'group.wrong-having': [
    wrong({ columns: [{ jsonb_agg: 'kind' }, COUNT], having: { price: 1 } }, '$.args.having.price'),
    wrong({ columns: [COUNT], having: { count: { $gt: 'x' } } }, '$.args.having.count.$gt'),
    wrong({ columns: [COUNT], having: { shop: { id: 1 } } }, '$.args.having.shop'),
    wrong({ columns: [COUNT], having: { $exists: { _table: 'shop', _where: {} } } }, '$.args.having.$exists'),
    wrong({ columns: [COUNT], having: [] }, '$.args.having'),
  ],
  'group.must-group': [wrong({ columns: ['kind'], having: {} }, '$.args.having')],
  'aggregate.count': [
    select(
      { columns: [COUNT, { count: 'kind' }, { count: 'kind', distinct: true, as: 'kinds' }] },
      exactly([{ count: 6, count_kind: 5, kinds: 3 }]),
    ),
  ],
  'aggregate.sum': [
    select(
      { columns: [{ sum: 'sold' }, { avg: 'weight' }, { sum: 'price' }, { avg: 'price' }], where: { id: { $lte: 2 } } },
      text(
        '[{"sum_sold":18446744073709551614,"avg_weight":1.5000000000000000,"sum_price":3.30,"avg_price":1.6500000000000000}]',
      ),
    ),
  ],
  'aggregate.statistics': [
    select(
      {
        columns: ['stddev', 'stddev_pop', 'stddev_samp', 'variance', 'var_pop', 'var_samp'].map((fn) => ({
          [fn]: 'weight',
          as: fn,
        })),
        where: { id: { $in: [1, 2, 3] } },
      },
      text(
        '[{"stddev":1.00000000000000000000,"stddev_pop":0.81649658092772603273,"stddev_samp":1.00000000000000000000,"variance":1.00000000000000000000,"var_pop":0.66666666666666666667,"var_samp":1.00000000000000000000}]',
      ),
    ),
  ],
  'aggregate.min-max': [
    select(
      { columns: [{ min: 'price' }, { max: 'price' }, { min: 'kind' }, { max: 'kind' }] },
      text('[{"min_price":1.10,"max_price":1000,"min_kind":"a","max_kind":"hidden"}]'),
    ),
    select(
      { columns: [{ min: 'added' }, { max: 'added' }, { max: 'paid' }, { max: 'net' }, { min: 'net' }] },
      exactly([
        {
          min_added: '2024-01-02T03:04:05.123456+00:00',
          max_added: '2024-01-02T03:04:05.123457+00:00',
          max_paid: '$2.00',
          max_net: '10.0.0.10',
          min_net: '10.0.0.2',
        },
      ]),
    ),
  ],
  'aggregate.list': [
    select(
      {
        columns: [
          { array_agg: 'id', as: 'ids' },
          { array_agg: 'weight', as: 'weights' },
          { array_agg: 'raw', as: 'raws' },
        ],
        where: { id: { $in: [5, 4, 2, 1] } },
      },
      text('[{"ids":[1,2,4,5],"weights":[1,2,5,null],"raws":[1,2,null,null]}]'),
    ),
    select(
      {
        columns: [
          { jsonb_agg: 'data', as: 'data' },
          { jsonb_agg: 'tags', as: 'tags' },
        ],
        where: { kind: 'a' },
      },
      text('[{"data":[{"n": 1}, null],"tags":[[], ["p"]]}]'),
    ),
  ],
  'aggregate.distinct': [
    select(
      {
        columns: [
          { array_agg: 'size', distinct: true, as: 'sizes' },
          { sum: 'sold', distinct: true, as: 'sold' },
          { count: 'sold', distinct: false, as: 'n' },
        ],
        where: { id: { $lt: 4 } },
      },
      text('[{"sizes":["small","large"],"sold":9223372036854775808,"n":3}]'),
    ),
  ],
  'aggregate.type': [
    ...['sum', 'avg', 'stddev', 'variance'].map((fn) =>
      wrong({ columns: [{ [fn]: 'kind' }] }, `$.args.columns[0].${fn}`, /text/),
    ),
    wrong({ columns: [{ max: 'raw' }] }, '$.args.columns[0].max'),
    wrong({ columns: [{ array_agg: 'tags' }] }, '$.args.columns[0].array_agg', /jsonb_agg/),
    wrong({ columns: [{ count: 'raw', distinct: true }] }, '$.args.columns[0].count'),
    wrong({ columns: [{ count: 'spot', distinct: true }] }, '$.args.columns[0].count', /type point, which/),
  ],
  'aggregate.wrong': [
    wrong({ columns: [{ sum: '*' }] }, '$.args.columns[0].sum'),
    wrong({ columns: [{ sum: 5 }] }, '$.args.columns[0].sum'),
    wrong({ columns: [{ sum: 'nope' }] }, '$.args.columns[0].sum', /"nope"/),
    wrong({ columns: [{ count: '*', distinct: true }] }, '$.args.columns[0].distinct'),
    wrong({ columns: [{ count: 'kind', distinct: 'yes' }] }, '$.args.columns[0].distinct'),
    wrong({ columns: [{ count: 'kind', sum: 'price' }] }, '$.args.columns[0]'),
    wrong({ columns: [{ count: '*', where: {} }] }, '$.args.columns[0].where'),
    wrong({ columns: [{ middle: 'price' }] }, '$.args.columns[0]'),
  ],
  'group.role-rows': [
    select({ columns: [COUNT, { max: 'price' }] }, exactly([{ count: 5, max_price: 10.5 }]), USER),
    select(
      { columns: ['id', COUNT], group_by: ['id'], order_by: ['id'], limit: 9 },
      exactly([1, 2, 3].map((id) => ({ id, count: 1 }))),
      USER,
    ),
  ],
  'group.role-permission': [
    ...[{ columns: [COUNT] }, { columns: ['kind'], group_by: ['kind'] }].map((args) =>
      select(args, refused('permission-denied', /aggregat/i), PLAIN),
    ),
    query(
      'select',
      { table: 'shop', columns: [{ name: 'items', columns: [COUNT] }] },
      refused('permission-denied', /./),
      PLAIN,
    ),
    select({ columns: [COUNT] }, refused('permission-denied', /is not allowed/, '$.args.table'), { role: 'nobody' }),
  ],
  'group.role-columns': ['secret', 'nothing'].flatMap((name) =>
    (
      [
        [{ columns: [{ count: name }] }, '$.args.columns[0].count'],
        [{ columns: [{ max: name }] }, '$.args.columns[0].max'],
        [{ columns: [COUNT], group_by: [name] }, '$.args.group_by[0]'],
        [{ columns: [COUNT], where: { [name]: 'x' } }, `$.args.where.${name}`],
      ] as const
    ).map(([args, path]) =>
      select(
        args,
        {
          status: 400,
          body: {
            path,
            error: `role "user" does not have permission to select column "${name}"`,
            code: 'permission-denied',
          },
        },
        USER,
      ),
    ),
  ),
  'group.role-having': [
    select(
      { columns: ['kind', COUNT], group_by: ['kind'], having: { kind: { $regex: '^[abh]' } }, order_by: ['kind'] },
      exactly([
        { kind: 'a', count: 2 },
        { kind: 'b', count: 2 },
      ]),
      USER,
    ),
  ],
}

/** Its promises, with a case for each. */
export const groups = area('groups', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/rows.md': {
      'Groups and aggregates': {
        '`count`': 'aggregate.count',
        '`sum` `avg` `stddev` `stddev_pop` `stddev_samp` `variance` `var_pop` `var_samp`': [
          'aggregate.sum',
          'aggregate.statistics',
        ],
        '`min` `max`': 'aggregate.min-max',
        '`array_agg` `jsonb_agg`': ['aggregate.list', 'aggregate.distinct'],
      },
    },
  },
  start,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const columns = ['id', 'shop_id', 'kind', 'price', 'sold', 'weight', 'size']
  const many = { foreign_key_constraint_on: { table: 'item', column: 'shop_id' } }
  await server.must('bulk', [
    ...['shop', 'item'].map((args) => ({ type: 'track_table', args })),
    {
      type: 'create_object_relationship',
      args: { table: 'item', name: 'shop', using: { foreign_key_constraint_on: 'shop_id' } },
    },
    { type: 'create_array_relationship', args: { table: 'shop', name: 'items', using: many } },
    ...['user', 'plain'].flatMap((role) => [
      {
        type: 'create_select_permission',
        args: {
          table: 'item',
          role,
          permission: { columns, filter: { id: { $lt: 6 } }, limit: 3, allow_aggregations: role === 'user' },
        },
      },
      { type: 'create_select_permission', args: { table: 'shop', role, permission: { columns: '*', filter: {} } } },
    ]),
  ])
  return server
}
