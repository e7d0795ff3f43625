import tap from 'tap'
import { MAIL, notifyServer } from '../kit/notify.js'

const KEY = { 'Idempotency-Key': 'order-7' }

tap.test('a request whose Idempotency-Key would be ignored is refused', async (t) => {
  const server = await notifyServer(t, {}, {}, true)
  await server.must('run_sql', { sql: 'create table note (id serial primary key, text text)' })
  await server.must('track_table', { schema: 'public', name: 'note' })
  const insert = { type: 'insert', args: { table: 'note', objects: [{ text: 'a' }] } }
  await server.must('create_query_template', {
    name: 'add',
    template: { type: 'insert', args: { table: 'note', objects: { param: 'objects' } } },
  })
  const json = (body: unknown) => ({ method: 'POST', body: JSON.stringify(body) })
  const mutation = { query: 'mutation { insert_note(objects: [{text: "a"}]) { affected_rows } }' }
  const file = { method: 'PUT', body: 'bytes', headers: { 'X-Service-User-Id': '1' } }
  const upload = { 'X-Service-User-Id': '1', 'Tus-Resumable': '1.0.0', 'Upload-Length': '1' }
  const doors: [string, RequestInit][] = [
    ['/v1/query', json(insert)],
    ['/v1/query', json({ type: 'bulk', args: [insert] })],
    ['/v1/query', json({ type: 'count', args: { table: 'note' } })],
    ['/v1/template/add', json({ objects: [{ text: 'a' }] })],
    ['/v1/template/add', { method: 'PUT', body: '{}' }],
    ['/v1/template/add', {}],
    ['/v1/graphql', json(mutation)],
    ['/v1/graphql', json([mutation])],
    ['/v1alpha1/graphql', json(mutation)],
    ['/v1/file/a', file],
    ['/v1/file/a', { ...file, method: 'POST' }],
    ['/v1/upload', { method: 'POST', headers: upload }],
    ['/v1/send/00000000-0000-0000-0000-000000000000/retry', { method: 'POST' }],
    ['/v1/send/suppressed', json({ address: 'a@example.com' })],
  ]
  for (const [path, init] of doors) {
    const headers = { ...(init.headers as Record<string, string>), ...KEY }
    t.match(
      await server.fetch(path, { ...init, headers }),
      { status: 400, body: { code: 'not-supported', message: /Idempotency-Key is not supported at this path/ } },
      `${init.method ?? 'GET'} ${path}`,
    )
  }
  t.same(await server.must('count', { table: 'note' }), { count: 0 }, 'nothing was written')
  t.match(await server.fetch('/v1/file/a', { headers: { 'X-Service-User-Id': '1' } }), { status: 404 })
  t.match(await server.bare('/v1/query', { ...json(insert), headers: { ...KEY, 'X-Service-Admin-Secret': 'wrong' } }), {
    status: 401,
  })

  for (const [path, init] of doors.slice(0, 4))
    t.equal((await server.fetch(path, init)).status, 200, `${path} without the header`)
  t.equal((await server.fetch('/v1/query', { ...json(insert), headers: { 'Idempotency-Key': '' } })).status, 200)
  const sent = await server.send('email', MAIL, KEY)
  t.same((await server.send('email', MAIL, KEY)).body, sent.body, 'sends take it')
  t.equal(server.email.handed.length, 1)
  t.equal((await server.fetch('/healthz', { headers: KEY })).status, 200)
})
