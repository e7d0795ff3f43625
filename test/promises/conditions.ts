import type { Test } from 'tap'
import { area, type Case, exactly, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What conditions promise: logic, relationships, and the operators of each type of column. */
const PROMISES = {
  'where.empty': '{} is true for every row',
  'where.and-keys': 'the keys of one object must all hold',
  'where.and': '$and of conditions; an empty one is true',
  'where.or': '$or of conditions; an empty one is false',
  'where.not': '$not of a condition',
  'where.underscore': 'every $name may be written _name',
  'where.value': 'a bare value is equality, and several operators must all hold',
  'where.null-logic': 'a comparison with null is neither true nor false, negated or not',
  'where.relationship': 'a relationship holds when at least one related row meets the condition',
  'where.relationship-empty': '{} under a relationship: there is a related row',
  'where.deep-relationship': 'conditions follow relationships at any depth',
  'where.unknown': 'an unknown column or operator, and a value of another type, are refused with their path',
  'where.form': 'a condition is an object, and $and and $or take arrays of them',
  'where.values-quoted': 'a value is only a value, whatever text it contains',
  'where.hidden': 'a role sees only rows that it may select through a relationship, and no hidden column',
  'op.eq': '$eq',
  'op.ne': '$ne and $neq; rows with null are not returned',
  'op.gt': '$gt',
  'op.lt': '$lt',
  'op.gte': '$gte',
  'op.lte': '$lte',
  'op.in': '$in of values and null; of none it is false',
  'op.nin': '$nin; rows with null are not returned; of none it is true',
  'op.distinct': '$is_distinct and $is_not_distinct are true or false for null, too',
  'op.is-null': '$is_null true and false, on every type of column',
  'op.null': 'null as a value means is null, and $ne null is not null',
  'op.json': 'a json column takes no comparison, and jsonb only those by an operator',
  'op.like': '$like and $nlike match a whole text by case',
  'op.ilike': '$ilike and $nilike ignore case',
  'op.similar': '$similar and $nsimilar',
  'op.regex': '$regex and $nregex match a part of the text by case',
  'op.iregex': '$iregex and $niregex ignore case',
  'op.text-only': 'a text operator needs a text column and a text',
  'op.like-must-not-end-in-escape': 'a pattern must not end in its escape character',
  'op.column': '$ceq, $cne, $cgt, $clt, $cgte, $clte compare with another column of the row',
  'op.root-column': 'or, within conditions on related rows, with a column of the outermost row',
  'op.column-types': 'columns of different types are not compared',
  'op.contains': '$contains and $contained_in on jsonb',
  'op.array': '$contains and $contained_in on arrays',
  'op.hstore': '$contains and $contained_in on hstore',
  'op.range': '$contains and $contained_in on ranges and multiranges; $contains takes an element, too',
  'op.network': '$contains and $contained_in on inet and cidr',
  'op.overlaps': '$overlaps on arrays, ranges, multiranges and networks',
  'op.adjacent': '$adjacent on ranges and multiranges',
  'op.has-key': '$has_key, $has_keys_any and $has_keys_all on jsonb and hstore',
  'op.json-path': '$path_exists and $path_match',
  'op.cast': '$cast compares the text of jsonb',
  'op.trigram': '$trigram finds similar words',
  'op.trigram-extension': '$trigram without its extension says which one it needs',
  'op.search': '$matches finds texts with all words, in any of their forms, in a language',
  'op.search-query': 'a full-text query has phrases, or and -, and is never an error',
  'op.search-vector': '$matches on a tsvector',
  'op.search-wrong': 'a query that is too long, or a language that does not exist, is refused',
  'op.search-role': 'a permission searches for the words of a session variable',
  'op.rank': 'rank orders by how well rows match: the best first, null last',
  'op.ltree': 'the operators of ltree',
  'op.geometry': 'operators of geometries are refused on other columns',
  'op.types': 'a type has only the operators that PostgreSQL has for it',
  'op.other-type': 'an operator of another type is refused with the types that it works on',
  'op.values': 'enums, uuids, dates, booleans, bytes and composites compare with values as responses have them',
  'op.aggregate': 'a condition on the count of related rows, with a filter and distinct values',
  'op.aggregate-bool': 'bool_and and bool_or of a column of related rows',
  'op.aggregate-role': 'a role needs allow_aggregations for it, and counts only rows that it may select',
  'op.exists': '$exists asks for a row of any table, for admin',
  'op.exists-role': '$exists is refused to other roles',
} as const

const SQL = `
create schema ext;
create extension hstore schema ext; create extension pg_trgm schema ext; create extension ltree;
create type mood as enum ('sad', 'happy');
create type place as (street text, no int);
create table kind (id int primary key, name text not null, boss_id int references kind);
create table thing (
  id int primary key, name text, n int, m int, big bigint, num numeric, x float8, flag boolean, made timestamptz, j json, b jsonb,
  tags text[], kind_id int references kind, nick text
);
create table typed (
  id int primary key, bag ext.hstore, path ltree, span int4range, spans int4multirange, net inet, block cidr,
  mood mood, uid uuid, day date, at timestamptz, bytes bytea, home place, spot point, note xml, code varchar(9), words tsvector, body text,
  days date[]
);
create table noted (id int primary key);
insert into kind values (1, 'small', 2), (2, 'large', null), (3, 'none', 1);
insert into thing values
  (1, 'Ann', 1, 1, 9007199254740993, 1.10, 0.5, true, '2024-01-01T00:00:00Z', '{}', '{"a": 1, "b": 2}', '{x,y}', 1, 'Ann'),
  (2, 'ben', 2, 1, 2, 2, 1e300, false, '2024-01-01T00:00:00.000001Z', null, '{"a": 2}', '{x}', 2, 'Ben'),
  (3, null, null, 3, 3, 3, null, null, null, null, null, null, null, null),
  (4, '50%_' || chr(92) || 'z', 4, 3, 4, 4, -1, true, null, null, '["a", "c"]', '{}', 2, 'z');
insert into typed values
  (1, 'a=>1, b=>null', 'top.science', '[1,5)', '{[1,3),[7,9)}', '10.1.0.0/16', '10.1.0.0/16', 'sad',
    '8d6f2b1e-4c0a-4f57-9b1e-0a1b2c3d4e5f', '2024-02-29', '2024-01-01T12:00:00Z', 'a', '("High, St",1)', '(1,2)', '<a/>', 'elephant',
    to_tsvector('english', 'red shoes'), 'The red shoes of my neighbour'),
  (2, 'a=>2, c=>3', 'top.science.maths', '[5,9)', '{[20,30)}', '10.1.2.3', '10.1.2.0/24', 'happy', null, '2024-03-01', null, null, null,
    null, null, 'elephants', to_tsvector('english', 'shoe, shoe'), 'A shoe, a shoe, a red shoe'),
  (3, '', 'top.art', 'empty', '{}', '::1', 'fe80::/10', null, null, null, null, null, null, null, null, 'ant', null, 'A red hat'),
  (4, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);`

const USER: As = { role: 'user' }
const PLAIN: As = { role: 'plain' }

/** May select what has these words. */
const searcher = (words: string): As => ({ role: 'searcher', variables: { 'x-service-words': words } })

const ids = (all: readonly number[]) => exactly(all.map((id) => ({ id })))
const found = (table: string, where: unknown, all: readonly number[], as?: As): Step =>
  query('select', { table, columns: ['id'], where, order_by: 'id' }, ids(all), as)
const thing = (where: unknown, ...all: number[]): Step => found('thing', where, all)
const typed = (where: unknown, ...all: number[]): Step => found('typed', where, all)
const wrong = (table: string, where: unknown, path: string, error: RegExp, code = 'unexpected-payload'): Step =>
  query('select', { table, columns: ['id'], where }, refused(code, error, `$.args.where${path}`))
const search = (query: string, language = 'english') => ({ $matches: { query, language } })

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'where.empty': [thing({}, 1, 2, 3, 4)],
  'where.and-keys': [thing({ m: 1, n: 2 }, 2), thing({ m: 3, id: { $gt: 3 } }, 4)],
  'where.and': [
    thing({ $and: [{ m: 1 }, { $and: [] }, { n: { $gt: 1 } }] }, 2),
    thing({ $and: [] }, 1, 2, 3, 4),
    thing({ $and: [{ id: 1 }, { id: 2 }] }),
  ],
  'where.or': [
    thing({ $or: [{ id: 1 }, { $or: [] }, { id: 3 }] }, 1, 3),
    thing({ $or: [] }),
    thing({ $or: [{ id: 1, m: 3 }, { id: 2 }], m: 1 }, 2),
  ],
  'where.not': [thing({ $not: { id: 1 } }, 2, 3, 4), thing({ $not: { $not: { id: 1 } } }, 1), thing({ $not: {} })],
  'where.underscore': [
    thing({ _or: [{ id: { _eq: 1 } }, { _not: { id: { _lt: 4 } } }] }, 1, 4),
    thing({ _and: [{ id: { _gte: 2 } }, { name: { _like: 'b%' } }] }, 2),
    thing({ n: { _is_null: true } }, 3),
  ],
  'where.value': [
    thing({ name: 'Ann' }, 1),
    thing({ flag: false }, 2),
    thing({ num: 1.1 }, 1),
    thing({ id: { $gt: 1, $lt: 4 } }, 2, 3),
  ],
  'where.null-logic': [
    thing({ $not: { n: { $gt: 1 } } }, 1),
    thing({ $not: { n: 1 } }, 2, 4),
    thing({ n: { $gt: null } }),
    thing({ $not: { n: { $gt: null } } }),
    thing({ $or: [{ n: { $lt: 2 } }, { n: { $gte: 2 } }] }, 1, 2, 4),
  ],
  'where.relationship': [
    thing({ kind: { name: 'large' } }, 2, 4),
    found('kind', { things: { n: 2 } }, [2]),
    found('kind', { things: { n: { $gt: 0 } } }, [1, 2]),
    found('kind', { $not: { things: { n: 2 } } }, [1, 3]),
    found('kind', { things: { n: 2, name: 'Ann' } }, []),
  ],
  'where.relationship-empty': [thing({ kind: {} }, 1, 2, 4), found('kind', { things: {} }, [1, 2])],
  'where.deep-relationship': [
    thing({ kind: { boss: { name: 'large' } } }, 1),
    found('kind', { boss: { things: { kind: { id: 2 } } } }, [1]),
  ],
  'where.unknown': [
    wrong('thing', { $or: [{ nope: 1 }] }, '.$or[0].nope', /^"nope" does not exist$/, 'not-exists'),
    wrong('thing', { n: { $foo: 1 } }, '.n.$foo', /^unknown operator "\$foo"$/),
    wrong('thing', { $foo: [] }, '.$foo', /./, 'not-exists'),
    wrong('thing', { n: 'many' }, '.n', /invalid input syntax for type integer/, 'postgres-error'),
    wrong('thing', { n: { $gt: true } }, '.n.$gt', /expecting a whole number/, 'parse-failed'),
    wrong('thing', { n: { $in: [1, true] } }, '.n.$in[1]', /expecting a whole number/, 'parse-failed'),
    wrong('thing', { n: { $in: 1 } }, '.n.$in', /./, 'parse-failed'),
    wrong('thing', { n: { $in: [[], [1]] } }, '.n.$in[0]', /./, 'parse-failed'),
    wrong('thing', { n: 1.5 }, '.n', /./, 'parse-failed'),
    wrong('thing', { n: 3_000_000_000 }, '.n', /./, 'parse-failed'),
    wrong('thing', { name: 5 }, '.name', /expecting a string, but found a number/, 'parse-failed'),
    wrong('thing', { flag: 'maybe' }, '.flag', /invalid input syntax/, 'postgres-error'),
    wrong('thing', { kind: 1 }, '.kind', /./),
    wrong('typed', { days: { $in: [['2024-01-01'], ['nope']] } }, '.days.$in', /type date: "nope"/, 'postgres-error'),
    wrong('typed', { days: { $nin: ['{nope}'] } }, '.days.$nin', /type date: "nope"/, 'postgres-error'),
    wrong('typed', { home: { $eq: { no: 'y' } } }, '.home.$eq', /type integer: "y"/, 'postgres-error'),
    wrong(
      'typed',
      { home: { $in: [{ street: 'x' }, { no: 'y' }] } },
      '.home.$in',
      /type integer: "y"/,
      'postgres-error',
    ),
  ],
  'where.form': [
    wrong('thing', [], '', /./, 'parse-failed'),
    wrong('thing', 5, '', /./, 'parse-failed'),
    wrong('thing', { $and: {} }, '.$and', /./, 'parse-failed'),
    wrong('thing', { $or: [1] }, '.$or[0]', /./, 'parse-failed'),
    wrong('thing', { $not: [] }, '.$not', /./, 'parse-failed'),
  ],
  'where.values-quoted': [
    ...[`' or ''='`, `\\' or 1=1 --`, '$1', '$$x$$', '"', '?', '}', 'a,b', 'null'].flatMap((value) => [
      thing({ name: value }),
      thing({ name: { $in: [value, 'Ann'] } }, 1),
      thing({ tags: { $contains: [value] } }),
      thing({ tags: { $overlaps: [value, 'y'] } }, 1),
      thing({ b: { $has_key: value } }),
    ]),
    thing({ name: '50%_\\z' }, 4),
  ],
  'where.hidden': [
    found('kind', { things: {} }, [1], USER),
    found('kind', { things: { id: 2 } }, [], USER),
    query(
      'select',
      { table: 'kind', columns: ['id'], where: { things: { name: 'ben' } } },
      refused('permission-denied', /"name"/, '$.args.where.things.name'),
      USER,
    ),
  ],
  'op.eq': [thing({ n: { $eq: 1 } }, 1), thing({ n: { $eq: 3 } }), thing({ b: { $eq: { b: 2, a: 1 } } }, 1)],
  'op.ne': [thing({ n: { $ne: 1 } }, 2, 4), thing({ n: { $neq: 1 } }, 2, 4), thing({ b: { $ne: { a: 2 } } }, 1, 4)],
  'op.gt': [
    thing({ n: { $gt: 1 } }, 2, 4),
    thing({ name: { $gt: 'Ann' } }, 2),
    thing({ made: { $gt: '2024-01-01T00:00:00Z' } }, 2),
  ],
  'op.lt': [thing({ n: { $lt: 2 } }, 1), thing({ num: { $lt: 2 } }, 1), thing({ x: { $lt: 0.5 } }, 4)],
  'op.gte': [thing({ n: { $gte: 2 } }, 2, 4), thing({ num: { $gte: 3 } }, 3, 4)],
  'op.lte': [thing({ n: { $lte: 2 } }, 1, 2), thing({ made: { $lte: '2024-01-01T01:00:00+01:00' } }, 1)],
  'op.in': [
    thing({ n: { $in: [1, 4, 9] } }, 1, 4),
    thing({ n: { $in: [1, null] } }, 1, 3),
    thing({ n: { $in: [] } }),
    thing({ $not: { n: { $in: [1] } } }, 2, 4),
    thing({ name: { $in: ['ben', 'x"y'] } }, 2),
  ],
  'op.nin': [
    thing({ n: { $nin: [1, 9] } }, 2, 4),
    thing({ n: { $nin: [] } }, 1, 2, 3, 4),
    thing({ name: { $nin: ['ben'] } }, 1, 4),
  ],
  'op.distinct': [
    thing({ n: { $is_distinct: 1 } }, 2, 3, 4),
    thing({ n: { $is_not_distinct: 1 } }, 1),
    thing({ $not: { n: { $is_distinct: 1 } } }, 1),
    thing({ $not: { n: { $is_not_distinct: 1 } } }, 2, 3, 4),
    thing({ n: { $is_not_distinct: null } }, 3),
    thing({ n: { $is_distinct: null } }, 1, 2, 4),
    thing({ b: { $is_not_distinct: { a: 2 } } }, 2),
    typed({ bag: { $is_distinct: {} } }, 1, 2, 4),
  ],
  'op.is-null': [
    thing({ n: { $is_null: true } }, 3),
    thing({ n: { $is_null: false } }, 1, 2, 4),
    thing({ j: { $is_null: false } }, 1),
    thing({ b: { $is_null: true } }, 3),
    typed({ spot: { $is_null: false }, note: { $is_null: false } }, 1),
    wrong('thing', { n: { $is_null: 1 } }, '.n.$is_null', /boolean/, 'parse-failed'),
    wrong('thing', { n: { $is_null: null } }, '.n.$is_null', /./, 'parse-failed'),
  ],
  'op.null': [
    thing({ n: null }, 3),
    thing({ n: { $eq: null } }, 3),
    thing({ n: { $ne: null } }, 1, 2, 4),
    thing({ $not: { n: null } }, 1, 2, 4),
  ],
  'op.json': [
    wrong('thing', { j: { $eq: {} } }, '.j.$eq', /^JSON column can not be part of where clause/),
    wrong('thing', { b: 5 }, '.b', /^JSONB column can not be part of where clause/),
    thing({ b: { $gt: { a: 2 } } }, 1),
    thing({ b: { $in: [{ a: 2.0 }, { b: 2, a: 1 }] } }, 1, 2),
    thing({ b: { $nin: [{ a: 2 }] } }, 1, 4),
  ],
  'op.like': [
    thing({ name: { $like: 'A%' } }, 1),
    thing({ name: { $like: 'a%' } }),
    thing({ name: { $like: '_en' } }, 2),
    thing({ name: { $like: 'n' } }),
    thing({ name: { $like: '50\\%\\_\\\\z' } }, 4),
    thing({ name: { $nlike: 'A%' } }, 2, 4),
    typed({ code: { $like: 'elephant' } }, 1),
  ],
  'op.ilike': [thing({ name: { $ilike: 'aN_' } }, 1), thing({ name: { $nilike: 'aN%' } }, 2, 4)],
  'op.similar': [
    thing({ name: { $similar: '(A|b)%' } }, 1, 2),
    thing({ name: { $similar: 'a%' } }),
    thing({ name: { $nsimilar: '(A|x)%' } }, 2, 4),
  ],
  'op.regex': [
    thing({ name: { $regex: 'n+$' } }, 1, 2),
    thing({ name: { $regex: '^B' } }),
    thing({ name: { $nregex: '^A' } }, 2, 4),
    query(
      'count',
      { table: 'thing', where: { name: { $regex: '(' } } },
      refused('postgres-error', /regular expression/),
    ),
  ],
  'op.iregex': [thing({ name: { $iregex: '^B' } }, 2), thing({ name: { $niregex: '^a' } }, 2, 4)],
  'op.text-only': [
    ...[
      '$like',
      '$nlike',
      '$ilike',
      '$nilike',
      '$similar',
      '$nsimilar',
      '$regex',
      '$iregex',
      '$nregex',
      '$niregex',
    ].map((op) => wrong('thing', { n: { [op]: 'x' } }, `.n.${op}`, /only on columns of type "varchar"\/"text"/)),
    wrong('thing', { name: { $like: 5 } }, '.name.$like', /./, 'parse-failed'),
  ],
  'op.like-must-not-end-in-escape': [
    ...['$like', '$nlike', '$ilike', '$nilike'].flatMap((op) => [
      wrong(
        'thing',
        { name: { [op]: 'x\\' } },
        `.name.${op}`,
        /must not end with the escape character/,
        'parse-failed',
      ),
      wrong(
        'thing',
        { id: 99, name: { [op]: 'x\\\\\\' } },
        `.name.${op}`,
        /must not end with the escape/,
        'parse-failed',
      ),
    ]),
    thing({ name: { $like: 'x\\\\' } }),
  ],
  'op.column': [
    thing({ id: { $ceq: 'n' } }, 1, 2, 4),
    thing({ id: { $cne: 'm' } }, 2, 4),
    thing({ m: { $cne: 'kind_id' } }, 2, 4),
    thing({ id: { $cgt: 'm' } }, 2, 4),
    thing({ m: { $clt: 'id' } }, 2, 4),
    thing({ m: { $clt: 'n' } }, 2, 4),
    thing({ id: { $cgte: 'm' } }, 1, 2, 3, 4),
    thing({ n: { $clte: 'm' } }, 1),
    thing({ name: { $ceq: 'nick' } }, 1),
  ],
  'op.root-column': [
    thing({ id: { $ceq: ['n'] } }, 1, 2, 4),
    thing({ id: { $ceq: ['$', 'n'] } }, 1, 2, 4),
    ...[
      { kind: { id: { $cgt: ['$', 'm'] } } },
      { $not: { $not: { kind: { $or: [{ id: { $cgt: ['$', 'm'] } }] } } } },
      { kind: { things: { id: { $ceq: ['$', 'id'] }, kind: { id: { $cgt: ['$', 'm'] } } } } },
      {
        kind: {
          things_aggregate: {
            count: { predicate: { $gt: 0 }, filter: { id: { $ceq: ['$', 'id'] }, kind: { id: { $cgt: ['$', 'm'] } } } },
          },
        },
      },
    ].map((where) => thing(where, 2)),
    wrong('thing', { kind: { id: { $cgt: ['$', 'nope'] } } }, '.kind.id.$cgt', /"nope"/, 'not-exists'),
    wrong('thing', { kind: { id: { $cgt: ['$', 'name'] } } }, '.kind.id.$cgt', /^incompatible column types/),
    ...[[], ['a', 'b'], ['$', 'a', 'b'], ['$', 5], [['id']], { id: 1 }, null].map((to) =>
      wrong('thing', { kind: { id: { $cgt: to } } }, '.kind.id.$cgt', /^expecting a string for column operator/),
    ),
  ],
  'op.column-types': [
    wrong('thing', { n: { $ceq: 'big' } }, '.n.$ceq', /^incompatible column types : "n", "big"$/),
    wrong('thing', { n: { $cgt: 'nope' } }, '.n.$cgt', /"nope"/, 'not-exists'),
    wrong('thing', { n: { $cgt: 5 } }, '.n.$cgt', /./),
    wrong('thing', { j: { $ceq: 'j' } }, '.j.$ceq', /JSON/),
  ],
  'op.contains': [
    thing({ b: { $contains: { a: 1 } } }, 1),
    thing({ b: { $contains: {} } }, 1, 2),
    thing({ b: { $contains: ['c'] } }, 4),
    thing({ b: { $contained_in: { a: 1, b: 2, c: 3 } } }, 1),
    thing({ b: { $contained_in: { a: 2 } } }, 2),
  ],
  'op.array': [
    thing({ tags: { $contains: ['x'] } }, 1, 2),
    thing({ tags: { $contains: ['y', 'x'] } }, 1),
    thing({ tags: { $contains: [] } }, 1, 2, 4),
    thing({ tags: { $contained_in: ['x', 'z'] } }, 2, 4),
    thing({ tags: ['x', 'y'] }, 1),
    thing({ tags: { $eq: ['y', 'x'] } }),
    thing({ tags: { $in: [['x', 'y'], ['z'], []] } }, 1, 4),
    thing({ tags: { $in: [['x'], null] } }, 2, 3),
    thing({ tags: { $nin: [['x']] } }, 1, 4),
    wrong('thing', { tags: { $in: [['x'], [1]] } }, '.tags.$in[1][0]', /expecting a string/, 'parse-failed'),
    wrong('thing', { tags: { $contains: [1] } }, '.tags.$contains[0]', /./, 'parse-failed'),
  ],
  'op.hstore': [
    typed({ bag: { $contains: { a: '1' } } }, 1),
    typed({ bag: { $contains: { b: null } } }, 1),
    typed({ bag: { $contained_in: { a: '2', c: '3', d: '"' } } }, 2, 3),
    typed({ bag: { $eq: { a: '2', c: '3' } } }, 2),
    typed({ bag: { $neq: { a: '2', c: '3' } } }, 1, 3),
    typed({ bag: { $in: [{ a: '2', c: '3' }, {}] } }, 2, 3),
    wrong('typed', { bag: { $contains: { a: 1 } } }, '.bag.$contains.a', /expecting a string or null/, 'parse-failed'),
    wrong('typed', { bag: { $contains: [] } }, '.bag.$contains', /object of strings and nulls/, 'parse-failed'),
  ],
  'op.range': [
    typed({ span: { $contains: 4 } }, 1),
    typed({ span: { $contains: 5 } }, 2),
    typed({ span: { $contains: '[5,7)' } }, 2),
    typed({ span: { $contains: 'empty' } }, 1, 2, 3),
    typed({ span: { $contained_in: '[0,6)' } }, 1, 3),
    typed({ span: '[1,4]' }, 1),
    typed({ spans: { $contains: 8 } }, 1),
    typed({ spans: { $contains: '[21,22)' } }, 2),
    typed({ spans: { $contains: '{[1,2),[8,9)}' } }, 1),
    typed({ spans: { $contained_in: '{[0,10)}' } }, 1, 3),
    wrong(
      'typed',
      { span: { $contains: true } },
      '.span.$contains',
      /expecting a string for type int4range, or an el/,
      'parse-failed',
    ),
    wrong('typed', { span: { $contains: 'x' } }, '.span.$contains', /invalid input syntax/, 'postgres-error'),
    wrong('typed', { span: { $contains: '[1,' } }, '.span.$contains', /malformed range literal/, 'postgres-error'),
    wrong('typed', { span: { $contains: {} } }, '.span.$contains', /but found an object/, 'parse-failed'),
    wrong(
      'typed',
      { span: { $overlaps: 5 } },
      '.span.$overlaps',
      /expecting a string for type int4range/,
      'parse-failed',
    ),
  ],
  'op.network': [
    typed({ net: { $contains: '10.1.2.3' } }, 1, 2),
    typed({ net: { $contained_in: '10.1.2.0/24' } }, 2),
    typed({ block: { $contains: '10.1.2.128/25' } }, 1, 2),
    typed({ block: { $contained_in: '10.1.0.0/16' } }, 1, 2),
    wrong('typed', { net: { $contains: 'x' } }, '.net.$contains', /invalid input syntax/, 'postgres-error'),
  ],
  'op.overlaps': [
    thing({ tags: { $overlaps: ['y', 'q'] } }, 1),
    thing({ tags: { $overlaps: [] } }),
    typed({ span: { $overlaps: '[4,6)' } }, 1, 2),
    typed({ span: { $overlaps: '[9,12)' } }),
    typed({ spans: { $overlaps: '{[2,21)}' } }, 1, 2),
    typed({ net: { $overlaps: '10.1.2.0/24' } }, 1, 2),
    typed({ block: { $overlaps: '10.1.3.1' } }, 1),
  ],
  'op.adjacent': [typed({ span: { $adjacent: '[9,10)' } }, 2), typed({ spans: { $adjacent: '{[9,10)}' } }, 1)],
  'op.has-key': [
    thing({ b: { $has_key: 'a' } }, 1, 2, 4),
    thing({ b: { $has_key: 'b' } }, 1),
    thing({ b: { $has_keys_any: ['b', 'c'] } }, 1, 4),
    thing({ b: { $has_keys_all: ['a', 'b'] } }, 1),
    thing({ b: { $has_keys_any: [] } }),
    typed({ bag: { $has_key: 'c' } }, 2),
    typed({ bag: { $has_keys_any: ['b', 'c'] } }, 1, 2),
    typed({ bag: { $has_keys_all: ['a', 'b'] } }, 1),
  ],
  'op.json-path': [
    thing({ b: { $path_exists: '$.a ? (@ > 1)' } }, 2),
    thing({ b: { $path_match: '$.a == 1' } }, 1),
    thing({ b: { $path_match: 'strict $.none == "x"' } }),
    wrong('thing', { b: { $path_exists: '$.' } }, '.b.$path_exists', /syntax error/, 'postgres-error'),
    wrong('thing', { b: { $path_exists: 5 } }, '.b.$path_exists', /expecting a string/, 'parse-failed'),
  ],
  'op.cast': [
    thing({ b: { $cast: { String: { $like: '%"b": 2%' } } } }, 1),
    thing({ b: { $cast: { String: { $eq: '{"a": 2}' } } } }, 2),
    wrong('thing', { b: { $cast: { Int: {} } } }, '.b.$cast', /./),
    wrong('thing', { n: { $cast: { String: {} } } }, '.n.$cast', /./),
  ],
  'op.trigram': [typed({ code: { $trigram: 'elephan' } }, 1, 2), typed({ code: { $trigram: 'ants' } }, 3)],
  'op.trigram-extension': [
    query('run_sql', { sql: 'drop extension pg_trgm' }, exactly({ result_type: 'CommandOk' })),
    wrong('typed', { code: { $trigram: 'x' } }, '.code.$trigram', /^this operator needs the extension pg_trgm$/),
  ],
  'op.search': [
    typed({ body: search('red shoe') }, 1, 2),
    typed({ body: search('neighbours') }, 1),
    typed({ body: search('shoes', 'pg_catalog.simple') }, 1),
    typed({ body: search('shoe', 'simple') }, 2),
    typed({ $not: { body: search('hat') } }, 1, 2),
    typed({ body: { $matches: 'shoe' } }, 1, 2),
    typed({ body: { $matches: { query: 'shoe' } } }, 1, 2),
  ],
  'op.search-query': [
    typed({ body: search('"red shoe"') }, 1, 2),
    typed({ body: search('"shoe red"') }),
    typed({ body: search('hats or neighbours') }, 1, 3),
    typed({ body: search('red -shoes') }, 3),
    typed({ body: search('" & ! (') }),
  ],
  'op.search-vector': [typed({ words: search('shoes') }, 1, 2), typed({ words: { $matches: 'red' } }, 1)],
  'op.search-wrong': [
    ...(
      [
        [{ query: 'x'.repeat(501) }, '.query', /at most 500 characters/, 'parse-failed'],
        [{ query: 'x', language: 'klingon' }, '.language', /"klingon" does not exist/, 'postgres-error'],
        [{ query: 'x', language: '3748' }, '.language', /name of a text search configuration/, 'parse-failed'],
        [{ query: 'x', language: 5 }, '.language', /expecting a string/, 'parse-failed'],
        [{ language: 'english' }, '', /'query' was not present/, 'parse-failed'],
        [{ query: 'x', lang: 'y' }, '.lang', /unexpected/, 'unexpected-payload'],
        [5, '', /expecting a string/, 'parse-failed'],
      ] as const
    ).flatMap(([$matches, path, error, code]) =>
      ['body', 'words'].map((column) =>
        wrong('typed', { [column]: { $matches } }, `.${column}.$matches${path}`, error, code),
      ),
    ),
    typed({ body: search('x'.repeat(500)) }),
  ],
  'op.search-role': [
    found('typed', {}, [1], searcher('neighbours')),
    found('typed', {}, [1, 2, 3], searcher('red')),
    query(
      'select',
      { table: 'typed', columns: ['id'] },
      { status: 400, like: { error: /x-service-words/i } },
      searcher('x'.repeat(501)),
    ),
  ],
  'op.rank': [
    ...(
      [
        [{ column: 'body', query: 'shoe', language: 'english' }, {}, [2, 1, 3, 4]],
        [{ column: 'body', query: 'shoe', language: 'english' }, { type: 'asc' }, [3, 1, 2, 4]],
        [{ column: 'body', query: 'shoe', language: 'english' }, { nulls: 'first' }, [4, 2, 1, 3]],
        [{ column: 'words', query: 'shoe', language: 'english' }, {}, [2, 1, 3, 4]],
      ] as const
    ).map(([rank, more, all]) =>
      query('select', { table: 'typed', columns: ['id'], order_by: [{ rank, ...more }, 'id'] }, ids(all)),
    ),
    query(
      'select',
      { table: 'typed', columns: ['id'], order_by: [{ rank: { column: 'body', query: 'shoe' } }, 'id'] },
      ids([2, 1]),
      searcher('shoe'),
    ),
    ...(
      [
        [{ column: 'id', query: 'x' }, '', /rank is for text and tsvector/],
        [{ column: 'none', query: 'x' }, '', /"none" does not exist/],
        [{ query: 'x' }, '.column', /the name of a column/],
        ['body', '', /expecting an object/],
        [{ column: 'body' }, '', /'query' was not present/],
        [{ column: 'body', query: 5 }, '.query', /expecting a string/],
      ] as const
    ).map(([rank, path, error]) =>
      query(
        'select',
        { table: 'typed', columns: ['id'], order_by: [{ rank }] },
        {
          status: 400,
          like: { path: `$.args.order_by[0].rank${path}`, error },
        },
      ),
    ),
  ],
  'op.ltree': [
    typed({ path: { $ancestor: 'top.science.maths' } }, 1, 2),
    typed({ path: { $descendant: 'top.science' } }, 1, 2),
    typed({ path: { $ancestor_any: ['top.art', 'x'] } }, 3),
    typed({ path: { $descendant_any: ['top.art', 'top.science.maths'] } }, 2, 3),
    typed({ path: { $matches: '*.science.*' } }, 1, 2),
    typed({ path: { $matches_any: ['*.art', 'x.*'] } }, 3),
    typed({ path: { $matches_fulltext: 'maths | art' } }, 2, 3),
    typed({ path: 'top.art' }, 3),
  ],
  'op.geometry': [
    ...[
      '$st_contains',
      '$st_crosses',
      '$st_equals',
      '$st_overlaps',
      '$st_touches',
      '$st_within',
      '$st_3d_intersects',
    ].map((op) => wrong('typed', { spot: { [op]: '(1,2)' } }, `.spot.${op}`, /only on columns of type "geometry"/)),
    ...['$st_3d_d_within', '$st_d_within', '$st_intersects'].map((op) =>
      wrong(
        'typed',
        { spot: { [op]: { distance: 1, from: '(1,2)' } } },
        `.spot.${op}`,
        /only on columns of type "geometry"/,
      ),
    ),
    wrong('typed', { spot: { $cast: { geography: {} } } }, '.spot.$cast', /./),
  ],
  'op.types': [
    ...(
      [
        [{ spot: { $eq: '(1,2)' } }, '.spot.$eq'],
        [{ spot: '(1,2)' }, '.spot'],
        [{ spot: { $in: ['(1,2)'] } }, '.spot.$in'],
        [{ spot: { $ceq: 'spot' } }, '.spot.$ceq'],
        [{ note: { $gt: '<a/>' } }, '.note.$gt'],
        [{ note: { $is_distinct: '<a/>' } }, '.note.$is_distinct'],
      ] as const
    ).map(([where, path]) => wrong('typed', where, path, /which PostgreSQL cannot compare/)),
    query(
      'select',
      { table: 'typed', columns: ['id'], order_by: 'spot' },
      refused('unexpected-payload', /which PostgreSQL cannot sort/),
    ),
  ],
  'op.other-type': [
    wrong('thing', { id: { $overlaps: 1 } }, '.id.$overlaps', /works only on columns of type "array"\/"range"/),
    wrong('thing', { tags: { $adjacent: ['a'] } }, '.tags.$adjacent', /only on columns of type "range"\/"multirange"/),
    wrong('thing', { name: { $contains: 'a' } }, '.name.$contains', /only on columns of type/),
    wrong('thing', { name: { $has_key: 'a' } }, '.name.$has_key', /only on columns of type "jsonb"/),
    wrong('thing', { n: { $matches: 'a' } }, '.n.$matches', /only on columns of type/),
    wrong('thing', { j: { $contains: {} } }, '.j.$contains', /./),
  ],
  'op.values': [
    typed({ mood: 'happy' }, 2),
    typed({ mood: { $gt: 'sad' } }, 2),
    typed({ mood: { $in: ['sad'] } }, 1),
    wrong('typed', { mood: 'angry' }, '.mood', /invalid input value for enum/, 'postgres-error'),
    typed({ uid: '8D6F2B1E-4C0A-4F57-9B1E-0A1B2C3D4E5F' }, 1),
    typed({ day: { $gte: '2024-03-01' } }, 2),
    typed({ at: '2024-01-01T13:00:00+01:00' }, 1),
    typed({ bytes: '\\x61' }, 1),
    typed({ home: { $eq: { street: 'High, St', no: 1 } } }, 1),
    thing({ x: { $gt: 1e299 } }, 2),
    thing({ x: { $eq: '-1' } }, 4),
  ],
  'op.aggregate': [
    found('kind', { things_aggregate: { count: { predicate: { $eq: 0 } } } }, [3]),
    found('kind', { things_aggregate: { count: { predicate: { $gt: 1 } } } }, [2]),
    found('kind', { things_aggregate: { count: { predicate: { $gte: 1 }, filter: { n: 2 } } } }, [2]),
    found('kind', { things_aggregate: { count: { predicate: { $eq: 1 }, arguments: ['flag'], distinct: true } } }, [1]),
    found('kind', { things_aggregate: { count: { predicate: { $eq: 2 }, arguments: ['flag'], distinct: true } } }, [2]),
    wrong('kind', { things_aggregate: { count: { filter: {} } } }, '.things_aggregate.count', /./, 'parse-failed'),
  ],
  'op.aggregate-bool': [
    found('kind', { things_aggregate: { bool_and: { arguments: 'flag', predicate: { $eq: true } } } }, [1]),
    found('kind', { things_aggregate: { bool_or: { arguments: 'flag', predicate: { $eq: true } } } }, [1, 2]),
    query(
      'select',
      {
        table: 'kind',
        columns: ['id'],
        where: { things_aggregate: { bool_and: { arguments: 'n', predicate: { $eq: true } } } },
      },
      refused('unexpected-payload', /./),
    ),
    found(
      'kind',
      { things_aggregate: { bool_and: { arguments: 'flag', filter: { id: 4 }, predicate: { $eq: true } } } },
      [2],
    ),
  ],
  'op.aggregate-role': [
    found('kind', { things_aggregate: { count: { predicate: { $eq: 0 } } } }, [2, 3], USER),
    query(
      'select',
      { table: 'kind', columns: ['id'], where: { things_aggregate: { count: { predicate: { $eq: 0 } } } } },
      refused('permission-denied', /./),
      PLAIN,
    ),
  ],
  'op.exists': [
    thing({ $exists: { _table: 'noted', _where: {} } }),
    thing({ $exists: { _table: 'kind', _where: { id: 1 } } }, 1, 2, 3, 4),
    thing({ $not: { $exists: { _table: { schema: 'public', name: 'kind' }, _where: { id: 99 } } }, id: 1 }, 1),
  ],
  'op.exists-role': [
    query(
      'select',
      { table: 'kind', columns: ['id'], where: { $exists: { _table: 'kind', _where: {} } } },
      refused('unexpected-payload', /permissions only/, '$.args.where.$exists'),
      USER,
    ),
  ],
}

/** Its promises, with a case for each. */
export const conditions = area('conditions', {
  promises: PROMISES,
  cases: CASES,
  pages: {
    'plugins/query/conditions.md': {
      Operators: {
        'A condition is an object whose keys must all hold.': 'where.and-keys',
        '`$eq` `$ne` (`$neq`) `$gt` `$lt` `$gte` `$lte` `$in` `$nin`': [
          'op.eq',
          'op.ne',
          'op.gt',
          'op.lt',
          'op.gte',
          'op.lte',
          'op.in',
          'op.nin',
          'op.json',
        ],
        '`$is_distinct` `$is_not_distinct`: like `$ne` and `$eq`, but true or false for null too': 'op.distinct',
        '`$is_null` (true or false)': 'op.is-null',
        '`$like` `$nlike` `$ilike` `$nilike` `$similar` `$nsimilar` `$regex` `$iregex` `$nregex` `$niregex`': [
          'op.like',
          'op.ilike',
          'op.similar',
          'op.regex',
          'op.iregex',
          'op.text-only',
        ],
        '`$contains` `$contained_in`': ['op.contains', 'op.array', 'op.hstore', 'op.range', 'op.network'],
        '`$overlaps`': 'op.overlaps',
        '`$adjacent`': 'op.adjacent',
        '`$matches`: [full-text search](#full-text-search)': ['op.search', 'op.search-vector'],
        '`$has_key` `$has_keys_any` `$has_keys_all`': 'op.has-key',
        "`$path_exists` `$path_match`: a JSON path, as PostgreSQL's `@?` and `@@`": 'op.json-path',
        "`$trigram`: similar words, as PostgreSQL's `%`": ['op.trigram', 'op.trigram-extension'],
        '`$ceq` `$cne` `$cgt` `$clt` `$cgte` `$clte`: compare with another column': ['op.column', 'op.root-column'],
        '`$ancestor` `$ancestor_any` `$descendant` `$descendant_any` `$matches` `$matches_any` `$matches_fulltext`':
          'op.ltree',
        '`$st_contains` `$st_crosses` `$st_equals` `$st_overlaps` `$st_touches` `$st_within` `$st_3d_intersects` `$st_3d_d_within`':
          'op.geometry',
        '`$st_intersects` `$st_d_within`': 'op.geometry',
        '`$cast: {type: operators}`': 'op.cast',
        '`<relationship>_aggregate: {"count": {"predicate": {"$gt": 3}, "filter"?, "arguments"?, "distinct"?}}`, also `bool_and`, `bool_or` of one column':
          ['op.aggregate', 'op.aggregate-bool'],
        '`$exists: {"_table", "_where"}`': 'op.exists',
      },
      Patterns: {
        'A pattern of `$like` must not end in its escape character (an odd number of backslashes); otherwise the request fails with 400.':
          'op.like-must-not-end-in-escape',
      },
      'Geometry (PostGIS)': {
        'For a `$cast` the index must be on `(place::geography)`.': 'op.geometry',
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
  await server.must('bulk', [
    ...['kind', 'thing', 'typed', 'noted'].map((args) => ({ type: 'track_table', args })),
    relate('object', 'thing', 'kind', 'kind_id'),
    relate('object', 'kind', 'boss', 'boss_id'),
    relate('array', 'kind', 'things', { table: 'thing', column: 'kind_id' }),
    {
      type: 'create_select_permission',
      args: {
        table: 'typed',
        role: 'searcher',
        permission: { columns: '*', filter: { body: search('X-Service-Words') } },
      },
    },
    ...['user', 'plain'].flatMap((role) => [
      {
        type: 'create_select_permission',
        args: {
          table: 'thing',
          role,
          permission: { columns: ['id'], filter: { id: 1 }, allow_aggregations: role === 'user' },
        },
      },
      { type: 'create_select_permission', args: { table: 'kind', role, permission: { columns: ['id'], filter: {} } } },
    ]),
  ])
  return server
}
