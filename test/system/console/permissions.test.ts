import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'

const HOSTILE = `<img src=x onerror="window.canary=1">'"</script>‮\u0007${'x'.repeat(200)}`
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const rule = (table: string, operation: string) =>
  `permissions/rule?${String(new URLSearchParams({ table, role: 'customer', operation }))}`

t.test('an admin finds out why a role does not get a row, changes the rule, and sees the difference', async (t) => {
  const { server, page, complaints, elsewhere, open } = await openConsole(t)
  await server.must('run_sql', {
    sql: `create table orders (id int primary key, customer_id int, status text, note text);
          insert into orders values (1, 7, 'paid', 'a'), (2, 7, 'late', 'b'), (3, 8, 'late', 'c')`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'orders' },
    {
      type: 'create_select_permission',
      args: {
        table: 'orders',
        role: 'customer',
        permission: {
          columns: ['id', 'status'],
          filter: { customer_id: 'X-Service-User-Id', status: { $in: ['paid'] } },
        },
      },
    },
    {
      type: 'create_insert_permission',
      args: {
        table: 'orders',
        role: 'customer',
        permission: { columns: ['id'], check: { status: 'paid' }, set: { customer_id: 'X-Service-User-Id' } },
      },
    },
  ])
  await open('permissions')
  await page.getByLabel('User id').fill('7')
  await page.getByRole('button', { name: 'Count rows' }).click()
  const cell = page.getByRole('link', { name: 'customer may select some rows of orders, 2 of 4 columns' })
  await cell.getByText('1', { exact: true }).waitFor()
  t.same(await accessibility(page), [])

  await cell.click()
  await page.getByText('Rows where status is "paid" and customer_id is the user\'s id.').waitFor()
  await page.getByText('customer may select 1 of these 3 rows').waitFor()
  await page.getByRole('row', { name: /hidden 2 7 late/ }).click()
  await page.getByText('customer may not select: the rule of the permission is not true for this row.').waitFor()
  await page.locator('.rule-tree li', { hasText: 'false status is "paid"' }).getByText('status is "late"').waitFor()
  t.same(await accessibility(page), [])

  const editor = page.getByRole('textbox', { name: 'Rows that customer may select' })
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.type('{"cust')
  await page.locator('.cm-tooltip-autocomplete').getByText('customer_id').click()
  await page.keyboard.insertText('"X-Service-User-Id"')
  await page.getByText('With your changes: customer may select 2 of these 3 rows').waitFor()
  await page.getByText('Unsaved', { exact: true }).waitFor()
  await page.getByText('customer may select: the permission allows it.').waitFor()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Saved.').waitFor()
  await page.getByText('customer may select: the permission allows it.').waitFor()
  t.equal(await page.getByText('Unsaved', { exact: true }).count(), 0)
  const { body } = await server.query(
    'select',
    { table: 'orders', columns: ['id'] },
    {
      role: 'customer',
      variables: { 'x-service-user-id': '7' },
    },
  )
  t.same(body, [{ id: 1 }, { id: 2 }])
  await page.getByRole('tab', { name: 'What customer gets' }).click()
  await page.getByRole('grid', { name: 'Rows that customer gets' }).getByText('late').waitFor()

  await page.getByRole('tab', { name: 'insert' }).click()
  await page.getByRole('button', { name: 'Try the insert' }).click()
  await page.getByText(/customer may not insert/).waitFor()
  await page.goto(`${server.url}/console/permissions/why?table=orders&role=customer&operation=select&key=3&user=7`)
  await page.getByText("customer_id is 8, the user's id is 7").waitFor()
  t.same(await accessibility(page), [])

  await page.getByRole('link', { name: 'Change the permission' }).click()
  await page.getByText('customer may not select this row').waitFor()
  await page.reload()
  await page.getByText("customer_id is 8, the user's id is 7").waitFor()
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText('{"status": "late"}')
  await page.getByText('With your changes, which are not saved yet:').waitFor()
  await page.getByText('customer may select: the permission allows it.').waitFor()
  t.same(await accessibility(page), [])
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('Saved.').waitFor()
  await page.getByRole('link', { name: 'Ask why again' }).click()
  await page.getByText('customer may select: the permission allows it.').waitFor()
  const asked = new URL(page.url())
  t.equal(asked.pathname, '/console/permissions/why')
  t.same(Object.fromEntries(asked.searchParams), {
    table: 'orders',
    role: 'customer',
    operation: 'select',
    key: '{"id":3}',
    session: '{"x-service-user-id":"7"}',
  })

  await open(rule('orders', 'delete'))
  await page.getByText('customer may not delete rows of orders yet.').waitFor()
  await page.getByRole('button', { name: 'Create this permission' }).click()
  await page.getByRole('button', { name: 'Delete this permission' }).click()
  await page.getByRole('button', { name: 'Delete the permission' }).click()
  await page.getByText('Deleted.').waitFor()
  await page.getByText('customer may not delete rows of orders yet.').waitFor()
  t.same(complaints, [])
  t.same(elsewhere, [])
})

t.test('likely mistakes are shown beside the permission that they are about, until it is changed', async (t) => {
  const { server, page, complaints, open } = await openConsole(t)
  await server.must('run_sql', { sql: 'create table orders (id int primary key, customer_id int not null, note text)' })
  const filter = { id: { $is_null: false } }
  await server.must('bulk', [
    { type: 'track_table', args: 'orders' },
    {
      type: 'create_select_permission',
      args: { table: 'orders', role: 'customer', permission: { columns: '*', filter } },
    },
    {
      type: 'create_update_permission',
      args: { table: 'orders', role: 'customer', permission: { columns: ['note'], filter } },
    },
    {
      type: 'create_query_template',
      args: { name: 'drop', template: { type: 'delete', args: { table: 'orders', where: {} } } },
    },
  ])
  await open('permissions')
  await page.getByRole('link', { name: 'customer may select some rows of orders, 1 finding' }).waitFor()
  await page
    .getByRole('row', { name: /^orders/ })
    .getByRole('link', { name: '2 findings', exact: true })
    .click()
  const findings = page.getByRole('list', { name: 'All findings' }).getByRole('listitem')
  await findings.nth(1).waitFor()
  t.equal(await findings.count(), 2)
  t.same(await accessibility(page), [])
  await page.getByRole('link', { name: 'All findings' }).click()
  await page.getByRole('link', { name: 'template drop' }).waitFor()
  await page.getByText('2 warnings, 1 info').waitFor()

  await page.getByRole('link', { name: 'customer on orders: select' }).click()
  const found = page.getByRole('list', { name: 'Findings' })
  await found.getByText('The filter hides no row, because {"id":{"$is_null":false}} is always true.').waitFor()
  await found.getByText('Correct the condition, or write {} if every row is meant.').waitFor()
  t.same(await accessibility(page), [])
  await page.getByRole('textbox', { name: 'Rows that customer may select' }).click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText('{}')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await found.waitFor({ state: 'detached' })
  await page.getByRole('tab', { name: 'update' }).click()
  await found.getByText('always-true').waitFor()
  t.same(complaints, [])
})

t.test('an admin makes a role of others, sees what it inherits, and replaces some of it', async (t) => {
  const { server, page, complaints, open } = await openConsole(t)
  await server.must('run_sql', {
    sql: `create table article (id int primary key, author_id int, state text, fee int, score int);
          insert into article values (1, 1, 'draft', 10, 5), (2, 2, 'submitted', 20, 3), (3, 2, 'draft', 30, 4)`,
  })
  const permit = (type: string, role: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table: 'article', role, permission },
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'article' },
    permit('select', 'author', { columns: ['id', 'fee'], filter: { author_id: 'X-Service-User-Id' } }),
    permit('select', 'reviewer', { columns: ['id', 'score'], filter: { state: 'submitted' } }),
    permit('update', 'author', { columns: ['fee'], filter: {} }),
    permit('update', 'reviewer', { columns: ['score'], filter: {} }),
  ])
  await open('permissions')
  await page.getByRole('button', { name: 'Inherited roles' }).click()
  const dialog = page.getByRole('dialog', { name: 'Inherited roles' })
  const create = async () => {
    await dialog.getByLabel('Role', { exact: true }).fill('editor')
    for (const name of ['author', 'reviewer']) await dialog.getByRole('checkbox', { name }).check()
    await dialog.getByRole('button', { name: 'Create' }).click()
  }
  await create()
  await dialog.getByText('role "editor" would inherit different update permissions on "article"').waitFor()
  t.same(await accessibility(page), [])
  await dialog.getByRole('link', { name: 'editor on article: update' }).click()
  await page.getByText('editor may not update rows of article yet.').waitFor()
  await page.getByRole('button', { name: 'Create this permission' }).click()
  await page.getByText('Saved.').waitFor()

  await page.getByRole('link', { name: 'Permissions' }).last().click()
  await page.getByRole('button', { name: 'Inherited roles' }).click()
  await create()
  await dialog.getByText('editor from author and reviewer').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  const cell = page.getByRole('link', { name: /^editor may select .* 3 of 5 columns, from author and reviewer/ })
  await cell.waitFor()
  t.same(await accessibility(page), [])

  await cell.click()
  const inherited = page.getByRole('region', { name: 'Inherited permission' })
  await inherited.getByText('Rows where author_id is the user\'s id or state is "submitted".').waitFor()
  await inherited.getByRole('listitem').filter({ hasText: 'fee only in rows of author' }).waitFor()
  await inherited.getByRole('listitem').filter({ hasText: 'score only in rows of reviewer' }).waitFor()
  await page.getByLabel('User id').fill('1')
  await page.getByText('editor may select 2 of these 3 rows').waitFor()
  t.same(await accessibility(page), [])
  await inherited.getByRole('button', { name: 'Give editor a permission of its own' }).click()
  await page.getByText('This replaces what editor inherits from author and reviewer.').waitFor()
  t.equal(await page.getByRole('checkbox', { name: /^id/ }).isChecked(), true)
  t.equal(await page.getByRole('checkbox', { name: /^fee/ }).isChecked(), false, 'it was null in some rows')
  await page.getByRole('button', { name: 'Undo changes' }).click()
  await inherited.waitFor()

  await open(`permissions/why?table=article&role=editor&operation=select&user=1&key=${encodeURIComponent('{"id":1}')}`)
  await page.getByText('Null in this row').waitFor()
  t.match(await page.getByRole('region', { name: 'Why?' }).innerText(), /Null in this row\s+score/)
  t.same(await accessibility(page), [])

  await open('permissions')
  await page.getByRole('button', { name: 'Inherited roles' }).click()
  await dialog.getByRole('button', { name: 'Change editor' }).click()
  await dialog.getByRole('checkbox', { name: 'reviewer' }).uncheck()
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByText('editor from author', { exact: true }).waitFor()
  await dialog.getByRole('button', { name: 'End the inheritance of editor' }).click()
  await dialog.getByRole('list', { name: 'Inherited roles' }).waitFor({ state: 'detached' })
  t.equal((await server.must('export_metadata', {})).inherited_roles, undefined)
  t.same(
    complaints.filter((each) => !/status of 400/.test(each)),
    [],
  )
})

t.test('hostile names and values are only text, and a phone is wide enough', async (t) => {
  const { server, page, complaints, elsewhere, open } = await openConsole(t, {
    browser: { viewport: { width: 390, height: 844 } },
  })
  const column = HOSTILE.slice(0, 50)
  await server.must('run_sql', {
    sql: `create table note (id int primary key, ${quoted(column)} text); insert into note values (1, $1)`.replace(
      '$1',
      `'${HOSTILE.replaceAll("'", "''")}'`,
    ),
  })
  await server.must('track_table', 'note')
  await server.must('create_select_permission', {
    table: 'note',
    role: 'customer',
    permission: { columns: '*', filter: { [column]: HOSTILE } },
    comment: HOSTILE,
  })
  await open('permissions')
  await page.getByRole('link', { name: /customer may select some rows of note/ }).waitFor()
  t.equal(await overflow(page), 0)
  await open(rule('note', 'select'))
  await page.getByRole('gridcell', { name: 'seen' }).click()
  await page.getByText(/customer may select:/).waitFor()
  t.equal(await overflow(page), 0)
  t.same(await accessibility(page), [])
  await open(`permissions/why?${String(new URLSearchParams({ table: HOSTILE, role: HOSTILE, key: HOSTILE }))}`)
  await page.getByText(/There is no tracked table/).waitFor()
  t.equal(await overflow(page), 0)
  t.equal(await page.evaluate('window.canary'), undefined)
  t.same(
    complaints.filter((each) => !each.includes('400')),
    [],
  )
  t.same(elsewhere, [])
})
