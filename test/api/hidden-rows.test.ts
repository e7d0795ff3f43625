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
create view share as select id, org_id, 100 / (length(num) - 4) as part from note;
insert into org values (1, 'one'), (2, 'two');
insert into note values (7, 1, 'TopSecret-8f14', 'abc1', 'top.secret', '{"a": 1}', 'Sad'), (8, 2, 'mine', '5', 'top.mine', '{}', 'Glad');
insert into comment values (1, 7, 'of the hidden note'), (2, 8, 'of mine')`

const FILTER = { org_id: 'X-Service-Org-Id' }
const USER: As = { role: 'user', variables: { 'x-service-org-id': '2' } }

async function start(t: Parameters<typeof testServer>[0], filter: object = FILTER): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql: DATA })
  await server.must(
    'bulk',
    ['org', 'note', 'comment', 'share'].map((args) => ({ type: 'track_table', args })),
  )
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

t.test('a condition that can fail is not evaluated on hidden rows', async (t) => {
  const server = await start(t)
  for (const [door, ask] of Object.entries(DOORS)) {
    const conditions = [
      { title: { $regex: '[' } },
      { title: { $similar: '[' } },
      { path: { $matches: 'top.secret' } },
      { $not: { title: { $regex: '^Top' } }, id: 7 },
    ]
    for (const where of conditions) {
      const hidden = await ask(server, { id: 7, ...where })
      const absent = await ask(server, { id: 9, ...where })
      t.same([hidden.status, hidden.text], [absent.status, absent.text], `${door} ${JSON.stringify(where)}`)
    }
  }
})

t.test('a change of a value that a role may not select is refused', async (t) => {
  const server = await start(t)
  await server.must('bulk', [
    { type: 'run_sql', args: { sql: 'alter table note add column stars int default 1, add column data jsonb' } },
    { type: 'drop_update_permission', args: { table: 'note', role: 'user' } },
    {
      type: 'create_update_permission',
      args: { table: 'note', role: 'user', permission: { columns: ['stars', 'data', 'tags'], filter: FILTER } },
    },
  ])
  const graphql = (set: string) =>
    server.fetch(
      '/v1/graphql',
      { method: 'POST', body: JSON.stringify({ query: `mutation {update_note(where: {}, ${set}) {affected_rows}}` }) },
      USER,
    )
  const changed = await server.query('update', { table: 'note', where: {}, $inc: { stars: 2147483647 } }, USER)
  t.match(changed, { status: 400, body: { code: 'permission-denied', path: '$.args.$inc' } })
  for (const set of ['_inc: {stars: 1}', '_delete_key: {data: "n"}', '_append: {data: {}}']) {
    t.match((await graphql(set)).body, { errors: [{ message: /permission|not defined|unknown|does not exist/i }] }, set)
  }
  t.match((await graphql('_set: {stars: 3}, _append: {tags: {b: 2}}')).body, {
    data: { update_note: { affected_rows: 1 } },
  })
})

t.test('a comparison that fails for some values is not made with hidden rows, wherever the filter looks', async (t) => {
  const server = await start(t, { org: { name: 'X-Service-Org' } })
  await server.must('run_sql', {
    sql: 'alter table note add column c text collate "C", add column p text collate "POSIX"',
  })
  await server.must('reload_metadata', {})
  await server.must('drop_select_permission', { table: 'note', role: 'user' })
  await server.must('create_select_permission', {
    table: 'note',
    role: 'user',
    permission: { columns: '*', filter: { org: { name: 'X-Service-Org' } } },
  })
  const as = { role: 'user', variables: { 'x-service-org': 'two' } }
  const conditions = [
    { path: { $ancestor_any: '{NULL}' } },
    { path: { $descendant_any: '{{top},{b}}' } },
    { c: { $ceq: 'p' } },
    { c: { $clt: 'p' } },
  ]
  for (const where of conditions) {
    const [hidden, absent] = await Promise.all(
      [7, 70].map((id) => server.query('select', { table: 'note', columns: ['id'], where: { id, ...where } }, as)),
    )
    t.same([hidden!.status, hidden!.text], [absent!.status, absent!.text], JSON.stringify(where))
  }
})

t.test('expressions of views and virtual columns quote and compute nothing of what a role may not see', async (t) => {
  const server = await start(t)
  await server.must('run_sql', {
    sql: `create view cast_note as select id, org_id, title, num::int as part from note;
      insert into note values (9, 2, 'own', 'xyz9')`,
  })
  await server.must('track_table', 'cast_note')
  for (const [table, part] of [
    ['cast_note', 'part'],
    ['share', 'part'],
  ] as const) {
    await server.query('drop_select_permission', { table, role: 'user' })
    await server.must('create_select_permission', {
      table,
      role: 'user',
      permission: { columns: ['id', 'org_id', part], filter: FILTER },
    })
    await server.must('create_update_permission', {
      table,
      role: 'user',
      permission: { columns: ['org_id'], filter: {} },
    })
  }
  const update = (table: string, id: number, returning: string[]) =>
    server.query('update', { table, $set: { org_id: 1 }, where: { id }, returning }, USER)
  const computed = await update('share', 7, ['id', 'part'])
  t.same([computed.status, computed.body], [200, { affected_rows: 1, returning: [] }], 'a row that it does not see')
  await server.must('run_sql', { sql: 'update note set org_id = 2 where id = 9' })
  const quoted = await server.query(
    'update',
    { table: 'cast_note', $set: { org_id: 2 }, where: { id: 9 }, returning: ['part'] },
    USER,
  )
  t.equal(quoted.status, 400)
  t.notMatch(quoted.text, 'xyz9')
})

t.test('containment of arrays is that of PostgreSQL itself, which fails for no value', async (t) => {
  const server = await start(t)
  await server.must('run_sql', {
    sql: `create extension intarray; alter table note add column marks int[];
      update note set marks = '{1,null}' where id = 7; update note set marks = '{1,2}' where id = 8`,
  })
  await server.must('drop_select_permission', { table: 'note', role: 'user' })
  const permission = { columns: ['id', 'marks'], filter: { org: { name: 'two' } } }
  await server.must('create_select_permission', { table: 'note', role: 'user', permission })
  for (const op of ['$contains', '$contained_in']) {
    const asked = await server.query(
      'select',
      { table: 'note', columns: ['id'], where: { marks: { [op]: [1, 2] } } },
      USER,
    )
    t.same([asked.status, asked.body], [200, [{ id: 8 }]], op)
  }
})

t.test('columns of views are taken as plain where they are', async (t) => {
  const server = await start(t)
  await server.must('run_sql', {
    sql: `create view joined as select n.id, n.org_id, n.title, o.name, length(n.title) as long from note n join org o on o.id = n.org_id;
      create view over as select id, org_id, name as called, long from (select * from joined) j;
      create view both_of as select id, org_id, title from note union select id, org_id, title from note;
      create view shadowed as select id, org_id, (select title from (select 1 as one, 2 as two, n.num::int as title) s)::text as title from note n`,
  })
  const columns: Readonly<Record<string, Readonly<Record<string, object>>>> = {
    joined: { id: { id: 8 }, name: { name: 'two' }, '!long': { long: 4 } },
    over: { id: { id: 8 }, called: { called: 'two' }, '!long': { long: 4 } },
    both_of: { '!id': { id: 8 } },
    shadowed: { id: { id: 8 }, '!title': { title: '5' } },
  }
  for (const [table, wheres] of Object.entries(columns)) {
    await server.must('track_table', table)
    const permission = { columns: '*', filter: FILTER }
    await server.must('create_select_permission', { table, role: 'user', permission })
    for (const [name, where] of Object.entries(wheres)) {
      const query = { type: 'select', args: { table, columns: ['id'], where } }
      const body = JSON.stringify({ query, role: 'user', headers: { 'x-service-org-id': '2' } })
      const { body: explained } = await server.fetch('/v1/query/explain', { method: 'POST', body })
      t.equal(/ case when /.test(explained.sql as string), name.startsWith('!'), `${table}.${name}`)
      t.same((await server.query('select', query.args, USER)).body, [{ id: 8 }])
    }
  }
})
