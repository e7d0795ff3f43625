import t, { type Test } from 'tap'
import { type As, testServer, type TestServer } from '../kit/server.js'

const USER: As = { role: 'user', variables: { 'x-service-user-id': '1', 'x-service-org': 'red' } }
const OWN = { owner_id: { $eq: 'X-Service-User-Id' } }
const RED = { owner: { org: 'X-Service-Org' } }

/** Notes of people; whatever is written to a note leaves a line in the log. */
async function notes(t: Test, threads = 0): Promise<TestServer> {
  const server = await testServer(t, { threads })
  await server.must('run_sql', {
    sql: `create table person (id int primary key, org text);
      create table note (id int primary key, owner_id int references person, state text, title text default 'untitled');
      create table log (line text);
      create function keep() returns trigger language plpgsql as $$ begin insert into log values (tg_op); return null; end $$;
      create trigger keep after insert or update on note for each row execute function keep();
      create view draft as select id, owner_id, title from note where state = 'draft';
      insert into person values (1, 'red'), (2, 'red'), (3, 'blue');
      insert into note values (10, 1, 'draft', 'mine'), (11, 1, 'final', 'also mine');
      truncate log`,
  })
  await server.must('bulk', [
    ...['person', 'note', 'log', 'draft'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'note', name: 'owner', using: { foreign_key_constraint_on: 'owner_id' } },
    },
    // In the order in which PostgreSQL keeps keys: other processes, and the next server, read them from there.
    permit('insert', 'note', {
      check: { $and: [{ state: 'draft' }, { $and: [RED], ...OWN }], title: { $ne: 'bad' } },
      allow_upsert: true,
    }),
    permit('select', 'note', { columns: '*', filter: {} }),
    permit('update', 'note', { columns: '*', filter: OWN, check: { _and: [{ state: { _ne: 'gone' } }], ...OWN } }),
    permit('insert', 'draft', { check: { ...OWN, title: { $like: 'D%' } } }),
  ])
  return server
}

const permit = (type: string, table: string, permission: object) => ({
  type: `create_${type}_permission`,
  args: { table, role: 'user', permission },
})

async function explain(server: TestServer, type: string, args: object, { role, variables }: As = USER, as?: As) {
  const body = JSON.stringify({ query: { type, args }, role, headers: variables })
  return server.fetch('/v1/query/explain', { method: 'POST', body }, as)
}

const insert = (...objects: object[]) => ({ table: 'note', objects })
const refusedBy = (permission: string, path: string, clause: object) => ({ permission, path, clause })
const refused = (...clauses: object[]) => ({ role: 'user', table: 'note', clauses })

async function nothingWritten(t: Test, server: TestServer): Promise<void> {
  const rows = await server.must('select', { table: 'note', columns: ['id', 'owner_id', 'state'], order_by: 'id' })
  t.same(rows, [
    { id: 10, owner_id: 1, state: 'draft' },
    { id: 11, owner_id: 1, state: 'final' },
  ])
  t.same(await server.must('count', { table: 'log' }), { count: 0 })
}

t.test('explaining an insert names the clauses of the check that refuse it', async (t) => {
  const server = await notes(t, 1)
  const refusing = insert({ id: 1, owner_id: 1, state: 'draft' }, { id: 2, owner_id: 2, state: 'final', title: 'bad' })
  t.match((await server.query('insert', refusing, USER)).body, { error: /would not pass the insert check/ })

  const { status, body } = await explain(server, 'insert', refusing)

  t.equal(status, 200)
  t.same(
    body.refused,
    refused(
      refusedBy('insert', '$.check.$and[0].state', { state: 'draft' }),
      refusedBy('insert', '$.check.$and[1].owner_id', OWN),
      refusedBy('insert', '$.check.title', { title: { $ne: 'bad' } }),
    ),
  )
  t.match(body.sql, /^with w as \(insert into "public"."note"/)
  t.notMatch(body.sql, /draft|final|bad/)
  t.match(body.plans.join('\n'), /Insert on note/)
  await nothingWritten(t, server)
})

t.test('a clause that is neither true nor false refuses', async (t) => {
  const server = await notes(t)

  const { body } = await explain(server, 'insert', insert({ id: 1, owner_id: 1, state: null }))

  t.same(body.refused, refused(refusedBy('insert', '$.check.$and[0].state', { state: 'draft' })))
})

t.test('a condition on a related row is one clause', async (t) => {
  const server = await notes(t)

  const { body } = await explain(server, 'insert', insert({ id: 1, owner_id: 3, state: 'draft' }))

  t.same(
    body.refused,
    refused(
      refusedBy('insert', '$.check.$and[1].$and[0].owner', RED),
      refusedBy('insert', '$.check.$and[1].owner_id', OWN),
    ),
  )
})

t.test('a write that would pass is not refused, and leaves nothing either', async (t) => {
  const server = await notes(t)
  const rows = insert({ id: 1, owner_id: 1, state: 'draft' })
  const args = { table: 'note', where: { id: 10 }, $set: { state: 'final' }, returning: ['id'] }

  for (const { status, body } of [
    await explain(server, 'insert', { ...rows, returning: ['id', 'title'] }),
    await explain(server, 'insert', insert({ id: 1, owner_id: 3, state: 'gone' }), {}),
    await explain(server, 'update', args),
  ]) {
    t.equal(status, 200)
    t.strictSame(Object.keys(body), ['sql', 'plans'])
  }

  await nothingWritten(t, server)
  t.same((await server.query('insert', rows, USER)).body, { affected_rows: 1 })
})

t.test('explaining an update names the clauses of its check', async (t) => {
  const server = await notes(t)

  const all = await explain(server, 'update', { table: 'note', where: {}, $set: { state: 'gone', owner_id: 2 } })
  const none = await explain(server, 'update', { table: 'note', where: { id: 12 }, $set: { state: 'gone' } })

  t.same(
    all.body.refused,
    refused(
      refusedBy('update', '$.check._and[0].state', { state: { _ne: 'gone' } }),
      refusedBy('update', '$.check.owner_id', OWN),
    ),
  )
  t.equal(none.body.refused, undefined)
  await nothingWritten(t, server)
})

t.test('of an upsert, new rows meet the check of the insert, and existing rows that of the update', async (t) => {
  const server = await notes(t)
  const upsert = (...objects: object[]) => ({
    ...insert(...objects),
    on_conflict: { action: 'update', constraint: 'note_pkey' },
  })

  const both = await explain(
    server,
    'insert',
    upsert({ id: 10, state: 'gone', owner_id: 1 }, { id: 12, state: 'gone', owner_id: 1 }),
  )
  const existing = await explain(server, 'insert', upsert({ id: 10, state: 'final', owner_id: 1 }))

  t.same(
    both.body.refused,
    refused(
      refusedBy('insert', '$.check.$and[0].state', { state: 'draft' }),
      refusedBy('update', '$.check._and[0].state', { state: { _ne: 'gone' } }),
    ),
  )
  t.equal(existing.body.refused, undefined)
  await nothingWritten(t, server)
})

t.test('a write to a view is explained', async (t) => {
  const server = await notes(t)

  const { body } = await explain(server, 'insert', { table: 'draft', objects: [{ id: 1, owner_id: 1, title: 'note' }] })

  t.same(body.refused, {
    role: 'user',
    table: 'draft',
    clauses: [refusedBy('insert', '$.check.title', { title: { $like: 'D%' } })],
  })
  await nothingWritten(t, server)
})

t.test('a row that a trigger moves is refused without a clause', async (t) => {
  const server = await notes(t)
  await server.must('run_sql', {
    sql: `create function move() returns trigger language plpgsql as $$ begin update note set id = id + 100 where id = new.id; return null; end $$;
      create trigger move after insert on note for each row execute function move()`,
  })

  const { body } = await explain(server, 'insert', insert({ id: 1, owner_id: 1, state: 'draft' }))

  t.same(body.refused, refused())
})

t.test('an error of the database is the answer of explain, too', async (t) => {
  const server = await notes(t)

  const { status, body } = await explain(server, 'insert', insert({ id: 10, owner_id: 1, state: 'draft' }))

  t.match({ status, body }, { status: 400, body: { code: 'postgres-error', error: /^Uniqueness violation/ } })
  await nothingWritten(t, server)
})

t.test('deletes and counts are explained, and a statement that is analyzed is undone', async (t) => {
  const server = await notes(t)
  const ask = async (type: string, args: object, analyze?: unknown) => {
    const body = JSON.stringify({ query: { type, args: { table: 'note', ...args } }, analyze })
    return (await server.fetch('/v1/query/explain', { method: 'POST', body })).body
  }
  const joined = ({ plans }: { plans: string[] }) => plans.join('\n')

  t.match(joined(await ask('count', {})), /Seq Scan on note/)
  const planned = joined(await ask('delete', { where: {} }))
  t.match(planned, /Delete on note/)
  t.notMatch(planned, /actual/)
  t.match(
    joined(await ask('delete', { where: {} }, true)),
    /Delete on note .*actual .*rows=2[^]*Buffers: [^]*Execution Time/,
  )
  t.match(await ask('delete', { where: {} }, 'yes'), { code: 'parse-failed', path: '$.analyze' })

  await nothingWritten(t, server)
})

t.test('the query of a template is explained for a role', async (t) => {
  const server = await notes(t)
  await server.must('create_query_template', {
    name: 'add',
    template: {
      type: 'insert',
      args: { table: 'note', objects: [{ id: { param: 'id' }, owner_id: { param: 'owner' }, state: 'draft' }] },
    },
  })
  await server.must('create_query_template', { name: 'two', template: { type: 'bulk', args: [] } })
  const ask = async (name: string, args: object) =>
    (await explain(server, 'execute_query_template', { name, args })).body

  const refusing = await ask('add', { id: 1, owner: 2 })
  t.match(refusing.sql, /^with w as \(insert into "public"."note"/)
  t.same(refusing.refused, refused(refusedBy('insert', '$.check.$and[1].owner_id', OWN)))
  t.strictSame(Object.keys(await ask('add', { id: 1, owner: 1 })), ['sql', 'plans'])
  t.match(await ask('add', { id: 1 }), { code: 'invalid-params', path: '$.query.args.args' })
  t.match(await ask('add', { id: 'x', owner: 1 }), { code: 'postgres-error' })
  t.match(await ask('none', {}), { code: 'not-exists', path: '$.query.args.name' })
  t.match(await ask('two', {}), { code: 'parse-failed', path: '$.query.args.template' })
  t.match((await explain(server, 'execute_query_template', { name: 'add' })).body, { path: '$.query.args' })
  await nothingWritten(t, server)
})

t.test('each root field of a GraphQL request is explained for a role', async (t) => {
  const server = await notes(t, 1)
  const ask = async (query: string, more: object = {}, as: As = { ...USER, acting: true }) => {
    const body = JSON.stringify({ query, ...more })
    return server.fetch('/v1/graphql/explain', { method: 'POST', body }, as)
  }

  const read = await ask(
    'query ($id: Int!) { mine: note(where: {id: {_eq: $id}}) { title } all: note_by_pk(id: 11) { id } }',
    {
      variables: { id: 10 },
      analyze: true,
    },
  )
  t.equal(read.status, 200)
  t.match(read.body, [
    { field: 'mine', sql: /^select .*"title"/, plans: /Execution Time/ },
    { field: 'all', sql: /^select .*"id"/ },
  ])
  t.match(read.body[0].plans.join('\n'), /actual [^]*Buffers/)
  t.notMatch(read.body[1].sql, /title/)

  const { body } = await ask(
    `mutation ($rows: [note_insert_input!]!) {
      insert_note(objects: $rows) { affected_rows }
      gone: update_note(where: {}, _set: {state: "gone"}) { affected_rows }
      __typename
    }`,
    { variables: { rows: [{ id: 1, owner_id: 2, state: 'draft' }] } },
  )
  t.match(body, [
    { field: 'insert_note', sql: /insert into/, refused: { clauses: [{ path: '$.check.$and[1].owner_id' }] } },
    { field: 'gone', sql: /update/, plans: [], refused: { clauses: [{ path: '$.check._and[0].state' }] } },
  ])
  t.equal(body.length, 2)
  const many =
    'mutation { update_note_many(updates: [{where: {}, _set: {title: "x"}}, {where: {id: {_eq: 10}}, _set: {title: "y"}}]) { affected_rows } }'
  t.match((await ask(many)).body, [{ field: 'update_note_many' }, { field: 'update_note_many' }])

  for (const [made, expected] of [
    [await ask('{ nothing { id } }'), { errors: [{ extensions: { code: 'validation-failed' } }] }],
    [await ask('{ note { id } }', { analyze: 'yes' }), { errors: [{ extensions: { path: '$.analyze' } }] }],
    [
      await ask('mutation { insert_note(objects: [{id: 1, owner: {data: {id: 9}}}]) { affected_rows } }', {}, {}),
      { errors: [{ message: 'explain takes no rows of relationships' }] },
    ],
  ] as const) {
    t.match(made, { status: 400, body: expected })
  }
  const noSecret = await server.bare('/v1/graphql/explain', { method: 'POST', body: '{"query":"{ note { id } }"}' })
  t.match(noSecret, { status: 400, body: { code: 'access-denied' } })
  await nothingWritten(t, server)
})

t.test('explain writes for nobody but an admin, and takes single queries only', async (t) => {
  const server = await notes(t)
  const row = { id: 1, owner_id: 1, state: 'draft' }

  for (const [made, expected] of [
    [await explain(server, 'insert', insert(row), USER, USER), { code: 'access-denied', path: '$' }],
    [await explain(server, 'bulk', []), { code: 'parse-failed', path: '$.query' }],
    [
      await explain(server, 'insert', {
        ...insert(row, { ...row, id: 2, title: 'x' }),
        on_conflict: { action: 'update', constraint: 'note_pkey' },
      }),
      { code: 'unexpected-payload', path: '$.query.args.objects' },
    ],
  ] as const) {
    t.match(made, { status: 400, body: expected })
  }

  await nothingWritten(t, server)
})
