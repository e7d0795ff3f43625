import tap from 'tap'
import { filestore, user } from '../kit/files.js'
import type { As } from '../kit/server.js'
import { until } from '../kit/until.js'

const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const permissions = { user: ['create', 'read', 'delete'], small: ['create'] }

tap.test('uploads at once stay within the quota, and give back what they do not use', async (t) => {
  const server = await filestore(t, { permissions, limits: { user: { userBytes: 100 } } })
  const tried = await Promise.all(Array.from({ length: 12 }, (_, i) => server.put(`f${i}`, 'x'.repeat(30), user)))
  t.equal(tried.filter(({ status }) => status === 200).length, 3)
  t.same(new Set(tried.map(({ status }) => status)), new Set([200, 413]))

  const form = new FormData()
  for (const text of ['12345', '12345']) form.append('f', new Blob([text]), 'f')
  t.equal((await server.fetch('/v1/file', { method: 'POST', body: form }, user)).status, 200, 'ten bytes were left')
  t.match(await server.fetch('/v1/file', { method: 'POST', body: form }, user), { status: 413 })
  t.match(await server.put('other type', 'x'.repeat(5), other, { 'Content-Type': 'no type' }), { status: 400 })
  await until('nothing is left over', async () => (await server.blobs()) === 5)
})
