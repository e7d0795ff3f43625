import type { Test } from 'tap'
import { graphql, permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What permissions let a role read, and how they are made. */
const PROMISES = {
  'select.none': 'a table on which a role has no select permission cannot be told from one that does not exist',
  'select.own-role': 'a permission is for its role only',
  'select.admin': 'admin reads everything without a permission',
  'select.columns': 'a column outside of the permission is refused, as one that does not exist',
  'select.wildcard': '* is every column that the role may select',
  'select.all-columns': 'a permission on "*" shows all columns',
  'select.where-column': 'a column that a role may not select is refused in a condition',
  'select.order-column': 'and in an order',
  'select.distinct-column': 'and in distinct_on and the distinct of a count',
  'select.group-column': 'and in groups and aggregates',
  'select.compared-column': 'and as the other side of a comparison of two columns',
  'select.filter': 'a role sees only the rows of its filter, whatever its condition',
  'select.filter-count': 'and counts only those',
  'select.filter-combined': 'a filter combines conditions with $and, $or and $not',
  'select.filter-constant': 'a constant in a filter is a value of the type of its column',
  'select.filter-relationship': 'a filter may look at related rows, also those that the role does not see',
  'select.filter-exists': 'a filter may look at any table with $exists',
  'select.filter-computed': 'a filter may use a computed field that needs only the row',
  'select.related-rows': 'related rows are those of the filter of their own table',
  'select.related-object': 'a related row that the role does not see is null',
  'select.related-none': 'a relationship to a table without permission does not exist for the role',
  'select.related-where': 'a condition on related rows holds for visible ones only',
  'select.related-order': 'an order by a related row does not use the values of a hidden one',
  'select.wildcard-related': '*.* leaves out relationships to tables without permission',
  'select.limit': 'the limit of a permission holds, whatever limit is asked for',
  'select.limit-related': 'and holds for the related rows of each row',
  'select.limit-zero': 'a limit of 0 shows no row',
  'aggregate.allowed': 'a role with allow_aggregations aggregates the rows that it sees, whatever their limit',
  'aggregate.refused': 'a role without allow_aggregations may neither aggregate nor group',
  'aggregate.condition': 'nor use an aggregate of related rows in a condition',
  'aggregate.condition-rows': 'an aggregate in a condition is about visible rows',
  'computed.listed': 'a role sees the computed fields that its permission lists, and no others',
  'session.user-id': 'X-Service-User-Id stands for the id of the caller',
  'session.types': 'the user id may be compared with an integer, a UUID and a text',
  'session.case': 'the name of a session variable may have any case',
  'session.missing': 'a missing session variable is an error, and not an empty value',
  'session.other': 'other session variables work for values of any type',
  'session.underscore': 'the name of a session variable may have “_”, in a filter, a check and a preset',
  'session.role': 'the role is a session variable too',
  'session.list': 'a session variable may be a list, or an element of one',
  'session.unfit': 'a user id that does not fit the type of a column matches nothing',
  'session.unfit-not': 'nor through $not, $is_distinct or a relationship',
  'session.spoofed': 'a caller cannot give itself the session variables of another',
  'exists.role': '$exists is refused in the requests of roles',
  'exists.admin': '$exists is allowed in those of admin',
} as const

const SQL = `
create table person (id int primary key, name text not null, org text, pin text);
create table note (id int primary key, owner int references person, state text, stars int, hidden int,
  ref uuid, login text, twice int generated always as (stars * 2) stored);
create table vault (id int primary key, note_id int references note, code text);
create function is_popular(n note) returns bool language sql stable as 'select n.stars > 3';
create function loud_name(p person) returns text language sql stable as 'select upper(p.name)';
insert into person values (1, 'Ann', 'red', 'p1'), (2, 'Ben', 'red', 'p2'), (3, 'Cas', 'blue', 'p3');
insert into note values
  (1, 1, 'open', 5, 10, '00000000-0000-0000-0000-000000000001', 'ann'),
  (2, 1, 'done', 3, 20, '00000000-0000-0000-0000-000000000002', 'ann%'),
  (3, 2, 'open', 1, 30, null, 'ben'),
  (4, 3, 'open', 4, 40, null, '1');
insert into vault values (1, 1, 'x')`

/** A role, with the id of the caller. */
const as = (role: string, id?: string, more: Readonly<Record<string, string>> = {}): As => ({
  role,
  variables: { ...(id === undefined ? {} : { 'x-service-user-id': id }), ...more },
})
const USER = as('user', '1')

const ids = (...all: number[]): Expected => is(all.map((id) => ({ id })))
const notes = (expected: Expected, who: As, more: object = {}): Step =>
  query('select', { table: 'note', columns: ['id'], order_by: 'id', ...more }, expected, who)
const denied = (error: string | RegExp, path?: string) => refused('permission-denied', error, path)

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'select.none': [
    query('select', { table: 'vault', columns: ['id'] }, NOT('vault', 'user'), USER),
    query('select', { table: 'valut', columns: ['id'] }, NOT('valut', 'user'), USER),
    query('count', { table: 'vault' }, denied(/^select on "vault" for role "user" is not allowed/), USER),
    query('count', { table: 'valut' }, denied(/^select on "valut" for role "user" is not allowed/), USER),
  ],
  'select.own-role': [notes(NOT('note', 'guest'), { role: 'guest' })],
  'select.admin': [
    query('select', { table: 'vault', columns: ['id', 'code'] }, is([{ id: 1, code: 'x' }])),
    notes(ids(1, 2, 3, 4), {}),
  ],
  'select.columns': [
    query(
      'select',
      { table: 'note', columns: ['id', 'hidden'] },
      denied('role "user" does not have permission to select column "hidden"', '$.args.columns[1]'),
      USER,
    ),
    query(
      'select',
      { table: 'note', columns: ['id', 'missing'] },
      denied('role "user" does not have permission to select column "missing"', '$.args.columns[1]'),
      USER,
    ),
  ],
  'select.wildcard': [
    query(
      'select',
      { table: 'note', columns: ['*'], where: { id: 1 } },
      is([{ id: 1, owner: 1, state: 'open' }]),
      USER,
    ),
  ],
  'select.all-columns': [
    query(
      'select',
      { table: 'person', columns: ['*'], where: { id: 3 } },
      is([{ id: 3, name: 'Cas', org: 'blue', pin: 'p3' }]),
      as('all'),
    ),
  ],
  'select.where-column': [
    notes(denied(/"hidden"/, '$.args.where.hidden'), USER, { where: { hidden: 10 } }),
    query('count', { table: 'note', where: { $not: { hidden: 10 } } }, denied(/"hidden"/), USER),
  ],
  'select.order-column': [notes(denied(/"hidden"/), USER, { order_by: ['id', '-hidden'] })],
  'select.distinct-column': [
    notes(denied(/"hidden"/), USER, { distinct_on: ['hidden'], order_by: ['hidden'] }),
    query('count', { table: 'note', distinct: ['hidden'] }, denied(/"hidden"/), USER),
  ],
  'select.group-column': [
    query('select', { table: 'note', columns: [{ sum: 'hidden', as: 'n' }] }, denied(/"hidden"/), as('counter')),
    query(
      'select',
      { table: 'note', columns: ['hidden', { count: '*', as: 'n' }], group_by: ['hidden'] },
      denied(/"hidden"/),
      as('counter'),
    ),
  ],
  'select.compared-column': [
    notes(denied(/"hidden"/), USER, { where: { owner: { $clt: 'hidden' } } }),
    notes(ids(1), USER, { where: { id: { $ceq: 'owner' } } }),
  ],
  'select.filter': [
    notes(ids(1, 2), USER),
    notes(ids(3), as('user', '2')),
    notes(ids(), USER, { where: { id: 3 } }),
    notes(ids(1, 2), USER, { where: { $or: [{ id: 3 }, {}] } }),
    notes(ids(2), USER, { where: { $not: { id: 1 } } }),
    notes(ids(1, 2), USER, { limit: 100 }),
  ],
  'select.filter-count': [
    query('count', { table: 'note' }, is({ count: 2 }), USER),
    query('count', { table: 'note', where: { state: 'open' } }, is({ count: 1 }), USER),
    query('count', { table: 'note', distinct: ['owner'] }, is({ count: 1 }), USER),
  ],
  'select.filter-combined': [notes(ids(3, 4), as('combined'))],
  'select.filter-constant': [notes(ids(3, 4), as('constant'))],
  'select.filter-relationship': [
    notes(ids(1, 2, 3), as('org', undefined, { 'x-service-org': 'red' })),
    notes(ids(4), as('org', undefined, { 'x-service-org': 'blue' })),
    query('select', { table: 'person', columns: ['id'] }, NOT('person', 'org'), as('org')),
  ],
  'select.filter-exists': [notes(ids(1, 2, 3, 4), as('member', '2')), notes(ids(), as('member', '3'))],
  'select.filter-computed': [notes(ids(1, 4), as('popular'))],
  'select.related-rows': [
    query(
      'select',
      { table: 'person', columns: ['id', { name: 'notes', columns: ['id'], order_by: 'id' }], order_by: 'id' },
      is([
        { id: 1, notes: [{ id: 1 }, { id: 2 }] },
        { id: 2, notes: [] },
        { id: 3, notes: [] },
      ]),
      USER,
    ),
  ],
  'select.related-object': [
    query(
      'select',
      { table: 'note', columns: ['id', { name: 'person', columns: ['id', 'name'] }], order_by: 'id' },
      is([
        { id: 1, person: { id: 1, name: 'Ann' } },
        { id: 2, person: { id: 1, name: 'Ann' } },
        { id: 3, person: null },
        { id: 4, person: null },
      ]),
      as('reader', '1'),
    ),
  ],
  'select.related-none': [
    query(
      'select',
      { table: 'note', columns: ['id', { name: 'vaults', columns: ['id'] }] },
      denied(/"vault/, '$.args.columns[1]'),
      USER,
    ),
    notes(denied(/"vault/), USER, { where: { vaults: {} } }),
    notes(denied(/"person"/), as('limited'), { order_by: '+person.name' }),
  ],
  'select.related-where': [
    query(
      'select',
      { table: 'person', columns: ['id'], where: { notes: { state: 'open' } }, order_by: 'id' },
      ids(1),
      USER,
    ),
    query(
      'select',
      { table: 'person', columns: ['id'], where: { $not: { notes: {} } }, order_by: 'id' },
      ids(2, 3),
      USER,
    ),
  ],
  'select.related-order': [
    notes(ids(4, 3, 1, 2), {}, { order_by: ['-person.name', 'id'] }),
    notes(ids(1, 2, 3, 4), as('reader', '1'), {
      order_by: [{ column: 'person.name', type: 'desc', nulls: 'last' }, 'id'],
    }),
  ],
  'select.wildcard-related': [
    query(
      'select',
      { table: 'note', columns: ['*.*'], where: { id: 1 } },
      is([{ id: 1, owner: 1, state: 'open', person: { id: 1, name: 'Ann' } }]),
      USER,
    ),
  ],
  'select.limit': [
    notes(ids(1, 2), as('limited')),
    notes(ids(1, 2), as('limited'), { limit: 50 }),
    notes(ids(1), as('limited'), { limit: 1 }),
    notes(ids(2, 3), as('limited'), { limit: 3, offset: 1 }),
  ],
  'select.limit-related': [
    query(
      'select',
      { table: 'person', columns: [{ name: 'notes', columns: ['id'], order_by: 'id', limit: 9 }], order_by: 'id' },
      is([{ notes: [{ id: 1 }] }, { notes: [{ id: 3 }] }, { notes: [{ id: 4 }] }]),
      as('first'),
    ),
  ],
  'select.limit-zero': [notes(ids(), as('nothing')), notes(ids(), as('nothing'), { limit: 1 })],
  'aggregate.allowed': [
    query(
      'select',
      {
        table: 'note',
        columns: [
          { count: '*', as: 'n' },
          { sum: 'stars', as: 's' },
        ],
      },
      is([{ n: 3, s: 10 }]),
      as('counter'),
    ),
    query(
      'select',
      { table: 'note', columns: ['owner', { max: 'stars', as: 'm' }], group_by: ['owner'], order_by: ['owner'] },
      is([{ owner: 1, m: 5 }]),
      as('counter'),
    ),
    graphql(
      '{ note_aggregate { aggregate { count sum { stars } } } }',
      is({ data: { note_aggregate: { aggregate: { count: 3, sum: { stars: 10 } } } } }),
      as('counter'),
    ),
  ],
  'aggregate.refused': [
    query(
      'select',
      { table: 'note', columns: [{ count: '*', as: 'n' }] },
      denied('role "user" does not have permission to aggregate "note"'),
      USER,
    ),
    query('select', { table: 'note', columns: ['state'], group_by: ['state'] }, denied(/to aggregate "note"/), USER),
    graphql(
      '{ note_aggregate { aggregate { count } } }',
      like({ errors: [{ extensions: { code: 'validation-failed' } }] }),
      USER,
    ),
  ],
  'aggregate.condition': [
    query(
      'select',
      { table: 'person', columns: ['id'], where: { notes_aggregate: { count: { predicate: { $gt: 0 } } } } },
      denied(/"notes?(_aggregate)?"/),
      USER,
    ),
  ],
  'aggregate.condition-rows': [
    query(
      'select',
      {
        table: 'person',
        columns: ['id'],
        where: { notes_aggregate: { count: { predicate: { $gte: 1 } } } },
        order_by: 'id',
      },
      ids(1, 2, 3),
      as('counter'),
    ),
    query(
      'select',
      { table: 'person', columns: ['id'], where: { notes_aggregate: { count: { predicate: { $gt: 1 } } } } },
      ids(),
      as('counter'),
    ),
  ],
  'computed.listed': [
    graphql(
      '{ person(where: {id: {_eq: 1}}) { loud_name } }',
      is({ data: { person: [{ loud_name: 'ANN' }] } }),
      as('all'),
    ),
    graphql('{ person { loud_name } }', like({ errors: [{ extensions: { code: 'validation-failed' } }] }), USER),
  ],
  'session.user-id': [
    notes(ids(4), as('user', '3')),
    notes(ids(), as('user', '99')),
    ...['', 'x'.repeat(256)].map((id) =>
      notes(
        refused('parse-failed', 'X-Service-User-Id should be 1 to 255 characters without control characters'),
        as('user', id),
      ),
    ),
  ],
  'session.types': [
    notes(ids(2), as('uuid', '00000000-0000-0000-0000-000000000002')),
    notes(ids(2), as('text', 'ann%')),
    notes(ids(4), as('text', '1')),
  ],
  'session.case': [notes(ids(1, 2), { role: 'user', variables: { 'X-SERVICE-USER-ID': '1' } })],
  'session.missing': [
    notes(refused('not-found', 'x-service-user-id header is expected but not found'), as('user')),
    notes(refused('not-found', 'x-service-org header is expected but not found'), as('org', '1')),
  ],
  'session.other': [
    notes(ids(2), as('stars', undefined, { 'x-service-stars': '3' })),
    notes(refused('postgres-error', /could not evaluate/), as('stars', undefined, { 'x-service-stars': 'many' })),
  ],
  'session.underscore': async (t, server) => {
    const filter = { stars: 'X-Service-Stars_Min', state: { $in: ['X-Service-_State', 'none'] } }
    await server.must('bulk', [
      permit('select', 'note', 'underscore', { columns: ['id'], filter }),
      permit('insert', 'note', 'underscore', {
        check: { login: 'x-service-login_name' },
        columns: ['id', 'login'],
        set: { stars: 'X-SERVICE-STARS_MIN', state: 'X-Service-_State' },
      }),
    ])
    const variables = { 'x-service-stars_min': '7', 'x-service-_state': 'mine', 'x-service-login_name': 'ann' }
    const insert = (id: number, login: string) =>
      server.query('insert', { table: 'note', objects: [{ id, login }] }, as('underscore', undefined, variables))
    t.match(await insert(701, 'ann'), { status: 200, body: { affected_rows: 1 } })
    t.match(await insert(702, 'bo'), { status: 400 })
    const select = { table: 'note', columns: ['id'] }
    t.match(await server.query('select', select, as('underscore', undefined, variables)), { body: [{ id: 701 }] })
    t.match(await server.query('select', select, as('underscore')), { status: 400, body: { code: 'not-found' } })
    await server.must('delete', { table: 'note', where: { id: 701 } })
  },
  'session.role': [notes(ids(1, 3, 4), as('open')), notes(ids(2), as('done'))],
  'session.list': [
    notes(ids(1, 2, 4), as('listed', undefined, { 'x-service-owners': '{1,3}' })),
    notes(ids(), as('listed', undefined, { 'x-service-owners': '{}' })),
    notes(ids(1, 2, 3), as('element', '1')),
  ],
  'session.unfit': [
    notes(ids(), as('user', 'ann')),
    notes(ids(), as('user', '99999999999')),
    notes(ids(), as('uuid', '1')),
    query('count', { table: 'note' }, is({ count: 0 }), as('user', 'x')),
  ],
  'session.unfit-not': [
    notes(ids(3, 4), as('others', '1')),
    notes(ids(), as('others', 'ann')),
    notes(ids(3, 4), as('distinct', '1')),
    notes(ids(), as('distinct', 'ann')),
    notes(ids(3, 4), as('unrelated', '1')),
    notes(ids(), as('unrelated', 'ann')),
  ],
  'session.spoofed': async (t, server) => {
    const body = JSON.stringify({ type: 'select', args: { table: 'note', columns: ['id'] } })
    const headers = { 'x-service-role': 'user', 'x-service-user-id': '1' }
    const { status, body: answer } = await server.bare('/v1/query', { method: 'POST', body, headers })
    t.not(status, 200)
    t.match(answer, { error: String, code: String })
  },
  'exists.role': [
    notes(refused('unexpected-payload', /permissions only/), USER, {
      where: { $not: { $exists: { _table: 'person', _where: {} } } },
    }),
    notes(refused('unexpected-payload', /permissions only/, '$.args.where.$exists'), USER, {
      where: { $exists: { _table: 'note', _where: {} } },
    }),
  ],
  'exists.admin': [
    notes(ids(1, 2, 3, 4), {}, { where: { $exists: { _table: 'person', _where: { name: 'Ann' } } } }),
    notes(ids(), {}, { where: { $exists: { _table: 'person', _where: { name: 'Zoe' } } } }),
  ],
}

function NOT(table: string, role: string): Expected {
  return refused(
    'permission-denied',
    new RegExp(`^select on "${table}" for role "${role}" is not allowed\\.? ?$`),
    '$.args.table',
  )
}
export const permissions = area('permissions', {
  promises: PROMISES,
  pages: {
    'plugins/query/permissions.md': {
      Permissions: {
        select: [
          'select.columns',
          'select.filter',
          'select.limit',
          'aggregate.allowed',
          'aggregate.refused',
          'computed.listed',
        ],
        'A gateway must remove this header from the requests of its clients, like all `X-Service-*` headers.':
          'session.spoofed',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(`${SQL};
      create table typed (id int primary key, open bool, small smallint, big bigint, made timestamptz, data jsonb)`)
  const read = (role: string, filter: object, more: object = {}) =>
    permit('select', 'note', role, { columns: ['id'], filter, ...more })
  const OWN = { owner: 'X-Service-User-Id' }
  await server.must('bulk', [
    ...['person', 'note', 'vault', 'typed'].map(track),
    relate('object', 'note', 'person', 'owner'),
    relate('array', 'person', 'notes', { table: 'note', column: 'owner' }),
    relate('array', 'note', 'vaults', { table: 'vault', column: 'note_id' }),
    { type: 'add_computed_field', args: { table: 'note', name: 'is_popular', definition: { function: 'is_popular' } } },
    { type: 'add_computed_field', args: { table: 'person', name: 'loud_name', definition: { function: 'loud_name' } } },
    read('user', OWN, { columns: ['id', 'owner', 'state'] }),
    permit('select', 'person', 'user', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'person', 'all', { columns: '*', filter: {}, computed_fields: ['loud_name'] }),
    read('combined', {
      $and: [{ $or: [{ stars: { $lt: 2 } }, { owner: 3 }, { state: 'done' }] }, { $not: { state: 'done' } }],
      id: { $gt: 1 },
    }),
    read('constant', { stars: { $in: ['1', 4] }, state: 'open' }),
    read('org', { person: { org: 'X-Service-Org' } }),
    read('member', { $exists: { _table: 'person', _where: { id: 'X-Service-User-Id', org: 'red' } } }),
    read('popular', { is_popular: true }),
    read('reader', {}, { columns: ['id', 'owner'] }),
    permit('select', 'person', 'reader', { columns: ['id', 'name'], filter: { id: 'X-Service-User-Id' } }),
    read('limited', {}, { limit: 2 }),
    read('first', {}, { limit: 1 }),
    permit('select', 'person', 'first', { columns: ['id'], filter: {} }),
    read('nothing', {}, { limit: 0 }),
    read('counter', { state: 'open' }, { columns: ['id', 'owner', 'stars'], allow_aggregations: true, limit: 1 }),
    permit('select', 'person', 'counter', { columns: ['id'], filter: {} }),
    read('uuid', { ref: 'X-Service-User-Id' }),
    read('text', { login: 'X-Service-User-Id' }),
    read('stars', { stars: 'X-Service-Stars' }),
    read('open', { state: 'X-Service-Role' }),
    read('done', { state: 'X-Service-Role' }),
    read('listed', { owner: { $in: 'X-Service-Owners' } }),
    read('element', { owner: { $in: ['X-Service-User-Id', 2] } }),
    read('others', { $not: OWN }),
    read('distinct', { owner: { $is_distinct: 'X-Service-User-Id' } }),
    read('unrelated', { $not: { person: { id: 'X-Service-User-Id' } } }),
  ])
  return server
}
