import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'

const CANARY = `<img src=x onerror="window.hit=1"> </script> /?#%2e '"`
const RTL = `\u202eevil ${'long'.repeat(60)}\u0007`

t.test('an admin runs, makes, renames and deletes templates', async (t) => {
  const { server, page, complaints, elsewhere, open, stranger } = await openConsole(t, {
    browser: { permissions: ['clipboard-read', 'clipboard-write'] },
  })
  await server.must('run_sql', {
    sql: `create table town (id int8 primary key, name text not null, founded date);
          insert into town values (1, 'Ulm', '0854-07-22'), (9007199254740993, ${literal(CANARY)}, null), (3, ${literal(RTL.replace('\u0007', ''))}, null)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    {
      type: 'create_select_permission',
      args: { table: 'town', role: 'guest', permission: { columns: ['id', 'name'], filter: { id: { $lt: 3 } } } },
    },
    {
      type: 'create_query_template',
      args: {
        name: 'towns',
        comment: CANARY,
        template: {
          type: 'select',
          args: {
            table: 'town',
            columns: ['id', 'name'],
            where: { id: { $in: { param: 'ids' } } },
            order_by: ['id'],
            limit: { param: 'limit', default: 10 },
          },
        },
      },
    },
    {
      type: 'create_query_template',
      args: {
        name: CANARY,
        comment: RTL,
        template: {
          type: 'count',
          args: { table: 'town', where: { name: { $eq: { param: CANARY, default: CANARY } } } },
        },
      },
    },
    {
      type: 'create_query_template',
      args: { name: 'add', template: { type: 'insert', args: { table: 'town', objects: { param: 'objects' } } } },
    },
  ])

  await t.test('what the lint finds about a template is shown with it', async () => {
    await open('templates/add')
    await page.getByText('No role but admin may run the template.').waitFor()
  })

  await t.test('parameters have fields by their types, and the address has their values', async (t) => {
    await open('templates')
    await page.getByText('Choose a template.').waitFor()
    await page.getByLabel('Search templates').fill('TOWN')
    t.equal(await page.locator('.side li').count(), 1)
    await page.getByRole('link', { name: /^towns/ }).click()
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('There are no such rows').waitFor()
    await page.getByLabel('ids', { exact: true }).fill('x')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('“x” is not a number').waitFor()
    await page.getByLabel('ids', { exact: true }).fill('1\n9007199254740993')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByRole('gridcell', { name: '9007199254740993' }).waitFor()
    t.match(await page.getByRole('status').allTextContents(), [/2 rows · \d+ ms/])
    const url = `${server.url}/v1/template/towns?ids=%5B1%2C9007199254740993%5D`
    t.equal(await page.getByLabel('Call', { exact: true }).textContent(), `GET ${url}`)
    await page.getByRole('tab', { name: 'curl' }).click()
    t.match(await page.getByLabel('Call', { exact: true }).textContent(), `-H "X-Service-Admin-Secret: $ADMIN_SECRET"`)
    await page.getByLabel('Source of limit').selectOption('null')
    t.match(await page.getByLabel('Call', { exact: true }).textContent(), `"ids":[1,9007199254740993],"limit":null`)
    await page.getByText('A URL cannot contain null.').waitFor()
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByRole('tab', { name: 'JSON', exact: true }).click()
    t.match(await page.getByLabel('Result as JSON').textContent(), '"id": 9007199254740993')
    t.same(await accessibility(page), [])
    t.equal(await overflow(page), 0)
  })

  await t.test('hostile names and values are text', async (t) => {
    await page.getByLabel('Search templates').fill('')
    await page.getByRole('link', { name: /^<img/ }).click()
    await page.getByRole('heading', { name: '<img' }).waitFor()
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('"count": 1').waitFor()
    await page.setViewportSize({ width: 390, height: 844 })
    for (const name of ['Definition', 'Calls', 'Roles', 'Run']) {
      await page.getByRole('tab', { name, exact: true }).click()
      await page.locator('.scroll').waitFor()
      t.equal(await overflow(page), 0, name)
    }
    await page.setViewportSize({ width: 1280, height: 800 })
    t.equal(await page.evaluate('window.hit'), undefined)
  })

  await t.test('a new template is changed, renamed and deleted', async (t) => {
    await page.getByRole('link', { name: 'New template' }).click()
    await page.getByLabel('Name').fill('first')
    const write = async (text: string) => {
      await page.getByLabel('Query of the template').click()
      await page.keyboard.press('Control+A')
      await page.keyboard.insertText(text)
    }
    await write('{"type": "count", "args": {"table": "town", "where": {"nam": {"$eq": {"param": "n"}}}}}')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('alert').filter({ hasText: 'nam' }).waitFor()
    t.equal(await page.locator('.cm-lintRange-error').textContent(), '"nam"')
    await write('{"type": "count", "args": {"table": "to')
    await page.keyboard.press('Control+Space')
    await page.getByRole('option', { name: 'town' }).waitFor()
    await page.keyboard.press('Escape')
    await write('{"type": "count", "args": {"table": "town", "where": {"name": {"$eq": {"param": "n"}}}}}')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'first' }).waitFor()
    await page.getByRole('tab', { name: 'Definition' }).click()
    await page.getByLabel('Name').fill('second')
    await page.getByLabel('Comment').fill('better')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'second' }).waitFor()
    t.match(page.url(), /\/console\/templates\/second\?view=definition$/, 'it stays at its tab')
    t.match(
      (await server.fetch('/v1/template')).body.find((each: any) => each.name === 'second'),
      { comment: 'better' },
    )

    await page.getByRole('tab', { name: 'Definition' }).click()
    await server.must('set_query_template_comment', { name: 'second', comment: 'by another' })
    await page.getByLabel('Comment').fill('mine')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('another admin has changed this template').waitFor()
    await page.getByRole('button', { name: 'Delete …' }).click()
    await page.getByRole('button', { name: 'Delete second' }).click()
    await page.getByText('Choose a template.').waitFor()
    await page.getByRole('link', { name: /^second/ }).waitFor({ state: 'detached' })
  })

  await t.test('calls are counted, and roles are shown', async (t) => {
    await open('templates/towns')
    await page.getByRole('tab', { name: 'Calls' }).click()
    t.match(page.url(), /\/console\/templates\/towns\?view=calls$/)
    await page.reload()
    await page.getByText('Mean time').waitFor()
    t.match(await page.locator('dd').allTextContents(), ['3', / ms/, '0', '0'])
    await page.getByRole('tab', { name: 'Roles' }).click()
    await page.getByRole('row', { name: /guest yes/ }).waitFor()
    t.same(await accessibility(page), [])
    await open('templates/add')
    await page.getByRole('tab', { name: 'Roles' }).click()
    await page.getByRole('row', { name: /guest no/ }).waitFor()
  })

  await t.test('the panel and the OpenAPI page ask as the role that the console acts as', async (t) => {
    await page.getByRole('button', { name: 'Act as guest' }).click()
    await page.getByRole('tab', { name: 'Run', exact: true }).click()
    await page.getByText('The role guest may not run this template').waitFor()
    await page.getByRole('link', { name: /^towns/ }).click()
    await page.getByLabel('ids', { exact: true }).fill('1\n3')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('1 row ·').waitFor()
    await page.getByRole('tab', { name: 'OpenAPI' }).click()
    const frame = page.frameLocator('iframe')
    await frame.getByText('/v1/template/towns').first().waitFor()
    await frame.getByRole('button', { name: 'Try it out' }).waitFor()
    t.equal(await frame.getByText('/v1/template/add').count(), 0)
    t.equal(await frame.getByRole('button', { name: 'Authorize' }).count(), 0)
    t.notOk(await frame.getByLabel('Admin secret').isVisible())
    t.equal(await frame.getByText('stringnull').count(), 0)
    await frame.getByRole('button', { name: 'Try it out' }).click()
    await frame.getByRole('button', { name: /Add.* item/ }).click()
    await frame.locator('tr[data-param-name="ids"] input').fill('1')
    await frame.getByRole('button', { name: 'Execute' }).click()
    await frame.locator('.live-responses-table').getByText('Ulm').first().waitFor()
  })

  await t.test('the OpenAPI page has a sign-in of its own for others, which says what is wrong', async (t) => {
    const other = await stranger()
    await other.goto(`${server.url}/v1/openapi`)
    await other.getByLabel('Admin secret').fill('not the secret')
    const before = complaints.length
    await other.getByRole('button', { name: 'Show templates' }).click()
    await other.getByText('The admin secret is wrong.').waitFor()
    t.match(complaints.splice(before), [/401|403/], 'the browser reports the refused request')
  })
  t.same(
    complaints.filter((each) => !/deep link whitespace|Could not find component|status of 400/.test(each)),
    [],
  )
  t.same(elsewhere, [])
})

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
