import tap, { type Test } from 'tap'
import pg from 'pg'
import { notifyServer } from '../kit/notify.js'
import { type As, testServer, type TestServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { filestore } from '../kit/files.js'
import { until } from '../kit/until.js'

const withMail = { skip: PROCESSES > 1 && 'the fake provider is an object of the process of the test' }
const as = (id: string, role?: string): As => ({ ...(role ? { role } : {}), variables: { 'x-service-user-id': id } })
const admin = as('7')
const user = as('42', 'user')
const other = as('43', 'user')
const permissions = { user: ['create', 'read'], none: [] }

const upload = (server: TestServer, id: string, body: string, caller = admin, method = 'POST', headers = {}) =>
  server.fetch(
    `/v1/file/${id}?pending=true`,
    { method, body, headers: { 'Content-Type': 'text/plain', ...headers } },
    caller,
  )
const attach = (id: unknown, more = {}) => ({ type: 'attach_file', args: { file_id: id, ...more } })
const bytesOf = async (server: TestServer, id: string, caller = admin) => {
  const { status, text } = await server.fetch(`/v1/file/${id}`, {}, caller)
  return status === 200 ? text : status
}
const insert = (name: string) => ({ type: 'insert', args: { table: 'album', objects: [{ name }] } })
const album = async (server: TestServer) => {
  await server.must('run_sql', { sql: 'create table album (name text primary key)' })
  await server.must('track_table', 'album')
}
const databaseOf = async (t: Test, server: TestServer): Promise<pg.Client> => {
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  return database
}

tap.test('rows, a file and a mail are committed together, or not at all', withMail, async (t) => {
  const server = await notifyServer(t, {}, {}, true)
  await album(server)
  const mail = {
    type: 'send_email',
    args: { to: 'a@example.com', from: 'shop@example.com', sub: 'New', text: 'Look' },
  }
  const bulk = (name: string, id: string) => ({ type: 'bulk', args: [insert(name), attach(id), mail] })
  const ask = (body: object, headers = {}) => server.raw(JSON.stringify(body), admin, headers)
  const state = async () => [
    (await server.must('count', { table: 'album' })).count,
    await bytesOf(server, 'cover'),
    (await server.messages()).length,
  ]

  t.match(await upload(server, 'cover', 'bytes'), {
    status: 200,
    body: { file_id: 'cover', file_status: 'pending', file_size: 5, user_id: 7, user_role: 'admin', expires_at: /^2/ },
  })
  t.same(await state(), [0, 404, 0])

  const tried = await ask({ ...bulk('one', 'cover'), dry_run: true })
  t.match(tried, { status: 200, body: [{}, { file_id: 'cover', file_status: 'uploaded' }, { detail: 'queued' }] })
  t.same(await state(), [0, 404, 0], 'a dry run leaves it pending')

  t.match(await ask({ type: 'bulk', args: [attach('cover'), mail, insert('x'), insert('x')] }), {
    status: 400,
    body: { path: '$.args[3].args' },
  })
  t.same(await state(), [0, 404, 0], 'a member that fails leaves it pending')

  const key = { 'Idempotency-Key': 'one' }
  const done = await ask(bulk('one', 'cover'), key)
  t.match(done, {
    status: 200,
    body: [
      { affected_rows: 1 },
      { file_id: 'cover', content_type: 'text/plain', file_status: 'uploaded', file_size: 5, user_id: 7 },
      { detail: 'queued' },
    ],
  })
  t.equal((await ask(bulk('one', 'cover'), key)).text, done.text, 'a repeated request gets the same answer')
  t.same(await state(), [1, 'bytes', 1])
  t.match(await ask(attach('cover')), {
    status: 400,
    body: { code: 'not-found', path: '$.args.file_id', error: 'pending upload not found : cover' },
  })
  t.match(await ask(bulk('two', 'nothing')), { status: 400, body: { code: 'not-found' } })
  t.match(await ask({ type: 'bulk', args: [attach('\u0001')] }), {
    status: 400,
    body: { code: 'bad-request', path: '$.args[0].args.file_id' },
  })
  t.match(await server.query('attach_file', { file_id: 'cover' }), {
    status: 400,
    body: { error: 'missing header: X-Service-User-Id' },
  })

  await server.must('create_query_template', {
    name: 'add_album',
    template: { type: 'bulk', args: [insert('three'), attach({ param: 'cover' })] },
  })
  const call = (cover: string) =>
    server.fetch('/v1/template/add_album', { method: 'POST', body: JSON.stringify({ cover }) }, admin)
  t.match(await call('third'), { status: 400, body: { code: 'not-found', path: '$.cover' } })
  t.equal((await upload(server, 'third', '3')).status, 200)
  t.match(await call('third'), { status: 200, body: [{ affected_rows: 1 }, { file_id: 'third' }] })
  t.equal(await bytesOf(server, 'third'), '3')
})

tap.test('a pending upload belongs to its user and role', async (t) => {
  const server = await filestore(t, { permissions, limits: { user: { userBytes: 10 } } })
  const ask = (id: string, caller: As, more = {}) => server.query('attach_file', attach(id, more).args, caller)
  t.equal((await upload(server, 'a', 'first', user)).status, 200)
  t.equal((await upload(server, 'a', 'of 42', user)).status, 200, 'another upload replaces it')
  t.equal((await upload(server, 'a', 'of 43', other)).status, 200)
  t.match((await server.query('file_usage', {}, user)).body, { used_bytes: 5 })
  t.match(await upload(server, 'b', '123456', user), { status: 413, body: { code: 'quota_exceeded' } })
  await until('the first bytes are gone', async () => (await server.blobs()) <= 3)

  t.match(await ask('a', as('42', 'none')), { status: 403 })
  t.match(await ask('a', as('44', 'user')), { status: 400, body: { code: 'not-found' } })
  t.match(await ask('a', admin), { status: 400, body: { code: 'not-found' } })
  t.match(await ask('a', user, { uploader: { user_id: 43, user_role: 'user' } }), {
    status: 400,
    body: { code: 'access-denied' },
  })
  t.match(await ask('a', other), { status: 200, body: { user_id: 43, user_role: 'user' } })
  t.match(await ask('a', user), { status: 400, body: { code: 'bad-request', error: 'file already exists : a' } })
  t.match(await upload(server, 'a', 'x', user), { status: 400, body: { code: 'bad_request' } })
  t.equal(await bytesOf(server, 'a'), 'of 43')

  t.equal((await upload(server, 'a', 'again', user, 'PUT')).status, 200)
  t.equal(await bytesOf(server, 'a'), 'of 43')
  t.match(await ask('a', admin, { uploader: { user_id: 42, user_role: 'user' } }), {
    status: 200,
    body: { user_id: 42, user_role: 'user' },
  })
  t.equal(await bytesOf(server, 'a'), 'again')

  const large = '9007199254740993'
  const sent = async (user_id: string) => {
    const body = `{"type": "attach_file", "args": {"file_id": "large", "uploader": {"user_id": ${user_id}, "user_role": "user"}}}`
    return server.fetch('/v1/query', { method: 'POST', body }, admin)
  }
  for (const id of [large, `"${large}"`]) {
    t.equal((await upload(server, 'large', 'x', as(large, 'user'), 'PUT')).status, 200)
    t.match((await sent(id)).text, /"user_id" ?: ?9007199254740993/, id)
  }
  for (const id of ['1.5', '1e400', '1e21', 'true', '{}']) {
    t.match(await sent(id), { status: 400, body: { path: '$.args.uploader.user_id' } }, id)
  }

  t.match(await upload(server, 'c', 'x', as('1', 'none')), { status: 403 })
  t.match(await upload(server, 'c', 'x', user, 'PUT', { 'If-Match': '*' }), { status: 400 })
  t.match(await server.put('c?pending=maybe', 'x'), { status: 200 }, 'it is part of the id when it is encoded')
  t.match(await server.fetch('/v1/file/c?pending=maybe', { method: 'PUT', body: 'x' }, admin), { status: 400 })
})

tap.test('what nobody attaches is collected', async (t) => {
  const server = await filestore(t, { collect: { everySeconds: 1, graceSeconds: 0 } })
  const database = await databaseOf(t, server)
  const count = async (table: string) => {
    const { rows } = await database.query(`select count(*)::int as n from svc_catalog.${table}`)
    return rows[0].n as number
  }
  for (const id of ['kept', 'left']) t.match(await upload(server, id, id), { status: 200 })
  t.same([await count('svc_blob'), await count('svc_pending_file')], [2, 2])
  await database.query(`update svc_catalog.svc_pending_file set expires_at = now() where file_id = 'left'`)
  t.match(await server.query('attach_file', { file_id: 'left' }, admin), { status: 400 }, 'it has expired')
  await database.query(`update svc_catalog.svc_blob set leased_until = now() - interval '1 s'
      where blob_id = (select blob_id from svc_catalog.svc_pending_file where file_id = 'left')`)
  await until('it is collected', async () => (await count('svc_blob')) === 1)
  t.equal(await count('svc_pending_file'), 1)
  t.match(await server.query('attach_file', { file_id: 'kept' }, admin), { status: 200 })
  t.equal(await bytesOf(server, 'kept'), 'kept')
  t.equal(await count('svc_pending_file'), 0)
})

tap.test('resumable uploads, forms and repeated uploads stay pending, too', async (t) => {
  const server = await filestore(t, { permissions, pending: { maxPerUser: 3 } })
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const metadata = `file_id ${base64('film')},pending ${base64('true')}`
  const tus = { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream' }
  const created = await server.fetch(
    '/v1/upload',
    { method: 'POST', body: 'frames', headers: { ...tus, 'Upload-Length': '6', 'Upload-Metadata': metadata } },
    user,
  )
  t.match([created.status, created.headers.get('Upload-Offset')], [201, '6'])
  t.equal(await bytesOf(server, 'film', user), 404)
  t.match(await server.query('attach_file', { file_id: 'film' }, user), { status: 200, body: { file_size: 6 } })
  t.equal(await bytesOf(server, 'film', user), 'frames')

  const form = new FormData()
  for (const id of ['one', 'two']) {
    form.append('file_id', id)
    form.append('file', new Blob([id]), id)
  }
  const stored = await server.fetch('/v1/file?pending=true', { method: 'POST', body: form }, user)
  t.match(stored, { status: 200, body: [{ file_status: 'pending' }, { file_status: 'pending' }] })
  const key = { 'Idempotency-Key': 'three' }
  const first = await upload(server, 'three', '3', user, 'POST', key)
  t.equal(first.status, 200)
  t.equal((await upload(server, 'three', '3', user, 'POST', key)).text, first.text)
  t.match(await upload(server, 'four', '4', user), { status: 429, body: { code: 'too_many_uploads' } })
  t.equal((await upload(server, 'two', '2', user)).status, 200, 'one that replaces another needs no room')
  t.match(
    await server.query(
      'bulk',
      ['one', 'two', 'three'].map((id) => attach(id)),
      user,
    ),
    { status: 200 },
  )
  t.equal(await bytesOf(server, 'two', user), '2')
})

tap.test('steps use the record of an attached file, and what they expect decides about it', withMail, async (t) => {
  const server = await notifyServer(t, {}, {}, true)
  await server.must('run_sql', { sql: 'create table album (name text primary key, cover text)' })
  await server.must('track_table', 'album')
  const steps = (affected: number) => [
    { as: 'cover', ...attach('cover.txt') },
    {
      as: 'album',
      type: 'insert',
      args: {
        table: 'album',
        objects: [{ name: 'Blue', cover: { $ref: 'cover.file_id' } }],
        returning: ['name', 'cover'],
      },
      expect: { affected },
    },
    {
      type: 'send_email',
      args: {
        to: 'a@example.com',
        from: 'shop@example.com',
        sub: { $ref: 'album.returning[0].name' },
        text: { $ref: 'cover.content_type' },
      },
    },
  ]
  t.equal((await upload(server, 'cover.txt', 'A cover')).status, 200)

  t.match(await server.query('bulk', steps(2), admin), {
    status: 409,
    body: { code: 'unmet-expectation', path: '$.args[1].expect.affected' },
  })
  t.same([await bytesOf(server, 'cover.txt'), (await server.messages()).length], [404, 0])

  t.match(await server.query('bulk', steps(1), admin), {
    status: 200,
    body: [{ file_id: 'cover.txt' }, { returning: [{ name: 'Blue', cover: 'cover.txt' }] }, { detail: 'queued' }],
  })
  t.equal(await bytesOf(server, 'cover.txt'), 'A cover')
  t.match(await server.messages(), [{ sub: 'Blue' }])
  t.match(
    await server.query(
      'bulk',
      [
        { as: 'album', ...insert('Red') },
        { ...attach({ $ref: 'album.affected_rows' }), as: 'x' },
      ],
      admin,
    ),
    { status: 400, body: { path: /^\$\.args\[1\]/ } },
    'a number is not an id',
  )
})

tap.test('a store in memory keeps pending uploads, too', async (t) => {
  const server = await testServer(t, {
    files: true,
    config: { providers: { storage: { default: 'memory', memory: {} } } },
  })
  t.match(await upload(server, 'a', 'bytes'), { status: 200, body: { file_status: 'pending' } })
  t.match(await server.query('attach_file', { file_id: 'a' }, admin), { status: 200 })
  t.equal(await bytesOf(server, 'a'), 'bytes')
})
