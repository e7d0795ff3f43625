import type { Test } from 'tap'
import { area, type Case, exactly, type Expected, like, query, refused, type Step, text } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What a select promises: requests, tables, columns, relationships, order and pages. */
const PROMISES = {
  'query.unknown-type': 'an unknown type is refused with its path',
  'query.missing-args': 'a query without args is refused',
  'query.not-json': 'a body that is not JSON is refused as such',
  'query.not-object': 'a body that is not an object is refused',
  'query.unknown-key': 'an unknown key is refused with its path, so that a typing mistake is noticed',
  'query.error': 'an error has a path, a message and a code, and is JSON',
  'query.duplicate-key': 'a duplicate key is refused with its path',
  'query.headers': 'a response is JSON in UTF-8 that no cache stores',
  'query.dry-run': 'a dry run answers like the query and changes nothing',
  'table.missing-key': 'a missing table, a missing list of columns and a table of another type are refused',
  'table.schema': 'a name is a table in public, an object one of any schema',
  'table.unknown': 'an unknown table does not exist',
  'table.untracked': 'a table that is not tracked is refused with what to do about it',
  'table.odd-names': 'tables, columns and aliases may have any name, also with blanks, quotes and capitals',
  'table.view': 'a view is selected like a table',
  'names.suggested': 'an error suggests the name that was probably meant',
  'names.suggested-role': 'a role gets only suggestions that it may use',
  'select.columns': 'columns come in the order requested',
  'select.every-time': 'the same query with other values returns other rows',
  'select.no-columns': 'an empty list of columns returns empty objects',
  'select.star': '"*" is every column, and of a role those that it may select',
  'select.star-star': '"*.*" adds every relationship, of a role those that it may read',
  'select.deeper-star': 'each further ".*" goes one level deeper, and the deepest one counts',
  'select.named-beside-star': 'an explicit entry overrides what a wildcard selects',
  'select.column-twice': 'a key can be in the result once',
  'select.unknown-column': 'an unknown column is refused with its path',
  'select.alias': 'an alias is the key of the result',
  'select.object-relationship': 'an object relationship is an object, or null without a related row',
  'select.object-relationship-where': 'an object relationship takes no where, order_by, limit or offset',
  'select.array-relationship': 'an array relationship is an array, with where, order_by, limit and offset of its own',
  'select.deep-relationship': 'relationships are selected at any depth',
  'select.limit-offset': 'limit and offset cut a page',
  'select.limit-zero': 'a limit of 0 returns no rows',
  'select.wrong-limit': 'a limit or offset that is negative or no whole number is refused',
  'select.empty': 'no rows are an empty array',
  'order.plus': '"+column" ascends, with null last',
  'order.minus': '"-column" descends, with null first',
  'order.plain': '"column" ascends',
  'order.several': 'further columns order rows with equal values',
  'order.relationship': 'order_by goes through object relationships',
  'order.object': '{column, type, nulls} orders, and puts null first or last',
  'order.object-older-key': '"order" is another name of "type"',
  'order.empty': 'an empty order_by is refused',
  'order.wrong': 'an unknown column, direction or place of null is refused with its path',
  'order.array-relationship': 'order_by does not go through an array relationship',
  'order.json': 'a json column orders nothing',
  'role.no-table': 'a role without select permission can neither select nor count, and cannot tell a table from none',
  'role.columns': 'a role cannot tell a hidden column from none: in columns, order_by, distinct_on, count and after',
  'role.relationship': 'a role cannot select a relationship to a table that it may not select from',
} as const

const SQL = `
create schema other;
create table kind (id int primary key, name text not null, secret text not null default 'hush');
create table maker (id int primary key, name text);
create table thing (
  id int primary key, name text, n int, m int, big bigint, num numeric, made timestamptz, raw json, data jsonb,
  kind_id int references kind, maker_id int references maker
);
insert into kind values (1, 'small'), (2, 'large'), (3, 'none');
insert into maker values (1, 'Zoe');
insert into thing values
  (1, 'Ann', 1, 1, 9007199254740993, 1.10, '2024-01-02T03:04:05.123456Z', '{"b" : 1, "b":2}', '{"a": [1]}', 1, 1),
  (2, 'ben', 2, 1, -9223372036854775808, 20, '2024-01-01', null, 'null', 2, null),
  (3, '', null, 3, 3, 0.30000000000000000001, null, '"x"', null, null, null),
  (4, 'a "b",' || chr(10) || 'c', 2, 3, null, null, null, null, '"t"', 2, 1);
create table "Odd ""table""" ("The id" int primary key, "a""b\\c" text, "select" text, "ä'" int);
insert into "Odd ""table""" values (1, 'x', 'y', 5);
create table other.thing (id int primary key); insert into other.thing values (77);
create view seen as select id, name from thing where id < 3;
create table company (id int primary key);`

const USER: As = { role: 'user' }
const GUEST: As = { role: 'guest' }

const select = (args: object, expected: Expected, as?: As): Step =>
  query('select', { table: 'thing', columns: ['id'], ...args }, expected, as)
const ids = (...all: number[]): Expected => exactly(all.map((id) => ({ id })))
const ordered = (order_by: unknown, ...all: number[]): Step => select({ order_by }, ids(...all))
const raw = (body: string, expected: Expected): Step => ({ path: '/v1/query', method: 'POST', body, expected })
/** All of the text of an error, that nothing about hidden names gets into it. */
const denied = (error: string, path: string): Expected => ({
  status: 400,
  body: { path, error, code: 'permission-denied' },
})
const noColumn = (name: string, path: string) =>
  denied(`role "user" does not have permission to select column "${name}"`, path)

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'query.unknown-type': [query('nope', {}, refused('parse-failed', 'unknown type "nope"', '$.type'))],
  'query.missing-args': [query('select', undefined, refused('parse-failed', "the key 'args' was not present", '$'))],
  'query.not-json': [
    raw('{', refused('invalid-json', /invalid json/i, '$')),
    raw('', refused('invalid-json', /invalid json/i, '$')),
  ],
  'query.not-object': [raw('[]', refused('parse-failed', /object/, '$')), raw('5', refused('parse-failed', /./, '$'))],
  'query.unknown-key': [
    select({ wehre: {} }, refused('unexpected-payload', /^unexpected key "wehre"/, '$.args.wehre')),
    raw('{"type":"count","args":{"table":"kind"},"arg":1}', refused('unexpected-payload', /unexpected key "arg"/)),
    query('count', { table: 'kind', columns: [] }, refused('unexpected-payload', /"columns"/, '$.args.columns')),
  ],
  'query.error': [
    query(
      'count',
      { table: 'nope' },
      {
        status: 400,
        body: { path: '$.args.table', error: 'table "nope" does not exist', code: 'not-exists' },
        headers: { 'content-type': /^application\/json/ },
      },
    ),
  ],
  'query.duplicate-key': [
    raw(
      '{"type":"count","args":{"table":"thing","table":"kind"}}',
      refused('parse-failed', /duplicate key/, '$.args.table'),
    ),
  ],
  'query.headers': [
    select(
      {},
      { status: 200, headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': /no-store/ } },
    ),
  ],
  'query.dry-run': [
    raw(
      '{"type":"delete","args":{"table":"kind","where":{"id":3},"returning":["name"]},"dry_run":true}',
      exactly({ affected_rows: 1, returning: [{ name: 'none' }] }),
    ),
    query('count', { table: 'kind' }, exactly({ count: 3 })),
    raw('{"type":"reload_metadata","args":{},"dry_run":true}', refused('not-supported', /./)),
    raw('{"type":"count","args":{"table":"kind"},"dry_run":1}', refused('parse-failed', /./, '$.dry_run')),
  ],
  'table.missing-key': [
    query('select', { columns: [] }, refused('parse-failed', "the key 'table' was not present", '$.args')),
    query('select', { table: 'kind' }, refused('parse-failed', "the key 'columns' was not present", '$.args')),
    query('select', { table: 5, columns: [] }, refused('parse-failed', /./, '$.args.table')),
    query('select', { table: 'kind', columns: 'id' }, refused('parse-failed', /./, '$.args.columns')),
  ],
  'table.schema': [
    query('select', { table: { schema: 'other', name: 'thing' }, columns: ['id'] }, ids(77)),
    query('select', { table: { schema: 'public', name: 'kind' }, columns: ['id'], where: { id: 1 } }, ids(1)),
    query('count', { table: { name: 'kind' } }, exactly({ count: 3 })),
  ],
  'table.unknown': [
    query(
      'select',
      { table: 'nope', columns: [] },
      refused('not-exists', 'table "nope" does not exist', '$.args.table'),
    ),
    query(
      'count',
      { table: { schema: 'other', name: 'kind' } },
      refused('not-exists', /^table "other.kind" does not exist/),
    ),
  ],
  'table.untracked': [
    query(
      'count',
      { table: 'company' },
      refused('not-exists', 'table "company" exists but is not tracked; rowhouse track company', '$.args.table'),
    ),
  ],
  'table.odd-names': [
    query(
      'select',
      {
        table: 'Odd "table"',
        columns: ['The id', 'a"b\\c', 'select', "ä'"],
        where: { 'a"b\\c': 'x', "ä'": { $gt: 4 }, select: { $in: ['y'] } },
        order_by: ['-The id', '-select'],
      },
      exactly([{ 'The id': 1, 'a"b\\c': 'x', select: 'y', "ä'": 5 }]),
    ),
    query(
      'update',
      { table: 'Odd "table"', where: { 'The id': 1 }, $set: { 'a"b\\c': `q'"\\` }, returning: ['a"b\\c'] },
      exactly({ affected_rows: 1, returning: [{ 'a"b\\c': `q'"\\` }] }),
    ),
    select(
      { columns: [{ name: 'kind', alias: `"x'\\`, columns: ['id'] }], where: { id: 1 } },
      exactly([{ [`"x'\\`]: { id: 1 } }]),
    ),
  ],
  'table.view': [
    query('select', { table: 'seen', columns: ['*'], where: { id: 2 } }, exactly([{ id: 2, name: 'ben' }])),
  ],
  'names.suggested': [
    query('selct', {}, refused('parse-failed', 'unknown type "selct", did you mean "select"?')),
    select({ table: 'thng' }, refused('not-exists', 'table "thng" does not exist, did you mean "thing"?')),
    select({ columns: ['nmae'] }, refused('not-exists', '"nmae" does not exist, did you mean "name"?')),
    select({ order_by: 'nmae' }, refused('not-exists', 'column "nmae" does not exist, did you mean "name"?')),
    select({ wher: {} }, refused('unexpected-payload', 'unexpected key "wher", did you mean "where"?')),
    select(
      { where: { name: { $lik: 'x' } } },
      refused('unexpected-payload', 'unknown operator "$lik", did you mean "$like"?'),
    ),
    select(
      { where: { name: { _lik: 'x' } } },
      refused('unexpected-payload', 'unknown operator "_lik", did you mean "_like"?'),
    ),
    select({ table: 'x'.repeat(100_000) }, refused('not-exists', /^table "x+\.\.\.$/)),
  ],
  'names.suggested-role': [
    select(
      { columns: ['nmae'] },
      denied('role "user" does not have permission to select column "nmae", did you mean "name"?', '$.args.columns[0]'),
      USER,
    ),
    select({ columns: ['kind_idd'] }, noColumn('kind_idd', '$.args.columns[0]'), USER),
    select({ table: 'thng' }, refused('permission-denied', /is not allowed, did you mean "thing"\?$/), USER),
    query('run_sq', {}, refused('parse-failed', 'unknown type "run_sq"'), USER),
  ],
  'select.columns': [
    select({ columns: ['name', 'id', 'm'], where: { id: 1 } }, exactly([{ name: 'Ann', id: 1, m: 1 }])),
  ],
  'select.every-time': [1, 2, 3, 1].flatMap((id) => [
    select({ where: { id } }, ids(id)),
    select({ where: { id } }, id === 1 ? ids(1) : ids(), USER),
    select({ limit: id, order_by: 'id' }, ids(...[1, 2, 3].slice(0, id))),
  ]),
  'select.no-columns': [query('select', { table: 'maker', columns: [] }, exactly([{}]))],
  'select.star': [
    query(
      'select',
      { table: 'kind', columns: ['*'], where: { id: 1 } },
      exactly([{ id: 1, name: 'small', secret: 'hush' }]),
    ),
    query('select', { table: 'kind', columns: ['*'], where: { id: 1 } }, exactly([{ id: 1, name: 'small' }]), USER),
  ],
  'select.star-star': [
    query(
      'select',
      { table: 'maker', columns: ['*.*'] },
      like([{ id: 1, name: 'Zoe', things: [{ id: 1, name: 'Ann', kind_id: 1 }, { id: 4 }] }]),
    ),
    query(
      'select',
      { table: 'kind', columns: ['*.*'], order_by: 'id', limit: 2 },
      exactly([
        { id: 1, name: 'small', things: [{ id: 1, name: 'Ann', n: 1 }] },
        { id: 2, name: 'large', things: [] },
      ]),
      USER,
    ),
  ],
  'select.deeper-star': [
    query(
      'select',
      { table: 'kind', columns: ['*', '*.*.*'], where: { id: 1 } },
      exactly([{ id: 1, name: 'small', things: [{ id: 1, name: 'Ann', n: 1, kind: { id: 1, name: 'small' } }] }]),
      USER,
    ),
  ],
  'select.named-beside-star': [
    query(
      'select',
      { table: 'kind', columns: ['*.*', { name: 'things', columns: ['id'] }], where: { id: 1 } },
      exactly([{ id: 1, name: 'small', secret: 'hush', things: [{ id: 1 }] }]),
    ),
  ],
  'select.column-twice': [
    select({ columns: ['id', 'id'] }, refused('unexpected-payload', /twice/, '$.args.columns[1]')),
    select(
      { columns: ['id', { name: 'kind', alias: 'id', columns: ['id'] }] },
      refused('unexpected-payload', /twice/, '$.args.columns[1]'),
    ),
  ],
  'select.unknown-column': [
    select({ columns: ['id', 'nope'] }, refused('not-exists', '"nope" does not exist', '$.args.columns[1]')),
    select(
      { columns: [{ name: 'nope', columns: [] }] },
      refused('not-exists', '"nope" does not exist', '$.args.columns[0]'),
    ),
    select(
      { columns: [{ name: 'kind', columns: ['nope'] }] },
      refused('not-exists', /"nope"/, '$.args.columns[0].columns[0]'),
    ),
    select({ columns: ['kind'] }, refused('unexpected-payload', /./, '$.args.columns[0]')),
    select({ columns: [5] }, refused('parse-failed', /./, '$.args.columns[0]')),
  ],
  'select.alias': [
    query(
      'select',
      { table: 'kind', columns: [{ name: 'things', alias: 'all', columns: ['id'] }], where: { id: 1 } },
      exactly([{ all: [{ id: 1 }] }]),
    ),
    select(
      {
        columns: [
          { name: 'kind', alias: 'a', columns: ['id'] },
          { name: 'kind', alias: 'b', columns: ['name'] },
        ],
        where: { id: 1 },
      },
      exactly([{ a: { id: 1 }, b: { name: 'small' } }]),
    ),
  ],
  'select.object-relationship': [
    select(
      { columns: [{ name: 'kind', columns: ['name'] }], where: { id: { $gt: 1 } }, order_by: 'id' },
      exactly([{ kind: { name: 'large' } }, { kind: null }, { kind: { name: 'large' } }]),
    ),
  ],
  'select.object-relationship-where': [{ where: {} }, { order_by: 'id' }, { limit: 1 }, { offset: 1 }].map((more) =>
    select(
      { columns: [{ name: 'kind', columns: ['id'], ...more }] },
      refused('unexpected-payload', /object relationship/, '$.args.columns[0]'),
    ),
  ),
  'select.array-relationship': [
    query(
      'select',
      {
        table: 'kind',
        columns: ['id', { name: 'things', columns: ['id'], order_by: '-id' }],
        order_by: 'id',
      },
      exactly([
        { id: 1, things: [{ id: 1 }] },
        { id: 2, things: [{ id: 4 }, { id: 2 }] },
        { id: 3, things: [] },
      ]),
    ),
    query(
      'select',
      {
        table: 'kind',
        columns: [{ name: 'things', columns: ['id'], where: { id: { $lt: 4 } } }],
        where: { id: { $gt: 1 } },
        order_by: 'id',
      },
      exactly([{ things: [{ id: 2 }] }, { things: [] }]),
    ),
    query(
      'select',
      {
        table: 'kind',
        columns: [
          { name: 'things', alias: 'first', columns: ['id'], order_by: '-id', limit: 1 },
          { name: 'things', alias: 'rest', columns: ['id'], order_by: '-id', offset: 1 },
        ],
        where: { id: 2 },
      },
      exactly([{ first: [{ id: 4 }], rest: [{ id: 2 }] }]),
    ),
  ],
  'select.deep-relationship': [
    query(
      'select',
      {
        table: 'maker',
        columns: [
          {
            name: 'things',
            columns: ['id', { name: 'kind', columns: ['name', { name: 'things', columns: ['id'], order_by: ['id'] }] }],
            order_by: ['-id'],
          },
        ],
      },
      exactly([
        {
          things: [
            { id: 4, kind: { name: 'large', things: [{ id: 2 }, { id: 4 }] } },
            { id: 1, kind: { name: 'small', things: [{ id: 1 }] } },
          ],
        },
      ]),
    ),
  ],
  'select.limit-offset': [
    select({ order_by: 'id', limit: 2, offset: 1 }, ids(2, 3)),
    select({ order_by: 'id', limit: 1 }, ids(1)),
    select({ order_by: 'id', offset: 3 }, ids(4)),
    select({ order_by: 'id', offset: 4 }, ids()),
  ],
  'select.limit-zero': [select({ limit: 0 }, ids())],
  'select.wrong-limit': [
    ...[-1, 1.5, '1', true].map((limit) => select({ limit }, refused('parse-failed', /whole number/, '$.args.limit'))),
    ...[-1, 'x'].map((offset) => select({ offset }, refused('parse-failed', /whole number/, '$.args.offset'))),
  ],
  'select.empty': [select({ where: { id: 99 } }, text('[]'))],
  'order.plus': [select({ order_by: ['+n', 'id'] }, ids(1, 2, 4, 3))],
  'order.minus': [select({ order_by: ['-n', 'id'] }, ids(3, 2, 4, 1)), ordered('-id', 4, 3, 2, 1)],
  'order.plain': [ordered('id', 1, 2, 3, 4), ordered(['id'], 1, 2, 3, 4)],
  'order.several': [ordered(['-m', 'id'], 3, 4, 1, 2), ordered(['m', '-id'], 2, 1, 4, 3)],
  'order.relationship': [
    ordered(['+kind.name', 'id'], 2, 4, 1, 3),
    ordered(['-kind.name', '-id'], 3, 1, 4, 2),
    ordered([{ column: ['kind', 'name'], type: 'desc', nulls: 'last' }, 'id'], 1, 2, 4, 3),
    ordered([{ column: 'kind.name', nulls: 'first' }, 'id'], 3, 2, 4, 1),
  ],
  'order.object': [
    ordered(
      [
        { column: 'n', type: 'desc', nulls: 'last' },
        { column: 'id', type: 'asc' },
      ],
      2,
      4,
      1,
      3,
    ),
    ordered(
      [
        { column: 'n', type: 'asc', nulls: 'first' },
        { column: 'id', type: 'desc' },
      ],
      3,
      1,
      4,
      2,
    ),
    ordered({ column: 'id', type: 'desc' }, 4, 3, 2, 1),
    ordered({ column: 'id' }, 1, 2, 3, 4),
  ],
  'order.object-older-key': [ordered([{ column: 'n', order: 'desc', nulls: 'last' }, '-id'], 4, 2, 1, 3)],
  'order.empty': [
    select({ order_by: [] }, refused('unexpected-payload', 'order_by array should not be empty', '$.args.order_by')),
  ],
  'order.wrong': [
    select({ order_by: ['id', '-nope'] }, refused('not-exists', 'column "nope" does not exist', '$.args.order_by[1]')),
    select({ order_by: [{ column: 'id', type: 'down' }] }, refused('parse-failed', /asc/, '$.args.order_by[0].type')),
    select(
      { order_by: [{ column: 'id', nulls: 'middle' }] },
      refused('parse-failed', /first/, '$.args.order_by[0].nulls'),
    ),
    select({ order_by: [5] }, refused('parse-failed', /./, '$.args.order_by[0]')),
  ],
  'order.array-relationship': [
    query(
      'select',
      { table: 'kind', columns: ['id'], order_by: ['things.id'] },
      refused('unexpected-payload', /array relationship/, '$.args.order_by[0]'),
    ),
  ],
  'order.json': [select({ order_by: 'raw' }, refused('unexpected-payload', /json/i, '$.args.order_by'))],
  'role.no-table': ['maker', 'nope'].flatMap((table) => [
    select({ table }, denied(`select on "${table}" for role "user" is not allowed. `, '$.args.table'), USER),
    query('count', { table }, refused('permission-denied', /"count" is only allowed if/, '$.args.table'), USER),
    select({ table }, denied(`select on "${table}" for role "guest" is not allowed. `, '$.args.table'), GUEST),
  ]),
  'role.columns': ['big', 'nothing'].flatMap((name) => [
    select({ columns: ['id', name] }, noColumn(name, '$.args.columns[1]'), USER),
    select({ order_by: ['id', `-${name}`] }, noColumn(name, '$.args.order_by[1]'), USER),
    select({ order_by: { column: name } }, noColumn(name, '$.args.order_by[0]'), USER),
    select({ distinct_on: [name], order_by: [name] }, noColumn(name, '$.args.order_by[0]'), USER),
    select({ where: { $or: [{ [name]: 1 }] } }, noColumn(name, `$.args.where.$or[0].${name}`), USER),
    query('count', { table: 'thing', distinct: [name] }, noColumn(name, '$.args.distinct[0]'), USER),
  ]),
  'role.relationship': ['maker', 'nothing'].flatMap((name) => [
    select(
      { columns: [{ name, columns: ['id'] }] },
      refused('permission-denied', new RegExp(`relationship "${name}"`)),
      USER,
    ),
    select({ where: { [name]: {} } }, { status: 400, like: { code: 'permission-denied' } }, USER),
    select({ order_by: `${name}.name` }, { status: 400, like: { code: 'permission-denied' } }, USER),
  ]),
}

/** Its promises, with a case for each. */
export const rows = area('rows', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/README.md': {
      Operations: {
        '`select`': ['select.columns', 'select.limit-offset', 'order.several'],
      },
    },
  },
  start,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const relate = (type: string, table: string, name: string, on: unknown) => ({
    type: `create_${type}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  const permit = (table: string, columns: readonly string[], filter: object) => ({
    type: 'create_select_permission',
    args: { table, role: 'user', permission: { columns, filter } },
  })
  await server.must('bulk', [
    ...['kind', 'maker', 'thing', 'Odd "table"', { schema: 'other', name: 'thing' }, 'seen'].map((args) => ({
      type: 'track_table',
      args,
    })),
    relate('object', 'thing', 'kind', 'kind_id'),
    relate('object', 'thing', 'maker', 'maker_id'),
    relate('array', 'kind', 'things', { table: 'thing', column: 'kind_id' }),
    relate('array', 'maker', 'things', { table: 'thing', column: 'maker_id' }),
    permit('kind', ['id', 'name'], {}),
    permit('thing', ['id', 'name', 'n'], { m: 1, n: 1 }),
  ])
  return server
}
