import tap, { type Test } from 'tap'
import pg from 'pg'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import type { Answered, As } from '../kit/server.js'

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
const AS_USER = { 'X-Service-User-Id': '1' }
const form = (boundary: string): RequestInit => ({
  method: 'POST',
  headers: { ...AS_USER, 'Content-Type': `multipart/form-data; boundary=${boundary}` },
  body: `--${boundary}\r\nContent-Disposition: form-data; name="a"; filename="a"\r\nContent-Type: text/plain\r\n\r\nbytes\r\n--${boundary}--\r\n`,
})

tap.test('Idempotency-Key', async (t) => {
  const server = await notifyServer(t, {}, {}, true)
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await server.must('run_sql', {
    sql: `create table note (id serial primary key, text text, unique (text) deferrable initially deferred);
      create function add_note(t text) returns setof note language sql volatile as 'insert into note (text) values (t) returning *';
      create function wait_and_add() returns setof note language sql volatile as
        'select pg_sleep(0.5); insert into note (text) values (''slow'') returning *'`,
  })
  for (const name of ['note', 'svc_outbox'])
    await server.must('track_table', { schema: name === 'note' ? 'public' : 'svc_catalog', name })
  for (const name of ['add_note', 'wait_and_add']) await server.must('track_function', { schema: 'public', name })
  for (const role of ['user', 'anonymous']) {
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

  await t.test('a repeated request has one effect and gets the same answer', async (t) => {
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
  })

  await t.test('the key of another request is refused', async (t) => {
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
  })

  await t.test('callers do not share keys', async (t) => {
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
  })

  await t.test(
    'of requests at once, one has an effect and the others get its answer or are told to wait',
    async (t) => {
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
  )

  await t.test('a request that failed had no effect and may be repeated', async (t) => {
    const taken = json(insert('a'))
    t.match(await server.fetch('/v1/query', keyed(taken, 'failed')), { status: 400 }, 'a deferred constraint')
    await server.must('run_sql', { sql: "delete from note where text = 'a'" })
    const again = await server.fetch('/v1/query', keyed(taken, 'failed'))
    t.match(again, { status: 200, body: { affected_rows: 1 } })
    const error = await server.fetch('/v1/graphql', keyed(json(mutation('a')), 'failed-mutation'))
    t.match(error, { status: 200, body: { errors: [{ extensions: { code: 'constraint-violation' } }] } })
    await server.must('run_sql', { sql: "delete from note where text = 'a'" })
    t.match((await server.fetch('/v1/graphql', keyed(json(mutation('a')), 'failed-mutation'))).body.data, {
      insert_note: { affected_rows: 1 },
    })
  })

  await t.test('an answer that is too large to keep is refused before anything is written', async (t) => {
    const sql = "insert into note (text) values ('large'); select repeat('x', 1024 * 1024)"
    const large = { type: 'run_sql', args: { sql } }
    t.match(await server.fetch('/v1/query', keyed(json(large), 'large')), {
      status: 400,
      body: { code: 'answer-too-large', error: /idempotency\.maxAnswerBytes/ },
    })
    t.match(await server.must('count', { table: 'note', where: { text: 'large' } }), { count: 0 })
  })

  await t.test('an answer is kept for a time', async (t) => {
    const one = () => server.fetch('/v1/query', keyed(json(insert('p')), 'kept'))
    await one()
    const { rows } = await database.query(
      "select extract(epoch from expires_at - now())::int as left from svc_catalog.svc_kept_answer where key = 'kept'",
    )
    t.ok(rows[0].left > 23.9 * 3600 && rows[0].left <= 24 * 3600)
    await database.query("update svc_catalog.svc_kept_answer set expires_at = now() - interval '1 s'")
    t.match(await one(), { status: 400, body: { error: /Uniqueness violation|duplicate key/ } }, 'it runs again')
    await server.must('run_sql', { sql: "delete from note where text = 'p'" })
    t.equal((await one()).status, 200)
  })

  await t.test('reads ignore it', async (t) => {
    const reads: Door[] = [
      ['count', '/v1/query', json({ type: 'count', args: { table: 'note' } })],
      [
        'select',
        '/v1/query',
        json({ type: 'select', args: { table: 'note', columns: ['id'], order_by: '-id', limit: 1 } }),
      ],
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
  })

  await t.test('where it has no meaning it is refused', async (t) => {
    const upload = { ...AS_USER, 'Tus-Resumable': '1.0.0', 'Upload-Length': '1' }
    for (const [path, init] of [
      ['/v1/upload', { method: 'POST', headers: upload }],
      ['/v1/send/00000000-0000-0000-0000-000000000000/retry', { method: 'POST' }],
      ['/v1/send/suppressed', json({ address: 'a@example.com' })],
    ] as const) {
      t.match(
        await server.fetch(path, keyed(init, 'k')),
        { status: 400, body: { code: 'not-supported', message: /Idempotency-Key is not supported at this path/ } },
        path,
      )
    }
    const batch = await server.fetch('/v1/graphql', keyed(json([mutation('q')]), 'batch'))
    t.match(batch.body, { errors: [{ extensions: { code: 'not-supported' }, message: /a batch takes no/ }] })
    const alone = { type: 'run_sql', args: { sql: 'reindex table note', no_transaction: true } }
    t.match((await server.fetch('/v1/query', keyed(json(alone), 'alone'))).body, { code: 'not-supported' })
    for (const bad of ['a b', 'x'.repeat(256), 'é', '"', '"a', '""', 'a"b', 'a, b', '"a", "b"']) {
      t.match(
        await server.fetch('/v1/query', keyed(json(insert('bad')), bad)),
        { status: 400, body: { code: 'parse-failed', path: '$.headers.Idempotency-Key' } },
        bad,
      )
    }
    const wrong = { 'Idempotency-Key': 'k', 'X-Service-Admin-Secret': 'wrong' }
    t.match(await server.bare('/v1/query', { ...json(insert('bad')), headers: wrong }), { status: 401 })
    t.match(await server.must('count', { table: 'note', where: { text: { $in: ['q', 'bad'] } } }), { count: 0 })

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
        { status: 400, body: { path: '$.headers.Idempotency-Key' } },
        `${name}: an empty key`,
      )
    }
    t.equal(await effects(), untouched, 'an empty key has no effect')
    t.equal((await server.fetch('/healthz', keyed({}, 'k'))).status, 200)
    const sent = await server.send('email', MAIL, { 'Idempotency-Key': 'mail' })
    t.same((await server.send('email', MAIL, { 'Idempotency-Key': 'mail' })).body, sent.body, 'sends have their own')
  })
})

const file = { method: 'POST', body: 'bytes', headers: AS_USER }
const slow = { query: 'mutation { wait_and_add { id } }' }

async function refused(t: Test, server: NotifyServer, name: string, path: string, init: RequestInit): Promise<void> {
  const answer: Answered = await server.fetch(path, init)
  t.match([answer.status, answer.body.code.replaceAll('_', '-')], [409, 'idempotency-key-reused'], name)
}
