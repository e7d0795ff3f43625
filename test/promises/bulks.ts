import { area, type Case, exactly, like, query, refused } from '../kit/promises.js'
import { bulk, CLEAN, count, counted, ID, items, member, ORDER, shop, unmet, USER } from './steps.js'

/** What bulks promise: their members happen together, or none does. */
const PROMISES = {
  'bulk.order': 'a bulk answers with the responses of its members, in order; they see what earlier ones wrote',
  'bulk.atomic': 'a bulk happens as a whole or not at all',
  'bulk.path': 'an error has the path of its member',
  'bulk.empty': 'an empty bulk is an empty list',
  'bulk.nested': 'a bulk in a bulk is rolled back with it',
  'bulk.form': 'a bulk is a list of queries of known types',
  'bulk.limit': 'a bulk has at most 1,000 members',
  'bulk.role': 'each member needs its own permission',
  'bulk.plain': 'a bulk without steps stores {"$ref": ...} like any JSON',
  'bulk.metadata': 'members after a change of metadata see it, and a failed bulk takes it back',
  'bulk.dry-run': 'a dry run of a bulk answers like it, and writes nothing; members have no dry_run of their own',
  'bulk.key': 'a bulk that is repeated with its Idempotency-Key happens once',
} as const

/** Members that create a table, and use it. */
const MAKING = [
  member('run_sql', { sql: 'create table fresh (id serial primary key, order_id int)' }),
  member('track_table', 'fresh'),
  member('insert', { table: 'fresh', objects: [{ order_id: ID }], returning: ['id'] }, { as: 'row' }),
  counted('fresh', { id: { $ref: 'row.returning[0].id' } }, { expect: { rows: 1 } }),
]

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'bulk.order': [
    bulk(
      [
        counted('node'),
        member('insert', { table: 'node', objects: [{ id: 3 }] }),
        counted('node'),
        member('bulk', [counted('stock')]),
        member('delete', { table: 'node', where: { id: 3 } }),
      ],
      exactly([{ count: 2 }, { affected_rows: 1 }, { count: 3 }, [{ count: 2 }], { affected_rows: 1 }]),
    ),
  ],
  'bulk.atomic': [
    bulk(
      [
        member('delete', { table: 'node', where: {} }),
        member('update', { table: 'stock', where: {}, $inc: { n: 1 } }),
        member('insert', { table: 'node', objects: [{ id: 1 }, { id: 1 }] }),
      ],
      refused('postgres-error', /Uniqueness/, '$.args[2].args'),
    ),
    count('node', 2),
    count('stock', 1, { n: 5 }),
    bulk([member('delete', { table: 'node', where: {} }), counted('nope')], { status: 400 }),
    count('node', 2),
  ],
  'bulk.path': [
    bulk(
      [counted('node'), counted('nope')],
      refused('not-exists', 'table "nope" does not exist', '$.args[1].args.table'),
    ),
    bulk(
      [counted('node'), member('bulk', [counted('node', { nope: 1 })])],
      refused('not-exists', /"nope"/, '$.args[1].args[0].args.where.nope'),
    ),
  ],
  'bulk.empty': [bulk([], exactly([])), bulk([member('bulk', [])], exactly([[]]))],
  'bulk.nested': [
    bulk(
      [
        member('bulk', [member('insert', { table: 'node', objects: [{ id: 4 }] })]),
        member('insert', { table: 'node', objects: [{ id: 1 }] }),
      ],
      { status: 400 },
    ),
    count('node', 2),
  ],
  'bulk.form': [
    bulk({}, refused('parse-failed', /./, '$.args')),
    bulk([5], refused('parse-failed', /./, '$.args[0]')),
    bulk([{ type: 'nope', args: {} }], refused('parse-failed', 'unknown type "nope"', '$.args[0].type')),
    bulk([{ type: 'count' }], refused('parse-failed', "the key 'args' was not present", '$.args[0]')),
    bulk([counted('node', {}, { retry: 1 })], { status: 400, like: { path: '$.args[0].retry' } }),
  ],
  'bulk.limit': [
    bulk(Array(1001).fill(member('bulk', [])), { status: 400, like: { error: /1000/ } }),
    bulk(Array(1000).fill(member('bulk', [])), { status: 200 }),
  ],
  'bulk.role': [
    bulk([counted('customer'), counted('stock')], refused('permission-denied', /./, '$.args[1].args.table'), USER),
    bulk([member('insert', { table: 'orders', objects: [{}] }), counted('stock')], { status: 400 }, USER),
    count('orders', 0),
    bulk([counted('customer'), member('bulk', [counted('customer')])], exactly([{ count: 1 }, [{ count: 1 }]]), USER),
  ],
  'bulk.plain': [
    bulk([member('insert', { table: 'orders', objects: [{ meta: { $ref: '#/a' } }], returning: ['meta'] })], {
      status: 200,
      body: [{ affected_rows: 1, returning: [{ meta: { $ref: '#/a' } }] }],
    }),
  ],
  'bulk.metadata': [
    bulk(
      [
        ORDER,
        ...MAKING.slice(0, 3),
        counted('fresh', { id: { $ref: 'row.returning[0].id' } }, { expect: { rows: 2 } }),
      ],
      unmet('$.args[4].expect.rows', 'expected 2 rows, but found 1'),
    ),
    query('count', { table: 'fresh' }, refused('not-exists', 'table "fresh" does not exist')),
    bulk(
      [ORDER, member('bulk', [...MAKING, counted('fresh', { id: { $ref: 'rwo.returning[0].id' } })], { as: 'inner' })],
      {
        status: 400,
        like: {
          path: '$.args[1].args[4].args.where.id',
          error: /no earlier step has the name "rwo", did you mean "row"/,
        },
      },
    ),
    bulk(
      [
        ORDER,
        member('bulk', MAKING, { as: 'inner' }),
        counted('fresh', { id: { $ref: 'inner[2].returning[0].id' } }, { expect: { exists: true } }),
      ],
      like([{}, [{}, {}, { affected_rows: 1 }, { count: 1 }], { count: 1 }]),
    ),
    query('run_sql', { sql: 'drop table fresh' }, { status: 200 }),
  ],
  'bulk.dry-run': [
    CLEAN,
    {
      path: '/v1/query',
      method: 'POST',
      body: JSON.stringify({ type: 'bulk', args: [ORDER, items('kite')], dry_run: true }),
      expected: like([{ affected_rows: 1 }, { affected_rows: 1, returning: [{ sku: 'kite' }] }]),
    },
    count('orders', 0),
    bulk([counted('orders', {}, { dry_run: true })], { status: 400, like: { path: '$.args[0].dry_run' } }),
  ],
  'bulk.key': async (t, server) => {
    const body = JSON.stringify({ type: 'bulk', args: [ORDER, items('kite')] })
    const first = await server.raw(body, {}, { 'idempotency-key': 'k' })
    const second = await server.raw(body, {}, { 'idempotency-key': 'k' })
    t.equal(first.status, 200)
    t.equal(second.text, first.text)
    t.equal(second.headers.get('idempotency-replayed'), 'true')
    t.strictSame(await server.must('count', { table: 'orders' }), { count: 1 })
  },
}

/** Its promises, with a case for each. */
export const bulks = area('bulks', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/README.md': {
      Operations: {
        '`bulk`': ['bulk.order', 'bulk.atomic', 'bulk.limit'],
      },
    },
  },
  start: shop,
})
