import { SignJWT } from 'jose'
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

t.test('a user with several roles chooses among them, and signs out everywhere', async (t) => {
  const key = 'a key of a test with 32 characters or more'
  const { server, page, complaints, stranger } = await openConsole(t, {
    signedIn: false,
    config: { auth: { jwt: { algorithms: ['HS256'], key } } },
  })
  await server.must('run_sql', {
    sql: `create table note (id int primary key, draft boolean); insert into note values (1, false), (2, true)`,
  })
  const select = (role: string, filter: object) => ({
    type: 'create_select_permission',
    args: { table: 'note', role, permission: { columns: ['id'], filter } },
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    select('reader', { draft: false }),
    select('editor', {}),
  ])
  const token = await new SignJWT({
    rowhouse: { 'x-service-allowed-roles': ['reader', 'editor'], 'x-service-user-id': '7' },
  })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(key))
  const signIn = async (at: typeof page) => {
    await at.goto(`${server.url}/console/data/note`)
    await at.getByLabel('a token').check()
    await at.getByLabel('Token', { exact: true }).fill(token)
    await at.getByRole('button', { name: 'Sign in' }).click()
    await at.getByLabel('Signed in as').waitFor()
  }
  await signIn(page)
  const cells = (name: string) => page.getByRole('gridcell', { name, exact: true })
  await cells('1').waitFor()
  t.equal(await cells('2').count(), 0)

  await page.getByLabel('Signed in as').selectOption('editor')
  await cells('2').waitFor()
  await page.reload()
  await cells('2').waitFor()
  t.equal(await page.getByLabel('Signed in as').inputValue(), 'editor', 'the tab keeps the role')
  t.same(await accessibility(page), [])
  await page.setViewportSize({ width: 390, height: 844 })
  await page.getByLabel('Account').click()
  t.equal(await overflow(page), 0)

  const other = await stranger()
  await signIn(other)
  await other.getByRole('gridcell').first().waitFor()
  await page.getByRole('button', { name: 'Sign out everywhere' }).click()
  await page.getByLabel('Admin secret', { exact: true }).waitFor()
  await other.reload()
  await other.getByLabel('Admin secret', { exact: true }).waitFor()
  t.same(complaints, [])
})
