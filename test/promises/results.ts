import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** What the results of reads promise: distinct rows, counts, pages, numbers, and the forms of a response. */
const PROMISES = {
  'distinct.first': 'distinct_on returns the first row of each combination in the order of the select',
  'distinct.must-come-first': 'the columns of distinct_on must come first in order_by',
  'distinct.unordered': 'distinct_on without an order returns one row of each value',
  'distinct.relationship': 'a relationship to many rows takes distinct_on',
  'distinct.wrong': 'a distinct_on without columns, of unknown or json columns, or of groups is refused',
  'count.all': 'count counts the rows',
  'count.where': 'count counts the rows that meet a condition',
  'count.distinct': 'count with distinct counts combinations, null included',
  'count.role': 'a role counts the rows that it may select, however low its limit',
  'page.first': 'an empty after is the first page',
  'page.next': 'after returns the rows behind the given one, and adds the primary key to the order',
  'page.all': 'pages have every row once, in the order, also with nulls and mixed directions',
  'page.exact': 'the exact values of the last row continue a page',
  'page.changes': 'a page neither repeats nor skips rows when others are deleted or inserted',
  'page.role': 'a role continues within its rows and columns',
  'page.view': 'a view has no key, so after is refused',
  'page.wrong': 'an after with a missing, an unknown or a wrong value is refused with its path',
  'page.place': 'after is refused in relationships, with groups, aggregates and distinct_on',
  'format.json': 'small results have a length, large ones are streamed; both have every row',
  'format.ndjson': 'application/x-ndjson returns one row per line',
  'format.csv': 'text/csv returns a header line and rows, with the quotes of RFC 4180',
  'format.csv-null': 'in CSV null is empty and the empty string is ""',
  'format.csv-nested': 'nested values in CSV are JSON',
  'format.csv-empty': 'CSV without rows is the header line',
  'format.not-acceptable': 'only lists of rows have other forms than JSON',
  'numbers.digits': 'numbers keep their digits',
} as const

const SQL = `
create table kind (id int primary key, name text not null);
create table thing (
  id int primary key, name text, n int, m int, big bigint, num numeric, raw json, data jsonb, kind_id int references kind
);
insert into kind values (1, 'small'), (2, 'large');
insert into thing values
  (1, 'Ann', 1, 1, 9007199254740993, 1.10, '{"b" : 1, "b":2}', '{"a": [1]}', 1),
  (2, 'ben', 2, 1, -9223372036854775808, 20, null, 'null', 2),
  (3, '', null, 3, 3, 0.30000000000000000001, null, '"x"', null),
  (4, 'a "b",' || chr(10) || 'c', 2, 3, null, null, null, null, 2);
create view seen as select id, name from thing;
create table many (id int primary key, t text); insert into many select i, 'row ' || i from generate_series(1, 1500) i;
create table page (id int primary key, kind text, price numeric, weight int, added timestamptz, hidden int default 5);
insert into page select i, nullif(chr(97 + i % 3), 'c'), nullif(i % 4, 0) + 0.10, nullif(i % 5, 0),
  '2024-01-01T00:00:00.000001Z'::timestamptz + i % 7 * interval '1 microsecond' from generate_series(1, 23) i;`

const USER: As = { role: 'user' }

const select = (args: object, expected: Expected, as?: As): Step =>
  query('select', { table: 'thing', columns: ['id'], ...args }, expected, as)
const ids = (...all: number[]): Expected => exactly(all.map((id) => ({ id })))
const page = (args: object, expected: Expected, as?: As): Step => select({ table: 'page', ...args }, expected, as)
const wrongPage = (args: object, path: string, code = 'unexpected-payload'): Step =>
  page({ order_by: ['kind'], ...args }, refused(code, /./, path))
/** A query whose response has another form. */
const sent = (accept: string, type: string, args: object, expected: Expected): Step => ({
  ...query(type, args, expected),
  headers: { accept },
})
const csv = (args: object, exact: string): Step => sent('text/csv', 'select', { table: 'thing', ...args }, text(exact))

type Row = Readonly<Record<string, unknown>>

/** All rows, page by page. */
async function walk(server: TestServer, args: object, limit: number, as?: As): Promise<Row[]> {
  const all: Row[] = []
  for (let after: Row = {}; all.length < 100;) {
    const { body, text } = await server.query('select', { table: 'page', ...args, after, limit }, as)
    if (!Array.isArray(body)) throw new Error(text)
    all.push(...(body as Row[]))
    if (body.length < limit) break
    after = body.at(-1) as Row
  }
  return all
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'distinct.first': [
    select(
      { columns: ['m', 'id'], distinct_on: ['m'], order_by: ['m', '-id'] },
      exactly([
        { m: 1, id: 2 },
        { m: 3, id: 4 },
      ]),
    ),
    select({ distinct_on: ['m'], order_by: ['-m', 'id'], limit: 1 }, ids(3)),
    select({ distinct_on: ['m', 'n'], order_by: ['m', 'n', 'id'] }, ids(1, 2, 4, 3)),
  ],
  'distinct.must-come-first': [
    select({ distinct_on: ['m'], order_by: ['id', 'm'] }, refused('unexpected-payload', /first/, '$.args.distinct_on')),
  ],
  'distinct.unordered': async (t, server) => {
    const rows: { m: number }[] = await server.must('select', { table: 'thing', columns: ['m'], distinct_on: ['m'] })
    t.strictSame(rows.map(({ m }) => m).toSorted(), [1, 3])
    t.strictSame(await server.must('select', { table: 'thing', columns: [], distinct_on: ['m'] }), [{}, {}])
  },
  'distinct.relationship': [
    query(
      'select',
      {
        table: 'kind',
        columns: [{ name: 'things', columns: ['n'], distinct_on: ['n'], order_by: ['n'] }],
        where: { id: 2 },
      },
      exactly([{ things: [{ n: 2 }] }]),
    ),
  ],
  'distinct.wrong': [
    select({ distinct_on: [] }, refused('unexpected-payload', /./, '$.args.distinct_on')),
    select({ distinct_on: 'm' }, refused('parse-failed', /./, '$.args.distinct_on')),
    select({ distinct_on: ['nope'] }, refused('not-exists', /"nope"/, '$.args.distinct_on[0]')),
    select({ distinct_on: ['raw'] }, refused('unexpected-payload', /json/i, '$.args.distinct_on[0]')),
    select({ columns: [{ count: '*' }], distinct_on: ['m'] }, refused('unexpected-payload', /./, '$.args.distinct_on')),
    select(
      { columns: [{ name: 'kind', columns: ['id'], distinct_on: ['id'] }] },
      refused('unexpected-payload', /./, '$.args.columns[0]'),
    ),
  ],
  'count.all': [query('count', { table: 'thing' }, text('{"count":4}'))],
  'count.where': [
    query('count', { table: 'thing', where: { n: 2 } }, exactly({ count: 2 })),
    query('count', { table: 'thing', where: { kind: { name: 'small' } } }, exactly({ count: 1 })),
    query('count', { table: 'thing', where: { id: 99 } }, exactly({ count: 0 })),
  ],
  'count.distinct': [
    query('count', { table: 'thing', distinct: ['m'] }, exactly({ count: 2 })),
    query('count', { table: 'thing', distinct: ['n'] }, exactly({ count: 3 })),
    query('count', { table: 'thing', distinct: ['m', 'kind_id'] }, exactly({ count: 4 })),
    query('count', { table: 'thing', distinct: ['m'], where: { id: { $lt: 3 } } }, exactly({ count: 1 })),
    query('count', { table: 'thing', distinct: ['raw'] }, refused('unexpected-payload', /json/i, '$.args.distinct[0]')),
    query('count', { table: 'thing', distinct: ['nope'] }, refused('not-exists', /"nope"/, '$.args.distinct[0]')),
  ],
  'count.role': [
    query('count', { table: 'page' }, exactly({ count: 5 }), USER),
    query('count', { table: 'page', where: { id: { $gt: 4 } } }, exactly({ count: 1 }), USER),
  ],
  'page.first': [
    page({ after: {}, limit: 2 }, ids(1, 2)),
    page({ after: {}, order_by: ['-id'], limit: 2 }, ids(23, 22)),
  ],
  'page.next': [
    page({ after: { id: 2 }, limit: 2 }, ids(3, 4)),
    page({ after: { id: 22 }, limit: 2 }, ids(23)),
    page({ after: { id: 22 }, order_by: ['-id'], limit: 2 }, ids(21, 20)),
    page({ after: { kind: 'a', id: 3 }, order_by: ['kind'], limit: 2 }, ids(6, 9)),
    page({ after: { kind: 'a', id: 21 }, order_by: ['kind'], limit: 2 }, ids(1, 4)),
    page({ after: { kind: null, id: 20 }, order_by: ['kind'] }, ids(23)),
    page({ after: { kind: 'a', id: 3 }, order_by: ['kind'], where: { weight: 1 } }, ids(6, 21, 1, 16, 11)),
    page({ after: { id: 3 }, limit: 2, offset: 1 }, ids(5, 6)),
  ],
  'page.all': async (t, server) => {
    const by = (column: string, type: string, nulls?: string) => ({ column, type, ...(nulls ? { nulls } : {}) })
    for (const order of [
      [by('weight', 'asc')],
      [by('weight', 'desc')],
      [by('weight', 'asc', 'first'), by('kind', 'desc')],
      [by('kind', 'desc', 'last'), by('weight', 'asc'), by('price', 'desc', 'first')],
    ]) {
      const columns = [...order.map(({ column }) => column), 'id']
      const whole: unknown = await server.must('select', { table: 'page', columns, order_by: [...order, 'id'] })

      t.strictSame(await walk(server, { columns, order_by: order }, 9), whole, JSON.stringify(order))
    }
  },
  'page.exact': async (t, server) => {
    for (const column of ['added', 'price']) {
      const columns = [column, 'id']
      const rows = await walk(server, { columns, order_by: [column] }, 6)
      t.strictSame(rows, await server.must('select', { table: 'page', columns, order_by: [column, 'id'] }), column)
    }
  },
  'page.changes': async (t, server) => {
    const args = { table: 'page', columns: ['kind', 'id'], order_by: ['kind'], limit: 2 }
    const first: Row[] = await server.must('select', { ...args, after: {} })
    await server.must('insert', { table: 'page', objects: [{ id: -1, kind: 'a' }] })
    await server.must('delete', { table: 'page', where: { id: { $in: [3, -1] } } })
    const second: Row[] = await server.must('select', { ...args, after: first[1] })
    await server.must('insert', { table: 'page', objects: [{ id: 3, kind: 'a', price: 3.1, weight: 3 }] })

    t.strictSame(
      [...first, ...second].map(({ id }) => id),
      [3, 6, 9, 12],
    )
  },
  'page.role': async (t, server) => {
    const rows = await walk(server, { columns: ['kind', 'id'], order_by: ['-kind'] }, 2, USER)
    t.strictSame(
      rows.map(({ id }) => id),
      [2, 5, 1, 4, 3],
    )
    for (const [as, args, path] of [
      [USER, { order_by: ['hidden'], after: { hidden: 5, id: 1 } }, '$.args.order_by[0]'],
      [{ role: 'keyless' }, { order_by: ['kind'], after: {} }, '$.args.after'],
    ] as const) {
      const { status, body } = await server.query('select', { table: 'page', columns: ['kind'], ...args }, as)
      t.match({ status, ...body }, { status: 400, path })
      t.notMatch(body.error, /"id"/)
    }
  },
  'page.view': [
    query('select', { table: 'seen', columns: ['id'], after: {} }, refused('unexpected-payload', /./, '$.args.after')),
  ],
  'page.wrong': [
    wrongPage({ after: { id: 1 } }, '$.args.after'),
    wrongPage({ after: { kind: 'a' } }, '$.args.after'),
    wrongPage({ after: { kind: 'a', id: 1, price: 2 } }, '$.args.after.price'),
    wrongPage({ after: { kind: 'a', id: 'x' } }, '$.args.after.id', 'postgres-error'),
    wrongPage({ after: { kind: 'a', id: { $gt: 1 } } }, '$.args.after.id', 'parse-failed'),
    wrongPage({ after: 5 }, '$.args.after', 'parse-failed'),
    wrongPage({ after: ['a', 1] }, '$.args.after', 'parse-failed'),
  ],
  'page.place': [
    select(
      { columns: [{ name: 'kind', columns: ['id'], after: {} }] },
      refused('unexpected-payload', /./, '$.args.columns[0].after'),
    ),
    select({ columns: [{ count: '*' }], after: {} }, refused('unexpected-payload', /./, '$.args.after')),
    select({ columns: ['n'], group_by: ['n'], after: {} }, refused('unexpected-payload', /./, '$.args.after')),
    select({ distinct_on: ['n'], order_by: ['n'], after: {} }, refused('unexpected-payload', /./, '$.args.after')),
    select({ order_by: ['kind.name'], after: {} }, refused('unexpected-payload', /./, '$.args.order_by[0]')),
  ],
  'format.json': async (t, server) => {
    const rows = (count: number) => Array.from({ length: count }, (_, i) => ({ id: i + 1, t: `row ${i + 1}` }))
    for (const [limit, isStreamed] of [
      [1000, false],
      [1001, true],
      [undefined, true],
    ] as const) {
      const args = { table: 'many', columns: ['id', 't'], order_by: 'id', limit }
      const { status, body, headers } = await server.query('select', args)
      t.equal(status, 200)
      t.strictSame(body, rows(limit ?? 1500))
      t.equal(headers.get('content-length') === null, isStreamed, String(limit))
    }
  },
  'format.ndjson': [
    sent(
      'application/x-ndjson',
      'select',
      { table: 'thing', columns: ['id', 'name'], order_by: 'id', limit: 2 },
      {
        status: 200,
        text: '{"id":1,"name":"Ann"}\n{"id":2,"name":"ben"}\n',
        headers: { 'content-type': /^application\/x-ndjson/ },
      },
    ),
    sent('application/x-ndjson', 'select', { table: 'thing', columns: ['id'], where: { id: 0 } }, text('')),
    sent('application/x-ndjson', 'select', { table: 'thing', columns: ['nope'] }, refused('not-exists', /"nope"/)),
  ],
  'format.csv': [
    sent(
      'text/csv',
      'select',
      { table: 'thing', columns: ['id', 'name'], order_by: 'id' },
      {
        status: 200,
        text: 'id,name\r\n1,Ann\r\n2,ben\r\n3,""\r\n4,"a ""b"",\nc"\r\n',
        headers: { 'content-type': /^text\/csv/ },
      },
    ),
    csv({ columns: ['name', 'id'], order_by: '-id', limit: 1, offset: 2 }, 'name,id\r\nben,2\r\n'),
  ],
  'format.csv-null': [
    csv(
      { columns: ['n', 'name', 'num'], where: { id: { $gt: 2 } }, order_by: 'id' },
      'n,name,num\r\n,"",0.30000000000000000001\r\n2,"a ""b"",\nc",\r\n',
    ),
  ],
  'format.csv-nested': [
    csv(
      { columns: ['raw', 'data', { name: 'kind', columns: ['name'] }], order_by: 'id' },
      [
        'raw,data,kind',
        '"{""b"" : 1, ""b"":2}","{""a"": [1]}","{""name"":""small""}"',
        ',null,"{""name"":""large""}"',
        ',"""x""",',
        ',,"{""name"":""large""}"',
        '',
      ].join('\r\n'),
    ),
  ],
  'format.csv-empty': [csv({ columns: ['id', 'name'], where: { id: 0 } }, 'id,name\r\n')],
  'format.not-acceptable': [
    sent('text/csv', 'count', { table: 'thing' }, refused('not-acceptable', /./, undefined, 406)),
    sent('text/csv', 'delete', { table: 'thing', where: { id: 0 } }, refused('not-acceptable', /./, undefined, 406)),
    sent('*/*', 'count', { table: 'thing' }, exactly({ count: 4 })),
  ],
  'numbers.digits': [
    select(
      { columns: ['big', 'num'], where: { big: { $is_null: false } }, order_by: 'id' },
      text(
        '[{"big":9007199254740993,"num":1.10},{"big":-9223372036854775808,"num":20},{"big":3,"num":0.30000000000000000001}]',
      ),
    ),
    ...(
      [
        ['"big":9007199254740993', 1],
        ['"big":9007199254740992', 0],
        ['"num":{"$in":[0.30000000000000000001]}', 1],
        ['"num":{"$in":[0.3]}', 0],
      ] as const
    ).map(([where, count]): Step => ({
      path: '/v1/query',
      method: 'POST',
      body: `{"type":"count","args":{"table":"thing","where":{${where}}}}`,
      expected: exactly({ count }),
    })),
  ],
}

/** Its promises, with a case for each. */
export const results = area('results', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/README.md': {
      Operations: {
        '`count`': ['count.all', 'count.distinct'],
      },
    },
    'plugins/query/rows.md': {
      Select: {
        'These columns must come first in `order_by`.': ['distinct.first', 'distinct.must-come-first'],
      },
      'Large results': {
        '`application/json`': 'format.json',
        '`application/x-ndjson`': 'format.ndjson',
        '`text/csv`': ['format.csv', 'format.csv-null', 'format.csv-nested'],
      },
    },
  },
  start,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const permit = (role: string, columns: readonly string[], more: object = {}) => ({
    type: 'create_select_permission',
    args: { table: 'page', role, permission: { columns, filter: {}, ...more } },
  })
  const many = { foreign_key_constraint_on: { table: 'thing', column: 'kind_id' } }
  await server.must('bulk', [
    ...['kind', 'thing', 'seen', 'many', 'page'].map((args) => ({ type: 'track_table', args })),
    {
      type: 'create_object_relationship',
      args: { table: 'thing', name: 'kind', using: { foreign_key_constraint_on: 'kind_id' } },
    },
    { type: 'create_array_relationship', args: { table: 'kind', name: 'things', using: many } },
    permit('user', ['id', 'kind'], { filter: { id: { $lt: 6 } }, limit: 3 }),
    permit('keyless', ['kind']),
  ])
  return server
}
