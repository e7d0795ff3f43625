import t from 'tap'
import { type Answered, type As, testServer, type TestServer } from '../kit/server.js'

/**
 * What a role may not see cannot be told from what is not there: no condition, order, function or constraint that a caller
 * names says anything of a row that the filter of its role hides.
 */

const DATA = `
create extension citext;
create extension ltree;
create table org (id int primary key, name text not null);
create table note (
  id int primary key, org_id int not null references org, title text not null, num text not null default '1',
  path ltree, tags jsonb, mood citext
);
create table comment (id int primary key, note_id int not null references note, body text not null);
create function note_num(note) returns int language sql stable as $$ select ($1.num)::int $$;
create function note_strict(note) returns int language plpgsql stable as $$
  begin if $1.num = 'abc1' then raise exception 'the number is %', $1.num; end if; return 1; end $$;
create view share as select id, org_id, 100 / nullif(length(num) - 4, id - 7) as part from note;
insert into org values (1, 'one'), (2, 'two');
insert into note values (7, 1, 'TopSecret-8f14', 'abc1', 'top.secret', '{"a": 1}', 'Sad'), (8, 2, 'mine', '5', 'top.mine', '{}', 'Glad');
insert into comment values (1, 7, 'of the hidden note'), (2, 8, 'of mine')`

const FILTER = { org_id: 'X-Service-Org-Id' }
const USER: As = { role: 'user', variables: { 'x-service-org-id': '2' } }

async function start(t: Parameters<typeof testServer>[0], filter: object = FILTER): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql: DATA })
  for (const table of ['org', 'note', 'comment', 'share']) await server.must('track_table', table)
  await server.must('bulk', [
    {
      type: 'create_object_relationship',
      args: { table: 'note', name: 'org', using: { foreign_key_constraint_on: 'org_id' } },
    },
    {
      type: 'create_object_relationship',
      args: { table: 'comment', name: 'note', using: { foreign_key_constraint_on: 'note_id' } },
    },
    { type: 'add_computed_field', args: { table: 'note', name: 'n', definition: { function: 'note_num' } } },
    { type: 'add_computed_field', args: { table: 'note', name: 'strict', definition: { function: 'note_strict' } } },
    {
      type: 'create_select_permission',
      args: { table: 'org', role: 'user', permission: { columns: '*', filter: {} } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'comment', role: 'user', permission: { columns: '*', filter: {} } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'share', role: 'user', permission: { columns: '*', filter: FILTER } },
    },
    {
      type: 'create_select_permission',
      args: {
        table: 'note',
        role: 'user',
        permission: {
          columns: ['id', 'org_id', 'title', 'path', 'tags', 'mood'],
          computed_fields: ['n', 'strict'],
          filter,
          allow_aggregations: true,
        },
      },
    },
    {
      type: 'create_update_permission',
      args: { table: 'note', role: 'user', permission: { columns: ['title'], filter } },
    },
    { type: 'create_delete_permission', args: { table: 'note', role: 'user', permission: { filter } } },
  ])
  return server
}

/** Each door with one condition on `note`. */
const DOORS: Readonly<Record<string, (server: TestServer, where: object) => Promise<Answered>>> = {
  select: (server, where) => server.query('select', { table: 'note', columns: ['id'], where, limit: 5 }, USER),
  'select without limit': (server, where) => server.query('select', { table: 'note', columns: ['id'], where }, USER),
  count: (server, where) => server.query('count', { table: 'note', where }, USER),
  update: (server, where) => server.query('update', { table: 'note', $set: { title: 'mine' }, where }, USER),
  delete: (server, where) => server.query('delete', { table: 'note', where: { $and: [{ id: 7 }, where] } }, USER),
  bulk: (server, where) =>
    server.query('bulk', [{ type: 'select', args: { table: 'note', columns: ['id'], where } }], USER),
  'through a relationship': (server, where) =>
    server.query('select', { table: 'comment', columns: ['id'], where: { note: where } }, USER),
}

/** Prefix of a hidden title, and what is not. */
const GUESSES = ['TopSecret-8', 'TopSecret-0']

t.test('a pattern that ends in its escape character is refused, whatever it meets', async (t) => {
  const server = await start(t)
  for (const [door, ask] of Object.entries(DOORS)) {
    for (const op of ['$like', '$nlike', '$ilike', '$nilike']) {
      for (const guess of GUESSES) {
        const { status, body } = await ask(server, { id: 7, title: { [op]: `${guess}\\` } })
        t.equal(status, 400, `${door} ${op}`)
        t.match(body, { code: 'parse-failed', error: /must not end with the escape character/, path: /\$like|\$n|\$i/ })
      }
    }
  }
  t.same(
    (await DOORS['select']!(server, { title: { $like: 'mine\\\\' } })).body,
    [],
    'an escaped backslash is a backslash',
  )
})

t.test('such a pattern is refused in templates, GraphQL, casts, session variables and permissions too', async (t) => {
  const server = await start(t)
  const template = {
    name: 'nt',
    template: { type: 'select', args: { table: 'note', columns: ['id'], where: { title: { $like: { param: 'p' } } } } },
  }
  await server.must('create_query_template', template)
  t.match(await server.fetch('/v1/template/nt?p=TopSecret-8%5C', {}, USER), {
    status: 400,
    body: { code: 'parse-failed' },
  })

  const graphql = (path: string, query: string, variables: object = {}) =>
    server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables }) }, USER)
  const written = await graphql('/v1alpha1/graphql', String.raw`{note(where: {title: {_like: "TopSecret-8\\"}}) {id}}`)
  t.match(written, { status: 400, body: { errors: [{ code: 'parse-failed' }] } })
  const variable = await graphql('/v1/graphql', 'query($p: String) {note(where: {title: {_nilike: $p}}) {id}}', {
    p: 'x\\',
  })
  t.match(variable.body, { errors: [{ extensions: { code: 'parse-failed' } }] })
  const cast = await DOORS['select']!(server, { tags: { $cast: { String: { $like: 'x\\' } } } })
  t.match(cast, { status: 400, body: { code: 'parse-failed' } })

  const permission = (filter: object) => ({ table: 'org', role: 'other', permission: { columns: '*', filter } })
  const constant = await server.query('create_select_permission', permission({ name: { $like: 'x\\' } }))
  t.match(constant, { status: 400, body: { path: '$.args.permission.filter.name.$like' } })
  await server.must('create_select_permission', permission({ name: { $like: 'X-Service-Prefix' } }))
  const as = { role: 'other', variables: { 'x-service-prefix': 'x\\' } }
  const asked = await server.query('select', { table: 'org', columns: ['id'] }, as)
  t.match(asked, { status: 400, body: { error: /x-service-prefix header: a pattern must not end/ } })
})
