import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { bad, denied, get, hidden, OK, pathOf, put, wrong } from '../kit/file-steps.js'
import { admin, type Files, filestore, user } from '../kit/files.js'
import { area, type Case, type Expected, like, query, type Step, takeAll } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What pending uploads and `attach_file` promise. */
const PROMISES = {
  'upload.record': 'an upload with ?pending=true answers with a record of the status pending, and when it expires',
  'upload.hidden': 'a pending upload cannot be downloaded',
  'attach.record': 'attach_file makes a pending upload a file, and answers with its record',
  'attach.missing': 'what is not pending cannot be attached',
  'upload.replaced': 'another upload of the same user, role and id replaces it',
  'upload.exists': 'with POST the file must not exist, neither at the upload nor when it is attached',
  'upload.replaces': 'with PUT the attached upload replaces a file',
  'upload.forms': 'the files of a form may be pending',
  'upload.argument': 'pending is true or false',
  'upload.conditions': 'a pending upload takes no conditions',
  'upload.permission': 'a pending upload needs create',
  'upload.repeated': 'an upload that is repeated with an Idempotency-Key gets the same answer',
  'upload.limit': 'a user has at most pending.maxPerUser pending uploads; then 429',
  'upload.off': 'with pending.maxPerUser 0 there are none',
  'quota.counts': 'quotas count pending uploads',
  'attach.id': 'an invalid file_id is refused',
  'attach.owner': 'a pending upload belongs to its user in its role',
  'attach.anonymous': 'anonymous callers have pending uploads of their own, by their address',
  'attach.uploader-admin': 'only an admin may name an uploader',
  'attach.uploader': 'an admin may attach what another user uploaded, whose file it becomes',
  'attach.uploader-id': 'the user_id of an uploader is an integer of any size, a string or null',
  'attach.permission': 'the role needs create when it attaches',
  'attach.user': 'attach_file needs a user id',
  'expiry.refused': 'an upload that has expired cannot be attached',
  'expiry.hours': 'a pending upload expires after pending.expireHours',
  'expiry.collected': 'an upload that has expired is deleted with its bytes',
  'bulk.fails': 'if any member fails, the upload stays pending, and can be attached again',
  'bulk.dry-run': 'a dry run leaves it pending',
  'bulk.together': 'rows, a file and a mail of a bulk are committed together',
  'bulk.repeated': 'a bulk that is repeated with an Idempotency-Key attaches once',
  'bulk.steps': 'later members use the record of the file',
  'template.param': 'a template attaches the file of its parameter',
  'rules.attach': 'rules are checked when the file is attached, and see the rows of the same bulk',
  'rules.hidden': 'to a user, a file that is hidden is as one that does not exist',
} as const

const as = (id: string, role: string): As => ({ role, variables: { 'x-service-user-id': id } })
const other = as('43', 'user')
const none = as('42', 'none')
const ruled = as('50', 'ruled')
const content = (text: string): Expected => ({ status: 200, text })

const upload = (
  id: string,
  body: string,
  expected: Expected,
  as: As = admin,
  method = 'POST',
  headers: Readonly<Record<string, string>> = {},
): Step => ({
  ...put(id, body, expected, as, { 'Content-Type': 'text/plain', ...headers }, method),
  path: `${pathOf(id)}?pending=true`,
})
const member = (id: unknown, more: object = {}) => ({ type: 'attach_file', args: { file_id: id, ...more } })
const attach = (id: string, expected: Expected, as: As = admin, more: object = {}): Step =>
  query('attach_file', member(id, more).args, expected, as)
const failed = (status: number, code: string, error: string | RegExp, path = '$.args.file_id'): Expected => ({
  status,
  like: { code, error, path },
})
const notPending = (id: string): Expected => failed(400, 'not-found', `the uploader has no pending upload "${id}"`)
const MAIL = { type: 'send_email', args: { to: 'a@example.com', from: 'shop@example.com', sub: 'New', text: 'Look' } }
const album = (name: string) => ({ type: 'insert', args: { table: 'album', objects: [{ name }] } })

interface Pending extends Files {
  /** With mails, too. */
  readonly mailing: TestServer
}

/** Albums, the bytes of a file or its status, and messages. */
async function state({ mailing }: Pending, id: string): Promise<unknown> {
  const { status, text } = await mailing.fetch(pathOf(id), {}, admin)
  return [
    (await mailing.must('count', { table: 'album' })).count,
    status === 200 ? text : status,
    (await mailing.fetch('/v1/send')).body.messages.length,
  ]
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Pending>>> = {
  'upload.record': async (t, server) => {
    const { status, body } = await server.fetch(
      `${pathOf('a')}?pending=true`,
      { method: 'POST', body: 'bytes', headers: { 'Content-Type': 'text/plain; charset="utf-8"' } },
      user,
    )
    const { created_at: createdAt, expires_at: expiresAt, ...rest } = body
    t.equal(status, 200)
    t.strictSame(rest, {
      file_id: 'a',
      content_type: 'text/plain; charset="utf-8"',
      file_status: 'pending',
      file_size: 5,
      user_id: 42,
      user_role: 'user',
    })
    t.equal(Date.parse(expiresAt) - Date.parse(createdAt), 24 * 3_600_000)
  },
  'upload.hidden': [get('a', hidden('a')), get('a', hidden('a'), {}, user)],
  'attach.record': [
    attach(
      'a',
      like({
        file_id: 'a',
        content_type: 'text/plain; charset="utf-8"',
        file_status: 'uploaded',
        file_size: 5,
        user_id: 42,
        user_role: 'user',
      }),
      user,
    ),
    get('a', { status: 200, text: 'bytes', headers: { 'content-type': 'text/plain; charset="utf-8"' } }),
  ],
  'attach.missing': [attach('a', notPending('a'), user), attach('none', notPending('none'), user)],
  'upload.replaced': [
    upload('b', 'first', OK, user),
    upload('b', 'second', OK, user),
    upload('b', 'of 43', OK, other),
    attach('b', OK, user),
    get('b', content('second')),
  ],
  'upload.exists': [
    upload('b', 'x', bad('file already exists : b'), user),
    attach('b', failed(400, 'bad-request', 'file already exists : b'), other),
    get('b', content('second')),
  ],
  'upload.replaces': [
    upload('b', 'third', OK, user, 'PUT'),
    get('b', content('second')),
    attach('b', like({ file_size: 5 }), user),
    get('b', content('third')),
  ],
  'upload.forms': async (t, server) => {
    const form = new FormData()
    for (const id of ['one', 'two']) {
      form.append('file_id', id)
      form.append('file', new Blob([id]), id)
    }
    const stored = await server.fetch('/v1/file?pending=true', { method: 'POST', body: form }, user)
    t.match(stored, { status: 200, body: [{ file_id: 'one', file_status: 'pending' }, { file_status: 'pending' }] })
    await takeAll(t, server, [
      get('one', hidden('one')),
      attach('two', OK, user),
      get('two', content('two')),
      attach('one', OK, user),
    ])
  },
  'upload.argument': [
    { ...upload('c', 'x', bad('pending should be true or false')), path: `${pathOf('c')}?pending=maybe` },
    { ...upload('c', 'x', like({ file_status: 'uploaded' })), path: `${pathOf('c')}?pending=false` },
  ],
  'upload.conditions': ['If-Match', 'If-None-Match', 'If-Unmodified-Since'].map((name) =>
    upload('d', 'x', bad('a pending upload takes no conditions such as If-Match'), user, 'PUT', { [name]: '*' }),
  ),
  'upload.permission': [upload('d', 'x', denied('none'), none)],
  'upload.repeated': async (t, server) => {
    const { path, method, headers, body } = upload('k', 'key', OK, user, 'POST', { 'Idempotency-Key': 'one' })
    const ask = () => server.fetch(path, { method, headers: headers!, body: body! }, user)
    const first = await ask()
    t.equal(first.status, 200)
    t.equal((await ask()).text, first.text)
    await takeAll(t, server, [attach('k', OK, user), get('k', content('key'))])
  },
  'upload.limit': [
    ...['l1', 'l2', 'l3'].map((id) => upload(id, id, OK, user)),
    upload(
      'l4',
      'x',
      {
        ...wrong(
          429,
          'too_many_uploads',
          'the limit of 3 pending uploads is reached (plugins.filestore.pending.maxPerUser)',
        ),
        headers: { 'retry-after': '60' },
      },
      user,
    ),
    upload('l3', 'again', OK, user),
    upload('l4', 'x', OK, other),
    attach('l1', OK, user),
    upload('l4', 'x', OK, user),
    query(
      'bulk',
      ['l2', 'l3', 'l4'].map((id) => member(id)),
      OK,
      user,
    ),
    get('l3', content('again')),
  ],
  'upload.off': async (t, server) => {
    const off = await filestore(t, { permissions: { user: ['create'] }, pending: { maxPerUser: 0 } }, {}, server)
    await takeAll(t, off, [
      upload('off', 'x', bad('pending uploads are turned off (plugins.filestore.pending.maxPerUser is 0)'), user),
    ])
  },
  'quota.counts': async (t, server) => {
    const poor = as('60', 'poor')
    await takeAll(t, server, [upload('q', '123456', OK, poor), query('file_usage', {}, like({ used_bytes: 6 }), poor)])
    const stored = await server.blobs()
    await takeAll(t, server, [upload('r', '12345', { status: 413, like: { code: 'quota_exceeded' } }, poor)])
    t.equal(await server.blobs(), stored)
    await takeAll(t, server, [
      upload('q', '1234567890', OK, poor),
      attach('q', OK, poor),
      put('r', '1', { status: 413, like: { code: 'quota_exceeded' } }, poor),
    ])
  },
  'attach.id': [
    attach('\u0001', failed(400, 'bad-request', 'a file_id has no control characters'), user),
    attach('', failed(400, 'bad-request', 'missing parameter: file_id'), user),
    query('bulk', [member('\u0001')], { status: 400, like: { path: '$.args[0].args.file_id' } }, user),
  ],
  'attach.owner': [
    upload('own', 'of 42', OK, user, 'PUT'),
    attach('own', notPending('own'), other),
    attach('own', notPending('own'), admin),
    attach('own', notPending('own'), as('42', 'poor')),
  ],
  'attach.anonymous': async (t, server) => {
    const permissions = { anonymous: ['create', 'read'] }
    const open = await filestore(t, { permissions }, {}, server, { http: { trustedProxies: ['127.0.0.1'] } })
    const from = (address: string, path: string, init: RequestInit) =>
      open.bare(path, { ...init, headers: { 'X-Forwarded-For': address, 'Content-Type': 'text/plain' } })
    const put = (address: string, body: string) =>
      from(address, '/v1/file/guessed?pending=true', { method: 'POST', body })
    const attach = (address: string) =>
      from(address, '/v1/query', { method: 'POST', body: JSON.stringify(member('guessed')) })
    t.match(await put('10.0.0.1', 'of one'), { status: 200 })
    t.match(await put('10.0.0.2', 'of another'), { status: 200 })
    t.match(await attach('10.0.0.3'), { status: 400, body: { code: 'not-found' } })
    t.match(await attach('10.0.0.1'), { status: 200 })
    t.equal((await open.get('guessed')).text, 'of one')
  },
  'attach.uploader-admin': [
    attach('own', failed(400, 'access-denied', /.*/, '$'), user, { uploader: { user_id: 42, user_role: 'user' } }),
    get('own', hidden('own')),
  ],
  'attach.uploader': [
    attach('own', like({ user_id: 42, user_role: 'user' }), admin, { uploader: { user_id: 42, user_role: 'user' } }),
    get('own', content('of 42')),
  ],
  'attach.uploader-id': async (t, server) => {
    const large = '9007199254740993'
    const sent = (id: string) =>
      server.raw(
        `{"type": "attach_file", "args": {"file_id": "large", "uploader": {"user_id": ${id}, "user_role": "user"}}}`,
        admin,
      )
    for (const id of [large, `"${large}"`]) {
      await takeAll(t, server, [upload('large', 'x', OK, as(large, 'user'), 'PUT')])
      t.match((await sent(id)).text, /"user_id" ?: ?9007199254740993/, id)
    }
    for (const id of ['1.5', '1e400', '1e21', 'true', '{}'])
      t.match(await sent(id), { status: 400, body: { code: 'parse-failed', path: '$.args.uploader.user_id' } }, id)
    t.match(await sent('null'), { status: 400, body: { code: 'not-found' } })
  },
  'attach.permission': [
    upload('p', 'x', OK, user, 'PUT'),
    attach('p', { status: 403, like: { code: 'access-denied', error: 'no permission for role none' } }, none),
    get('p', hidden('p')),
  ],
  'attach.user': [attach('p', { status: 400, like: { error: 'missing header: X-Service-User-Id' } }, {})],
  'expiry.refused': async (t, server) => {
    await server.sql(`update svc_catalog.svc_pending_file set expires_at = now() where file_id = 'p'`)
    await takeAll(t, server, [attach('p', notPending('p'), user)])
  },
  'expiry.hours': async (t, server) => {
    const sql = `select count(*) from svc_catalog.svc_pending_file join svc_catalog.svc_blob using (blob_id)
      where expires_at <> svc_pending_file.created_at + interval '24 hours' and file_id <> 'p' or leased_until < expires_at - interval '1 minute'`
    t.same((await server.sql(sql)).result[1], ['0'], 'and the collector leaves its bytes until then')
  },
  'expiry.collected': async (t, server) => {
    const hasty = as('70', 'user')
    const count = async (sql: string) => (await rowsOf(server.databaseUrl, `select from svc_catalog.${sql}`)).length
    await takeAll(
      t,
      server,
      ['kept', 'left'].map((id) => upload(id, id, OK, hasty)),
    )
    const pending = `svc_pending_file where file_id`
    await server.sql(
      `update svc_catalog.svc_pending_file set expires_at = now() where file_id = 'left';
      update svc_catalog.svc_blob set leased_until = now() - interval '1 s'
        where blob_id = (select blob_id from svc_catalog.${pending} = 'left')`,
    )
    const blobs = await count('svc_blob')
    await takeAll(t, server, [attach('left', notPending('left'), hasty)])
    const collecting = await filestore(t, { collect: { everySeconds: 1, graceSeconds: 86_400 } }, {}, server)
    await until('it is collected', async () => (await count('svc_blob')) < blobs)
    t.same([await count('svc_blob'), await count(`${pending} = 'left'`)], [blobs - 1, 0])
    t.equal(await count(`${pending} = 'kept'`), 1)
    await takeAll(t, server, [attach('kept', OK, hasty), get('kept', content('kept'))])
    t.equal(await count(`${pending} = 'kept'`), 0)
    await collecting.close()
  },
  'bulk.fails': async (t, server) => {
    await takeAll(t, server.mailing, [
      upload('cover', 'bytes', OK),
      query(
        'bulk',
        [member('cover'), MAIL, album('x'), album('x')],
        failed(400, 'postgres-error', /.*/, '$.args[3].args'),
        admin,
      ),
    ])
    t.same(await state(server, 'cover'), [0, 404, 0])
  },
  'bulk.dry-run': async (t, server) => {
    const body = JSON.stringify({ type: 'bulk', args: [album('one'), member('cover'), MAIL], dry_run: true })
    t.match(await server.mailing.raw(body, admin), {
      status: 200,
      body: [{ affected_rows: 1 }, { file_id: 'cover', file_status: 'uploaded' }, { detail: 'queued' }],
    })
    t.same(await state(server, 'cover'), [0, 404, 0])
  },
  'bulk.together': async (t, server) => {
    await takeAll(t, server.mailing, [
      query(
        'bulk',
        [album('zero'), member('none'), MAIL],
        failed(400, 'not-found', /none/, '$.args[1].args.file_id'),
        admin,
      ),
    ])
    t.same(await state(server, 'cover'), [0, 404, 0])
    await takeAll(t, server.mailing, [
      query(
        'bulk',
        [album('one'), member('cover'), MAIL],
        like([{ affected_rows: 1 }, { file_id: 'cover', user_id: 7 }, { detail: 'queued' }]),
        admin,
      ),
    ])
    t.same(await state(server, 'cover'), [1, 'bytes', 1])
  },
  'bulk.repeated': async (t, server) => {
    const body = JSON.stringify({ type: 'bulk', args: [album('two'), member('again'), MAIL] })
    await takeAll(t, server.mailing, [upload('again', 'x', OK)])
    const ask = () => server.mailing.raw(body, admin, { 'Idempotency-Key': 'bulk' })
    const first = await ask()
    t.equal(first.status, 200)
    t.equal((await ask()).text, first.text)
    t.same(await state(server, 'again'), [2, 'x', 2])
  },
  'bulk.steps': async (t, server) => {
    const steps = (affected: number) => [
      { as: 'cover', ...member('step') },
      {
        type: 'insert',
        as: 'album',
        args: { table: 'album', objects: [{ name: { $ref: 'cover.file_id' } }], returning: ['name'] },
        expect: { affected },
      },
      {
        ...MAIL,
        args: { ...MAIL.args, sub: { $ref: 'album.returning[0].name' }, text: { $ref: 'cover.content_type' } },
      },
    ]
    const before = await state(server, 'step')
    await takeAll(t, server.mailing, [
      upload('step', 'x', OK),
      query('bulk', steps(2), failed(409, 'unmet-expectation', /.*/, '$.args[1].expect.affected'), admin),
      get('step', hidden('step')),
    ])
    t.same(await state(server, 'step'), before)
    await takeAll(t, server.mailing, [
      query(
        'bulk',
        steps(1),
        like([{ file_id: 'step' }, { returning: [{ name: 'step' }] }, { detail: 'queued' }]),
        admin,
      ),
      get('step', content('x')),
      query(
        'bulk',
        [{ as: 'album', ...album('number') }, member({ $ref: 'album.affected_rows' })],
        { status: 400, like: { path: /^\$\.args\[1\]/ } },
        admin,
      ),
    ])
    t.match((await server.mailing.fetch('/v1/send?limit=1')).body.messages, [{ sub: 'step' }])
  },
  'template.param': async (t, server) => {
    await server.mailing.must('create_query_template', {
      name: 'add_album',
      template: { type: 'bulk', args: [album('of a template'), member({ param: 'cover' })] },
    })
    const call = (expected: Expected): Step => ({
      path: '/v1/template/add_album',
      method: 'POST',
      body: '{"cover": "third"}',
      as: admin,
      expected,
    })
    await takeAll(t, server.mailing, [
      call(failed(400, 'not-found', /third/, '$.cover')),
      upload('third', '3', OK),
      call(like([{ affected_rows: 1 }, { file_id: 'third' }])),
      get('third', content('3')),
    ])
  },
  'rules.attach': async (t, server) => {
    const table = { schema: 'svc_catalog', name: 'svc_file' }
    const own = { owner_id: 'X-SERVICE-USER-ID' }
    const permit = (type: string, on: object | string, permission: object) => ({
      type: `create_${type}_permission`,
      args: { table: on, role: 'ruled', permission },
    })
    const document = { type: 'insert', args: { table: 'document', objects: [{ file_id: 'plan', owner_id: 50 }] } }
    await server.must('bulk', [
      { type: 'run_sql', args: { sql: 'create table document (file_id text primary key, owner_id bigint)' } },
      { type: 'track_table', args: 'document' },
      { type: 'track_table', args: table },
      {
        type: 'create_object_relationship',
        args: {
          table,
          name: 'document',
          using: { manual_configuration: { remote_table: 'document', column_mapping: { file_id: 'file_id' } } },
        },
      },
      permit('insert', 'document', { columns: '*', check: own }),
      permit('insert', table, { columns: [], check: { document: own } }),
      permit('select', table, { columns: ['file_id'], filter: { document: own } }),
    ])
    await takeAll(t, server, [
      upload('plan', 'A plan', OK, ruled),
      attach('plan', failed(403, 'access-denied', 'access denied'), ruled),
      query('bulk', [document, member('plan')], like([{ affected_rows: 1 }, { file_id: 'plan', user_id: 50 }]), ruled),
      get('plan', content('A plan'), {}, ruled),
    ])
  },
  'rules.hidden': ['plan', 'nothing'].flatMap((id) => [
    upload(id, 'x', like({ file_status: 'pending' }), as('51', 'ruled')),
    attach(id, failed(403, 'access-denied', 'access denied'), as('51', 'ruled')),
  ]),
}

/** Its promises, with a case for each. */
export const pendingFiles = area('pending-files', {
  promises: PROMISES,
  cases: CASES,
  async start(t: Test): Promise<Pending> {
    const server = await filestore(t, {
      permissions: { user: ['create', 'read'], poor: ['create'], ruled: ['create', 'read'], none: [] },
      limits: { poor: { userBytes: 10 } },
      pending: { maxPerUser: 3 },
    })
    const mailing = await testServer(t, {
      files: true,
      notify: true,
      config: { providers: { email: { default: 'memory', memory: {} }, storage: { default: 'memory', memory: {} } } },
    })
    await mailing.sql('create table album (name text primary key)')
    await mailing.must('track_table', 'album')
    return { ...server, mailing }
  },
  pages: {
    'plugins/filestore/README.md': {
      filestore: {
        '`POST`, `PUT` with `?pending=true`': ['upload.record', 'attach.record'],
      },
    },
    'plugins/filestore/uploads.md': {
      'Files in transactions': {
        upload: ['upload.exists', 'upload.argument', 'upload.conditions', 'upload.off', 'upload.limit'],
        '`attach_file`': [
          'attach.missing',
          'expiry.refused',
          'attach.id',
          'upload.exists',
          'attach.uploader-admin',
          'attach.permission',
          'rules.attach',
        ],
        'A file uploaded with PUT replaces an existing one; with POST there must be none.': [
          'upload.replaces',
          'upload.exists',
        ],
      },
    },
  },
})
