import tap from 'tap'
import pg from 'pg'
import { MAIL, notifyServer } from '../kit/notify.js'

type Door = [name: string, path: string, init: RequestInit]

const json = (body: unknown): RequestInit => ({ method: 'POST', body: JSON.stringify(body) })
const dry = ({ headers, ...init }: RequestInit): RequestInit => ({
  ...init,
  headers: { ...(headers as Record<string, string>), Prefer: 'return=minimal, tx=rollback' },
})
const insert = (text: string, id = 7) => ({
  type: 'insert',
  args: { table: 'note', objects: [{ id, text }], returning: ['id', 'text', 'stamp'] },
})
const mutation = (text: string) => ({
  query: `mutation { insert_note_one(object: {id: 7, text: "${text}"}) { id text stamp }
    delete_note(where: {id: {_eq: 1}}) { affected_rows } }`,
})
const AS_USER = { 'X-Service-User-Id': '1' }

tap.test('dry runs', async (t) => {
  const server = await notifyServer(t, {}, {}, true)
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await server.must('run_sql', {
    sql: `create table note (id int primary key, text text unique deferrable initially deferred, stamp text);
      create function stamp() returns trigger language plpgsql as $$ begin new.stamp := 'by a trigger'; return new; end $$;
      create trigger stamp before insert on note for each row execute function stamp();
      create function add_note(i int) returns setof note language sql volatile as 'insert into note values (i, ''f'') returning *';
      insert into note values (1, 'one'); create table bare (id int primary key)`,
  })
  await server.must('track_table', { schema: 'public', name: 'note' })
  await server.must('track_function', { schema: 'public', name: 'add_note' })
  const template = { type: 'insert', args: { table: 'note', objects: { param: 'objects' }, returning: ['id'] } }
  await server.must('create_query_template', { name: 'add', template })
  t.equal((await server.fetch('/v1/file/a', { method: 'PUT', body: 'bytes', headers: AS_USER })).status, 200)
  /** All rows of all tables. */
  const dump = async () => {
    const { rows: tables } = await database.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('public', 'svc_catalog') order by 1`,
    )
    const all: string[] = []
    for (const { name } of tables) {
      const { rows } = await database.query(
        `select coalesce(json_agg(r order by r::text), '[]')::text as rows from ${name} r`,
      )
      all.push(`${name}: ${rows[0].rows}`)
    }
    return all
  }
  const version = async () =>
    JSON.parse((await server.fetch('/v1/query', json({ type: 'server_status', args: {} }))).text).metadata?.version

  await t.test('it has the answer of the real run, and leaves nothing', async (t) => {
    const doors: Door[] = [
      ['insert', '/v1/query', json(insert('a'))],
      ['bulk', '/v1/query', json({ type: 'bulk', args: [insert('a'), { type: 'count', args: { table: 'note' } }] })],
      [
        'update',
        '/v1/query',
        json({ type: 'update', args: { table: 'note', where: {}, $set: { text: 'z' }, returning: ['*'] } }),
      ],
      ['call', '/v1/query', json({ type: 'call', args: { function: 'add_note', arguments: { i: 3 } } })],
      [
        'run_sql',
        '/v1/query',
        json({ type: 'run_sql', args: { sql: 'create table more (id int); select count(*) from note' } }),
      ],
      ['metadata', '/v1/query', json({ type: 'track_table', args: { schema: 'public', name: 'bare' } })],
      [
        'bulk of metadata',
        '/v1/query',
        json({
          type: 'bulk',
          args: [
            { type: 'track_table', args: 'bare' },
            { type: 'select', args: { table: 'bare', columns: ['id'] } },
          ],
        }),
      ],
      ['template', '/v1/template/add', json({ objects: [{ id: 8 }] })],
      ['template by GET', '/v1/template/add?objects=%5B%7B%22id%22%3A8%7D%5D', {}],
      [
        'template by type',
        '/v1/query',
        json({ type: 'execute_query_template', args: { name: 'add', args: { objects: [{ id: 8 }] } } }),
      ],
      ['GraphQL', '/v1/graphql', json(mutation('h'))],
      ['GraphQL alpha', '/v1alpha1/graphql', json({ query: 'mutation { delete_note(where: {}) { affected_rows } }' })],
      ['deletion of a file', '/v1/file/a', { method: 'DELETE', headers: AS_USER }],
      ['a constraint', '/v1/query', json({ type: 'bulk', args: [insert('a', 1)] })],
      ['a deferred constraint', '/v1/query', json(insert('one'))],
      [
        'a deferred constraint in GraphQL',
        '/v1/graphql',
        json({ query: 'mutation { insert_note_one(object: {id: 9, text: "one"}) { id } }' }),
      ],
      ['a refusal', '/v1/query', json({ type: 'insert', args: { table: 'note', objects: [{ nothing: 1 }] } })],
    ]
    for (const [name, path, init] of doors) {
      const before = await dump()
      const tried = await server.fetch(path, dry(init))
      t.equal(tried.headers.get('Preference-Applied'), 'tx=rollback', name)
      t.same(await dump(), before, `${name} leaves nothing`)
      if (path === '/v1/query') {
        const body = { ...JSON.parse(init.body as string), dry_run: true }
        const again = await server.fetch(path, json(body))
        t.same([again.status, again.text], [tried.status, tried.text], `${name} with dry_run`)
        t.equal(again.headers.get('Preference-Applied'), 'tx=rollback')
      }
      const real = await server.fetch(path, init)
      t.same([tried.status, tried.text], [real.status, real.text], name)
      t.equal(real.headers.get('Preference-Applied'), null)
      // The next one starts where this one did.
      await server.must('run_sql', {
        sql: "delete from note; insert into note values (1, 'one'); drop table if exists more",
      })
      if (name.includes('metadata')) await server.must('untrack_table', { table: 'bare' })
    }
    t.match((await server.query('select', { table: 'bare', columns: ['id'] })).body, { code: 'not-exists' })
  })

  await t.test('it sends nothing', async (t) => {
    const tried = await server.fetch('/v1/query', dry(json({ type: 'send_email', args: MAIL })))
    t.match(tried, { status: 200, body: { detail: 'queued' } })
    t.same(await server.messages(), [])
    t.equal(server.email.handed.length, 0)
  })

  await t.test('it changes no snapshot', async (t) => {
    const before = await version()
    await server.fetch('/v1/query', dry(json({ type: 'clear_metadata', args: {} })))
    t.equal(await version(), before)
    t.match(await server.must('count', { table: 'note' }), { count: 1 })
  })

  await t.test('reads are as without it', async (t) => {
    for (const [name, path, init] of [
      ['select', '/v1/query', json({ type: 'select', args: { table: 'note', columns: ['id'] } })],
      ['GraphQL', '/v1/graphql', json({ query: '{ note { id } }' })],
      ['download', '/v1/send/providers', {}],
    ] as Door[]) {
      t.equal((await server.fetch(path, dry(init))).text, (await server.fetch(path, init)).text, name)
    }
  })

  await t.test('a body of GraphQL can say so', async (t) => {
    const before = await dump()
    const query = 'mutation { delete_note(where: {}) { affected_rows } }'
    const doors: Door[] = [
      ['GraphQL', '/v1/graphql', json({ query, dry_run: true })],
      ['GraphQL alpha', '/v1alpha1/graphql', json({ query, dry_run: true })],
    ]
    for (const [name, path, init] of doors) {
      const tried = await server.fetch(path, init)
      t.match(tried.body, { data: { delete_note: { affected_rows: 1 } } }, `${name}: ${tried.text}`)
      t.equal(tried.headers.get('Preference-Applied'), 'tx=rollback', name)
      t.same(await dump(), before, `${name} leaves nothing`)
    }
    const yes = await server.fetch('/v1/graphql', json({ ...mutation('h'), dry_run: 'yes' }))
    t.match(yes, { status: 400, body: { errors: [{ extensions: { code: 'parse-failed', path: '$.dry_run' } }] } })
    const batch = await server.fetch('/v1/graphql', json([mutation('h'), { ...mutation('h'), dry_run: true }]))
    t.match(batch.body, { errors: [{ message: /a batch cannot be a dry run/ }] })
    t.same(await dump(), before)
  })

  await t.test('a template does not ignore the argument dry_run', async (t) => {
    const before = await dump()
    const execute = (args: object) => json({ type: 'execute_query_template', args: { name: 'add', args } })
    for (const [path, init, at] of [
      ['/v1/template/add', json({ objects: [{ id: 8 }], dry_run: true }), '$.dry_run'],
      ['/v1/template/add?dry_run=true', json({ objects: [{ id: 8 }] }), '$.dry_run'],
      ['/v1/query', execute({ objects: [{ id: 8 }], dry_run: true }), '$.args.args.dry_run'],
    ] as const) {
      t.match(await server.fetch(path, init), {
        status: 400,
        body: { code: 'invalid-params', path: at, error: /has no parameter "dry_run".*Prefer: tx=rollback/ },
      })
    }
    t.same(await dump(), before)
    const declared = { type: 'count', args: { table: 'note', where: { text: { param: 'dry_run' } } } }
    await server.must('create_query_template', { name: 'declared', template: declared })
    t.match(await server.fetch('/v1/template/declared?dry_run=true'), { status: 200, body: { count: 0 } })
    await server.must('drop_query_template', { name: 'declared' })
  })

  await t.test('another value of the preference tx is refused, and other preferences are ignored', async (t) => {
    const before = await dump()
    const prefer = (value: string, body: object = insert('a')) =>
      server.fetch('/v1/query', { ...json(body), headers: { Prefer: value } })
    for (const value of [
      'tx=rolback',
      'return=minimal, tx="none"',
      'tx',
      'tx=',
      'TX = no;x=y',
      'tx=commit, tx=rollback',
    ]) {
      t.match(
        await prefer(value),
        { status: 400, body: { code: 'parse-failed', path: '$.headers.Prefer', error: /tx=rollback/ } },
        value,
      )
    }
    t.same(await dump(), before)
    t.match(await server.fetch('/v1/send/email', { ...json(MAIL), headers: { Prefer: 'tx=rolback' } }), { status: 400 })
    t.equal((await prefer('Tx = "Rollback" ; a=b')).headers.get('Preference-Applied'), 'tx=rollback')
    t.same(await dump(), before)
    for (const value of ['tx=commit', 'txn=rolback, return=tx', 'wait=10']) {
      const real = await prefer(value, { type: 'update', args: { table: 'note', where: {}, $inc: { id: 0 } } })
      t.match(real, { status: 200, body: { affected_rows: 1 } }, value)
      t.equal(real.headers.get('Preference-Applied'), null)
    }
  })

  await t.test('what a rollback would not undo is refused', async (t) => {
    const before = await dump()
    const doors: Door[] = [
      ['upload', '/v1/file/b', { method: 'PUT', body: 'bytes', headers: AS_USER }],
      ['form', '/v1/file', { method: 'POST', body: 'bytes', headers: AS_USER }],
      [
        'resumable upload',
        '/v1/upload',
        { method: 'POST', headers: { ...AS_USER, 'Tus-Resumable': '1.0.0', 'Upload-Length': '1' } },
      ],
      ['send', '/v1/send/email', json(MAIL)],
      ['mail template', '/v1/send/template/a', { ...json({ subject: 'a', text: 'b' }), method: 'PUT' }],
      ['reload', '/v1/query', json({ type: 'reload_metadata', args: {} })],
      ['reload in a bulk', '/v1/query', json({ type: 'bulk', args: [{ type: 'reload_metadata', args: {} }] })],
      ['check_files', '/v1/query', json({ type: 'check_files', args: {} })],
      [
        'no_transaction',
        '/v1/query',
        json({ type: 'run_sql', args: { sql: 'reindex table note', no_transaction: true } }),
      ],
      ['batch', '/v1/graphql', json([mutation('q')])],
    ]
    for (const [name, path, init] of doors) {
      const { status, body, text, headers } = await server.fetch(path, dry(init))
      t.equal(headers.get('Preference-Applied'), 'tx=rollback', name)
      const code = body.errors?.[0]?.extensions.code ?? body.code
      t.match([status, code?.replaceAll('_', '-')], [400, 'not-supported'], `${name}: ${text}`)
    }
    const twice = { Prefer: 'tx=rollback', 'Idempotency-Key': 'k' }
    t.match(await server.fetch('/v1/query', { ...json(insert('a')), headers: twice }), {
      status: 400,
      body: { code: 'not-supported', error: /a dry run takes no Idempotency-Key/ },
    })
    t.match(await server.fetch('/v1/query', json({ ...insert('a'), dry_run: 'yes' })), {
      status: 400,
      body: { code: 'parse-failed', path: '$.dry_run' },
    })
    const member = { type: 'bulk', args: [{ ...insert('a'), dry_run: true }] }
    t.match(await server.fetch('/v1/query', json(member)), { status: 400, body: { path: '$.args[0].dry_run' } })
    const stored = { name: 'dry', template: { ...insert('a'), dry_run: true } }
    t.match(await server.query('create_query_template', stored), { status: 400 })
    t.same(await dump(), before)
    t.equal((await server.fetch('/v1/query', json({ ...insert('a'), dry_run: false }))).status, 200)
    t.match(await server.must('count', { table: 'note' }), { count: 2 })
  })
})
