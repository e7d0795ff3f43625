import pg from 'pg'
import type { Test } from 'tap'
import { MAIL, notifyServer, type NotifyServer } from '../kit/notify.js'
import { area, type Case } from '../kit/promises.js'

/** What a dry run promises. */
const PROMISES = {
  'dry.same': 'a dry run has the response of the real run, with Preference-Applied: tx=rollback, and leaves nothing',
  'dry.sends-nothing': 'a dry run queues and sends no message',
  'dry.snapshot': 'a dry run of a change of metadata changes nothing for later requests',
  'dry.reads': 'reads answer as without it',
  'dry.graphql': 'the body of a GraphQL request can say dry_run',
  'dry.template': 'a template has no argument dry_run unless it declares it, and says what to use',
  'dry.preference': 'another value of the preference tx is a 400, and other preferences are ignored',
  'dry.refused': 'what a rollback does not undo is a 400 not-supported, and does not run',
  'dry.sequence': 'sequences advance in a dry run',
} as const

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

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Dry>>> = {
  'dry.same': async (t, server) => {
    const { dump } = server
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
      await server.database.query("delete from note; insert into note values (1, 'one'); drop table if exists more")
      if (name.includes('metadata')) await server.must('untrack_table', { table: 'bare' })
    }
    t.match((await server.query('select', { table: 'bare', columns: ['id'] })).body, { code: 'not-exists' })
  },
  'dry.sends-nothing': async (t, server) => {
    const tried = await server.fetch('/v1/query', dry(json({ type: 'send_email', args: MAIL })))
    t.match(tried, { status: 200, body: { detail: 'queued' } })
    t.same(await server.messages(), [])
    t.equal(server.email.handed.length, 0)
  },
  'dry.snapshot': async (t, server) => {
    const { version } = server
    const before = await version()
    await server.fetch('/v1/query', dry(json({ type: 'clear_metadata', args: {} })))
    t.equal(await version(), before)
    t.match(await server.must('count', { table: 'note' }), { count: 1 })
  },
  'dry.reads': async (t, server) => {
    for (const [name, path, init] of [
      ['select', '/v1/query', json({ type: 'select', args: { table: 'note', columns: ['id'] } })],
      ['GraphQL', '/v1/graphql', json({ query: '{ note { id } }' })],
      ['download', '/v1/send/providers', {}],
    ] as Door[]) {
      t.equal((await server.fetch(path, dry(init))).text, (await server.fetch(path, init)).text, name)
    }
  },
  'dry.graphql': async (t, server) => {
    const { dump } = server
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
  },
  'dry.template': async (t, server) => {
    const { dump } = server
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
  },
  'dry.preference': async (t, server) => {
    const { dump } = server
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
  },
  'dry.refused': async (t, server) => {
    const { dump } = server
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
  },
  'dry.sequence': async (t, server) => {
    const add = { type: 'insert', args: { table: 'counted', objects: [{}], returning: ['id'] } }
    t.match((await server.fetch('/v1/query', dry(json(add)))).body, { returning: [{ id: 1 }] })
    t.match((await server.fetch('/v1/query', json(add))).body, { returning: [{ id: 2 }] })
  },
}

const PAGES = {
  'core/http/README.md': {
    Errors: {
      '400 `parse-failed`': 'dry.preference',
      '400 `not-supported`': 'dry.refused',
    },
  },
} as const

export const dryRun = area('dry-run', { promises: PROMISES, pages: PAGES, cases: CASES, start })

interface Dry extends NotifyServer {
  readonly database: pg.Client
  /** All rows of all tables. */
  dump(): Promise<string>
  /** Of the metadata. */
  version(): Promise<unknown>
}

async function start(t: Test): Promise<Dry> {
  const server = await notifyServer(t, {}, {}, true)
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await server.sql(`create table note (id int primary key, text text unique deferrable initially deferred, stamp text);
      create function stamp() returns trigger language plpgsql as $$ begin new.stamp := 'by a trigger'; return new; end $$;
      create trigger stamp before insert on note for each row execute function stamp();
      create function add_note(i int) returns setof note language sql volatile as 'insert into note values (i, ''f'') returning *';
      insert into note values (1, 'one'); create table bare (id int primary key); create table counted (id serial primary key)`)
  for (const name of ['note', 'counted']) await server.must('track_table', { schema: 'public', name })
  await server.must('track_function', { schema: 'public', name: 'add_note' })
  const template = { type: 'insert', args: { table: 'note', objects: { param: 'objects' }, returning: ['id'] } }
  await server.must('create_query_template', { name: 'add', template })
  await server.fetch('/v1/file/a', { method: 'PUT', body: 'bytes', headers: AS_USER })
  const dump = async () => {
    const tables = `select string_agg(format('select %L as name, r::text from %I.%I r', tablename, schemaname, tablename), ' union all ')
      as sql from pg_tables where schemaname in ('public', 'svc_catalog')`
    const { rows } = await database.query<{ sql: string }>(tables)
    const all = await database.query<{ name: string; r: string }>(`${rows[0]?.sql} order by 1, 2`)
    return all.rows.map(({ name, r }) => `${name}: ${r}`).join('\n')
  }
  const version = async () =>
    JSON.parse((await server.fetch('/v1/query', json({ type: 'server_status', args: {} }))).text).metadata?.version
  return { ...server, database, dump, version }
}
