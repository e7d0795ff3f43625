import pg from 'pg'
import tap, { type Test } from 'tap'
import { fileHook } from '../kit/file-hook.js'
import { admin, filestore, type Files, user } from '../kit/files.js'
import { patience } from '../kit/patience.js'
import type { As } from '../kit/server.js'

const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const FILE = { schema: 'svc_catalog', name: 'svc_file' }

const denied = (role: string) => ({
  status: 403,
  body: { code: 'access_denied', message: `no permission for role ${role}` },
})
const refused = { status: 403, body: { code: 'access_denied', message: 'access denied' } }
const hidden = (id: string) => ({ status: 404, body: { code: 'not_found', message: `file not found : ${id}` } })
const failed = { status: 500, body: { code: 'fatal_internal_error', message: 'internal server error' } }

const remove = (server: Files, id: string, as: As, headers: Record<string, string> = {}) =>
  server.fetch(`/v1/file/${id}`, { method: 'DELETE', headers }, as)

tap.test('what a hook does not allow does not happen', async (t) => {
  const hook = await fileHook(t)
  const server = await filestore(t, { hook: { url: hook.url, timeoutMs: patience(1_000) } })
  await server.put('f', 'kept')
  const all = async (expected: object, name: string) => {
    t.match(await server.get('f', {}, user), expected, `${name}: read`)
    t.match(await server.put('f', 'x', user), expected, `${name}: replace`)
    t.match(await server.put('g', 'x', user, {}, 'POST'), expected, `${name}: create`)
    t.match(await remove(server, 'f', user), expected, `${name}: delete`)
  }

  hook.answers({ status: 403, body: 'a long story' })
  await all(refused, '403')
  for (const status of [201, 204, 400, 401, 404, 500, 503]) {
    hook.answers({ status })
    t.match(await server.get('f', {}, user), failed, String(status))
  }
  hook.answers({ status: 302, headers: { location: hook.url } })
  await all(failed, 'redirect')
  hook.answers({ status: 200, body: 'x'.repeat(100_000) })
  t.match(await server.get('f', {}, user), failed, 'an answer without end')
  for (const how of ['hang', 'cut', 'upgrade'] as const) {
    hook.answers(how)
    await all(failed, how)
  }
  t.equal((await server.get('f')).text, 'kept')
  t.match(await server.get('g'), hidden('g'))
})

tap.test('a hook that is none stops the start', async (t) => {
  for (const url of ['public', '/v1/hooks/other', 'ftp://x', 'http://169.254.169.254/', 'http://u:p@x/']) {
    await t.rejects(filestore(t, { hook: { url } }), /plugins\.filestore\.hook\.url/, url)
  }
})

/** Documents of users, each with a file; a user reads what it owns and what is shared with it. */
async function documents(t: Test, config: object = {}): Promise<Files> {
  const server = await filestore(t, config)
  await server.must('run_sql', {
    sql: `create table document (file_id text primary key, owner_id bigint not null, locked boolean not null default false);
      create table share (file_id text not null references document, user_id bigint not null)`,
  })
  await server.must(
    'bulk',
    ['document', 'share', FILE].map((args) => ({ type: 'track_table', args })),
  )
  await server.must('create_object_relationship', {
    table: FILE,
    name: 'document',
    using: { manual_configuration: { remote_table: 'document', column_mapping: { file_id: 'file_id' } } },
  })
  await server.must('create_array_relationship', {
    table: 'document',
    name: 'shares',
    using: { foreign_key_constraint_on: { table: 'share', column: 'file_id' } },
  })
  const owns = { document: { owner_id: 'X-SERVICE-USER-ID' } }
  const permit = (type: string, permission: object) =>
    server.must(`create_${type}_permission`, { table: FILE, role: 'user', permission })
  await permit('select', {
    columns: ['file_id', 'file_size'],
    filter: { $or: [owns, { document: { shares: { user_id: 'X-SERVICE-USER-ID' } } }] },
  })
  await permit('insert', { check: { ...owns, file_size: { $lte: 10 }, content_type: { $like: 'text/%' } } })
  await permit('update', { columns: [], filter: { document: { locked: false, ...owns.document } }, check: owns })
  await permit('delete', { filter: owns })
  return server
}

const own = (server: Files, id: string, owner = 42) =>
  server.must('insert', { table: 'document', objects: [{ file_id: id, owner_id: owner }] })

tap.test('a file that rules hide cannot be told from one that is not there', async (t) => {
  const server = await documents(t)
  await own(server, 'mine')
  t.equal((await server.put('mine', 'x', user, {}, 'POST')).status, 200)

  const answers = async (id: string) => {
    const tries: (readonly [string, Record<string, string>])[] = [
      ['POST', {}],
      ['POST', { 'If-Match': '*' }],
      ['PUT', {}],
      ['PUT', { 'If-Match': '*' }],
      ['PUT', { 'If-None-Match': '*' }],
    ]
    const all = []
    for (const [method, headers] of tries) {
      const { status, body } = await server.put(id, 'x', other, headers, method)
      all.push([method, headers, status, body.code, body.message])
    }
    return all
  }
  t.same(await answers('mine'), await answers('none'))
  t.match(await server.put('mine', 'x', user, {}, 'POST'), {
    status: 400,
    body: { message: 'file already exists : mine' },
  })
})

tap.test('rules on the table of the records decide over files', async (t) => {
  const server = await documents(t)
  await own(server, 'mine')

  t.match(await server.put('nobodys', 'x', user, {}, 'POST'), refused, 'no document')
  t.match(await server.get('nobodys'), hidden('nobodys'), 'and nothing is stored')
  t.match(await server.put('mine', 'x', user, { 'Content-Type': 'image/png' }), refused, 'of another type')
  t.match(await server.put('mine', 'longer than ten', user), refused, 'too long')
  t.equal((await server.put('mine', 'ten bytes!', user, {}, 'POST')).status, 200)
  t.equal((await server.get('mine', {}, user)).text, 'ten bytes!')

  t.match(await server.get('mine', {}, other), hidden('mine'), 'hidden from another')
  t.match(await remove(server, 'mine', other), hidden('mine'))
  t.match(await server.put('mine', 'x', other), refused)
  await server.must('insert', { table: 'share', objects: [{ file_id: 'mine', user_id: 43 }] })
  t.equal((await server.get('mine', { Range: 'bytes=0-2' }, other)).text, 'ten')
  t.match(await remove(server, 'mine', other), refused, 'seen, and not to be deleted')

  t.equal((await server.put('mine', 'longer than ten', user)).status, 200, 'replacing has rules of its own')
  await server.must('update', { table: 'document', $set: { locked: true }, where: { file_id: 'mine' } })
  t.match(await server.put('mine', 'x', user), refused, 'locked')
  t.equal((await server.get('mine', {}, user)).text, 'longer than ten')

  const list = await server.query('select', { table: FILE, columns: ['file_id'] }, other)
  t.same(list.body, [{ file_id: 'mine' }], 'what may be listed is what may be read')
  t.equal((await remove(server, 'mine', user)).status, 200)
  t.equal((await server.put('free', 'any type, any length', admin, { 'Content-Type': 'a/b' })).status, 200, 'the admin')
  t.match(await server.get('free', {}, { role: 'guest', variables: user.variables ?? {} }), denied('guest'))
  t.equal((await server.blobs()) >= 1, true)
})

tap.test('an admin who acts as a role sees why a file is refused, and nobody else does', async (t) => {
  const server = await documents(t)
  for (const id of ['mine', 'locked', 'new']) await own(server, id)
  await own(server, 'theirs', 43)
  for (const id of ['mine', 'locked', 'theirs']) await server.put(id, 'kept')
  await server.must('update', { table: 'document', $set: { locked: true }, where: { file_id: 'locked' } })
  await server.must('insert', { table: 'share', objects: [{ file_id: 'theirs', user_id: 42 }] })
  /** Sends the same as the role, and as an admin who acts as it. */
  const internal = async (ask: (as: As) => ReturnType<Files['get']>, status: number, as = user) => {
    const { internal, ...others } = await ask({ ...as, acting: true }).then((answer) => {
      t.equal(answer.status, status)
      return answer.body
    })
    const role = await ask(as)
    t.same({ status: role.status, body: role.body }, { status, body: others }, 'the answer is the same')
    return internal
  }
  const rule = { verdict: 'refused', table: 'svc_catalog.svc_file', session: { 'x-service-user-id': '43' } }

  const read = await internal((as) => server.get('mine', {}, as), 404, other)
  t.match(read, { ...rule, operation: 'select', reason: 'filter' })
  t.match(read.filter, {
    result: false,
    any: [
      { path: '$.filter.$or[0].document', rows: [{ rule: { values: { owner_id: 42 } } }] },
      { path: '$.filter.$or[1].document', result: false },
    ],
  })
  t.match(await internal((as) => server.get('none', {}, as), 404), { operation: 'select', reason: 'row' })
  const url = (as: As) => server.fetch('/v1/file-url', { method: 'POST', body: '{"file_id": "mine"}' }, as)
  t.match(await internal(url, 404, other), { operation: 'select', reason: 'filter' })

  t.match(await internal((as) => remove(server, 'mine', as), 404, other), { operation: 'delete', reason: 'filter' })
  t.match(await internal((as) => remove(server, 'theirs', as), 403), {
    operation: 'delete',
    filter: { path: '$.filter.document', result: false },
  })
  t.match(await internal((as) => remove(server, 'none', as), 404), { operation: 'delete', reason: 'row' })

  t.match(await internal((as) => server.put('locked', 'x', as), 403), {
    operation: 'update',
    reason: 'filter',
    filter: { path: '$.filter.document', rows: [{ rule: { all: [{ values: { locked: true } }, { result: true }] } }] },
  })
  t.match(await internal((as) => server.put('mine', 'x', as), 403, other), { operation: 'update', reason: 'filter' })
  t.match(await internal((as) => server.put('mine', 'x', as, {}, 'POST'), 403, other), {
    operation: 'select',
    reason: 'filter',
  })
  const check = await internal((as) => server.put('new', 'longer than ten', as), 403)
  t.match(check, { operation: 'insert', reason: 'check', permission: { check: { file_size: { $lte: 10 } } } })
  t.match(check.check.all[1], { path: '$.check.file_size', result: false, values: { file_size: 15 } })
  const form = (as: As) => {
    const body = new FormData()
    body.append('file_id', 'new')
    body.append('f', new Blob(['longer than ten'], { type: 'text/plain' }), 'f')
    return server.fetch('/v1/file', { method: 'POST', body }, as)
  }
  t.match(await internal(form, 403), { operation: 'insert', reason: 'check', check: { result: false } })
  await server.must('drop_update_permission', { table: FILE, role: 'user' })
  await server.must('create_update_permission', {
    table: FILE,
    role: 'user',
    permission: { columns: [], filter: {}, check: { file_size: { $lt: 5 } } },
  })
  t.match(await internal((as) => server.put('mine', 'larger', as), 403), {
    operation: 'update',
    reason: 'check',
    check: { values: { file_size: 6 } },
  })

  const guest = { role: 'guest', variables: user.variables ?? {} }
  const none = { verdict: 'refused', reason: 'permission', permission: null }
  t.match(await internal((as) => server.get('mine', {}, as), 403, guest), { ...none, operation: 'select' })
  t.match(await internal((as) => server.put('new', 'x', as, {}, 'POST'), 403, guest), { ...none, operation: 'insert' })
  t.match(await internal((as) => remove(server, 'mine', as), 403, guest), { ...none, operation: 'delete' })
  t.equal(await internal((as) => server.put('mine', 'x', as, {}, 'POST'), 400), undefined, 'other errors')
  t.equal((await server.get('none')).body.internal, undefined, 'an admin who acts as nobody')
  t.equal((await server.get('mine')).text, 'kept')
  t.match(await server.get('new'), hidden('new'))
})

tap.test('resumable uploads and forms are no way around rules and hook', async (t) => {
  const hook = await fileHook(t)
  const server = await documents(t, { hook: { url: hook.url } })
  await own(server, 'mine')
  await own(server, 'new')
  await server.put('mine', 'kept')
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const tus = (id: string, text: string, as: As, replace = false, type = 'text/plain') =>
    server.fetch(
      '/v1/upload',
      {
        method: 'POST',
        body: text,
        headers: {
          'Tus-Resumable': '1.0.0',
          'Upload-Length': String(text.length),
          'Upload-Metadata': `file_id ${base64(id)},content_type ${base64(type)},replace ${base64(String(replace))}`,
          'Content-Type': 'application/offset+octet-stream',
        },
      },
      as,
    )
  const form = (path: string, text: string, as: As, id = '') => {
    const body = new FormData()
    if (id !== '') body.append('file_id', id)
    body.append('f', new Blob([text], { type: 'text/plain' }), 'f')
    return server.fetch(path, { method: path === '/v1/file' ? 'POST' : 'PUT', body }, as)
  }

  t.match(await tus('mine', 'taken', other, true), refused, 'another one replaces it')
  t.match(await tus('new', 'taken', other), refused, 'another one makes it')
  t.match(await tus('new', 'x', user, false, 'image/png'), refused, 'of another type')
  t.match(await form('/v1/file/mine', 'taken', other), refused)
  t.match(await form('/v1/file', 'taken', other, 'new'), refused)
  t.match(await tus('new', 'x', { role: 'guest', variables: user.variables ?? {} }), denied('guest'))
  hook.answers({ status: 403 })
  t.match(await tus('new', 'x', user), refused, 'the hook')
  t.match(await form('/v1/file/mine', 'taken', user), refused)
  t.match(await form('/v1/file', 'x', user, 'new'), refused)
  t.equal((await server.get('mine')).text, 'kept')
  t.match(await server.get('new'), hidden('new'))

  hook.answers({ status: 200 })
  t.equal((await tus('mine', 'by tus', user, true)).status, 201)
  t.equal((await server.get('mine')).text, 'by tus')
  t.equal((await form('/v1/file', 'by form', user, 'new')).status, 200)
})

tap.test('a rule that is gone or broken opens nothing', async (t) => {
  for (const how of ['by us', 'by somebody else', 'untracked']) {
    const server = await documents(t, { permissions: { user: ['read', 'create', 'delete'] } })
    await own(server, 'mine')
    t.equal((await server.put('mine', 'x', user)).status, 200)
    const sql = 'drop table share; alter table document drop column owner_id'
    if (how === 'by us') await server.must('run_sql', { sql, cascade: true })
    if (how === 'by somebody else') {
      const client = new pg.Client({ connectionString: server.databaseUrl })
      await client.connect()
      await client.query(sql)
      await client.end()
      await server.must('reload_metadata', {})
    }
    if (how === 'untracked') {
      await server.must('untrack_table', { table: FILE, cascade: true })
      t.match(await server.get('mine', {}, other), { status: 200 }, 'there are no rules any more, on purpose')
      continue
    }
    t.match(await server.get('mine', {}, user), denied('user'), how)
    t.match(await server.put('mine', 'y', user), denied('user'), how)
    t.match(await remove(server, 'mine', user), denied('user'), how)
    t.equal((await server.get('mine')).text, 'x', how)
  }
})

tap.test('of many that replace one version, one wins', async (t) => {
  const server = await filestore(t)
  await server.put('f', 'start')
  const etag = (await server.get('f')).headers.get('etag') as string
  const tried = await Promise.all(
    Array.from({ length: 20 }, (_, i) => server.put('f', `by ${i}`, admin, { 'If-Match': etag })),
  )
  const won = tried.flatMap(({ status }, i) => (status === 200 ? [i] : []))
  t.equal(won.length, 1)
  t.same(new Set(tried.map(({ status }) => status)), new Set([200, 412]))
  t.equal((await server.get('f')).text, `by ${won[0]}`)

  const made = await Promise.all(
    Array.from({ length: 20 }, (_, i) => server.put('new', `by ${i}`, admin, { 'If-None-Match': '*' })),
  )
  t.equal(made.filter(({ status }) => status === 200).length, 1)
  t.same(new Set(made.map(({ status }) => status)), new Set([200, 412]))
})

tap.test('of many that make a file that has rules, all are judged', async (t) => {
  const server = await documents(t)
  await own(server, 'mine')
  const tried = await Promise.all(
    Array.from({ length: 20 }, (_, i) => server.put('mine', `by ${i}`, i % 2 === 0 ? user : other)),
  )
  tried.forEach(({ status }, i) => t.equal(status, i % 2 === 0 ? 200 : 403, String(i)))
})
