import t from 'tap'
import { freshDatabase, rowsOf, TEST_TEMPLATE } from '../kit/database.js'
import { testServer } from '../kit/server.js'
import { createTemplate } from '../kit/template.js'

t.test('servers of tests copy a database that has all migrations, and run none', async (t) => {
  const given = process.env[TEST_TEMPLATE]
  const { url } = await freshDatabase(t)
  const template = await createTemplate(url)
  t.teardown(async () => {
    if (given === undefined) delete process.env[TEST_TEMPLATE]
    else process.env[TEST_TEMPLATE] = given
    await template.drop()
  })
  process.env[TEST_TEMPLATE] = template.name

  const servers = [await testServer(t), await testServer(t, { files: true, notify: true })]

  const record = 'select owner, id, applied_at from svc_catalog.svc_migration order by owner, id'
  const [plain, full] = await Promise.all(
    servers.map(({ databaseUrl }) => rowsOf<{ owner: string }>(databaseUrl, record)),
  )
  t.same([...new Set(plain?.map(({ owner }) => owner))], ['console', 'core', 'filestore', 'notify'])
  t.same(full, plain, 'with the times of the template')
})

t.test('a template accepts no connections, because PostgreSQL cannot copy a database that has any', async (t) => {
  const { url } = await freshDatabase(t)
  const template = await createTemplate(url)
  t.teardown(template.drop)
  const place = new URL(url)
  place.pathname = `/${template.name}`

  await t.rejects(rowsOf(place.href, 'select 1'), /not currently accepting connections/)
})
