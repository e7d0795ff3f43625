import t from 'tap'
import { accessibility, openConsole } from '../../kit/console.js'

t.test('a plugin of a third party adds a panel, which asks as the caller of the console', async (t) => {
  const { server, page, complaints, elsewhere } = await openConsole(t, {
    builtins: { guestbook: new URL('./guestbook.js', import.meta.url) },
  })
  await server.must('run_sql', {
    sql: `create table guestbook (id int primary key, entry text, hidden boolean);
          insert into guestbook values (1, 'hello', false), (2, 'spam', true)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'guestbook' },
    {
      type: 'create_select_permission',
      args: { table: 'guestbook', role: 'reader', permission: { columns: ['entry'], filter: { hidden: false } } },
    },
  ])
  await page.reload()
  t.equal(await page.getByRole('link', { name: 'Elsewhere' }).count(), 0, 'only pages of this server are panels')
  await page.getByRole('link', { name: 'Guestbook', exact: true }).click()
  const frame = page.frameLocator('iframe[title="Guestbook"]')
  await frame.getByText('admin: hello,spam').waitFor()
  t.same(await accessibility(page), [])

  await page.getByRole('button', { name: 'Acting as admin' }).click()
  await page.getByLabel('Role').fill('reader')
  await page.getByRole('button', { name: 'Act as this role' }).click()
  await frame.getByText('reader: hello').waitFor()
  t.equal(await frame.getByText('spam').count(), 0)
  t.match(page.url(), /\/console\/page\//, 'a panel cannot leave the console')
  // Chromium warns of each frame with scripts of the same origin, and says that it stopped this one.
  t.same(
    complaints.filter((each) => !/top-level window|can escape its sandboxing/.test(each)),
    [],
  )
  t.same(elsewhere, [])
})
