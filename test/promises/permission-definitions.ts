import type { Test } from 'tap'
import { permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** How permissions are made, dropped and commented. */
const PROMISES = {
  'create.answer': 'making a permission answers {"message":"success"}',
  'create.twice': 'a permission is made once for each table, role and type',
  'create.admin-role': 'the role admin has every permission already',
  'create.role-name': 'the name of a role has 1 to 64 letters, digits and _ . -',
  'create.table': 'a permission is about a tracked table',
  'create.columns': 'a permission names columns that exist',
  'create.filter-column': 'a filter names columns that exist',
  'create.required': 'a permission needs its columns, filter or check',
  'create.unknown-key': 'a misspelt key does not widen a permission',
  'create.limit': 'a limit is a whole number of rows',
  'create.computed-field': 'a computed field of a permission exists',
  'create.backend-only-select': 'a select permission cannot be for backends only',
  'create.user-id-type': 'X-Service-User-Id is refused where no user id can fit',
  'create.user-id-pattern': 'and as a pattern, whose wildcards would match other users',
  'create.whole-value': 'a session variable is the whole value',
  'create.constant': 'a constant that PostgreSQL cannot read is refused when the permission is made',
  'create.generated': 'a preset is refused for a generated column',
  'create.admin-only': 'only admin makes, drops and comments permissions',
  'drop.effect': 'a dropped permission is gone',
  'drop.missing': 'a permission that does not exist cannot be dropped',
  'comment.set': 'a comment can be set and read',
  'comment.null': 'null removes it, and so does leaving it out',
  'comment.type': 'the type is select, insert, update or delete',
  'comment.missing': 'a permission that does not exist has no comment',
} as const

const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const as = (role: string): As => ({ role })

const ids = (...all: number[]): Expected => is(all.map((id) => ({ id })))
const notes = (expected: Expected, who: As, more: object = {}): Step =>
  query('select', { table: 'note', columns: ['id'], order_by: 'id', ...more }, expected, who)
const select = (type: string, role: string, permission: object, expected: Expected, table = 'note'): Step =>
  query(`create_${type}_permission`, { table, role, permission }, expected)
const denied = (error: string | RegExp, path?: string) => refused('permission-denied', error, path)
const ID = 'X-Service-User-Id'
const ALL = { columns: ['id'], filter: {} }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'create.answer': [
    select('delete', 'maker', { filter: {} }, { status: 200, text: '{"message":"success"}' }),
    select('insert', 'maker', { check: {} }, { status: 200, text: '{"message":"success"}' }),
    select('update', 'maker', { columns: ['state'], filter: {} }, { status: 200, text: '{"message":"success"}' }),
    select('select', 'maker', { columns: '*', filter: {} }, { status: 200, text: '{"message":"success"}' }),
  ],
  'create.twice': [
    select(
      'select',
      'user',
      ALL,
      refused('already-exists', `'select' permission on "note" for role "user" already exists`, '$.args'),
    ),
  ],
  'create.admin-role': [
    select(
      'select',
      'admin',
      ALL,
      refused('already-exists', `'select' permission on "note" for role "admin" already exists`),
    ),
    select(
      'delete',
      'admin',
      { filter: {} },
      refused('already-exists', `'delete' permission on "note" for role "admin" already exists`),
    ),
  ],
  'create.role-name': [
    select('select', 'a b', ALL, refused('parse-failed', /a role name has 1 to 64 of/, '$.args.role')),
    select('select', 'x'.repeat(65), ALL, refused('parse-failed', /1 to 64/, '$.args.role')),
    select('select', '', ALL, refused('parse-failed', /1 to 64/, '$.args.role')),
    select('select', 'x'.repeat(64), ALL, is({ message: 'success' })),
  ],
  'create.table': [select('select', 'new', ALL, refused('not-exists', /"nope"/, '$.args.table'), 'nope')],
  'create.columns': [
    select(
      'select',
      'new',
      { columns: ['id', 'nope'], filter: {} },
      refused('not-exists', /column "nope"/, '$.args.permission.columns[1]'),
    ),
    select(
      'update',
      'new',
      { columns: ['nope'], filter: {} },
      refused('not-exists', /column "nope"/, '$.args.permission.columns[0]'),
    ),
    select(
      'insert',
      'new',
      { check: {}, set: { nope: 1 } },
      refused('not-exists', /column "nope"/, '$.args.permission.set.nope'),
    ),
  ],
  'create.filter-column': [
    select(
      'select',
      'new',
      { columns: '*', filter: { nope: 1 } },
      refused('not-exists', /"nope"/, '$.args.permission.filter.nope'),
    ),
    select(
      'insert',
      'new',
      { check: { person: { nope: 1 } } },
      refused('not-exists', /"nope"/, '$.args.permission.check.person.nope'),
    ),
    select(
      'delete',
      'new',
      { filter: { state: { $lik: 'x' } } },
      refused('unexpected-payload', /unknown operator "\$lik"/, '$.args.permission.filter.state'),
    ),
  ],
  'create.required': [
    select(
      'select',
      'new',
      { filter: {} },
      refused('parse-failed', "the key 'columns' was not present", '$.args.permission'),
    ),
    select(
      'select',
      'new',
      { columns: '*' },
      refused('parse-failed', "the key 'filter' was not present", '$.args.permission'),
    ),
    select('insert', 'new', {}, refused('parse-failed', "the key 'check' was not present", '$.args.permission')),
    select('update', 'new', { columns: ['id'] }, refused('parse-failed', "the key 'filter' was not present")),
    select('update', 'new', { filter: {} }, refused('parse-failed', "the key 'columns' was not present")),
    select('delete', 'new', {}, refused('parse-failed', "the key 'filter' was not present")),
    query('create_delete_permission', { table: 'note', permission: { filter: {} } }, refused('parse-failed', /role/)),
  ],
  'create.unknown-key': [
    select(
      'delete',
      'new',
      { filter: {}, fliter: { id: 1 } },
      refused('unexpected-payload', 'unexpected key "fliter"', '$.args.permission.fliter'),
    ),
    select(
      'select',
      'new',
      { columns: '*', filter: {}, set: { id: 1 } },
      refused('unexpected-payload', 'unexpected key "set"'),
    ),
    query(
      'create_delete_permission',
      { table: 'note', role: 'new', permission: { filter: {} }, sourc: 1 },
      refused('unexpected-payload', /sourc/),
    ),
  ],
  'create.limit': [
    select(
      'select',
      'new',
      { ...ALL, limit: -1 },
      refused('parse-failed', 'expecting a whole number of rows', '$.args.permission.limit'),
    ),
    select('select', 'new', { ...ALL, limit: 1.5 }, refused('parse-failed', 'expecting a whole number of rows')),
    select(
      'select',
      'new',
      { ...ALL, allow_aggregations: 'yes' },
      refused('parse-failed', 'expecting a boolean', '$.args.permission.allow_aggregations'),
    ),
  ],
  'create.computed-field': [
    select(
      'select',
      'new',
      { ...ALL, computed_fields: ['nope'] },
      refused('not-exists', 'computed field "nope" does not exist', '$.args.permission.computed_fields[0]'),
    ),
  ],
  'create.backend-only-select': [
    select(
      'select',
      'new',
      { ...ALL, backend_only: true },
      refused('unexpected-payload', 'unexpected key "backend_only"'),
    ),
  ],
  'create.user-id-type': [
    select(
      'select',
      'new',
      { columns: '*', filter: { open: 'X-SERVICE-USER-ID' } },
      refused(
        'unexpected-payload',
        /requires a smallint, integer, bigint, uuid, text, .*; the type here is bool/,
        '$.args.permission.filter.open',
      ),
      'typed',
    ),
    select(
      'insert',
      'new',
      { check: {}, set: { made: 'X-Service-User-Id' } },
      refused('unexpected-payload', /the type here is timestamptz/, '$.args.permission.set.made'),
      'typed',
    ),
    select(
      'select',
      'new',
      { columns: '*', filter: { small: 'X-Service-User-Id', big: 'X-Service-User-Id' } },
      is({ message: 'success' }),
      'typed',
    ),
    ...(
      [
        [{ n: ID }, 'numeric'],
        [{ f: { $gt: ID } }, 'float8'],
        [{ b: ID }, 'bool'],
        [{ d: ID }, 'date'],
        [{ x: ID }, 'name'],
        [{ a: ID }, '_text'],
        [{ id: { $in: ID } }, '_int4'],
        [{ y: { $ne: ID } }, 'bytea'],
        [{ j: { $has_key: ID } }, 'jsonb'],
        [{ j: { $cast: { String: { $eq: ID } } } }, 'jsonb'],
        [{ j: { $cast: { String: { $in: [ID] } } } }, 'jsonb'],
      ] as const
    ).map(([filter, type]) =>
      select(
        'select',
        'new',
        { columns: ['id'], filter },
        refused('unexpected-payload', new RegExp(`requires a smallint, .*; the type here is ${type}$`)),
        'odd',
      ),
    ),
  ],
  'create.user-id-pattern': [
    select(
      'select',
      'new',
      { columns: '*', filter: { login: { $like: 'X-Service-User-Id' } } },
      refused('unexpected-payload', /cannot be a pattern/, '$.args.permission.filter'),
    ),
    select(
      'select',
      'new',
      { columns: '*', filter: { $not: { login: { $nilike: 'X-Service-User-Id' } } } },
      refused('unexpected-payload', /cannot be a pattern/),
    ),
    ...[
      ...['$like', '$ilike', '$nlike', '$similar', '$regex', '$niregex'].map((op) => ({
        $not: { owner: { [op]: ID } },
      })),
      { owner: { $matches: { query: ID } } },
      { words: { $matches: { query: ID } } },
    ].map((filter) =>
      select('select', 'new', { columns: '*', filter }, refused('unexpected-payload', /cannot be a pattern/), 'odd'),
    ),
  ],
  'create.whole-value': [
    select(
      'select',
      'newer',
      { columns: '*', filter: { data: { $contains: { owner: 'X-Service-User-Id' } } } },
      refused('unexpected-payload', 'a session variable must be the whole value'),
      'typed',
    ),
    ...[{ a: { $contains: [ID] } }, { $not: { j: { $contains: { by: ID } } } }].map((filter) =>
      select(
        'select',
        'newer',
        { columns: '*', filter },
        refused('unexpected-payload', 'a session variable must be the whole value'),
        'odd',
      ),
    ),
    select(
      'select',
      'newer',
      { columns: '*', filter: { owner: { $like: 'a%' }, a: { $contains: ['x-service'] } } },
      is({ message: 'success' }),
      'odd',
    ),
  ],
  'create.constant': [
    select(
      'select',
      'newer',
      { columns: '*', filter: { made: 'yesterdax' } },
      refused('unexpected-payload', /yesterdax/, '$.args.permission.filter.made'),
      'typed',
    ),
    ...[
      [{ owner: { $regex: '(' } }, '.owner.$regex'],
      [{ $not: { owner: { $niregex: '[' } } }, '.$not.owner.$niregex'],
      [{ $or: [{ b: true }, { owner: { $similar: 'a(' } }] }, '.$or[1].owner.$similar'],
      [{ j: { $path_exists: '$[' } }, '.j.$path_exists'],
      [{ j: { $cast: { String: { $iregex: '*' } } } }, '.j.$cast.String.$iregex'],
      [{ owner: { $matches: { query: 'x', language: 'no_such' } } }, '.owner.$matches.language'],
      [{ n: { $in: [1, 'x'] } }, '.n.$in'],
    ].map(([filter, path]) =>
      select(
        'select',
        'newest',
        { columns: '*', filter: filter as object },
        refused('unexpected-payload', /./, `$.args.permission.filter${path as string}`),
        'odd',
      ),
    ),
    select(
      'insert',
      'new',
      { check: {}, set: { small: 40000 } },
      refused(
        'parse-failed',
        'expecting a whole number in the range of int2, but found a number',
        '$.args.permission.set.small',
      ),
      'typed',
    ),
  ],
  'create.generated': [
    select(
      'insert',
      'new',
      { check: {}, set: { twice: 1 } },
      refused('unexpected-payload', 'column "twice" is generated', '$.args.permission.set.twice'),
    ),
  ],
  'create.admin-only': [
    'create_select_permission',
    'create_insert_permission',
    'create_update_permission',
    'create_delete_permission',
  ]
    .flatMap((type) => [
      query(
        type,
        { table: 'note', role: 'user', permission: { columns: '*', filter: {}, check: {} } },
        refused('access-denied', 'only the role admin may do this'),
        USER,
      ),
      query(
        type.replace('create', 'drop'),
        { table: 'note', role: 'user' },
        refused('access-denied', 'only the role admin may do this'),
        USER,
      ),
    ])
    .concat(
      query(
        'set_permission_comment',
        { table: 'note', role: 'user', type: 'select', comment: 'x' },
        refused('access-denied', 'only the role admin may do this'),
        USER,
      ),
    ),
  'drop.effect': [
    notes(ids(1, 2), as('maker')),
    ...['select', 'insert', 'update', 'delete'].map((type) =>
      query(
        `drop_${type}_permission`,
        { table: 'note', role: 'maker' },
        { status: 200, text: '{"message":"success"}' },
      ),
    ),
    notes(NOT('note', 'maker'), as('maker')),
    query(
      'insert',
      { table: 'note', objects: [{ id: 9 }] },
      denied(/^insert on "note" for role "maker" is not allowed/),
      as('maker'),
    ),
    query(
      'update',
      { table: 'note', where: {}, $set: { state: 'x' } },
      denied(/^update on "note" for role "maker" is not allowed/),
      as('maker'),
    ),
    query(
      'delete',
      { table: 'note', where: {} },
      denied(/^delete on "note" for role "maker" is not allowed/),
      as('maker'),
    ),
  ],
  'drop.missing': [
    query(
      'drop_insert_permission',
      { table: 'note', role: 'user' },
      denied('insert permisson on "note" for role "user" does not exist', '$.args'),
    ),
    query('drop_select_permission', { table: 'nope', role: 'user' }, refused('not-exists', /"nope"/, '$.args.table')),
  ],
  'comment.set': [COMMENT('who wrote'), COMMENTED('who wrote')],
  'comment.null': [
    COMMENT(null),
    COMMENTED(null),
    COMMENT('again'),
    query('set_permission_comment', { table: 'note', role: 'user', type: 'select' }, is({ message: 'success' })),
    COMMENTED(null),
  ],
  'comment.type': [
    query(
      'set_permission_comment',
      { table: 'note', role: 'user', type: 'call', comment: 'x' },
      refused('parse-failed', /./, '$.args.type'),
    ),
    query(
      'set_permission_comment',
      { table: 'note', role: 'user', comment: 'x' },
      refused('parse-failed', "the key 'type' was not present"),
    ),
  ],
  'comment.missing': [
    query(
      'set_permission_comment',
      { table: 'note', role: 'user', type: 'delete', comment: 'x' },
      denied('delete permisson on "note" for role "user" does not exist'),
    ),
  ],
}

function NOT(table: string, role: string): Expected {
  return refused(
    'permission-denied',
    new RegExp(`^select on "${table}" for role "${role}" is not allowed\\.? ?$`),
    '$.args.table',
  )
}
function COMMENT(comment: string | null): Step {
  return query(
    'set_permission_comment',
    { table: 'note', role: 'user', type: 'select', comment },
    is({ message: 'success' }),
  )
}
function COMMENTED(comment: string | null): Step {
  const where = { table_name: 'note', role_name: 'user', perm_type: 'select' }
  return query(
    'select',
    { table: { schema: 'svc_catalog', name: 'svc_permission' }, columns: ['comment'], where },
    is([{ comment }]),
  )
}

export const permissionDefinitions = area('permission-definitions', { promises: PROMISES, start, cases: CASES })

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(`create table person (id int primary key, name text);
      create table note (id int primary key, owner int references person, state text, stars int, login text,
        twice int generated always as (stars * 2) stored);
      create table typed (id int primary key, open bool, small smallint, big bigint, made timestamptz, data jsonb);
      create table odd (id int primary key, j jsonb, n numeric, f float8, b bool, d date, x name, a text[], y bytea, owner text,
        words tsvector);
      insert into note (id) values (1), (2)`)
  await server.must('bulk', [
    ...['person', 'note', 'typed', 'odd'].map(track),
    relate('object', 'note', 'person', 'owner'),
    permit('select', 'note', 'user', { columns: ['id', 'owner', 'state'], filter: { owner: 'X-Service-User-Id' } }),
  ])
  return server
}
