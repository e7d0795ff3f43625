import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'

t.test('somebody signs in, acts as another role, and signs out', async (t) => {
  const { server, page, complaints, elsewhere, stranger } = await openConsole(t)
  await server.must('run_sql', {
    sql: `create table note (id int primary key, owner text, text text);
          insert into note values (1, '7', 'mine'), (2, '8', 'not mine')`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    {
      type: 'create_select_permission',
      args: {
        table: 'note',
        role: 'user',
        permission: { columns: ['id', 'text'], filter: { owner: 'X-Service-User-Id' } },
      },
    },
  ])
  await page.goto(`${server.url}/console/data/note`)
  await page.getByText('not mine').waitFor()

  await page.getByRole('button', { name: 'Acting as admin' }).click()
  await page.getByLabel('Role').fill('user')
  await page.getByLabel('User id').fill('7')
  await page.getByRole('button', { name: 'Act as this role' }).click()
  await page.getByRole('gridcell', { name: 'mine', exact: true }).waitFor()
  t.equal(await page.getByText('not mine').count(), 0, 'rows of the former role are gone')
  t.equal(await page.getByRole('columnheader', { name: /owner/ }).count(), 0)
  t.match(await page.locator('.top').getAttribute('class'), /acting/)
  t.same(await accessibility(page), [])
  t.equal(await overflow(page), 0)

  const cookies = await page.context().cookies()
  t.match(cookies, [{ httpOnly: true, sameSite: 'Strict' }])
  t.notOk(await page.evaluate('document.cookie'))
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Admin secret', { exact: true }).waitFor()
  const other = await stranger()
  await other.context().addCookies(cookies)
  await other.goto(`${server.url}/console`)
  await other.getByLabel('Admin secret', { exact: true }).waitFor()
  t.same(complaints, [])
  t.same(elsewhere, [])
})
