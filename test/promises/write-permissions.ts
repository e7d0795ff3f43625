import type { Test } from 'tap'
import { graphql, permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** What permissions let a role write. */
const PROMISES = {
  'insert.none': 'a role without insert permission cannot insert',
  'insert.columns': 'a column outside of the insert permission takes no value',
  'insert.columns-default': 'without columns an insert permission is for all of them',
  'insert.check': 'an inserted row must satisfy the check, and the error names the permission',
  'insert.check-all': 'if one row does not satisfy it, none is written',
  'insert.check-null': 'a check that is null for a row refuses it',
  'insert.check-after': 'the check is about the row as it is written, with defaults, presets and triggers',
  'insert.check-relationship': 'a check may look at related rows',
  'insert.check-session': 'a check may compare with the session',
  'insert.preset': 'set writes its values, constants and session variables',
  'insert.preset-column': 'a preset column takes no value from a client',
  'insert.preset-missing': 'a preset whose session variable is missing refuses the insert',
  'insert.preset-unfit': 'and so does a user id that does not fit the type of a preset',
  'insert.returning': 'returning needs the select permission, and shows only its columns and rows',
  'insert.without-select': 'a role may insert what it may not select',
  'insert.related': 'related rows need the permissions of their own table',
  'insert.related-check': 'and satisfy its check, or nothing is written',
  'update.none': 'a role without update permission cannot update',
  'update.columns': 'a column outside of the update permission is refused',
  'update.filter': 'rows outside of the update filter stay, whatever the condition',
  'update.check': 'an updated row must satisfy the check, or nothing is updated',
  'update.no-check': 'without a check the filter is not asked again after the update',
  'update.preset': 'set writes its values, and its columns take none from a client',
  'update.preset-only': 'with presets, $set may be empty; without, it may not',
  'update.where': 'a condition needs the select permission, {} does not',
  'update.where-column': 'a condition uses columns that the role may select',
  'update.own-value': '$inc and $mul need the select permission of their columns',
  'update.counted': 'rows that the role may not select are updated and counted, and not returned',
  'delete.none': 'a role without delete permission cannot delete',
  'delete.filter': 'rows outside of the delete filter stay, whatever the condition',
  'delete.where': 'a condition needs the select permission, {} does not',
  'delete.returning': 'returning shows what the role may select',
  'upsert.needs-update': 'a role that may insert and update may upsert',
  'upsert.allow': 'without an update permission, allow_upsert lets a role ignore conflicts, and nothing else',
  'upsert.refused': 'without both, on_conflict is refused',
  'upsert.columns': 'an existing row is changed in the columns and presets of the update permission only',
  'upsert.checks': 'new rows satisfy the check of the insert, existing ones that of the update',
  'upsert.filter': 'a row outside of the update filter stays, and is not counted',
  'upsert.constraint': 'a constraint on columns that the role does not know does not exist for it',
  'upsert.hidden-constraint': 'it is refused like one that does not exist, in variables of GraphQL too',
  'backend.hidden': 'a permission for backends only does not exist for other callers',
  'backend.allowed': 'it is there for a request with a secret, a role and the header with true',
  'backend.false': 'the header with false is as without it, and with anything else an error',
  'backend.no-secret': 'without a secret the header does nothing',
  'backend.update-delete': 'updates and deletes may be for backends only, too',
  'backend.others': 'other permissions of the role stay as they are',
  'backend.graphql': 'its fields of GraphQL are there for backends only',
  'backend.same': 'other callers cannot tell it from none, and the metadata has it',
} as const

const SQL = `
create table person (id int primary key, name text, owner int);
create table note (id int primary key, owner int, state text default 'new', stars int default 1, body text,
  secret int unique, person_id int references person);
create table log (id int primary key, line text, level int default 3);
create table account (id int primary key, owner int, balance int default 0);
create function lower_state() returns trigger language plpgsql as $$ begin
  new.state := lower(new.state); return new; end $$;
create trigger lower_state before insert on note for each row execute function lower_state();
insert into person values (1, 'Ann', 1), (2, 'Ben', 2);
insert into note (id, owner, state, stars, body, secret) values
  (1, 1, 'new', 1, 'a', 101), (2, 1, 'done', 2, 'b', 102), (3, 2, 'new', 3, 'c', 103), (4, 2, 'done', 4, 'd', 104);
insert into account values (1, 1, 10), (2, 2, 20)`

const as = (role: string, id = '1', more: Readonly<Record<string, string>> = {}): As => ({
  role,
  variables: { 'x-service-user-id': id, ...more },
})
const USER = as('user')
const BACKEND = { 'x-service-use-backend-only-permissions': 'true' }

const denied = (error: string | RegExp, path?: string) => refused('permission-denied', error, path)
const notChecked = (check: string, role = 'user', table = 'note') =>
  refused('postgres-error', `the row would not pass the ${check} check of role "${role}" on "${table}"`, '$.args')
const affected = (affected_rows: number, returning?: readonly object[]): Expected =>
  is({ affected_rows, ...(returning ? { returning } : {}) })

const insert = (objects: readonly object[], expected: Expected, who: As = USER, more: object = {}): Step =>
  query('insert', { table: 'note', objects, ...more }, expected, who)
const update = (args: object, expected: Expected, who: As = USER): Step =>
  query('update', { table: 'note', where: {}, ...args }, expected, who)
const remove = (args: object, expected: Expected, who: As = USER): Step =>
  query('delete', { table: 'note', where: {}, ...args }, expected, who)
/** What is stored, as admin. */
const stored = (
  where: object,
  rows: readonly object[],
  columns: readonly string[] = Object.keys(rows[0] ?? { id: 1 }),
): Step => query('select', { table: 'note', columns, where, order_by: 'id' }, is(rows))
/** Puts a row back. */
const put = (set: object, where: object): Step => query('update', { table: 'note', where, $set: set }, like({}))
const gone = (...ids: number[]): Step =>
  query('delete', { table: 'note', where: { id: { $in: ids } } }, affected(ids.length))
const conflict = (columns: unknown, action = 'update') => ({ on_conflict: { action, constraint_on: columns } })

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'insert.none': [
    insert([{ id: 9 }], denied(/^insert on "note" for role "reader" is not allowed/, '$.args.table'), as('reader')),
  ],
  'insert.columns': [
    insert(
      [{ id: 9, secret: 1 }],
      denied('role "user" does not have permission to insert column "secret"', '$.args.objects'),
    ),
    insert(
      [{ id: 9, missing: 1 }],
      denied('role "user" does not have permission to insert column "missing"', '$.args.objects'),
    ),
    insert([{ id: 9 }, { id: 10, secret: null }], denied(/"secret"/)),
  ],
  'insert.columns-default': [
    insert([{ id: 9, owner: 5, state: 'x', stars: 5, body: 'y', secret: 5 }], affected(1), as('open')),
    stored({ id: 9 }, [{ owner: 5, state: 'x', stars: 5, body: 'y', secret: 5 }]),
    gone(9),
  ],
  'insert.check': [
    insert([{ id: 9, stars: 6 }], notChecked('insert')),
    insert([{ id: 9, stars: 5 }], affected(1)),
    gone(9),
  ],
  'insert.check-all': [
    insert(
      [
        { id: 8, stars: 1 },
        { id: 9, stars: 6 },
      ],
      notChecked('insert'),
    ),
    stored({ id: { $gt: 4 } }, []),
  ],
  'insert.check-null': [insert([{ id: 9, stars: null }], notChecked('insert')), stored({ id: 9 }, [])],
  'insert.check-after': [
    insert([{ id: 9, state: 'NEW' }], affected(1)),
    stored({ id: 9 }, [{ state: 'new', stars: 1 }]),
    insert([{ id: 10, state: 'DONE' }], notChecked('insert')),
    gone(9),
  ],
  'insert.check-relationship': [
    insert([{ id: 9, person_id: 1 }], affected(1), as('related')),
    insert([{ id: 10, person_id: 2 }], notChecked('insert', 'related'), as('related')),
    insert([{ id: 10 }], notChecked('insert', 'related'), as('related')),
    gone(9),
  ],
  'insert.check-session': [
    insert([{ id: 9, owner: 1 }], affected(1), as('own')),
    insert([{ id: 10, owner: 2 }], notChecked('insert', 'own'), as('own')),
    insert([{ id: 10, owner: 1 }], notChecked('insert', 'own'), as('own', 'ann')),
    gone(9),
    insert([{ id: 9, owner: 1 }], notChecked('insert', 'stranger'), as('stranger', 'ann')),
    insert([{ id: 9, owner: 1 }], affected(1), as('stranger', '2')),
    gone(9),
  ],
  'insert.preset': [
    insert([{ id: 9 }], affected(1), as('user', '7')),
    stored({ id: 9 }, [{ owner: 7, body: 'by a user' }]),
    gone(9),
  ],
  'insert.preset-column': [
    insert(
      [{ id: 9, owner: 2 }],
      denied('role "user" does not have permission to insert column "owner"', '$.args.objects'),
    ),
    insert([{ id: 9, body: 'mine' }], denied(/"body"/)),
  ],
  'insert.preset-missing': [
    insert([{ id: 9 }], refused('not-found', 'x-service-user-id header is expected but not found'), { role: 'user' }),
  ],
  'insert.preset-unfit': [
    insert([{ id: 9 }], { status: 400, like: { error: /x-service-user-id/i } }, as('user', 'ann')),
  ],
  'insert.returning': [
    insert([{ id: 9 }], affected(1, [{ id: 9, state: 'new' }]), USER, { returning: ['id', 'state'] }),
    insert([{ id: 10 }], denied(/"secret"/, '$.args.returning[1]'), USER, { returning: ['id', 'secret'] }),
    insert([{ id: 10 }], affected(1, []), as('elsewhere'), { returning: ['id'] }),
    insert([{ id: 11 }], denied(/^select on "note" for role "open" is not allowed/, '$.args.returning'), as('open'), {
      returning: ['id'],
    }),
    stored({ id: 11 }, []),
    gone(9, 10),
  ],
  'insert.without-select': [insert([{ id: 9 }], affected(1), as('open')), gone(9)],
  'insert.related': [
    insert([{ id: 9, person: { data: { id: 9, name: 'Zoe' } } }], affected(2), as('nested')),
    insert([{ id: 10, person: { data: { id: 10, owner: 1 } } }], denied(/"owner"/), as('nested')),
    insert([{ id: 10, person: { data: { id: 10 } } }], denied(/person/), as('own')),
    gone(9),
  ],
  'insert.related-check': [
    insert(
      [{ id: 9, person: { data: { id: 11, name: 'bad' } } }],
      notChecked('insert', 'nested', 'person'),
      as('nested'),
    ),
    stored({ id: 9 }, []),
    query('count', { table: 'person', where: { id: { $gte: 10 } } }, is({ count: 0 })),
  ],
  'update.none': [
    update(
      { $set: { state: 'x' } },
      denied(/^update on "note" for role "reader" is not allowed/, '$.args.table'),
      as('reader'),
    ),
  ],
  'update.columns': [
    update(
      { $set: { owner: 2 } },
      denied('role "user" does not have permission to update column "owner"', '$.args.$set'),
    ),
    update({ $inc: { secret: 2 } }, denied(/"secret"/)),
    update({ $default: ['owner'] }, denied(/"owner"/)),
  ],
  'update.filter': [
    update({ where: { id: { $in: [1, 3] } }, $set: { state: 'open' } }, affected(1)),
    stored(
      {},
      ['open', 'done', 'new', 'done'].map((state) => ({ state })),
    ),
    update({ where: { $or: [{ id: 3 }, {}] }, $set: { state: 'open' } }, affected(2)),
    stored(
      {},
      ['open', 'open', 'new', 'done'].map((state) => ({ state })),
    ),
    put({ state: 'new' }, { id: 1 }),
    put({ state: 'done' }, { id: 2 }),
  ],
  'update.check': [
    update({ $set: { state: 'bad' } }, notChecked('update')),
    update({ where: { id: 2 }, $inc: { stars: 9 } }, notChecked('update')),
    stored({ owner: 1 }, [
      { state: 'new', stars: 1 },
      { state: 'done', stars: 2 },
    ]),
    update({ where: { id: 2 }, $inc: { stars: 7 } }, affected(1)),
    stored({ id: 2 }, [{ stars: 9 }]),
    put({ stars: 2 }, { id: 2 }),
  ],
  'update.no-check': [
    update({ where: { id: 1 }, $set: { owner: 2 } }, affected(1), as('giver')),
    update({ where: { id: 1 }, $set: { owner: 1 } }, affected(0), as('giver')),
    put({ owner: 1 }, { id: 1 }),
  ],
  'update.preset': [
    update({ where: { id: 1 }, $set: { stars: 1 } }, affected(1), as('clerk', '8')),
    stored({ id: 1 }, [{ state: 'seen', owner: 8 }]),
    update({ $set: { state: 'x' } }, denied(/"state"/, '$.args.$set'), as('clerk')),
    put({ owner: 1, state: 'new' }, { id: 1 }),
  ],
  'update.preset-only': [
    update({ where: { id: 3 }, $set: {} }, affected(1), as('clerk', '2')),
    stored({ id: 3 }, [{ state: 'seen', owner: 2 }]),
    update({ $set: {} }, refused('unexpected-payload', /./)),
    put({ state: 'new' }, { id: 3 }),
    graphql(
      'mutation { update_note(where: {id: {_eq: 3}}, _set: {}) { affected_rows } }',
      is({ data: { update_note: { affected_rows: 1 } } }),
      as('clerk', '2'),
    ),
    stored({ id: 3 }, [{ state: 'seen', owner: 2 }]),
    graphql(
      'mutation { update_note(where: {}) { affected_rows } }',
      is({ data: { update_note: { affected_rows: 2 } } }),
      as('stamper', '2'),
    ),
    stored({ owner: 2 }, [{ state: 'stamped' }, { state: 'stamped' }]),
    put({ state: 'new' }, { id: 3 }),
    put({ state: 'done' }, { id: 4 }),
    graphql(
      'mutation { update_note(where: {}, _set: {}) { affected_rows } }',
      is({ data: { update_note: { affected_rows: 0 } } }),
      USER,
    ),
    graphql(
      'mutation { update_note(where: {}) { affected_rows } }',
      like({ errors: [{ message: /sets no column/ }] }),
      USER,
    ),
  ],
  'update.where': [
    update(
      { $set: { state: 'x' }, where: { id: 1 } },
      denied(/^select on "note" for role "blind" is not allowed/),
      as('blind'),
    ),
    update({ $set: { state: 'x' }, where: { $not: {} } }, denied(/^select on "note"/), as('blind')),
    update({ $set: { state: 'x' } }, affected(2), as('blind', '2')),
    stored({ owner: 2 }, [
      { id: 3, state: 'x' },
      { id: 4, state: 'x' },
    ]),
    put({ state: 'new' }, { id: 3 }),
    put({ state: 'done' }, { id: 4 }),
  ],
  'update.where-column': [
    update({ $set: { state: 'x' }, where: { secret: 101 } }, denied(/"secret"/, '$.args.where.secret')),
    remove({ where: { secret: 101 } }, denied(/"secret"/, '$.args.where.secret')),
  ],
  'update.own-value': [
    update({ $inc: { secret: 1 } }, denied(/"secret"/), as('writer')),
    update({ $mul: { secret: 1 } }, denied(/"secret"/), as('writer')),
    update({ where: { id: 1 }, $set: { secret: 5 } }, affected(1), as('writer')),
    stored({ id: 1 }, [{ secret: 5 }]),
    update({ where: { id: 1 }, $mul: { stars: 3 } }, affected(1)),
    stored({ id: 1 }, [{ stars: 3 }]),
    put({ secret: 101, stars: 1 }, { id: 1 }),
  ],
  'update.counted': [
    update({ where: { id: 1 }, $set: { state: 'x' }, returning: ['id'] }, affected(1, [{ id: 1 }]), as('broad')),
    update({ where: { id: 3 }, $set: { state: 'x' }, returning: ['id'] }, affected(1, []), as('broad')),
    stored({ id: 3 }, [{ state: 'x' }]),
    put({ state: 'new' }, { id: { $in: [1, 3] } }),
  ],
  'delete.none': [
    remove({}, denied(/^delete on "note" for role "reader" is not allowed/, '$.args.table'), as('reader')),
  ],
  'delete.filter': [
    query(
      'insert',
      {
        table: 'note',
        objects: [
          { id: 8, owner: 1, state: 'gone' },
          { id: 9, owner: 2, state: 'gone' },
        ],
      },
      affected(2),
    ),
    remove({ where: { $or: [{ id: { $gte: 8 } }, {}] } }, affected(1)),
    stored(
      {},
      [1, 2, 3, 4, 9].map((id) => ({ id })),
    ),
    gone(9),
  ],
  'delete.where': [
    remove({ where: { id: 1 } }, denied(/^select on "note" for role "blind" is not allowed/), as('blind')),
    remove({ where: { $not: {} } }, denied(/^select on "note" for role "blind" is not allowed/), as('blind')),
    graphql(
      'mutation { delete_note(where: {_not: {}}) { affected_rows } }',
      like({ errors: [{ extensions: { code: 'permission-denied' } }] }),
      as('blind'),
    ),
    query('insert', { table: 'note', objects: [{ id: 9, owner: 77 }] }, affected(1)),
    remove({}, affected(1), as('blind', '77')),
    stored({ id: 9 }, []),
  ],
  'delete.returning': [
    query('insert', { table: 'note', objects: [{ id: 9, owner: 1, state: 'gone' }] }, affected(1)),
    remove({ returning: ['secret'] }, denied(/"secret"/, '$.args.returning[0]')),
    remove({ returning: ['id'] }, denied(/^select on "note"/, '$.args.returning'), as('blind')),
    remove({ where: { id: 9 }, returning: ['id', 'state'] }, affected(1, [{ id: 9, state: 'gone' }])),
  ],
  'upsert.needs-update': [
    insert([{ id: 1 }], affected(0), USER, conflict('id', 'ignore')),
    insert([{ id: 1, stars: 4 }], affected(1), USER, conflict('id')),
    stored({ id: 1 }, [{ stars: 4, owner: 1, body: 'a' }]),
    put({ stars: 1 }, { id: 1 }),
  ],
  'upsert.allow': [
    insert([{ id: 1 }], affected(0), as('upserter'), conflict('id', 'ignore')),
    insert(
      [{ id: 1, stars: 9 }],
      denied(/^update on "note" for role "upserter" is not allowed/, '$.args.on_conflict'),
      as('upserter'),
      conflict('id'),
    ),
    stored({ id: 1 }, [{ stars: 1 }]),
  ],
  'upsert.refused': [
    insert(
      [{ id: 1 }],
      denied('upsert is not allowed for role "own"', '$.args.on_conflict'),
      as('own'),
      conflict('id', 'ignore'),
    ),
  ],
  'upsert.columns': [
    query(
      'insert',
      { table: 'account', objects: [{ id: 1, owner: 5, balance: 50 }], ...conflict('id') },
      affected(1),
      as('teller'),
    ),
    query('select', { table: 'account', columns: ['*'], where: { id: 1 } }, is([{ id: 1, owner: 9, balance: 50 }])),
    insert([{ id: 1, stars: 4, body: 'x' }], affected(1, [{ id: 1, stars: 4, state: 'new' }]), as('painter'), {
      ...conflict('id'),
      returning: ['id', 'stars', 'state'],
    }),
    stored({ id: 1 }, [{ stars: 4, body: 'a', state: 'new' }]),
    put({ stars: 1 }, { id: 1 }),
    graphql(
      'mutation { insert_account(objects: {id: 1, owner: 5, balance: 60}, on_conflict: {constraint: account_pkey, update_columns: [balance]}) { affected_rows } }',
      is({ data: { insert_account: { affected_rows: 1 } } }),
      as('teller'),
    ),
    query('select', { table: 'account', columns: ['*'], where: { id: 1 } }, is([{ id: 1, owner: 9, balance: 60 }])),
    query('update', { table: 'account', where: { id: 1 }, $set: { owner: 1, balance: 10 } }, affected(1)),
  ],
  'upsert.checks': [
    insert([{ id: 1, stars: 6 }], affected(0), as('user', '2'), conflict('id')),
    insert([{ id: 9, stars: 6 }], notChecked('insert or update'), USER, conflict('id')),
    insert([{ id: 1, state: 'bad' }], notChecked('insert or update'), USER, conflict('id')),
    insert([{ id: 1, stars: 10 }], notChecked('insert or update'), USER, conflict('id')),
    insert([{ id: 1, stars: 9 }], affected(1), USER, conflict('id')),
    put({ stars: 1 }, { id: 1 }),
  ],
  'upsert.filter': [
    insert(
      [
        { id: 3, stars: 2 },
        { id: 9, stars: 2 },
      ],
      affected(1, [{ id: 9 }]),
      USER,
      { ...conflict('id'), returning: ['id'] },
    ),
    stored({ id: { $in: [3, 9] } }, [
      { id: 3, stars: 3, owner: 2 },
      { id: 9, stars: 2, owner: 1 },
    ]),
    gone(9),
  ],
  'upsert.constraint': [
    insert([{ id: 9 }], refused('unexpected-payload', /note_secret_key/), USER, {
      on_conflict: { action: 'ignore', constraint: 'note_secret_key' },
    }),
    insert([{ id: 9 }], refused('unexpected-payload', /note_nothing_key/), USER, {
      on_conflict: { action: 'ignore', constraint: 'note_nothing_key' },
    }),
    insert([{ id: 1 }], affected(0), USER, { on_conflict: { action: 'ignore', constraint: 'note_pkey' } }),
    insert([{ id: 9, secret: 101 }], affected(0), as('upserter'), {
      on_conflict: { action: 'ignore', constraint: 'note_secret_key' },
    }),
    graphql(
      '{ __type(name: "note_constraint") { enumValues { name } } }',
      is({ data: { __type: { enumValues: [{ name: 'note_pkey' }] } } }),
      USER,
    ),
  ],
  'upsert.hidden-constraint': async (t, server) => {
    const ignored = (constraint: string) =>
      server.query(
        'insert',
        { table: 'note', objects: [{ id: 9 }], on_conflict: { action: 'ignore', constraint } },
        USER,
      )
    const mutation = (constraint: string) => {
      const query =
        'mutation ($c: note_on_conflict) { insert_note(objects: {id: 1}, on_conflict: $c) { affected_rows } }'
      const body = JSON.stringify({ query, variables: { c: { constraint, update_columns: [] } } })
      return server.fetch('/v1/graphql', { method: 'POST', body }, USER)
    }
    for (const send of [ignored, mutation])
      t.equal(
        (await send('note_secret_key')).text.replaceAll('secret', 'nothing'),
        (await send('note_nothing_key')).text,
      )
    t.match((await mutation('note_secret_key')).body, { errors: [{ message: /expecting a value of the enum/ }] })
    t.same((await mutation('note_pkey')).body, { data: { insert_note: { affected_rows: 0 } } })
  },
  'backend.hidden': [
    open([{ id: 3 }], denied(/^insert on "account" for role "backed" is not allowed/, '$.args.table')),
    open([{ id: 3, missing: 1 }], denied(/^insert on "account" for role "backed" is not allowed/, '$.args.table')),
  ],
  'backend.allowed': [
    open([{ id: 3, owner: 1 }], affected(1), BACKEND),
    open([{ id: 4 }], denied(/is not allowed/)),
    query('delete', { table: 'account', where: { id: 3 } }, affected(1)),
  ],
  'backend.false': [
    open([{ id: 3 }], denied(/is not allowed/), { 'x-service-use-backend-only-permissions': 'false' }),
    open([{ id: 3 }], refused('parse-failed', /./), { 'x-service-use-backend-only-permissions': 'yes' }),
  ],
  'backend.no-secret': [
    {
      ...query('insert', { table: 'account', objects: [{ id: 5 }] }, denied(/role "anonymous"/)),
      bare: true,
      headers: BACKEND,
    },
  ],
  'backend.update-delete': [
    query(
      'update',
      { table: 'account', where: {}, $set: { balance: 11 } },
      denied(/^update on "account"/),
      as('backed'),
    ),
    query('update', { table: 'account', where: {}, $set: { balance: 11 } }, affected(1), as('backed', '1', BACKEND)),
    query('select', { table: 'account', columns: ['balance'], order_by: 'id' }, is([{ balance: 11 }, { balance: 20 }])),
    query('delete', { table: 'account', where: {} }, denied(/^delete on "account"/), as('backed')),
    query('delete', { table: 'account', where: {} }, affected(0), as('backed', '99', BACKEND)),
  ],
  'backend.others': [
    query('select', { table: 'account', columns: ['id'] }, is([{ id: 1 }]), as('backed')),
    query('select', { table: 'account', columns: ['id'] }, is([{ id: 1 }]), as('backed', '1', BACKEND)),
    query('select', { table: 'account', columns: ['balance'] }, denied(/"balance"/), as('backed', '1', BACKEND)),
    query('insert', { table: 'log', objects: [{ id: 1 }] }, affected(1), as('backed', '1', BACKEND)),
    query(
      'insert',
      { table: 'log', objects: [{ nope: 1 }] },
      denied(/^role "backed" does not/),
      as('backed', '1', BACKEND),
    ),
    query('delete', { table: 'log', where: {} }, affected(1)),
  ],
  'backend.graphql': [
    graphql(
      'mutation { update_account(where: {}, _set: {balance: 5}) { affected_rows } }',
      like({ errors: [{ extensions: { code: 'validation-failed' } }] }),
      as('backed'),
    ),
    graphql(
      'mutation { update_account(where: {}, _set: {balance: 5}) { affected_rows } }',
      is({ data: { update_account: { affected_rows: 1 } } }),
      as('backed', '1', BACKEND),
    ),
    graphql(
      'mutation { update_account(where: {}, _set: {balance: 5}) { affected_rows } }',
      like({ errors: [{ extensions: { code: 'validation-failed' } }] }),
      as('backed'),
    ),
    graphql(
      '{ __schema { mutationType { fields { name } } } }',
      is({ data: { __schema: { mutationType: { fields: [{ name: 'insert_log' }] } } } }),
      as('backed'),
    ),
    graphql(
      '{ __schema { mutationType { fields { name } } } }',
      like({
        data: {
          __schema: { mutationType: { fields: [{ name: 'insert_account' }, { name: 'insert_account_one' }] } },
        },
      }),
      as('backed', '1', BACKEND),
    ),
  ],
  'backend.same': async (t, server) => {
    const add = (table: string) => server.query('insert', { table, objects: [{ id: 1 }] }, as('backed'))
    const text = async (table: string) =>
      (await add(table)).text.replaceAll(table, 'a table').replace(/ \(did you mean "\w+"\?\)/, '')
    t.equal(await text('account'), await text('accountants'))
    t.match(JSON.stringify(await server.must('export_metadata', {})), /"backend_only":true/)
  },
}

function open(objects: readonly object[], expected: Expected, headers: Readonly<Record<string, string>> = {}): Step {
  return query('insert', { table: 'account', objects }, expected, as('backed', '1', headers))
}

export const writePermissions = area('write-permissions', {
  promises: PROMISES,
  pages: {
    'plugins/query/permissions.md': {
      Permissions: {
        insert: ['insert.check', 'insert.columns-default', 'insert.preset', 'upsert.allow', 'backend.hidden'],
        update: ['update.columns', 'update.filter', 'update.check', 'update.preset', 'backend.update-delete'],
        delete: ['delete.filter', 'backend.update-delete'],
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const OWN = { owner: 'X-Service-User-Id' }
  const seen = (role: string, filter: object, columns: readonly string[] = ['id', 'state', 'stars']) =>
    permit('select', 'note', role, { columns, filter })
  const NAMES = ['id', 'state', 'stars']
  await server.must('bulk', [
    ...['person', 'note', 'log', 'account'].map(track),
    relate('object', 'note', 'person', 'person_id'),
    seen('user', {}),
    permit('insert', 'note', 'user', {
      columns: [...NAMES, 'owner', 'body'],
      check: { stars: { $lte: 5 }, state: { $ne: 'done' } },
      set: { ...OWN, body: 'by a user' },
    }),
    permit('update', 'note', 'user', {
      columns: ['state', 'stars'],
      filter: OWN,
      check: { state: { $ne: 'bad' }, stars: { $lt: 10 } },
    }),
    permit('delete', 'note', 'user', { filter: { ...OWN, state: 'gone' } }),
    seen('reader', {}),
    permit('insert', 'note', 'open', { check: {} }),
    permit('insert', 'note', 'related', { check: { person: OWN } }),
    permit('insert', 'note', 'own', { check: OWN }),
    permit('insert', 'note', 'stranger', { check: { owner: { $ne: 'X-Service-User-Id' } } }),
    permit('insert', 'note', 'elsewhere', { check: {} }),
    seen('elsewhere', { id: { $lt: 5 } }),
    permit('insert', 'note', 'nested', { check: {} }),
    seen('nested', {}),
    permit('select', 'person', 'nested', { columns: ['id'], filter: {} }),
    permit('insert', 'person', 'nested', { columns: ['id', 'name'], check: { name: { $ne: 'bad' } } }),
    seen('giver', {}, ['id', 'owner']),
    permit('update', 'note', 'giver', { columns: ['owner'], filter: OWN }),
    seen('clerk', {}),
    permit('update', 'note', 'clerk', { columns: ['stars', 'state'], filter: {}, set: { ...OWN, state: 'seen' } }),
    permit('update', 'note', 'blind', { columns: ['state'], filter: OWN }),
    permit('delete', 'note', 'blind', { filter: OWN }),
    seen('writer', {}),
    permit('update', 'note', 'writer', { columns: ['secret', 'stars'], filter: {} }),
    seen('broad', OWN),
    permit('update', 'note', 'broad', { columns: ['state'], filter: {} }),
    permit('insert', 'note', 'upserter', { columns: ['id', 'stars', 'secret'], check: {}, allow_upsert: true }),
    permit('insert', 'account', 'teller', { check: {} }),
    permit('update', 'account', 'teller', { columns: ['balance'], filter: {}, set: { owner: 9 } }),
    permit('select', 'account', 'backed', { columns: ['id'], filter: OWN }),
    permit('update', 'note', 'stamper', { columns: [], filter: OWN, set: { state: 'stamped' } }),
    seen('painter', {}),
    permit('insert', 'note', 'painter', { check: {} }),
    permit('update', 'note', 'painter', { columns: ['stars'], filter: {} }),
    permit('insert', 'log', 'backed', { check: {} }),
    permit('insert', 'account', 'backed', { check: {}, backend_only: true }),
    permit('update', 'account', 'backed', { columns: ['balance'], filter: OWN, backend_only: true }),
    permit('delete', 'account', 'backed', { filter: OWN, backend_only: true }),
  ])
  return server
}
