import type { Test } from 'tap'
import { graphql, permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, type Expected, is, like, query, refused, type Step } from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/** A role cannot tell what is hidden from it from what is not there. */
const PROMISES = {
  'hidden.condition': 'a condition that fails for some values is not evaluated on hidden rows, wherever it stands',
  'hidden.pattern': 'a pattern that ends in its escape character is refused, whatever rows there are',
  'hidden.computed': 'a computed field is not computed for hidden rows, in conditions, orders and aggregates',
  'hidden.view': 'a column that a view computes is not computed for hidden rows',
  'hidden.index': 'conditions that cannot fail stay where an index serves them, others come behind the filter',
  'hidden.read-error': 'a read that fails has one text, whatever went wrong; admin gets the text of PostgreSQL',
  'hidden.own-value': 'a value of the caller that PostgreSQL cannot read is named',
  'hidden.returning': 'a row that a role updates and does not see is not computed for its answer',
  'hidden.group': 'a condition on groups is about groups of visible rows',
  'hidden.key': 'a unique key tells that a row exists, and nothing more',
  'constraint.known': 'a constraint is named to a role that knows all its columns',
  'constraint.unknown': 'and not to others, which get a general text',
  'constraint.not-null': 'a missing value is named by its column only to a role that knows the column',
  'constraint.foreign': 'a foreign key is named if the role knows the columns at both ends',
  'constraint.inherited': 'a column that is null for the role in some rows is not known to it',
  'trigger.message': 'the message of raise exception in a trigger reaches the caller',
  'trigger.error': 'what fails inside of a trigger is not quoted',
  'table.untracked': 'a role is not told of tables that are not tracked',
  'suggestion.role': 'a suggested name is one that the role may use',
} as const

const SQL = `
create extension citext;
create extension ltree;
create table org (id int primary key, name text not null);
create table note (id int primary key, org_id int not null references org, title text not null, num text not null default '1', data jsonb,
  path ltree, mood citext);
create table comment (id int primary key, note_id int not null references note, body text not null);
create function note_num(note) returns int language sql stable as $$ select ($1.num)::int $$;
create function note_strict(note) returns int language plpgsql stable as $$
  begin if $1.num = 'abc1' then raise exception 'the number is %', $1.num; end if; return 1; end $$;
create view share as select id, org_id, 100 / (length(num) - 4) as part from note;
insert into org values (1, 'one'), (2, 'two');
insert into note values (7, 1, 'TopSecret-8f14', 'abc1', '{"a": 1}'), (8, 2, 'mine', '5', '{}');
insert into comment values (1, 7, 'of the hidden note'), (2, 8, 'of mine');
create table acct (id int primary key, email text unique, pin text not null, amount int constraint positive check (amount > 0),
  code int constraint code_key unique, constraint pin_rule check (length(pin) > code));
create table shadow (id int references acct);
create table visit (id int primary key, acct int constraint visit_acct references acct);
insert into acct values (1, 'one', 'secret', 5, 1), (2, 'two', 'hush', 5, 2);
insert into shadow values (1);
create table judged (id int primary key, title text, num text);
insert into judged values (1, 'x', 'abc8');
create function judge() returns trigger language plpgsql as $$ begin
  if new.title = 'refuse' then raise exception 'no such title'; end if;
  if new.title = 'range' then raise exception using errcode = 'check_violation', message = 'out of range'; end if;
  if new.title = 'cast' then perform old.num::int; end if;
  if new.title = 'lost' then perform 1 from audit; end if;
  return new; end $$;
create trigger judge before update on judged for each row execute function judge();
create table unseen (id int)`

const USER: As = { role: 'user', variables: { 'x-service-org-id': '2' } }
const OTHER = { role: 'other' }

const NEUTRAL = 'the database could not evaluate the request; see the server log for this request id'
const says = (error: string | RegExp): Expected => refused('postgres-error', error)
const UNIQUE = 'Uniqueness violation. a row with the same values already exists'
const CHECK = 'Check constraint violation. the row violates a rule of its table'
const FOREIGN = 'Foreign key violation. the row refers to one that does not exist, or other rows refer to it'
const exactly = (error: string): Expected => ({ status: 400, body: { path: '$.args', error, code: 'postgres-error' } })

const acct = (set: object, expected: Expected, role = 'user'): Step =>
  query('update', { table: 'acct', where: { id: 2 }, $set: set }, expected, { role })
const add = (table: string, row: object, expected: Expected, role = 'user'): Step =>
  query('insert', { table, objects: [row] }, expected, { role })
const judged = (title: string, expected: Expected, who: As = OTHER): Step =>
  query('update', { table: 'judged', where: { id: 1 }, $set: { title } }, expected, who)
const failing = async (
  t: Test,
  a: Promise<{ status: number; text: string }>,
  b: Promise<{ status: number; text: string }>,
  name: string,
) => {
  const [hidden, absent] = [await a, await b]
  t.same([hidden.status, hidden.text], [absent.status, absent.text], name)
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'hidden.condition': async (t, server) => {
    // PostgreSQL reads a pattern before any row.
    const conditions = [
      [{ title: { $regex: '[' } }, 400],
      [{ title: { $similar: '[' } }, 400],
      [{ data: { $path_match: '$.a' } }, 200],
    ] as const
    for (const [where, status] of conditions) {
      const on = (id: number) => ({ id, ...where })
      const ask = (id: number) => [
        server.query('select', { table: 'note', columns: ['id'], where: on(id), limit: 5 }, USER),
        server.query('select', { table: 'note', columns: ['id'], where: on(id) }, USER),
        server.query('count', { table: 'note', where: on(id) }, USER),
        server.query('update', { table: 'note', where: on(id), $set: { title: 'x' } }, USER),
        server.query('delete', { table: 'note', where: on(id) }, USER),
        server.query('select', { table: 'comment', columns: ['id'], where: { note: on(id) } }, USER),
      ]
      const absent = ask(9)
      for (const [i, hidden] of ask(7).entries()) {
        await failing(t, hidden, absent[i] as (typeof absent)[0], `${i} ${JSON.stringify(where)}`)
        t.equal((await hidden).status, status)
      }
    }
    const shown = { table: 'note', columns: ['id'], where: { id: 8, title: { $regex: '[' } } }
    t.match(await server.query('select', shown, USER), { status: 400 })
  },
  'hidden.pattern': ['$like', '$nlike', '$ilike', '$nilike'].map((op) =>
    query(
      'select',
      { table: 'note', columns: ['id'], where: { id: 7, title: { [op]: 'TopSecret\\' } } },
      refused('parse-failed', /must not end with the escape character/, `$.args.where.title.${op}`),
      USER,
    ),
  ),
  'hidden.computed': (
    [
      ['num_of', 5],
      ['strict', 1],
    ] as const
  ).flatMap(([field, value]) => [
    graphql(`{ note(where: {${field}: {_gte: 1}}) { id } }`, is({ data: { note: [{ id: 8 }] } }), USER),
    graphql(
      `{ note(where: {_not: {${field}: {_is_null: true}}}, order_by: {${field}: asc}) { id ${field} } }`,
      is({ data: { note: [{ id: 8, [field]: value }] } }),
      USER,
    ),
    graphql(
      `{ note_aggregate(where: {${field}: {_lt: 9}}) { aggregate { count } } }`,
      is({ data: { note_aggregate: { aggregate: { count: 1 } } } }),
      USER,
    ),
    graphql(
      `{ comment(where: {note: {${field}: {_gte: 1}}}, order_by: {note: {${field}: asc}}) { id } }`,
      is({ data: { comment: [{ id: 2 }] } }),
      USER,
    ),
  ]),
  'hidden.view': [
    { part: -33 },
    { part: { $is_null: false } },
    { part: { $clt: 'org_id' } },
    { $not: { part: 5 } },
  ].map((where) => query('select', { table: 'share', columns: ['id'], where }, is([{ id: 8 }]), USER)),
  'hidden.index': async (t, server) => {
    const sqlOf = async (where: object): Promise<string> => {
      const body = {
        query: { type: 'select', args: { table: 'note', columns: ['id'], where } },
        role: 'user',
        headers: USER.variables,
      }
      return (await server.fetch('/v1/query/explain', { method: 'POST', body: JSON.stringify(body) })).body
        .sql as string
    }
    for (const where of [
      { id: 7 },
      { title: { $like: 'a%' } },
      { data: { $contains: {} } },
      { mood: 'Sad' },
      { path: 'a.b' },
    ]) {
      t.notMatch(await sqlOf(where), / case when /, JSON.stringify(where))
    }
    t.match(await sqlOf({ id: 7, title: { $regex: 'a' } }), /"id" = \$\d+::int4\) and case when \(t0."org_id" = /)
  },
  'hidden.read-error': [
    graphql('{ note { num_of } }', is({ data: { note: [{ num_of: 5 }] } }), USER),
    query('run_sql', { sql: `update note set num = 'abc1' where id = 8` }, is({ result_type: 'CommandOk' })),
    ...['num_of', 'strict'].map((field) =>
      graphql(
        `{ note { ${field} } }`,
        is({ errors: [{ message: NEUTRAL, extensions: { path: '$.selectionSet', code: 'data-exception' } }] }),
        USER,
      ),
    ),
    graphql('{ note { num_of } }', like({ errors: [{ message: /abc1/ }] })),
    query('select', { table: 'share', columns: ['part'] }, exactly(NEUTRAL), USER),
    query('run_sql', { sql: `update note set num = '5' where id = 8` }, is({ result_type: 'CommandOk' })),
  ],
  'hidden.own-value': [
    query(
      'select',
      { table: 'note', columns: ['id'], where: { id: 'seven' } },
      refused('postgres-error', /invalid input syntax for type integer: "seven"/, '$.args.where.id'),
      USER,
    ),
    query(
      'select',
      { table: 'note', columns: ['id'], where: { path: 'not a path!' } },
      refused('postgres-error', /ltree syntax error/, '$.args.where.path'),
      USER,
    ),
  ],
  'hidden.returning': [
    graphql(
      'mutation { update_note(where: {id: {_eq: 7}}, _set: {title: "TopSecret-8f14"}) { affected_rows returning { id num_of } } }',
      is({ data: { update_note: { affected_rows: 1, returning: [] } } }),
      { role: 'broad', variables: USER.variables as Record<string, string> },
    ),
  ],
  'hidden.group': [
    query(
      'select',
      { table: 'note', columns: ['org_id', { count: '*', as: 'n' }], group_by: ['org_id'], having: { n: { $gte: 1 } } },
      is([{ org_id: 2, n: 1 }]),
      USER,
    ),
  ],
  'hidden.key': [
    add(
      'note',
      { id: 7, org_id: 2, title: 'x' },
      {
        status: 400,
        body: {
          path: '$.args',
          error: 'Uniqueness violation. duplicate key value violates unique constraint "note_pkey"',
          code: 'postgres-error',
        },
      },
      'adder',
    ),
  ],
  'constraint.known': [
    acct(
      { email: 'one' },
      exactly('Uniqueness violation. duplicate key value violates unique constraint "acct_email_key"'),
    ),
    acct(
      { amount: -1 },
      exactly('Check constraint violation. new row for relation "acct" violates check constraint "positive"'),
    ),
    add('acct', { id: 3, pin: '', code: 5 }, says(/violates check constraint "pin_rule"$/), 'blind'),
    query('delete', { table: 'acct', where: { id: 1 } }, says(/"shadow_id_fkey"/)),
  ],
  'constraint.unknown': [
    acct({ email: 'x' }, exactly(UNIQUE), 'coder'),
    acct({ email: 'x' }, exactly(CHECK), 'taker'),
    query('delete', { table: 'acct', where: { id: 1 } }, exactly(FOREIGN), { role: 'user' }),
  ],
  'constraint.not-null': [
    add('acct', { id: 3, email: 'three' }, exactly('Not-NULL violation. a required column has no value')),
    add('acct', { email: 'three' }, says(/^Not-NULL violation. null value in column "id"/)),
  ],
  'constraint.foreign': [
    add('visit', { id: 1, acct: 77 }, says(/"visit_acct"/)),
    add('visit', { id: 1, acct: 77 }, says(/"visit_acct"/), 'blind'),
    add('visit', { id: 1, acct: 77 }, exactly(FOREIGN), 'visitor'),
  ],
  'constraint.inherited': [
    acct({ email: 'x' }, exactly(UNIQUE), 'both'),
    acct({ email: 'x' }, says(/"code_key"/), 'knower'),
  ],
  'trigger.message': [
    judged('refuse', exactly('no such title')),
    judged('range', exactly('Check constraint violation. out of range')),
  ],
  'trigger.error': [
    judged('cast', exactly(NEUTRAL)),
    judged('lost', exactly(NEUTRAL)),
    judged('cast', says(/abc8/), {}),
    judged('lost', says(/"audit" does not exist/), {}),
  ],
  'table.untracked': [
    query(
      'select',
      { table: 'unseen', columns: ['id'] },
      refused('permission-denied', /^select on "unseen" for role "user" is not allowed\. ?$/, '$.args.table'),
      USER,
    ),
    query(
      'select',
      { table: 'unseen', columns: ['id'] },
      {
        status: 400,
        body: {
          path: '$.args.table',
          error: 'table "unseen" exists but is not tracked; rowhouse track unseen',
          code: 'not-exists',
        },
      },
    ),
  ],
  'suggestion.role': [
    query(
      'select',
      { table: 'note', columns: ['titel'] },
      refused('permission-denied', /column "titel", did you mean "title"\?$/),
      USER,
    ),
    query('select', { table: 'note', columns: ['nun'] }, refused('permission-denied', /column "nun"$/), USER),
    query(
      'select',
      { table: 'note', columns: ['nun'] },
      refused('not-exists', '"nun" does not exist, did you mean "num"?'),
    ),
    query(
      'select',
      { table: 'notez', columns: ['id'] },
      refused('permission-denied', /is not allowed, did you mean "note"\?$/),
      USER,
    ),
    query('select', { table: 'accd', columns: ['id'] }, refused('permission-denied', /is not allowed\. ?$/), OTHER),
  ],
}

export const hidden = area('hidden', {
  promises: PROMISES,
  pages: {},
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  const FILTER = { org_id: 'X-Service-Org-Id' }
  const NOTE = {
    columns: ['id', 'org_id', 'title', 'data', 'path', 'mood'],
    computed_fields: ['num_of', 'strict'],
    filter: FILTER,
    allow_aggregations: true,
  }
  const ACCT = ['id', 'email', 'amount']
  const ALL = { columns: '*', filter: {} }
  await server.must('bulk', [
    ...['org', 'note', 'comment', 'share', 'acct', 'visit', 'judged'].map(track),
    relate('object', 'note', 'org', 'org_id'),
    relate('object', 'comment', 'note', 'note_id'),
    { type: 'add_computed_field', args: { table: 'note', name: 'num_of', definition: { function: 'note_num' } } },
    { type: 'add_computed_field', args: { table: 'note', name: 'strict', definition: { function: 'note_strict' } } },
    ...['user', 'broad'].map((role) => permit('select', 'note', role, NOTE)),
    permit('update', 'note', 'user', { columns: ['title'], filter: FILTER }),
    permit('delete', 'note', 'user', { filter: FILTER }),
    permit('update', 'note', 'broad', { columns: ['title'], filter: {} }),
    permit('insert', 'note', 'adder', { columns: ['id', 'org_id', 'title'], check: {} }),
    permit('select', 'comment', 'user', ALL),
    permit('select', 'share', 'user', { columns: '*', filter: FILTER }),
    permit('select', 'acct', 'user', { columns: ACCT, filter: {} }),
    permit('insert', 'acct', 'user', { columns: ACCT, check: {} }),
    permit('update', 'acct', 'user', { columns: ACCT, filter: {} }),
    permit('delete', 'acct', 'user', { filter: {} }),
    permit('insert', 'acct', 'blind', { columns: ['pin', 'code', 'id'], check: {} }),
    // Write the code by a preset only, so that it takes the select permission to know it.
    ...['coder', 'both', 'knower'].map((role) =>
      permit('update', 'acct', role, { columns: ['email'], filter: {}, set: { code: 1 } }),
    ),
    permit('update', 'acct', 'taker', { columns: ['email'], filter: {}, set: { amount: -1 } }),
    ...['coder', 'taker', 'anyone'].map((role) => permit('select', 'acct', role, { columns: ['id'], filter: {} })),
    permit('select', 'acct', 'seer', { columns: ['id', 'code'], filter: { id: 1 } }),
    permit('select', 'acct', 'knower', { columns: ['id', 'code'], filter: {} }),
    { type: 'set_role_inheritance', args: { role: 'both', roles: ['seer', 'anyone'] } },
    permit('insert', 'visit', 'user', { check: {} }),
    permit('insert', 'visit', 'blind', { check: {} }),
    permit('insert', 'visit', 'visitor', { check: {} }),
    permit('update', 'judged', 'other', { columns: ['title'], filter: {} }),
    permit('select', 'judged', 'other', { columns: ['id', 'title'], filter: {} }),
  ])
  return server
}
