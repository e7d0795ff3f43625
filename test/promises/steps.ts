import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, like, query, type Step } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** What steps of a bulk promise: references, expectations and loops. */
const PROMISES = {
  'as.value': '{"$ref": "name.returning[0].column"} is a value of an earlier answer: in rows, $set and conditions',
  'as.list': '[*] is the list of what follows, of all elements',
  'as.limit': 'a limit can be a value of an earlier answer',
  'as.rows': '"objects": {"$ref": ...} inserts all rows of a list',
  'as.json': 'a reference to a whole answer is JSON, and digits and texts stay what they are',
  'as.nested': 'a nested bulk sees the names of the outer one, and is one answer to later members',
  'as.related': 'a reference in a related row',
  'as.name': 'a name is letters, digits and _, is given once, and is not each',
  'ref.unknown': 'a reference that no earlier answer can have is refused before anything runs',
  'ref.unused': 'so is any other mistake of a member that is named or expects something',
  'ref.later': 'a reference to the member itself or to a later one says so',
  'ref.form': 'a reference has a form, at most 1,000 characters, and 32 keys and indices',
  'ref.type': 'a value whose type cannot be that of the column is refused before anything runs',
  'ref.missing': 'a row that does not exist, and null in a condition, are refused, and everything is rolled back',
  'ref.column': '$ceq and $is_null take no reference',
  'ref.value': 'values of earlier answers are values, whatever they look like',
  'ref.long': 'all references together stand for at most 67,108,864 characters',
  'ref.role': 'a role uses only what it may see: a hidden row is like one that does not exist',
  'expect.affected': 'expect affected: a number of rows, or from min to max',
  'expect.rows': 'expect rows: of a list, of returning, or the count',
  'expect.exists': 'expect exists: whether there is any row',
  'expect.deep': 'an answer that is nested too deeply for a check is refused',
  'expect.unmet': 'an expectation that is not met rolls everything back, with 409 and its path',
  'expect.stops': 'members after an unmet expectation do not start',
  'expect.must-have': 'expect must have a key that the answer can have, and whole numbers',
  'each.runs': 'for_each runs a member for each element, and answers with the list of answers',
  'each.element': 'the error of a for_each names the element, counted from 0',
  'each.limit': 'at most 100 elements, or max, which is at most 1,000',
  'each.list': 'for_each takes a list of an earlier answer',
  'each.nested': 'for_each of a bulk',
  'template.call': 'a step runs a template with references as its arguments',
  'template.arguments': 'arguments of a template are values, and its own steps have names of their own',
  'template.steps': 'a bulk with steps is a template, whose references are checked when it is created',
} as const

const SQL = `
create table customer (id int primary key, email text not null, user_id int not null, key uuid not null default gen_random_uuid());
create table orders (id serial primary key, customer_id int references customer, note text, meta jsonb, big bigint);
create table item (id serial primary key, order_id int not null references orders, sku text not null, n int);
create table stock (sku text primary key, n int not null check (n >= 0));
create table node (id int primary key, parent int);
create table long (id int primary key, body text);
create table deep (id int primary key, body jsonb);
create sequence used;
insert into customer values (1, 'ann@example.com', 7), (2, 'bob@example.com', 8);
insert into stock values ('kite', 5), ('rope', 1);
insert into node values (1, null), (2, 1);
insert into long values (1, repeat('x', 1048576));
insert into deep values (1, (repeat('[', 5000) || repeat(']', 5000))::jsonb);`

export const USER: As = { role: 'user', variables: { 'x-service-user-id': '7' } }

export const bulk = (members: unknown, expected: Expected, as?: As): Step => query('bulk', members, expected, as)
export const member = (type: string, args: unknown, more: object = {}) => ({ ...more, type, args })
export const counted = (table: string, where: object = {}, more: object = {}) => member('count', { table, where }, more)
export const count = (table: string, n: number, where: object = {}): Step =>
  query('count', { table, where }, exactly({ count: n }))
export const ORDER = member(
  'insert',
  { table: 'orders', objects: [{ customer_id: 1, note: 'soon' }], returning: ['id', 'note', 'meta'] },
  { as: 'order' },
)
export const ID = { $ref: 'order.returning[0].id' }
export const items = (...skus: string[]) =>
  member('insert', { table: 'item', objects: skus.map((sku) => ({ order_id: ID, sku, n: 1 })), returning: ['sku'] })
const set = (value: unknown, column = 'note') =>
  member('update', { table: 'orders', where: { id: 1 }, $set: { [column]: value } })
const ALL = member('select', { table: 'customer', columns: ['id', 'email'], order_by: 'id' }, { as: 'all' })
export const CLEAN: Step = bulk(
  ['item', 'orders'].map((table) => member('delete', { table, where: {} })),
  { status: 200 },
)
/** Refused after an insert that would have taken a number of the sequence, had it run. */
const before = (members: readonly unknown[], path: string, error: RegExp): Step =>
  bulk([ORDER, ...members], { status: 400, like: { path: `$.args${path}`, error } })
export const unmet = (path: string, error: string): Expected => ({
  status: 409,
  body: { path, error, code: 'unmet-expectation' },
})
const expecting = (expect: unknown, expected: Expected, where: object = {}): Step =>
  bulk([member('select', { table: 'stock', columns: ['sku'], where }, { expect })], expected)
const template = (name: string, type: string, args: unknown): Step =>
  query('create_query_template', { name, template: { type, args } }, { status: 200 })
const run = (name: string, args: unknown, more: object = {}) => member('execute_query_template', { name, args }, more)

const SECRET = { $ref: 'secret[0].email' }
const KEPT = run('meta', { meta: { $ref: 'secret.returning[0].meta.kept' } })
/** In the answer of a template of `template.arguments`. */
const storedTwice = (meta: unknown) => [{}, [{ returning: [{ meta }] }], { returning: [{ meta }] }]

async function nextOrder(server: TestServer): Promise<unknown> {
  return server.must('run_sql', { sql: 'select last_value, is_called from orders_id_seq', read_only: true })
}
/** Proves steps of which none may take a number from the sequence of orders. */
const nothingRuns =
  (steps: readonly Step[]) =>
  async (t: Test, server: TestServer): Promise<void> => {
    const first = await nextOrder(server)
    for (const { body, expected } of steps) {
      const { status, body: answer } = await server.raw(body ?? '')
      t.match({ status, ...answer }, { status: expected.status, ...expected.like }, body?.slice(0, 400) ?? '')
    }
    t.strictSame(await nextOrder(server), first, 'nothing ran')
  }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'as.value': [
    CLEAN,
    bulk(
      [
        member('select', { table: 'customer', columns: ['id', 'email'], where: { id: 2 } }, { as: 'who' }),
        member(
          'insert',
          { table: 'orders', objects: [{ customer_id: { $ref: 'who[0].id' } }], returning: ['id'] },
          { as: 'order' },
        ),
        items('kite', 'rope'),
        member('update', { table: 'orders', where: { id: ID }, $set: { note: { $ref: 'who[0].email' } } }),
        counted('item', { order_id: { $eq: ID } }),
        counted('item', { order: { customer_id: { $ref: 'who[0].id' } } }),
      ],
      like([
        [{ id: 2 }],
        {},
        { returning: [{ sku: 'kite' }, { sku: 'rope' }] },
        { affected_rows: 1 },
        { count: 2 },
        { count: 2 },
      ]),
    ),
    query(
      'select',
      { table: 'orders', columns: ['customer_id', 'note'] },
      exactly([{ customer_id: 2, note: 'bob@example.com' }]),
    ),
  ],
  'as.list': [
    bulk(
      [
        ALL,
        counted('customer', { id: { $in: { $ref: 'all[*].id' } } }),
        counted('customer', { id: { $nin: { $ref: 'all[*].id' } } }),
      ],
      like([{}, { count: 2 }, { count: 0 }]),
    ),
  ],
  'as.limit': [
    bulk(
      [
        counted('customer', { id: 1 }, { as: 'few' }),
        member('select', { table: 'customer', columns: ['id'], order_by: 'id', limit: { $ref: 'few.count' } }),
      ],
      exactly([{ count: 1 }, [{ id: 1 }]]),
    ),
  ],
  'as.rows': [
    bulk(
      [
        member('select', { table: 'stock', columns: ['sku', 'n'], where: { n: { $lt: 5 } } }, { as: 'low' }),
        member('delete', { table: 'stock', where: { sku: 'rope' } }),
        member('insert', { table: 'stock', objects: { $ref: 'low' } }),
      ],
      exactly([[{ sku: 'rope', n: 1 }], { affected_rows: 1 }, { affected_rows: 1 }]),
    ),
    count('stock', 1, { sku: 'rope', n: 1 }),
  ],
  'as.json': [
    CLEAN,
    bulk(
      [
        member(
          'insert',
          { table: 'orders', objects: [{ big: '9007199254740993', note: `"'\\` }], returning: ['big', 'note'] },
          { as: 'one' },
        ),
        member('insert', {
          table: 'orders',
          objects: [
            { big: { $ref: 'one.returning[0].big' }, note: { $ref: 'one.returning[0].note' }, meta: { $ref: 'one' } },
          ],
          returning: ['meta'],
        }),
        counted('orders', { big: { $ref: 'one.returning[0].big' }, note: `"'\\` }),
      ],
      like([{}, { returning: [{ meta: { affected_rows: 1, returning: [{ note: `"'\\` }] } }] }, { count: 2 }]),
    ),
  ],
  'as.nested': [
    CLEAN,
    bulk(
      [
        ORDER,
        member('bulk', [items('kite'), counted('item', { order_id: ID })], { as: 'inner' }),
        counted('item', { n: { $ref: 'inner[1].count' } }),
      ],
      like([{}, [{ affected_rows: 1 }, { count: 1 }], { count: 1 }]),
    ),
  ],
  'as.related': [
    CLEAN,
    bulk(
      [
        ALL,
        member('insert', {
          table: 'item',
          objects: [{ sku: 'r', order: { data: { note: { $ref: 'all[1].email' } } } }],
        }),
      ],
      like([{}, { affected_rows: 2 }]),
    ),
    count('orders', 1, { note: 'bob@example.com' }),
  ],
  'as.name': nothingRuns([
    before([counted('item', {}, { as: 'order' })], '[1].as', /used twice/),
    before([counted('item', {}, { as: 'each' })], '[1].as', /expecting a name/),
    before([counted('item', {}, { as: 'a b' })], '[1].as', /expecting a name/),
    before([counted('item', {}, { as: 5 })], '[1].as', /./),
  ]),
  'ref.unknown': nothingRuns([
    before(
      [set({ $ref: 'ordre.returning[0].id' })],
      '[1].args.$set.note',
      /no earlier step has the name "ordre", did you mean "order"/,
    ),
    before([set({ $ref: 'order.returning[0].nte' })], '[1].args.$set.note', /has no "nte", did you mean "note"/),
    before([set({ $ref: 'order.affected[0]' })], '[1].args.$set.note', /has no "affected"/),
    before([set({ $ref: 'order[0].id' })], '[1].args.$set.note', /"order" does not exist: it is an object/),
    before([set({ $ref: 'order.constructor' })], '[1].args.$set.note', /has no "constructor"/),
    before([member('bulk', [set({ $ref: 'nobody.count' })])], '[1].args[0].args.$set.note', /no earlier step/),
  ]),
  'ref.unused': async (t, server) => {
    const wrong = { nothing: 1 }
    await nothingRuns([
      before([counted('item', wrong, { as: 'unknown' })], '[1].args.where.nothing', /nothing/),
      before([counted('item', wrong, { expect: { rows: 0 } })], '[1].args.where.nothing', /nothing/),
    ])(t, server)
    const first = await nextOrder(server)
    const { body } = await server.query('bulk', [ORDER, counted('item', wrong)])
    t.equal(body.path, '$.args[1].args.where.nothing')
    t.notSame(await nextOrder(server), first, 'a member whose answer nothing uses is checked when it runs')
  },
  'ref.later': nothingRuns([
    before(
      [set({ $ref: 'later.count' }), counted('item', {}, { as: 'later' })],
      '[1].args.$set.note',
      /the step "later" is a later one/,
    ),
    before([{ ...set({ $ref: 'own.count' }), as: 'own' }], '[1].args.$set.note', /the step "own" is a later one/),
    before(
      [{ ...set('a'), for_each: 'later' }, counted('item', {}, { as: 'later' })],
      '[1].for_each',
      /is a later one/,
    ),
    before(
      [member('bulk', [set({ $ref: 'later.count' }), counted('item', {}, { as: 'later' })])],
      '[1].args[0].args.$set.note',
      /the step "later" is a later one/,
    ),
  ]),
  'ref.form': nothingRuns([
    before([set({ $ref: 'order..id' })], '[1].args.$set.note', /expecting a reference/),
    before([set({ $ref: 5 })], '[1].args.$set.note', /expecting a reference/),
    before([counted('item', { id: { $ref: `order${'[*]'.repeat(400)}` } })], '[1].args.where.id', /1000 characters/),
    before(
      [counted('item', {}, { for_each: `order${'[*]'.repeat(400)}` })],
      '[1].for_each',
      /^a reference has at most 1000 characters$/,
    ),
    before(
      [counted('item', { id: { $ref: `order${'.a'.repeat(33)}` } })],
      '[1].args.where.id',
      /^a reference has at most 32 keys and indices$/,
    ),
  ]),
  'ref.type': nothingRuns([
    before([set(ID)], '[1].args.$set.note', /type text, but found int32/),
    before([counted('item', { sku: ID })], '[1].args.where.sku', /type text, but found int32/),
    before([counted('item', { id: { $in: ID } })], '[1].args.where.id.$in', /expecting a list/),
    before(
      [member('select', { table: 'item', columns: ['id'], limit: { $ref: 'order.returning[0].note' } })],
      '[1].args.limit',
      /whole number/,
    ),
    before(
      [
        member('select', { table: 'customer', columns: ['key'] }, { as: 'who' }),
        member('insert', { table: 'item', objects: [{ sku: 'a' }, { sku: 'b', n: { $ref: 'who[0].key' } }] }),
      ],
      '[2].args.objects[1].n',
      /type int4, but found uuid/,
    ),
    before(
      [
        member('select', { table: 'customer', columns: ['key'] }, { as: 'who' }),
        member('insert', {
          table: 'orders',
          objects: [{ customer: { data: { email: 'a', id: { $ref: 'who[0].key' } } } }],
        }),
      ],
      '[2].args.objects[0].customer.data.id',
      /type int4, but found uuid/,
    ),
    before([member('insert', { table: 'item', objects: { $ref: 'order.returning' } })], '[1].args.objects', /"note"/),
    before(
      [
        member('select', { table: 'customer', columns: ['key'] }, { as: 'who' }),
        counted('item', { id: { $ref: 'who[0].key' } }),
      ],
      '[2].args.where.id',
      /type int4, but found uuid/,
    ),
  ]),
  'ref.missing': [
    CLEAN,
    bulk(
      [
        ORDER,
        member('select', { table: 'customer', columns: ['id'], where: { id: 99 } }, { as: 'who' }),
        set({ $ref: 'who[0].id' }, 'customer_id'),
      ],
      {
        status: 400,
        like: { path: '$.args[2].args.$set.customer_id', error: '"who[0]" does not exist: the list has 0 rows' },
      },
    ),
    ...['constructor', '__proto__', 'toString'].map((key) =>
      bulk(
        [
          member('insert', { table: 'orders', objects: [{ meta: { a: 1 } }], returning: ['meta'] }, { as: 'order' }),
          set({ $ref: `order.returning[0].meta.${key}` }),
        ],
        { status: 400, like: { path: '$.args[1].args.$set.note', error: /does not exist/ } },
      ),
    ),
    bulk(
      [
        member('select', { table: 'node', columns: ['parent'], where: { id: 1 } }, { as: 'all' }),
        member('select', { table: 'node', columns: ['id'], limit: { $ref: 'all[0].parent' } }),
      ],
      { status: 400, like: { path: '$.args[1].args.limit' } },
    ),
    ...[{ parent: { $in: { $ref: 'all[*].parent' } } }, { parent: { $eq: { $ref: 'all[0].parent' } } }].map((where) =>
      bulk(
        [
          ORDER,
          member('select', { table: 'node', columns: ['id', 'parent'], order_by: ['id'] }, { as: 'all' }),
          member('delete', { table: 'node', where }),
        ],
        { status: 400, like: { path: /^\$\.args\[2\]\.args\.where\.parent\.\$/, error: /null/ } },
      ),
    ),
    count('node', 2),
    count('orders', 0),
  ],
  'ref.column': ['$ceq', '$is_null'].map((operator) =>
    bulk([ALL, counted('customer', { email: { [operator]: { $ref: 'all[0].email' } } })], {
      status: 400,
      like: { path: `$.args[1].args.where.email.${operator}`, error: /^(?!.*[0-9a-f]{8}-[0-9a-f]{4}).*expecting a/ },
    }),
  ),
  'ref.value': [
    bulk(
      [
        member(
          'insert',
          { table: 'orders', objects: [{ meta: { kept: { $ref: 'one.affected_rows' } } }], returning: ['meta'] },
          { as: 'one' },
        ),
        member('insert', {
          table: 'orders',
          objects: [{ meta: { $ref: 'one.returning[0].meta.kept' } }],
          returning: ['meta'],
        }),
      ],
      like([
        { returning: [{ meta: { kept: { $ref: 'one.affected_rows' } } }] },
        { returning: [{ meta: { $ref: 'one.affected_rows' } }] },
      ]),
    ),
  ],
  'ref.long': [
    [2, 200],
    [65, 400],
  ].map(([times = 0, status = 0]) =>
    bulk(
      [
        member('select', { table: 'long', columns: ['body'] }, { as: 'long' }),
        counted('long', { $or: Array(times).fill({ body: { $ref: 'long[0].body' } }) }),
      ],
      status === 200
        ? { status }
        : { status, like: { path: '$.args[1].args.where.$or[64].body', error: /at most 67108864 characters/ } },
    ),
  ),
  'ref.role': async (t, server) => {
    const use = member('insert', { table: 'orders', objects: [{ customer_id: { $ref: 'who[0].id' } }] })
    const pick = (id: number, columns = ['id']) =>
      server.query('bulk', [member('select', { table: 'customer', columns, where: { id } }, { as: 'who' }), use], USER)
    t.equal((await pick(1)).status, 200)
    const [hidden, missing] = [await pick(2), await pick(3)]
    t.equal(hidden.status, 400)
    t.equal(hidden.text, missing.text)
    const [secret, absent] = [await pick(1, ['id', 'user_id']), await pick(1, ['id', 'no_such'])]
    t.equal(secret.status, 400)
    t.equal(secret.text.replaceAll('user_id', 'no_such'), absent.text)
  },
  'expect.affected': (
    [
      [1, true],
      [2, false],
      [{ min: 1 }, true],
      [{ max: 0 }, false],
      [{ min: 0, max: 1 }, true],
      [{ min: 2, max: 3 }, false],
    ] as const
  ).map(([affected, isMet]) =>
    bulk([member('update', { table: 'stock', where: { sku: 'kite' }, $inc: { n: 0 } }, { expect: { affected } })], {
      status: isMet ? 200 : 409,
    }),
  ),
  'expect.rows': [
    expecting({ rows: 2 }, { status: 200 }),
    expecting({ rows: { min: 1, max: 3 } }, { status: 200 }),
    expecting({ rows: 1 }, unmet('$.args[0].expect.rows', 'expected 1 row, but found 2')),
    expecting({ rows: { min: 3 } }, unmet('$.args[0].expect.rows', 'expected at least 3 rows, but found 2')),
    expecting({ rows: { max: 1 } }, unmet('$.args[0].expect.rows', 'expected 0 to 1 row, but found 2')),
    bulk([counted('stock', {}, { expect: { rows: 2 } })], exactly([{ count: 2 }])),
    bulk([counted('stock', {}, { expect: { rows: 3 } })], { status: 409 }),
    bulk(
      [member('update', { table: 'stock', where: {}, $inc: { n: 0 }, returning: ['sku'] }, { expect: { rows: 2 } })],
      { status: 200 },
    ),
  ],
  'expect.exists': [
    expecting({ exists: true }, { status: 200 }),
    expecting({ exists: false }, unmet('$.args[0].expect.exists', 'a row exists')),
    expecting({ exists: true }, unmet('$.args[0].expect.exists', 'no row exists'), { sku: 'none' }),
    expecting({ exists: false }, { status: 200 }, { sku: 'none' }),
    bulk([counted('stock', { sku: 'none' }, { expect: { exists: true } })], { status: 409 }),
    bulk([member('delete', { table: 'stock', where: { sku: 'none' } }, { expect: { exists: true } })], { status: 409 }),
  ],
  'expect.deep': [
    bulk([member('select', { table: 'deep', columns: ['body'] }, { expect: { rows: 1 } })], {
      status: 400,
      like: { error: /levels of nesting/ },
    }),
  ],
  'expect.unmet': [
    CLEAN,
    bulk(
      [
        ORDER,
        member(
          'update',
          { table: 'stock', where: { sku: 'rope', n: { $gte: 2 } }, $inc: { n: -2 } },
          { expect: { affected: 1 } },
        ),
      ],
      unmet('$.args[1].expect.affected', 'expected 1 affected row, but found 0'),
    ),
    count('orders', 0),
    bulk(
      [ORDER, member('bulk', [counted('stock', {}, { expect: { rows: 9 } })])],
      unmet('$.args[1].args[0].expect.rows', 'expected 9 rows, but found 2'),
    ),
    count('orders', 0),
  ],
  'expect.stops': [
    bulk([counted('customer', {}, { expect: { rows: 5 } }), member('run_sql', { sql: "select nextval('used')" })], {
      status: 409,
    }),
    query('run_sql', { sql: 'select is_called from used', read_only: true }, like({ result: [['is_called'], ['f']] })),
  ],
  'expect.must-have': (
    [
      [{}, '', /expecting one of the keys affected, rows, exists/],
      [1, ''],
      [{ rows: -1 }, '.rows'],
      [{ rows: 1.5 }, '.rows'],
      [{ rows: {} }, '.rows', /min, max or both/],
      [{ rows: { min: 2, max: 1 } }, '.rows'],
      [{ rows: { least: 1 } }, '.rows.least'],
      [{ row: 1 }, '.row'],
      [{ exists: 1 }, '.exists'],
      [{ affected: 1 }, '.affected'],
    ] as const
  ).map(([expect, path, error = /./]) =>
    expecting(expect, { status: 400, like: { path: `$.args[0].expect${path}`, error } }),
  ),
  'each.runs': [
    CLEAN,
    bulk(
      [
        ALL,
        member(
          'insert',
          { table: 'orders', objects: [{ customer_id: { $ref: 'each.id' }, note: { $ref: 'each.email' } }] },
          { for_each: 'all' },
        ),
      ],
      like([{}, [{ affected_rows: 1 }, { affected_rows: 1 }]]),
    ),
    query(
      'select',
      { table: 'orders', columns: ['customer_id', 'note'], order_by: 'id' },
      exactly([
        { customer_id: 1, note: 'ann@example.com' },
        { customer_id: 2, note: 'bob@example.com' },
      ]),
    ),
    bulk(
      [
        member(
          'update',
          { table: 'orders', where: {}, $set: { note: 'x' }, returning: ['id', 'customer_id'] },
          { as: 'made' },
        ),
        counted('orders', { customer_id: { $ref: 'each.customer_id' } }, { for_each: 'made.returning', as: 'counts' }),
        counted('stock', { n: { $ref: 'counts[1].count' } }),
      ],
      like([{}, [{ count: 1 }, { count: 1 }], { count: 1 }]),
    ),
    bulk(
      [
        member('select', { table: 'customer', columns: ['id'], where: { id: 99 } }, { as: 'no' }),
        counted('stock', {}, { for_each: 'no' }),
      ],
      exactly([[], []]),
    ),
  ],
  'each.element': [
    bulk(
      [
        member('select', { table: 'stock', columns: ['sku'], order_by: 'sku' }, { as: 'all' }),
        member(
          'update',
          { table: 'stock', where: { sku: { $ref: 'each.sku' }, n: { $gte: 2 } }, $inc: { n: -2 } },
          { for_each: 'all', expect: { affected: 1 } },
        ),
      ],
      unmet('$.args[1].expect.affected', 'element 1 of for_each: expected 1 affected row, but found 0'),
    ),
    count('stock', 1, { n: 5 }),
  ],
  'each.limit': async (t, server) => {
    const select = (count: number) => member('call', { function: 'numbers', arguments: { n: count } }, { as: 'all' })
    const ask = async (count: number, for_each: unknown) =>
      server.query('bulk', [select(count), member('bulk', [], { for_each })])
    for (const [count, for_each, status] of [
      [100, 'all', 200],
      [101, 'all', 400],
      [101, { in: 'all', max: 101 }, 200],
      [2, { in: 'all', max: 1 }, 400],
      [300, { in: 'all', max: 1000 }, 200],
      [1, { in: 'all', max: 1001 }, 400],
    ] as const) {
      const answer = await ask(count, for_each)
      t.equal(answer.status, status, `${count} of ${JSON.stringify(for_each)}`)
      if (status === 400) t.match(answer.body.path, /^\$\.args\[1\]\.for_each/)
      if (count === 2) t.match(answer.body.error, /2 elements.*at most 1/)
      if (count === 1) t.equal(answer.body.path, '$.args[1].for_each.max')
      if (status === 200) t.equal(answer.body[1].length, count)
    }
  },
  'each.list': [
    bulk([ORDER, counted('item', {}, { for_each: 'order' })], {
      status: 400,
      like: { path: '$.args[1].for_each', error: /expecting a list, but found object/ },
    }),
    bulk([ORDER, counted('item', {}, { for_each: 'nope' })], {
      status: 400,
      like: { path: '$.args[1].for_each', error: /no earlier step/ },
    }),
    bulk([ORDER, counted('item', {}, { for_each: 5 })], { status: 400, like: { path: '$.args[1].for_each' } }),
  ],
  'each.nested': [
    CLEAN,
    bulk(
      [
        ALL,
        member(
          'bulk',
          [
            member(
              'insert',
              { table: 'orders', objects: [{ customer_id: { $ref: 'each.id' } }], returning: ['id'] },
              { as: 'order' },
            ),
            items('kite'),
          ],
          { as: 'made', for_each: 'all' },
        ),
        counted('item', { order_id: { $ref: 'made[1][0].returning[0].id' } }),
      ],
      like([
        {},
        [
          [{}, {}],
          [{}, {}],
        ],
        { count: 1 },
      ]),
    ),
    count('item', 2),
  ],
  'template.call': [
    CLEAN,
    template('items', 'count', { table: 'item', where: { order_id: { param: 'order' } } }),
    bulk(
      [ORDER, items('a', 'b'), run('items', { order: ID }, { expect: { rows: 2 } })],
      like([{}, {}, { count: 2 }]),
      USER,
    ),
    bulk([ORDER, run('items', { order: { $ref: 'order.x' } })], {
      status: 400,
      like: { path: '$.args[1].args.args.order', error: /has no "x"/ },
    }),
    bulk([ORDER, run('items', { order: { $ref: 'order.returning' } })], {
      status: 400,
      like: { path: '$.args[1].args.args.order', error: /expecting a value for type int4, but found array/ },
    }),
    ...(
      [
        [null, '.args'],
        [{ name: 'items' }, '.args'],
        [{ name: 'items', args: null }, '.args.args'],
        [{ name: 5, args: {} }, '.args.name'],
        [{ name: 'items', args: {}, more: 1 }, '.args.more'],
      ] as const
    ).map(([args, path]) =>
      bulk([member('execute_query_template', args, { as: 'x' })], { status: 400, like: { path: `$.args[0]${path}` } }),
    ),
    bulk([run('items', { order: 1 }, { as: 'x', version: 2 })], { status: 400, like: { path: '$.args[0].version' } }),
  ],
  'template.arguments': [
    ...(
      [
        ['meta', [{ meta: { param: 'meta' } }]],
        ['rows', { param: 'rows' }],
        ['fallback', [{ meta: { param: 'none', default: SECRET } }]],
      ] as const
    ).map(([name, objects]) => {
      const insert = member('insert', { table: 'orders', objects, returning: ['meta'] })
      return template(name, 'bulk', [
        member('select', { table: 'customer', columns: ['email'], where: { id: 2 } }, { as: 'secret' }),
        member('bulk', [insert]),
        insert,
      ])
    }),
    ...(
      [
        ['meta', { meta: SECRET }],
        ['rows', { rows: [{ meta: SECRET }] }],
        ['fallback', {}],
      ] as const
    ).map(([name, args]): Step => ({
      path: `/v1/template/${name}`,
      method: 'POST',
      body: JSON.stringify(args),
      expected: like(storedTwice(SECRET)),
    })),
    bulk(
      [ORDER, run('meta', { meta: { a: SECRET } }), run('rows', { rows: [{ meta: SECRET }] })],
      like([{}, storedTwice({ a: SECRET }), storedTwice(SECRET)]),
    ),
    ...[KEPT, member('bulk', [KEPT])].map((use, i) =>
      bulk(
        [
          member(
            'insert',
            { table: 'orders', objects: [{ meta: { kept: SECRET } }], returning: ['meta'] },
            { as: 'secret' },
          ),
          use,
        ],
        like([{}, i === 0 ? storedTwice(SECRET) : [storedTwice(SECRET)]]),
      ),
    ),
    template('json', 'insert', { table: 'orders', objects: [{ meta: { $ref: '#/a' } }], returning: ['meta'] }),
    ...[[run('json', {})], [ORDER, run('json', {})]].map((members) =>
      bulk(members, like([...members.slice(1).map(() => ({})), { returning: [{ meta: { $ref: '#/a' } }] }])),
    ),
    template('found', 'bulk', [
      member('select', { table: 'item', columns: ['id'], where: { order_id: { param: 'order' } } }, { as: 'all' }),
      counted('item', { id: { $in: { $ref: 'all[*].id' } } }),
    ]),
    bulk([ORDER, items('a', 'b'), run('found', { order: ID }, { as: 'f' })], like([{}, {}, [{}, { count: 2 }]]), USER),
    bulk(
      [
        member('insert', { table: 'orders', objects: [{ note: 'a' }, { note: 'b' }], returning: ['id'] }, { as: 'o' }),
        run('found', { order: { $ref: 'each.id' } }, { for_each: 'o.returning' }),
      ],
      like([
        {},
        [
          [[], { count: 0 }],
          [[], { count: 0 }],
        ],
      ]),
      USER,
    ),
    ...['secret', 'all'].map((name) =>
      bulk([ORDER, run(name === 'all' ? 'found' : 'items', { order: { $ref: `${name}[0].id` } })], {
        status: 400,
        like: { path: '$.args[1].args.args.order', error: `no earlier step has the name "${name}"` },
      }),
    ),
  ],
  'template.steps': [
    template('buy', 'bulk', [
      member(
        'insert',
        { table: 'orders', objects: [{ customer_id: { param: 'customer' } }], returning: ['id'] },
        { as: 'order' },
      ),
      member(
        'insert',
        { table: 'item', objects: [{ order_id: ID, sku: { param: 'sku' } }] },
        { expect: { affected: 1 } },
      ),
    ]),
    {
      path: '/v1/template/buy',
      method: 'POST',
      body: '{"customer": 1, "sku": "bought"}',
      expected: like([{ affected_rows: 1 }, { affected_rows: 1 }]),
    },
    count('item', 1, { sku: 'bought', order: { customer_id: 1 } }),
    { path: '/v1/openapi.json', method: 'GET', expected: like({ paths: { '/v1/template/buy': { post: {} } } }) },
    query(
      'create_query_template',
      { name: 'wrong', template: { type: 'bulk', args: [ORDER, counted('item', { sku: ID })] } },
      { status: 400, like: { path: '$.args.template.args[1].args.where.sku', error: /type text, but found int32/ } },
    ),
  ],
}

/** Its promises, with a case for each. */
export const steps = area('steps', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/steps.md': {
      'Steps of a bulk': {
        '`as`': ['as.value', 'as.name'],
        '`expect`': ['expect.affected', 'expect.rows', 'expect.exists', 'expect.must-have'],
        '`for_each`': ['each.runs', 'each.limit'],
      },
    },
  },
  start: shop,
})

/** Starts a server with customers, orders and their items. */
export async function shop(t: Test) {
  const server = await testServer(t)
  await server.sql(`${SQL}
    create function numbers(n int) returns setof int language sql immutable as 'select generate_series(1, n)'`)
  const permit = (type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role: 'user', permission },
  })
  const relate = (table: string, name: string, column: string) => ({
    type: 'create_object_relationship',
    args: { table, name, using: { foreign_key_constraint_on: column } },
  })
  await server.must('bulk', [
    ...['customer', 'orders', 'item', 'stock', 'node', 'long', 'deep'].map((args) => ({ type: 'track_table', args })),
    { type: 'track_function', args: 'numbers' },
    relate('orders', 'customer', 'customer_id'),
    relate('item', 'order', 'order_id'),
    permit('select', 'customer', { columns: ['id', 'email'], filter: { user_id: 'X-SERVICE-USER-ID' } }),
    ...['orders', 'item'].flatMap((table) => [
      permit('insert', table, { check: {} }),
      permit('select', table, { columns: '*', filter: {} }),
    ]),
  ])
  return server
}
