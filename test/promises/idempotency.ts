import pg from 'pg'
import type { Test } from 'tap'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { area, type Case } from '../kit/promises.js'
import { type Answered, type As, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'

/** What a request with an `Idempotency-Key` promises. */
const PROMISES = {
  'key.once': 'a repeated request has one effect and gets the same response, with Idempotency-Replayed: true',
  'key.reused': 'the same key with another request is a 409 idempotency-key-reused',
  'key.request': 'requests are the same if path, query, body and the headers that change the answer are equal',
  'key.callers': 'each user has keys of its own in each role; callers of a role without a user id share theirs',
  'key.in-progress': 'while the first request is in progress, a repeated one is a 409 with Retry-After',
  'key.failed': 'a request that failed had no effect, and may be repeated with the same key',
  'key.permission-lost': 'a repetition gets the stored response even if its role has lost the permission',
  'key.too-large': 'a response above idempotency.maxAnswerBytes is a 400, and nothing is written',
  'key.nothing': 'a request of a role other than admin that changed nothing is not stored: repeated, it runs again',
  'key.quota':
    'the responses stored for one caller have at most idempotency.maxCallerBytes; then it is 429, and nothing is written',
  'key.expires': 'a response is kept for idempotency.keepHours, then the request runs again',
  'key.reads': 'reads ignore the key: each answers with what is there now',
  'key.unsupported': 'paths, batches and SQL that cannot keep a response refuse the key, and nothing happens',
  'key.malformed': 'a key has 1 to 255 visible ASCII characters, or spaces too in quotes; others are a 400',
  'key.empty': 'an empty key is a 400 everywhere, and nothing happens',
  'key.core': 'the endpoints of the core ignore the key',
  'key.sends': 'sends have keys of their own',
  'key.authenticated': 'a request with a key and wrong credentials is a 401',
} as const

type Door = [name: string, path: string, init: RequestInit]

const json = (body: unknown, method = 'POST'): RequestInit => ({ method, body: JSON.stringify(body) })
const keyed = ({ headers, ...init }: RequestInit, key: string): RequestInit => ({
  ...init,
  headers: { ...(headers as Record<string, string>), 'Idempotency-Key': key },
})
const insert = (text: string) => ({
  type: 'insert',
  args: { table: 'note', objects: [{ text }], returning: ['id', 'text'] },
})
const mutation = (text: string) => ({
  query: `mutation { insert_note(objects: [{text: "${text}"}]) { affected_rows returning { id } } }`,
})
const upload = { 'X-Service-User-Id': '1', 'Tus-Resumable': '1.0.0', 'Upload-Length': '1' }
const AS_USER = { 'X-Service-User-Id': '1' }
const form = (boundary: string): RequestInit => ({
  method: 'POST',
  headers: { ...AS_USER, 'Content-Type': `multipart/form-data; boundary=${boundary}` },
  body: `--${boundary}\r\nContent-Disposition: form-data; name="a"; filename="a"\r\nContent-Type: text/plain\r\n\r\nbytes\r\n--${boundary}--\r\n`,
})

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Keyed>>> = {
  'key.once': async (t, server) => {
    const { database, effects } = server
    const doors: Door[] = [
      ['insert', '/v1/query', json(insert('a'))],
      ['bulk', '/v1/query', json({ type: 'bulk', args: [insert('b')] })],
      ['call', '/v1/query', json({ type: 'call', args: { function: 'add_note', arguments: { t: 'c' } } })],
      [
        'run_sql',
        '/v1/query',
        json({ type: 'run_sql', args: { sql: "set local role none; insert into note (text) values ('d')" } }),
      ],
      [
        'metadata',
        '/v1/query',
        json({ type: 'untrack_table', args: { table: { schema: 'svc_catalog', name: 'svc_outbox' } } }),
      ],
      ['send_email', '/v1/query', json({ type: 'send_email', args: MAIL })],
      ['template by POST', '/v1/template/add', json({ objects: [{ text: 'e' }] })],
      ['template by GET', '/v1/template/add?objects=%5B%7B%22text%22%3A%22f%22%7D%5D', {}],
      [
        'template by type',
        '/v1/query',
        json({ type: 'execute_query_template', args: { name: 'add', args: { objects: [{ text: 'g' }] } } }),
      ],
      ['GraphQL', '/v1/graphql', json(mutation('h'))],
      ['GraphQL alpha', '/v1alpha1/graphql', json(mutation('i'))],
      ['upload', '/v1/file/a', { method: 'POST', body: 'bytes', headers: AS_USER }],
      ['upload under a new id', '/v1/file', { method: 'POST', body: 'bytes', headers: AS_USER }],
      ['form', '/v1/file', form('one')],
      ['replacement', '/v1/file/b', { method: 'PUT', body: 'bytes', headers: AS_USER }],
      ['deletion', '/v1/file/a', { method: 'DELETE', headers: AS_USER }],
    ]
    for (const [name, path, init] of doors) {
      const before = await effects()
      const first = await server.fetch(path, keyed(init, name.replaceAll(' ', '-')))
      t.equal(first.status, 200, `${name}: ${first.text}`)
      t.equal(first.headers.get('Idempotency-Replayed'), null)
      const after = await effects()
      t.equal(Math.abs(after - before), 1, `${name} has an effect`)
      const other = name === 'form' ? form('two') : init
      const second = await server.fetch(path, keyed(other, `"${name.replaceAll(' ', '-')}"`))
      t.same([second.status, second.text], [200, first.text], `${name}: the same answer`)
      t.equal(second.headers.get('Content-Type'), first.headers.get('Content-Type'))
      t.equal(second.headers.get('Idempotency-Replayed'), 'true')
      t.equal(await effects(), after, `${name} has no other effect`)
    }
    const { rows } = await database.query("select count(*)::int as n from svc_catalog.svc_blob where state = 'writing'")
    t.equal(rows[0].n, 0, 'no blob is left')
  },
  'key.reused': async (t, server) => {
    const key = 'other'
    t.equal((await server.fetch('/v1/query', keyed(json(insert('j')), key))).status, 200)
    const others: Door[] = [
      ['another body', '/v1/query', json(insert('k'))],
      ['another path', '/v1/query?x=1', json(insert('j'))],
      ['another door', '/v1/graphql', json(mutation('k'))],
      ['an upload', '/v1/file/c', { method: 'PUT', body: 'bytes', headers: AS_USER }],
    ]
    for (const [name, path, init] of others.slice(0, 3)) await refused(t, server, name, path, keyed(init, key))
    const files = keyed(others[3]![2], 'files')
    t.equal((await server.fetch('/v1/file/c', files)).status, 200)
    await refused(t, server, 'other bytes', '/v1/file/c', { ...files, body: 'other' })
    t.equal((await server.fetch('/v1/file/c', { headers: AS_USER })).text, 'bytes')
  },
  'key.request': async (t, server) => {
    const ask = (headers: Record<string, string> = {}, path = '/v1/query') =>
      server.fetch(path, keyed({ ...json(insert('same')), headers }, 'same'))
    const first = await ask({ accept: '*/*' })
    t.equal(first.status, 200)
    t.equal((await ask({ accept: '*/*', 'x-request-id': 'other', 'user-agent': 'other' })).text, first.text)
    for (const [name, value] of [
      ['accept', 'application/json'],
      ['if-unmodified-since', 'Thu, 01 Jan 2026 00:00:00 GMT'],
      ['x-service-digits-as-text', 'true'],
      ['x-service-org', '7'],
    ] as const) {
      const answer = await ask({ accept: '*/*', [name]: value })
      t.match(
        answer,
        { status: 409, body: { code: 'idempotency-key-reused', path: '$.headers.Idempotency-Key' } },
        name,
      )
    }
    t.match(await ask({ accept: '*/*' }, '/v1/query?a=b'), { status: 409 })
    t.match(await server.must('count', { table: 'note', where: { text: 'same' } }), { count: 1 })
  },
  'key.callers': async (t, server) => {
    const as = (id: string, role = 'user'): As => ({ role, variables: { 'x-service-user-id': id } })
    const ask = (text: string, as: As) => server.fetch('/v1/query', keyed(json(insert(text)), 'shared'), as)
    const first = await ask('l', as('1'))
    const second = await ask('m', as('2'))
    t.match([first.status, second.status], [200, 200])
    t.not(first.text, second.text)
    t.same((await ask('l', as('1'))).text, first.text)
    t.match((await ask('l', as('2'))).body, { code: 'idempotency-key-reused' })
    // Who has no user id shares the keys of the role, but must know the whole request.
    t.equal((await ask('n', { role: 'anonymous' })).status, 200)
    t.match((await ask('o', { role: 'anonymous' })).body, { code: 'idempotency-key-reused' })
    const variables = { 'x-service-tenant': '7' }
    t.match((await ask('n', { role: 'anonymous', variables })).body, { code: 'idempotency-key-reused' })
  },
  'key.in-progress': async (t, server) => {
    const call = { type: 'call', args: { function: 'wait_and_add', arguments: {} } }
    const all = await Promise.all(
      Array.from({ length: 6 }, () => server.fetch('/v1/query', keyed(json(call), 'crowd'))),
    )
    const done = all.filter(({ status }) => status === 200)
    const told = all.filter(({ status }) => status === 409)
    t.equal(done.length + told.length, 6)
    t.ok(done.length >= 1 && told.length >= 1)
    for (const { body, headers } of told) {
      t.match(body, { code: 'idempotency-in-progress', path: '$.headers.Idempotency-Key' })
      t.equal(headers.get('Retry-After'), '1')
    }
    t.equal((await server.fetch('/v1/query', keyed(json(call), 'crowd'))).text, done[0]!.text)
    t.match(await server.must('count', { table: 'note', where: { text: 'slow' } }), { count: 1 })
    const twice = await Promise.all([1, 2].map(() => server.fetch('/v1/graphql', keyed(json(slow), 'graphql-crowd'))))
    t.same(twice.map(({ status }) => status).toSorted(), [200, 409])

    const uploads = await Promise.all(
      Array.from({ length: 6 }, () => server.fetch('/v1/file/d', keyed(file, 'files-crowd'))),
    )
    const [stored] = uploads.filter(({ status }) => status === 200)
    for (const { status, text, body } of uploads) {
      t.ok(status === 200 ? text === stored?.text : body.code === 'idempotency_in_progress', text)
    }
    t.equal((await server.fetch('/v1/file/d', keyed(file, 'files-crowd'))).text, stored?.text)
  },
  'key.failed': async (t, server) => {
    const taken = json(insert('a'))
    t.match(await server.fetch('/v1/query', keyed(taken, 'failed')), { status: 400 }, 'a deferred constraint')
    await server.sql("delete from note where text = 'a'")
    const again = await server.fetch('/v1/query', keyed(taken, 'failed'))
    t.match(again, { status: 200, body: { affected_rows: 1 } })
    const error = await server.fetch('/v1/graphql', keyed(json(mutation('a')), 'failed-mutation'))
    t.match(error, { status: 200, body: { errors: [{ extensions: { code: 'constraint-violation' } }] } })
    await server.sql("delete from note where text = 'a'")
    t.match((await server.fetch('/v1/graphql', keyed(json(mutation('a')), 'failed-mutation'))).body.data, {
      insert_note: { affected_rows: 1 },
    })
  },
  'key.permission-lost': async (t, server) => {
    const ask = () => server.fetch('/v1/query', keyed(json(insert('lost')), 'lost'), { role: 'guest' })
    const first = await ask()
    t.equal(first.status, 200, first.text)
    await server.must('drop_insert_permission', { table: 'note', role: 'guest' })
    t.same((await ask()).text, first.text)
    t.match(await server.query('insert', insert('lost').args, { role: 'guest' }), { status: 400 })
  },
  'key.too-large': async (t, server) => {
    const sql = "insert into note (text) values ('large'); select repeat('x', 1024 * 1024)"
    const large = { type: 'run_sql', args: { sql } }
    t.match(await server.fetch('/v1/query', keyed(json(large), 'large')), {
      status: 400,
      body: { code: 'answer-too-large', error: /idempotency\.maxAnswerBytes/ },
    })
    t.match(await server.must('count', { table: 'note', where: { text: 'large' } }), { count: 0 })
  },
  'key.nothing': async (t, server) => {
    const stored = async () =>
      (await server.database.query('select count(*)::int as n from svc_catalog.svc_kept_answer')).rows[0].n
    const before = await stored()
    const read = { type: 'select', args: { table: 'note', columns: ['id'], limit: 1, order_by: '-id' } }
    const nothing: [string, unknown][] = [
      ['bulk of reads', { type: 'bulk', args: [read] }],
      ['empty bulk', { type: 'bulk', args: [] }],
      ['bulk of bulks', { type: 'bulk', args: [{ type: 'bulk', args: [read] }] }],
      ['describe', { type: 'describe', args: {} }],
      ['template of reads', { type: 'execute_query_template', args: { name: 'read', args: {} } }],
    ]
    for (const [name, body] of nothing) {
      for (let i = 0; i < 2; i++) {
        const init = keyed(json(body), `nothing-${name.replaceAll(' ', '-')}`)
        const answer = await server.fetch('/v1/query', init, USER)
        t.equal(answer.status, 200, `${name}: ${answer.text}`)
        t.equal(answer.headers.get('Idempotency-Replayed'), null)
      }
    }
    t.equal(await stored(), before)
    const bulk = () => server.fetch('/v1/query', keyed(json({ type: 'bulk', args: [read] }), 'again'), USER)
    const first = await bulk()
    await server.must('insert', { table: 'note', objects: [{ text: 'between' }] })
    t.not((await bulk()).text, first.text, 'it runs again')
  },
  'key.quota': async (t, { databaseUrl }) => {
    if (PROCESSES > 1) return
    const server = await testServer(t, { databaseUrl, config: { idempotency: { maxCallerBytes: 4096 } } })
    const as = (id: string): As => ({ role: 'user', variables: { 'x-service-user-id': id } })
    const ask = (i: number, as?: As) => server.fetch('/v1/query', keyed(json(insert(`quota ${i}`)), `quota-${i}`), as)
    for (let i = 0; i < 3; i++) t.match(await ask(i, as('71')), { status: 200 })
    const refused = await ask(3, as('71'))
    t.match(refused, { status: 429, body: { code: 'too-many-requests', error: /maxCallerBytes/ } })
    t.ok(refused.headers.has('Retry-After'))
    t.match(await server.must('count', { table: 'note', where: { text: 'quota 3' } }), { count: 0 })
    t.match(await ask(2, as('71')), { status: 200 }, 'what is stored is still repeated')
    t.match(await server.query('insert', insert('no key').args, as('71')), { status: 200 }, 'and others are served')
    t.match(await ask(4, as('72')), { status: 200 })
    for (let i = 5; i < 10; i++) t.match(await ask(i), { status: 200 }, 'an admin has no limit')

    const other = await testServer(t, { databaseUrl, config: { idempotency: { maxCallerBytes: 4096 } } })
    const elsewhere = await other.fetch('/v1/query', keyed(json(insert('quota x')), 'quota-x'), as('71'))
    t.match(elsewhere, { status: 429 }, 'another server of the database knows')
  },
  'key.expires': async (t, server) => {
    const { database } = server
    const one = () => server.fetch('/v1/query', keyed(json(insert('p')), 'kept'))
    await one()
    const { rows } = await database.query(
      "select extract(epoch from expires_at - now())::int as left from svc_catalog.svc_kept_answer where key = 'kept'",
    )
    t.ok(rows[0].left > 23.9 * 3600 && rows[0].left <= 24 * 3600)
    await database.query("update svc_catalog.svc_kept_answer set expires_at = now() - interval '1 s'")
    t.match(await one(), { status: 400, body: { error: /Uniqueness violation|duplicate key/ } }, 'it runs again')
    await server.sql("delete from note where text = 'p'")
    t.equal((await one()).status, 200)
  },
  'key.reads': async (t, server) => {
    const reads: Door[] = [
      ['count', '/v1/query', json({ type: 'count', args: { table: 'note' } })],
      [
        'select',
        '/v1/query',
        json({ type: 'select', args: { table: 'note', columns: ['id'], order_by: '-id', limit: 1 } }),
      ],
      ['call', '/v1/query', json({ type: 'call', args: { function: 'notes', arguments: {} } })],
      ['template', '/v1/template/read', {}],
      ['GraphQL', '/v1/graphql', json({ query: '{ note(order_by: {id: desc}, limit: 1) { id } }' })],
    ]
    for (const [name, path, init] of reads) {
      const before = await server.fetch(path, keyed(init, 'read'))
      t.equal(before.status, 200, before.text)
      await server.must('insert', { table: 'note', objects: [{ text: `after ${name}` }] })
      t.not((await server.fetch(path, keyed(init, 'read'))).text, before.text, name)
    }
    t.equal((await server.fetch('/v1/file/c', keyed({ headers: AS_USER }, 'read'))).text, 'bytes')
  },
  'key.unsupported': async (t, server) => {
    for (const [path, init] of [
      ['/v1/upload', { method: 'POST', headers: upload }],
      ['/v1/send/00000000-0000-0000-0000-000000000000/retry', { method: 'POST' }],
      ['/v1/send/suppressed', json({ address: 'a@example.com' })],
    ] as const) {
      t.match(
        await server.fetch(path, keyed(init, 'k')),
        { status: 400, body: { code: 'not_supported', message: /Idempotency-Key is not supported at this path/ } },
        path,
      )
    }
    const batch = await server.fetch('/v1/graphql', keyed(json([mutation('q')]), 'batch'))
    t.match(batch.body, { errors: [{ extensions: { code: 'not-supported' }, message: /a batch takes no/ }] })
    const alone = { type: 'run_sql', args: { sql: 'reindex table note', no_transaction: true } }
    t.match((await server.fetch('/v1/query', keyed(json(alone), 'alone'))).body, { code: 'not-supported' })
    t.match(await server.must('count', { table: 'note', where: { text: { $in: ['q', 'bad'] } } }), { count: 0 })
  },
  'key.malformed': async (t, server) => {
    for (const bad of ['a b', 'x'.repeat(256), 'é', '"', '"a', '""', 'a"b', 'a, b', '"a", "b"']) {
      t.match(
        await server.fetch('/v1/query', keyed(json(insert('bad')), bad)),
        { status: 400, body: { code: 'parse-failed', path: '$.headers.Idempotency-Key' } },
        bad,
      )
    }
    for (const good of ['x'.repeat(255), '!~', '"a b"', `"${'x'.repeat(255)}"`]) {
      const args = { table: 'note', where: { text: 'nothing' } }
      const answer = await server.fetch('/v1/query', keyed(json({ type: 'delete', args }), good))
      t.match(answer, { status: 200, body: { affected_rows: 0 } }, good)
    }
    t.match(await server.must('count', { table: 'note', where: { text: 'bad' } }), { count: 0 })
  },
  'key.empty': async (t, server) => {
    const { effects } = server
    const empty: Door[] = [
      ['query', '/v1/query', json(insert('empty'))],
      ['template', '/v1/template/add', json({ objects: [{ text: 'empty' }] })],
      ['GraphQL', '/v1/graphql', json(mutation('empty'))],
      ['upload', '/v1/file/empty', { method: 'PUT', body: 'bytes', headers: AS_USER }],
      ['resumable upload', '/v1/upload', { method: 'POST', headers: upload }],
      ['send', '/v1/send/email', json(MAIL)],
      ['send an SMS', '/v1/send/sms', json(SMS)],
    ]
    const untouched = await effects()
    for (const [name, path, init] of empty) {
      t.match(
        await server.fetch(path, keyed(init, '')),
        { status: 400, text: /Idempotency-Key/ },
        `${name}: an empty key`,
      )
    }
    t.equal(await effects(), untouched, 'an empty key has no effect')
  },
  'key.core': async (t, server) => {
    t.equal((await server.fetch('/healthz', keyed({}, 'k'))).status, 200)
  },
  'key.sends': async (t, server) => {
    const sent = await server.send('email', MAIL, { 'Idempotency-Key': 'mail' })
    const again = await server.send('email', MAIL, { 'Idempotency-Key': 'mail' })
    t.same([again.body, again.headers.get('idempotency-replayed')], [sent.body, 'true'])
    const other = await server.send('email', { ...MAIL, sub: 'Other' }, { 'Idempotency-Key': 'mail' })
    t.match(other, { status: 409, body: { code: 'idempotency_key_reused' } })
  },
  'key.authenticated': async (t, server) => {
    const wrong = { 'Idempotency-Key': 'k', 'X-Service-Admin-Secret': 'wrong' }
    t.match(await server.bare('/v1/query', { ...json(insert('bad')), headers: wrong }), { status: 401 })
  },
}
const USER: As = { role: 'user', variables: { 'x-service-user-id': '70' } }
const file = { method: 'POST', body: 'bytes', headers: AS_USER }
const slow = { query: 'mutation { wait_and_add { id } }' }

async function refused(t: Test, server: NotifyServer, name: string, path: string, init: RequestInit): Promise<void> {
  const answer: Answered = await server.fetch(path, init)
  t.match([answer.status, answer.body.code.replaceAll('_', '-')], [409, 'idempotency-key-reused'], name)
}

const PAGES = {
  'core/http/README.md': {
    'Limits of callers': {
      'Answers kept for an `Idempotency-Key` (`idempotency.maxCallerBytes`)': 'key.quota',
    },
    Errors: {
      '400 `parse-failed`': ['key.malformed', 'key.empty'],
      '400 `not-supported`': 'key.unsupported',
    },
  },
  'core/http/idempotency.md': {
    'Idempotency-Key': {
      '`POST /v1/query`, except reads; templates that write, with every method; GraphQL mutations': 'key.once',
      'Uploads and deletions of files at `/v1/file`': ['key.once', 'key.reused'],
      'Reads: `select`, `count`, `call` of a function that is not volatile, templates of these, GraphQL queries, downloads':
        'key.reads',
      '`POST /v1/send/email`, `/email-template` and `/sms`': 'key.sends',
      'GraphQL batches; `run_sql` with options that are not possible in a `bulk`': 'key.unsupported',
      'All other paths, such as [resumable uploads](../../plugins/filestore/uploads.md#resumable-uploads), which continue at an offset instead':
        ['key.unsupported', 'key.core'],
    },
  },
} as const

export const idempotency = area('idempotency', { promises: PROMISES, pages: PAGES, cases: CASES, start })

interface Keyed extends NotifyServer {
  readonly database: pg.Client
  /** How many rows, files, messages and tracked tables there are. */
  effects(): Promise<number>
}

async function start(t: Test): Promise<Keyed> {
  const server = await notifyServer(t, {}, {}, true)
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await server.sql(`create table note (id serial primary key, text text, unique (text) deferrable initially deferred);
      create function add_note(t text) returns setof note language sql volatile as 'insert into note (text) values (t) returning *';
      create function notes() returns setof note language sql stable as 'select * from note order by id desc limit 1';
      create function wait_and_add() returns setof note language sql volatile as
        'select pg_sleep(0.2); insert into note (text) values (''slow'') returning *'`)
  for (const name of ['note', 'svc_outbox'])
    await server.must('track_table', { schema: name === 'note' ? 'public' : 'svc_catalog', name })
  for (const name of ['add_note', 'notes', 'wait_and_add'])
    await server.must('track_function', { schema: 'public', name })
  for (const role of ['user', 'guest', 'anonymous']) {
    const permission = { set: {}, check: {}, columns: '*' }
    await server.must('create_insert_permission', { table: 'note', role, permission })
    await server.must('create_select_permission', { table: 'note', role, permission: { columns: '*', filter: {} } })
  }
  for (const [name, template] of Object.entries({
    add: { type: 'insert', args: { table: 'note', objects: { param: 'objects' } } },
    read: { type: 'count', args: { table: 'note' } },
  }))
    await server.must('create_query_template', { name, template })
  const effects = async () => {
    const { rows } =
      await database.query(`select (select count(*) from note) + (select count(*) from svc_catalog.svc_file)
      + (select count(*) from svc_catalog.svc_outbox) + (select count(*) from svc_catalog.svc_table) as all`)
    return Number(rows[0].all)
  }
  return { ...server, database, effects }
}
