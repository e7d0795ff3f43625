import type { Test } from 'tap'
import { area, type Case, type Expected, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What the data service promises. */
const PROMISES = {
  'query.unknown-type': 'an unknown type is refused with its path',
  'query.missing-args': 'a query without args is refused',
  'query.not-json': 'a body that is no JSON is refused as such',
  'query.unknown-key': 'a key that nothing knows is refused, so that a typing mistake is seen',
  'select.columns': 'columns come in the order asked',
  'select.star': '* is every column',
  'select.star-star': '*.* adds every relationship',
  'select.named-beside-star': 'what is named overrides the wildcard',
  'select.alias': 'an alias is the key of the result',
  'select.object-relationship': 'an object relationship is an object or null',
  'select.object-relationship-where': 'an object relationship takes no where',
  'select.array-relationship': 'an array relationship is an array, with where, order_by, limit, offset of its own',
  'select.limit-offset': 'limit and offset cut a page',
  'select.negative-limit': 'a limit is not negative',
  'select.empty': 'no rows are an empty array',
  'order.plus': '"+col" ascends',
  'order.minus': '"-col" descends',
  'order.plain': '"col" ascends',
  'order.relationship': 'order_by goes through object relationships',
  'order.object': '{column, type, nulls} orders too',
  'order.object-older-key': '`order` is an older name of `type`',
  'order.empty': 'an empty order_by is refused',
  'order.array-relationship': 'an array relationship cannot be sorted by',
  'where.empty': '{} is true',
  'where.several-keys': 'keys of one object all hold',
  'where.and': '$and of conditions; [] is true',
  'where.or': '$or of conditions; [] is false',
  'where.not': '$not of a condition',
  'where.underscore': 'every $name may be written _name',
  'where.bare-value': 'a bare value is equality',
  'where.relationship': 'a relationship holds when some related row satisfies the condition',
  'where.relationship-empty': '{} under a relationship: there is a related row',
  'where.unknown-column': 'an unknown column is refused with its path',
  'where.unknown-operator': 'an unknown operator is refused with its path',
  'where.json-column': 'a json column takes no comparison',
  'where.text-operator-on-number': 'a text operator needs a text column',
  'op.eq': '$eq',
  'op.ne': '$ne and $neq; rows with null are not returned',
  'op.gt': '$gt',
  'op.lt': '$lt',
  'op.gte': '$gte',
  'op.lte': '$lte',
  'op.in': '$in, with null among the values',
  'op.in-empty': '$in [] is false',
  'op.nin': '$nin; rows with null are not returned',
  'op.nin-empty': '$nin [] is true',
  'op.like': '$like and $nlike',
  'op.ilike': '$ilike and $nilike',
  'op.similar': '$similar and $nsimilar',
  'op.regex': '$regex, $iregex and their negations',
  'op.column': '$ceq, $cne, $cgt, $clt, $cgte, $clte compare with another column',
  'op.column-types': 'columns of different types are not compared',
  'op.is-null': '$is_null true and false',
  'op.null': 'null as a value means is null',
  'op.null-comparison': 'any other comparison with null is unknown',
  'op.contains': '$contains and $contained_in on jsonb',
  'op.has-key': '$has_key, $has_keys_any, $has_keys_all',
  'op.array': '$contains and $contained_in on arrays',
  'op.aggregate': 'a condition on what is computed of related rows',
  'op.exists': '$exists for admin',
  'op.exists-role': '$exists is refused to other roles',
  'insert.affected': 'insert counts its rows',
  'insert.returning': 'returning keeps the order of the rows',
  'insert.default': 'a missing key takes the default, whatever keys the other rows have',
  'insert.empty': 'objects should not be empty',
  'insert.relationship-key': 'the rows of a relationship are an object with the key data',
  'insert.unknown-column': 'an unknown column is refused',
  'insert.generated': 'a generated column takes no value',
  'insert.conflict-ignore': 'on_conflict ignore leaves the row alone and does not count it',
  'insert.conflict-update': 'on_conflict update changes only the columns given',
  'insert.conflict-both': 'constraint and constraint_on exclude each other',
  'insert.conflict-none': 'update needs one of them',
  'update.set': '$set',
  'update.inc': '$inc',
  'update.mul': '$mul',
  'update.default': '$default',
  'update.nothing': 'an update without any of them is refused',
  'update.twice': 'a column is assigned once',
  'update.no-match': 'an update that matches nothing counts 0',
  'delete.returning': 'delete returns the rows that were',
  'count.all': 'count',
  'count.distinct': 'count of distinct values',
  'bulk.order': 'a bulk answers in order',
  'bulk.atomic': 'a bulk happens as a whole or not at all',
  'bulk.path': 'an error has the path of its member',
  'bulk.empty': 'an empty bulk is an empty array',
  'permission.columns': 'a column outside the permission is refused',
  'permission.where-column': 'and so it is in where',
  'permission.filter': 'rows outside the filter are not there',
  'permission.limit': 'the limit of a permission holds whatever is asked',
  'permission.related-filter': 'related rows are filtered too',
  'permission.no-table': 'a table without permission is refused',
  'permission.insert-check': 'every row must satisfy the check',
  'permission.preset': 'set fills in columns, whatever is sent',
  'permission.preset-column': 'a preset column takes no value from a client',
  'permission.upsert': 'a role that may insert and update may upsert',
  'permission.update-columns': 'a column outside the update permission is refused',
  'permission.update-filter': 'rows outside the update filter are not touched',
  'permission.update-check': 'an updated row must satisfy the check',
  'permission.delete-filter': 'rows outside the delete filter stay',
  'permission.session-missing': 'a missing session variable is said before anything is run',
  'permission.user-id-type': 'X-SERVICE-USER-ID stands for integers, UUIDs and texts only',
  'permission.unknown-key': 'an unknown key of a permission is refused',
  'permission.twice': 'a permission is made once',
  'permission.drop-missing': 'dropping what is not there is refused',
  'permission.admin-only': 'metadata is for admin',
  'sqlstate.23502': 'a missing value',
  'sqlstate.23503': 'a foreign key',
  'sqlstate.23505': 'a duplicate',
  'sqlstate.23514': 'a check of the table',
  'sqlstate.22P02': 'a value that PostgreSQL cannot read',
  'sqlstate.42P10': 'no unique constraint on the conflict columns',
  'sqlstate.P0001': 'an exception of the user’s own trigger',
  'run_sql.rows': 'rows are text, the first is the names',
  'run_sql.command': 'a command has no result key',
  'run_sql.last': 'of several statements the last one answers',
  'run_sql.admin': 'run_sql is for admin',
  'run_sql.dependents': 'dropping what metadata needs is refused, naming it',
  'run_sql.cascade': 'with cascade the dependents go too',
  'run_sql.type': 'a type cannot change under what depends on it',
  'run_sql.rename': 'renames are refused',
  'run_sql.failed': 'a failing statement is said, with PostgreSQL’s words for admin',
  'run_sql.transaction': 'transaction control is refused',
  'track.twice': 'a table is tracked once',
  'track.missing': 'a table must exist',
  'untrack.missing': 'what is not tracked cannot be untracked',
  'relationship.no-key': 'a relationship needs a foreign key',
  'relationship.taken': 'a relationship needs a free name',
  'numbers.digits': 'numbers keep their digits both ways',
  'text.nul': 'U+0000 is refused with a path',
  'json.duplicate-key': 'a duplicate key is refused with a path',
  'bulk.rolled-back': 'nothing of a failed bulk is left',
} as const

const SQL = `
create table kind (id int primary key, name text not null);
create table thing (
  id int primary key, name text, n int, m int, big bigint, num numeric, flag bool not null default false, made timestamptz default now(),
  j json, b jsonb, tags text[], kind_id int references kind, twice int generated always as (n * 2) stored, check (n < 1000)
);
create table noted (id int primary key, note text not null default 'none', owner int);
create table guarded (id int primary key);
create table wide (id int primary key, v int);
create function guard() returns trigger language plpgsql as $$ begin raise exception 'guarded'; end $$;
create trigger guard before insert on guarded for each row execute function guard();
insert into kind values (1, 'small'), (2, 'large'), (3, 'none');
insert into thing (id, name, n, m, big, num, b, tags, kind_id) values
  (1, 'Ann', 1, 1, 9007199254740993, 1.10, '{"a": 1, "b": 2}', '{x,y}', 1),
  (2, 'ben', 2, 1, 2, 2, '{"a": 2}', '{x}', 2),
  (3, null, null, 3, 3, 3, null, null, null);
insert into noted values (1, 'one', 1), (2, 'two', 2), (3, 'three', 1);`

const ADMIN: As = {}
const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const GUEST: As = { role: 'guest' }

/** Who asks for what, and a part of what comes: of the body, or of an error with its status. */
type Asked = readonly [as: As, type: string, args: unknown, expected: unknown]
const refused = (code: string, error: string | RegExp, path?: string) => ({
  code,
  error,
  ...(path === undefined ? {} : { path }),
})
const where = (exp: unknown, ids: readonly number[]): Asked => [
  ADMIN,
  'select',
  { table: 'thing', columns: ['id'], where: exp, order_by: 'id' },
  ids.map((id) => ({ id })),
]
const ordered = (order_by: unknown, ids: readonly number[]): Asked => [
  ADMIN,
  'select',
  { table: 'thing', columns: ['id'], order_by },
  ids.map((id) => ({ id })),
]
const wrong = (exp: unknown, code: string, error: string | RegExp, path: string): Asked => [
  ADMIN,
  'select',
  { table: 'thing', columns: ['id'], where: exp },
  refused(code, error, path),
]
const noted = (as: As, type: string, args: object, expected: unknown): Asked => [
  as,
  type,
  { table: 'noted', ...args },
  expected,
]
const sql = (text: string, expected: unknown, cascade = false): Asked => [
  ADMIN,
  'run_sql',
  { sql: text, cascade },
  expected,
]

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Asked>> = {
  'query.unknown-type': [ADMIN, 'nope', {}, refused('parse-failed', 'unknown type : "nope"', '$.type')],
  'query.missing-args': [ADMIN, 'select', undefined, refused('parse-failed', "the key 'args' was not present", '$')],
  'query.not-json': [ADMIN, '', '{', refused('invalid-json', /invalid json/i)],
  'query.unknown-key': [
    ADMIN,
    'select',
    { table: 'kind', columns: ['id'], wehre: {} },
    refused('unexpected-payload', 'unexpected key "wehre"', '$.args.wehre'),
  ],
  'select.columns': [
    ADMIN,
    'select',
    { table: 'kind', columns: ['name', 'id'], where: { id: 1 } },
    '[{"name":"small","id":1}]',
  ],
  'select.star': [ADMIN, 'select', { table: 'kind', columns: ['*'], where: { id: 1 } }, [{ id: 1, name: 'small' }]],
  'select.star-star': [
    ADMIN,
    'select',
    { table: 'kind', columns: ['*.*'], where: { id: 2 } },
    [{ id: 2, name: 'large', things: [{ id: 2, name: 'ben' }] }],
  ],
  'select.named-beside-star': [
    ADMIN,
    'select',
    { table: 'kind', columns: ['*.*', { name: 'things', columns: ['id'] }], where: { id: 2 } },
    '[{"id":2,"name":"large","things":[{"id":2}]}]',
  ],
  'select.alias': [
    ADMIN,
    'select',
    { table: 'kind', columns: [{ name: 'things', alias: 'all', columns: ['id'] }], where: { id: 2 } },
    '[{"all":[{"id":2}]}]',
  ],
  'select.object-relationship': [
    ADMIN,
    'select',
    { table: 'thing', columns: [{ name: 'kind', columns: ['name'] }], where: { id: { $gt: 1 } }, order_by: 'id' },
    [{ kind: { name: 'large' } }, { kind: null }],
  ],
  'select.object-relationship-where': [
    ADMIN,
    'select',
    { table: 'thing', columns: [{ name: 'kind', columns: ['id'], where: {} }] },
    refused('unexpected-payload', /object relationship/, '$.args.columns[0]'),
  ],
  'select.array-relationship': [
    ADMIN,
    'select',
    {
      table: 'kind',
      columns: [{ name: 'things', columns: ['id'], where: { id: { $lt: 9 } }, order_by: '-id', limit: 1, offset: 0 }],
      where: { id: { $gt: 1 } },
      order_by: 'id',
    },
    '[{"things":[{"id":2}]},{"things":[]}]',
  ],
  'select.limit-offset': [
    ADMIN,
    'select',
    { table: 'thing', columns: ['id'], order_by: 'id', limit: 1, offset: 1 },
    [{ id: 2 }],
  ],
  'select.negative-limit': [
    ADMIN,
    'select',
    { table: 'thing', columns: ['id'], limit: -1 },
    refused('parse-failed', /whole number/, '$.args.limit'),
  ],
  'select.empty': where({ id: 99 }, []),
  'order.plus': ordered('+id', [1, 2, 3]),
  'order.minus': ordered(['-id'], [3, 2, 1]),
  'order.plain': ordered('id', [1, 2, 3]),
  'order.relationship': ordered(['+kind.name', 'id'], [2, 1, 3]),
  'order.object': ordered({ column: 'n', type: 'desc', nulls: 'last' }, [2, 1, 3]),
  'order.object-older-key': ordered([{ column: ['kind', 'name'], order: 'asc', nulls: 'first' }], [3, 2, 1]),
  'order.empty': [
    ADMIN,
    'select',
    { table: 'thing', columns: ['id'], order_by: [] },
    refused('unexpected-payload', 'order_by array should not be empty', '$.args.order_by'),
  ],
  'order.array-relationship': [
    ADMIN,
    'select',
    { table: 'kind', columns: ['id'], order_by: ['things.id'] },
    refused('unexpected-payload', /array relationship/, '$.args.order_by[0]'),
  ],
  'where.empty': where({}, [1, 2, 3]),
  'where.several-keys': where({ m: 1, n: 2 }, [2]),
  'where.and': where({ $and: [{ m: 1 }, { $and: [] }, { n: { $gt: 1 } }] }, [2]),
  'where.or': where({ $or: [{ id: 1 }, { $or: [] }, { id: 3 }] }, [1, 3]),
  'where.not': where({ $not: { id: 1 } }, [2, 3]),
  'where.underscore': where({ _or: [{ id: { _eq: 1 } }, { _not: { id: { _lt: 3 } } }] }, [1, 3]),
  'where.bare-value': where({ name: 'Ann' }, [1]),
  'where.relationship': where({ kind: { name: 'large' } }, [2]),
  'where.relationship-empty': where({ kind: {} }, [1, 2]),
  'where.unknown-column': wrong(
    { $or: [{ nope: 1 }] },
    'not-exists',
    '"nope" does not exist',
    '$.args.where.$or[0].nope',
  ),
  'where.unknown-operator': wrong(
    { n: { $foo: 1 } },
    'unexpected-payload',
    'Unknown operator : $foo',
    '$.args.where.n.$foo',
  ),
  'where.json-column': wrong(
    { j: { $eq: {} } },
    'unexpected-payload',
    /^JSON column can not be part of where clause/,
    '$.args.where.j.$eq',
  ),
  'where.text-operator-on-number': wrong(
    { n: { $like: 'x' } },
    'unexpected-payload',
    /only on columns of type "varchar"\/"text"/,
    '$.args.where.n.$like',
  ),
  'op.eq': where({ n: { $eq: 1 } }, [1]),
  'op.ne': where({ $and: [{ n: { $ne: 5 } }, { n: { $neq: 1 } }] }, [2]),
  'op.gt': where({ n: { $gt: 1 } }, [2]),
  'op.lt': where({ n: { $lt: 2 } }, [1]),
  'op.gte': where({ n: { $gte: 2 } }, [2]),
  'op.lte': where({ n: { $lte: 1 } }, [1]),
  'op.in': where({ n: { $in: [1, null] } }, [1, 3]),
  'op.in-empty': where({ n: { $in: [] } }, []),
  'op.nin': where({ n: { $nin: [1] } }, [2]),
  'op.nin-empty': where({ n: { $nin: [] } }, [1, 2, 3]),
  'op.like': where({ $or: [{ name: { $like: 'A%' } }, { name: { $nlike: '%n%' } }] }, [1]),
  'op.ilike': where({ $and: [{ name: { $ilike: '%N%' } }, { name: { $nilike: 'a%' } }] }, [2]),
  'op.similar': where({ $and: [{ name: { $similar: '(A|b)%' } }, { name: { $nsimilar: 'A%' } }] }, [2]),
  'op.regex': where(
    {
      $and: [
        { name: { $regex: 'n' } },
        { name: { $iregex: '^B' } },
        { name: { $nregex: '^B' } },
        { name: { $niregex: '^a' } },
      ],
    },
    [2],
  ),
  'op.column': where({ n: { $ceq: 'm', $cgte: 'm', $clte: 'm' }, id: { $ceq: 'n' }, m: { $cne: 'kind_id' } }, []),
  'op.column-types': wrong(
    { n: { $ceq: 'big' } },
    'unexpected-payload',
    'incompatible column types : "n", "big"',
    '$.args.where.n.$ceq',
  ),
  'op.is-null': where({ n: { $is_null: true }, m: { $is_null: false } }, [3]),
  'op.null': where({ $or: [{ n: null }, { name: { $eq: null } }] }, [3]),
  'op.null-comparison': where({ $not: { n: { $gt: null } } }, []),
  'op.contains': where({ b: { $contains: { a: 1 } }, $and: [{ b: { $contained_in: { a: 1, b: 2, c: 3 } } }] }, [1]),
  'op.has-key': where({ b: { $has_key: 'a', $has_keys_any: ['b', 'z'], $has_keys_all: ['a', 'b'] } }, [1]),
  'op.array': where({ tags: { $contains: ['x'], $contained_in: ['x', 'z'] } }, [2]),
  'op.aggregate': [
    ADMIN,
    'select',
    { table: 'kind', columns: ['id'], where: { things_aggregate: { count: { predicate: { $eq: 0 } } } } },
    [{ id: 3 }],
  ],
  'op.exists': where({ $exists: { _table: 'noted', _where: { id: 1 } } }, [1, 2, 3]),
  'op.exists-role': noted(
    USER,
    'select',
    { columns: ['id'], where: { $exists: { _table: 'noted', _where: {} } } },
    refused('unexpected-payload', /permissions only/, '$.args.where.$exists'),
  ),
  'insert.affected': [ADMIN, 'insert', { table: 'wide', objects: [{ id: 1, v: 1 }, { id: 2 }] }, '{"affected_rows":2}'],
  'insert.returning': [
    ADMIN,
    'insert',
    { table: 'wide', objects: [{ id: 5 }, { id: 4 }, { id: 3 }], returning: ['id'] },
    { affected_rows: 3, returning: [{ id: 5 }, { id: 4 }, { id: 3 }] },
  ],
  'insert.default': noted(
    ADMIN,
    'insert',
    { objects: [{ id: 10 }, { id: 11, note: 'x' }], returning: ['note'] },
    { returning: [{ note: 'none' }, { note: 'x' }] },
  ),
  'insert.empty': noted(
    ADMIN,
    'insert',
    { objects: [] },
    refused('unexpected-payload', 'objects should not be empty', '$.args.objects'),
  ),
  'insert.relationship-key': [
    ADMIN,
    'insert',
    { table: 'thing', objects: [{ id: 9, kind: {} }] },
    refused('unexpected-payload', 'expecting an object with the key data', '$.args.objects[0].kind'),
  ],
  'insert.unknown-column': noted(
    ADMIN,
    'insert',
    { objects: [{ id: 12, nope: 1 }] },
    refused('not-exists', 'column "nope" does not exist', '$.args.objects'),
  ),
  'insert.generated': [
    ADMIN,
    'insert',
    { table: 'thing', objects: [{ id: 9, twice: 1 }] },
    refused('unexpected-payload', /generated/, '$.args.objects'),
  ],
  'insert.conflict-ignore': noted(
    ADMIN,
    'insert',
    { objects: [{ id: 10, note: 'y' }], on_conflict: { action: 'ignore' }, returning: ['id'] },
    { affected_rows: 0, returning: [] },
  ),
  'insert.conflict-update': noted(
    ADMIN,
    'insert',
    {
      objects: [{ id: 11, owner: 7 }],
      on_conflict: { action: 'update', constraint_on: 'id' },
      returning: ['note', 'owner'],
    },
    { returning: [{ note: 'x', owner: 7 }] },
  ),
  'insert.conflict-both': noted(
    ADMIN,
    'insert',
    { objects: [{ id: 1 }], on_conflict: { action: 'ignore', constraint: 'noted_pkey', constraint_on: 'id' } },
    refused('unexpected-payload', "'constraint' and 'constraint_on' cannot be set at a time", '$.args.on_conflict'),
  ),
  'insert.conflict-none': noted(
    ADMIN,
    'insert',
    { objects: [{ id: 1 }], on_conflict: { action: 'update' } },
    refused(
      'unexpected-payload',
      "Expecting 'constraint' or 'constraint_on' when the 'action' is 'update'",
      '$.args.on_conflict',
    ),
  ),
  'update.set': [
    ADMIN,
    'update',
    { table: 'wide', where: { id: 1 }, $set: { v: 5 }, returning: ['v'] },
    { affected_rows: 1, returning: [{ v: 5 }] },
  ],
  'update.inc': [
    ADMIN,
    'update',
    { table: 'wide', where: { id: 1 }, $inc: { v: 2 }, returning: ['v'] },
    { returning: [{ v: 7 }] },
  ],
  'update.mul': [
    ADMIN,
    'update',
    { table: 'wide', where: { id: 1 }, $mul: { v: 3 }, returning: ['v'] },
    { returning: [{ v: 21 }] },
  ],
  'update.default': noted(
    ADMIN,
    'update',
    { where: { id: 11 }, $default: ['note'], returning: ['note'] },
    { returning: [{ note: 'none' }] },
  ),
  'update.nothing': noted(
    ADMIN,
    'update',
    { where: {} },
    refused('unexpected-payload', 'atleast one of $set, $inc, $mul has to be present', '$.args'),
  ),
  'update.twice': [
    ADMIN,
    'update',
    { table: 'wide', where: {}, $inc: { v: 1 }, $mul: { v: 1 } },
    refused('unexpected-payload', /multiple assignments to same column "v"/),
  ],
  'update.no-match': [ADMIN, 'update', { table: 'wide', where: { id: 99 }, $set: { v: 1 } }, '{"affected_rows":0}'],
  'delete.returning': [
    ADMIN,
    'delete',
    { table: 'wide', where: { id: 5 }, returning: ['id', 'v'] },
    { affected_rows: 1, returning: [{ id: 5, v: null }] },
  ],
  'count.all': [ADMIN, 'count', { table: 'thing' }, { count: 3 }],
  'count.distinct': [ADMIN, 'count', { table: 'thing', where: {}, distinct: ['m'] }, { count: 2 }],
  'bulk.order': [
    ADMIN,
    'bulk',
    [
      { type: 'count', args: { table: 'thing' } },
      { type: 'bulk', args: [{ type: 'count', args: { table: 'kind' } }] },
    ],
    [{ count: 3 }, [{ count: 3 }]],
  ],
  'bulk.atomic': [
    ADMIN,
    'bulk',
    [
      { type: 'delete', args: { table: 'wide', where: {} } },
      { type: 'insert', args: { table: 'wide', objects: [{ id: null }] } },
    ],
    refused('postgres-error', /Not-NULL/),
  ],
  'bulk.path': [
    ADMIN,
    'bulk',
    [
      { type: 'count', args: { table: 'wide' } },
      { type: 'count', args: { table: 'nope' } },
    ],
    refused('not-exists', 'table "nope" does not exist', '$.args[1].args.table'),
  ],
  'bulk.empty': [ADMIN, 'bulk', [], []],
  'permission.columns': noted(
    USER,
    'select',
    { columns: ['owner'] },
    refused('permission-denied', 'role "user" does not have permission to select column "owner"', '$.args.columns[0]'),
  ),
  'permission.where-column': noted(
    USER,
    'select',
    { columns: ['id'], where: { owner: 1 } },
    refused('permission-denied', /"owner"/, '$.args.where.owner'),
  ),
  'permission.filter': noted(USER, 'select', { columns: ['id'], order_by: '-id', limit: 9 }, [{ id: 3 }, { id: 1 }]),
  'permission.limit': [USER, 'select', { table: 'thing', columns: ['id'], limit: 50 }, [{ id: 1 }]],
  'permission.related-filter': [
    USER,
    'select',
    { table: 'kind', columns: [{ name: 'things', columns: ['id'] }], order_by: 'id' },
    [{ things: [{ id: 1 }] }, { things: [] }, { things: [] }],
  ],
  'permission.no-table': noted(
    GUEST,
    'select',
    { columns: ['id'] },
    refused('permission-denied', 'select on "noted" for role "guest" is not allowed. ', '$.args.table'),
  ),
  'permission.insert-check': noted(
    USER,
    'insert',
    { objects: [{ id: 20, note: 'bad' }] },
    refused('postgres-error', /^the row would not pass the insert check of role "\w+" on "\w+"$/),
  ),
  'permission.preset': noted(
    USER,
    'insert',
    { objects: [{ id: 21 }], returning: ['id'] },
    { affected_rows: 1, returning: [{ id: 21 }] },
  ),
  'permission.preset-column': noted(
    USER,
    'insert',
    { objects: [{ id: 22, owner: 2 }] },
    refused('permission-denied', /"owner"/, '$.args.objects'),
  ),
  'permission.upsert': noted(
    USER,
    'insert',
    { objects: [{ id: 1 }], on_conflict: { action: 'ignore' } },
    { affected_rows: 0 },
  ),
  'permission.update-columns': noted(
    USER,
    'update',
    { where: {}, $set: { owner: 2 } },
    refused('permission-denied', 'role "user" does not have permission to update column "owner"', '$.args.$set'),
  ),
  'permission.update-filter': noted(
    USER,
    'update',
    { where: { id: { $in: [1, 2] } }, $set: { note: 'mine' } },
    { affected_rows: 1 },
  ),
  'permission.update-check': noted(
    USER,
    'update',
    { where: { id: 1 }, $set: { note: 'bad' } },
    refused('postgres-error', /^the row would not pass the update check of role "\w+" on "\w+"$/),
  ),
  'permission.delete-filter': noted(USER, 'delete', { where: { id: { $in: [2, 21] } } }, { affected_rows: 1 }),
  'permission.session-missing': noted(
    { role: 'user' },
    'select',
    { columns: ['id'] },
    refused('not-found', 'x-service-user-id header is expected but not found'),
  ),
  'permission.user-id-type': [
    ADMIN,
    'create_select_permission',
    { table: 'thing', role: 'other', permission: { columns: '*', filter: { flag: 'X-SERVICE-USER-ID' } } },
    refused('unexpected-payload', /smallint, integer, bigint, uuid, text/, '$.args.permission.filter.flag'),
  ],
  'permission.unknown-key': [
    ADMIN,
    'create_select_permission',
    { table: 'noted', role: 'other', permission: { columns: '*', filter: {}, fliter: {} } },
    refused('unexpected-payload', 'unexpected key "fliter"', '$.args.permission.fliter'),
  ],
  'permission.twice': [
    ADMIN,
    'create_select_permission',
    { table: 'noted', role: 'user', permission: { columns: '*', filter: {} } },
    refused('already-exists', `'select' permission on "noted" for role "user" already exists`),
  ],
  'permission.drop-missing': [
    ADMIN,
    'drop_delete_permission',
    { table: 'noted', role: 'guest' },
    refused('permission-denied', /does not exist/),
  ],
  'permission.admin-only': [USER, 'track_table', 'x', refused('access-denied', 'restricted access : admin only')],
  'sqlstate.23502': [
    ADMIN,
    'insert',
    { table: 'kind', objects: [{ id: 9 }] },
    refused('postgres-error', /^Not-NULL violation\. null value in column "name"/),
  ],
  'sqlstate.23503': [
    ADMIN,
    'delete',
    { table: 'kind', where: { id: 1 } },
    refused('postgres-error', /^Foreign key violation\. /),
  ],
  'sqlstate.23505': [
    ADMIN,
    'insert',
    { table: 'kind', objects: [{ id: 1, name: 'x' }] },
    refused('postgres-error', 'Uniqueness violation. duplicate key value violates unique constraint "kind_pkey"'),
  ],
  'sqlstate.23514': [
    ADMIN,
    'insert',
    { table: 'thing', objects: [{ id: 9, n: 1000 }] },
    refused('postgres-error', /^Check constraint violation\. /),
  ],
  'sqlstate.22P02': wrong({ n: 'many' }, 'postgres-error', /invalid input syntax for type integer/, '$.args.where.n'),
  'sqlstate.42P10': [
    ADMIN,
    'insert',
    { table: 'kind', objects: [{ id: 1, name: 'x' }], on_conflict: { action: 'update', constraint_on: 'name' } },
    refused('postgres-error', /there is no unique or exclusion constraint/),
  ],
  'sqlstate.P0001': [ADMIN, 'insert', { table: 'guarded', objects: [{ id: 1 }] }, refused('postgres-error', 'guarded')],
  'run_sql.rows': sql('select 1 as a, null as b', {
    result_type: 'TuplesOk',
    result: [
      ['a', 'b'],
      ['1', 'NULL'],
    ],
  }),
  'run_sql.command': sql('create table made (id int)', '{"result_type":"CommandOk"}'),
  'run_sql.last': sql('select 1; select 2 as x', { result: [['x'], ['2']] }),
  'run_sql.admin': [USER, 'run_sql', { sql: 'select 1' }, refused('access-denied', 'restricted access : admin only')],
  'run_sql.dependents': sql(
    'alter table noted drop column owner',
    refused(
      'dependency-error',
      /^cannot drop due to the following dependent objects : .*permission noted\.user\.select/,
      '$.args',
    ),
  ),
  'run_sql.type': sql(
    'alter table noted alter column owner type bigint',
    refused(
      'dependency-error',
      /^cannot change type of column "owner" in table "noted" because of the following dependencies : /,
      '$.args',
    ),
    true,
  ),
  'run_sql.cascade': sql('alter table kind drop column name', { result_type: 'CommandOk' }, true),
  'run_sql.rename': sql('alter table noted rename to other', refused('not-supported', /renames are not yet supported/)),
  'run_sql.failed': sql('select nope', {
    code: 'postgres-error',
    error: 'column "nope" does not exist',
    internal: { error: { message: /nope/ } },
  }),
  'run_sql.transaction': sql('commit', refused('not-supported', /^transaction control is not allowed/)),
  'track.twice': [ADMIN, 'track_table', 'noted', refused('already-tracked', 'view/table already tracked : "noted"')],
  'track.missing': [
    ADMIN,
    'track_table',
    'nope',
    refused('not-exists', 'no such table/view exists in postgres : "nope"'),
  ],
  'untrack.missing': [
    ADMIN,
    'untrack_table',
    { table: 'made' },
    refused('already-untracked', 'view/table already untracked : "made"'),
  ],
  'relationship.no-key': [
    ADMIN,
    'create_object_relationship',
    { table: 'noted', name: 'x', using: { foreign_key_constraint_on: 'owner' } },
    refused('constraint-error', 'no foreign constraint exists on the given column'),
  ],
  'relationship.taken': [
    ADMIN,
    'create_object_relationship',
    { table: 'thing', name: 'name', using: { foreign_key_constraint_on: 'kind_id' } },
    refused('already-exists', 'column/relationship "name" of table "thing" already exists'),
  ],
  'numbers.digits': [
    ADMIN,
    'select',
    { table: 'thing', columns: ['big', 'num'], where: { id: 1 } },
    '[{"big":9007199254740993,"num":1.10}]',
  ],
  'text.nul': noted(
    ADMIN,
    'insert',
    { objects: [{ id: 30, note: 'a\u0000b' }] },
    refused('parse-failed', /U\+0000/, '$.args.objects[0].note'),
  ),
  'json.duplicate-key': [
    ADMIN,
    '',
    '{"type":"count","args":{"table":"thing","table":"kind"}}',
    refused('parse-failed', /duplicate key/, '$.args.table'),
  ],
  'bulk.rolled-back': [ADMIN, 'count', { table: 'wide' }, { count: 4 }],
}

/** Its promises, with a case for each. */
export const data = area('data', {
  promises: PROMISES,
  cases: Object.fromEntries(Object.entries(CASES).map(([id, asked]) => [id, [stepOf(asked)]])) as unknown as Readonly<
    Record<keyof typeof PROMISES, Case>
  >,
  start,
})

function stepOf([as, type, args, expected]: Asked): Step {
  const body = type === '' ? String(args) : JSON.stringify({ type, args })
  return { path: '/v1/query', method: 'POST', as, body, expected: expectedOf(expected) }
}

function expectedOf(expected: unknown): Expected {
  if (typeof expected === 'string') return { status: 200, text: expected }
  const isRefusal = typeof expected === 'object' && expected !== null && 'code' in expected
  return { status: isRefusal ? 400 : 200, like: expected as object }
}

async function start(t: Test) {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const permit = (type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role: 'user', permission },
  })
  const own = { owner: 'X-SERVICE-USER-ID' }
  await server.must('bulk', [
    ...['kind', 'thing', 'noted', 'guarded', 'wide'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'thing', name: 'kind', using: { foreign_key_constraint_on: 'kind_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'kind',
        name: 'things',
        using: { foreign_key_constraint_on: { table: 'thing', column: 'kind_id' } },
      },
    },
    permit('select', 'kind', { columns: ['id'], filter: {} }),
    permit('select', 'thing', { columns: ['id'], filter: { n: 1 }, limit: 1 }),
    permit('select', 'noted', { columns: ['id', 'note'], filter: own }),
    permit('insert', 'noted', { check: { note: { $ne: 'bad' } }, set: own }),
    permit('update', 'noted', { columns: ['note'], filter: own, check: { note: { $ne: 'bad' } } }),
    permit('delete', 'noted', { filter: own }),
  ])
  return server
}
