import pg from 'pg'
import tap, { type Test } from 'tap'
import { admin, filestore, type Files, user } from '../kit/files.js'
import type { As } from '../kit/server.js'

const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const FILE = { schema: 'svc_catalog', name: 'svc_file' }

const denied = (role: string) => ({
  status: 403,
  body: { code: 'access_denied', message: `no permission for role ${role}` },
})
const remove = (server: Files, id: string, as: As, headers: Record<string, string> = {}) =>
  server.fetch(`/v1/file/${id}`, { method: 'DELETE', headers }, as)

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
